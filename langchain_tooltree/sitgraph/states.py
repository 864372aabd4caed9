"""The states stored at the edges that leave one tool, and which of them are like a given state. Pure."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.sitgraph.encoding import Floats, Sketches, distances, packed, sketched, unpacked
from langchain_tooltree.sitgraph.rows import REMOVED, Rows

COMPARED = 2048
"""States that are compared number by number; if there are more, those whose sketches are nearest."""

CENTERING = 16.0
"""States of no content that the mean is drawn towards zero by: the mean of few states says little."""

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Likeness:
    """Stored states and how similar they are to a given one.

    Attributes:
        rows: The stored states, in the order of their keys.
        similarities: Cosines, one a view, shape `(n, views)`.
    """

    rows: Rows
    similarities: Floats


class SourceStates:
    """States at the edges that leave one tool.

    Args:
        views: Number of views of a state.
        max_states: States an edge that are compared, the most diverse ones; `None` for all.
        stored: Rows read from a file. They may be larger than memory: they are never copied as a whole.
    """

    def __init__(self, views: int, *, max_states: int | None, stored: Rows | None = None) -> None:
        self._stored = Rows.empty(views) if stored is None else stored
        self._added = Rows.empty(views)
        self._max_states = max_states
        self._mean: Floats | None = None
        self._crowded: set[int] = set()

    def __len__(self) -> int:
        return int(np.count_nonzero(self._column("targets") != REMOVED))

    def add(self, rows: Rows) -> None:
        """Add states; they are copied."""
        self._added = Rows.joined([self._added, rows])
        self._change(rows.targets)

    def remove(self, run: int) -> None:
        """Take out the states of a run."""
        places = np.flatnonzero(self._column("runs") == run)
        self._change(self._column("targets")[places])
        self._write("targets", places, REMOVED)
        self._write("weights", places, 0)

    def spread(self) -> None:
        """Choose anew which states stand for which, at all edges."""
        self._change(self._column("targets"))

    def rows(self) -> Rows:
        """All states in the order of their keys, as a copy."""
        self._spread()
        return self._taken(np.flatnonzero(self._column("targets") != REMOVED))

    def compare(self, state: Floats, *, centered: bool) -> Likeness:
        """Compare a state with the stored ones.

        Args:
            state: Its views, shape `(views, DIMENSIONS)`.
            centered: Whether what the states of this tool have in common is left out of the comparison.

        Returns:
            The stored states that were compared, and their similarities.
        """
        self._spread()
        near = self._taken(self._nearest(state))
        vectors = unpacked(near.codes)
        if centered:
            mean = self._center()
            vectors, state = vectors - mean, state - mean
        lengths = np.sqrt(np.einsum("nvd,nvd->nv", vectors, vectors)) * np.sqrt(np.einsum("vd,vd->v", state, state))
        similarities = np.einsum("nvd,vd->nv", vectors, state) / np.where(lengths > 0, lengths, 1)
        return Likeness(near, similarities)

    def _nearest(self, state: Floats) -> Places:
        """The places of the states to compare a state with."""
        places = np.flatnonzero(self._column("weights"))
        if len(places) <= COMPARED:
            return places
        apart = distances(self._column("sketches")[places], sketched(packed(state)[None])[0])
        return places[np.argpartition(apart, COMPARED - 1)[:COMPARED]]

    def _center(self) -> Floats:
        """The mean of the states, drawn towards zero; where there are many, of a sample: their keys are random."""
        if self._mean is None:
            places = np.flatnonzero(self._column("targets") != REMOVED)
            if len(places) > COMPARED:
                places = places[np.argpartition(self._column("keys")[places], COMPARED - 1)[:COMPARED]]
            total = unpacked(self._taken(places).codes).sum(axis=0, dtype=np.float64)
            self._mean = (total / (len(places) + CENTERING)).astype(np.float32)
        return self._mean

    def _spread(self) -> None:
        """Choose anew which states stand for which at the edges that have changed."""
        for target in self._crowded:
            places = np.flatnonzero(self._column("targets") == target)
            places = places[np.argsort(self._column("keys")[places], kind="stable")]
            self._write("weights", places, stand_ins(self._column("sketches")[places], self._max_states))
        self._crowded.clear()

    def _change(self, targets: NDArray[np.int32]) -> None:
        self._mean = None
        self._crowded.update(np.unique(targets[targets != REMOVED]).tolist())

    def _column(self, name: str) -> NDArray[Any]:
        stored: NDArray[Any] = getattr(self._stored, name)
        return np.concatenate([stored, getattr(self._added, name)]) if len(self._added) else stored

    def _write(self, name: str, places: Places, values: Any) -> None:
        values = np.broadcast_to(values, places.shape)
        first = places < len(self._stored)
        getattr(self._stored, name)[places[first]] = values[first]
        getattr(self._added, name)[places[~first] - len(self._stored)] = values[~first]

    def _taken(self, places: Places) -> Rows:
        """Rows in the order of their keys."""
        first = places < len(self._stored)
        parts = [self._stored.taken(places[first]), self._added.taken(places[~first] - len(self._stored))]
        rows = Rows.joined(parts)
        return rows.taken(np.argsort(rows.keys, kind="stable"))


def stand_ins(sketches: Sketches, limit: int | None) -> NDArray[np.int32]:
    """Choose the most diverse of some states, each standing for those that are nearest to it.

    Each choice is the state farthest from all chosen before it (Gonzalez 1985), the first of the list to begin with.

    Args:
        sketches: Their sketches, shape `(n, words)`.
        limit: How many to choose; `None` for all.

    Returns:
        For each state, how many it stands for, itself included; 0 if another one stands for it.
    """
    count = len(sketches)
    if limit is None or count <= limit:
        return np.ones(count, dtype=np.int32)
    nearest = np.zeros(count, dtype=np.intp)
    apart = distances(sketches, sketches[0])
    for _ in range(limit - 1):
        farthest = int(apart.argmax())
        if not apart[farthest]:
            break
        closer = distances(sketches, sketches[farthest])
        nearest[closer < apart] = farthest
        apart = np.minimum(apart, closer)
    return np.bincount(nearest, minlength=count).astype(np.int32)
