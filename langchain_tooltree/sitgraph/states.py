"""The states stored at the edges that leave one tool, and which of them are like a given state. Pure."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.errors import ConfigurationError

DIMENSIONS = 288  # numbers in the vector of one view: at four bits each, a state of six views takes 864 bytes
LEVELS = 7  # largest number that four bits hold beside its negative
EXACT = 1 << 24  # whole numbers up to this are exact in single precision, and so are sums of them
SKETCH_BITS = 512  # bits of a sketch of all views: 64 bytes beside the 864 of the packed vectors that it stands for


Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]
Sketches = NDArray[np.uint64]


def vector_of(features: Mapping[str, float]) -> Floats:
    """A bag of weighted features as a vector of unit length, by feature hashing (Weinberger et al. 2009)."""
    vector = np.zeros(DIMENSIONS, dtype=np.float32)
    for feature, weight in features.items():
        code = crc32(feature.encode("utf-8", "replace"))
        vector[code % DIMENSIONS] += weight if code & 0x80000000 else -weight
    return _unit(vector)


def fitted(vectors: Sequence[Sequence[float]]) -> Floats:
    """Vectors of an embedding model, brought to `DIMENSIONS` numbers and unit length.

    Longer ones are projected at random, which keeps their angles (Johnson and Lindenstrauss 1984); shorter ones are
    filled up with zeros.
    """
    given = np.asarray(vectors, dtype=np.float64)
    if not np.isfinite(given).all():
        msg = "The embedder gave a vector with numbers that are infinite or NaN. Look at its model and its server."
        raise ConfigurationError(msg)
    if given.size == 0:
        return np.zeros((len(given), DIMENSIONS), dtype=np.float32)
    if given.shape[1] > DIMENSIONS:
        # Exact sums are the same in any order, so a text gets the same vector in a batch of any size.
        largest = np.abs(given).max(axis=1, keepdims=True)
        whole = np.rint(given * (EXACT // given.shape[1] / np.where(largest > 0, largest, 1))).astype(np.float32)
        given = (whole @ random_signs(given.shape[1], DIMENSIONS)).astype(np.float64)
    elif given.shape[1] < DIMENSIONS:
        given = np.pad(given, ((0, 0), (0, DIMENSIONS - given.shape[1])))
    return _unit(given)


@cache
def random_signs(rows: int, columns: int) -> Floats:
    """A matrix of random signs, the same on every machine and with every version of numpy."""
    drawn = hashlib.shake_128(f"{rows} x {columns}".encode()).digest((rows * columns + 7) // 8)
    bits = np.unpackbits(np.frombuffer(drawn, dtype=np.uint8), count=rows * columns)
    return (bits.reshape(rows, columns) * np.float32(2) - np.float32(1)).astype(np.float32)


def packed(vectors: Floats) -> Codes:
    """Vectors in four bits a number: `(..., DIMENSIONS)` to `(..., DIMENSIONS // 2)`. Lengths are not kept."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True)
    numbers = np.rint(vectors * (LEVELS / np.where(largest > 0, largest, 1))).astype(np.int8) + 8
    half = vectors.shape[-1] // 2
    return (numbers[..., :half] | (numbers[..., half:] << 4)).astype(np.uint8)


def unpacked(codes: Codes) -> Floats:
    """The inverse of `packed`, up to rounding: vectors of unit length, or zero."""
    return _unit(numbers_of(codes))


def numbers_of(codes: Codes) -> Floats:
    """The numbers that packed vectors are made of, from -`LEVELS` to `LEVELS`: vectors in the right direction."""
    half = codes.shape[-1]
    numbers = np.empty((*codes.shape[:-1], 2 * half), dtype=np.float32)
    numbers[..., :half] = codes & 15
    numbers[..., half:] = codes >> 4
    numbers -= 8
    return numbers


def sketched(codes: Codes) -> Sketches:
    """The signs of random projections of states (Charikar 2002): similar states differ in few bits."""
    count, views, _ = codes.shape
    bits = np.zeros((count, SKETCH_BITS), dtype=bool)
    width = SKETCH_BITS // views
    projected = numbers_of(codes) @ random_signs(DIMENSIONS, width)  # whole numbers: exact, so the same everywhere
    bits[:, : views * width] = projected.reshape(count, -1) > 0
    return np.packbits(bits, axis=1).view(np.uint64)


