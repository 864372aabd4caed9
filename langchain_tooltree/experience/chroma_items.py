"""The rows of a namespace: how items and their vectors are written, so that a reader finds each old or new, never half.

The row of an item is what counts: it is written in one piece, and names the revision whose vectors belong to it. New
vectors are written before it and old ones removed after it, so whenever a process dies, the item has the vectors of the
value that it has. Vectors of no current revision are leftovers, which searches pass over.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from chromadb.api.models.Collection import Collection

from langchain_tooltree.experience.chroma_catalogue import Catalogue, Namespace
from langchain_tooltree.experience.chroma_filters import FIELD, both, scalar_fields
from langchain_tooltree.experience.chroma_order import moment_vectors, note_written

T = TypeVar("T")

READ = 500
"""Rows read at once: chromadb fails above some 30,000."""

PAYLOAD = 8 * 2**20
"""Bytes written at once: a Chroma server refuses more than 40 MB."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StoredItem:
    """The row of an item.

    Attributes:
        key: The item's key.
        document: Its value, in JSON.
        created: When it was made, in microseconds since 1970.
        updated: When it was last written, the same way.
        revision: Names this writing of it.
        vectors: How many vectors it has.
        fields: Which of its fields Chroma can filter by.
    """

    key: str
    document: str
    created: int
    updated: int
    revision: str
    vectors: int
    fields: tuple[str, ...] = ()

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
        return [vector_id(self.revision, position, self.key) for position in range(self.vectors)]


@dataclass(frozen=True, slots=True)
class Write:
    """What is to become of an item.

    Attributes:
        key: The item's key.
        value: Its value, or `None` to delete it.
        document: The value in JSON.
        vectors: Its vectors.
    """

    key: str
    value: Mapping[str, Any] | None
    document: str = ""
    vectors: Sequence[Sequence[float]] = ()


def vector_id(revision: str, position: int, key: str) -> str:
    """The id of a vector, from which its item can be told without reading the row."""
    return f"{revision}.{position}.{key}"


def read_items(items: Collection, keys: Sequence[str]) -> dict[str, StoredItem]:
    """The rows of some items.

    Args:
        items: The collection.
        keys: Keys, each once.

    Returns:
        Those that exist, by key.
    """
    found = {}
    for start in range(0, len(keys), READ):
        ids = [_row_id(key) for key in keys[start : start + READ]]
        for item in _parse(items.get(ids=ids, include=["metadatas"])):
            found[item.key] = item
    return found


def read_in_order(
    spaces: Mapping[Namespace, Collection], places: Iterator[tuple[Namespace, str]], size: int
) -> Iterator[tuple[Namespace, StoredItem]]:
    """Items of several namespaces in the order given, read in portions, as far as they are asked for.

    Args:
        spaces: The collections of items, by namespace.
        places: Namespaces and keys.
        size: How many to read at first.

    Yields:
        Those that exist.
    """
    while portion := list(islice(places, size)):
        wanted: dict[Namespace, list[str]] = {}
        for namespace, key in portion:
            wanted.setdefault(namespace, []).append(key)
        found = {namespace: read_items(spaces[namespace], keys) for namespace, keys in wanted.items()}
        for namespace, key in portion:
            if key in found[namespace]:
                yield namespace, found[namespace][key]
        size = max(size, min(2 * size, READ))


def matching_keys(items: Collection, clauses: Sequence[dict[str, Any]]) -> set[str]:
    """The keys of the items that fulfil conditions, without reading the items.

    Args:
        items: The collection.
        clauses: Conditions on the rows, as `where_clause` gives them.

    Returns:
        The keys.
    """
    return {row[1:] for row in items.get(where=both(clauses), include=[])["ids"]}


def write_items(catalogue: Catalogue, namespace: Namespace, writes: Sequence[Write]) -> None:
    """Put and delete items of one namespace; the caller holds the connection's mutex.

    Args:
        catalogue: Where the namespace's collections are found or made.
        namespace: The namespace.
        writes: What to write, each key once.
    """
    puts = [write for write in writes if write.value is not None]
    items = catalogue.make_items(namespace) if puts else catalogue.items(namespace)
    if items is None:
        return
    before = read_items(items, [write.key for write in writes])
    rows = {write.key: _row(write, before.get(write.key), catalogue.connection.tick()) for write in puts}
    gone = [write.key for write in writes if write.value is None and write.key in before]
    try:
        if any(write.vectors for write in puts):
            _write_vectors(catalogue, namespace, puts, rows)
        _write_rows(catalogue, items, puts, rows)
        for start in range(0, len(gone), READ):
            items.delete(ids=[_row_id(key) for key in gone[start : start + READ]])
    except BaseException:
        catalogue.connection.orders.pop(items.name, None)  # nobody knows how far it came
        raise
    note_written(catalogue.connection, items, {key: row["updated"] for key, row in rows.items()}, gone)
    outdated = [row for item in before.values() for row in item.vector_ids()]
    vectors = catalogue.vectors(namespace) if outdated else None
    if vectors is not None:
        for start in range(0, len(outdated), READ):
            vectors.delete(ids=outdated[start : start + READ])
    if gone and catalogue.connection.exclusive and items.count() == 0:
        catalogue.drop(namespace)


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
        "vectors": len(write.vectors),
        **scalar_fields(write.value or {}),
    }


def _write_rows(
    catalogue: Catalogue, items: Collection, puts: Sequence[Write], rows: Mapping[str, dict[str, Any]]
) -> None:
    for piece in _pieces(puts, lambda write: len(write.document), catalogue.connection.max_batch):
        items.upsert(
            ids=[_row_id(write.key) for write in piece],
            embeddings=moment_vectors([rows[write.key]["updated"] for write in piece]),
            metadatas=[rows[write.key] for write in piece],
        )


def _write_vectors(
    catalogue: Catalogue, namespace: Namespace, puts: Sequence[Write], rows: Mapping[str, Mapping[str, Any]]
) -> None:
    vectors = catalogue.make_vectors(namespace)
    new = [
        (vector_id(rows[write.key]["revision"], position, write.key), write.key, vector)
        for write in puts
        for position, vector in enumerate(write.vectors)
    ]
    for piece in _pieces(new, lambda row: 6 * len(row[2]), catalogue.connection.max_batch):
        vectors.upsert(
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
