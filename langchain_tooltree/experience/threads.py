"""load_thread: the trajectory of a LangGraph thread, read from its history."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from langchain_tooltree._langgraph import SavedState, checkpoint_of, config_at, is_inside, levels, nodes_in
from langchain_tooltree.errors import ConfigurationError, TrajectoryFormatError
from langchain_tooltree.experience.records import EXTRAS, Branch, ChatMessage
from langchain_tooltree.experience.run_identity import TOOLS, Tools, as_metadata, tools_in
from langchain_tooltree.experience.trajectory import Trajectory, to_chat
from langchain_tooltree.flows import Flow, arun_flow, run_flow
from langchain_tooltree.models import TAG
from langchain_tooltree.text import digest

Key = str | tuple[str, int]
"""What makes two versions of a message the same one: its id, or else its content and how often it was said before."""


class ThreadDialogue:
    """All that was ever said in one graph, in order of first appearance, each message in its last form.

    Args:
        name: The nodes that lead to the graph, joined by `/`; empty for the outermost one.
        after: How many messages of the outermost graph's dialogue were there when this one began.
        within: The dialogue of the graph that this one runs in, if that is not the outermost one.
    """

    def __init__(self, name: str = "", *, after: int = 0, within: "ThreadDialogue | None" = None) -> None:
        self.name = name
        self.after = after
        self.within = within
        self.messages: dict[Key, BaseMessage | ChatMessage] = {}

    def see(self, messages: Any) -> None:
        """Take in a list of messages as it was in the state of the graph at some time, later than those seen so far.

        Args:
            messages: The list; anything that LangChain takes for messages.
        """
        self.messages.update(keyed(messages))

    def keys_within(self) -> set[Key]:
        """The messages of the dialogues that this one runs in."""
        outer = self.within
        return set() if outer is None else outer.messages.keys() | outer.keys_within()


def keyed(messages: Any) -> Iterator[tuple[Key, BaseMessage | ChatMessage]]:
    """The messages of a list, each with what identifies it.

    Args:
        messages: A list of messages, one message, or nothing.

    Yields:
        Pairs of key and message.

    Raises:
        TrajectoryFormatError: If something in the list is no message.
    """
    times: dict[str, int] = {}
    for given in messages if isinstance(messages, list | tuple) else [] if messages is None else [messages]:
        message = given if isinstance(given, BaseMessage) else _converted(given)
        if message.id:
            yield message.id, message
        else:
            yield _by_content(to_chat(message), times), message


def together(
    root: ThreadDialogue,
    others: Collection[ThreadDialogue],
    *,
    id: str,  # noqa: A002 - the field's name
    task: str | None = None,
    success: bool | None = None,
    reasons: str = "",
    tools: Tools | None = None,
    earlier: Trajectory | None = None,
) -> Trajectory:
    """One trajectory out of all that was said in a thread.

    Args:
        root: The dialogue of the outermost graph.
        others: Those of the graphs inside; what `root` or the graphs around them hold as well is not repeated.
        id: The trajectory's id.
        task: What was asked for; the first user message if left out.
        success: Whether it succeeded.
        reasons: Why.
        tools: What the models were offered, as far as it is known; beside what was recorded earlier.
        earlier: What was recorded of the thread before, if it is known. A record that shares no message with `root`
            is of another conversation under the same id, and is left out.

    Returns:
        The trajectory.
    """
    known = dict(_recorded(earlier.messages)) if earlier else {}
    if root.messages and known.keys().isdisjoint(root.messages):
        earlier, known = None, {}
    said = {**known, **root.messages}
    order = list(root.messages)
    branches: list[_Own] = []
    for other in others:
        outside = said.keys() | other.keys_within()
        own = {key: message for key, message in other.messages.items() if key not in outside}
        branches.append(_Own(other.name, len(known.keys() | set(order[: other.after])), own))
    for branch in earlier.branches if earlier else ():
        around = [other.messages.keys() for other in others if branch.name.startswith(f"{other.name}/")]
        outside = said.keys() | set().union(*around)
        own = {key: message for key, message in _recorded(branch.messages) if key not in outside}
        _continued(_Own(branch.name, branch.after, own), branches)
    offered = tools_in(earlier.metadata.get(TOOLS)) if earlier else {}
    branches = sorted((branch for branch in branches if branch.messages), key=_Own.place)
    return Trajectory.from_chat(
        [_as_chat(message) for message in said.values()],
        id=id,
        task=task,
        success=success,
        reasons=reasons,
        branches=[
            Branch(branch.name, branch.after, tuple(_as_chat(message) for message in branch.messages.values()))
            for branch in branches
        ],
        metadata=as_metadata({**offered, **(tools or {})}),
    )


class _Own:
    """A branch in the making."""

    def __init__(self, name: str, after: int, messages: dict[Key, BaseMessage | ChatMessage]) -> None:
        self.name = name
        self.after = after
        self.messages = messages

    def place(self) -> tuple[int, str, str]:
        """Where it stands among the others; of those that began together, ids of replies, which often hold the time."""
        replies = [key for key, message in self.messages.items() if _as_chat(message)["role"] == "assistant"]
        return self.after, self.name, str(next(iter(replies or self.messages)))


def _continued(before: _Own, branches: list[_Own]) -> None:
    """Put what was recorded of a sub-agent before it was interrupted in front of what it said after."""

    def shared(branch: _Own) -> int:
        return len(before.messages.keys() & branch.messages.keys()) if branch.name == before.name else 0

    after = max(branches, key=shared, default=None)
    if after is None or not shared(after):
        branches.append(before)
    else:
        after.messages = before.messages | after.messages
        after.after = before.after


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


def _recorded(messages: Iterable[ChatMessage]) -> Iterator[tuple[Key, ChatMessage]]:
    times: dict[str, int] = {}
    for message in messages:
        extras = message.get(EXTRAS)
        known = extras.get("id") if isinstance(extras, Mapping) else None
        yield known or _by_content(message, times), message


def _by_content(message: ChatMessage, times: dict[str, int]) -> Key:
    content = digest([message])
    times[content] = times.get(content, 0) + 1
    return content, times[content]


def _as_chat(message: BaseMessage | ChatMessage) -> ChatMessage:
    return to_chat(message) if isinstance(message, BaseMessage) else message


MESSAGES_KEY = "messages"
"""Where the state of an agent keeps its messages, unless it is told otherwise."""


def load_thread(
    graph: Pregel[Any, Any, Any, Any],
    config: RunnableConfig,
    *,
    messages_key: str = MESSAGES_KEY,
    task: str | None = None,
    success: bool | None = None,
) -> Trajectory:
    """Read the trajectory of a thread: all that was ever said, also what was removed or summarised later.

    Args:
        graph: The compiled graph, with its checkpointer.
        config: Names the thread: `{"configurable": {"thread_id": "1"}}`.
        messages_key: Where the state keeps its messages.
        task: What was asked for; the first user message if left out.
        success: Whether it succeeded; `None` if nobody has said.

    Returns:
        The trajectory, its id being the thread's. Messages stand in order of first appearance, each in its last form.
        What sub-agents said that is not in the graph's own messages stands in `branches`. A call that is interrupted
        has no outcome yet, and neither have those of the same step, which LangGraph takes over when all are done.

    Raises:
        ConfigurationError: If the graph has no checkpointer, or `config` names no thread.
        TrajectoryFormatError: If the thread is unknown, or its state has no messages under `messages_key`.
    """
    return run_flow(_load(graph, config, messages_key, task=task, success=success))


async def aload_thread(
    graph: Pregel[Any, Any, Any, Any],
    config: RunnableConfig,
    *,
    messages_key: str = MESSAGES_KEY,
    task: str | None = None,
    success: bool | None = None,
) -> Trajectory:
    """The async twin of `load_thread`."""
    return await arun_flow(_load(graph, config, messages_key, task=task, success=success))


def path_of(namespace: str) -> str:
    """The nodes in a checkpoint namespace such as `a:1f0|2|b:2c1`, joined by `/`; ids and counters are left out."""
    return "/".join(nodes_in(namespace))


def _load(
    graph: Pregel[Any, Any, Any, Any],
    config: RunnableConfig,
    messages_key: str,
    *,
    task: str | None,
    success: bool | None,
) -> Flow[Trajectory]:
    saver, thread_id = _checkpointer(graph), _thread_id(config)
    histories: dict[str, _History] = {}

    def take(saved: SavedState) -> None:
        histories.setdefault(saved.namespace, _History()).take(saved, messages_key)

    thread = {"thread_id": thread_id}
    yield _Checkpoints(saver, {"configurable": thread}, take)
    if not histories:
        msg = f"Thread {thread_id!r} has no checkpoints. Check its id, and that the graph ran with this checkpointer."
        raise TrajectoryFormatError(msg)
    for namespace, history in histories.items():
        if history.in_parts:
            histories[namespace] = rebuilt = _History(history.parent)
            visit = rebuilt.visitor(messages_key)
            yield _Snapshots(graph, config_at(thread, namespace), visit)
    root = histories.pop("", _History())
    if not root.forms:
        msg = (
            f"The state of thread {thread_id!r} has no messages under {messages_key!r}; "
            f"it has {', '.join(sorted(root.channels)) or 'nothing'}. Pass messages_key=."
        )
        raise TrajectoryFormatError(msg)
    dialogue, lengths = root.read()
    return together(dialogue, _inside(histories, lengths), id=thread_id, task=task, success=success)


def _inside(histories: Mapping[str, "_History"], lengths: list[tuple[str, int]]) -> Collection[ThreadDialogue]:
    """The dialogues of the graphs inside, outer ones first."""
    found: dict[str, ThreadDialogue] = {}
    for namespace in sorted(histories, key=lambda namespace: (levels(namespace), namespace)):
        history = histories[namespace]
        if history.searched:
            continue
        before = bisect_right(lengths, history.parent, key=lambda entry: entry[0])
        dialogue, _ = history.read()
        dialogue.name = path_of(namespace)
        dialogue.after = lengths[before - 1][1] if before else 0
        outer = [other for other in found if is_inside(namespace, other)]
        dialogue.within = found[max(outer, key=len)] if outer else None
        found[namespace] = dialogue
    return found.values()


class _History:
    """The lists of messages that one graph went through. It holds every message once, not once for each checkpoint.

    Args:
        parent: The checkpoint of the outermost graph in which it began.

    Attributes:
        forms: The last form of each message.
        channels: Names of what the state holds.
        in_parts: Whether checkpoints hold changes alone, which the graph has to add up.
        searched: Whether it ran while a planner was searching, so that it is no part of the conversation.
    """

    def __init__(self, parent: str = "") -> None:
        self.parent = parent
        self.forms: dict[Key, Any] = {}
        self.channels: set[str] = set()
        self.in_parts = False
        self.searched = False
        self._lists: list[tuple[str, list[Key]]] = []

    def take(self, saved: SavedState, messages_key: str) -> None:
        """Take in a checkpoint; later ones come first."""
        self.parent = saved.root or self.parent
        self.searched |= any(name.startswith(f"{TAG}_") for name in saved.metadata)
        self.channels |= saved.channels
        if saved.in_parts(messages_key):
            self.in_parts = True
        else:
            self._see(saved.id, saved.value(messages_key))

    def visitor(self, messages_key: str) -> Callable[[StateSnapshot], None]:
        """A function that takes in snapshots; later ones come first."""

        def visit(snapshot: StateSnapshot) -> None:
            values = snapshot.values if isinstance(snapshot.values, dict) else {}
            self._see(checkpoint_of(snapshot.config), values.get(messages_key))

        return visit

    def _see(self, checkpoint: str, messages: Any) -> None:
        listed = list(keyed(messages))
        for key, message in listed:
            self.forms.setdefault(key, message)
        self._lists.append((checkpoint, [key for key, _ in listed]))

    def read(self) -> tuple[ThreadDialogue, list[tuple[str, int]]]:
        """The dialogue, and how long it was at each checkpoint, oldest first."""
        dialogue = ThreadDialogue()
        lengths = []
        for checkpoint, keys in sorted(self._lists, key=lambda entry: entry[0]):
            dialogue.messages |= {key: self.forms[key] for key in keys}
            lengths.append((checkpoint, len(dialogue.messages)))
        return dialogue, lengths


@dataclass(frozen=True, slots=True)
class _Checkpoints:
    """Reading the checkpoints of a thread, those of all graphs inside included, latest first."""

    saver: BaseCheckpointSaver[Any]
    config: RunnableConfig
    take: Callable[[SavedState], None]

    def run(self) -> None:
        for saved in self.saver.list(self.config):
            self.take(SavedState.of(saved))

    async def arun(self) -> None:
        async for saved in self.saver.alist(self.config):
            self.take(SavedState.of(saved))


@dataclass(frozen=True, slots=True)
class _Snapshots:
    """Reading the states of one graph of a thread, latest first."""

    graph: Pregel[Any, Any, Any, Any]
    config: RunnableConfig
    visit: Callable[[StateSnapshot], None]

    def run(self) -> None:
        for snapshot in self.graph.get_state_history(self.config):
            self.visit(snapshot)

    async def arun(self) -> None:
        async for snapshot in self.graph.aget_state_history(self.config):
            self.visit(snapshot)


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
