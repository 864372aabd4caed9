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

Progress events leave through here, too: each arrives at sinks, such as `stream_mode="custom"`, and at the callback
handlers of the current run.
"""

import asyncio
import functools
import inspect
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, Protocol, TypeVar, cast, get_args

from langchain_core.callbacks import BaseCallbackManager, adispatch_custom_event, dispatch_custom_event
from langchain_core.runnables.config import ensure_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime, get_runtime

from langchain_tooltree.errors import ConfigurationError, ContainedError, described
from langchain_tooltree.events import Event
from langchain_tooltree.text import forget_oldest, shortened

logger = logging.getLogger(__name__)

P = ParamSpec("P")
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
    """A user's function of one argument, sync or async, as a step."""

    function: Callable[[Any], Any | Awaitable[Any]]
    argument: Any

    def run(self) -> Any:
        """Call the function; an awaitable result is awaited in an event loop of its own."""
        outcome = self._call()
        if not inspect.isawaitable(outcome):
            return outcome
        work = partial(asyncio.run, awaited(outcome))
        return in_thread(work, "tooltree").result() if has_loop() else work()  # as in a notebook

    async def arun(self) -> Any:
        """Await a coroutine function; a plain one runs in a thread, so that it cannot block the loop."""
        if inspect.iscoroutinefunction(self.function):
            outcome = self._call()
        else:
            outcome = await asyncio.to_thread(self._call)
        with containing():
            return await outcome if inspect.isawaitable(outcome) else outcome

    def _call(self) -> Any:
        with containing():  # neither a generator nor a future can carry a StopIteration
            return self.function(self.argument)


_going_on: "set[asyncio.Future[Any]]" = set()
"""An event loop forgets tasks that nobody holds."""


def _let_go(task: "asyncio.Future[Any]") -> None:
    _going_on.discard(task)
    if not task.cancelled():
        task.exception()  # where nobody waits any more, nobody is told either


@dataclass(frozen=True, slots=True)
class TwinStep:
    """A call and its async twin, such as `partial`s of `invoke` and `ainvoke`, as a step."""

    run: Callable[[], Any]
    arun: Callable[[], Coroutine[Any, Any, Any]]


@dataclass(frozen=True, slots=True)
class TogetherStep:
    """Flows that run at the same time, as one step: `seen, found = yield TogetherStep([look(), find()])`.

    All come to their end, then their results are given in the order of the flows. If some fail, the error of the first
    of them in that order is raised, so timing decides nothing. Each has a copy of the context. Where the step is
    cancelled, all are cancelled and waited for.
    """

    flows: Sequence[Flow[Any]]

    def run(self) -> list[Any]:
        """Run each flow on a thread of its own: one that hangs takes no place in a pool of others."""
        if len(self.flows) == 1:
            return [copy_context().run(run_flow, self.flows[0])]
        started = [in_thread(partial(run_flow, flow), "tooltree-together") for flow in self.flows]
        wait(started)
        return [future.result() for future in started]

    async def arun(self) -> list[Any]:
        """Run each flow in a task of its own."""
        started = [asyncio.create_task(arun_flow(flow)) for flow in self.flows]
        await asyncio.gather(*started, return_exceptions=True)
        return [task.result() for task in started]


IDLE_SECONDS = 10.0
"""So long a thread waits for more work: a search calls its next tool within seconds. Measured: with a new thread for
each call, a rollout on the sync path takes a seventh more processor time."""


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[], Any]
    name: str
    context: Context
    outcome: "Future[Any]"


