"""The kind of a message: a user's request, a model's response, and so on.

The role alone does not say it. A message with the role "user" can be a summary that
LangChain wrote in place of older messages, or reference material of this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeGuard

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.messages import ChatMessage as LangChainChatMessage

from langchain_tooltree.messages.reference import (
    REFERENCE_START,
    holds_only_reference,
)
from langchain_tooltree.text import get_mapping

ChatMessage = Mapping[str, Any]
"""A message in the OpenAI chat format, with `role`, `content`, `tool_calls`, ..."""

LANGCHAIN_KEY = "langchain"
"""The key of the LangChain fields that the chat format has no place for."""

MessageKind = Literal[
    "request",
    "summary",
    "reference",
    "response",
    "result",
    "instruction",
    "other",
]

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}

_KINDS: dict[str, MessageKind] = {
    "user": "request",
    "system": "instruction",
    "developer": "instruction",
    "assistant": "response",
    "tool": "result",
}


def get_role(message: BaseMessage) -> str:
    """Return the role that a LangChain message has in the chat format.

    A chunk has the role of the whole message, and LangChain's `ChatMessage` the role
    that it names itself. The role of any other message is its type.
    """
    if isinstance(message, LangChainChatMessage):
        return message.role
    message_type = message.type.removesuffix("MessageChunk").lower()
    return _ROLES.get(message_type, message_type)


def classify_chat_message(message: ChatMessage) -> MessageKind:
    """Return the kind of a message in the chat format."""
    fields = get_mapping(message, LANGCHAIN_KEY)
    return _classify(
        message.get("role"),
        message.get("content"),
        fields.get("additional_kwargs"),
    )


def classify_message(message: BaseMessage) -> MessageKind:
    """Return the kind of a LangChain message."""
    role = get_role(message)
    content = message.content
    # Threads have 100,000 messages, and nearly all of them need no closer look.
    is_plain_text = type(content) is str and not message.additional_kwargs
    if is_plain_text and REFERENCE_START not in content:
        return _KINDS.get(role, "other")
    return _classify(role, content, message.additional_kwargs)


def is_tool_result(message: Any) -> TypeGuard[ToolMessage]:
    """Return True if a message is the result of a tool call."""
    return isinstance(message, ToolMessage)


def get_tool_calls(message: BaseMessage) -> list[ToolCall]:
    """Return the tool calls of a model's response, and [] for any other message."""
    return message.tool_calls if isinstance(message, AIMessage) else []


def _classify(role: Any, content: Any, additional_kwargs: Any) -> MessageKind:
    """Return the kind of a message, given what it depends on."""
    kind = _KINDS.get(role, "other") if isinstance(role, str) else "other"
    if kind == "request" and _is_summary(additional_kwargs):
        return "summary"
    if kind in ("request", "instruction") and holds_only_reference(content):
        return "reference"
    return kind


def _is_summary(additional_kwargs: Any) -> bool:
    """Return True if LangChain's `SummarizationMiddleware` wrote the message."""
    if not isinstance(additional_kwargs, Mapping):
        return False
    return bool(additional_kwargs.get("lc_source") == "summarization")
