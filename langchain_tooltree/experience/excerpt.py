"""A record in short, for a prompt: what matters of it as JSON-like data of bounded length. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_tooltree.experience.records import ChatMessage, Record, arguments_of, function_of, text_of

LONGEST_TEXT = 2_000
"""Characters that are shown of one text, one observation or the arguments of one call."""

DEFAULT_MAX_CHARACTERS = 24_000
"""About how much of a run a model is shown: 6,000 tokens."""

FEWEST_CHARACTERS = 4 * LONGEST_TEXT
"""Room in which a run still tells something."""

Entry = dict[str, Any]


def excerpt(record: Record, *, max_characters: int) -> list[Entry]:
    """The course of a run, short enough for a prompt.

    Args:
        record: The run.
        max_characters: About how long the entries may be in all, as JSON.

    Returns:
        One entry for each text, call and observation, in order. Long texts lose their middle, and a long run
        does, too: how it began and how it ended stays, and an entry `left_out` says how much is missing.
    """
    entries = list(_entries(record))
    sizes = [len(json.dumps(entry, ensure_ascii=False, default=str)) for entry in entries]
    if sum(sizes) <= max_characters:
        return entries
    first, left = 0, max_characters - sizes[-1]
    while first < len(entries) - 1 and (first == 0 or sizes[first] <= left - 2 * max_characters // 3):
        left -= sizes[first]
        first += 1
    last = len(entries) - 1
    while last > first and sizes[last - 1] <= left:
        last -= 1
        left -= sizes[last]
    missing = [{"left_out": f"{last - first} entries"}] if last > first else []
    return [*entries[:first], *missing, *entries[last:]]


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """A text without its middle, if it is longer than that.

    Args:
        text: The text.
        longest: How many of its characters may be shown.

    Returns:
        The text, or its beginning and end with a mark in between that says how much is missing.
    """
    if len(text) <= longest:
        return text
    tail = longest // 3
    head = longest - tail
    return f"{text[:head]} [... {len(text) - longest} characters left out ...] {text[-tail:]}"


def _entries(record: Record) -> Iterator[Entry]:
    branches = list(record.branches)
    for position, message in enumerate(record.chat()):
        while branches and branches[0].after <= position:
            branch = branches.pop(0)
            yield from _told(branch.messages, {"agent": branch.name})
        yield from _told([message], {})
    for branch in branches:
        yield from _told(branch.messages, {"agent": branch.name})


def _told(messages: Sequence[ChatMessage], by: Mapping[str, str]) -> Iterator[Entry]:
    for message in messages:
        role, content = message.get("role"), message.get("content")
        said = shortened(_readable(content))
        if role == "tool":
            failed = {"failed": True} if message.get("error") else {}
            tool = {"tool": message["name"]} if message.get("name") else {}
            yield {**by, "role": role, **tool, "observation": said, **failed}
            continue
        if said:
            yield {**by, "role": role, "text": said}
        for call in message.get("tool_calls") or ():
            yield {**by, "role": role, "call": _call(call)}


def _call(call: Mapping[str, Any]) -> Entry:
    arguments: Any = arguments_of(call)
    if arguments is None:
        arguments = str(function_of(call).get("arguments"))
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return {
        "tool": function_of(call).get("name"),
        "arguments": arguments if len(written) <= LONGEST_TEXT else shortened(written),
    }


def _readable(content: Any) -> str:
    """The text of a message; blocks that are not text are named, not shown."""
    if isinstance(content, list | tuple):
        others = [
            f"[{block.get('type', 'content')}]"
            for block in content
            if isinstance(block, Mapping) and "text" not in block
        ]
        return "\n".join(part for part in (text_of(content), *others) if part)
    return text_of(content)
