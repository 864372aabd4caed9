"""The README keeps its promises: its code runs, its figures are measured, its links lead somewhere, on PyPI, too."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import Trajectory, demo, dump_trajectories, search
from langchain_tooltree.testing import ScriptedChatModel

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
PLAN = ["read_sign", "zoom", "read_sign", "convert_units"]
MOST_CHARACTERS = 8_000
"""As much as somebody reads before deciding."""


def test_the_readme_is_short():
    assert len(README) <= MOST_CHARACTERS


def test_the_picture_in_the_readme_is_the_demo_s_tree():
    result = search(demo.REQUEST, demo.TOOLS, model=demo.offline_model(), effects=demo.EFFECTS)
    assert (ROOT / "cookbook" / "docs" / "images" / "demo.svg").read_text().strip() == result.to_svg().strip()


PAST_RUN = [
    HumanMessage("What does the sign say?"),
    AIMessage("", tool_calls=[{"name": "read_sign", "args": {"photo": "road.png"}, "id": "1"}]),
    ToolMessage("343 km", tool_call_id="1"),
    AIMessage("343 km."),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder of someone who follows the README: past runs lie in it."""
    monkeypatch.chdir(tmp_path)
    dump_trajectories([Trajectory.from_messages(PAST_RUN, success=True)], "runs.jsonl.gz")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_code_in_the_readme_runs(block, capsys):
    code = block.replace('"openai:gpt-4.1-mini"', "verdict").replace('{"search_flights": "read"}', "EFFECTS")
    names = {
        "EFFECTS": demo.EFFECTS,
        "checkpointer": InMemorySaver(),
        "verdict": ScriptedChatModel(replies=[{"reasons": "It was found.", "verdict": "success"}] * 9),
        "model": demo.offline_model(),
        "store": InMemoryStore(),
        "tools": demo.TOOLS,
    }
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own README
    if "agent" in names:
        thread = {"configurable": {"thread_id": "1", "user_id": "ada"}}
        messages = names["agent"].invoke({"messages": [("user", demo.REQUEST)]}, thread)["messages"]
        made = [message.name for message in messages if message.type == "tool"]
        assert made == (PLAN if "create_tooltree_agent" in block else []), "the stand-in calls nothing unless planned"
        assert messages[-1].text
    if "memory" in names:
        assert [run.task for run in names["memory"].experience.trajectories(config=thread)] == [demo.REQUEST]
    if "graph" in names:
        assert [each.tool for each in names["graph"].suggest(None)] == ["read_sign"]
    if "result" in names:
        assert names["result"].answer.text in capsys.readouterr().out
    if "experience" in names:
        ada = names["experience"].within(user_id="ada")
        ada.settle()
        tasks = {run.task for run in ada.store.trajectories(success=True)}
        assert tasks == {demo.REQUEST, "Which flight to Oslo is cheapest?"}
        assert names["experience"].within(user_id="bob").status().runs == 0


ROWS = {"hello": "hello", "weather": "weather", "sql": "SQL", "retrieval": "RAG", "chain_5": "chain of five calls"}
"""Tasks of the price benchmark, by what the README calls them."""


@pytest.mark.slow
@pytest.mark.parametrize("task", ROWS)
def test_what_a_search_costs_is_measured(task):
    price, tasks = import_module("tests.benchmarks.price.__main__"), import_module("tests.benchmarks.price.tasks")
    costs = [price.measure(tasks.tasks()[task], planner) for planner in ("plain", "balanced", "paper")]
    row = " | ".join(f"{each.calls} / {each.tokens:,}" for each in costs)
    assert f"| {ROWS[task]} | {row} |" in README


GIVEN = """
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore

from langchain_tooltree import Experience

model: BaseChatModel
tools: list[BaseTool]
checkpointer: BaseCheckpointSaver[Any]
store: BaseStore
evaluate: Callable[[Any, Any], bool]
"""
"""What someone who follows the README has already."""

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


@pytest.mark.slow
def test_the_code_in_the_readme_is_typed_strictly(tmp_path):
    pytest.importorskip("mypy", reason="[types] is not installed")
    for number, block in enumerate([*BLOCKS, EFFECTS_OF_ONES_OWN]):
        has_agent = re.search("^agent = ", block, re.MULTILINE)
        given = GIVEN if has_agent else f"{GIVEN}agent: CompiledStateGraph[Any, Any, Any, Any]\n"
        given += "" if re.search("^experience = ", block, re.MULTILINE) else "experience: Experience\n"
        (tmp_path / f"block_{number}.py").write_text(given + block)
    done = subprocess.run(  # noqa: S603 - own code
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", *sorted(tmp_path.glob("*.py"))],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,  # where its cache is
    )
    assert done.returncode == 0, done.stdout + done.stderr


LINK = re.compile(r"\]\((?!https:)([^)#]+)")


def test_links_of_the_readme_lead_somewhere():
    links = LINK.findall(README)
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_on_pypi_the_links_lead_to_the_home_of_the_project():
    shown = README
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for each in hook["substitutions"]:
        shown = re.sub(each["pattern"], each["replacement"], shown)
    assert LINK.findall(shown) == []
    urls = PROJECT["project"]["urls"]
    raw = urls["Source"].replace("github.com", "raw.githubusercontent.com")
    for address in (
        f"{raw}/main/cookbook/docs/images/demo.svg",
        f"{urls['Source']}/blob/main/.github/SECURITY.md",
        f"{urls['Documentation']}migrate/create-agent",
        urls["Documentation"],
    ):
        assert f"]({address})" in shown
