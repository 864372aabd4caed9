"""State vectors in four bits a number, and sketches of them in one. Pure.

A view is a vector of unit length, or zero where there is nothing to see. Four bits a number cost no accuracy that can
be measured (`tests/benchmarks/next_tool.py`), so that a million states of six views fit into one gigabyte.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.errors import ConfigurationError

DIMENSIONS = 288
"""Length of the vector of one view."""

LEVELS = 7
"""Largest number that four bits hold beside its negative."""

EXACT = 1 << 24
"""Whole numbers up to this are exact in single precision, and so are sums of them."""

SKETCH_BITS = 512

Floats = NDArray[np.float32]
Codes = NDArray[np.uint8]
Sketches = NDArray[np.uint64]


def vector_of(features: Mapping[str, float]) -> Floats:
    """A bag of features as a vector, by feature hashing (Weinberger et al. 2009).

    Args:
        features: Weights by feature.

    Returns:
        A vector of `DIMENSIONS` numbers and unit length; zero if there are no features.
    """
    vector = np.zeros(DIMENSIONS, dtype=np.float32)
    for feature, weight in features.items():
        code = crc32(feature.encode("utf-8", "replace"))
        vector[code % DIMENSIONS] += weight if code & 0x80000000 else -weight
    return _unit(vector)


def fitted(vectors: Sequence[Sequence[float]]) -> Floats:
    """Vectors of an embedding model, brought to `DIMENSIONS` numbers.

    Longer ones are projected at random, which keeps their angles (Johnson and Lindenstrauss 1984); shorter ones are
    filled up with zeros.

    Args:
        vectors: Vectors of equal length.

    Returns:
        An array of shape `(len(vectors), DIMENSIONS)`; rows are of unit length or zero.

    Raises:
        ConfigurationError: If a number is infinite or none at all.
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
    """Vectors in four bits a number.

    Args:
        vectors: Shape `(..., DIMENSIONS)`.

    Returns:
        Shape `(..., DIMENSIONS // 2)`. Lengths are not kept: each vector is of unit length or zero.
    """
    largest = np.abs(vectors).max(axis=-1, keepdims=True)
    numbers = np.rint(vectors * (LEVELS / np.where(largest > 0, largest, 1))).astype(np.int8) + 8
    half = vectors.shape[-1] // 2
    return (numbers[..., :half] | (numbers[..., half:] << 4)).astype(np.uint8)


def unpacked(codes: Codes) -> Floats:
    """The inverse of `packed`, up to rounding.

    Args:
        codes: Shape `(..., DIMENSIONS // 2)`.

    Returns:
        Shape `(..., DIMENSIONS)`, of unit length or zero.
    """
    return _unit(numbers_of(codes))


def numbers_of(codes: Codes) -> Floats:
    """The numbers that packed vectors are made of, from -`LEVELS` to `LEVELS`: vectors in the right direction.

    Args:
        codes: Shape `(..., DIMENSIONS // 2)`.

    Returns:
        Shape `(..., DIMENSIONS)`.
    """
    half = codes.shape[-1]
    numbers = np.empty((*codes.shape[:-1], 2 * half), dtype=np.float32)
    numbers[..., :half] = codes & 15
    numbers[..., half:] = codes >> 4
    numbers -= 8
    return numbers


def sketched(codes: Codes) -> Sketches:
    """The signs of random projections of states (Charikar 2002): similar states differ in few bits.

    Args:
        codes: Packed states, shape `(n, views, DIMENSIONS // 2)`.

    Returns:
        Shape `(n, SKETCH_BITS // 64)`, the same number of bits for each view.
    """
    count, views, _ = codes.shape
    bits = np.zeros((count, SKETCH_BITS), dtype=bool)
    width = SKETCH_BITS // views
    projected = numbers_of(codes) @ random_signs(DIMENSIONS, width)  # whole numbers: exact, so the same everywhere
    bits[:, : views * width] = projected.reshape(count, -1) > 0
    return np.packbits(bits, axis=1).view(np.uint64)


def distances(sketches: Sketches, sketch: Sketches) -> NDArray[np.int64]:
    """In how many bits sketches differ from one.

    Args:
        sketches: Shape `(n, words)`.
        sketch: Shape `(words,)`.

    Returns:
        Shape `(n,)`.
    """
    apart: NDArray[np.int64] = np.bitwise_count(sketches ^ sketch).sum(axis=1, dtype=np.int64)
    return apart


def _unit(vectors: NDArray[Any]) -> Floats:
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
