"""What the door costs: public names are lazy, and nothing heavy is loaded before it is used."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import langchain_tooltree
from langchain_tooltree.errors import MissingExtraError
from tests.internals.hall import import_extra

HEAVY = {"chromadb", "grpc", "jsonschema", "langchain_openai", "networkx", "numpy", "openai", "opentelemetry", "rich"}
MOST_NAMES = 55


def modules_loaded_by(code):
    """The modules that code loads beyond those that `langchain.agents` has loaded."""
    program = f"import sys, langchain.agents\nbefore = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603 - own code
    return set(shown.stdout.split())


@pytest.mark.slow
def test_importing_the_package_loads_nothing_but_its_door():
    assert modules_loaded_by("import langchain_tooltree") == {"langchain_tooltree"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "used"),
    [
        ("import langchain_tooltree.testing", set()),
        ("import langchain_tooltree.errors", set()),
        ("from langchain_tooltree import ToolTreeNode, SearchConfig, search", {"numpy", "jsonschema"}),
        ("from langchain_tooltree import CFGMMiddleware, CFGMMemory, AnomalyDetector", {"numpy"}),
        ("from langchain_tooltree import SITGraph, SITGraphMiddleware", {"numpy"}),
        ("from langchain_tooltree import create_tooltree_agent", {"numpy", "jsonschema"}),
        ("from langchain_tooltree import ExperienceStore, TrajectoryRecorder, load_trajectories", {"numpy"}),
    ],
)
def test_what_is_not_used_is_not_loaded(code, used):
    assert {name.partition(".")[0] for name in modules_loaded_by(code)} & HEAVY <= used


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


def without(package, code):
    """What a program does where a package is not installed."""
    program = f"import sys\nsys.modules[{package!r}] = None\n{code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603 - own code


@pytest.mark.slow
def test_what_needs_chromadb_says_how_to_get_it(tmp_path):
    folder = tmp_path / "experience"
    shown = without("chromadb", f"from langchain_tooltree import *\nChromaStore({str(folder)!r})")
    assert shown.stderr.splitlines()[-1] == (
        "langchain_tooltree.errors.MissingExtraError: ChromaStore needs chromadb, which is not installed: "
        "pip install 'langchain-tooltree[chroma]'"
    )
    assert not folder.exists()


def test_a_missing_extra_is_an_import_error():
    assert issubclass(MissingExtraError, ImportError)
    assert import_extra("json", "chroma", "ChromaStore") is json
    for module in ("no_such_package", "no_such_package.part"):
        with pytest.raises(
            MissingExtraError, match=r"^X needs no_such_package, .*: pip install 'langchain-tooltree\[extra\]'$"
        ):
            import_extra(module, "extra", "X")


def test_an_extra_that_lacks_something_itself_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "broken_extra.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'no_such_package'$"):
        import_extra("broken_extra", "chroma", "ChromaStore")


@pytest.mark.slow
def test_a_model_of_a_provider_that_is_not_installed_says_how_to_get_it():
    shown = without(
        "langchain_openai", "from langchain_tooltree import *\nsearch('Hello?', [len], model='openai:gpt-4.1-mini')"
    )
    assert shown.stderr.splitlines()[-1].startswith("ImportError: ")
    assert shown.stderr.splitlines()[-1].endswith("`pip install langchain-openai`")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code"),
    [(["demo", "--json"], 0), (["demo", "--model", "openai:gpt-4.1-mini"], 2), (["mine", "--help"], 0)],
)
def test_the_command_line_works_without_extras(command, code):
    main = f"from langchain_tooltree.cli import main\nsys.exit(main({command}))"
    shown = without("chromadb", f"sys.modules['langchain_openai'] = None\n{main}")
    assert shown.returncode == code, shown.stderr
    assert ("`pip install langchain-openai`" in shown.stderr) == (code == 2)
