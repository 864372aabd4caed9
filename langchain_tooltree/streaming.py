"""Telling the outside what a planner does: one event, two ways out."""

from collections.abc import Callable

from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event

from langchain_tooltree.events import Event, stream_payload
from langchain_tooltree.models import TAG

EventSink = Callable[[Event], None]


def emit(event: Event, *sinks: EventSink) -> None:
    """Hand an event to every sink and to the callback handlers of the current run.

    Args:
        event: The event; handlers get it as the custom event `tooltree.<type>`.
        *sinks: Functions to call with it.
    """
    for sink in sinks:
        sink(event)
    dispatch_custom_event(f"{TAG}.{event['type']}", event)


async def aemit(event: Event, *sinks: EventSink) -> None:
    """The async twin of `emit`; the sinks are plain functions on both paths."""
    for sink in sinks:
        sink(event)
    await adispatch_custom_event(f"{TAG}.{event['type']}", event)


def to_stream(writer: Callable[[object], None]) -> EventSink:
    """A sink that writes to `stream_mode="custom"`."""
    return lambda event: writer(stream_payload(event))
