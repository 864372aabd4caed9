"""What is noted of a run for people who read it: what was suggested, and what was recalled. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    recalled_as,
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


def with_recalled(record: AnyRecord, runs: Iterable[str], tips: Iterable[str]) -> AnyRecord:
    """A conversation that has gone on, with what was recalled in its earlier turns as well."""
    runs = dict.fromkeys([*runs, *recalled_in(record.metadata, "runs")])
    tips = dict.fromkeys([*tips, *recalled_in(record.metadata, "tips")])
    return replace(record, metadata={**record.metadata, **recalled_as(runs, tips)})


def without_recalled(record: AnyRecord, gone: Collection[str]) -> AnyRecord:
    """A run without the ids of runs and tips that are gone, and without what reflections said in view of these.

    They may repeat it. Where nobody has noted what was recalled, as of a run that was interrupted, they may, too.
    """
    kept = {name: value for name, value in record.metadata.items() if name not in (ADVISED, RECALLED)}
    runs, tips = (
        [each for each in recalled_in(record.metadata, kind) if each not in gone] for kind in ("runs", "tips")
    )
    return replace(record, metadata={**kept, RECALLED: {"runs": runs, "tips": tips}})
