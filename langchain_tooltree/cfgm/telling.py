"""Events of a running graph, as steps of a flow."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langgraph.runtime import get_runtime

from langchain_tooltree.events import Event
from langchain_tooltree.flows import Flow
from langchain_tooltree.streaming import aemit, emit, to_stream

Writer = Callable[[Any], None]
"""Writes to `stream_mode="custom"`."""


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
