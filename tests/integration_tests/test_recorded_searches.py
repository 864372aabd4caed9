"""Searches are recorded in a folder while agents run: whole files, one a search, that break no agent."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from travel import EFFECTS, PRICE, Agency, TravelPolicy, travel_model

from langchain_tooltree import ConfigurationError, ToolTreeNode, asearch, create_tooltree_agent, demo, search
from langchain_tooltree.cli import main
from langchain_tooltree.testing import OfflineChatModel
from tests.internals.tooltree import saved_module as saved

NAME = re.compile(r"\d{8}T\d{9}Z-([0-9a-f]{8}-|[0-9a-f-]{36}-)?[0-9a-f]{8}\.json")
UUID = "0b9f1f8e-6a52-4f0b-9a54-0c6e5c2f7d11"
ASKED: Any = {"messages": [("user", PRICE)]}
SLOW = """
import sys, threading, time
sys.path[:0] = {path!r}
from travel import EFFECTS, PRICE, Agency, travel_model
from langchain_tooltree import search
from tests.internals.tooltree import saved_module
saved_module.PAUSE = 0.0
saved_module.SHARE = 1e9
search(PRICE, Agency(latency=0.05).tools, model=travel_model(), effects=EFFECTS, record_searches={folder!r})
time.sleep(60)
"""


def recorded(folder: Path) -> list[dict[str, Any]]:
    """The searches of a folder, in their order."""
    files = sorted(folder.iterdir())
    assert all(NAME.fullmatch(file.name) for file in files)
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def within(found: dict[str, Any]) -> dict[str, Any]:
    """A recorded search without what says when and by whom."""
    return {name: value for name, value in found.items() if name not in {"version", "answer", "recorded"}}


class TellTale(TravelPolicy):
    """Looks into the folder each time that it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seen = folder, list[dict[str, Any]]()

    def propose(self, question: Any) -> Any:
        """What the agency proposes."""
        self.seen += recorded(self.folder)
        return super().propose(question)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change is written at once."""
    monkeypatch.setattr(saved, "PAUSE", 0.0)
    monkeypatch.setattr(saved, "SHARE", 1e9)


async def test_a_search_is_in_its_file_while_it_runs_and_as_its_result_in_the_end(
    path: str, tmp_path: Path, unhurried: None, agency: Agency
) -> None:
    policy = TellTale(tmp_path)
    given: Any = {"model": OfflineChatModel(policy=policy), "effects": EFFECTS, "record_searches": tmp_path}
    run = search(PRICE, agency.tools, **given) if path == "sync" else await asearch(PRICE, agency.tools, **given)
    (found,) = recorded(tmp_path)
    assert within(found) == json.loads(json.dumps(run.to_dict()))
    assert run.answer is not None
    assert found["answer"] == run.answer.text
    assert {each["stop_reason"] for each in policy.seen} == {saved.SEARCHING}
    assert [len(each["nodes"]) for each in policy.seen] == sorted(len(each["nodes"]) for each in policy.seen)
    assert 1 < len(policy.seen[-1]["nodes"]) <= len(found["nodes"])


async def test_agents_record_each_search_under_time_and_thread(path: str, tmp_path: Path) -> None:
    agency = Agency()
    given: Any = {"effects": EFFECTS, "record_searches": str(tmp_path / "new" / "folder"), "system_prompt": "Hello."}
    agent = create_tooltree_agent(travel_model(), agency.tools, checkpointer=InMemorySaver(), **given)
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(travel_model(), agency.tools, **given))
    graph.add_edge(START, "model")
    threads = ["../../ada@example.org\n<b>", UUID]
    for each, thread in zip((agent, graph.compile(InMemorySaver())), threads, strict=True):
        config = {"configurable": {"thread_id": thread}}
        await each.ainvoke(ASKED, config) if path == "async" else each.invoke(ASKED, config)
    first, second = recorded(tmp_path / "new" / "folder")
    assert [first["recorded"]["thread"], second["recorded"]["thread"]] == threads
    assert first["answer"] == second["answer"] == "All is done for you and it says OS-1 costs 90"
    names = sorted(file.name for file in (tmp_path / "new" / "folder").iterdir())
    assert UUID in names[1]
    assert "ada" not in names[0]
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "new" / "folder").iterdir()} == {0o600}


def test_a_resumed_search_goes_on_in_its_file(tmp_path: Path, agency: Agency, unhurried: None) -> None:
    class PowerCut(BaseException):
        pass

    class Failing(TravelPolicy):
        left = 1

        def propose(self, question: Any) -> Any:
            if self.left and question.path:
                self.left -= 1
                raise PowerCut
            return super().propose(question)

    given: Any = {"effects": EFFECTS, "record_searches": tmp_path}
    model = OfflineChatModel(policy=Failing())
    agent = create_tooltree_agent(model, agency.tools, checkpointer=InMemorySaver(), **given)
    with pytest.raises(PowerCut):
        agent.invoke(ASKED, {"configurable": {"thread_id": "1"}})
    (cut,) = recorded(tmp_path)
    assert cut["stop_reason"] == saved.SEARCHING
    agent.invoke(None, {"configurable": {"thread_id": "1"}})
    (whole,) = recorded(tmp_path)
    assert whole["recorded"] == cut["recorded"]
    assert whole["stop_reason"] == "solved"
    assert whole["answer"]


def test_a_kill_leaves_a_file_that_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = SLOW.format(path=[str(Path(__file__).parent), str(Path(__file__).parents[2])], folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", program]) as process:  # noqa: S603 - our own program
        while not list(tmp_path.glob("*.json")):
            assert process.poll() is None
            time.sleep(0.005)
        time.sleep(0.1)
        os.kill(process.pid, signal.SIGKILL)
    (file,) = tmp_path.glob("*.json")
    assert main(["show", str(file)]) == 0
    assert PRICE in capsys.readouterr().out


async def test_a_folder_that_cannot_be_written_is_told_of_once(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    agent = create_tooltree_agent(
        travel_model(), Agency().tools, effects=EFFECTS, record_searches=tmp_path / "file" / "folder"
    )
    for _ in range(3):
        out = agent.invoke(ASKED) if path == "sync" else await agent.ainvoke(ASKED)
        assert out["messages"][-1].text == "All is done for you and it says OS-1 costs 90"
    assert [record.message.partition(": ")[0] for record in caplog.records] == [
        f"Searches cannot be recorded in {tmp_path / 'file' / 'folder'}"
    ]


def test_the_latest_searches_are_kept_and_no_file_of_others_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved, "KEPT_FILES", 2)
    (tmp_path / "20200101.json").write_text("mine")
    left_over = tmp_path / ".20200101T000000000Z-01234567.json.abc_1234"
    left_over.write_text("half a sear")
    for _ in range(4):
        demo.solved(record_searches=tmp_path)
        time.sleep(0.002)
    assert len(list(tmp_path.iterdir())) == 3
    assert (tmp_path / "20200101.json").read_text() == "mine"
    assert not left_over.exists()


@pytest.mark.parametrize("folder", [3, ["searches"], True])
def test_what_is_no_folder_is_refused_at_once(folder: Any) -> None:
    with pytest.raises(ConfigurationError, match="record_searches must be the path of a folder"):
        create_tooltree_agent(travel_model(), Agency().tools, effects=EFFECTS, record_searches=folder)
