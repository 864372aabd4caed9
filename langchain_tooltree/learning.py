"""Experience: what an agent has been through, in one object that makes its next run better and cheaper."""

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langgraph.store.base import BaseStore

from langchain_tooltree._langgraph import configurable_here
from langchain_tooltree.anomaly.detector import standard_detector
from langchain_tooltree.cfgm.memory import DEFAULT_K, DEFAULT_MAX_CHARACTERS, CFGMMemory
from langchain_tooltree.cfgm.recall import RecalledRun, Recollection, recall_event, recall_text, without
from langchain_tooltree.cfgm.reflection import Reflector, correction_text
from langchain_tooltree.cfgm.tips import Tip
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.embeddings import resolve_embeddings
from langchain_tooltree.experience.guide import NextTools, Remedy, Remembered
from langchain_tooltree.experience.recorder import RunRecorder, TrajectoryRecorder
from langchain_tooltree.experience.records import ChatMessage, as_reference
from langchain_tooltree.experience.run_identity import COLLECTING, as_metadata, run_id, tools_in
from langchain_tooltree.experience.store import JUDGED, PAGE, PENDING, ExperienceStore, Namespace, RunEntry, entry_of
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.experience.verdict import AnyVerdict, resolve_verdict
from langchain_tooltree.flows import (
    Flow,
    FunctionStep,
    async_twin,
    current_runtime,
    current_writer,
    driven,
    emitted,
    flow_of,
    run_flow,
)
from langchain_tooltree.models import Meter, is_chat_model, resolve_model
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.stores.chroma import ChromaStore
from langchain_tooltree.text import digest, shortened
from langchain_tooltree.tooltree.planner import forget_oldest

logger = logging.getLogger(__name__)

DEFAULT_NAMESPACE = ("tooltree", "{user_id}")

DEFAULT_SETTLE_SECONDS = 1_800.0
"""Seconds after which a thread that has not gone on is taken to rest: half an hour, after which web analytics ends a
visit, too."""

KEPT_NAMESPACES = 256
"""Namespaces whose graph is kept in memory, about a megabyte each for some hundred runs; others are made anew."""

KEPT_REQUESTS = 1_000
"""Requests for which it is kept what was recalled, some KB each: more than a process has under way."""


@dataclass(frozen=True, slots=True)
class ExperienceStatus:
    """What there is in a namespace.

    Attributes:
        runs: Records, failed attempts of searches included.
        judged: Those that a verdict has called a success or a failure.
        pending: Those that wait for their verdict.
        successes: Those that succeeded.
        in_graph: Those that the graph is made of.
    """

    runs: int
    judged: int
    pending: int
    successes: int
    in_graph: int


