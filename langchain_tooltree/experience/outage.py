"""A store that does not answer, or not in time: agents go on without it, and what they could not keep is kept later."""

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable, Hashable
from concurrent.futures import wait
from contextvars import Context
from functools import partial
from typing import Protocol, TypeVar

from langchain_tooltree.errors import ForeignNamespaceError, described
from langchain_tooltree.flows import Flow, FunctionStep, LimitedStep, in_thread, run_flow
from langchain_tooltree.text import forget_oldest

logger = logging.getLogger(__name__)

T = TypeVar("T")
U = TypeVar("U")

PATIENCE = 5.0
"""Seconds that a turn waits for its store, as long as for a model's reply; then it goes on with what there is. A store
that took longer is left alone as long."""

RETRY_SECONDS = 5.0
"""Seconds from one try to write what waits to the next: a database that starts again takes some."""

MOST_UNKEPT = 500
"""Runs that wait in memory for their store, of some 10 to 100 KB each; the oldest are given up first."""

LAST_SECONDS = 30.0
"""Seconds that a program that ends waits for runs to be written, and for verdicts under way: as long as for most
replies of a model. A store whose event loop has stopped never answers."""

MOST_REFUSED = 5
"""So often a store refuses a run, while it takes others, before that is given up: then it is the run, such as one whose
thread has a name that no database takes. So many refusals in a row end a try to write what waits."""

Key = tuple[Hashable, str]
"""The namespace and the id of a run."""

READ, WRITE, SEARCH = "read from", "written to", "searched"


class Trying(Protocol):
    """Does something with a store, and says `otherwise` where the store fails or does not answer in time."""

    def __call__(self, doing: str, work: Callable[[], Flow[T]], otherwise: U) -> Flow[T | U]:
        """What comes of it."""


def undaunted(doing: str, work: Callable[[], Flow[T]], otherwise: U) -> Flow[T | U]:  # noqa: ARG001 - as of `Trying`
    """Do something with a store, and raise what it raises."""
    return (yield from work())


class Outage:
    """Whether a store answers, for all who share an experience; says once that it does not, and once that it does.

    What could not be written waits in memory, and is written when the store is back, when somebody settles, or when the
    program ends. A program that is killed loses it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._down: dict[str, float] = {}  # since when it is left alone, by what cannot be done
        self._unkept: dict[Key, Callable[[], Flow[None]]] = {}
        self._written = 0
        self._refused: dict[Key, tuple[int, int]] = {}  # how often, and how many had been written by then
        self._flushing = threading.Lock()
        self._is_retrying = False
        _OUTAGES.add(self)

    def is_down(self, doing: str) -> bool:
        """Whether this could not be done when it was last tried."""
        return doing in self._down

    def trying(self, doing: str, work: Callable[[], Flow[T]], otherwise: U) -> Flow[T | U]:
        """What a flow with a store comes to; something else where the store fails, or does not answer in time."""
        if time.monotonic() < self._down.get(doing, 0):
            return otherwise
        try:
            found: T = yield LimitedStep(work, PATIENCE, "tooltree-experience")
        except ForeignNamespaceError:
            raise
        except Exception as error:  # noqa: BLE001 - any store's; the agent can do without
            self._failed(doing, error)
            return otherwise
        self._answers(doing)
        return found

    def keeping(self, key: Key, now: Callable[[], Flow[None]], later: Callable[[], Flow[None]]) -> Flow[bool]:
        """Write something, or have it wait, in place of an earlier version of it; whether it was written."""

        def write() -> Flow[bool]:
            yield from now()
            self._written += 1
            return True

        # No old version may come after a new one, and who cannot read does not know what stands there.
        is_free = not self._unkept or (key not in self._unkept and not self.is_down(WRITE))
        may_try = is_free and not self.is_down(READ)
        if may_try and (yield from self.trying(WRITE, write, otherwise=False)):
            return True
        with self._lock:
            self._unkept.pop(key, None)
            self._unkept[key] = later
            forget_oldest(self._unkept, MOST_UNKEPT)
            start, self._is_retrying = not self._is_retrying, True
        if start:
            Context().run(in_thread, self._retry, "tooltree-keeping")
        return False

    def waiting(self, place: Hashable) -> int:
        """How many runs of a namespace wait, but for those that the store refuses while it takes others."""
        with self._lock:
            return sum(key[0] == place and not self._refused.get(key, (0, 0))[0] for key in self._unkept)

    def flush(self) -> Flow[None]:
        """Write what waits, as far as the store takes it."""
        if not self._unkept:
            return
        yield FunctionStep(lambda _: self._flushing.acquire(), None)
        before, refused, in_a_row = self._written, dict[Key, Exception](), 0
        try:
            for key, write in list(self._unkept.items()):
                try:
                    yield from write()
                except Exception as error:  # noqa: BLE001 - as above
                    refused[key] = error
                    in_a_row += 1
                else:
                    in_a_row = 0
                    self._written += 1
                    with self._lock:
                        self._refused.pop(key, None)
                        if self._unkept.get(key) is write:
                            del self._unkept[key]
                if in_a_row == MOST_REFUSED:
                    break
            doubtful = [error for key, error in refused.items() if not self._is_refused(key, error, before)]
            if self._written > before or not refused:
                self._answers(WRITE)
            elif doubtful:
                self._failed(WRITE, doubtful[0])
        finally:
            self._flushing.release()

    def _is_refused(self, key: Key, error: Exception, before: int) -> bool:
        """Have a run wait behind the others; whether the store has taken others while it did not take this one."""
        with self._lock:
            times, written = self._refused.get(key, (0, before))
            times += self._written > written
            write = self._unkept.pop(key, None)
            is_lost = times == MOST_REFUSED
            self._refused.pop(key, None)
            if write is not None and not is_lost:
                self._unkept[key] = write
                self._refused[key] = times, self._written
        if is_lost:
            logger.warning(
                "A run is lost, which the store refuses while it takes others: %r (%s)", key, described(error)
            )
        return times > 0

    def _retry(self) -> None:
        while True:
            time.sleep(RETRY_SECONDS)
            run_flow(self.flush())
            with self._lock:
                if not self._unkept:
                    self._is_retrying = False
                    return

    def _failed(self, doing: str, error: Exception) -> None:
        with self._lock:
            is_new = doing not in self._down
            # One that fails at once costs nothing to ask again.
            self._down[doing] = time.monotonic() + PATIENCE if isinstance(error, TimeoutError) else 0.0
        if is_new:
            reason = " ".join(described(error).split())
            told = (
                "The store of the experience cannot be %s (%s). Agents go on without it, and runs that end meanwhile "
                "wait in memory, %d at the most. This is said once."
            )
            logger.warning(told, doing, reason, MOST_UNKEPT)

    def _answers(self, doing: str) -> None:
        with self._lock:
            was_down = self._down.pop(doing, None) is not None
        if was_down:
            logger.warning("The store of the experience can be %s again.", doing)


_OUTAGES: "weakref.WeakSet[Outage]" = weakref.WeakSet()


def _flush_all() -> None:
    """Write what waits before the program ends."""
    flushing = [in_thread(partial(run_flow, each.flush()), "tooltree-last") for each in list(_OUTAGES)]
    wait(flushing, timeout=LAST_SECONDS)
    if left := sum(len(each._unkept) for each in list(_OUTAGES)):  # noqa: SLF001 - of this file
        logger.warning("%d runs are lost with this process, since their store did not answer until its end.", left)


atexit.register(_flush_all)
