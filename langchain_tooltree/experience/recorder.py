"""Recording what agents do: RunRecorder, which judges and keeps runs, and the callback handler that hears of them."""

import asyncio
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Self
from uuid import UUID

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.callbacks import GraphCallbackHandler, GraphInterruptEvent
from langgraph.errors import ParentCommand

from langchain_tooltree._langgraph import (
    NodeRun,
    callbacks_here,
    configurable_here,
    goes_on,
    graph_around,
    namespace_here,
)
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.recording import (
    MESSAGES_KEY,
    CallbackRun,
    Messages,
    Recording,
    continues,
    keyed_messages,
    messages_in,
    update_in,
)
from langchain_tooltree.experience.run_identity import (
    OWN,
    USERS,
    OfferedTools,
    distinct_id,
    labels_in,
    run_id,
    run_key,
    tools_in,
)
from langchain_tooltree.experience.store import ExperienceStore
from langchain_tooltree.experience.trajectory import (
    CAME_FROM,
    Trajectory,
    opening_instructions,
    to_chat,
    without_report_line,
)
from langchain_tooltree.experience.verdict import AnyVerdict, Verdict, resolve_verdict
from langchain_tooltree.flows import Flow, FunctionStep, arun_flow, flow_of, has_loop, run_flow
from langchain_tooltree.models import TAG

logger = logging.getLogger(__name__)

Keeper = Callable[[Trajectory], Any | Awaitable[Any]]
"""What trajectories are handed to, beside stores: any function, sync or async."""

_VERDICTS: dict[tuple[int, str], Verdict] = {}
"""Verdicts by the `id` of the last message, as long as that object lives, and the thread: recorders do not know of each
other. The object tells runs apart that are alike in all else, such as those of two users whose threads share a name."""


Settle = Callable[..., Flow[None]]
"""Keeps a run that has ended in a store of one user, and has it judged when it rests: at once, if it cannot go on.
Called as `settle(store, trajectory, rests=...)`."""


class RunRecorder:
    """Judges runs and keeps them: the one way of a run into the records, for the callback handler and the middlewares.

    Several recorders may hear of one run: `TrajectoryRecorder`, `CFGMMiddleware`, `SITGraphMiddleware`. The rule:

    - *A run has one verdict.* The first that judges it asks; the others take that verdict, also those that have none of
      their own.
    - *A run has one record in a store.* Where a `TrajectoryRecorder` in the callbacks keeps the record of a graph, a
      middleware of that graph leaves it the record, and its verdict with it: the handler comes last, and also knows
      the tools, the sub-agents and what was removed.

    `tools` are what runs under way were offered, and `judge` is the verdict as a flow. `settle` takes runs that have
    ended, in place of the store: it keeps them, and has them judged when they rest.
    """

    def __init__(self, verdict: AnyVerdict | None, *, settle: Settle | None = None) -> None:
        self.judge = None if verdict is None else resolve_verdict(verdict)
        self.settle = settle
        self.tools = OfferedTools()

    def conversation(self, messages: Sequence[BaseMessage], runtime: Any) -> Trajectory:
        """What a state holds of the run that is going on, under the same id as any other recorder of it has."""
        instructions = self.tools.take_instructions(run_key(runtime))
        return Trajectory.from_messages(messages, id=_id_of(runtime, list(_listeners())), instructions=instructions)

    def judging(self, trajectory: Trajectory, last: Any) -> Flow[Trajectory]:
        """A run with its verdict, as a flow; `last` is its last message. Without one, if nobody has one."""
        key = id(last), trajectory.id.partition(OWN)[0]  # who has no store does not know whether the id is taken there
        verdict = _VERDICTS.get(key)
        if verdict is None:
            if self.judge is None:
                return trajectory
            verdict = yield from self.judge(trajectory)
            if isinstance(last, BaseMessage):
                _VERDICTS[key] = verdict
                weakref.finalize(last, _VERDICTS.pop, key, None).atexit = False
        reasons = "\n".join(part for part in (trajectory.reasons, verdict.reasons) if part)
        return trajectory.judged(verdict.success, reasons, source="verdict")

    def keeping(
        self,
        conversation: Conversation | Sequence[BaseMessage],
        runtime: Any,
        store: ExperienceStore,
        *,
        task: str | None = None,
        id: str | None = None,  # noqa: A002 - the record's field
        instructions: str = "",
        about: Mapping[str, Any] | None = None,
    ) -> Flow[None]:
        """Judge a conversation that has come to its end and keep it in a store, as a flow.

        What is left after a summary does not take the place of a record with more tool calls. With an `id`, it is a run
        of its own and no part of the graph that is running. `about` goes into the metadata of the record.
        """
        listeners = [] if id else list(_listeners())
        for handler, recording in listeners:
            if handler.keeps_in(recording, store):
                recording.recorder, recording.about = self, about or {}
                return
        conversation = Conversation.of(conversation)
        messages = conversation.messages
        trajectory = Trajectory.from_messages(
            messages, id=id or _id_of(runtime, listeners), task=task, instructions=instructions
        )
        if id is None:
            known, is_summary = dict(keyed_messages(trajectory.messages)), conversation.is_summarized
            own, earlier = yield from find_record(store, trajectory.id, known, same=is_summary)
            if is_summary and earlier is not None and len(earlier.steps) > len(trajectory.steps):
                return
            trajectory = replace(trajectory, id=own)
        else:
            earlier = None
        trajectory = _with_metadata(trajectory, {**_source_in(None), **(about or {})}, earlier)
        trajectory = yield from self.judging(trajectory, next(reversed(messages), None))
        if self.settle is None:
            yield from flow_of(store.add)(trajectory)
        else:
            yield from self.settle(store, trajectory, rests=id is not None or not _may_go_on(runtime))


