"""What stands beside messages and records for people: suggestions, and which runs and tips were recalled. Pure."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from langchain_tooltree.experience.records import RECALLED, ChatMessage, Record, metadata_of, recalled_in
from langchain_tooltree.experience.reference import NOTES
from langchain_tooltree.text import mapping_in

AnyRecord = TypeVar("AnyRecord", bound=Record)

SOURCES = "sources"
"""Key beside the ids of recalled tips: the runs that each was taken from. Other tips may stand in the store by the time
these runs are forgotten."""

TipSources = Iterable[tuple[str, Iterable[str]]]
"""The ids of tips, each with those of the runs that it was taken from."""


def notes_of(message: ChatMessage) -> Mapping[str, Any]:
    """What this package has noted beside a message; empty if it has noted nothing."""
    return mapping_in(metadata_of(message), NOTES)


def suggestion_notes(suggestions: Iterable[tuple[str, float, int]]) -> list[dict[str, Any]]:
    """The note of how past runs went on: tools with their shares in [0, 1], and how many runs speak for each."""
    return [{"tool": tool, "share": round(share, 2), "runs": runs} for tool, share, runs in suggestions]


def recall_metadata(runs: Iterable[str], tips: TipSources) -> dict[str, Any]:
    """The metadata of a run for which past runs were looked for: they say so where there were none, too."""
    sources = {tip: list(of) for tip, of in tips}
    known = {tip: of for tip, of in sources.items() if of}
    return {RECALLED: {"runs": list(runs), "tips": list(sources), **({SOURCES: known} if known else {})}}


def tip_sources(metadata: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The tips that were recalled for a run, with the runs that they were taken from, by its metadata."""
    for tip, runs in mapping_in(mapping_in(metadata, RECALLED), SOURCES).items():
        yield str(tip), tuple(map(str, runs)) if isinstance(runs, list | tuple) else ()


def joint_recall(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """What was recalled at two times, as `recall_metadata` notes each; empty if nothing was, or was looked for."""
    if not earlier and not later:
        return {}
    runs, tips = (dict.fromkeys([*earlier.get(kind, ()), *later.get(kind, ())]) for kind in ("runs", "tips"))
    of = {**mapping_in(earlier, SOURCES), **mapping_in(later, SOURCES)}
    return dict(recall_metadata(runs, ((tip, of.get(tip, ())) for tip in tips))[RECALLED])


def with_recalled(record: AnyRecord, runs: Iterable[str], tips: Iterable[str], sources: TipSources) -> AnyRecord:
    """A conversation that has gone on, with what was recalled in its earlier turns as well."""
    of = {tip: list(each) for tip, each in sources}
    earlier = recall_metadata(runs, ((tip, of.get(tip, ())) for tip in tips))[RECALLED]
    recalled = joint_recall(earlier, mapping_in(record.metadata, RECALLED))
    if not recalled["runs"] and not recalled["tips"]:
        return record
    return replace(record, metadata={**record.metadata, RECALLED: recalled})


def forgotten_ids(runs: Iterable[str], tips: TipSources, is_gone: Callable[[str], bool]) -> set[str]:
    """The ids of what is gone of runs and tips: a tip is, with any run that it was taken from, whatever the others."""
    return {run for run in runs if is_gone(run)} | {tip for tip, of in tips if any(map(is_gone, of))}


def forgotten_in(metadata: Mapping[str, Any], is_gone: Callable[[str], bool]) -> set[str]:
    """The ids of what is gone of that which was recalled for a run, by its metadata."""
    return forgotten_ids(recalled_in(metadata, "runs"), tip_sources(metadata), is_gone)


def without_gone(record: AnyRecord, present: Container[str]) -> AnyRecord:
    """A run that has ended, without what it has of runs that went since they, or tips of them, were recalled for it."""
    gone = forgotten_in(record.metadata, lambda run: run not in present)
    return without_recalled(record, gone) if gone else record


def without_recalled(record: AnyRecord, gone: Collection[str]) -> AnyRecord:
    """A run without the ids of runs and tips that are gone."""
    gone = {*gone, *forgotten_in(record.metadata, gone.__contains__)}
    runs = [run for run in recalled_in(record.metadata, "runs") if run not in gone]
    of = dict(tip_sources(record.metadata))
    tips = [tip for tip in recalled_in(record.metadata, "tips") if tip not in gone]
    recalled = recall_metadata(runs, ((tip, of.get(tip, ())) for tip in tips))
    return replace(record, metadata={**record.metadata, **recalled})
