"""Loops: calls that are made again and again and bring nothing new. Pure.

The calls come latest first and are looked at one by one, so that a conversation that goes well costs one comparison.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from itertools import islice
from typing import Any, Literal

from langchain_tooltree.cfgm.anomaly.phrases import said
from langchain_tooltree.experience.records import Step

PERIODS = (2, 3, 4)
"""Lengths of cycles, in calls. A longer one would count after 15 calls at the earliest, too late to be of help."""

STAGNATION_BEYOND = 2
"""Calls that stagnation takes more than a repetition: other arguments with one outcome may be a search."""

LONGEST_ACKNOWLEDGEMENT = 160
"""Characters of an outcome that only confirms; a longer one brings something."""

_NEGATIVE = re.compile(
    r"\b(?:no|not|nothing|none|nobody|nowhere|never|without|empty|zero|0|unchanged|same|cannot)\b|n't\b|"
    r"^\s*(?:\[\s*\]|\{\s*\})\s*$",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"[\s\"'.]*(?:(?:none|null|nil|undefined|true|false|yes|[-+]?[\d.,]+(?:e[-+]?\d+)?)[\s\"'.]*)?", re.IGNORECASE
)
"""No word at all, or a bare value."""

_ACKNOWLEDGED = re.compile(
    r"""\b(?:ok|okay|done|success|successful|successfully|succeeded|complete|ack|fine|thanks|now|roger|received)\b
      | \b(?!need|feed|seed|bed|red|speed|weed|shed)\w+ed\b                      # opened, added, turned
      | \b(?:sent|set|put|made|taken|bought|sold|paid|written|given|gone|built|cut|run|begun|drawn|thrown|shut)\b
      | ^\W*(?:you|agent|robot|i)\s+(?!see\b|find\b|hear\b|notice\b|are\b|have\b|feel\b|can\b)\w+  # you go, you take
    """,
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop at the end of a conversation: one turn of it, in order, and how often it came.

    Of stagnation, `steps` has all of the calls.
    """

    kind: Literal["repetition", "cycle", "stagnation"]
    steps: tuple[Step, ...]
    times: int


class Pollers:
    """Calls that may be made again and again: names of tools, or calls as `rendered` writes them, as `act(wait*)`."""

    def __init__(self, patterns: Iterable[str]) -> None:
        given = tuple(patterns)
        self._names = [re.compile(translate(pattern)) for pattern in given if "(" not in pattern]
        self._calls = [re.compile(translate(pattern)) for pattern in given if "(" in pattern]

    def __contains__(self, step: Step) -> bool:
        """Whether a call is one of them."""
        if any(pattern.match(step.tool) for pattern in self._names):
            return True
        return bool(self._calls) and any(pattern.match(rendered(step)) for pattern in self._calls)


def rendered(step: Step) -> str:
    """A call as text: `tool(value, value)`, texts as they are and other values as JSON, in the order of the call."""
    arguments = step.arguments or {}
    values = (value if isinstance(value, str) else json.dumps(value, default=str) for value in arguments.values())
    return f"{step.tool}({', '.join(values)})"


def loop_in(steps: Iterable[Step], *, repeats: int, pollers: Pollers) -> Loop | None:
    """The loop that the latest call is part of, in answered calls, latest first.

    Pollers are exempt, and so is a cycle that contains one.
    """
    window = _Window(iter(steps))
    latest = window[0]
    if latest is None or latest in pollers:
        return None
    return (
        _repetition(window, latest, repeats)
        or _cycle(window, repeats, pollers)
        or _stagnation(window, latest, repeats + STAGNATION_BEYOND, repeats, pollers)
    )


def acknowledges(text: str) -> bool:
    """Whether an outcome says no more than that something was done, as writes do.

    It is empty, a bare value, or a short statement of success. A statement that there is nothing is none.
    """
    if len(text) > LONGEST_ACKNOWLEDGEMENT:
        return False
    return bool(_BARE.fullmatch(text)) or (bool(_ACKNOWLEDGED.search(text)) and not _NEGATIVE.search(text))


class _Window:
    """Calls, read as far as they are asked for."""

    def __init__(self, steps: Iterator[Step]) -> None:
        self._rest = steps
        self._read: list[Step] = []

    def __getitem__(self, place: int) -> Step | None:
        if place >= len(self._read):
            self._read.extend(islice(self._rest, place + 1 - len(self._read)))
        return self._read[place] if place < len(self._read) else None


def _repetition(window: _Window, latest: Step, repeats: int) -> Loop | None:
    times = 1
    while times < repeats and (earlier := window[times]) is not None and _same(earlier, latest):
        times += 1
    return Loop("repetition", (latest,), times) if times >= repeats else None


def _cycle(window: _Window, repeats: int, pollers: Pollers) -> Loop | None:
    for period in PERIODS:
        earlier = window[period]
        if earlier is None:
            return None
        if not _same(earlier, window[0]):
            continue
        turn = [step for place in reversed(range(period)) if (step := window[place]) is not None]
        if all(_same(step, turn[0]) for step in turn) or any(step in pollers for step in turn):
            continue
        # An agent that fills a row of pots gets the same words each time, and rightly goes on.
        needed = repeats * 2 if all(acknowledges(said(_content(step))) for step in turn) else repeats
        if all(_same(window[place], window[place % period]) for place in range(period, needed * period)):
            return Loop("cycle", tuple(turn), needed)
    return None


def _stagnation(window: _Window, latest: Step, needed: int, turns: int, pollers: Pollers) -> Loop | None:
    """Different calls with the same outcome; those of one message count, but did not know of each other."""
    calls = [latest]
    while (earlier := window[len(calls)]) is not None and len(calls) < needed * 2:
        if _content(earlier) != _content(latest) or earlier in pollers:
            break
        calls.append(earlier)
        enough = len(calls) >= needed and len({step.turn for step in calls}) >= turns
        if enough and not all(_same_call(call, latest) for call in calls[1:]):
            return None if acknowledges(said(_content(latest))) else Loop("stagnation", tuple(calls[::-1]), len(calls))
    return None


def _content(step: Step) -> Any:
    return step.outcome.content if step.outcome is not None else None


def _same(one: Step | None, other: Step | None) -> bool:
    return one is not None and other is not None and _same_call(one, other) and _content(one) == _content(other)


def _same_call(one: Step, other: Step) -> bool:
    return one.tool == other.tool and one.arguments == other.arguments
