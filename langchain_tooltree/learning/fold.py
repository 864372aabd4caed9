"""Fold: what the records of one namespace come to, which version of each record is in it, and how that is stored.

What each run gives is stored as an item, with the version of the record that it was made of, so that no process reads
all records again. These parts are a cache: what is damaged or missing is made again from the records, and nothing of a
run that was forgotten or has changed stays in one.
"""

import atexit
import gc
import json
import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import Context
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.utils import batch_iterate
from langgraph.store.base import Item, PutOp, SearchItem
from numpy.typing import NDArray

from langchain_tooltree.cfgm.memory import CFGMMemory
from langchain_tooltree.cfgm.tips import all_tips
from langchain_tooltree.embeddings import embedder_name
from langchain_tooltree.errors import described
from langchain_tooltree.experience.store import (
    JUDGED,
    PENDING,
    QUARANTINED,
    READ_PAGE_SIZE,
    Catalogue,
    ExperienceStore,
    RunEntry,
    StoreCall,
    lasting,
    listing,
)
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import (
    Flow,
    FunctionStep,
    is_event_loop_running,
    run_flow,
    run_in_daemon_thread,
)
from langchain_tooltree.sitgraph.files import SHAPE
from langchain_tooltree.sitgraph.graph import Contribution
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.sitgraph.states import pack, unpack
from langchain_tooltree.text import digest

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FoldDefaults:
    """How much is done at once, and how long it may take.

    Attributes:
        workers: Flows that run in the background at the same time. The limits of a model are for the agents that people
            wait for; at some seconds a verdict, four judge about a thousand runs in half an hour.
        exit_seconds: How long a program that ends waits for these, as long as for most replies of a model. A store
            whose event loop has stopped never answers.
        read_at_once: Records that are read while somebody waits, about a second of work; more are read in the
            background.
        together: Parts that are stored together. Of fewer, each process reads the records, which takes a tenth of a
            second.
    """

    workers: int = 4
    exit_seconds: float = 30.0
    read_at_once: int = 128
    together: int = 16


FOLD_DEFAULTS = FoldDefaults()

TIPS, STORING = "tips", "parts"
"""Names under which a fold is claimed for work that is done one at a time: taking tips, and writing parts."""

CLAIM_POLL_SECONDS = (
    0.02  # between two looks whether others have released what they claimed
)
PARTS_LABEL = "parts"  # label under which what runs give to the fold is stored
FOLD_FORMAT_VERSION = 5  # version of what is stored there, contributions included; what has another version is ignored
VOTE = ""  # in place of a run, the settings of the graph's vote: fitting them takes about a second


class Background:
    """Runs flows on threads of its own, a few at a time; logs each failure once."""

    def __init__(self) -> None:
        self._places = threading.Semaphore(FOLD_DEFAULTS.workers)
        self._workers: weakref.WeakSet[Future[Any]] = weakref.WeakSet()
        self._warnings: set[str] = set()

    def start(self, work: Callable[[], Flow[Any]]) -> None:
        """Have a flow run to its end; its failure is logged."""
        # Not in the context of the run: its callbacks and streams are not for this.
        worker = Context().run(
            run_in_daemon_thread, partial(self._run, work), "tooltree-experience"
        )
        self._workers.add(worker)
        _WORKERS.add(worker)

    def wait(self) -> None:
        """Wait until all that was started is done."""
        wait(list(self._workers))

    def warn_once(self, message: str) -> None:
        """Log a warning that would be the same after each run."""
        if message not in self._warnings:
            self._warnings.add(message)
            logger.warning(message)

    async def undisturbed(self, flow: Flow[Any]) -> None:
        """A flow whose failure is logged: the agent goes on without it."""
        try:
            await flow
        except Exception as error:  # noqa: BLE001 - the store's, the embedder's, a model's
            self.warn_once(
                f"An agent goes on without its experience: {' '.join(described(error).split())}"
            )

    def _run(self, work: Callable[[], Flow[Any]]) -> None:
        with self._places:
            run_flow(self.undisturbed(work()))


_WORKERS: "weakref.WeakSet[Future[Any]]" = (
    weakref.WeakSet()
)  # all workers of this process

atexit.register(lambda: wait(list(_WORKERS), timeout=FOLD_DEFAULTS.exit_seconds))


@dataclass(frozen=True, slots=True)
class ExperienceStatus:
    """What there is in a namespace.

    Attributes:
        runs: Records, failed attempts of searches included.
        judged: Those that a verdict has called a success or a failure.
        pending: Those that wait for their verdict.
        quarantined: Those whose verdict waits until a person confirms it.
        successes: Those that succeeded.
        in_graph: Those that the graph is made of.
        tips: Tips that were taken of them.
    """

    runs: int
    judged: int
    pending: int
    successes: int
    in_graph: int
    tips: int
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class FoldPart:
    """What one run gives to the fold of its namespace: nothing to the graph if `contribution` is `None`."""

    version: str  # of its record
    contribution: Contribution | None


