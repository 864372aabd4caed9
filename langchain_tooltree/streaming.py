"""Progress events for the applications that watch a run.

Each event reaches an application in three ways, and the application chooses:

- Listeners are plain functions that are called with the event.
- The stream of the running graph contains the event as `{"tooltree": event}`, with
  `stream_mode="custom"`.
- Callback handlers receive it as a custom event of LangChain. This also brings it into
  `astream_events`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

from langchain_core.callbacks import (
    BaseCallbackManager,
    adispatch_custom_event,
    dispatch_custom_event,
)
from langchain_core.runnables.config import ensure_config
from langgraph.runtime import Runtime, get_runtime

from langchain_tooltree.errors import described
from langchain_tooltree.events import Event
from langchain_tooltree.flows import CallStep
from langchain_tooltree.text import shortened

logger = logging.getLogger(__name__)

EventSink: TypeAlias = Callable[[Event], None]
"""Listener that is called with each event."""

StreamWriter: TypeAlias = Callable[[Any], None]
"""Function that writes an object into the stream of the running graph."""


async def emit_events(
    events: Iterable[Event],
    writer: StreamWriter | None,
    sinks: Sequence[EventSink] = (),
) -> None:
    """Give events to the listeners, the graph's stream, and the callback handlers.

    This is a flow, so it is awaited in another flow or run by a driver.

    Args:
        events: Events in the order in which they are given.
        writer: Writer of the running graph, see `get_stream_writer`. Without a writer
            no graph is running, and only the listeners receive the events.
        sinks: Listeners. An error of a listener is logged, and the other receivers
            still get the event.
    """
    # All handlers are known from the beginning of a run, so one look is enough.
    should_dispatch = writer is not None and _has_callback_handlers()

    for event in events:
        for sink in sinks:
            _call_sink(sink, event)
        if writer is not None:
            # The key tells our events from what the application itself writes.
            writer({"tooltree": event})
        if should_dispatch:
            await _build_dispatch_step(event)


def _has_callback_handlers() -> bool:
    """Return True unless the current run is known to have no callback handlers.

    Dispatching a custom event costs time even if nobody listens to it.
    """
    callbacks = ensure_config().get("callbacks")
    if isinstance(callbacks, BaseCallbackManager):
        return bool(callbacks.handlers)
    return True


def _call_sink(sink: EventSink, event: Event) -> None:
    """Call a listener with an event, and log its error if it fails."""
    try:
        sink(event)
    except Exception as error:  # noqa: BLE001
        logger.warning(
            "A listener to events has failed: %s",
            shortened(described(error)),
        )


def _build_dispatch_step(event: Event) -> CallStep:
    """Return the step that dispatches an event as a custom event of LangChain."""
    name = f"tooltree.{event['type']}"
    return CallStep(
        partial(dispatch_custom_event, name, event),
        partial(adispatch_custom_event, name, event),
    )


def get_current_runtime() -> Runtime[Any] | None:
    """Return the runtime of the running graph, or None outside of a graph."""
    try:
        return get_runtime()
    except (RuntimeError, KeyError):
        # LangGraph raises a RuntimeError outside of any run, and a KeyError in a run
        # whose config has no "configurable" entry.
        return None


def get_stream_writer() -> StreamWriter | None:
    """Return the stream writer of the running graph, or None outside of a graph."""
    runtime = get_current_runtime()
    if runtime is None:
        return None
    return runtime.stream_writer
