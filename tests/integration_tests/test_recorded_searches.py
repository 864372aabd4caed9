"""Agents, nodes and searches leave a file of each search in a folder, and none fails where that cannot be done."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from travel import EFFECTS, PRICE, Agency, travel_model

from langchain_tooltree import (
    SearchConfig,
    ToolTreeNode,
    asearch,
    create_tooltree_agent,
    search,
)
from langchain_tooltree.cli import main

ASKED: Any = {"messages": [("user", PRICE)]}
SLOW = """
import sys, time
sys.path[:0] = {path!r}
from travel import EFFECTS, PRICE, Agency, travel_model
from langchain_tooltree import SearchConfig, search
DEEP = SearchConfig(selection="smoothed")
while True:
    given = dict(model=travel_model(), effects=EFFECTS, config=DEEP)
    search(PRICE, Agency(latency=0.05).tools, record_searches={folder!r}, **given)
"""


DEEP = SearchConfig(selection="smoothed")


def recorded(folder: Path) -> list[dict[str, Any]]:
    """The searches of a folder, in their order."""
    return [
        json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.iterdir())
    ]


async def test_the_file_of_a_search_holds_its_result(path: str, tmp_path: Path) -> None:
    given: Any = {
        "model": travel_model(),
        "effects": EFFECTS,
        "config": DEEP,
        "record_searches": tmp_path,
    }
    tools = Agency().tools
    run = (
        search(PRICE, tools, **given)
        if path == "sync"
        else await asearch(PRICE, tools, **given)
    )
    (data,) = recorded(tmp_path)
    assert run.answer is not None
    assert data["answer"] == run.answer.text
    assert {name: data[name] for name in run.to_dict()} == json.loads(
        json.dumps(run.to_dict())
    )


async def test_agents_and_nodes_record_with_the_thread(
    path: str, tmp_path: Path
) -> None:
    agency, folder = Agency(), tmp_path / "new" / "folder"
    given: Any = {
        "effects": EFFECTS,
        "config": DEEP,
        "record_searches": str(folder),
        "system_prompt": "Hello.",
    }
    agent = create_tooltree_agent(
        travel_model(), agency.tools, checkpointer=InMemorySaver(), **given
    )
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(travel_model(), agency.tools, **given))
    graph.add_edge(START, "model")
    threads = ["../../zoe@example.org\n<b>", "0b9f1f8e-6a52-4f0b-9a54-0c6e5c2f7d11"]
    for each, thread in zip(
        (agent, graph.compile(InMemorySaver())), threads, strict=True
    ):
        config = {"configurable": {"thread_id": thread}}
        await each.ainvoke(ASKED, config) if path == "async" else each.invoke(
            ASKED, config
        )
    assert [data["recorded"]["thread"] for data in recorded(folder)] == threads
    assert [file for file in folder.iterdir() if "zoe" in file.name] == [], (
        "no digest has these letters by chance"
    )


def test_a_kill_leaves_files_that_can_be_read(tmp_path: Path) -> None:
    program = SLOW.format(
        path=[str(Path(__file__).parent), str(Path(__file__).parents[2])],
        folder=str(tmp_path),
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:  # noqa: S603 - our own program
        while not list(tmp_path.glob("*.json")):
            assert process.poll() is None
            time.sleep(0.005)
        time.sleep(0.1)
        os.kill(process.pid, signal.SIGKILL)
    for file in tmp_path.glob("*.json"):
        page = file.with_suffix(".html")
        assert main(["view", str(file), "-o", str(page)]) == 0
        assert PRICE in page.read_text(encoding="utf-8")
