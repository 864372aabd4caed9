"""The rules of the house: what may import what, and who may take messages apart."""

import ast
import functools
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import langchain_tooltree

PACKAGE = Path(langchain_tooltree.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
ROOMS = ("tooltree", "sitgraph", "cfgm")
HALL = ("anomaly", "experience")
PURE = {
    "anomaly/rules.py",
    "events.py",
    "experience/trajectory.py",
    "sitgraph/graph.py",
    "sitgraph/states.py",
    "sitgraph/suggest.py",
    "sitgraph/transitions.py",
    "text.py",
    "tooltree/branches.py",
    "tooltree/report.py",
    "tooltree/search/__init__.py",
    "tooltree/search/config.py",
    "tooltree/search/policies.py",
    "tooltree/search/tree.py",
}
LAYERS = (
    {"search/*", "report", "branches"},
    {"prompts", "judge", "gate"},
    {"visit", "ahead", "deep", "host", "result"},
    {"planner"},
    {"node", "middleware"},
)
"""The files of `tooltree/` from the inside out: pure kernels, what asks models, what runs a search, what users attach.

A file imports its own layer and those inside of it."""
ALLOWED = {"pydantic", "pydantic_core", "numpy", "networkx"} | sys.stdlib_module_names
IMPURE_MODULES = {
    "time",
    "datetime",
    "socket",
    "os",
    "io",
    "pathlib",
    "subprocess",
    "asyncio",
    "threading",
    "secrets",
}
MESSAGES = {"experience/trajectory.py", "tooltree/branches.py", "tooltree/report.py"}
"""Pure files about messages, which import LangChain's classes of them."""
READERS = {"conversation.py", "experience/trajectory.py", "tooltree/branches.py"}
"""What takes messages apart: the one reader of conversations, the record, and the tree."""

TWICE = {"Outcome"}
"""What comes of a call, and of a visit."""


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


@functools.cache
def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path, *, at_once=False):
    """Full names of the modules that a file imports; with `at_once`, only when it is loaded."""
    found = set()
    for node in parse(path).body if at_once else ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def files_behind(module):
    """The file of this package that an import leads to, as a set of none or one."""
    parts = module.split(".")[1:]
    for length in (len(parts), len(parts) - 1):
        path = PACKAGE.joinpath(*parts[:length])
        if path.with_suffix(".py").is_file() and length:
            return {name_of(path.with_suffix(".py"))}
    return set()


def is_marked_pure(path):
    return (
        re.search(
            r"\bPure[.;]", (ast.get_docstring(parse(path)) or "").partition("\n\n")[0]
        )
        is not None
    )


@pytest.mark.slow
def test_the_files_marked_pure_are_those_meant_to_be():
    assert {name_of(path) for path in FILES if is_marked_pure(path)} >= PURE


def test_pure_files_import_the_standard_library_and_pure_files_alone(subtests):
    pure = {name_of(path) for path in FILES if is_marked_pure(path)}
    for path in filter(is_marked_pure, FILES):
        with subtests.test(name_of(path)):
            for module in imports(path, at_once=True):
                root = module.partition(".")[0]
                if root == "langchain_tooltree":
                    assert files_behind(module) <= pure | {"errors.py"}, (
                        f"{module} is not pure"
                    )
                else:
                    more = {"langchain_core"} if name_of(path) in MESSAGES else set()
                    assert root in (ALLOWED | more) - IMPURE_MODULES, (
                        f"{module} is not for pure files"
                    )


def test_pure_files_use_no_global_random_state(subtests):
    for path in filter(is_marked_pure, FILES):
        with subtests.test(name_of(path)):
            for node in ast.walk(parse(path)):
                if (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id == "random"
                ):
                    assert node.attr == "Random", (
                        f"line {node.lineno}: random.{node.attr}"
                    )


@pytest.mark.parametrize("room", [room for room in ROOMS if (PACKAGE / room).is_dir()])
def test_a_room_imports_no_other_room(room):
    others = tuple(f"langchain_tooltree.{other}" for other in ROOMS if other != room)
    for path in (PACKAGE / room).rglob("*.py"):
        assert not [module for module in imports(path) if module.startswith(others)], (
            name_of(path)
        )


def layer_of(name):
    """The layer of a file of `tooltree/`."""
    inner = name.removeprefix("tooltree/").removesuffix(".py")
    inner = "search/*" if inner.startswith("search/") else inner
    return next((number for number, layer in enumerate(LAYERS) if inner in layer), None)


