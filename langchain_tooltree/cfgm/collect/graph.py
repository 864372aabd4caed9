"""An attempt by a compiled agent graph, watched by a callback handler."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel
from langgraph.types import Command

from langchain_tooltree._langgraph import NodeRun, interrupts_in, without_graph
from langchain_tooltree.cfgm.collect.attempt import (
    Attempt,
    AttemptResult,
    FailedError,
    StoppedError,
    UnfinishedError,
    described,
    is_outage,
    is_unacceptable,
)
from langchain_tooltree.cfgm.collect.report import Cost
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.recorder import TrajectoryRecorder
from langchain_tooltree.experience.records import EXTRAS, ChatMessage, extras_of
from langchain_tooltree.experience.run_identity import collecting
from langchain_tooltree.experience.threads import MESSAGES_KEY
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, TwinStep
from langchain_tooltree.models import TAG, was_refused

AgentGraph = Pregel[Any, Any, Any, Any]

ASYNC_ONLY = (
    "No synchronous function provided",  # nodes of LangGraph
    "Cannot invoke a coroutine function",  # runnables of LangChain
    "does not support sync invocation",  # tools
    "Synchronous implementation of",  # middleware
)
"""What errors say that are raised where the sync half of something is missing."""


class _Halt(BaseException):
    """Ends the run of a graph. No `except Exception` of an agent, a tool or a retry policy takes it for its own."""


class _Watch(BaseCallbackHandler):
    """Counts what a graph spends, and ends its run where it may not go on.

    Tool calls are counted as nodes return them, also those of graphs that are nodes. Agents inside tools are not
    counted: for the agent that is tried, such a tool is one call.
    """

    run_inline = True

    def __init__(self, attempt: Attempt) -> None:
        self.errors: list[BaseException] = []  # what models raised
        self.halted: FailedError | StoppedError | None = None  # why no further node may begin
        self._attempt = attempt
        self._calls: dict[str, int] = {}
        self._nodes: set[UUID] = set()
        self._inside_tools: set[UUID] = set()
        self._lock = threading.Lock()

    def on_tool_start(self, *_: Any, run_id: UUID, **__: Any) -> None:
        self._inside_tools.add(run_id)

    def on_chain_start(self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **rest: Any) -> None:
        """Let no node begin once the run is to end."""
        if parent_run_id in self._inside_tools:
            self._inside_tools.add(run_id)
            return
        tags = rest.get("tags") or ()
        node = NodeRun.of(tags, rest.get("metadata") or {})
        if node is None or not node.updates_state or TAG in tags:
            return
        self._nodes.add(run_id)
        try:
            self._attempt.check()
        except StoppedError as stopped:
            self.halted = self.halted or stopped
        if self.halted is not None:
            raise _Halt

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        """Count the tool calls that a node asks for."""
        if run_id not in self._nodes:
            return
        with self._lock:
            for message in _replies_in(outputs):
                message.id = message.id or str(uuid4())  # as LangGraph would, so that hooks can return it again
                self._calls[message.id] = len(message.tool_calls)
        if sum(self._calls.values()) > self._attempt.max_steps and self.halted is None:
            self.halted = FailedError(f"The limit of {self._attempt.max_steps} tool calls was reached.")

    def on_llm_end(self, response: Any, **_: Any) -> None:
        """Count what a reply has cost."""
        message = next((getattr(each, "message", None) for row in response.generations for each in row), None)
        usage = getattr(message, "usage_metadata", None) or {}
        self._attempt.spend(Cost(1, usage.get("input_tokens", 0), usage.get("output_tokens", 0)))

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        """Note what a model raised, and that it may have cost something."""
        self.errors.append(error)
        if not was_refused(error):
            self._attempt.spend(Cost(1))


def run_graph(attempt: Attempt, graph: AgentGraph, config: RunnableConfig | None, context: Any) -> Flow[AttemptResult]:
    """Try a task with an agent whose state has `messages`, as a flow.

    Nothing is kept before it ends: an attempt that was interrupted is made again from its beginning. Its tools may have
    changed a world that is gone, so going on from a checkpoint would go on in a world in which nothing has happened.
    """
    seen: list[Trajectory] = []
    watch = _Watch(attempt)
    if graph.checkpointer:  # a graph that has none may hold things in its state that no checkpoint takes
        graph = graph.copy(update={"checkpointer": InMemorySaver()})
    given = {MESSAGES_KEY: [HumanMessage(attempt.request, id=f"{attempt.id}-request")]}
    configured = _configured(attempt, graph, config, [watch, TrajectoryRecorder(seen.append)])
    raised, state = None, None

    def run() -> Any:
        with suppress(_Halt):
            return graph.invoke(given, configured, context=context)

    async def arun() -> Any:
        with suppress(_Halt):
            return await graph.ainvoke(given, configured, context=context)

    try:
        state = yield TwinStep(run, arun)
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - what it means is decided below
        raised = error
    problem = _problem(raised, state, watch)
    held = state.get(MESSAGES_KEY) if isinstance(state, Mapping) else getattr(state, MESSAGES_KEY, None)
    if not seen or not (problem or held):
        msg = f"The state of the agent has no {MESSAGES_KEY!r}; collect needs an agent that keeps its messages there."
        raise UnfinishedError(msg)
    return AttemptResult(
        messages=tuple(map(_bare, seen[-1].messages)),
        branches=tuple(replace(each, messages=tuple(map(_bare, each.messages))) for each in seen[-1].branches),
        result=state,
        problem=problem,
    )


def _problem(error: Exception | None, state: Any, watch: _Watch) -> str:
    """Why an agent has failed before it could be evaluated; empty if it has not. It is raised if it is not to blame."""
    if isinstance(watch.halted, StoppedError):
        raise watch.halted
    if watch.halted is not None:
        return str(watch.halted)
    if interrupts := interrupts_in(state):
        asked = "; ".join(f"{interrupt.value!r:.200}" for interrupt in interrupts)
        return f"The agent was interrupted, and nobody is there to answer: {asked}"
    if error is None or isinstance(error, GraphRecursionError):
        return str(error or "")
    if isinstance(error, TypeError | NotImplementedError) and any(words in str(error) for words in ASYNC_ONLY):
        msg = f"The agent is async in part and cannot be run by collect; use acollect. ({described(error)})"
        raise ConfigurationError(msg) from error
    from_model = any(error is raised for raised in watch.errors)
    if is_outage(error) or (from_model and not is_unacceptable(error)):  # the agent could do nothing about it
        msg = f"The agent could not be run: {described(error)}"
        raise UnfinishedError(msg) from error
    return f"The agent raised {described(error)}"


def _configured(
    attempt: Attempt, graph: AgentGraph, config: RunnableConfig | None, handlers: list[BaseCallbackHandler]
) -> RunnableConfig:
    """The user's configuration, on a thread of the attempt's own."""
    given = config or {}
    callbacks = given.get("callbacks")
    if callbacks is None or isinstance(callbacks, list):
        callbacks = [*(callbacks or []), *handlers]
    else:
        callbacks = callbacks.copy()
        for handler in handlers:
            callbacks.add_handler(handler)
    # Enough for an agent whose nodes all run once for each tool call; what counts is the limit of tool calls.
    limit = (attempt.max_steps + 1) * (len(graph.nodes) + 1)
    return {
        "recursion_limit": max(limit, (graph.config or {}).get("recursion_limit", 0)),
        **given,
        "callbacks": callbacks,
        # Another thread each time: what tools keep by thread belongs to the world, which has to be fresh.
        # The memory that is being filled may be the agent's own as well, which would learn each attempt a second time.
        "configurable": {
            **without_graph(given.get("configurable") or {}),
            "thread_id": f"{attempt.id}-{uuid4().hex}",
            **collecting(),
        },
    }


def _replies_in(output: Any) -> Iterator[AIMessage]:
    """The model's messages in what a node returned: an update, a command, or a list of these."""
    match output:
        case AIMessage():
            yield output
        case Command():
            yield from _replies_in(output.update)
        case Mapping():
            yield from _replies_in(list(output.values()))
        case list() | tuple():
            for each in output:
                yield from _replies_in(each)


def _bare(message: ChatMessage) -> ChatMessage:
    """A message without its id, which is another one in every run."""
    rest = {key: value for key, value in extras_of(message).items() if key != "id"}
    return {key: value for key, value in message.items() if key != EXTRAS} | ({EXTRAS: rest} if rest else {})
