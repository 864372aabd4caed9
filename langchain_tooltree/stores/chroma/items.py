"""The rows of a namespace: how items and their vectors are written, so that a reader finds each old or new, never half.

The row of an item is what counts: it is written in one piece, and names the revision whose vectors belong to it. New
vectors are written before it and old ones removed after it, so whenever a process dies, the item has the vectors of the
value that it has. Vectors of no current revision are leftovers, which searches pass over.
"""

from __future__ import annotations

import heapq
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.utils import batch_iterate
from numpy.typing import NDArray

from langchain_tooltree.stores.chroma.connection import Connection, Labels
from langchain_tooltree.stores.chroma.filters import FIELD, scalar_fields

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

Row = tuple[str, Any, Mapping[str, Any]]
"""Id, vector and metadata."""

READ = 500
"""Rows read or deleted at once: chromadb fails above some 30,000."""

PAYLOAD = 8 * 2**20
"""Bytes written at once: a Chroma server refuses more than 40 MB."""

_BITS = 18
"""Of the time, in each of three numbers; a float of 32 bits is exact up to 24."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _moments(times: Sequence[int]) -> NDArray[np.float32]:
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


def newest_first(orders: Mapping[Labels, dict[str, int]]) -> Iterator[tuple[Labels, str]]:
    """The items of several namespaces, the last written ones first."""

    def backwards(namespace: Labels, order: dict[str, int]) -> Iterator[tuple[int, str, Labels]]:
        return ((-order[key], key, namespace) for key in reversed(order))

    for _, key, namespace in heapq.merge(*(backwards(*each) for each in orders.items())):
        yield namespace, key


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item by the metadata of its row.

    `value` is JSON, `created` and `updated` are microseconds since 1970, `revision` names this writing of the item,
    `vectors` says how many it has. What Chroma can filter by stands there as well, see `scalar_fields`.
    """

    key: str
    row: Mapping[str, Any]

    @property
    def value(self) -> dict[str, Any]:
        """The item's value, a fresh copy each time."""
        value: dict[str, Any] = json.loads(self.row["value"])
        return value

    @property
    def times(self) -> dict[str, datetime]:
        """`created_at` and `updated_at`, as LangGraph's items have them."""
        return {
            "created_at": _EPOCH + timedelta(microseconds=self.row["created"]),
            "updated_at": _EPOCH + timedelta(microseconds=self.row["updated"]),
        }

    def vector_ids(self) -> list[str]:
        """The ids of the item's vectors, from which the item can be told without reading the rows; see `Hit`."""
        return [f"{self.row['revision']}.{position}.{self.key}" for position in range(self.row["vectors"])]


@dataclass(frozen=True, slots=True)
class Write:
    """What is to become of an item: its value, `None` to delete it, also in JSON, and what of it is embedded."""

    key: str
    value: Mapping[str, Any] | None
    document: str = ""
    texts: tuple[str, ...] = ()


def read_items(items: Collection, keys: Sequence[str]) -> dict[str, StoredItem]:
    """The rows of some items."""
    pages = (items.get(ids=ids, include=["metadatas"]) for ids in batch_iterate(READ, map(_row_id, keys)))
    rows = (row for page in pages for row in zip(page["ids"], page["metadatas"] or (), strict=True))
    return {row_id[1:]: StoredItem(row_id[1:], metadata) for row_id, metadata in rows}


def read_in_order(
    spaces: Mapping[Labels, Collection], places: Iterator[tuple[Labels, str]], size: int
) -> Iterator[tuple[Labels, StoredItem]]:
    """Items of several namespaces in the order given, read in portions, as far as they are asked for."""
    while portion := list(islice(places, size)):
        wanted: dict[Labels, list[str]] = {}
        for namespace, key in portion:
            wanted.setdefault(namespace, []).append(key)
        found = {namespace: read_items(spaces[namespace], keys) for namespace, keys in wanted.items()}
        for namespace, key in portion:
            if key in found[namespace]:
                yield namespace, found[namespace][key]
        size = max(size, min(2 * size, READ))


def matching_keys(items: Collection, clauses: Sequence[dict[str, Any]]) -> set[str]:
    """The keys of the items that fulfil one or more conditions, without reading the items."""
    where: Any = clauses[0] if len(clauses) == 1 else {"$and": [*clauses]}  # Chroma refuses an "and" of one
    return {row[1:] for row in items.get(where=where, include=[])["ids"]}


def write_items(
    connection: Connection, namespace: Labels, writes: Sequence[Write], vectors: Mapping[str, Sequence[float]]
) -> None:
    """Put and delete items of one namespace; the caller holds the connection's mutex."""
    puts = [write for write in writes if write.value is not None]
    items = connection.make_items(namespace) if puts else connection.items(namespace)
    if items is None:
        return
    before = read_items(items, [write.key for write in writes])
    after = [StoredItem(put.key, _row(put, before.get(put.key), connection.tick())) for put in puts]
    times = {item.key: item.row["updated"] for item in after}
    gone = [write.key for write in writes if write.value is None and write.key in before]
    try:
        new = [
            (vector_id, vectors[text], {"key": put.key})
            for put, item in zip(puts, after, strict=True)
            for vector_id, text in zip(item.vector_ids(), put.texts, strict=True)
        ]
        if new:
            _upsert(connection.make_vectors(namespace), new, connection.max_batch)
        moments = _moments([*times.values()])
        rows = [(_row_id(item.key), moment, item.row) for item, moment in zip(after, moments, strict=True)]
        _upsert(items, rows, connection.max_batch)
        for ids in batch_iterate(READ, map(_row_id, gone)):
            items.delete(ids=ids)
    except BaseException:
        connection.orders.pop(items.name, None)  # nobody knows how far it came
        raise
    order = connection.orders.get(items.name, {})  # kept up to date, if it is remembered
    for key in (*times, *gone):
        order.pop(key, None)
    order.update(times)
    outdated = [row for item in before.values() for row in item.vector_ids()]
    if outdated and (stored := connection.vectors(namespace)) is not None:
        for ids in batch_iterate(READ, outdated):
            stored.delete(ids=ids)
    if gone and connection.exclusive and items.count() == 0:
        connection.drop(namespace)


def _row_id(key: str) -> str:
    """Chroma allows no empty id."""
    return ":" + key


def _row(write: Write, before: StoredItem | None, now: int) -> dict[str, Any]:
    """An item's metadata. Chroma merges it into what is there, so fields that are no more have to be taken out."""
    removed = {name: None for name in before.row if name.startswith(FIELD)} if before else {}
    return removed | {
        "value": write.document,
        "created": before.row["created"] if before else now,
        "updated": now,
        "revision": uuid.uuid4().hex,
        "vectors": len(write.texts),
        **scalar_fields(write.value or {}),
    }


def _upsert(collection: Collection, rows: Sequence[Row], most: int) -> None:
    for piece in _pieces(rows, most):
        ids, vectors, metadatas = (list(column) for column in zip(*piece, strict=True))
        collection.upsert(ids=ids, embeddings=vectors, metadatas=metadatas)


def _pieces(rows: Sequence[Row], most: int) -> Iterator[list[Row]]:
    """Rows in portions that chromadb takes at once."""
    piece: list[Row] = []
    weight = 0
    for row in rows:
        _, vector, metadata = row
        added = 6 * len(vector) + len(metadata.get("value", ""))  # six bytes for a number in base64
        if piece and (len(piece) == most or weight + added > PAYLOAD):
            yield piece
            piece, weight = [], 0
        piece.append(row)
        weight += added
    if piece:
        yield piece
