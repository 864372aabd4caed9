"""Experience: what an agent has been through, in one object that makes its next run better and cheaper."""

import logging
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langgraph.store.base import BaseStore

from langchain_tooltree.cfgm.memory import CFGMMemory
from langchain_tooltree.cfgm.tips import Tip
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.effects.calls import CallEffects, Effects
from langchain_tooltree.errors import ConfigurationError, ForeignNamespaceError, StoreError, described
from langchain_tooltree.experience.embeddings import resolve_embeddings
from langchain_tooltree.experience.excerpts import EFFECTS
from langchain_tooltree.experience.guide import Remembered
from langchain_tooltree.experience.notes import recall_noted, with_recalled
from langchain_tooltree.experience.outage import PATIENCE, READ
from langchain_tooltree.experience.recorder import RunRecorder, TrajectoryRecorder
from langchain_tooltree.experience.records import Source, aim_of, recalled_in
from langchain_tooltree.experience.run_identity import as_metadata, is_collecting, run_id, tools_in
from langchain_tooltree.experience.store import PENDING, ExperienceStore, entry_of
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.experience.verdict import UNUSABLE, AnyVerdict, Verdict, resolve_verdict
from langchain_tooltree.flows import Flow, FunctionStep, async_twin, current_runtime, driven, flow_of, run_flow
from langchain_tooltree.learning.erasure import AnyGraph, Chosen, Erased, erasing
from langchain_tooltree.learning.learnt import ExperienceStatus, Learnt, RequestGuide, undisturbed
from langchain_tooltree.learning.shared import KEPT_REQUESTS, Shared
from langchain_tooltree.models import is_chat_model, resolve_model
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.stores.chroma import PatientChromaStore
from langchain_tooltree.text import digest, forget_oldest

logger = logging.getLogger(__name__)

DEFAULT_NAMESPACE = ("tooltree", "{user_id}")

DEFAULT_SETTLE_SECONDS = 1_800.0
"""Seconds after which a thread that has not gone on is taken to rest: half an hour, after which web analytics ends a
visit, too."""


FAILED = "failed_verdicts"
"""Key of a record's metadata under which it is counted how often a verdict was asked for in vain."""

UNKEPT = (
    "A verdict could not be kept, and its run waits. If the store was closed: call experience.settle(), or "
    "await experience.asettle() before closing the store."
)

MOST_FAILED = 3
"""So often a verdict is asked for in vain before a run is given up: a model may be down, or unable to judge it."""


