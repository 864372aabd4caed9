"""What models reply, made fit to be read: of the right types, with nothing that a store or checkpointer refuses. Pure.

LangChain checks a message when it is made. What an integration assigns later, builds without checks or reads from a
server is not checked, and rubbish is normal input.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolCall
from langchain_core.messages.ai import UsageMetadata

from langchain_tooltree.text import LEVELS, as_text, is_plain, plain, shortened, values_in

MessageT = TypeVar("MessageT", bound=BaseMessage)

UNREADABLE = "the arguments are not valid JSON"
"""What is said of a call that cannot be made as it is."""

MOST_CALLS = 100
"""Calls of one reply that are read, valid and not: an agent that makes more has lost its way."""

MOST_PARTS = 1_000
"""Calls, or blocks of content, of one message that is read at all; no model makes more, and no tool returns them."""

MOST_VALUES = 10_000
"""Values in the arguments of a reply's calls, texts of any length: models do not write as many tokens at once."""

LONGEST_FIELD = 20_000
"""Characters of one text of a form: a long summary takes a tenth."""

MOST_FIELDS = 500
"""Entries of a list of a form: a judge scores 20 calls at once, and a coarse planner rates 100 tools."""

_NAMES = frozenset({str, type(None)})

_COUNTS = ("input_tokens", "output_tokens", "total_tokens")


def sound(message: MessageT) -> MessageT:
    """A message whose fields are of the types that they should be: itself, nearly always."""
    fields, right = message.__dict__, {}
    if _is_ordinary(fields):
        return message
    if not _is_content(content := fields.get("content")):
        right["content"] = _content(content)
    for name in ("additional_kwargs", "response_metadata"):
        if not (isinstance(fields.get(name), dict) and values_in(fields[name]) is not None):
            right[name] = plain(fields[name]) if isinstance(fields.get(name), dict) else {}
    right |= {name: None for name in ("id", "name") if not isinstance(fields.get(name), str | None)}
    if isinstance(message, AIMessage):
        right |= _sound_reply(fields)
    elif not isinstance(fields.get("tool_call_id", ""), str):
        right["tool_call_id"] = as_text(fields.get("tool_call_id"))
    return message.model_copy(update=right) if right else message


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
    """A reply that was asked for, as it can be kept: calls with arguments that are no JSON, or endless, are invalid."""
    reply = sound(reply)
    right: dict[str, Any] = {}
    if not is_plain(reply.content):
        right["content"] = plain(reply.content)
    calls, broken, left = [], [], MOST_VALUES
    for given in reply.tool_calls[:MOST_CALLS]:
        call, fits = given, is_plain(given)
        if not fits:
            call = _with_whole_characters(given)
            fits = is_plain(call)
        left -= (values_in(call["args"]) or 0) if fits else 0
        if fits and left >= 0:
            calls.append(call)
        else:
            broken.append(_broken(call))
    if calls != reply.tool_calls:
        right["tool_calls"] = calls
    if broken or len(reply.invalid_tool_calls) > MOST_CALLS:
        right["invalid_tool_calls"] = [*reply.invalid_tool_calls, *broken][:MOST_CALLS]
    return reply.model_copy(update=right) if right else reply


def read_as_form(data: dict[str, Any]) -> dict[str, Any]:
    """A filled-in form as far as it is read: so much of each list and text as any form takes, and nothing odd."""
    within: dict[str, Any] = _bounded(data, LEVELS)
    return within


def _bounded(data: Any, levels: int) -> Any:
    if isinstance(data, str):
        return plain(shortened(data, LONGEST_FIELD))
    if isinstance(data, dict) and levels:
        return {plain(as_text(key)): _bounded(value, levels - 1) for key, value in islice(data.items(), MOST_FIELDS)}
    if isinstance(data, list) and levels:
        return [_bounded(value, levels - 1) for value in islice(data, MOST_FIELDS)]
    return plain(data, 0)


def _with_whole_characters(call: Any) -> Any:
    """A call whose texts can be encoded; itself where that is not all that is wrong with it."""
    try:
        return json.loads(json.dumps(call, ensure_ascii=False).encode("utf-8", "replace"))
    except (TypeError, ValueError, RecursionError):
        return call


def _is_content(content: Any) -> bool:
    if isinstance(content, str):
        return True
    return (
        isinstance(content, list)
        and len(content) <= MOST_PARTS
        and all(map(_is_block, content))
        and values_in(content) is not None
    )


def _is_block(block: Any) -> bool:
    if not isinstance(block, dict):
        return isinstance(block, str)
    return isinstance(block.get("type", ""), str) and isinstance(block.get("text", ""), str)


def _content(content: Any) -> Any:
    """What is left of a content: its texts, and those of its blocks that can be read."""
    if isinstance(content, list | tuple):
        return [plain(block) for block in content[:MOST_PARTS] if _is_block(block)]
    return "" if content is None else shortened(as_text(content))


def _sound_reply(fields: Mapping[str, Any]) -> dict[str, Any]:
    right: dict[str, Any] = {}
    calls, invalid = fields.get("tool_calls"), fields.get("invalid_tool_calls")
    listed = calls if isinstance(calls, list) and len(calls) <= MOST_PARTS else []
    broken = [_broken(call) for call in listed if not _is_call(call)]
    if broken or listed is not calls:
        right["tool_calls"] = [call for call in listed if _is_call(call)]
    if broken or not (isinstance(invalid, list) and all(map(_is_invalid_call, invalid))):
        known = invalid if isinstance(invalid, list) else []
        right["invalid_tool_calls"] = [*(each if _is_invalid_call(each) else _broken(each) for each in known), *broken]
    usage = fields.get("usage_metadata")
    if usage is not None and not _is_usage(usage):
        right["usage_metadata"] = _usage(usage)
    return right


def _is_call(call: Any) -> bool:
    return (
        isinstance(call, dict)
        and isinstance(call.get("name"), str)
        and isinstance(call.get("args"), dict)
        and isinstance(call.get("id", 0), str | None)
        and values_in(call["args"], MOST_VALUES) is not None
    )


def _is_invalid_call(call: Any) -> bool:
    named = ("name", "args", "id")
    return isinstance(call, dict) and all(isinstance(call.get(name, 0), str | None) for name in named)


def _broken(call: Any) -> dict[str, Any]:
    """What can be said of a call that is none."""
    said = call if isinstance(call, dict) else {"args": call}
    name, args, id_ = (said.get(key) for key in ("name", "args", "id"))
    texts = {"name": name if isinstance(name, str) else None, "id": id_ if isinstance(id_, str) else None}
    if not isinstance(args, str):
        args = as_text(args) if values_in(args, MOST_CALLS) is not None else f"<{type(args).__name__}>"
    return {**plain(texts), "args": plain(shortened(args)), "error": UNREADABLE, "type": "invalid_tool_call"}


def _is_usage(usage: Any) -> bool:
    if not (isinstance(usage, dict) and all(_is_count(usage.get(name)) for name in _COUNTS)):
        return False
    return all(
        value is None or _is_count(value) or (isinstance(value, dict) and all(map(_is_count, value.values())))
        for name, value in usage.items()
        if isinstance(name, str) and name not in _COUNTS
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < 2**63


def _usage(usage: Any) -> UsageMetadata | None:
    """The counts that can be read, if there are any."""
    found = {name: usage.get(name) for name in _COUNTS} if isinstance(usage, dict) else {}
    counts = {name: value if _is_count(value) else 0 for name, value in found.items()}
    return cast("UsageMetadata", counts) if any(counts.values()) else None


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
