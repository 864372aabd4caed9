"""What a recorder hears of the graphs of one run, and the trajectory that comes of it. No I/O."""

from asyncio import AbstractEventLoop
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.errors import GraphBubbleUp, ParentCommand
from langgraph.types import Command

from langchain_tooltree._langgraph import NodeRun, is_for_graph_of, variables_in
from langchain_tooltree.experience.run_identity import Tools, tools_in
from langchain_tooltree.experience.threads import ThreadDialogue, path_of, together
from langchain_tooltree.experience.trajectory import Trajectory

STOPPED = "The run stopped before its end and may be resumed."


@dataclass(frozen=True, slots=True)
class Visit:
    """One run of a node of a graph."""

    graph: "GraphRun"
    node: NodeRun


@dataclass(eq=False, slots=True)
class CallbackRun:
    """A run of anything, from its start to its end.

    Attributes:
        id: Its run id.
        parent: The run that it is part of, if that one is known.
        metadata: What it was started with.
        inner: Whether it belongs to a search of this package, and so not to the conversation.
        family: Ids of all runs under the same outermost one.
        loop: The event loop that its start was told on.
        visit: What it is as a node; `None` if it is none.
        graph: What it is as a graph; `None` if it is none, or none of its nodes has started yet.
        recording: The recording that it is part of.
    """

    id: UUID
    parent: "CallbackRun | None"
    metadata: Mapping[str, Any]
    inner: bool
    family: set[UUID]
    loop: AbstractEventLoop | None = None
    visit: Visit | None = None
    graph: "GraphRun | None" = None
    recording: "Recording | None" = None

    def lineage(self) -> Iterator["CallbackRun"]:
        """The run itself and those that it is part of, innermost first."""
        run: CallbackRun | None = self
        while run is not None:
            yield run
            run = run.parent


@dataclass(eq=False, slots=True)
class GraphRun:
    """What is heard of one graph.

    The state is seen whole where a node starts that gets it, and when the graph ends. In between, updates are kept
    until it is certain that they were applied: until a node of a later step starts.

    Attributes:
        dialogue: What was said in it.
    """

    dialogue: ThreadDialogue
    _step: int = -1
    _open: set[str] = field(default_factory=set)
    _updates: dict[int, dict[str, list[BaseMessage]]] = field(default_factory=dict)

    def node_started(self, node: NodeRun, state: Any) -> None:
        """A node starts.

        Args:
            node: Its run.
            state: The messages in the state that it got; `None` if it did not get them.
        """
        if node.step != self._step:
            # A step that comes again belongs to another attempt at the graph; the one before has led to nothing.
            self._updates = {step: update for step, update in self._updates.items() if step < node.step}
            self._step = node.step
            self._open.clear()
        self._open.add(node.namespace)
        if state is not None:
            self._see(state)

    def node_ended(self, node: NodeRun, update: Sequence[BaseMessage]) -> None:
        """A node is done, with these messages in its update. One that raised is not told of: it may run again."""
        self._open.discard(node.namespace)
        self._updates.setdefault(node.step, {})[node.order] = list(update)

    def ended(self, state: Any) -> None:
        """The graph ends, or stops.

        Args:
            state: The messages in what it returned; `None` if it raised or returned none.
        """
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
        self._updates.pop(self._step - 1, None)  # the state tells them, and their order, better
        self.dialogue.see(state)


