"""What all tests share."""

import gc
import os
import shutil
import signal
import ssl
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent

# Programs that tests start as processes of their own import `tests.internals`, too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
)

# Where no bytecode is to be kept, as in many containers, each process takes the asserts of all modules apart anew: half
# of what collecting the quick tests costs.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# `asyncio.run` hangs a handler of its own into Python's, and asks in the end whether it still hangs there: then Python
# writes out the task and all that it returned, which takes as long as many a test.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, partial(signal.default_int_handler))

MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes folders of its own in it, as it does in /tmp
ENOUGH_MEMORY = 2 * 2**30
"""Bytes. The largest test stores 100 MB; containers often have 64 MB there, which is too little."""

# Threads that multiply small matrices together mostly wait for each other, and more so beside other test processes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Stores wait for the disk at each write: folders in memory make their tests up to ten times as fast.
if (
    MEMORY.is_dir()
    and os.access(MEMORY, os.W_OK)
    and shutil.disk_usage(MEMORY).free > ENOUGH_MEMORY
):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Each client of a service reads the certificates of all authorities, which takes 50 ms. No test goes beyond loopback.
ssl.SSLContext.load_verify_locations = lambda *_, **__: None

# No deadline: 0.2 s an example is soon over on a busy machine. What a change did is told from one run, so every run has
# the same examples; `--hypothesis-profile=random` looks for new ones.
settings.register_profile("random", deadline=None)
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


SLOW = (ROOT / "tests/integration_tests", ROOT / "tests/unit_tests/benchmarks")
"""Folders whose tests are all slow."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what would be deselected as a whole: the imports take longer than the quick tests."""
    return (
        True
        if config.option.markexpr == "not slow" and collection_path in SLOW
        else None
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark every test of a folder that is slow."""
    if any(folder in item.path.parents for folder in SLOW):
        item.add_marker("slow")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let somebody have all combinations."""
    parser.addoption(
        "--all-combinations",
        action="store_true",
        help="run a test with every combination of parameters",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Of a test with several parameters, run as many combinations as bring each two of their values together.

    Both paths, sync and async, are driven by one flow: each test takes both, but not with all values of the others.
    """
    if config.option.all_combinations:
        return
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker(
            "all_combinations"
        ):
            tests[item.nodeid.partition("[")[0]].append(item)
    left_out = {item for each in tests.values() for item in {*each} - {*pairwise(each)}}
    if left_out:
        config.hook.pytest_deselected(
            items=[item for item in items if item in left_out]
        )
        items[:] = [item for item in items if item not in left_out]


def pairwise(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Combinations in which all occurs that is needed; the next is the one that brings most of it, of either path."""
    needs = {item: needed_of(item) for item in items}
    paths = {item: str(item.callspec.params.get("path")) for item in items}
    missing = set().union(*needs.values())
    taken: Counter[str] = Counter()
    while missing:
        best = max(
            needs, key=lambda item: (len(needs[item] & missing), -taken[paths[item]])
        )
        missing -= needs[best]
        taken[paths[best]] += 1
        yield best


def needed_of(item: pytest.Item) -> set[tuple[object, ...]]:
    """The path, and each two values of other parameters; of up to two of these, all combinations."""
    values = values_of(item)
    path = {value for value in values if value[0] == "path"}
    others = [value for value in values if value not in path]
    return path | ({*combinations(others, 2)} if len(others) > 2 else {tuple(others)})


def values_of(item: pytest.Item) -> list[tuple[object, ...]]:
    """The values of a test's parameters; those that one `parametrize` sets together are one value."""
    values = dict(item.callspec.params)
    for mark in item.iter_markers("parametrize"):
        names = (
            mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        )
        values[str(names)] = [values.pop(name.strip()) for name in names]
    return [
        (name, *map(id, value)) if isinstance(value, list) else (name, id(value))
        for name, value in values.items()
    ]


def pytest_collection_finish() -> None:
    """Leave what was imported, which stays, out of further searches for garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


LONGEST_QUICK_TEST = 1.0
"""Seconds that a test may take and not be marked `slow`; a generous bound, for machines that are busy."""


def pytest_terminal_summary(terminalreporter):
    """Name the tests that should be marked `slow` and are not."""
    late = [
        report
        for report in terminalreporter.getreports("passed")
        if report.when == "call"
        and report.duration > LONGEST_QUICK_TEST
        and "slow" not in report.keywords
    ]
    if late:
        terminalreporter.section(
            f"longer than {LONGEST_QUICK_TEST:g} s and not marked slow"
        )
        for report in late:
            terminalreporter.line(f"{report.duration:.1f} s {report.nodeid}")
