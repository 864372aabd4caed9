"""What the integration tests share."""

import pytest
from browser import Browser
from store_references import STORES, References


@pytest.fixture(params=["sync", "async"])
def path(request: pytest.FixtureRequest) -> str:
    """Which of the two paths a test takes: `invoke` or `ainvoke`, `stream` or `astream`."""
    return str(request.param)


@pytest.fixture(scope="session")
def references(tmp_path_factory):
    """LangGraph's own stores and ChromaStore, opened when they are first asked for, and the servers of them."""
    with References(tmp_path_factory.mktemp("stores")) as opened:
        yield opened


@pytest.fixture(params=STORES)
async def store(request, references):
    """One of these stores: ChromaStore on both paths, LangGraph's own on one of them."""
    name, path = request.param.split("-")
    if reason := references.missing(name):
        pytest.skip(reason)
    async with references.open(name, path) as opened:
        yield opened


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A browser, which is started once."""
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened
