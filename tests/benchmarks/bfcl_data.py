"""The multi-turn tasks of the Berkeley function-calling benchmark, read from its PyPI package: 200 in each category.

The package pins versions that nothing else can live with, so it is never installed: its wheel is downloaded without
dependencies into a cache folder, unzipped there, and only the light modules that the tasks need are imported.
"""

import ast
import copy
import importlib
import inspect
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.bfcl_world import PlainCall, Task, ToolSpec

REQUIREMENT = "bfcl-eval==2026.3.23"
CATEGORY = "base"

# Type names of the benchmark's function documents that JSON schema spells differently.
JSON_SCHEMA_TYPES = {"dict": "object", "float": "number"}


def fetch_package(cache: Path) -> Path:
    """The folder of the unzipped package; downloaded on first use.

    Args:
        cache: Where it is kept.

    Returns:
        The folder to import from.
    """
    unpacked = cache / REQUIREMENT.replace("==", "-")
    if not unpacked.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # Unzipped elsewhere and renamed, so that an interrupted first use leaves nothing half-done behind.
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                REQUIREMENT,
                "-d",
                scratch,
            ]
            subprocess.run(command, check=True)  # noqa: S603 - a fixed command
            (wheel,) = Path(scratch).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(Path(scratch, "unpacked"))
            shutil.move(Path(scratch, "unpacked"), unpacked)
    return unpacked


def load_tasks(package: Path) -> list[Task]:
    """All tasks of the category, in the benchmark's order.

    Args:
        package: The unzipped package.

    Returns:
        The tasks, their user turns joined into one request.
    """
    entries = load_entries(package, CATEGORY)
    checker = importlib.import_module(
        "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker"
    )
    tasks: list[Task] = []
    for entry in entries:
        owners = owners_of(entry)
        tools = tool_specs(package, owners)
        methods = {tool.name: owners[tool.owner] for tool in tools}
        turns = tuple(
            tuple(parse_call(text, methods) for text in turn)
            for turn in entry["ground_truth"]
        )
        tasks.append(
            Task(
                id=entry["id"],
                request="\n".join(
                    message["content"] for turn in entry["question"] for message in turn
                ),
                tools=tuple(
                    tool
                    for tool in tools
                    if tool.name not in entry.get("excluded_function", ())
                ),
                gold=tuple(call for turn in turns for call in turn),
                gold_turns=turns,
                make_objects=partial(make_objects, entry),
                same_state=partial(_same_state, checker.state_checker),
            )
        )
    return tasks


def load_entries(package: Path, category: str) -> list[dict[str, Any]]:
    """The tasks of a category as the benchmark has them, each with its `ground_truth`.

    Args:
        package: The unzipped package, which can be imported from then on.
        category: `base`, `miss_func`, `miss_param` or `long_context`.

    Returns:
        The entries, in the benchmark's order.
    """
    if str(package) not in sys.path:
        sys.path.append(str(package))
    data, name = package / "bfcl_eval" / "data", f"BFCL_v4_multi_turn_{category}.json"
    gold = {
        entry["id"]: entry["ground_truth"]
        for entry in _json_lines(data / "possible_answer" / name)
    }
    return [
        {**entry, "ground_truth": gold[entry["id"]]}
        for entry in _json_lines(data / name)
    ]


def owners_of(entry: Mapping[str, Any]) -> dict[str, type]:
    """The classes whose methods are the tools of an entry, by name."""
    paths = importlib.import_module(
        "bfcl_eval.constants.executable_backend_config"
    ).CLASS_FILE_PATH_MAPPING
    return {
        name: getattr(importlib.import_module(paths[name]), name)
        for name in entry["involved_classes"]
    }


def tool_specs(package: Path, owners: Iterable[str]) -> list[ToolSpec]:
    """What the benchmark says of the methods of some classes."""
    config = importlib.import_module("bfcl_eval.constants.executable_backend_config")
    documents = package / "bfcl_eval" / "data" / "multi_turn_func_doc"
    return [
        ToolSpec(
            document["name"],
            owner,
            document["description"],
            json_schema(document["parameters"]),
        )
        for owner in owners
        for document in _json_lines(
            documents / config.MULTI_TURN_FUNC_DOC_FILE_MAPPING[owner]
        )
    ]


def make_objects(
    entry: Mapping[str, Any], *, long_context: bool = False
) -> dict[str, Any]:
    """The objects of an entry in their first state, by class; with a long context they hold much that is of no use."""
    stateless = importlib.import_module(
        "bfcl_eval.constants.executable_backend_config"
    ).STATELESS_CLASSES
    objects = {name: owner() for name, owner in owners_of(entry).items()}
    for name, instance in objects.items():
        if name not in stateless:
            configuration = copy.deepcopy(entry["initial_config"].get(name, {}))
            instance._load_scenario(configuration, long_context=long_context)
    return objects


def parse_call(text: str, owners: Mapping[str, type]) -> PlainCall:
    """Read a gold call, such as `sort('report.txt')`, without evaluating it.

    Args:
        text: A Python call expression with literal arguments.
        owners: The class that each method belongs to; its signature names the positional arguments.

    Returns:
        The call with all arguments named.
    """
    expression = ast.parse(text.strip(), mode="eval").body
    if not (isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name)):
        msg = f"This gold call is no plain call expression: {text!r}."
        raise ValueError(msg)  # noqa: TRY004 - the text is wrong, not its type
    tool = expression.func.id
    positional = [ast.literal_eval(argument) for argument in expression.args]
    named = {
        str(keyword.arg): ast.literal_eval(keyword.value)
        for keyword in expression.keywords
    }
    parameters = list(inspect.signature(getattr(owners[tool], tool)).parameters)[
        1:
    ]  # without self
    return PlainCall(tool, {**dict(zip(parameters, positional, strict=False)), **named})


def json_schema(document: Any) -> Any:
    """A function document's parameters as JSON schema."""
    if isinstance(document, list):
        return [json_schema(part) for part in document]
    if not isinstance(document, dict):
        return document
    return {
        # A property that is itself called "type" holds a mapping, so only type names are translated.
        key: JSON_SCHEMA_TYPES.get(part, part)
        if key == "type" and isinstance(part, str)
        else json_schema(part)
        for key, part in document.items()
    }


def _same_state(
    state_checker: Callable[..., Mapping[str, Any]], found: Any, wanted: Any
) -> bool:
    return bool(state_checker(found, wanted)["valid"])


def _json_lines(path: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
