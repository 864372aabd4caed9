"""Work that nobody waits for: verdicts of models, tips, and what is kept of a fold."""

import atexit
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import Context
from typing import Any

from langchain_tooltree.errors import described
from langchain_tooltree.flows import Flow, in_thread, run_flow
from langchain_tooltree.text import forget_oldest

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""Flows that are under way at the same time. The limits of a model are for the agents that people wait for; at some
seconds a verdict, four judge about a thousand runs in half an hour."""

LAST_SECONDS = 30.0
"""Seconds that a program that ends waits for what is under way, as long as for most replies of a model. A store whose
event loop has stopped never answers."""

MOST_WARNINGS = 100
"""Warnings that are remembered, so that each is logged once."""


class Background:
    """Runs flows on threads of its own, some at a time and the others when their turn comes; logs each failure once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], Flow[Any]]] = deque()
        self._workers: weakref.WeakSet[Future[Any]] = weakref.WeakSet()
        self._at_work = 0
        self._warnings: dict[str, None] = {}

    def start(self, work: Callable[[], Flow[Any]]) -> None:
        """Have a flow run to its end; its failure is logged."""
        with self._lock:
            self._waiting.append(work)
            if self._at_work == AT_ONCE:
                return
            self._at_work += 1
        # Not in the context of the run: its callbacks and streams are not for this.
        worker = Context().run(in_thread, self._work, "tooltree-experience")
        self._workers.add(worker)
        _WORKERS.add(worker)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until all that was started is done, but no longer than some seconds."""
        wait(list(self._workers), timeout=seconds)

    def warn_once(self, message: str) -> None:
        """Log a warning that would be the same after each run."""
        if message not in self._warnings:
            self._warnings[message] = None
            forget_oldest(self._warnings, MOST_WARNINGS)
            logger.warning(message)

    def undisturbed(self, flow: Flow[Any]) -> Flow[None]:
        """A flow whose failure is logged: the agent goes on without it."""
        try:
            yield from flow
        except Exception as error:  # noqa: BLE001 - the store's, the embedder's, a model's
            self.warn_once(f"An agent goes on without its experience: {' '.join(described(error).split())}")

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._at_work -= 1
                    return
                work = self._waiting.popleft()
            run_flow(self.undisturbed(work()))


_WORKERS: "weakref.WeakSet[Future[Any]]" = weakref.WeakSet()
"""All workers of this process."""

atexit.register(lambda: wait(list(_WORKERS), timeout=LAST_SECONDS))
