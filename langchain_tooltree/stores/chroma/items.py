"""The rows of a namespace: how items and their vectors are written, so that a reader finds each old or new, never half.

The row of an item is what counts: it is written in one piece, and names the revision whose vectors belong to it. New
vectors are written before it and old ones removed after it, so whenever a process dies, the item has the vectors of the
value that it has. Vectors of no current revision are leftovers, which searches pass over.
"""

from __future__ import annotations

import heapq
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.stores.chroma.connection import Connection, Place
from langchain_tooltree.stores.chroma.filters import FIELD, both, scalar_fields

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

T = TypeVar("T")

READ = 500
"""Rows read at once: chromadb fails above some 30,000."""

PAYLOAD = 8 * 2**20
"""Bytes written at once: a Chroma server refuses more than 40 MB."""

_BITS = 18
"""Of the time, in each of three numbers; a float of 32 bits is exact up to 24."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moments(times: Sequence[int]) -> NDArray[np.float32]:
    """Microseconds since 1970 as the vectors of items' rows, which are read without the items' values."""
    whole = np.asarray(times, dtype=np.int64)
    mask = (1 << _BITS) - 1
    return np.stack([whole >> 2 * _BITS, whole >> _BITS & mask, whole & mask], axis=1).astype(np.float32)


def write_order(connection: Connection, items: Collection) -> dict[str, int]:
    """When each item of a namespace was last written, in that order."""
    known = connection.orders.get(items.name)
    if known is None:
        page = items.get(include=["embeddings"])
        parts = np.asarray(page["embeddings"], dtype=np.int64).reshape(-1, 3)
        times = (parts[:, 0] << 2 * _BITS) + (parts[:, 1] << _BITS) + parts[:, 2]
        known = {page["ids"][position][1:]: int(times[position]) for position in np.argsort(times, kind="stable")}
        if connection.exclusive:
            connection.orders[items.name] = known
            connection.advance(int(times.max(initial=0)))  # what is written next comes last, whatever the clock says
    return known


def note_written(connection: Connection, items: Collection, times: Mapping[str, int], gone: Iterable[str]) -> None:
    """Keep what is remembered up to date."""
    known = connection.orders.get(items.name)
    if known is not None:
        for key in (*times, *gone):
            known.pop(key, None)
        known.update(times)


def newest_first(orders: Mapping[Place, dict[str, int]]) -> Iterator[tuple[Place, str]]:
    """The items of several namespaces, the last written ones first."""

    def backwards(namespace: Place, order: dict[str, int]) -> Iterator[tuple[int, str, Place]]:
        return ((-order[key], key, namespace) for key in reversed(order))

    for _, key, namespace in heapq.merge(*(backwards(*each) for each in orders.items())):
        yield namespace, key


@dataclass(frozen=True, slots=True)
class StoredItem:
    """The row of an item; times in microseconds since 1970."""

    key: str
    document: str  # its value, in JSON
    created: int
    updated: int
    revision: str  # names this writing of it
    vectors: int  # how many it has
    fields: tuple[str, ...] = ()  # those that Chroma can filter by

    @property
    def value(self) -> dict[str, Any]:
        """The item's value, a fresh copy each time."""
        value: dict[str, Any] = json.loads(self.document)
        return value

    @property
    def times(self) -> dict[str, datetime]:
        """`created_at` and `updated_at`, as LangGraph's items have them."""
        return {
            "created_at": _EPOCH + timedelta(microseconds=self.created),
            "updated_at": _EPOCH + timedelta(microseconds=self.updated),
        }

    def vector_ids(self) -> list[str]:
        """The ids of the item's vectors."""
        return [_vector_id(self.revision, position, self.key) for position in range(self.vectors)]


@dataclass(frozen=True, slots=True)
class Write:
    """What is to become of an item: its value, `None` to delete it, also in JSON, and what of it is embedded."""

    key: str
    value: Mapping[str, Any] | None
    document: str = ""
    texts: tuple[str, ...] = ()


def _vector_id(revision: str, position: int, key: str) -> str:
    """The id of a vector, from which its item can be told without reading the row."""
    return f"{revision}.{position}.{key}"


def portions(ids: Sequence[str]) -> Iterator[list[str]]:
    """As many at once as chromadb reads or deletes."""
    return (list(ids[start : start + READ]) for start in range(0, len(ids), READ))


def read_items(items: Collection, keys: Sequence[str]) -> dict[str, StoredItem]:
    """The rows of some items."""
    pages = (items.get(ids=ids, include=["metadatas"]) for ids in portions([_row_id(key) for key in keys]))
    return {item.key: item for page in pages for item in _parse(page)}


