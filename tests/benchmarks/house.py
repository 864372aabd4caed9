"""The house in figures: how much there is to read, how far a request walks, and what the door costs.

    python -m tests.benchmarks.house --json out.json [--quick]

Files, lines, code, median and longest file are counted in the package. Four requests are traced: a plain turn of an
agent, whose answer leaves nothing open; a search in the loop, which asks for other calls and tries one; a deep search
with one tool call; and a tool's refusal that ends in a reflection. `files` counts the package's files that run a
function on the way, `changes` how often a function of another file is entered than the one before; the stand-in for a
model is left out, as a real one stands elsewhere. Imports are warm: what a module does when it is first loaded is no
part of the way. The CPU seconds of `import langchain_tooltree` are those beyond `import langchain.agents`, the median
of five fresh processes each. Two environments are made, one with `langchain` and `langgraph` and one with this package,
and the difference of their sizes is given; that takes minutes and the package registry, and `--quick` leaves it out.
"""

import argparse
import ast
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
from types import FrameType
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.store.memory import InMemoryStore

import langchain_tooltree
from cookbook.offline_model import Made, OfflineChatModel, Question
from langchain_tooltree import CFGMMemory, CFGMMiddleware, SearchConfig, ToolTreeMiddleware, search
from langchain_tooltree.testing import ScriptedChatModel

PACKAGE = Path(langchain_tooltree.__file__).parent
MEGABYTE = 1_000_000
PROCESSES = 5


@tool
def weather(city: str) -> str:
    """The weather in a city, now."""
    return f"It rains in {city}."


class Certain:
    """A model that knows the one call to make, and that it was enough."""

    def propose(self, question: Question) -> list[tuple[str, dict[str, Any]]]:
        """The call, once."""
        return [] if question.path else [("weather", {"city": "Oslo"})]

    def score_call(self, question: Question, call: Made) -> float:
        """Sure."""
        return 0.95

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """Useful, and all that was asked for."""
        return 0.95, 1.0

    def answer(self, question: Question) -> str:
        """What was found."""
        return "Rain."


def called(city: str) -> AIMessage:
    """The reply that asks for the weather in a city."""
    return AIMessage("", tool_calls=[{"name": "weather", "args": {"city": city}, "id": city}])


def turn(*replies: Any) -> Callable[[], None]:
    """Two turns of an agent with the planner in it, one a call."""
    model = ScriptedChatModel(replies=[*replies, *replies])
    agent = create_agent(model, [weather], middleware=[ToolTreeMiddleware(effects={"weather": "read"})])

    def run() -> None:
        messages = agent.invoke({"messages": [HumanMessage("What is the weather in Oslo?")]})["messages"]
        assert messages[-1].text == "Rain."

    return run


RIGHT = '{"missing": "nothing"}\nRain.'
DOUBTFUL = '{"missing": "the weather in Oslo"}\nI do not know.'


def deep_search() -> None:
    """A deep search that makes one tool call and answers."""
    config = SearchConfig(selection="posterior")
    model = OfflineChatModel(policy=Certain())
    result = search("What is the weather in Oslo?", [weather], model=model, config=config, effects={"weather": "read"})
    assert result.answer is not None
    assert result.answer.text == "Rain."
    assert result.cost.tool_calls == 1


@tool
def open_door(name: str) -> str:
    """Open a door."""
    return f"Error: the door {name!r} is locked."


def reflection() -> Callable[[], None]:
    """Two turns of an agent with memory whose tool refuses, one a call: recall, refusal, reflection, answer, record."""
    called = AIMessage("", tool_calls=[{"name": "open_door", "args": {"name": "hall"}, "id": "1"}])
    reply = {
        "key_information": {"objective": "Open it.", "initial_environment": "A hall.", "progress": "None."},
        "questions": [{"question": "What is missing?", "answer": "The key."}],
        "next_step": "Take the key.",
    }
    reflector = ScriptedChatModel(replies=[reply, reply])
    middleware = CFGMMiddleware(reflector, CFGMMemory(reflector, InMemoryStore()), patience=0)
    model = ScriptedChatModel(replies=[called, "It is locked."] * 2)
    agent = create_agent(model, [open_door], middleware=[middleware])

    def run() -> None:
        state = agent.invoke({"messages": [HumanMessage("Open the door.")]})
        assert "Take the key." in state["messages"][-2].text

    return run


def walk(request: Callable[[], None]) -> dict[str, int]:
    """How many files a request enters, and how often it changes from one to another, on all threads."""
    request()  # what is made once is made now
    way: list[str] = []
    root = str(PACKAGE)
    stand_in = str(PACKAGE / "testing")

    def profile(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if (
            event == "call"
            and file.startswith(root)
            and not file.startswith(stand_in)
            and frame.f_code.co_name != "<module>"
        ):
            way.append(file)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        request()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return {"files": len(set(way)), "changes": sum(here != there for here, there in pairwise(way))}


def size() -> dict[str, int]:
    """What there is to read."""
    files = sorted(PACKAGE.rglob("*.py"))
    tooltree = sorted((PACKAGE / "tooltree").rglob("*.py"))
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in files]
    return {
        "files": len(files),
        "lines": sum(lines),
        "tooltree_lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tooltree),
        "code": sum(map(code_lines, files)),
        "median": int(statistics.median(lines)),
        "longest": max(lines),
    }


def code_lines(path: Path) -> int:
    """Lines that are neither empty nor comment nor docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    code: set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in silent and token.type != tokenize.ENCODING:
                code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - told)


def cpu_s(statement: str) -> float:
    """CPU seconds of an import, beyond those of `langchain.agents`."""
    code = (
        f"import time, langchain.agents\nbefore = time.process_time()\n{statement}\nprint(time.process_time() - before)"
    )
    told = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - own code
        for _ in range(PROCESSES)
    )
    return round(statistics.median(float(each.stdout) for each in told), 3)


def install_mb_over_langchain() -> float:
    """Megabytes on disk that `pip install .` adds to `langchain` and `langgraph`."""
    sizes = []
    for wanted in (["langchain", "langgraph"], [str(PACKAGE.parent)]):
        with tempfile.TemporaryDirectory() as folder:
            venv.create(folder, with_pip=True)
            install = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", *wanted]
            subprocess.run(install, check=True)  # noqa: S603 - own command
            sizes.append(sum(path.lstat().st_size for path in Path(folder).rglob("*") if path.is_file()))
    return round((sizes[1] - sizes[0]) / MEGABYTE, 1)


def main() -> None:
    """Measure, print a table, and write JSON where wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--quick", action="store_true", help="leave out the size of an installation")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {
        **size(),
        "plain_turn": walk(turn(called("Oslo"), RIGHT)),
        "search": walk(turn(called("Bergen"), *[DOUBTFUL] * 3, called("Oslo"), RIGHT)),
        "deep_search": walk(deep_search),
        "reflection": walk(reflection()),
        "import_cpu_s": cpu_s("import langchain_tooltree"),
        "import_agent_cpu_s": cpu_s("from langchain_tooltree import create_tooltree_agent"),
        "install_mb_over_langchain": None if arguments.quick else install_mb_over_langchain(),
    }
    for name, figure in figures.items():
        print(f"{name:28}{figure}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
