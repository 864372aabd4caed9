"""The code of the pages is typed: mypy, as strict as on the package, finds nothing in it."""

import re
import subprocess
import sys

import pytest

from tests.unit_tests.documentation import pages

pytestmark = pytest.mark.slow

GIVEN = {
    "model": "BaseChatModel",
    "tools": "list[BaseTool]",
    "checkpointer": "BaseCheckpointSaver[Any]",
    "store": "BaseStore",
    "agent": "CompiledStateGraph[Any, Any, Any, Any]",
    "graph": "SITGraph",
    "experience": "Experience",
    "evaluate": "Callable[[Any, Any], bool]",
}
"""What somebody who follows a page has already, and what it is."""

IMPORTS = """
from collections.abc import Callable as Callable
from typing import Any as Any

from langchain_core.language_models import BaseChatModel as BaseChatModel
from langchain_core.tools import BaseTool as BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver as BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph as CompiledStateGraph
from langgraph.store.base import BaseStore as BaseStore

from langchain_tooltree import Experience as Experience, SITGraph as SITGraph
"""

THEIRS = 'of "Pregel"'
"""LangGraph wants a `RunnableConfig` where everybody, its own documentation too, writes a dict."""

UNREAD = """
[[tool.mypy.overrides]]
module = [
  "aiohttp.*", "anthropic.*", "chromadb.*", "google.*", "httpx.*", "langsmith.*", "networkx.*", "numpy.*", "openai.*",
  "PIL.*", "psycopg.*", "requests.*", "rich.*", "sqlalchemy.*", "tiktoken.*",
]
follow_imports = "skip"
follow_imports_for_stubs = true
"""
"""Packages that no page uses: to read their types, which other packages import, would take a minute."""

EFFECTS_OF_ONES_OWN = """
from langchain_tooltree import ToolTreeMiddleware, ToolTreeNode, create_tooltree_agent, search

effects = {"search_flights": "read"}


def search_flights(city: str) -> str:
    return f"OS-1 flies to {city}."


create_tooltree_agent(model, [search_flights, *tools], effects=effects)
ToolTreeNode(model, [search_flights, *tools], effects=effects)
ToolTreeMiddleware(effects=effects)
search("Which flight to Oslo is cheapest?", [search_flights], model=model, effects=effects)
"""


def declared(code: str) -> str:
    """The reader's own names that a page does not make itself."""
    made = {
        name
        for name in GIVEN
        if re.search(
            rf"^(?:\w+, )*{name}(?:, \w+)* = |\bas {name}\b", code, re.MULTILINE
        )
    }
    return "\n".join(
        f"{name}: {kind}" for name, kind in GIVEN.items() if name not in made
    )


def test_the_code_of_the_pages_is_typed_strictly(tmp_path):
    pytest.importorskip("mypy", reason="[types] is not installed")
    codes = ["\n".join(block.code for block in chain) for chain in pages.chains()] + [
        EFFECTS_OF_ONES_OWN
    ]
    places = [str(chain[0]) for chain in pages.chains()] + ["effects"]
    for place, code in zip(places, codes, strict=True):
        file = tmp_path / (re.sub(r"\W", "_", place) + ".py")
        file.write_text(f"{IMPORTS}\n{declared(code)}\n{code}")
    config = tmp_path / "mypy.toml"
    config.write_text((pages.ROOT / "pyproject.toml").read_text() + UNREAD)
    options = ["--config-file", config, "--cache-dir", ".mypy_cache/pages"]
    done = subprocess.run(  # noqa: S603 - own code
        [sys.executable, "-m", "mypy", *options, *sorted(tmp_path.glob("*.py"))],
        capture_output=True,
        text=True,
        check=False,
        cwd=pages.ROOT,  # where its cache is
    )
    assert [
        line
        for line in done.stdout.splitlines()
        if ": error: " in line and THEIRS not in line
    ] == []
    assert done.stderr == ""
