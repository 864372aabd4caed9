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
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
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

CATALOGUE = "tooltree-catalogue"
"""Name of the collection with a row for each namespace, and one about the embedder."""

EMBEDDER = "embedder"
"""Id of the catalogue's row about the embedder; those of namespaces are JSON, which starts with a bracket."""

PLACEHOLDER = np.ones((1, 1), dtype=np.float32)
"""The vector of a row that has none: without one, chromadb would embed it with a model that it downloads."""

COSINE: Any = {"hnsw": {"space": "cosine", "max_neighbors": 32, "ef_construction": 200, "ef_search": 200}}
"""Chroma's defaults leave some 0.5 % of 10,000 text vectors unreachable in the graph; these leave 0.03 %."""

DATABASE = "chroma.sqlite3"
"""Where Chroma keeps rows; the folders beside it are its indexes, one for each of its segments."""

_SEGMENT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KIND = "tooltree-{}-"  # with which the names of collections of a kind begin
_HALF, _WHOLE = "-half", "-whole"  # end of the name of a copy that is being made, and of one that is complete
_COPIED = 500  # rows at once: chromadb fails above some 30,000
_BUSY = 60.0  # seconds to wait for the database
_COPIES = 20  # times that a folder is copied at most until no index was written meanwhile, which takes milliseconds
_PAUSE = 0.05  # seconds between them

Labels = tuple[str, ...]
"""The labels of a namespace."""


