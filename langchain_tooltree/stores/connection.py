"""How a store reaches chromadb, in a local folder that this process alone may use or through a client of the user's."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.utils import batch_iterate

from langchain_tooltree.errors import ConfigurationError, StoreLockedError, import_extra
from langchain_tooltree.stores.locks import try_lock, unlock
from langchain_tooltree.text import digest

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

LOCK_FILE = "tooltree.lock"
DATABASE = "chroma.sqlite3"  # where Chroma keeps rows; the folders beside it are its indexes, one for each segment
CATALOGUE = "tooltree-catalogue"  # name of the collection with a row for each namespace, and one about the embedder
EMBEDDER = "embedder"  # id of that row; those of namespaces are JSON, which starts with a bracket
BATCH = 500  # rows read, written or deleted at once: chromadb refuses to write more than 5,461

KINDS = ("items", "vectors")  # a namespace's collections: a row for each item; one for each indexed text of an item

# The vector of a row that has none: without one, chromadb would embed it with a model that it downloads.
PLACEHOLDER = np.ones((1, 1), dtype=np.float32)
# Chroma's defaults leave some 0.5 % of 10,000 text vectors unreachable in the graph; these leave 0.03 %.
COSINE: Any = {"hnsw": {"space": "cosine", "max_neighbors": 32, "ef_construction": 200, "ef_search": 200}}
_COPY = "-copy"  # end of the name of a collection that `vacuum` is writing anew
_SEGMENT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Labels = tuple[str, ...]  # of a namespace


@dataclass
class Connection:
    """A chromadb client with the collections of the namespaces; all stores of this process on a folder share one."""

    client: ClientAPI
    folder: Path | None = None  # `None` for a server
    lock: int = -1  # descriptor of the folder's lock file
    owned: bool = False  # whether the client was made here, and is closed here
    users: int = 0  # stores of this process that have not been closed
    # Held while writing, and while reading what only this process can write.
    mutex: threading.RLock = field(default_factory=threading.RLock)
    _process: int = field(default_factory=os.getpid)
    _collections: dict[str, Collection] = field(default_factory=dict)

    @property
    def exclusive(self) -> bool:
        """Whether nobody but this process can write, so that holding `mutex` keeps everything still."""
        return self.folder is not None

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
                with self.mutex:  # a write under way in another thread is finished first
                    if self.owned:
                        self.client.close()  # type: ignore[attr-defined]  # those of folders have it
                        _blank(self.folder)
            finally:
                unlock(self.lock)
                os.close(self.lock)

    def collection(self, kind: str, namespace: Labels) -> Collection | None:
        """A namespace's items or vectors, `None` before the first."""
        return self._find(_name(kind, namespace))

    def make(self, kind: str, namespace: Labels) -> Collection:
        """As `collection`, made if need be."""
        label = json.dumps(namespace)
        if self.collection(kind, namespace) is None:
            # The catalogue comes first: a namespace that it lists without items is harmless, the reverse is a loss.
            self._make(CATALOGUE).upsert(ids=[label], embeddings=PLACEHOLDER)
        configuration = COSINE if kind == "vectors" else None
        return self._make(_name(kind, namespace), {"namespace": label}, configuration)

    def drop(self, namespace: Labels) -> None:
        """Remove an empty namespace; only safe where nobody else can be filling it at the same time."""
        for kind in reversed(KINDS):
            if (collection := self.collection(kind, namespace)) is not None:
                self.client.delete_collection(collection.name)
                del self._collections[collection.name]
        self._make(CATALOGUE).delete(ids=[json.dumps(namespace)])

    def vacuum(self, prefix: Labels) -> bool:
        """Write what is left of some namespaces anew, so that no file of a folder holds anything that was deleted.

        A collection is removed once its copy is complete, so whenever the process dies, `recover` finds one of the two
        whole. Returns whether it was done: the files of a server are out of reach.
        """
        if self.folder is None:
            return False
        self.recover()
        for name in [CATALOGUE, *(_name(kind, each) for each in self.below(prefix) for kind in KINDS)]:
            if (old := self._find(name)) is None:
                continue
            space = COSINE if name.startswith("tooltree-vectors-") else None
            copy = self._make(f"{name}{_COPY}", old.metadata, space)
            for ids in batch_iterate(BATCH, old.get(include=[])["ids"]):
                page = old.get(ids=ids, include=["embeddings", "metadatas"])
                copy.upsert(ids=page["ids"], embeddings=page["embeddings"], metadatas=page["metadatas"])
            self.client.delete_collection(name)
            copy.modify(name=name)
            self._collections.clear()
        with contextlib.closing(sqlite3.connect(self.folder / DATABASE, timeout=60, isolation_level=None)) as opened:
            segments = {row[0] for row in opened.execute("SELECT id FROM segments")}
            opened.execute("VACUUM")
        for index in _indexes(self.folder):
            if index.name not in segments:
                shutil.rmtree(index, ignore_errors=True)
        _blank(self.folder)
        return True

    def recover(self) -> None:
        """End a `vacuum` that was killed: a copy whose collection is gone is whole and takes its place."""
        self._collections.clear()
        names = {each.name for each in self.client.list_collections()}
        for name in [name for name in names if name.endswith(_COPY)]:
            if (original := name.removesuffix(_COPY)) in names:
                self.client.delete_collection(name)
            else:
                self.client.get_collection(name, embedding_function=None).modify(name=original)

    def below(self, prefix: Labels = ()) -> list[Labels]:
        """The namespaces that start with a prefix."""
        rows = self._find(CATALOGUE)
        ids = rows.get(include=[])["ids"] if rows else []
        namespaces = (tuple(json.loads(row)) for row in ids if row != EMBEDDER)
        return sorted(namespace for namespace in namespaces if namespace[: len(prefix)] == prefix)

    def embedder(self, claim: Mapping[str, str | int] | None = None) -> Mapping[str, Any] | None:
        """Name and vector length (`dims`) of the embedder that filled the store; from now on `claim` if none has."""
        if claim is not None:  # Chroma's `add` keeps a row that is there already, so that of two clients one wins
            self._make(CATALOGUE).add(ids=[EMBEDDER], embeddings=PLACEHOLDER, metadatas=[claim])
        rows = self._find(CATALOGUE)
        metadatas = rows.get(ids=[EMBEDDER], include=["metadatas"])["metadatas"] if rows else None
        return metadatas[0] if metadatas else None

    def _find(self, name: str) -> Collection | None:
        from chromadb.errors import NotFoundError  # noqa: PLC0415 - the extra is loaded where it is used

        if name not in self._collections:
            try:
                self._collections[name] = self.client.get_collection(name, embedding_function=None)
            except NotFoundError:
                return None
        return self._collections[name]

    def _make(self, name: str, metadata: dict[str, Any] | None = None, configuration: Any = None) -> Collection:
        if (collection := self._find(name)) is None:
            collection = self._collections[name] = self.client.get_or_create_collection(
                name, embedding_function=None, metadata=metadata, configuration=configuration
            )
        return collection


