"""How a store reaches chromadb: a local folder that this process alone may use, or a client of the user's."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_tooltree.errors import ConfigurationError, StoreError, StoreLockedError, import_extra

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

LOCK_FILE = "tooltree.lock"

_held: dict[int, FolderLock] = {}
"""Locks of this process by file descriptor, so that a forked child can drop its copies."""

if sys.platform == "win32":
    import msvcrt

    # Windows keeps others from reading what is locked, so the locked byte lies far behind the process id.
    _LOCKED_BYTE = 1 << 30

    def _lock(descriptor: int, mode: int = msvcrt.LK_NBLCK) -> bool:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, mode, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

    def _unlock(descriptor: int) -> None:
        _lock(descriptor, msvcrt.LK_UNLCK)

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class FolderLock:
    """The exclusive right of this process to a folder, which the system takes back when the process dies.

    Not `filelock.FileLock`: it does not write down who holds it, and the error for a second process names the holder.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = None
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _lock(descriptor):
                holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
                msg = (
                    f"{str(folder)!r} is open in another process (id {holder}), and a local Chroma folder loses data "
                    f"when two processes write to it. Stop that process or close its store, or let both use one Chroma "
                    f"server: ChromaStore(chromadb.HttpClient(...))."
                )
                raise StoreLockedError(msg)  # noqa: TRY301 - the descriptor is closed below
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _held[descriptor] = self

    def release(self) -> None:
        """Let others have the folder; releasing twice, or in a forked child, does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            del _held[descriptor]
            _unlock(descriptor)
            os.close(descriptor)

    def drop(self) -> None:
        """In a forked child: close the copy of the parent's lock, or it would outlive the parent.

        Closing does not unlock as long as the parent has the file open; unlocking here would.
        """
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)


@dataclass
class Connection:
    """A client of chromadb, shared by all stores of this process on the same folder.

    Attributes:
        client: The client.
        exclusive: Whether nobody but this process can write, so that holding `mutex` keeps everything still.
        mutex: Held while writing, and while reading what only this process can write.
        orders: When the items of a collection were written, as far as it was asked for; see `write_order`.
    """

    client: ClientAPI
    exclusive: bool
    mutex: threading.RLock = field(default_factory=threading.RLock)
    orders: dict[str, dict[str, int]] = field(default_factory=dict)
    _process: int = field(default_factory=os.getpid)
    _last_tick: int = 0
    _max_batch: int | None = None
    _collections: dict[str, Collection] = field(default_factory=dict)

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child of the process that opened the connection."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Refuse to work in a forked child."""
        if self.inherited:
            msg = (
                f"This ChromaStore was opened by process {self._process} and inherited by process {os.getpid()} over a "
                f"fork, where chromadb hangs or loses data. Open stores after forking: one process may have a local "
                f"folder, several share a Chroma server (ChromaStore(chromadb.HttpClient(...)))."
            )
            raise StoreLockedError(msg)

    def tick(self) -> int:
        """The time in microseconds since 1970, never the same twice, so that writes have an order."""
        with self.mutex:
            self._last_tick = max(time.time_ns() // 1000, self._last_tick + 1)
            return self._last_tick

    def advance(self, time: int) -> None:
        """Have the next `tick` come after a time, even if the clock was set back."""
        with self.mutex:
            self._last_tick = max(self._last_tick, time)

    @property
    def max_batch(self) -> int:
        """How many rows the client takes at once."""
        if self._max_batch is None:
            self._max_batch = self.client.get_max_batch_size()
        return self._max_batch

    def find(self, name: str) -> Collection | None:
        """A collection, if it exists."""
        if name not in self._collections:
            try:
                self._collections[name] = self.client.get_collection(name, embedding_function=None)
            except _not_found():
                return None
        return self._collections[name]

    def make(self, name: str, metadata: Mapping[str, Any] | None = None, configuration: Any = None) -> Collection:
        """A collection, made with these settings if there is none."""
        found = self.find(name)
        if found is None:
            found = self._collections[name] = self.client.get_or_create_collection(
                name,
                embedding_function=None,
                metadata=dict(metadata) if metadata else None,
                configuration=configuration,
            )
        return found

    def drop(self, name: str) -> None:
        """Remove a collection, if it exists."""
        self._collections.pop(name, None)
        self.orders.pop(name, None)
        with contextlib.suppress(_not_found()):
            self.client.delete_collection(name)

    def reading(self) -> contextlib.AbstractContextManager[object]:
        """Keeps writers of this process away while reading, where there are no others; a server is read freely."""
        return self.mutex if self.exclusive else contextlib.nullcontext()


def _not_found() -> type[Exception]:
    from chromadb.errors import NotFoundError  # noqa: PLC0415 - the extra is loaded where it is used

    return NotFoundError


@dataclass
class _Folder:
    """A local folder that is open in this process."""

    lock: FolderLock
    connection: Connection
    directory: str
    owned: bool
    users: int = 0


_folders: dict[Path, _Folder] = {}
_folders_lock = threading.RLock()  # a store may be collected, and so release its folder, while another one is opened
_inherited: dict[Path, _Folder] = {}
"""What was open when this process was forked."""


def _after_fork() -> None:
    global _folders_lock  # noqa: PLW0603 - another thread may have held it when the process was forked
    _folders_lock = threading.RLock()
    for lock in _held.values():
        lock.drop()
    _held.clear()
    for folder in _folders.values():
        # chromadb hangs when an inherited client is torn down, even as the interpreter exits: one reference too many.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(folder.connection.client))
    _inherited.update(_folders)
    _folders.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Lease:
    """A store's share in a connection: of a folder, which is made and locked, or of a client of chromadb."""

    def __init__(self, path_or_client: str | os.PathLike[str] | ClientAPI) -> None:
        self._folder: Path | None = None
        self._released = False
        client_api = import_extra("chromadb", "chroma", "ChromaStore").api.ClientAPI
        if isinstance(path_or_client, str | os.PathLike):
            folder = Path(path_or_client).resolve()
            self.connection = self._share(folder, str(folder), None)
        elif isinstance(path_or_client, client_api):
            settings = path_or_client.get_settings()
            if settings.is_persistent and not settings.chroma_api_impl.endswith("FastAPI"):  # a client of no server
                directory = settings.persist_directory
                self.connection = self._share(Path(directory).resolve(), directory, path_or_client)
            else:
                self.connection = Connection(path_or_client, exclusive=False)
        else:
            msg = (
                f"ChromaStore takes a folder or a sync client of chromadb (PersistentClient, HttpClient, "
                f"EphemeralClient), got {path_or_client!r}."
            )
            raise ConfigurationError(msg)

    def _share(self, folder: Path, directory: str, client: ClientAPI | None) -> Connection:
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
                    f"{str(folder)!r} is open in this process already, as {shared.directory!r}. Use one spelling, best "
                    f"an absolute path without links."
                )
                raise ConfigurationError(msg)
            shared.users += 1
        self._folder = folder
        return shared.connection

    def check(self) -> None:
        """Raise unless the store may be used: not in a forked child, and not after `release`."""
        self.connection.check()
        if self._released:
            msg = "This ChromaStore is closed. Open a new one."
            raise StoreError(msg)

    def release(self) -> None:
        """Give the share back; the last one closes the folder. A second time, or in a forked child, nothing happens."""
        if self._released or self.connection.inherited:
            return
        self._released = True
        if self._folder is None:
            return
        with _folders_lock:
            shared = _folders[self._folder]
            shared.users -= 1
            if shared.users:
                return
            del _folders[self._folder]
            try:
                if shared.owned:
                    with shared.connection.mutex:  # a write under way in another thread is finished first
                        shared.connection.client.close()  # type: ignore[attr-defined]  # those of folders have it
            finally:
                shared.lock.release()


def _open(folder: Path, directory: str, client: ClientAPI | None) -> _Folder:
    import chromadb  # noqa: PLC0415 - as above

    folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(folder)
    try:
        # Telemetry would use the network.
        settings = chromadb.config.Settings(anonymized_telemetry=False)
        used = client or chromadb.PersistentClient(path=directory, settings=settings)
    except BaseException:
        lock.release()
        raise
    return _Folder(lock, Connection(used, exclusive=True), directory, owned=client is None)
