"""ChromaStore: LangGraph's long-term memory on chromadb, in a local folder or on a server.

The row of an item is what counts: it is written in one piece, and names the revision whose vectors belong to it. New
vectors are written before it and old ones removed after it, so whenever a process dies, the item has the vectors of the
value that it has. Vectors of no current revision are leftovers, which searches pass over.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.utils import batch_iterate
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)
from numpy.typing import NDArray

from langchain_tooltree.errors import ConfigurationError, EmbedderMismatchError, StoreError
from langchain_tooltree.experience.embeddings import embedded, embedder_name, resolve_embeddings
from langchain_tooltree.flows import Flow, FunctionStep, TwinStep, arun_flow, run_flow
from langchain_tooltree.stores.connection import BATCH, Labels, connect

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

Row = Mapping[str, Any]
"""Metadata of an item's row: `value` is JSON, `created` and `updated` are microseconds since 1970, `revision` names
this writing of the item, and `vectors` says how many it has."""

WHOLE = "$"  # the path of an item's whole value
PAYLOAD = 8 * 2**20  # bytes written at once: a Chroma server refuses more than 40 MB
EXACT = 5000  # up to so many vectors a query looks at all of them, which takes some 25 ms
FIRST = 200  # vectors asked for at first in a larger namespace; the more, the fewer does Chroma's graph miss
_BITS = 18  # of the time, in each of three numbers; a float of 32 bits is exact up to 24
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Write(NamedTuple):
    """What is to become of an item: its value, `None` to delete it, and the texts by which a query finds it."""

    key: str
    value: Mapping[str, Any] | None
    document: str = ""  # the value in JSON
    texts: tuple[str, ...] = ()


Vectors = dict[str, Sequence[float]]  # by text
Writes = dict[Labels, dict[str, Write]]  # by namespace and key


class ChromaStore(BaseStore):
    """A LangGraph store on chromadb: items by key, filters, and search by meaning.

    ```python
    with ChromaStore("memories/") as store:
        store.put(("users", "ada"), "seat", {"text": "prefers the aisle"})
        store.search(("users", "ada"), query="where to sit")
    ```

    It behaves as `PostgresStore` does, which can take its place when a folder or one server is no longer enough, but
    has no expiry (`ttl=`). Search results have a cosine similarity as `score`, higher is better; without a query they
    have none and come newest first. A query finds indexed items only, and looks into each namespace below the prefix.
    It is exact in namespaces of up to 5,000 vectors; beyond, Chroma's index may miss a near one now and then.

    A *local folder* belongs to one process at a time, even for reading, since chromadb silently loses data when two
    use it; threads, tasks and several `ChromaStore`s of that process may share it. Several processes share a server:
    `ChromaStore(chromadb.HttpClient(...))`. When a process is killed, each item is as it was before or after the write.

    Args:
        path_or_client: A folder, made if it does not exist, or a sync chromadb client, which stays yours to close.
        embeddings: Embeds what is indexed and searched for: a LangChain `Embeddings`, or a name as `init_embeddings`
            takes it. `None` is `HashingEmbeddings()`, which compares wording and needs no model. A store remembers
            which one filled it.
        fields: Paths of what is embedded of each item, as in `IndexConfig`; by default its whole value.

    Raises:
        ConfigurationError: If an argument cannot work.
        MissingExtraError: If chromadb is not installed: `pip install 'langchain-tooltree[chroma]'`.
        StoreLockedError: If another process has the folder; and from every method in a forked child.
        EmbedderMismatchError: If another embedder filled the store; from the methods that embed.
    """

    def __init__(
        self,
        path_or_client: str | os.PathLike[str] | ClientAPI,
        *,
        embeddings: Embeddings | str | None = None,
        fields: Sequence[str] = (WHOLE,),
    ) -> None:
        if isinstance(fields, str) or not fields or not all(isinstance(path, str) and path for path in fields):
            msg = f"fields must be a list of paths such as ['text', 'steps[*].result'] or ['$'], got {fields!r}."
            raise ConfigurationError(msg)
        self.embeddings = resolve_embeddings(embeddings)
        self._fields = tuple(fields)
        self._dims: int | None = None
        self._chroma = connect(path_or_client)
        # A store that is dropped without close() must not keep its folder.
        self._finalizer = weakref.finalize(self, self._chroma.release)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations together and return their results in order; reads see the state before the batch's writes.

        Raises `StoreError` if the store is closed, was inherited over a fork, or was filled by another embedder.
        """
        return run_flow(self._execute(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations together without blocking the event loop; see `batch`."""
        return await arun_flow(self._execute(list(ops)))

    def vacuum(self, prefix: Sequence[str] = ()) -> bool:
        """Write what is left of the namespaces that begin with a prefix anew, so that no file holds what was deleted.

        It takes as long as writing all of it did, and the space of a copy meanwhile. In a namespace that is not below
        the prefix, ids and vectors of deleted items may stay in Chroma's index; no text does. Returns whether it was
        done: the files of a server are out of reach.
        """
        with self._chroma.mutex:
            self._check_open()
            return self._chroma.vacuum(tuple(prefix))

    def close(self) -> None:
        """Let go of the folder, so that another process may open it. A client that you passed stays open."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _execute(self, ops: list[Op]) -> Flow[list[Result]]:
        self._check_open()
        writes: Writes = {}  # of several to one item, the last one counts
        for op in ops:
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                writes.setdefault(op.namespace, {})[op.key] = _parse(op, self._fields)
        texts = list(dict.fromkeys(text for puts in writes.values() for put in puts.values() for text in put.texts))
        vectors: Vectors = {}
        if texts:
            vectors = dict(zip(texts, (yield from embedded(self.embeddings, texts)), strict=True))
        embed, aembed = self.embeddings.embed_query, self.embeddings.aembed_query
        queries: Vectors = {}
        for query in dict.fromkeys(op.query for op in ops if isinstance(op, SearchOp)):
            if query:  # an empty one is none, as in LangGraph's own stores
                queries[query] = yield TwinStep(partial(embed, query), partial(aembed, query))
        results: list[Result] = yield FunctionStep(lambda _: self._apply(ops, queries, writes, vectors), None)
        return results

    def _apply(self, ops: Sequence[Op], queries: Vectors, writes: Writes, vectors: Vectors) -> list[Result]:
        # Writers are kept away while reading, where they are all in this process; a server is read freely.
        with self._chroma.mutex if writes or self._chroma.exclusive else contextlib.nullcontext():
            self._check_open()  # it may have been closed while embedding
            for vector in (*vectors.values(), *queries.values()):
                self._check_embedder(len(vector), claim=bool(vectors))
            results = [self._read(op, queries) for op in ops]
            for namespace, puts in writes.items():
                self._write(namespace, [*puts.values()], vectors)
        return results

    def _check_open(self) -> None:
        self._chroma.check()
        if not self._finalizer.alive:
            msg = "This ChromaStore is closed. Open a new one."
            raise StoreError(msg)

    def _check_embedder(self, dims: int, *, claim: bool) -> None:
        if dims == self._dims:
            return
        name = embedder_name(self.embeddings)
        filled_by = self._chroma.embedder({"name": name, "dims": dims} if claim else None)
        if filled_by is None:
            return
        if (filled_by["name"], filled_by["dims"]) != (name, dims):
            named, length = filled_by["name"], filled_by["dims"]
            msg = (
                f"This store was filled by {named} with vectors of length {length}, which cannot be compared with "
                f"those of {name} with vectors of length {dims}. Pass embeddings={named}, or write to a new store."
            )
            raise EmbedderMismatchError(msg)
        self._dims = dims

    def _read(self, op: Op, queries: Vectors) -> Result:
        match op:
            case PutOp():
                return None
            case GetOp():
                items = self._chroma.collection("items", op.namespace)
                row = _rows(items, [op.key]).get(op.key) if items else None
                return Item(namespace=op.namespace, key=op.key, **_content(row)) if row else None
            case SearchOp():
                check_filter(op.filter)
                return self._nearest(op, queries[op.query]) if op.query else self._newest(op)
            case ListNamespacesOp():
                return self._list(op)
        msg = f"Unknown operation type: {type(op)}"
        raise ValueError(msg)

    def _list(self, op: ListNamespacesOp) -> list[Labels]:
        labels = {
            namespace[: op.max_depth]
            for namespace in self._chroma.below()
            if all(_fits(namespace, condition) for condition in op.match_conditions or ())
            and (items := self._chroma.collection("items", namespace)) is not None
            and items.count()
        }
        return sorted(labels)[op.offset : op.offset + op.limit]

    def _newest(self, op: SearchOp) -> list[SearchItem]:
        """The matching items below a prefix, the last written ones first."""
        below = self._chroma.below(op.namespace_prefix)
        spaces = {space: items for space in below if (items := self._chroma.collection("items", space)) is not None}
        places = [(at, space, key) for space, items in spaces.items() for key, at in _times(items).items()]
        places.sort(key=lambda place: -place[0])
        if not op.filter:  # what is skipped need not be read
            places = places[op.offset : op.offset + op.limit]
        matching = (each for each in _read_places(spaces, places) if matches(json.loads(each[2]["value"]), op.filter))
        first = op.offset if op.filter else 0
        return [
            SearchItem(namespace=namespace, key=key, **_content(row))
            for namespace, key, row in islice(matching, first, first + op.limit)
        ]

    def _nearest(self, op: SearchOp, query: Sequence[float]) -> list[SearchItem]:
        """The matching items below a prefix that are nearest to a query, each by the best of its vectors."""
        end = op.offset + op.limit
        hits = [
            SearchItem(namespace=namespace, key=key, score=score, **_content(row))
            for namespace in self._chroma.below(op.namespace_prefix)
            for key, (score, row) in self._nearest_in(namespace, query, op.filter, end).items()
        ]
        hits.sort(key=lambda item: item.score or 0.0, reverse=True)
        return hits[op.offset : end]

    def _nearest_in(
        self, namespace: Labels, query: Sequence[float], conditions: Mapping[str, Any] | None, need: int
    ) -> dict[str, tuple[float, Row]]:
        """Score and row by key of the `need` nearest matching items of one namespace."""
        items, vectors = self._chroma.collection("items", namespace), self._chroma.collection("vectors", namespace)
        best: dict[str, tuple[float, Row]] = {}
        if items is None or vectors is None or need <= 0:
            return best
        leftovers: list[str] = []
        hits = _hits(vectors, np.asarray(query, dtype=np.float32), need)
        for portion in batch_iterate(BATCH if conditions else need, hits):
            rows = _rows(items, list({_key(vector_id) for vector_id, _ in portion}))
            for vector_id, score in portion:
                key = _key(vector_id)
                if key not in rows or rows[key]["revision"] != vector_id.split(".", 1)[0]:
                    leftovers.append(vector_id)
                elif key not in best and len(best) < need and matches(json.loads(rows[key]["value"]), conditions):
                    best[key] = (score, rows[key])
            if len(best) >= need:
                break
        if leftovers and self._chroma.exclusive:  # on a server, they may belong to a write that is under way
            vectors.delete(ids=leftovers)
        return best

    def _write(self, namespace: Labels, writes: Sequence[Write], vectors: Vectors) -> None:
        """Put and delete items of one namespace; the caller holds the connection's mutex."""
        puts = [write for write in writes if write.value is not None]
        items = self._chroma.make("items", namespace) if puts else self._chroma.collection("items", namespace)
        if items is None:
            return
        before = _rows(items, [write.key for write in writes])
        now = time.time_ns() // 1000
        # A microsecond apart, so that they have an order; writing one takes longer.
        after = {put.key: _row(put, before.get(put.key), now + position) for position, put in enumerate(puts)}
        new = [
            (vector_id, vectors[text], {"key": put.key})
            for put in puts
            for vector_id, text in zip(_vector_ids(put.key, after[put.key]), put.texts, strict=True)
        ]
        if new:
            _upsert(self._chroma.make("vectors", namespace), new)
        _upsert(items, [(f":{key}", _time_parts(row["updated"]), row) for key, row in after.items()])
        deleted = [write.key for write in writes if write.value is None and write.key in before]
        for ids in batch_iterate(BATCH, (f":{key}" for key in deleted)):
            items.delete(ids=ids)
        outdated = [vector_id for key, row in before.items() for vector_id in _vector_ids(key, row)]
        if outdated and (stored := self._chroma.collection("vectors", namespace)) is not None:
            for ids in batch_iterate(BATCH, outdated):
                stored.delete(ids=ids)
        if deleted and self._chroma.exclusive and items.count() == 0:
            self._chroma.drop(namespace)


def _parse(op: PutOp, fields: Sequence[str]) -> Write:
    if op.value is None:
        return Write(op.key, None)
    if op.ttl is not None:
        msg = "TTL is not supported by ChromaStore. Use a store implementation that supports TTL or set ttl=None."
        raise NotImplementedError(msg)
    paths = fields if op.index is None else op.index or ()
    tokens = (WHOLE if path == WHOLE else tokenize_path(path) for path in paths)
    texts = dict.fromkeys(text for each in tokens for text in get_text_at_path(dict(op.value), each))
    return Write(op.key, op.value, json.dumps(op.value), tuple(texts))


def _fits(namespace: Labels, condition: MatchCondition) -> bool:
    if condition.match_type not in {"prefix", "suffix"}:
        msg = f"Unsupported match type: {condition.match_type}"
        raise ValueError(msg)
    path = condition.path
    start = 0 if condition.match_type == "prefix" else max(0, len(namespace) - len(path))
    pairs = zip(namespace[start:], path, strict=False)
    return len(namespace) >= len(path) and all(wanted in {"*", label} for label, wanted in pairs)


def _row(write: Write, before: Row | None, now: int) -> dict[str, Any]:
    return {
        "value": write.document,
        "created": before["created"] if before else now,
        "updated": now,
        "revision": uuid.uuid4().hex,
        "vectors": len(write.texts),
    }


def _content(row: Row) -> dict[str, Any]:
    """What LangGraph's items say: a fresh copy of the value, and when it was written first and last."""
    return {
        "value": json.loads(row["value"]),
        "created_at": _EPOCH + timedelta(microseconds=row["created"]),
        "updated_at": _EPOCH + timedelta(microseconds=row["updated"]),
    }


def _vector_ids(key: str, row: Row) -> list[str]:
    """The ids of an item's vectors, from which the item can be told without reading the rows."""
    return [f"{row['revision']}.{position}.{key}" for position in range(row["vectors"])]


def _key(vector_id: str) -> str:
    return vector_id.split(".", 2)[2]


def _time_parts(microseconds: int) -> NDArray[np.float32]:
    """Microseconds since 1970 as the vector of an item's row, which is read without the item's value."""
    mask = (1 << _BITS) - 1
    return np.array([microseconds >> 2 * _BITS, microseconds >> _BITS & mask, microseconds & mask], dtype=np.float32)


def _times(items: Collection) -> dict[str, int]:
    """When each item of a namespace was last written, in microseconds since 1970."""
    page = items.get(include=["embeddings"])
    parts = np.asarray(page["embeddings"], dtype=np.int64).reshape(-1, 3)
    times = (parts[:, 0] << 2 * _BITS) + (parts[:, 1] << _BITS) + parts[:, 2]
    return dict(zip((row_id[1:] for row_id in page["ids"]), times.tolist(), strict=True))


def _rows(items: Collection, keys: Sequence[str]) -> dict[str, Row]:
    """The rows of some items, as far as they are there. Ids begin with a colon: Chroma allows none that is empty."""
    pages = (items.get(ids=ids, include=["metadatas"]) for ids in batch_iterate(BATCH, (f":{key}" for key in keys)))
    return {row_id[1:]: row for page in pages for row_id, row in zip(page["ids"], page["metadatas"] or (), strict=True)}


def _read_places(
    spaces: Mapping[Labels, Collection], places: Iterable[tuple[int, Labels, str]]
) -> Iterator[tuple[Labels, str, Row]]:
    """Items of several namespaces in the order given, as far as they are asked for."""
    for portion in batch_iterate(BATCH, places):
        keys: dict[Labels, list[str]] = {}
        for _, namespace, key in portion:
            keys.setdefault(namespace, []).append(key)
        rows = {namespace: _rows(spaces[namespace], wanted) for namespace, wanted in keys.items()}
        yield from ((space, key, rows[space][key]) for _, space, key in portion if key in rows[space])


def _hits(vectors: Collection, query: NDArray[np.float32], need: int) -> Iterator[tuple[str, float]]:
    """Id and cosine similarity of all vectors, nearest first; at last also those that the graph does not reach."""
    total = vectors.count()
    sizes = [total] if total <= EXACT else [min(max(4 * need, FIRST), total), total]
    seen: set[str] = set()
    for size in sizes if total else ():
        page = vectors.query(query_embeddings=query[None], n_results=size, include=["distances"])
        ids, distances = page["ids"][0], (page["distances"] or [[]])[0]
        hits = [(row, 1 - distance) for row, distance in zip(ids, distances, strict=True) if row not in seen]
        seen.update(ids)
        if size == total:
            missing = [row for row in vectors.get(include=[])["ids"] if row not in seen]
            for rows in batch_iterate(BATCH, missing):
                hits += _compared(vectors, rows, query)
            hits.sort(key=lambda hit: -hit[1])
        yield from hits


def _compared(vectors: Collection, ids: list[str], query: NDArray[np.float32]) -> Iterator[tuple[str, float]]:
    page = vectors.get(ids=ids, include=["embeddings"])
    stored = np.asarray(page["embeddings"], dtype=np.float64).reshape(-1, len(query))
    lengths = np.linalg.norm(stored, axis=1) * np.linalg.norm(query)
    scores = np.divide(stored @ query, lengths, out=np.zeros(len(stored)), where=lengths > 0)
    return zip(page["ids"], scores.tolist(), strict=True)


def _upsert(collection: Collection, rows: Sequence[tuple[str, Any, Row]]) -> None:
    """Write ids, vectors and metadata in portions that chromadb takes at once."""
    largest = max((6 * len(vector) + len(row.get("value", "")) for _, vector, row in rows), default=1)  # in base64
    for piece in batch_iterate(max(1, min(BATCH, PAYLOAD // largest)), rows):
        ids, vectors, metadatas = (list(column) for column in zip(*piece, strict=True))
        collection.upsert(ids=ids, embeddings=vectors, metadatas=metadatas)


# --- filters ---

# Where LangGraph's own stores differ: a missing key equals `None`, and `$ne` never matches it; numbers compare as
# numbers, texts as texts (so ISO dates work); what cannot be compared does not match.
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def check_filter(conditions: Mapping[str, Any] | None) -> None:
    """Raise `ValueError` for an operator that does not exist, whether or not there is an item to apply it to."""
    for expected in (conditions or {}).values():
        if _has_operators(expected):
            if unknown := [name for name in expected if name not in _OPERATORS]:
                msg = f"Unsupported operator: {unknown[0]}. Supported are {', '.join(_OPERATORS)}."
                raise ValueError(msg)
        elif isinstance(expected, Mapping):
            check_filter(expected)


def matches(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    """Whether an item's value passes a filter; a nested mapping without operators matches each of its keys."""
    return all(_holds(value.get(key), expected, key in value) for key, expected in (conditions or {}).items())


def _holds(actual: Any, expected: Any, is_there: bool) -> bool:  # noqa: FBT001
    if not isinstance(expected, Mapping):
        return bool(actual == expected)
    if not _has_operators(expected):
        return isinstance(actual, Mapping) and matches(actual, expected)
    if "$ne" in expected and not is_there:
        return False
    try:
        return all(_OPERATORS[name](actual, operand) for name, operand in expected.items())
    except TypeError:  # they have no order
        return False


def _has_operators(expected: Any) -> bool:
    return isinstance(expected, Mapping) and any(name.startswith("$") for name in expected)