@contextmanager
def paused_collection() -> Iterator[None]:
    """Pause the garbage collector while many objects are made that stay: it would look at all of them many times."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


class StoredParts:
    """The parts of the runs of one namespace, each stored as an item of its own. Its methods are flows where they ask.

    `embedder` names what makes the vectors of the graph: parts with vectors of others are ignored.
    """

    def __init__(self, store: ExperienceStore, embedder: str) -> None:
        self._store = store
        self._prefix = (
            digest([FOLD_FORMAT_VERSION, SHAPE, embedder, store.embedder], 8) + "/"
        )  # of keys, before the id of the run
        self._unwritten: dict[str, FoldPart | None] = {}  # `None` is to be deleted
        self._stored: set[str] = set()  # runs of which a part may be in the store
        self._lock = threading.Lock()
        self.vote: Mapping[str, Any] | None = None  # as it is stored

    def add(self, run: str, part: FoldPart | None) -> None:
        """Have the part of a run stored, in place of an earlier one, or with `None` deleted."""
        with self._lock:
            if part is None and run not in self._stored:
                self._unwritten.pop(run, None)
            else:
                self._unwritten[run] = part

    def is_due(self, vote: Mapping[str, Any] | None) -> bool:
        """Whether to write now: many parts, one in place of what does not hold any more, or the vote's settings."""
        with self._lock:
            is_outdated = not self._stored.isdisjoint(self._unwritten)
            return (
                len(self._unwritten) >= FOLD_DEFAULTS.together
                or is_outdated
                or vote not in (None, self.vote)
            )

    async def load(self, entries: Mapping[str, RunEntry]) -> dict[str, FoldPart]:
        """The parts of records in their present version, by the ids of the runs."""
        items = await self._items()
        # Reading them takes its time, so it must not hold up an event loop.
        parts: dict[str, FoldPart] = await FunctionStep(
            partial(self._read, entries), items
        )
        return parts

    @paused_collection()
    def _read(
        self, entries: Mapping[str, RunEntry], items: Sequence[Item]
    ) -> dict[str, FoldPart]:
        parts: dict[str, FoldPart] = {}
        outdated: dict[str, FoldPart | None] = {}
        tasks: dict[str, NDArray[Any]] = {}
        for item in items:
            if not item.key.startswith(self._prefix):
                continue
            run = item.key.removeprefix(self._prefix)
            try:
                data = json.loads(item.value["part"])
                if run == VOTE:
                    self.vote = data
                elif run in entries and data["version"] == entries[run].version:
                    contribution = data["contribution"]
                    part = FoldPart(
                        data["version"],
                        None if contribution is None else Contribution(**contribution),
                    )
                    if data["task"] is not None:
                        tasks[run] = unpack(data["task"], np.float16)
                    parts[run] = part
                else:
                    outdated[run] = None
            except Exception as error:  # noqa: BLE001 - however it is damaged, the record is still there
                logger.info(
                    "What %r gives cannot be read, and is made again: %r", run, error
                )
        with self._lock:
            self._stored |= parts.keys() | outdated.keys()
            self._unwritten = outdated | self._unwritten
        self._store.hold_vectors(tasks)
        return parts

    async def write(self, vote: Mapping[str, Any] | None) -> None:
        """Write what is not written yet; what a store that fails has not taken is written the next time."""
        with self._lock:
            page, self._unwritten = self._unwritten, {}
            self._stored |= page.keys()
        try:
            tasks = await self._store.vectors(
                [run for run, part in page.items() if part is not None]
            )
            await self._put(await FunctionStep(partial(self._values, page), tasks))
            existing = (
                await self._store.current()
            ).entries  # somebody may have had one forgotten meanwhile
            gone = [
                run for run, part in page.items() if part is None or run not in existing
            ]
            await self._put({run: None for run in gone if page[run] is not None})
        except BaseException:
            with self._lock:
                self._unwritten = page | self._unwritten
            raise
        with self._lock:
            self._stored.difference_update(gone)
        if vote not in (None, self.vote):
            await self._put({VOTE: vote})
            self.vote = vote

    async def erase(self) -> None:
        """Delete all that is not of a run that is there, whoever has written it, and what is fitted to all."""
        entries = (await self._store.current()).entries
        runs = {self._prefix + run for run in entries}
        store, namespace = self._store.place
        self.vote = None
        gone = [item.key for item in (await self._items()) if item.key not in runs]
        for page in batch_iterate(READ_PAGE_SIZE, gone):
            await StoreCall(
                store,
                "batch",
                ([PutOp((*namespace, PARTS_LABEL), key, None) for key in page],),
                {},
            )

    @staticmethod
    def _values(
        page: Mapping[str, FoldPart | None], tasks: Mapping[str, NDArray[Any]]
    ) -> dict[str, Any]:
        packed = {run: pack(vector.astype(np.float16)) for run, vector in tasks.items()}
        return {
            run: part and {**asdict(part), "task": packed.get(run)}
            for run, part in page.items()
        }

    async def _put(self, values: Mapping[str, Any]) -> None:
        """Write or delete items, in one batch; each is one ASCII text, as records are."""
        store, namespace = self._store.place
        puts = [
            PutOp(
                (*namespace, PARTS_LABEL),
                self._prefix + run,
                value and {"part": json.dumps(value)},
                index=False,
            )
            for run, value in values.items()
        ]
        if puts:
            await StoreCall(store, "batch", (lasting(store, puts),), {})

    async def _items(self) -> list[SearchItem]:
        store, namespace = self._store.place
        return await listing(store, (*namespace, PARTS_LABEL))


