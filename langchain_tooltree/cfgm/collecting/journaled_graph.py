"""A compiled graph whose replies are journaled: after a kill it runs again, but no model is asked again.

The nodes of a copy of the graph are wrapped, those of graphs inside it as well. A node that has asked a model and done
nothing else has its output kept before LangGraph gets to see it, that is before anything is done about it. In a later
run, the same node after the same conversation returns that output at once. Everything else (routing, tools, hooks)
really runs again, in a fresh world. So the graph's own order of steps is kept, also where nodes run in parallel, and
no checkpoint of another process is needed.
"""

import base64
import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.constants import START
from langgraph.pregel import Pregel
from langgraph.types import Command

from langchain_tooltree.cfgm.collecting.attempt import Attempt
from langchain_tooltree.cfgm.collecting.journal import place
from langchain_tooltree.cfgm.collecting.node_watch import Watch, WatchedCall
from langchain_tooltree.cfgm.collecting.report import Cost
from langchain_tooltree.errors import ToolTreeError
from langchain_tooltree.flows import Flow, arun_flow, run_flow

logger = logging.getLogger(__name__)

OBSERVATIONS = frozenset({"human", "tool", "function"})
"""Types of messages that tell of something that happened."""

# Only types that LangGraph and LangChain own are read back: a store may be written by others.
_SERDE = JsonPlusSerializer(allowed_msgpack_modules=None)


class StepsSpentError(ToolTreeError, RuntimeError):
    """An agent has asked for more tool calls than it may make. LangGraph retries no `RuntimeError` by itself."""


class Watched:
    """What the wrapped nodes of one attempt share.

    Args:
        attempt: The attempt.

    Attributes:
        errors: What models raised.
        fault: What the store raised when a reply was to be kept.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.errors: list[BaseException] = []
        self.fault: Exception | None = None
        self._calls = 0
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()

    def tell(self, watch: Watch) -> None:
        """Take in what was seen of a node."""
        self.errors += watch.errors
        self.attempt.spend(watch.cost)

    def count_calls(self, calls: int) -> None:
        """Count tool calls that the agent has asked for.

        Args:
            calls: How many.

        Raises:
            StepsSpentError: If they are too many in all.
        """
        with self._lock:
            self._calls += calls
        if self._calls > self.attempt.max_steps:
            msg = f"The limit of {self.attempt.max_steps} tool calls was reached."
            raise StepsSpentError(msg)

    def keeping(self, key: str, record: Mapping[str, Any]) -> Flow[None]:
        """Keep a reply, as a flow."""
        try:
            yield from self.attempt.journal.keeping(key, record)
        except Exception as error:
            self.fault = error
            raise

    def time(self, name: str) -> int:
        """How often this was asked before under the same name."""
        with self._lock:
            self._times[name] += 1
            return self._times[name] - 1


def journaled(graph: Pregel[Any, Any, Any, Any], attempt: Attempt) -> tuple[Pregel[Any, Any, Any, Any], Watched]:
    """A copy of a graph that keeps a journal.

    Args:
        graph: The compiled graph. It stays as it is.
        attempt: Whose journal it keeps.

    Returns:
        The copy, with a checkpointer in memory in place of its own, and what its nodes share.
    """
    watched = Watched(attempt)
    copied = _wrapped(graph, watched, "")
    if graph.checkpointer:  # a graph that has none may hold things in its state that no checkpoint takes
        copied = copied.copy(update={"checkpointer": InMemorySaver()})
    return copied, watched


def _wrapped(graph: Pregel[Any, Any, Any, Any], watched: Watched, path: str) -> Pregel[Any, Any, Any, Any]:
    nodes = {}
    for name, node in graph.nodes.items():
        bound, here = node.bound, f"{path}/{name}"
        if name == START:
            nodes[name] = node
        elif isinstance(bound, Pregel):
            inner = _wrapped(bound, watched, here)
            nodes[name] = node.copy({"bound": inner, "subgraphs": [inner]})
        else:
            nodes[name] = node.copy({"bound": _Journaled(bound, here, watched)})
    return graph.copy(update={"nodes": nodes})


class _Journaled(Runnable[Any, Any]):
    """What a node does, with a journal."""

    def __init__(self, bound: Runnable[Any, Any], path: str, watched: Watched) -> None:
        self.name = getattr(bound, "name", None)
        self._bound = bound
        self._path = path
        self._watched = watched

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - as in Runnable
        return run_flow(self._running(input, config or {}, kwargs))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - as above
        return await arun_flow(self._running(input, config or {}, kwargs))

    def _running(self, given: Any, config: RunnableConfig, options: Mapping[str, Any]) -> Flow[Any]:
        attempt = self._watched.attempt
        self._watched.count_calls(0)  # somebody who catches the error must not go on all the same
        before = place(self._path, _conversation(given))
        key = f"{before}-{self._watched.time(before)}"
        recorded = attempt.journal.recorded(key)
        if recorded is not None and "output" in recorded:
            output = _read(recorded["output"])
            attempt.replay(Cost.read(recorded.get("usage")))
        else:
            attempt.check()
            call = WatchedCall(self._bound, given, config, options, self._watched.tell)
            output = yield call
            self._name(output, key)
            if _is_reply(output, call.watch) and (written := _written(output)):
                yield from self._watched.keeping(key, {"output": written, "usage": asdict(call.watch.cost)})
        self._watched.count_calls(
            sum(len(message.tool_calls) for message in _messages(output) if isinstance(message, AIMessage))
        )
        return output

    def _name(self, output: Any, key: str) -> None:
        """Give messages without an id the same one in every run, because later replies may speak of them by it."""
        for number, message in enumerate(_messages(output)):
            if message.id is None and not isinstance(message, RemoveMessage):
                message.id = str(uuid5(NAMESPACE_OID, f"{self._watched.attempt.id}/{key}/{number}"))


def _conversation(given: Any) -> Any:
    """What a node bases its reply on: the conversation where it is given one, and everything otherwise."""
    held = given.get("messages") if isinstance(given, Mapping) else getattr(given, "messages", None)
    return given if held is None else held


def _messages(output: Any) -> Iterator[BaseMessage]:
    """The messages in what a node returned."""
    if isinstance(output, BaseMessage):
        yield output
    elif isinstance(output, Command):
        yield from _messages(output.update)
    elif isinstance(output, Mapping):
        for value in output.values():
            yield from _messages(value)
    elif isinstance(output, list | tuple):
        for value in output:
            yield from _messages(value)


def _is_reply(output: Any, watch: Watch) -> bool:
    """Whether a node has asked a model and done nothing else, so that its output stands for what it did."""
    kinds = {message.type for message in _messages(output)}
    replied = any(isinstance(message, AIMessage) for message in _messages(output))
    if watch.acted or "tool" in kinds or (replied and kinds & OBSERVATIONS):
        return False
    return watch.asked or replied


def _written(output: Any) -> dict[str, str] | None:
    """An output as data for JSON; `None` if it could not be read back."""
    try:
        kind, data = _SERDE.dumps_typed(output)
        same = _SERDE.dumps_typed(_SERDE.loads_typed((kind, data))) == (kind, data)  # tuples come back as lists
    except Exception as error:  # noqa: BLE001 - a state may hold anything
        logger.debug("An output is not journaled: %s", error)
        return None
    return {"kind": kind, "data": base64.b64encode(data).decode()} if same else None


def _read(written: Mapping[str, str]) -> Any:
    return _SERDE.loads_typed((written["kind"], base64.b64decode(written["data"])))
