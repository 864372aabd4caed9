"""How a search by the posterior policy goes, on small worlds whose every answer is given."""

import pytest

ONE = {"model_calls": 1}
CHAIN = {"offers": {(): "a b", ("a",): "c", ("a", "c"): ""}, "r_pre": {"b": 0.35}}
"""First a, then c, then the model has no more calls; b is a distraction."""


def best(search):
    return [step.call.tool for step in search.tree.path(search.best())] if search.best() else []


def by_tool(search):
    return {node.call.tool: node for node in search.tree.nodes[1:]}


def operations(search_in, tables, **settings):
    """A search, and what it did: the kind of each operation and the tool it was about."""
    launched = []
    search = search_in(tables, watch=launched.extend, **settings)
    did = [(operation.kind, search.tree[operation.node].label.removesuffix("()")) for operation in launched]
    return search, did


def test_a_plan_is_judged_once_where_the_model_has_no_more_calls(likely_in):
    search, did = operations(likely_in, {**CHAIN, "goal": {"c": 0.9}})
    assert did == [
        ("propose", "root"), ("score", "root"), ("execute", "a"),
        ("propose", "a"), ("score", "a"), ("execute", "c"),
        ("propose", "c"), ("evaluate", "c"),
    ]  # fmt: skip
    assert (search.stop_reason, best(search)) == ("solved", ["a", "c"])
    nodes = by_tool(search)
    assert (nodes["a"].r_post, nodes["c"].r_post) == (None, 0.8)
    assert nodes["c"].finished


def test_the_search_stops_only_at_an_end_that_was_judged(likely_in):
    """A silent model alone is enough to believe in the end, and not enough to stop."""
    search = likely_in({**CHAIN, "goal": {"c": 0.9}}, effort="frugal")
    assert search.stop_reason == "solved"
    assert search.tree[search.best().id].accepted
    assert [node.call.tool for node in search.tree.nodes[1:] if node.evaluated] == ["c"]


@pytest.mark.parametrize(("goal", "reason"), [(0.9, "solved"), (0.1, "exhausted")])
def test_the_search_stops_once_it_is_confident(likely_in, goal, reason):
    search = likely_in({"offers": {(): "a"}, "goal": {"a": goal}})
    assert (search.stop_reason, best(search)) == (reason, ["a"])


def test_a_higher_effort_takes_more_work(likely_in):
    tables = {"offers": {(): "a b", ("a",): ""}, "r_pre": {"a": 0.7, "b": 0.65}, "goal": {"a": 0.6, "b": 0.2}}
    sooner, later = (likely_in(tables, effort=effort) for effort in ("frugal", "thorough"))
    assert sooner.stop_reason == "solved"
    assert sooner.rollouts < later.rollouts
    assert best(sooner) == best(later) == ["a"]


def test_a_call_that_failed_is_judged_at_once(likely_in):
    _, did = operations(likely_in, {**CHAIN, "transient": ["a"], "r_post": {"a": 0.1}}, max_rollouts=1)
    assert did == [("propose", "root"), ("score", "root"), ("execute", "a"), ("evaluate", "a")]


def test_a_call_at_the_greatest_depth_is_judged_at_once(likely_in):
    _, did = operations(likely_in, {**CHAIN, "goal": {"a": 0.9}}, max_depth=1)
    assert did == [("propose", "root"), ("score", "root"), ("execute", "a"), ("evaluate", "a")]


def test_where_every_candidate_looks_wrong_the_path_may_be_complete(likely_in):
    """A model that always has another idea does not keep the end of a path from being seen."""
    tables = {"offers": {(): "a", ("a",): "b c"}, "r_pre": {"b": 0.0, "c": 0.0}, "goal": {"a": 0.95}}
    search, did = operations(likely_in, tables)
    assert ("evaluate", "a") in did
    assert best(search) == ["a"]


@pytest.mark.parametrize("parallel", [1, 4])
def test_every_call_that_ran_is_judged_if_wished(likely_in, parallel):
    tables = {"offers": {(): "a b", ("a",): "c d", ("b",): "e"}, "r_pre": {"b": 0.7, "d": 0.6}}
    search = likely_in(tables, post_evaluation="always", parallel_rollouts=parallel)
    ran = [node for node in search.tree.nodes if node.observation]
    assert {"a", "b", "c"} <= {node.call.tool for node in ran}
    assert all(node.evaluated for node in ran)


def test_every_call_that_ran_is_judged_if_wished_before_the_budget_ends_the_search(likely_in):
    tables = {"offers": {(): "a b c d e"}, "spent": dict.fromkeys(("propose", "score", "evaluate"), ONE)}
    always = {"post_evaluation": "always", "parallel_rollouts": 4, "judge_calls": 2}
    for limit in range(1, 15):
        search = likely_in(tables, **always, max_model_calls=limit)
        assert all(node.evaluated for node in search.tree.nodes if node.observation), limit


def test_after_bad_candidates_the_state_is_asked_for_others(likely_in):
    tables = {"offers": {(): ["a b", "c"]}, "r_pre": {"a": 0.1, "b": 0.1, "c": 0.9}, "goal": {"c": 0.9}}
    search, did = operations(likely_in, tables)
    assert [tool for kind, tool in did if kind == "execute"] == ["c"]
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
    assert [tool for kind, tool in did if kind == "execute"] == ["a", "b", "g"]
    assert best(search) == ["b", "g"]


