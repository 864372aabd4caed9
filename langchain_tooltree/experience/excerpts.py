"""What a record shows: which of its calls only read, and the excerpt of a run that models are shown. Pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from langchain_tooltree.experience.trajectory import (
    Branch,
    ChatMessage,
    Step,
    Trajectory,
    call_key,
    part_of,
    readable,
    steps_in,
    woven,
)
from langchain_tooltree.text import LONGEST_TEXT, compact_json, digest, mapping_in, shortened, shortened_in, words_of

EFFECTS = "effects"
"""Key of a record's metadata under which it may be declared which tools write: `{"pay": "write", "find": "read"}`.

Where that goes by the arguments, a list names the calls of the tool that were reads, each by its `call_digest`.
"""

READING_VERBS = frozenset(
    words_of(
        "browse calculate compute count describe estimate fetch find get grep inspect list load lookup look ls open "
        "peek query read recall retrieve scan search see select show tail think verify view"
    )
)
"""How the names of tools begin that only look something up. `check` is not among them (`check_in`, `checkout`),
and not `summarize`: a write of a user's own may be called as the package's `summarize_state`."""

WRITING_VERBS = frozenset(
    words_of("book buy cancel create delete edit modify pay post purchase refund remove send transfer update write")
)
"""Verbs of tools that act: those of the tau benchmarks' shop and airline (book, cancel, modify, send, transfer and
update), of files and databases (create, delete, edit, remove, write), of requests (post), and of what costs money."""

_WORD_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def words_of_name(name: str) -> list[str]:
    """The words of the name of a tool or an argument, in order: `shop__searchItems` has three."""
    return [word.lower() for word in _WORD_OF_NAME.findall(name)]


def call_digest(tool: str, arguments: Mapping[str, Any] | None) -> str:
    """What tells a call from any other, in 64 bits: two of a million are mistaken with a chance of 3e-8."""
    return digest(call_key(tool, arguments or {}), 16)


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


def verb_of_write(tool: str) -> str | None:
    """The word in the name of a tool that says that it acts: of `get_book` and `list_transfers`, there is none."""
    return None if is_read(tool) else next((word for word in words_of_name(tool) if word in WRITING_VERBS), None)


DEFAULT_MAX_CHARACTERS = 24_000
"""About how much of a run a model is shown: 6,000 tokens. All but one of 280 published runs of the tau benchmarks fit
whole."""

LONGEST_INSTRUCTIONS = 8 * LONGEST_TEXT
"""Characters of an agent's instructions that a reviewer is shown, about 4,000 tokens: twice the longest policies of the
tau benchmarks. Longer ones lose their middle."""

LONGEST_WRITE = 4 * LONGEST_TEXT
"""Characters of a write or a request in a review: more than either has, unless a run is not meant to be read."""

READ_LENGTHS = (LONGEST_WRITE, 2 * LONGEST_TEXT, LONGEST_TEXT, LONGEST_TEXT // 2, LONGEST_TEXT // 5, LONGEST_TEXT // 20)
"""Characters of a result or reply in a review: the first length with which a run fits is taken."""

Entry = dict[str, Any]


def excerpt(run: Trajectory, *, max_characters: int, number_writes: bool = False) -> list[Entry]:
    """The course of a run for a prompt: an entry for each text, and one for each call with its result, in order.

    Requests and writes stand in full; replies and the results of reads are shortened until the entries have about
    `max_characters` as JSON. Where that is not enough, everything is shortened, and the run loses its middle. System
    messages are left out. With `number_writes`, a write has its number under `write`, the first one 1.
    """
    entries: list[Entry] = []
    for longest in READ_LENGTHS:
        entries = list(_entries(run, longest, number_writes=number_writes))
        if len(compact_json(entries)) <= max_characters:
            return entries
    return _without_middle(shortened_in(entries, LONGEST_TEXT // 2), max_characters)


def _without_middle(entries: list[Entry], max_characters: int) -> list[Entry]:
    """Entries without their middle where there are too many: an entry `left_out` counts what is missing.

    A third of the room is for the beginning.
    """
    sizes = [len(compact_json(entry)) for entry in entries]
    if sum(sizes) <= max_characters:
        return entries
    first, room = 0, max_characters - sizes[-1]
    while first < len(entries) - 1 and (first == 0 or sizes[first] <= room - 2 * max_characters // 3):
        room -= sizes[first]
        first += 1
    last = len(entries) - 1
    while last > first and sizes[last - 1] <= room:
        last -= 1
        room -= sizes[last]
    missing = [{"left_out": f"{last - first} entries"}] if last > first else []
    return [*entries[:first], *missing, *entries[last:]]


def _entries(run: Trajectory, longest: int, *, number_writes: bool) -> Iterator[Entry]:
    effects = mapping_in(run.metadata, EFFECTS)
    writes = count(1)
    for each in woven(enumerate(_with_steps(run.messages)), run.branches):
        agent: Entry = {"agent": each.name} if isinstance(each, Branch) else {}
        for message, steps in _with_steps(each.messages) if isinstance(each, Branch) else [each]:
            part, text = part_of(message), readable(message.get("content"))
            if text.strip() and part not in ("instruction", "observation"):  # which stand apart, and with their calls
                yield {
                    **agent,
                    str(message.get("role")): shortened(text, longest if part == "reply" else LONGEST_WRITE),
                }
            for step in steps:
                if is_read(step.tool, effects, step.arguments):
                    yield {**agent, **_call(step, longest)}
                else:
                    number = {"write": next(writes)} if number_writes else {}
                    yield {**number, **agent, **_call(step, LONGEST_WRITE)}


def _with_steps(messages: Sequence[ChatMessage]) -> list[tuple[ChatMessage, list[Step]]]:
    """Messages, each with the calls that it makes."""
    steps: dict[int, list[Step]] = {}
    for step in steps_in(messages):
        steps.setdefault(step.position, []).append(step)
    return [(message, steps.get(place, [])) for place, message in enumerate(messages)]


def _call(step: Step, longest: int) -> Entry:
    arguments: Any = "unreadable" if step.arguments is None else step.arguments
    if len(written := compact_json(arguments)) > LONGEST_WRITE:
        arguments = shortened(written, LONGEST_WRITE)
    entry = {"call": step.tool, "arguments": arguments}
    if step.outcome is None:
        return {**entry, "result": None}
    failed = {"failed": True} if step.outcome.status == "error" else {}
    return {**entry, **failed, "result": _result(readable(step.outcome.content), longest)}


def _result(text: str, longest: int) -> Any:
    """A result, as data where it is JSON that fits: quoted in a text, it would be hard to read."""
    if len(text) > longest or not text.startswith(("{", "[")):
        return shortened(text, longest)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
