"""ChromaStore: LangGraph's long-term memory on chromadb, in a local folder or on a server.

An item is a row of a collection. What is indexed has a collection for each namespace, with its vectors. All else, such
as the records and the tips of one user, shares a collection with its sibling namespaces, so that a batch writes it at
once.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import re
import shutil
import sqlite3
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

from langchain_core.embeddings import Embeddings
from langchain_core.utils import batch_iterate
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
    validate_op_namespace,
)

from langchain_tooltree._langgraph import fits_condition, fits_filter
from langchain_tooltree.embeddings import embedded, embedder_name, resolve_embeddings
from langchain_tooltree.errors import (
    ConfigurationError,
    EmbedderMismatchError,
    StoreError,
    StoreLockedError,
    import_extra,
)
from langchain_tooltree.flows import run_flow
from langchain_tooltree.stores.locks import try_lock
from langchain_tooltree.text import digest

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

NamespaceLabels = tuple[str, ...]  # of a namespace
ItemKey = tuple[NamespaceLabels, str]  # namespace and key of an item
Home = tuple[
    str, NamespaceLabels
]  # kind of a collection, and the labels that it is for
Hit = tuple[str, float]  # id of a row, and its similarity to the query
Row = Mapping[str, Any]
"""What is stored of an item: its `value`, and when it was `created` and `updated`, in microseconds since 1970."""
RowsByItem = Mapping[ItemKey, Mapping[Home, Row]]

WHOLE_VALUE_PATH = "$"  # the path of an item's whole value
ROW_BATCH_SIZE = 500  # rows read, written or deleted at once: chromadb refuses to write more than 5,461
PAYLOAD = 8 * 2**20  # bytes written at once: a Chroma server refuses more than 40 MB
FIRST_FILTERED_ROWS = 50  # rows that a query with a filter asks for first
INDEXED, PLAIN = (
    "indexed",
    "plain",
)  # kinds of collections: for a namespace, with vectors; for sibling namespaces

LOCK_FILE = "tooltree.lock"
DATABASE = "chroma.sqlite3"  # where Chroma keeps rows; the folders beside it are its indexes, one for each collection
INDEX = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)  # the name of such a folder
CATALOGUE = ("catalogue", ())  # home of the collection with a row for each namespace
COPY = "-copy"  # end of the name of a collection that `vacuum` is writing

NO_VECTOR: Any = [
    0.0
]  # of a row that is not indexed: without one, chromadb embeds it by a model that it downloads
# Each write reads again what was written since the index was saved last, by default up to 1,000 rows with their texts.
SAVED: Any = {"sync_threshold": 20, "batch_size": 20}
# Chroma's defaults leave some 0.5 % of 10,000 text vectors unreachable in the graph; these leave 0.03 %.
COSINE: Any = {
    "space": "cosine",
    "max_neighbors": 32,
    "ef_construction": 200,
    "ef_search": 200,
}
CONFIGURATIONS: Mapping[str, Any] = {
    INDEXED: {"hnsw": COSINE | SAVED},
    PLAIN: {"hnsw": SAVED},
}


class ChromaStore(BaseStore):
    """A LangGraph store on chromadb: items by key, filters, and search by meaning.

    ```python
    with ChromaStore("memories/") as store:
        store.put(("users", "ada"), "seat", {"text": "prefers the aisle"})
        store.search(("users", "ada"), query="where to sit")
    ```

    It behaves as `PostgresStore` does, which can take its place when a folder or one server is no longer enough. But it
    has no expiry (`ttl=`), one vector for each item, and compares in filters as `InMemoryStore` does. Search results
    have a cosine similarity as `score`, higher is better; without a query they have none and come newest first. A query
    finds indexed items only, and looks into each namespace below the prefix. Of 10,000 vectors Chroma's index may leave
    out three.

    A *local folder* belongs to one process at a time, even for reading, since chromadb silently loses data when two
    use it; threads, tasks and several `ChromaStore`s of that process may share it. Several processes share a server:
    `ChromaStore(chromadb.HttpClient(...))`. When a process is killed, each item is as it was before or after the write.

    Args:
        path_or_client: A folder, made if it does not exist, or a sync chromadb client of a server, which stays yours to
            close.
        embeddings: Embeds what is indexed and searched for: a LangChain `Embeddings`, or a name as `init_embeddings`
            takes it. `None` is `HashingEmbeddings()`, which compares wording and needs no model. A store remembers
            which one filled it.
        fields: Paths of what is embedded of each item, as in `IndexConfig`; by default its whole value. The texts of an
            item are embedded together, as one vector.

    Raises:
        ConfigurationError: If an argument cannot work.
        MissingExtraError: If chromadb is not installed: `pip install 'langchain-tooltree[chroma]'`.
        StoreLockedError: If another process has the folder; and from every method in a forked child.
        StoreError: From every method once the store is closed.
        EmbedderMismatchError: If another embedder filled the store; from the methods that embed.
    """

    def __init__(
        self,
        path_or_client: str | os.PathLike[str] | ClientAPI,
        *,
        embeddings: Embeddings | str | None = None,
        fields: Sequence[str] = (WHOLE_VALUE_PATH,),
    ) -> None:
        if (
            isinstance(fields, str)
            or not fields
            or not all(isinstance(path, str) and path for path in fields)
        ):
            msg = f"fields must be a list of paths such as ['text', 'steps[*].result'] or ['$'], got {fields!r}."
            raise ConfigurationError(msg)
        self.embeddings = resolve_embeddings(embeddings)
        self._fields = tuple(fields)
        self._chroma = connect(path_or_client)
        # A store that is dropped without close() must not keep its folder.
        self._finalizer = weakref.finalize(self, self._chroma.release)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations together, and return their results in order; reads see the state before any write."""
        self._check_open()
        operations = list(ops)
        puts: dict[ItemKey, PutOp] = {}  # of several to one item, the last one counts
        for op in operations:
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                puts[op.namespace, op.key] = op
        texts = {
            place: text
            for place, op in puts.items()
            if (text := self._indexed_text(op)) is not None
        }
        distinct = list(dict.fromkeys(texts.values()))
        vectors = (
            dict(
                zip(
                    distinct, run_flow(embedded(self.embeddings, distinct)), strict=True
                )
            )
            if distinct
            else {}
        )
        questions = {
            op.query for op in operations if isinstance(op, SearchOp) and op.query
        }  # an empty query is none
        queries = {query: self.embeddings.embed_query(query) for query in questions}
        # Writers are kept away while reading, where they are all in this process; a server is read freely.
        with (
            self._chroma.mutex
            if puts or self._chroma.folder
            else contextlib.nullcontext()
        ):
            self._check_open()  # it may have been closed while embedding
            rows = self._rows(
                [
                    (op.namespace, op.key)
                    for op in operations
                    if isinstance(op, GetOp | PutOp)
                ]
            )
            results = [self._read(op, queries, rows) for op in operations]
            self._write(
                puts, rows, {place: vectors[text] for place, text in texts.items()}
            )
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations together in a thread; see `batch`."""
        return await asyncio.to_thread(self.batch, ops)

    def vacuum(self, prefix: Sequence[str] = ()) -> bool:
        """Rewrite the namespaces that begin with a prefix, so that no file holds what was deleted from them.

        It takes as long as writing them did, and the space of a copy meanwhile. Ids and vectors of what was deleted
        from other namespaces may stay in Chroma's indexes; no text does. Returns whether it was done: the files of a
        server are out of reach.
        """
        with self._chroma.mutex:
            self._check_open()
            return self._chroma.vacuum(tuple(prefix))

    def close(self) -> None:
        """Release the folder, so that another process may open it. A client that you passed stays open."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        self._chroma.check()
        if not self._finalizer.alive:
            msg = "This ChromaStore is closed. Open a new one."
            raise StoreError(msg)

    def _indexed_text(self, op: PutOp) -> str | None:
        """The text by which a query finds an item; `None` if none does."""
        if op.value is None or op.index is False:
            return None
        texts = [
            text
            for path in op.index or self._fields
            for text in get_text_at_path(op.value, path)
        ]
        return "\n".join(texts) if texts else None

    def _read(
        self, op: Op, queries: Mapping[str, Sequence[float]], rows: RowsByItem
    ) -> Result:
        match op:
            case PutOp():
                return None
            case GetOp():
                if (latest := _latest(rows.get((op.namespace, op.key), {}))) is None:
                    return None
                return Item(namespace=op.namespace, key=op.key, **_get_value(latest[1]))
            case SearchOp():
                return (
                    self._nearest(op, queries[op.query])
                    if op.query
                    else self._newest(op)
                )
            case ListNamespacesOp():
                conditions = op.match_conditions or ()
                spaces = [
                    each
                    for each in self._chroma.below()
                    if all(fits_condition(each, one) for one in conditions)
                ]
                labels = {
                    each[: op.max_depth] for each in spaces if not self._is_empty(each)
                }
                return sorted(labels)[op.offset : op.offset + op.limit]
        msg = f"Unknown operation type: {type(op)}"
        raise ValueError(msg)

    def _collections(self, namespace: NamespaceLabels) -> list[Collection]:
        return [
            each
            for each in map(self._chroma.find, _homes(namespace))
            if each is not None
        ]

    def _is_empty(self, namespace: NamespaceLabels) -> bool:
        own: Any = {"where": {"label": namespace[-1]}, "include": [], "limit": 1}
        return not any(each.get(**own)["ids"] for each in self._collections(namespace))

    def _rows(self, places: Iterable[ItemKey]) -> dict[ItemKey, dict[Home, Row]]:
        """The rows of items, as far as they exist: one each, or two where a process died between two writes."""
        homes: dict[Home, dict[str, ItemKey]] = {}
        for place in places:
            for home in _homes(place[0]):
                homes.setdefault(home, {})[_row_id(place)] = place
        rows: dict[ItemKey, dict[Home, Row]] = defaultdict(dict)
        for home, ids in homes.items():
            if (collection := self._chroma.find(home)) is not None:
                for batch in batch_iterate(ROW_BATCH_SIZE, ids):
                    for row_id, row in _rows_in(
                        collection.get(ids=batch, include=["metadatas"])
                    ):
                        rows[ids[row_id]][home] = row
        return rows

    def _newest(self, op: SearchOp) -> list[SearchItem]:
        """The matching items below a prefix, the last written ones first."""
        rows: dict[ItemKey, Row] = {}
        for namespace in self._chroma.below(op.namespace_prefix):
            for collection in self._collections(namespace):
                for row_id, row in _rows_in(
                    collection.get(
                        where={"label": namespace[-1]}, include=["metadatas"]
                    )
                ):
                    place = namespace, json.loads(row_id)[1]
                    if place not in rows or rows[place]["updated"] < row["updated"]:
                        rows[place] = row
        matching = [
            place for place, row in rows.items() if fits_filter(row["value"], op.filter)
        ]
        matching.sort(key=lambda place: -rows[place]["updated"])
        chosen = matching[op.offset : op.offset + op.limit]
        return [
            SearchItem(namespace=place[0], key=place[1], **_get_value(rows[place]))
            for place in chosen
        ]

    def _nearest(self, op: SearchOp, query: Sequence[float]) -> list[SearchItem]:
        """The matching items below a prefix that are nearest to a query."""
        end = op.offset + op.limit
        items: list[SearchItem] = []
        for namespace in self._chroma.below(op.namespace_prefix):
            if (collection := self._chroma.find((INDEXED, namespace))) is not None:
                self._check_embedder(collection, len(query))
                pages = _hits(
                    collection,
                    query,
                    max(end, FIRST_FILTERED_ROWS) if op.filter else end,
                )
                items += islice(
                    chain.from_iterable(
                        self._fitting(namespace, page, op) for page in pages
                    ),
                    end,
                )
        items.sort(key=lambda item: item.score or 0.0, reverse=True)
        return items[op.offset : end]

    def _fitting(
        self, namespace: NamespaceLabels, hits: Sequence[Hit], op: SearchOp
    ) -> Iterator[SearchItem]:
        """The items of hits that a filter lets through; one that was written last without an index is none."""
        places = [(namespace, json.loads(row_id)[1]) for row_id, _ in hits]
        rows = self._rows(places)
        for place, (_, score) in zip(places, hits, strict=True):
            latest = _latest(rows.get(place, {}))
            if (
                latest
                and latest[0][0] == INDEXED
                and fits_filter(latest[1]["value"], op.filter)
            ):
                yield SearchItem(
                    namespace=namespace,
                    key=place[1],
                    score=score,
                    **_get_value(latest[1]),
                )

    def _check_embedder(self, collection: Collection, dims: int) -> None:
        """Raise `EmbedderMismatchError` where a collection has vectors of another embedder."""
        name, about = embedder_name(self.embeddings), collection.metadata
        if (about["embedder"], about["dims"]) != (name, dims):
            msg = (
                f"This store was filled by {about['embedder']} with vectors of length {about['dims']}, which cannot be "
                f"compared with those of {name} with vectors of length {dims}. Pass embeddings={about['embedder']}, or "
                "write to a new store."
            )
            raise EmbedderMismatchError(msg)

    def _write(
        self,
        puts: Mapping[ItemKey, PutOp],
        before: RowsByItem,
        vectors: Mapping[ItemKey, Sequence[float]],
    ) -> None:
        """Put and delete items; the caller holds the connection's mutex."""
        for namespace, dims in {
            place[0]: len(vector) for place, vector in vectors.items()
        }.items():
            self._chroma.note(namespace)
            about = {"embedder": embedder_name(self.embeddings), "dims": dims}
            self._check_embedder(self._chroma.make((INDEXED, namespace), about), dims)
        now = time.time_ns() // 1000
        changed: dict[Home, list[tuple[str, Any, Any]]] = defaultdict(list)
        stale: dict[Home, list[str]] = defaultdict(list)
        for place, op in puts.items():
            indexed, plain = _homes(place[0])
            home = None if op.value is None else indexed if place in vectors else plain
            old = before.get(place, {})
            for other in old.keys() - {home}:
                stale[other].append(_row_id(place))
            if home is not None:
                self._chroma.note(place[0])
                now += 1  # so that they have an order; writing one takes longer
                created = next((each["created"] for each in old.values()), now)
                row = json.dumps(
                    {"value": op.value, "created": created, "updated": now}
                )
                about = {"label": place[0][-1], "row": row}
                changed[home].append(
                    (_row_id(place), vectors.get(place, NO_VECTOR), about)
                )
        # What is indexed goes first: the items beside it may tell other processes that it has changed.
        for home, rows in sorted(changed.items()):
            _upsert(self._chroma.make(home), rows)
        self._delete(
            stale,
            {namespace for (namespace, _), op in puts.items() if op.value is None},
        )

    def _delete(
        self, rows: Mapping[Home, Sequence[str]], namespaces: Iterable[NamespaceLabels]
    ) -> None:
        """Delete rows, and namespaces that are empty now; on a server somebody else may be filling these."""
        for home, ids in sorted(rows.items()):
            for batch in batch_iterate(ROW_BATCH_SIZE, ids):
                self._chroma.make(home).delete(ids=batch)
        for namespace in namespaces:
            if self._chroma.folder and self._is_empty(namespace):
                self._chroma.drop(namespace)


