"""What a run gives to a graph, as data that is kept: folded again, it gives the graph that the runs give."""

import json
from dataclasses import asdict

import pytest
from little_runs import called, routine, run_of, saved, says, summed_up, user

from langchain_tooltree import SITGraph
from langchain_tooltree.flows import run_flow
from langchain_tooltree.sitgraph.graph import Contribution

RUNS = [
    routine("1", "a", "b", "c", request="A refund, please.").coming_from("ann"),
    run_of(
        "2",
        user("A room."),
        *called("a"),
        *summed_up("They want a room."),
        *called("b"),
        says("Done."),
    ),
    routine(
        "3",
        "b",
        "ä",
        request="The weather.",
        metadata={"tools": [{"name": "b", "parameters": {}}]},
    ),
]


def kept(run, graph=None):
    contribution = run_flow((graph or SITGraph()).contribution(run))
    return json.loads(json.dumps(asdict(contribution)))


def test_contributions_that_were_kept_as_json_give_the_graph_that_the_runs_give(
    tmp_path,
):
    graph = SITGraph()

    for run in [*reversed(RUNS), RUNS[0]]:
        graph.fold(Contribution(**kept(run)))
    assert saved(graph, tmp_path / "kept") == saved(
        SITGraph.from_trajectories(RUNS), tmp_path / "runs"
    )

    graph.remove("2")
    assert saved(graph, tmp_path / "rest") == saved(
        SITGraph.from_trajectories([RUNS[0], RUNS[2]]), tmp_path / "two"
    )


@pytest.mark.parametrize(
    "run", [routine("1", "a", success=False), run_of("1", user("Hi."), says("Hello."))]
)
def test_a_run_that_failed_or_called_nothing_gives_nothing(run):
    assert run_flow(SITGraph().contribution(run)) is None
