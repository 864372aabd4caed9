"""Forgetting runs: in the records and in all that was made of them, with a report of what could not be reached."""

import json
import logging
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from langgraph.store.base import BaseStore, Item, SearchItem

from langchain_tooltree._langgraph import vacuum_of
from langchain_tooltree.cfgm import tips
from langchain_tooltree.cfgm.collect import FOCUS, forget_focus_points
from langchain_tooltree.errors import ConfigurationError, TrajectoryFormatError, described
from langchain_tooltree.experience.files import from_json
from langchain_tooltree.experience.guide import kept_searches
from langchain_tooltree.experience.run_identity import is_in, thread_of
from langchain_tooltree.experience.store import HEAD, TASKS, TRAJECTORIES, StoreCall, listing
from langchain_tooltree.experience.trajectory import ATTEMPT_OF, RECALLED, Recall, Trajectory
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.learning.fold import KEEPING, TIPS, Fold
from langchain_tooltree.sitgraph.files import Which, forget_in_graph
from langchain_tooltree.sitgraph.graph import Graph
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.text import mapping_in

logger = logging.getLogger(__name__)

UNDER_WAY = 60.0
"""Seconds in which a record without an entry, or the other way round, may be a write under way: stores answer in
seconds. Later it is a half that a killed process has left."""

