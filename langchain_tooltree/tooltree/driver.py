"""How a search runs: its drivers, sync and async, the turn of a conversation around it, and `search()` itself."""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphInterrupt
from langgraph.func import task
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime, get_runtime

from langchain_tooltree._langgraph import questions_once
from langchain_tooltree.events import Event
from langchain_tooltree.flows import Flow, arun_flow, run_flow
from langchain_tooltree.models import AGENT_NAME, Meter
from langchain_tooltree.rate_limits import Patience
from langchain_tooltree.streaming import EventSink, aemit, emit, to_stream
from langchain_tooltree.tooltree.effects import DeclaredEffect
from langchain_tooltree.tooltree.judge import Judge
from langchain_tooltree.tooltree.planner import Planner
from langchain_tooltree.tooltree.result import SearchResult
from langchain_tooltree.tooltree.resume import (
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
from langchain_tooltree.tooltree.sandbox import Sandbox
from langchain_tooltree.tooltree.search.config import SearchConfig
from langchain_tooltree.tooltree.search.scheduler import Operation, OperationOutcome
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
        raise questions_once(interrupted) from None
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
        raise questions_once(interrupted) from None
    adopt(session, state)


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
        session.search.tell(OperationOutcome.model_validate(outcomes[-1]))


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
        session.search.tell(OperationOutcome.model_validate(outcomes[-1]))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A conversation in which it is the planner's turn.

    Args:
        planner: The parts.
        messages: The conversation.
        system: Messages put before it for the models, such as the agent's system prompt.
        config: Run configuration of the host; the one of the current context if left out.
        state: Graph state for injected arguments.
        messages_key: Where in it the messages stand.
        cancelled: Asked after every call; once true, the best plan so far is returned.
        sinks: Called with every event.
    """

    planner: Planner
    messages: Sequence[BaseMessage]
    system: Sequence[BaseMessage] = ()
    config: RunnableConfig | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    messages_key: str = "messages"
    cancelled: Callable[[], bool] | None = None
    sinks: Sequence[EventSink] = ()

    def search(self) -> SearchResult:
        """Search for a plan.

        Returns:
            The result, without an answer.

        Raises:
            EmptyQueryError: If there is no request to plan for.
        """
        session = self._session()
        run_search(session, self.config)
        return session.result()

    async def asearch(self) -> SearchResult:
        """The async twin of `search`."""
        session = self._session()
        await arun_search(session, self.config)
        return session.result()

    def plan(self) -> SearchResult:
        """Search for a plan and, unless it waits for a write, answer from it.

        Returns:
            The result, with the answer unless a write has to be carried out first.

        Raises:
            EmptyQueryError: If there is no request to plan for.
        """
        result = self.search()
        return result if result.pending else run_flow(self._answered(result))

    async def aplan(self) -> SearchResult:
        """The async twin of `plan`."""
        result = await self.asearch()
        return result if result.pending else await arun_flow(self._answered(result))

    def _session(self) -> SearchSession:
        """A search that belongs to the current graph task, if there is one: resumed with it, drained with it."""
        sinks, cancelled = self.sinks, self.cancelled
        runtime = _current_runtime()
        if runtime is not None:
            sinks = (*sinks, to_stream(runtime.stream_writer))
            if cancelled is None and (control := runtime.control) is not None:
                cancelled = lambda: control.drain_requested  # noqa: E731 - reads best in place
        return SearchSession(
            self.planner,
            self.messages,
            system=self.system,
            state=self.state,
            messages_key=self.messages_key,
            cancelled=cancelled or (lambda: False),
            sinks=sinks,
        )

    def _answered(self, result: SearchResult) -> Flow[SearchResult]:
        conversation = [*self.system, *self.messages, *result.messages]
        limit = self.planner.config.max_seconds or math.inf
        deadline = time.monotonic() + max(limit - result.cost.seconds, 0)
        patience = Patience(deadline=deadline, cancelled=self.cancelled or (lambda: False))
        answer: AIMessage = yield from self.planner.answer(conversation, self.config or RunnableConfig(), patience)
        meter = Meter(1)
        meter.count(answer)
        cost = replace(
            result.cost,
            model_calls=result.cost.model_calls + meter.model_calls,
            tokens=result.cost.tokens + meter.input_tokens + meter.output_tokens,
        )
        return replace(result, answer=answer, cost=cost)


def _current_runtime() -> Runtime[Any] | None:
    try:
        return get_runtime()
    except (RuntimeError, KeyError):
        return None  # outside of any graph


Query = str | Sequence[BaseMessage | dict[str, Any] | tuple[str, str]]
"""A request, or a conversation in any form that LangChain understands."""


def search(
    query: Query,
    tools: Iterable[BaseTool],
    *,
    model: str | BaseChatModel,
    judge: str | BaseChatModel | Judge | None = None,
    post_judge: str | BaseChatModel | Judge | None = None,
    config: SearchConfig | None = None,
    effects: Mapping[str, DeclaredEffect] | None = None,
    sandbox: Sandbox | None = None,
    embeddings: Embeddings | None = None,
    on_event: Callable[[Event], None] | None = None,
    callbacks: Callbacks = None,
    cancel: threading.Event | None = None,
) -> SearchResult:
    """Search for the tool calls that fulfil a request, and answer from them.

    Works outside a graph, inside a node, and inside a task. Inside, it is persisted and resumed with its host.

    Args:
        query: The request, or a conversation.
        tools: LangChain tools, or a `ToolLibrary` with cards.
        model: Proposes calls and writes the answer.
        judge: Scores calls; the model itself if left out.
        post_judge: Scores observations; the judge if left out.
        config: The settings.
        effects: Which tools only `"read"`; every other tool is never run, unless the sandbox binds it.
        sandbox: A forkable world, in which the writes of its tools are tried out.
        embeddings: Ranks tools where there are many; `HashingEmbeddings` if left out.
        on_event: Called with every progress event, on the thread that searches.
        callbacks: LangChain callback handlers.
        cancel: Once set, from any thread, nothing more is launched and the best plan so far is returned.

    Returns:
        The best trajectory, the tree, the cost, and the answer unless a write has to be carried out first.

    Raises:
        ConfigurationError: If the parts do not fit together.
        EmptyQueryError: If there is no request.
    """
    planner = Planner(
        model,
        tools,
        judge=judge,
        post_judge=post_judge,
        config=config,
        effects=effects,
        sandbox=sandbox,
        embeddings=embeddings,
    )
    return _turn(planner, query, on_event, callbacks, cancel).plan()


async def asearch(
    query: Query,
    tools: Iterable[BaseTool],
    *,
    model: str | BaseChatModel,
    judge: str | BaseChatModel | Judge | None = None,
    post_judge: str | BaseChatModel | Judge | None = None,
    config: SearchConfig | None = None,
    effects: Mapping[str, DeclaredEffect] | None = None,
    sandbox: Sandbox | None = None,
    embeddings: Embeddings | None = None,
    on_event: Callable[[Event], None] | None = None,
    callbacks: Callbacks = None,
    cancel: threading.Event | None = None,
) -> SearchResult:
    """The async twin of `search`, with the same arguments.

    Cancelling the asyncio task raises `CancelledError` as usual; set `cancel` to get the best plan so far instead.
    """
    planner = Planner(
        model,
        tools,
        judge=judge,
        post_judge=post_judge,
        config=config,
        effects=effects,
        sandbox=sandbox,
        embeddings=embeddings,
    )
    return await _turn(planner, query, on_event, callbacks, cancel).aplan()


def _turn(
    planner: Planner,
    query: Query,
    on_event: Callable[[Event], None] | None,
    callbacks: Callbacks,
    cancel: threading.Event | None,
) -> Turn:
    return Turn(
        planner=planner,
        messages=[HumanMessage(query)] if isinstance(query, str) else convert_to_messages(list(query)),
        config={"callbacks": callbacks} if callbacks else {},
        cancelled=cancel.is_set if cancel else None,
        sinks=[on_event] if on_event else [],
    )