def _homes(namespace: NamespaceLabels) -> tuple[Home, Home]:
    """Where the rows of indexed items are, and of others."""
    return (INDEXED, namespace), (PLAIN, namespace[:-1])


def _row_id(place: ItemKey) -> str:
    """The id of the row of an item, in ASCII whatever the key is."""
    return json.dumps([place[0][-1], place[1]])


def _rows_in(page: Any) -> Iterator[tuple[str, Row]]:
    """Ids and rows in what Chroma returns."""
    return zip(
        page["ids"],
        (json.loads(metadata["row"]) for metadata in page["metadatas"]),
        strict=True,
    )


def _latest(rows: Mapping[Home, Row]) -> tuple[Home, Row] | None:
    """Of the rows of an item the one that was written last, with its home."""
    return max(rows.items(), key=lambda each: each[1]["updated"], default=None)


def _get_value(row: Row) -> dict[str, Any]:
    """What LangGraph's items say: the value, and when it was written first and last."""
    return {
        "value": row["value"],
        "created_at": datetime.fromtimestamp(row["created"] / 1e6, UTC),
        "updated_at": datetime.fromtimestamp(row["updated"] / 1e6, UTC),
    }


def _hits(
    collection: Collection, query: Sequence[float], size: int
) -> Iterator[list[Hit]]:
    """Nearest first: so many hits, and where these are not enough, ten times as many."""
    ids: set[str] = set()
    while True:
        # Without the rows: chromadb cannot read those of 50,000 at once.
        page: Any = collection.query(
            query_embeddings=[query], n_results=size, include=["distances"]
        )
        pairs = list(zip(page["ids"][0], page["distances"][0], strict=True))
        yield [
            (row_id, 1 - distance) for row_id, distance in pairs if row_id not in ids
        ]
        if len(pairs) < size:
            return
        ids.update(row_id for row_id, _ in pairs)
        size *= 10


