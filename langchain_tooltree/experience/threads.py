"""load_thread: the trajectory of a LangGraph thread, read from its history."""

from bisect import bisect_right
from collections.abc import AsyncIterable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from langchain_tooltree._langgraph import SavedState, checkpoint_of, config_at, is_inside, levels
from langchain_tooltree.errors import ConfigurationError, TrajectoryFormatError
from langchain_tooltree.experience.recording import Dialogue, Key, assembled, keyed, path_of
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, async_twin, driven
from langchain_tooltree.models import TAG

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
    histories: dict[str, _History] = {}

    def take(checkpoint: CheckpointTuple) -> None:
        saved = SavedState.of(checkpoint)
        histories.setdefault(saved.namespace, _History()).take(saved, messages_key)

    thread = {"thread_id": thread_id}
    everything: RunnableConfig = {"configurable": thread}
    yield _ForEach(partial(saver.list, everything), partial(saver.alist, everything), take)
    if not histories:
        msg = f"Thread {thread_id!r} has no checkpoints. Check its id, and that the graph ran with this checkpointer."
        raise TrajectoryFormatError(msg)
    for namespace, history in histories.items():
        if history.in_parts:
            histories[namespace] = rebuilt = _History(history.parent)
            place, visit = config_at(thread, namespace), partial(rebuilt.visit, messages_key)
            yield _ForEach(partial(graph.get_state_history, place), partial(graph.aget_state_history, place), visit)
    root = histories.pop("", _History())
    if not root.forms:
        held = ", ".join(sorted(root.channels)) or "nothing"
        where = f"The state of thread {thread_id!r}"
        msg = f"{where} has no messages under {messages_key!r}; it has {held}. Pass messages_key=."
        raise TrajectoryFormatError(msg)
    dialogue, lengths = root.read()
    return assembled(dialogue, _inside(histories, lengths), id=thread_id, task=task, success=success)


aload_thread = async_twin(load_thread)
"""`load_thread`, to be awaited."""


def _inside(histories: Mapping[str, "_History"], lengths: list[tuple[str, int]]) -> Collection[Dialogue]:
    """The dialogues of the graphs inside, outer ones first."""
    found: dict[str, Dialogue] = {}
    for namespace in sorted(histories, key=lambda namespace: (levels(namespace), namespace)):
        history = histories[namespace]
        if history.searched:
            continue
        before = bisect_right(lengths, history.parent, key=lambda entry: entry[0])
        dialogue, _ = history.read()
        dialogue.name = path_of(namespace)
        dialogue.after = lengths[before - 1][1] if before else 0
        outer = [other for other in found if is_inside(namespace, other)]
        dialogue.around = found[max(outer, key=len)] if outer else None
        found[namespace] = dialogue
    return found.values()


class _History:
    """The lists of messages that one graph went through. It holds every message once, not once for each checkpoint.

    `parent` is the checkpoint of the outermost graph in which it began.
    """

    def __init__(self, parent: str = "") -> None:
        self.parent = parent
        self.forms: dict[Key, Any] = {}  # the last form of each message
        self.channels: set[str] = set()  # names of what the state holds
        self.in_parts = False  # whether checkpoints hold changes alone, which the graph has to add up
        self.searched = False  # whether a planner was searching, so that this is no part of the conversation
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

    def visit(self, messages_key: str, snapshot: StateSnapshot) -> None:
        """Take in a snapshot of the state; later ones come first."""
        values = snapshot.values if isinstance(snapshot.values, dict) else {}
        self._see(checkpoint_of(snapshot.config), values.get(messages_key))

    def _see(self, checkpoint: str, messages: Any) -> None:
        listed = list(keyed(messages))
        for key, message in listed:
            self.forms.setdefault(key, message)
        self._lists.append((checkpoint, [key for key, _ in listed]))

    def read(self) -> tuple[Dialogue, list[tuple[str, int]]]:
        """The dialogue, and how long it was at each checkpoint, oldest first."""
        dialogue = Dialogue()
        lengths = []
        for checkpoint, keys in sorted(self._lists, key=lambda entry: entry[0]):
            dialogue.messages |= {key: self.forms[key] for key in keys}
            lengths.append((checkpoint, len(dialogue.messages)))
        return dialogue, lengths


@dataclass(frozen=True, slots=True)
class _ForEach:
    """Doing something with each checkpoint of a thread, or each state of one of its graphs, latest first."""

    listed: Callable[[], Iterable[Any]]
    alisted: Callable[[], AsyncIterable[Any]]
    take: Callable[[Any], None]

    def run(self) -> None:
        for each in self.listed():
            self.take(each)

    async def arun(self) -> None:
        async for each in self.alisted():
            self.take(each)


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
