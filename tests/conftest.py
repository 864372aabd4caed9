"""What all tests share."""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent

# Programs that tests start as processes of their own import `tests.internals`, too.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))

MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes folders of its own in it, as it does in /tmp
ENOUGH_MEMORY = 2 * 2**30
"""Bytes. The largest test stores 100 MB; containers often have 64 MB there, which is too little."""

# Stores wait for the disk at each write: folders in memory make their tests up to ten times as fast.
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH_MEMORY:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
