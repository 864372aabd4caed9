"""Repair messages that LangChain has not validated.

LangChain validates a message when it is made. What an integration assigns to it
later, or builds with `model_construct`, can hold anything. The same classes validate
it here, so that the rest of the package can rely on the types of the fields.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from types import NoneType
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.tool import invalid_tool_call
from pydantic import ValidationError

from langchain_tooltree.text import (
    holds_more_values,
    is_nested_too_deeply,
    is_plain_data,
    shortened,
    to_plain_data,
)

MessageT = TypeVar("MessageT", bound=BaseMessage)

MAX_REPLY_VALUES = 10_000
"""The most values in a reply. No question of ours asks for more."""

INVALID_ARGUMENTS = "the arguments are not valid JSON"

# The fields whose data LangChain or this package walks through.
_NESTED_FIELDS = (
    "content",
    "additional_kwargs",
    "response_metadata",
    "tool_calls",
    "usage_metadata",
)

_OPTIONAL_TEXT = (str, NoneType)

_MISSING = object()


def validate_message(message: MessageT) -> MessageT:
    """Return a message whose fields have the types that its class declares.

    A field that is not valid gets its default, or "" if it is required. Besides
    wrong types, three things are not valid because they make LangChain fail later:
    data that are nested too deeply, a content block whose type is no string, and a
    model provider that is no string. If it is unknown which field is not valid,
    only a content that is a string is kept.

    Args:
        message: Any message, also one that was built without validation.

    Returns:
        The message itself if it is valid, as nearly all are, or else a repaired copy.
    """
    if _is_ordinary(message):
        return message
    current_fields = message.__dict__
    changes = {}
    for name, value in _compute_valid_fields(message).items():
        current_value = current_fields.get(name, _MISSING)
        if not is_same_value(value, current_value):
            changes[name] = value
    return message.model_copy(update=changes) if changes else message


@functools.cache
def get_field_defaults(message_class: type[BaseMessage]) -> dict[str, Any]:
    """Return the default of each field of a message class, "" for required ones.

    The result is cached and shared. Its lists and dicts must not get into a message
    unless they are validated, which copies them.
    """
    defaults: dict[str, Any] = {}
    for name, field in message_class.model_fields.items():
        if field.is_required():
            defaults[name] = ""
        else:
            defaults[name] = field.get_default(call_default_factory=True)
    return defaults


def build_unchecked_message(
    message_class: type[BaseMessage],
    fields: Mapping[str, Any],
) -> BaseMessage:
    """Return a message with the given fields as they are, for `validate_message`.

    The constructor of the class would raise because of a single odd field.
    """
    # `model_construct` is slow if it has to look up the defaults itself.
    defaults = copy.deepcopy(get_field_defaults(message_class))
    return message_class.model_construct(**defaults).model_copy(update=fields)


def is_same_value(value: Any, other: Any) -> bool:
    """Return True if two values are equal, also for values that cannot be compared.

    Tools have arrays and tables as artifacts, whose comparison has no truth value.
    They count as equal only if they are the same object.
    """
    if value is other:
        return True
    try:
        return bool(value == other)
    except (TypeError, ValueError, RuntimeError):
        return False


def is_reply_too_large(reply: AIMessage) -> bool:
    """Return True if a reply holds more values than any question of ours asks for.

    What a provider adds does not count, such as metadata with the probability of
    each token.
    """
    parts = (reply.content, reply.tool_calls)
    return any(holds_more_values(part, MAX_REPLY_VALUES) for part in parts)


def make_storable(reply: AIMessage) -> AIMessage:
    """Return a reply that can be written as JSON.

    Args:
        reply: A model's reply.

    Returns:
        The reply with its content as plain data. A tool call that is no plain data
        is moved to the invalid ones. The reply itself if all of it is plain.
    """
    if is_plain_data(reply.content) and is_plain_data(reply.tool_calls):
        return reply
    tool_calls = []
    invalid_tool_calls = list(reply.invalid_tool_calls)
    for call in reply.tool_calls:
        if is_plain_data(call):
            tool_calls.append(call)
            continue
        invalid_call = invalid_tool_call(
            name=call["name"],
            args=shortened(str(to_plain_data(call["args"]))),
            error=INVALID_ARGUMENTS,
        )
        invalid_tool_calls.append(invalid_call)
    return reply.model_copy(
        update={
            "content": to_plain_data(reply.content),
            "tool_calls": tool_calls,
            "invalid_tool_calls": invalid_tool_calls,
        },
    )


def _is_ordinary(message: BaseMessage) -> bool:
    """Return True if a message is plain text, so that it needs no validation.

    Validation takes many times as long, and nearly all messages are of this sort.
    """
    fields = message.__dict__
    has_valid_texts = (
        type(fields.get("content")) is str
        and isinstance(fields.get("id"), _OPTIONAL_TEXT)
        and isinstance(fields.get("name"), _OPTIONAL_TEXT)
        and isinstance(fields.get("tool_call_id", ""), str)
        and isinstance(fields.get("role", ""), str)
    )
    has_nothing_else = (
        fields.get("additional_kwargs") == {}
        and fields.get("response_metadata") == {}
        and fields.get("tool_calls", []) == []
        and fields.get("invalid_tool_calls", []) == []
        and fields.get("usage_metadata") is None
    )
    return has_valid_texts and has_nothing_else


def _compute_valid_fields(message: BaseMessage) -> dict[str, Any]:
    """Return the fields of a message, with defaults for those that are not valid."""
    message_class = type(message)
    defaults = get_field_defaults(message_class)
    fields = {**defaults, **message.__dict__}
    for name in _find_unreadable_fields(fields):
        fields[name] = defaults[name]
    try:
        return _validate_or_reset(message_class, fields)
    except (ValidationError, AttributeError, LookupError, TypeError):
        # It is unknown which field is to blame: LangChain's own validators do not
        # say it, or a default was not valid either.
        content = fields["content"]
        text = content if isinstance(content, str) else ""
        return {**copy.deepcopy(defaults), "content": text}


def _find_unreadable_fields(fields: Mapping[str, Any]) -> list[str]:
    """Return the names of fields that make LangChain fail in spite of their type."""
    names = [name for name in _NESTED_FIELDS if is_nested_too_deeply(fields.get(name))]
    if _has_block_of_odd_type(fields.get("content")):
        names.append("content")
    # LangChain looks up by the provider how the blocks of a content are read.
    metadata = fields.get("response_metadata")
    if isinstance(metadata, dict):
        provider = metadata.get("model_provider", "")
        if not isinstance(provider, str):
            names.append("response_metadata")
    return names


def _has_block_of_odd_type(content: Any) -> bool:
    """Return True if a content has a block whose type is no string."""
    if not isinstance(content, list):
        return False
    blocks = [block for block in content if isinstance(block, Mapping)]
    return any(not isinstance(block.get("type", ""), str) for block in blocks)


def _validate_or_reset(
    message_class: type[BaseMessage],
    fields: dict[str, Any],
) -> dict[str, Any]:
    """Return the validated fields, with defaults for those that do not validate.

    Raises:
        ValidationError: If the fields are not valid with these defaults either.
    """
    try:
        return _validate_strictly(message_class, fields)
    except ValidationError as error:
        defaults = get_field_defaults(message_class)
        invalid_names = {str(details["loc"][0]) for details in error.errors()}
        reset_fields = {name: defaults[name] for name in invalid_names}
        return _validate_strictly(message_class, {**fields, **reset_fields})


def _validate_strictly(
    message_class: type[BaseMessage],
    fields: dict[str, Any],
) -> dict[str, Any]:
    """Return copies of the fields of a message, validated by its class.

    Raises:
        ValidationError: If a field does not have the type that the class declares.
    """
    # `model_validate` would call LangChain's `__init__`, which validates once more
    # and not strictly. The validators get a copy, since they write into it.
    validated = message_class.__new__(message_class)
    message_class.__pydantic_validator__.validate_python(
        dict(fields),
        strict=True,
        self_instance=validated,
    )
    return validated.__dict__
