"""How a store answers operations: planned together, filtered, searched by vector, in the order LangGraph expects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.utils import batch_iterate
from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)
from numpy.typing import NDArray

from langchain_tooltree.stores.chroma.connection import Connection, Labels
from langchain_tooltree.stores.chroma.filters import check_filter, matches, where_clause
from langchain_tooltree.stores.chroma.items import READ, StoredItem, Write, matching_keys, read_items

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

EXACT = 5000
"""Up to so many vectors a query looks at all of them, which takes some 25 ms."""

FEW = 1000
"""Up to so many items that pass a filter are compared one by one, which takes some 50 ms."""

FIRST = 200
"""Vectors that are asked for at first; the more, the fewer does Chroma's graph miss."""

GROWTH = 4
"""By what that number grows when they did not suffice: few queries, and none that reads far too much."""

ATTEMPTS = 5
"""How often a query on a server is repeated while others rewrite what it finds."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A vector near to a query, by its id, with its cosine similarity."""

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
    connection: Connection, namespace: Labels, query: Sequence[float], conditions: Mapping[str, Any] | None, need: int
) -> list[tuple[float, StoredItem]]:
    """The items of one namespace that are nearest to a query, each by the best of its vectors."""
    items, vectors = connection.items(namespace), connection.vectors(namespace)
    if items is None or vectors is None:
        return []
    known: set[str] = set()
    for _ in range(ATTEMPTS):
        best, leftovers = _nearest(items, vectors, np.asarray(query, dtype=np.float32), conditions, need)
        if connection.exclusive:
            if leftovers:
                vectors.delete(ids=leftovers)
            break
        # On a server, an item may have been rewritten after its vector was found. If the same rows are left over again,
        # they stem from a process that died, and look like those of a write that is under way.
        if known.issuperset(leftovers):
            break
        known.update(leftovers)
    return sorted(best.values(), key=lambda found: -found[0])


def _nearest(
    items: Collection, vectors: Collection, query: NDArray[np.float32], conditions: Mapping[str, Any] | None, need: int
) -> tuple[dict[str, tuple[float, StoredItem]], list[str]]:
    """Scores and items by key, and the vectors met on the way that belong to no item as it is."""
    clauses = where_clause(conditions)
    allowed = matching_keys(items, clauses) if clauses else None
    if allowed is not None and len(allowed) <= FEW:
        wheres: Iterator[Any] = ({"key": {"$in": keys}} for keys in batch_iterate(READ, sorted(allowed)))
        pages = (vectors.get(where=where, include=["embeddings"]) for where in wheres)
        hits = iter(sorted(_scored(pages, query), key=lambda hit: -hit.score))
    else:
        hits = (hit for hit in _widening(vectors, query, need) if allowed is None or hit.key in allowed)
    best: dict[str, tuple[float, StoredItem]] = {}
    leftovers: list[str] = []
    for hit, item in _with_items(items, hits, need):
        if item is None or item.row["revision"] != hit.revision:
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
    size = need
    while portion := list(islice(hits, size)):
        keys = list(dict.fromkeys(hit.key for hit in portion if hit.key not in known))
        found = read_items(items, keys)
        known.update({key: found.get(key) for key in keys})
        yield from ((hit, known[hit.key]) for hit in portion)
        size = min(2 * size, READ)


def _widening(vectors: Collection, query: NDArray[np.float32], need: int) -> Iterator[Hit]:
    """All vectors, nearest first, as far as they are asked for; at last also those that the graph does not reach."""
    total = vectors.count()
    size = total if total <= EXACT else max(need * GROWTH, FIRST)
    seen: set[str] = set()
    while total:
        page = vectors.query(query_embeddings=query[None], n_results=min(size, total), include=["distances"])
        rows, distances = page["ids"][0], (page["distances"] or [[]])[0]
        hits = [Hit(row, 1 - distance) for row, distance in zip(rows, distances, strict=True)]
        if size >= total:
            reached = {*rows, *seen}
            missing = batch_iterate(READ, (row for row in vectors.get(include=[])["ids"] if row not in reached))
            hits += _scored((vectors.get(ids=ids, include=["embeddings"]) for ids in missing), query)
            hits.sort(key=lambda hit: -hit.score)
        yield from (hit for hit in hits if hit.row not in seen)
        if size >= total:
            return
        seen.update(rows)
        size *= GROWTH


