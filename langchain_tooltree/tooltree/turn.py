"""Planning one turn of a conversation: search, then answer. Node, middleware and `search()` are shells around it."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime, get_runtime

from langchain_tooltree.flows import Flow, arun_flow, run_flow
from langchain_tooltree.models import Meter
from langchain_tooltree.rate_limits import Patience
from langchain_tooltree.streaming import EventSink, to_stream
from langchain_tooltree.tooltree.planner import Planner
from langchain_tooltree.tooltree.result import SearchResult
from langchain_tooltree.tooltree.run import arun_search, run_search
from langchain_tooltree.tooltree.session import SearchSession


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
