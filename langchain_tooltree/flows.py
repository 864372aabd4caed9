"""Write logic with I/O once, for sync and async callers.

This package offers each of its operations twice, such as `add` and `aadd`. Both ask
chat models, access stores, or call functions of the user, one by blocking the thread
and the other by awaiting. To write the logic between these calls only once, it is
written as a *flow*: an `async def` function that awaits *steps* and other flows. A
step is one piece of I/O that can be performed in both ways. A *driver* runs the flow
and performs its steps: `run_flow` blocks the calling thread and needs no event loop,
`arun_flow` awaits each step on the running event loop.

Example:
    ```python
    class Counter:
        def add(self, number: int) -> int:
            \"\"\"Add a number to the stored total and return it.\"\"\"
            return run_flow(self.add_flow(number))

        async def aadd(self, number: int) -> int:
            \"\"\"Async version of `add`.\"\"\"
            return await arun_flow(self.add_flow(number))

        async def add_flow(self, number: int) -> int:
            total = await CallStep(self._store.read, self._store.aread) + number
            await CallStep(
                partial(self._store.write, total),
                partial(self._store.awrite, total),
            )
            return total
    ```

    Other flows need no driver here. They write `await counter.add_flow(1)`.

Why no event loop is needed:
    `async` and `await` are part of Python, and asyncio is only one of their users. A
    call of an `async def` function runs nothing. It returns a coroutine object, which
    works like a generator:

    1. `coroutine.send(None)` runs the body until something that it awaits yields an
       object, and returns this object. An event loop expects a future here. A step
       yields itself (see `FlowStep.__await__`), so a driver receives the step. If the
       flow awaits another flow that awaits a step, the step passes through both.
    2. The driver performs the step, by `step.run()` or by `await step.arun()`.
    3. `coroutine.send(result)` resumes the body, where `await step` now returns the
       result. If the step has failed, `coroutine.throw(error)` raises the error there
       instead. Both run the body to its next step, as in 1.
    4. When the body returns, `send` raises `StopIteration`, with the returned value as
       its `value`.

What does not work:
    - A flow awaits steps and other flows, and nothing else. `asyncio.sleep` or
      `asyncio.Event.wait` would yield objects that only an event loop understands, so
      the driver raises a `TypeError` at such an `await`. (On a thread without an event
      loop, asyncio often raises a `RuntimeError` first.) Wrap the call in a `CallStep`
      or a `FunctionStep`. The same holds for what `async with` and `async for` await.
    - A flow can't await in a `finally` block or an `async with` exit that runs because
      of an interrupt or a cancellation. The driver closes the flow then and performs
      no more steps, so that Python raises a `RuntimeError`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from langchain_core.runnables.config import run_in_executor
from langgraph.errors import GraphBubbleUp

from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.text import shortened

logger = logging.getLogger(__name__)

T = TypeVar("T")


class FlowStep(ABC):
    """Piece of I/O that a flow awaits and that a driver performs.

    `await step` returns the result of the step, or raises its error.
    """

    def __await__(self) -> Generator[FlowStep, Any, Any]:
        """Yield this step to the driver and return the result that it sends back."""
        return (yield self)

    @abstractmethod
    def run(self) -> Any:
        """Perform the step, block the thread until it is done, and return its result.

        An event loop may be running on this thread, so `asyncio.run` can't be used.
        """

    @abstractmethod
    async def arun(self) -> Any:
        """Perform the step on the running event loop and return its result."""


Flow: TypeAlias = Coroutine[FlowStep, Any, T]
"""Coroutine that awaits only steps and other flows, and returns a `T`."""


@dataclass(frozen=True)
class CallStep(FlowStep):
    """Call of a function that exists in a sync and an async version.

    Attributes:
        call: Sync version, without arguments. Often a partial, such as
            `partial(model.invoke, messages)`.
        acall: Async version, such as `partial(model.ainvoke, messages)`.
    """

    call: Callable[[], Any]
    acall: Callable[[], Awaitable[Any]]

    def run(self) -> Any:
        """Call the sync version and return its result."""
        return self.call()

    async def arun(self) -> Any:
        """Call the async version and return its result."""
        return await self.acall()


@dataclass(frozen=True)
class FunctionStep(FlowStep):
    """Call of a user's function that may be plain or async.

    The function may also be an object with an `async def __call__`, or a plain function
    that returns a coroutine or another awaitable. This can't be a future or a task of
    the caller's event loop, because the function may run on another thread.

    Attributes:
        function: Function of one argument.
        argument: Argument that the function is called with.
    """

    function: Callable[[Any], Any]
    argument: Any

    def run(self) -> Any:
        """Call the function on this thread and return its result.

        An awaitable result is awaited in an event loop of its own on another thread,
        because an event loop may already be running on this one, as in a notebook.
        """
        result = self.function(self.argument)
        if not inspect.isawaitable(result):
            return result

        future = run_in_daemon_thread(
            partial(asyncio.run, await_result(result)),
            name="tooltree-function",
        )
        return future.result()

    async def arun(self) -> Any:
        """Call the function without blocking the event loop and return its result."""
        if _is_async_function(self.function):
            return await self.function(self.argument)

        result = await run_in_executor(None, self.function, self.argument)
        if inspect.isawaitable(result):
            return await result
        return result


def _is_async_function(function: Callable[..., Any]) -> bool:
    """Return True if a call of the function always returns a coroutine.

    This holds for coroutine functions and for objects with an `async def __call__`.
    """
    if inspect.iscoroutinefunction(function):
        return True
    return inspect.iscoroutinefunction(type(function).__call__)


async def await_result(awaitable: Awaitable[T]) -> T:
    """Return the result of any awaitable, since `asyncio.run` takes only coroutines."""
    return await awaitable


@dataclass(frozen=True)
class GatherStep(FlowStep):
    """Several flows that run at the same time, as one step.

    All flows run to their end, even if some of them fail. Then the results are returned
    in the order of the flows, or the error of the first flow in that order that has
    failed is raised, so that the outcome does not depend on timing.

    Each flow runs in its own copy of the context. It sees the context variables that
    the caller has set, and those that it sets itself are invisible to everyone else.

    Example:
        ```python
        plans, scores = await GatherStep([plan_flow(), score_flow()])
        ```

    Attributes:
        flows: Flows to run. None of them may have been started.
    """

    flows: Sequence[Flow[Any]]

    def run(self) -> list[Any]:
        """Run each flow on a daemon thread and return the results.

        Threads can't be stopped, so the flows go on if Ctrl-C ends this call.
        """
        futures = [
            run_in_daemon_thread(partial(run_flow, flow), name="tooltree-flow")
            for flow in self.flows
        ]
        concurrent.futures.wait(futures)
        return [future.result() for future in futures]

    async def arun(self) -> list[Any]:
        """Run each flow in a task and return the results.

        If this call is cancelled, it cancels the tasks and waits for their end.
        """
        tasks = [asyncio.create_task(arun_flow(flow)) for flow in self.flows]
        try:
            # A cancelled `gather` cancels its tasks. It waits for all of them only with
            # `return_exceptions`, otherwise it would end with the first error.
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            # A task that is cancelled before it starts never reaches the driver, which
            # would have closed the flow. For all other flows this does nothing.
            for flow in self.flows:
                flow.close()
        return [task.result() for task in tasks]


def run_flow(flow: Flow[T]) -> T:
    """Run a flow on the calling thread and return its result.

    Each step blocks the thread until it is done. No event loop is needed, but one may
    be running on this thread.

    An `Exception` that a step raises is raised in the flow at its `await`, so the flow
    can catch it. All other exceptions, such as `KeyboardInterrupt`, leave the driver at
    once. So do the interrupts of LangGraph.

    Args:
        flow: Flow to run. It is closed at the end, whatever happens.

    Returns:
        The value that the flow returns.

    Raises:
        GraphBubbleUp: If a step or the flow interrupts the graph.
        TypeError: If the flow awaits something that is neither a step nor a flow, and
            does not catch this error.
    """
    try:
        awaited = flow.send(None)
        while True:
            try:
                result = _require_step(awaited).run()
            except GraphBubbleUp:
                # An `except Exception` in the flow would swallow the interrupt.
                raise
            except Exception as error:  # noqa: BLE001
                awaited = flow.throw(error)
            else:
                awaited = flow.send(result)
    except StopIteration as stop:
        return cast("T", stop.value)
    finally:
        # A suspended flow would keep all that it holds, such as a lock.
        flow.close()


async def arun_flow(flow: Flow[T]) -> T:
    """Run a flow on the running event loop and return its result.

    Async version of `run_flow`, with the same rules for errors. A cancellation is no
    `Exception`, so it also leaves the driver at once.

    Args:
        flow: Flow to run. It is closed at the end, whatever happens.

    Returns:
        The value that the flow returns.

    Raises:
        GraphBubbleUp: If a step or the flow interrupts the graph.
        TypeError: If the flow awaits something that is neither a step nor a flow, and
            does not catch this error.
    """
    try:
        awaited = flow.send(None)
        while True:
            try:
                result = await _require_step(awaited).arun()
            except GraphBubbleUp:
                # An `except Exception` in the flow would swallow the interrupt.
                raise
            except Exception as error:  # noqa: BLE001
                awaited = flow.throw(error)
            else:
                awaited = flow.send(result)
    except StopIteration as stop:
        return cast("T", stop.value)
    finally:
        # A suspended flow would keep all that it holds, such as a lock.
        flow.close()


def _require_step(awaited: object) -> FlowStep:
    """Return the object that a flow awaits if it is a step, or raise a `TypeError`.

    The drivers throw this error into the flow like an error of a step, so it shows the
    place of the wrong `await`.
    """
    if isinstance(awaited, FlowStep):
        return awaited

    msg = (
        f"A flow awaited an object that yields {awaited!r} to its driver. Flows await "
        "only steps and other flows. Wrap the object in a CallStep or a FunctionStep."
    )
    raise TypeError(msg)


def run_in_daemon_thread(
    function: Callable[[], T],
    name: str,
) -> concurrent.futures.Future[T]:
    """Start a function on a daemon thread of its own.

    An executor is no alternative: a call that hangs would occupy a place in its pool,
    and the interpreter would wait for the call at exit.

    Args:
        function: Function to call, in a copy of the current context.
        name: Name of the thread.

    Returns:
        Future of the function's result. It can't be cancelled.
    """
    context = copy_context()
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    # A thread can't be stopped, so nobody may cancel the future of a function that goes
    # on. The future of a running call refuses to be cancelled.
    future.set_running_or_notify_cancel()

    def complete_future() -> None:
        try:
            result = context.run(function)
        except BaseException as error:  # noqa: BLE001
            # Whoever waits for the future would otherwise wait forever.
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=complete_future, name=name, daemon=True).start()
    return future


def is_event_loop_running() -> bool:
    """Return True if an event loop is running on this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def run_or_default(
    start: Callable[[], Flow[T]],
    *,
    default: T,
    purpose: str,
) -> T:
    """Run a flow that the run of the agent can do without.

    If the flow fails, a warning is logged and the default is returned.

    Args:
        start: Function that creates the flow.
        default: Value to return if the flow fails.
        purpose: Noun phrase for the warning, such as "a memory of past runs".

    Returns:
        The result of the flow, or the default.

    Raises:
        GraphBubbleUp: If the flow interrupts the graph.
        ConfigurationError: If the user has configured something wrongly. Such an error
            has to be corrected, so a run that goes on must not hide it.
    """
    try:
        return await start()
    except (GraphBubbleUp, ConfigurationError):
        raise
    except Exception as error:  # noqa: BLE001
        logger.warning(
            "The run goes on without %s: %s",
            purpose,
            shortened(described(error)),
        )
        return default
