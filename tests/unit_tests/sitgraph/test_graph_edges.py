"""The weights of the edges, by hand: Eq. 1 and Eq. 2 on graphs that fit on a napkin."""

from fractions import Fraction

import numpy as np
import pytest
from little_runs import called, calls, routine, run_of, says, shares, user

from langchain_tooltree import SITGraph
from tests.internals.experience import Branch, Record, Step
from tests.internals.sitgraph import INVERSE_TURN, Edges

# "a b c" has four assistant messages, "a b" three, "a c" three.
THREE = [routine("1", "a", "b", "c"), routine("2", "a", "b"), routine("3", "a", "c")]


def edges(graph, attribute):
    return {(source, target): data[attribute] for source, target, data in graph.to_networkx().edges(data=True)}


def test_raw_weights_are_eq_1():
    graph = SITGraph.from_trajectories(THREE, alpha=2.0)

    assert edges(graph, "count") == {("", "a"): 3, ("a", "b"): 2, ("a", "c"): 1, ("b", "c"): 1}
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
        {("", "a"): 1, ("a", "b"): (2 + 7 / 6) / both, ("a", "c"): (1 + 2 / 3) / both, ("b", "c"): 1}
    )
    assert shares(graph.suggest("a")) == pytest.approx({"b": (2 + 7 / 6) / both, "c": (1 + 2 / 3) / both})


def test_without_alpha_only_the_counts_matter():
    assert shares(SITGraph.from_trajectories(THREE, alpha=0).suggest("a")) == pytest.approx({"b": 2 / 3, "c": 1 / 3})


def test_runs_of_few_messages_count_for_more():
    short, long = routine("1", "a", "b"), routine("2", "a", "c", "d", "e", "f")

    assert [each.tool for each in SITGraph.from_trajectories([long, short]).suggest("a")] == ["b", "c"]


def test_an_edge_followed_twice_in_a_run_counts_twice_and_the_run_once():
    graph = SITGraph.from_trajectories([routine("1", "a", "b", "a", "b")], alpha=1.0)

    assert edges(graph, "count")["a", "b"] == 2
    assert edges(graph, "raw_weight")["a", "b"] == pytest.approx(2 + 1 / 5)


def test_a_tool_may_follow_itself():
    graph = SITGraph.from_trajectories([routine("1", "a", "a", "a")], alpha=1.0)

    assert edges(graph, "raw_weight")["a", "a"] == pytest.approx(2 + 1 / 4)


def test_calls_made_in_parallel_share_an_assistant_message():
    both = calls("a", "b")
    graph = SITGraph.from_trajectories([run_of("1", user("Hi"), both, says("Done."))], alpha=1.0)

    assert edges(graph, "raw_weight") == pytest.approx({("", "a"): 1.5, ("a", "b"): 1.5})


def test_assistant_messages_without_a_call_are_part_of_t():
    run = run_of("1", user("Hi"), says("Hello."), says("One moment."), *called("a"), says("Done."))

    assert edges(SITGraph.from_trajectories([run], alpha=1.0), "raw_weight")["", "a"] == pytest.approx(1 + 1 / 4)


def test_the_edges_of_a_sub_agent_count_with_the_t_of_its_run():
    branch = Branch("researcher", 1, (user("Look it up"), *called("find"), says("Found.")))
    run = run_of("1", user("Hi"), *called("a"), branches=[branch])

    assert edges(SITGraph.from_trajectories([run], alpha=1.0), "raw_weight") == pytest.approx(
        {("", "a"): 2.0, ("", "find"): 2.0}
    )


def test_a_run_of_which_only_the_steps_are_known_has_as_many_messages_as_turns():
    run = Record("1", "Do it", (Step("a", turn=1), Step("b", turn=1), Step("c", turn=2)), success=True)

    assert edges(SITGraph.from_trajectories([run], alpha=1.0), "raw_weight")["", "a"] == pytest.approx(1.5)


