"""The README keeps its promises: its code runs and its picture is what the demo draws."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import Experience, Trajectory, cli, demo, dump_trajectories, search, testing
from langchain_tooltree.testing import ScriptedChatModel

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PLAN = ["read_sign", "zoom", "read_sign", "convert_units"]
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
OF_THEIR_OWN = ("Command(resume", "quarantine=", "experience.forget")
ORDINARY = [block for block in BLOCKS if not any(words in block for words in OF_THEIR_OWN)]


def followed(words, **names):
    """What there is once somebody has followed the one block of the README with these words."""
    [block] = [each for each in BLOCKS if words in each]
    code = block.replace('{"search_flights": "read"}', "effects").replace('"openai:gpt-4.1-mini"', "verdict")
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own README
    return names


def test_the_picture_in_the_readme_is_the_demo_s_tree():
    drawn = re.search(r"<!-- picture: demo -->\n```mermaid\n(.*?)\n```", README, re.DOTALL)
    result = search(demo.REQUEST, demo.TOOLS, model=demo.offline_model(), effects=demo.EFFECTS)
    assert drawn is not None
    assert drawn.group(1) == result.to_mermaid()


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
@pytest.mark.parametrize("block", ORDINARY, ids=range(len(ORDINARY)))
def test_the_code_in_the_readme_runs(block):
    judged = "verdict" if "Experience(" in block else "model"
    code = block.replace('"openai:gpt-4.1-mini"', judged)
    code = code.replace('{"search_flights": "read"}', "EFFECTS").replace('{"search_flights": "read",', "{**EFFECTS,")
    code = code.replace('"search_flights"', '"read_sign"')
    names = {
        "EFFECTS": demo.EFFECTS,
        "checkpointer": InMemorySaver(),
        "verdict": ScriptedChatModel(replies=[{"reasons": "It was found.", "verdict": "success"}] * 9),
        "evaluate": lambda task, result: task in result["messages"][0].text,
        "model": demo.offline_model(),
        "tools": demo.TOOLS,
    }
    if "memory.collect" in block:
        names["agent"] = create_agent(names["model"], demo.TOOLS, checkpointer=InMemorySaver())
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own README
    if "agent" in names:
        thread = {"configurable": {"thread_id": "1", "user_id": "ada"}}
        messages = names["agent"].invoke({"messages": [("user", demo.REQUEST)]}, thread)["messages"]
        made = [message.name for message in messages if message.type == "tool"]
        planned = any(planner in block for planner in ("create_tooltree_agent", "ToolTreeMiddleware", "ToolTreeNode"))
        assert made == (PLAN if planned else []), "the stand-in makes no call unless it is planned"
        assert messages[-1].text
    if "memory" in names:
        with names["memory"].experience._store:
            kept = [run.task for run in names["memory"].experience.trajectories(config=thread)]
        assert kept == (["Book a flight to Oslo.", "Cancel it."] if "report" in names else [demo.REQUEST])
    if "report" in names:
        assert (names["report"].successes, names["report"].attempts) == (2, 2)
    if "graph" in names and "SITGraph" in block:
        assert [each.tool for each in names["graph"].suggest(None)] == ["read_sign"]
    if "Policy" in names:
        found = search("Read the sign.", demo.TOOLS, model=names["model"], effects=demo.EFFECTS)
        assert "343 km" in found.answer.text
    if "judge" in names:
        assert names["result"].stop_reason in {"solved", "converged"}
        assert names["result"].answer.text.startswith("It is about 213 miles ")


def test_the_approval_in_the_readme_lets_the_plan_run():
    effects = {name: "read" for name in demo.EFFECTS if name != PLAN[-1]}
    model = demo.offline_model()
    made = followed("Command(resume", model=model, tools=demo.TOOLS, effects=effects, checkpointer=InMemorySaver())
    assert f"{PLAN[-1]}(" in made["question"].value["action_requests"][0]["description"]
    assert [each.name for each in made["state"]["messages"] if each.type == "tool"] == PLAN


def test_what_the_readme_takes_back_waits_again(capsys):
    store, run = InMemoryStore(), Trajectory.from_messages(PAST_RUN).coming_from("ada")
    options = {"verdict": lambda run: True, "namespace": ("tooltree",)}
    Experience(store, **options, quarantine=True).learn(run)
    made = followed("quarantine=", store=store, verdict=options["verdict"])
    assert capsys.readouterr().out == f"{[run.id]}\n"
    assert made["experience"].status().quarantined == 1


def test_what_the_readme_forgets_is_gone(capsys):
    experience = Experience(InMemoryStore())
    ada = experience.within(user_id="ada")
    ada.learn(Trajectory.from_messages(PAST_RUN, success=True))
    made = followed("experience.forget", experience=experience)
    assert len(made["erased"].runs) == 1
    assert "delete_thread" in capsys.readouterr().out
    assert ada.status().runs == 0


@pytest.mark.slow
def test_the_copy_in_the_readme_copies(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    experience = Experience("experience/")
    experience.within(user_id="ada").learn(Trajectory.from_messages(PAST_RUN, success=True))
    experience.store._store.close()
    [command] = re.findall("^langchain-tooltree (copy .*)$", README, re.MULTILINE)
    assert cli.main(command.replace("postgresql://localhost/agents", "agents/").split()) == 0
    assert "1 runs copied" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_what_the_readme_says_of_experience_holds():
    [block] = [each for each in ORDINARY if "Experience(" in each]
    assert len(block.strip().splitlines()) <= 10
    judge = ScriptedChatModel(replies=[{"reasons": "It was found.", "verdict": "success"}] * 9)
    names = {"tools": demo.TOOLS, "model": demo.offline_model(), "judge": judge, "EFFECTS": demo.EFFECTS}
    code = block.replace('"openai:gpt-4.1-mini"', "judge").replace('{"search_flights": "read"}', "EFFECTS")
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own README
    ada = names["experience"].within(user_id="ada")
    [first] = ada.store.trajectories()
    assert (first.task, first.success) == ("Which flight to Oslo is cheapest?", True)
    assert ada.graph.suggest(None)[0].tool == "read_sign"

    asked = {"messages": [("user", first.task)]}
    names["agent"].invoke(asked, {"configurable": {"user_id": "ada"}})
    names["agent"].invoke(asked, {"configurable": {"user_id": "bob"}})

    status = ada.settle()
    assert (status.runs, status.successes, status.in_graph) == (2, 2, 2)
    [second] = [run for run in ada.store.trajectories() if run.id != first.id]
    assert second.metadata["recalled"]["runs"] == [first.id]
    [bobs] = names["experience"].within(user_id="bob").store.trajectories()
    assert bobs.metadata["recalled"]["runs"] == []
    ada.label(first.id, False, "It was the wrong sign.")
    assert ada.status().agreement.share == 0
    ada.forget(run=second.id)
    assert (ada.status().runs, len(ada.graph)) == (1, 0)
    names["experience"].within(user_id="bob").settle()
    names["experience"].store._store.close()


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


def test_the_readme_names_only_what_exists():
    for name in ("ScriptedChatModel", "OfflineChatModel"):
        assert hasattr(testing, name)
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
