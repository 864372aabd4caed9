"""load_thread: the trajectory of a LangGraph thread, read from its history."""

from collections.abc import AsyncIterable, Callable, Iterable
from functools import partial
from operator import itemgetter
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.pregel import Pregel
from langgraph.types import StateSnapshot

from langchain_tooltree._langgraph import SavedState, checkpoint_of, config_at, is_inside
from langchain_tooltree.errors import ConfigurationError, TrajectoryFormatError
from langchain_tooltree.experience.recording import Dialogue, Key, assembled, keyed, path_of
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, TwinStep, async_twin, driven
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
