"""What a host agent puts around its tool calls: approval, `wrap_tool_call` middleware and redaction of results.

A searched call runs before the agent's own tools node sees it, and its result is read before the agent's next step. So
that swapping the planner takes nothing away, such a call passes through the same middleware, and a tool that waits for
approval is not run while searching at all.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, HumanInTheLoopMiddleware, PIIMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import get_runtime

from langchain_tooltree.conversation import is_observation
from langchain_tooltree.errors import ConfigurationError

Execute = Callable[[ToolCallRequest], Any]
Wrapper = Callable[[ToolCallRequest, Execute], Any]
AsyncExecute = Callable[[ToolCallRequest], Awaitable[Any]]
AsyncWrapper = Callable[[ToolCallRequest, AsyncExecute], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class HostHooks:
    """What searched calls pass through, and which tools are not searched.

    Attributes:
        wrap: Redaction of results and the `wrap_tool_call` hooks as one, the first outermost; `None` without any.
        awrap: The same for the async path.
        held_back: Names of tools whose calls need a human's approval; they count as writes whatever is declared.
    """

    wrap: Wrapper | None = None
    awrap: AsyncWrapper | None = None
    held_back: frozenset[str] = frozenset()

    @classmethod
    def of(cls, middleware: Iterable[AgentMiddleware[Any, Any, Any]]) -> "HostHooks":
        """Read a host's middleware, in the order given to `create_agent`.

        Args:
            middleware: The middleware.

        Returns:
            The guards.

        Raises:
            ConfigurationError: If an entry is not middleware.
        """
        entries = list(middleware)
        for entry in entries:
            if not isinstance(entry, AgentMiddleware):
                msg = (
                    f"host_middleware must hold the middleware given to create_agent, got {type(entry).__name__} "
                    f"{entry!r}."
                )
                raise ConfigurationError(msg)
        approving = [entry for entry in entries if isinstance(entry, HumanInTheLoopMiddleware)]
        # An agent redacts what its tools node brings back before the next step, the first entry first.
        redacting = [entry for entry in reversed(entries) if _redacts_results(entry)]
        # Nobody is asked about a call that is only tried out, such as a write in a fork of the sandbox.
        wrapping = [entry for entry in entries if _wraps_tool_calls(entry) and entry not in approving]
        wraps: list[Wrapper] = [*map(_redaction, redacting), *(entry.wrap_tool_call for entry in wrapping)]
        awraps: list[AsyncWrapper] = [*map(_aredaction, redacting), *(entry.awrap_tool_call for entry in wrapping)]
        return cls(
            wrap=reduce(_inside, wraps) if wraps else None,
            awrap=reduce(_ainside, awraps) if awraps else None,
            held_back=frozenset(name for entry in approving for name in entry.interrupt_on),
        )


def _wraps_tool_calls(entry: AgentMiddleware[Any, Any, Any]) -> bool:
    kind = type(entry)
    return (
        kind.wrap_tool_call is not AgentMiddleware.wrap_tool_call
        or kind.awrap_tool_call is not AgentMiddleware.awrap_tool_call
    )


def _redacts_results(entry: AgentMiddleware[Any, Any, Any]) -> bool:
    return isinstance(entry, PIIMiddleware) and entry.apply_to_tool_results


def _redaction(entry: AgentMiddleware[Any, Any, Any]) -> Wrapper:
    def redacted(request: ToolCallRequest, execute: Execute) -> Any:
        result = execute(request)
        if not is_observation(result):
            return result
        update = entry.before_model(_as_state(result), get_runtime())
        return update["messages"][-1] if update else result

    return redacted


def _aredaction(entry: AgentMiddleware[Any, Any, Any]) -> AsyncWrapper:
    async def redacted(request: ToolCallRequest, execute: AsyncExecute) -> Any:
        result = await execute(request)
        if not is_observation(result):
            return result
        update = await entry.abefore_model(_as_state(result), get_runtime())
        return update["messages"][-1] if update else result

    return redacted


def _as_state(result: ToolMessage) -> AgentState[Any]:
    """A conversation that ends in the result, as `before_model` finds it."""
    return AgentState(messages=[AIMessage(""), result])


def _inside(outer: Wrapper, inner: Wrapper) -> Wrapper:
    return lambda request, execute: outer(request, lambda passed_on: inner(passed_on, execute))


def _ainside(outer: AsyncWrapper, inner: AsyncWrapper) -> AsyncWrapper:
    async def composed(request: ToolCallRequest, execute: AsyncExecute) -> Any:
        async def inner_execute(passed_on: ToolCallRequest) -> Any:
            return await inner(passed_on, execute)

        return await outer(request, inner_execute)

    return composed
