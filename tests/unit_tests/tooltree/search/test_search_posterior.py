"""How a search by the posterior goes, on small worlds whose every answer is given."""

import pytest

CHAIN = {"offers": {(): "a b", ("a",): "c", ("a", "c"): ""}, "r_pre": {"b": 0.35}}
"""First a, then c, then the model has no more calls; b is a distraction."""


def best(search):
    return (
        [step.call.tool for step in search.tree.path(search.best())]
        if search.best()
        else []
    )


def operations(likely_in, tables, **settings):
    """A search, and what it did: the kind of each operation, the tool it was about, and whether that was run first."""
    launched = []
    search = likely_in(tables, watch=launched.extend, **settings)
    return search, [
        (each.kind, search.tree[each.node].label.removesuffix("()"), each.run)
        for each in launched
    ]


def test_a_call_runs_in_the_operation_that_asks_for_the_next_ones_and_its_score(
    likely_in,
):
    search, did = operations(likely_in, {**CHAIN, "goal": {"c": 0.9}})
    assert did == [
        ("propose", "root", False),
        ("propose", "a", True),
        ("propose", "c", True),
    ]
    assert (search.stop_reason, best(search)) == ("solved", ["a", "c"])


def test_a_call_at_the_greatest_depth_is_only_run(likely_in):
    _, did = operations(likely_in, CHAIN, max_depth=1, max_rollouts=1)
    assert did == [("propose", "root", False), ("execute", "a", True)]


@pytest.mark.parametrize(("goal", "reason"), [(0.9, "solved"), (0.1, "exhausted")])
def test_the_search_stops_once_it_is_confident(likely_in, goal, reason):
    search = likely_in({"offers": {(): "a"}, "goal": {"a": goal}})
    assert (search.stop_reason, best(search)) == (reason, ["a"])


def test_a_higher_effort_takes_more_work(likely_in):
    tables = {
        "offers": {(): "a b", ("a",): ""},
        "r_pre": {"a": 0.7, "b": 0.65},
        "goal": {"a": 0.6, "b": 0.2},
    }
    sooner, later = (
        likely_in(tables, effort=effort) for effort in ("frugal", "thorough")
    )
    assert sooner.stop_reason == "solved"
    assert sooner.rollouts < later.rollouts
    assert best(sooner) == best(later) == ["a"]


def test_after_bad_candidates_the_state_is_asked_for_others(likely_in):
    tables = {
        "offers": {(): ["a b", "c"]},
        "r_pre": {"a": 0.1, "b": 0.1, "c": 0.9},
        "goal": {"c": 0.9},
    }
    search, did = operations(likely_in, tables)
    assert [tool for _, tool, runs in did if runs] == ["c"]
    assert [node.offer for node in search.tree.nodes] == [0, 1, 1, 2]
    assert best(search) == ["c"]


def test_a_call_whose_candidates_all_look_bad_gives_way_to_another(likely_in):
    tables = {
        "offers": {(): "a b", ("a",): ["c d", "e f"], ("b",): "g"},
        "r_pre": {"a": 0.8, "b": 0.7, "c": 0.0, "d": 0.0, "e": 0.0, "f": 0.0, "g": 0.9},
        "goal": {"g": 0.9},
        "effects": {"a": "sandboxed"},
    }
    search, did = operations(likely_in, tables)
    assert [tool for _, tool, runs in did if runs] == ["a", "b", "g"]
    assert best(search) == ["b", "g"]


def test_nothing_is_pruned_for_a_low_score(likely_in):
    tables = {
        "offers": {(): "a b c d"},
        "r_pre": {"a": 0.1, "b": 0.2},
        "r_post": {"c": 0.0},
    }
    search = likely_in(tables, top_k=2, effort="thorough")
    assert {node.pruned for node in search.tree.nodes} == {None}


def test_a_candidate_without_a_score_goes_by_its_rank(likely_in):
    search = likely_in({**CHAIN, "r_pre": {"a": None, "b": None}, "goal": {"c": 0.9}})
    assert [(node.r_pre, node.pre_scored) for node in search.tree.nodes[1:3]] == [
        (0.3, False)
    ] * 2
    assert best(search) == ["a", "c"]


def test_a_path_goes_on_after_a_call_that_did_no_harm(likely_in):
    tables = {
        "offers": {(): ["zoom"], ("zoom",): "a"},
        "r_pre": {"zoom": 0.31, "a": 0.9},
        "goal": {"a": 0.95},
    }
    search = likely_in(tables, max_proposals=1)
    assert (search.stop_reason, best(search)) == ("solved", ["zoom", "a"])


def test_a_deferred_write_never_runs_and_ends_its_plan(likely_in):
    tables = {
        "offers": {(): "a", ("a",): "send", ("a", "send"): "b"},
        "effects": {"send": "write"},
        "r_pre": {"send": 0.95},
    }
    search, did = operations(likely_in, tables)
    assert ("propose", "send", True) not in did
    assert (search.stop_reason, best(search)) == ("solved", ["a", "send"])


@pytest.mark.parametrize("parallel", range(1, 9))
def test_rollouts_share_what_is_worth_starting(likely_in, parallel):
    offers = {(): "a b c d", **{(tool,): f"e{tool}" for tool in "abcd"}}
    flights = []
    search = likely_in(
        {"offers": offers, "r_pre": dict.fromkeys("abcd", 0.6)},
        watch=lambda launched: flights.append(len(launched)),
        parallel_rollouts=parallel,
    )
    assert 1 <= max(flights) <= parallel
    assert [node for node in search.tree.nodes if node.in_flight != 0] == []


def test_a_favourite_in_flight_keeps_other_rollouts_from_starting(likely_in):
    flights = []
    likely_in(
        {
            "offers": {(): "a b c", ("a",): "d"},
            "r_pre": {"a": 0.95, "b": 0.35, "c": 0.35},
        },
        watch=lambda launched: flights.append(len(launched)),
        parallel_rollouts=4,
        max_rollouts=2,
    )
    assert max(flights) == 1
