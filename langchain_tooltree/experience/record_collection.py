"""RecordCollection: plain records of one kind, beside the trajectories of a store and in the same namespace."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from langgraph.store.base import BaseStore, Item, SearchItem

from langchain_tooltree.errors import StoreError
from langchain_tooltree.flows import Flow

LISTED = 2_000
"""Items that are first asked for when all are wanted; four times as many as long as there are more."""

Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoreCall:
    """A call of a method of a store, or of its async twin, as a step of a flow."""

    store: BaseStore
    method: Literal["get", "put", "delete", "search", "batch"]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]

    def run(self) -> Any:
        """Call the method."""
        return getattr(self.store, self.method)(*self.arguments, **self.options)

    async def arun(self) -> Any:
        """Await the method's twin; a store that has none is called in a thread."""
        try:
            return await getattr(self.store, f"a{self.method}")(*self.arguments, **self.options)
        except NotImplementedError:  # SqliteStore has the sync half alone
            return await asyncio.to_thread(self.run)


def listing(
    store: BaseStore, namespace: Namespace, *, wanted: Mapping[str, Any] | None = None
) -> Flow[list[SearchItem]]:
    """All items of exactly one namespace, in the order of their keys, as a flow.

    They come from one search, since pages would shift under writes. Some stores also find namespaces that merely look
    alike (SQL's LIKE), or that begin alike.

    Args:
        store: The store.
        namespace: The namespace.
        wanted: Fields that the items must have.

    Returns:
        The items.
    """
    limit = LISTED
    while True:
        found: list[SearchItem] = yield StoreCall(
            store, "search", (namespace,), {"query": None, "filter": wanted, "limit": limit}
        )
        if len(found) < limit:
            break
        limit *= 4
    return sorted((item for item in found if item.namespace == namespace), key=lambda item: item.key)


@dataclass(frozen=True, slots=True)
class RecordCollection:
    """Records of one kind.

    Args:
        store: Where they are kept.
        namespace: Tells the namespace at the time of each call.
    """

    store: BaseStore
    namespace: Callable[[], Namespace]

    def putting(self, key: str, record: Mapping[str, Any]) -> Flow[None]:
        """Keep a record, in place of one with the same key, as a flow.

        Args:
            key: Its key.
            record: Data that JSON can hold.
        """
        # As one ASCII text, since not every database takes NUL characters or lone surrogates.
        yield StoreCall(
            self.store, "put", (self.namespace(), key, {"record": json.dumps(record, default=str)}), {"index": False}
        )

    def getting(self, key: str) -> Flow[dict[str, Any] | None]:
        """Read a record, as a flow.

        Args:
            key: Its key.

        Returns:
            The record; `None` if there is none.

        Raises:
            StoreError: If what is stored there is none.
        """
        item: Item | None = yield StoreCall(self.store, "get", (self.namespace(), key), {})
        return None if item is None else _read(item)

    def reading(self) -> Flow[dict[str, dict[str, Any]]]:
        """Read all records, as a flow.

        Returns:
            The records by key, in the order of the keys.

        Raises:
            StoreError: If something stored there is none.
        """
        items = yield from listing(self.store, self.namespace())
        return {item.key: _read(item) for item in items}

    def deleting(self, key: str) -> Flow[None]:
        """Delete a record, as a flow; one that does not exist is no error.

        Args:
            key: Its key.
        """
        yield StoreCall(self.store, "delete", (self.namespace(), key), {})


def _read(item: Item) -> dict[str, Any]:
    try:
        record = json.loads(item.value["record"])
    except (KeyError, TypeError, ValueError):
        record = None
    if isinstance(record, dict):
        return record
    msg = (
        f"Item {item.key!r} in namespace {item.namespace!r} was not written by this package: {item.value!r:.80}. "
        "Delete it or choose another namespace."
    )
    raise StoreError(msg)