def _upsert(
    collection: Collection, rows: Sequence[tuple[str, Any, Mapping[str, str]]]
) -> None:
    """Write ids, vectors and metadata in portions that chromadb takes at once."""
    largest = max(
        6 * len(vector) + len(metadata["row"]) for _, vector, metadata in rows
    )  # in base64
    for piece in batch_iterate(max(1, min(ROW_BATCH_SIZE, PAYLOAD // largest)), rows):
        ids, vectors, metadatas = (list(column) for column in zip(*piece, strict=True))
        collection.upsert(ids=ids, embeddings=vectors, metadatas=metadatas)


# --- connections ---


@dataclass
class Connection:
    """A chromadb client with its collections; all stores of this process on a folder share one.

    `folder` is `None` for a server, which others may write to at any time. With a folder, whoever holds `mutex` is
    alone; `lock` is the descriptor of its lock file. `users` counts the stores that have not been closed.
    """

    client: ClientAPI
    folder: Path | None = None
    lock: int = -1
    users: int = 0
    mutex: threading.RLock = field(default_factory=threading.RLock)
    _process: int = field(default_factory=os.getpid)
    _collections: dict[str, Collection | None] = field(
        default_factory=dict
    )  # `None` for one that is not in the folder
    _noted: set[NamespaceLabels] = field(
        default_factory=set
    )  # namespaces that are in the catalogue

    def check(self) -> None:
        """Raise `StoreLockedError` in a forked child."""
        if os.getpid() != self._process:
            msg = (
                f"This ChromaStore was opened by process {self._process} and inherited by process {os.getpid()} over a "
                "fork, where chromadb hangs or loses data. Open it after forking, or share a Chroma server: "
                "ChromaStore(chromadb.HttpClient(...))."
            )
            raise StoreLockedError(msg)

    def release(self) -> None:
        """End the use by one store; the last one closes the folder. In a forked child, nothing happens."""
        if os.getpid() != self._process:
            return
        with _folders_lock:
            self.users -= 1
            if self.users or self.folder is None:
                return
            del _folders[self.folder]
            try:
                with (
                    self.mutex
                ):  # a write under way in another thread is finished first
                    self.client.close()  # type: ignore[attr-defined]  # those of folders have it
                    _blank(self.folder)
            finally:
                os.close(self.lock)

    def find(self, home: Home) -> Collection | None:
        """The collection with a home; `None` before it is made."""
        from chromadb.errors import NotFoundError  # noqa: PLC0415 - the extra is loaded where it is used

        name = _name(home)
        if name not in self._collections:
            try:
                self._collections[name] = self.client.get_collection(
                    name, embedding_function=None
                )
            except NotFoundError:
                if self.folder is None:  # somebody else may make it on a server
                    return None
                self._collections[name] = None
        return self._collections[name]

    def make(self, home: Home, about: Any = None) -> Collection:
        """As `find`, made if need be. Of two processes that do so at once, the metadata of the first one count."""
        if (collection := self.find(home)) is None:
            settings: Any = {
                "metadata": about,
                "configuration": CONFIGURATIONS.get(home[0]),
            }
            collection = self.client.get_or_create_collection(
                _name(home), embedding_function=None, **settings
            )
            self._collections[collection.name] = collection
        return collection

    def note(self, namespace: NamespaceLabels) -> None:
        """Enter a namespace into the catalogue before it has items: the reverse order could lose them."""
        if namespace not in self._noted:
            self.make(CATALOGUE).upsert(
                ids=[json.dumps(namespace)], embeddings=[NO_VECTOR]
            )
            self._noted.add(namespace)

    def below(self, prefix: NamespaceLabels = ()) -> list[NamespaceLabels]:
        """The namespaces that start with a prefix."""
        rows = self.find(CATALOGUE)
        namespaces = (
            [tuple(json.loads(row)) for row in rows.get(include=[])["ids"]]
            if rows
            else []
        )
        return sorted(
            namespace for namespace in namespaces if namespace[: len(prefix)] == prefix
        )

    def drop(self, namespace: NamespaceLabels) -> None:
        """Remove an empty namespace."""
        for home in _homes(namespace):
            if (collection := self.find(home)) is not None and not collection.count():
                self.client.delete_collection(collection.name)
                del self._collections[collection.name]
        self._noted.discard(namespace)
        self.make(CATALOGUE).delete(ids=[json.dumps(namespace)])

    def vacuum(self, prefix: NamespaceLabels) -> bool:
        """See `ChromaStore.vacuum`. A collection goes once its copy is whole; `recover` finds that after a kill."""
        if self.folder is None:
            return False
        self.recover()
        homes = {home for namespace in self.below(prefix) for home in _homes(namespace)}
        for home in (CATALOGUE, *homes):
            if (old := self.find(home)) is None:
                continue
            settings: Any = {
                "metadata": old.metadata,
                "configuration": CONFIGURATIONS.get(home[0]),
            }
            copy = self.client.create_collection(
                f"{old.name}{COPY}", embedding_function=None, **settings
            )
            for ids in batch_iterate(ROW_BATCH_SIZE, old.get(include=[])["ids"]):
                page = old.get(ids=ids, include=["embeddings", "metadatas"])
                copy.upsert(
                    ids=page["ids"],
                    embeddings=page["embeddings"],
                    metadatas=page["metadatas"],
                )
            self.client.delete_collection(old.name)
            copy.modify(name=old.name)
            self._collections.clear()
        with contextlib.closing(
            sqlite3.connect(self.folder / DATABASE, timeout=60, isolation_level=None)
        ) as database:
            segments = {row[0] for row in database.execute("SELECT id FROM segments")}
            database.execute("VACUUM")
        for index in _indexes(self.folder):
            if index.name not in segments:
                shutil.rmtree(index, ignore_errors=True)
        _blank(self.folder)
        return True

    def recover(self) -> None:
        """End a `vacuum` that was killed: a copy whose collection is gone is whole and takes its place."""
        self._collections.clear()
        names = {each.name for each in self.client.list_collections()}
        for name in [name for name in names if name.endswith(COPY)]:
            if (original := name.removesuffix(COPY)) in names:
                self.client.delete_collection(name)
            else:
                self.client.get_collection(name, embedding_function=None).modify(
                    name=original
                )


def _name(home: Home) -> str:
    """Chroma's names are short and of few characters, namespaces are not."""
    return f"tooltree-{home[0]}-{digest(json.dumps(home[1]), 48)}"


_folders: dict[Path, Connection] = {}
"""What this process has open; in a forked child also what its parent had, which is refused there."""

_folders_lock = (
    threading.RLock()
)  # a store may be collected, and so release its folder, while another one is opened


def _after_fork() -> None:
    for connection in _folders.values():
        os.close(
            connection.lock
        )  # a copy of the parent's lock would outlive the parent
        # chromadb hangs when an inherited client is torn down, even as the interpreter exits: one reference too many.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection.client))
    _folders_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_folders_lock.acquire,
        after_in_parent=_folders_lock.release,
        after_in_child=_after_fork,
    )


def connect(path_or_client: str | os.PathLike[str] | ClientAPI) -> Connection:
    """A store's connection: to a folder, which is made and locked, or through a client of chromadb."""
    chromadb = import_extra("chromadb", "chroma", "ChromaStore")
    if isinstance(path_or_client, str | os.PathLike):
        folder = Path(path_or_client).resolve()
        with _folders_lock:
            if folder not in _folders:
                _folders[folder] = _open(folder)
            shared = _folders[folder]
            shared.check()
            shared.users += 1
        return shared
    settings = (
        path_or_client.get_settings()
        if isinstance(path_or_client, chromadb.api.ClientAPI)
        else None
    )
    if settings is None or (settings.is_persistent and not settings.chroma_server_host):
        msg = (
            "ChromaStore takes a folder, or a sync client of a Chroma server such as HttpClient, got "
            f"{path_or_client!r}. In place of a PersistentClient, pass its folder."
        )
        raise ConfigurationError(msg)
    return Connection(path_or_client)


def _open(folder: Path) -> Connection:
    """Lock and open a folder. The system takes the lock back when the process dies."""
    import chromadb  # noqa: PLC0415 - as above

    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not try_lock(lock):
            holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            msg = (
                f"{str(folder)!r} is open in another process (id {holder}), and loses data when two use it. Close it "
                "there, or let both use one Chroma server: ChromaStore(chromadb.HttpClient(...))."
            )
            raise StoreLockedError(msg)  # noqa: TRY301 - the lock file is closed below
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        settings = chromadb.config.Settings(
            anonymized_telemetry=False
        )  # telemetry would use the network
        client = chromadb.PersistentClient(path=str(folder), settings=settings)
        connection = Connection(client, folder, lock)
        connection.recover()
    except BaseException:
        os.close(lock)  # and so unlock it
        raise
    return connection


@contextlib.contextmanager
def snapshot(folder: Path) -> Iterator[str]:
    """A temporary copy of a store's folder, as it is now, even while its process writes to it."""
    with TemporaryDirectory(prefix="tooltree-", ignore_cleanup_errors=True) as place:
        source = f"{(folder / DATABASE).absolute().as_uri()}?mode=rw"  # not to be made where there is none
        with (
            contextlib.closing(sqlite3.connect(source, uri=True)) as database,
            contextlib.closing(sqlite3.connect(Path(place, DATABASE))) as copy,
        ):
            database.execute("BEGIN")
            database.execute(
                "SELECT 1 FROM sqlite_master"
            ).fetchone()  # until the end, a process that writes waits
            database.backup(copy)
            for index in _indexes(folder):
                shutil.copytree(index, Path(place, index.name))
        yield place


def _indexes(folder: Path) -> list[Path]:
    """The folders of Chroma's indexes."""
    return [
        each
        for each in folder.glob("*")
        if INDEX.fullmatch(each.name) and each.is_dir()
    ]


def _blank(folder: Path) -> None:
    """Fill indexes that Chroma has not written yet with zeros: they hold whatever the process had in memory."""
    for index in _indexes(folder):
        if not (index / "index_metadata.pickle").exists():
            for file in index.glob("*.bin"):
                file.write_bytes(bytes(file.stat().st_size))
