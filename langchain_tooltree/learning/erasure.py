"""Forgetting runs: in the records and in all that was made of them, with a report of what could not be reached."""

import json
import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from langgraph.store.base import BaseStore, Item

from langchain_tooltree._langgraph import vacuum_of
from langchain_tooltree.cfgm.focus import FOCUS, forget_focus_points
from langchain_tooltree.cfgm.tips import all_tips, forget_tips
from langchain_tooltree.errors import (
    ConfigurationError,
    TrajectoryFormatError,
    described,
)
from langchain_tooltree.experience.guide import latest_searches
from langchain_tooltree.experience.run_identity import thread_of
from langchain_tooltree.experience.store import (
    HEAD,
    TASKS,
    TRAJECTORIES,
    StoreCall,
    listing,
)
from langchain_tooltree.experience.trajectory import (
    ATTEMPT_OF,
    RECALLED,
    Recall,
    Trajectory,
)
from langchain_tooltree.experience.trajectory_json import from_json
from langchain_tooltree.flows import FunctionStep
from langchain_tooltree.learning.fold import STORING, TIPS, Fold
from langchain_tooltree.sitgraph.files import Which, forget_in_graph
from langchain_tooltree.sitgraph.graph import Graph
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.text import get_mapping

logger = logging.getLogger(__name__)

UNDER_WAY = 60.0
"""Seconds in which a record without an entry, or the other way round, may be a write under way: stores answer in
seconds. Later it is a half that a killed process has left, and goes with the next runs that are forgotten."""

AnyGraph = (
    SITGraph | str | os.PathLike[str]
)  # a graph that somebody holds, or the folder of one


@dataclass(frozen=True, slots=True)
class Erased:
    """What was forgotten, and what could not be.

    Attributes:
        runs: Ids of the runs whose records are gone, failed attempts of searches and halves of records among them.
        tips: How many tips are gone.
        focus_points: How many sets of focus points are gone.
        graphs: Ids of the runs that are gone from graphs: by folder, and by the place of one that was passed.
        shown_to: Ids of the runs that are left and had one of them recalled: what their models wrote may repeat it.
        threads: The threads of the runs that are gone.
        unreached: What may still hold something of them, and what to do about it.
    """

    runs: tuple[str, ...]
    tips: int
    focus_points: int
    graphs: Mapping[str, tuple[str, ...]]
    shown_to: tuple[str, ...]
    threads: tuple[str, ...]
    unreached: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ErasureSelection:
    """Which runs are to be forgotten: those to which all applies that is not `None`, and all where nothing is."""

    runs: frozenset[str] | None = None
    tool: str | None = None
    before: datetime | None = None

    @classmethod
    def of(
        cls,
        run: str | Iterable[str] | None,
        user: Any,
        tool: str | None,
        before: datetime | None,
    ) -> "ErasureSelection":
        """Check the arguments of `forget`."""
        if run is None and user is None and tool is None and before is None:
            msg = "forget() needs to know what: pass run=, user=, tool= or before=; several narrow each other down."
            raise ConfigurationError(msg)
        runs = (
            None if run is None else frozenset([run] if isinstance(run, str) else run)
        )
        for text in (*(runs or ()), "all" if tool is None else tool):
            if not isinstance(text, str) or not text:
                msg = (
                    f"run and tool must be texts that are not empty, got {text!r:.80}."
                )
                raise ConfigurationError(msg)
        if before is not None and (
            not isinstance(before, datetime) or before.tzinfo is None
        ):
            msg = f"before must be a datetime with a time zone, such as datetime.now(UTC), got {before!r:.80}."
            raise ConfigurationError(msg)
        return cls(runs, tool, before)

    @property
    def is_all(self) -> bool:
        """Whether everything in the namespace is to go."""
        return self.runs is None and self.tool is None and self.before is None

    def names(self, run: str) -> bool:
        """Whether a run is one of those that are named: a sub-agent's, and one in a thread of that name, is, too."""
        return self.runs is None or any(
            run == each or run.startswith((f"{each}/", f"{each}~"))
            for each in self.runs
        )

    def takes(self, item: Item) -> bool:
        """Whether a record, or its entry, is to go; no entry says which tools were called."""
        if not self.names(item.key) or (
            self.before is not None and _written_at(item) >= self.before
        ):
            return False
        return self.tool is None or self._calls_tool(item)

    def _calls_tool(self, item: Item) -> bool:
        try:
            run: Trajectory = from_json(_read_record(item), where=item.key)
        except TrajectoryFormatError:  # all words that are in quotes count
            return self.tool in str(item.value.get("record")).replace("\\", "").split(
                '"'
            )
        return any(step.tool == self.tool for step in run.calls)

    def in_graph(self, runs: Collection[str], graph: Graph) -> set[str]:
        """The runs of a graph that are to go: those of the store, and what the graph itself can tell."""
        own: set[str] = set()
        if self.before is None and not self.is_all:
            own = {run for run in graph.runs_with(self.tool) if self.names(run)}
        return {run for run in runs if run in graph} | own


