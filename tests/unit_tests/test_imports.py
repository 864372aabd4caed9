"""The rules of the package: which module may import which, and who may take messages apart."""

import ast
import functools
import importlib
import re
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest

import langchain_tooltree

PACKAGE = Path(langchain_tooltree.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
SYSTEMS = ("tooltree", "sitgraph", "cfgm")
SHARED = ("anomaly", "effects", "experience", "messages")
PURE = {
    "effects/names.py",
    "events.py",
    "messages/content.py",
    "sitgraph/states.py",
    "text.py",
    "tooltree/search/__init__.py",
    "tooltree/search/config.py",
    "tooltree/search/policies.py",
    "tooltree/search/tree.py",
}
PLANNER_LAYERS = (
    {"search/*", "thinking", "model_json", "problems"},
    {"completeness_report", "answer_checks"},
    {"report", "stream_filter", "branches"},
    {"prompts", "judge", "gate"},
    {"visit", "ahead", "deep", "host", "result"},
    {"planner"},
    {"node", "middleware"},
)
"""The files of `tooltree/` from the inside out. A file imports its own layer and those inside it."""
LIBRARIES_OF_PURE_FILES = {
    "networkx",
    "numpy",
    "pydantic",
    "pydantic_core",
} | sys.stdlib_module_names
IMPURE_MODULES = {
    "asyncio",
    "datetime",
    "io",
    "os",
    "pathlib",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "time",
}
READERS_OF_MESSAGES = {"tooltree/branches.py"}
"""Files outside `messages/` that ask whether something is a user's message or a result."""


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


@functools.cache
def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(path):
    """Full names that any import statement of a file names, wherever it stands."""
    names = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)} imports relatively"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def find_file(module):
    """Return the file of this package that an imported name leads to, or None."""
    parts = module.split(".")[1:]
    for length in (len(parts), len(parts) - 1):
        if length < 1:
            continue
        path = PACKAGE.joinpath(*parts[:length])
        if path.with_suffix(".py").is_file():
            return name_of(path.with_suffix(".py"))
        if (path / "__init__.py").is_file():
            return name_of(path / "__init__.py")
    return None


def imported_files(path):
    """Names of the files of this package that a file imports."""
    ours = [
        module
        for module in imported_modules(path)
        if module.startswith("langchain_tooltree.")
    ]
    return {find_file(module) for module in ours} - {None, name_of(path)}


def is_marked_pure(path):
    summary = (ast.get_docstring(parse(path)) or "").partition("\n\n")[0]
    return re.search(r"\bPure[.;]", summary) is not None


def test_no_files_import_each_other_in_a_circle():
    graph = nx.DiGraph()
    for path in FILES:
        # The package's `__init__` imports every public name, but only on demand.
        if name_of(path) != "__init__.py":
            graph.add_edges_from((name_of(path), file) for file in imported_files(path))
    graph.remove_nodes_from([file for file in graph if file == "__init__.py"])
    circles = [
        sorted(files)
        for files in nx.strongly_connected_components(graph)
        if len(files) > 1
    ]
    assert circles == []


@pytest.mark.slow
def test_files_that_must_be_pure_call_themselves_pure():
    assert {name_of(path) for path in FILES if is_marked_pure(path)} >= PURE


def test_pure_files_import_pure_files_and_libraries_without_state(subtests):
    pure_files = {name_of(path) for path in FILES if is_marked_pure(path)}
    for path in filter(is_marked_pure, FILES):
        with subtests.test(name_of(path)):
            assert imported_files(path) <= pure_files | {"errors.py"}
            roots = {module.partition(".")[0] for module in imported_modules(path)}
            allowed = LIBRARIES_OF_PURE_FILES - IMPURE_MODULES
            assert roots <= allowed | {"langchain_tooltree"}


def test_pure_files_keep_no_state_of_the_process(subtests):
    for path in filter(is_marked_pure, FILES):
        with subtests.test(name_of(path)):
            for node in parse(path).body:
                if isinstance(node, ast.Assign | ast.AnnAssign):
                    is_empty = isinstance(node.value, ast.Dict | ast.List) and not (
                        getattr(node.value, "keys", None)
                        or getattr(node.value, "elts", None)
                    )
                    assert not is_empty, f"line {node.lineno}: filled later?"
            for node in ast.walk(parse(path)):
                assert not isinstance(node, ast.Global), f"line {node.lineno}: global"


def test_pure_files_use_no_global_random_state(subtests):
    for path in filter(is_marked_pure, FILES):
        with subtests.test(name_of(path)):
            for node in ast.walk(parse(path)):
                is_attribute = isinstance(node, ast.Attribute) and isinstance(
                    node.value, ast.Name
                )
                if is_attribute and node.value.id == "random":
                    assert node.attr == "Random", f"line {node.lineno}: {node.attr}"


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_system_imports_no_other_system(system):
    others = tuple(f"{other}/" for other in SYSTEMS if other != system)
    for path in (PACKAGE / system).rglob("*.py"):
        found = {file for file in imported_files(path) if file.startswith(others)}
        assert found == set(), name_of(path)


