"""Experience: what an agent has been through, in one object that makes its next run better and cheaper."""

import logging
import math
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langgraph.store.base import BaseStore

from langchain_tooltree.cfgm.memory import CFGMMemory
from langchain_tooltree.effects import CallEffects, Effects
from langchain_tooltree.effects.names import EFFECTS_KEY
from langchain_tooltree.embeddings import resolve_embeddings
from langchain_tooltree.errors import (
    ConfigurationError,
    ForeignNamespaceError,
    described,
)
from langchain_tooltree.experience.recorder import RunRecorder, TrajectoryRecorder
from langchain_tooltree.experience.run_identity import (
    Namespace,
    TurnNote,
    as_metadata,
    is_collecting,
    run_id,
    tools_in,
    turn_note,
)
from langchain_tooltree.experience.store import (
    MOST_NAMESPACES,
    PENDING,
    ExperienceStore,
    entry_of,
)
from langchain_tooltree.experience.trajectory import Recall, Trajectory, VerdictSource
from langchain_tooltree.experience.verdict import UNUSABLE, AnyVerdict, resolve_verdict
from langchain_tooltree.flows import FunctionStep, arun_flow, run_flow
from langchain_tooltree.learning.erasure import (
    AnyGraph,
    Erased,
    ErasureSelection,
    erase,
)
from langchain_tooltree.learning.fold import TIPS, Background, ExperienceStatus, Fold
from langchain_tooltree.learning.guide import PastRuns
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.models import is_chat_model, resolve_model
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.stores.chroma import ChromaStore
from langchain_tooltree.streaming import get_current_runtime
from langchain_tooltree.text import forget_oldest

logger = logging.getLogger(__name__)

DEFAULT_NAMESPACE = ("tooltree", "{user_id}")

DEFAULT_SETTLE_SECONDS = 1_800.0
"""Seconds after which a thread that has not gone on is taken to rest: as long as a visit lasts in web analytics."""

FAILED_VERDICTS_KEY = "failed_verdicts"  # key of a record's metadata under which it is counted how often its verdict has failed
MAX_FAILED_VERDICTS = 3  # failures of a verdict after which a run is given up: a model may be down, or unable to judge it