def _name(kind: str, namespace: Labels) -> str:
    """Chroma's names are short and of few characters, namespaces are not."""
    return f"tooltree-{kind}-{digest(json.dumps(namespace), 48)}"


_folders: dict[Path, Connection] = {}
"""What this process has open; in a forked child also what its parent had, which is refused there."""

# A store may be collected, and so release its folder, while another one is opened. A fork waits until nobody does that.
_folders_lock = threading.RLock()


def _after_fork() -> None:
    for connection in _folders.values():
        # A copy of the parent's lock would outlive the parent. Closing it does not unlock as long as the parent has the
        # file open; unlocking here would.
        with contextlib.suppress(OSError):
            os.close(connection.lock)
        connection.lock = -1
        # chromadb hangs when an inherited client is torn down, even as the interpreter exits: one reference too many.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection.client))
    _folders_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_folders_lock.acquire, after_in_parent=_folders_lock.release, after_in_child=_after_fork)


def connect(path_or_client: str | os.PathLike[str] | ClientAPI) -> Connection:
    """A store's connection: to a folder, which is made and locked, or through a client of chromadb."""
    client_api = import_extra("chromadb", "chroma", "ChromaStore").api.ClientAPI
    if isinstance(path_or_client, str | os.PathLike):
        return _share(Path(path_or_client).resolve(), None)
    if not isinstance(path_or_client, client_api):
        msg = (
            f"ChromaStore takes a folder or a sync client of chromadb (PersistentClient, HttpClient, EphemeralClient), "
            f"got {path_or_client!r}."
        )
        raise ConfigurationError(msg)
    settings = path_or_client.get_settings()
    if settings.is_persistent and not settings.chroma_api_impl.endswith("FastAPI"):  # a client of no server
        return _share(Path(settings.persist_directory).resolve(), path_or_client)
    return Connection(path_or_client)


def _share(folder: Path, client: ClientAPI | None) -> Connection:
    with _folders_lock:
        if folder not in _folders:
            _folders[folder] = _open(folder, client)
        shared = _folders[folder]
        shared.check()
        shared.users += 1
        return shared


def _open(folder: Path, client: ClientAPI | None) -> Connection:
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
        settings = chromadb.config.Settings(anonymized_telemetry=False)  # telemetry would use the network
        used = client or chromadb.PersistentClient(path=str(folder), settings=settings)
        connection = Connection(used, folder, lock, owned=client is None)
        connection.recover()
    except BaseException:
        os.close(lock)  # and so unlock it
        raise
    return connection


@contextlib.contextmanager
def copied_still(folder: Path) -> Iterator[str]:
    """A store's folder as it is at one moment, in a temporary copy, which others may open while it is written to."""
    source = (folder / DATABASE).absolute()
    with TemporaryDirectory(prefix="tooltree-", ignore_cleanup_errors=True) as place:
        target = Path(place, DATABASE)
        with contextlib.closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)) as held:
            held.execute("BEGIN")
            try:
                held.execute("SELECT 1 FROM sqlite_master").fetchone()  # until the end, a process that writes waits
                with contextlib.closing(sqlite3.connect(target)) as copy:
                    held.backup(copy)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                    raise
                for end in ("", "-journal"):  # a process was killed as it wrote: what it began is undone in the copy
                    shutil.copyfile(f"{source}{end}", f"{target}{end}")
            for index in _indexes(folder):
                shutil.copytree(index, Path(place, index.name))
        yield place


def _indexes(folder: Path) -> list[Path]:
    """The folders of Chroma's indexes."""
    inside = folder.iterdir() if folder.is_dir() else ()  # it may be gone
    return [each for each in inside if _SEGMENT.fullmatch(each.name) and each.is_dir()]


def _blank(folder: Path) -> None:
    """Fill indexes that Chroma has not written yet with zeros: they hold whatever the process had in memory."""
    for index in _indexes(folder):
        if not (index / "index_metadata.pickle").exists():
            for file in (index / "data_level0.bin", index / "length.bin"):
                if file.exists():
                    file.write_bytes(bytes(file.stat().st_size))
