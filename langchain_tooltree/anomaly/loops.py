"""Loops: calls that are made again and again and bring nothing new. Pure."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice, takewhile
from typing import Any

from langchain_tooltree.anomaly.phrases import phrase_book
from langchain_tooltree.anomaly.rules import Anomaly, AnomalyKind, ObservedCall, rendered
from langchain_tooltree.experience.records import Step

PERIODS = (1, 2, 3, 4)
"""Lengths of cycles, in calls. A longer one would count after 15 calls at the earliest, too late to be of help."""

STAGNATION_BEYOND = 2  # calls more than a repetition takes: other arguments with one outcome may be a search
LONGEST_ACKNOWLEDGEMENT = 160  # characters of an outcome that only confirms; a longer one brings something


def loop_in(steps: Iterator[Step], *, repeats: int, pollers: Sequence[str]) -> Anomaly | None:
    """The loop that the latest call is part of, in answered calls, latest first.

    Pollers are exempt, and so is a cycle that contains one.
    """
    calls = list(islice(steps, max(PERIODS) + 1))
    if not calls or _is_poller(calls[0], pollers):
        return None
    alike = any(_content(call) == _content(calls[0]) for call in calls[1:2])
    if not alike and not any(_same(call, calls[0]) for call in calls[2:]):
        return None  # a conversation that goes well is read no further
    calls.extend(islice(steps, 2 * repeats * max(PERIODS) - len(calls)))  # as many as the longest cycle takes
    return _cycle(calls, repeats, pollers) or _stagnation(calls, repeats, pollers)


def acknowledges(text: str) -> bool:
    """Whether an outcome is empty, a bare value or a short statement of success; that there is nothing is none."""
    if len(text) > LONGEST_ACKNOWLEDGEMENT:
        return False
    says = phrase_book().patterns
    confirms = says["acknowledged"].search(text) and not says["negative"].search(text)
    return bool(confirms or says["bare"].fullmatch(text))


def _cycle(calls: Sequence[Step], repeats: int, pollers: Sequence[str]) -> Anomaly | None:
    """The same call, or the same calls, again and again with the same outcomes."""
    for period in PERIODS:
        turn = calls[:period]
        if any(_is_poller(step, pollers) for step in turn):
            return None
        # An agent that fills a row of pots gets the same words each time, and rightly goes on.
        fills = period > 1 and all(acknowledges(ObservedCall(step).text) for step in turn)
        times = repeats * 2 if fills else repeats
        if len(calls) >= times * period and all(map(_same, calls[period : times * period], calls)):
            shown = ", ".join(ObservedCall(step).call for step in reversed(turn))
            outcome = ObservedCall(turn[0]).quoted or "nothing"
            evidence = f"{shown} came {times} times in a row and brought the same each time, at last {outcome}."
            kind: AnomalyKind = "repetition" if period == 1 else "cycle"
            return ObservedCall(turn[0]).anomaly(kind, evidence, 0.9, recoverable=True)
    return None


def _stagnation(calls: Sequence[Step], repeats: int, pollers: Sequence[str]) -> Anomaly | None:
    """Different calls with the same outcome; those of one message count, but did not know of each other."""
    needed, latest = repeats + STAGNATION_BEYOND, ObservedCall(calls[0])
    alike = list(
        takewhile(
            lambda call: _content(call) == _content(calls[0]) and not _is_poller(call, pollers), calls[: 2 * needed]
        )
    )
    for times in range(needed, len(alike) + 1):
        same = alike[:times]
        if len({step.turn for step in same}) < repeats or all(_same_call(call, calls[0]) for call in same):
            continue
        if acknowledges(latest.text):
            return None
        different = list(dict.fromkeys(ObservedCall(step).call for step in reversed(same)))
        shown = f"{', '.join(different[:3])}{', …' if len(different) > 3 else ''}"  # noqa: PLR2004 - examples
        evidence = f"{times} calls in a row ({shown}) brought the same: {latest.quoted or 'nothing'}."
        return latest.anomaly("stagnation", evidence, 0.75, recoverable=True)
    return None


def _is_poller(step: Step, pollers: Sequence[str]) -> bool:
    """Whether a call may be made again and again; a pattern names a tool, or a call as `rendered` writes it."""
    return any(fnmatchcase(rendered(step) if "(" in pattern else step.tool, pattern) for pattern in pollers)


def _content(step: Step) -> Any:
    return step.outcome.content if step.outcome is not None else None


def _same(one: Step, other: Step) -> bool:
    return _same_call(one, other) and _content(one) == _content(other)


def _same_call(one: Step, other: Step) -> bool:
    return one.tool == other.tool and one.arguments == other.arguments