def test_nothing_is_pruned_for_a_low_score(likely_in):
    tables = {"offers": {(): "a b c d"}, "r_pre": {"a": 0.1, "b": 0.2}, "r_post": {"c": 0.0}}
    search = likely_in(tables, top_k=2, effort="thorough")
    assert {node.pruned for node in search.tree.nodes} == {None}
    assert [node.observation is not None for node in search.tree.nodes[1:5]] == [True] * 4


def test_a_write_that_the_judge_holds_for_wrong_gives_way_to_another(likely_in):
    tables = {
        "offers": {(): "send note"},
        "effects": dict.fromkeys(["send", "note"], "write"),
        "r_pre": {"send": 0.7, "note": 0.6},
        "r_post": {"send": 0.1},
    }
    search = likely_in(tables)
    assert best(search) == ["note"]
    assert best(likely_in({**tables, "r_post": {}})) == ["send"]


PAINTED = {
    "offers": {(): "paint", ("paint",): "see", ("paint", "see"): ""},
    "effects": {"paint": "sandboxed"},
    "goal": {"see": 0.95},
    "spent": dict.fromkeys(("propose", "score", "evaluate"), ONE),
}


def test_the_writes_of_a_plan_are_judged_before_it_is_returned(likely_in):
    search, did = operations(likely_in, PAINTED)
    assert did[-2:] == [("propose", "see"), ("evaluate", "paint")]
    assert (search.stop_reason, best(search)) == ("solved", ["paint", "see"])


def test_a_plan_is_cut_before_a_write_that_nobody_has_judged_when_the_budget_ends(likely_in):
    tables = {**PAINTED, "offers": {(): "look", ("look",): "paint", ("look", "paint"): "see"}}
    whole = likely_in(tables)
    assert best(whole) == ["look", "paint", "see"]
    spent = whole.spent.model_calls
    cut = likely_in(tables, max_model_calls=spent - 1)
    assert (cut.stop_reason, best(cut)) == ("max_model_calls", ["look"])


def test_a_path_goes_on_after_a_call_that_did_no_harm(likely_in):
    tables = {"offers": {(): "zoom", ("zoom",): "a"}, "r_pre": {"zoom": 0.31, "a": 0.9}, "goal": {"a": 0.95}}
    search = likely_in({**tables, "offers": {**tables["offers"], (): ["zoom"]}}, max_proposals=1)
    assert (search.stop_reason, best(search)) == ("solved", ["zoom", "a"])


def test_a_deferred_write_is_judged_at_once_and_ends_its_plan(likely_in):
    tables = {"offers": {(): "a", ("a",): "send", ("a", "send"): "b"}, "effects": {"send": "write"}}
    search, did = operations(likely_in, tables)
    assert did[-1] == ("evaluate", "send")
    assert (search.stop_reason, best(search)) == ("solved", ["a", "send"])


def test_a_judge_without_goal_scores_still_gets_the_whole_plan(likely_in):
    tables = {**CHAIN, "r_post": {"a": 0.8, "c": 0.8, "b": 0.2}, "goal": dict.fromkeys("abc")}
    search = likely_in(tables)
    assert best(search) == ["a", "c"]


def test_a_judge_that_is_down_leaves_no_plan(likely_in):
    """Not even one whose calls ran, and least of all one with writes."""
    offers = {(): "a", ("a",): "b", ("a", "b"): "c", ("a", "b", "c"): "d"}
    unscored = dict.fromkeys("abcd")
    search = likely_in({"offers": offers, "r_pre": unscored, "r_post": unscored, "effects": {"a": "sandboxed"}})
    assert (search.stop_reason, search.best()) == ("judge_failed", None)


def test_a_search_cut_short_before_anything_was_judged_returns_the_likeliest_plan(likely_in):
    search = likely_in({**CHAIN, "goal": {"c": 0.9}}, max_rollouts=2)
    assert not any(node.evaluated for node in search.tree.nodes)
    assert best(search) == ["a", "c"]


@pytest.mark.parametrize("parallel", range(1, 9))
def test_rollouts_share_what_is_worth_starting(likely_in, parallel):
    offers = {(): "a b c d", **{(tool,): f"e{tool}" for tool in "abcd"}}
    flights = []
    search = likely_in(
        {"offers": offers, "r_pre": dict.fromkeys("abcd", 0.6)},
        watch=lambda launched: flights.append(len(launched)),
        parallel_rollouts=parallel,
        proposals="per_tool",
    )
    assert 1 <= max(flights) <= parallel
    if parallel > 1:
        assert max(flights) > 1
    assert all(node.in_flight == 0 for node in search.tree.nodes)


def test_a_favourite_in_flight_keeps_other_rollouts_from_starting(likely_in):
    flights = []
    likely_in(
        {"offers": {(): "a b c", ("a",): "d"}, "r_pre": {"a": 0.95, "b": 0.35, "c": 0.35}},
        watch=lambda launched: flights.append(len(launched)),
        parallel_rollouts=4,
        max_rollouts=2,
    )
    assert max(flights) == 1


def test_a_judge_that_costs_nothing_judges_every_observation(likely_in):
    tables = {**CHAIN, "goal": {"c": 0.9}}
    paid, free = (likely_in(tables, judge_calls=calls) for calls in (1, 0))
    assert [node.call.tool for node in paid.tree.nodes[1:] if node.evaluated] == ["c"]
    assert [node.call.tool for node in free.tree.nodes[1:] if node.evaluated] == ["a", "c"]
