"""Vectors of states, and the table of those that runs were in. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.errors import ConfigurationError

DIMENSIONS = 288  # numbers in the vector of one view: at four bits each, a state of six views takes 864 bytes
LEVELS = 7  # largest number that four bits hold beside its negative
EXACT = 1 << 24  # whole numbers up to this are exact in single precision, and so are sums of them

Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]
Numbers = NDArray[np.int8]
Places = NDArray[np.intp]


def hashed(features: Mapping[str, float]) -> Floats:
    """A bag of weighted features as a vector of unit length, by feature hashing (Weinberger et al. 2009)."""
    vector = np.zeros(DIMENSIONS, dtype=np.float32)
    for feature, weight in features.items():
        code = crc32(feature.encode("utf-8", "replace"))
        vector[code % DIMENSIONS] += weight if code & 0x80000000 else -weight
    return unit(vector)


def projected(vectors: Sequence[Sequence[float]]) -> Floats:
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
    return unit(given)


@cache
def random_signs(rows: int, columns: int) -> Floats:
    """A matrix of random signs, the same on every machine and with every version of numpy."""
    drawn = hashlib.shake_128(f"{rows} x {columns}".encode()).digest((rows * columns + 7) // 8)
    bits = np.unpackbits(np.frombuffer(drawn, dtype=np.uint8), count=rows * columns)
    return (bits.reshape(rows, columns) * np.float32(2) - np.float32(1)).astype(np.float32)


def packed(vectors: Floats) -> Codes:
    """Vectors in four bits a number, as they are kept: `(..., DIMENSIONS)` to `(..., DIMENSIONS // 2)`."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True)
    numbers = np.rint(vectors * (LEVELS / np.where(largest > 0, largest, 1))).astype(np.int8) + 8
    half = vectors.shape[-1] // 2
    return (numbers[..., :half] | (numbers[..., half:] << 4)).astype(np.uint8)


def unpacked(codes: Codes) -> Numbers:
    """The whole numbers that packed vectors are made of; `unit` makes vectors of them, up to rounding."""
    half = codes.shape[-1]
    numbers = np.empty((*codes.shape[:-1], 2 * half), dtype=np.uint8)
    np.bitwise_and(codes, 15, out=numbers[..., :half])
    np.right_shift(codes, 4, out=numbers[..., half:])
    whole = numbers.view(np.int8)
    whole -= 8
    return whole


def unit(vectors: NDArray[Any]) -> Floats:
    """Vectors at unit length; zero stays zero."""
    numbers = vectors.astype(np.float32) if vectors.dtype == np.int8 else vectors
    lengths = np.sqrt(np.einsum("...d,...d->...", numbers, numbers))[..., None]
    return (numbers / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)


END = -1  # target of a state at which the agent answered its user

LABELS = np.dtype(
    [
        ("source", np.int32),  # the tool called last, by the number of its node
        ("before", np.int32),  # the tool called before that one
        ("target", np.int32),  # the tool that came next, or `END`
        ("place", np.int32),  # of the state in its run
        ("run", np.uint64),  # hash of the run's id
        ("voice", np.uint64),  # what the run is counted by
        ("giver", np.int64),  # whom it came from; negative, and of its own, where that is not known
    ]
)
"""What is known of each stored state beside its vectors."""


@dataclass(frozen=True, slots=True)
class Rows:
    """States: what is known of each, and the numbers of its vectors."""

    labels: NDArray[np.void]  # of the kind `LABELS`
    numbers: Numbers  # shape `(n, views, DIMENSIONS)`

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def vectors(self) -> Floats:
        """Their vectors, of unit length or zero."""
        return unit(self.numbers)

    def taken(self, places: Places | NDArray[np.bool_]) -> "Rows":
        """Some of the rows, as a copy."""
        return Rows(self.labels[places], self.numbers[places])


COMPARED = 2048
"""States that one is compared with at the most, so that a suggestion takes a few milliseconds however many there are.
Those after the same tool come first; of too many, a sample is taken that depends on the runs alone."""

STRIDE = np.uint64(0x9E3779B97F4A7C15)  # odd, so that the states of a run get keys far from each other


