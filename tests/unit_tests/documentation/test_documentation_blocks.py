"""Every block of Python on a page runs, without a key, and every command that a page shows is one."""

from importlib.util import find_spec

import pytest

from tests.unit_tests.documentation import pages

pytestmark = pytest.mark.slow

CHAINS = pages.chains()
SERVICES = {"mcp", "postgres"}
"""What a block may need that is more than a package."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder of somebody who follows a page."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")  # says langgraph-supervisor
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("chain", CHAINS, ids=[str(chain[0]) for chain in CHAINS])
def test_the_blocks_of_the_pages_run(chain, capsys):
    names = pages.given()
    before, model = names["agent"], names["model"]
    with pages.offline():
        try:
            for block in chain:
                if block.mark == "needs" and (block.what in SERVICES or not find_spec(block.what.replace("-", "_"))):
                    pytest.skip(f"needs {block.what}")
                names = pages.followed([block], **names)
                shown = pages.printed_after(block)
                assert shown in {None, capsys.readouterr().out}, f"{block} prints otherwise"
            if names["agent"] is not before and names["model"] is model and not any("invoke(" in b.code for b in chain):
                state = pages.asked(names["agent"])
                assert "__interrupt__" in state or "It says" in state["messages"][-1].text
        finally:
            pages.put_away(names)


def test_the_blocks_are_found():
    assert len(CHAINS) > 10
    assert {block.mark for chain in CHAINS for block in chain} <= {"", "continues", "needs"}
