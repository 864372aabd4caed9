"""What a model is shown of a run: its course in short, or for a review its writes and what they rest on. Pure."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from langchain_tooltree.experience.records import (
    Branch,
    ChatMessage,
    Outcome,
    Record,
    Step,
    arguments_of,
    call_key,
    entries_in,
    function_of,
    part_of,
    readable,
    steps_in,
    woven,
)
from langchain_tooltree.text import LONGEST_TEXT, compact_json, digest, mapping_in, shortened, shortened_in, words_of

DEFAULT_MAX_CHARACTERS = 24_000
"""About how much of a run a model is shown: 6,000 tokens."""

FEWEST_CHARACTERS = 4 * LONGEST_TEXT
"""Room in which a run still tells something."""

LONGEST_INSTRUCTIONS = 8 * LONGEST_TEXT
"""Characters of an agent's instructions that a reviewer is shown, about 4,000 tokens: twice the longest policies of the
tau benchmarks. Longer ones lose their middle."""

Entry = dict[str, Any]


def excerpt(record: Record, *, max_characters: int) -> list[Entry]:
    """The course of a run for a prompt: an entry for each text, call and observation, in order.

    As JSON, they have about `max_characters`. Long texts lose their middle, and so does a long run: how it began and
    how it ended stays, and an entry `left_out` says how much is missing.
    """
    return ends_of(told_of(record), max_characters)


def told_of(record: Record) -> list[Entry]:
    """The entries of a whole run; only long texts in it lose their middle."""
    entries: list[Entry] = []
    for each in woven(enumerate(record.chat()), record.branches):
        entries += _told(each.messages, {"agent": each.name}) if isinstance(each, Branch) else _told([each], {})
    told: list[Entry] = shortened_in(entries)
    return told


def ends_of(entries: list[Entry], max_characters: int) -> list[Entry]:
    """Entries without their middle where there are too many, which an entry `left_out` tells."""
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


def _told(messages: Sequence[ChatMessage], by: Mapping[str, str]) -> Iterator[Entry]:
    for message in messages:
        role, content = message.get("role"), message.get("content")
        said = readable(content)
        if part_of(message) == "observation":
            failed = {"failed": True} if message.get("error") else {}
            tool = {"tool": message["name"]} if message.get("name") else {}
            yield {**by, "role": role, **tool, "observation": said, **failed}
            continue
        if said:
            yield {**by, "role": role, "text": said}
        for call in entries_in(message):
            yield {**by, "role": role, "call": _call(call)}


def _call(call: Mapping[str, Any]) -> Entry:
    arguments: Any = arguments_of(call)
    if arguments is None:
        arguments = str(function_of(call).get("arguments"))
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return {"tool": function_of(call).get("name"), "arguments": arguments if len(written) <= LONGEST_TEXT else written}


EFFECTS = "effects"
"""Key of a record's metadata under which it may be declared which tools write: `{"pay": "write", "find": "read"}`.

Where that goes by the arguments, a list names the calls of the tool that were reads, each by its `call_digest`.
"""

CALL_DIGITS = 16
"""Hexadecimal digits of a call's digest: 64 bits, so two of a million calls are mistaken with a chance of 3e-8."""

READING_VERBS = frozenset(
    words_of(
        "browse calculate compute count describe estimate fetch find get grep inspect list load lookup look ls open "
        "peek query read recall retrieve scan search see select show tail think verify view"
    )
)
"""How the names of tools begin that only look something up. `check` is not among them (`check_in`, `checkout`),
and not `summarize`: a write of a user's own may be called as the package's `summarize_state`."""

_WORD_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_TOKEN = re.compile(r"[\w-]{3,}")

_SHORT = 60
"""Characters of a result that is not worth shortening: the mark of what is left out takes as many."""


def words_of_name(tool: str) -> list[str]:
    """The words of a tool's name, in order: `shop__searchItems` has three."""
    return [word.lower() for word in _WORD_OF_NAME.findall(tool)]


def call_digest(tool: str, arguments: Mapping[str, Any] | None) -> str:
    """What tells a call from any other."""
    return digest(call_key(tool, arguments or {}), CALL_DIGITS)


def is_read(tool: str, effects: Mapping[str, Any] | None = None, arguments: Mapping[str, Any] | None = None) -> bool:
    """Whether a call only looks something up: as declared, or else by the name of its tool.

    A record does not show what a call changes. Names of functions begin with what they do, so `get_order` and
    `shop__searchItems` are reads. All others count as writes: a read taken for a write costs a line of a review, while
    a write taken for a read would not be reviewed.
    """
    declared = (effects or {}).get(tool)
    if declared in ("read", "write"):
        return bool(declared == "read")
    if isinstance(declared, list):
        return call_digest(tool, arguments) in declared
    words = words_of_name(re.split(r"__|[./:]", tool)[-1])
    return bool(words) and words[0] in READING_VERBS


@dataclass(frozen=True, slots=True)
class _Room:
    """Characters that may be shown of one thing of each kind."""

    grounds: int  # the result of a read that a write rests on
    reads: int  # that of another read
    words: int  # what the assistant said
    writes: int = 2 * LONGEST_TEXT  # the result of a write, and the arguments of any call
    user: int = LONGEST_TEXT  # what the user said


_ROOMS = (
    _Room(grounds=4 * LONGEST_TEXT, reads=2 * LONGEST_TEXT, words=LONGEST_TEXT),
    _Room(grounds=2 * LONGEST_TEXT, reads=LONGEST_TEXT, words=LONGEST_TEXT),
    _Room(grounds=LONGEST_TEXT, reads=LONGEST_TEXT // 2, words=LONGEST_TEXT),
    _Room(grounds=LONGEST_TEXT, reads=LONGEST_TEXT // 5, words=LONGEST_TEXT // 2),
    _Room(grounds=LONGEST_TEXT // 2, reads=LONGEST_TEXT // 10, words=LONGEST_TEXT // 4),
    _Room(grounds=LONGEST_TEXT // 4, reads=60, words=LONGEST_TEXT // 8, writes=LONGEST_TEXT),
    _Room(grounds=LONGEST_TEXT // 8, reads=0, words=60, writes=LONGEST_TEXT // 2, user=LONGEST_TEXT // 2),
)
"""From a run that fits whole to one of hundreds of calls: other reads give way first, then what the assistant said,
then what writes rest on. What the user said and the writes are shortened last."""


def reviewed(record: Record, *, max_characters: int) -> list[Entry]:
    """The course of a run for a review: an entry for each text and each call with its result, in order.

    A write has a number under `write`, the first one 1. What a tool returned as JSON is given as data. As JSON, the
    entries have about `max_characters`. In a run that is too long, results lose what no write needs; only where that is
    not enough is its middle left out.
    """
    effects = mapping_in(record.metadata, EFFECTS)
    needed = _identifiers(step.arguments for step in record.steps if not is_read(step.tool, effects, step.arguments))
    entries: list[Entry] = []
    for room in _ROOMS:
        entries = list(_entries(record, effects, needed, room))
        if len(json.dumps(entries, ensure_ascii=False, default=str)) <= max_characters:
            return entries
    return ends_of(entries, max_characters)


def _entries(record: Record, effects: Mapping[str, Any], needed: frozenset[str], room: _Room) -> Iterator[Entry]:
    shown: set[str] = set()
    writes = count(1)
    for each in woven(enumerate(_with_steps(record.chat())), record.branches):
        by: Entry = {"agent": each.name} if isinstance(each, Branch) else {}
        for message, steps in _with_steps(each.messages) if isinstance(each, Branch) else [each]:
            yield from _said(message, by, room)
            for step in steps:
                called = {**by, "call": step.tool, "arguments": _arguments(step, room.writes)}
                if not is_read(step.tool, effects, step.arguments):
                    yield {"write": next(writes), **called, **_result(step.outcome, room.writes, needed)}
                    continue
                text = step.outcome.text if step.outcome else ""
                if len(text) > _SHORT and text in shown:
                    yield {**called, "result": "the same as before"}
                    continue
                shown.add(text)
                rests = not needed or bool(needed & _words(text) or needed & _identifiers([step.arguments]))
                yield {**called, **_result(step.outcome, room.grounds if rests else room.reads, needed)}


def _with_steps(messages: Sequence[ChatMessage]) -> list[tuple[ChatMessage, list[Step]]]:
    """Messages, each with the calls that it makes."""
    steps: dict[int, list[Step]] = {}
    for step in steps_in(messages):
        steps.setdefault(step.position, []).append(step)
    return [(message, steps.get(place, [])) for place, message in enumerate(messages)]


def _said(message: ChatMessage, by: Entry, room: _Room) -> Iterator[Entry]:
    """What a message says; instructions are shown apart, and observations with their calls."""
    part, text = part_of(message), readable(message.get("content"))
    if text.strip() and part not in ("instruction", "observation"):
        longest = room.words if part == "reply" else room.user
        yield {**by, str(message.get("role")): shortened(text, longest)}


def _arguments(step: Step, room: int) -> Any:
    if step.arguments is None:
        return "they could not be read"
    written = compact_json(step.arguments)
    return step.arguments if len(written) <= room else shortened(written, room)


def _result(outcome: Outcome | None, room: int, needed: frozenset[str]) -> Entry:
    if outcome is None:
        return {"result": "none is recorded"}
    text = readable(outcome.content)
    failed = {"failed": True} if outcome.status == "error" else {}
    return {**failed, "result": _thinned(text, room, needed)}


def _thinned(text: str, room: int, needed: frozenset[str]) -> Any:
    """A result, as data if it is JSON; a list that is too long keeps what is needed, and of the rest the first."""
    try:
        data = json.loads(text) if text[:1] in ("{", "[") else text
    except (ValueError, RecursionError):
        data = text
    if len(text) <= room:
        return data
    if not isinstance(data, list):
        return shortened(text, room) if room > _SHORT else f"[{len(text)} characters left out]"
    written = [compact_json(each) for each in data]
    order = sorted(range(len(data)), key=lambda place: (needed.isdisjoint(_words(written[place])), place))
    kept: list[int] = []
    for place in order:
        room -= len(written[place])
        if room < 0:
            break
        kept.append(place)
    return [*(data[place] for place in sorted(kept)), f"{len(data) - len(kept)} more left out"]


def _words(text: str) -> frozenset[str]:
    return frozenset(_TOKEN.findall(text))


def _identifiers(arguments: Iterable[Mapping[str, Any] | None]) -> frozenset[str]:
    """What in arguments may stand for a thing: words with a digit, such as a number, a date or an id."""
    return frozenset(word for each in arguments for word in _words(compact_json(each)) if re.search(r"\d", word))
