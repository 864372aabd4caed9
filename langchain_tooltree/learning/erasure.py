"""Forgetting runs: in the records and in all that was made of them, with a report of what could not be reached."""

import json
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore, Item, SearchItem

from langchain_tooltree._langgraph import vacuum_of
from langchain_tooltree.cfgm import focus, tips
from langchain_tooltree.errors import ConfigurationError, TrajectoryFormatError, described
from langchain_tooltree.experience.notes import gone_among, gone_in, without_recalled
from langchain_tooltree.experience.records import ATTEMPT_OF, RECALLED, recalled_in
from langchain_tooltree.experience.reference import ADVISED
from langchain_tooltree.experience.run_identity import OWN, is_in, thread_of
from langchain_tooltree.experience.store import TASKS, TRAJECTORIES, StoreCall, listing, readable
from langchain_tooltree.experience.trajectory import Trajectory, from_json
from langchain_tooltree.experience.writers import ABANDONED_AFTER, WRITERS
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.learning.learnt import Learnt
from langchain_tooltree.sitgraph.files import Which, forget_in_graph
from langchain_tooltree.sitgraph.graph import Graph
from langchain_tooltree.sitgraph.sit_graph import SITGraph

logger = logging.getLogger(__name__)

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
            is_in(run, each) or run.startswith((f"{each}/", f"{each}{OWN}")) for each in self.runs
        )

    def takes(self, item: Item, written: str) -> bool:
        """Whether a record, or what else stands in the store as a JSON text, is to go."""
        if not self.names(item.key):
            return False
        if self.before is not None and _moment(item) >= self.before:
            return False
        return self.tool is None or self.tool in _tools(written, item.key)

    def in_graph(self, found: Collection[str], graph: Graph, aliases: Mapping[str, str]) -> set[str]:
        """The runs of a graph that are to go: those found in the store, and what the graph itself can tell."""
        own: set[str] = set()
        if self.before is None and not self.is_all:
            tool = None if self.tool is None else aliases.get(self.tool, self.tool)
            own = {run for run in graph.runs_with(tool) if self.names(run)}
        return {run for run in found if run in graph} | own


