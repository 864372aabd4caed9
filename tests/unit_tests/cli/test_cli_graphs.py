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
from tests.internals.experience import Branch
from tests.internals.hall import REFUSED, UNHEALTHY, Meter
from tests.internals.sitgraph import transitions_of


def states(**summaries):
    """What a model writes of the states of a run."""
    written = [{"state": int(place.lstrip("s")), "summary": text} for place, text in summaries.items()]
    return json.dumps({"states": written})


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


@pytest.mark.parametrize("content", ["{]", "[]", '{"messages": 3}', '{"messages": [{"content": "no role"}]}'])
def test_a_line_that_cannot_be_read_is_named(content, tmp_path, capsys):
    file = tmp_path / "bad.jsonl"
    file.write_text(json.dumps({"messages": []}) + "\n" + content + "\n")
    assert main(["mine", str(file), "-o", str(tmp_path / "graph")]) == REFUSED
    assert "bad.jsonl, line 2" in capsys.readouterr().err


def test_suggestions_go_by_weight_where_there_are_no_summaries(graph, capsys):
    assert main(["suggest", graph, "--last", "look", "--state", "One"]) == 0
    assert "procedural" in capsys.readouterr().out


def test_suggesting_begins_at_the_start_and_says_when_nothing_is_known(graph, capsys):
    assert main(["suggest", graph]) == 0
    assert "look" in capsys.readouterr().out
    assert main(["suggest", graph, "--last", "[pay]"]) == 0
    assert "The graph does not know the tool [pay]. Near to it: pay." in capsys.readouterr().out


def test_a_graph_is_shown_as_a_table_and_as_a_chart(graph, tmp_path, capsys):
    assert main(["show", graph]) == 0
    table = capsys.readouterr().out
    assert "(start)" in table
    assert "2 runs, 3 edges" in table
    assert main(["show", graph, "--draw", str(tmp_path / "graph.mmd")]) == 0
    assert (tmp_path / "graph.mmd").read_text().startswith("flowchart LR\n")


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
    [file] = (tmp_path / graph).glob("runs-*.jsonl")
    file.write_bytes(file.read_bytes()[:-1] + b"\0")
    assert main(["doctor", graph, "--tools", "json:__all__"]) == REFUSED
    assert file.name in capsys.readouterr().err
    assert main(["show", "nothing-here"]) == REFUSED
    assert "nothing-here: No such file" in capsys.readouterr().err


def test_an_embedder_that_cannot_be_used_is_told_in_one_line(runs, graph, capsys):
    for command in (["mine", runs, "-o", "other"], ["suggest", graph], ["show", graph]):
        assert main([*command, "--embeddings", "no-such-provider:x"]) == REFUSED
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert "no-such-provider:x" in told


def test_brackets_in_names_and_summaries_are_shown_as_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    run = run_of(1, "a[/b]", "[bold]c")
    told = backfill_summaries(run, ScriptedChatModel(replies=[states(s0="see [/etc]", s1="then [red]")]))
    SITGraph.from_trajectories([told]).save(tmp_path / "graph")
    assert main(["show", str(tmp_path / "graph")]) == 0
    assert main(["suggest", str(tmp_path / "graph"), "--state", "see"]) == 0
    shown = capsys.readouterr().out
    assert "[bold]c" in shown
    assert "see [/etc]" in shown


def test_the_doctor_says_what_it_could_not_compare(folder, capsys):
    SITGraph.from_trajectories([replace(run_of(1, "look"), metadata={})]).save("graph")
    (folder / "agent_unknown.py").write_text("def look(n: int) -> str:\n    'Look.'\n\ntools = [look]\n")
    assert main(["doctor", "graph", "--tools", "agent_unknown:tools"]) == 0
    shown = capsys.readouterr().out
    assert "Not compared: the runs do not tell what look took" in shown
    assert "take what they took" not in shown


def test_mining_tells_what_it_could_not_use(tmp_path, capsys):
    run = {"success": True, "messages": [{"role": "tool", "content": "Whose?"}, *run_of(1, "look").messages]}
    (tmp_path / "runs.json").write_text(json.dumps([run]))
    assert main(["mine", str(tmp_path / "runs.json"), "-o", str(tmp_path / "graph")]) == 0
    told = capsys.readouterr()
    assert "Not used: 1 observations without a call." in told.out
    assert told.err == ""


@pytest.mark.parametrize("path", ["sync", "async"])
async def test_missing_summaries_are_written_once_and_lie_on_the_edges(path):
    run = run_of(1, "look", "book")
    model = ScriptedChatModel(replies=[states(s0="Nothing is known yet.", s1="A seat was found, and is to be booked.")])
    meter = Meter(10)
    told = (
        backfill_summaries(run, model, meter=meter)
        if path == "sync"
        else await abackfill_summaries(run, model, meter=meter)
    )
    assert (meter.model_calls, meter.problems) == (1, [])
    assert (told.steps, told.turns, told.messages) == (run.steps, run.turns, run.messages)
    graph = SITGraph.from_trajectories([told])
    [suggestion] = graph.suggest("look", state="a seat was found")
    assert suggestion.evidence[0].summary == "A seat was found, and is to be booked."
    assert backfill_summaries(told, ScriptedChatModel(replies=[])) == told


def test_a_summary_that_is_missing_stays_missing_is_noted_and_asked_for_alone(tmp_path):
    model = ScriptedChatModel(replies=[states(s1="A seat was found.", s7="No such call.")])
    meter = Meter(10)
    told = backfill_summaries(run_of(1, "look", "book"), model, meter=meter)
    assert meter.problems == ["1 of the 2 states of run run 1 were not summed up"]
    dump_trajectories([told], tmp_path / "told.jsonl")
    [again] = load_trajectories(tmp_path / "told.jsonl")
    assert again == told
    graph = SITGraph.from_trajectories([again])
    assert graph.suggest("look", state="a seat")[0].evidence[0].summary == "A seat was found."
    assert not graph.suggest(None, state="a seat")[0].evidence
    model = ScriptedChatModel(replies=[states(s0="At the start.")])
    whole = backfill_summaries(again, model)
    record = json.loads(model.calls[0][1].text)["record"]
    assert [(entry["call"]["tool"], entry.get("state")) for entry in record if "call" in entry] == [
        ("look", 0),
        ("book", None),
    ]
    assert (
        SITGraph.from_trajectories([whole]).suggest(None, state="the start")[0].evidence[0].summary == "At the start."
    )


def test_states_of_sub_agents_are_numbered_after_those_of_the_run():
    helper = Branch("helper", 1, run_of(2, "ask").messages)
    run = Trajectory.from_chat(run_of(1, "look", "book").messages, id="run", success=True, branches=[helper])
    model = ScriptedChatModel(replies=[states(s0="Zero.", s1="One.", s2="Two.")])
    told = backfill_summaries(run, model)
    record = json.loads(model.calls[0][1].text)["record"]
    assert [(entry["call"]["tool"], entry["state"]) for entry in record if "call" in entry] == [
        ("ask", 2),
        ("look", 0),
        ("book", 1),
    ]
    assert [each.summaries for each in transitions_of(told)] == [("Zero.",), ("One.",), ("Two.",)]
