"""The one recorder: what agents do becomes trajectories, heard by callbacks, held by a state, or read from a thread."""

import asyncio
import logging
import threading
import weakref
from asyncio import AbstractEventLoop
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self
from uuid import UUID

from langchain_core.messages import BaseMessage, RemoveMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.callbacks import GraphCallbackHandler, GraphInterruptEvent
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.pregel import Pregel
from langgraph.types import Command, StateSnapshot

from langchain_tooltree._langgraph import (
    NodeRun,
    callbacks_here,
    configurable_here,
    goes_on,
    graph_around,
    namespace_here,
    variables_in,
)
from langchain_tooltree.errors import (
    ConfigurationError,
    TrajectoryFormatError,
    described,
)
from langchain_tooltree.experience.run_identity import (
    TOOLS_KEY,
    USERS,
    ModelRequests,
    Tools,
    as_metadata,
    id_beside,
    labels_in,
    run_id,
    tools_in,
    without_digest,
)
from langchain_tooltree.experience.store import ExperienceStore
from langchain_tooltree.experience.trajectory import (
    CAME_FROM,
    Branch,
    Trajectory,
    without_report_line,
)
from langchain_tooltree.experience.verdict import AnyVerdict, Verdict, resolve_verdict
from langchain_tooltree.flows import (
    CallStep,
    Flow,
    FunctionStep,
    arun_flow,
    is_event_loop_running,
    run_flow,
)
from langchain_tooltree.messages.additions import NOTES_KEY
from langchain_tooltree.messages.chat_format import (
    get_langchain_fields,
    get_opening_instructions,
    get_response_metadata,
    to_chat_message,
)
from langchain_tooltree.messages.kinds import (
    LANGCHAIN_KEY,
    ChatMessage,
    classify_chat_message,
)
from langchain_tooltree.models import INNER_RUN_TAG
from langchain_tooltree.text import digest, get_mapping

logger = logging.getLogger(__name__)

MESSAGES_KEY = "messages"  # where the state of an agent keeps its messages, unless another key is given

STOPPED_EARLY = "The run stopped before its end and may be resumed."

# --- dialogues ---

Key = str | tuple[str, int]
"""What makes two versions of a message the same one: its id, or else its content and how often that came before."""

Messages = Mapping[Key, BaseMessage | ChatMessage]


@dataclass(eq=False, slots=True)
class Dialogue:
    """All messages of one graph, in order of first appearance, each in its last form.

    `name` are the nodes that lead to the graph, joined by `/`; empty for the outermost graph. When this dialogue began,
    that of the outermost graph had `after` messages.

    The state is seen whole where a node starts that gets it, and when the graph ends. What the nodes of a step returned
    counts where no state shows it: from when a later step starts.
    """

    name: str = ""
    after: int = 0
    messages: dict[Key, BaseMessage | ChatMessage] = field(default_factory=dict)
    _step: int = -1
    _open: set[str] = field(
        default_factory=set
    )  # the nodes of the step that have not ended
    _updates: list[BaseMessage] = field(default_factory=list)

    def add(self, state: Any) -> None:
        """Take in the messages of a state that is later than those seen so far."""
        self.messages |= keyed(state)

    def start_node(self, node: NodeRun, state: Any) -> None:
        """A node starts, with these messages in its state; `None` if it did not get the state."""
        if node.step != self._step:
            if node.step > self._step and state is None:
                self.add(self._updates)
            self._step, self._updates, self._open = node.step, [], set()
        self._open.add(node.namespace)
        self.add(state)

    def end_node(self, node: NodeRun, update: Sequence[BaseMessage]) -> None:
        """A node is done, with these messages in its update. One that raised may run again, and does not count."""
        self._open.discard(node.namespace)
        self._updates += update

    def end(self, state: Any) -> None:
        """The graph ends, or stops, with these messages; `None` if it raised or returned none."""
        if (
            not self._open
        ):  # else the last step is not complete, and will be taken again
            self.add(self._updates if state is None else state)


