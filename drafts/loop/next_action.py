"""The choice of what to do about a final answer that has a problem.

The functions only decide. They call no model and no tool. Their terms:

- A *final answer* is a model response without tool calls.
- A *turn* is the part of the conversation after the last final answer in it.
- A *run* is one invocation of the agent by the application.
- A *search* looks for a better answer. It is open from the first rejected answer until
  an answer is returned, or until the agent goes back to its ordinary work.
- To *explore* is to make a read-only tool call that the search chose, not the agent.
- A tool call has an *effect*: `read`, `write`, or `control`, which is a call that
  steers the agent itself, such as a to-do list or a handoff.
- A *report* is a part of an answer in which the model says, on our instruction, what is
  missing. It may propose a tool call that would find it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage

from loop.conversation import contains_call, get_current_turn, list_tool_rounds
from loop.problems import FORM_PROBLEMS, TURN_PROBLEMS, AnswerProblem, ProblemKind
from loop.search_state import SearchState, StopReason, WriteReason

Effect = Literal["read", "write", "control"]

Remedy = Literal["explore", "ask_plainly", "ask_again", "ask_alternatives"]

REMEDIES: dict[ProblemKind, list[Remedy]] = {
    "empty": ["ask_plainly", "ask_again"],
    "truncated": ["ask_again"],
    "invalid_tool_call": ["ask_again", "ask_plainly"],
    "announced_tool_call": ["ask_again", "ask_plainly"],
    "tool_call_as_text": ["explore", "ask_again", "ask_plainly"],
    "no_tool_call": ["ask_again"],
    "failed_read": ["explore", "ask_again"],
    "missing": ["explore", "ask_again", "ask_alternatives"],
}
"""The remedies of each kind of problem, the cheapest first.

