"""One flow, two drivers: logic that needs I/O is written once and runs on the sync and on the async path.

A flow is a generator. It yields *steps* (something that can be run or awaited) and is sent what came of them; an
exception raised by a step is thrown into the flow at that point. `run_flow` and `arun_flow` are the only difference
between the sync and the async half of the package, and `driven` makes a pair of functions, or methods, of one flow:

    @driven
    def add(self, item: Item) -> Flow[bool]:
        '''Keep an item. ...'''
        return (yield Write(item))

    aadd = async_twin(add)

Callers see `add(item) -> bool` and `async aadd(item) -> bool`. Another flow goes through the same code without a
driver of its own: `added = yield from flow_of(store.add)(item)`.

Progress events leave through here, too: `emit` hands them to the graph's stream, callback handlers and listeners.
"""

import asyncio
import functools
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, ParamSpec, TypeVar

from langchain_core.callbacks import (
    BaseCallbackManager,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.runnables.config import ensure_config, run_in_executor
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime, get_runtime

from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.events import Event
from langchain_tooltree.text import shortened

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class FlowStep:
    """A piece of I/O that a flow asks its driver to perform."""

    __slots__ = ()

    def __await__(self) -> Generator["FlowStep", Any, Any]:
        """Hand the step to the driver of the flow, and return what came of it."""
        return (yield self)

    def run(self) -> Any:
        """Perform the step, blocking the calling thread."""
        raise NotImplementedError

    async def arun(self) -> Any:
        """Perform the step without blocking the event loop."""
        raise NotImplementedError


Flow = Coroutine[FlowStep, Any, T]


@dataclass(frozen=True, slots=True)
class FunctionStep(FlowStep):
    """A user's function of one argument, sync or async, as a step."""

    function: Callable[[Any], Any | Awaitable[Any]]
    argument: Any

    def run(self) -> Any:
        """Call the function; an awaitable result is awaited in an event loop of its own."""
        outcome = self.function(self.argument)
        if not inspect.isawaitable(outcome):
            return outcome
        # On a thread, since an event loop may be running on this one, as in a notebook.
        return in_thread(lambda: asyncio.run(awaited(outcome)), "tooltree").result()

    async def arun(self) -> Any:
        """Await a coroutine function; a plain one runs in a thread, so that it cannot block the loop."""
        if inspect.iscoroutinefunction(self.function):
            return await self.function(self.argument)
        outcome = await run_in_executor(None, self.function, self.argument)
        return await outcome if inspect.isawaitable(outcome) else outcome


@dataclass(frozen=True, slots=True)
class TwinStep(FlowStep):
    """A call and its async twin, such as `partial`s of `invoke` and `ainvoke`, as a step."""

    call: Callable[[], Any]
    acall: Callable[[], Coroutine[Any, Any, Any]]

    def run(self) -> Any:
        """Make the call."""
        return self.call()

    async def arun(self) -> Any:
        """Make the async call."""
        return await self.acall()


@dataclass(frozen=True, slots=True)
class TogetherStep(FlowStep):
    """Flows that run at the same time, as one step: `plans, scores = yield TogetherStep([plan(), score()])`.

    All come to their end, then their results are given in the order of the flows. If some fail, the error of the first
    of them in that order is raised, so timing decides nothing. Each has a copy of the context. Where the step is
    cancelled, all are cancelled and waited for.
    """

    flows: Sequence[Flow[Any]]

    def run(self) -> list[Any]:
        """Run each flow on a thread of its own."""
        futures = [
            in_thread(partial(run_flow, flow), "tooltree-together")
            for flow in self.flows
        ]
        wait(futures)
        return [future.result() for future in futures]

    async def arun(self) -> list[Any]:
        """Run each flow in a task of its own."""
        tasks = [asyncio.create_task(arun_flow(flow)) for flow in self.flows]
        await asyncio.gather(*tasks, return_exceptions=True)
        return [task.result() for task in tasks]


def in_thread(work: Callable[[], T], name: str) -> "Future[T]":
    """Start work on a daemon thread of its own, in a copy of the current context.

    An executor would not do: work that hangs would take a place in its pool, and the program would wait for it to end.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # so that it cannot be cancelled any more
    context = copy_context()

    def perform() -> None:
        try:
            result = context.run(work)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=perform, name=name, daemon=True).start()
    return future


async def awaited(outcome: Awaitable[T]) -> T:
    """What an awaitable gives, as a coroutine."""
    return await outcome


def has_loop() -> bool:
    """Whether an event loop runs on this thread, which must not wait for anything then."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_flow(flow: Flow[T]) -> T:
    """Drive a flow to its end on the calling thread. An interrupt of LangGraph passes through; no flow sees it."""
    try:
        step = flow.send(None)
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
    finally:
        flow.close()  # what passes it by, as Ctrl-C does, leaves it waiting, with all that it holds


async def arun_flow(flow: Flow[T]) -> T:
    """Drive a flow to its end on the running event loop; the async twin of `run_flow`."""
    try:
        step = flow.send(None)
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
    finally:
        flow.close()  # what passes it by, as a cancellation does, leaves it waiting, with all that it holds


def driven(flow: Callable[P, Flow[T]]) -> Callable[P, T]:
    """The function, or method, that runs a flow on the calling thread; its signature shows what the flow returns."""

    @functools.wraps(flow)
    def driver(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_flow(flow(*args, **kwargs))

    signature = inspect.signature(flow)
    *_, value = (signature.return_annotation,)
    driver.__dict__["__flow__"] = flow
    driver.__dict__["__signature__"] = signature.replace(return_annotation=value)
    return driver


def async_twin(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The async twin of a `driven` function: its name with an `a` in front, its arguments and its documentation."""
    flow, name = flow_of(function), function.__name__

    @functools.wraps(function)
    async def driver(*args: P.args, **kwargs: P.kwargs) -> T:
        return await arun_flow(flow(*args, **kwargs))

    driver.__name__ = f"a{name}"
    driver.__qualname__ = f"{function.__qualname__.removesuffix(name)}a{name}"
    driver.__doc__ = (
        f"The async twin of `{name}`.\n\n{inspect.getdoc(function) or ''}".rstrip()
    )
    return driver


def flow_of(function: Callable[P, T]) -> Callable[P, Flow[T]]:
    """The flow behind a `driven` function or bound method, for another flow to go through."""
    flow: Callable[..., Flow[T]] = function.__flow__  # type: ignore[attr-defined]
    owner = getattr(function, "__self__", None)
    return flow if owner is None else partial(flow, owner)


async def if_it_can(ask: Callable[[], Flow[T]], otherwise: T, whose: str) -> T:
    """What comes of a flow that a run can do without: something else where it fails, which is logged.

    What is wrongly configured is no such failure, and is raised.
    """
    try:
        return await ask()
    except (GraphBubbleUp, ConfigurationError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is
        logger.warning(
            "The run goes on without a %s: %s", whose, shortened(described(error))
        )
    return otherwise


EventSink = Callable[[Event], None]
Writer = Callable[[Any], None]  # writes to `stream_mode="custom"`


async def emit(
    events: Sequence[Event], writer: Writer | None, sinks: Sequence[EventSink] = ()
) -> None:
    """Give events, in order, to sinks, to the stream of a graph and to its callback handlers.

    In the stream they stand under a key that tells them from what the application writes; handlers get them as custom
    events `tooltree.<type>`. Without a writer no graph is running, and there are no handlers that could be told.
    """
    # All handlers are known from the beginning of a run, and dispatching costs.
    callbacks = ensure_config().get("callbacks")
    has_handlers = not isinstance(callbacks, BaseCallbackManager) or bool(
        callbacks.handlers
    )
    for event in events:
        for sink in sinks:
            try:
                sink(event)
            except Exception as error:  # noqa: BLE001 - a run can do without a listener
                logger.warning(
                    "A listener to events has failed: %s", shortened(described(error))
                )
        if writer is not None:
            writer({"tooltree": event})
            if has_handlers:
                custom = f"tooltree.{event['type']}", event
                await TwinStep(
                    partial(dispatch_custom_event, *custom),
                    partial(adispatch_custom_event, *custom),
                )


def current_runtime() -> Runtime[Any] | None:
    """The runtime of the graph that is running; `None` outside of any."""
    try:
        return get_runtime()
    except (RuntimeError, KeyError):
        return None


def current_writer() -> Writer | None:
    """The writer of the graph that is running; `None` outside of any, where nobody listens."""
    runtime = current_runtime()
    return runtime.stream_writer if runtime else None