def read_in_order(
    spaces: Mapping[Place, Collection], places: Iterator[tuple[Place, str]], size: int
) -> Iterator[tuple[Place, StoredItem]]:
    """Items of several namespaces in the order given, read in portions, as far as they are asked for."""
    while portion := list(islice(places, size)):
        wanted: dict[Place, list[str]] = {}
        for namespace, key in portion:
            wanted.setdefault(namespace, []).append(key)
        found = {namespace: read_items(spaces[namespace], keys) for namespace, keys in wanted.items()}
        for namespace, key in portion:
            if key in found[namespace]:
                yield namespace, found[namespace][key]
        size = max(size, min(2 * size, READ))


def matching_keys(items: Collection, clauses: Sequence[dict[str, Any]]) -> set[str]:
    """The keys of the items that fulfil conditions, without reading the items."""
    return {row[1:] for row in items.get(where=both(clauses), include=[])["ids"]}


def write_items(
    connection: Connection, namespace: Place, writes: Sequence[Write], vectors: Mapping[str, Sequence[float]]
) -> None:
    """Put and delete items of one namespace; the caller holds the connection's mutex."""
    puts = [write for write in writes if write.value is not None]
    items = connection.make_items(namespace) if puts else connection.items(namespace)
    if items is None:
        return
    before = read_items(items, [write.key for write in writes])
    rows = {write.key: _row(write, before.get(write.key), connection.tick()) for write in puts}
    gone = [write.key for write in writes if write.value is None and write.key in before]
    try:
        if any(write.texts for write in puts):
            _write_vectors(connection, namespace, puts, rows, vectors)
        _write_rows(connection, items, puts, rows)
        for ids in portions([_row_id(key) for key in gone]):
            items.delete(ids=ids)
    except BaseException:
        connection.orders.pop(items.name, None)  # nobody knows how far it came
        raise
    note_written(connection, items, {key: row["updated"] for key, row in rows.items()}, gone)
    outdated = [row for item in before.values() for row in item.vector_ids()]
    if outdated and (stored := connection.vectors(namespace)) is not None:
        for ids in portions(outdated):
            stored.delete(ids=ids)
    if gone and connection.exclusive and items.count() == 0:
        connection.drop(namespace)


def _row_id(key: str) -> str:
    """Chroma allows no empty id."""
    return ":" + key


def _row(write: Write, before: StoredItem | None, now: int) -> dict[str, Any]:
    """An item's metadata. Chroma merges it into what is there, so fields that are no more have to be taken out."""
    removed = dict.fromkeys(before.fields) if before else {}
    return removed | {
        "value": write.document,
        "created": before.created if before else now,
        "updated": now,
        "revision": uuid.uuid4().hex,
        "vectors": len(write.texts),
        **scalar_fields(write.value or {}),
    }


def _write_rows(
    connection: Connection, items: Collection, puts: Sequence[Write], rows: Mapping[str, dict[str, Any]]
) -> None:
    for piece in _pieces(puts, lambda write: len(write.document), connection.max_batch):
        items.upsert(
            ids=[_row_id(write.key) for write in piece],
            embeddings=moments([rows[write.key]["updated"] for write in piece]),
            metadatas=[rows[write.key] for write in piece],
        )


def _write_vectors(
    connection: Connection,
    namespace: Place,
    puts: Sequence[Write],
    rows: Mapping[str, Mapping[str, Any]],
    vectors: Mapping[str, Sequence[float]],
) -> None:
    stored = connection.make_vectors(namespace)
    new = [
        (_vector_id(rows[write.key]["revision"], position, write.key), write.key, vectors[text])
        for write in puts
        for position, text in enumerate(write.texts)
    ]
    for piece in _pieces(new, lambda row: 6 * len(row[2]), connection.max_batch):
        stored.upsert(
            ids=[row for row, _, _ in piece],
            embeddings=[vector for _, _, vector in piece],
            metadatas=[{"key": key} for _, key, _ in piece],
        )


def _parse(page: Mapping[str, Any]) -> list[StoredItem]:
    return [
        StoredItem(
            key=row[1:],
            document=entry["value"],
            created=entry["created"],
            updated=entry["updated"],
            revision=entry["revision"],
            vectors=entry["vectors"],
            fields=tuple(name for name in entry if name.startswith(FIELD)),
        )
        for row, entry in zip(page["ids"], page["metadatas"] or (), strict=True)
    ]


def _pieces(rows: Sequence[T], weigh: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Rows in portions that chromadb takes at once."""
    piece: list[T] = []
    weight = 0
    for row in rows:
        if piece and (len(piece) == most or weight + weigh(row) > PAYLOAD):
            yield piece
            piece, weight = [], 0
        piece.append(row)
        weight += weigh(row)
    if piece:
        yield piece
