"""Locks between processes: a file that one of them may hold. The system takes it back when its holder dies."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    # Windows keeps others from reading what is locked, so the locked byte lies far behind what is written there.
    _LOCKED_BYTE = 1 << 30

    def try_lock(descriptor: int, mode: int = msvcrt.LK_NBLCK) -> bool:
        """Lock an open file, unless somebody else has it; whether it is locked now."""
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, mode, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

    def unlock(descriptor: int) -> None:
        """Let go of a file."""
        try_lock(descriptor, msvcrt.LK_UNLCK)

else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Lock an open file, unless somebody else has it; whether it is locked now."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Let go of a file."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)


LOOK_AGAIN = 0.01  # seconds between two looks at a lock that somebody else has


@contextlib.contextmanager
def locked(path: Path, patience: float) -> Iterator[bool]:
    """Hold the lock of a file, which is made and removed again; says `False` if others had it for `patience` seconds.

    Threads of one process wait for each other as processes do.
    """
    until = time.monotonic() + patience
    while (descriptor := _opened(path)) is None:
        if time.monotonic() > until:
            yield False
            return
        time.sleep(LOOK_AGAIN)
    try:
        yield True
    finally:
        with contextlib.suppress(OSError):  # Windows does not remove what somebody else has open
            path.unlink()
        unlock(descriptor)
        os.close(descriptor)


def _opened(path: Path) -> int | None:
    """The descriptor of a file that is locked now; `None` if somebody else has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    # The file may have been removed by its holder before it was locked here: then another one may hold a new file.
    with contextlib.suppress(FileNotFoundError):
        if try_lock(descriptor):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
            unlock(descriptor)
    os.close(descriptor)
    return None
