"""How a store reaches chromadb: a local folder that this process alone may use, or a client of the user's."""

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chromadb
from chromadb.api import ClientAPI
from chromadb.api.client import Client
from chromadb.api.fastapi import FastAPI
from chromadb.api.models.Collection import Collection
from chromadb.config import Settings
from chromadb.errors import NotFoundError

from langchain_tooltree.errors import ConfigurationError, StoreError, StoreLockedError

LOCK_FILE = "tooltree.lock"

_held: dict[int, "FolderLock"] = {}
"""Locks of this process by file descriptor, so that a forked child can drop its copies."""

if sys.platform == "win32":
    import msvcrt

    # Windows keeps others from reading what is locked, so the locked byte lies far behind the process id.
    _LOCKED_BYTE = 1 << 30

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class FolderLock:
    """The exclusive right of this process to a folder.

    Args:
        folder: An existing folder. A small file with the holder's process id is left in it.

    Raises:
        StoreLockedError: If a living process holds it, named by its id. What a dead one left behind does not count.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = None
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            locked = _try_lock(descriptor)
            if locked:
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()}\n".encode())
            else:
                holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        except BaseException:
            os.close(descriptor)
            raise
        if not locked:
            os.close(descriptor)
            msg = (
                f"{str(folder)!r} is open in another process (id {holder}), and a local Chroma folder loses data when "
                f"two processes write to it. Stop that process or close its store, or let both use one Chroma server: "
                f"ChromaStore(chromadb.HttpClient(...))."
            )
            raise StoreLockedError(msg)
        self._descriptor = descriptor
        _held[descriptor] = self

    def release(self) -> None:
        """Let others have the folder; releasing twice, or in a forked child, does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            del _held[descriptor]
            _unlock(descriptor)
            os.close(descriptor)


def _drop_in_child() -> None:
    """A forked child shares its parent's lock until it closes its copy, and would keep it when the parent dies.

    Closing does not unlock as long as the parent has the file open; unlocking here would.
    """
    for descriptor, lock in _held.items():
        lock._descriptor = None  # noqa: SLF001 - the same concept, in the same file
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_in_child)


_SERVER_API = f"{FastAPI.__module__}.{FastAPI.__name__}"


@dataclass
class Connection:
    """A client of chromadb, shared by all stores of this process on the same folder.

    Attributes:
        client: The client.
        exclusive: Whether nobody but this process can write, so that holding `mutex` keeps everything still.
        mutex: Held while writing, and while reading what only this process can write.
        orders: When the items of a collection were written, as far as it was asked for; see `chroma_order`.
    """

    client: ClientAPI
    exclusive: bool
    mutex: threading.RLock = field(default_factory=threading.RLock)
    orders: dict[str, dict[str, int]] = field(default_factory=dict)
    _process: int = field(default_factory=os.getpid)
    _last_tick: int = 0
    _max_batch: int | None = None
    _collections: dict[str, Collection] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse to work in a forked child.

        Raises:
            StoreLockedError: If the process that opened the connection is not this one.
        """
        if os.getpid() != self._process:
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
        """A collection that exists.

        Args:
            name: Its name.

        Returns:
            The collection, or `None`.
        """
        found = self._collections.get(name)
        if found is None:
            try:
                found = self.client.get_collection(name, embedding_function=None)
            except NotFoundError:
                return None
            self._collections[name] = found
        return found

    def make(self, name: str, metadata: Mapping[str, Any] | None = None, configuration: Any = None) -> Collection:
        """A collection, made if need be.

        Args:
            name: Its name.
            metadata: What to note about a new one.
            configuration: Of a new one.

        Returns:
            The collection.
        """
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
        """Remove a collection, if it exists.

        Args:
            name: Its name.
        """
        self._collections.pop(name, None)
        self.orders.pop(name, None)
        with contextlib.suppress(NotFoundError):
            self.client.delete_collection(name)

    def reading(self) -> contextlib.AbstractContextManager[object]:
        """Keeps writers of this process away while reading, where there are no others; a server is read freely."""
        return self.mutex if self.exclusive else contextlib.nullcontext()


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
    for folder in _folders.values():
        # chromadb hangs when an inherited client is torn down, even as the interpreter exits: one reference too many.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(folder.connection.client))
    _inherited.update(_folders)
    _folders.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Lease:
    """A store's share in a connection.

    Args:
        path_or_client: A folder, made if it does not exist, or a client of chromadb. The folder of a local client is
            locked as well.

    Raises:
        ConfigurationError: If it is neither, or the folder is open in this process by another name.
        StoreLockedError: If another process has the folder.
    """

    def __init__(self, path_or_client: str | os.PathLike[str] | ClientAPI) -> None:
        self._folder: Path | None = None
        self._released = False
        if isinstance(path_or_client, str | os.PathLike):
            folder = Path(path_or_client).resolve()
            self.connection = self._share(folder, str(folder), None)
        elif isinstance(path_or_client, ClientAPI):
            settings = path_or_client.get_settings()
            if settings.chroma_api_impl == _SERVER_API:
                self.connection = Connection(path_or_client, exclusive=False)
            elif settings.is_persistent:
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
        """Raise unless the store may be used.

        Raises:
            StoreLockedError: In a forked child.
            StoreError: After `release`.
        """
        self.connection.check()
        if self._released:
            msg = "This ChromaStore is closed. Open a new one."
            raise StoreError(msg)

    def release(self) -> None:
        """Give the share back; the last one closes the folder. A second time, or in a forked child, nothing happens."""
        if self._released or os.getpid() != self.connection._process:  # noqa: SLF001 - same file, same concept
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
                client = shared.connection.client
                if shared.owned and isinstance(client, Client):
                    with shared.connection.mutex:  # a write under way in another thread is finished first
                        client.close()
            finally:
                shared.lock.release()


def _open(folder: Path, directory: str, client: ClientAPI | None) -> _Folder:
    folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(folder)
    try:
        # Telemetry would use the network.
        used = client or chromadb.PersistentClient(path=directory, settings=Settings(anonymized_telemetry=False))
    except BaseException:
        lock.release()
        raise
    return _Folder(lock, Connection(used, exclusive=True), directory, owned=client is None)
