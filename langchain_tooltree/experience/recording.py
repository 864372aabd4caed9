"""What was said in the graphs of one run, from whatever source, and the trajectory that comes of it. No I/O."""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage, RemoveMessage, convert_to_messages
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.types import Command

from langchain_tooltree._langgraph import NodeRun, goes_on, is_for_graph_of, nodes_in, variables_in
from langchain_tooltree.errors import TrajectoryFormatError, described
from langchain_tooltree.experience.notes import notes_of, with_suggested
from langchain_tooltree.experience.records import EXTRAS, Branch, ChatMessage, beside, extras_of, part_of
from langchain_tooltree.experience.reference import ADVISED, NOTES, SUGGESTED
from langchain_tooltree.experience.run_identity import TOOLS, Tools, as_metadata, tools_in
from langchain_tooltree.experience.trajectory import Trajectory, to_chat
from langchain_tooltree.flows import Flow
from langchain_tooltree.replies import sound
from langchain_tooltree.text import digest, mapping_in

STOPPED = "The run stopped before its end and may be resumed."

Key = str | tuple[str, int]
"""What makes two versions of a message the same one: its id, or else its content and how often it was said before."""


def path_of(namespace: str) -> str:
    """The nodes in a checkpoint namespace, outermost first, joined by `/`."""
    return "/".join(nodes_in(namespace))


@dataclass(eq=False, slots=True)
class ThreadDialogue:
    """All that was ever said in one graph, in order of first appearance, each message in its last form.

    `name` are the nodes that lead to the graph, joined by `/`; empty for the outermost graph. When this dialogue began,
    that of the outermost graph had `after` messages. `within` is the dialogue around it, if not the outermost one.
    """

    name: str = ""
    after: int = 0
    within: "ThreadDialogue | None" = None
    messages: dict[Key, BaseMessage | ChatMessage] = field(default_factory=dict)

    def see(self, messages: Any) -> None:
        """Take in the messages of a state that is later than those seen so far."""
        self.messages.update(keyed(messages))

    def keys_within(self) -> set[Key]:
        """The messages of the dialogues that this one runs in."""
        outer = self.within
        return set() if outer is None else outer.messages.keys() | outer.keys_within()

    def place(self) -> tuple[int, str, str]:
        """Where it stands among the branches; of those that began together, replies decide: ids often hold the time."""
        replies = [key for key, message in self.messages.items() if as_chat(message)["role"] == "assistant"]
        return self.after, self.name, str(next(iter(replies or self.messages)))


def keyed(messages: Any) -> Iterator[tuple[Key, BaseMessage | ChatMessage]]:
    """The messages of a list, or a single one, each with what identifies it."""
    times: dict[str, int] = {}
    for given in messages if isinstance(messages, list | tuple) else [] if messages is None else [messages]:
        message = sound(given if isinstance(given, BaseMessage) else _converted(given))
        yield message.id or _by_content(to_chat(message), times), message


def keyed_chat(messages: Iterable[ChatMessage]) -> Iterator[tuple[Key, ChatMessage]]:
    """The messages of a trajectory, each with the key that it had as a message of LangChain."""
    times: dict[str, int] = {}
    for message in messages:
        yield extras_of(message).get("id") or _by_content(message, times), message


def _by_content(message: ChatMessage, times: dict[str, int]) -> Key:
    content = digest([{name: said for name, said in message.items() if name != EXTRAS}])  # notes come and go
    times[content] = times.get(content, 0) + 1
    return content, times[content]


def is_continued(earlier: Trajectory, said: Mapping[Key, BaseMessage | ChatMessage]) -> bool:
    """Whether a conversation goes on from an earlier record: by a reply in both, or most of what was said before.

    Clients number requests as they like and greet alike, but a reply gets an id of its own.
    """
    shared = 0
    for key, message in keyed_chat(earlier.messages):
        part, now = part_of(message), as_chat(said[key]) if key in said else {}
        if now and part == part_of(now) and (part == "reply" or message.get("content") == now.get("content")):
            shared += 1
            if isinstance(key, str) and part == "reply":
                return True
    return 2 * shared > len(earlier.messages)


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


