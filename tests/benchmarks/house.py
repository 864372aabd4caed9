"""Measure how much code the package has, and how far requests walk through it.

    python -m tests.benchmarks.house [--json out.json] [--quick]

Tokens are those of Python's own tokenizer, without comments, docstrings, line ends and
indentation. A code line is a line with at least one such token. A function is any `def`.
A constant is an upper-case name that a module assigns.

Six requests are walked:

- `plain_turn`: an agent with the planner calls a tool and gives a complete answer;
- `search`: its answer is incomplete, and the planner explores another call;
- `search_with_experience`: the same search with the suggestions of three past runs;
- `observation_to_reflection`: a tool's refusal leads to a reflection;
- `run_to_store`: a turn of an agent with experience is recorded, judged and stored;
- `store_to_suggestion`: a new process opens a store of three runs and suggests tools.

A walk runs once unmeasured, so that imports and what is built once do not count. Then
`functions` counts the package's functions that were entered, `files` the files that
these stand in, and `changes` how often a function of another file was entered than the
one before. The stand-in for a model is left out.

The CPU seconds of `import langchain_tooltree` are those beyond `import langchain.agents`
(the median of five fresh processes). The size of an installation is compared with one of
`langchain` and `langgraph`, which takes minutes and the package registry; `--quick`
leaves it out.
"""

import argparse
import ast
import io
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import tokenize
import venv
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.store.memory import InMemoryStore

import langchain_tooltree
from langchain_tooltree import (
    CFGMMemory,
    CFGMMiddleware,
    Experience,
    ToolTreeMiddleware,
    Trajectory,
    create_tooltree_agent,
)
from langchain_tooltree.testing import ScriptedChatModel

PACKAGE = Path(langchain_tooltree.__file__).parent
BYTES_PER_MEGABYTE = 1_000_000
IMPORT_PROCESSES = 5
LAYOUT_TOKENS = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}

COMPLETE_ANSWER = '{"missing": "nothing"}\nRain.'
INCOMPLETE_ANSWER = '{"missing": "the weather in Oslo"}\nI do not know.'
QUESTION = "What is the weather in Oslo?"


@tool
def weather(city: str) -> str:
    """Return the weather in a city, now."""
    return f"It rains in {city}."


@tool
def open_door(name: str) -> str:
    """Open a door."""
    return f"Error: the door {name!r} is locked."


def weather_call(city: str) -> AIMessage:
    """Return the model's response that asks for the weather in a city."""
    tool_call = {"name": "weather", "args": {"city": city}, "id": city}
    return AIMessage("", tool_calls=[tool_call])


def ask_about_weather(agent: Any) -> None:
    """Ask an agent about the weather and check its answer."""
    state = agent.invoke({"messages": [HumanMessage(QUESTION)]})
    assert state["messages"][-1].text == "Rain."


def agent_turn(*responses: Any) -> Callable[[], None]:
    """Return a request to an agent with the planner. It can be made twice."""
    model = ScriptedChatModel(replies=[*responses, *responses])
    planner = ToolTreeMiddleware(effects={"weather": "read"})
    agent = create_agent(model, [weather], middleware=[planner])
    return lambda: ask_about_weather(agent)


def past_run(number: int) -> Trajectory:
    """Return a successful run that asked for the weather once."""
    return Trajectory.from_messages(
        [
            HumanMessage(f"{QUESTION} ({number})"),
            weather_call("Oslo"),
            weather.invoke({**weather_call("Oslo").tool_calls[0], "type": "tool_call"}),
            AIMessage("Rain."),
        ],
        success=True,
        id=f"run-{number}",
    )


def filled_store() -> InMemoryStore:
    """Return a store that holds three successful runs."""
    store = InMemoryStore()
    experience = Experience(store, namespace=("house",))
    for number in range(3):
        experience.learn(past_run(number))
    return store


