"""One search on real models and tools, and the two drivers, sync and async, that run it.

A search runs as a small LangGraph of its own inside the node that asked for it. Its calls are tasks, so a checkpointer
keeps each result as it comes in and a resumed thread repeats at most the calls that were in flight. Being a graph of
its own, it has its own executor: it cannot starve its host, whatever `max_concurrency` says, and its calls are numbered
apart from the host's. A long search is cut into segments with a checkpoint between them, because the cost of pending
results grows with their number.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphInterrupt
from langgraph.func import task
from langgraph.graph import END, START, StateGraph

from langchain_tooltree.flows import arun_flow, run_flow
from langchain_tooltree.models import AGENT_NAME
from langchain_tooltree.streaming import aemit, emit
from langchain_tooltree.tooltree.operations import Operation, Outcome
from langchain_tooltree.tooltree.segments import (
    MAX_SEGMENTS,
    Outcomes,
    SegmentEnd,
    SegmentState,
    adopt,
    beginning,
    earlier_place,
    finished,
    placed,
    segment_end,
)
from langchain_tooltree.tooltree.session import SearchSession

CALL = "tooltree_call"
"""Name of the tasks, in traces and in the identifiers by which a resumed search finds their results."""

_SESSION: ContextVar[SearchSession] = ContextVar("tooltree_session")
"""The search whose segment is running: with it the tasks can be functions of the module, which LangGraph looks into
only once."""


def _perform(operation: Operation) -> dict[str, Any]:
    return run_flow(_SESSION.get().perform(operation))


async def _aperform(operation: Operation) -> dict[str, Any]:
    return await arun_flow(_SESSION.get().perform(operation))


_TASK: Any = task(name=CALL)
_CALL, _ACALL = _TASK(_perform), _TASK(_aperform)


def run_search(session: SearchSession, config: RunnableConfig | None = None) -> None:
    """Run a search to its end on the calling thread.

    Args:
        session: The search; it holds the finished tree afterwards.
        config: Run configuration of the host; the one of the current context if left out.
    """

    def launch(operation: Operation) -> Callable[[], dict[str, Any]]:
        session.launching(operation)
        result: Callable[[], dict[str, Any]] = _CALL(operation).result
        return result

    def segment(state: SegmentState) -> SegmentEnd:
        _SESSION.set(session)  # in the context of this node and of the tasks that it starts
        state = placed(state)
        adopt(session, state)
        outcomes = _drive(session, launch)
        return finished(session, outcomes)

    graph = _graph(segment)
    earlier = None
    if place := earlier_place(session):
        with suppress(ValueError):  # the host has no checkpointer
            earlier = graph.get_state(place).values
    try:
        state = graph.invoke(beginning(session, earlier), _inside(config))
    except GraphInterrupt as interrupted:
        raise _once_each(interrupted) from None
    adopt(session, state)


async def arun_search(session: SearchSession, config: RunnableConfig | None = None) -> None:
    """Run a search to its end on the running event loop; the async twin of `run_search`.

    Args:
        session: The search; it holds the finished tree afterwards.
        config: Run configuration of the host; the one of the current context if left out.
    """

    def launch(operation: Operation) -> Awaitable[dict[str, Any]]:
        session.launching(operation)
        future: asyncio.Future[dict[str, Any]] = _ACALL(operation)
        future.add_done_callback(_see_exception)
        return future

    async def segment(state: SegmentState) -> SegmentEnd:
        _SESSION.set(session)  # as above
        state = placed(state)
        adopt(session, state)
        outcomes = await _adrive(session, launch)
        return finished(session, outcomes)

    graph = _graph(segment)
    earlier = None
    if place := earlier_place(session):
        with suppress(ValueError):  # the host has no checkpointer
            earlier = (await graph.aget_state(place)).values
    try:
        state = await graph.ainvoke(beginning(session, earlier), _inside(config))
    except GraphInterrupt as interrupted:
        raise _once_each(interrupted) from None
    adopt(session, state)


def _once_each(interrupted: GraphInterrupt) -> GraphInterrupt:
    """The interrupt with every question once; LangGraph counts that of a task again for the node that waits for it."""
    questions = interrupted.args[0] if interrupted.args else ()
    return GraphInterrupt(tuple({question.id: question for question in questions}.values()))


def _see_exception(future: "asyncio.Future[Any]") -> None:
    """Look at an exception, so that asyncio does not report it as lost: after a failure nobody waits for the others."""
    if not future.cancelled():
        future.exception()


def _drive(session: SearchSession, launch: Callable[[Operation], Callable[[], dict[str, Any]]]) -> Outcomes:
    """Launch what the search asks for and tell it the outcomes in the order of launch, for one segment."""
    end = segment_end(session)
    outstanding: deque[Callable[[], dict[str, Any]]] = deque()
    outcomes: Outcomes = []
    while True:
        if session.search.launched < end:
            outstanding.extend(launch(operation) for operation in session.search.ask())
        for event in session.take_events():
            emit(event, *session.sinks)
        if not outstanding:
            return outcomes
        outcomes.append(outstanding.popleft()())
        session.search.tell(Outcome.model_validate(outcomes[-1]))


async def _adrive(session: SearchSession, launch: Callable[[Operation], Awaitable[dict[str, Any]]]) -> Outcomes:
    """The async twin of `_drive`."""
    end = segment_end(session)
    outstanding: deque[Awaitable[dict[str, Any]]] = deque()
    outcomes: Outcomes = []
    while True:
        if session.search.launched < end:
            outstanding.extend(launch(operation) for operation in session.search.ask())
        for event in session.take_events():
            await aemit(event, *session.sinks)
        if not outstanding:
            return outcomes
        outcomes.append(await outstanding.popleft())
        session.search.tell(Outcome.model_validate(outcomes[-1]))


def _graph(segment: Any) -> Any:
    graph = StateGraph(SegmentState)
    graph.add_node("segment", segment)
    graph.add_edge(START, "segment")
    graph.add_conditional_edges("segment", _next_segment, ["segment", END])
    return graph.compile(name="tooltree.search")


def _next_segment(state: SegmentState) -> str:
    """A function with a name, for traces."""
    return END if state["done"] else "segment"


def _inside(config: RunnableConfig | None) -> RunnableConfig:
    """The configuration of the search's own graph: no agent of its own, and what streams in it is not the user's."""
    host = config or {}
    return {
        **host,
        "recursion_limit": MAX_SEGMENTS,
        "tags": [*(host.get("tags") or ()), TAG_NOSTREAM],
        "metadata": {**(host.get("metadata") or {}), AGENT_NAME: None},
    }