class _Fold:
    """What one namespace's records come to: its graph and its memory, and which version of each record is in them."""

    def __init__(self, store: ExperienceStore, model: BaseChatModel | None, embeddings: Embeddings | None) -> None:
        self.store = store
        self.graph = SITGraph(embeddings=embeddings)
        self.memory = CFGMMemory(model, store)
        self._folded: dict[str, str] = {}
        self._seen: dict[str, int] | None = None
        self.entries: dict[str, RunEntry] = {}
        self._busy = threading.Lock()

    def refresh(self) -> Flow[None]:
        """Take in what has changed in the store. Where nobody has written, that is one small read."""
        # Somebody else is at it, on a thread or in a task that must not be waited for here.
        if not self._busy.acquire(blocking=False):
            return
        try:
            seen = yield from self.store.writes()
            if seen != self._seen:
                yield from self._take_in((yield from self.store.entries()))
                self._seen = seen
        finally:
            self._busy.release()

    def _take_in(self, entries: dict[str, RunEntry]) -> Flow[None]:
        judged = {run: entry.version for run, entry in entries.items() if entry.outcome in JUDGED}
        for run in [run for run in self._folded if run not in judged]:
            self._forget(run)
        self.entries = entries
        changed = [run for run, version in judged.items() if self._folded.get(run) != version]
        for start in range(0, len(changed), PAGE):
            for trajectory in (yield from self.store.reading(changed[start : start + PAGE])):
                yield from self._fold(trajectory, entries[trajectory.id])

    def _fold(self, trajectory: Trajectory, entry: RunEntry) -> Flow[None]:
        yield from flow_of(self.graph.learn)(trajectory)
        self._folded[trajectory.id] = entry.version

    @property
    def place(self) -> Namespace:
        """The namespace."""
        return self.store.place[1]

    def pending(self, until: float) -> list[str]:
        """The runs that have waited for their verdict since then, longest first."""
        waiting = [(each.since, run) for run, each in self.entries.items() if each.outcome == PENDING]
        return [run for since, run in sorted(waiting) if since <= until]

    def status(self) -> ExperienceStatus:
        """How many there are of each kind."""
        outcomes = [entry.outcome for entry in self.entries.values()]
        return ExperienceStatus(
            runs=len(outcomes),
            judged=sum(outcome in JUDGED for outcome in outcomes),
            pending=outcomes.count(PENDING),
            successes=outcomes.count("success"),
            in_graph=len(self.graph),
        )

    def _forget(self, run: str) -> None:
        self.graph.remove(run)
        self._folded.pop(run, None)

    def keep(self, trajectory: Trajectory) -> Flow[None]:
        """Write a record, and take it in at once."""
        yield from flow_of(self.store.add)(trajectory)
        entry = self.entries[trajectory.id] = entry_of(trajectory)
        if trajectory.success is None:
            self._forget(trajectory.id)
        else:
            yield from self._fold(trajectory, entry)
        writer, count = self.store.own_writes()
        if self._seen is not None and self._seen.get(writer, 0) == count - 1:
            self._seen[writer] = count  # nobody else's writes are in between


