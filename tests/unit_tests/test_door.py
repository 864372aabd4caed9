"""What the door costs: public names are lazy, and nothing heavy is loaded before it is used."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import langchain_tooltree
from langchain_tooltree.errors import MissingExtraError, import_extra
from tests.internals import without_package
from tests.internals.child_processes import servers

HEAVY = {
    "chromadb",
    "grpc",
    "jsonschema",
    "langchain_openai",
    "networkx",
    "numpy",
    "openai",
    "opentelemetry",
    "rich",
}
MOST_NAMES = 55


FORKING = """
import langchain.agents, os, sys

before = set(sys.modules)
for code in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        exec(code)
        print(*(set(sys.modules) - before), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, code
"""
"""Loads the hosts once, since that takes a second, and forks a process for each code."""


def modules_loaded_by(*codes):
    """The modules that each code loads beyond those that `langchain.agents` has loaded."""
    command = [sys.executable, "-c", FORKING, *codes]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - own code
    return [set(line.split()) for line in shown.stdout.splitlines()]


USED = {
    "import langchain_tooltree.testing": set(),
    "import langchain_tooltree.errors": set(),
    "from langchain_tooltree import ToolTreeNode, SearchConfig, search": {
        "numpy",
        "jsonschema",
    },
    "from langchain_tooltree import CFGMMiddleware, CFGMMemory, AnomalyDetector": {
        "numpy"
    },
    "from langchain_tooltree import SITGraph, SITGraphMiddleware": {"numpy"},
    "from langchain_tooltree import create_tooltree_agent": {"numpy", "jsonschema"},
    "from langchain_tooltree import ExperienceStore, TrajectoryRecorder, load_trajectories": {
        "numpy"
    },
}
"""What of the heavy packages may be loaded by an import."""


@pytest.mark.slow
def test_nothing_is_loaded_that_is_not_used(subtests):
    door, *others = modules_loaded_by("import langchain_tooltree", *USED)
    assert door == {"langchain_tooltree"}
    for code, loaded in zip(USED, others, strict=True):
        with subtests.test(code):
            assert {name.partition(".")[0] for name in loaded} & HEAVY <= USED[code]


def test_type_checkers_see_the_names_that_are_imported():
    tree = ast.parse(Path(langchain_tooltree.__file__).read_text(encoding="utf-8"))
    shown = {
        alias.asname: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module.startswith("langchain_tooltree")
        for alias in node.names
    }
    modules = inspect.getattr_static(langchain_tooltree, "_MODULES")
    assert shown == {
        name: f"langchain_tooltree.{module}" for name, module in modules.items()
    }
    assert list(modules) == langchain_tooltree.__all__


def test_there_are_no_more_names_than_one_can_look_through():
    assert len(langchain_tooltree.__all__) <= MOST_NAMES


def test_the_names_are_listed_and_others_are_refused():
    assert set(dir(langchain_tooltree)) >= set(langchain_tooltree.__all__)
    with pytest.raises(
        AttributeError, match="'langchain_tooltree' has no attribute 'serach'"
    ):
        langchain_tooltree.serach  # noqa: B018 - looking it up is the test
    assert langchain_tooltree.search is langchain_tooltree.search


@pytest.fixture(scope="module")
def children():
    with servers(Path(without_package.__file__), count=1) as running:
        yield running


@pytest.fixture
def without(children, tmp_path):
    """What a program does where a package is not installed: how it ends, and the lines that it shows."""

    def run(package, code):
        (tmp_path / "output").write_text("")
        ended = children.do(
            {"package": package, "code": code, "output": str(tmp_path / "output")}
        )
        return ended, (tmp_path / "output").read_text().splitlines()

    return run


@pytest.mark.slow
def test_what_needs_chromadb_says_how_to_get_it(tmp_path, without):
    folder = tmp_path / "experience"
    _, shown = without(
        "chromadb", f"from langchain_tooltree import *\nChromaStore({str(folder)!r})"
    )
    assert shown[-1] == (
        "langchain_tooltree.errors.MissingExtraError: ChromaStore needs chromadb, which is not installed: "
        "pip install 'langchain-tooltree[chroma]'"
    )
    assert not folder.exists()


@pytest.mark.slow
def test_what_needs_rich_says_how_to_get_it_and_nothing_else_does(without):
    code = (
        "from langchain_tooltree import demo\nresult = demo.solved()\n"
        "print(result._repr_svg_(), len(result._repr_html_()))\n"
        "from langchain_tooltree.cli import main\nprint(main(['demo']))\nresult.to_rich()"
    )
    _, shown = without("rich", code)
    remedy = "needs rich, which is not installed: pip install 'langchain-tooltree[cli]'"
    assert shown[0].startswith("None ")
    assert shown[1:3] == [f"langchain-tooltree demo {remedy}", "2"]
    assert shown[-1] == f"langchain_tooltree.errors.MissingExtraError: to_rich {remedy}"


def test_a_missing_extra_is_an_import_error():
    assert issubclass(MissingExtraError, ImportError)
    assert import_extra("json", "chroma", "ChromaStore") is json
    for module in ("no_such_package", "no_such_package.part"):
        with pytest.raises(
            MissingExtraError,
            match=r"^X needs no_such_package, .*: pip install 'langchain-tooltree\[extra\]'$",
        ):
            import_extra(module, "extra", "X")


def test_an_extra_that_lacks_something_itself_is_not_called_missing(
    tmp_path, monkeypatch
):
    (tmp_path / "broken_extra.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ModuleNotFoundError, match=r"^No module named 'no_such_package'$"
    ):
        import_extra("broken_extra", "chroma", "ChromaStore")


@pytest.mark.slow
def test_a_model_of_a_provider_that_is_not_installed_says_how_to_get_it(without):
    _, shown = without(
        "langchain_openai",
        "from langchain_tooltree import *\nsearch('Hello?', [len], model='openai:gpt-4.1-mini')",
    )
    assert shown[-1].startswith("ImportError: ")
    assert shown[-1].endswith("`pip install langchain-openai`")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["demo", "--json"], 0),
        (["demo", "--model", "openai:gpt-4.1-mini"], 2),
        (["view", "--help"], 0),
    ],
)
def test_the_command_line_works_without_extras(without, command, code):
    main = f"from langchain_tooltree.cli import main\nsys.exit(main({command}))"
    ended, shown = without(
        "chromadb", f"sys.modules['langchain_openai'] = None\n{main}"
    )
    assert ended == code, shown
    assert ("`pip install langchain-openai`" in "\n".join(shown)) == (code == 2)
