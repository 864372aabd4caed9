"""What the door costs: public names are lazy, and nothing heavy is loaded before it is used."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import langchain_tooltree

HEAVY = {"chromadb", "grpc", "jsonschema", "langchain_openai", "networkx", "numpy", "openai", "opentelemetry", "rich"}
MOST_NAMES = 60


def loaded_by(code):
    """The top-level modules that code loads beyond those that `langchain.agents` has loaded."""
    program = f"import sys, langchain.agents\nbefore = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - own code
    return {name.partition(".")[0] for name in shown.stdout.split()}


def test_importing_the_package_loads_nothing_but_its_door():
    assert loaded_by("import langchain_tooltree") == {"langchain_tooltree"}


@pytest.mark.parametrize(
    ("code", "used"),
    [
        ("import langchain_tooltree.testing", set()),
        ("import langchain_tooltree.errors", set()),
        ("from langchain_tooltree import ToolTreeNode, SearchConfig, search", {"numpy"}),
        ("from langchain_tooltree import CFGMMiddleware, CFGMMemory, AnomalyDetector", {"numpy"}),
        ("from langchain_tooltree import SITGraph, SITGraphMiddleware", {"numpy"}),
        ("from langchain_tooltree import create_tooltree_agent", {"numpy"}),
        ("from langchain_tooltree import ExperienceStore, TrajectoryRecorder, load_trajectories", {"numpy"}),
    ],
)
def test_what_is_not_used_is_not_loaded(code, used):
    assert loaded_by(code) & HEAVY <= used


def test_type_checkers_see_the_names_that_are_imported():
    tree = ast.parse(Path(langchain_tooltree.__file__).read_text(encoding="utf-8"))
    shown = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("langchain_tooltree")
        for alias in node.names
    }
    modules = inspect.getattr_static(langchain_tooltree, "_MODULES")
    assert shown == {name: f"langchain_tooltree.{module}" for name, module in modules.items()}
    assert list(modules) == langchain_tooltree.__all__


def test_there_are_no_more_names_than_one_can_look_through():
    assert len(langchain_tooltree.__all__) <= MOST_NAMES


def test_the_names_are_listed_and_others_are_refused():
    assert set(dir(langchain_tooltree)) >= set(langchain_tooltree.__all__)
    with pytest.raises(AttributeError, match="'langchain_tooltree' has no attribute 'serach'"):
        langchain_tooltree.serach  # noqa: B018 - looking it up is the test
    assert langchain_tooltree.search is langchain_tooltree.search
