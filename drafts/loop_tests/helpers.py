"""Messages, events and a scripted adapter for the tests."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
)

from loop.next_action import Effect
from loop.problems import AnswerProblem, ProblemKind
from loop.search_state import AnswerRejected, SearchState

ANSWER = AIMessage("It is on its way.", id="answer")


def call(name: str, call_id: str = "1", **args: Any) -> ToolCall:
    """Return a tool call."""
    return ToolCall(name=name, args=args, id=call_id, type="tool_call")


def calls(*tool_calls: ToolCall, message_id: str | None = None) -> AIMessage:
    """Return a model response with tool calls."""
    return AIMessage("", tool_calls=list(tool_calls), id=message_id)


def result(
    call_id: str = "1", message_id: str | None = None, *, error: bool = False
) -> ToolMessage:
    """Return the result of a tool call."""
    status = "error" if error else "success"
    return ToolMessage("x", tool_call_id=call_id, id=message_id, status=status)


def human(
    text: str = "Where is my order?", message_id: str | None = "h"
) -> HumanMessage:
    """Return a message of the user."""
    return HumanMessage(text, id=message_id)


def problem(
    kind: ProblemKind,
    tool_call: ToolCall | None = None,
    explanation: str = "the carrier of order A-17",
) -> AnswerProblem:
    """Return a problem."""
    return AnswerProblem(kind, explanation, tool_call)


def usage(tokens: int) -> dict[str, int]:
    """Return a usage in which every number is recognisable."""
    return {"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}


def get_effect(tool_call: ToolCall) -> Effect:
    """Return the effect that the prefix of a tool's name stands for."""
    if tool_call["name"].startswith("cancel"):
        return "write"
    if tool_call["name"].startswith("plan"):
        return "control"
    return "read"


def open_state(
    *problems: AnswerProblem, answer: AIMessage = ANSWER, run_id: int = 1
) -> SearchState:
    """Return a state in which answers with these problems were rejected."""
    state = SearchState(run_id=run_id)
    for each in problems:
        became_fallback = state.is_better_than_fallback(each)
        event = AnswerRejected(problem=each, became_fallback=became_fallback)
        state.add(event, answer if became_fallback else None)
    return state


class ScriptedAdapter:
    """An adapter whose model gives prepared responses.

    A response is a message, or an exception that is raised. The problem of an answer is
    looked up by its text.
    """

    def __init__(
        self,
        *responses: AIMessage | BaseException,
        problems: dict[str, AnswerProblem | BaseException] | None = None,
        budget: int = 4,
        room: bool = True,
        exploration_possible: bool = True,
        run_id: int = 1,
    ) -> None:
        self.responses = list(responses)
        self.problems = problems or {}
        self.budget = budget
        self.room = room
        self.exploration_possible = exploration_possible
        self.run_id = run_id
        self.unexplorable: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.checks: list[bool] = []
        self.events: list[str] = []
        self.emit_error: Exception | None = None

    async def ask(
        self,
        messages: Sequence[BaseMessage],
        *,
        hide_from_stream: bool,
        with_report: bool,
    ) -> AIMessage:
        self.requests.append(
            {
                "messages": list(messages),
                "hidden": hide_from_stream,
                "report": with_report,
            }
        )
        response = self.responses.pop(0)
        if isinstance(response, BaseException):
            raise response
        return response

    async def find_problem(
        self, response: AIMessage, messages: Sequence[BaseMessage], *, with_report: bool
    ) -> AnswerProblem | None:
        self.checks.append(with_report)
        found = self.problems.get(str(response.text))
        if isinstance(found, BaseException):
            raise found
        return found

    def effect(self, tool_call: ToolCall) -> Effect:
        return get_effect(tool_call)

    def can_explore(self, tool_call: ToolCall) -> bool:
        is_read = get_effect(tool_call) == "read"
        return is_read and tool_call["name"] not in self.unexplorable

    def has_room(self) -> bool:
        return self.room

    async def emit(self, event_name: str, data: dict[str, Any]) -> None:
        self.events.append(event_name)
        if self.emit_error is not None:
            raise self.emit_error