def keyed(messages: Any) -> dict[Key, BaseMessage | ChatMessage]:
    """The messages of a state, a list or a single one, each by its key."""
    several = messages if isinstance(messages, list | tuple) else [messages]
    try:
        converted = convert_to_messages([each for each in several if each is not None])
    except (KeyError, NotImplementedError, TypeError, ValueError) as error:
        msg = f"These are no messages: {messages!r:.80}. Is it the right key?"
        raise TrajectoryFormatError(msg) from error
    times: dict[str, int] = {}
    return {
        message.id or _content_key(to_chat_message(message), times): message
        for message in converted
    }


def keyed_chat(messages: Iterable[ChatMessage]) -> dict[Key, ChatMessage]:
    """The messages of a trajectory, each by the key that it had as a message of LangChain."""
    times: dict[str, int] = {}
    return {
        get_langchain_fields(message).get("id") or _content_key(message, times): message
        for message in messages
    }


def _content_key(message: ChatMessage, times: dict[str, int]) -> Key:
    content = digest(
        [{name: value for name, value in message.items() if name != LANGCHAIN_KEY}]
    )  # notes come and go
    times[content] = times.get(content, 0) + 1
    return content, times[content]


def as_chat(message: BaseMessage | ChatMessage) -> ChatMessage:
    """A message in the chat format, whichever form it has."""
    return to_chat_message(message) if isinstance(message, BaseMessage) else message


def assembled(
    root: Dialogue,
    others: Iterable[Dialogue] = (),
    *,
    earlier: Trajectory | None = None,
    instructions: str = "",
    tools: Tools | None = None,
    **fields: Any,
) -> Trajectory:
    """One trajectory out of the dialogues of a thread, as they began, behind what was recorded `earlier`.

    The dialogues of graphs inside become branches, without what `root` or those that began before them hold as well.
    """
    before = keyed_chat(earlier.messages) if earlier else {}
    messages: dict[Key, BaseMessage | ChatMessage] = {**before, **root.messages}
    removed = {key for message in messages.values() for key in _removed_by(message)}
    messages = {key: message for key, message in messages.items() if key not in removed}
    order = [key for key in root.messages if key not in removed]
    branches: dict[
        tuple[str, Key], Dialogue
    ] = {}  # by the name and the first message, which a resumed one has, too
    for each in earlier.branches if earlier else ():
        if keys := keyed_chat(each.messages):
            branches[each.name, next(iter(keys))] = Dialogue(
                each.name, each.after, {**keys}
            )
    outside = set(messages)
    for other in others:
        own = {
            key: message
            for key, message in other.messages.items()
            if key not in outside
        }
        if own:
            after = len(before.keys() | set(order[: other.after]))
            branches.setdefault(
                (other.name, next(iter(own))), Dialogue(other.name, after)
            ).messages |= own
            outside |= own.keys()
    offered = tools_in(earlier.metadata.get(TOOLS_KEY)) if earlier else {}
    trajectory = Trajectory.from_chat(
        [*map(as_chat, messages.values())],
        instructions=instructions or (earlier.instructions if earlier else ""),
        branches=[
            Branch(each.name, each.after, (*map(as_chat, each.messages.values()),))
            for each in branches.values()
        ],
        metadata=as_metadata({**offered, **(tools or {})}),
        **fields,
    )
    return (
        trajectory.with_recall(earlier.recall)
        if earlier and earlier.recall
        else trajectory
    )


def _removed_by(message: BaseMessage | ChatMessage) -> Sequence[str]:
    """Ids of the messages that a search has tried and removed: the answer that it came to tells of them."""
    metadata = (
        message.response_metadata
        if isinstance(message, BaseMessage)
        else get_response_metadata(message)
    )
    removed = get_mapping(metadata, NOTES_KEY).get("removed")
    return (
        [each for each in removed if isinstance(each, str)]
        if isinstance(removed, list)
        else []
    )


