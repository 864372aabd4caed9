"""What models reply, made fit to be read: of the right types, with nothing that a store or checkpointer refuses. Pure.

LangChain checks a message when it is made. What an integration assigns later, or builds without checks, is checked here
by the same classes, and what does not validate is left out: rubbish is normal input.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.messages.tool import invalid_tool_call
from pydantic import ValidationError

from langchain_tooltree.text import is_deep, is_plain, plain, shortened

MessageT = TypeVar("MessageT", bound=BaseMessage)

UNREADABLE = "the arguments are not valid JSON"
"""What is said of a call that cannot be made as it is."""

_NAMES = frozenset({str, type(None)})

_DATA = ("content", "additional_kwargs", "response_metadata", "tool_calls", "usage_metadata")
"""Fields of a message in which data may stand within data."""


def sound(message: MessageT) -> MessageT:
    """A message whose fields are of the types that its class declares: itself, nearly always.

    A field that does not validate, or that no checkpointer takes, has its default instead; of a required one it is "".
    """
    fields, kind = message.__dict__, type(message)
    if _is_ordinary(fields):
        return message
    deep = [name for name in _DATA if is_deep(fields.get(name))]
    given = fields | _defaults(kind, deep)
    try:
        right = kind.model_validate({**given}, strict=True)
    except ValidationError as error:
        wrong = [str(each["loc"][0]) for each in error.errors(include_input=False) if each["loc"]]
        right = kind.model_validate(given | _defaults(kind, wrong), strict=True)
    except (AttributeError, LookupError, TypeError):  # of LangChain's own validators, which do not say which field
        right = kind.model_validate(_defaults(kind, kind.model_fields))
    return message if right.__dict__ == fields else message.model_copy(update=right.__dict__)


def _defaults(kind: type[BaseMessage], names: Iterable[str]) -> dict[str, Any]:
    fields = {name: kind.model_fields[name] for name in names}
    return {
        name: "" if field.is_required() else field.get_default(call_default_factory=True)
        for name, field in fields.items()
    }


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


def received(reply: AIMessage) -> AIMessage:
    """A reply that was asked for, as it can be kept: calls that JSON or a store cannot say are invalid calls."""
    reply = sound(reply)
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


def texts_of(message: BaseMessage) -> list[str]:
    """The text of each block of a message's content, empty for blocks of other kinds."""
    blocks: list[Any] = [message.content] if isinstance(message.content, str) else message.content
    return [_text_in(block) if _is_text(block) else "" for block in blocks]


def with_texts(message: MessageT, texts: Sequence[str]) -> MessageT:
    """A message with other texts, as `texts_of` gives them; what else a block holds, such as an id, stays."""
    if isinstance(message.content, str):
        return message.model_copy(update={"content": texts[0]})
    pairs = zip(message.content, texts, strict=True)
    content = [
        ({**block, "text": text} if isinstance(block, dict) else text) if _is_text(block) else block
        for block, text in pairs
    ]
    return message.model_copy(update={"content": content})


def with_first_text(message: MessageT, text: str) -> MessageT:
    """A message with a text where its first one stood, or behind its other blocks; the rest of its texts stay."""
    content: Any = text
    if isinstance(message.content, list):
        places = [
            at for at, each in enumerate(message.content) if isinstance(each, dict) and each.get("type") == "text"
        ]
        content = [*message.content, *([] if places else [{"type": "text", "text": ""}])]
        at = next(iter(places), -1)
        content[at] = {**content[at], "text": text}
    return without_blanks(message.model_copy(update={"content": content}))


def without_blanks(message: MessageT) -> MessageT:
    """A message without blocks of text that say nothing, which providers refuse; Gemini's signatures say something."""
    if isinstance(message.content, str):
        return message
    kept = [
        block
        for block, text in zip(message.content, texts_of(message), strict=True)
        if text.strip() or not _is_text(block) or (isinstance(block, dict) and block.get("extras"))
    ]
    return message.model_copy(update={"content": kept})


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or block.get("type") == "text"


def _text_in(block: Any) -> str:
    text = block if isinstance(block, str) else block.get("text")
    return text if isinstance(text, str) else ""  # to write out data that are nested deeply would end the run


FORM = frozenset({"model_provider", "output_version"})
"""Metadata of a message that says how its blocks are to be read."""

CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call", "tool_call_chunk"})
"""Types of content blocks that repeat the calls of a message."""


def made_anew(reply: AIMessage, calls: Sequence[ToolCall], **others: Any) -> AIMessage:
    """A reply with other calls and fields, as one that costs nothing: its form is kept, but no id and no usage."""
    form = {key: each for key, each in reply.response_metadata.items() if key in FORM}
    fresh = {"id": None, "tool_calls": [*calls], "usage_metadata": None, "response_metadata": form, **others}
    return reply.model_copy(update=fresh)


def call_blocks(call: ToolCall, form: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A call as a block of content, for forms in which typed streams read the calls from there."""
    if form.get("output_version") == "v1":
        return [{**call, "type": "tool_call"}]
    if form.get("model_provider") == "anthropic":
        return [{"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}]
    return []


def with_only_call(message: AIMessage, call: ToolCall | None) -> AIMessage:
    """A reply with one of its calls, or none, and without its text; the reasoning stays for providers that sign it."""
    content: Any = message.content
    if isinstance(content, list):
        kept = {None, call["id"]} if call else {None}
        content = [
            block
            for block in content
            if isinstance(block, dict)
            and block.get("type") != "text"
            and (block.get("type") not in CALL_BLOCKS or (block.get("call_id") or block.get("id")) in kept)
            # OpenAI's items of reasoning belong to the item behind them, and are refused without it.
            and (call is not None or block.get("type") != "reasoning" or "id" not in block)
        ]
    else:
        content = ""
    update = {"content": content, "tool_calls": [call] if call else [], "invalid_tool_calls": []}
    return message.model_copy(update=update)


GEMINI_SIGNATURES = "__gemini_function_call_thought_signatures__"
"""Where Gemini's integration keeps the signatures of calls, by their ids."""


def repeated(reply: AIMessage, call: ToolCall) -> AIMessage:
    """A reply with another in place of its one call, as its provider expects that call back."""
    own = str(reply.tool_calls[0]["id"])
    content: Any = reply.content
    if isinstance(content, list):
        content = [_repeating(block, own, call) if isinstance(block, dict) else block for block in content]
    keywords = dict(reply.additional_kwargs)
    if signatures := keywords.get(GEMINI_SIGNATURES):
        keywords[GEMINI_SIGNATURES] = {call["id"]: signatures.get(own, next(iter(signatures.values())))}
    return made_anew(reply, [call], content=content, additional_kwargs=keywords)


def _repeating(block: dict[str, Any], own: str, call: ToolCall) -> dict[str, Any]:
    """A block of content; one that repeats the call has its id and arguments, as providers name and write them."""
    if own not in (block.get("id"), block.get("call_id")):
        return block
    arguments = {"input": call["args"], "args": call["args"], "arguments": json.dumps(call["args"])}
    ids = {key: call["id"] for key in ("id", "call_id") if block.get(key) == own}
    return {**block, **ids, **{key: value for key, value in arguments.items() if key in block}}