class TrajectoryRecorder(GraphCallbackHandler):
    """Records what agents do, whatever kind of LangGraph or LangChain agent they are.

    ```python
    experience = ExperienceStore(InMemoryStore())
    recorder = TrajectoryRecorder(experience, verdict="openai:gpt-4.1-mini")
    agent.invoke({"messages": [("user", "Book a flight.")]}, {"callbacks": [recorder]})
    ```

    One recorder serves any number of agents, threads and concurrent runs, sync and async. When a run ends, its
    trajectory is judged and stored before the caller gets the result. Its id is the thread's id, or the run's where
    there is no thread; a later run of the thread replaces the record by the longer version. Where that id is taken by
    another conversation, as where two agents name threads alike, a digest is added to it. A run that was interrupted
    is recorded as far as it got and judged when it has been resumed to its end. A run that raised is recorded, too,
    with the error in `reasons`. The tools that its models were offered stand in `metadata["tools"]`, in OpenAI form.

    A resumed run does not show all that was said before, such as finished sub-agents; that is taken from the record in
    the first `ExperienceStore` that has one. So give a graph that learns online a store beside it:
    `TrajectoryRecorder([experience, graph.learn], verdict=...)`.

    Variables of a store's namespace are filled from the runtime context of the run or from `configurable`. LangChain
    shows these to a recorder where a model, a tool or another runnable is called inside a node. For a graph in which
    none is, pass a store of one user, `experience.within(user_id=...)`. A run whose namespace is not known is not kept.

    Beside a `CFGMMiddleware` or a `SITGraphMiddleware` of the same agent, a run is judged once, and has one record in
    a store. What goes wrong while recording is logged and does not disturb the run.

    Args:
        store: Where trajectories go: an `ExperienceStore`, a function that takes a `Trajectory`, such as
            `SITGraph().learn`, or several of these. A function also gets runs that are not finished.
        verdict: Says whether a run succeeded: a function (see `VerdictFunction`), a chat model, the name of one, or a
            `ModelVerdict`. Without one, `success` stays `None`, unless a middleware has a verdict.
        messages_key: Where the state of the agents keeps their messages.

    Raises:
        ConfigurationError: If `store` or `verdict` is nothing of the kind.
    """

    run_inline = True

    def __init__(
        self,
        store: ExperienceStore | Keeper | Sequence[ExperienceStore | Keeper],
        *,
        verdict: AnyVerdict | None = None,
        messages_key: str = MESSAGES_KEY,
    ) -> None:
        stores: Sequence[Any] = store if isinstance(store, list | tuple) else [store]
        self._keepers: list[ExperienceStore | Keeper] = list(stores)
        for keeper in self._keepers:
            if not isinstance(keeper, ExperienceStore) and not callable(keeper):
                msg = (
                    "store must be an ExperienceStore, a function that takes a Trajectory, or a list of these; "
                    f"got {type(keeper).__name__}. Wrap a BaseStore: ExperienceStore(store)."
                )
                raise ConfigurationError(msg)
        self._recorder = RunRecorder(verdict)
        self._messages_key = messages_key
        self._lock = threading.Lock()
        self._runs: dict[UUID | None, CallbackRun] = {}

    @classmethod
    def settling(cls, store: ExperienceStore, settle: Settle) -> Self:
        """A recorder that hands runs which have ended to what keeps them in the store, and has them judged."""
        recorder = cls(store)
        recorder._recorder.settle = settle
        return recorder

    # Arguments of the interface that are not needed here are left in `about` and `_`.

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **about: Any) -> None:  # noqa: ARG002
        """Take note of a chain, a graph or a node."""
        with _undisturbed(), self._lock:
            run = self._started(run_id, **about)
            graph = run.parent
            node = None if graph is None or run.inner else NodeRun.of(about.get("tags") or (), run.metadata)
            if graph is not None and node is not None:
                self._node_started(node, run, graph, inputs)

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **about: Any) -> None:  # noqa: ARG002
        """Take note of a tool: an agent may run inside it."""
        with _undisturbed(), self._lock:
            self._started(run_id, **about)

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002
        """Forget the tool."""
        with self._lock:
            self._forget(run_id)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002
        """Forget the tool."""
        with self._lock:
            self._forget(run_id)

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **about: Any) -> None:  # noqa: ARG002
        """Take note of what a model is told and offered, and of what is configurable around it."""
        with _undisturbed(), self._lock:
            parent = self._runs.get(about.get("parent_run_id"))
            if parent is None or parent.recording is None:
                return
            _add_variables(parent)
            if not parent.inner and TAG not in (about.get("tags") or ()):
                offered = tools_in((about.get("invocation_params") or {}).get("tools"))
                instructions = _instructions_in(messages[0] if messages else ())
                node = next((run.visit[1].name for run in parent.lineage() if run.visit is not None), "")
                graph = next((run for run in parent.lineage() if run.graph is not None), None)
                inside = graph is not parent.recording.top
                parent.recording.add_request(instructions, offered, node=node, inside=inside)

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Note that a run is interrupted."""
        with self._lock:
            run = self._runs.get(event.run_id)
            if run is not None and run.recording is not None and run.recording.top is run:
                run.recording.interrupted = True

    # These are coroutine functions, so that on the async path verdict and store are awaited on the caller's loop. On
    # the sync path LangChain runs them on a loop of their own; the loop of the start tells the two apart.

    async def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """Keep what is to be kept of a run that is done."""
        await self._finish(run_id, outputs, None)

    async def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Keep what is to be kept of a run that raised."""
        await self._finish(run_id, None, error)

    async def _finish(self, run_id: UUID, outputs: Any, error: BaseException | None) -> None:
        with _undisturbed():
            recording = self._ended(run_id, outputs, error)
            if recording is None:
                return
            flow = self._keeping(recording, error)
            if recording.top.loop is asyncio.get_running_loop():
                await arun_flow(flow)
            else:
                await asyncio.to_thread(run_flow, flow)

    def _started(
        self,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> CallbackRun:
        parent = self._runs.get(parent_run_id)
        inner = TAG in (tags or ()) or (parent is not None and parent.inner)
        loop = asyncio.get_running_loop() if has_loop() else None
        run = self._runs[run_id] = CallbackRun(run_id, parent, metadata or {}, inner, loop)
        if parent is not None and parent.recording is not None:
            _add_variables(parent)
            run.recording = parent.recording
        return run

    def _node_started(self, node: NodeRun, run: CallbackRun, graph: CallbackRun, state: Any) -> None:
        namespace = graph_around(node.namespace)
        if graph.graph is None:
            graph.recording = graph.recording or Recording(graph, namespace)
            if not graph.recording.holds(graph, namespace):
                graph.recording = Recording(graph, namespace, own_thread=True)
            graph.graph = graph.recording.graph(graph, namespace)
            run.recording = graph.recording
        run.visit = graph.graph, node
        if node.updates_state:
            graph.graph.node_started(node, messages_in(state, self._messages_key) if node.gets_state else None)

    def _ended(self, run_id: UUID, outputs: Any, error: BaseException | None) -> Recording | None:
        """Take note of the end of a run; what is recorded, if it was the outermost one."""
        with self._lock:
            run = self._forget(run_id)
            if run is None or run.recording is None:
                return None
            if run.visit is not None and run.visit[1].updates_state and isinstance(error, ParentCommand | None):
                graph, node = run.visit
                graph.node_ended(node, update_in(outputs, self._messages_key))
            if run.graph is not None:
                run.graph.ended(None if error is not None else messages_in(outputs, self._messages_key))
            return run.recording if run.recording.top is run else None

    def _forget(self, run_id: UUID) -> CallbackRun | None:
        run = self._runs.pop(run_id, None)
        if run is not None and run.parent is None:  # some inside may have no end, as where a task is cancelled
            for inside in [each.id for each in self._runs.values() if run in each.lineage()]:
                del self._runs[inside]
        return run

    def _keeping(self, recording: Recording, error: BaseException | None) -> Flow[None]:
        keepers: list[ExperienceStore | Keeper] = []
        own, earlier = recording.id, None
        for keeper in self._keepers:
            with _undisturbed():  # a store whose user is not known, or that cannot be read, is not written to
                if isinstance(keeper, ExperienceStore):
                    store = _store_of(recording, keeper)
                    if recording.thread_id is not None and earlier is None:
                        own, earlier = yield from find_record(store, recording.id, recording.messages)
                    keepers.append(store)
                else:
                    keepers.append(keeper)
        if not keepers:
            return  # before a verdict that nobody would get is paid for
        trajectory = recording.trajectory(error, earlier, id=own)
        if trajectory is None:
            logger.debug("Run %s is not recorded: no messages under %r.", recording.id, self._messages_key)
            return
        whose = _source_in({"configurable": recording.variables or {}})
        trajectory = _with_metadata(trajectory, {**whose, **recording.about}, earlier)
        settle = None
        if not recording.is_unfinished(error):
            left: RunRecorder = recording.recorder or self._recorder
            settle = self._recorder.settle or left.settle
            with _undisturbed():
                judging = left.judging if self._recorder.judge is None else self._recorder.judging
                trajectory = yield from judging(trajectory, recording.last)
        for keeper in keepers:
            with _undisturbed():
                if not isinstance(keeper, ExperienceStore):
                    yield FunctionStep(keeper, trajectory)
                elif settle is None:
                    yield from flow_of(keeper.add)(trajectory)
                else:
                    yield from settle(keeper, trajectory, rests=recording.rests)

    def recording_at(self, run_id: UUID | None) -> Recording | None:
        """What is recorded of the graph in which this run is going on; `None` if it is part of another record."""
        with self._lock:
            run = self._runs.get(run_id)
            graph = None if run is None else next((outer for outer in run.lineage() if outer.graph is not None), None)
            recording = None if graph is None else graph.recording
            return recording if recording is not None and recording.top is graph else None

    def keeps_in(self, recording: Recording, store: ExperienceStore) -> bool:
        """Whether this recording will be kept where `store` keeps its records."""
        for keeper in self._keepers if recording.last is not None else ():
            with suppress(ConfigurationError):  # it is not known whose run this is
                if isinstance(keeper, ExperienceStore) and _store_of(recording, keeper).place == store.place:
                    return True
        return False


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Logs what goes wrong while recording; the run that is recorded goes on."""
    try:
        yield
    except Exception as error:
        logger.exception("A run could not be recorded as it should: %s", error)  # noqa: TRY401 - the reason in one line


def _store_of(recording: Recording, store: ExperienceStore) -> ExperienceStore:
    try:
        return store.within_config({"configurable": recording.variables or {}})
    except ConfigurationError as error:
        if recording.variables is not None:
            raise
        msg = (
            f"It is not known whose run {recording.id!r} is: nothing was called inside its nodes, neither a model nor "
            "a tool, and only there does a recorder see what is configurable. Pass a store of one user or tenant, "
            f"TrajectoryRecorder(store.within(...)). {error}"
        )
        raise ConfigurationError(msg) from error


def find_record(
    store: ExperienceStore, thread: str, messages: Messages, *, same: bool = False
) -> Flow[tuple[str, Trajectory | None]]:
    """The id of a conversation's record, and the record, if there is one already, as a flow.

    That of its thread may be taken: other deployments name threads as they like, and a thread may be emptied. With
    `same`, what stands there is taken for its own.
    """
    earlier = yield from flow_of(store.get)(thread)
    if earlier is None or same or not messages or continues(earlier, messages):
        return thread, earlier
    own = distinct_id(thread, next(iter(messages)))
    return own, (yield from flow_of(store.get)(own))


def _with_metadata(trajectory: Trajectory, metadata: Mapping[str, Any], earlier: Trajectory | None) -> Trajectory:
    """A run with more metadata, and with what was recalled for it earlier."""
    trajectory = replace(trajectory, metadata={**trajectory.metadata, **metadata})
    if earlier is None:
        return trajectory
    recall = earlier.recall | trajectory.recall
    return trajectory.with_recall(recall) if recall else trajectory


def _source_in(config: RunnableConfig | None) -> dict[str, str]:
    """Metadata with whom a run comes from: the user, where the host says who that is."""
    with suppress(ConfigurationError):  # it says so twice, or what it says is no name: then nobody is known
        for name in labels_in(config, USERS).values():
            return {CAME_FROM: name}
    return {}


def _add_variables(run: CallbackRun) -> None:
    """Callbacks do not get what is `configurable`, but what runs inside a node sees it."""
    recording = run.recording
    if recording is None or recording.variables is not None or run.graph is not None:
        return
    if (configurable := configurable_here()) is not None:
        recording.add_variables(configurable)


def _may_go_on(runtime: Any) -> bool:
    info = None if runtime is None else runtime.execution_info
    return info is not None and info.thread_id is not None and goes_on(graph_around(namespace_here()))


def _id_of(runtime: Any, listeners: "Sequence[tuple[TrajectoryRecorder, Recording]]") -> str | None:
    own = None if runtime is None else run_id(runtime)
    return own or (listeners[0][1].id if listeners else None)


def _instructions_in(messages: Iterable[BaseMessage]) -> str:
    """The system prompt with which a request begins, without what this package has added to it."""
    return without_report_line(opening_instructions(map(to_chat, messages)))


def _listeners() -> "Iterator[tuple[TrajectoryRecorder, Recording]]":
    """The handlers in the callbacks of the node that is running, with what they have recorded of its graph."""
    handlers, run = callbacks_here()
    for handler in handlers:
        if isinstance(handler, TrajectoryRecorder) and (recording := handler.recording_at(run)) is not None:
            yield handler, recording
