"""What a search asks its driver to do, and what it is told. Pure."""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from langchain_tooltree.tooltree.budget import Spent
from langchain_tooltree.tooltree.tree import Call, Observation

OperationKind = Literal["plan", "propose", "score", "execute", "evaluate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One piece of I/O of a rollout.

    `plan` narrows the tools, `propose` asks a state for calls, `score` is the pre-evaluation of candidates, `execute`
    runs one call, `evaluate` is the post-evaluation of its observation.

    Attributes:
        id: Launch number, from 0; results are consumed in this order.
        kind: What to do.
        node: The state to ask, or the call to run or judge.
        rollout: Number of the rollout this belongs to, from 0.
        attempt: For `propose`: how often this state is now asked, from 1.
        top_ups: For `propose`: how often the model may be asked for other calls if it replies with one.
        candidates: For `score`: the nodes to score, in the order of creation.
        model_calls: Model calls that may be used at the most.
        elapsed: Seconds the search had taken at the launch.
    """

    id: int
    kind: OperationKind
    node: int
    rollout: int
    attempt: int = 1
    top_ups: int = 0
    candidates: tuple[int, ...] = ()
    model_calls: int = 0
    elapsed: float = 0.0


class Outcome(BaseModel):
    """What came of an operation; plain data, so that a checkpointer can keep it.

    Attributes:
        operation: Launch number of the operation.
        kind: Its kind.
        node: Its node.
        tools: `plan`: the names kept.
        calls: `propose`: valid calls, best first.
        dropped: `propose`: calls that could not be repaired, each with its reason.
        finished: `propose`: the model answered without proposing any call.
        several: `propose`: some reply held more than one call.
        gained: `propose`: calls that asking for others brought; `None` if that was not asked.
        scores: `score`: one in [0, 1] for each candidate, `None` where the judge gave none.
        observation: `execute`: what the tool brought back.
        reward: `evaluate`: r_post in [0, 1], `None` if the judge gave none.
        goal: `evaluate`: whether the task is done, in [0, 1], `None` if the judge gave none.
        error: Why the operation failed, if it did.
        cancelled: Whether the caller had asked by then to stop.
        spent: What the operation used.
        elapsed: Seconds the search had taken when it ended.
    """

    model_config = ConfigDict(frozen=True)

    operation: int
    kind: OperationKind
    node: int
    tools: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    dropped: tuple[str, ...] = ()
    finished: bool = False
    several: bool = False
    gained: int | None = None
    scores: tuple[float | None, ...] = ()
    observation: Observation | None = None
    reward: float | None = None
    goal: float | None = None
    error: str | None = None
    cancelled: bool = False
    spent: Spent = Spent()
    elapsed: float = 0.0
