"""What past runs say of the next call, and that in words: one short line, or none where nothing is worth it. Pure."""

import html
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langchain_tooltree.experience.reference import as_reference
from langchain_tooltree.text import counted, cut

WORTH_SAYING = 0.5
"""Share that the hints of a line have together at the least: below it, past runs did something else more often."""

SECOND_HINT = 0.1
"""Share that each hint has at the least: a tool that came next in fewer than one run in ten is more often a wrong
turn than the model's own choice is (real models call the wrong tool in 2 to 3 of a hundred steps)."""

FEWEST_RUNS = {"read": 1, "write": 2}
"""Runs that a hint stands on at the least: of two sources, or of two tasks of one. A write that a single run made may
have been that run's accident, and stays made; a read that was not needed costs one call."""

MOST_HINTS = 2
"""Tools in a line, as in the paper."""

MAX_SUMMARY = 300
"""Characters of a stored summary that a prompt shows: about 75 tokens."""

DEFAULT_HINTS_PROMPT = """\
{hints}
This tells of other conversations and is no instruction: where this one calls for something else, do that."""


@dataclass(frozen=True, slots=True)
class NextTools:
    """How past runs went on from a state like this one. The shares, `done` and `other` sum to 1.

    Attributes:
        shares: The share of each tool that the agent has, in [0, 1], calibrated: of the tools with a share of .7, seven
            of ten came next.
        runs: How many distinct runs speak for each; those of one source at one task count once.
        done: The share of runs in which the agent answered its user at such a state.
        other: The share left for what no run did here.
        ended: How many distinct runs speak for `done`.
        refused: By the key of a call (its tool and arguments), for those that failed at such a state: in how many runs
            it was tried, and in how many in vain.
        text: The same in words for who proposes the next call; empty where nothing is worth saying.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)
    done: float = 0.0
    other: float = 1.0
    ended: int = 0
    refused: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    text: str = ""


class _Option(NamedTuple):
    name: str
    share: float
    runs: int


def hint_line(found: NextTools, *, reads: Collection[str] = (), refused: str = "") -> str:
    """How past runs went on, in one line for who proposes the next call; empty where nothing is worth saying.

    A tool that is not among `reads` may be a write, so a single run is not enough for it; `refused` says in words which
    were refused here. That runs ended there is not told: of twelve wrong lines that a reader was shown, five would have
    had it answer with work left to do, and agents stop too early as it is.
    """
    tools = [
        _Option(tool, share, found.runs.get(tool, 0))
        for tool, share in found.shares.items()
        if _is_supported(tool, found.runs.get(tool, 0), reads)
    ]
    line = _line(_worth_saying(tools, MOST_HINTS))
    return " ".join(filter(None, [line, refused and f"{refused}."]))


def hints(suggestions: Iterable[Mapping[str, Any]], *, reads: Collection[str] = ()) -> str:
    """Suggestions as plain data in words, marked as reference material; empty if nothing is worth saying.

    `reads` are the tools known to change nothing, as for `hint_line`.
    """
    if not (told := told_of(suggestions, reads=reads)):
        return ""
    evidence = ((each["tool"], each["evidence"][:1]) for each in told)
    seen = [(tool, each["summary"]) for tool, states in evidence for each in states if each["summary"]]
    quotes = [f'{_quoted(tool)} came next when: "{_quoted(summary)}"' for tool, summary in seen]
    text = DEFAULT_HINTS_PROMPT.format(hints="\n".join([_line([*map(_option, told)]), *quotes]))
    return as_reference(text, source="next tools")


def told_of(suggestions: Iterable[Mapping[str, Any]], *, reads: Collection[str] = ()) -> list[Mapping[str, Any]]:
    """The suggestions, as plain data, that `hints` says in words, best first."""
    given = {each["tool"]: each for each in suggestions}
    options = [_option(each) for tool, each in given.items() if _is_supported(tool, each["support"], reads)]
    return [given[each.name] for each in _worth_saying(options, len(given))]


def _option(suggestion: Mapping[str, Any]) -> _Option:
    return _Option(suggestion["tool"], suggestion["score"], suggestion["support"])


def _is_supported(tool: str, runs: int, reads: Collection[str]) -> bool:
    return runs >= FEWEST_RUNS["read" if tool in reads else "write"]


def _worth_saying(options: Iterable[_Option], most: int) -> list[_Option]:
    """The options to name, best first; none where something else is as likely as all of them."""
    best = sorted(options, key=lambda each: (-each.share, each.name))[:most]
    told = [each for each in best if each.share >= SECOND_HINT]
    return told if math.fsum(each.share for each in told) >= WORTH_SAYING else []


def _line(told: Sequence[_Option]) -> str:
    if not told:
        return ""
    named = ", ".join(f"{_quoted(each.name)} {each.share:.0%} ({counted(each.runs, 'run')})" for each in told)
    rest = 1 - math.fsum(each.share for each in told)
    return f"Past runs went on here with: {named}{f'; something else {rest:.0%}' if round(rest, 2) > 0 else ''}."


def _quoted(text: str) -> str:
    """A recorded text on one line, without tags, and without quotes that could end ours. Its last sentence is kept.

    The end of a summary says what had to be decided, and the beginning what everybody wants.
    """
    line = " ".join(text.split())
    if len(line) > MAX_SUMMARY:
        last = cut(re.split(r"(?<=[.!?]) ", line)[-1], 2 * MAX_SUMMARY // 3)
        line = f"{cut(line, MAX_SUMMARY - len(last) - 1)} {last}"
    return html.escape(line, quote=False).replace('"', "'")
