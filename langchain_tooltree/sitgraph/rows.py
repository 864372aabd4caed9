"""Stored states as columns: one row a state. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.sitgraph.encoding import DIMENSIONS, SKETCH_BITS, Codes, Sketches

REMOVED = -1
"""Target of a row that no longer counts."""


@dataclass(frozen=True, slots=True)
class Rows:
    """States, in columns of equal length.

    Attributes:
        targets: The tool that came next, by the number of its node; `REMOVED` where the run was taken out.
        runs: The run that the state belongs to, by its number.
        keys: What the rows are ordered by: a hash of run and place, so that any order of adding ends in the same one.
        weights: How many states the row stands for when states are compared; 0 where another row stands for it.
        codes: The packed views, shape `(n, views, DIMENSIONS // 2)`.
        sketches: Their sketches, shape `(n, words)`.
    """

    targets: NDArray[np.int32]
    runs: NDArray[np.int32]
    keys: NDArray[np.uint64]
    weights: NDArray[np.int32]
    codes: Codes
    sketches: Sketches

    def __len__(self) -> int:
        return len(self.targets)

    @classmethod
    def empty(cls, views: int, capacity: int = 0) -> Self:
        """Room for states.

        Args:
            views: Number of views of a state.
            capacity: Number of rows.

        Returns:
            Rows with nothing in them yet.
        """
        return cls(
            targets=np.full(capacity, REMOVED, dtype=np.int32),
            runs=np.zeros(capacity, dtype=np.int32),
            keys=np.zeros(capacity, dtype=np.uint64),
            weights=np.zeros(capacity, dtype=np.int32),
            codes=np.zeros((capacity, views, DIMENSIONS // 2), dtype=np.uint8),
            sketches=np.zeros((capacity, SKETCH_BITS // 64), dtype=np.uint64),
        )

    def taken(self, places: slice | NDArray[np.integer]) -> Self:
        """Some of the rows: a view of them for a slice, a copy for an array of places."""
        return replace(self, **{column.name: getattr(self, column.name)[places] for column in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence["Rows"]) -> "Rows":
        """Rows one after the other, as a copy."""
        return Rows(**{each.name: np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)})


class GrowingRows:
    """Rows that others are added to, at a cost that does not depend on how many there are.

    Args:
        views: Number of views of a state.
    """

    def __init__(self, views: int) -> None:
        self._room = Rows.empty(views)
        self._used = 0

    @property
    def rows(self) -> Rows:
        """The rows so far; changes to them are kept."""
        return self._room.taken(slice(self._used))

    def append(self, rows: Rows) -> None:
        """Add a copy of some rows."""
        needed = self._used + len(rows)
        if needed > len(self._room):
            more = Rows.empty(rows.codes.shape[1], max(needed, 2 * len(self._room)) - self._used)
            self._room = Rows.joined([self.rows, more])
        for column in fields(Rows):
            getattr(self._room, column.name)[self._used : needed] = getattr(rows, column.name)
        self._used = needed

    def tidy(self) -> None:
        """Let go of rows that no longer count, where most do not: a run that goes on is taken out again and again."""
        kept = np.flatnonzero(self.rows.targets != REMOVED)
        if 2 * len(kept) < self._used:
            self._room = self.rows.taken(kept)
            self._used = len(kept)
