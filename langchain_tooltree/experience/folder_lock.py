"""One process at a time: a lock on a folder that the operating system lets go of when its holder dies."""

import contextlib
import os
import sys
from pathlib import Path

from langchain_tooltree.errors import StoreLockedError

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