A plain request comes first for `empty`, because such a response usually consists of
nothing but the report that we asked for. For other problems, a note mends more.
"""

MIN_CALLS_FOR_ALTERNATIVES = 2
"""Asking for alternatives is one model call, and exploring one of them is another."""

NO_TOOL_CALL_NOTE = (
    "You answered without calling a tool. If a tool can help, call it. Otherwise "
    "repeat your answer."
)

FAILED_READ_NOTE = (
    "Your last tool call failed. Call the tool with other arguments, or call another "
    "tool. If no tool can help, repeat your answer."
)

QUESTION_MARKS = frozenset("?\uff1f\u061f")
"""The question marks of Latin, East Asian and Arabic scripts."""

MIN_LENGTH_OF_NAMED_VALUE = 3
"""Shorter values stand in too many texts to count as named there."""


class ToolPolicy(Protocol):
    """The tools and limits of the agent, as far as the search must respect them."""

    @property
    def budget(self) -> int:
        """The largest number of additional model calls in a run."""

    @property
    def exploration_possible(self) -> bool:
        """True if the agent has tools that may be explored at all."""

    def effect(self, tool_call: ToolCall) -> Effect:
        """Return the effect of a tool call."""

    def can_explore(self, tool_call: ToolCall) -> bool:
        """Return True if the search may make this call.

        It must be a declared read of an available tool that does not return directly,
        and the user's limits must leave room for it.
        """

    def has_room(self) -> bool:
        """Return True if the recursion limit allows another round of tools."""


@dataclass(frozen=True)
class Action:
    """What the middleware does about a problem.

    Attributes:
        name: A remedy, or `accept` if no remedy is available.
        tool_call: The call to explore. It is only given for `explore`.
        stop_reason: Why an `accept` ends the search, if one is open. It explains the
            action and does not distinguish it from another, so it is not compared.
    """

    name: Remedy | Literal["accept"]
    tool_call: ToolCall | None = None
    stop_reason: StopReason = field(default="nothing_left_to_try", compare=False)


def choose_action(
    problem: AnswerProblem,
    state: SearchState,
    conversation: Sequence[BaseMessage],
    policy: ToolPolicy,
) -> Action:
    """Return the first available remedy of a problem, or `accept`.

    The answer with the problem is new: It is neither recorded in the state nor a part
    of the conversation.
    """
    if count_remaining_calls(state, policy) <= 0:
        return Action("accept", stop_reason="budget_spent")
    # Such a problem is only a sign that the agent may have given up too early. After a
    # rejected answer, the model has already had an opportunity to go on.
    if problem.kind in TURN_PROBLEMS and state.has_rejected_answer():
        return Action("accept")

    call_to_explore = find_call_to_explore(problem, state, policy)
    is_available: dict[Remedy, bool] = {
        "explore": call_to_explore is not None,
        "ask_plainly": can_ask_plainly(state),
        "ask_again": can_ask_again(problem.kind, state, conversation, policy),
        "ask_alternatives": can_ask_alternatives(state, policy),
    }
    for remedy in REMEDIES.get(problem.kind, []):
        if is_available[remedy]:
            return Action(remedy, call_to_explore if remedy == "explore" else None)
    return Action("accept")


def count_remaining_calls(state: SearchState, policy: ToolPolicy) -> int:
    """Return how many additional model calls the budget of the run still allows."""
    return policy.budget - state.count_model_calls()


def find_call_to_explore(
    problem: AnswerProblem, state: SearchState, policy: ToolPolicy
) -> ToolCall | None:
    """Return the first proposed call that the search may make, or None.

    The call that the latest problem proposes comes first, then the calls that were
    proposed before it. For `tool_call_as_text`, only the call in the answer counts: the
    model meant to make that call, and no other.
    """
    if not policy.exploration_possible or not policy.has_room():
        return None

    proposed_calls = [] if problem.tool_call is None else [problem.tool_call]
    if problem.kind != "tool_call_as_text":
        proposed_calls += state.list_unexplored_calls()

    for tool_call in proposed_calls:
        if not state.has_explored(tool_call) and policy.can_explore(tool_call):
            return tool_call
    return None


def can_ask_plainly(state: SearchState) -> bool:
    """Return True if the request was not yet repeated plainly in the run.

    A plain request has neither the instruction for a report nor a note. A second one
    would be the same request again.
    """
    return state.count_questions("plainly") == 0


def can_ask_again(
    kind: ProblemKind,
    state: SearchState,
    conversation: Sequence[BaseMessage],
    policy: ToolPolicy,
) -> bool:
    """Return True if the model may be asked again about a kind of problem.

    Each kind of problem has its own limit for a run. Beyond that, a question about the
    content of an answer is refused after a write failed, or after a person changed or
    refused a call. It could lead the model to do the same in another way, such as to
    cancel an order with a second tool after the first one refused it.
    """
    if state.count_questions("again", kind) >= get_question_limit(kind, policy):
        return False
    # Being asked to repeat an answer in a proper form leads the model to no new call.
    if kind in FORM_PROBLEMS:
        return True
    if state.has_changed_or_refused_call():
        return False
    return not has_failed_write(conversation, policy)


def get_question_limit(kind: ProblemKind, policy: ToolPolicy) -> int:
    """Return how often the model may be asked again about a kind of problem in a run.

    The limit is 1 for most kinds, because a second note would say the same as the
    first. A note about missing information names what the model missed this time, so
    it may be sent more often. Half of the budget (rounded down) is left for such
    questions, and the rest for calls: two questions for a budget of 4 or 5.
    """
    if kind == "missing":
        return max(1, policy.budget // 2)
    return 1


def can_ask_alternatives(state: SearchState, policy: ToolPolicy) -> bool:
    """Return True if the model may be asked for other calls to explore.

    This is done once in a run, and only if one of the calls could then be explored.
    """
    return (
        policy.exploration_possible
        and policy.has_room()
        and state.count_questions("alternatives") == 0
        and count_remaining_calls(state, policy) >= MIN_CALLS_FOR_ALTERNATIVES
    )


def may_ask_for_report(state: SearchState, policy: ToolPolicy) -> bool:
    """Return True if a request may carry the instruction for a report.

    The instruction may spoil an answer. So it is only given while the request can
    still be repeated without it.
    """
    return can_ask_plainly(state) and count_remaining_calls(state, policy) > 0


def has_failed_write(conversation: Sequence[BaseMessage], policy: ToolPolicy) -> bool:
    """Return True if a write of the current turn has an error as its result."""
    failed_calls = [
        tool_call
        for tool_call, result in _list_calls_of_turn(conversation)
        if _is_error(result)
    ]
    return any(policy.effect(tool_call) == "write" for tool_call in failed_calls)


def find_problem_of_turn(
    answer: AIMessage,
    conversation: Sequence[BaseMessage],
    policy: ToolPolicy,
    *,
    tools_offered: bool,
    proposed_call: ToolCall | None = None,
) -> AnswerProblem | None:
    """Return a problem that only the tool calls before a final answer show, or None.

    The problem is `no_tool_call` if the agent answered without using its tools, or
    `failed_read` if it answered after a read had failed. The adapter looks for problems
    in the answer itself before it calls this function.

    Args:
        answer: The final answer.
        conversation: The messages of the agent, without the answer.
        policy: The tools and limits of the agent.
        tools_offered: True if the request for this answer contained tools.
        proposed_call: The call that the report in the answer proposes, if any. It is
            passed on as the call of the problem.
    """
    calls_of_turn = _list_calls_of_turn(conversation)
    # A question to the user needs no tool: Only the user can give the agent what it
    # asks for, such as the number of an order.
    if tools_offered and not calls_of_turn and not _asks_question(answer):
        return AnswerProblem("no_tool_call", NO_TOOL_CALL_NOTE, proposed_call)
    if _has_last_read_failed(calls_of_turn, policy):
        return AnswerProblem("failed_read", FAILED_READ_NOTE, proposed_call)
    return None


def find_reason_for_writes(
    response: AIMessage,
    state: SearchState,
    conversation: Sequence[BaseMessage],
    policy: ToolPolicy,
) -> WriteReason | None:
    """Return why the agent may make the writes of a response during a search.

    Without the search, the agent would have stopped at its final answer and made no
    write. So a write needs a reason in the answers that were rejected before it:

    - `agent_had_not_finished`: There was one rejected answer, such as an empty one,
      and it was no end of the agent's work. The write belongs to that work.
    - `write_was_missing`: The latest report of what is missing names every write of
      the response, such as "Order A-17 is not cancelled" before `cancel_order("A-17")`.

    Neither reason allows a write to be made twice.

    Args:
        response: A response with at least one write among its tool calls.
        state: The state, in which a search is open.
        conversation: The messages of the agent, without the response.
        policy: The tools and limits of the agent.
    """
    writes = [call for call in response.tool_calls if policy.effect(call) == "write"]
    # The recorded calls are the model's own. In the conversation, a person may have
    # changed them, or a summary may have replaced them.
    earlier_calls = state.list_agent_calls()
    earlier_calls += [call for call, _ in _list_calls_of_turn(conversation)]
    if _is_any_call_repeated(writes, earlier_calls):
        return None

    problems = state.list_rejected_problems()
    if len(problems) == 1 and problems[0].kind in FORM_PROBLEMS | TURN_PROBLEMS:
        return "agent_had_not_finished"

    reports = [problem for problem in problems if problem.kind == "missing"]
    if reports and all(_is_named_in_report(write, reports[-1]) for write in writes):
        return "write_was_missing"
    return None


def _asks_question(answer: AIMessage) -> bool:
    """Return True if the text of an answer contains a question mark."""
    return not QUESTION_MARKS.isdisjoint(answer.text)


def _has_last_read_failed(
    calls: Sequence[tuple[ToolCall, ToolMessage | None]], policy: ToolPolicy
) -> bool:
    """Return True if the last read among some calls has an error as its result.

    An earlier read does not count, because the agent read something else after it had
    seen the error.
    """
    results_of_reads = [
        result for tool_call, result in calls if policy.effect(tool_call) == "read"
    ]
    return bool(results_of_reads) and _is_error(results_of_reads[-1])


def _is_any_call_repeated(
    new_calls: Sequence[ToolCall], earlier_calls: Sequence[ToolCall]
) -> bool:
    """Return True if a new call was made earlier, or if two new calls are the same."""
    seen_calls = [*earlier_calls]
    for tool_call in new_calls:
        if contains_call(seen_calls, tool_call):
            return True
        seen_calls.append(tool_call)
    return False


def _is_named_in_report(tool_call: ToolCall, report: AnswerProblem) -> bool:
    """Return True if a report of what is missing refers to a call.

    It proposes a call of the same tool, or its text contains the tool's name or one of
    the call's arguments: "Order A-17 is open" refers to `cancel_order(order="A-17")`.
    """
    if report.tool_call is not None and report.tool_call["name"] == tool_call["name"]:
        return True
    names = [tool_call["name"], *_iterate_values(tool_call["args"])]
    return any(_contains_name(report.explanation, name) for name in names)


def _contains_name(text: str, name: str) -> bool:
    """Return True if a text contains a name or value as a whole word.

    "Order A-170 is open" does not contain "A-17". Upper and lower case are the same.
    """
    if len(name) < MIN_LENGTH_OF_NAMED_VALUE:
        return False
    # `\b` would not do, because a value may begin or end with a sign such as "+".
    pattern = rf"(?<!\w){re.escape(name)}(?!\w)"
    return re.search(pattern, text, re.IGNORECASE) is not None


def _iterate_values(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in the arguments of a call, however nested.

    Keys, None and truth values are left out, because they identify nothing.
    """
    if isinstance(value, dict):
        for nested in value.values():
            yield from _iterate_values(nested)
    elif isinstance(value, list):
        for nested in value:
            yield from _iterate_values(nested)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value).strip()


def _is_error(result: ToolMessage | None) -> bool:
    """Return True if there is a result and it is an error."""
    return result is not None and result.status == "error"


def _list_calls_of_turn(
    conversation: Sequence[BaseMessage],
) -> list[tuple[ToolCall, ToolMessage | None]]:
    """Return the tool calls of the current turn, each with its result or None."""
    calls_of_turn: list[tuple[ToolCall, ToolMessage | None]] = []
    for tool_round in list_tool_rounds(get_current_turn(conversation)):
        calls_of_turn += tool_round.list_calls_with_results()
    return calls_of_turn
