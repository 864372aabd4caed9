"""Progress events: what a planner tells while it works. Pure.

Every event is a plain dict. It arrives twice: in `stream_mode="custom"` as `{"tooltree": event}`, and at callback
handlers as a custom event named `tooltree.<type>`.
"""

from typing import Any, Literal, TypedDict


class StartEvent(TypedDict):
    """A deep search begins; the limits are the most it may cost."""

    type: Literal["start"]
    query: str
    tools: int
    max_rollouts: int
    max_model_calls: int


class DoubtEvent(TypedDict):
    """An answer is doubtful: what is missing in it, and the extra model calls of the turn so far."""

    type: Literal["doubt"]
    missing: str
    model_calls: int


class CandidatesEvent(TypedDict):
    """Other calls were asked for; those that may be tried, most promising first."""

    type: Literal["candidates"]
    calls: list[str]
    model_calls: int


class ExploreEvent(TypedDict):
    """A read is tried: it is made as an ordinary call; `r_pre` is in [0, 1], or `None` without a judge."""

    type: Literal["explore"]
    call: str
    r_pre: float | None
    model_calls: int


class _AtNode(TypedDict):
    node: int
    rollout: int


class _OfCall(_AtNode):
    call: str


class SelectEvent(_AtNode):
    """A rollout begins at a node."""

    type: Literal["select"]


class ProposeEvent(_AtNode):
    """A state was asked for calls; `dropped` says which ones could not become candidates, and why."""

    type: Literal["propose"]
    calls: list[str]
    dropped: list[str]


class JudgeEvent(_OfCall):
    """A candidate was pre-evaluated; `scored` is false where the judge gave no usable score."""

    type: Literal["judge"]
    r_pre: float
    scored: bool


class ExecuteEvent(_OfCall):
    """A call was run, or its known observation was reused (`cached`)."""

    type: Literal["execute"]
    status: str
    cached: bool


class EvaluateEvent(_OfCall):
    """An observation was post-evaluated and its reward propagated."""

    type: Literal["evaluate"]
    r_post: float
    goal: float | None
    scored: bool


class PruneEvent(_OfCall):
    """A node leaves the search."""

    type: Literal["prune"]
    reason: str


class BestEvent(TypedDict):
    """A better path was found; it ends in `node`."""

    type: Literal["best"]
    node: int
    value: float
    calls: list[str]


class BudgetEvent(TypedDict):
    """What is spent so far."""

    type: Literal["budget"]
    rollouts: int
    model_calls: int
    tool_calls: int
    tokens: int


class StopEvent(TypedDict):
    """The search launches nothing more."""

    type: Literal["stop"]
    reason: str
    rollouts: int


class FallbackEvent(TypedDict):
    """Planning found nothing to keep; the plain model answers this turn."""

    type: Literal["fallback"]
    reason: str
    details: list[str]


class SuggestEvent(TypedDict):
    """A SIT-Graph suggested tools for the next call: what `Suggestion.to_dict` returns, best first.

    `last_tool` is `None` at the beginning of a conversation.
    """

    type: Literal["suggest"]
    last_tool: str | None
    suggestions: list[dict[str, Any]]


class RecallEvent(TypedDict):
    """Past runs were recalled: their tasks, most similar first, and their tips."""

    type: Literal["recall"]
    task: str
    runs: list[str]
    tips: list[str]


class AnomalyEvent(TypedDict):
    """An observation is anomalous: what `Anomaly.to_dict` returns."""

    type: Literal["anomaly"]
    anomaly: dict[str, Any]


class ReflectEvent(TypedDict):
    """A reflection on an anomaly: a `Reflection` as plain data, or why there is none."""

    type: Literal["reflect"]
    call_id: str | None
    reflection: dict[str, Any] | None
    problem: str


Event = (
    StartEvent
    | DoubtEvent
    | CandidatesEvent
    | ExploreEvent
    | SelectEvent
    | ProposeEvent
    | JudgeEvent
    | ExecuteEvent
    | EvaluateEvent
    | PruneEvent
    | BestEvent
    | BudgetEvent
    | StopEvent
    | FallbackEvent
    | SuggestEvent
    | RecallEvent
    | AnomalyEvent
    | ReflectEvent
)
