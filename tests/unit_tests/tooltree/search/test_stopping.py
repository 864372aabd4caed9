"""When a search ends, and which trajectory it returns."""

from itertools import pairwise

import pytest

from langchain_tooltree.tooltree.search import FAILURES_TO_GIVE_UP, TreeSearch
from langchain_tooltree.tooltree.search.config import KernelConfig

ONE = {"model_calls": 1}
PAPER = {"selection": "printed", "max_proposals": 1, "goal_score": False}


def best(search):
    return (
        [step.call.tool for step in search.tree.path(search.best())]
        if search.best()
        else []
    )


def chain(*tools):
    """Offers that lead from one tool to the next."""
    return {tools[:length]: tool for length, tool in enumerate(tools)}


def siblings(count):
    return {(): " ".join(f"t{number}" for number in range(count))}


def test_solved_when_goal_and_path_value_reach_their_bounds(search_in):
    tables = {
        "offers": chain("a", "b", "c"),
        "goal": {"b": 0.7},
        "r_post": {"a": 0.8, "b": 0.65},
    }
    search = search_in(tables, value_threshold=0.5)  # 0.7 * 0.725 = 0.5075
    assert (search.stop_reason, best(search)) == ("solved", ["a", "b"])
    assert search_in(tables, value_threshold=0.51).stop_reason != "solved"
    assert (
        search_in({**tables, "goal": {"b": 0.69}}, value_threshold=0.5).stop_reason
        != "solved"
    )


def test_an_unscored_or_pruned_call_solves_nothing(search_in):
    unscored = search_in(
        {"offers": {(): "a"}, "goal": {"a": 1.0}, "r_post": {"a": None}},
        value_threshold=0.0,
    )
    pruned = search_in(
        {"offers": {(): "a"}, "goal": {"a": 1.0}, "r_post": {"a": 0.1}},
        value_threshold=0.0,
    )
    assert (unscored.stop_reason, pruned.stop_reason) == ("exhausted", "exhausted")


def test_patience_counts_only_after_a_path_has_passed_the_goal_threshold(search_in):
    tables = {
        "offers": siblings(20),
        "goal": {"t5": 0.9},
        "r_pre": {f"t{n}": 0.9 - n / 100 for n in range(20)},
    }
    common = {"top_k": 20, "patience": 3, "max_depth": 1, "value_threshold": 1.0}
    search = search_in(tables, **common)
    assert search.stop_reason == "converged"
    assert search.rollouts == 6 + 3
    without = search_in({**tables, "goal": {}}, **common)
    assert without.stop_reason == "exhausted"
    assert without.rollouts > 20


def test_a_gain_starts_patience_anew(search_in):
    tables = {
        "offers": siblings(20),
        "goal": {"t0": 0.8, "t2": 0.9, "t4": 0.9005},
        "r_pre": {f"t{n}": 0.9 - n / 100 for n in range(20)},
    }
    search = search_in(tables, top_k=20, patience=3, max_depth=1, value_threshold=1.0)
    assert search.rollouts == 3 + 3
    assert best(search) == ["t4"]


def test_the_paper_counts_patience_from_the_start(search_in):
    tables = {
        "offers": siblings(20),
        "r_pre": {f"t{n}": 0.9 - n / 100 for n in range(20)},
    }
    search = search_in(tables, **PAPER, top_k=20, patience=3, max_depth=1)
    assert (search.stop_reason, search.rollouts) == ("converged", 1 + 3)


def test_the_papers_form_goes_on_while_the_best_path_still_changes(search_in):
    rewards = {"a": 0.9, "b": 0.9, "c": 0.9, "d": 0.9, "e": 0.9}
    tables = {
        "offers": {**chain(*"abcde"), ("a", "b", "c", "d", "e"): "x y z"},
        "r_post": {**rewards, "x": 0.4},
    }
    search = search_in(
        {**tables, "r_post": {**tables["r_post"], "y": 0.4, "z": 0.4}},
        **PAPER,
        patience=2,
    )
    # The path grows by a call in each of five rollouts; x, y and z add nothing to it.
    assert (search.stop_reason, search.rollouts, best(search)) == (
        "converged",
        5 + 2,
        [*"abcde"],
    )


def test_exhausted_when_nothing_is_left_to_try(search_in):
    search = search_in({"offers": {(): "a b", ("a",): "c"}})
    assert search.stop_reason == "exhausted"
    assert [node for node in search.tree.nodes if not node.closed] == []


@pytest.mark.parametrize("parallel", [1, 3, 8])
def test_max_rollouts_is_never_overshot(search_in, parallel):
    search = search_in(
        {"offers": siblings(9)}, top_k=9, max_rollouts=5, parallel_rollouts=parallel
    )
    assert (search.stop_reason, search.rollouts) == ("max_rollouts", 5)
    assert sum(node.evaluated for node in search.tree.nodes) == 5


@pytest.mark.parametrize("limit", range(1, 25))
def test_every_limit_on_model_calls_holds(search_in, limit):
    tables = {
        "offers": siblings(9),
        "spent": dict.fromkeys(("propose", "score", "evaluate"), ONE),
    }
    search = search_in(
        tables,
        judge_calls=2,
        top_k=9,
        max_depth=1,
        max_model_calls=limit,
        parallel_rollouts=3,
    )
    assert search.spent.model_calls == min(limit, 12)