async def find_record(
    store: ExperienceStore, thread: str, messages: Messages
) -> tuple[str, Trajectory | None]:
    """The id of a conversation's record, and the record, if there is one already, as a flow.

    The id is the thread's, unless another conversation has taken it: programs that start anew often begin with "1".
    """
    earlier = await store.get_flow(thread)
    if earlier is None or not messages or _continues(earlier, messages):
        return thread, earlier
    own = id_beside(thread, next(iter(messages)))
    return own, (await store.get_flow(own))


def _continues(earlier: Trajectory, messages: Messages) -> bool:
    """Whether a conversation goes on from a record: by a reply in both, or, where there is none, by all that was said.

    Clients greet alike, but a reply gets an id of its own. A summary may stand in place of all replies.
    """
    before = keyed_chat(earlier.messages)
    if any(
        classify_chat_message(as_chat(message)) == "summary"
        for message in messages.values()
    ):
        return True
    replies = {
        key
        for key, message in before.items()
        if classify_chat_message(message) == "response"
    }
    return (
        bool(replies & messages.keys()) if replies else before.keys() <= messages.keys()
    )


# --- verdicts and records of conversations ---

Settle = Callable[..., Flow[None]]
"""Keeps a run that has ended in a store of one user, and has it judged when it rests: at once, if it cannot go on.
Called as `settle(store, trajectory, rests=...)`."""

_VERDICTS: dict[tuple[int, str], Verdict] = {}
"""Verdicts by the `id` of the last message, as long as that object lives, and the run: recorders do not know of each
other. The object tells runs apart that are alike in all else, such as those of two users whose threads share a name."""


class RunRecorder:
    """Judges conversations that have come to their end, and keeps them.

    Several recorders may hear of one run: `TrajectoryRecorder`, `CFGMMiddleware`, `SITGraphMiddleware`. It has one
    verdict: the first that judges it asks, and the others take that, also those that have no verdict of their own. In
    one store they write one record, each what it knows.

    `requests` are what the models of runs under way were offered and told. `settle` takes runs that have ended, in
    place of the store: it keeps them, and has them judged when they rest.
    """

    def __init__(
        self, verdict: AnyVerdict | None, *, settle: Settle | None = None
    ) -> None:
        self._verdict = None if verdict is None else resolve_verdict(verdict)
        self.settle = settle
        self.requests = ModelRequests()

    def trajectory(self, messages: Sequence[BaseMessage], runtime: Any) -> Trajectory:
        """What a state holds of the run that is going on, under the same id as any other recorder of it has."""
        return Trajectory.from_messages(
            messages,
            id=_own_id(runtime),
            instructions=self.requests.pop(runtime).instructions,
        )

    async def judge(self, trajectory: Trajectory, last: Any) -> Trajectory:
        """A run with its verdict, as a flow; `last` is its last message. Without one, if nobody has one."""
        key = (
            id(last),
            without_digest(trajectory.id),
        )  # who has no store does not know whether the id is taken there
        verdict = _VERDICTS.get(key)
        if verdict is None:
            if self._verdict is None:
                return trajectory
            verdict = await self._verdict(trajectory)
            if isinstance(last, BaseMessage):
                _VERDICTS[key] = verdict
                weakref.finalize(last, _VERDICTS.pop, key, None).atexit = False
        return verdict.on(trajectory)

    async def keep(
        self,
        messages: Sequence[BaseMessage],
        runtime: Any,
        store: ExperienceStore,
        *,
        task: str | None = None,
        id: str | None = None,  # noqa: A002 - the record's field
        instructions: str = "",
        about: Mapping[str, Any] | None = None,
    ) -> None:
        """Judge a conversation that has come to its end and keep it in a store, as a flow.

        What was removed or summarized since it was last kept stays in the record. With an `id`, it is a run of its own
        and no part of the graph that is running. `about` goes into the metadata of the record.
        """
        dialogue, earlier = Dialogue(messages=keyed(messages)), None
        own = id or _own_id(runtime)
        if id is None and own is not None:
            own, earlier = await find_record(store, own, dialogue.messages)
        trajectory = assembled(
            dialogue, id=own, task=task, instructions=instructions, earlier=earlier
        )
        trajectory = _with_metadata(trajectory, {**_source_in(None), **(about or {})})
        trajectory = await self.judge(trajectory, next(reversed(messages), None))
        if self.settle is None:
            await store.add_flow(trajectory)
        else:
            await self.settle(
                store, trajectory, rests=id is not None or not _may_go_on(runtime)
            )


