"""Copying an experience from one store to another, such as from a folder to a database that several processes share."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from langchain_core.embeddings import Embeddings
from langchain_core.utils import batch_iterate
from langgraph.store.base import BaseStore, Op, PutOp, Result

from langchain_tooltree.errors import ConfigurationError, MissingExtraError, import_extra
from langchain_tooltree.experience.embeddings import resolve_embeddings
from langchain_tooltree.experience.namespaces import Namespace
from langchain_tooltree.experience.store import PAGE, TASKS, TRAJECTORIES, ExperienceStore, StoreCall, listing, readable
from langchain_tooltree.experience.writers import WRITERS
from langchain_tooltree.flows import Flow
from langchain_tooltree.stores.chroma import ChromaStore
from langchain_tooltree.stores.chroma.connection import DATABASE

MOST_NAMESPACES = 1_000_000
"""Namespaces that are asked for: more than anybody has, since a store gives ten where nobody says."""


@dataclass(slots=True)
class Copied:
    """How much was copied.

    Attributes:
        runs: Records that were copied.
        there: Records that were there already, in the same version.
        differing: Records and others that were there in another version, and were left alone.
        others: What else stands beside the records, such as tips, and was copied.
        unread: Records that could not be read, and were left out.
    """

    runs: int = 0
    there: int = 0
    differing: int = 0
    others: int = 0
    unread: int = 0


def copied(
    source: BaseStore, target: BaseStore, *, force: bool = False, on_run: Callable[[], None] = lambda: None
) -> Flow[Copied]:
    """Copy all records of all namespaces, with what was made of them, as a flow.

    What stands in the target is left alone, so that a copy that was interrupted goes on where it stopped; with `force`,
    what stands there in another version is replaced. Nothing is deleted in the target, and what others keep in the
    source is not copied.
    """
    told = Copied()
    for root, labels in (yield from held_in(source)).items():
        ends = ExperienceStore(source, namespace=root), ExperienceStore(target, namespace=root)
        yield from _runs(*ends, told, force, on_run)
        for label in labels:
            yield from _others(source, target, (*root, label), told, force)
    return told


def held_in(store: BaseStore) -> Flow[dict[Namespace, list[str]]]:
    """The namespaces with records, as a flow, and the labels of what else stands there beside them, such as tips."""
    found: list[Namespace] = yield StoreCall(store, "list_namespaces", (), {"limit": MOST_NAMESPACES})
    places = sorted(tuple(each) for each in found if len(each) > 1)
    roots = {each[:-1] for each in places if each[-1] in (TASKS, TRAJECTORIES)}
    own = (TASKS, TRAJECTORIES, WRITERS)
    return {root: [each[-1] for each in places if each[:-1] == root and each[-1] not in own] for root in sorted(roots)}


def _runs(
    source: ExperienceStore,
    target: ExperienceStore,
    told: Copied,
    force: bool,  # noqa: FBT001 - as `copied` has it
    on_run: Callable[[], None],
) -> Flow[None]:
    yield from source.writes()  # which finishes what a killed writer had begun
    wanted, known = (yield from source.entries()), (yield from target.entries())
    same = {run for run, entry in wanted.items() if run in known and known[run].version == entry.version}
    differing = set() if force else (wanted.keys() & known.keys()) - same
    missing = [run for run in wanted if run not in same | differing]
    told.there += len(same)
    told.differing += len(differing)

    def unread(*_: object) -> None:
        told.unread += 1

    for page in batch_iterate(PAGE, missing):
        for run in (yield from readable(source, page, unread)):
            yield from target.adding(run)
            told.runs += 1
            on_run()


def _others(source: BaseStore, target: BaseStore, place: Namespace, told: Copied, force: bool) -> Flow[None]:  # noqa: FBT001 - as above
    known = {item.key: item.value for item in (yield from listing(target, place))}
    for item in (yield from listing(source, place)):
        if item.key in known and known[item.key] != item.value and not force:
            told.differing += 1
        elif known.get(item.key) != item.value:
            yield StoreCall(target, "put", (place, item.key, item.value), {"index": False})
            told.others += 1


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
