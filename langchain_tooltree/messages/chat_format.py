"""Messages in the OpenAI chat format.

Trajectories are stored in this format. It has no place for some fields of LangChain
messages, such as ids and artifacts; a chat message keeps them under the key
"langchain", so that nothing is lost on the way there and back.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    InvalidToolCall,
    RemoveMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.messages import ChatMessage as LangChainChatMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call

from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.messages.additions import remove_notes
from langchain_tooltree.messages.content import get_text
from langchain_tooltree.messages.kinds import (
    LANGCHAIN_KEY,
    ChatMessage,
    classify_chat_message,
    get_role,
)
from langchain_tooltree.messages.reference import remove_reference
from langchain_tooltree.messages.validation import (
    build_unchecked_message,
    get_field_defaults,
    is_same_value,
    validate_message,
)
from langchain_tooltree.text import get_mapping, write_json

__all__ = [
    "LANGCHAIN_KEY",
    "ChatMessage",
    "build_tool_call_entry",
    "find_requests",
    "from_chat_message",
    "get_called_function",
    "get_first_request",
    "get_langchain_fields",
    "get_opening_instructions",
    "get_response_metadata",
    "get_tool_call_entries",
    "parse_call_arguments",
    "remove_additions",
    "remove_additions_from",
    "to_chat_message",
]

_INSTRUCTION_ROLES = ("system", "developer")

_CLASSES_BY_ROLE: dict[str, type[BaseMessage]] = {
    "user": HumanMessage,
    "system": SystemMessage,
    "developer": SystemMessage,
    "assistant": AIMessage,
    "tool": ToolMessage,
}

# The fields that the chat format has a place for, or that the class determines.
_CHAT_FIELDS = frozenset(
    {"role", "type", "content", "name", "tool_calls", "tool_call_id", "status"},
)

# `ast.literal_eval` needs much more memory than the text has characters.
_MAX_LITERAL_CHARACTERS = 100_000


def to_chat_message(message: BaseMessage) -> dict[str, Any]:
    """Return a LangChain message in the chat format.

    A chunk is converted like the whole message that it stands for, and a field that
    is not valid like its default.

    Args:
        message: The message. Arguments of its tool calls that JSON cannot express
            are written as text.

    Returns:
        The chat message, from which `from_chat_message` restores the message.

    Raises:
        TrajectoryFormatError: If it is no message, or a `RemoveMessage`.
    """
    if not isinstance(message, BaseMessage) or isinstance(message, RemoveMessage):
        msg = (
            f"A trajectory is made of messages, got {type(message).__name__}: "
            f"{message!r:.80}."
        )
        raise TrajectoryFormatError(msg)
    message = message_chunk_to_message(validate_message(message))
    chat: dict[str, Any] = {"role": get_role(message), "content": message.content}
    if message.name is not None:
        chat["name"] = message.name
    if isinstance(message, AIMessage) and message.tool_calls:
        chat["tool_calls"] = [
            build_tool_call_entry(call["id"], call["name"], call["args"])
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        chat["tool_call_id"] = message.tool_call_id
        if message.status == "error":
            chat["error"] = True
    if langchain_fields := _collect_langchain_fields(message):
        chat[LANGCHAIN_KEY] = langchain_fields
    return chat


def from_chat_message(chat: ChatMessage) -> BaseMessage:
    """Return the LangChain message of a message in the chat format.

    It is the inverse of `to_chat_message`. A field that is not valid gets its
    default, and a tool call that cannot be read becomes an invalid tool call.

    Args:
        chat: The chat message, from `to_chat_message` or from elsewhere.

    Returns:
        The message. A role that LangChain has no class for gives a `ChatMessage`.

    Raises:
        TrajectoryFormatError: If the message has no role.
    """
    role = chat.get("role")
    if not isinstance(role, str):
        msg = (
            "A message needs a role, such as 'user' or 'assistant'; "
            f"got {dict(chat)!r:.200}."
        )
        raise TrajectoryFormatError(msg)
    langchain_fields = dict(get_langchain_fields(chat))
    message_class = _choose_message_class(role, langchain_fields.pop("type", None))
    content = chat.get("content")
    fields: dict[str, Any] = {
        **langchain_fields,
        "content": "" if content is None else content,
        "name": chat.get("name"),
    }
    if message_class is LangChainChatMessage:
        fields["role"] = role
    if message_class is AIMessage:
        fields.update(_parse_tool_calls(chat))
    if message_class is ToolMessage:
        fields["tool_call_id"] = chat.get("tool_call_id", "")
        fields["status"] = "error" if chat.get("error") else "success"
    return validate_message(build_unchecked_message(message_class, fields))


def get_langchain_fields(chat: ChatMessage) -> Mapping[str, Any]:
    """Return the LangChain fields that a chat message keeps, {} if it has none."""
    return get_mapping(chat, LANGCHAIN_KEY)


def get_response_metadata(chat: ChatMessage) -> Mapping[str, Any]:
    """Return the `response_metadata` that a chat message keeps, {} if it has none."""
    return get_mapping(get_langchain_fields(chat), "response_metadata")


def get_tool_call_entries(chat: ChatMessage) -> list[Mapping[str, Any]]:
    """Return the tool calls of a chat message as they are written there."""
    entries = _get_list(chat, "tool_calls")
    return [entry for entry in entries if isinstance(entry, Mapping)]


def get_called_function(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the name and the arguments in the entry of a tool call, {} if missing."""
    return get_mapping(entry, "function")


