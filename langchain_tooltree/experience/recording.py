"""What was said in the graphs of one run, from whatever source, and the trajectory that comes of it. No I/O."""

from asyncio import AbstractEventLoop
from collections.abc import AsyncIterable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage, RemoveMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.errors import GraphBubbleUp
from langgraph.pregel import Pregel
from langgraph.types import Command, StateSnapshot

from langchain_tooltree._langgraph import (
    NodeRun,
    SavedState,
    checkpoint_of,
    config_at,
    goes_on,
    is_inside,
    nodes_in,
    variables_in,
)
from langchain_tooltree.errors import ConfigurationError, TrajectoryFormatError, described
from langchain_tooltree.experience.run_identity import TOOLS, Tools, as_metadata, tools_in
from langchain_tooltree.experience.trajectory import (
    EXTRAS,
    NOTES,
    Branch,
    ChatMessage,
    Trajectory,
    extras_of,
    metadata_of,
    part_of,
    to_chat,
)
from langchain_tooltree.flows import Flow, TwinStep, async_twin, driven
from langchain_tooltree.models import TAG
from langchain_tooltree.replies import sound
from langchain_tooltree.text import digest, mapping_in

STOPPED = "The run stopped before its end and may be resumed."

Key = str | tuple[str, int]
"""What makes two versions of a message the same one: its id, or else its content and how often that came before."""

Messages = Mapping[Key, BaseMessage | ChatMessage]


def path_of(namespace: str) -> str:
    """The nodes in a checkpoint namespace, outermost first, joined by `/`."""
    return "/".join(nodes_in(namespace))


@dataclass(eq=False, slots=True)
class Dialogue:
    """All messages of one graph, in order of first appearance, each in its last form.

    `name` are the nodes that lead to the graph, joined by `/`; empty for the outermost graph. When this dialogue began,
    that of the outermost graph had `after` messages. `around` is the dialogue that it runs in, if not the outermost.
    """

    name: str = ""
    after: int = 0
    around: "Dialogue | None" = None
    messages: dict[Key, BaseMessage | ChatMessage] = field(default_factory=dict)

    def add(self, messages: Any) -> None:
        """Take in the messages of a state that is later than those seen so far."""
        self.messages.update(keyed(messages))

    def keys_around(self) -> set[Key]:
        """The messages of the dialogues that this one runs in."""
        return set() if self.around is None else self.around.messages.keys() | self.around.keys_around()


def keyed(messages: Any) -> Iterator[tuple[Key, BaseMessage | ChatMessage]]:
    """The messages of a list, or a single one, each with what identifies it."""
    times: dict[str, int] = {}
    for given in messages if isinstance(messages, list | tuple) else [] if messages is None else [messages]:
        message = sound(given if isinstance(given, BaseMessage) else _converted(given))
        yield message.id or _content_key(to_chat(message), times), message


def keyed_messages(messages: Iterable[ChatMessage]) -> Iterator[tuple[Key, ChatMessage]]:
    """The messages of a trajectory, each with the key that it had as a message of LangChain."""
    times: dict[str, int] = {}
    for message in messages:
        yield extras_of(message).get("id") or _content_key(message, times), message


def _content_key(message: ChatMessage, times: dict[str, int]) -> Key:
    content = digest([{name: value for name, value in message.items() if name != EXTRAS}])  # notes come and go
    times[content] = times.get(content, 0) + 1
    return content, times[content]


def _converted(given: Any) -> BaseMessage:
    """A message given as a dict or a pair. LangChain takes a bare text for one, too, but so is any list of names."""
    cause: Exception | None = None
    if not isinstance(given, str):
        try:
            return convert_to_messages([given])[0]
        except (KeyError, NotImplementedError, TypeError, ValueError) as error:
            cause = error
    msg = f"Among the messages is a {type(given).__name__} that is none: {given!r:.80}. Is it the right key?"
    raise TrajectoryFormatError(msg) from cause


def as_chat(message: BaseMessage | ChatMessage) -> ChatMessage:
    """A message in the chat format, whichever form it has."""
    return to_chat(message) if isinstance(message, BaseMessage) else message


