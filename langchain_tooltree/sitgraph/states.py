"""The states that runs were in, and which of them are like a given one. Pure."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
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
    # Bit by bit the views take turns, so that the first words of a sketch tell of all of them.
    bits[:, : views * width] = (projected > 0).transpose(0, 2, 1).reshape(count, -1)
    return np.packbits(bits, axis=1).view(np.uint64)


def distances(sketches: Sketches, sketch: Sketches) -> NDArray[np.int64]:
    """In how many bits each of some sketches differs from one."""
    apart: NDArray[np.int64] = np.bitwise_count(sketches ^ sketch).sum(axis=1, dtype=np.int64)
    return apart


def _unit(vectors: NDArray[Any]) -> Floats:
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


REMOVED = -1  # target of a row that no longer counts
END = -2  # target of a state at which the agent answered its user


@dataclass(frozen=True, slots=True)
class Rows:
    """States, in columns of equal length. Any order of adding them ends in the same order by key."""

    sources: NDArray[np.int32]  # the tool called last, by the number of its node
    befores: NDArray[np.int32]  # the tool called before that one
    targets: NDArray[np.int32]  # the tool that came next; `END`, or `REMOVED` if the run was taken out
    runs: NDArray[np.int32]  # the run that the state belongs to, by its number
    keys: NDArray[np.uint64]  # what the rows are ordered by: a hash of run and place
    codes: Codes  # the packed views, shape `(n, views, DIMENSIONS // 2)`
    sketches: Sketches  # of the views, shape `(n, words)`

    def __len__(self) -> int:
        return len(self.targets)

    @classmethod
    def empty(cls, views: int, capacity: int = 0) -> Self:
        """Room for `capacity` states of so many views."""
        return cls(
            sources=np.full(capacity, REMOVED, dtype=np.int32),
            befores=np.full(capacity, REMOVED, dtype=np.int32),
            targets=np.full(capacity, REMOVED, dtype=np.int32),
            runs=np.zeros(capacity, dtype=np.int32),
            keys=np.zeros(capacity, dtype=np.uint64),
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


COMPARED = 1024  # states that are compared number by number, to bound the time; of more, those nearest by sketch
GLANCED = 8 * COMPARED  # states whose whole sketches are compared; of more, those nearest by its first words
GLANCE = 2  # words of a sketch that are compared with those of every state
CHUNK = 1 << 15  # states that are looked at together: what comes of them stays in the processor's cache
UNIT = 1 << 30  # stands for 1 in sums of vectors: whole numbers give the same sum in any order, floats do not
CENTERING = 1.0  # empty states that are added to the mean: one state alone would be its own mean, and so like nothing
NOTHING = 1e-6  # length below which a vector is what rounding has left of zero

Places = NDArray[np.intp]


class States:
    """All states that were stored.

    Rows read from a file may be larger than memory: they are never copied as a whole. `total` is their sum.
    """

    def __init__(self, views: int, stored: Rows | None = None, total: NDArray[np.int64] | None = None) -> None:
        self._stored = Rows.empty(views) if stored is None else stored
        self._added = GrowingRows(views)
        self._total = np.zeros((views, DIMENSIONS), dtype=np.int64) if total is None else total.copy()
        self._count = len(self._stored)

    def __len__(self) -> int:
        return self._count

    @property
    def total(self) -> NDArray[np.int64]:
        """The sum of all states, in units of 1 / `UNIT`."""
        return self._total

    @property
    def center(self) -> Floats:
        """The mean of all states, drawn towards zero where they are few."""
        return (self._total / UNIT / (self._count + CENTERING)).astype(np.float32)

    def add(self, rows: Rows) -> None:
        """Add states; they are copied."""
        self._added.append(rows)
        self._count += len(rows)
        self._total += summed(rows.codes)

    def remove(self, run: int) -> list[int]:
        """Take out the states of a run, by its number; returns their keys."""
        keys: list[int] = []
        for part in self._parts():
            here = np.flatnonzero((part.runs == run) & (part.targets != REMOVED))
            keys += part.keys[here].tolist()
            self._count -= len(here)
            self._total -= summed(part.codes[here])
            part.targets[here] = REMOVED
        self._added.tidy()
        return keys

    def rows(self) -> Rows:
        """All states in the order of their keys, as a copy."""
        return self._chosen(lambda part: part.targets != REMOVED)

    def of_runs(self, runs: Sequence[int]) -> Rows:
        """The states of some runs in the order of their keys."""
        return self._chosen(lambda part: np.isin(part.runs, runs) & (part.targets != REMOVED))

    def by_edge(self) -> dict[tuple[int, int], int]:
        """How many states there are at each edge, by the numbers of its nodes."""
        parts = [np.stack([part.sources, part.targets])[:, part.targets >= 0] for part in self._parts()]
        edges, counts = np.unique(np.concatenate(parts, axis=1), axis=1, return_counts=True)
        return dict(zip(map(tuple, edges.T.tolist()), counts.tolist(), strict=True))

    def near(self, state: Floats, *, source: int | None = None, ends: bool = False) -> Rows:
        """The `COMPARED` states most like one by their sketches, in the order of their keys.

        Of those after the tool `source` if one is given; those at which the agent answered its user only with `ends`.
        """
        sketch = sketched(packed(state)[None])[0]
        parts, places = self._parts(), []
        for part in parts:
            kept = part.targets != REMOVED if ends else part.targets >= 0
            if source is not None:
                kept &= part.sources == source
            places.append(_glanced(part.sketches, sketch, kept))
        found = list(zip(parts, places, strict=True))
        apart = np.concatenate([distances(part.sketches[here], sketch) for part, here in found])
        keys = np.concatenate([part.keys[here] for part, here in found])
        nearest = np.zeros(len(keys), dtype=bool)
        nearest[np.lexsort((keys, apart))[:COMPARED]] = True  # ties by key, not in the order in which they were added
        first = len(places[0])
        stored, added = places[0][nearest[:first]], places[1][nearest[first:]]
        return _by_key([parts[0].taken(stored), parts[1].taken(added)])

    def _chosen(self, choose: Callable[[Rows], NDArray[np.bool_]]) -> Rows:
        return _by_key([part.taken(np.flatnonzero(choose(part))) for part in self._parts()])

    def _parts(self) -> tuple[Rows, Rows]:
        return self._stored, self._added.rows


def _by_key(parts: Sequence[Rows]) -> Rows:
    rows = Rows.joined(parts)
    return rows.taken(np.argsort(rows.keys, kind="stable"))


def _glanced(sketches: Sketches, sketch: Sketches, kept: NDArray[np.bool_]) -> Places:
    """The places of about `GLANCED` kept states that are nearest by the first words of their sketches."""
    if len(kept) <= GLANCED:
        return np.flatnonzero(kept)
    apart = np.empty(len(sketches), dtype=np.uint8)
    for begin in range(0, len(sketches), CHUNK):
        here = slice(begin, begin + CHUNK)
        apart[here] = sum(np.bitwise_count(sketches[here, word] ^ sketch[word]) for word in range(GLANCE))
    apart[~kept] = 255
    enough = int(np.searchsorted(np.cumsum(np.bincount(apart, minlength=256)), GLANCED))
    return np.flatnonzero(apart <= min(enough, 254))


def summed(codes: Codes) -> NDArray[np.int64]:
    """The sum of states as unit vectors, in units of 1 / `UNIT`."""
    total: NDArray[np.int64] = np.rint(unpacked(codes).astype(np.float64) * UNIT).astype(np.int64).sum(axis=0)
    return total


def centered(vectors: Floats, center: Floats) -> Floats:
    """Vectors seen from a center, with unit length; where there was nothing, there is nothing to see."""
    seen = vectors.any(axis=-1, keepdims=True)
    return np.where(seen, _unit(vectors - center), 0).astype(np.float32)


def cosines(codes: Codes, state: Floats, center: Floats) -> Floats:
    """Cosines of stored states and one, seen from a center: shape `(n, views)`, 0 where one of them is empty."""
    numbers = numbers_of(codes)
    lengths = np.sqrt(np.einsum("nvd,nvd->nv", numbers, numbers))
    lengths[lengths == 0] = 1
    known = state.any(axis=-1)
    state = state - center
    # Multiplied out, so that the many states are read but never written: (x - c)(s - c) = x (s - c) - c (s - c).
    along = np.stack([numbers[:, view] @ state[view] for view in range(len(state))], axis=1) / lengths
    off = np.stack([numbers[:, view] @ center[view] for view in range(len(state))], axis=1) / lengths
    seen = numbers.any(axis=2) & known
    radii = np.sqrt(np.maximum(1 - 2 * off + np.einsum("vd,vd->v", center, center), 0))
    radii *= np.sqrt(np.einsum("vd,vd->v", state, state))
    products: Floats = along - np.einsum("vd,vd->v", center, state)
    similar: Floats = np.divide(products, radii, out=np.zeros_like(products), where=seen & (radii > NOTHING))
    return similar
