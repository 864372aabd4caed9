"""An attempt by a compiled agent graph."""

import asyncio
import base64
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import merge_configs, set_config_context
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.constants import START
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel
from langgraph.types import Command

from langchain_tooltree._langgraph import interrupts_in, without_graph
from langchain_tooltree.cfgm.collect.attempt import (
    Attempt,
    AttemptResult,
    StoppedError,
    UnfinishedError,
    is_async_only,
    is_outage,
    is_unacceptable,
    place,
    told,
)
from langchain_tooltree.cfgm.collect.report import Cost
from langchain_tooltree.errors import ConfigurationError, ToolTreeError
from langchain_tooltree.experience.recorder import TrajectoryRecorder
from langchain_tooltree.experience.records import EXTRAS, Branch, ChatMessage
from langchain_tooltree.experience.run_identity import COLLECTING
from langchain_tooltree.experience.threads import MESSAGES_KEY
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, arun_flow, run_flow
from langchain_tooltree.models import was_refused

logger = logging.getLogger(__name__)


class Watch(BaseCallbackHandler):
    """Sees what a node does with models and tools.

    Attributes:
        cost: What its model calls have cost.
        asked: Whether it called a model.
        acted: Whether it called a tool.
        errors: What its models raised.
    """

    run_inline = True

    def __init__(self) -> None:
        self.cost = Cost()
        self.asked = False
        self.acted = False
        self.errors: list[BaseException] = []
        self._lock = threading.Lock()

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """A chat model is asked."""
        self.asked = True

    def on_llm_start(self, *_: Any, **__: Any) -> None:
        """A model of the older kind is asked."""
        self.asked = True

    def on_llm_end(self, response: Any, **_: Any) -> None:
        """A model has replied."""
        message = next((getattr(each, "message", None) for row in response.generations for each in row), None)
        usage = getattr(message, "usage_metadata", None) or {}
        self._count(Cost(1, usage.get("input_tokens", 0), usage.get("output_tokens", 0)))

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        """A model could not be asked."""
        self.errors.append(error)
        if not was_refused(error):  # it may have cost something
            self._count(Cost(1))

    def on_tool_start(self, *_: Any, **__: Any) -> None:
        """A tool is called."""
        self.acted = True

    def _count(self, cost: Cost) -> None:
        with self._lock:
            self.cost += cost


class WatchedCall:
    """Doing what a node does, as a step.

    Args:
        bound: What it does.
        given: Its input.
        config: Its configuration.
        options: Further arguments.
        tell: Told in the end what was seen, also if it fails.

    Attributes:
        watch: Sees what it does.
    """

    def __init__(
        self,
        bound: Runnable[Any, Any],
        given: Any,
        config: RunnableConfig,
        options: Mapping[str, Any],
        tell: Callable[[Watch], None],
    ) -> None:
        self.watch = Watch()
        self._bound = bound
        self._given = given
        self._config = merge_configs(config, {"callbacks": [self.watch]})
        self._options = options
        self._tell = tell

    def run(self) -> Any:
        """Do it."""
        try:
            with set_config_context(self._config) as context:
                return context.run(self._bound.invoke, self._given, self._config, **self._options)
        finally:
            self._tell(self.watch)

    async def arun(self) -> Any:
        """Do it without blocking the loop."""
        try:
            with set_config_context(self._config) as context:
                doing = self._bound.ainvoke(self._given, self._config, **self._options)
                return await asyncio.create_task(doing, context=context)
        finally:
            self._tell(self.watch)


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


Graph = Pregel[Any, Any, Any, Any]