class States:
    """All states of a graph: a matrix that grows. Any order of adding and removing answers the same.

    It holds whole numbers in a byte each, a quarter of what floats take.
    """

    def __init__(self, views: int) -> None:
        self._labels = np.zeros(0, LABELS)
        self._matrix = np.zeros((0, views, DIMENSIONS), np.int8)
        self._used = 0
        self._waiting: list[tuple[Sequence[tuple[Any, ...]], Codes]] = []  # put in all at once when somebody asks

    def add(self, labels: Sequence[tuple[Any, ...]], codes: Codes) -> None:
        """Add the states of a run; labels are those of `LABELS`."""
        self._waiting.append((labels, codes))

    def remove(self, run: int) -> None:
        """Take out the states of a run, by its hash: the last ones move to where they were."""
        labels, matrix = self._rows()
        holes = np.flatnonzero(labels["run"] == np.uint64(run))
        self._used -= len(holes)
        moved = self._used + np.flatnonzero(labels["run"][self._used :] != np.uint64(run))
        holes = holes[: len(moved)]
        labels[holes], matrix[holes] = labels[moved], matrix[moved]

    def of_runs(self, runs: Sequence[int]) -> Rows:
        """The states of some runs, by their hashes, in the order of their keys."""
        labels, _ = self._rows()
        return self._taken(np.flatnonzero(np.isin(labels["run"], np.array(runs, dtype=np.uint64))))

    def after(self, source: int) -> Rows:
        """All states after a tool if there are no more than are compared, otherwise a sample of them."""
        labels, _ = self._rows()
        here = np.flatnonzero(labels["source"] == source)
        return self._taken(here[_first(_keys(labels[here]))])

    def compared(self, source: int) -> Rows:
        """The states that one after a tool is compared with: those after the same tool, and a sample of the others."""
        labels, _ = self._rows()
        keys = _keys(labels) >> np.uint64(1) | (labels["source"] != source).astype(np.uint64) << np.uint64(63)
        return self._taken(_first(keys))

    def _taken(self, places: Places) -> Rows:
        labels, matrix = self._rows()
        places = places[np.argsort(_keys(labels[places]), kind="stable")]
        return Rows(labels[places], matrix[places])

    def _rows(self) -> tuple[NDArray[np.void], Numbers]:
        """What is known of each state, and the matrix; changes to them are kept."""
        if self._waiting:
            labels = np.array([each for some, _ in self._waiting for each in some], dtype=LABELS)
            numbers = unpacked(np.concatenate([codes for _, codes in self._waiting]))
            self._waiting = []
            here = slice(self._used, self._used + len(labels))
            if here.stop > len(self._labels):
                more = max(here.stop, 2 * self._used) - len(self._labels)
                self._labels = np.concatenate([self._labels, np.zeros(more, LABELS)])
                room = np.zeros((more, *self._matrix.shape[1:]), np.int8)
                self._matrix = np.concatenate([self._matrix, room])
            self._labels[here], self._matrix[here] = labels, numbers
            self._used = here.stop
        return self._labels[: self._used], self._matrix[: self._used]


def _keys(labels: NDArray[np.void]) -> NDArray[np.uint64]:
    """What states are ordered by: as good as random, and the same whatever else is there."""
    keys: NDArray[np.uint64] = labels["run"] + labels["place"].astype(np.uint64) * STRIDE
    return keys


def _first(keys: NDArray[np.uint64]) -> Places:
    """The places of the `COMPARED` smallest keys."""
    return np.argpartition(keys, COMPARED)[:COMPARED] if len(keys) > COMPARED else np.arange(len(keys))


CENTERING = 1.0  # empty states that are added to the mean: one state alone would be its own mean, and so like nothing
NOTHING = 1e-6  # length below which a vector is what rounding has left of zero


def center_of(vectors: Floats) -> Floats:
    """The mean of states, drawn towards zero where they are few."""
    center: Floats = (vectors.astype(np.float64).sum(axis=0) / (len(vectors) + CENTERING)).astype(np.float32)
    return center


def centered(vectors: Floats, center: Floats) -> Floats:
    """Vectors seen from a center, with unit length; where there was nothing, there is nothing to see."""
    seen = vectors.any(axis=-1, keepdims=True)
    return np.where(seen, unit(vectors - center), 0).astype(np.float32)


CHUNK = 128  # states that are looked at together: as floats, they stay in the processor's cache


def cosines(numbers: Numbers, state: Floats, center: Floats) -> Floats:
    """Cosines of stored states and one, seen from a center: shape `(n, views)`, 0 where one of them is empty."""
    known = state.any(axis=-1)
    state = state - center
    sums = np.empty((3, *numbers.shape[:2]), dtype=np.float32)
    for begin in range(0, len(numbers), CHUNK):
        here = slice(begin, begin + CHUNK)
        part = numbers[here].astype(np.float32)
        sums[0, here] = np.einsum("nvd,vd->nv", part, state)
        sums[1, here] = np.einsum("nvd,vd->nv", part, center)
        sums[2, here] = np.einsum("nvd,nvd->nv", part, part)
    lengths = np.sqrt(sums[2])
    along, off = sums[:2] / np.where(lengths > 0, lengths, 1)
    # Multiplied out: (x - c)(s - c) = x (s - c) - c (s - c).
    products: Floats = along - np.einsum("vd,vd->v", center, state)
    radii = np.sqrt(np.maximum(1 - 2 * off + np.einsum("vd,vd->v", center, center), 0))
    radii *= np.sqrt(np.einsum("vd,vd->v", state, state))
    seen = (lengths > 0) & known & (radii > NOTHING)
    similar: Floats = np.divide(products, radii, out=np.zeros_like(products), where=seen)
    return similar
