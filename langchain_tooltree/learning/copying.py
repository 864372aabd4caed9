"""Copying an experience from one store to another, such as from a folder to a database that several processes share."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from langchain_core.embeddings import Embeddings
from langgraph.store.base import BaseStore

from langchain_tooltree.errors import ConfigurationError, MissingExtraError, TrajectoryFormatError, import_extra
from langchain_tooltree.experience.embeddings import resolve_embeddings
from langchain_tooltree.experience.namespaces import Namespace
from langchain_tooltree.experience.store import PAGE, TASKS, TRAJECTORIES, ExperienceStore, StoreCall, listing
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.experience.writers import WRITERS
from langchain_tooltree.flows import Flow
from langchain_tooltree.stores.chroma import ChromaStore

MOST_NAMESPACES = 1_000_000
"""Namespaces that are asked for: more than anybody has, since a store gives ten where nobody says."""


@dataclass(slots=True)
class Copied:
    """How much was copied.

    Attributes:
        runs: Records that were copied.
        there: Records that were there already, in the same version.
        others: What else stands beside the records, such as tips, and was copied.
        unread: Records that could not be read, and were left out.
    """

    runs: int = 0
    there: int = 0
    others: int = 0
    unread: int = 0


def copied(source: BaseStore, target: BaseStore, *, on_run: Callable[[], None] = lambda: None) -> Flow[Copied]:
    """Copy all records of all namespaces, with what was made of them, as a flow.

    What stands in the target in the same version is left alone, so that a copy that was interrupted goes on where it
    stopped. Nothing is deleted in the target, and what others keep in the source is not copied.
    """
    told = Copied()
    options = {"limit": MOST_NAMESPACES}
    found: list[Namespace] = yield StoreCall(source, "list_namespaces", (), options)
    places = [tuple(each) for each in found]
    for root in sorted({each[:-1] for each in places if each[-1] in (TASKS, TRAJECTORIES) and len(each) > 1}):
        yield from _runs(ExperienceStore(source, namespace=root), ExperienceStore(target, namespace=root), told, on_run)
        labels = sorted(each[-1] for each in places if each[:-1] == root)
        for label in labels:
            if label not in (TASKS, TRAJECTORIES, WRITERS):
                yield from _others(source, target, (*root, label), told)
    return told


def _runs(source: ExperienceStore, target: ExperienceStore, told: Copied, on_run: Callable[[], None]) -> Flow[None]:
    yield from source.writes()  # which finishes what a killed writer had begun
    wanted, known = (yield from source.entries()), (yield from target.entries())
    missing = [run for run, entry in wanted.items() if run not in known or known[run].version != entry.version]
    told.there += len(wanted) - len(missing)
    for start in range(0, len(missing), PAGE):
        for run in (yield from _read(source, missing[start : start + PAGE], told)):
            yield from target.adding(run)
            told.runs += 1
            on_run()


def _read(source: ExperienceStore, ids: Sequence[str], told: Copied) -> Flow[list[Trajectory]]:
    try:
        return (yield from source.reading(ids))
    except TrajectoryFormatError:
        if len(ids) == 1:
            told.unread += 1
            return []
    alone: list[Trajectory] = []
    for run in ids:
        alone += yield from _read(source, [run], told)
    return alone


def _others(source: BaseStore, target: BaseStore, place: Namespace, told: Copied) -> Flow[None]:
    known = {item.key: item.value for item in (yield from listing(target, place))}
    for item in (yield from listing(source, place)):
        if known.get(item.key) != item.value:
            yield StoreCall(target, "put", (place, item.key, item.value), {"index": False})
            told.others += 1


@contextmanager
def opened(address: str, embeddings: Embeddings | None = None, *, exists: bool = False) -> Iterator[BaseStore]:
    """The store at an address: `experience/`, `http://localhost:8000/database` or `postgresql://...`.

    In a Postgres, without embeddings, there are no vectors. Raises `ConfigurationError` where a folder has to exist and
    does not, or nobody answers, and `MissingExtraError` for a missing package.
    """
    kind = urlsplit(address).scheme
    open_it = {"postgres": _postgres, "postgresql": _postgres, "http": _server, "https": _server}.get(kind)
    if open_it is None:
        if exists and not Path(address).is_dir():
            msg = (
                f"There is no store at {address!r}. Pass the folder of a ChromaStore, the URL of a Chroma server such "
                "as http://localhost:8000, or a Postgres connection string such as postgresql://user@host/database."
            )
            raise ConfigurationError(msg)
        with ChromaStore(address, embeddings=embeddings) as store:
            yield store
        return
    with open_it(address, embeddings) as store:
        yield store


@contextmanager
def _postgres(address: str, embeddings: Embeddings | None) -> Iterator[BaseStore]:
    try:
        from langgraph.store.postgres import PostgresStore  # noqa: PLC0415 - a package of the user's choice
    except ImportError as error:
        msg = f"{address.partition('@')[2] or address} needs a package: pip install 'langgraph-checkpoint-postgres'"
        raise MissingExtraError(msg, name="langgraph-checkpoint-postgres") from error
    index: Any = None
    if embeddings is not None:
        index = {"embed": embeddings, "dims": len(embeddings.embed_query("length")), "fields": ["task"]}
    with PostgresStore.from_conn_string(address, index=index) as store:
        store.setup()
        yield store


@contextmanager
def _server(address: str, embeddings: Embeddings | None) -> Iterator[BaseStore]:
    chromadb = import_extra("chromadb", "chroma", "A Chroma server")
    place = urlsplit(address)
    chosen = {"database": place.path.strip("/")} if place.path.strip("/") else {}
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    client = chromadb.HttpClient(
        host=place.hostname, port=place.port or 8000, ssl=place.scheme == "https", settings=settings, **chosen
    )
    with ChromaStore(client, embeddings=resolve_embeddings(embeddings)) as store:
        yield store