def together(
    root: ThreadDialogue,
    others: Collection[ThreadDialogue],
    *,
    id: str,  # noqa: A002 - the field's name
    task: str | None = None,
    success: bool | None = None,
    reasons: str = "",
    instructions: str = "",
    tools: Tools | None = None,
    earlier: Trajectory | None = None,
    suggested: Mapping[Any, Sequence[Mapping[str, Any]]] | None = None,
) -> Trajectory:
    """One trajectory out of all that was said in a thread.

    The dialogues of graphs inside become branches, without what `root` or the graphs around them hold as well. What
    was `suggested` after a message is noted beside the reply that follows it, as it is in the record of before. What
    was recorded of the thread before goes first; a record that shares no message with `root` is of another
    conversation under the same id, and is left out.
    """
    known = dict(keyed_chat(earlier.messages)) if earlier else {}
    if root.messages and known.keys().isdisjoint(root.messages):
        earlier, known = None, {}
    said = {**known, **root.messages}
    gone = {key for message in said.values() for key in _abandoned_by(message)}
    said = {key: message for key, message in said.items() if key not in gone}
    order = [key for key in root.messages if key not in gone]
    branches: list[ThreadDialogue] = []
    for other in others:
        outside = said.keys() | other.keys_within()
        own = {key: message for key, message in other.messages.items() if key not in outside}
        after = len(known.keys() | set(order[: other.after]))
        branches.append(ThreadDialogue(other.name, after, messages=own))
    for branch in earlier.branches if earlier else ():
        around = [other.messages.keys() for other in others if branch.name.startswith(f"{other.name}/")]
        outside = said.keys() | set().union(*around)
        own = {key: message for key, message in keyed_chat(branch.messages) if key not in outside}
        _continued(ThreadDialogue(branch.name, branch.after, messages=own), branches)
    spoken = sorted((branch for branch in branches if branch.messages), key=ThreadDialogue.place)
    offered = tools_in(earlier.metadata.get(TOOLS)) if earlier else {}
    # What was said before stands first, so the places of reflections in it are the same.
    advised = {ADVISED: earlier.metadata[ADVISED]} if earlier and ADVISED in earlier.metadata else {}
    chat = {key: as_chat(message) for key, message in said.items()}
    before = [None, *known][:-1]  # a suggestion is known by the message after which it was made
    noted = ((key, notes_of(each).get(SUGGESTED)) for key, each in zip(before, known.values(), strict=True))
    told = {**{key: each for key, each in noted if isinstance(each, list)}, **(suggested or {})}
    return Trajectory.from_chat(
        [*with_suggested(chat.items(), told)] if told else [*chat.values()],
        id=id,
        task=task,
        success=success,
        reasons=reasons,
        instructions=instructions or (earlier.instructions if earlier else ""),
        branches=[Branch(each.name, each.after, tuple(map(as_chat, each.messages.values()))) for each in spoken],
        metadata={**advised, **as_metadata({**offered, **(tools or {})})},
    )


def _abandoned_by(message: BaseMessage | ChatMessage) -> Sequence[str]:
    """Ids of the messages that a search has tried and removed: the answer that it came to tells of them."""
    metadata = message.response_metadata if isinstance(message, BaseMessage) else beside(message)
    removed = mapping_in(metadata, NOTES).get("removed")
    return [each for each in removed if isinstance(each, str)] if isinstance(removed, list) else []


def _continued(before: ThreadDialogue, branches: list[ThreadDialogue]) -> None:
    """Put what was recorded of a sub-agent before it was interrupted in front of what it said after."""

    def shared(branch: ThreadDialogue) -> int:
        return len(before.messages.keys() & branch.messages.keys()) if branch.name == before.name else 0

    after = max(branches, key=shared, default=None)
    if after is None or not shared(after):
        branches.append(before)
    else:
        after.messages = before.messages | after.messages
        after.after = before.after


@dataclass(eq=False, slots=True)
class GraphRun:
    """What is heard of one graph, by the starts and ends of its nodes.

    The state is seen whole where a node starts that gets it, and when the graph ends. In between, updates are kept
    until it is certain that they were applied: until a node of a later step starts.
    """

    dialogue: ThreadDialogue
    _step: int = -1
    _open: set[str] = field(default_factory=set)
    _updates: dict[int, dict[str, list[BaseMessage]]] = field(default_factory=dict)

    def node_started(self, node: NodeRun, state: Any) -> None:
        """A node starts, with these messages in its state; `None` if it did not get the state."""
        if node.step != self._step:
            # A step that comes again belongs to another attempt at the graph; the one before has led to nothing.
            self._updates = {step: update for step, update in self._updates.items() if step < node.step}
            self._step = node.step
            self._open.clear()
        self._open.add(node.namespace)
        if state is not None:
            self._see(state)

    def node_ended(self, node: NodeRun, update: Sequence[BaseMessage]) -> None:
        """A node is done, with these messages in its update. One that raised may run again, and does not count."""
        self._open.discard(node.namespace)
        self._updates.setdefault(node.step, {})[node.order] = list(update)

    def ended(self, state: Any) -> None:
        """The graph ends, or stops, with these messages; `None` if it raised or returned none."""
        if self._open:  # the last step is not complete, so nothing of it is in the state yet
            self.apply_before(self._step)
        elif state is None:
            self.apply_before(self._step + 1)
        else:
            self._step += 1
            self._see(state)

    def apply_before(self, step: int) -> None:
        """Take in the updates of the steps before one; messages without an id are seen later, in the state."""
        for number in sorted(number for number in self._updates if number < step):
            for _, messages in sorted(self._updates.pop(number).items()):
                self.dialogue.see([message for message in messages if message.id])

    def _see(self, state: Any) -> None:
        self.apply_before(self._step - 1)
        self._updates.pop(self._step - 1, None)  # the state shows them, and their order, better
        self.dialogue.see(state)


