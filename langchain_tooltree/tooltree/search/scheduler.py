"""Which operation is launched next, what each may spend, and which calls need not run again. Pure.

Operations are launched first come, first served, and consumed in the order of launch. A launch reserves the most model
calls it may use. One that too little is left for waits for refunds while others pass it; if none can come, the budget
is spent.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_tooltree.errors import ResumeError
from langchain_tooltree.tooltree.search.tree import Call, Node, Observation, Tree

OperationKind = Literal["propose", "score", "execute", "evaluate"]


@dataclass(slots=True)
class Spent:
    """What a search has used so far."""

    model_calls: int = 0  # requests to models
    tool_calls: int = 0  # tools run
    tokens: int = 0  # sent and received


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One piece of I/O of a rollout.

    `propose` asks a state for calls, `score` is the pre-evaluation of candidates, `execute` runs a call, `evaluate` is
    the post-evaluation of an observation.
    """

    id: int  # launch number, from 0; outcomes are consumed in this order
    kind: OperationKind
    node: int  # the state to ask, or the call to run or judge
    rollout: int  # number of the rollout this belongs to, from 0
    attempt: int = 1  # for `propose`: how often this state is now asked, from 1
    run: bool = False  # whether the node's call is run first: always for `execute`, for `propose` if it has not run yet
    candidates: tuple[int, ...] = ()  # for `score`: the nodes to score, in the order of creation
    model_calls: int = 0  # model calls that may be used at the most


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """What came of an operation."""

    operation: int  # launch number of the operation
    calls: Sequence[Call] = ()  # `propose`: best first
    confidences: Sequence[float | None] = ()  # `propose`: r_pre of each call that the reply scored; may be empty
    dropped: Sequence[str] = ()  # `propose`: calls that could not be repaired, each with its reason
    finished: bool = False  # `propose`: the model answered without proposing any call
    scores: Sequence[float | None] = ()  # `score`: one in [0, 1] for each candidate, `None` where the judge gave none
    reasons: Sequence[str] = ()  # `score`, `evaluate`: why, for each score; empty if nobody said
    observation: Observation | None = None  # `execute`, `propose`: what the call brought back that was run first
    reward: float | None = None  # `evaluate`, `propose`: r_post in [0, 1], `None` if there is none
    goal: float | None = None  # `evaluate`, `propose`: whether the task is done, in [0, 1], `None` if nobody said
    missing: Sequence[str] = ()  # `propose`: what of the request is not done yet, in words
    error: str | None = None  # why the operation failed, if it did
    model_calls: int = 0  # that it made
    tokens: int = 0  # that these took


@dataclass(slots=True)
class Rollout:
    """A rollout in flight."""

    id: int  # its number, from 0
    node: Node  # where it works now
    tried_call: bool = False  # whether it has run a call, or had a deferred one judged
    held_model_calls: int = 0  # reserved since the execution of its call, so that what was run can also be judged


class Scheduler:
    """Operations that wait to be launched, and those launched and not yet consumed, each with its rollout.

    Model calls are never overshot: what a launch has reserved and not used comes back when its outcome is consumed.
    `calls_of` has the most that an operation of each kind may need: to score, for one question, of which there is one
    for each candidate if `single`; to execute, what is held back so that the call can also be judged.
    """

    def __init__(
        self, max_model_calls: int, calls_of: dict[OperationKind, int], *, single: bool = False, reserved: int = 0
    ) -> None:
        self.ready: list[tuple[Operation, Rollout]] = []
        self.outstanding: deque[tuple[Operation, Rollout]] = deque()  # oldest first
        self.launched = 0
        self.spent = Spent()
        self.reserved = reserved
        self._max_model_calls, self._calls_of, self._single = max_model_calls, calls_of, single

    @property
    def free_model_calls(self) -> int:
        """Model calls that are neither spent nor promised."""
        return self._max_model_calls - self.spent.model_calls - self.reserved

    def put(self, kind: OperationKind, rollout: Rollout, **details: Any) -> None:
        """Add the next operation of a rollout; `details` are other fields of it."""
        operation = Operation(id=-1, kind=kind, node=rollout.node.id, rollout=rollout.id, **details)
        self.ready.append((operation, rollout))

    def launch(self) -> Operation | None:
        """Launch the operation that has waited longest among those that the budget allows; `None` if it allows none."""
        for position, (waiting, rollout) in enumerate(self.ready):
            granted = self._reserve(waiting, rollout)
            if granted is None:
                continue
            del self.ready[position]
            operation = replace(waiting, id=self.launched, model_calls=granted)
            self.outstanding.append((operation, rollout))
            self.launched += 1
            return operation
        return None

    def _reserve(self, operation: Operation, rollout: Rollout) -> int | None:
        """Reserve the model calls that an operation may make; `None` if the budget does not allow it now."""
        held = rollout.held_model_calls if operation.kind == "evaluate" else 0
        questions = len(operation.candidates) if operation.kind == "score" and self._single else 1
        wanted = self._calls_of[operation.kind] * questions
        granted = min(wanted, self.free_model_calls + held)
        if wanted and granted < 1:
            return None
        self.reserved += granted - held
        rollout.held_model_calls += granted if operation.kind == "execute" else -held
        return 0 if operation.kind == "execute" else granted

    def consume(self, outcome: OperationOutcome) -> tuple[Operation, Rollout]:
        """Book what the oldest outstanding operation used.

        Raises:
            ResumeError: If the outcome is another operation's.
        """
        if not self.outstanding or outcome.operation != self.outstanding[0][0].id:
            expected = f"operation {self.outstanding[0][0].id}" if self.outstanding else "nothing"
            msg = f"The search waits for {expected}, but was given the outcome of operation {outcome.operation}."
            msg += " Tell outcomes in the order in which `ask` returned their operations."
            raise ResumeError(msg)
        operation, rollout = self.outstanding.popleft()
        self.reserved -= operation.model_calls
        self.spent.model_calls += outcome.model_calls
        self.spent.tool_calls += operation.run
        self.spent.tokens += outcome.tokens
        return operation, rollout

    def release(self, rollout: Rollout) -> None:
        """Give back what a rollout that ends had reserved for later."""
        self.reserved -= rollout.held_model_calls
        rollout.held_model_calls = 0


class CallCache:
    """Observations by world, tool and canonical arguments, with one run in flight for all that need the same call."""

    def __init__(self, tree: Tree) -> None:
        self.hits = 0  # calls whose observation was reused instead of running them again
        self._tree = tree
        self._known: dict[tuple[str, str], Observation] = {}
        self._running: dict[tuple[str, str], list[tuple[Rollout, Node]]] = {}

    def find(self, node: Node) -> Observation | None:
        """The observation of a node's call, if it is known."""
        known = self._known.get(self._key(node))
        self.hits += known is not None
        return known

    def join(self, rollout: Rollout, node: Node) -> bool:
        """Let a rollout run a call, or wait for another one that runs it; whether it has to run it."""
        waiting = self._running.get(self._key(node))
        if waiting is None:
            self._running[self._key(node)] = []
            return True
        waiting.append((rollout, node))
        self.hits += 1
        return False

    def finish(self, node: Node, observation: Observation) -> list[tuple[Rollout, Node]]:
        """Keep what a call brought back, unless it failed for a passing reason.

        Returns:
            The rollouts that waited for it, each with its node of the call.
        """
        key = self._key(node)
        if not observation.transient:
            self._known[key] = observation
        return self._running.pop(key, [])

    def _key(self, node: Node) -> tuple[str, str]:
        """World before the call, tool and canonical arguments."""
        return self._tree.state_before(node).world, node.call.key if node.call else ""