def parse_call_arguments(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments in the entry of a tool call.

    The format has them as the JSON of an object. Some sources write the object
    itself, and benchmarks print it as Python does: `{'city': 'Paris'}`.

    Args:
        entry: One of `get_tool_call_entries`.

    Returns:
        The arguments, {} for an empty text, or None if they cannot be read.
    """
    written = get_called_function(entry).get("arguments")
    if written == "":
        return {}
    arguments = _parse_object(written) if isinstance(written, str) else written
    if not isinstance(arguments, Mapping):
        return None
    has_names = all(isinstance(name, str) for name in arguments)
    return dict(arguments) if has_names else None


def build_tool_call_entry(
    call_id: str | None,
    tool: str,
    arguments: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the entry of a tool call in the chat format."""
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": tool, "arguments": write_json(arguments)},
    }


def remove_additions(message: ChatMessage) -> ChatMessage | None:
    """Return a chat message without what this package added to it.

    Args:
        message: A message in the chat format.

    Returns:
        The message without reference material, or without texts that were added to
        a tool result. None if nothing else stood in it, except for a result, which
        always stays because its call needs one. The same object if there is nothing
        to remove.
    """
    kind = classify_chat_message(message)
    if kind == "reference":
        return None
    if kind == "result":
        return _remove_result_additions(message)
    if kind not in ("request", "instruction"):
        return message
    content = message.get("content")
    rest = remove_reference(content)
    return message if rest is content else {**message, "content": rest}