class Fold:
    """The graph and the memory of one namespace, made of its records, and who is at work on these.

    Args:
        store: The records.
        model: Writes tips, and reflects.
        embeddings: Compares states.
        background: Where records are read that nobody waits for.
        quarantine: Whether a run counts only once a person has confirmed its verdict.
    """

    def __init__(
        self,
        store: ExperienceStore,
        model: BaseChatModel | None,
        embeddings: Embeddings,
        background: Background,
        *,
        quarantine: bool = False,
    ) -> None:
        self.store = store
        self.graph = SITGraph(embeddings=embeddings)
        self.memory = CFGMMemory(model, store)
        self.parts = StoredParts(store, embedder_name(embeddings))
        self._background = background
        self._quarantine = quarantine
        self._versions: dict[str, str] = {}  # of the records that are in it
        self._current: tuple[Catalogue | None, int] = (
            None,
            0,
        )  # the catalogue, and which of its changes are in it
        self._is_loaded = False  # whether the parts were read
        self._refreshing = threading.Lock()
        self._lock = threading.Lock()
        self._claims: set[str] = set()

    @property
    def entries(self) -> Mapping[str, RunEntry]:
        """What is known of each record, as of the last look."""
        return self.store.catalogue.entries

    async def refresh(self, *, whole: bool = False) -> None:
        """Take in what has changed in the store; where nobody has written, that is one small read.

        With `whole`, all of it is there at the end, and otherwise as much as nobody has to wait for.
        """
        if not (await FunctionStep(self._begin_refresh, whole)):
            return  # somebody else is at it
        try:
            catalogue = await self.store.current()
            changes = catalogue.changes
            if self._current != (catalogue, changes):
                missing = await self._compare(catalogue.entries)
                now = missing if whole else missing[: FOLD_DEFAULTS.read_at_once]
                for page in batch_iterate(READ_PAGE_SIZE, now):
                    for trajectory in await self.store.reading(page):
                        await self._learn(trajectory, catalogue.entries[trajectory.id])
                    # Those that cannot be read are not to be tried every time.
                    entries = catalogue.entries
                    self._versions |= {
                        run: entries[run].version for run in page if run in entries
                    }
                    await self._write_parts()
                if len(now) == len(missing):
                    self._current = catalogue, changes
                else:
                    self._background.start(partial(self.refresh, whole=True))
            await self._write_parts()
        finally:
            self._refreshing.release()

    def _begin_refresh(self, whole: bool) -> bool:  # noqa: FBT001 - the argument of a step
        # On the thread of an event loop, who has the lock may be a task that could then never go on.
        return self._refreshing.acquire(blocking=whole and not is_event_loop_running())

    async def _compare(self, entries: Mapping[str, RunEntry]) -> list[str]:
        """Drop the runs that are gone, or count no more; the ids of those whose records are to be read."""
        good = {
            run: entry.version
            for run, entry in list(entries.items())
            if entry.outcome == "success"
        }
        for run in [run for run in self._versions if run not in good]:
            self._drop(run)
        if not self._is_loaded:
            parts = await self.parts.load(entries)
            await FunctionStep(self._fold, parts)
            if self.parts.vote is not None:
                self.graph.restore_vote(self.parts.vote)
            self._is_loaded = True
        return [
            run for run, version in good.items() if self._versions.get(run) != version
        ]

    @paused_collection()
    def _fold(self, parts: Mapping[str, FoldPart]) -> None:
        for run, part in parts.items():
            if part.contribution is not None:
                self.graph.fold(part.contribution)
            self._versions[run] = part.version

    async def _learn(self, trajectory: Trajectory, entry: RunEntry) -> None:
        contribution = await self.graph.contribution(self._sourced(trajectory))
        if contribution is None:
            self.graph.remove(trajectory.id)
        else:
            self.graph.fold(contribution)
        self._versions[trajectory.id] = entry.version
        self.parts.add(trajectory.id, FoldPart(entry.version, contribution))

    def _drop(self, run: str) -> None:
        self.graph.remove(run)
        self.parts.add(run, None)
        self._versions.pop(run, None)

    async def _write_parts(self) -> None:
        # Not in the background: a store may be closed as soon as nobody waits for it, which SQLite does not survive.
        if self.parts.is_due(vote := self.graph.vote) and self.claim([STORING]):
            try:
                await self._background.undisturbed(self.parts.write(vote))
            finally:
                self.release([STORING])

    def _sourced(self, trajectory: Trajectory) -> Trajectory:
        """A run with its source: where it does not say, that is whose namespace this is."""
        whose = "/".join(self.store.values.values())
        return (
            trajectory
            if trajectory.came_from or not whose
            else trajectory.coming_from(whose)
        )

    async def keep(self, trajectory: Trajectory) -> None:
        """Write a record, and take it in at once, unless it is to wait in quarantine."""
        if self._quarantine and trajectory.source != "user":
            trajectory = replace(
                trajectory, metadata={**trajectory.metadata, QUARANTINED: True}
            )
        trajectory = self.store.without_secrets(
            trajectory
        )  # as other processes read it
        catalogue = self.store.catalogue
        changes = catalogue.changes
        entry = await self.store.adding(trajectory)
        if entry.outcome == "success":
            await self._learn(trajectory, entry)
        else:
            self._drop(trajectory.id)
        if self._current == (catalogue, changes) and catalogue.changes == changes + 1:
            self._current = (
                catalogue,
                changes + 1,
            )  # nobody else's writes are in between
        await self._write_parts()

    async def rollback(self, source: str) -> list[str]:
        """Put all runs in quarantine that came from somebody; their ids."""
        back: list[str] = []
        for page in batch_iterate(READ_PAGE_SIZE, list(self.entries)):
            for run in await self.store.reading(page):
                if (
                    self._sourced(run).came_from == source
                    and QUARANTINED not in run.metadata
                ):
                    await self.keep(
                        replace(run, metadata={**run.metadata, QUARANTINED: True})
                    )
                    back.append(run.id)
        return back

    def without_forgotten(self, trajectory: Trajectory) -> Trajectory:
        """A run that has ended, without what it has of runs that were forgotten since."""
        if self._current[0] is None:
            return trajectory
        gone = trajectory.recall.gone(lambda run: run not in self.entries)
        return (
            trajectory.with_recall(trajectory.recall.without(gone))
            if gone
            else trajectory
        )

    def pending(self, until: float = math.inf) -> list[str]:
        """The runs that have waited for their verdict since then, longest first."""
        waiting = sorted(
            (entry.since, run)
            for run, entry in list(self.entries.items())
            if entry.outcome == PENDING
        )
        return [run for since, run in waiting if since <= until]

    async def status(self) -> ExperienceStatus:
        """How many there are of each kind."""
        outcomes = [entry.outcome for entry in list(self.entries.values())]
        tips = await all_tips(self.store)
        return ExperienceStatus(
            runs=len(outcomes),
            judged=sum(outcome in JUDGED for outcome in outcomes),
            pending=outcomes.count(PENDING),
            quarantined=outcomes.count(QUARANTINED),
            successes=outcomes.count("success"),
            in_graph=len(self.graph),
            tips=len(tips),
        )

    def claim(self, names: Sequence[str]) -> list[str]:
        """Take runs to judge them, or a kind of work; those of them that nobody else has."""
        with self._lock:
            free = [name for name in names if name not in self._claims]
            self._claims.update(free)
            return free

    def release(self, names: Sequence[str]) -> None:
        """Release what was claimed."""
        with self._lock:
            self._claims.difference_update(names)

    def claim_all(self, names: Sequence[str]) -> list[str]:
        """Claim all of these, and wait until others have released theirs, but no longer than for most replies."""
        until = time.monotonic() + FOLD_DEFAULTS.exit_seconds
        claimed = self.claim(names)
        while len(claimed) < len(names) and time.monotonic() < until:
            time.sleep(CLAIM_POLL_SECONDS)
            claimed += self.claim([name for name in names if name not in claimed])
        return claimed