class Experience:
    """What an agent has been through: records, and the graph and the memory made of them, for each namespace.

    ```python
    experience = Experience("experience/", verdict="openai:gpt-4.1-mini", namespace=("tooltree",))
    agent = create_tooltree_agent(model, tools, effects=effects, experience=experience)
    ```

    Before a turn, the runs and tips for the most similar tasks are recalled; they guide what the search proposes, and
    so does the graph of what came next. When a turn ends it is kept, and judged once its thread rests: at once if it
    has no thread, when another thread of the namespace begins, or `settle_seconds` after its end, looked at whenever
    something happens here. Only judged runs count. A thread that goes on is judged again, and that verdict counts.

    A function is asked for its verdict on the spot. A model is asked in the background, so that nobody waits for it; a
    run whose verdict is lost with the process is found again by the next one.

    What other processes write to the same store is taken in at the next turn. Each namespace has a graph and a memory
    of its own: what one user did is never suggested to another.

    Args:
        store_or_path: An `ExperienceStore`, any LangGraph store, or a local folder, for which `ChromaStore` is used.
        model: Writes tips, and reflects where something goes wrong: a chat model, or the name of one. Neither is done
            without.
        verdict: Says whether a run succeeded: a function (see `VerdictFunction`), a chat model, the name of one, or a
            `ModelVerdict`. Without one, runs are kept and wait.
        namespace: Under which namespace everything is kept; a label may hold variables, which are filled as
            `ExperienceStore` describes. With `("tooltree",)` all users share one. For a store that has none of its own.
        embeddings: Compares tasks and states: an embedder, or a name for `init_embeddings`; `HashingEmbeddings` if left
            out.
        settle_seconds: So long after its last turn a thread is taken to rest.

    Raises:
        ConfigurationError: If an argument is invalid.
        MissingExtraError: For a folder, if chromadb is not installed: `pip install 'langchain-tooltree[chroma]'`.
    """

    def __init__(
        self,
        store_or_path: ExperienceStore | BaseStore | str | os.PathLike[str],
        *,
        model: str | BaseChatModel | None = None,
        verdict: AnyVerdict | None = None,
        namespace: Sequence[str] | None = None,
        embeddings: Embeddings | str | None = None,
        settle_seconds: float = DEFAULT_SETTLE_SECONDS,
    ) -> None:
        if isinstance(settle_seconds, bool) or not isinstance(settle_seconds, int | float) or settle_seconds < 0:
            msg = f"settle_seconds must be a number of 0 or more, got {settle_seconds!r}."
            raise ConfigurationError(msg)
        self._embeddings = resolve_embeddings(embeddings)
        self._store = _store_from(store_or_path, namespace, self._embeddings)
        self._model = None if model is None else resolve_model(model)
        self._judge = None if verdict is None else resolve_verdict(verdict)
        self._waits_for_nobody = _is_function(verdict)
        self._settle_seconds = settle_seconds
        self._shared = _Shared()

    def within(self, **values: Any) -> "Experience":
        """The same experience for one user or tenant: the namespace's variables have these values."""
        return self._with(_store=self._store.within(**values))

    def judged_by(self, verdict: AnyVerdict) -> "Experience":
        """The same experience with this verdict.

        Raises:
            ConfigurationError: If it has one already.
        """
        if self._judge is not None:
            msg = f"This Experience has a verdict, but verdict={verdict!r:.80} was passed, too. Leave one out."
            raise ConfigurationError(msg)
        return self._with(_judge=resolve_verdict(verdict), _waits_for_nobody=_is_function(verdict))

    @property
    def has_verdict(self) -> bool:
        """Whether anybody says which runs succeeded."""
        return self._judge is not None

    def _with(self, **changed: Any) -> "Experience":
        other = object.__new__(Experience)
        other.__dict__ |= self.__dict__ | changed
        return other

    @property
    def store(self) -> ExperienceStore:
        """The records."""
        return self._store

    @property
    def graph(self) -> SITGraph:
        """The graph of the namespace, with all that is in the store by now."""
        fold = self._here()
        run_flow(_undisturbed(fold.refresh()))
        return fold.graph

    @property
    def memory(self) -> CFGMMemory:
        """The memory of the namespace."""
        return self._here().memory

    @property
    def recorder(self) -> TrajectoryRecorder:
        """A callback handler that keeps the runs of any graph here; one serves all."""
        return TrajectoryRecorder.settling(self._store, self._settled)

    @driven
    def learn(self, trajectory: Trajectory) -> Flow[Trajectory]:
        """Keep a run and learn from it. One that nobody has judged is judged first. Returns it with its verdict."""
        fold = self._here()
        if trajectory.success is None and self._judge is not None:
            trajectory = yield from self._judged(trajectory)
        yield from fold.keep(trajectory)
        return trajectory

    alearn = async_twin(learn)

    @driven
    def settle(self) -> Flow[ExperienceStatus]:
        """Judge all runs of the namespace that wait for it, as if their threads rested, and wait until that is done."""
        fold = self._here()
        yield from fold.refresh()
        for worker in self._shared.workers():
            yield FunctionStep(lambda thread: thread.join(), worker)
        yield from self._judging(fold, fold.pending(math.inf))
        return fold.status()

    asettle = async_twin(settle)

    @driven
    def status(self) -> Flow[ExperienceStatus]:
        """What there is in the namespace by now."""
        fold = self._here()
        yield from fold.refresh()
        return fold.status()

    astatus = async_twin(status)

    # What the planner asks for; see `Learner`.

    def begun(self, said: Conversation, known: Mapping[str, Any] | None = None) -> Flow[Remembered | None]:
        """Recall for a conversation whose turn begins; see `Learner.begun`."""
        if (configurable_here() or {}).get(COLLECTING):
            return None
        fold = self._here()
        own = _own_id()
        self._shared.begin(fold.place, own)
        yield from _undisturbed(self._looked(fold, own))
        namespace = {name: str(value) for name, value in fold.store.values.items()}
        request = said.request.id if said.request else None
        known = known if known and known["namespace"] == namespace else {}
        same = said.is_summarized or any(each.id == known.get("request") for each in said.messages if each.id)
        first = (known["first"] if known and same else "") or said.first_task
        if known and (not said.task or known["request"] == request):
            return cast("Remembered", known)
        key = (fold.place, own, request)
        if request is not None and key in self._shared.recalled:
            return self._shared.recalled[key]
        remembered = Remembered(namespace=namespace, first=first, request=request, runs=[], tips=[])
        task = "\n".join(dict.fromkeys([shortened(first), shortened(said.task)]))
        if task.strip():
            yield from _undisturbed(_recall(fold.memory, task, own, remembered))
        if request is not None:
            self._shared.recalled[key] = remembered
            forget_oldest(self._shared.recalled, KEPT_REQUESTS)
        return remembered

    def guide(self, remembered: Mapping[str, Any], room: int) -> Flow["RequestGuide"]:
        """The guide for a request; see `Learner.guide`."""
        fold = self._fold_of(self._store.within(**remembered["namespace"]))
        key = (fold.place, *remembered["runs"], room)
        if key not in self._shared.advice:
            advice: list[str] = []
            yield from _undisturbed(_advise(fold, remembered, room, advice))
            self._shared.advice[key] = advice[0] if advice else ""
            forget_oldest(self._shared.advice, KEPT_REQUESTS)
        return RequestGuide(fold, remembered, self._shared.advice[key], self._model)

    def ended(
        self,
        messages: Sequence[BaseMessage],
        remembered: Mapping[str, Any],
        *,
        id: str | None = None,  # noqa: A002 - the record's field
        tools: Sequence[Any] = (),
    ) -> Flow[None]:
        """Keep a conversation whose turn is over; see `Learner.ended`."""
        recorder = RunRecorder(None, settle=self._settled)
        about = {"recalled": {"runs": remembered["runs"], "tips": [tip_id(each) for each in remembered["tips"]]}}
        about |= as_metadata(tools_in(list(tools)))
        store = self._store.within(**remembered["namespace"])
        task = remembered["first"] or None
        yield from _undisturbed(recorder.keeping(messages, current_runtime(), store, task=task, id=id, about=about))

    def _here(self) -> _Fold:
        try:
            return self._fold_of(self._store.within_config())
        except ConfigurationError as error:
            msg = f"{error} If all users may share what was learnt: Experience(..., namespace=('tooltree',))."
            raise ConfigurationError(msg) from error

    def _fold_of(self, store: ExperienceStore) -> _Fold:
        return self._shared.fold(store, partial(_Fold, store, self._model, self._embeddings))

    def _looked(self, fold: _Fold, own: str | None) -> Flow[None]:
        """Take in what is new, and have judged what rests now that another thread, if it is one, begins."""
        yield from fold.refresh()
        begins = own is not None and own not in fold.entries
        yield from self._have_judged(fold, fold.pending(math.inf if begins else time.time() - self._settle_seconds))

    def _settled(self, store: ExperienceStore, trajectory: Trajectory, *, rests: bool) -> Flow[None]:
        """Keep a run that has ended, and have it judged if it rests."""
        fold = self._fold_of(store)
        if trajectory.success is None:
            since = 0.0 if rests else time.time()
            trajectory = replace(trajectory, metadata={**trajectory.metadata, PENDING: since})
        yield from fold.keep(trajectory)
        self._shared.end(fold.place, trajectory.id)
        yield from self._have_judged(fold, fold.pending(time.time() - self._settle_seconds))

    def _have_judged(self, fold: _Fold, ids: Sequence[str]) -> Flow[None]:
        """Judge runs: by a function on the spot, by a model in the background."""
        resting = [run for run in ids if not self._shared.is_running(fold.place, run, self._settle_seconds)]
        if not resting or self._judge is None:
            return
        if self._waits_for_nobody:
            yield from self._judging(fold, resting)
        else:
            self._shared.start(partial(run_flow, self._judging(fold, resting)))

    def _judging(self, fold: _Fold, ids: Sequence[str]) -> Flow[None]:
        for run in ids if self._judge is not None else ():
            if self._shared.claim(fold.place, run):
                try:
                    yield from _undisturbed(self._judge_record(fold, run))
                finally:
                    self._shared.release(fold.place, run)

    def _judge_record(self, fold: _Fold, run: str) -> Flow[None]:
        """Judge a record, unless its thread goes on meanwhile."""
        found = yield from fold.store.reading([run])
        if not found or PENDING not in found[0].metadata or found[0].success is not None:
            return
        judged = yield from self._judged(found[0])
        latest = yield from fold.store.reading([run])
        if latest and entry_of(latest[0]) == entry_of(found[0]):
            yield from fold.keep(judged)

    def _judged(self, trajectory: Trajectory) -> Flow[Trajectory]:
        assert self._judge is not None  # noqa: S101 - for mypy
        verdict = yield from self._judge(trajectory)
        reasons = "\n".join(part for part in (trajectory.reasons, verdict.reasons) if part)
        metadata = {name: value for name, value in trajectory.metadata.items() if name != PENDING}
        return replace(trajectory.judged(verdict.success, reasons), metadata=metadata)


