"""The order in which a namespace's items were last written, which Chroma neither sorts by nor reads apart from values.

So the time of writing is the vector of an item's row, exact to the microsecond. All of them are read at once, in some
4 µs each, and remembered where nobody else can write.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from chromadb.api.models.Collection import Collection
from numpy.typing import NDArray

from langchain_tooltree.experience.chroma_catalogue import Namespace
from langchain_tooltree.experience.chroma_connection import Connection

_BITS = 18
"""Of the time, in each of three numbers; a float of 32 bits is exact up to 24."""


def moment_vectors(times: Sequence[int]) -> NDArray[np.float32]:
    """Times as vectors.

    Args:
        times: Microseconds since 1970.

    Returns:
        One row for each.
    """
    whole = np.asarray(times, dtype=np.int64)
    mask = (1 << _BITS) - 1
    return np.stack([whole >> 2 * _BITS, whole >> _BITS & mask, whole & mask], axis=1).astype(np.float32)


def write_order(connection: Connection, items: Collection) -> dict[str, int]:
    """When each item of a namespace was last written, in that order.

    Args:
        connection: Remembers it, if nobody else can write.
        items: The collection of items.

    Returns:
        Microseconds since 1970 by key, oldest first.
    """
    known = connection.orders.get(items.name)
    if known is None:
        page = items.get(include=["embeddings"])
        parts = np.asarray(page["embeddings"], dtype=np.int64).reshape(-1, 3)
        times = (parts[:, 0] << 2 * _BITS) + (parts[:, 1] << _BITS) + parts[:, 2]
        known = {page["ids"][position][1:]: int(times[position]) for position in np.argsort(times, kind="stable")}
        if connection.exclusive:
            connection.orders[items.name] = known
            connection.advance(
                int(times.max(initial=0))
            )  # what is written next comes last here, whatever the clock says
    return known


def note_written(connection: Connection, items: Collection, times: Mapping[str, int], gone: Iterable[str]) -> None:
    """Keep what is remembered up to date.

    Args:
        connection: Remembers it.
        items: The collection of items.
        times: When items were written just now, by key, in order.
        gone: Keys of items that were deleted.
    """
    known = connection.orders.get(items.name)
    if known is not None:
        for key in (*times, *gone):
            known.pop(key, None)
        known.update(times)


def newest_first(orders: Mapping[Namespace, dict[str, int]]) -> Iterator[tuple[Namespace, str]]:
    """The items of several namespaces, the last written ones first.

    Args:
        orders: Their `write_order`, by namespace.

    Yields:
        Namespaces and keys.
    """
    for _, key, namespace in heapq.merge(*(_backwards(namespace, order) for namespace, order in orders.items())):
        yield namespace, key


def _backwards(namespace: Namespace, order: dict[str, int]) -> Iterator[tuple[int, str, Namespace]]:
    for key in reversed(order):
        yield -order[key], key, namespace
