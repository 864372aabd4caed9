"""One flow, two drivers: logic that needs I/O is written once and runs on the sync and on the async path.

A flow is a generator. It yields *steps* (something that can be run or awaited) and is sent what came of them; an
exception raised by a step is thrown into the flow at that point. The two functions below are the only difference
between the sync and the async half of the package.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from langgraph.errors import GraphBubbleUp

T = TypeVar("T")


class FlowStep(Protocol):
    """A piece of I/O that a flow asks its driver to perform."""

    def run(self) -> Any:
        """Perform the step, blocking the calling thread."""

    async def arun(self) -> Any:
        """Perform the step without blocking the event loop."""


Flow = Generator[FlowStep, Any, T]


@dataclass(frozen=True, slots=True)
class FunctionStep:
    """A user's function, sync or async, as a step.

    Args:
        function: Called with `argument`. A coroutine function works on the sync path too: it gets an event loop of
            its own for the call.
        argument: The only argument.
    """

    function: Callable[[Any], Any | Awaitable[Any]]
    argument: Any

    def run(self) -> Any:
        """Call the function; an awaitable result is awaited in a fresh event loop."""
        outcome = self._call()
        return asyncio.run(_resolve(outcome)) if inspect.isawaitable(outcome) else outcome

    async def arun(self) -> Any:
        """Await a coroutine function; a plain one runs in a thread, so that it cannot block the loop."""
        if inspect.iscoroutinefunction(self.function):
            return await self.function(self.argument)
        outcome = await asyncio.to_thread(self._call)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def _call(self) -> Any:
        try:
            return self.function(self.argument)
        except StopIteration as stop:  # neither a generator nor a future can carry one
            msg = f"{self.function!r} raised StopIteration"
            raise RuntimeError(msg) from stop


async def _resolve(outcome: Awaitable[T]) -> T:
    return await outcome


def run_flow(flow: Flow[T]) -> T:
    """Drive a flow to its end on the calling thread.

    Args:
        flow: The generator to drive.

    Returns:
        What the flow returned.

    Raises:
        GraphBubbleUp: Interrupts of LangGraph pass through untouched; the flow never sees them.
    """
    try:
        step = next(flow)
        while True:
            try:
                outcome = step.run()
            except GraphBubbleUp:
                raise
            except Exception as error:  # noqa: BLE001 - the flow decides what its steps' errors mean
                step = flow.throw(error)
            else:
                step = flow.send(outcome)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def arun_flow(flow: Flow[T]) -> T:
    """Drive a flow to its end on the running event loop; the async twin of `run_flow`.

    Args:
        flow: The generator to drive.

    Returns:
        What the flow returned.

    Raises:
        GraphBubbleUp: Interrupts of LangGraph pass through untouched; the flow never sees them.
    """
    try:
        step = next(flow)
        while True:
            try:
                outcome = await step.arun()
            except GraphBubbleUp:
                raise
            except Exception as error:  # noqa: BLE001 - the flow decides what its steps' errors mean
                step = flow.throw(error)
            else:
                step = flow.send(outcome)
    except StopIteration as stop:
        result: T = stop.value
        return result