@dataclass(frozen=True, slots=True)
class _Affected:
    runs: set[str]  # to be forgotten
    attempts: set[str]  # those of them that are attempts of searches
    tips: set[str]  # the ids of those that were taken from them
    shown_to: set[str]  # others, which had one of them recalled


async def erase(
    fold: Fold, selection: ErasureSelection, graphs: Sequence[AnyGraph]
) -> Erased:
    """Forget runs of a namespace, as a flow.

    Nobody judges them meanwhile, takes tips, or stores parts of the fold. Graphs come first: where one cannot be read,
    that is raised, and the records still say what is to be forgotten. Parts come last: who writes one looks afterwards
    whether its record is still there.
    """
    claimed = await FunctionStep(fold.claim_all, [TIPS, STORING])
    store, place = fold.store.place
    problems: list[str] = []
    try:
        await fold.refresh(whole=True)
        affected = await _affected(fold, selection)
        claimed += await FunctionStep(fold.claim_all, sorted(affected.runs))
        which = partial(selection.in_graph, affected.runs)
        forget = partial(_erase_in_graphs, [*graphs, fold.graph], which)
        taken: dict[str, tuple[str, ...]] = await FunctionStep(forget, problems)
        taken.pop(str(len(graphs)))  # our own, which the records speak of
        # What was made of the records goes before them: if this is killed, they still say what is to be forgotten.
        # A run whose record went earlier may have left something, too.
        named = (
            selection.runs
            if selection.tool is None and selection.before is None
            else None
        )
        gone = None if selection.is_all else affected.runs | (named or set())
        tips_gone = await forget_tips(fold.store, gone)
        points_gone = await forget_focus_points(fold.store.collection(FOCUS), gone)

        shown = await fold.store.reading(sorted(affected.shown_to))
        what = "which had one of these recalled and cannot be read: forget it, too, or mend it."
        problems += [
            f"The record {run!r}, {what}"
            for run in sorted(affected.shown_to - {each.id for each in shown})
        ]
        for record in shown:
            await fold.store.adding(
                record.with_recall(record.recall.without(affected.runs | affected.tips))
            )
        await fold.store.deleting(sorted(affected.runs))
        if selection.is_all:
            await StoreCall(store, "delete", ((*place, HEAD), HEAD), {})
        fold.store.forget_memory()
        latest_searches.clear()
        await fold.refresh(whole=True)
        await fold.parts.erase()
    finally:
        fold.release(claimed)
    if not (affected.runs or any(taken.values()) or selection.is_all):
        problems.append(
            "Nothing: no run here was meant. `experience.store.trajectories()` lists them."
        )
    threads = tuple(sorted(set(map(thread_of, affected.runs - affected.attempts))))
    unreached = [
        *problems,
        *_unreached(threads, affected.shown_to),
        *(await _vacuum(store, place)),
    ]
    return Erased(
        runs=tuple(sorted(affected.runs)),
        tips=tips_gone,
        focus_points=points_gone,
        graphs=taken,
        shown_to=tuple(sorted(affected.shown_to)),
        threads=threads,
        unreached=tuple(unreached),
    )


