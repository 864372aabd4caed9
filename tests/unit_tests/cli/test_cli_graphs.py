"""The commands of the command line that are about graphs."""

import json
import sys
from dataclasses import replace

import pytest

from langchain_tooltree import (
    SITGraph,
    Trajectory,
    abackfill_summaries,
    backfill_summaries,
    dump_trajectories,
    load_trajectories,
)
from langchain_tooltree.cli import main
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import REFUSED, UNHEALTHY, Meter


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
def runs(tmp_path, monkeypatch):
    """A file of three runs, one of which failed, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    every = [run_of(1, "look", "book", "pay"), run_of(2, "look", "book"), run_of(3, "look", "cry", success=False)]
    dump_trajectories(every, tmp_path / "runs.jsonl.gz")
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


@pytest.mark.parametrize("content", ["{]", "[]", '{"messages": 3}', '{"messages": [{"content": "no role"}]}'])
def test_a_line_that_cannot_be_read_is_named(content, tmp_path, capsys):
    file = tmp_path / "bad.jsonl"
    file.write_text(json.dumps({"messages": []}) + "\n" + content + "\n")
    assert main(["mine", str(file), "-o", str(tmp_path / "graph")]) == REFUSED
    assert "bad.jsonl, line 2" in capsys.readouterr().err


def test_suggestions_go_by_weight_and_with_a_summary_by_state(graph, capsys):
    assert main(["suggest", graph, "--last", "look"]) == 0
    assert "procedural" in capsys.readouterr().out
    assert main(["suggest", graph, "--last", "look", "--state", "job 2 is wanted"]) == 0
    shown = capsys.readouterr().out
    assert "episodic" in shown
    assert "book" in shown


def test_suggesting_begins_at_the_start_and_says_when_nothing_is_known(graph, capsys):
    assert main(["suggest", graph]) == 0
    assert "look" in capsys.readouterr().out
    assert main(["suggest", graph, "--last", "[pay]"]) == 0
    assert "Nothing is known to come after [pay]" in capsys.readouterr().out


def test_a_graph_is_shown_as_a_table_and_as_a_chart(graph, capsys):
    assert main(["show", graph]) == 0
    table = capsys.readouterr().out
    assert "(start)" in table
    assert "2 runs, 3 edges" in table
    assert main(["show", graph, "--mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart LR\n")


def test_the_doctor_finds_nothing_wrong_with_the_same_tools(graph, tmp_path, capsys):
    (tmp_path / "agent_as_it_was.py").write_text("tools = ['look', 'book', 'pay', 'sing']\n")
    assert main(["doctor", graph, "--tools", "agent_as_it_was:tools"]) == 0
    shown = capsys.readouterr().out
    assert "files are as they were written" in shown
    assert "New, not yet known to the graph: sing" in shown


def test_the_doctor_tells_removed_renamed_and_changed_tools(graph, tmp_path, capsys):
    (tmp_path / "agent_as_it_is.py").write_text(
        "same = {'type': 'object', 'properties': {'n': {'type': 'integer'}}}\n"
        "other = {'type': 'object', 'properties': {'m': {'type': 'string'}}}\n"
        "def described(name, schema): return {'type': 'function', 'function': {'name': name, 'parameters': schema}}\n"
        "tools = [described('reserve', same), described('look', other)]\n"
    )
    assert main(["doctor", graph, "--tools", "agent_as_it_is:tools"]) == UNHEALTHY
    shown = capsys.readouterr().out
    assert "Removed, never suggested: book, pay" in shown
    assert "book is now reserve" in shown
    assert "Changed, still suggested: look" in shown
    assert "Nothing to suggest after: look" in shown


@pytest.mark.parametrize("place", ["nowhere", "json:", "no_such_module:tools", "json:dumps", "json:__name__"])
def test_tools_that_cannot_be_found_are_told_in_one_line(place, graph, capsys):
    assert main(["doctor", graph, "--tools", place]) == REFUSED
    assert capsys.readouterr().err.count("\n") == 1


def test_a_damaged_graph_is_told_in_one_line(graph, tmp_path, capsys):
    [vectors] = (tmp_path / graph).glob("*/states.codes.npy")
    vectors.write_bytes(vectors.read_bytes()[:-1] + b"\0")
    assert main(["doctor", graph, "--tools", "json:__all__"]) == REFUSED
    assert "states.codes.npy" in capsys.readouterr().err
    assert main(["show", "nothing-here"]) == REFUSED
    assert "There is no graph at nothing-here" in capsys.readouterr().err


def test_a_model_that_cannot_be_used_is_told_before_anything_is_read(runs, tmp_path, capsys):
    assert main(["mine", runs, "-o", "graph", "--summarize", "no-such-provider:x"]) == REFUSED
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "no-such-provider:x" in told
    assert not (tmp_path / "graph").exists()


def test_an_embedder_that_cannot_be_used_is_told_in_one_line(runs, graph, capsys):
    for command in (["mine", runs, "-o", "other"], ["suggest", graph], ["show", graph]):
        assert main([*command, "--embeddings", "no-such-provider:x"]) == REFUSED
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "no-such-provider:x" in told


def test_a_place_that_is_taken_is_refused_before_any_model_is_paid(runs, tmp_path, monkeypatch, capsys):
    model = ScriptedChatModel(replies=["State."] * 5)
    monkeypatch.setattr("langchain_tooltree.cli.resolve_model", lambda _: model)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    assert main(["mine", runs, "-o", "taken", "--summarize", "some:model"]) == REFUSED
    assert "is no graph" in capsys.readouterr().err
    assert model.calls == []


def test_brackets_in_names_and_summaries_are_shown_as_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    run = run_of(1, "a[/b]", "[bold]c")
    told = backfill_summaries(run, ScriptedChatModel(replies=["see [/etc]", "then [red]"]))
    SITGraph.from_trajectories([told]).save(tmp_path / "graph")
    assert main(["show", str(tmp_path / "graph")]) == 0
    assert main(["suggest", str(tmp_path / "graph"), "--state", "see"]) == 0
    shown = capsys.readouterr().out
    assert "[bold]c" in shown
    assert "see [/etc]" in shown


def test_the_doctor_says_what_it_could_not_compare(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    SITGraph.from_trajectories([replace(run_of(1, "look"), metadata={})]).save("graph")
    (tmp_path / "agent_unknown.py").write_text("def look(n: int) -> str:\n    'Look.'\n\ntools = [look]\n")
    assert main(["doctor", "graph", "--tools", "agent_unknown:tools"]) == 0
    shown = capsys.readouterr().out
    assert "Not compared: the runs do not tell what look took" in shown
    assert "take what they took" not in shown


def test_mining_has_a_model_write_the_missing_summaries(runs, monkeypatch, capsys):
    model = ScriptedChatModel(replies=[f"State {number}." for number in range(5)])
    monkeypatch.setattr("langchain_tooltree.cli.resolve_model", lambda _: model)
    assert main(["mine", runs, "-o", "graph", "--summarize", "some:model"]) == 0
    assert "5 model calls" in capsys.readouterr().out
    evidence = SITGraph.load("graph").suggest("look", state="State")[0].evidence
    assert all(each.summary.startswith("State ") for each in evidence)


@pytest.mark.parametrize("path", ["sync", "async"])
async def test_missing_summaries_are_written_once_and_lie_on_the_edges(path):
    run = run_of(1, "look", "book")
    model = ScriptedChatModel(replies=["Nothing is known yet.", "A seat was found, and is to be booked."])
    meter = Meter(10)
    told = (
        backfill_summaries(run, model, meter=meter)
        if path == "sync"
        else await abackfill_summaries(run, model, meter=meter)
    )
    assert meter.model_calls == 2
    assert (told.steps, told.turns, told.messages) == (run.steps, run.turns, run.messages)
    graph = SITGraph.from_trajectories([told])
    [suggestion] = graph.suggest("look", state="a seat was found")
    assert suggestion.evidence[0].summary == "A seat was found, and is to be booked."
    assert backfill_summaries(told, ScriptedChatModel(replies=[])) == told


def test_a_summary_that_fails_stays_missing_and_is_noted(tmp_path):
    model = ScriptedChatModel(replies=[RuntimeError("down"), "A seat was found."])
    meter = Meter(10)
    told = backfill_summaries(run_of(1, "look", "book"), model, meter=meter)
    assert len(meter.problems) == 1
    dump_trajectories([told], tmp_path / "told.jsonl")
    [again] = load_trajectories(tmp_path / "told.jsonl")
    assert again == told
    graph = SITGraph.from_trajectories([again])
    assert graph.suggest("look", state="a seat")[0].evidence[0].summary == "A seat was found."
    assert not graph.suggest(None, state="a seat")[0].evidence