@dataclass
class Connection:
    """A chromadb client with the collections of the namespaces; all stores of this process on a folder share one."""

    client: ClientAPI
    folder: Path | None = None  # `None` for a server
    directory: str = ""  # the folder as it was spelt
    lock: int = -1  # descriptor of the folder's lock file
    owned: bool = False  # whether the client was made here, and is closed here
    users: int = 0  # stores of this process that have not been closed
    # Held while writing, and while reading what only this process can write.
    mutex: threading.RLock = field(default_factory=threading.RLock)
    orders: dict[str, dict[str, int]] = field(default_factory=dict)  # by collection, what `write_order` has found
    _process: int = field(default_factory=os.getpid)
    _last_tick: int = 0
    _collections: dict[str, Collection] = field(default_factory=dict)

    @property
    def exclusive(self) -> bool:
        """Whether nobody but this process can write, so that holding `mutex` keeps everything still."""
        return self.folder is not None

    def check(self) -> None:
        """Refuse to work in a forked child."""
        if os.getpid() != self._process:
            msg = (
                f"This ChromaStore was opened by process {self._process} and inherited by process {os.getpid()} over a "
                f"fork, where chromadb hangs or loses data. Open stores after forking: one process may have a local "
                f"folder, several share a Chroma server (ChromaStore(chromadb.HttpClient(...)))."
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
                if self.owned:
                    with self.mutex:  # a write under way in another thread is finished first
                        self.client.close()  # type: ignore[attr-defined]  # those of folders have it
                        self.blank()
            finally:
                unlock(self.lock)
                os.close(self.lock)

    def tick(self) -> int:
        """The time in microseconds since 1970, never the same twice, so that writes have an order."""
        with self.mutex:
            self._last_tick = max(time.time_ns() // 1000, self._last_tick + 1)
            return self._last_tick

    def advance(self, time: int) -> None:
        """Have the next `tick` come after a time, even if the clock was set back."""
        with self.mutex:
            self._last_tick = max(self._last_tick, time)

    @cached_property
    def max_batch(self) -> int:
        """How many rows the client takes at once."""
        return self.client.get_max_batch_size()

    def items(self, namespace: Labels) -> Collection | None:
        """The collection of a namespace's items: one row for each, with its value."""
        return self._find(_name("items", namespace))

    def vectors(self, namespace: Labels) -> Collection | None:
        """The collection of a namespace's vectors: one row for each indexed text of an item."""
        return self._find(_name("vectors", namespace))

    def make_items(self, namespace: Labels) -> Collection:
        """As `items`, made if need be."""
        found = self.items(namespace)
        if found is None:
            # The catalogue comes first: a namespace that it lists without items is harmless, the reverse is a loss.
            self._make(CATALOGUE).upsert(ids=[json.dumps(namespace)], embeddings=PLACEHOLDER)
            found = self._make(_name("items", namespace), {"namespace": json.dumps(namespace)})
        return found

    def make_vectors(self, namespace: Labels) -> Collection:
        """As `vectors`, made if need be."""
        return self._make(_name("vectors", namespace), {"namespace": json.dumps(namespace)}, COSINE)

    def drop(self, namespace: Labels) -> None:
        """Remove an empty namespace; only safe where nobody else can be filling it at the same time."""
        for name in (_name("vectors", namespace), _name("items", namespace)):
            self._collections.pop(name, None)
            self.orders.pop(name, None)
            with contextlib.suppress(_not_found()):
                self.client.delete_collection(name)
        self._make(CATALOGUE).delete(ids=[json.dumps(namespace)])

    def vacuum(self, prefix: Labels) -> None:
        """Write what is left of some namespaces anew, so that no file of a folder holds anything that was deleted.

        Chroma leaves deleted ids and vectors in its indexes, and deleted text in its database. Each collection is
        copied; whenever the process dies, either the old one or a whole copy is there, and `recover` finds it.
        """
        assert self.folder is not None  # noqa: S101 - for mypy; see `exclusive`
        spaces = self.below(prefix)
        for name in [CATALOGUE, *(_name(kind, each) for each in spaces for kind in ("items", "vectors"))]:
            old = self._find(name)
            if old is None:
                continue
            space = COSINE if name.startswith(_KIND.format("vectors")) else None
            copy = self.client.create_collection(
                f"{name}{_HALF}", embedding_function=None, metadata=old.metadata, configuration=space
            )
            for ids in batch_iterate(_COPIED, old.get(include=[])["ids"]):
                page = old.get(ids=ids, include=["embeddings", "metadatas"])
                copy.upsert(ids=page["ids"], embeddings=page["embeddings"], metadatas=page["metadatas"])
            copy.modify(name=f"{name}{_WHOLE}")
            self.client.delete_collection(name)
            copy.modify(name=name)
            self._collections.pop(name)
        with contextlib.closing(sqlite3.connect(self.folder / DATABASE, timeout=_BUSY, isolation_level=None)) as opened:
            known = {row[0] for row in opened.execute("SELECT id FROM segments")}
            opened.execute("VACUUM")
        for each in _indexes(self.folder):
            if each.name not in known:
                shutil.rmtree(each, ignore_errors=True)
        self.blank()

    def blank(self) -> None:
        """Fill indexes that Chroma has not written yet with zeros: they hold whatever the process had in memory."""
        for index in _indexes(self.folder):
            for name in () if (index / "index_metadata.pickle").exists() else ("data_level0.bin", "length.bin"):
                with contextlib.suppress(FileNotFoundError):
                    (index / name).write_bytes(bytes((index / name).stat().st_size))

    def recover(self) -> None:
        """Take the copies of a `vacuum` that was killed for what they are: whole ones for the collection."""
        names = {each.name for each in self.client.list_collections()}
        for name in sorted(name for name in names if name.endswith((_HALF, _WHOLE))):
            original = name.removesuffix(_WHOLE)
            if name.endswith(_WHOLE) and original not in names:
                self.client.get_collection(name, embedding_function=None).modify(name=original)
            else:
                self.client.delete_collection(name)

    def below(self, prefix: Labels = ()) -> list[Labels]:
        """The namespaces that start with a prefix."""
        rows = self._find(CATALOGUE)
        if rows is None:
            return []
        known = (tuple(json.loads(row)) for row in rows.get(include=[])["ids"] if row != EMBEDDER)
        return sorted(namespace for namespace in known if namespace[: len(prefix)] == prefix)

    def embedder(self) -> Mapping[str, Any] | None:
        """What is known of the embedder that filled the store."""
        rows = self._find(CATALOGUE)
        found = rows.get(ids=[EMBEDDER], include=["metadatas"])["metadatas"] if rows else None
        return found[0] if found else None

    def claim(self, name: str, dims: int) -> Mapping[str, Any]:
        """Record the embedder, unless one was recorded before."""
        # Chroma's `add` keeps a row that is there already, so that of two clients one wins.
        entry: dict[str, str | int] = {"name": name, "dims": dims}
        self._make(CATALOGUE).add(ids=[EMBEDDER], embeddings=PLACEHOLDER, metadatas=[entry])
        return self.embedder() or entry

    def _find(self, name: str) -> Collection | None:
        if name not in self._collections:
            try:
                self._collections[name] = self.client.get_collection(name, embedding_function=None)
            except _not_found():
                return None
        return self._collections[name]

    def _make(self, name: str, metadata: dict[str, Any] | None = None, configuration: Any = None) -> Collection:
        found = self._find(name)
        if found is None:
            found = self._collections[name] = self.client.get_or_create_collection(
                name, embedding_function=None, metadata=metadata, configuration=configuration
            )
        return found


def _name(kind: str, namespace: Labels) -> str:
    """Chroma's names are short and of few characters, namespaces are not."""
    return _KIND.format(kind) + digest(json.dumps(namespace), 48)


def _not_found() -> type[Exception]:
    from chromadb.errors import NotFoundError  # noqa: PLC0415 - the extra is loaded where it is used

    return NotFoundError


_folders: dict[Path, Connection] = {}
_inherited: dict[Path, Connection] = {}
"""What was open when this process was forked."""

# A store may be collected, and so release its folder, while another one is opened. A fork waits until nobody does that.
_folders_lock = threading.RLock()


def _after_fork() -> None:
    for connection in _folders.values():
        # A copy of the parent's lock would outlive the parent. Closing it does not unlock as long as the parent has the
        # file open; unlocking here would.
        with contextlib.suppress(OSError):
            os.close(connection.lock)
        # chromadb hangs when an inherited client is torn down, even as the interpreter exits: one reference too many.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection.client))
    _inherited.update(_folders)
    _folders.clear()
    _folders_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_folders_lock.acquire, after_in_parent=_folders_lock.release, after_in_child=_after_fork)


def connect(path_or_client: str | os.PathLike[str] | ClientAPI) -> Connection:
    """A store's connection: to a folder, which is made and locked, or through a client of chromadb."""
    client_api = import_extra("chromadb", "chroma", "ChromaStore").api.ClientAPI
    if isinstance(path_or_client, str | os.PathLike):
        return _share(str(Path(path_or_client).resolve()), None)
    if not isinstance(path_or_client, client_api):
        msg = (
            f"ChromaStore takes a folder or a sync client of chromadb (PersistentClient, HttpClient, EphemeralClient), "
            f"got {path_or_client!r}."
        )
        raise ConfigurationError(msg)
    settings = path_or_client.get_settings()
    if settings.is_persistent and not settings.chroma_api_impl.endswith("FastAPI"):  # a client of no server
        return _share(settings.persist_directory, path_or_client)
    return Connection(path_or_client)


def _share(directory: str, client: ClientAPI | None) -> Connection:
    folder = Path(directory).resolve()
    with _folders_lock:
        if folder in _inherited:
            msg = (
                f"{str(folder)!r} was open when this process was forked, and chromadb cannot open it again here. "
                f"Use the 'spawn' start method for processes, or fork before opening it."
            )
            raise StoreLockedError(msg)
        shared = _folders.get(folder)
        if shared is None:
            shared = _folders[folder] = _open(folder, directory, client)
        elif shared.directory != directory:  # chromadb would not know that it is the same
            msg = (
                f"{str(folder)!r} is open in this process already, as {shared.directory!r}. Use one spelling, best an "
                f"absolute path without links."
            )
            raise ConfigurationError(msg)
        shared.users += 1
        return shared


def _open(folder: Path, directory: str, client: ClientAPI | None) -> Connection:
    """Lock and open a folder. The system takes the lock back when the process dies.

    Not `filelock.FileLock`: it does not write down who holds it, and the error for a second process names the holder.
    """
    import chromadb  # noqa: PLC0415 - as above

    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not try_lock(lock):
            holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            msg = (
                f"{str(folder)!r} is open in another process (id {holder}), and a local Chroma folder loses data when "
                f"two processes write to it. Stop that process or close its store, or let both use one Chroma server: "
                f"ChromaStore(chromadb.HttpClient(...))."
            )
            raise StoreLockedError(msg)  # noqa: TRY301 - the lock file is closed below
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
        settings = chromadb.config.Settings(anonymized_telemetry=False)  # telemetry would use the network
        used = client or chromadb.PersistentClient(path=directory, settings=settings)
        opened = Connection(used, folder, directory, lock, owned=client is None)
        opened.recover()
        opened.blank()
    except BaseException:
        os.close(lock)  # and so unlock it
        raise
    return opened


@contextlib.contextmanager
def copied_still(folder: Path) -> Iterator[str]:
    """A store's folder as it is at one moment, in a temporary copy, which others may open while it is written to.

    Raises:
        ConfigurationError: If it is written to without a pause.
    """
    with TemporaryDirectory(prefix="tooltree-", ignore_cleanup_errors=True) as room:
        for place in (Path(room) / str(attempt) for attempt in range(_COPIES)):
            place.mkdir()
            if _copied_to(folder, place):
                yield str(place)
                return
            shutil.rmtree(place)
            time.sleep(_PAUSE)
    msg = f"{folder} is written to so much that it cannot be read. Try again later."
    raise ConfigurationError(msg)


def _copied_to(folder: Path, place: Path) -> bool:
    """Copy database and indexes; whether nothing was written to them meanwhile.

    From the first read on until the end, a process that writes to the database waits, so that no index is ahead of it.
    """
    source, target = folder / DATABASE, place / DATABASE
    try:
        with contextlib.closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as held:
            held.execute("BEGIN")
            try:
                held.execute("SELECT 1 FROM sqlite_master").fetchone()
                before = _stamps(folder)
                with contextlib.closing(sqlite3.connect(target)) as copy:
                    held.backup(copy)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                    raise
                before = _stamps(folder)  # a process was killed as it wrote: what it began is undone in the copy
                for end in ("", "-journal"):
                    shutil.copyfile(f"{source}{end}", f"{target}{end}")
            for file in _index_files(folder):
                (place / file.parent.name).mkdir(exist_ok=True)
                shutil.copyfile(file, place / file.parent.name / file.name)
            return _stamps(folder) == before
    except FileNotFoundError:
        return False


def _indexes(folder: Path | None) -> list[Path]:
    """The folders of Chroma's indexes."""
    found = [] if folder is None or not folder.is_dir() else folder.iterdir()  # it may be gone
    return [each for each in found if _SEGMENT.fullmatch(each.name) and each.is_dir()]


def _index_files(folder: Path) -> list[Path]:
    return sorted(file for index in _indexes(folder) for file in index.iterdir())


def _stamps(folder: Path) -> list[tuple[Path, int, int]]:
    files = ((file, file.stat()) for file in (folder / DATABASE, *_index_files(folder)))
    return [(file, of.st_mtime_ns, of.st_size) for file, of in files]
