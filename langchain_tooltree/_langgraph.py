"""What this package relies on in LangGraph and its documentation does not promise: names, forms and orders.

They stand in no other file. `tests/unit_tests/test_langgraph_contract.py` checks each one against the installed
LangGraph, so that a release that changes something fails there first, and not in a user's graph.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from langchain_core.messages import BaseMessage, ToolCall
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.config import get_config
from langgraph.constants import START
from langgraph.pregel._messages import StreamMessagesHandler
from langgraph.runtime import Runtime
from langgraph.store.base import MatchCondition
from langgraph.store.memory import InMemoryStore, _compare_values, _does_match

# Checkpoint namespaces: `node:task|node:task`, and `node:task|2` for the third call of a graph in one task.

_LEVEL, _TASK = "|", ":"

_NAMESPACE, _CHECKPOINT, _MAP, _THREAD = (
    "checkpoint_ns",
    "checkpoint_id",
    "checkpoint_map",
    "thread_id",
)


def graph_around(namespace: str) -> str:
    """The namespace of the graph that a node belongs to."""
    return namespace.rpartition(_LEVEL)[0]


def goes_on(namespace: str) -> bool:
    """Whether the next turn of a thread finds the state of a graph; that of one called by a task ends with the task."""
    return _TASK not in namespace


# What LangGraph keeps under `configurable`.

_RESERVED, _RUNNING, _CHECKPOINTER = "__", "__pregel_", "__pregel_checkpointer"
_RUNTIME = "__pregel_runtime"

_PLACE = frozenset({_THREAD, _CHECKPOINT, _NAMESPACE, _MAP})


def configurable_here() -> Mapping[str, Any] | None:
    """What is `configurable` in the node that is running; `None` outside of a graph."""
    try:
        return get_config().get("configurable", {})
    except RuntimeError:
        return None


def can_be_answered() -> bool:
    """Whether a run that stops here with a question can go on: its graph, or one around it, has a checkpointer."""
    return (configurable_here() or {}).get(_CHECKPOINTER) is not None


def thread_here() -> str:
    """The thread of the run; empty for one that is not kept, or outside of a graph."""
    return str((configurable_here() or {}).get(_THREAD, ""))


def namespace_here() -> str:
    """The namespace of the node that is running; empty outside of a graph."""
    return str((configurable_here() or {}).get(_NAMESPACE, ""))


def without_reserved(
    configurable: Mapping[str, Any], *, place: bool = True
) -> dict[str, Any]:
    """What users have put under `configurable`; with `place`, also what says where a run stands, such as its thread."""
    left_out = frozenset() if place else _PLACE
    return {
        key: value
        for key, value in configurable.items()
        if not key.startswith(_RESERVED) and key not in left_out
    }


def variables_in(configurable: Mapping[str, Any]) -> dict[str, Any]:
    """What may say whose run it is: users' values and the runtime, for its context."""
    runtime = runtime_in(configurable)
    return without_reserved(configurable) | (
        {} if runtime is None else {_RUNTIME: runtime}
    )


def without_graph(configurable: Mapping[str, Any]) -> dict[str, Any]:
    """`configurable` for a run that is no part of the graph that is running, nor of its checkpoints."""
    return {
        key: value
        for key, value in configurable.items()
        if not key.startswith(("checkpoint_", _RUNNING))
    }


def runtime_in(configurable: Mapping[str, Any]) -> Runtime[Any] | None:
    """The runtime that LangGraph keeps beside users' values."""
    runtime = configurable.get(_RUNTIME)
    return runtime if isinstance(runtime, Runtime) else None


# What callback handlers hear of nodes.


def callbacks_here() -> tuple[Sequence[Any], UUID | None]:
    """The callback handlers of the node that is running, and the run as which they know it."""
    callbacks = ensure_config().get("callbacks")
    return getattr(callbacks, "handlers", ()), getattr(callbacks, "parent_run_id", None)


def stream_now(messages: Sequence[BaseMessage]) -> None:
    """Show messages in `stream_mode="messages"` that the running node will return, which shows each of them once.

    What the node has a model say afterwards then stands behind them.
    """
    handlers, run = callbacks_here()
    for handler in handlers:
        if isinstance(handler, StreamMessagesHandler) and (
            place := run and handler.metadata.get(run)
        ):
            handler._find_and_emit_messages(place, messages)  # noqa: SLF001 - its public twin would show them twice