@dataclass(frozen=True, slots=True)
class RequestGuide:
    """Past runs of a namespace as the search for one request sees them; see `Guide`."""

    fold: _Fold
    remembered: Mapping[str, Any]
    advice: str
    model: BaseChatModel | None

    def next_tools(self, dialogue: Sequence[ChatMessage], allowed: Collection[str]) -> Flow[NextTools | None]:
        """How past runs went on from here."""
        try:
            return (yield from flow_of(self.fold.graph.next_tools)(dialogue, allowed=list(allowed)))
        except Exception as error:  # noqa: BLE001 - the embedder may be down, and the search can do without
            logger.warning("No tool could be suggested: %s: %s", type(error).__name__, error)
            return None

    def is_anomalous(self, said: Conversation) -> Flow[bool]:
        """Whether the latest observations show that something is off."""
        try:
            return (yield from flow_of(standard_detector().check)(said)) is not None
        except Exception as error:  # noqa: BLE001 - the search can do without
            logger.warning("An observation was not checked: %s: %s", type(error).__name__, error)
            return False

    def remedy(self, said: Conversation, tools: Sequence[Any], meter: Meter) -> Flow[Remedy | None]:
        """What a model says about the trouble at the end of a dialogue."""
        if self.model is None:
            return None
        try:
            anomaly = yield from flow_of(standard_detector().check)(said)
            if anomaly is None or not anomaly.recoverable:
                return None
            tips = [Tip.from_dict(each) for each in self.remembered["tips"]]
            described = tools_in(list(tools)).values()
            reflect = flow_of(Reflector(self.model).reflect)
            reflection = yield from reflect(said, anomaly, tips=tips, tools=described, meter=meter)
        except Exception as error:  # noqa: BLE001 - the search goes on as it would have
            logger.warning("There is no reflection: %s: %s", type(error).__name__, error)
            return None
        if reflection is None:
            return None
        return Remedy(as_reference(correction_text(anomaly, reflection), source="review"), reflection.next_step)

    def failed(self, attempts: Sequence[Trajectory]) -> Flow[None]:
        """Keep failed attempts at the task of the request."""
        for attempt in attempts:
            yield from _undisturbed(self.fold.keep(attempt))


class _Shared:
    """What the views of one experience share: the folds of namespaces, and who is at what."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folds: dict[Namespace, _Fold] = {}
        self._running: dict[tuple[Namespace, str], float] = {}
        self._claimed: set[tuple[Namespace, str]] = set()
        self._workers: set[threading.Thread] = set()
        self.recalled: dict[Any, Remembered] = {}
        self.advice: dict[Any, str] = {}

    def fold(self, store: ExperienceStore, make: Callable[[], _Fold]) -> _Fold:
        """The fold of a namespace; those used longest ago are given up."""
        _, namespace = store.place
        with self._lock:
            found = self._folds[namespace] = self._folds.pop(namespace) if namespace in self._folds else make()
            forget_oldest(self._folds, KEPT_NAMESPACES)
            return found

    def begin(self, place: Namespace, run: str | None) -> None:
        """A run is under way, and is not judged meanwhile."""
        if run is not None:
            with self._lock:
                self._running[place, run] = time.monotonic()

    def end(self, place: Namespace, run: str) -> None:
        """A run is over."""
        with self._lock:
            self._running.pop((place, run), None)

    def is_running(self, place: Namespace, run: str, longest: float) -> bool:
        """Whether a run is under way; one that has raised never comes to its end."""
        return time.monotonic() - self._running.get((place, run), -math.inf) < longest

    def claim(self, place: Namespace, run: str) -> bool:
        """Take a run to judge it; somebody else may have it."""
        with self._lock:
            free = (place, run) not in self._claimed
            self._claimed.add((place, run))
            return free

    def release(self, place: Namespace, run: str) -> None:
        """A run was judged."""
        with self._lock:
            self._claimed.discard((place, run))

    def workers(self) -> list[threading.Thread]:
        """The threads that judge in the background."""
        with self._lock:
            return [each for each in self._workers if each is not threading.current_thread()]

    def start(self, work: Callable[[], Any]) -> None:
        """Work in the background. A program that ends waits for it; one that is killed finds the runs again."""

        def job() -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._workers.discard(thread)

        # Not in the context of the run: its callbacks and streams are not for this.
        thread = threading.Thread(target=job, name="tooltree-verdicts")
        with self._lock:
            self._workers.add(thread)
        thread.start()


def _store_from(given: Any, namespace: Sequence[str] | None, embeddings: Embeddings) -> ExperienceStore:
    if isinstance(given, ExperienceStore):
        if namespace is not None:
            msg = (
                f"An ExperienceStore has its own namespace, but namespace={namespace!r} was passed, too. Leave it out."
            )
            raise ConfigurationError(msg)
        return given
    if isinstance(given, str | os.PathLike):
        given = ChromaStore(given, embeddings=embeddings)
    if not isinstance(given, BaseStore):
        msg = (
            "store_or_path must be a folder, a LangGraph store such as InMemoryStore(), or an ExperienceStore; "
            f"got {type(given).__name__}."
        )
        raise ConfigurationError(msg)
    return ExperienceStore(given, namespace=namespace or DEFAULT_NAMESPACE, embeddings=embeddings)


def _is_function(verdict: object) -> bool:
    return callable(verdict) and not is_chat_model(verdict)


def _own_id() -> str | None:
    runtime = current_runtime()
    return None if runtime is None else run_id(runtime)


def _recall(memory: CFGMMemory, task: str, own: str | None, remembered: Remembered) -> Flow[None]:
    found = yield from flow_of(memory.recall)(task, DEFAULT_K if own is None else DEFAULT_K + 1)
    recollection = without(found, own, DEFAULT_K)
    remembered["runs"] = [each.trajectory.id for each in recollection.runs]
    remembered["tips"] = [tip.to_dict() for tip in recollection.tips]
    yield from emitted(recall_event(recollection), current_writer())


def _advise(fold: _Fold, remembered: Mapping[str, Any], room: int, advice: list[str]) -> Flow[None]:
    runs = yield from fold.store.reading(remembered["runs"])
    tips = tuple(map(Tip.from_dict, remembered["tips"]))
    recalled = tuple(RecalledRun(run, () if place else tips) for place, run in enumerate(runs))
    recollection = Recollection(remembered["first"], recalled)
    advice.append(recall_text(recollection, max_characters=min(room, DEFAULT_MAX_CHARACTERS)))


def tip_id(tip: Mapping[str, Any]) -> str:
    """Identifies a tip among the others."""
    return str(tip.get("id") or digest(str(tip.get("text")), 12))


def _undisturbed(flow: Flow[None]) -> Flow[None]:
    """A flow whose failure is logged: the agent goes on without it."""
    try:
        yield from flow
    except Exception as error:
        logger.exception("Experience could not be used as it should: %s", error)  # noqa: TRY401 - the reason in one line
