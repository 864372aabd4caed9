"""How a search runs: its drivers, sync and async, the turn of a conversation around it, and `search()` itself."""

import asyncio
import concurrent.futures
import inspect
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from types import MethodType
from typing import Any, TypeVar, Unpack

from langchain_core.callbacks import Callbacks
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphInterrupt
from langgraph.func import task
from langgraph.graph import END, START, StateGraph

from langchain_tooltree._langgraph import as_kept, questions_once, stream_now
from langchain_tooltree.conversation import Conversation
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.events import Event, HeartbeatEvent
from langchain_tooltree.experience.guide import Learner, checked_experience, room_for
from langchain_tooltree.experience.recorder import hear_request
from langchain_tooltree.experience.run_identity import run_id
from langchain_tooltree.flows import (
    Flow,
    TwinStep,
    arun_flow,
    async_twin,
    awaited,
    current_runtime,
    driven,
    emit_all,
    has_handlers,
    if_it_can,
    run_flow,
    to_stream,
)
from langchain_tooltree.models import AGENT_NAME, Patience
from langchain_tooltree.text import forget_oldest
from langchain_tooltree.tooltree import resume
from langchain_tooltree.tooltree.attempts import failed_attempts
from langchain_tooltree.tooltree.guidance import GUIDE
from langchain_tooltree.tooltree.planner import (
    KEPT,
    KEPT_SEARCHES,
    Planner,
    PlannerOptions,
    SearchSession,
    Turn,
    with_options,
)
from langchain_tooltree.tooltree.result import KEY, SearchResult
from langchain_tooltree.tooltree.saved import SearchFile
from langchain_tooltree.tooltree.search import Operation

MadeT = TypeVar("MadeT")

CALL = "tooltree_call"
"""Name of the tasks, in traces and in the identifiers by which a resumed search finds their results."""

HEARTBEAT = 5.0
"""Seconds of waiting between two heartbeats: half of the ten for which people keep their attention on what shows no
progress (Nielsen, Usability Engineering, 1993), and far below the 30 to 60 after which proxies close silent streams."""

_SESSION: ContextVar[SearchSession] = ContextVar("tooltree_session")
"""The search whose segment is running: with it the tasks can be functions of the module, which LangGraph looks into
only once."""


def _perform(operation: Operation) -> Any:
    return as_kept(run_flow(_SESSION.get().perform(operation)))


async def _aperform(operation: Operation) -> Any:
    return as_kept(await arun_flow(_SESSION.get().perform(operation)))


# LangGraph takes a task, and a node, as a plain function or as a coroutine function: here the two paths meet it.
_TASK: Any = task(name=CALL)
_CALL, _ACALL = _TASK(_perform), _TASK(_aperform)


def _came_back(future: Any) -> bool:
    """Whether an operation is over, after waiting for it for as long as nobody has to hear of it."""
    return future.done() or bool(concurrent.futures.wait([future], HEARTBEAT).done)


async def _acame_back(future: "asyncio.Future[Any]") -> bool:
    return future.done() or bool((await asyncio.wait([future], timeout=HEARTBEAT))[0])


async def _acall(operation: Operation) -> "asyncio.Future[Any]":
    """Start an operation; after a failure nobody waits for the others, and asyncio must not report them as lost."""
    future: asyncio.Future[Any] = _ACALL(operation)
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future


def _compiled(node: Any) -> Any:
    """The graph of a search, around a sync node or an async one."""
    graph = StateGraph(resume.SegmentState)
    graph.add_node("segment", node)
    graph.add_edge(START, "segment")
    graph.add_conditional_edges("segment", _next_segment, ["segment", END])
    return graph.compile(name="tooltree.search")


async def _acompiled(segment: Callable[[resume.SegmentState], resume.SegmentEnd]) -> Any:
    return _compiled(async_twin(segment))


def _run(graph: Any, state: resume.SegmentState, config: RunnableConfig) -> Any:
    try:
        return graph.invoke(state, config)
    except GraphInterrupt as interrupted:
        raise questions_once(interrupted) from None


async def _arun(graph: Any, state: resume.SegmentState, config: RunnableConfig) -> Any:
    try:
        return await graph.ainvoke(state, config)
    except GraphInterrupt as interrupted:
        raise questions_once(interrupted) from None