def _with_metadata(trajectory: Trajectory, about: Mapping[str, Any]) -> Trajectory:
    """A run with more metadata; what was recalled for it earlier stays."""
    later = replace(trajectory, metadata={**trajectory.metadata, **about})
    return (
        later.with_recall(trajectory.recall | later.recall)
        if trajectory.recall
        else later
    )


def _source_in(config: RunnableConfig | None) -> dict[str, str]:
    """Metadata with whom a run comes from: the user, where the host says who that is."""
    with suppress(
        ConfigurationError
    ):  # it says so twice, or what it says is no name: then nobody is known
        for name in labels_in(config, USERS).values():
            return {CAME_FROM: name}
    return {}


def _own_id(runtime: Any) -> str | None:
    """The id of the run that is going on; without a thread, that by which a recorder in its callbacks knows it."""
    if (own := None if runtime is None else run_id(runtime)) is not None:
        return own
    handlers, run = callbacks_here()
    ids = (
        handler.id_of(run)
        for handler in handlers
        if isinstance(handler, TrajectoryRecorder)
    )
    return next(filter(None, ids), None)


def _may_go_on(runtime: Any) -> bool:
    info = None if runtime is None else runtime.execution_info
    return (
        info is not None
        and info.thread_id is not None
        and goes_on(graph_around(namespace_here()))
    )


# --- callbacks ---

Keeper = Callable[[Trajectory], Any | Awaitable[Any]]
"""What trajectories are handed to, in place of a store: any function, sync or async."""


@dataclass(eq=False, slots=True)
class _Run:
    """A run of anything that callbacks tell of, from its start to its end.

    It may belong to a search of this package (`inner`), and so not to the conversation. `node` is its name as a node of
    a graph; `dialogue`, as a graph one of whose nodes has started.
    """

    id: UUID
    parent: "_Run | None"
    metadata: Mapping[str, Any]
    inner: bool
    loop: AbstractEventLoop | None
    node: NodeRun | None = None
    dialogue: Dialogue | None = None
    recording: "Recording | None" = None

    def lineage(self) -> Iterator["_Run"]:
        """The run itself and those that it is part of, innermost first."""
        run: _Run | None = self
        while run is not None:
            yield run
            run = run.parent