def agent_turn_with_experience(*responses: Any) -> Callable[[], None]:
    """Return a request to an agent with the planner and experience."""
    model = ScriptedChatModel(replies=[*responses, *responses])
    experience = Experience(
        filled_store(),
        namespace=("house",),
        verdict=lambda _: True,
    )
    agent = create_tooltree_agent(
        model,
        [weather],
        effects={"weather": "read"},
        experience=experience,
    )
    return lambda: ask_about_weather(agent)


def recorded_turn() -> Callable[[], None]:
    """Return a request to a plain agent whose run is recorded, judged and stored."""
    model = ScriptedChatModel(replies=[weather_call("Oslo"), "Rain."] * 2)
    agent = create_agent(model, [weather])
    experience = Experience(
        InMemoryStore(),
        namespace=("house",),
        verdict=lambda _: True,
    )

    def request() -> None:
        state = agent.invoke(
            {"messages": [HumanMessage(QUESTION)]},
            {"callbacks": [experience.recorder]},
        )
        assert state["messages"][-1].text == "Rain."
        assert any(run.success for run in experience.store.trajectories())

    return request


def suggestion_from_store() -> Callable[[], None]:
    """Return a request that opens a store of three runs and suggests the first tool."""
    store = filled_store()

    def request() -> None:
        graph = Experience(store, namespace=("house",)).graph
        suggestions = graph.suggest(None, messages=[HumanMessage(QUESTION)])
        assert suggestions[0].tool == "weather"

    return request


def reflection() -> Callable[[], None]:
    """Return a request whose tool refuses, which leads to a reflection."""
    tool_call = {"name": "open_door", "args": {"name": "hall"}, "id": "1"}
    reflection_answer = {
        "key_information": {
            "objective": "Open it.",
            "initial_environment": "A hall.",
            "progress": "None.",
        },
        "questions": [{"question": "What is missing?", "answer": "The key."}],
        "next_step": "Take the key.",
    }
    reflector = ScriptedChatModel(replies=[reflection_answer] * 2)
    memory = CFGMMemory(reflector, InMemoryStore())
    middleware = CFGMMiddleware(reflector, memory, patience=0)
    responses = [AIMessage("", tool_calls=[tool_call]), "It is locked."]
    model = ScriptedChatModel(replies=responses * 2)
    agent = create_agent(model, [open_door], middleware=[middleware])

    def request() -> None:
        state = agent.invoke({"messages": [HumanMessage("Open the door.")]})
        assert "Take the key." in state["messages"][-2].text

    return request