@dataclass(eq=False, slots=True)
class CallbackRun:
    """A run of anything, from its start to its end.

    It may belong to a search of this package (`inner`), and so not to the conversation. `family` are all runs under the
    same outermost one. `visit` is what it is as a node of a graph; `graph`, as a graph one of whose nodes has started.
    """

    id: UUID
    parent: "CallbackRun | None"
    metadata: Mapping[str, Any]
    inner: bool
    family: set[UUID]
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
    """What is heard of a graph and the graphs inside it.

    `top` is the run of the outermost graph. Its namespace is empty unless it runs inside a graph that is not recorded.
    Where it was called inside another graph with a thread of its own, its metadata name the thread of that graph.

    `variables` may say whose run it is, once they are known. `judging` is how a middleware that has left its record to
    this one would judge it, `settle` what would keep it, `about` what it knows of the run, and `there` says which runs
    are in the store from which it has recalled some.
    """

    def __init__(self, top: CallbackRun, namespace: str, *, own_thread: bool = False) -> None:
        self.top = top
        self.thread_id: str | None = None if own_thread else _text(top.metadata.get("thread_id"))
        self.variables: dict[str, Any] | None = None
        self.tools: Tools = {}
        self.interrupted = False
        self._instructions: dict[tuple[int, str], str] = {}
        self._suggested: dict[Any, Sequence[Mapping[str, Any]]] = {}
        self.judging: Callable[[Trajectory, Any], Flow[Trajectory]] | None = None
        self.settle: Any = None
        self.about: Mapping[str, Any] = {}
        self.there: Callable[[Sequence[str]], Flow[set[str]]] | None = None
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
    def instructions(self) -> str:
        """The agent's own: those of models that are offered tools in the outermost graph, or else of other models."""
        nearest = min((distance for distance, _ in self._instructions), default=0)
        said = (text for (distance, _), text in self._instructions.items() if distance == nearest)
        return "\n\n".join(dict.fromkeys(said))

    def hear_request(self, instructions: str, offered: Tools, *, node: str, inside: bool) -> None:
        """Take note of what a model is asked with in a node; `inside` a graph within the outermost one, or not.

        Of several requests of one node the latest counts: instructions may hold the time.
        """
        self.tools |= offered
        if instructions:
            self._instructions[2 * inside + (not offered), node] = instructions

    def hear_suggested(self, suggested: Sequence[Mapping[str, Any]]) -> None:
        """Take note of what was suggested after what was said so far."""
        self._suggested[next(reversed([*self.said]), None)] = suggested

    def hear_variables(self, configurable: Mapping[str, Any]) -> None:
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
        """What is heard of the graph of this run, from now on if it was not heard of before."""
        if namespace not in self._graphs:
            dialogue = ThreadDialogue()
            if visits := list(self._visits(run)):
                (inner, _), (top, node) = visits[0], visits[-1]
                top.apply_before(node.step)
                name = path_of(namespace.removeprefix(self._namespace))
                within = None if inner is top else inner.dialogue
                dialogue = ThreadDialogue(name, after=len(top.dialogue.messages), within=within)
            self._graphs[namespace] = GraphRun(dialogue)
        return self._graphs[namespace]

    @property
    def last(self) -> Any:
        """The last message of the outermost graph; `None` if nothing was said yet."""
        return next(reversed(next(iter(self._graphs.values())).dialogue.messages.values()), None)

    @property
    def said(self) -> Mapping[Key, BaseMessage | ChatMessage]:
        """What was said in the outermost graph."""
        return next(iter(self._graphs.values())).dialogue.messages

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
        if self.unfinished(error):
            reasons = STOPPED
        return together(
            root,
            inside,
            id=id,
            reasons=reasons,
            instructions=self.instructions,
            tools=self.tools,
            earlier=earlier,
            suggested=self._suggested,
        )

    def unfinished(self, error: BaseException | None) -> bool:
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
        case Command(graph=None):
            update: Any = returned.update  # a mapping, or a list of pairs
            pairs = isinstance(update, list | tuple) and all(isinstance(each, tuple) for each in update)
            return update_in(dict(update) if pairs else update, key)
        case list() | tuple():
            return [message for each in returned for message in update_in(each, key)]
        case Command() | None | str():
            return []
    said = messages_in(returned, key)
    listed = said if isinstance(said, list | tuple) else [said]
    return [each for each in listed if isinstance(each, BaseMessage) and not isinstance(each, RemoveMessage)]


def handed_up(error: BaseException, namespace: str, key: str) -> list[BaseMessage] | None:
    """The messages of a command that a sub-agent left for the graph of this node; `None` if it is no such command."""
    if not isinstance(error, ParentCommand):
        return None
    command: Command[Any] = error.args[0]
    return update_in(Command(update=command.update), key) if is_for_graph_of(namespace, command.graph) else None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