def test_imports_within_the_planner_run_one_way(subtests):
    for path in (PACKAGE / "tooltree").rglob("*.py"):
        name = name_of(path)
        with subtests.test(name):
            if name != "tooltree/__init__.py":
                assert layer_of(name) is not None, "say in LAYERS where it stands"
                behind = {
                    file for module in imports(path) for file in files_behind(module)
                }
                beyond = {
                    file
                    for file in behind
                    if file.startswith("tooltree/") and layer_of(file) > layer_of(name)
                }
                assert beyond == set()


def test_the_hall_imports_no_room():
    for path in (path for folder in HALL for path in (PACKAGE / folder).rglob("*.py")):
        assert not [
            module
            for module in imports(path)
            if module.split(".")[1:2] in [[room] for room in ROOMS]
        ]


def test_no_two_files_import_each_other_however_far_around():
    seen, done = set(), set()

    def visit(name, way):
        assert name not in way, " -> ".join([*way[way.index(name) :], name])
        if name in done:
            return
        seen.add(name)
        at_once = [
            node
            for node in parse(PACKAGE / name).body
            if isinstance(node, ast.ImportFrom)
        ]
        for module in {
            f"{node.module}.{alias.name}" for node in at_once for alias in node.names
        }:
            for following in (
                files_behind(module) if module.startswith("langchain_tooltree.") else ()
            ):
                visit(following, [*way, name])
        done.add(name)

    for path in FILES:
        visit(name_of(path), [])
    assert len(seen) == len(FILES)


def test_no_class_name_stands_for_two_things():
    places = {}
    for path in FILES:
        for node in parse(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name_of(path))
    assert {name for name, files in places.items() if len(files) > 1} <= TWICE


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
"""Code that asks whether something is a user's message or an observation."""


def test_conversations_are_read_by_one_reader():
    found = {
        name_of(path)
        for path in FILES
        if TAKES_APART.search(path.read_text(encoding="utf-8"))
    }
    assert found == READERS, "ask Conversation instead"


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(message, HumanMessage)",
        "isinstance(message, (AIMessage, ToolMessage))",
        "isinstance(message, AIMessage | messages.ToolMessage)",
        "from langchain_core.messages import HumanMessage as H\nisinstance(message, H)",
        "issubclass(kind, HumanMessageChunk)",
        "match message:\n    case ToolMessage(): pass",
        "type(message) is HumanMessage",
        "message.__class__ == ToolMessage",
        "message.type == 'human'",
        "message.type in {'ai', 'tool'}",
        "message['role'] == 'user'",
        "message.get('role') in ('system', 'user')",
        "match message.get('role'):\n    case 'user': pass",
    ],
)
def test_who_takes_messages_apart_is_found(code):
    assert TAKES_APART.search(code)
    assert not TAKES_APART.search(
        "isinstance(message, AIMessage); [HumanMessage('Hi'), {'role': 'user'}]"
    )


def test_every_module_can_be_imported_and_says_what_it_is(subtests):
    for path in FILES:
        with subtests.test(name_of(path)):
            if path.name != "__main__.py":
                parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
                importlib.import_module(
                    ".".join(part for part in parts if part != "__init__")
                )
            assert ast.get_docstring(parse(path))


def test_the_files_that_the_documents_name_are_there(subtests):
    root = PACKAGE.parent
    for document in (
        PACKAGE / "ARCHITECTURE.md",
        root / ".github" / "CONTRIBUTING.md",
        root / "tests" / "README.md",
    ):
        for line in document.read_text().splitlines():
            names = [
                (PACKAGE, name) for name in re.findall(r"`([\w/]+\.(?:py|toml))`", line)
            ]
            if row := re.match(
                r"\| `([\w/]+)/` \|", line
            ):  # a room, with its files by their names alone
                names += [
                    (PACKAGE / row[1], f"{name}.*")
                    for name in re.findall(r"`([a-z_]+)`", line)
                ]
            for folder, name in names:
                with subtests.test(f"{document.name}: {name}"):
                    assert any(
                        list(each.rglob(Path(name).name))
                        for each in (folder, root / "tests")
                    )


def test_the_public_names_are_unique_and_there():
    names = langchain_tooltree.__all__
    assert len(names) == len(set(names))
    for name in names:
        assert getattr(langchain_tooltree, name).__doc__


@pytest.mark.slow
def test_importing_the_package_has_no_side_effects():
    code = "import langchain_tooltree, threading; print(threading.active_count())"
    shown = subprocess.run(  # noqa: S603 - own code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert (shown.stdout, shown.stderr) == ("1\n", "")
