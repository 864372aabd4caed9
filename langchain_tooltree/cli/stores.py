"""Stores by their addresses, a folder, a Chroma server or a Postgres, and the command `copy`."""

import argparse
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from langchain_core.embeddings import Embeddings
from langchain_core.utils import batch_iterate
from langgraph.store.base import BaseStore, GetOp, Op, PutOp, Result

from langchain_tooltree.cli.terminal import Terminal, answering, progress, using
from langchain_tooltree.embeddings import resolve_embeddings
from langchain_tooltree.errors import (
    ConfigurationError,
    MissingExtraError,
    import_extra,
)
from langchain_tooltree.experience.run_identity import Namespace
from langchain_tooltree.experience.store import (
    HEAD,
    MOST_ITEMS,
    READ_PAGE_SIZE,
    TASKS,
    TOKEN,
    TRAJECTORIES,
    StoreCall,
    lasting,
    listing,
)
from langchain_tooltree.flows import Flow, run_flow
from langchain_tooltree.learning.fold import PARTS_LABEL
from langchain_tooltree.stores.chroma import DATABASE, ChromaStore, snapshot

ReadT = TypeVar("ReadT")


def is_store(what: str | Path) -> bool:
    """Whether it is the address or the folder of a store."""
    return "://" in str(what) or (Path(what) / DATABASE).exists()


def read_store(address: str, read: Callable[[BaseStore], Flow[ReadT]]) -> ReadT:
    """What is read of the store at an address, and nothing is changed there, nor is anybody kept from opening it."""
    with answering("The store cannot be read", "Does it run, and hold an experience?"):
        is_folder = "://" not in address and is_store(
            address
        )  # opening it writes to it, and keeps its agent out
        still = snapshot(Path(address)) if is_folder else nullcontext(address)
        with still as place, opened(place, exists=True) as store:
            return run_flow(read(ReadOnlyStore(store)))


