"""The 200 multi-turn base tasks of the Berkeley function-calling benchmark, read from its PyPI package.

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
CATEGORY = "BFCL_v4_multi_turn_base"

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
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", REQUIREMENT, "-d", scratch]
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
    if str(package) not in sys.path:
        sys.path.append(str(package))
    backends = importlib.import_module("bfcl_eval.constants.executable_backend_config")
    checker = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker")
    data = package / "bfcl_eval" / "data"
    gold = {entry["id"]: entry["ground_truth"] for entry in _json_lines(data / "possible_answer" / f"{CATEGORY}.json")}
    tasks: list[Task] = []
    for entry in _json_lines(data / f"{CATEGORY}.json"):
        owners = {
            name: getattr(importlib.import_module(backends.CLASS_FILE_PATH_MAPPING[name]), name)
            for name in entry["involved_classes"]
        }
        documents = {
            name: _json_lines(data / "multi_turn_func_doc" / backends.MULTI_TURN_FUNC_DOC_FILE_MAPPING[name])
            for name in owners
        }
        methods = {document["name"]: owners[name] for name in owners for document in documents[name]}
        turns = tuple(tuple(parse_call(text, methods) for text in turn) for turn in gold[entry["id"]])
        tasks.append(
            Task(
                id=entry["id"],
                request="\n".join(message["content"] for turn in entry["question"] for message in turn),
                tools=tuple(
                    _tool_spec(name, document)
                    for name in owners
                    for document in documents[name]
                    if document["name"] not in entry.get("excluded_function", ())
                ),
                gold=tuple(call for turn in turns for call in turn),
                gold_turns=turns,
                make_objects=partial(_make_objects, owners, entry["initial_config"], backends.STATELESS_CLASSES),
                same_state=partial(_same_state, checker.state_checker),
            )
        )
    return tasks


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
    named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in expression.keywords}
    parameters = list(inspect.signature(getattr(owners[tool], tool)).parameters)[1:]  # without self
    return PlainCall(tool, {**dict(zip(parameters, positional, strict=False)), **named})


def json_schema(document: Any) -> Any:
    """A function document's parameters as JSON schema."""
    if isinstance(document, list):
        return [json_schema(part) for part in document]
    if not isinstance(document, dict):
        return document
    return {
        # A property that is itself called "type" holds a mapping, so only type names are translated.
        key: JSON_SCHEMA_TYPES.get(part, part) if key == "type" and isinstance(part, str) else json_schema(part)
        for key, part in document.items()
    }


def _tool_spec(owner: str, document: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(document["name"], owner, document["description"], json_schema(document["parameters"]))


def _make_objects(
    owners: Mapping[str, Callable[[], Any]], configuration: Mapping[str, Any], stateless: Iterable[str]
) -> dict[str, Any]:
    objects = {name: owner() for name, owner in owners.items()}
    for name, instance in objects.items():
        if name not in stateless:
            instance._load_scenario(copy.deepcopy(configuration.get(name, {})), long_context=False)
    return objects


def _same_state(state_checker: Callable[..., Mapping[str, Any]], found: Any, wanted: Any) -> bool:
    return bool(state_checker(found, wanted)["valid"])


def _json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
