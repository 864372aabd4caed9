"""What the records of one namespace come to: a graph, a memory, and what both tell a search for one request."""

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.utils import batch_iterate

from langchain_tooltree.cfgm.memory import CFGMMemory
from langchain_tooltree.cfgm.tips import all_tips
from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.experience.agreement import Agreement, agreement
from langchain_tooltree.experience.namespaces import Namespace
from langchain_tooltree.experience.notes import without_gone
from langchain_tooltree.experience.outage import Outage
from langchain_tooltree.experience.recorder import own_record
from langchain_tooltree.experience.recording import keyed_chat
from langchain_tooltree.experience.store import JUDGED, PAGE, PENDING, QUARANTINED, ExperienceStore, RunEntry, readable
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, FunctionStep, flow_of, has_loop, in_thread, run_flow
from langchain_tooltree.sitgraph.refusals import Refusals
from langchain_tooltree.sitgraph.sit_graph import SITGraph

logger = logging.getLogger(__name__)


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
        agreement: How far the verdict and people agree, by the runs that people have labelled. Where it is doubtful,
            no run is judged any more, and thus none learnt, until labels say otherwise.
    """

    runs: int
    judged: int
    pending: int
    successes: int
    in_graph: int
    tips: int
    agreement: Agreement
    quarantined: int = 0


AT_ONCE = 16
"""Records that are taken in at once: about a second of work. More, as in a new process, are taken in on a thread."""


class Learnt:
    """What one namespace's records come to: graph, refusals and memory, and which version of each record is in them."""

    def __init__(
        self,
        store: ExperienceStore,
        model: BaseChatModel | None,
        embeddings: Embeddings | None,
        outage: Outage,
        *,
        quarantine: bool = False,
    ) -> None:
        self.store = store
        self._quarantine = quarantine
        self.outage = outage
        self.graph = SITGraph(embeddings=embeddings)
        self.refusals = Refusals()
        self.memory = CFGMMemory(model, store).knowing(lambda: None if self._seen is None else self.entries)
        self.entries: dict[str, RunEntry] = {}
        self._folded: dict[str, str] = {}
        self._labelled: dict[str, Agreement] = {}
        self._seen: dict[str, int] | None = None
        self._refreshing = threading.Lock()

    def refresh(self, *, whole: bool = False) -> Flow[Future[None] | None]:
        """Take in what has changed in the store; where nobody has written, that is one small read.

        With `whole`, all of it is there at the end, and otherwise as much as nobody has to wait for; the rest is taken
        in meanwhile by what is returned.
        """
        if not (yield FunctionStep(self._begin, whole)):
            return None  # somebody else is at it
        going_on = False
        try:
            seen = yield from self.store.writes()
            if seen != self._seen:
                changed = self._compared((yield from self.store.entries()))
                if len(changed) > AT_ONCE and not whole:
                    # The context of the run, with its callbacks, is not for this.
                    catching_up = Context().run(in_thread, partial(self._catch_up, changed, seen), "tooltree-learning")
                    going_on = True
                    return catching_up
                yield from self._take_in(changed)
                self._seen = seen
            return None
        finally:
            if not going_on:
                self._refreshing.release()

    def _begin(self, whole: bool) -> bool:  # noqa: FBT001 - the argument of a step
        # On the thread of an event loop, who has the lock may be a task that could then never go on.
        return self._refreshing.acquire(blocking=whole and not has_loop())

    def _catch_up(self, changed: Sequence[str], seen: dict[str, int]) -> None:
        try:
            run_flow(undisturbed(self._take_in(changed)))
            self._seen = seen
        finally:
            self._refreshing.release()

    def _compared(self, entries: dict[str, RunEntry]) -> list[str]:
        """Forget the runs that are gone, or count no more; the ids of those to be read."""
        judged = {run: entry.version for run, entry in entries.items() if entry.outcome in JUDGED}
        for run in [run for run in self._folded if run not in judged]:
            self._forget(run)
        self.entries = entries
        return [run for run, version in judged.items() if self._folded.get(run) != version]

    def _take_in(self, changed: Sequence[str]) -> Flow[None]:
        for page in batch_iterate(PAGE, changed):
            for trajectory in (yield from readable(self.store, page, self._unread)):
                yield from self._fold(trajectory, self.entries[trajectory.id])

    def _unread(self, run: str, error: TrajectoryFormatError) -> None:
        self._folded[run] = self.entries[run].version  # not to be tried every time
        logger.warning("Nothing is learnt of a run: %s", error)

    def _fold(self, trajectory: Trajectory, entry: RunEntry) -> Flow[None]:
        yield from flow_of(self.graph.learn)(self._sourced(trajectory))
        yield FunctionStep(self.refusals.learn, trajectory)
        self._folded[trajectory.id] = entry.version
        self._labelled.pop(trajectory.id, None)
        if (sample := agreement([trajectory])) != Agreement():
            self._labelled[trajectory.id] = sample

    def _sourced(self, trajectory: Trajectory) -> Trajectory:
        """A run with its source: where it does not say, that is whose namespace this is."""
        whose = "/".join(self.store.values.values())
        return trajectory if trajectory.came_from or not whose else trajectory.coming_from(whose)

    def rollback(self, source: str) -> Flow[list[str]]:
        """Put all runs in quarantine that came from somebody; their ids."""
        back: list[str] = []
        for page in batch_iterate(PAGE, list(self.entries)):
            for run in (yield from readable(self.store, page)):
                if self._sourced(run).came_from == source and QUARANTINED not in run.metadata:
                    yield from self.keep(replace(run, metadata={**run.metadata, QUARANTINED: True}))
                    back.append(run.id)
        return back

    @property
    def place(self) -> Namespace:
        """The namespace."""
        return self.store.place[1]

    def pending(self, until: float) -> list[str]:
        """The runs that have waited for their verdict since then, longest first."""
        waiting = [(each.since, run) for run, each in self.entries.items() if each.outcome == PENDING]
        return [run for since, run in sorted(waiting) if since <= until]

    def status(self) -> Flow[ExperienceStatus]:
        """How many there are of each kind."""
        outcomes = [entry.outcome for entry in self.entries.values()]
        tips = yield from all_tips(self.store)
        return ExperienceStatus(
            runs=len(outcomes),
            judged=sum(outcome in JUDGED for outcome in outcomes),
            pending=outcomes.count(PENDING),
            quarantined=outcomes.count(QUARANTINED),
            successes=outcomes.count("success"),
            in_graph=len(self.graph),
            tips=len(tips),
            agreement=self.agreement,
        )

    @property
    def agreement(self) -> Agreement:
        """How far the verdict and people agree."""
        return sum(self._labelled.values(), start=Agreement())

    def without_forgotten(self, trajectory: Trajectory) -> Trajectory:
        """A run that has ended, without what it has of runs that were forgotten since."""
        return trajectory if self._seen is None else without_gone(trajectory, self.entries)

    def _forget(self, run: str) -> None:
        self.graph.remove(run)
        self.refusals.remove(run)
        self._folded.pop(run, None)
        self._labelled.pop(run, None)

    def keep_in_the_end(self, trajectory: Trajectory) -> Flow[bool]:
        """Write a record, or have it wait until the store answers; whether it was written."""
        key, now, later = (self.place, trajectory.id), partial(self.keep, trajectory), partial(self._late, trajectory)
        return (yield from self.outage.keeping(key, now, later))

    def _late(self, trajectory: Trajectory) -> Flow[None]:
        """Write a record of which nobody could say at its time what stood in its place."""
        said = dict(keyed_chat(trajectory.messages))
        own, earlier = yield from own_record(self.store, trajectory.id, said)
        if earlier is None or len(earlier.steps) <= len(trajectory.steps):
            yield from self.keep(replace(trajectory, id=own))

    def keep(self, trajectory: Trajectory) -> Flow[None]:
        """Write a record, and take it in at once, unless it is to wait in quarantine."""
        if self._quarantine and trajectory.source != "user":
            trajectory = replace(trajectory, metadata={**trajectory.metadata, QUARANTINED: True})
        entry, writer, count = yield from self.store.adding(trajectory)
        self.entries[trajectory.id] = entry
        if entry.outcome not in JUDGED:
            self._forget(trajectory.id)
        else:
            yield from self._fold(trajectory, entry)
        if self._seen is not None and self._seen.get(writer, 0) == count - 1:
            self._seen[writer] = count  # nobody else's writes are in between


def undisturbed(flow: Flow[Any]) -> Flow[None]:
    """A flow whose failure is logged: the agent goes on without it."""
    try:
        yield from flow
    except Exception as error:
        logger.exception("Experience could not be used as it should: %s", error)  # noqa: TRY401 - the reason in one line