class Experience:
    """What an agent has been through: records, and the graph and the memory made of them, for each namespace.

    ```python
    experience = Experience("experience/", verdict="openai:gpt-4.1-mini", namespace=("tooltree",))
    agent = create_tooltree_agent(model, tools, effects=effects, experience=experience)
    ```

    Where an answer is doubtful, the questions that follow tell what good runs did in such a state, tips that apply,
    and the most similar good run; nothing is told before. A turn is stored, and judged once its thread rests: at once
    if it has no thread or cannot go on, when its user begins another one, or `settle_seconds` after its end, looked at
    whenever something happens here. Only judged runs count. A thread that goes on is judged again.

    A function is asked for its verdict on the spot, a model in the background; a run whose verdict is lost with the
    process is found again by the next one. What other processes write to the same store is taken in at the next turn.
    Each namespace has a graph and a memory of its own: what one user did is never suggested to another.

    Args:
        store_or_path: An `ExperienceStore`, any LangGraph store, or a local folder, for which `ChromaStore` is used.
            A folder belongs to one process at a time; several share a server or a database. One that another embedder
            filled is neither searched nor written to, and agents go on without it.
        model: Writes tips, and reflects where something goes wrong: a chat model, or the name of one. Neither is done
            without.
        verdict: Says whether a run succeeded: a function (see `VerdictFunction`), a chat model, the name of one, or a
            `ModelVerdict`. Without one, runs are stored and wait.
        namespace: Under which namespace everything is stored; a label may hold variables, which are filled as
            `ExperienceStore` describes. With `("tooltree",)` all users share one, where a new thread says nothing of
            the others. For a store that has none of its own.
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
        if (
            isinstance(settle_seconds, bool)
            or not isinstance(settle_seconds, int | float)
            or settle_seconds < 0
        ):
            msg = (
                f"settle_seconds must be a number of 0 or more, got {settle_seconds!r}."
            )
            raise ConfigurationError(msg)
        self._embeddings = resolve_embeddings(embeddings)
        self._store = _store_from(store_or_path, namespace, self._embeddings)
        self._model = None if model is None else resolve_model(model)
        self._judge = None if verdict is None else resolve_verdict(verdict)
        self._asks_function = callable(verdict) and not is_chat_model(verdict)
        self._settle_seconds = settle_seconds
        self._quarantine = quarantine
        self._folds: dict[Namespace, Fold] = {}
        self._folding = threading.Lock()
        self._background = Background()
        self._recorder = TrajectoryRecorder.settling(self._store, self._settle)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} in {self._store!r}>"

    def within(self, **values: Any) -> "Experience":
        """The same experience for one user or tenant: the namespace's variables have these values."""
        other = object.__new__(Experience)
        other.__dict__ |= {**self.__dict__, "_store": self._store.within(**values)}
        other._recorder = TrajectoryRecorder.settling(other._store, other._settle)
        return other

    @property
    def has_verdict(self) -> bool:
        """Whether anybody says which runs succeeded."""
        return self._judge is not None

    @property
    def store(self) -> ExperienceStore:
        """The records."""
        return self._store

    @property
    def graph(self) -> SITGraph:
        """The graph of the namespace, with all that is in the store by now."""
        fold = self._here()
        run_flow(self._background.undisturbed(fold.refresh(whole=True)))
        return fold.graph

    @property
    def memory(self) -> CFGMMemory:
        """The memory of the namespace."""
        return self._here().memory

    @property
    def recorder(self) -> TrajectoryRecorder:
        """A callback handler that keeps the runs of any graph here; one serves all."""
        return self._recorder

    def learn(self, trajectory: Trajectory) -> Trajectory:
        """Store a run and learn from it. One that nobody has judged is judged first. Returns it with its verdict."""
        return run_flow(self.learn_flow(trajectory))

    async def alearn(self, trajectory: Trajectory) -> Trajectory:
        """Async version of `learn`."""
        return await arun_flow(self.learn_flow(trajectory))

    async def learn_flow(self, trajectory: Trajectory) -> Trajectory:
        """Flow of `learn` and `alearn`; other flows await it."""
        fold = self._here()
        if trajectory.success is None and self._judge is not None:
            trajectory = await self._judge_run(trajectory)
        await fold.keep(trajectory)
        return trajectory

    def label(
        self,
        id: str,  # noqa: A002 - the record's field
        success: bool,  # noqa: FBT001 - as `Trajectory.judged` has it
        reasons: str = "",
        *,
        source: VerdictSource = "user",
    ) -> Trajectory:
        """Say whether a run succeeded, in place of its verdict; see `ExperienceStore.label`. It is learnt at once."""
        return run_flow(self.label_flow(id, success, reasons, source=source))

    async def alabel(
        self,
        id: str,  # noqa: A002 - the record's field
        success: bool,  # noqa: FBT001 - as `Trajectory.judged` has it
        reasons: str = "",
        *,
        source: VerdictSource = "user",
    ) -> Trajectory:
        """Async version of `label`."""
        return await arun_flow(self.label_flow(id, success, reasons, source=source))

    async def label_flow(
        self,
        id: str,  # noqa: A002 - the record's field
        success: bool,  # noqa: FBT001 - as `Trajectory.judged` has it
        reasons: str = "",
        *,
        source: VerdictSource = "user",
    ) -> Trajectory:
        """Flow of `label` and `alabel`; other flows await it."""
        fold = self._here()
        labelled = await fold.store.label_flow(id, success, reasons, source=source)
        await fold.refresh()
        return labelled

    def rollback(self, *, source: str) -> list[str]:
        """Take back what all runs of the namespace gave that came from somebody (`Trajectory.came_from`); their ids.

        Where a run does not say, that is whose namespace it is. They wait in quarantine in the store: nothing is learnt
        from them until `label` confirms one, and tips that were taken from them alone are not told.
        """
        return run_flow(self.rollback_flow(source=source))

    async def arollback(self, *, source: str) -> list[str]:
        """Async version of `rollback`."""
        return await arun_flow(self.rollback_flow(source=source))

    async def rollback_flow(self, *, source: str) -> list[str]:
        """Flow of `rollback` and `arollback`; other flows await it."""
        fold = self._here()
        await fold.refresh(whole=True)
        return await fold.rollback(source)

    def forget(
        self,
        *,
        run: str | Iterable[str] | None = None,
        user: Any = None,
        tool: str | None = None,
        before: datetime | None = None,
        graphs: Sequence[AnyGraph] = (),
    ) -> Erased:
        """Forget runs, and all that was made of them: as if they had never been, but for what the report names.

        Records, edges, states, summaries, labels, tips that cite one of them, focus points made of one, what is held in
        memory, searches of this process included, and files of the store: Chroma and SQLite are vacuumed, which takes
        as long as copying them. Other processes take it in at their next turn. Several arguments narrow each other
        down. Nothing can be brought back.

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
            ConfigurationError: If no argument is passed, or one that cannot be.
            GraphFileError: If a folder holds no graph, or a damaged one; nothing was forgotten in the store then.
            Exception: Whatever the store raises; `forget` can be called again.
        """
        return run_flow(
            self.forget_flow(
                run=run, user=user, tool=tool, before=before, graphs=graphs
            )
        )

    async def aforget(
        self,
        *,
        run: str | Iterable[str] | None = None,
        user: Any = None,
        tool: str | None = None,
        before: datetime | None = None,
        graphs: Sequence[AnyGraph] = (),
    ) -> Erased:
        """Async version of `forget`."""
        return await arun_flow(
            self.forget_flow(
                run=run, user=user, tool=tool, before=before, graphs=graphs
            )
        )

    async def forget_flow(
        self,
        *,
        run: str | Iterable[str] | None = None,
        user: Any = None,
        tool: str | None = None,
        before: datetime | None = None,
        graphs: Sequence[AnyGraph] = (),
    ) -> Erased:
        """Flow of `forget` and `aforget`; other flows await it."""
        selection = ErasureSelection.of(run, user, tool, before)
        fold = self._here() if user is None else self._fold(self._store.of_user(user))
        return await erase(fold, selection, graphs)

    def settle(self) -> ExperienceStatus:
        """Judge all runs of the namespace that wait for it, as if their threads rested, and wait until that is done.

        What goes wrong with a run is logged, and the run waits on. With a `model`, tips are taken, too.
        """
        return run_flow(self.settle_flow())

    async def asettle(self) -> ExperienceStatus:
        """Async version of `settle`."""
        return await arun_flow(self.settle_flow())

    async def settle_flow(self) -> ExperienceStatus:
        """Flow of `settle` and `asettle`; other flows await it."""
        fold = self._here()
        await fold.refresh(whole=True)
        await FunctionStep(lambda _: self._background.wait(), None)
        await self._judge_and_teach(fold, fold.claim(fold.pending()))
        return await fold.status()

    def status(self) -> ExperienceStatus:
        """What there is in the namespace by now."""
        return run_flow(self.status_flow())

    async def astatus(self) -> ExperienceStatus:
        """Async version of `status`."""
        return await arun_flow(self.status_flow())

    async def status_flow(self) -> ExperienceStatus:
        """Flow of `status` and `astatus`; other flows await it."""
        fold = self._here()
        await fold.refresh(whole=True)
        return await fold.status()

    async def refresh_fold_flow(self) -> Fold:
        """Return what was learnt in the namespace, brought up to date with its store."""
        fold = self._here()
        await fold.refresh(whole=True)
        return fold

    # What the planner asks for; see `Learner`.

    async def begin(
        self, conversation: Conversation, earlier: Mapping[str, Any] | None = None
    ) -> TurnNote | None:
        """Note a turn that begins; see `Learner.begin`."""
        if is_collecting():
            return None
        fold = await self._look()
        return turn_note(conversation, earlier or {}, fold.store.values)

    async def guide(
        self, remembered: Mapping[str, Any], conversation: Conversation
    ) -> PastRuns:
        """The guide for a request; see `Learner.guide`."""
        fold = self._fold(self._store.resumed(remembered["namespace"]))
        first = remembered["first"]
        return PastRuns(
            fold.graph,
            fold.memory,
            conversation,
            first=first,
            model=self._model,
            keep=fold.keep,
        )

    async def end(
        self,
        messages: Sequence[BaseMessage],
        remembered: Mapping[str, Any] | None,
        *,
        id: str | None = None,  # noqa: A002 - the record's field
        tools: Sequence[Any] = (),
        effects: Effects | CallEffects | None = None,
        instructions: str = "",
    ) -> None:
        """Store a conversation whose turn is over; see `Learner.end`."""
        if is_collecting():
            return
        note = remembered or {}
        about: dict[str, Any] = as_metadata(tools_in(list(tools)))
        if remembered is not None:
            about |= Recall.of_note(note.get("recalled") or {}).metadata()
        declared = CallEffects.declared_as(effects)
        conversation = Conversation.of(messages)
        judged = await (declared.among(tools) if tools else declared).judged(
            conversation.tool_calls
        )
        if (
            not declared.may_read
        ):  # else all other calls count as writes, as they do while searching
            judged = {
                tool: effect for tool, effect in judged.items() if effect == "read"
            }  # the package's own tools
        if judged:
            about[EFFECTS_KEY] = judged

        async def keep() -> None:
            store = (
                self._store.resumed(note["namespace"])
                if note
                else self._store.within_config()
            )
            recorder, task = (
                RunRecorder(None, settle=self._settle),
                note.get("first") or None,
            )
            options: Any = {
                "task": task,
                "id": id,
                "instructions": instructions,
                "about": about,
            }
            await recorder.keep(
                conversation.messages, get_current_runtime(), store, **options
            )

        await self._background.undisturbed(keep())

    async def graph_here(self) -> SITGraph:
        """The graph of the namespace of the running graph, as far as nobody has to wait for it."""
        return (await self._look()).graph

    def _here(self) -> Fold:
        try:
            return self._fold(self._store.within_config())
        except ForeignNamespaceError:
            raise
        except ConfigurationError as error:
            problem = str(error).replace(
                "store.within(", "experience.within("
            )  # which is what the user holds
            msg = f"{problem} If all users may share what was learnt: Experience(..., namespace=('tooltree',))."
            raise ConfigurationError(msg) from error

    def _fold(self, store: ExperienceStore) -> Fold:
        """The fold of a namespace; those used longest ago are given up."""
        namespace = store.place[1]
        with self._folding:
            fold = self._folds.pop(namespace, None)
            if fold is None:
                fold = Fold(
                    store,
                    self._model,
                    self._embeddings,
                    self._background,
                    quarantine=self._quarantine,
                )
            self._folds[namespace] = fold
            forget_oldest(self._folds, MOST_NAMESPACES)
            return fold

    async def _look(self) -> Fold:
        """The fold of the running graph, whose turn begins: with what is new, and with verdicts on what rests."""
        fold, runtime = self._here(), get_current_runtime()
        own = None if runtime is None else run_id(runtime)

        async def look() -> None:
            await fold.refresh()
            await self._have_judged(fold, self._resting(fold, own))

        await self._background.undisturbed(look())
        return fold

    def _resting(self, fold: Fold, own: str | None) -> list[str]:
        """The runs that wait and whose threads rest, now that something happens in the thread `own`."""
        # Without variables the namespace may be many users', whose threads rest or not as they like.
        another_begins = (
            own is not None and own not in fold.entries and bool(fold.store.values)
        )
        return fold.pending(
            math.inf if another_begins else time.time() - self._settle_seconds
        )

    async def _settle(
        self, store: ExperienceStore, trajectory: Trajectory, *, rests: bool
    ) -> None:
        """Store a run that has ended, and have it judged if it rests."""
        fold = self._fold(store)
        if trajectory.success is None:
            since = 0.0 if rests else time.time()
            trajectory = replace(
                trajectory, metadata={**trajectory.metadata, PENDING: since}
            )
        await self._background.undisturbed(fold.refresh())
        resting = self._resting(
            fold, trajectory.id
        )  # where only a recorder hears of a run, its end is its beginning
        if (earlier := fold.entries.get(trajectory.id)) and (
            recall := earlier.recall | trajectory.recall
        ):
            trajectory = trajectory.with_recall(recall)
        await fold.keep(fold.without_forgotten(trajectory))
        due = fold.pending(time.time() - self._settle_seconds)
        await self._have_judged(fold, list(dict.fromkeys([*resting, *due])))

    async def _have_judged(self, fold: Fold, ids: Sequence[str]) -> None:
        """Judge runs: by a function on the spot, by a model in the background, where tips are taken, too."""
        if ids and self._judge is None:
            self._background.warn_once(
                "Runs are kept and wait: nobody says which succeeded. Pass verdict= to Experience."
            )
        claimed = [] if self._judge is None else fold.claim(ids)
        if claimed and not self._asks_function:
            self._background.start(partial(self._judge_and_teach, fold, claimed))
        elif claimed and (judged := (await self._judge_all(fold, claimed))):
            self._background.start(partial(self._teach, fold, judged))

    async def _judge_and_teach(self, fold: Fold, claimed: Sequence[str]) -> None:
        await self._teach(fold, (await self._judge_all(fold, claimed)))

    async def _teach(self, fold: Fold, judged: Sequence[Trajectory]) -> None:
        """Take tips where a run that was judged says something new: one that went well with known tips does not.

        Each costs one or two model calls, so an agent that does well soon costs none.
        """
        is_new = any(
            run.success is False or (run.success and not run.recall.tips)
            for run in judged
        )
        if self._model is not None and is_new and fold.claim([TIPS]):
            try:
                await self._background.undisturbed(fold.memory.extract_tips_flow())
            finally:
                fold.release([TIPS])

    async def _judge_all(self, fold: Fold, claimed: Sequence[str]) -> list[Trajectory]:
        """Judge runs that wait; those that have a verdict now."""
        judged: list[Trajectory] = []
        try:
            for run in claimed if self._judge is not None else ():
                try:
                    judged += await self._judge_record(fold, run)
                except Exception as error:  # noqa: BLE001 - the store's; the run waits on
                    self._background.warn_once(
                        "A verdict could not be kept, and its run waits. If the store was closed: call "
                        "experience.settle(), or await experience.asettle() before closing the store. "
                        f"({' '.join(described(error).split())})"
                    )
            return judged
        finally:
            fold.release(claimed)

    async def _judge_record(self, fold: Fold, run: str) -> list[Trajectory]:
        """Judge a record, unless its thread goes on meanwhile; with its verdict, if it has one now."""
        records = await fold.store.reading([run])
        if (
            not records
            or PENDING not in records[0].metadata
            or records[0].success is not None
        ):
            return []
        [record] = records
        try:
            judged = await self._judge_run(record)
        except Exception as error:
            logger.exception("Run %r is not judged: %s", run, error)  # noqa: TRY401 - the reason in one line
            judged = record.judged(
                None, f"{UNUSABLE} {described(error)}", source="verdict"
            )
        attempts = 1 + record.metadata.get(FAILED_VERDICTS_KEY, 0)
        if (
            UNUSABLE in judged.reasons
            and judged.success is None
            and attempts < MAX_FAILED_VERDICTS
        ):
            judged = replace(
                record,
                metadata={
                    **record.metadata,
                    PENDING: time.time(),
                    FAILED_VERDICTS_KEY: attempts,
                },
            )
        else:
            left = {
                name: value
                for name, value in judged.metadata.items()
                if name not in {PENDING, FAILED_VERDICTS_KEY}
            }
            judged = replace(judged, metadata=left)
        latest = await fold.store.reading([run])
        if not latest or entry_of(latest[0]) != entry_of(record):
            return []
        await fold.keep(judged)
        return [judged]

    async def _judge_run(self, trajectory: Trajectory) -> Trajectory:
        assert self._judge is not None  # noqa: S101 - for mypy
        return (await self._judge(trajectory)).on(trajectory)


def _store_from(
    store: Any, namespace: Sequence[str] | None, embeddings: Embeddings
) -> ExperienceStore:
    if isinstance(store, ExperienceStore):
        if namespace is not None:
            msg = f"An ExperienceStore has its own namespace; leave namespace={namespace!r} out."
            raise ConfigurationError(msg)
        return store
    if isinstance(store, str | os.PathLike):
        store = ChromaStore(store, embeddings=embeddings)
    return ExperienceStore(
        store, namespace=namespace or DEFAULT_NAMESPACE, embeddings=embeddings
    )
