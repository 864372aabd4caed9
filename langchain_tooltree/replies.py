"""What models reply, made fit to be read: of the right types, with nothing that a store or checkpointer refuses. Pure.

LangChain checks a message when it is made. What an integration assigns later, or builds without checks, is checked here
by the same classes, and what does not validate is left out: rubbish is normal input.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.messages.tool import invalid_tool_call
from pydantic import ValidationError

from langchain_tooltree.text import holds_more, is_deep, is_plain, plain, shortened

MessageT = TypeVar("MessageT", bound=BaseMessage)

UNREADABLE = "the arguments are not valid JSON"
"""What is said of a call that cannot be made as it is."""

_NAMES = frozenset({str, type(None)})

LARGEST_REPLY = 10_000
"""Values in the data of one reply to a question of ours; the largest forms have hundreds."""

_DATA = ("content", "additional_kwargs", "response_metadata", "tool_calls", "usage_metadata")
"""Fields of a message in which data may stand within data."""


def sound(message: MessageT) -> MessageT:
    """A message whose fields are of the types that its class declares: itself, nearly always.

    A field that does not validate, or that no checkpointer takes, has its default instead; of a required one it is "".
    """
    fields, kind, defaults = message.__dict__, type(message), defaults_of(type(message))
    if _is_ordinary(fields):
        return message
    unfit = [name for name in _DATA if is_deep(fields.get(name))]
    if not _are_blocks(fields.get("content")):
        unfit.append("content")
    values = fields | {name: defaults[name] for name in unfit}
    try:
        right = kind.model_validate({**values}, strict=True)
    except ValidationError as error:
        wrong = [str(each["loc"][0]) for each in error.errors(include_input=False) if each["loc"]]
        right = kind.model_validate(values | {name: defaults[name] for name in wrong}, strict=True)
    except (AttributeError, LookupError, TypeError):  # of LangChain's own validators, which do not say which field
        text = values["content"] if isinstance(values.get("content"), str) else ""
        right = kind.model_validate(defaults | {"content": text})
    if not isinstance(right.response_metadata.get("model_provider", ""), str):
        right.response_metadata = {}  # LangChain looks up by it how the blocks are to be read
    return message if right.__dict__ == fields else message.model_copy(update=right.__dict__)


def _are_blocks(content: Any) -> bool:
    """Whether the blocks of a content, if it has any, say in words of which type they are."""
    blocks = content if isinstance(content, list) else ()
    return all(isinstance(each.get("type", ""), str) for each in blocks if isinstance(each, dict))


@cache
def defaults_of(kind: type[BaseMessage]) -> dict[str, Any]:
    """What the fields of a message are where nobody sets them, of a required one ""; not to be handed out unchecked."""
    fields = kind.model_fields.items()
    return {name: "" if each.is_required() else each.get_default(call_default_factory=True) for name, each in fields}


def _is_ordinary(fields: Mapping[str, Any]) -> bool:
    """Whether a message is a text that makes no call and holds nothing else: a long conversation has thousands."""
    return (
        type(fields.get("content")) is str
        and fields.get("additional_kwargs") == {}
        and fields.get("response_metadata") == {}
        and type(fields.get("id", "")) in _NAMES
        and type(fields.get("name")) in _NAMES
        and type(fields.get("tool_call_id", "")) is str
        and fields.get("tool_calls", []) == fields.get("invalid_tool_calls", []) == []
        and fields.get("usage_metadata") is None
    )


def is_too_large(reply: AIMessage) -> bool:
    """Whether a reply to a question of ours holds more data than any of them asks for: checking all takes too long."""
    return any(holds_more(reply.__dict__.get(name), LARGEST_REPLY) for name in _DATA)


def storable(reply: AIMessage) -> AIMessage:
    """A sound reply that was asked for, as it can be kept: calls that JSON or a store cannot say are invalid calls."""
    if is_plain(reply.content) and is_plain(reply.tool_calls):
        return reply
    broken = [
        invalid_tool_call(name=plain(call["name"]), args=shortened(str(plain(call["args"]))), error=UNREADABLE)
        for call in reply.tool_calls
        if not is_plain(call)
    ]
    update = {
        "content": plain(reply.content),
        "tool_calls": [call for call in reply.tool_calls if is_plain(call)],
        "invalid_tool_calls": [*reply.invalid_tool_calls, *broken],
    }
    return reply.model_copy(update=update)


def calls_in(message: BaseMessage) -> list[ToolCall]:
    """The calls that a message makes."""
    return message.tool_calls if isinstance(message, AIMessage) else []