def walk(request: Callable[[], None]) -> dict[str, int]:
    """Count the functions, files and changes of file of a request, on all threads."""
    request()  # imports modules, and builds what is built once
    entered: list[CodeType] = []
    stand_in = str(PACKAGE / "testing")

    def note_call(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code.co_name == "<module>":
            return
        is_ours = code.co_filename.startswith(str(PACKAGE))
        if is_ours and not code.co_filename.startswith(stand_in):
            entered.append(code)

    threading.setprofile(note_call)
    sys.setprofile(note_call)
    try:
        request()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    files = [code.co_filename for code in entered]
    # Comprehensions and lambdas have names such as `<listcomp>`.
    functions = {code for code in entered if not code.co_name.startswith("<")}
    return {
        "functions": len(functions),
        "files": len(set(files)),
        "changes": sum(before != after for before, after in pairwise(files)),
    }


WALKS: dict[str, Callable[[], Callable[[], None]]] = {
    "plain_turn": lambda: agent_turn(weather_call("Oslo"), COMPLETE_ANSWER),
    "search": lambda: agent_turn(
        weather_call("Bergen"),
        *[INCOMPLETE_ANSWER] * 3,
        weather_call("Oslo"),
        COMPLETE_ANSWER,
    ),
    "search_with_experience": lambda: agent_turn_with_experience(
        weather_call("Bergen"),
        *[INCOMPLETE_ANSWER] * 3,
        weather_call("Oslo"),
        COMPLETE_ANSWER,
    ),
    "observation_to_reflection": reflection,
    "run_to_store": recorded_turn,
    "store_to_suggestion": suggestion_from_store,
}


def count_code(paths: list[Path]) -> dict[str, Any]:
    """Count tokens, code lines, functions and constants of some files."""
    tokens = code_lines = functions = constants = 0
    for path in paths:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        docstring_lines = find_docstring_lines(tree)
        lines_with_code: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in LAYOUT_TOKENS or token.start[0] in docstring_lines:
                continue
            tokens += 1
            lines_with_code |= set(range(token.start[0], token.end[0] + 1))
        code_lines += len(lines_with_code)
        functions += sum(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(tree)
        )
        constants += count_constants(tree)
    return {
        "files": len(paths),
        "tokens": tokens,
        "code_lines": code_lines,
        "tokens_per_code_line": round(tokens / code_lines, 1),
        "functions": functions,
        "constants": constants,
    }


def find_docstring_lines(tree: ast.Module) -> set[int]:
    """Return the lines of all docstrings and other texts that stand alone."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        if isinstance(node.value.value, str):
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def count_constants(tree: ast.Module) -> int:
    """Count the upper-case names that a module assigns at its top level."""
    count = 0
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Assign):
            targets = list(node.targets)
        else:
            continue
        count += sum(
            isinstance(target, ast.Name) and target.id.isupper() for target in targets
        )
    return count


def count_by_subpackage() -> dict[str, dict[str, Any]]:
    """Count the code of each subpackage, of the top-level modules, and of all."""
    groups: dict[str, list[Path]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        groups.setdefault(parts[0] if len(parts) > 1 else "top level", []).append(path)
    counts = {name: count_code(paths) for name, paths in sorted(groups.items())}
    counts["all"] = count_code(sorted(PACKAGE.rglob("*.py")))
    return counts


def import_cpu_seconds(statement: str) -> float:
    """Return the CPU seconds of an import beyond those of `langchain.agents`."""
    code = (
        "import time, langchain.agents\n"
        "before = time.process_time()\n"
        f"{statement}\n"
        "print(time.process_time() - before)"
    )
    seconds = []
    for _ in range(IMPORT_PROCESSES):
        finished = subprocess.run(  # noqa: S603 - own code
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
        )
        seconds.append(float(finished.stdout))
    return round(statistics.median(seconds), 3)


def installed_megabytes_above_langchain() -> float:
    """Return the megabytes on disk that this package adds to langchain and langgraph."""
    sizes = []
    for wanted in (["langchain", "langgraph"], [str(PACKAGE.parent)]):
        with tempfile.TemporaryDirectory() as folder:
            venv.create(folder, with_pip=True)
            pip = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet"]
            subprocess.run([*pip, *wanted], check=True)  # noqa: S603 - own command
            files = [path for path in Path(folder).rglob("*") if path.is_file()]
            sizes.append(sum(path.lstat().st_size for path in files))
    return round((sizes[1] - sizes[0]) / BYTES_PER_MEGABYTE, 1)


def print_rows(rows: dict[str, dict[str, Any]]) -> None:
    """Print a table whose columns are the keys of its rows."""
    columns = list(next(iter(rows.values())))
    print(f"{'':28}" + "".join(f"{column:>22}" for column in columns))
    for name, row in rows.items():
        print(f"{name:28}" + "".join(f"{row[column]:>22}" for column in columns))
    print()


def main() -> None:
    """Measure, print tables, and write JSON where wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="leave out the size of an installation",
    )
    arguments = parser.parse_args()

    code = count_by_subpackage()
    print_rows(code)
    walks = {name: walk(prepare()) for name, prepare in WALKS.items()}
    print_rows(walks)
    costs: dict[str, float | None] = {
        "import_cpu_s": import_cpu_seconds("import langchain_tooltree"),
        "import_agent_cpu_s": import_cpu_seconds(
            "from langchain_tooltree import create_tooltree_agent"
        ),
        "install_mb_over_langchain": None
        if arguments.quick
        else installed_megabytes_above_langchain(),
    }
    for name, figure in costs.items():
        print(f"{name:28}{figure}")

    if arguments.json:
        figures = {"code": code, "walks": walks, **costs}
        arguments.json.write_text(
            json.dumps(figures, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
