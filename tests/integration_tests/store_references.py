"""LangGraph's own stores and ChromaStore under one interface: each method is awaited, whichever path it takes."""

import asyncio
import inspect
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.postgres.aio import AsyncPostgresStore
from langgraph.store.sqlite import SqliteStore
from langgraph.store.sqlite.aio import AsyncSqliteStore
from store_servers import (
    chroma_client,
    chroma_server,
    postgres_programs,
    postgres_server,
)

from langchain_tooltree import ChromaStore, HashingEmbeddings

DIMS = 64
INDEX: dict[str, Any] = {
    "dims": DIMS,
    "embed": HashingEmbeddings(dims=DIMS),
    "fields": ["$"],
}

STORES = (
    "memory-sync",
    "sqlite-async",
    "postgres-sync",
    "chroma_folder-sync",
    "chroma_folder-async",
    "chroma_server-sync",
    "chroma_server-async",
)
"""The stores, each with the path on which it is used."""

SQLITE_HAS_EXTENSIONS = hasattr(sqlite3.Connection, "enable_load_extension")
"""Whether this Python can load sqlite-vec, without which SqliteStore has no vectors."""


class Subject:
    """A store, by its sync or by its async methods."""

    def __init__(self, name: str, path: str, store: BaseStore) -> None:
        self.name = name
        self.path = path
        self.store = store

    @property
    def indexed(self) -> bool:
        """Whether it has vectors here."""
        return self.name != "sqlite" or SQLITE_HAS_EXTENSIONS

    async def put(self, *arguments: Any, **options: Any) -> None:
        await self._call("put", *arguments, **options)

    async def get(self, *arguments: Any, **options: Any) -> Any:
        return await self._call("get", *arguments, **options)

    async def search(self, *arguments: Any, **options: Any) -> Any:
        return await self._call("search", *arguments, **options)

    async def delete(self, *arguments: Any, **options: Any) -> None:
        await self._call("delete", *arguments, **options)

    async def list_namespaces(self, *arguments: Any, **options: Any) -> Any:
        return await self._call("list_namespaces", *arguments, **options)

    async def batch(self, ops: Any) -> Any:
        return await self._call("batch", ops)

    async def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        name = method if self.path == "sync" else f"a{method}"
        result = getattr(self.store, name)(*arguments, **options)
        return await result if inspect.isawaitable(result) else result


class References:
    """Opens stores; the servers that some of them need are started once.

    Args:
        folder: Where local stores and the Chroma server keep their data.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def postgres(self) -> str:
        """The connection string of a Postgres."""
        return self._stack.enter_context(postgres_server())

    @cached_property
    def chroma(self) -> int:
        """The port of a Chroma server."""
        return self._stack.enter_context(chroma_server(self._folder / "server"))

    @staticmethod
    def missing(name: str) -> str | None:
        """Why a store cannot be had here, if it cannot."""
        if name == "postgres" and postgres_programs() is None:
            return "pgserver, which brings Postgres and pgvector, has no wheel for this Python"
        return None

    @asynccontextmanager
    async def open(self, name: str, path: str) -> AsyncIterator[Subject]:
        """An empty store."""
        async with AsyncExitStack() as stack:
            store = await getattr(self, f"_{name}_store")(path, stack)
            stack.push_async_callback(_end_background_task, store)
            yield Subject(name, path, store)

    async def _memory_store(self, path: str, stack: AsyncExitStack) -> BaseStore:
        return InMemoryStore(index=INDEX)

    async def _sqlite_store(self, path: str, stack: AsyncExitStack) -> BaseStore:
        index = INDEX if SQLITE_HAS_EXTENSIONS else None
        place = str(self._folder / f"{uuid.uuid4().hex}.sqlite")
        if path == "sync":
            store = stack.enter_context(
                SqliteStore.from_conn_string(place, index=index)
            )
            store.setup()
            return store
        store = await stack.enter_async_context(
            AsyncSqliteStore.from_conn_string(place, index=index)
        )
        await store.setup()
        return store

    async def _postgres_store(self, path: str, stack: AsyncExitStack) -> BaseStore:
        if path == "sync":
            store = stack.enter_context(
                PostgresStore.from_conn_string(self.postgres, index=INDEX)
            )
            store.setup()
            store.conn.execute("TRUNCATE store CASCADE")
            return store
        store = await stack.enter_async_context(
            AsyncPostgresStore.from_conn_string(self.postgres, index=INDEX)
        )
        await store.setup()
        await store.conn.execute("TRUNCATE store CASCADE")
        return store

    async def _chroma_folder_store(self, path: str, stack: AsyncExitStack) -> BaseStore:
        return stack.enter_context(
            ChromaStore(self._folder / uuid.uuid4().hex, embeddings=INDEX["embed"])
        )

    async def _chroma_server_store(self, path: str, stack: AsyncExitStack) -> BaseStore:
        client = stack.enter_context(
            chroma_client(self.chroma, f"db-{uuid.uuid4().hex}")
        )
        return stack.enter_context(ChromaStore(client, embeddings=INDEX["embed"]))


async def _end_background_task(store: BaseStore) -> None:
    """LangGraph's async stores cancel their task, but do not wait until it has ended."""
    task = getattr(store, "_task", None)
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