def run_graph(attempt: Attempt, graph: Graph, config: RunnableConfig | None, context: Any) -> Flow[AttemptResult]:
    """Try a task, as a flow.

    Args:
        attempt: The attempt.
        graph: The agent: its state has `messages`.
        config: Merged into the configuration of the run.
        context: Runtime context of the run.

    Returns:
        What it came to.

    Raises:
        UnfinishedError: If a model cannot be reached, or the state has no messages.
        StoppedError: If the collection is being stopped.
        ConfigurationError: If the agent can only be run by `acollect`.
    """
    seen: list[Trajectory] = []
    copied, watched = journaled(graph, attempt)
    given = {MESSAGES_KEY: [HumanMessage(attempt.request, id=f"{attempt.id}-request")]}
    configured = _configured(attempt, graph, config, TrajectoryRecorder(seen.append))
    problem, state = "", None
    try:
        state = yield _GraphCall(copied, given, configured, context)
    except (StepsSpentError, GraphRecursionError) as error:
        problem = str(error)
    except (StoppedError, ConfigurationError):
        raise
    except Exception as error:
        if watched.fault is not None:
            raise watched.fault from None
        if is_async_only(error):
            msg = f"The agent is async in part and cannot be run by collect; use acollect. ({told(error)})"
            raise ConfigurationError(msg) from error
        if _is_no_fault(error, watched):
            msg = f"The agent could not be run: {told(error)}"
            raise UnfinishedError(msg) from error
        problem = f"The agent raised {told(error)}"
    if interrupts := interrupts_in(state):
        asked = "; ".join(f"{interrupt.value!r:.200}" for interrupt in interrupts)
        problem = f"The agent was interrupted, and nobody is there to answer: {asked}"
    recorded = seen[-1] if seen else None
    if recorded is None or (not problem and not _has_messages(state)):
        msg = f"The state of the agent has no {MESSAGES_KEY!r}; collect needs an agent that keeps its messages there."
        raise UnfinishedError(msg)
    return AttemptResult(
        messages=tuple(_bare(message) for message in recorded.messages),
        branches=tuple(_bare_branch(branch) for branch in recorded.branches),
        result=state,
        problem=problem,
    )


@dataclass(frozen=True, slots=True)
class _GraphCall:
    """Running a graph, as a step."""

    graph: Graph
    given: Any
    config: RunnableConfig
    context: Any

    def run(self) -> Any:
        return self.graph.invoke(self.given, self.config, context=self.context)

    async def arun(self) -> Any:
        return await self.graph.ainvoke(self.given, self.config, context=self.context)


def _configured(
    attempt: Attempt, graph: Graph, config: RunnableConfig | None, recorder: TrajectoryRecorder
) -> RunnableConfig:
    """The user's configuration, on a thread of the attempt's own."""
    given = config or {}
    kept = without_graph(given.get("configurable") or {})
    callbacks = given.get("callbacks")
    if callbacks is None or isinstance(callbacks, list):
        callbacks = [*(callbacks or []), recorder]
    else:
        callbacks = callbacks.copy()
        callbacks.add_handler(recorder)
    # Enough for an agent whose nodes all run once for each tool call; what counts is the limit of tool calls.
    limit = (attempt.max_steps + 1) * (len(graph.nodes) + 1)
    return {
        "recursion_limit": max(limit, (graph.config or {}).get("recursion_limit", 0)),
        **given,
        "callbacks": callbacks,
        # Another one each time: what tools keep by thread belongs to the world, which has to be fresh.
        # The memory that is being filled may be the agent's own as well, which would learn each attempt a second time.
        "configurable": {**kept, "thread_id": f"{attempt.id}-{uuid4().hex}", COLLECTING: True},
    }


def _is_no_fault(error: BaseException, watched: Watched) -> bool:
    """Whether the agent could do nothing about an error: a model raised it, or a service cannot be reached.

    A conversation that a provider will not take is the agent's own.
    """
    from_model = any(error is raised for raised in watched.errors)
    return is_outage(error) or (from_model and not is_unacceptable(error))


def _has_messages(state: Any) -> bool:
    held = state.get(MESSAGES_KEY) if isinstance(state, Mapping) else getattr(state, MESSAGES_KEY, None)
    return bool(held)


def _bare(message: ChatMessage) -> ChatMessage:
    """A message without its id, which is another one in every run."""
    extras = message.get(EXTRAS)
    if not isinstance(extras, Mapping):
        return message
    rest = {key: value for key, value in extras.items() if key != "id"}
    bare = {key: value for key, value in message.items() if key != EXTRAS}
    return {**bare, EXTRAS: rest} if rest else bare


def _bare_branch(branch: Branch) -> Branch:
    return replace(branch, messages=tuple(_bare(message) for message in branch.messages))