class Recording:
    """What is known of a graph and the graphs inside it.

    `top` is the run of the outermost graph. Its namespace is empty unless it runs inside a graph that is not recorded.
    `variables` may say whose run it is, once they are known.
    """

    def __init__(self, top: _Run, namespace: str) -> None:
        self.top = top
        self.thread_id: str | None = _text(top.metadata.get("thread_id"))
        self.variables: dict[str, Any] | None = None
        self.tools: Tools = {}
        self.interrupted = False
        self._instructions: dict[tuple[int, str], str] = {}
        self._namespace = namespace
        self._dialogues: list[Dialogue] = []

    @property
    def id(self) -> str:
        """Id of the trajectory: the thread's; with the namespace, for a sub-agent that is recorded by itself."""
        if self.thread_id is None:
            return str(self.top.id)
        return (
            f"{self.thread_id}/{self._namespace}" if self._namespace else self.thread_id
        )

    @property
    def rests(self) -> bool:
        """Whether it cannot go on after its end."""
        return self.thread_id is None or not goes_on(self._namespace)

    @property
    def messages(self) -> Messages:
        """The messages of the outermost graph."""
        return self._dialogues[0].messages

    @property
    def last(self) -> Any:
        """The last message of the outermost graph; `None` if there is none yet."""
        return next(reversed([*self.messages.values()]), None)

    @property
    def instructions(self) -> str:
        """The agent's own: those of models that are offered tools in the outermost graph, or else of other models."""
        nearest = min((distance for distance, _ in self._instructions), default=0)
        texts = (
            text
            for (distance, _), text in self._instructions.items()
            if distance == nearest
        )
        return "\n\n".join(dict.fromkeys(texts))

    def add_request(
        self, run: _Run, messages: Iterable[BaseMessage], offered: Tools
    ) -> None:
        """Take note of what a model is asked with.

        Of several requests of one node the latest counts: instructions may hold the time.
        """
        self.tools |= offered
        instructions = without_report_line(
            get_opening_instructions(map(to_chat_message, messages))
        )
        if instructions:
            graph = next(
                (outer for outer in run.lineage() if outer.dialogue is not None), None
            )
            node = next(
                (outer.node.name for outer in run.lineage() if outer.node is not None),
                "",
            )
            self._instructions[2 * (graph is not self.top) + (not offered), node] = (
                instructions
            )

    def note_variables(self) -> None:
        """Take note of what is `configurable`, as something that runs inside a node of the outermost graph sees it.

        Nothing else says whose run it is: callbacks do not get what is configurable, metadata are often written by the
        client, and those of the run do not show what LangGraph put there.
        """
        if self.variables is None and (configurable := configurable_here()) is not None:
            self.thread_id = _text(configurable.get("thread_id")) or self.thread_id
            self.variables = variables_in(configurable)

    def dialogue_of(self, graph: _Run) -> Dialogue:
        """The dialogue of a graph that begins."""
        nodes = [
            run.node.name
            for run in graph.lineage()
            if run.node is not None and run.recording is self
        ]
        after = len(self.messages) if self._dialogues else 0
        self._dialogues.append(Dialogue("/".join(reversed(nodes)), after))
        return self._dialogues[-1]

    def trajectory(
        self, error: BaseException | None, earlier: Trajectory | None, own: str
    ) -> Trajectory | None:
        """The trajectory as far as it got, behind what was recorded earlier; `None` if nothing was said."""
        if self.last is None and earlier is None:
            return None
        root, *inside = self._dialogues
        reasons = "" if error is None else f"The run raised {described(error)}"
        return assembled(
            root,
            inside,
            id=own,
            reasons=STOPPED_EARLY if self.is_unfinished(error) else reasons,
            instructions=self.instructions,
            tools=self.tools,
            earlier=earlier,
        )

    def is_unfinished(self, error: BaseException | None) -> bool:
        """Whether the run stopped with more to come: at an interrupt, drained, cancelled, or no longer read from."""
        return (
            self.interrupted
            or isinstance(error, GraphBubbleUp)
            or not isinstance(error, Exception | None)
        )


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
    the store. A function gets what the run shows.

    Variables of a store's namespace are filled from the runtime context of the run or from `configurable`. LangChain
    shows these to a recorder where a model, a tool or another runnable is called inside a node. For a graph in which
    none is, pass a store of one user, `experience.within(user_id=...)`. A run whose namespace is not known is not kept.

    Beside a `CFGMMiddleware` or a `SITGraphMiddleware` of the same agent, a run is judged once; in one store, a thread
    has one record. What goes wrong while recording is logged and does not disturb the run.

    Args:
        store: Where trajectories go: an `ExperienceStore`, or a function that takes a `Trajectory`, such as
            `SITGraph().add`. A function also gets runs that are not finished.
        verdict: Says whether a run succeeded: a function (see `VerdictFunction`), a chat model, the name of one, or a
            `ModelVerdict`. Without one, `success` stays `None`, unless a middleware has a verdict.
        messages_key: Where the state of the agents keeps their messages.

    Raises:
        ConfigurationError: If `store` or `verdict` is nothing of the kind.
    """

    run_inline = True

    def __init__(
        self,
        store: ExperienceStore | Keeper,
        *,
        verdict: AnyVerdict | None = None,
        messages_key: str = MESSAGES_KEY,
    ) -> None:
        if not isinstance(store, ExperienceStore) and not callable(store):
            msg = (
                "store must be an ExperienceStore, or a function that takes a Trajectory; "
                f"got {type(store).__name__}. Wrap a BaseStore: ExperienceStore(store)."
            )
            raise ConfigurationError(msg)
        self._keeper: ExperienceStore | Keeper = store
        self._recorder = RunRecorder(verdict)
        self._messages_key = messages_key
        self._lock = threading.Lock()
        self._runs: dict[UUID | None, _Run] = {}

    @classmethod
    def settling(cls, store: ExperienceStore, settle: Settle) -> Self:
        """A recorder that hands runs which have ended to what keeps them in the store, and has them judged."""
        recorder = cls(store)
        recorder._recorder.settle = settle
        return recorder

    # Arguments of the interface that are not needed here are left in `about` and `_`.

    def on_chain_start(
        self,
        serialized: Any,  # noqa: ARG002
        inputs: Any,
        *,
        run_id: UUID,
        **about: Any,
    ) -> None:
        """Take note of a chain, a graph or a node."""
        with _undisturbed(), self._lock:
            run = self._started(run_id, **about)
            node = (
                None if run.inner else NodeRun.of(about.get("tags") or (), run.metadata)
            )
            if node is not None and run.parent is not None:
                graph = run.parent
                if graph.dialogue is None:
                    graph.recording = graph.recording or Recording(
                        graph, graph_around(node.namespace)
                    )
                    graph.dialogue = graph.recording.dialogue_of(graph)
                run.node, run.recording = node, graph.recording
                if node.updates_state:
                    state = (
                        _messages_in(inputs, self._messages_key)
                        if node.gets_state
                        else None
                    )
                    graph.dialogue.start_node(node, state)

    def on_tool_start(
        self,
        serialized: Any,  # noqa: ARG002
        input_str: str,  # noqa: ARG002
        *,
        run_id: UUID,
        **about: Any,
    ) -> None:
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

    def on_chat_model_start(
        self,
        serialized: Any,  # noqa: ARG002
        messages: Any,
        *,
        run_id: UUID,  # noqa: ARG002
        **about: Any,
    ) -> None:
        """Take note of what a model is told and offered, and of what is configurable around it."""
        with _undisturbed(), self._lock:
            parent = self._runs.get(about.get("parent_run_id"))
            if parent is None or parent.recording is None:
                return
            if parent.dialogue is None:
                parent.recording.note_variables()
            if not parent.inner and INNER_RUN_TAG not in (about.get("tags") or ()):
                offered = tools_in((about.get("invocation_params") or {}).get("tools"))
                parent.recording.add_request(
                    parent, messages[0] if messages else (), offered
                )

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Note that a run is interrupted."""
        with self._lock:
            run = self._runs.get(event.run_id)
            if (
                run is not None
                and run.recording is not None
                and run.recording.top is run
            ):
                run.recording.interrupted = True

    # These are coroutine functions, so that on the async path verdict and store are awaited on the caller's loop. On
    # the sync path LangChain runs them on a loop of their own; the loop of the start tells the two apart.

    async def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """Keep what is to be kept of a run that is done."""
        await self._finish(run_id, outputs, None)

    async def on_chain_error(
        self, error: BaseException, *, run_id: UUID, **_: Any
    ) -> None:
        """Keep what is to be kept of a run that raised."""
        await self._finish(run_id, None, error)

    async def _finish(
        self, run_id: UUID, outputs: Any, error: BaseException | None
    ) -> None:
        with _undisturbed():
            recording = self._ended(run_id, outputs, error)
            if recording is None:
                return
            flow = self._keep(recording, error)
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
    ) -> _Run:
        parent = self._runs.get(parent_run_id)
        inner = INNER_RUN_TAG in (tags or ()) or (parent is not None and parent.inner)
        loop = asyncio.get_running_loop() if is_event_loop_running() else None
        run = self._runs[run_id] = _Run(run_id, parent, metadata or {}, inner, loop)
        if parent is not None and parent.recording is not None:
            run.recording = parent.recording
            if (
                parent.dialogue is None
            ):  # what starts in a graph itself, its nodes, does not see what they see
                run.recording.note_variables()
        return run

    def _ended(
        self, run_id: UUID, outputs: Any, error: BaseException | None
    ) -> Recording | None:
        """Take note of the end of a run; its recording, if it was the outermost one."""
        with self._lock:
            run = self._forget(run_id)
            if run is None or run.recording is None:
                return None
            graph = None if run.parent is None else run.parent.dialogue
            if (
                graph is not None
                and run.node is not None
                and isinstance(error, ParentCommand | None)
            ):
                graph.end_node(
                    run.node,
                    _update_in(outputs, self._messages_key)
                    if run.node.updates_state
                    else (),
                )
            if run.dialogue is not None:
                run.dialogue.end(_messages_in(outputs, self._messages_key))
            return run.recording if run.recording.top is run else None

    def _forget(self, run_id: UUID) -> _Run | None:
        run = self._runs.pop(run_id, None)
        if (
            run is not None and run.parent is None
        ):  # some inside may have no end, as where a task is cancelled
            for inside in [
                each.id for each in self._runs.values() if run in each.lineage()
            ]:
                del self._runs[inside]
        return run

    def id_of(self, run_id: UUID | None) -> str | None:
        """The id of the record of the graph that a node runs in; `None` if it is a part of another record."""
        with self._lock:
            run = self._runs.get(run_id)
            graph = (
                None
                if run is None
                else next((outer for outer in run.lineage() if outer.dialogue), None)
            )
            recording = None if graph is None else graph.recording
            return (
                recording.id
                if recording is not None and recording.top is graph
                else None
            )

    async def _keep(self, recording: Recording, error: BaseException | None) -> None:
        keeper, own, earlier = self._keeper, recording.id, None
        about: RunnableConfig = {"configurable": recording.variables or {}}
        if isinstance(keeper, ExperienceStore):
            keeper = keeper.within_config(about)  # raises where the user is not known
            own, earlier = await find_record(keeper, own, recording.messages)
        trajectory = recording.trajectory(error, earlier, own)
        if trajectory is None:  # before a verdict that nobody would get is paid for
            logger.debug("Run %s is not recorded: there are no messages.", recording.id)
            return
        trajectory = _with_metadata(trajectory, _source_in(about))
        is_over = not recording.is_unfinished(error)
        if is_over:
            with _undisturbed():
                trajectory = await self._recorder.judge(trajectory, recording.last)
        if not isinstance(keeper, ExperienceStore):
            await FunctionStep(keeper, trajectory)
        elif not is_over or self._recorder.settle is None:
            await keeper.add_flow(trajectory)
        elif earlier is None or _tells_more(
            trajectory, earlier
        ):  # else a middleware has just kept it
            await self._recorder.settle(keeper, trajectory, rests=recording.rests)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Logs what goes wrong while recording; the run that is recorded goes on."""
    try:
        yield
    except Exception as error:
        logger.exception("A run could not be recorded as it should: %s", error)  # noqa: TRY401 - the reason in one line


def _tells_more(trajectory: Trajectory, earlier: Trajectory) -> bool:
    sizes = [(len(each.messages), len(each.branches)) for each in (trajectory, earlier)]
    return (
        sizes[0] != sizes[1]
        or not trajectory.metadata.keys() <= earlier.metadata.keys()
    )


def _messages_in(state: Any, key: str) -> Any:
    """The messages in a state, which may be a dict, a pydantic model or a dataclass; `None` if it holds none."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def _update_in(returned: Any, key: str) -> list[BaseMessage]:
    """The messages in what a node returned: an update, a command, or a list of these.

    Only messages with an id count; others get one, and so a place, only in the state.
    """
    if isinstance(returned, Command):
        return _update_in(returned.update, key) if returned.graph is None else []
    if isinstance(returned, list | tuple):
        return [message for each in returned for message in _update_in(each, key)]
    messages = _messages_in(returned, key)
    several = messages if isinstance(messages, list | tuple) else [messages]
    return [
        each
        for each in several
        if isinstance(each, BaseMessage)
        and not isinstance(each, RemoveMessage)
        and each.id
    ]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