_idle: list["SimpleQueue[_Job]"] = []
"""What idle threads wait for. A forked process has none of them."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


def in_thread(work: Callable[[], T], name: str) -> "Future[T]":
    """Start work on a thread of its own, in a copy of the current context; the program does not wait for it to end.

    Work that hangs takes no place of others: threads are started as they are needed, and used again once they are idle.
    """
    try:
        inbox = _idle.pop()
    except IndexError:
        inbox = SimpleQueue[_Job]()
        threading.Thread(target=_do_jobs, args=(inbox,), daemon=True).start()
    outcome: Future[T] = Future()
    inbox.put(_Job(work, name, copy_context(), outcome))
    return outcome


def _do_jobs(inbox: "SimpleQueue[_Job]") -> None:
    """Do one job after the other until none has come for a while."""
    while True:
        try:
            _do(inbox.get(timeout=IDLE_SECONDS), inbox)
        except Empty:
            with suppress(ValueError):  # somebody has just taken it, and a job is on its way
                _idle.remove(inbox)
                return


def _do(job: _Job, inbox: "SimpleQueue[_Job]") -> None:
    """Do a job; before anybody hears of it, the thread is ready for more."""
    threading.current_thread().name = job.name
    if not job.outcome.set_running_or_notify_cancel():
        _idle.append(inbox)
        return
    try:
        result = job.context.run(job.work)
    except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
        _idle.append(inbox)
        job.outcome.set_exception(error)
    else:
        _idle.append(inbox)
        job.outcome.set_result(result)


def begun(flow: Flow[Any], name: str) -> TwinStep:
    """A step that begins a flow beside this one, as a task or on a thread of that name, and gives its future."""

    async def task() -> "asyncio.Task[Any]":
        begun = asyncio.create_task(arun_flow(flow))
        begun.add_done_callback(_let_go)  # after a failure nobody waits for the others
        return begun

    return TwinStep(lambda: in_thread(partial(run_flow, flow), name), task)


def done_within(task: Any, seconds: float | None) -> TwinStep:
    """A step that waits for what was `begun`, and says whether it is done in time; `None` for no limit."""

    async def is_done() -> bool:
        return bool((await asyncio.wait([task], timeout=seconds))[0])

    return TwinStep(lambda: bool(wait([task], seconds).done), is_done)


async def awaited(outcome: Awaitable[T]) -> T:
    """What an awaitable gives, as a coroutine."""
    return await outcome


RAISED = (Exception, SystemExit, GeneratorExit, asyncio.CancelledError, BaseExceptionGroup)
"""What code of others raises by mistake; other exceptions are for whoever has made them, such as a test's power cut."""


def contained(error: BaseException) -> Exception:
    """The error as one that a flow may handle: what code of others raises ends no program, whatever it is.

    A real KeyboardInterrupt is raised again, and a cancellation of the running task: one that somebody has asked for.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration):  # which a future cannot carry
        return error
    group = error if isinstance(error, BaseExceptionGroup) else None
    if isinstance(error, KeyboardInterrupt) or (group and group.subgroup(KeyboardInterrupt)) or _is_ending(error):
        raise error
    return ContainedError(described(error))


@contextmanager
def containing() -> Iterator[None]:
    """Have everything that is raised within contained, whatever it is."""
    try:
        yield
    except BaseException as error:
        if (within := contained(error)) is error:
            raise
        # Behind a StopIteration, contextlib would take this for Python's own way to say that one was raised.
        raise within from (None if isinstance(error, StopIteration) else error)


def _is_ending(error: BaseException) -> bool:
    """Whether the running task is being cancelled, or its coroutine is thrown away."""
    task = asyncio.current_task() if has_loop() else None
    return isinstance(error, asyncio.CancelledError) and task is not None and bool(task.cancelling())


def run_flow(flow: Flow[T]) -> T:
    """Drive a flow to its end on the calling thread. An interrupt of LangGraph passes through; no flow sees it."""
    try:
        step = next(flow)
        while True:
            try:
                outcome = step.run()
            except GraphBubbleUp:
                raise
            except RAISED as error:  # the flow decides what its steps' errors mean
                step = flow.throw(contained(error))
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
        step = next(flow)
        while True:
            try:
                outcome = await step.arun()
            except GraphBubbleUp:
                raise
            except RAISED as error:  # the flow decides what its steps' errors mean
                step = flow.throw(contained(error))
            else:
                step = flow.send(outcome)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        flow.close()  # what passes it by, as Ctrl-C does, leaves it waiting, with all that it holds


def driven(flow: Callable[P, Flow[T]]) -> Callable[P, T]:
    """The function, or method, that runs a flow on the calling thread; its signature shows what the flow returns."""

    @functools.wraps(flow)
    def driver(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_flow(flow(*args, **kwargs))

    _sign(driver, flow)
    return driver


def async_twin(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The async twin of a `driven` function: its name with an `a` in front, its arguments and its documentation."""
    flow = _flow_behind(function)
    name = function.__name__

    @functools.wraps(flow)
    async def driver(*args: P.args, **kwargs: P.kwargs) -> T:
        return await arun_flow(flow(*args, **kwargs))

    _sign(driver, flow)
    driver.__name__ = f"a{name}"
    driver.__qualname__ = f"{flow.__qualname__.removesuffix(name)}a{name}"
    driver.__doc__ = f"The async twin of `{name}`.\n\n{inspect.getdoc(flow) or ''}".rstrip()
    return driver


