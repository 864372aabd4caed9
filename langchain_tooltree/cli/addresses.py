"""Stores by their addresses, as commands are given them: a folder, a Chroma server or a Postgres."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from langchain_core.embeddings import Embeddings
from langgraph.store.base import BaseStore, Op, PutOp, Result

from langchain_tooltree.errors import ConfigurationError, MissingExtraError, import_extra
from langchain_tooltree.experience.embeddings import resolve_embeddings
from langchain_tooltree.stores.chroma import ChromaStore
from langchain_tooltree.stores.chroma.connection import DATABASE


class Looked(BaseStore):
    """A store that is looked at: what reads is asked of it, and what would change it is left undone."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """What the reads among some operations come to, each in its place."""
        given = list(ops)
        found = iter(self._store.batch([each for each in given if not isinstance(each, PutOp)]))
        return [None if isinstance(each, PutOp) else next(found) for each in given]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The async twin of `batch`, which a command has no need of."""
        raise NotImplementedError


@contextmanager
def opened(address: str, embeddings: Embeddings | None = None, *, exists: bool = False) -> Iterator[BaseStore]:
    """The store at an address: `experience/`, `http://localhost:8000/database` or `postgresql://...`.

    In a Postgres, without embeddings, there are no vectors, and no table is made where one `exists`. Raises
    `ConfigurationError` where a folder has to exist and does not, or nobody answers, and `MissingExtraError` for a
    missing package.
    """
    kind = urlsplit(address).scheme
    open_it = {"postgres": _postgres, "postgresql": _postgres, "http": _server, "https": _server}.get(kind)
    if open_it is None:
        if "://" in address or (exists and not (Path(address) / DATABASE).exists()):
            msg = (
                f"There is no store at {address!r}. Pass the folder of a ChromaStore, the URL of a Chroma server such "
                "as http://localhost:8000, or a Postgres connection string such as postgresql://user@host/database."
            )
            raise ConfigurationError(msg)
        with ChromaStore(address, embeddings=embeddings) as store:
            yield store
        return
    with open_it(address, embeddings, exists) as store:
        yield store


@contextmanager
def _postgres(address: str, embeddings: Embeddings | None, exists: bool) -> Iterator[BaseStore]:  # noqa: FBT001
    try:
        from langgraph.store.postgres import PostgresStore  # noqa: PLC0415 - a package of the user's choice
    except ImportError as error:
        msg = f"{address.partition('@')[2] or address} needs a package: pip install 'langgraph-checkpoint-postgres'"
        raise MissingExtraError(msg, name="langgraph-checkpoint-postgres") from error
    index: Any = None
    if embeddings is not None:
        index = {"embed": embeddings, "dims": len(embeddings.embed_query("length")), "fields": ["task"]}
    with PostgresStore.from_conn_string(address, index=index) as store:
        if not exists:
            store.setup()
        yield store


@contextmanager
def _server(address: str, embeddings: Embeddings | None, _: bool) -> Iterator[BaseStore]:  # noqa: FBT001
    chromadb = import_extra("chromadb", "chroma", "A Chroma server")
    place = urlsplit(address)
    chosen = {"database": place.path.strip("/")} if place.path.strip("/") else {}
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    client = chromadb.HttpClient(
        host=place.hostname, port=place.port or 8000, ssl=place.scheme == "https", settings=settings, **chosen
    )
    with ChromaStore(client, embeddings=resolve_embeddings(embeddings)) as store:
        yield store
