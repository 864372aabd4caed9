"""What all tests share."""

import os
import shutil
import sys
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).parent.parent

# Programs that tests start as processes of their own import `tests.internals`, too.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))

# Where no bytecode is to be kept, as in many containers, each process takes the asserts of all modules apart anew: half
# of what collecting the quick tests costs.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes folders of its own in it, as it does in /tmp
ENOUGH_MEMORY = 2 * 2**30
"""Bytes. The largest test stores 100 MB; containers often have 64 MB there, which is too little."""

# Stores wait for the disk at each write: folders in memory make their tests up to ten times as fast.
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH_MEMORY:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# No deadline: 0.2 s an example is soon over on a busy machine. What a change did is told from one run, so every run has
# the same examples; `--hypothesis-profile=random` looks for new ones.
settings.register_profile("random", deadline=None)
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

LONGEST_QUICK_TEST = 1.0
"""Seconds that a test may take and not be marked `slow`; a generous bound, for machines that are busy."""


def pytest_terminal_summary(terminalreporter):
    """Name the tests that should be marked `slow` and are not."""
    late = [
        report
        for report in terminalreporter.getreports("passed")
        if report.when == "call" and report.duration > LONGEST_QUICK_TEST and "slow" not in report.keywords
    ]
    if late:
        terminalreporter.section(f"longer than {LONGEST_QUICK_TEST:g} s and not marked slow")
        for report in late:
            terminalreporter.line(f"{report.duration:.1f} s {report.nodeid}")
