"""Telling the outside what goes on: one event, two ways out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.callbacks import BaseCallbackManager, adispatch_custom_event, dispatch_custom_event
from langchain_core.runnables.config import ensure_config
from langgraph.runtime import get_runtime

from langchain_tooltree.events import Event, stream_payload
from langchain_tooltree.flows import Flow
from langchain_tooltree.models import TAG

EventSink = Callable[[Event], None]

Writer = Callable[[Any], None]
"""Writes to `stream_mode="custom"`."""


def emit(event: Event, *sinks: EventSink) -> None:
    """Hand an event to every sink and to the callback handlers of the current run.

    Args:
        event: The event; handlers get it as the custom event `tooltree.<type>`.
        *sinks: Functions to call with it.
    """
    for sink in sinks:
        sink(event)
    if _handled():
        dispatch_custom_event(f"{TAG}.{event['type']}", event)


async def aemit(event: Event, *sinks: EventSink) -> None:
    """The async twin of `emit`; the sinks are plain functions on both paths."""
    for sink in sinks:
        sink(event)
    if _handled():
        await adispatch_custom_event(f"{TAG}.{event['type']}", event)


def _handled() -> bool:
    """Whether the current run has handlers: it knows them all from its beginning, and dispatching is not free."""
    callbacks = ensure_config().get("callbacks")
    return not isinstance(callbacks, BaseCallbackManager) or bool(callbacks.handlers)


def to_stream(writer: Writer) -> EventSink:
    """A sink that writes to `stream_mode="custom"`."""
    return lambda event: writer(stream_payload(event))


def telling(event: Event, writer: Writer | None) -> Flow[None]:
    """Emit an event, as a flow.

    Args:
        event: The event.
        writer: Gets it; callback handlers get it as well. Without one, nothing is told.
    """
    if writer is not None:
        yield _Emit(event, writer)


def current_writer() -> Writer | None:
    """The writer of the graph that is running; `None` outside of any, where nobody listens."""
    try:
        return get_runtime().stream_writer
    except (RuntimeError, KeyError):
        return None


@dataclass(frozen=True, slots=True)
class _Emit:
    event: Event
    writer: Writer

    def run(self) -> None:
        emit(self.event, to_stream(self.writer))

    async def arun(self) -> None:
        await aemit(self.event, to_stream(self.writer))
