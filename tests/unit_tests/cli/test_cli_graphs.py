"""The commands of the command line that are about graphs."""

import json
import sys

import pytest

from langchain_tooltree import SITGraph, Trajectory, dump_trajectories
from langchain_tooltree.cli import REFUSED, main


def run_of(number, *tools, success=True):
    messages = [{"role": "user", "content": f"Please do job {number}."}]
    for place, tool in enumerate(tools):
        call = {"id": f"c{place}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{place}", "content": f"{tool} is done"})
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    known = [{"type": "function", "function": {"name": tool, "parameters": schema}} for tool in dict.fromkeys(tools)]
    return Trajectory.from_chat(messages, id=f"run {number}", success=success, metadata={"tools": known})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, whose modules are imported for one test only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def runs(folder, monkeypatch):
    """A file of three runs, one of which failed, in the current folder."""
    monkeypatch.setenv("COLUMNS", "160")
    every = [run_of(1, "look", "book", "pay"), run_of(2, "look", "book"), run_of(3, "look", "cry", success=False)]
    dump_trajectories(every, folder / "runs.jsonl.gz")
    return "runs.jsonl.gz"


@pytest.fixture
def graph(runs, capsys):
    """The folder of a graph of those runs."""
    assert main(["mine", runs, "-o", "graph"]) == 0
    capsys.readouterr()
    return "graph"


def test_mining_tells_what_was_found_and_writes_a_graph(runs, capsys):
    assert main(["mine", runs, runs, "-o", "deep/graph"]) == 0
    shown = capsys.readouterr().out
    assert "4 of 6 runs succeeded, 2 of them with tools" in shown
    assert "3 tools and 3 edges" in shown
    assert len(SITGraph.load("deep/graph")) == 2


def test_mining_runs_of_which_none_succeeded_is_refused_and_writes_nothing(tmp_path, capsys):
    file = tmp_path / "failed.jsonl"
    dump_trajectories([run_of(1, "look", success=False), run_of(2, "look", success=None)], file)
    assert main(["mine", str(file), "-o", str(tmp_path / "graph")]) == REFUSED
    assert "None of 2 runs" in capsys.readouterr().err
    assert not (tmp_path / "graph").exists()


def test_a_damaged_graph_is_told_in_one_line(graph, tmp_path, capsys):
    file = tmp_path / graph / "graph.jsonl"
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    assert main(["view", graph]) == REFUSED
    assert file.name in capsys.readouterr().err


def test_mining_tells_what_it_could_not_use(tmp_path, capsys):
    run = {"success": True, "messages": [{"role": "tool", "content": "Whose?"}, *run_of(1, "look").messages]}
    (tmp_path / "runs.json").write_text(json.dumps(run))
    assert main(["mine", str(tmp_path / "runs.json"), "-o", str(tmp_path / "graph")]) == 0
    told = capsys.readouterr()
    assert "Not used: 1 observations without a call." in told.out
    assert told.err == ""
