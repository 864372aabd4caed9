"""One search on real models and tools, and the two drivers, sync and async, that run it.

A search runs as a small LangGraph of its own inside the node that asked for it. Its calls are tasks, so a checkpointer
keeps each result as it comes in and a resumed thread repeats at most the calls that were in flight. Being a graph of
its own, it has its own executor: it cannot starve its host, whatever `max_concurrency` says, and its calls are numbered
apart from the host's. A long search is cut into segments with a checkpoint between them, because the cost of pending
results grows with their number.
"""

import asyncio
import operator
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, TypedDict, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.config import get_config
from langgraph.constants import TAG_NOSTREAM
from langgraph.func import task
from langgraph.graph import END, START, StateGraph

from langchain_tooltree.errors import ResumeError
from langchain_tooltree.flows import arun_flow, run_flow
from langchain_tooltree.models import AGENT_NAME
from langchain_tooltree.streaming import aemit, emit
from langchain_tooltree.tooltree.operations import Operation, Outcome
from langchain_tooltree.tooltree.reuse import continuation_of, last_search
from langchain_tooltree.tooltree.session import SearchSession

SEGMENT = 240
"""Operations launched between two checkpoints: a default search of 60 rollouts is one segment."""

MAX_SEGMENTS = 10_000

NAMESPACE_SEPARATOR = "|"
"""Between the levels of nested graphs in LangGraph's `checkpoint_ns`; each level names a task that a resume keeps."""

Outcomes = list[dict[str, Any]]


class SegmentState(TypedDict):
    """What the search graph keeps.

    Attributes:
        segments: The outcomes of every finished segment.
        done: Whether the search is over.
        run_key: Unique to this search and the same when it is resumed.
        began: When it began, in seconds since the epoch.
        continuation: What it goes on from, a `Continuation` as plain data; `None` if it starts anew.
        fingerprint: What the search was begun with; see `SearchSession.fingerprint`.
    """

    segments: Annotated[list[Outcomes], operator.add]
    done: bool
    run_key: str
    began: float
    continuation: dict[str, Any] | None
    fingerprint: str


def run_search(session: SearchSession, config: RunnableConfig | None = None) -> None:
    """Run a search to its end on the calling thread.

    Args:
        session: The search; it holds the finished tree afterwards.
        config: Run configuration of the host; the one of the current context if left out.
    """

    def tooltree_call(operation: Operation) -> dict[str, Any]:
        return run_flow(session.perform(operation))

    call: Any = task(tooltree_call)

    def launch(operation: Operation) -> Callable[[], dict[str, Any]]:
        session.launching(operation)
        result: Callable[[], dict[str, Any]] = call(operation).result
        return result

    def segment(state: SegmentState) -> dict[str, Any]:
        state = _placed(state)
        _adopt(session, state)
        outcomes = _drive(session, launch)
        return {"segments": [outcomes], "done": session.search.finished, "run_key": session.dialogue.run_key}

    graph = _graph(segment)
    kept = None
    if _goes_on(session):
        with suppress(ValueError):  # the host has no checkpointer
            kept = graph.get_state(_earlier(session)).values
    _adopt(session, graph.invoke(_beginning(session, kept), _inside(config)))


async def arun_search(session: SearchSession, config: RunnableConfig | None = None) -> None:
    """Run a search to its end on the running event loop; the async twin of `run_search`.

    Args:
        session: The search; it holds the finished tree afterwards.
        config: Run configuration of the host; the one of the current context if left out.
    """

    async def tooltree_call(operation: Operation) -> dict[str, Any]:
        return await arun_flow(session.perform(operation))

    call: Any = task(tooltree_call)

    def launch(operation: Operation) -> Awaitable[dict[str, Any]]:
        session.launching(operation)
        future: asyncio.Future[dict[str, Any]] = call(operation)
        future.add_done_callback(_see_exception)
        return future

    async def segment(state: SegmentState) -> dict[str, Any]:
        state = _placed(state)
        _adopt(session, state)
        outcomes = await _adrive(session, launch)
        return {"segments": [outcomes], "done": session.search.finished, "run_key": session.dialogue.run_key}

    graph = _graph(segment)
    kept = None
    if _goes_on(session):
        with suppress(ValueError):  # the host has no checkpointer
            kept = (await graph.aget_state(_earlier(session))).values
    _adopt(session, await graph.ainvoke(_beginning(session, kept), _inside(config)))


def _see_exception(future: "asyncio.Future[Any]") -> None:
    """Look at an exception, so that asyncio does not report it as lost: after a failure nobody waits for the others."""
    if not future.cancelled():
        future.exception()


