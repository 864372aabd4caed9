"""What a process holds in memory of one namespace: its entries as of one state of the store, and vectors of tasks."""

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.text import forget_oldest

RELIST_SECONDS = 300.0
"""Seconds after which entries are listed anew though the head is the same: of two processes that write at the same
moment, one may overwrite the other's token, and who wrote last would not hear of the other."""

MOST_MOVES = 64
"""Own writes under way whose order is not known yet: far more than threads write at the same time."""

PENDING = "pending"
"""Outcome of a run that nobody has judged yet, and the key of its metadata under which it stands when it ended: in
seconds since 1970, and 0 for one that cannot go on."""

FEWEST_ROWS = 64
"""Rows that there is room for at first; it is doubled when they are used up."""

Vector = NDArray[np.float32]
Given = Sequence[float] | NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class RunEntry:
    """What is known of a record without reading it: its version changes whenever the record does."""

    outcome: str
    version: str
    task: str = ""  # what is searched
    since: float = 0.0  # when a pending run ended, as its metadata say
    tips: Sequence[str] = ()  # the ids of those that were recalled for it
    runs: Sequence[str] = ()  # and of the runs
    reply: str = ""  # the id of its first reply, by which a conversation that goes on is known
    taken_of: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the runs that each of the tips was taken of


class Catalogue:
    """The entries of one namespace, as they were listed last, with the own writes since.

    `token` is what the head of the namespace held then. Each write puts a new token there, so that one small read says
    whether anybody else has written.
    """

    def __init__(self) -> None:
        self.entries: dict[str, RunEntry] = {}
        self.pending: dict[str, float] = {}  # when runs without a verdict ended, by their ids
        self.tasks = TaskVectors()
        self.changes = 0  # how often the entries have changed, by a listing or a write
        self._token: str | None = None
        self._listed_at = -math.inf
        self._moves: dict[str | None, str] = {}  # own writes, by the token that each has replaced
        self._lock = threading.Lock()

    def is_current(self, token: str | None) -> bool:
        """Whether the entries are those of the store, whose head holds this token."""
        return token == self._token and time.monotonic() < self._listed_at + RELIST_SECONDS

    def list(self, entries: dict[str, RunEntry], token: str | None) -> None:
        """Take entries that were listed after the head was read, which held this token."""
        with self._lock:
            self.entries, self._token, self._listed_at = entries, token, time.monotonic()
            self._moves.clear()
            self.pending = {run: entry.since for run, entry in entries.items() if entry.outcome == PENDING}
            self.changes += 1

    def write(self, entries: Mapping[str, RunEntry | None], before: str | None, token: str) -> None:
        """Take an own write: entries that are new, `None` for deleted ones, and the token that it has replaced.

        Threads may end in another order than they wrote in. Where somebody else has written in between, the token stays
        as it was, so that the next look lists all entries.
        """
        with self._lock:
            for run, entry in entries.items():
                self.pending.pop(run, None)
                if entry is None:
                    self.entries.pop(run, None)
                    continue
                self.entries[run] = entry
                if entry.outcome == PENDING:
                    self.pending[run] = entry.since
            self.changes += 1
            self._moves[before] = token
            while self._token in self._moves:
                self._token = self._moves.pop(self._token)
            forget_oldest(self._moves, MOST_MOVES)


class TaskVectors:
    """Vectors of tasks, one row a run, for stores that have no index of their own."""

    def __init__(self) -> None:
        self._tasks: dict[str, str] = {}
        self._rows: dict[str, int] = {}
        self._matrix: Vector = np.zeros((0, 0), np.float32)
        self._waiting: dict[str, Given] = {}  # put into the matrix when somebody asks
        self._whole_at: int | None = None
        self._lock = threading.Lock()

    def missing(self, changes: int, entries: Mapping[str, RunEntry]) -> dict[str, str]:
        """The tasks without a vector, by the ids of their runs; vectors of runs that are gone are dropped.

        After as many `changes` as when all had one, none is missing.
        """
        with self._lock:
            if changes == self._whole_at:
                return {}
            if self._tasks.keys() - entries.keys():
                self._merge()
                kept = [run for run in self._rows if run in entries]
                self._matrix = self._matrix[[self._rows[run] for run in kept]]
                self._rows = {run: row for row, run in enumerate(kept)}
                self._tasks = {run: self._tasks[run] for run in kept}
            missing = {run: entry.task for run, entry in list(entries.items()) if self._tasks.get(run) != entry.task}
            self._whole_at = None if missing else changes
            return missing

    def add(self, tasks: dict[str, str], vectors: Mapping[str, Given]) -> None:
        """Keep the vectors of tasks, each by its text, for the runs that have them."""
        with self._lock:
            self._tasks |= tasks
            self._waiting |= {run: vectors[task] for run, task in tasks.items()}

    def _merge(self) -> None:
        if not self._waiting:
            return
        rows = [self._rows.setdefault(run, len(self._rows)) for run in self._waiting]
        given = _unit(np.array([*self._waiting.values()], dtype=np.float32))
        if len(self._rows) > len(self._matrix):
            more = np.zeros((max(FEWEST_ROWS, len(self._matrix), len(rows)), given.shape[1]), np.float32)
            self._matrix = np.concatenate([self._matrix, more]) if len(self._matrix) else more
        self._matrix[rows] = given
        self._waiting = {}

    def of(self, runs: Sequence[str]) -> dict[str, Vector]:
        """The vectors of the tasks of some runs, as far as there are any."""
        with self._lock:
            self._merge()
            return {run: self._matrix[self._rows[run]].copy() for run in runs if run in self._rows}

    def nearest(
        self, query: Sequence[float], k: int, entries: Mapping[str, RunEntry], outcome: str | None
    ) -> list[str]:
        """The `k` runs whose tasks have the highest cosine similarity, best first, and of equal ones by their ids."""
        with self._lock:
            self._merge()
            runs = list(self._rows)
            wanted = _unit(np.array([query], dtype=np.float32))[0]
            similarities = self._matrix[: len(runs)] @ wanted if runs else np.zeros(0, np.float32)
        fits = (run in entries and outcome in (None, entries[run].outcome) for run in runs)
        places = np.flatnonzero(np.fromiter(fits, bool, len(runs)))
        if len(places) > k:  # all that are as near as the last one stay, so that ids decide between them
            least = np.partition(similarities[places], -k)[-k] if k else math.inf
            places = places[similarities[places] >= least]
        ranked = sorted((-float(similarities[place]), runs[place]) for place in places.tolist())
        return [run for _, run in ranked[:k]]


def _unit(vectors: Vector) -> Vector:
    """Vectors of unit length, or zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vector = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return unit
