"""The states stored at the edges that leave one tool, and which of them are like a given state. Pure."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.sitgraph.encoding import (
    Codes,
    Floats,
    Sketches,
    distances,
    numbers_of,
    packed,
    sketched,
    unpacked,
)
from langchain_tooltree.sitgraph.rows import REMOVED, GrowingRows, Rows

COMPARED = 2048
"""States that are compared number by number; if there are more, those whose sketches are nearest."""

CENTERING = 16.0
"""States of no content that the mean is drawn towards zero by: the mean of few states says little."""

NOTHING = 1e-6
"""Length below which a vector is what rounding has left of zero."""

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
        self._added = GrowingRows(views)
        self._max_states = max_states
        self._mean: Floats | None = None
        self._crowded: set[int] = set()

    def __len__(self) -> int:
        return int(np.count_nonzero(self._column("targets") != REMOVED))

    def add(self, rows: Rows) -> None:
        """Add states; they are copied."""
        self._added.append(rows)
        self._change(rows.targets)

    def remove(self, run: int) -> list[int]:
        """Take out the states of a run.

        Args:
            run: Its number.

        Returns:
            The keys of its states.
        """
        places = np.flatnonzero(self._column("runs") == run)
        keys: list[int] = self._column("keys")[places].tolist()
        self._change(self._column("targets")[places])
        self._write("targets", places, REMOVED)
        self._write("weights", places, 0)
        self._added.tidy()
        return keys

    def spread(self) -> None:
        """Choose anew which states stand for which, at all edges."""
        self._change(self._column("targets"))

    def rows(self) -> Rows:
        """All states in the order of their keys, as a copy."""
        self._spread()
        return self._taken(np.flatnonzero(self._column("targets") != REMOVED))

    def counts(self) -> Counter[int]:
        """How many states there are at the edge to each tool, by the number of its node."""
        targets = self._column("targets")
        return Counter(targets[targets != REMOVED].tolist())

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
        return Likeness(near, cosines(near.codes, state, self._center() if centered else np.zeros_like(state)))

    def _nearest(self, state: Floats) -> Places:
        """The places of the states to compare a state with."""
        places = np.flatnonzero(self._column("weights"))
        if len(places) <= COMPARED:
            return places
        sketch = sketched(packed(state)[None])[0]
        apart = np.concatenate([distances(part.sketches[here], sketch) for part, here in self._located(places)])
        farthest = np.partition(apart, COMPARED - 1)[COMPARED - 1]
        near, tied = places[apart < farthest], places[apart == farthest]
        tied = tied[np.argsort(self._column("keys")[tied])]  # not the order in which they were added
        return np.sort(np.concatenate([near, tied[: COMPARED - len(near)]]))

    def _center(self) -> Floats:
        """The mean of the states, drawn towards zero; where there are many, of a sample: their keys are random."""
        if self._mean is None:
            places = np.flatnonzero(self._column("targets") != REMOVED)
            if len(places) > COMPARED:
                places = np.sort(places[np.argpartition(self._column("keys")[places], COMPARED - 1)[:COMPARED]])
            total = unpacked(self._taken(places).codes).sum(axis=0, dtype=np.float64)
            self._mean = (total / (len(places) + CENTERING)).astype(np.float32)
        return self._mean

    def _spread(self) -> None:
        """Choose anew which states stand for which at the edges that have changed."""
        for target in self._crowded:
            places = np.flatnonzero(self._column("targets") == target)
            weights = np.ones(len(places), dtype=np.int32)
            if self._max_states is not None and len(places) > self._max_states:
                order = np.argsort(self._column("keys")[places], kind="stable")
                sketches = np.concatenate([part.sketches[here] for part, here in self._located(places)])
                weights[order] = stand_ins(sketches[order], self._max_states)
            self._write("weights", places, weights)
        self._crowded.clear()

    def _change(self, targets: NDArray[np.int32]) -> None:
        self._mean = None
        self._crowded.update(np.unique(targets[targets != REMOVED]).tolist())

    def _column(self, name: str) -> NDArray[Any]:
        stored, added = getattr(self._stored, name), getattr(self._added.rows, name)
        return np.concatenate([stored, added]) if len(added) else stored

    def _write(self, name: str, places: Places, values: NDArray[np.int32] | int) -> None:
        values = np.broadcast_to(values, places.shape)
        begun = 0
        for part, here in self._located(places):
            getattr(part, name)[here] = values[begun : begun + len(here)]
            begun += len(here)

    def _taken(self, places: Places) -> Rows:
        """Rows in the order of their keys."""
        rows = Rows.joined([part.taken(here) for part, here in self._located(places)])
        return rows.taken(np.argsort(rows.keys, kind="stable"))

    def _located(self, places: Places) -> list[tuple[Rows, Places]]:
        """Ascending places, apart for the rows that were read from a file and those that were added since."""
        first = int(np.searchsorted(places, len(self._stored)))
        return [(self._stored, places[:first]), (self._added.rows, places[first:] - len(self._stored))]


def stand_ins(sketches: Sketches, limit: int) -> NDArray[np.int32]:
    """Choose the most diverse of some states, each standing for those that are nearest to it.

    Each choice is the state farthest from all chosen before it (Gonzalez 1985), the first of the list to begin with.

    Args:
        sketches: Their sketches, shape `(n, words)`.
        limit: How many to choose.

    Returns:
        For each state, how many it stands for, itself included; 0 if another one stands for it.
    """
    count = len(sketches)
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


def cosines(codes: Codes, state: Floats, center: Floats) -> Floats:
    """How similar stored states are to one, seen from a center.

    Args:
        codes: Packed states, shape `(n, views, DIMENSIONS // 2)`.
        state: The state, shape `(views, DIMENSIONS)`.
        center: What is taken off all of them, in the same shape.

    Returns:
        Cosines, one a view, shape `(n, views)`; 0 where there is nothing to see.
    """
    numbers = numbers_of(codes)
    lengths = np.sqrt(np.einsum("nvd,nvd->nv", numbers, numbers))
    lengths[lengths == 0] = 1
    state = state - center
    # Multiplied out, so that the many states are read but never written: (x - c)(s - c) = x (s - c) - c (s - c).
    along = np.stack([numbers[:, view] @ state[view] for view in range(len(state))], axis=1) / lengths
    off = np.stack([numbers[:, view] @ center[view] for view in range(len(state))], axis=1) / lengths
    seen = numbers.any(axis=2)
    radii = np.sqrt(np.maximum(seen - 2 * off + np.einsum("vd,vd->v", center, center), 0))
    radii *= np.sqrt(np.einsum("vd,vd->v", state, state))
    products: Floats = along - np.einsum("vd,vd->v", center, state)
    similar: Floats = np.divide(products, radii, out=np.zeros_like(products), where=radii > NOTHING)
    return similar