class ReadOnlyStore(BaseStore):
    """A store that is looked at: reads are asked of it, and writes are left undone."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of the reads among some operations, each in its place."""
        given = list(ops)
        results = iter(
            self._store.batch([each for each in given if not isinstance(each, PutOp)])
        )
        return [None if isinstance(each, PutOp) else next(results) for each in given]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The async twin of `batch`, which a command has no need of."""
        raise NotImplementedError


@contextmanager
def opened(
    address: str, embeddings: Embeddings | None = None, *, exists: bool = False
) -> Iterator[BaseStore]:
    """The store at an address: `experience/`, `http://localhost:8000/database` or `postgresql://...`.

    In a Postgres, without embeddings, there are no vectors, and no table is made where one `exists`.
    """
    kind = urlsplit(address).scheme
    if kind in {"postgres", "postgresql"}:
        with _postgres(address, embeddings) as database:
            if not exists:
                database.setup()
            yield database
        return
    if kind not in {"http", "https"} and (
        "://" in address or (exists and not is_store(address))
    ):
        msg = (
            f"There is no store at {address!r}. Pass the folder of a ChromaStore, the URL of a Chroma server such as "
            "http://localhost:8000, or a Postgres connection string such as postgresql://user@host/database."
        )
        raise ConfigurationError(msg)
    with ChromaStore(
        _client(address) if kind.startswith("http") else address, embeddings=embeddings
    ) as store:
        yield store


def _postgres(address: str, embeddings: Embeddings | None) -> Any:
    try:
        from langgraph.store.postgres import PostgresStore  # noqa: PLC0415 - a package of the user's choice
    except ImportError as error:
        msg = f"{address.partition('@')[2] or address} needs a package: pip install 'langgraph-checkpoint-postgres'"
        raise MissingExtraError(msg, name="langgraph-checkpoint-postgres") from error
    index: Any = None
    if embeddings is not None:
        index = {
            "embed": embeddings,
            "dims": len(embeddings.embed_query("length")),
            "fields": ["task"],
        }
    return PostgresStore.from_conn_string(address, index=index)


def _client(address: str) -> Any:
    chromadb = import_extra("chromadb", "chroma", "A Chroma server")
    place = urlsplit(address)
    chosen = {"database": place.path.strip("/")} if place.path.strip("/") else {}
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    return chromadb.HttpClient(
        host=place.hostname,
        port=place.port or 8000,
        ssl=place.scheme == "https",
        settings=settings,
        **chosen,
    )


def run_copy(
    options: argparse.Namespace, terminal: Terminal
) -> tuple[dict[str, Any], int]:
    """Copy an experience: what is missing, and with `--force` all of it."""
    with using(options.embeddings):
        embeddings = (
            resolve_embeddings(options.embeddings) if options.embeddings else None
        )
    remedy = "What is copied stays; the same command goes on from there."
    with (
        ExitStack() as stores,
        progress("copying"),
        answering("The copy has stopped", remedy),
    ):
        source = stores.enter_context(opened(options.source, exists=True))
        target = stores.enter_context(opened(options.target, embeddings))
        counts = run_flow(copy_all(source, target, force=options.force))
    runs, there, others = (counts[name] for name in ("runs", "there", "others"))
    terminal.say(
        f"{runs} runs copied, {there} were there already; {others} tips and other notes copied."
    )
    return dict(counts), 0


async def copy_all(
    source: BaseStore, target: BaseStore, *, force: bool = False
) -> Counter[str]:
    """Copy all namespaces with records: the records, their entries, and what else stands beside them, such as tips.

    What stands in the target is left alone, so that a copy that was interrupted goes on where it stopped; with `force`,
    it is replaced. Counts `runs` and `others` that were copied, and runs that were `there`.
    """
    counts = Counter(runs=0, there=0, others=0)
    for root, labels in (await namespaces_of(source)).items():
        for label in (*labels, TASKS):
            items = {
                item.key: item.value for item in (await listing(source, (*root, label)))
            }
            there = (
                set()
                if force
                else {item.key for item in (await listing(target, (*root, label)))}
            )
            missing = [key for key in items if key not in there]
            for page in batch_iterate(READ_PAGE_SIZE, missing):
                index: Any = ["task"] if label == TASKS else False
                puts = [
                    PutOp((*root, label), key, items[key], index=index) for key in page
                ]
                if (
                    label == TASKS
                ):  # each entry after its record, so that whatever is listed can be read
                    gets = [GetOp((*root, TRAJECTORIES), key) for key in page]
                    records = filter(
                        None, (await StoreCall(source, "batch", (gets,), {}))
                    )
                    puts = [
                        *(
                            PutOp(each.namespace, each.key, each.value, index=False)
                            for each in records
                        ),
                        *puts,
                    ]
                await StoreCall(target, "batch", (lasting(target, puts),), {})
            copied = {"runs": len(missing), "there": len(items) - len(missing)}
            counts.update(copied if label == TASKS else {"others": len(missing)})
        await StoreCall(
            target,
            "put",
            ((*root, HEAD), HEAD, {TOKEN: uuid.uuid4().hex}),
            {"index": False},
        )
    return counts


async def namespaces_of(store: BaseStore) -> dict[Namespace, list[str]]:
    """The namespaces with records, as a flow, and the labels of what else stands there beside them, such as tips."""
    listed: list[Namespace] = await StoreCall(
        store, "list_namespaces", (), {"limit": MOST_ITEMS}
    )
    places = sorted(tuple(each) for each in listed if len(each) > 1)
    roots = sorted({each[:-1] for each in places if each[-1] in (TASKS, TRAJECTORIES)})
    own = (TASKS, TRAJECTORIES, HEAD, PARTS_LABEL)  # parts are made again in the target
    return {
        root: [each[-1] for each in places if each[:-1] == root and each[-1] not in own]
        for root in roots
    }