def flow_of(function: Callable[P, T]) -> Callable[P, Flow[T]]:
    """The flow behind a `driven` function or bound method, for another flow to go through."""
    flow = _flow_behind(function)
    owner = getattr(function, "__self__", None)
    return flow if owner is None else partial(flow, owner)


def _flow_behind(function: Callable[P, T]) -> Callable[P, Flow[T]]:
    flow = getattr(function, "__flow__", None)
    if flow is None:
        msg = f"{function!r} has no flow behind it; make it with @driven."
        raise TypeError(msg)
    return cast("Callable[P, Flow[T]]", flow)


def _sign(driver: Callable[..., Any], flow: Callable[..., Any]) -> None:
    """Note the flow, and show callers the value that it returns instead of the generator that it is."""
    signature = inspect.signature(flow)
    *_, value = get_args(signature.return_annotation) or (signature.return_annotation,)
    driver.__dict__["__flow__"] = flow
    driver.__dict__["__signature__"] = signature.replace(return_annotation=value)
    driver.__annotations__ = {**flow.__annotations__, "return": value}


EventSink = Callable[[Event], None]

MOST_TOLD = 100
"""Failures that are remembered, so that each is logged once."""

Writer = Callable[[Any], None]
"""Writes to `stream_mode="custom"`."""


def emit_all(events: Sequence[Event], sinks: Sequence[EventSink], *, handled: bool) -> Flow[None]:
    """Give events, in order, to sinks and, if `handled`, to callback handlers, as custom events `tooltree.<type>`."""
    for event in events:
        for sink in sinks:
            with _undisturbed("listener to events"), containing():
                sink(event)
        if handled:
            given = (f"tooltree.{event['type']}", event)
            with _undisturbed("listener to events"):
                yield TwinStep(partial(dispatch_custom_event, *given), partial(adispatch_custom_event, *given))


_told: dict[str, None] = {}
"""Which failures were logged."""


@contextmanager
def _undisturbed(whose: str) -> Iterator[None]:
    """Log, once, what somebody's code raises that a run can do without; what is wrongly configured is no such thing."""
    try:
        yield
    except (GraphBubbleUp, ConfigurationError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is
        if (said := f"{whose}: {shortened(described(error))}") not in _told:
            _told[said] = None
            forget_oldest(_told, MOST_TOLD)
            logger.warning("The run goes on without a %s", said)


def if_it_can(ask: Callable[[], Flow[T]], otherwise: T, whose: str) -> Flow[T]:
    """What comes of a flow that a run can do without: something else where it fails, which is logged once."""
    with _undisturbed(whose):
        return (yield from ask())
    return otherwise


def has_loop() -> bool:
    """Whether an event loop runs on this thread, which must not wait for anything then."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def has_handlers() -> bool:
    """Whether the current run has, or may have, handlers: all are known from its beginning, and dispatching costs."""
    callbacks = ensure_config().get("callbacks")
    return not isinstance(callbacks, BaseCallbackManager) or bool(callbacks.handlers)


def emitted(event: Event, writer: Writer | None) -> Flow[None]:
    """Emit an event to a writer and to callback handlers; without a writer nobody listens."""
    if writer is not None:
        yield from emit_all((event,), (to_stream(writer),), handled=has_handlers())


def to_stream(writer: Writer) -> EventSink:
    """A sink that writes to `stream_mode="custom"`, under a key that tells it from what the application writes."""
    return lambda event: writer({"tooltree": event})


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