def remove_additions_from(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Return the messages that are left without what this package added."""
    rest = [remove_additions(message) for message in messages]
    return tuple(message for message in rest if message is not None)


def find_requests(messages: Iterable[ChatMessage]) -> Iterator[str]:
    """Yield the texts of the user's requests, without reference material."""
    for message in messages:
        # The kind takes longer to find, and few messages are the user's.
        if message.get("role") != "user":
            continue
        if classify_chat_message(message) == "request":
            yield get_text(remove_reference(message.get("content")))


def get_first_request(messages: Iterable[ChatMessage]) -> str:
    """Return the text of the first request that has one, "" if there is none."""
    texts = (text.strip() for text in find_requests(messages))
    return next(filter(None, texts), "")


def get_opening_instructions(messages: Iterable[ChatMessage]) -> str:
    """Return the system prompt: the instructions that a dialogue begins with."""
    texts = []
    for message in messages:
        if message.get("role") not in _INSTRUCTION_ROLES:
            break
        text = get_text(remove_reference(message.get("content"))).strip()
        if text:
            texts.append(text)
    return "\n\n".join(texts)


def _collect_langchain_fields(message: BaseMessage) -> dict[str, Any]:
    """Return the fields of a message that the chat format has no place for."""
    fields: dict[str, Any] = {}
    if not isinstance(message, _choose_message_class(get_role(message))):
        # The role alone would give a message of another class.
        fields["type"] = message.type
    for name, default in get_field_defaults(type(message)).items():
        value = getattr(message, name)
        if name not in _CHAT_FIELDS and not is_same_value(value, default):
            fields[name] = value
    return {**fields, **(message.model_extra or {})}


def _choose_message_class(
    role: str,
    message_type: Any = None,
) -> type[BaseMessage]:
    """Return the class of a message with this role.

    A `ChatMessage` can have any role, and a `FunctionMessage` has none that the chat
    format knows, so their type decides where a chat message keeps it.
    """
    if message_type == "function":
        return FunctionMessage
    if message_type == "chat":
        return LangChainChatMessage
    return _CLASSES_BY_ROLE.get(role, LangChainChatMessage)


def _parse_tool_calls(chat: ChatMessage) -> dict[str, list[Any]]:
    """Return the fields `tool_calls` and `invalid_tool_calls` of an `AIMessage`.

    Entries that cannot be read come after the invalid calls that the chat message
    keeps as a LangChain field.
    """
    tool_calls: list[ToolCall] = []
    invalid_tool_calls = [*_get_list(get_langchain_fields(chat), "invalid_tool_calls")]
    for entry in get_tool_call_entries(chat):
        call = _parse_tool_call(entry)
        if call["type"] == "tool_call":
            tool_calls.append(call)
        else:
            invalid_tool_calls.append(call)
    return {"tool_calls": tool_calls, "invalid_tool_calls": invalid_tool_calls}


def _parse_tool_call(entry: Mapping[str, Any]) -> ToolCall | InvalidToolCall:
    """Return the tool call of an entry, or an invalid one if it cannot be read."""
    call_id = entry.get("id")
    if not isinstance(call_id, str):
        call_id = None
    name = get_called_function(entry).get("name")
    if not isinstance(name, str):
        return invalid_tool_call(
            args=write_json(entry),
            id=call_id,
            error="it calls no function",
        )
    arguments = parse_call_arguments(entry)
    if arguments is None:
        return invalid_tool_call(
            name=name,
            args=_get_written_arguments(entry),
            id=call_id,
            error="its arguments are no JSON object",
        )
    return tool_call(name=name, args=arguments, id=call_id)


def _get_written_arguments(entry: Mapping[str, Any]) -> str | None:
    """Return the arguments in the entry of a tool call as they are written there."""
    written = get_called_function(entry).get("arguments")
    if written is None or isinstance(written, str):
        return written
    return write_json(written)


def _parse_object(text: str) -> Any:
    """Return the data of a text in JSON, or of a Python dict literal, or else None."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if not text.startswith("{") or len(text) > _MAX_LITERAL_CHARACTERS:
        return None
    try:
        data = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    try:
        # What JSON cannot say, such as a set, is no argument. Tuples become lists.
        return json.loads(json.dumps(data))
    except (TypeError, ValueError, RecursionError):
        return None


def _remove_result_additions(message: ChatMessage) -> ChatMessage:
    """Return the message of a tool result without added texts and their notes."""
    content = message.get("content")
    fields = get_langchain_fields(message)
    rest, rest_fields = remove_notes(content, fields, tool=message.get("name"))
    if rest is content and rest_fields is fields:
        return message
    cleaned = {**message, "content": rest, LANGCHAIN_KEY: rest_fields}
    if not rest_fields:
        del cleaned[LANGCHAIN_KEY]
    return cleaned


def _get_list(data: Mapping[str, Any], name: str) -> Sequence[Any]:
    """Return the list under a name, or an empty one."""
    value = data.get(name)
    return value if isinstance(value, list | tuple) else []
