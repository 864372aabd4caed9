"""What the views of one experience share: the folds of namespaces, and who is judged by whom."""

import atexit
import logging
import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from contextvars import Context
from typing import Any

from langchain_tooltree.experience.namespaces import Namespace
from langchain_tooltree.experience.outage import LAST_SECONDS, Outage
from langchain_tooltree.experience.store import ExperienceStore
from langchain_tooltree.flows import Flow, in_thread, run_flow
from langchain_tooltree.learning.learnt import Learnt, undisturbed
from langchain_tooltree.text import forget_oldest

logger = logging.getLogger(__name__)

KEPT_NAMESPACES = 256
"""Namespaces whose graph is kept in memory, about a megabyte each for some hundred runs; others are made anew."""

KEPT_RUNS = 1_000
"""Runs of which it is kept that they are under way: more than a process has."""

JUDGED_AT_ONCE = 4
"""Verdicts that are asked for in the background at the same time. Nobody waits for them, and the limits of a model are
for the agents that people do wait for; at some seconds each, four judge about a thousand runs in half an hour."""


LOOK_AGAIN = 0.02
"""Seconds between two looks whether a verdict has come."""


class Shared:
    """What the views of one experience share: the folds of namespaces, and who is at what."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folds: dict[Namespace, Learnt] = {}
        self._running: dict[tuple[Namespace, str], float] = {}
        self._claimed: set[tuple[Namespace, str]] = set()
        self.workers: weakref.WeakSet[Future[Any]] = weakref.WeakSet()  # they judge in the background
        self._at_work = 0
        self._waiting: deque[Flow[None]] = deque()
        self._told: set[str] = set()
        self.outage = Outage()

    def fold(self, store: ExperienceStore, make: Callable[[], Learnt]) -> Learnt:
        """The learnt of a namespace; those used longest ago are given up."""
        _, namespace = store.place
        with self._lock:
            found = self._folds[namespace] = self._folds.pop(namespace) if namespace in self._folds else make()
            forget_oldest(self._folds, KEPT_NAMESPACES)
            return found

    def wait_for(self, place: Namespace, runs: Collection[str]) -> None:
        """Wait until nobody judges some runs, or takes tips; no longer than for most replies of a model."""
        until = time.monotonic() + LAST_SECONDS
        while not self._claimed.isdisjoint((place, run) for run in (*runs, "")) and time.monotonic() < until:
            time.sleep(LOOK_AGAIN)

    def begin(self, place: Namespace, run: str | None) -> None:
        """A run is under way, and is not judged meanwhile."""
        if run is not None:
            with self._lock:
                self._running[place, run] = time.monotonic()
                forget_oldest(self._running, KEPT_RUNS)

    def end(self, place: Namespace, run: str) -> bool:
        """A run is over; whether it was known to have begun."""
        with self._lock:
            return self._running.pop((place, run), None) is not None

    def is_running(self, place: Namespace, run: str, longest: float) -> bool:
        """Whether a run is under way; one that has raised never comes to its end."""
        return time.monotonic() - self._running.get((place, run), -math.inf) < longest

    def tell_once(self, message: str) -> None:
        """Log a warning that would be the same after each run."""
        if message not in self._told:
            self._told.add(message)
            logger.warning(message)

    def claim(self, place: Namespace, runs: Sequence[str]) -> list[str]:
        """Take runs to judge them; those of them that nobody else has."""
        with self._lock:
            free = [run for run in runs if (place, run) not in self._claimed]
            self._claimed |= {(place, run) for run in free}
            return free

    def release(self, place: Namespace, runs: Sequence[str]) -> None:
        """Runs were judged."""
        with self._lock:
            self._claimed -= {(place, run) for run in runs}

    def start(self, work: Flow[None]) -> None:
        """Work in the background, when its turn comes."""
        with self._lock:
            self._waiting.append(work)
            if self._at_work == JUDGED_AT_ONCE:
                return
            self._at_work += 1
        # Not in the context of the run: its callbacks and streams are not for this.
        worker = Context().run(in_thread, self._do_waiting, "tooltree-verdicts")
        self.workers.add(worker)
        _AT_WORK.add(worker)

    def _do_waiting(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._at_work -= 1
                    return
                work = self._waiting.popleft()
            run_flow(undisturbed(work))


_AT_WORK: "weakref.WeakSet[Future[Any]]" = weakref.WeakSet()
"""All that judges in the background in this process."""

atexit.register(lambda: wait(list(_AT_WORK), timeout=LAST_SECONDS))
