"""The question to a person about calls, the answers that count, and that nothing runs which nobody approved.

An answer counts for one question only. It names each call by its id and by a digest of everything that was shown, which
also holds the task that asks: so it fits no other call, no other state of the thread, and no second question.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import is_
from typing import Any, NotRequired, TypedDict

from langchain_core.messages import ToolCall
from langgraph.errors import GraphBubbleUp
from langgraph.types import interrupt

from langchain_tooltree._langgraph import (
    answer_ahead,
    can_be_answered,
    configurable_here,
    graph_around,
    namespace_here,
    replace_answers,
    thread_in,
)
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError, ReviewError
from langchain_tooltree.text import cut, digest, forget_oldest
from langchain_tooltree.tooltree.shown import SHOWN, describe, fit_to_show, origins

APPROVE, EDIT, REJECT = DECISIONS = ("approve", "edit", "reject")

MOST_APPROVED = 10_000
"""Threads whose approved calls are remembered, and answers that were used: more than a process has under way."""


class ReviewRequest(TypedDict):
    """What a person is asked, as the value of the interrupt; `problem` is what was wrong with the answer before.

    The calls that wait have `name`, `args`, a `description` for people, `tool_call_id` and `digest`, and `origins`:
    where their values stand. `decisions` holds for each call what names it; with a `type` they are the answer. The
    `PlanMetadata` of planned calls is their `plan`, without scores that argue for them and have no reason.
    """

    action_requests: list[dict[str, Any]]
    review_configs: list[dict[str, Any]]
    decisions: list[dict[str, str]]
    plan: NotRequired[dict[str, Any]]
    problem: NotRequired[str]


class Approvals:
    """The calls that a person has approved and that have not run yet: each runs once, in the process that was told.

    Only those of the latest review of a thread count. They stand in memory, where neither a client nor a checkpoint
    reaches them. So a run that is repeated from a checkpoint, or that goes on after a crash, finds none and asks again.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, bool]] = {}
        self._used: dict[str, object] = {}

    def grant(self, calls: Sequence[ToolCall], edited: Sequence[ToolCall] = ()) -> None:
        """Let these calls run, once each, in the graph that is running, and no others that were granted before."""
        self._waiting.pop(_here(), None)
        if calls or edited:
            self._waiting[_here()] = {_digest(_parts(call), call): call in edited for call in (*calls, *edited)}
            forget_oldest(self._waiting, MOST_APPROVED)

    def edited(self, call: ToolCall) -> bool:
        """Whether a call may run in the form that a person gave it."""
        return self._waiting.get(_here(), {}).get(_digest(_parts(call), call), False)

    def take(self, calls: Sequence[ToolCall]) -> bool:
        """Whether all of some calls may run now; then none of them may again."""
        granted: dict[str, Any] = self._waiting.get(_here()) or {}
        taken = [granted.pop(_digest(_parts(call), call), self) for call in calls]
        return all(each is not self for each in taken)

    def use(self, decisions: Sequence[Mapping[str, Any]]) -> bool:
        """Whether decisions are used for the first time; two runs of one thread may get them at the same moment."""
        mark = object()
        marks = [self._used.setdefault(each["digest"], mark) for each in decisions]
        forget_oldest(self._used, MOST_APPROVED)
        return all(each is mark for each in marks)

    @contextmanager
    def carrying_out(self, decisions: Sequence[Mapping[str, Any]]) -> Iterator[None]:
        """While calls run: if they stop with a question of their own they go on after it, if they fail they do not."""
        try:
            yield
        except GraphBubbleUp:
            for each in decisions:
                self._used.pop(each["digest"], None)
            raise
        except BaseException:
            replace_answers({REFUSED: NOT_APPROVED}, _is_ours)  # an approval holds for one attempt
            raise


def _is_ours(answer: Any) -> bool:
    """Whether it answers a review, and no question that the host's own node has asked before."""
    return isinstance(answer, Mapping) and ("decisions" in answer or REFUSED in answer)


def _here() -> str:
    """The thread and the graph that are running."""
    return digest([thread_in(configurable_here() or {}), graph_around(namespace_here())])


def _parts(call: ToolCall) -> list[Any]:
    return [call["id"], call["name"], call["args"]]


def _digest(data: Any, call: ToolCall) -> str:
    if why := _why_not_json(data):
        msg = f"The arguments of {call['name']!r} cannot be put before a person: {why}. They have to be plain JSON."
        raise ReviewError(msg)
    return digest(data)


def _why_not_json(data: Any) -> str | None:
    """Why data has no digest; `None` if it has one."""
    try:
        digest(data)
    except (ValueError, TypeError, RecursionError) as error:
        return str(error)
    return None


def check_named(calls: Sequence[ToolCall]) -> None:
    """Refuse calls that cannot be told apart: what is approved of one would hold for another."""
    ids = [call["id"] for call in calls]
    for call in calls:
        if not isinstance(call["id"], str) or not call["id"] or ids.count(call["id"]) > 1:
            why = "is shared by two calls of one message" if call["id"] else "names nothing"
            msg = (
                f"A call of {call['name']!r} waits for approval, but its id {call['id']!r} {why}, so nobody can say "
                "which call was approved. Have the model or the node before give each call an id of its own."
            )
            raise ReviewError(msg)


def check_answerable() -> None:
    """Refuse to go on where a run that stops with a question could not be resumed."""
    if not can_be_answered():
        msg = (
            "A review stops the run until somebody has answered, which needs a checkpointer. Pass one, such as "
            "checkpointer=InMemorySaver(), where the outermost graph is made: to create_tooltree_agent, create_agent "
            "or compile."
        )
        raise ConfigurationError(msg)


