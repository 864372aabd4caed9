"""An attempt by a compiled agent graph, watched by a callback handler."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel

from langchain_tooltree._langgraph import interrupts_in, without_graph
from langchain_tooltree.cfgm.collect.attempt import (
    Attempt,
    AttemptResult,
    UnfinishedError,
    is_outage,
    is_unacceptable,
)
from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.experience.recorder import TrajectoryRecorder
from langchain_tooltree.experience.run_identity import collecting
from langchain_tooltree.experience.threads import MESSAGES_KEY
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, TwinStep
from langchain_tooltree.models import TAG, was_refused

AgentGraph = Pregel[Any, Any, Any, Any]


class _Halt(BaseException):
    """Ends the run of a graph. No `except Exception` of an agent, a tool or a retry policy takes it for its own."""


class _Watch(BaseCallbackHandler):
    """Counts what a graph spends, and ends its run at the limit of tool calls; a search of this package makes none."""

    run_inline = True

    def __init__(self, attempt: Attempt) -> None:
        self.errors: list[BaseException] = []  # what models raised
        self.calls = 0
        self._attempt = attempt

    def on_tool_start(self, *_: Any, tags: list[str] | None = None, **__: Any) -> None:
        """Let no tool begin once the run is to end."""
        self.calls += TAG not in (tags or ())
        if self.calls > self._attempt.max_steps or self._attempt.stopped.is_set():
            raise _Halt

    def on_llm_end(self, response: Any, **_: Any) -> None:
        """Count what a reply has cost."""
        message = next((getattr(each, "message", None) for row in response.generations for each in row), None)
        self._attempt.spent.count(message, {})

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        """Note what a model raised, and that it may have cost something."""
        self.errors.append(error)
        if not was_refused(error):
            self._attempt.spent.count(None, {})


def run_graph(attempt: Attempt, graph: AgentGraph, config: RunnableConfig | None, context: Any) -> Flow[AttemptResult]:
    """Try a task with an agent whose state has `messages`, as a flow.

    Nothing is kept before it ends: its tools may have changed a world that is gone, so going on from a checkpoint would
    go on in a world in which nothing has happened.
    """
    runs: list[Trajectory] = []
    watch = _Watch(attempt)
    if graph.checkpointer:  # a graph that has none may hold things in its state that no checkpoint takes
        graph = graph.copy(update={"checkpointer": InMemorySaver()})
    given = {MESSAGES_KEY: [HumanMessage(attempt.request)]}
    # Enough for an agent whose nodes all run once for each tool call; what counts is the limit of tool calls.
    limit = (attempt.max_steps + 1) * (len(graph.nodes) + 1)
    configured: RunnableConfig = {
        "recursion_limit": max(limit, (graph.config or {}).get("recursion_limit", 0)),
        **merge_configs(config, {"callbacks": [watch, TrajectoryRecorder(runs.append)]}),
        # Another thread each time: what tools keep by thread belongs to the world, which has to be fresh.
        # The memory that is being filled may be the agent's own as well, which would learn each attempt a second time.
        "configurable": {
            **without_graph((config or {}).get("configurable") or {}),
            "thread_id": f"{attempt.id}-{uuid4().hex}",
            **collecting(),
        },
    }
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
    attempt.check()
    problem = _problem(raised, state, watch, attempt)
    held = state.get(MESSAGES_KEY) if isinstance(state, Mapping) else getattr(state, MESSAGES_KEY, None)
    if not runs or not (problem or held):
        msg = f"The state of the agent has no {MESSAGES_KEY!r}; collect needs an agent that keeps its messages there."
        raise UnfinishedError(msg)
    return AttemptResult(replace(runs[-1], id=attempt.id, task=attempt.task.text), state, problem)


def _problem(error: Exception | None, state: Any, watch: _Watch, attempt: Attempt) -> str:
    """Why an agent has failed before it could be evaluated; empty if it has not. It is raised if it is not to blame."""
    if watch.calls > attempt.max_steps:
        return f"The limit of {attempt.max_steps} tool calls was reached."
    if interrupts := interrupts_in(state):
        asked = "; ".join(f"{interrupt.value!r:.200}" for interrupt in interrupts)
        return f"The agent was interrupted, and nobody is there to answer: {asked}"
    if error is None or isinstance(error, GraphRecursionError):
        return str(error or "")
    # Tools and middleware without a sync half raise the one, nodes and runnables of LangGraph and LangChain the other.
    if isinstance(error, NotImplementedError) or "synchronous function" in str(error) or "coroutine" in str(error):
        msg = f"The agent is async in part and cannot be run by collect; use acollect. ({described(error)})"
        raise ConfigurationError(msg) from error
    from_model = any(error is each for each in watch.errors)
    if is_outage(error) or (from_model and not is_unacceptable(error)):  # the agent could do nothing about it
        msg = f"The agent could not be run: {described(error)}"
        raise UnfinishedError(msg) from error
    return f"The agent raised {described(error)}"
