"""Fold: what the records of one namespace come to, and which version of each record is in it."""

import atexit
import logging
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.utils import batch_iterate

from langchain_tooltree.cfgm.memory import CFGMMemory
from langchain_tooltree.cfgm.tips import all_tips
from langchain_tooltree.errors import described
from langchain_tooltree.experience.embeddings import embedder_name
from langchain_tooltree.experience.run_identity import Namespace
from langchain_tooltree.experience.store import (
    JUDGED,
    PAGE,
    PENDING,
    QUARANTINED,
    Catalogue,
    ExperienceStore,
    RunEntry,
)
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, FunctionStep, has_loop, in_thread, run_flow
from langchain_tooltree.learning.segments import Part, Segments
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.text import forget_oldest

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""Flows that are under way at the same time. The limits of a model are for the agents that people wait for; at some
seconds a verdict, four judge about a thousand runs in half an hour."""

LAST_SECONDS = 30.0
"""Seconds that a program that ends waits for what is under way, as long as for most replies of a model. A store whose
event loop has stopped never answers."""

MOST_WARNINGS = 100
"""Warnings that are remembered, so that each is logged once."""


class Background:
    """Runs flows on threads of its own, some at a time and the others when their turn comes; logs each failure once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], Flow[Any]]] = deque()
        self._workers: weakref.WeakSet[Future[Any]] = weakref.WeakSet()
        self._at_work = 0
        self._warnings: dict[str, None] = {}

    def start(self, work: Callable[[], Flow[Any]]) -> None:
        """Have a flow run to its end; its failure is logged."""
        with self._lock:
            self._waiting.append(work)
            if self._at_work == AT_ONCE:
                return
            self._at_work += 1
        # Not in the context of the run: its callbacks and streams are not for this.
        worker = Context().run(in_thread, self._work, "tooltree-experience")
        self._workers.add(worker)
        _WORKERS.add(worker)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until all that was started is done, but no longer than some seconds."""
        wait(list(self._workers), timeout=seconds)

    def warn_once(self, message: str) -> None:
        """Log a warning that would be the same after each run."""
        if message not in self._warnings:
            self._warnings[message] = None
            forget_oldest(self._warnings, MOST_WARNINGS)
            logger.warning(message)

    def undisturbed(self, flow: Flow[Any]) -> Flow[None]:
        """A flow whose failure is logged: the agent goes on without it."""
        try:
            yield from flow
        except Exception as error:  # noqa: BLE001 - the store's, the embedder's, a model's
            self.warn_once(f"An agent goes on without its experience: {' '.join(described(error).split())}")

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._at_work -= 1
                    return
                work = self._waiting.popleft()
            run_flow(self.undisturbed(work()))


_WORKERS: "weakref.WeakSet[Future[Any]]" = weakref.WeakSet()
"""All workers of this process."""

atexit.register(lambda: wait(list(_WORKERS), timeout=LAST_SECONDS))


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


READ_AT_ONCE = 128
"""Records that are read while somebody waits: about a second of work. More are read in the background."""

MOST_RUNS = 1_000
"""Runs under way that are remembered: more than a process has."""

TIPS, KEEPING = "tips", "segments"
"""Names under which a fold is claimed for work that one at a time does: taking tips, and writing segments."""

LOOK_AGAIN = 0.02
"""Seconds between two looks whether others have let go of what they claimed."""


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
        self.segments = Segments(store, embedder_name(embeddings))
        self._background = background
        self._quarantine = quarantine
        self._versions: dict[str, str] = {}  # of the records that are in it
        self._seen: tuple[Catalogue | None, int] = (None, 0)  # the catalogue, and which of its changes are in it
        self._is_open = False  # whether the segments were read
        self._refreshing = threading.Lock()
        self._lock = threading.Lock()
        self._claims: set[str] = set()
        self._running: dict[str, float] = {}  # since when, by the id of the run

    @property
    def place(self) -> Namespace:
        """The namespace."""
        return self.store.place[1]

    @property
    def entries(self) -> Mapping[str, RunEntry]:
        """What is known of each record, as of the last look."""
        return self.store.catalogue.entries

    def refresh(self, *, whole: bool = False) -> Flow[None]:
        """Take in what has changed in the store; where nobody has written, that is one small read.

        With `whole`, all of it is there at the end, and otherwise as much as nobody has to wait for.
        """
        if not (yield FunctionStep(self._begin, whole)):
            return  # somebody else is at it
        try:
            catalogue = yield from self.store.current()
            changes = catalogue.changes
            if self._seen != (catalogue, changes):
                missing = yield from self._compare(catalogue.entries)
                now = missing if whole else missing[:READ_AT_ONCE]
                for page in batch_iterate(PAGE, now):
                    for trajectory in (yield from self.store.reading(page)):
                        yield from self._learn(trajectory, catalogue.entries[trajectory.id])
                    # Those that cannot be read are not to be tried every time.
                    entries = catalogue.entries
                    self._versions |= {run: entries[run].version for run in page if run in entries}
                    yield from self._keep_segments()
                if len(now) == len(missing):
                    self._seen = catalogue, changes
                else:
                    self._background.start(partial(self.refresh, whole=True))
            yield from self._keep_segments()
        finally:
            self._refreshing.release()

    def _begin(self, whole: bool) -> bool:  # noqa: FBT001 - the argument of a step
        # On the thread of an event loop, who has the lock may be a task that could then never go on.
        return self._refreshing.acquire(blocking=whole and not has_loop())

    def _compare(self, entries: Mapping[str, RunEntry]) -> Flow[list[str]]:
        """Drop the runs that are gone, or count no more; the ids of those whose records are to be read."""
        good = {run: entry.version for run, entry in list(entries.items()) if entry.outcome == "success"}
        for run in [run for run in self._versions if run not in good]:
            self._drop(run)
        if not self._is_open:
            parts = yield from self.segments.load(entries)
            yield FunctionStep(self._fold, parts)
            if self.segments.vote is not None:
                self.graph.restore_vote(self.segments.vote)
            self._is_open = True
        return [run for run, version in good.items() if self._versions.get(run) != version]

    def _fold(self, parts: Mapping[str, Part]) -> None:
        for run, part in parts.items():
            if part.contribution is not None:
                self.graph.fold(part.contribution)
            self._versions[run] = part.version

    def _learn(self, trajectory: Trajectory, entry: RunEntry) -> Flow[None]:
        contribution = yield from self.graph.contribution(self._sourced(trajectory))
        if contribution is None:
            self.graph.remove(trajectory.id)
        else:
            self.graph.fold(contribution)
        self._versions[trajectory.id] = entry.version
        self.segments.add(trajectory.id, Part(entry.version, contribution))

    def _drop(self, run: str) -> None:
        self.graph.remove(run)
        self.segments.drop(run)
        self._versions.pop(run, None)

    def _keep_segments(self) -> Flow[None]:
        # Not in the background: a store may be closed as soon as nobody waits for it, which SQLite does not survive.
        if self.segments.is_due(vote := self.graph.vote) and self.claim([KEEPING]):
            try:
                yield from self._background.undisturbed(self.segments.write(vote))
            finally:
                self.release([KEEPING])

    def _sourced(self, trajectory: Trajectory) -> Trajectory:
        """A run with its source: where it does not say, that is whose namespace this is."""
        whose = "/".join(self.store.values.values())
        return trajectory if trajectory.came_from or not whose else trajectory.coming_from(whose)

    def keep(self, trajectory: Trajectory) -> Flow[None]:
        """Write a record, and take it in at once, unless it is to wait in quarantine."""
        if self._quarantine and trajectory.source != "user":
            trajectory = replace(trajectory, metadata={**trajectory.metadata, QUARANTINED: True})
        trajectory = self.store.without_secrets(trajectory)  # as other processes read it
        catalogue = self.store.catalogue
        changes = catalogue.changes
        entry = yield from self.store.adding(trajectory)
        if entry.outcome == "success":
            yield from self._learn(trajectory, entry)
        else:
            self._drop(trajectory.id)
        if self._seen == (catalogue, changes) and catalogue.changes == changes + 1:
            self._seen = catalogue, changes + 1  # nobody else's writes are in between
        yield from self._keep_segments()

    def rollback(self, source: str) -> Flow[list[str]]:
        """Put all runs in quarantine that came from somebody; their ids."""
        back: list[str] = []
        for page in batch_iterate(PAGE, list(self.entries)):
            for run in (yield from self.store.reading(page)):
                if self._sourced(run).came_from == source and QUARANTINED not in run.metadata:
                    yield from self.keep(replace(run, metadata={**run.metadata, QUARANTINED: True}))
                    back.append(run.id)
        return back

    def without_forgotten(self, trajectory: Trajectory) -> Trajectory:
        """A run that has ended, without what it has of runs that were forgotten since."""
        if self._seen[0] is None:
            return trajectory
        gone = trajectory.recall.gone(lambda run: run not in self.entries)
        return trajectory.with_recall(trajectory.recall.without(gone)) if gone else trajectory

    def pending(self, until: float = math.inf) -> list[str]:
        """The runs that have waited for their verdict since then, longest first."""
        waiting = sorted((entry.since, run) for run, entry in list(self.entries.items()) if entry.outcome == PENDING)
        return [run for since, run in waiting if since <= until]

    def status(self) -> Flow[ExperienceStatus]:
        """How many there are of each kind."""
        outcomes = [entry.outcome for entry in list(self.entries.values())]
        tips = yield from all_tips(self.store)
        return ExperienceStatus(
            runs=len(outcomes),
            judged=sum(outcome in JUDGED for outcome in outcomes),
            pending=outcomes.count(PENDING),
            quarantined=outcomes.count(QUARANTINED),
            successes=outcomes.count("success"),
            in_graph=len(self.graph),
            tips=len(tips),
        )

    def begin(self, run: str | None) -> None:
        """A run is under way, and is not judged meanwhile."""
        if run is not None:
            with self._lock:
                self._running[run] = time.monotonic()
                forget_oldest(self._running, MOST_RUNS)

    def end(self, run: str) -> bool:
        """A run is over; whether it was known to have begun."""
        with self._lock:
            return self._running.pop(run, None) is not None

    def is_running(self, run: str, longest: float) -> bool:
        """Whether a run is under way; one that has raised never comes to its end."""
        return time.monotonic() - self._running.get(run, -math.inf) < longest

    def claim(self, names: Sequence[str]) -> list[str]:
        """Take runs to judge them, or a kind of work; those of them that nobody else has."""
        with self._lock:
            free = [name for name in names if name not in self._claims]
            self._claims.update(free)
            return free

    def release(self, names: Sequence[str]) -> None:
        """Let go of what was claimed."""
        with self._lock:
            self._claims.difference_update(names)

    def claim_all(self, names: Sequence[str]) -> list[str]:
        """Claim all of these, and wait until others have let go of theirs, but no longer than for most replies."""
        until = time.monotonic() + LAST_SECONDS
        claimed = self.claim(names)
        while len(claimed) < len(names) and time.monotonic() < until:
            time.sleep(LOOK_AGAIN)
            claimed += self.claim([name for name in names if name not in claimed])
        return claimed