_NODE_TAG, _PULL = "graph:step:", "__pregel_pull"

_CALL = True  # last element of the path of a `@task` call


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One run of a node or of a `@task`: the super-step, and where it stands among the tasks of that step."""

    step: int
    path: tuple[Any, ...]
    namespace: str
    name: str = ""

    @classmethod
    def of(cls, tags: Sequence[str], metadata: Mapping[str, Any]) -> "NodeRun | None":
        """What a callback's tags and metadata say; `None` if they are not those of a node."""
        if not any(tag.startswith(_NODE_TAG) for tag in tags):
            return None
        return cls(
            *(
                metadata[f"langgraph_{key}"]
                for key in ("step", "path", "checkpoint_ns", "node")
            )
        )

    @property
    def updates_state(self) -> bool:
        """Whether what it returns is an update of the state; what a `@task` returns is not."""
        return self.path[-1] is not _CALL

    @property
    def gets_state(self) -> bool:
        """Whether its input is the state, and not what a `Send` carried or what the graph was called with."""
        return self.path[0] == _PULL and self.name != START


# What a run returns, and how it stops.


def interrupts_in(returned: Any) -> Sequence[Any]:
    """The interrupts in what a graph returned."""
    return (
        (returned.get("__interrupt__") or ()) if isinstance(returned, Mapping) else ()
    )


# How far a run has come.

_SCRATCHPAD = "__pregel_scratchpad"


def steps_here() -> tuple[int, int] | None:
    """The super-step of the node that is running, and how many are left to it; `None` outside of a graph."""
    scratchpad = (configurable_here() or {}).get(_SCRATCHPAD)
    return (
        None
        if scratchpad is None
        else (scratchpad.step, scratchpad.stop - scratchpad.step)
    )


# ToolNode.


def tool_node_input(call: ToolCall, state: Mapping[str, Any]) -> dict[str, Any]:
    """What a `ToolNode` takes for one call, with the state that its tool may have injected."""
    return {"__type": "tool_call_with_context", "tool_call": call, "state": state}


def with_runtime(config: RunnableConfig) -> RunnableConfig:
    """A configuration with which a `ToolNode` runs outside of a graph, too."""
    configurable = config.get("configurable", {})
    return (
        config
        if _RUNTIME in configurable
        else {**config, "configurable": {**configurable, _RUNTIME: Runtime()}}
    )


# Stores.


def fits_filter(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    """Whether an item's value passes the filter of a search, as in `InMemoryStore`; what has no order does not."""
    try:
        return all(
            _compare_values(value.get(key), expected)
            for key, expected in (conditions or {}).items()
        )
    except TypeError:  # such as a missing key, in place of a number
        return False
    except ValueError as error:
        if "operator" in str(error):
            raise
        return False  # a text in place of a number


def fits_condition(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """Whether a namespace is one of those that are to be listed."""
    return _does_match(condition, namespace)


def vacuum_of(store: Any) -> Callable[[], None] | None:
    """What has a store keep nothing that was deleted, to be called off its event loop; `None` for an unknown one.

    SQLite keeps it in the file until that is rewritten, and in its write-ahead log. A store in memory keeps the names
    of namespaces that are empty.
    """
    connection = getattr(store, "conn", None)
    if isinstance(store, InMemoryStore):
        return partial(_empty, store)
    if isinstance(connection, sqlite3.Connection):
        return partial(_rewrite, store, connection)
    if type(connection).__module__.startswith("aiosqlite"):
        return lambda: asyncio.run_coroutine_threadsafe(
            _arewrite(store, connection),
            store._loop,  # noqa: SLF001
        ).result()
    return None


_STATEMENTS = ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")


def _rewrite(store: Any, connection: sqlite3.Connection) -> None:
    with store.lock:
        for statement in _STATEMENTS:
            connection.execute(statement).fetchall()


async def _arewrite(store: Any, connection: Any) -> None:
    async with store.lock:
        for statement in _STATEMENTS:
            async with connection.execute(statement) as rows:
                await rows.fetchall()


def _empty(store: Any) -> None:
    for held in (store._data, store._vectors):  # noqa: SLF001 - it has no other way to them
        for namespace in [
            namespace for namespace, items in list(held.items()) if not items
        ]:
            del held[namespace]
