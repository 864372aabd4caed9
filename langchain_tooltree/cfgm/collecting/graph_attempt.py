"""An attempt by a compiled agent graph."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel

from langchain_tooltree.cfgm.collecting.attempt import Attempt, Run, StoppedError, UnfinishedError
from langchain_tooltree.cfgm.collecting.faults import is_async_only, is_outage, is_unacceptable, told
from langchain_tooltree.cfgm.collecting.journaled_graph import StepsSpentError, Watched, journaled
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.formats import EXTRAS
from langchain_tooltree.experience.recorder import TrajectoryRecorder
from langchain_tooltree.experience.records import Branch, ChatMessage
from langchain_tooltree.experience.run_ids import COLLECTING
from langchain_tooltree.experience.threads import MESSAGES_KEY
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow

Graph = Pregel[Any, Any, Any, Any]

INTERRUPTS = "__interrupt__"
"""Where LangGraph puts interrupts in the output of a graph."""

CHECKPOINT = "checkpoint_"
"""How the keys of `configurable` begin that name a checkpoint."""

RESERVED = "__pregel_"
"""How the keys of `configurable` begin that belong to a graph that is running."""


def run_graph(attempt: Attempt, graph: Graph, config: RunnableConfig | None, context: Any) -> Flow[Run]:
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
    if isinstance(state, Mapping) and state.get(INTERRUPTS):
        asked = "; ".join(f"{interrupt.value!r:.200}" for interrupt in state[INTERRUPTS])
        problem = f"The agent was interrupted, and nobody is there to answer: {asked}"
    recorded = seen[-1] if seen else None
    if recorded is None or (not problem and not _has_messages(state)):
        msg = f"The state of the agent has no {MESSAGES_KEY!r}; collect needs an agent that keeps its messages there."
        raise UnfinishedError(msg)
    return Run(
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
    kept = {
        key: value
        for key, value in (given.get("configurable") or {}).items()
        if not key.startswith((CHECKPOINT, RESERVED))
    }
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