def ask(
    calls: Sequence[ToolCall],
    said: Conversation,
    metadata: Mapping[str, Any],
    approvals: Approvals,
    *,
    allowed: Sequence[str] = DECISIONS,
    problem: str | None = None,
    unfit: Callable[[ToolCall, Mapping[str, Any]], str | None] = lambda _call, _action: None,
) -> list[Mapping[str, Any]]:
    """Have a person decide on calls; one decision for each, in their order.

    An answer that names other calls, was used before, or has another form is asked for again with the problem named,
    and so is one with an edit of which `unfit` says why it cannot run.

    The task runs again from its first answer with each further one, maybe in a process that knows neither the tools nor
    what was used. So what this process alone can refuse is kept as refused, and names the calls no more.
    """
    check_answerable()
    request = _request(calls, said, metadata, allowed)
    refused = 0
    while True:
        if problem:
            request["problem"] = problem
        answer = interrupt(request)
        problem = answer.get(REFUSED) if isinstance(answer, Mapping) else None
        if isinstance(problem, str):
            problem = cut(problem, SHOWN) or USED  # anybody may have sent it
        else:
            decided = _read(answer, request, allowed)
            if isinstance(decided, str):
                problem = decided
                continue
            edits = ((call, each) for call, each in zip(calls, decided, strict=True) if each["type"] == EDIT)
            problem = next((why for call, each in edits if (why := unfit(call, each["edited_action"]))), None)
            if problem is None and approvals.use(decided):
                return decided
            problem = problem or USED
            replace_answers({REFUSED: problem}, partial(is_, answer))
        refused += 1
        request = _request(calls, said, metadata, allowed, refused)


def admit(calls: Sequence[ToolCall], said: Conversation, approvals: Approvals) -> list[Mapping[str, Any]]:
    """Make sure, right before calls run, that exactly they were approved; else a person is asked here.

    An approval at hand is the answer to this question, too. So a task that stops later, as for a tool's own question,
    finds it among its answers when it runs again, and a repeated run does not.
    """
    if approvals.take(calls):
        answer_ahead({"decisions": [{"type": APPROVE, **name} for name in _request(calls, said, {}, ())["decisions"]]})
    return ask(calls, said, {}, approvals, allowed=(APPROVE, REJECT), problem=NOT_APPROVED)


REFUSED = "tooltree_refused"
"""Under which the reason stands in place of an answer that counts no more when its task runs again."""

USED = "This answer was used before, and holds once. Decide again, with what names the calls now."


NOT_APPROVED = (
    "This is about to run, but nobody approved exactly this in this run: the state was changed, an earlier state is "
    "run again, or the run stopped in between. If it stopped during the call, its effect may be there already."
)


def _request(
    calls: Sequence[ToolCall], said: Conversation, metadata: Mapping[str, Any], allowed: Sequence[str], refused: int = 0
) -> ReviewRequest:
    plan = fit_to_show(metadata)
    actions: list[dict[str, Any]] = []
    for call in calls:
        _digest(_parts(call), call)  # what has no digest cannot be shown either
        found = origins(call["args"], said)
        shown = describe(call, said, plan, found)
        named = {"tool_call_id": call["id"], "digest": _digest([namespace_here(), refused, shown, *_parts(call)], call)}
        about = {"name": call["name"], "args": call["args"], "description": shown, "origins": [*map(dict, found)]}
        actions.append({**about, **named})
    request = ReviewRequest(
        action_requests=actions,
        review_configs=[{"action_name": call["name"], "allowed_decisions": list(allowed)} for call in calls],
        decisions=[{"tool_call_id": action["tool_call_id"], "digest": action["digest"]} for action in actions],
    )
    if plan:
        request["plan"] = dict(plan)
    return request


def _read(answer: Any, request: ReviewRequest, allowed: Sequence[str]) -> list[Mapping[str, Any]] | str:
    """The decisions of an answer in the order of the calls, or what is wrong with it."""
    expected = request["decisions"]
    decisions = answer.get("decisions") if isinstance(answer, Mapping) else None
    if not isinstance(decisions, list | tuple) or len(decisions) != len(expected):
        return f'Expected {{"decisions": [...]}} with {len(expected)} decision(s), got {_got(answer)}.'
    by_name: dict[tuple[Any, Any], Mapping[str, Any]] = {}
    for decision in decisions:
        if problem := _malformed(decision, allowed):
            return problem
        by_name[(str(decision.get("tool_call_id")), str(decision.get("digest")))] = decision
    found = [by_name.get((name["tool_call_id"], name["digest"])) for name in expected]
    if missing := [name for name, decision in zip(expected, found, strict=True) if decision is None]:
        return (
            f"A decision has to name what it decides on. None names {missing}: the answer was given to another "
            f"question, or what waits has changed since. Look at it again, and send `decisions` with types."
        )
    return [decision for decision in found if decision is not None]


def _malformed(decision: Any, allowed: Sequence[str]) -> str | None:
    """What is wrong with the form of a decision."""
    kind = decision.get("type") if isinstance(decision, Mapping) else None
    if not isinstance(kind, str) or kind not in allowed:
        return f"A decision's type must be one of {', '.join(allowed)}, got {_got(decision)}."
    action = decision.get("edited_action")
    if kind == EDIT and not (
        isinstance(action, Mapping) and isinstance(action.get("name"), str) and isinstance(action.get("args"), dict)
    ):
        return f'An edit needs {{"edited_action": {{"name": ..., "args": {{...}}}}}}, got {_got(decision)}.'
    if kind == EDIT and (why := _why_not_json(action)):
        return f"The arguments of an edit have to be plain JSON: {why}."
    if kind == REJECT and not isinstance(decision.get("message"), str | None):
        return f"The message of a rejection must be a text, got {_got(decision)}."
    return None


def _got(answer: Any) -> str:
    return cut(repr(answer), SHOWN)
