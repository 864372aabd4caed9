"""An event loop whose clock moves only while everything waits, so that seconds of waiting cost none.

Where each model call sleeps for one second and all else takes no time, the clock counts latencies: the model calls
that had to wait for each other, with those in flight at once counted once.
"""

import asyncio
import selectors
import threading
from collections.abc import Callable
from typing import Any


class _Skipping(selectors.SelectSelector):
    """Adds up the waits that it was asked for, and never waits for a timer."""

    skipped = 0.0

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        if (
            timeout is None
        ):  # nothing is due at any time: somebody else has to wake the loop up
            return super().select()
        self.skipped += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """What its executor would run in a thread runs at once: it takes no time on this clock.

    Attributes:
        single_threaded: Whether no other thread has taken part; the clock does not wait for one.
    """

    def __init__(self) -> None:
        self._skipping = _Skipping()
        self._home = threading.get_ident()
        self.single_threaded = True
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.skipped

    def call_soon_threadsafe(self, *args: Any, **options: Any) -> asyncio.Handle:
        self.single_threaded = (
            self.single_threaded and threading.get_ident() == self._home
        )
        return super().call_soon_threadsafe(*args, **options)

    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:  # type: ignore[override]
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is the caller's, as a thread's would be
            done.set_exception(error)
        return done