# --- threads ---


def load_thread(
    graph: Pregel[Any, Any, Any, Any],
    config: RunnableConfig,
    *,
    messages_key: str = MESSAGES_KEY,
) -> Trajectory:
    """Read the trajectory of a thread: all that was ever said, also what was removed or summarised later.

    Its id is the thread's. Messages stand in order of first appearance, each in its last form. What sub-agents said is
    there as far as it stands in the graph's own messages; a `TrajectoryRecorder` hears the rest. A call that is
    interrupted has no outcome yet, and neither have those of the same step.

    `config` names the thread: `{"configurable": {"thread_id": "1"}}`. Nobody has judged it: `Trajectory.judged` says
    whether it succeeded.

    Raises:
        ConfigurationError: If `config` names no thread.
        ValueError: As LangGraph raises it, if the graph has no checkpointer.
        TrajectoryFormatError: If the thread is unknown, or its state has no messages under `messages_key`.
    """
    return run_flow(load_thread_flow(graph, config, messages_key=messages_key))


async def aload_thread(
    graph: Pregel[Any, Any, Any, Any],
    config: RunnableConfig,
    *,
    messages_key: str = MESSAGES_KEY,
) -> Trajectory:
    """Async version of `load_thread`."""
    return await arun_flow(load_thread_flow(graph, config, messages_key=messages_key))


