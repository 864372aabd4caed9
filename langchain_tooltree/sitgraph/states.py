"""Vectors of states, and the table of the states that runs were in. Pure."""

import base64
import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from langchain_tooltree.errors import ConfigurationError

DIMENSIONS = 288  # numbers in the vector of a view: at a byte each, a state of six views takes 1,728 bytes
LARGEST = 7  # of the whole numbers that vectors are kept in: they compress well, and finer ones foretell no better
EXACT = (
    1 << 24
)  # whole numbers up to this are exact in single precision, and so are sums of them
COMPARED = 1024  # states that one is compared with at most: a suggestion takes some milliseconds in a graph of any size
MAX_CACHED_STATES = (
    1 << 15
)  # states whose vectors are kept as they were put together for a question: 57 MB
ANY = -3  # stands for all tools, of which none has this number
CHUNK = 256  # states that are compared together: as floats, they stay in the processor's cache
CENTERING = 1.0  # empty states that are added to the mean: one state alone would be its own mean, and so like nothing
ROUNDING_ERROR = 1e-3  # length below which a vector is what rounding has left of zero: its square is known to about 1e-7
STRIDE = np.uint64(
    0x9E3779B97F4A7C15
)  # odd, so that the states of a run get keys far from each other
COMPRESSION = 3  # effort of zlib: it leaves a quarter of what vectors take, and twice the effort hardly less

Floats = NDArray[np.float32]
Bytes = NDArray[np.int8]
Places = NDArray[np.intp]
StateLabels = NDArray[np.void]


def hash_features(features: Mapping[str, float]) -> Floats:
    """A bag of weighted features as a vector of unit length, by feature hashing (Weinberger et al. 2009)."""
    vector = np.zeros(DIMENSIONS, dtype=np.float32)
    for feature, weight in features.items():
        code = zlib.crc32(feature.encode("utf-8", "replace"))
        vector[code % DIMENSIONS] += weight if code & 0x80000000 else -weight
    return unit(vector)


def project(vectors: Sequence[Sequence[float]]) -> Floats:
    """Vectors of an embedding model, brought to `DIMENSIONS` numbers and unit length.

    Longer ones are projected at random, which keeps their angles (Johnson and Lindenstrauss 1984); shorter ones are
    filled up with zeros.
    """
    array = np.asarray(vectors, dtype=np.float64)
    if not np.isfinite(array).all():
        msg = "The embedder gave a vector with numbers that are infinite or NaN. Look at its model and its server."
        raise ConfigurationError(msg)
    if array.size == 0:
        return np.zeros((len(array), DIMENSIONS), dtype=np.float32)
    width = array.shape[1]
    if width > DIMENSIONS:
        # Exact sums are the same in any order, so a text gets the same vector in a batch of any size.
        largest = np.abs(array).max(axis=1, keepdims=True)
        whole = np.rint(
            array * (EXACT // width / np.where(largest > 0, largest, 1))
        ).astype(np.float32)
        array = (whole @ random_signs(width, DIMENSIONS)).astype(np.float64)
    elif width < DIMENSIONS:
        array = np.pad(array, ((0, 0), (0, DIMENSIONS - width)))
    return unit(array)


@cache
def random_signs(rows: int, columns: int) -> Floats:
    """A matrix of random signs, the same on every machine and with every version of numpy."""
    noise = hashlib.shake_128(f"{rows} x {columns}".encode()).digest(
        (rows * columns + 7) // 8
    )
    bits = np.unpackbits(np.frombuffer(noise, dtype=np.uint8), count=rows * columns)
    return (bits.reshape(rows, columns) * np.float32(2) - np.float32(1)).astype(
        np.float32
    )


def quantize(vectors: Floats) -> Bytes:
    """Vectors as whole numbers of a byte each, a quarter of what floats take; `unit` brings their directions back."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True)
    return np.rint(vectors * (LARGEST / np.where(largest > 0, largest, 1))).astype(
        np.int8
    )


def unit(vectors: NDArray[Any]) -> Floats:
    """Vectors at unit length; zero stays zero."""
    numbers = vectors.astype(np.float32) if vectors.dtype == np.int8 else vectors
    lengths = np.sqrt(np.einsum("...d,...d->...", numbers, numbers))[..., None]
    return (numbers / np.where(lengths > 0, lengths, 1)).astype(np.float32, copy=False)


def pack(vectors: NDArray[Any]) -> str:
    """Vectors as a short ASCII text, for JSON; and for memory, since of thousands of runs, most are never compared."""
    return base64.b64encode(zlib.compress(vectors.tobytes(), COMPRESSION)).decode()


def unpack(text: str, dtype: DTypeLike, *shape: int) -> NDArray[Any]:
    """The array of shape `(-1, *shape)` of which `pack` made a text."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype).reshape(
        -1, *shape
    )