async def _affected(fold: Fold, selection: ErasureSelection) -> _Affected:
    store, place = fold.store.place
    items = await listing(store, (*place, TRAJECTORIES))
    entries = await listing(store, (*place, TASKS))
    records = {item.key: _read_record(item) for item in items}
    runs = {item.key for item in items if selection.takes(item)}
    attempts = {
        run
        for run, record in records.items()
        if str(record.get(ATTEMPT_OF) or "") in runs
    }  # a file may lie
    runs |= attempts
    if selection.tool is None:
        runs |= {entry.key for entry in entries if selection.takes(entry)}
    whole = records.keys() & {entry.key for entry in entries}
    earliest = datetime.now(UTC) - timedelta(seconds=UNDER_WAY)
    runs |= {
        item.key
        for item in (*items, *entries)
        if item.key not in whole and _written_at(item) < earliest
    }
    made = Recall(
        (), {tip.id: tip.trajectories for tip in (await all_tips(fold.store))}
    )
    tips_gone = made.gone(runs.__contains__)
    recalls = {
        run: Recall.of_note(get_mapping(each, RECALLED))
        for run, each in records.items()
        if run not in runs
    }
    shown_to = {
        run
        for run, each in recalls.items()
        if each.gone(runs.__contains__) or tips_gone & each.tips.keys()
    }
    return _Affected(runs, attempts, tips_gone, shown_to)


def _erase_in_graphs(
    graphs: Sequence[AnyGraph], which: Which, problems: list[str]
) -> dict[str, tuple[str, ...]]:
    """Take runs out of graphs and of the folders that they know: their ids by place or folder."""
    taken: dict[str, Sequence[str]] = {}
    for place, graph in enumerate(graphs):
        if isinstance(graph, SITGraph):
            saved, unsaved = graph.forget_saved(which)
            problems += unsaved
            taken |= {str(place): graph.remove_all(which), **saved}
        else:
            taken[os.fspath(graph)] = forget_in_graph(graph, which)[0]
    return {name: tuple(runs) for name, runs in taken.items()}


async def _vacuum(store: BaseStore, place: Sequence[str]) -> list[str]:
    """Have a store write its files anew where it can; what to do where it cannot."""
    kind = type(store).__name__
    try:
        if hasattr(store, "vacuum"):
            if await FunctionStep(store.vacuum, place):
                return []
            return [
                "The files of the Chroma server: run `chroma vacuum` there, which rewrites its database."
            ]
        if (vacuum := vacuum_of(store)) is not None:
            await FunctionStep(lambda _: vacuum(), None)
            return []
    except Exception as error:  # noqa: BLE001 - all else is done, and the report says what is not
        logger.warning("%s could not be vacuumed: %s", kind, described(error))
        return [
            f"The files of {kind}, which could not be rewritten ({error}): call forget() again, or its vacuum."
        ]
    if "Postgres" in kind:
        return [
            "Rows that Postgres keeps: `VACUUM FULL store`, `VACUUM FULL store_vectors`; and its write-ahead log."
        ]
    return [f"What {kind} may keep of deleted items in its files: see its manual."]


def _unreached(threads: Sequence[str], shown_to: Collection[str]) -> Iterable[str]:
    if threads:
        calls = f"checkpointer.delete_thread({threads[0]!r}), and so on for all {len(threads)} of `threads`"
        yield f"The host's checkpoints: {calls}. A thread that goes on is recorded again, as a whole."
    if shown_to:
        yield (
            f"What models wrote in {len(shown_to)} runs that had one of these recalled, and what reflections said in "
            "the checkpoints of these: look at `shown_to`."
        )
    yield "Graphs saved elsewhere or held by somebody: pass them, or their folders, as graphs=[...]."
    yield "Backups and snapshots of the store, traces, logs, and files that runs were loaded from or dumped to."
    yield "What model providers keep of the requests in which these runs were made, judged or recalled."


def _written_at(item: Item) -> datetime:
    """When something was last written; where a store does not say the zone, it means UTC."""
    at = item.updated_at
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _read_record(item: Item) -> dict[str, Any]:
    try:
        record = json.loads(item.value["record"])
    except (KeyError, TypeError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
