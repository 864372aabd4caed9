"""The nearest items of a namespace: exact up to some thousands of vectors, beyond by Chroma's graph.

A filter inside of a vector query costs chromadb time in proportion to the collection (24 ms at 30,000 vectors, 150 at
300,000, against 3 without). So vectors are queried without one, as many as it takes; and where few items pass the
filter, their vectors are read and compared here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from chromadb.api.models.Collection import Collection
from numpy.typing import NDArray

from langchain_tooltree.experience.chroma_catalogue import Catalogue, Namespace
from langchain_tooltree.experience.chroma_filters import matches, where_clause
from langchain_tooltree.experience.chroma_items import READ, StoredItem, matching_keys, read_items

EXACT = 5000
"""Up to so many vectors a query looks at all of them, which takes some 25 ms."""

FEW = 1000
"""Up to so many items that pass a filter are compared one by one, which takes some 50 ms."""

FIRST = 200
"""Vectors that are asked for at first; the more, the fewer does Chroma's graph miss."""

GROWTH = 4

ATTEMPTS = 5
"""How often a query on a server is repeated while others rewrite what it finds."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A vector near to a query.

    Attributes:
        row: Its id.
        score: Cosine similarity to the query, up to 1.
    """

    row: str
    score: float

    @property
    def revision(self) -> str:
        """The revision of the item that it was made for."""
        return self.row.split(".", 1)[0]

    @property
    def key(self) -> str:
        """The key of that item."""
        return self.row.split(".", 2)[2]


def nearest(
    catalogue: Catalogue,
    namespace: Namespace,
    query: Sequence[float],
    conditions: Mapping[str, Any] | None,
    need: int,
) -> list[tuple[float, StoredItem]]:
    """The items of one namespace that are nearest to a query, each by the best of its vectors.

    Args:
        catalogue: Finds the namespace's collections.
        namespace: The namespace.
        query: The query's vector.
        conditions: What the items have to fulfil, as a search's filter.
        need: How many at the most.

    Returns:
        Scores and items, best first. Items without a vector are never among them.
    """
    items, vectors = catalogue.items(namespace), catalogue.vectors(namespace)
    if items is None or vectors is None:
        return []
    known: set[str] = set()
    for _ in range(ATTEMPTS):
        best, leftovers = _nearest(items, vectors, query, conditions, need)
        if catalogue.connection.exclusive:
            if leftovers:
                vectors.delete(ids=leftovers)
            break
        # On a server, an item may have been rewritten after its vector was found. If the same rows are left over again,
        # they stem from a process that died, and cannot be told from those of a write that is under way.
        if known.issuperset(leftovers):
            break
        known.update(leftovers)
    return sorted(best.values(), key=lambda found: -found[0])


def _nearest(
    items: Collection, vectors: Collection, query: Sequence[float], conditions: Mapping[str, Any] | None, need: int
) -> tuple[dict[str, tuple[float, StoredItem]], list[str]]:
    """Scores and items by key, and the vectors met on the way that belong to no item as it is."""
    clauses = where_clause(conditions)
    allowed = matching_keys(items, clauses) if clauses else None
    if allowed is not None and len(allowed) <= FEW:
        hits: Iterator[Hit] = iter(_compared(vectors, query, sorted(allowed)))
    else:
        hits = (hit for hit in _widening(vectors, query, need) if allowed is None or hit.key in allowed)
    best: dict[str, tuple[float, StoredItem]] = {}
    leftovers: list[str] = []
    for hit, item in _with_items(items, hits, need):
        if item is None or item.revision != hit.revision:
            leftovers.append(hit.row)
        elif matches(item.value, conditions):
            if item.key not in best or best[item.key][0] < hit.score:
                best[item.key] = (hit.score, item)
            if len(best) >= need:
                break
    return best, leftovers


def _with_items(items: Collection, hits: Iterator[Hit], need: int) -> Iterator[tuple[Hit, StoredItem | None]]:
    """Hits with their items, which are read in portions, so that few large values are read in vain."""
    known: dict[str, StoredItem | None] = {}
    portion: list[Hit] = []
    size = need
    for hit in hits:
        portion.append(hit)
        if len(portion) >= size:
            yield from _looked_up(items, portion, known)
            portion, size = [], min(2 * size, READ)
    yield from _looked_up(items, portion, known)


def _looked_up(
    items: Collection, portion: list[Hit], known: dict[str, StoredItem | None]
) -> Iterator[tuple[Hit, StoredItem | None]]:
    keys = list(dict.fromkeys(hit.key for hit in portion if hit.key not in known))
    found = read_items(items, keys)
    known.update({key: found.get(key) for key in keys})
    yield from ((hit, known[hit.key]) for hit in portion)


def _widening(vectors: Collection, query: Sequence[float], need: int) -> Iterator[Hit]:
    """All vectors, nearest first, as far as they are asked for; at last also those that the graph does not reach."""
    total = vectors.count()
    size = total if total <= EXACT else max(need * GROWTH, FIRST)
    seen: set[str] = set()
    while total:
        page = vectors.query(query_embeddings=_array(query)[None], n_results=min(size, total), include=["distances"])
        rows, distances = page["ids"][0], (page["distances"] or [[]])[0]
        hits = [Hit(row, 1 - distance) for row, distance in zip(rows, distances, strict=True)]
        if size >= total:
            hits += _unreached(vectors, query, {*rows, *seen})
            hits.sort(key=lambda hit: -hit.score)
        yield from (hit for hit in hits if hit.row not in seen)
        if size >= total:
            return
        seen.update(rows)
        size *= GROWTH


def _unreached(vectors: Collection, query: Sequence[float], reached: set[str]) -> list[Hit]:
    missing = [row for row in vectors.get(include=[])["ids"] if row not in reached]
    hits: list[Hit] = []
    for start in range(0, len(missing), READ):
        hits += _scored(vectors.get(ids=missing[start : start + READ], include=["embeddings"]), query)
    return hits


def _compared(vectors: Collection, query: Sequence[float], keys: Sequence[str]) -> list[Hit]:
    """The vectors of some items, nearest first."""
    hits: list[Hit] = []
    for start in range(0, len(keys), READ):
        where: Any = {"key": {"$in": list(keys[start : start + READ])}}
        hits += _scored(vectors.get(where=where, include=["embeddings"]), query)
    return sorted(hits, key=lambda hit: -hit.score)


def _scored(page: Mapping[str, Any], query: Sequence[float]) -> list[Hit]:
    if not page["ids"]:
        return []
    stored, asked = np.asarray(page["embeddings"], dtype=np.float64), _array(query)
    lengths = np.linalg.norm(stored, axis=1) * np.linalg.norm(asked)
    scores = np.divide(stored @ asked, lengths, out=np.zeros(len(stored)), where=lengths > 0)
    return [Hit(row, float(score)) for row, score in zip(page["ids"], scores, strict=True)]


def _array(query: Sequence[float]) -> NDArray[np.float32]:
    return np.asarray(query, dtype=np.float32)