END = -1  # target of a state at which the agent answered its user

LABELS = np.dtype(
    [
        ("source", np.int64),  # the tool called last, by the number of its node
        ("before", np.int64),  # the tool called before that one
        ("target", np.int64),  # the tool that came next, or `END`
        ("place", np.int64),  # of the state in its run
        ("run", np.uint64),  # hash of the run's id
        ("voice", np.uint64),  # what the run is counted by
        (
            "giver",
            np.int64,
        ),  # whom it came from; negative, and of its own, where that is unknown
    ]
)
"""What a state has beside its vectors."""


@dataclass(frozen=True, slots=True)
class StateRows:
    """Some states: their labels of the kind `LABELS`, and their vectors as bytes, shape `(n, views, DIMENSIONS)`."""

    labels: StateLabels
    numbers: Bytes

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def vectors(self) -> Floats:
        """Their vectors, of unit length or zero."""
        return unit(self.numbers)

    def at(self, places: Places | NDArray[np.bool_]) -> "StateRows":
        """Some of the rows, as a copy."""
        return StateRows(self.labels[places], self.numbers[places])


class States:
    """The states of a graph. Any order of adding and removing runs gives the same answers.

    The vectors of a run stay packed until one of its states is compared. The labels of all states stand in one table,
    in the order of their keys.
    """

    def __init__(self, views: int) -> None:
        self._views = views
        self._labels: dict[int, StateLabels] = {}  # by the hash of the run
        self._packed: dict[int, str] = {}
        self._unpacked: dict[int, Bytes] = {}  # of the runs that were compared
        self._sorted = np.zeros(0, LABELS)
        self._unsorted: list[StateLabels] = []  # of the runs that were added since
        self._latest: dict[
            int, StateRows
        ] = {}  # the rows that were asked for lately, by tool

    def add(self, run: int, labels: Sequence[tuple[Any, ...]], packed: str) -> None:
        """Add the states of a run: labels as `LABELS` has them, with places from 0 on, and vectors from `pack`."""
        self._labels[run], self._packed[run] = np.array(labels, dtype=LABELS), packed
        self._unsorted.append(self._labels[run])
        self._latest = {}

    def remove(self, run: int) -> None:
        """Take out the states of a run."""
        if self._packed.pop(run, None) is not None:
            table = self._table
            self._sorted, self._latest = table[table["run"] != run], {}
            del self._labels[run]
            self._unpacked.pop(run, None)

    def unpack(self) -> None:
        """Unpack all vectors now, and not while somebody waits for a suggestion."""
        for run in self._packed:
            self._numbers(run)

    def of_runs(self, runs: Sequence[int]) -> StateRows:
        """The states of some runs, by their hashes."""
        labels = [np.zeros(0, LABELS), *(self._labels[run] for run in runs)]
        return StateRows(
            np.concatenate(labels), self._stacked(self._numbers(run) for run in runs)
        )

    def after(self, source: int) -> StateRows:
        """The states after a tool, by its number; a sample of `COMPARED` where there are more."""
        table = self._table
        return self._rows(
            source, table[np.flatnonzero(table["source"] == source)[:COMPARED]]
        )

    def compared(self, source: int) -> StateRows:
        """The states that one after a tool is compared with: first those after the same tool, then a sample of others.

        The sample depends on the runs alone, and not on the order in which they were added.
        """
        after = self.after(source)
        if len(after) == COMPARED:
            return after
        # The first states of all hold enough others: no more of them than `after` are after the same tool.
        sample = self._rows(ANY, self._table[:COMPARED])
        others = sample.at(
            np.flatnonzero(sample.labels["source"] != source)[: COMPARED - len(after)]
        )
        labels = np.concatenate([after.labels, others.labels])
        return StateRows(labels, np.concatenate([after.numbers, others.numbers]))

    @property
    def _table(self) -> StateLabels:
        if self._unsorted:
            # As rows of plain numbers, which numpy copies ten times as fast as records.
            parts = [
                np.ascontiguousarray(each).view(np.int64)
                for each in (self._sorted, *self._unsorted)
            ]
            table = np.concatenate(parts).reshape(-1, LABELS.itemsize // 8)
            every = table.view(LABELS)[:, 0]
            # As good as random, and the same whatever else is there: the first of them are a sample.
            keys = every["run"] + every["place"].astype(np.uint64) * STRIDE
            self._sorted, self._unsorted = (
                table[np.argsort(keys, kind="stable")].view(LABELS)[:, 0],
                [],
            )
        return self._sorted

    def _rows(self, tool: int, labels: StateLabels) -> StateRows:
        """States with their vectors, which are put together once for each tool, until runs come or go."""
        if tool not in self._latest:
            pairs = zip(labels["run"].tolist(), labels["place"].tolist(), strict=True)
            rows = StateRows(
                labels,
                self._stacked(self._numbers(run)[at : at + 1] for run, at in pairs),
            )
            while (
                self._latest
                and sum(map(len, self._latest.values())) > MAX_CACHED_STATES
            ):
                del self._latest[next(iter(self._latest))]
            self._latest[tool] = rows
        return self._latest[tool]

    def _numbers(self, run: int) -> Bytes:
        if run not in self._unpacked:
            self._unpacked[run] = unpack(
                self._packed[run], np.int8, self._views, DIMENSIONS
            )
        return self._unpacked[run]

    def _stacked(self, parts: Iterable[Bytes]) -> Bytes:
        return np.concatenate([np.zeros((0, self._views, DIMENSIONS), np.int8), *parts])


def mean_of(vectors: Floats) -> Floats:
    """The mean of states, drawn towards zero where they are few."""
    mean: Floats = (
        vectors.astype(np.float64).sum(axis=0) / (len(vectors) + CENTERING)
    ).astype(np.float32)
    return mean


def recenter(numbers: Bytes, center: Floats) -> Floats:
    """Stored states as seen from a center, with unit length; an empty view stays zero."""
    x = numbers.astype(
        np.float32
    )  # a copy, changed in place: three arrays of this size would take twice the time
    lengths = np.sqrt(np.vecdot(x, x))[..., None]
    x /= np.where(lengths > 0, lengths, 1)
    x -= center
    radii = np.sqrt(np.vecdot(x, x))[..., None]
    x *= np.divide(
        1, radii, out=np.zeros_like(radii), where=(lengths > 0) & (radii > 0)
    )
    return x


def cosines(numbers: Bytes, state: Floats, center: Floats) -> Floats:
    """Cosines of stored states and one, as seen from a center: shape `(n, views)`, 0 where one of them is empty.

    With a stored vector q, x = q / |q|, the state s and the center c: `(x - c)(s - c) / (|x - c| |s - c|)`.
    """
    shifted = state - center
    sums = np.empty((3, *numbers.shape[:2]), dtype=np.float32)
    for begin in range(0, len(numbers), CHUNK):
        here = slice(begin, begin + CHUNK)
        q = numbers[here].astype(np.float32)
        sums[:, here] = np.vecdot(q, shifted), np.vecdot(q, center), np.vecdot(q, q)
    lengths = np.sqrt(sums[2])  # |q|
    x_shifted, x_center = sums[:2] / np.where(lengths > 0, lengths, 1)
    # (x - c)(s - c) = x (s - c) - c (s - c), and |x - c|^2 = 1 - 2 x c + c c, since x has unit length.
    products: Floats = x_shifted - (center * shifted).sum(axis=1)
    radii = np.sqrt(np.maximum(1 - 2 * x_center + (center * center).sum(axis=1), 0))
    radii *= np.sqrt((shifted * shifted).sum(axis=1))
    defined = (lengths > 0) & state.any(axis=-1) & (radii > ROUNDING_ERROR)
    similar: Floats = np.divide(
        products, radii, out=np.zeros_like(products), where=defined
    )
    return similar