@pytest.mark.parametrize("folder", SHARED)
def test_what_the_systems_share_imports_no_system(folder):
    systems = tuple(f"{system}/" for system in SYSTEMS)
    for path in (PACKAGE / folder).rglob("*.py"):
        found = {file for file in imported_files(path) if file.startswith(systems)}
        assert found == set(), name_of(path)


def layer_of(name):
    """Return the number of the layer that a file of `tooltree/` belongs to."""
    inner = name.removeprefix("tooltree/").removesuffix(".py")
    if inner.startswith("search/"):
        inner = "search/*"
    for number, layer in enumerate(PLANNER_LAYERS):
        if inner in layer:
            return number
    return None


def test_imports_within_the_planner_run_one_way(subtests):
    for path in (PACKAGE / "tooltree").rglob("*.py"):
        name = name_of(path)
        if name == "tooltree/__init__.py":
            continue
        with subtests.test(name):
            assert layer_of(name) is not None, "say in PLANNER_LAYERS where it stands"
            for file in imported_files(path):
                if file.startswith("tooltree/"):
                    assert layer_of(file) <= layer_of(name), file


def test_no_top_level_name_stands_for_two_things():
    places = {}
    for path in FILES:
        for node in parse(path).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names = [node.name]
            elif isinstance(node, ast.Assign):
                names = [each.id for each in node.targets if isinstance(each, ast.Name)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            else:
                names = []
            for name in names:
                places.setdefault(name, []).append(name_of(path))
    doubles = {name: files for name, files in places.items() if len(set(files)) > 1}
    # The demo's tools bear the names of those of the toolbox, which they imitate.
    imitated = {"convert_units", "image_size", "zoom_image"}
    ordinary = {"T", "__all__", "logger"}
    assert set(doubles) <= imitated | ordinary, doubles


TAKES_APART = re.compile(
    r"""
    \bis(?:instance|subclass)\([^()]+ (?:\([^()]*)? \b(?:Human|Tool)Message     # its class
    | (?:\btype\(|__class__) [^\n]* (?:==|\bis\b|\bin\b) [^\n]* (?:Human|Tool)Message
    | \bcase\ [\w.| ]* (?:Human|Tool)Message
    | \b(?:type|role)\b ["'\])]* \s* (?:[!=]=|\bin\b) [^\n]* ["'](?:human|user|tool)["']    # its type, or its role
    | \bcase\ ["'](?:human|user|tool)["']
    | \b(?:Human|Tool)Message(?:Chunk)?\ as\b    # by another name, nobody would find it
    """,
    re.VERBOSE,
)
"""Code that asks whether something is a user's message or a result."""


def test_only_the_messages_package_takes_messages_apart():
    found = {
        name_of(path)
        for path in FILES
        if TAKES_APART.search(path.read_text(encoding="utf-8"))
    }
    outside = {name for name in found if not name.startswith("messages/")}
    assert outside == READERS_OF_MESSAGES, "ask langchain_tooltree.messages instead"


def test_every_module_can_be_imported_and_has_a_docstring(subtests):
    for path in FILES:
        with subtests.test(name_of(path)):
            if path.name != "__main__.py":
                parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
                importlib.import_module(
                    ".".join(part for part in parts if part != "__init__")
                )
            assert ast.get_docstring(parse(path))


def test_the_files_that_the_documents_name_exist(subtests):
    root = PACKAGE.parent
    documents = (
        PACKAGE / "ARCHITECTURE.md",
        root / ".github" / "CONTRIBUTING.md",
        root / "tests" / "README.md",
    )
    for document in documents:
        for line in document.read_text().splitlines():
            names = [
                (PACKAGE, name) for name in re.findall(r"`([\w/]+\.(?:py|toml))`", line)
            ]
            # A row of a table names a folder, and its files by their names alone.
            if row := re.match(r"\| `([\w/]+)/` \|", line):
                names += [
                    (PACKAGE / row[1], f"{name}.*")
                    for name in re.findall(r"`([a-z_]+)`", line)
                ]
            for folder, name in names:
                with subtests.test(f"{document.name}: {name}"):
                    places = (folder, root / "tests")
                    files = [
                        file
                        for place in places
                        for file in place.rglob(Path(name).name)
                    ]
                    assert files, f"{name} is in none of {places}"


def test_the_public_names_are_unique_and_documented():
    names = langchain_tooltree.__all__
    assert len(names) == len(set(names))
    for name in names:
        assert getattr(langchain_tooltree, name).__doc__


@pytest.mark.slow
def test_importing_the_package_has_no_side_effects():
    code = "import langchain_tooltree, threading; print(threading.active_count())"
    finished = subprocess.run(  # noqa: S603 - own code
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (finished.stdout, finished.stderr) == ("1\n", "")