class Recording:
    """What is heard of a graph and the graphs inside it.

    Args:
        top: The run of the outermost graph.
        namespace: Its checkpoint namespace: empty unless it runs inside a graph that is not recorded.
        own_thread: Whether it was called inside another graph, with a thread of its own. Its metadata tell of the
            other graph's thread.
    """

    def __init__(self, top: CallbackRun, namespace: str, *, own_thread: bool = False) -> None:
        self.top = top
        self.thread_id: str | None = None if own_thread else _text(top.metadata.get("thread_id"))
        self.variables: dict[str, Any] = {}
        self.tools: Tools = {}
        self.heard_variables = False
        self.interrupted = False
        self._namespace = namespace
        self._graphs: dict[str, GraphRun] = {}

    @property
    def id(self) -> str:
        """Id of the trajectory: the thread's; with the namespace, for a sub-agent that is recorded by itself."""
        if self.thread_id is None:
            return str(self.top.id)
        return f"{self.thread_id}/{self._namespace}" if self._namespace else self.thread_id

    def hear_variables(self, configurable: Mapping[str, Any]) -> None:
        """Take note of what is `configurable`, as something that runs inside a node sees it.

        Nothing else says whose run it is: metadata are often written by the client, and those of the run do not tell
        what LangGraph put there. Of what LangGraph keeps for itself, the runtime is wanted, for its context.
        """
        self.thread_id = _text(configurable.get("thread_id")) or self.thread_id
        self.variables = variables_in(configurable)
        self.heard_variables = True

    def hear_tools(self, offered: Any) -> None:
        """Take note of the tools that go to a model."""
        self.tools |= tools_in(offered)

    def holds(self, run: CallbackRun, namespace: str) -> bool:
        """Whether a graph that runs inside the outermost one is part of its thread."""
        around = next(self._visits(run), None)
        return around is None or path_of(namespace).startswith(path_of(around.node.namespace))

    def _visits(self, run: CallbackRun) -> Iterator[Visit]:
        """The nodes that a run runs in, innermost first."""
        return (outer.visit for outer in run.lineage() if outer.visit and outer.recording is self)

    def graph(self, run: CallbackRun, namespace: str) -> GraphRun:
        """What is heard of a graph, from now on if it was not heard of before.

        Args:
            run: Its run.
            namespace: Its checkpoint namespace.
        """
        if namespace not in self._graphs:
            self._graphs[namespace] = self._begun(run, namespace)
        return self._graphs[namespace]

    def _begun(self, run: CallbackRun, namespace: str) -> GraphRun:
        visits = list(self._visits(run))
        if not visits:
            return GraphRun(ThreadDialogue())
        top = visits[-1].graph
        top.apply_before(visits[-1].node.step)
        name = path_of(namespace.removeprefix(self._namespace))
        within = visits[0].graph.dialogue if visits[0].graph is not top else None
        return GraphRun(ThreadDialogue(name, after=len(top.dialogue.messages), within=within))

    def trajectory(self, error: BaseException | None, earlier: Trajectory | None) -> Trajectory | None:
        """The trajectory, as far as it got.

        Args:
            error: What the run raised, if it did.
            earlier: What was recorded of the same thread before.

        Returns:
            The trajectory; `None` if nothing was said.
        """
        root, *inside = [graph.dialogue for graph in self._graphs.values()]
        if not root.messages and earlier is None:
            return None
        if self.unfinished(error):
            reasons = STOPPED
        else:
            reasons = "" if error is None else f"The run raised {type(error).__name__}: {error}"
        return together(root, inside, id=self.id, reasons=reasons, tools=self.tools, earlier=earlier)

    def unfinished(self, error: BaseException | None) -> bool:
        """Whether the run stopped with more to come: at an interrupt, drained, cancelled, or no longer read from."""
        return self.interrupted or isinstance(error, GraphBubbleUp) or not isinstance(error, Exception | None)


def messages_in(state: Any, key: str) -> Any:
    """The messages in a state, be it a dict, a pydantic model or a dataclass; `None` if it holds none."""
    return state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)


def update_in(returned: Any, key: str) -> list[BaseMessage]:
    """The messages in what a node returned: an update, a command, or a list of these.

    Args:
        returned: What it returned.
        key: Where the state keeps its messages.

    Returns:
        The messages that are LangChain's own; others get an id, and so a place, only in the state.
    """
    match returned:
        case Command(graph=None, update=update):
            return update_in(_as_dict(update), key)
        case list() | tuple():
            return [message for each in returned for message in update_in(each, key)]
        case Command() | None | str():
            return []
    said = messages_in(returned, key)
    listed = said if isinstance(said, list | tuple) else [said]
    return [each for each in listed if isinstance(each, BaseMessage) and not isinstance(each, RemoveMessage)]


def handed_up(error: BaseException, namespace: str, key: str) -> list[BaseMessage] | None:
    """The messages of a command that a sub-agent left for the graph around it.

    Args:
        error: What the node raised.
        namespace: That of the node.
        key: Where the state keeps its messages.

    Returns:
        The messages in the command's update; `None` if the error is no command for this node's graph.
    """
    if not isinstance(error, ParentCommand):
        return None
    command: Command[Any] = error.args[0]
    if not is_for_graph_of(namespace, command.graph):
        return None
    return update_in(Command(update=command.update), key)


def _as_dict(update: Any) -> Any:
    """The update of a command, which may also be a list of pairs."""
    pairs = isinstance(update, list | tuple) and all(isinstance(each, tuple) for each in update)
    return dict(update) if pairs else update


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
