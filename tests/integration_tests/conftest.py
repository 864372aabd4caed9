"""What the integration tests share."""

from pathlib import Path

import pytest
from store_references import NAMES, PATHS, References

QUICK = {"test_composition_failures.py", "test_effects_by_call.py", "test_tracing.py"}
"""The modules that the inner loop runs: compiled graphs and agents as users build them. All others are slow."""


def is_slow(path: Path) -> bool:
    return path.parent == Path(__file__).parent and path.name.startswith("test_") and path.name not in QUICK


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a module that would be deselected as a whole: the imports take longer than the quick tests."""
    return True if config.option.markexpr == "not slow" and is_slow(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of a module that is not quick."""
    for item in items:
        if is_slow(item.path):
            item.add_marker("slow")


@pytest.fixture(params=["sync", "async"])
def path(request: pytest.FixtureRequest) -> str:
    """Which of the two paths a test takes: `invoke` or `ainvoke`, `stream` or `astream`."""
    return str(request.param)


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """LangGraph's own stores and ChromaStore, opened when they are first asked for."""
    with References(tmp_path_factory.mktemp("stores")) as opened:
        yield opened


@pytest.fixture(params=[f"{name}-{path}" for name in NAMES for path in PATHS])
async def store(request, references):
    """One of these stores, on one of the two paths."""
    name, path = request.param.split("-")
    if reason := references.missing(name):
        pytest.skip(reason)
    async with references.open(name, path) as opened:
        yield opened