def run_search(session: SearchSession) -> Flow[None]:
    """Run a search to its end; the session holds the finished tree afterwards."""

    @driven
    def segment(state: resume.SegmentState) -> Flow[resume.SegmentEnd]:
        _SESSION.set(session)  # in the context of this node and of the tasks that it starts
        resume.adopt(session, resume.placed(state))
        return resume.finished(session, (yield from _in_order(session)))

    graph = yield TwinStep(partial(_compiled, segment), partial(_acompiled, segment))
    earlier = None
    if place := resume.earlier_place(session):
        with suppress(ValueError):  # the host has no checkpointer
            earlier = (yield TwinStep(partial(graph.get_state, place), partial(graph.aget_state, place))).values
    finished = session.planner.finished
    beginning = resume.beginning(session, earlier or finished.get(resume.last_search(session.turn.messages) or ""))
    given = (graph, beginning, _inside(session.turn.config))
    ended = yield TwinStep(partial(_run, *given), partial(_arun, *given))
    resume.adopt(session, ended)
    finished[session.dialogue.run_key] = ended
    forget_oldest(finished, KEPT_SEARCHES)


def _in_order(session: SearchSession) -> Flow[resume.Outcomes]:
    """Launch what the search asks for and tell it the outcomes in the order of launch, for one segment."""
    end = resume.segment_end(session)
    sinks, handled = session.turn.sinks, has_handlers()
    outstanding: deque[tuple[Operation, Any]] = deque()
    outcomes: resume.Outcomes = []
    outcome = None
    began = time.monotonic() - session.search.budget.elapsed
    while True:
        operations, events = session.advance(outcome, end)
        for operation in operations:
            future = yield TwinStep(partial(_CALL, operation), partial(_acall, operation))
            outstanding.append((operation, future))
        yield from emit_all(events, sinks, handled=handled)
        yield from _recorded(session)
        if not outstanding:
            return outcomes
        operation, future = outstanding.popleft()
        while not (yield TwinStep(partial(_came_back, future), partial(_acame_back, future))):
            heartbeat = HeartbeatEvent(
                type="heartbeat",
                seconds=round(time.monotonic() - began, 1),
                rollouts=session.search.rollouts,
                model_calls=session.search.budget.spent.model_calls,
                waiting_for="own_step" if operation.own_step else operation.kind,
            )
            yield from emit_all([heartbeat], sinks, handled=handled)
            yield from _recorded(session)
        outcome = yield TwinStep(future.result, partial(awaited, future))
        outcomes.append(outcome)


def _recorded(session: SearchSession) -> Flow[None]:
    """Have the search so far in its file, if it has one."""
    if session.file is not None:
        yield from session.file.follow(session.result)


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


def searched(turn: Turn) -> Flow[SearchResult]:
    """Search for a plan, which may end in an answer. Inside a graph task, the search is resumed and drained with it."""
    sinks, cancelled = turn.sinks, turn.cancelled
    if runtime := current_runtime():
        sinks = (*sinks, to_stream(runtime.stream_writer))
        if cancelled is None and (control := runtime.control) is not None:
            cancelled = lambda: control.drain_requested  # noqa: E731 - reads best in place
    hear_request([*turn.system, *turn.messages], list(turn.planner.library))
    session = SearchSession(replace(turn, sinks=sinks, cancelled=cancelled))
    yield from run_search(session)
    result = session.result()
    if turn.guide is not None:
        request = turn.said.request  # without a thread, it is the same in all searches of a turn
        run = (run_id(runtime) if runtime else None) or (request and request.id) or result.search_id
        threshold = turn.planner.config.post_threshold
        attempts = failed_attempts(result, session.dialogue, run=run, threshold=threshold)
        yield from if_it_can(partial(turn.guide.failed, attempts), None, GUIDE)
    return (yield from remembered(result, session.file))


_results: dict[str, tuple[SearchResult, SearchFile | None]] = {}
"""The latest results of this process, by search, with the files that they are recorded in."""