def erasing(learnt: Learnt, chosen: Chosen, graphs: Sequence[AnyGraph], rested: Callable[[Any], None]) -> Flow[Erased]:
    """Forget runs of a namespace, as a flow. `rested` waits until nobody is judging them, or takes tips of them.

    Graphs come first: where one cannot be read, that is raised, and the records still say what is to be forgotten.
    """
    yield from learnt.refresh(whole=True)
    found = yield from _found(learnt, chosen)
    which = partial(chosen.in_graph, found.all)
    taken: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for place, graph in enumerate([*graphs, learnt.graph]):
        gone_there, told = yield FunctionStep(partial(_in_graph, graph), which)
        problems += told
        for name, runs in gone_there.items():
            taken[name or str(place)] = tuple(runs)
    taken.pop(str(len(graphs)))  # our own, which the records speak of
    # What was made of the records goes before them: if this is killed, they still say what is to be forgotten.
    tips_gone, points_gone = yield from _without_made(learnt, chosen, found.all)

    def unread(run: str, error: TrajectoryFormatError) -> None:
        may = "had one of these recalled" if run in found.shown_to else "may have had one of these recalled"
        problems.append(f"The record {run!r}, which {may} and cannot be read: forget it, too, or mend it. {error}")

    for record in (yield from readable(learnt.store, sorted(found.shown_to | found.unsure), unread)):
        yield from learnt.store.adding(without_recalled(record, found.all | found.tips))
    yield from learnt.store.deleting(sorted(found.all))
    yield FunctionStep(rested, found.runs)
    again = yield from _found(learnt, chosen)  # what somebody has written who was at it
    yield from learnt.store.deleting(sorted(again.all))
    late_tips, late_points = yield from _without_made(learnt, chosen, found.all | again.all)
    yield from _clear(learnt, chosen)
    yield from learnt.refresh(whole=True)
    learnt.store.forget_texts()
    threads = sorted(set(map(thread_of, found.runs - found.attempts)))
    if not (found.all or again.all or any(taken.values()) or chosen.is_all):
        meant = yield from _meant(learnt, chosen)
        problems.append(f"Nothing: no run here is what was said.{meant} `experience.store.trajectories()` lists them.")
    unreached = [*problems, *_unreached(threads, found, taken), *(yield from _vacuumed(*learnt.store.place))]
    return Erased(
        runs=tuple(sorted(found.runs | again.runs)),
        halves=tuple(sorted(found.halves | again.halves)),
        tips=tips_gone + late_tips,
        focus_points=points_gone + late_points,
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
    unsure: set[str]  # others with words of reflections, of which nobody has noted what was recalled

    @property
    def all(self) -> set[str]:
        return self.runs | self.halves


def _found(learnt: Learnt, chosen: Chosen) -> Flow[_Affected]:
    store, place = learnt.store.place
    records = yield from listing(store, (*place, TRAJECTORIES))
    entries = yield from listing(store, (*place, TASKS))
    runs = {item.key for item in records if chosen.takes(item, _written(item))}
    about = {item.key: _object(_written(item)) for item in records}
    attempts = {run for run, said in about.items() if str(said.get(ATTEMPT_OF) or "") in runs}  # a file may lie
    runs |= attempts
    if chosen.tool is None:
        runs |= {item.key for item in entries if chosen.takes(item, "")}
    both = {item.key for item in records} & {item.key for item in entries}
    since = time.time() - ABANDONED_AFTER
    lone = [item for item in (*records, *entries) if item.key not in both]
    halves = {item.key for item in lone if _moment(item).timestamp() < since or item.key in runs}
    taken = [(tip.id, tip.trajectories) for tip in (yield from tips.all_tips(learnt.store))]
    made = gone_among((), taken, runs.__contains__)
    shown = {
        run
        for run, said in about.items()
        if run not in runs and (gone_in(said, runs.__contains__) or made & set(recalled_in(said, "tips")))
    }
    advised = {run for run, said in about.items() if runs and run not in runs and ADVISED in said}
    return _Affected(runs & both, attempts, halves, made, shown, {run for run in advised if RECALLED not in about[run]})


def _meant(learnt: Learnt, chosen: Chosen) -> Flow[str]:
    """Which run each name begins, where it is the beginning of a single one's id; empty where there is none."""
    store, place = learnt.store.place
    ids = [item.key for item in (yield from listing(store, (*place, TRAJECTORIES)))]
    begun = {name: [run for run in ids if run.startswith(name) and run != name] for name in sorted(chosen.runs or ())}
    return "".join(
        f" {name!r} is the beginning of one run's id: {run[0]!r}." for name, run in begun.items() if len(run) == 1
    )


def _in_graph(graph: AnyGraph, which: Which) -> tuple[dict[str, list[str]], list[str]]:
    """Take runs out of a graph and the folders that it knows: their ids by folder, and problems; "" is memory."""
    if not isinstance(graph, SITGraph):
        return {os.fspath(graph): forget_in_graph(graph, which)[0]}, []
    saved, problems = graph.forget_saved(which)
    return {"": graph.remove_all(which), **saved}, problems


def _without_made(learnt: Learnt, chosen: Chosen, found: set[str]) -> Flow[tuple[int, int]]:
    """Delete the tips and the focus points that were made of runs; how many there were."""
    # A run whose record went earlier may have left something, too.
    named = chosen.runs if chosen.tool is None and chosen.before is None else None
    gone = None if chosen.is_all else found | (named or set())
    tips_gone = yield from tips.forget_tips(learnt.store, gone)
    return tips_gone, (yield from focus.forget_points(learnt.store.collection(focus.LABEL), gone))


def _clear(learnt: Learnt, chosen: Chosen) -> Flow[None]:
    """Where all is to go, delete what is known of those who wrote here."""
    store, place = learnt.store.place
    for item in (yield from listing(store, (*place, WRITERS))) if chosen.is_all else ():
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


def _unreached(threads: Sequence[str], found: _Affected, taken: Iterable[str]) -> Iterable[str]:
    if threads:
        calls = ", ".join(f"checkpointer.delete_thread({thread!r})" for thread in threads[:3])
        more = f", and so on for all {len(threads)} of `threads`" if len(threads) > 3 else ""  # noqa: PLR2004 - as above
        yield f"The host's checkpoints: {calls}{more}. A thread that goes on is recorded again, as a whole."
    if found.shown_to:
        yield f"What models wrote in {len(found.shown_to)} runs that had one of these recalled: look at `shown_to`."
    if reflected := sorted(found.shown_to | found.unsure):
        named = f"{', '.join(map(repr, reflected[:3]))}{' and so on' * (len(reflected) > 3)}"  # noqa: PLR2004 - as above
        what = f"What reflections said in {len(reflected)} runs that had one of these recalled, or may have ({named})"
        yield f"{what}, in the host's checkpoints: it returns where such a thread goes on."
    for folder in taken:
        if (summaries := Path(f"{folder}.summaries.jsonl")).exists():
            yield f"Summaries that `mine --summarize` keeps in {summaries}, under digests of runs: delete the file."
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
