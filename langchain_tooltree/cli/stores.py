"""Stores by their addresses, a folder, a Chroma server or a Postgres: how commands read them, and `copy`."""

import argparse
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from langchain_core.embeddings import Embeddings
from langchain_core.utils import batch_iterate
from langgraph.store.base import BaseStore, GetOp, Op, PutOp, Result

from langchain_tooltree.cli import INCOMPLETE
from langchain_tooltree.cli.terminal import Terminal, answering, embeddings_named, progress
from langchain_tooltree.errors import ConfigurationError, MissingExtraError, import_extra
from langchain_tooltree.experience.run_identity import Namespace
from langchain_tooltree.experience.store import HEAD, PAGE, TASKS, TOKEN, TRAJECTORIES, StoreCall, listing
from langchain_tooltree.flows import Flow, run_flow
from langchain_tooltree.learning.fold import SEGMENTS
from langchain_tooltree.stores.chroma import DATABASE, ChromaStore, snapshot

T = TypeVar("T")

MOST_NAMESPACES = 1_000_000
"""Namespaces that are asked for: more than anybody has, since a store gives ten where nobody says."""


def is_store(what: str | Path) -> bool:
    """Whether it is the address or the folder of a store."""
    return "://" in str(what) or (Path(what) / DATABASE).exists()


def read_store(address: str, read: Callable[[BaseStore], Flow[T]]) -> T:
    """What is read of the store at an address, and nothing is changed there, nor is anybody kept from opening it.

    Raises:
        ConfigurationError: If there is no store, or it does not answer.
    """
    with answering("The store cannot be read", "Does it run, and hold an experience?"):
        is_folder = "://" not in address and is_store(address)  # opening it writes to it, and keeps its agent out
        still = snapshot(Path(address)) if is_folder else nullcontext(address)
        with still as place, opened(place, exists=True) as store:
            return run_flow(read(Looked(store)))


class Looked(BaseStore):
    """A store that is looked at: what reads is asked of it, and what would change it is left undone."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """What the reads among some operations come to, each in its place."""
        given = list(ops)
        results = iter(self._store.batch([each for each in given if not isinstance(each, PutOp)]))
        return [None if isinstance(each, PutOp) else next(results) for each in given]

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
    if kind in {"postgres", "postgresql"}:
        with _postgres(address, embeddings) as database:
            if not exists:
                database.setup()
            yield database
        return
    if kind not in {"http", "https"} and ("://" in address or (exists and not is_store(address))):
        msg = (
            f"There is no store at {address!r}. Pass the folder of a ChromaStore, the URL of a Chroma server such as "
            "http://localhost:8000, or a Postgres connection string such as postgresql://user@host/database."
        )
        raise ConfigurationError(msg)
    with ChromaStore(_client(address) if kind.startswith("http") else address, embeddings=embeddings) as store:
        yield store


def _postgres(address: str, embeddings: Embeddings | None) -> Any:
    try:
        from langgraph.store.postgres import PostgresStore  # noqa: PLC0415 - a package of the user's choice
    except ImportError as error:
        msg = f"{address.partition('@')[2] or address} needs a package: pip install 'langgraph-checkpoint-postgres'"
        raise MissingExtraError(msg, name="langgraph-checkpoint-postgres") from error
    index: Any = None
    if embeddings is not None:
        index = {"embed": embeddings, "dims": len(embeddings.embed_query("length")), "fields": ["task"]}
    return PostgresStore.from_conn_string(address, index=index)


def _client(address: str) -> Any:
    chromadb = import_extra("chromadb", "chroma", "A Chroma server")
    place = urlsplit(address)
    chosen = {"database": place.path.strip("/")} if place.path.strip("/") else {}
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    return chromadb.HttpClient(
        host=place.hostname, port=place.port or 8000, ssl=place.scheme == "https", settings=settings, **chosen
    )


def run_copy(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Copy an experience: what is missing, and with `--force` what differs."""
    embeddings = embeddings_named(options.embeddings)
    remedy = "What is copied stays; the same command goes on from there."
    with ExitStack() as stores, progress("copying"), answering("The copy has stopped", remedy):
        source = stores.enter_context(opened(options.source, exists=True))
        target = stores.enter_context(opened(options.target, embeddings))
        counts = run_flow(copy_all(source, target, force=options.force))
    runs, there, differing, others = (counts[name] for name in ("runs", "there", "differing", "others"))
    terminal.say(f"{runs} runs copied, {there} were there already; {others} tips and other notes copied.")
    if differing:
        terminal.say(f"Left alone: {differing} runs and notes that differ in DST. --force replaces them.")
    return dict(counts), INCOMPLETE if differing else 0


def copy_all(source: BaseStore, target: BaseStore, *, force: bool = False) -> Flow[Counter[str]]:
    """Copy all namespaces with records: the records, their entries, and what else stands beside them, such as tips.

    What stands in the target is left alone, so that a copy that was interrupted goes on where it stopped; with `force`,
    what differs there is replaced. Counts `runs` and `others` that were copied, runs that were `there`, and what was
    `differing` and left alone.
    """
    counts = Counter(runs=0, there=0, differing=0, others=0)
    for root, labels in (yield from namespaces_of(source)).items():
        for label in (TASKS, *labels):
            items = {item.key: item.value for item in (yield from listing(source, (*root, label)))}
            there = {item.key: item.value for item in (yield from listing(target, (*root, label)))}
            # An entry says by its version whether the record is the same.
            same = {key for key in items.keys() & there.keys() if _version(items[key]) == _version(there[key])}
            differing = set() if force else items.keys() & there.keys() - same
            new = [key for key in items if key not in same | differing]
            for page in batch_iterate(PAGE, new):
                index: Any = ["task"] if label == TASKS else False
                puts = [PutOp((*root, label), key, items[key], index=index) for key in page]
                if label == TASKS:
                    gets = [GetOp((*root, TRAJECTORIES), key) for key in page]
                    records = yield StoreCall(source, "batch", (gets,), {})
                    records = [PutOp(each.namespace, each.key, each.value, index=False) for each in records if each]
                    puts = [*records, *puts, PutOp((*root, HEAD), HEAD, {TOKEN: uuid.uuid4().hex}, index=False)]
                yield StoreCall(target, "batch", (puts,), {})
            counts.update(differing=len(differing), **{"runs" if label == TASKS else "others": len(new)})
            counts.update(there=len(same) if label == TASKS else 0)
    return counts


def _version(value: Mapping[str, Any]) -> Any:
    return value.get("version") or value


def namespaces_of(store: BaseStore) -> Flow[dict[Namespace, list[str]]]:
    """The namespaces with records, as a flow, and the labels of what else stands there beside them, such as tips."""
    found: list[Namespace] = yield StoreCall(store, "list_namespaces", (), {"limit": MOST_NAMESPACES})
    places = sorted(tuple(each) for each in found if len(each) > 1)
    roots = sorted({each[:-1] for each in places if each[-1] in (TASKS, TRAJECTORIES)})
    own = (TASKS, TRAJECTORIES, HEAD, SEGMENTS)  # segments are made again in the target
    return {root: [each[-1] for each in places if each[:-1] == root and each[-1] not in own] for root in roots}
