"""The weights of the edges, by hand: Eq. 1 and Eq. 2 on graphs that fit on a napkin."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from little_runs import called, calls, routine, run_of, says, shares, user

from langchain_tooltree import SITGraph
from langchain_tooltree.experience.trajectory import Branch
from langchain_tooltree.sitgraph.graph import Contribution, Graph
from langchain_tooltree.sitgraph.states import DIMENSIONS
from langchain_tooltree.sitgraph.transitions import VIEWS

# "a b c" has four assistant messages, "a b" three, "a c" three.
THREE = [routine("1", "a", "b", "c"), routine("2", "a", "b"), routine("3", "a", "c")]


def edges(graph, attribute):
    return {
        (source, target): data[attribute]
        for source, target, data in graph.to_networkx().edges(data=True)
    }


def test_raw_weights_are_eq_1():
    graph = SITGraph.from_trajectories(THREE, alpha=2.0)

    assert edges(graph, "count") == {
        ("", "a"): 3,
        ("a", "b"): 2,
        ("a", "c"): 1,
        ("b", "c"): 1,
    }
    assert edges(graph, "raw_weight") == pytest.approx(
        {
            ("", "a"): 3 + 2 * (1 / 4 + 1 / 3 + 1 / 3),
            ("a", "b"): 2 + 2 * (1 / 4 + 1 / 3),
            ("a", "c"): 1 + 2 * (1 / 3),
            ("b", "c"): 1 + 2 * (1 / 4),
        }
    )


def test_weights_are_eq_2():
    graph = SITGraph.from_trajectories(THREE, alpha=2.0)
    both = (2 + 2 * (1 / 4 + 1 / 3)) + (1 + 2 * (1 / 3))

    assert edges(graph, "weight") == pytest.approx(
        {
            ("", "a"): 1,
            ("a", "b"): (2 + 7 / 6) / both,
            ("a", "c"): (1 + 2 / 3) / both,
            ("b", "c"): 1,
        }
    )
    assert shares(graph.suggest("a")) == pytest.approx(
        {"b": (2 + 7 / 6) / both, "c": (1 + 2 / 3) / both}
    )


def test_an_edge_followed_twice_in_a_run_counts_twice_and_the_run_once():
    graph = SITGraph.from_trajectories([routine("1", "a", "b", "a", "b")], alpha=1.0)

    assert edges(graph, "count")["a", "b"] == 2
    assert edges(graph, "raw_weight")["a", "b"] == pytest.approx(2 + 1 / 5)


def test_calls_made_in_parallel_share_an_assistant_message():
    both = calls("a", "b")
    graph = SITGraph.from_trajectories(
        [run_of("1", user("Hi"), both, says("Done."))], alpha=1.0
    )

    assert edges(graph, "raw_weight") == pytest.approx(
        {("", "a"): 1.5, ("a", "b"): 1.5}
    )


def test_assistant_messages_without_a_call_are_part_of_t():
    run = run_of(
        "1",
        user("Hi"),
        says("Hello."),
        says("One moment."),
        *called("a"),
        says("Done."),
    )

    assert edges(SITGraph.from_trajectories([run], alpha=1.0), "raw_weight")[
        "", "a"
    ] == pytest.approx(1 + 1 / 4)


def test_the_edges_of_a_sub_agent_count_with_the_t_of_its_run():
    branch = Branch(
        "researcher", 1, (user("Look it up"), *called("find"), says("Found."))
    )
    run = run_of("1", user("Hi"), *called("a"), branches=[branch])

    assert edges(
        SITGraph.from_trajectories([run], alpha=1.0), "raw_weight"
    ) == pytest.approx({("", "a"): 2.0, ("", "find"): 2.0})


@pytest.mark.parametrize("success", [False, None])
def test_runs_that_failed_or_were_not_judged_give_nothing(success):
    graph = SITGraph.from_trajectories(
        [routine("1", "a", success=success), routine("2", "b")]
    )

    assert edges(graph, "count") == {("", "b"): 1}
    assert "1" not in graph
    assert not graph.add(routine("3", "a", success=success))
    assert edges(graph, "count") == {("", "b"): 1}
    assert not graph.add(routine("2", "b", "c", "d", success=success))
    assert edges(graph, "count") == {}


def test_a_failure_on_the_way_does_not_take_away_that_the_run_succeeded():
    failing = calls("a")
    error = {
        "role": "tool",
        "tool_call_id": failing["tool_calls"][0]["id"],
        "content": "no",
        "error": True,
    }

    graph = SITGraph.from_trajectories(
        [run_of("1", user("Hi"), failing, error, *called("b"))]
    )

    assert edges(graph, "count") == {("a", "b"): 1}


TRANSITIONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=6
)
GIVEN = st.lists(
    st.tuples(TRANSITIONS, st.integers(1, 40), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


def contribution(number, transitions, turns, voice):
    states = np.zeros((len(transitions), len(VIEWS), DIMENSIONS), np.int8)
    labels = [(source, "", target) for source, target in transitions]
    return Contribution(f"{number}", turns, labels, states, voice=voice << 31)


@pytest.mark.slow
@given(GIVEN, st.randoms(use_true_random=False))
def test_edges_are_the_exact_sums_of_the_runs_that_are_there_whatever_came_and_went(
    runs, draw
):
    given_runs = [contribution(number, *run) for number, run in enumerate(runs)]
    gone = [run for run in given_runs if draw.random() < 0.4]
    graph = Graph(draw.sample(given_runs, len(given_runs)))
    for run in gone:
        assert graph.remove(run.id)
    rest = [run for run in given_runs if run not in gone]

    found = {
        (source, target): edge
        for source, edges in graph.edges()
        for target, edge in edges.items()
    }

    assert set(found) == {pair for run in rest for pair in run.transitions}
    for pair, edge in found.items():
        here = [run for run in rest if pair in run.transitions]
        exact = sum(run.transitions.count(pair) for run in here) + 2 * sum(
            Fraction(1, run.turns) for run in here
        )
        assert edge.raw_weight(2) == pytest.approx(float(exact), rel=1e-15)
        assert edge.support == len({run.voice for run in here})
        assert edge.givers == len({run.voice >> 32 for run in here})
        assert edge.raw_weight(2) == dict(Graph(rest).outgoing(pair[0]))[
            pair[1]
        ].raw_weight(2)