def continues(earlier: Trajectory, messages: Messages) -> bool:
    """Whether a conversation goes on from an earlier record: by a reply in both, or else by all of what was said.

    Clients number requests as they like and greet alike, but a reply gets an id of its own.
    """
    known = dict(keyed_messages(earlier.messages))
    replies = {key for key, message in known.items() if isinstance(key, str) and part_of(message) == "reply"}
    return any(key in messages for key in replies) if replies else all(key in messages for key in known)


def assembled(
    root: Dialogue,
    others: Collection[Dialogue],
    *,
    id: str,  # noqa: A002 - the field's name
    task: str | None = None,
    success: bool | None = None,
    reasons: str = "",
    instructions: str = "",
    tools: Tools | None = None,
    earlier: Trajectory | None = None,
) -> Trajectory:
    """One trajectory out of the dialogues of a thread, behind what was recorded of it `earlier`.

    The dialogues of graphs inside become branches, without what `root` or the graphs around them hold as well.
    """
    known = dict(keyed_messages(earlier.messages)) if earlier else {}
    messages = {**known, **root.messages}
    removed = {key for message in messages.values() for key in _removed_by(message)}
    messages = {key: message for key, message in messages.items() if key not in removed}
    order = [key for key in root.messages if key not in removed]
    branches: dict[tuple[str, Key], Dialogue] = {}  # by the name and the first message, which a resumed one has, too
    for branch in earlier.branches if earlier else ():
        around = [other.messages.keys() for other in others if branch.name.startswith(f"{other.name}/")]
        _add_branch(branches, Dialogue(branch.name, branch.after), keyed_messages(branch.messages), messages, *around)
    for other in others:
        after = len(known.keys() | set(order[: other.after]))
        _add_branch(branches, Dialogue(other.name, after), other.messages.items(), messages, other.keys_around())
    offered = tools_in(earlier.metadata.get(TOOLS)) if earlier else {}
    return Trajectory.from_chat(
        [*map(as_chat, messages.values())],
        id=id,
        task=task,
        success=success,
        reasons=reasons,
        instructions=instructions or (earlier.instructions if earlier else ""),
        branches=[
            Branch(each.name, each.after, tuple(map(as_chat, each.messages.values())))
            for each in sorted(branches.values(), key=_place)
        ],
        metadata=as_metadata({**offered, **(tools or {})}),
    )


def _add_branch(
    branches: dict[tuple[str, Key], Dialogue],
    branch: Dialogue,
    messages: Iterable[tuple[Key, BaseMessage | ChatMessage]],
    *outside: Collection[Key],
) -> None:
    own = {key: message for key, message in messages if not any(key in keys for keys in outside)}
    if own:
        branches.setdefault((branch.name, next(iter(own))), branch).messages |= own


def _place(branch: Dialogue) -> tuple[int, str, str]:
    """Where a branch stands; of those that began together, replies decide: ids often hold the time."""
    replies = [key for key, message in branch.messages.items() if as_chat(message)["role"] == "assistant"]
    return branch.after, branch.name, str(next(iter(replies or branch.messages)))


def _removed_by(message: BaseMessage | ChatMessage) -> Sequence[str]:
    """Ids of the messages that a search has tried and removed: the answer that it came to tells of them."""
    metadata = message.response_metadata if isinstance(message, BaseMessage) else metadata_of(message)
    removed = mapping_in(metadata, NOTES).get("removed")
    return [each for each in removed if isinstance(each, str)] if isinstance(removed, list) else []


@dataclass(eq=False, slots=True)
class GraphRun:
    """What is known of one graph, by the starts and ends of its nodes.

    The state is seen whole where a node starts that gets it, and when the graph ends. What the nodes of a step returned
    counts where no state shows it: from when a later step starts.
    """

    dialogue: Dialogue
    _step: int = -1
    _open: set[str] = field(default_factory=set)
    _updates: list[BaseMessage] = field(default_factory=list)

    def node_started(self, node: NodeRun, state: Any) -> None:
        """A node starts, with these messages in its state; `None` if it did not get the state."""
        if node.step != self._step:
            if node.step > self._step and state is None:
                self.dialogue.add(self._updates)
            self._step, self._updates = node.step, []  # an earlier step: the graph is tried again
            self._open.clear()
        self._open.add(node.namespace)
        self.dialogue.add(state)

    def node_ended(self, node: NodeRun, update: Sequence[BaseMessage]) -> None:
        """A node is done, with these messages in its update. One that raised may run again, and does not count."""
        self._open.discard(node.namespace)
        self._updates += [message for message in update if message.id]  # others are seen in the state

    def ended(self, state: Any) -> None:
        """The graph ends, or stops, with these messages; `None` if it raised or returned none."""
        if not self._open:  # else the last step is not complete, and will be taken again
            self.dialogue.add(self._updates if state is None else state)