async def load_thread_flow(
    graph: Pregel[Any, Any, Any, Any],
    config: RunnableConfig,
    *,
    messages_key: str = MESSAGES_KEY,
) -> Trajectory:
    """Flow of `load_thread` and `aload_thread`; other flows await it."""
    thread_id = config.get("configurable", {}).get("thread_id")
    if thread_id is None:
        msg = f"config names no thread: {config!r:.200}. Pass {{'configurable': {{'thread_id': ...}}}}."
        raise ConfigurationError(msg)
    thread_id, dialogue = str(thread_id), Dialogue()
    thread: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    states: list[StateSnapshot] = await CallStep(
        lambda: list(graph.get_state_history(thread)),
        partial(_list_branches, graph.aget_state_history, thread),
    )
    for state in reversed(states):
        dialogue.add(_messages_in(state.values, messages_key))
    if not dialogue.messages:
        names = (
            ", ".join(sorted({name for state in states for name in state.values}))
            or "nothing"
        )
        msg = f"Thread {thread_id!r} has no messages under {messages_key!r}; it has {names}. Check messages_key=."
        raise TrajectoryFormatError(msg)
    return assembled(dialogue, id=thread_id)


"""`load_thread`, to be awaited."""


async def _list_branches(
    history: Callable[..., AsyncIterator[StateSnapshot]], thread: RunnableConfig
) -> list[StateSnapshot]:
    return [state async for state in history(thread)]
