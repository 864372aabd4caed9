"""How a search runs: its drivers, sync and async, the turn of a conversation around it, and `search()` itself."""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

from langchain_core.callbacks import Callbacks
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphInterrupt
from langgraph.func import task
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime, get_runtime

from langchain_tooltree._langgraph import questions_once
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.events import Event
from langchain_tooltree.flows import (
    EmitStep,
    EventSink,
    Flow,
    TwinStep,
    arun_flow,
    async_twin,
    driven,
    flow_of,
    has_handlers,
    run_flow,
    to_stream,
)
from langchain_tooltree.models import AGENT_NAME, Meter, Patience
from langchain_tooltree.tooltree import resume
from langchain_tooltree.tooltree.planner import Planner, PlannerOptions, SearchSession, with_options
from langchain_tooltree.tooltree.result import SearchResult
from langchain_tooltree.tooltree.search import Operation

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


@dataclass(frozen=True, slots=True)
class _Launch:
    """Starting the task of an operation, as a step that gives the step of waiting for its outcome."""

    operation: Operation

    def run(self) -> "_Outcome":
        return _Outcome(_CALL(self.operation))

    async def arun(self) -> "_Outcome":
        future = _ACALL(self.operation)
        future.add_done_callback(_see_exception)
        return _Outcome(future)


@dataclass(frozen=True, slots=True)
class _Outcome:
    future: Any

    def run(self) -> Any:
        return self.future.result()

    async def arun(self) -> Any:
        return await self.future


@dataclass(frozen=True, slots=True)
class _Compile:
    """Making the graph of a search, as a step: its node is a sync function on one path, an async one on the other."""

    segment: Callable[[resume.SegmentState], resume.SegmentEnd]

    def run(self) -> Any:
        return self._graph_of(self.segment)

    async def arun(self) -> Any:
        return self._graph_of(async_twin(self.segment))

    def _graph_of(self, node: Any) -> Any:
        graph = StateGraph(resume.SegmentState)
        graph.add_node("segment", node)
        graph.add_edge(START, "segment")
        graph.add_conditional_edges("segment", _next_segment, ["segment", END])
        return graph.compile(name="tooltree.search")


@dataclass(frozen=True, slots=True)
class _Search:
    """The graph of a search, run to its end, as a step."""

    graph: Any
    state: resume.SegmentState
    config: RunnableConfig

    def run(self) -> Any:
        with _asked_once():
            return self.graph.invoke(self.state, self.config)

    async def arun(self) -> Any:
        with _asked_once():
            return await self.graph.ainvoke(self.state, self.config)


def run_search(session: SearchSession, config: RunnableConfig | None = None) -> Flow[None]:
    """Run a search to its end; the session holds the finished tree afterwards.

    The configuration is the host's; the one of the current context if left out.
    """

    @driven
    def segment(state: resume.SegmentState) -> Flow[resume.SegmentEnd]:
        _SESSION.set(session)  # in the context of this node and of the tasks that it starts
        resume.adopt(session, resume.placed(state))
        return resume.finished(session, (yield from _in_order(session)))

    graph = yield _Compile(segment)
    earlier = None
    if place := resume.earlier_place(session):
        with suppress(ValueError):  # the host has no checkpointer
            earlier = (yield TwinStep(graph.get_state, graph.aget_state, (place,))).values
    resume.adopt(session, (yield _Search(graph, resume.beginning(session, earlier), _inside(config))))


def _in_order(session: SearchSession) -> Flow[resume.Outcomes]:
    """Launch what the search asks for and tell it the outcomes in the order of launch, for one segment."""
    end = resume.segment_end(session)
    is_heard = bool(session.sinks) or has_handlers()
    outstanding: deque[_Outcome] = deque()
    outcomes: resume.Outcomes = []
    outcome = None
    while True:
        operations, events = session.advance(outcome, end)
        for operation in operations:
            outstanding.append((yield _Launch(operation)))
        if is_heard:
            yield EmitStep(events, session.sinks)
        if not outstanding:
            return outcomes
        outcome = yield outstanding.popleft()
        outcomes.append(outcome)


