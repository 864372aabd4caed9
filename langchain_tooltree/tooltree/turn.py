"""Planning one turn of a conversation: search, then answer. The node and `search()` are thin shells around it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime, get_runtime

from langchain_tooltree.flows import Flow, arun_flow, run_flow
from langchain_tooltree.models import Meter
from langchain_tooltree.streaming import EventSink, to_stream
from langchain_tooltree.tooltree.planner import Planner
from langchain_tooltree.tooltree.result import SearchResult
from langchain_tooltree.tooltree.run import arun_search, run_search
from langchain_tooltree.tooltree.session import SearchSession


def plan_turn(
    planner: Planner,
    messages: Sequence[BaseMessage],
    *,
    config: RunnableConfig | None = None,
    state: Mapping[str, Any] | None = None,
    messages_key: str = "messages",
    cancelled: Callable[[], bool] | None = None,
    sinks: Sequence[EventSink] = (),
) -> SearchResult:
    """Search for a plan and, unless it waits for a write, answer from it.

    Args:
        planner: The parts.
        messages: The conversation.
        config: Run configuration of the host.
        state: Graph state for injected arguments.
        messages_key: Where in it the messages stand.
        cancelled: Asked after every call; once true, the best plan so far is returned.
        sinks: Called with every event.

    Returns:
        The result, with the answer unless a write has to be carried out first.

    Raises:
        EmptyQueryError: If there is no request to plan for.
    """
    session = _session(
        planner, messages, state=state or {}, messages_key=messages_key, cancelled=cancelled, sinks=sinks
    )
    run_search(session, config)
    result = session.result()
    return result if result.pending else run_flow(_answered(planner, messages, result, config))


async def aplan_turn(
    planner: Planner,
    messages: Sequence[BaseMessage],
    *,
    config: RunnableConfig | None = None,
    state: Mapping[str, Any] | None = None,
    messages_key: str = "messages",
    cancelled: Callable[[], bool] | None = None,
    sinks: Sequence[EventSink] = (),
) -> SearchResult:
    """The async twin of `plan_turn`."""
    session = _session(
        planner, messages, state=state or {}, messages_key=messages_key, cancelled=cancelled, sinks=sinks
    )
    await arun_search(session, config)
    result = session.result()
    return result if result.pending else await arun_flow(_answered(planner, messages, result, config))


def _session(
    planner: Planner,
    messages: Sequence[BaseMessage],
    *,
    state: Mapping[str, Any],
    messages_key: str,
    cancelled: Callable[[], bool] | None,
    sinks: Sequence[EventSink],
) -> SearchSession:
    """A search that belongs to the current graph task, if there is one: resumed with it, drained with it."""
    runtime = _current_runtime()
    if runtime is not None:
        sinks = (*sinks, to_stream(runtime.stream_writer))
        if cancelled is None and (control := runtime.control) is not None:
            cancelled = lambda: control.drain_requested  # noqa: E731 - reads best in place
    return SearchSession(
        planner,
        messages,
        state=state,
        messages_key=messages_key,
        cancelled=cancelled or (lambda: False),
        sinks=sinks,
    )


def _current_runtime() -> Runtime[Any] | None:
    try:
        return get_runtime()
    except (RuntimeError, KeyError):
        return None  # outside of any graph


def _answered(
    planner: Planner, messages: Sequence[BaseMessage], result: SearchResult, config: RunnableConfig | None
) -> Flow[SearchResult]:
    answer: AIMessage = yield from planner.answer(
        [*planner.conversation(messages), *result.messages], config or RunnableConfig()
    )
    meter = Meter(1)
    meter.count(answer)
    cost = replace(
        result.cost,
        model_calls=result.cost.model_calls + meter.model_calls,
        tokens=result.cost.tokens + meter.input_tokens + meter.output_tokens,
    )
    return replace(result, answer=answer, cost=cost)
