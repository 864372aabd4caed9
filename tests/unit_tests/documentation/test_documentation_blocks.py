"""Every block of Python on a page runs, without a key, and every command that a page shows is one."""

import re
import shlex
from importlib.util import find_spec

import pytest

from langchain_tooltree import cli
from tests.unit_tests.documentation import pages

pytestmark = pytest.mark.slow

CHAINS = pages.chains()
SERVICES = {"langsmith", "mcp", "postgres"}
"""What a block may need that is more than a package."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder of somebody who follows a page."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.filterwarnings(
    "ignore:create_react_agent has been moved"
)  # says langgraph-supervisor
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("chain", CHAINS, ids=[str(chain[0]) for chain in CHAINS])
def test_the_blocks_of_the_pages_run(chain, capsys):
    names = pages.given()
    before, model = names["agent"], names["model"]
    with pages.offline():
        try:
            for block in chain:
                if block.mark == "needs" and (
                    block.what in SERVICES
                    or not find_spec(block.what.replace("-", "_"))
                ):
                    pytest.skip(f"needs {block.what}")
                names = pages.followed([block], **names)
                shown = pages.printed_after(block)
                assert shown in {None, capsys.readouterr().out}, (
                    f"{block} prints otherwise"
                )
            if (
                names["agent"] is not before
                and names["model"] is model
                and not any("invoke(" in b.code for b in chain)
            ):
                state = pages.asked(names["agent"])
                assert (
                    "__interrupt__" in state or "It says" in state["messages"][-1].text
                )
        finally:
            pages.put_away(names)


COMMANDS = [
    (block, line.partition("|")[0].partition(">")[0])
    for block in pages.blocks_in("bash")
    for line in block.code.replace("\\\n", " ").splitlines()
]


def test_each_command_of_a_page_can_be_given(monkeypatch, subtests):
    given = []
    monkeypatch.setattr(
        "langchain_tooltree.cli._run_command",
        lambda options, _: given.append(options) or 0,
    )
    for block, line in COMMANDS:
        words = shlex.split(line, comments=True)
        if "langchain-tooltree" in words[:1] or words[1:3] == [
            "-m",
            "langchain_tooltree",
        ]:
            with subtests.test(str(block), line=line):
                cli.main(words[1 if words[0] == "langchain-tooltree" else 3 :])
    assert len(given) > 10


def test_each_benchmark_of_a_page_exists():
    named = {
        name
        for page in pages.PAGES.values()
        for name in re.findall(r"-m (tests\.benchmarks[\w.]*)", page)
    }
    assert len(named) >= 10
    assert [name for name in named if not find_spec(name)] == []


def test_the_site_can_draw_all_pictures():
    assert pages.blocks_in("mermaid") == [], (
        "the site has no Mermaid: it would come from another server"
    )


def test_the_blocks_are_found():
    assert len(CHAINS) > 10
    assert {block.mark for chain in CHAINS for block in chain} <= {
        "",
        "continues",
        "needs",
    }