class Experience:
    """What an agent has been through: records, and the graph and the memory made of them, for each namespace.

    ```python
    experience = Experience("experience/", verdict="openai:gpt-4.1-mini", namespace=("tooltree",))
    agent = create_tooltree_agent(model, tools, effects=effects, experience=experience)
    ```

    Before a turn, the runs and tips for the most similar tasks are recalled; they guide what the search proposes, and
    so does the graph of what came next. When a turn ends it is kept, and judged once its thread rests: at once if it
    has no thread or cannot go on, when its user begins another one, or `settle_seconds` after its end, looked at
    whenever something happens here. A namespace without variables does not tell users apart, so that there a new thread
    says nothing of the others. Only judged runs count. A thread that goes on is judged again, and that verdict counts.

    A function is asked for its verdict on the spot. A model is asked in the background, so that nobody waits for it; a
    run whose verdict is lost with the process is found again by the next one.

    What other processes write to the same store is taken in at the next turn. Each namespace has a graph and a memory
    of its own: what one user did is never suggested to another.

    Args:
        store_or_path: An `ExperienceStore`, any LangGraph store, or a local folder, for which `ChromaStore` is used.
            A folder belongs to one process at a time; several share a server or a database. One that another embedder
            filled is neither searched nor written to, and agents go on without it.
        model: Writes tips, and reflects where something goes wrong: a chat model, or the name of one. Neither is done
            without.
        verdict: Says whether a run succeeded: a function (see `VerdictFunction`), a chat model, the name of one, or a
            `ModelVerdict`. Without one, runs are kept and wait.
        namespace: Under which namespace everything is kept; a label may hold variables, which are filled as
            `ExperienceStore` describes. With `("tooltree",)` all users share one. For a store that has none of its own.
        embeddings: Compares tasks and states: an embedder, or a name for `init_embeddings`; `HashingEmbeddings` if left
            out.
        settle_seconds: So long after its last turn a thread is taken to rest.
        quarantine: Whether a run counts only once a person has confirmed its verdict with `label`.

    Raises:
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
        quarantine: bool = False,
    ) -> None:
        if isinstance(settle_seconds, bool) or not isinstance(settle_seconds, int | float) or settle_seconds < 0:
            msg = f"settle_seconds must be a number of 0 or more, got {settle_seconds!r}."
            raise ConfigurationError(msg)
        self._embeddings = resolve_embeddings(embeddings)
        self._store = _store_from(store_or_path, namespace, self._embeddings)
        self._model = None if model is None else resolve_model(model)
        self._judge = None if verdict is None else resolve_verdict(verdict)
        self._asks_function = _is_function(verdict)
        self._settle_seconds = settle_seconds
        self._quarantine = quarantine
        self._shared = Shared()
        self._recorder = TrajectoryRecorder.settling(self._store, self._settled, self._shared.outage.trying)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self._store!r}>"

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
        return self._with(_judge=resolve_verdict(verdict), _asks_function=_is_function(verdict))

    @property
    def has_verdict(self) -> bool:
        """Whether anybody says which runs succeeded."""
        return self._judge is not None

    def _with(self, **changed: Any) -> "Experience":
        other = object.__new__(Experience)
        other.__dict__ |= self.__dict__ | changed
        other._recorder = TrajectoryRecorder.settling(other._store, other._settled, other._shared.outage.trying)
        return other

    @property
    def store(self) -> ExperienceStore:
        """The records."""
        return self._store

    @property
    def graph(self) -> SITGraph:
        """The graph of the namespace, with all that is in the store by now."""
        learnt = self._here()
        run_flow(undisturbed(learnt.refresh(whole=True)))
        return learnt.graph

    @property
    def memory(self) -> CFGMMemory:
        """The memory of the namespace."""
        return self._here().memory

    @property
    def recorder(self) -> TrajectoryRecorder:
        """A callback handler that keeps the runs of any graph here; one serves all."""
        return self._recorder

    @driven
    def learn(self, trajectory: Trajectory) -> Flow[Trajectory]:
        """Keep a run and learn from it. One that nobody has judged is judged first. Returns it with its verdict."""
        learnt = self._here()
        if trajectory.success is None and self._judge is not None:
            if learnt.agreement.is_doubtful:
                trajectory = replace(trajectory, metadata={**trajectory.metadata, PENDING: 0.0})
            else:
                trajectory = yield from self._judged(trajectory)
        yield from learnt.keep(trajectory)
        return trajectory

    alearn = async_twin(learn)

    @driven
    def label(
        self,
        id: str,  # noqa: A002 - the record's field
        success: bool,  # noqa: FBT001 - as `Trajectory.judged` has it
        reasons: str = "",
        *,
        source: Source = "user",
    ) -> Flow[Trajectory]:
        """Say whether a run succeeded, in place of its verdict; see `ExperienceStore.label`. It is learnt at once."""
        learnt = self._here()
        labelled = yield from flow_of(learnt.store.label)(id, success, reasons, source=source)
        yield from learnt.refresh()
        return labelled

    alabel = async_twin(label)

    @driven
    def rollback(self, *, source: str) -> Flow[list[str]]:
        """Take back what all runs of the namespace gave that came from somebody (`Trajectory.came_from`); their ids.

        Where a run does not say, that is whose namespace it is. They are kept in quarantine, in the store: nothing is
        learnt of them, here or in another process, until `label` confirms one, and tips that were taken of them alone
        are not told. `forget` erases them all.
        """
        learnt = self._here()
        yield from learnt.refresh(whole=True)
        return (yield from learnt.rollback(source))

    arollback = async_twin(rollback)

    @driven
    def forget(
        self,
        *,
        run: str | Iterable[str] | None = None,
        user: Any = None,
        tool: str | None = None,
        before: datetime | None = None,
        graphs: Sequence[AnyGraph] = (),
    ) -> Flow[Erased]:
        """Forget runs, and all that was made of them: as if they had never been, but for what the report names.

        Records, what is half there, edges, states, summaries, refusals, labels, tips that cite one of them, focus
        points made of one, what is kept in memory, and files of the store: Chroma and SQLite are vacuumed, which takes
        as long as copying them. Other processes take it in at their next turn. What several arguments say is narrowed
        down to what they have in common; nothing can be brought back.

        Args:
            run: The id of a run or of its thread, or several: with its sub-agents and the attempts of its searches.
            user: For whom the namespace has a variable: everything that is kept for this one.
            tool: Runs in which this tool was called.
            before: Runs that were recorded, judged or labelled last before then, by the store's clock.
            graphs: Graphs that were saved or are held beside this experience, as folders or `SITGraph`s. The same runs
                are taken out of them, of `graph`, and of the folders where these were read or saved by this process.

        Returns:
            What is gone, and what could not be reached, such as checkpoints, with what to do about it.

        Raises:
            ConfigurationError: If nothing is said, or what is said cannot be.
            GraphFileError: If a folder holds no graph, or a damaged one; nothing was forgotten in the store then.
            StoreError: If runs wait for a store that is down or full, since they would come back. What else a store
                raises is raised, too: `forget` can be called again.
        """
        chosen = Chosen.of(run, user, tool, before)
        learnt = self._here() if user is None else self._learnt(self._store.of_user(user))
        yield from self._shared.outage.flush()  # what waits to be written would come later
        if waiting := self._shared.outage.waiting(learnt.place):
            msg = (
                f"{waiting} runs wait for their store, which does not take them now. Nothing was forgotten: try again."
            )
            raise StoreError(msg)
        rested = partial(self._shared.wait_for, learnt.place)
        erased = yield from erasing(learnt, chosen, graphs, rested)
        self._shared.forget(learnt.place)
        return erased

    aforget = async_twin(forget)

    @driven
    def settle(self) -> Flow[ExperienceStatus]:
        """Judge all runs of the namespace that wait for it, as if their threads rested, and wait until that is done.

        What goes wrong with a run is logged, and the run waits on. With a `model`, tips are taken, too.
        """
        learnt = self._here()
        yield from self._shared.outage.flush()
        yield from learnt.refresh(whole=True)
        yield FunctionStep(wait, list(self._shared.workers))
        yield from self._judged_and_taught(learnt, self._shared.claim(learnt.place, learnt.pending(math.inf)))
        return (yield from learnt.status())

    asettle = async_twin(settle)

    @driven
    def status(self) -> Flow[ExperienceStatus]:
        """What there is in the namespace by now."""
        learnt = self._here()
        yield from learnt.refresh(whole=True)
        return (yield from learnt.status())

    astatus = async_twin(status)

    @driven
    def to_html(self, path: str | os.PathLike[str]) -> Flow[None]:
        """Write what was learnt in the namespace as a page to read: runs with verdicts and dialogues, tips, edges.

        It is one file that asks nobody for anything, and holds what this namespace has and nothing of another. Of many
        runs, the latest are listed, and those of them that there is room for can be read in it.
        """
        from langchain_tooltree.learning.experience_page import page_of  # noqa: PLC0415 - only who looks needs it

        learnt = self._here()
        yield from learnt.refresh(whole=True)
        text = yield from page_of(learnt)
        yield FunctionStep(partial(Path(path).write_text, encoding="utf-8"), text)

    ato_html = async_twin(to_html)

    def _repr_html_(self) -> str | None:
        """What a notebook shows: a table, since viewers take scripts out, and a notebook is to stay small."""
        from langchain_tooltree.learning.experience_page import to_table  # noqa: PLC0415 - as above

        try:
            return to_table(self._here(), self.status())
        except Exception as error:  # noqa: BLE001 - whose namespace it is may not be known, and the store may be down
            logger.info("There is nothing to show of an experience: %s", described(error))
            return None

    # What the planner asks for; see `Learner`.

    def begun(self, said: Conversation, known: Mapping[str, Any] | None = None) -> Flow[Remembered | None]:
        """Recall for a conversation whose turn begins; see `Learner.begun`."""
        if is_collecting():
            return None
        learnt, own = self._here(), _own_id()
        self._shared.begin(learnt.place, own)
        yield from undisturbed(self._looked(learnt, own))
        namespace = dict(learnt.store.values)
        request = said.request.id if said.request else None
        known = known if known and known["namespace"] == namespace else {}
        same = said.is_summarized or any(each.id == known.get("request") for each in said.messages if each.id)
        first = (known["first"] if known and same else "") or said.first_task
        if known and (not said.task or known["request"] == request):
            return learnt.without_gone(cast("Remembered", known))
        key = (learnt.place, own, request)
        if key in self._shared.recalled:
            return learnt.without_gone(self._shared.recalled[key])
        wanted = aim_of(dict.fromkeys([first, *said.requests]))
        runs, tips = yield from learnt.recall(wanted, own)
        remembered = Remembered(namespace=namespace, first=first, request=request, runs=runs, tips=tips)
        if own is not None and request is not None:
            self._shared.recalled[key] = remembered
            forget_oldest(self._shared.recalled, KEPT_REQUESTS)
        return remembered

    def guide(self, remembered: Mapping[str, Any], room: int, effects: CallEffects) -> Flow[RequestGuide]:
        """The guide for a request; see `Learner.guide`."""
        learnt = self._learnt(self._store.resumed(remembered["namespace"]))
        # What one request is told stays the same, so that prompt caches hold; by the next, a record may have changed.
        request = remembered["request"]
        key = (learnt.place, request, digest([remembered["runs"], remembered["tips"], room]))
        advice = None if request is None else self._shared.advice.get(key)
        if advice is None:
            advice = self._shared.advice[key] = yield from learnt.advice(remembered, room)
            forget_oldest(self._shared.advice, KEPT_REQUESTS)
        return RequestGuide(learnt, remembered, advice, effects.reads, self._model)

    def ended(
        self,
        messages: Sequence[BaseMessage],
        remembered: Mapping[str, Any] | None,
        *,
        id: str | None = None,  # noqa: A002 - the record's field
        tools: Sequence[Any] = (),
        effects: Effects | CallEffects | None = None,
        instructions: str = "",
    ) -> Flow[None]:
        """Keep a conversation whose turn is over; see `Learner.ended`."""
        about: dict[str, Any] = as_metadata(tools_in(list(tools)))
        if remembered is not None:
            tips = map(Tip.from_dict, remembered["tips"])
            about |= recall_noted(remembered["runs"], ((tip.id, tip.trajectories) for tip in tips))
        declared = CallEffects.declared_as(effects)
        said = Conversation.of(messages)
        told = yield from (declared.among(tools) if tools else declared).judged(said.calls)
        if not declared.may_read:  # else all other calls count as writes, as they do while searching
            told = {tool: effect for tool, effect in told.items() if effect == "read"}  # those of the package itself
        if told:
            about[EFFECTS] = told
        yield from undisturbed(self._keeping(said, remembered, id=id, instructions=instructions, about=about))

    def _keeping(self, messages: Conversation, remembered: Mapping[str, Any] | None, **options: Any) -> Flow[None]:
        if is_collecting():
            return
        noted = None if remembered is None else remembered["namespace"]
        store = self._store.within_config() if noted is None else self._store.resumed(noted)
        recorder = RunRecorder(None, settle=self._settled, trying=self._shared.outage.trying)
        task = (remembered or {}).get("first") or None
        yield from recorder.keeping(messages, current_runtime(), store, task=task, **options)

    def graph_here(self) -> Flow[SITGraph]:
        """The graph of the namespace of the running graph, as far as nobody has to wait for it."""
        learnt, own = self._here(), _own_id()
        self._shared.begin(learnt.place, own)
        yield from undisturbed(self._looked(learnt, own))
        return learnt.graph

    def _here(self) -> Learnt:
        try:
            return self._learnt(self._store.within_config())
        except ForeignNamespaceError:
            raise
        except ConfigurationError as error:
            said = str(error).replace("store.within(", "experience.within(")  # which is what the user holds
            msg = f"{said} If all users may share what was learnt: Experience(..., namespace=('tooltree',))."
            raise ConfigurationError(msg) from error

    def _learnt(self, store: ExperienceStore) -> Learnt:
        made = partial(Learnt, store, self._model, self._embeddings, self._shared.outage, quarantine=self._quarantine)
        return self._shared.fold(store, made)

    def _looked(self, learnt: Learnt, own: str | None) -> Flow[None]:
        """Take in what is new, and have judged what rests now that another thread, if it is one, begins."""
        yield from self._refreshed(learnt)
        yield from self._have_judged(learnt, self._resting(learnt, own))

    def _refreshed(self, learnt: Learnt) -> Flow[None]:
        """Take in what is new, as far as nobody has to wait for it, where the store answers."""
        catching_up = yield from self._shared.outage.trying(READ, learnt.refresh, otherwise=None)
        if catching_up is not None:
            yield FunctionStep(partial(wait, timeout=PATIENCE), [catching_up])

    def _resting(self, learnt: Learnt, own: str | None) -> list[str]:
        """The runs that wait and whose threads rest, now that something happens in the thread `own`."""
        # Without variables the namespace may be many users', whose threads rest or not as they like.
        another_begins = own is not None and own not in learnt.entries and bool(learnt.store.values)
        return learnt.pending(math.inf if another_begins else time.time() - self._settle_seconds)

    def _settled(self, store: ExperienceStore, trajectory: Trajectory, *, rests: bool) -> Flow[None]:
        """Keep a run that has ended, and have it judged if it rests."""
        learnt = self._learnt(store)
        if trajectory.success is None:
            since = 0.0 if rests else time.time()
            trajectory = replace(trajectory, metadata={**trajectory.metadata, PENDING: since})
        yield from self._refreshed(learnt)
        # Where only a recorder hears of a run, it is not known before its end that it has begun.
        has_begun = self._shared.end(learnt.place, trajectory.id)
        resting = [] if has_begun else self._resting(learnt, trajectory.id)
        if earlier := learnt.entries.get(trajectory.id):
            trajectory = with_recalled(trajectory, earlier.runs, earlier.tips, earlier.taken_of.items())
        trajectory = learnt.without_forgotten(trajectory)
        if not (yield from learnt.keep_in_the_end(trajectory)):
            return
        due = learnt.pending(time.time() - self._settle_seconds)
        yield from self._have_judged(learnt, list(dict.fromkeys([*resting, *due])))

    def _have_judged(self, learnt: Learnt, ids: Sequence[str]) -> Flow[None]:
        """Judge runs: by a function on the spot, by a model in the background, where tips are taken, too."""
        resting = [run for run in ids if not self._shared.is_running(learnt.place, run, self._settle_seconds)]
        if resting and self._judge is None:
            self._shared.tell_once("Runs are kept and wait: nobody says which succeeded. Pass verdict= to Experience.")
        claimed = [] if self._judge is None else self._shared.claim(learnt.place, resting)
        if claimed and not self._asks_function:
            self._shared.start(self._judged_and_taught(learnt, claimed))
        elif claimed and (judged := (yield from self._judging(learnt, claimed))):
            self._shared.start(self._taught(learnt, judged))

    def _judged_and_taught(self, learnt: Learnt, claimed: Sequence[str]) -> Flow[None]:
        yield from self._taught(learnt, (yield from self._judging(learnt, claimed)))

    def _taught(self, learnt: Learnt, judged: Sequence[Trajectory]) -> Flow[None]:
        """Take tips where runs that were judged say something new: one that went well with the tips there are does not.

        Each costs one or two model calls, so an agent that does well soon costs none.
        """
        known = [run for run in judged if run.success and recalled_in(run.metadata, "tips")]
        new = [run for run in judged if run.success is not None and run not in known]
        if self._model is not None and new and self._shared.claim(learnt.place, [""]):
            try:
                yield from undisturbed(flow_of(learnt.memory.extract_tips)())
            finally:
                self._shared.release(learnt.place, [""])

    def _judging(self, learnt: Learnt, claimed: Sequence[str]) -> Flow[list[Trajectory]]:
        """Judge runs that wait; those that have a verdict now."""
        judged: list[Trajectory] = []
        try:
            if claimed and learnt.agreement.is_doubtful:
                told = (
                    "%d runs wait: people and the verdict agree too seldom (%s). Label runs, or take another verdict."
                )
                logger.warning(told, len(claimed), learnt.agreement)
                return judged
            for run in claimed if self._judge is not None else ():
                try:
                    yield from self._judge_record(learnt, run, judged)
                except Exception as error:  # noqa: BLE001 - the store's; the run waits on
                    self._shared.tell_once(f"{UNKEPT} ({' '.join(described(error).split())})")
            return judged
        finally:
            self._shared.release(learnt.place, claimed)

    def _judge_record(self, learnt: Learnt, run: str, done: list[Trajectory]) -> Flow[None]:
        """Judge a record, unless its thread goes on meanwhile."""
        found = yield from learnt.store.reading([run])
        if not found or PENDING not in found[0].metadata or found[0].success is not None:
            return
        judged = yield from self._judged(found[0], surely=True)
        failed = 1 + found[0].metadata.get(FAILED, 0)
        if UNUSABLE in judged.reasons and judged.success is None and failed < MOST_FAILED:
            later = {PENDING: time.time(), FAILED: failed}
            judged = replace(found[0], metadata={**found[0].metadata, **later})
        latest = yield from learnt.store.reading([run])
        if latest and entry_of(latest[0]) == entry_of(found[0]):
            yield from learnt.keep(judged)
            done.append(judged)

    def _judged(self, trajectory: Trajectory, *, surely: bool = False) -> Flow[Trajectory]:
        assert self._judge is not None  # noqa: S101 - for mypy
        try:
            verdict = yield from self._judge(trajectory)
        except Exception as error:
            if not surely:
                raise
            logger.exception("Run %r is not judged: %s", trajectory.id, error)  # noqa: TRY401 - the reason in one line
            verdict = Verdict(None, f"{UNUSABLE} {described(error)}")
        reasons = "\n".join(part for part in (trajectory.reasons, verdict.reasons) if part)
        metadata = {name: value for name, value in trajectory.metadata.items() if name not in {PENDING, FAILED}}
        return replace(trajectory, metadata=metadata).judged(verdict.success, reasons, source="verdict")


def _store_from(given: Any, namespace: Sequence[str] | None, embeddings: Embeddings) -> ExperienceStore:
    if isinstance(given, ExperienceStore):
        if namespace is not None:
            msg = (
                f"An ExperienceStore has its own namespace, but namespace={namespace!r} was passed, too. Leave it out."
            )
            raise ConfigurationError(msg)
        return given
    if isinstance(given, str | os.PathLike):
        given = PatientChromaStore(given, embeddings=embeddings)
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
