"""Locks between processes: a file that one of them may hold. The system takes it back when its holder dies."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCKED_BYTE = (
    1 << 30
)  # of a file on Windows: others cannot read what is locked, so it is far behind what is written
LOCK_POLL_SECONDS = 0.01


def try_lock(descriptor: int) -> bool:
    """Lock an open file, unless somebody else has it; whether it is locked now. Closing the file unlocks it."""
    try:
        if sys.platform == "win32":
            os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
    return True


@contextlib.contextmanager
def locked(path: Path, patience: float) -> Iterator[bool]:
    """Hold the lock of a file, which is made and removed again; yields `False` if others had it for `patience` seconds.

    Threads of one process wait for each other as processes do.
    """
    until = time.monotonic() + patience
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        # Its holder may have removed the file before it was locked here: then another one may hold a new file.
        is_mine = (
            try_lock(descriptor)
            and path.exists()
            and os.path.samestat(os.fstat(descriptor), path.stat())
        )
        if is_mine or time.monotonic() > until:
            break
        os.close(descriptor)
        time.sleep(LOCK_POLL_SECONDS)
    try:
        yield is_mine
    finally:
        if is_mine:
            with contextlib.suppress(
                OSError
            ):  # Windows does not remove what somebody else has open
                path.unlink()
        os.close(descriptor)