AnyGraph = SITGraph | str | os.PathLike[str]
"""A graph that somebody holds, or the folder of one."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What was forgotten, and what could not be.

    Attributes:
        runs: Ids of the runs whose records are gone, failed attempts of searches among them.
        halves: Ids of records without an entry, or the other way round, that earlier releases or killed processes left.
        tips: How many tips are gone.
        focus_points: How many sets of focus points are gone.
        graphs: Ids of the runs that are gone from the folder of each graph, and from each that was given, by its place.
        shown_to: Ids of the runs that are left and had one of them recalled: what their models wrote may repeat it.
        threads: The threads of the runs that are gone.
        unreached: What may still hold something of them, and what to do about it.
    """

    runs: tuple[str, ...]
    halves: tuple[str, ...]
    tips: int
    focus_points: int
    graphs: Mapping[str, tuple[str, ...]]
    shown_to: tuple[str, ...]
    threads: tuple[str, ...]
    unreached: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which runs are to be forgotten: those that fulfil all that is said, and all of them where nothing is."""

    runs: frozenset[str] | None = None
    tool: str | None = None
    before: datetime | None = None

    @classmethod
    def of(cls, run: str | Iterable[str] | None, user: Any, tool: str | None, before: datetime | None) -> "Chosen":
        """Check what somebody has asked for."""
        if run is None and user is None and tool is None and before is None:
            msg = "forget() needs to know what: pass run=, user=, tool= or before=; several narrow each other down."
            raise ConfigurationError(msg)
        runs = None if run is None else frozenset([run] if isinstance(run, str) else run)
        for name, given in (*(("run", each) for each in runs or ()), ("tool", tool)):
            if given is not None and (not isinstance(given, str) or not given):
                msg = f"{name} must be a text that is not empty, got {given!r:.80}."
                raise ConfigurationError(msg)
        if before is not None and (not isinstance(before, datetime) or before.tzinfo is None):
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
            is_in(run, each) or run.startswith((f"{each}/", f"{each}~")) for each in self.runs
        )

    def takes(self, item: Item, written: str) -> bool:
        """Whether a record, or what else stands in the store as a JSON text, is to go."""
        if not self.names(item.key):
            return False
        if self.before is not None and _moment(item) >= self.before:
            return False
        return self.tool is None or self.tool in _tools(written, item.key)

    def in_graph(self, found: Collection[str], graph: Graph) -> set[str]:
        """The runs of a graph that are to go: those found in the store, and what the graph itself can tell."""
        own: set[str] = set()
        if self.before is None and not self.is_all:
            own = {run for run in graph.runs_with(self.tool) if self.names(run)}
        return {run for run in found if run in graph} | own


def erasing(fold: Fold, chosen: Chosen, graphs: Sequence[AnyGraph]) -> Flow[Erased]:
    """Forget runs of a namespace, as a flow.

    Nobody judges them meanwhile, takes tips, or writes segments. Graphs come first: where one cannot be read, that is
    raised, and the records still say what is to be forgotten. Segments come last: who writes one looks afterwards
    whether the records are still there.
    """
    claimed = yield FunctionStep(fold.claim_all, [TIPS, KEEPING])
    try:
        yield from fold.refresh(whole=True)
        found = yield from _found(fold, chosen)
        claimed += yield FunctionStep(fold.claim_all, sorted(found.runs))
        taken, problems = yield from _without_in_graphs([*graphs, fold.graph], partial(chosen.in_graph, found.all))
        taken.pop(str(len(graphs)))  # our own, which the records speak of
        # What was made of the records goes before them: if this is killed, they still say what is to be forgotten.
        tips_gone, points_gone = yield from _without_made(fold, chosen, found.all)
        shown = yield from fold.store.reading(sorted(found.shown_to))
        what = "which had one of these recalled and cannot be read: forget it, too, or mend it."
        problems += [f"The record {run!r}, {what}" for run in sorted(found.shown_to - {each.id for each in shown})]
        for record in shown:
            yield from fold.store.adding(record.with_recall(record.recall.without(found.all | found.tips)))
        yield from fold.store.deleting(sorted(found.all))
        yield from _clear(fold, chosen)
        fold.store.forget_memory()
        kept_searches.clear()
        yield from fold.refresh(whole=True)
        yield from fold.segments.erase(fold.entries)
    finally:
        fold.release(claimed)
    threads = sorted(set(map(thread_of, found.runs - found.attempts)))
    if not (found.all or any(taken.values()) or chosen.is_all):
        meant = yield from _meant(fold, chosen)
        problems.append(f"Nothing: no run here is what was said.{meant} `experience.store.trajectories()` lists them.")
    unreached = [*problems, *_unreached(threads, found), *(yield from _vacuumed(*fold.store.place))]
    return Erased(
        runs=tuple(sorted(found.runs)),
        halves=tuple(sorted(found.halves)),
        tips=tips_gone,
        focus_points=points_gone,
        graphs=taken,
        shown_to=tuple(sorted(found.shown_to)),
        threads=tuple(threads),
        unreached=tuple(unreached),
    )


@dataclass(frozen=True, slots=True)
class _Affected:
    runs: set[str]  # to be forgotten
    attempts: set[str]  # those of them that are attempts of searches
    halves: set[str]  # records without an entry, or the other way round
    tips: set[str]  # the ids of those that were taken of them
    shown_to: set[str]  # others, which had one of them recalled

    @property
    def all(self) -> set[str]:
        return self.runs | self.halves


def _found(fold: Fold, chosen: Chosen) -> Flow[_Affected]:
    store, place = fold.store.place
    records = yield from listing(store, (*place, TRAJECTORIES))
    entries = yield from listing(store, (*place, TASKS))
    runs = {item.key for item in records if chosen.takes(item, _written(item))}
    about = {item.key: _object(_written(item)) for item in records}
    attempts = {run for run, said in about.items() if str(said.get(ATTEMPT_OF) or "") in runs}  # a file may lie
    runs |= attempts
    if chosen.tool is None:
        runs |= {item.key for item in entries if chosen.takes(item, "")}
    both = {item.key for item in records} & {item.key for item in entries}
    since = time.time() - UNDER_WAY
    lone = [item for item in (*records, *entries) if item.key not in both]
    halves = {item.key for item in lone if _moment(item).timestamp() < since or item.key in runs}
    taken = Recall((), {tip.id: tip.trajectories for tip in (yield from tips.all_tips(fold.store))})
    made = taken.gone(runs.__contains__)
    recalls = {run: Recall.of_note(mapping_in(said, RECALLED)) for run, said in about.items() if run not in runs}
    shown = {run for run, recall in recalls.items() if recall.gone(runs.__contains__) or made & recall.tips.keys()}
    return _Affected(runs & both, attempts, halves, made, shown)


def _meant(fold: Fold, chosen: Chosen) -> Flow[str]:
    """Which run each name begins, where it is the beginning of a single one's id; empty where there is none."""
    store, place = fold.store.place
    ids = [item.key for item in (yield from listing(store, (*place, TRAJECTORIES)))]
    begun = {name: [run for run in ids if run.startswith(name) and run != name] for name in sorted(chosen.runs or ())}
    return "".join(
        f" {name!r} is the beginning of one run's id: {run[0]!r}." for name, run in begun.items() if len(run) == 1
    )


