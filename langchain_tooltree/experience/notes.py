"""What is noted of a run for people who read it: what was suggested, and what was recalled. Pure."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from langchain_tooltree.experience.records import (
    EXTRAS,
    RECALLED,
    ChatMessage,
    Record,
    beside,
    extras_of,
    part_of,
    recalled_in,
)
from langchain_tooltree.experience.reference import ADVISED, NOTES, SUGGESTED
from langchain_tooltree.text import mapping_in

AnyRecord = TypeVar("AnyRecord", bound=Record)


def notes_of(message: ChatMessage) -> Mapping[str, Any]:
    """What this package has noted beside a message; empty if it has noted nothing."""
    return mapping_in(beside(message), NOTES)


def as_suggested(found: Iterable[tuple[str, float, int]]) -> list[dict[str, Any]]:
    """The note of how past runs went on: tools with their shares in [0, 1], and how many runs speak for each."""
    return [{"tool": tool, "share": round(share, 2), "runs": runs} for tool, share, runs in found]


def with_suggested(
    messages: Iterable[tuple[Any, ChatMessage]], suggested: Mapping[Any, Sequence[Mapping[str, Any]]]
) -> Iterator[ChatMessage]:
    """Messages with what was suggested after some of them, by their keys, noted beside the replies that followed."""
    told: Any = suggested.get(None)
    for key, message in messages:
        if told and part_of(message) == "reply":
            noted = {**beside(message), NOTES: {SUGGESTED: told, **notes_of(message)}}
            yield {**message, EXTRAS: {**extras_of(message), "response_metadata": noted}}
            told = None
        else:
            yield message
        told = suggested.get(key, told)


TipRuns = Iterable[tuple[str, Iterable[str]]]
"""The ids of tips, each with those of the runs that it was taken of."""


def with_recalled(record: AnyRecord, runs: Iterable[str], tips: Iterable[str], taken: TipRuns) -> AnyRecord:
    """A conversation that has gone on, with what was recalled in its earlier turns as well."""
    runs = list(dict.fromkeys([*runs, *recalled_in(record.metadata, "runs")]))
    tips = list(dict.fromkeys([*tips, *recalled_in(record.metadata, "tips")]))
    if not runs and not tips:
        return record
    noted = {"runs": runs, "tips": tips, **_taken([*taken, *taken_in(record.metadata)])}
    return replace(record, metadata={**record.metadata, RECALLED: noted})


TAKEN_OF = "taken_of"
"""Key beside the ids of recalled tips: the runs that each was taken of. Others may stand in its place in the store by
the time these are forgotten."""


def recall_noted(runs: Iterable[str], tips: TipRuns) -> dict[str, Any]:
    """The metadata of a run for which past runs were looked for: they say so where none was found, too."""
    taken = _taken(tips)
    return {RECALLED: {"runs": list(runs), "tips": list(taken.get(TAKEN_OF, ())), **taken}}


def _taken(tips: TipRuns) -> dict[str, Any]:
    taken = {tip: list(runs) for tip, runs in tips}
    return {TAKEN_OF: taken} if taken else {}


def taken_in(metadata: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The tips that were recalled for a run, with the runs that they were taken of, by its metadata."""
    for tip, runs in mapping_in(mapping_in(metadata, RECALLED), TAKEN_OF).items():
        yield str(tip), tuple(map(str, runs)) if isinstance(runs, list | tuple) else ()


def gone_among(runs: Iterable[str], tips: TipRuns, is_gone: Callable[[str], bool]) -> set[str]:
    """The ids of what is gone of runs and tips: a tip is, with any run that it was taken of, whatever the others."""
    return {run for run in runs if is_gone(run)} | {tip for tip, of in tips if any(map(is_gone, of))}


def gone_in(metadata: Mapping[str, Any], is_gone: Callable[[str], bool]) -> set[str]:
    """The ids of what is gone of that which was recalled for a run, by its metadata."""
    return gone_among(recalled_in(metadata, "runs"), taken_in(metadata), is_gone)


def known_by(metadata: Mapping[str, Any]) -> list[str]:
    """The ids of the runs on which all that was recalled for a run rests, by its metadata; empty if nothing was."""
    return list(dict.fromkeys([*recalled_in(metadata, "runs"), *(run for _, of in taken_in(metadata) for run in of)]))


def without_gone(record: AnyRecord, there: Container[str]) -> AnyRecord:
    """A run that has ended, without what it has of runs that went since they, or tips of them, were recalled for it."""
    gone = gone_in(record.metadata, lambda run: run not in there)
    return without_recalled(record, gone) if gone else record


def without_recalled(record: AnyRecord, gone: Collection[str]) -> AnyRecord:
    """A run without the ids of runs and tips that are gone, and without what reflections said in view of these.

    They may repeat it. Where nobody has noted what was recalled, as of a run that was interrupted, they may, too.
    """
    gone = {*gone, *gone_in(record.metadata, gone.__contains__)}
    kept = {name: value for name, value in record.metadata.items() if name not in (ADVISED, RECALLED)}
    runs, tips = (
        [each for each in recalled_in(record.metadata, kind) if each not in gone] for kind in ("runs", "tips")
    )
    taken = _taken((tip, of) for tip, of in taken_in(record.metadata) if tip not in gone)
    return replace(record, metadata={**kept, RECALLED: {"runs": runs, "tips": tips, **taken}})