@contextmanager
def _asked_once() -> Iterator[None]:
    """Let an interrupt out with every question once."""
    try:
        yield
    except GraphInterrupt as interrupted:
        raise questions_once(interrupted) from None


def _see_exception(future: "asyncio.Future[Any]") -> None:
    """Look at an exception, so that asyncio does not report it as lost: after a failure nobody waits for the others."""
    if not future.cancelled():
        future.exception()


def _next_segment(state: resume.SegmentState) -> str:
    """A function with a name, for traces."""
    return END if state["done"] else "segment"


def _inside(config: RunnableConfig | None) -> RunnableConfig:
    """The configuration of the search's own graph: no agent of its own, and what streams in it is not the user's."""
    host = config or {}
    return {
        **host,
        "recursion_limit": resume.MAX_SEGMENTS,
        "tags": [*(host.get("tags") or ()), TAG_NOSTREAM],
        "metadata": {**(host.get("metadata") or {}), AGENT_NAME: None},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A conversation in which it is the planner's turn.

    `system` are messages put before it for the models, `config` is the host's (the one of the current context if left
    out), `state` is for injected arguments, and once `cancelled` says so, the best plan so far is returned.
    """

    planner: Planner
    messages: Sequence[BaseMessage]
    system: Sequence[BaseMessage] = ()
    config: RunnableConfig | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    messages_key: str = "messages"
    cancelled: Callable[[], bool] | None = None
    sinks: Sequence[EventSink] = ()

    @driven
    def search(self) -> Flow[SearchResult]:
        """Search for a plan; the result holds no answer.

        Raises:
            EmptyQueryError: If there is no request to plan for.
        """
        return self._searched()

    @driven
    def plan(self) -> Flow[SearchResult]:
        """Search for a plan and, unless it waits for a write, answer from it.

        Raises:
            EmptyQueryError: If there is no request to plan for.
        """
        result = yield from self._searched()
        return result if result.pending else (yield from self._answered(result))

    asearch, aplan = async_twin(search), async_twin(plan)

    def _searched(self) -> Flow[SearchResult]:
        session = self._session()
        yield from run_search(session, self.config)
        return session.result()

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
            cancelled=cancelled,
            sinks=sinks,
        )

    def _answered(self, result: SearchResult) -> Flow[SearchResult]:
        conversation = [*self.system, *self.messages, *result.messages]
        limit = self.planner.config.max_seconds or math.inf
        meter = Meter(1, patience=Patience(deadline=time.monotonic() + max(limit - result.cost.seconds, 0)))
        if self.cancelled is not None:
            meter.patience.cancelled = self.cancelled
        answer = yield from self.planner.answer(conversation, self.config or RunnableConfig(), meter.patience)
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


@driven
@with_options
def search(
    query: Query,
    tools: Iterable[BaseTool],
    *,
    model: str | BaseChatModel,
    on_event: Callable[[Event], None] | None = None,
    callbacks: Callbacks = None,
    cancel: threading.Event | None = None,
    **options: Unpack[PlannerOptions],
) -> Flow[SearchResult]:
    """Search for the tool calls that fulfil a request, and answer from them.

    Works outside a graph, inside a node, and inside a task. Inside, it is persisted and resumed with its host.

    Cancelling the asyncio task of `asearch` raises `CancelledError` as usual; set `cancel` to get the best plan so far
    instead.

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
    turn = Turn(
        planner=Planner(model, tools, **options),
        messages=Conversation([HumanMessage(query)] if isinstance(query, str) else list(query)).messages,
        config={"callbacks": callbacks} if callbacks else {},
        cancelled=cancel.is_set if cancel else None,
        sinks=[on_event] if on_event else [],
    )
    return flow_of(turn.plan)()


asearch = async_twin(search)