def _without_in_graphs(graphs: Sequence[AnyGraph], which: Which) -> Flow[tuple[dict[str, tuple[str, ...]], list[str]]]:
    """Take runs out of graphs and of the folders that they know: their ids by place or folder, and problems."""
    taken: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for place, graph in enumerate(graphs):
        if isinstance(graph, SITGraph):
            saved, unsaved = yield FunctionStep(graph.forget_saved, which)
            gone = {str(place): (yield FunctionStep(graph.remove_all, which)), **saved}
            problems += unsaved
        else:
            gone = {os.fspath(graph): (yield FunctionStep(partial(forget_in_graph, graph), which))[0]}
        taken |= {name: tuple(runs) for name, runs in gone.items()}
    return taken, problems


def _without_made(fold: Fold, chosen: Chosen, found: set[str]) -> Flow[tuple[int, int]]:
    """Delete the tips and the focus points that were made of runs; how many there were."""
    # A run whose record went earlier may have left something, too.
    named = chosen.runs if chosen.tool is None and chosen.before is None else None
    gone = None if chosen.is_all else found | (named or set())
    tips_gone = yield from tips.forget_tips(fold.store, gone)
    return tips_gone, (yield from forget_focus_points(fold.store.collection(FOCUS), gone))


def _clear(fold: Fold, chosen: Chosen) -> Flow[None]:
    """Delete the head where all is to go."""
    store, place = fold.store.place
    for item in (yield from listing(store, (*place, HEAD))) if chosen.is_all else ():
        yield StoreCall(store, "delete", (item.namespace, item.key), {})


def _vacuumed(store: BaseStore, place: Sequence[str]) -> Flow[list[str]]:
    """Have a store write its files anew where it can; what to do where it cannot."""
    kind = type(store).__name__
    try:
        if hasattr(store, "vacuum"):
            if (yield FunctionStep(store.vacuum, place)):
                return []
            return ["The files of the Chroma server: run `chroma vacuum` there, which rewrites its database."]
        if (vacuum := vacuum_of(store)) is not None:
            yield FunctionStep(lambda _: vacuum(), None)
            return []
    except Exception as error:  # noqa: BLE001 - all else is done, and the report says what is not
        logger.warning("%s could not be vacuumed: %s", kind, described(error))
        return [f"The files of {kind}, which could not be rewritten ({error}): call forget() again, or its vacuum."]
    if "Postgres" in kind:
        return ["Rows that Postgres keeps: `VACUUM FULL store`, `VACUUM FULL store_vectors`; and its write-ahead log."]
    return [f"What {kind} may keep of deleted items in its files: see its manual."]


def _unreached(threads: Sequence[str], found: _Affected) -> Iterable[str]:
    if threads:
        calls = ", ".join(f"checkpointer.delete_thread({thread!r})" for thread in threads[:3])
        more = f", and so on for all {len(threads)} of `threads`" if len(threads) > 3 else ""  # noqa: PLR2004 - as above
        yield f"The host's checkpoints: {calls}{more}. A thread that goes on is recorded again, as a whole."
    if found.shown_to:
        yield f"What models wrote in {len(found.shown_to)} runs that had one of these recalled: look at `shown_to`."
        yield f"What reflections said in {len(found.shown_to)} runs that had one of these recalled, in the checkpoints."
    yield "Graphs saved elsewhere or held by somebody: pass them, or their folders, as graphs=[...]."
    yield "Backups and snapshots of the store, traces, logs, and files that runs were loaded from or dumped to."
    yield "What model providers keep of the requests in which these runs were made, judged or recalled."


def _moment(item: Item) -> datetime:
    """When something was last written; where a store does not say the zone, it means UTC."""
    at = item.updated_at
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _written(item: SearchItem) -> str:
    text = item.value.get("record")
    return text if isinstance(text, str) else ""


def _object(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _tools(written: str, key: str) -> set[str]:
    """The tools that were called in a record; where it cannot be read, all words that stand in quotes count."""
    try:
        run: Trajectory = from_json(_object(written), where=key)
    except TrajectoryFormatError:
        return set(written.replace("\\", "").split('"'))
    return {step.tool for step in run.steps}
