"""Tool calls with their results, read from messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from langchain_core.messages import ToolCall, ToolMessage

from langchain_tooltree.messages.additions import get_tool_output
from langchain_tooltree.messages.chat_format import (
    ChatMessage,
    get_called_function,
    get_tool_call_entries,
    parse_call_arguments,
)
from langchain_tooltree.messages.content import get_text


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tool call.

    Attributes:
        content: The content that the tool returned: a text or a list of blocks.
        status: "error" if the tool failed.
    """

    content: Any
    status: Literal["success", "error"] = "success"

    @property
    def text(self) -> str:
        """Return the text of the content."""
        return get_text(self.content)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of a model, and its result.

    Attributes:
        tool: The name of the tool.
        arguments: The arguments, or None if what the model wrote cannot be read.
        result: The result, or None if none is recorded, as for an interrupted call.
        call_id: The id of the call, or None if it has none.
        turn: The number of the assistant message that made the call, from 1. Calls
            that were made in parallel share it.
        position: The index of that message in the messages of its trajectory or
            branch.
        branch: The name of the sub-agent's branch, or "" for the agent's own calls.
    """

    tool: str
    arguments: Mapping[str, Any] | None = None
    result: Result | None = None
    call_id: str | None = None
    turn: int = 1
    position: int = 0
    branch: str = ""


class PairedCalls(NamedTuple):
    """The calls of some messages, and which of their results belong to which call.

    Attributes:
        calls: The calls in the order in which they were made.
        call_of_result: The index of the call for the position of each result message
            that belongs to a call.
    """

    calls: list[Call]
    call_of_result: dict[int, int]


def pair_calls(messages: Iterable[ChatMessage], *, branch: str = "") -> PairedCalls:
    """Return the tool calls of the messages, each with the result that belongs to it.

    A result belongs to a call with its id; a second result for that call belongs to no
    call. Where an id is missing or unknown, any call can be the one. Where several calls
    remain, the result belongs to the earliest call without a result in the latest
    response that has such calls. Calls of the tool that the result names come before
    calls of other tools.

    Args:
        messages: Messages in the chat format, oldest first. The results keep their
            content as it is (see `remove_additions_from`).
        branch: The name of the sub-agent's branch that the messages come from.
    """
    record = _CallRecord(branch)
    call_of_result: dict[int, int] = {}
    for position, message in enumerate(messages):
        role = message.get("role")
        if role == "assistant":
            record.add_response(message, position)
        elif role == "tool":
            call_index = record.find_call(message)
            if call_index is not None:
                record.add_result(call_index, message)
                call_of_result[position] = call_index
    return PairedCalls(record.calls, call_of_result)


def find_calls(messages: Iterable[ChatMessage], *, branch: str = "") -> list[Call]:
    """Return the tool calls of the messages (see `pair_calls`)."""
    return pair_calls(messages, branch=branch).calls


def build_call(
    tool_call: ToolCall | None,
    result: ToolMessage | None,
    turn: int = 0,
) -> Call:
    """Build the record of a call from LangChain's objects.

    Args:
        tool_call: The call, or None if only its result is in the conversation.
        result: The result, or None if there is none (yet).
        turn: The number of the response that made the call, or 0 if it is unknown.
    """
    tool = None
    arguments = None
    call_id = None
    recorded_result = None
    if tool_call is not None:
        tool = tool_call.get("name")
        arguments = tool_call.get("args")
        call_id = tool_call.get("id")
    if result is not None:
        tool = tool or result.name
        call_id = result.tool_call_id
        recorded_result = Result(get_tool_output(result), result.status)
    return Call(
        tool=tool or "",
        arguments=arguments,
        result=recorded_result,
        call_id=call_id or None,
        turn=turn,
    )


class _CallRecord:
    """The calls of the messages that were read so far.

    It is filled message by message, because a result is compared only with calls that
    were made before it: some models number the calls of each response anew.

    Attributes:
        calls: The calls in the order in which they were made.
    """

    def __init__(self, branch: str = "") -> None:
        self.calls: list[Call] = []
        self._branch = branch
        self._turn = 0
        self._indexes_by_id: dict[str, list[int]] = defaultdict(list)
        # For each tool, and for None, which stands for any tool: one list for each
        # response, with the indexes of its calls of that tool.
        self._responses_by_tool: dict[str | None, list[list[int]]] = defaultdict(list)

    def add_response(self, response: ChatMessage, position: int) -> None:
        """Add the calls of an assistant message.

        An entry that names no function is no call.
        """
        self._turn += 1
        indexes_by_tool: dict[str | None, list[int]] = defaultdict(list)
        for entry in get_tool_call_entries(response):
            tool = _get_string(get_called_function(entry), "name")
            if tool is None:
                continue
            call = Call(
                tool=tool,
                arguments=parse_call_arguments(entry),
                call_id=_get_string(entry, "id"),
                turn=self._turn,
                position=position,
                branch=self._branch,
            )
            index = len(self.calls)
            self.calls.append(call)
            indexes_by_tool[tool].append(index)
            indexes_by_tool[None].append(index)
            if call.call_id is not None:
                self._indexes_by_id[call.call_id].append(index)

        for tool_or_any, indexes in indexes_by_tool.items():
            self._responses_by_tool[tool_or_any].append(indexes)

    def find_call(self, result: ChatMessage) -> int | None:
        """Return the index of the call that a tool message belongs to.

        See `pair_calls` for the rules. None means that it belongs to no call.
        """
        call_id = _get_string(result, "tool_call_id")
        tool = _get_string(result, "name")
        if call_id in self._indexes_by_id:
            return self._find_open_call_with_id(call_id, tool)

        index_of_tool = self._find_open_call(tool)
        if index_of_tool is not None:
            return index_of_tool
        return self._find_open_call(None)

    def _find_open_call_with_id(self, call_id: str, tool: str | None) -> int | None:
        """Return the index of the open call with an id in the latest such response.

        Some models number the calls of each response anew, so several responses can
        have a call with this id, and a response can have several.
        """
        indexes = self._indexes_by_id[call_id]
        # Calls with results will keep them, so no later search needs to look at them.
        while indexes and self.calls[indexes[-1]].result is not None:
            indexes.pop()
        if not indexes:
            return None

        latest_turn = self.calls[indexes[-1]].turn
        open_indexes = []
        for index in reversed(indexes):
            if self.calls[index].turn != latest_turn:
                break
            if self.calls[index].result is None:
                open_indexes.append(index)

        earliest_first = open_indexes[::-1]
        for index in earliest_first:
            if self.calls[index].tool == tool:
                return index
        return earliest_first[0]

    def add_result(self, call_index: int, message: ChatMessage) -> None:
        """Add the result in a tool message to the call with this index."""
        result = Result(
            content=message.get("content"),
            status="error" if message.get("error") else "success",
        )
        self.calls[call_index] = replace(self.calls[call_index], result=result)

    def _find_open_call(self, tool: str | None) -> int | None:
        """Return the index of the first open call in the latest response with one."""
        responses = self._responses_by_tool[tool]
        while responses:
            for index in responses[-1]:
                if self.calls[index].result is None:
                    return index
            # All calls of this response have results, and will keep them. No later
            # search needs to look at it.
            responses.pop()
        return None


def _get_string(data: Mapping[str, Any], key: str) -> str | None:
    """Return the value if it is a string that is not empty, else None."""
    value = data.get(key)
    if isinstance(value, str) and value:
        return value
    return None