@pytest.mark.parametrize("success", [False, None])
def test_runs_that_failed_or_were_not_judged_give_nothing(success):
    graph = SITGraph.from_trajectories([routine("1", "a", success=success), routine("2", "b")])

    assert edges(graph, "count") == {("", "b"): 1}
    assert "1" not in graph
    assert not graph.add(routine("3", "a", success=success))
    assert not graph.add(routine("2", "b", "c", "d", success=success))
    assert len(graph) == 1


def test_a_failure_on_the_way_does_not_take_away_that_the_run_succeeded():
    failing = calls("a")
    error = {"role": "tool", "tool_call_id": failing["tool_calls"][0]["id"], "content": "no", "error": True}

    graph = SITGraph.from_trajectories([run_of("1", user("Hi"), failing, error, *called("b"))])

    assert edges(graph, "count") == {("a", "b"): 1}


def test_sums_of_inverse_turns_are_the_same_in_any_order():
    turns = [3, 7, 11, 13, 17, 19, 23]
    one, other = _no_edges(), _no_edges()
    for each in turns:
        one.add([(0, 1)], each, each)
    for each in reversed(turns):
        other.add([(0, 1)], each, each)

    assert one.outgoing(0).inverse_turns.tolist() == other.outgoing(0).inverse_turns.tolist()
    exact = sum(Fraction(1, each) for each in turns)
    assert one.outgoing(0).inverse_turns[0] / INVERSE_TURN == pytest.approx(float(exact), abs=1e-10)


def test_what_is_taken_back_leaves_nothing_behind():
    edges = _no_edges()
    edges.add([(0, 1), (0, 1), (0, 2)], 3, 1)
    edges.add([(0, 1)], 7, 2)
    edges.add([(0, 1), (0, 1), (0, 2)], 3, 1, sign=-1)

    assert edges.outgoing(0).targets.tolist() == [1]
    assert edges.outgoing(0).counts.tolist() == [1]
    assert edges.outgoing(0).inverse_turns.tolist() == [round(INVERSE_TURN / 7)]


def test_edges_summed_up_at_once_are_those_added_one_by_one():
    runs = [([(0, 1), (1, 2), (0, 1)], 4), ([(0, 2), (2, 0)], 3), ([(0, 1)], 2), ([(0, 1), (1, 2)], 5)]
    voices = np.array([1 << 32, 2 << 32, (1 << 32) + 1, 1 << 32], dtype=np.uint64)  # of one giver, but for the second
    sources, targets, numbers = (
        np.array(column, dtype=np.int32)
        for column in zip(*[(*pair, number) for number, (pairs, _) in enumerate(runs) for pair in pairs], strict=True)
    )
    turns = np.array([turns for _, turns in runs], dtype=np.int32)
    at_once = Edges.of(sources, targets, numbers, turns=turns, voices=voices, nodes=3)
    one_by_one = _no_edges()
    for (pairs, turns_of_it), voice in zip(runs, voices.tolist(), strict=True):
        one_by_one.add(pairs, turns_of_it, voice)

    assert list(at_once.sources()) == list(one_by_one.sources())
    for source in range(4):
        expected, found = one_by_one.outgoing(source), at_once.outgoing(source)
        for column in ("targets", "counts", "inverse_turns", "support", "givers"):
            assert getattr(found, column).tolist() == getattr(expected, column).tolist()

    assert at_once.outgoing(0).support.tolist() == [2, 1]
    assert at_once.outgoing(0).givers.tolist() == [1, 1]
    at_once.add([(0, 1), (1, 2), (0, 1)], 4, 1 << 32, sign=-1)
    one_by_one.add([(0, 1), (1, 2), (0, 1)], 4, 1 << 32, sign=-1)
    for column in ("targets", "counts", "inverse_turns", "support", "givers"):
        assert getattr(at_once.outgoing(0), column).tolist() == getattr(one_by_one.outgoing(0), column).tolist()


def _no_edges():
    none = np.zeros(0, np.int32)
    return Edges.of(none, none, none, turns=none, voices=np.zeros(0, np.uint64), nodes=0)
