"""ChromaStore: LangGraph's long-term memory on chromadb, in a local folder or on a server."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Self

from langchain_core.embeddings import Embeddings
from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, Op, Result, SearchItem, SearchOp

from langchain_tooltree.errors import ConfigurationError, EmbedderMismatchError, StoreError
from langchain_tooltree.experience.embeddings import embedded, embedder_name, resolve_embeddings
from langchain_tooltree.flows import Flow, FunctionStep, TwinStep, arun_flow, run_flow
from langchain_tooltree.stores.chroma.connection import Labels, connect
from langchain_tooltree.stores.chroma.filters import matches, where_clause
from langchain_tooltree.stores.chroma.items import (
    StoredItem,
    matching_keys,
    newest_first,
    read_in_order,
    read_items,
    write_items,
    write_order,
)
from langchain_tooltree.stores.chroma.queries import WHOLE, Plan, list_matching, nearest, plan_batch

if TYPE_CHECKING:
    from chromadb.api import ClientAPI


class ChromaStore(BaseStore):
    """A LangGraph store on chromadb: items by key, filters, and search by meaning.

    ```python
    with ChromaStore("memories/") as store:
        store.put(("users", "ada"), "seat", {"text": "prefers the aisle"})
        store.search(("users", "ada"), query="where to sit")
    ```

    It behaves as `PostgresStore` does, which can take its place when a folder or one server is no longer enough, but
    has no expiry (`ttl=`). Search results have a cosine similarity as `score`, higher is better; without a query they
    have none and come newest first. A query finds indexed items only. It is exact in namespaces of up to 5,000 vectors;
    beyond, Chroma's index may miss a near one now and then. A search below a prefix looks into each namespace there.

    A *local folder* belongs to one process at a time, since chromadb silently loses data when two write to it; even
    reading makes it write, so there is no read-only mode for a second one. Threads, tasks and several `ChromaStore`s of
    that process may share it. Several processes share a server: `ChromaStore(chromadb.HttpClient(...))`. When a process
    is killed, each item is as it was before or after the write. The async methods do their work in a thread.

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
        EmbedderMismatchError: If another embedder filled the store; where only the length of its vectors tells, from
            the first method that embeds.
    """

    _compares_at_once: ClassVar = True

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
        try:
            if self._compares_at_once:
                self._check_embedder(None)
        except BaseException:
            self.close()
            raise

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations together and return their results in order; reads see the state before the batch's writes.

        Raises `StoreError` if the store is closed, was inherited over a fork, or was filled by another embedder.
        """
        return run_flow(self._execute(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations together without blocking the event loop; see `batch`."""
        return await arun_flow(self._execute(ops))

    def vacuum(self, prefix: Sequence[str] = ()) -> bool:
        """Write what is left of the namespaces that begin with a prefix anew, so that no file holds what was deleted.

        It takes as long as writing all of it did, and the space of a copy meanwhile. In a namespace that is not below
        the prefix, ids and vectors of deleted items may stay in Chroma's index; no text does. Returns whether it was
        done: the files of a server are out of reach.
        """
        with self._chroma.mutex:
            self._check_open()
            if self._chroma.exclusive:
                self._chroma.vacuum(tuple(prefix))
            return self._chroma.exclusive

    def close(self) -> None:
        """Let go of the folder, so that another process may open it. A client that you passed stays open."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _execute(self, ops: Iterable[Op]) -> Flow[list[Result]]:
        self._check_open()
        plan = plan_batch(ops, self._fields)
        if texts := list({text: None for puts in plan.puts.values() for put in puts.values() for text in put.texts}):
            plan.vectors = dict(zip(texts, (yield from embedded(self.embeddings, texts)), strict=True))
        # An empty query is none, as in LangGraph's own stores.
        if queries := list({op.query: None for op in plan.ops if isinstance(op, SearchOp) and op.query}):
            embed, aembed = self.embeddings.embed_query, self.embeddings.aembed_query
            for query in queries:
                plan.queries[query] = yield TwinStep(partial(embed, query), partial(aembed, query))
        results: list[Result] = yield FunctionStep(self._apply, plan)
        return results

    def _apply(self, plan: Plan) -> list[Result]:
        # Writers are kept away while reading, where they are all in this process; a server is read freely.
        with self._chroma.mutex if plan.puts or self._chroma.exclusive else contextlib.nullcontext():
            self._check_open()  # it may have been closed while embedding
            for vector in (*plan.vectors.values(), *plan.queries.values()):
                self._check_embedder(len(vector), claim=bool(plan.vectors))
            results: list[Result] = [None] * len(plan.ops)
            for position, op in enumerate(plan.ops):
                if isinstance(op, GetOp):
                    results[position] = self._get(op)
                elif isinstance(op, SearchOp):
                    results[position] = self._search(op, plan.queries.get(op.query or ""))
                elif isinstance(op, ListNamespacesOp):
                    results[position] = self._list(op)
            for namespace, puts in plan.puts.items():
                write_items(self._chroma, namespace, [*puts.values()], plan.vectors)
        return results

    def _check_open(self) -> None:
        self._chroma.check()
        if not self._finalizer.alive:
            msg = "This ChromaStore is closed. Open a new one."
            raise StoreError(msg)

    def _check_embedder(self, dims: int | None, *, claim: bool = False) -> None:
        if dims is not None and dims == self._dims:
            return
        name = embedder_name(self.embeddings)
        known = self._chroma.claim(name, dims) if claim and dims is not None else self._chroma.embedder()
        if known is None:
            return
        if known["name"] != name or dims not in {None, known["dims"]}:
            length = f" with vectors of length {dims}" if dims is not None else ""
            msg = (
                f"This store was filled by {known['name']} with vectors of length {known['dims']}, and cannot be used "
                f"with {name}{length}: their vectors cannot be compared. Pass embeddings={known['name']}, or write "
                f"the items to a new store, in another folder or database, with the new embedder."
            )
            raise EmbedderMismatchError(msg)
        self._dims = dims

    def _get(self, op: GetOp) -> Item | None:
        items = self._chroma.items(op.namespace)
        found = read_items(items, [op.key]).get(op.key) if items else None
        return Item(namespace=op.namespace, key=op.key, value=found.value, **found.times) if found else None

    def _search(self, op: SearchOp, query: Sequence[float] | None) -> list[SearchItem]:
        need = op.offset + op.limit
        if need <= op.offset:
            return []
        if query is None:
            return [_found(namespace, item, None) for namespace, item in self._newest(op)]
        ranked = [
            (score, namespace, item)
            for namespace in self._chroma.below(op.namespace_prefix)
            for score, item in nearest(self._chroma, namespace, query, op.filter, need)
        ]
        ranked.sort(key=lambda entry: entry[0], reverse=True)
        return [_found(namespace, item, score) for score, namespace, item in ranked[op.offset : need]]

    def _newest(self, op: SearchOp) -> Iterator[tuple[Labels, StoredItem]]:
        below = ((namespace, self._chroma.items(namespace)) for namespace in self._chroma.below(op.namespace_prefix))
        spaces = {namespace: items for namespace, items in below if items is not None}
        places = newest_first({space: write_order(self._chroma, items) for space, items in spaces.items()})
        if not op.filter:
            places = islice(places, op.offset, op.offset + op.limit)
            return read_in_order(spaces, places, op.limit)
        if clauses := where_clause(op.filter):
            allowed = {namespace: matching_keys(items, clauses) for namespace, items in spaces.items()}
            places = ((namespace, key) for namespace, key in places if key in allowed[namespace])
        read = read_in_order(spaces, places, op.offset + op.limit)
        matching = ((namespace, item) for namespace, item in read if matches(item.value, op.filter))
        return islice(matching, op.offset, op.offset + op.limit)

    def _list(self, op: ListNamespacesOp) -> list[Labels]:
        filled = (
            namespace
            for namespace in self._chroma.below()
            if (items := self._chroma.items(namespace)) is not None and items.count()
        )
        return list_matching(filled, op)


class PatientChromaStore(ChromaStore):
    """One for an agent that goes on without it: that another embedder filled it is raised where it embeds."""

    _compares_at_once = False


def _found(namespace: Labels, item: StoredItem, score: float | None) -> SearchItem:
    return SearchItem(namespace=namespace, key=item.key, value=item.value, score=score, **item.times)
