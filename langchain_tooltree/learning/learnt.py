"""What the records of one namespace come to: a graph, a memory, and what both tell a search for one request."""

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.utils import batch_iterate

from langchain_tooltree.anomaly.detector import standard_detector
from langchain_tooltree.cfgm.memory import DEFAULT_K, DEFAULT_MAX_CHARACTERS, FEWEST_CHARACTERS, CFGMMemory, recalling
from langchain_tooltree.cfgm.recall import RecalledRun, Recollection, examples_in, recall_text
from langchain_tooltree.cfgm.reflection import Reflector, correction_text
from langchain_tooltree.cfgm.tips import Tip, all_tips
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import TrajectoryFormatError, described
from langchain_tooltree.experience.agreement import Agreement, agreement
from langchain_tooltree.experience.guide import Remembered
from langchain_tooltree.experience.hints import NextTools, hint_line
from langchain_tooltree.experience.namespaces import Namespace
from langchain_tooltree.experience.notes import gone_among, without_gone
from langchain_tooltree.experience.outage import READ, SEARCH, Outage
from langchain_tooltree.experience.recorder import own_record
from langchain_tooltree.experience.recording import keyed_chat
from langchain_tooltree.experience.records import ChatMessage
from langchain_tooltree.experience.reference import as_reference
from langchain_tooltree.experience.run_identity import tools_in
from langchain_tooltree.experience.store import JUDGED, PAGE, PENDING, QUARANTINED, ExperienceStore, RunEntry, readable
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, FunctionStep, current_writer, flow_of, has_loop, in_thread, run_flow
from langchain_tooltree.models import Meter
from langchain_tooltree.sitgraph.refusals import Refusals
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.sitgraph.transitions import last_tool_in

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
        self.memory = CFGMMemory(model, store)
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

    def recall(self, task: str, own: str | None) -> Flow[tuple[list[str], list[dict[str, Any]]]]:
        """The ids of the runs that are most like a task, the run of this conversation aside, and their tips."""
        if not task or self.outage.is_down(READ):
            return [], []
        recall = partial(recalling, self.memory, task, k=DEFAULT_K, own=own, writer=current_writer())
        found = yield from self.outage.trying(SEARCH, recall, otherwise=Recollection(task))
        return [each.trajectory.id for each in found.runs], [tip.to_dict() for tip in found.tips]

    def advice(self, remembered: Mapping[str, Any], room: int) -> Flow[str]:
        """What was recalled, in words; empty if it cannot be read.

        It has some room in a request of any length: an agent with a prompt of one line is to know what it did, too.
        """
        if not remembered["runs"]:
            return ""
        read = partial(self.store.reading, remembered["runs"])
        runs = yield from self.outage.trying(READ, read, otherwise=None)
        if not runs:
            return ""
        tips = tuple(map(Tip.from_dict, remembered["tips"]))
        recalled = tuple(RecalledRun(run, () if place else tips) for place, run in enumerate(runs))
        most = max(FEWEST_CHARACTERS, min(room, DEFAULT_MAX_CHARACTERS))
        return recall_text(Recollection(remembered["first"], recalled), max_characters=most)

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

    def without_gone(self, remembered: Remembered) -> Remembered:
        """What was recalled, without the runs that are no longer there and the tips that were taken of them."""
        if self._seen is None:  # nobody knows yet
            return remembered
        told = [Tip.from_dict(tip) for tip in remembered["tips"]]
        taken = ((tip.id, tip.trajectories) for tip in told)
        gone = gone_among(remembered["runs"], taken, lambda run: run not in self.entries)
        runs = [run for run in remembered["runs"] if run not in gone]
        tips = [kept for kept, tip in zip(remembered["tips"], told, strict=True) if tip.id not in gone]
        return {**remembered, "runs": runs, "tips": tips} if gone else remembered

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


@dataclass(frozen=True, slots=True)
class RequestGuide:
    """Past runs of a namespace as the search for one request sees them; see `Guide`."""

    learnt: Learnt
    remembered: Mapping[str, Any]
    advice: str
    reads: Collection[str]
    model: BaseChatModel | None

    def next_tools(self, dialogue: Sequence[ChatMessage], allowed: Collection[str]) -> Flow[NextTools | None]:
        """How past runs went on from here."""
        try:
            found = yield from flow_of(self.learnt.graph.next_tools)(dialogue, allowed=list(allowed))
            refusals, last_tool = self.learnt.refusals, last_tool_in(dialogue)
            refused, told = refusals.after(last_tool), refusals.told(last_tool, allowed)
            if found is None and not refused and not told:
                return None
            found = replace(found or NextTools(), refused=refused)
            return replace(found, text=hint_line(found, reads=self.reads, refused=told))
        except Exception as error:  # noqa: BLE001 - the embedder may be down, and the search can do without
            logger.warning("No tool could be suggested: %s", described(error))
            return None

    def remedy(self, said: Conversation, tools: Sequence[Any], meter: Meter) -> Flow[str]:
        """What a model says about the trouble at the end of a dialogue."""
        if self.model is None:
            return ""
        try:
            anomaly = yield from flow_of(standard_detector().check)(said)
            if anomaly is None or not anomaly.recoverable:
                return ""
            tips = [Tip.from_dict(each) for each in self.remembered["tips"]]
            offered = tools_in(list(tools)).values()
            reflect = flow_of(Reflector(self.model).reflect)
            task = self.remembered["first"]  # which a summary may have taken out of the conversation
            reflection = yield from reflect(
                said, anomaly, tips=tips, examples=examples_in(self.advice), tools=offered, task=task, meter=meter
            )
        except Exception as error:  # noqa: BLE001 - the search goes on as it would have
            logger.warning("There is no reflection: %s", described(error))
            return ""
        if reflection is None:
            return ""
        return as_reference(correction_text(anomaly, reflection), source="review")

    def failed(self, attempts: Sequence[Trajectory]) -> Flow[None]:
        """Keep failed attempts at the task of the request."""
        for attempt in attempts:  # under the task of the run, which a summary may have taken out of the conversation
            task = self.remembered["first"] or attempt.task
            yield from self.learnt.keep_in_the_end(replace(attempt, task=task))


def undisturbed(flow: Flow[Any]) -> Flow[None]:
    """A flow whose failure is logged: the agent goes on without it."""
    try:
        yield from flow
    except Exception as error:
        logger.exception("Experience could not be used as it should: %s", error)  # noqa: TRY401 - the reason in one line
