"""The benchmark of what is left of long runs, on runs small enough to check by hand."""

import json

from langchain_tooltree import Trajectory, dump_trajectories
from tests.benchmarks.recall_budget import in_common, main, measure, partners, whole
from tests.internals.experience import Outcome, Step

ROOM = "You see a table, a chair, a lamp, a bed, a shelf, a stove and a door that leads to the hall. "


def run(name, thing, **metadata):
    calls = [("look", ROOM), (f"take {thing}", "Taken."), ("look", ROOM), (f"heat {thing}", "It is hot.")]
    steps = tuple(Step("act", {"action": call}, Outcome(seen)) for call, seen in calls)
    return Trajectory(name, f"Heat the {thing}.", steps, True, metadata=metadata)


RUNS = [run("a", "water"), run("b", "milk")]


def test_cutting_loses_calls_that_condensing_keeps():
    figures = measure(RUNS, budgets=[120], leave_out=["look"])["120"]
    assert {name: row["kept"] for name, row in figures.items()} == {
        "head": 0.0,
        "tail": 0.5,
        "middle": 0.5,
        "condensed": 1.0,
    }
    assert {name: row["transferable"] for name, row in figures.items()} == {
        "head": 0.0,
        "tail": 0.5,
        "middle": 0.5,
        "condensed": 1.0,
    }


def test_runs_that_fit_do_not_count():
    assert measure(RUNS, budgets=[len(whole(RUNS[0]))])[str(len(whole(RUNS[0])))]["head"]["runs"] == 0


def test_calls_are_the_same_up_to_names():
    assert in_common({'act("heat water")'}, {'act("heat milk")', 'act("pour milk")'}) == {("act", "heat", "_")}
    assert in_common({'act("heat water")'}, {'act("pour milk")'}) == set()


def test_partners_are_of_the_same_group():
    runs = [run("a", "water", kind=1), run("b", "milk", kind=2), run("c", "stone", kind=1)]
    found = partners(runs, lambda each: each.metadata["kind"])
    assert [other and other.id for other in found] == ["c", None, "a"]


def test_figures_are_printed_and_written(tmp_path, capsys):
    dump_trajectories(RUNS, tmp_path / "runs.jsonl")
    assert main([str(tmp_path / "runs.jsonl"), "--json", str(tmp_path / "out.json")]) == 0
    assert "condensed" in capsys.readouterr().out
    assert set(json.loads((tmp_path / "out.json").read_text())) == {"500", "1000", "2000", "4000"}