@pytest.mark.parametrize("judge_calls", [0, 2])
def test_a_call_that_ran_is_judged_before_the_budget_ends_the_search(
    search_in, judge_calls
):
    asked = ("propose", "score", "evaluate") if judge_calls else ("propose",)
    tables = {"offers": siblings(9), "spent": dict.fromkeys(asked, ONE)}
    for limit in range(1, 15):
        search = search_in(
            tables, judge_calls=judge_calls, top_k=9, max_model_calls=limit
        )
        assert [
            node
            for node in search.tree.nodes
            if node.observation and not node.evaluated
        ] == [], limit


def test_a_proposer_that_keeps_failing_ends_the_search(search_in):
    search = search_in({"offers": {(): RuntimeError("down")}})
    assert search.stop_reason == "proposer_failed"
    assert search.tree.root.dropped == ["down"] * FAILURES_TO_GIVE_UP


def test_a_judge_that_keeps_failing_ends_the_search(search_in):
    tools = [f"t{number}" for number in range(9)]
    search = search_in(
        {
            "offers": siblings(9),
            "r_pre": dict.fromkeys(tools),
            "r_post": dict.fromkeys(tools),
        }
    )
    assert search.stop_reason == "judge_failed"
    assert search.best() is None


def test_the_best_trajectory_has_the_highest_goal_times_mean_reward(search_in):
    search = search_in(
        {
            "offers": {(): "a b", ("a",): "c"},
            "r_post": {"a": 0.6, "b": 0.9, "c": 0.8},
            "goal": {"a": 0.1, "b": 0.5, "c": 0.65},
        }
    )
    assert best(search) == ["a", "c"]  # 0.65 * 0.7 = 0.455 against 0.5 * 0.9 = 0.45


def test_the_paper_returns_the_best_q_from_the_root_down(search_in):
    search = search_in(
        {
            "offers": {(): "a b", ("a",): "c d", ("b",): "e"},
            "r_post": {"a": 0.5, "b": 0.9, "c": 0.95, "d": 0.9, "e": 0.5},
        },
        **PAPER,
        patience=50,
    )
    # Q(a) = (.5 + .95 + .9) / 3 = .783, Q(b) = (.9 + .5) / 2 = .7
    assert best(search) == ["a", "c"]


@pytest.mark.parametrize(("second", "path"), [(0.59, ["a"]), (0.61, ["a", "b", "c"])])
def test_the_descent_ends_where_r_post_falls(search_in, second, path):
    tables = {
        "offers": chain("a", "b", "c"),
        "r_post": {"a": 0.9, "b": second, "c": 0.9},
    }
    assert best(search_in(tables, **PAPER)) == path  # 2 / 3 * .9 = .6


def test_the_acl_form_propagates_the_cumulative_reward_of_a_path(search_in):
    tables = {
        "offers": {(): "a b", ("a",): "c"},
        "r_post": {"a": 0.5, "b": 0.9, "c": 0.75},
    }
    search = search_in(tables, **PAPER, reward="path")
    values = {node.call.tool: node.value for node in search.tree.nodes[1:]}
    # R(a) = .5, R(a, c) = 1.25, R(b) = .9; Q(a) = (.5 + 1.25) / 2
    assert values == pytest.approx({"a": 0.875, "b": 0.9, "c": 1.25})
    assert search.tree.root.value == pytest.approx((0.5 + 1.25 + 0.9) / 3)


def test_by_eq_1_pruned_and_unscored_calls_are_never_the_best(search_in):
    search = search_in(
        {
            "offers": {(): "a b"},
            "r_post": {"a": 0.39, "b": None},
            "goal": {"a": 1.0, "b": 1.0},
        },
        value_threshold=0.0,
    )
    assert search.best() is None


def test_the_best_value_never_falls(pure_world, run_pure):
    for seed in range(20):
        search = TreeSearch(
            KernelConfig(selection="smoothed", max_rollouts=30, max_depth=4, seed=seed)
        )
        run_pure(search, pure_world(seed=seed))
        values = [
            event["value"] for event in search.take_events() if event["type"] == "best"
        ]
        assert [
            (earlier, later) for earlier, later in pairwise(values) if earlier > later
        ] == []


def test_the_first_reason_to_stop_stays(search_in):
    search = search_in({"offers": {(): "a"}, "goal": {"a": 0.9}})
    search.stop("max_seconds")
    assert search.stop_reason == "solved"


def test_a_judge_that_fails_now_and_then_does_not(search_in):
    tools = [f"t{number}" for number in range(9)]
    odd = dict.fromkeys(tools[1::2])
    scores = {tool: 0.9 - number / 100 for number, tool in enumerate(tools)}
    search = search_in(
        {"offers": siblings(9), "r_pre": scores, "r_post": odd}, max_depth=1, top_k=9
    )
    assert search.stop_reason == "exhausted"


def test_ties_go_to_fewer_calls(search_in):
    tables = {
        "r_post": dict.fromkeys("abc", 0.8),
        "goal": {"a": 0.0, "b": 0.5, "c": 0.5},
    }
    long_first = search_in(
        {"offers": {(): "a c", ("a",): "b"}, "r_pre": {"a": 0.9, "c": 0.3}, **tables}
    )
    assert best(long_first) == ["c"]
    short_first = search_in(
        {"offers": {(): "a c", ("a",): "b"}, "r_pre": {"a": 0.3, "c": 0.9}, **tables}
    )
    assert best(short_first) == ["c"]


def test_small_gains_add_up(search_in):
    goals = {f"t{number}": 0.8 + number / 2_000 for number in range(12)}
    tables = {
        "offers": siblings(12),
        "goal": goals,
        "r_pre": {f"t{n}": 0.9 - n / 100 for n in range(12)},
    }
    search = search_in(tables, top_k=20, patience=3, max_depth=1, value_threshold=1.0)
    assert best(search) == ["t11"]