@dataclass(eq=False, slots=True)
class CallbackRun:
    """A run of anything, from its start to its end.

    It may belong to a search of this package (`inner`), and so not to the conversation. `visit` is what it is as a node
    of a graph; `graph`, as a graph one of whose nodes has started.
    """

    id: UUID
    parent: "CallbackRun | None"
    metadata: Mapping[str, Any]
    inner: bool
    loop: AbstractEventLoop | None = None
    visit: tuple[GraphRun, NodeRun] | None = None
    graph: GraphRun | None = None
    recording: "Recording | None" = None

    def lineage(self) -> Iterator["CallbackRun"]:
        """The run itself and those that it is part of, innermost first."""
        run: CallbackRun | None = self
        while run is not None:
            yield run
            run = run.parent


class Recording:
    """What is known of a graph and the graphs inside it.

    `top` is the run of the outermost graph. Its namespace is empty unless it runs inside a graph that is not recorded.
    Where it was called inside another graph with a thread of its own, its metadata name the thread of that graph.

    `variables` may say whose run it is, once they are known. `recorder` is that of a middleware that has left its
    record to this one, and `about` what it knows of the run.
    """

    def __init__(self, top: CallbackRun, namespace: str, *, own_thread: bool = False) -> None:
        self.top = top
        self.thread_id: str | None = None if own_thread else _text(top.metadata.get("thread_id"))
        self.variables: dict[str, Any] | None = None
        self.tools: Tools = {}
        self.interrupted = False
        self.recorder: Any = None
        self.about: Mapping[str, Any] = {}
        self._instructions: dict[tuple[int, str], str] = {}
        self._namespace = namespace
        self._graphs: dict[str, GraphRun] = {}

    @property
    def id(self) -> str:
        """Id of the trajectory: the thread's; with the namespace, for a sub-agent that is recorded by itself."""
        if self.thread_id is None:
            return str(self.top.id)
        return f"{self.thread_id}/{self._namespace}" if self._namespace else self.thread_id

    @property
    def rests(self) -> bool:
        """Whether it cannot go on after its end."""
        return self.thread_id is None or not goes_on(self._namespace)

    @property
    def messages(self) -> Messages:
        """The messages of the outermost graph."""
        return next(iter(self._graphs.values())).dialogue.messages

    @property
    def last(self) -> Any:
        """The last message of the outermost graph; `None` if there is none yet."""
        return next(reversed([*self.messages.values()]), None)

    @property
    def instructions(self) -> str:
        """The agent's own: those of models that are offered tools in the outermost graph, or else of other models."""
        nearest = min((distance for distance, _ in self._instructions), default=0)
        texts = (text for (distance, _), text in self._instructions.items() if distance == nearest)
        return "\n\n".join(dict.fromkeys(texts))

    def add_request(self, instructions: str, offered: Tools, *, node: str, inside: bool) -> None:
        """Take note of what a model is asked with in a node; `inside` a graph within the outermost one, or not.

        Of several requests of one node the latest counts: instructions may hold the time.
        """
        self.tools |= offered
        if instructions:
            self._instructions[2 * inside + (not offered), node] = instructions

    def add_variables(self, configurable: Mapping[str, Any]) -> None:
        """Take note of what is `configurable`, as something that runs inside a node sees it.

        Nothing else says whose run it is: metadata are often written by the client, and those of the run do not show
        what LangGraph put there.
        """
        self.thread_id = _text(configurable.get("thread_id")) or self.thread_id
        self.variables = variables_in(configurable)

    def holds(self, run: CallbackRun, namespace: str) -> bool:
        """Whether a graph that runs inside the outermost one is part of its thread."""
        around = next(self._visits(run), None)
        return around is None or path_of(namespace).startswith(path_of(around[1].namespace))

    def _visits(self, run: CallbackRun) -> Iterator[tuple[GraphRun, NodeRun]]:
        """The nodes that a run runs in, innermost first."""
        return (outer.visit for outer in run.lineage() if outer.visit and outer.recording is self)

    def graph(self, run: CallbackRun, namespace: str) -> GraphRun:
        """What is known of the graph of this run, which may be new."""
        if namespace not in self._graphs:
            dialogue = Dialogue()
            if visits := list(self._visits(run)):
                inner, outermost = visits[0][0].dialogue, visits[-1][0].dialogue
                name = path_of(namespace.removeprefix(self._namespace))
                dialogue = Dialogue(name, len(outermost.messages), None if inner is outermost else inner)
            self._graphs[namespace] = GraphRun(dialogue)
        return self._graphs[namespace]

    def trajectory(
        self,
        error: BaseException | None,
        earlier: Trajectory | None,
        *,
        id: str,  # noqa: A002 - the record's field
    ) -> Trajectory | None:
        """The trajectory as far as it got, behind what was recorded earlier; `None` if nothing was said."""
        root, *inside = [graph.dialogue for graph in self._graphs.values()]
        if self.last is None and earlier is None:
            return None
        reasons = "" if error is None else f"The run raised {described(error)}"
        return assembled(
            root,
            inside,
            id=id,
            reasons=STOPPED if self.is_unfinished(error) else reasons,
            instructions=self.instructions,
            tools=self.tools,
            earlier=earlier,
        )

    def is_unfinished(self, error: BaseException | None) -> bool:
        """Whether the run stopped with more to come: at an interrupt, drained, cancelled, or no longer read from."""
        return self.interrupted or isinstance(error, GraphBubbleUp) or not isinstance(error, Exception | None)