def _scored(pages: Iterable[Mapping[str, Any]], query: NDArray[np.float32]) -> Iterator[Hit]:
    """The vectors on some pages."""
    for page in pages:
        if page["ids"]:
            stored = np.asarray(page["embeddings"], dtype=np.float64)
            lengths = np.linalg.norm(stored, axis=1) * np.linalg.norm(query)
            scores = np.divide(stored @ query, lengths, out=np.zeros(len(stored)), where=lengths > 0)
            yield from (Hit(row, float(score)) for row, score in zip(page["ids"], scores, strict=True))


WHOLE = "$"
"""The path of an item's whole value."""


@dataclass(slots=True)
class Plan:
    """What a batch asks for; of several writes to one item the last one counts."""

    ops: list[Op]
    puts: dict[Labels, dict[str, Write]] = field(default_factory=dict)
    vectors: dict[str, Sequence[float]] = field(default_factory=dict)  # of the texts to be stored, once they are known
    queries: dict[str, Sequence[float]] = field(default_factory=dict)  # of the queries, once they are known


def plan_batch(ops: Iterable[Op], fields: Sequence[str]) -> Plan:
    """Check a batch and take it apart."""
    plan = Plan(list(ops))
    for op in plan.ops:
        if not isinstance(op, GetOp | SearchOp | PutOp | ListNamespacesOp):
            msg = f"Unknown operation type: {type(op)}"
            raise ValueError(msg)  # noqa: TRY004 - as LangGraph's own stores
        validate_op_namespace(op)
        if isinstance(op, SearchOp):
            check_filter(op.filter)
        elif isinstance(op, PutOp):
            plan.puts.setdefault(op.namespace, {})[op.key] = _put(op, fields)
        elif isinstance(op, ListNamespacesOp):
            for condition in op.match_conditions or ():
                if condition.match_type not in {"prefix", "suffix"}:
                    msg = f"Unsupported match type: {condition.match_type}"
                    raise ValueError(msg)
    return plan


def _put(op: PutOp, fields: Sequence[str]) -> Write:
    if op.value is None:
        return Write(op.key, None)
    if op.ttl is not None:
        msg = "TTL is not supported by ChromaStore. Use a store implementation that supports TTL or set ttl=None."
        raise NotImplementedError(msg)
    value = dict(op.value)
    _check_keys(value)
    paths = fields if op.index is None else op.index or ()
    tokens = (WHOLE if path == WHOLE else tokenize_path(path) for path in paths)
    texts = dict.fromkeys(text for each in tokens for text in get_text_at_path(value, each))
    return Write(op.key, value, json.dumps(value), tuple(texts))


def _check_keys(value: Any) -> None:
    """JSON would make strings of other keys, and the value would come back changed."""
    if isinstance(value, Mapping):
        for key, nested in value.items():
            if not isinstance(key, str):
                msg = f"The keys of a stored value must be strings, got {key!r}."
                raise TypeError(msg)
            _check_keys(nested)
    elif isinstance(value, list | tuple):
        for nested in value:
            _check_keys(nested)


def list_matching(namespaces: Iterable[Labels], op: ListNamespacesOp) -> list[Labels]:
    """The namespaces that an operation asks for."""
    found = {
        namespace[: op.max_depth]
        for namespace in namespaces
        if all(_matches(namespace, condition) for condition in op.match_conditions or ())
    }
    return sorted(found)[op.offset : op.offset + op.limit]


def _matches(namespace: Labels, condition: MatchCondition) -> bool:
    path = condition.path
    start = 0 if condition.match_type == "prefix" else len(namespace) - len(path)
    pairs = zip(namespace[max(0, start) :], path, strict=False)
    return len(namespace) >= len(path) and all(wanted in {"*", label} for label, wanted in pairs)
