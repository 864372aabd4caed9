"""A conversation as data for a prompt."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, SystemMessage, ToolMessage

from langchain_tooltree.messages.content import describe_content, get_text
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.kinds import get_tool_calls, is_tool_result
from langchain_tooltree.text import shortened


def build_transcript(
    conversation: Conversation,
    *,
    max_result_characters: int = 20_000,
) -> list[dict[str, Any]]:
    """Return the conversation as JSON-like data for a prompt.

    There is one entry for each text, each tool call and each result. Calls and results
    have ids only if a response made several calls. Otherwise their order says which
    result belongs to which call.

    Args:
        conversation: The conversation. The transcript shows what the model saw, with
            reference material and the texts that were added to results.
        max_result_characters: The length beyond which results lose their middle.

    Returns:
        The entries, oldest first.
    """
    entries: list[dict[str, Any]] = []
    parallel_ids: set[str | None] = set()
    for kind, message in conversation.kinds:
        if is_tool_result(message):
            entries.append(
                _describe_result(message, parallel_ids, max_result_characters)
            )
        elif isinstance(message, AIMessage):
            parallel_ids = _get_parallel_ids(message)
            entries.extend(_describe_response(message))
        elif isinstance(message, SystemMessage):
            # LangChain's `text` is an instance of a subclass of `str`.
            entries.append({"role": "system", "text": str(message.text)})
        else:
            role = "user" if kind == "request" else kind
            entries.append({"role": role, "text": describe_content(message.content)})
    return entries


def _get_parallel_ids(response: AIMessage) -> set[str | None]:
    """Return the ids of the response's calls if it made several, else no ids."""
    tool_calls = get_tool_calls(response)
    if len(tool_calls) <= 1:
        return set()
    return {tool_call["id"] for tool_call in tool_calls}


def _describe_result(
    result: ToolMessage,
    parallel_ids: set[str | None],
    max_characters: int,
) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": "tool"}
    if result.tool_call_id in parallel_ids:
        entry["id"] = result.tool_call_id
    entry["tool"] = result.name
    entry["observation"] = shortened(describe_content(result.content), max_characters)
    return entry


def _describe_response(response: AIMessage) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    text = get_text(response.content)
    if text:
        entries.append({"role": "assistant", "text": text})

    tool_calls = get_tool_calls(response)
    for tool_call in tool_calls:
        call: dict[str, Any] = {}
        if len(tool_calls) > 1:
            call["id"] = tool_call["id"]
        call["tool"] = tool_call["name"]
        call["arguments"] = tool_call["args"]
        entries.append({"role": "assistant", "call": call})
    return entries