def messages_in(state: Any, key: str) -> Any:
    """The messages in a state, which may be a dict, a pydantic model or a dataclass; `None` if it holds none."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def update_in(returned: Any, key: str) -> list[BaseMessage]:
    """The messages in what a node returned: an update, a command, or a list of these.

    Only LangChain's own messages count; others get an id, and so a place, only in the state.
    """
    match returned:
        case Command():
            return update_in(returned.update, key) if returned.graph is None else []
        case list() | tuple():
            return [message for each in returned for message in update_in(each, key)]
        case None | str():
            return []
    messages = messages_in(returned, key)
    listed = messages if isinstance(messages, list | tuple) else [messages]
    return [each for each in listed if isinstance(each, BaseMessage) and not isinstance(each, RemoveMessage)]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


MESSAGES_KEY = "messages"
"""Where the state of an agent keeps its messages, unless another key is given."""


@driven
def load_thread(
    graph: Pregel[Any, Any, Any, Any],
    config: RunnableConfig,
    *,
    messages_key: str = MESSAGES_KEY,
    task: str | None = None,
    success: bool | None = None,
) -> Flow[Trajectory]:
    """Read the trajectory of a thread: all that was ever said, also what was removed or summarised later.

    Its id is the thread's. Messages stand in order of first appearance, each in its last form. What sub-agents said
    that is not in the graph's own messages stands in `branches`. A call that is interrupted has no outcome yet, and
    neither have those of the same step, which LangGraph takes over when all are done.

    `config` names the thread: `{"configurable": {"thread_id": "1"}}`. `task` is the first user message if left out, and
    `success` is `None` if nobody has said.

    Raises:
        ConfigurationError: If the graph has no checkpointer, or `config` names no thread.
        TrajectoryFormatError: If the thread is unknown, or its state has no messages under `messages_key`.
    """
    saver, thread_id = _checkpointer(graph), _thread_id(config)
    thread, history = {"thread_id": thread_id}, _History(messages_key)
    everything: RunnableConfig = {"configurable": thread}
    yield _for_each(partial(saver.list, everything), partial(saver.alist, everything), history.add)
    if not history.namespaces:
        msg = f"Thread {thread_id!r} has no checkpoints. Check its id, and that the graph ran with this checkpointer."
        raise TrajectoryFormatError(msg)
    for namespace in history.in_parts:
        place, add = config_at(thread, namespace), partial(history.add_snapshot, namespace)
        yield _for_each(partial(graph.get_state_history, place), partial(graph.aget_state_history, place), add)
    dialogues = history.dialogues()
    if (root := dialogues.pop("", None)) is None:
        held = ", ".join(sorted(history.channels)) or "nothing"
        where = f"The state of thread {thread_id!r}"
        msg = f"{where} has no messages under {messages_key!r}; it has {held}. Pass messages_key=."
        raise TrajectoryFormatError(msg)
    return assembled(root, dialogues.values(), id=thread_id, task=task, success=success)


aload_thread = async_twin(load_thread)
"""`load_thread`, to be awaited."""


class _History:
    """The lists of messages that the graphs of a thread went through, each message held once. Later ones come first."""

    def __init__(self, messages_key: str) -> None:
        self.namespaces: set[str] = set()
        self.in_parts: set[str] = set()  # where checkpoints hold changes alone, which the graph has to add up
        self.channels: set[str] = set()  # names of what the state of the outermost graph holds
        self._key = messages_key
        self._searches: set[str] = set()  # where a planner was searching, so that this is no part of the conversation
        self._forms: dict[str, dict[Key, Any]] = {}  # the last form of each message, by namespace
        self._lists: list[tuple[str, str, list[Key]]] = []  # by checkpoint, whose ids hold the time

    def add(self, checkpoint: CheckpointTuple) -> None:
        """Take in a checkpoint."""
        saved = SavedState.of(checkpoint)
        self.namespaces.add(saved.namespace)
        self.channels |= set() if saved.namespace else saved.channels
        if any(name.startswith(f"{TAG}_") for name in saved.metadata):
            self._searches.add(saved.namespace)
        elif saved.in_parts(self._key):
            self.in_parts.add(saved.namespace)
        else:
            self._see(saved.namespace, saved.id, saved.value(self._key))

    def add_snapshot(self, namespace: str, snapshot: StateSnapshot) -> None:
        """Take in a snapshot of the state of a graph."""
        values = snapshot.values if isinstance(snapshot.values, dict) else {}
        self._see(namespace, checkpoint_of(snapshot.config), values.get(self._key))

    def _see(self, namespace: str, checkpoint: str, messages: Any) -> None:
        if listed := list(keyed(messages)):
            forms = self._forms.setdefault(namespace, {})
            for key, message in listed:
                forms.setdefault(key, message)
            self._lists.append((checkpoint, namespace, [key for key, _ in listed]))

    def dialogues(self) -> dict[str, Dialogue]:
        """The dialogues by namespace, each begun where the outermost one stood then."""
        dialogues: dict[str, Dialogue] = {}
        for _, namespace, keys in sorted(self._lists, key=itemgetter(0)):
            if namespace in self._searches:
                continue
            if namespace not in dialogues:
                outer = [other for other in dialogues if is_inside(namespace, other)]
                around = dialogues[max(outer, key=len)] if outer else None
                after = len(dialogues[""].messages) if "" in dialogues else 0
                dialogues[namespace] = Dialogue(path_of(namespace), after, around)
            dialogues[namespace].messages |= {key: self._forms[namespace][key] for key in keys}
        return dialogues


def _for_each(
    listed: Callable[[], Iterable[Any]], alisted: Callable[[], AsyncIterable[Any]], take: Callable[[Any], None]
) -> TwinStep:
    """A step that does something with each checkpoint of a thread, or each state of a graph, latest first."""

    def run() -> None:
        for each in listed():
            take(each)

    async def arun() -> None:
        async for each in alisted():
            take(each)

    return TwinStep(run, arun)


def _checkpointer(graph: Any) -> BaseCheckpointSaver[Any]:
    saver = getattr(graph, "checkpointer", None)
    if not isinstance(saver, BaseCheckpointSaver):
        msg = (
            f"{getattr(graph, 'name', type(graph).__name__)!r} has no checkpointer, so its threads have no history. "
            "Compile it with one, as in compile(checkpointer=InMemorySaver())."
        )
        raise ConfigurationError(msg)
    return saver


def _thread_id(config: RunnableConfig) -> str:
    thread_id = config.get("configurable", {}).get("thread_id")
    if thread_id is None:
        msg = f"config names no thread: {config!r:.200}. Pass {{'configurable': {{'thread_id': ...}}}}."
        raise ConfigurationError(msg)
    return str(thread_id)