def remembered(result: SearchResult, file: SearchFile | None = None) -> Flow[SearchResult]:
    """The result, for `search_result` to find for as long as it is one of the latest; by default in its file, too."""
    _, known = _results.pop(result.search_id, (None, None))
    file = file or known
    _results[result.search_id] = result, file
    forget_oldest(_results, KEPT_SEARCHES)
    if file is not None:
        yield from file.follow(lambda: result, ended=True)
    return result


def search_result(message: BaseMessage) -> SearchResult:
    """The search behind a message of an agent, a planned call or an answer, with its tree, its pictures and its cost.

    ```python
    out = agent.invoke({"messages": [...]})
    print(search_result(out["messages"][-1]).to_mermaid())
    ```

    A process keeps its latest searches, so ask soon: if no search made the message, or it is no longer kept, that is a
    `ConfigurationError`. What a search cost stays with its last message, in `response_metadata["tooltree"]`.
    """
    metadata = message.response_metadata.get(KEY) if isinstance(message, BaseMessage) else None
    found = metadata.get("search") if isinstance(metadata, dict) else None
    if not isinstance(found, str):
        kind = f"{message.type} message" if isinstance(message, BaseMessage) else type(message).__name__
        msg = (
            f"No search made this {kind}. Pass one whose response_metadata has {KEY!r}: an answer of a "
            "planner, or a message with calls that it planned."
        )
        raise ConfigurationError(msg)
    if found not in _results:
        msg = (
            f"The search {found!r} is no longer kept: a process keeps its latest {KEPT_SEARCHES}. Ask in the process "
            "that searched, right after the run, and keep what it returns; what the search cost stays in the message."
        )
        raise ConfigurationError(msg)
    return _results[found][0]


def answered(turn: Turn) -> Flow[SearchResult]:
    """Search for a plan and, unless it waits for a write or holds the answer, answer from it."""
    result = yield from searched(turn)
    if result.waiting or result.answer is not None:
        return result
    plan = result.messages
    stream_now(plan)
    conversation = [*turn.system, *turn.messages, *plan]
    limit = turn.planner.config.max_seconds or math.inf
    deadline = time.monotonic() + max(limit - result.cost.seconds, 0)
    patience = Patience(deadline=deadline, cancelled=turn.cancelled or (lambda: False))
    answer = yield from turn.planner.answer(conversation, turn.config or RunnableConfig(), patience, tools=result.tools)
    return (yield from remembered(result.with_answer(answer)))


def with_experience(turn: Turn, experience: Learner | None, *, own: bool = False) -> Flow[SearchResult]:
    """Answer with what is known of tasks like this one, and keep the turn if it has come to its end.

    It is a run of its `own`, or else part of the graph that is running. What was recalled stays the same until
    something else is asked, so it is asked for once a request.
    """
    said = turn.said
    remembered = None if experience is None else (yield from experience.begun(said))
    if experience is None or not remembered:
        return (yield from answered(turn))
    room = room_for(turn.system, turn.planner.library.size, said)
    guide = yield from experience.guide(remembered, room, turn.planner.effects.declared)
    result = yield from answered(replace(turn, guide=guide))
    if result.answer is not None and not result.waiting:
        messages = [*turn.messages, *result.messages]
        instructions = Conversation([*turn.system, *turn.messages]).instructions
        id = result.search_id if own else None  # noqa: A001 - the record's field
        ended = partial(experience.ended, messages, remembered, id=id, instructions=instructions)
        yield from ended(tools=list(turn.planner.library), effects=turn.planner.effects.declared)
    return result


_FINISHED: dict[tuple[Any, ...], tuple[list[Any], dict[str, Any]]] = {}
"""The latest searches of `search()`, whose planners are made anew each time, by what their planners were made of; it is
kept beside them, so that nothing else takes the place of one of its parts in memory."""


def _finished_with(planner: Planner, *models: Any) -> dict[str, Any]:
    """The latest searches made with the same models, tools and sandbox as those of a planner."""
    # A function is made a tool anew each time, and a method is another object each time it is named.
    made_of = (getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool for tool in planner.library)
    parts = [*models, planner.sandbox, *made_of]
    key = (planner.fingerprint, *(part if isinstance(part, str | MethodType) else id(part) for part in parts))
    _, finished = _FINISHED.setdefault(key, (parts, {}))
    forget_oldest(_FINISHED, KEPT)
    return finished


