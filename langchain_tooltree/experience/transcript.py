"""Describe a run to a model that has to judge it or learn from it."""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from langchain_tooltree.effects.names import EFFECTS_KEY, is_read
from langchain_tooltree.experience.trajectory import Branch, Trajectory, woven
from langchain_tooltree.messages.content import describe_content
from langchain_tooltree.messages.kinds import ChatMessage, classify_chat_message
from langchain_tooltree.messages.tool_calls import Call, find_calls
from langchain_tooltree.text import (
    LONGEST_TEXT,
    compact_json,
    get_mapping,
    shortened,
    shortened_in,
)

MAX_RUN_CHARACTERS = 24_000
"""About how much of a run a model is shown: 6,000 tokens. All but one of 280 published runs of the tau benchmarks fit
whole."""


LONGEST_INSTRUCTIONS = 8 * LONGEST_TEXT
"""Characters of an agent's instructions that a reviewer is shown, about 4,000 tokens: twice the longest policies of the
tau benchmarks. Longer ones lose their middle."""


LONGEST_WRITE = 4 * LONGEST_TEXT
"""Characters of a write or a request in a review: more than either has, unless a run is not meant to be read."""


READ_LENGTHS = (
    LONGEST_WRITE,
    2 * LONGEST_TEXT,
    LONGEST_TEXT,
    LONGEST_TEXT // 2,
    LONGEST_TEXT // 5,
    LONGEST_TEXT // 20,
)
"""Characters of a result or reply in a review: the first length with which a run fits is taken."""


Entry = dict[str, Any]


def excerpt(
    run: Trajectory, *, max_characters: int, number_writes: bool = False
) -> list[Entry]:
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
    while first < len(entries) - 1 and (
        first == 0 or sizes[first] <= room - 2 * max_characters // 3
    ):
        room -= sizes[first]
        first += 1
    last = len(entries) - 1
    while last > first and sizes[last - 1] <= room:
        last -= 1
        room -= sizes[last]
    missing = [{"left_out": f"{last - first} entries"}] if last > first else []
    return [*entries[:first], *missing, *entries[last:]]


def _entries(run: Trajectory, longest: int, *, number_writes: bool) -> Iterator[Entry]:
    effects = get_mapping(run.metadata, EFFECTS_KEY)
    writes = count(1)
    for each in woven(enumerate(_with_steps(run.messages)), run.branches):
        agent: Entry = {"agent": each.name} if isinstance(each, Branch) else {}
        for message, steps in (
            _with_steps(each.messages) if isinstance(each, Branch) else [each]
        ):
            part, text = (
                classify_chat_message(message),
                describe_content(message.get("content")),
            )
            if text.strip() and part not in (
                "instruction",
                "result",
            ):  # which stand apart, and with their calls
                yield {
                    **agent,
                    str(message.get("role")): shortened(
                        text, longest if part == "response" else LONGEST_WRITE
                    ),
                }
            for step in steps:
                if is_read(step.tool, effects, step.arguments):
                    yield {**agent, **_describe_call(step, longest)}
                else:
                    number = {"write": next(writes)} if number_writes else {}
                    yield {**number, **agent, **_describe_call(step, LONGEST_WRITE)}


def _with_steps(
    messages: Sequence[ChatMessage],
) -> list[tuple[ChatMessage, list[Call]]]:
    """Messages, each with the calls that it makes."""
    steps: dict[int, list[Call]] = {}
    for step in find_calls(messages):
        steps.setdefault(step.position, []).append(step)
    return [(message, steps.get(place, [])) for place, message in enumerate(messages)]


def _describe_call(step: Call, longest: int) -> Entry:
    arguments: Any = "unreadable" if step.arguments is None else step.arguments
    if len(text := compact_json(arguments)) > LONGEST_WRITE:
        arguments = shortened(text, LONGEST_WRITE)
    entry = {"call": step.tool, "arguments": arguments}
    if step.result is None:
        return {**entry, "result": None}
    failed = {"failed": True} if step.result.status == "error" else {}
    return {
        **entry,
        **failed,
        "result": _result(describe_content(step.result.content), longest),
    }


def _result(text: str, longest: int) -> Any:
    """A result, as data where it is JSON that fits: quoted in a text, it would be hard to read."""
    if len(text) > longest or not text.startswith(("{", "[")):
        return shortened(text, longest)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