def distances(sketches: Sketches, sketch: Sketches) -> NDArray[np.int64]:
    """In how many bits each of some sketches differs from one."""
    apart: NDArray[np.int64] = np.bitwise_count(sketches ^ sketch).sum(axis=1, dtype=np.int64)
    return apart


def _unit(vectors: NDArray[Any]) -> Floats:
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


REMOVED = -1  # target of a row that no longer counts


@dataclass(frozen=True, slots=True)
class Rows:
    """States, in columns of equal length. Any order of adding them ends in the same order by key."""

    targets: NDArray[np.int32]  # the tool that came next, by the number of its node; `REMOVED` if the run was taken out
    runs: NDArray[np.int32]  # the run that the state belongs to, by its number
    keys: NDArray[np.uint64]  # what the rows are ordered by: a hash of run and place
    weights: NDArray[np.int32]  # how many states the row stands for in comparisons; 0 where another row stands for it
    codes: Codes  # the packed views, shape `(n, views, DIMENSIONS // 2)`
    sketches: Sketches  # of the views, shape `(n, words)`

    def __len__(self) -> int:
        return len(self.targets)

    @classmethod
    def empty(cls, views: int, capacity: int = 0) -> Self:
        """Room for `capacity` states of so many views."""
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
    """Rows that others are added to, at a cost that does not depend on how many there are."""

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


COMPARED = 2048  # states that are compared number by number, to bound the time; of more, those nearest by sketch
CENTERING = 16.0  # empty states that are added to the mean, by choice: the mean of few states says little
NOTHING = 1e-6  # length below which a vector is what rounding has left of zero

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Likeness:
    """Stored states in the order of their keys, and their cosines with a given one, shape `(n, views)`."""

    rows: Rows
    similarities: Floats


class SourceStates:
    """States at the edges that leave one tool.

    `max_states` an edge are compared, the most diverse ones. Rows read from a file may be larger than memory: they are
    never copied as a whole.
    """

    def __init__(self, views: int, *, max_states: int | None, stored: Rows | None = None) -> None:
        self._stored = Rows.empty(views) if stored is None else stored
        self._added = GrowingRows(views)
        self._max_states = max_states
        self._mean: Floats | None = None
        self._crowded: set[int] = set()

    def add(self, rows: Rows) -> None:
        """Add states; they are copied."""
        self._added.append(rows)
        self._change(rows.targets)

    def remove(self, run: int) -> list[int]:
        """Take out the states of a run, by its number; returns their keys."""
        places = np.flatnonzero(self._column("runs") == run)
        keys: list[int] = self._column("keys")[places].tolist()
        self._change(self._column("targets")[places])
        self._write("targets", places, REMOVED)
        self._write("weights", places, 0)
        self._added.tidy()
        return keys

    def spread(self) -> None:
        """Choose again which states stand for which, at all edges."""
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
        """Compare a state with the stored ones; `centered` leaves out what the states of this tool have in common."""
        self._spread()
        near = self._taken(self._nearest(state))
        return Likeness(near, cosines(near.codes, state, self._center() if centered else np.zeros_like(state)))

    def _nearest(self, state: Floats) -> Places:
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
        """Choose which states stand for which at the edges that have changed."""
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
        rows = Rows.joined([part.taken(here) for part, here in self._located(places)])
        return rows.taken(np.argsort(rows.keys, kind="stable"))

    def _located(self, places: Places) -> list[tuple[Rows, Places]]:
        """Ascending places, apart for the rows that were read from a file and those that were added since."""
        first = int(np.searchsorted(places, len(self._stored)))
        return [(self._stored, places[:first]), (self._added.rows, places[first:] - len(self._stored))]


def stand_ins(sketches: Sketches, limit: int) -> NDArray[np.int32]:
    """For each state, how many it stands for, among the `limit` most diverse ones; 0 if another stands for it.

    Each choice is the state farthest from all chosen before it (Gonzalez 1985), the first of the list to begin with.
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
    """Cosines of stored states and one, seen from a center: shape `(n, views)`, 0 where there is nothing to see."""
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