def _earlier(session: SearchSession) -> RunnableConfig:
    """Where the checkpointer of the host keeps the search whose plan stands last in the conversation."""
    configurable = ensure_config().get("configurable", {})
    place = {key: value for key, value in configurable.items() if key not in {"checkpoint_id", "checkpoint_map"}}
    return {"configurable": {**place, "checkpoint_ns": last_search(session.messages)}}


def _goes_on(session: SearchSession) -> bool:
    """Whether there may be a search to go on from."""
    return session.planner.config.reuse_seconds > 0 and last_search(session.messages) is not None


def _beginning(session: SearchSession, kept: Mapping[str, Any] | None = None) -> SegmentState:
    """The input of a search; a resumed one ignores it and goes on from what was kept.

    Args:
        session: The search.
        kept: The state of the earlier search that it may go on from.
    """
    began = time.time()
    return SegmentState(
        segments=[],
        done=False,
        run_key=uuid.uuid4().hex,
        began=began,
        continuation=_continuation(session, kept, began) if kept else None,
        fingerprint=_fingerprint(session),
    )


def _continuation(session: SearchSession, kept: Mapping[str, Any], now: float) -> dict[str, Any] | None:
    """What a search goes on from, if the earlier one was made by the same planner not long ago."""
    old = now - kept["began"] > session.planner.config.reuse_seconds
    if old or not kept["done"] or kept["fingerprint"] != _fingerprint(session):
        return None
    earlier = session.afresh()
    _adopt(earlier, cast("SegmentState", kept))
    planner = session.planner
    continuation = continuation_of(
        earlier.search,
        session.messages,
        effects=planner.effects,
        max_chars=planner.config.max_observation_chars,
    )
    return continuation.model_dump() if continuation else None


def _placed(state: SegmentState) -> SegmentState:
    """The state with a run key from the search's place in its host, if it has a host: the same after any resume."""
    host, _, _ = str(get_config()["configurable"].get("checkpoint_ns", "")).rpartition(NAMESPACE_SEPARATOR)
    return {**state, "run_key": host or state["run_key"]}


def _fingerprint(session: SearchSession) -> str:
    return f"{session.fingerprint()}/{SEGMENT}"


def _adopt(session: SearchSession, state: SegmentState) -> None:
    """Bring a session to where the search stands, replaying without any I/O the segments that it has not seen.

    Raises:
        ResumeError: If the search was begun with other settings, tools or effects.
    """
    if state["fingerprint"] != _fingerprint(session):
        msg = (
            "This thread holds a search that was begun with another configuration, other tools or other effects. "
            "Resume a thread with the tools, models and configuration it was started with, or start a new run."
        )
        raise ResumeError(msg)
    session.dialogue.run_key = state["run_key"]
    if state["continuation"]:
        session.go_on(state["continuation"])
    seen = session.search.consumed
    for outcomes in state["segments"]:
        if seen:
            seen -= len(outcomes)
        else:
            _replay(session, outcomes)


def _replay(session: SearchSession, outcomes: Outcomes) -> None:
    recorded = iter(outcomes)
    _drive(session, lambda _: recorded.__next__, emitting=False)


def _drive(
    session: SearchSession, launch: Callable[[Operation], Callable[[], dict[str, Any]]], *, emitting: bool = True
) -> Outcomes:
    """Launch what the search asks for and tell it the outcomes in the order of launch, for one segment."""
    end = session.search.launched + SEGMENT
    outstanding: deque[Callable[[], dict[str, Any]]] = deque()
    outcomes: Outcomes = []
    while True:
        if session.search.launched < end:
            outstanding.extend(launch(operation) for operation in session.search.ask())
        for event in session.take_events():
            if emitting:
                emit(event, *session.sinks)
        if not outstanding:
            return outcomes
        outcomes.append(outstanding.popleft()())
        session.search.tell(Outcome.model_validate(outcomes[-1]))


async def _adrive(session: SearchSession, launch: Callable[[Operation], Awaitable[dict[str, Any]]]) -> Outcomes:
    """The async twin of `_drive`."""
    end = session.search.launched + SEGMENT
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
    graph.add_conditional_edges("segment", lambda state: END if state["done"] else "segment", ["segment", END])
    return graph.compile(name="tooltree.search")


def _inside(config: RunnableConfig | None) -> RunnableConfig:
    """The configuration of the search's own graph: no agent of its own, and what streams in it is not the user's."""
    host = config or {}
    return {
        **host,
        "recursion_limit": MAX_SEGMENTS,
        "tags": [*(host.get("tags") or ()), TAG_NOSTREAM],
        "metadata": {**(host.get("metadata") or {}), AGENT_NAME: None},
    }