Query = str | BaseMessage | Sequence[BaseMessage | dict[str, Any] | tuple[str, str]]
"""A request, or a conversation in any form that LangChain understands."""


@driven
@with_options
def search(
    query: Query,
    tools: Iterable[BaseTool | Callable[..., Any]],
    *,
    model: str | BaseChatModel,
    on_event: Callable[[Event], None] | None = None,
    callbacks: Callbacks = None,
    cancel: threading.Event | None = None,
    experience: Learner | None = None,
    **options: Unpack[PlannerOptions],
) -> Flow[SearchResult]:
    """Search for the tool calls that fulfil a request, and answer from them.

    Works outside a graph, inside a node, and inside a task. Inside, it is persisted and resumed with its host.

    Cancelling the asyncio task of `asearch` raises `CancelledError` as usual; set `cancel` to get the best plan so far
    instead.

    Args:
        query: The request, or a conversation.
        tools: LangChain tools or functions, or a `ToolLibrary` with cards.
        model: Proposes calls and writes the answer.
        judge: Scores calls; the model itself if left out.
        post_judge: Scores observations; the judge if left out.
        config: The settings.
        effects: Which tools only `"read"`, or, by a function of the arguments, which of their calls do: see `sql_reads`
            in `langchain_tooltree.effects`. Pairs are taken, too, so that a tool itself can be named, and no other
            stands for it. Every other call is a `"write"`: judged, and run in a sandbox or not at all.
        approve_reads: Reads that may tell the outside something, such as those of web pages: never run while searching,
            and left to the host. Name them to a `PlanReviewNode` or `PlanReviewMiddleware` as well, which then asks;
            an agent with `review=True` asks by itself, and needs that for them.
        sandbox: A forkable world, in which the writes of its tools are tried out.
        same: Whether a write came out as in the sandbox: from the result tried and the real one, as
            `ToolMessage`s. If left out, they may differ in the second they were made, in how long that took, and in
            generated identifiers. Of results that differ in more, only the writes planned next are kept; what was
            read and answered after the one tried is asked for anew.
        embeddings: Ranks tools where there are too many to show, or the name of one; `HashingEmbeddings` if left out.
        retriever: Ranks them instead: a LangChain retriever, or a function from a text to names of tools, best first.
        prompts: What the models are told, where it differs from the default `Prompts`.
        record_searches: A folder in which each search leaves a file, for `langchain-tooltree view` to show while it
            runs and afterwards. It holds the request and all results; the latest 1,000 files are kept.
        on_event: Called with every progress event, on the thread that searches.
        callbacks: LangChain callback handlers.
        cancel: Once set, from any thread, nothing more is launched and the best plan so far is returned.
        experience: What was done before, as an `Experience` keeps it: it is recalled for the request and guides the
            search, and a search that ends in an answer is kept in it as a run of its own.

    Returns:
        The best trajectory, the tree, the cost, and the answer unless a write has to be carried out first.

    Raises:
        ConfigurationError: If the parts do not fit together.
        EmptyQueryError: If there is no request.
    """
    if isinstance(query, Mapping) or not isinstance(query, str | BaseMessage | Sequence):
        msg = f"query must be a text, a message or a list of messages, got {type(query).__name__} {query!r:.80}."
        raise ConfigurationError(msg)
    experience = checked_experience(experience)
    planner = Planner(model, tools, **options)
    planner.finished = _finished_with(planner, model, options.get("judge"), options.get("post_judge"))
    turn = Turn(
        planner=planner,
        messages=Conversation([query] if isinstance(query, str | BaseMessage) else query).messages,
        config={"callbacks": callbacks} if callbacks else {},
        cancelled=cancel.is_set if cancel else None,
        sinks=[on_event] if on_event else [],
    )
    return with_experience(turn, experience, own=True)


asearch = async_twin(search)
"""`search`, to be awaited."""


def with_option_docs(maker: MadeT) -> MadeT:
    """Have what makes a planner say in `help()` of each option what `search` says of it."""
    said = inspect.getdoc(search) or ""
    options = said[said.find("    judge: ") : said.find("    on_event: ")]
    maker.__doc__ = (inspect.getdoc(maker) or "").replace("    **options: As for `search`.\n", options)
    return maker
