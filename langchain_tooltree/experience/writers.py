"""Who writes to a namespace: how often, so that others know whether anything has changed, and what is under way.

A record and its entry stand in two places, and a store writes them one after the other. So a writer says beforehand
whose they are. Where it is killed in between, whoever looks next finishes the job: nothing stays half there.
"""

import os
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from langgraph.store.base import PutOp, SearchItem

from langchain_tooltree.experience.namespaces import Namespace

WRITERS = "writers"
"""Label under which each writer keeps how often it has written: who reads them knows whether anything has changed."""

FORGOTTEN_AFTER = 86_400.0
"""Seconds after which a writer that is gone is forgotten: many write for seconds, and none needs a day for a look."""

ABANDONED_AFTER = 300.0
"""Seconds after which what a writer had begun is finished by another one: a store answers in seconds, and the clocks of
two machines are not minutes apart."""

Doing = Literal["add", "delete"]


class Writers:
    """The writers of one store in this process: as many as write at the same time, each with counts of its own.

    A forked process has others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._free: list[str] = []
        self._counts: dict[tuple[str, Namespace], int] = {}

    def begin(self, namespace: Namespace, doing: Doing, runs: Sequence[str]) -> tuple[str, PutOp]:
        """A writer that is free, and the note that it begins with some runs."""
        with self._lock:
            if self._process != os.getpid():
                self._begin()
            writer = self._free.pop() if self._free else uuid.uuid4().hex
        return writer, note(namespace, writer, self._counts.get((writer, namespace), 0), doing=doing, runs=list(runs))

    def is_new(self, writer: str, namespace: Namespace) -> bool:
        """Whether a writer has not written in a namespace yet."""
        return (writer, namespace) not in self._counts

    def counted(self, namespace: Namespace, writer: str) -> tuple[int, PutOp]:
        """Count a writing: how many there are now, and the note that nothing is under way."""
        with self._lock:
            count = self._counts[writer, namespace] = self._counts.get((writer, namespace), 0) + 1
        return count, note(namespace, writer, count)

    def end(self, writer: str) -> None:
        """A writer is free again. One that failed never is: its note says what is to be finished."""
        with self._lock:
            self._free.append(writer)


def note(namespace: Namespace, writer: str, count: int, **under_way: Any) -> PutOp:
    """What stands in the store about a writer."""
    return PutOp((*namespace, WRITERS), writer, {"writes": count, "at": time.time(), **under_way}, index=False)


def count_of(item: SearchItem) -> int:
    """How often a writer has written."""
    return int(item.value.get("writes", 0))


def is_forgotten(item: SearchItem) -> bool:
    """Whether a writer is gone, with nothing left undone."""
    return not _under_way(item.value) and _written_at(item) < time.time() - FORGOTTEN_AFTER


def abandoned(item: SearchItem) -> list[str]:
    """The runs that a writer has begun with and never come to the end of."""
    return [] if _written_at(item) >= time.time() - ABANDONED_AFTER else _under_way(item.value)


def _under_way(value: Mapping[str, Any]) -> list[str]:
    runs = value.get("runs")
    return [run for run in runs if isinstance(run, str)] if isinstance(runs, list) else []


def _written_at(item: SearchItem) -> float:
    at = item.value.get("at")
    return float(at) if isinstance(at, int | float) else 0.0
