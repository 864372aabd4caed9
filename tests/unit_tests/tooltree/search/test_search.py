"""How a search grows its tree, on small worlds whose every answer is given."""

import re
import textwrap
from collections import deque
from dataclasses import replace

import pytest

from langchain_tooltree.tooltree import search as kernel
from langchain_tooltree.tooltree.search import TreeSearch
from langchain_tooltree.tooltree.search.config import KernelConfig
from langchain_tooltree.tooltree.search.policies import UCTPolicy
from langchain_tooltree.tooltree.search.tree import Work
from tests.internals.tooltree import BY_POSTERIOR


def names(search, *nodes):
    return [search.tree[node].call.tool for node in nodes]


def best(search):
    return (
        [step.call.tool for step in search.tree.path(search.best())]
        if search.best()
        else []
    )


def by_tool(search):
    return {node.call.tool: node for node in search.tree.nodes[1:]}


def test_one_rollout_proposes_scores_runs_and_evaluates_one_call(search_in):
    launched = []
    search = search_in(
        {"offers": {(): "a b"}, "r_pre": {"a": 0.5, "b": 0.9}},
        watch=launched.extend,
        max_rollouts=1,
    )
    assert [operation.kind for operation in launched] == [
        "propose",
        "score",
        "execute",
        "evaluate",
    ]
    assert [operation.id for operation in launched] == [0, 1, 2, 3]
    nodes = by_tool(search)
    assert nodes["b"].evaluated
    assert nodes["b"].observation.content == "b ran"
    assert not nodes["a"].evaluated
    assert search.stop_reason == "max_rollouts"


def test_a_later_rollout_runs_a_sibling_that_waits_without_asking_again(search_in):
    launched = []
    search_in(
        {"offers": {(): "a b"}, "r_pre": {"b": 0.5}, "r_post": {"a": 0.1}},
        watch=launched.extend,
        max_rollouts=2,
    )
    assert [operation.kind for operation in launched[4:]] == ["execute", "evaluate"]


def test_no_child_is_expanded_before_its_own_call_has_run(search_in):
    ran, expanded = set(), []

    def watch(launched):
        for operation in launched:
            if operation.kind == "execute":
                ran.add(operation.node)
            if operation.kind == "propose" and operation.node:
                expanded.append(operation.node)
                assert operation.node in ran

    offers = {(): "a b c", ("a",): "d e", ("b",): "f g", ("c",): "h i"}
    search_in(
        {"offers": offers},
        watch=watch,
        max_rollouts=9,
        parallel_rollouts=3,
        max_depth=2,
    )
    assert sorted(expanded) == [1, 2, 3]


def test_low_scores_are_pruned_before_they_run(search_in):
    search = search_in({"offers": {(): "a b c"}, "r_pre": {"a": 0.29, "b": 0.3}})
    assert {tool: node.pruned for tool, node in by_tool(search).items()} == {
        "a": "pre_evaluation",
        "b": None,
        "c": None,
    }
    assert by_tool(search)["a"].observation is None


def test_only_the_best_top_k_candidates_are_kept(search_in):
    search = search_in(
        {"offers": {(): "a b c d"}, "r_pre": {"a": 0.5, "b": 0.9, "c": 0.6, "d": 0.7}},
        top_k=2,
    )
    assert {
        tool for tool, node in by_tool(search).items() if node.pruned == "top_k"
    } == {"a", "c"}


def test_a_bad_observation_closes_the_node(search_in):
    search = search_in(
        {"offers": {(): "a b", ("b",): "c"}, "r_post": {"a": 0.39, "b": 0.4}}
    )
    nodes = by_tool(search)
    assert nodes["a"].pruned == "post_evaluation"
    assert nodes["a"].proposals == 0
    assert nodes["b"].pruned is None
    assert nodes["c"].parent == nodes["b"].id


def test_a_deferred_write_is_judged_but_never_run(search_in):
    launched = []
    search = search_in(
        {"offers": {(): "send"}, "effects": {"send": "write"}, "goal": {"send": 0.9}},
        watch=launched.extend,
    )
    assert [operation.kind for operation in launched] == [
        "propose",
        "score",
        "evaluate",
    ]
    send = by_tool(search)["send"]
    assert (send.observation, send.r_post, send.closed) == (None, 0.8, True)
    assert search.spent.tool_calls == 0
    assert best(search) == ["send"]


def test_a_state_is_asked_again_only_when_all_it_offered_has_failed(search_in):
    attempts = []

    def watch(launched):
        attempts.extend((o.node, o.attempt) for o in launched if o.kind == "propose")

    search = search_in(
        {"offers": {(): ["a b", "c", "d"]}, "r_post": {"a": 0.1, "b": 0.1, "d": 0.1}},
        watch=watch,
        max_proposals=3,
    )
    nodes = by_tool(search)
    assert attempts == [(0, 1), (0, 2), (nodes["c"].id, 1), (0, 3)]
    assert search.stop_reason == "exhausted"


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_state_is_asked_at_most_max_proposals_times(search_in, limit):
    attempts = []
    search = search_in(
        {
            "offers": {(): ["a", "b", "c", "d", "e"]},
            "r_pre": dict.fromkeys("abcde", 0.0),
        },
        watch=lambda launched: attempts.extend(
            o.attempt for o in launched if (o.kind, o.node) == ("propose", 0)
        ),
        max_proposals=limit,
        max_depth=1,
    )
    assert attempts == list(range(1, limit + 1))
    assert search.tree.root.closed


def test_a_model_that_calls_nothing_more_is_not_asked_again(search_in):
    search = search_in({"offers": {}}, max_proposals=5)
    assert (search.tree.root.proposals, search.stop_reason) == (1, "exhausted")
    assert search.tree.root.finished


def test_calls_known_here_or_made_on_the_path_are_dropped_with_the_reason(search_in):
    search = search_in({"offers": {(): "a a", ("a",): "a b"}})
    assert search.tree.root.dropped == ["a(): already proposed here"]
    assert search.tree[1].dropped == ["a(): already made on this path"]
    assert names(search, *search.tree[1].children) == ["b"]


def test_a_read_may_be_repeated_after_the_world_has_changed(search_in):
    search = search_in(
        {
            "offers": {(): "a", ("a",): "paint", ("a", "paint"): "a"},
            "effects": {"paint": "sandboxed"},
        }
    )
    assert names(search, 1, 2, 3) == ["a", "paint", "a"]
    assert search.cache_hits == 0


def test_an_observation_is_reused_in_the_same_world(search_in):
    ran = []

    def watch(launched):
        ran.extend(o.node for o in launched if o.kind == "execute")

    search = search_in({"offers": {(): "a b", ("a",): "c", ("b",): "c"}}, watch=watch)
    again = [node for node in search.tree.nodes[1:] if node.call.tool == "c"]
    assert len(again) == 2
    assert sum(node.id in ran for node in again) == 1
    assert again[0].observation == again[1].observation
    assert search.cache_hits == 1


def test_a_failure_is_not_reused(search_in):
    ran = []
    search = search_in(
        {"offers": {(): "a b", ("a",): "c", ("b",): "c"}, "failing": {"c"}},
        watch=lambda launched: ran.extend(
            o.node for o in launched if o.kind == "execute"
        ),
    )
    assert len(ran) == 4
    assert search.cache_hits == 0


def test_a_call_that_is_being_run_is_waited_for_not_run_twice(search_in):
    """Two rollouts reach the same call in the same world at once."""
    ran = []
    search = search_in(
        {"offers": {(): "a b", ("a",): "c", ("b",): "c"}},
        watch=lambda launched: ran.extend(
            o.node for o in launched if o.kind == "execute"
        ),
        parallel_rollouts=2,
    )
    assert len(ran) == 3
    assert search.cache_hits == 1
    assert [
        node.visits for node in search.tree.nodes if node.call and node.call.tool == "c"
    ] == [1, 1]


def test_annealing_prunes_less_or_more_at_each_depth(search_in):
    tables = {
        "offers": {(): "a b", ("a",): "c d"},
        "r_pre": {"a": 0.9, "b": 0.29, "c": 0.29, "d": 0.26},
    }
    nodes = by_tool(search_in(tables, threshold_annealing=0.9))  # tau_pre .3, then .27
    assert {
        tool for tool, node in nodes.items() if node.pruned == "pre_evaluation"
    } == {"b", "d"}


def test_an_unscored_candidate_takes_the_threshold_and_is_marked(search_in):
    search = search_in({"offers": {(): "a b"}, "r_pre": {"a": None, "b": 0.5}})
    a, b = by_tool(search)["a"], by_tool(search)["b"]
    assert (a.r_pre, a.pre_scored, a.pruned) == (0.3, False, None)
    assert (b.r_pre, b.pre_scored) == (0.5, True)


def test_an_unscored_observation_takes_the_parents_mean_and_is_marked(search_in):
    search = search_in(
        {
            "offers": {(): "a b"},
            "r_pre": {"a": 0.9, "b": 0.5},
            "r_post": {"a": 0.7, "b": None},
        }
    )
    b = by_tool(search)["b"]
    assert (b.r_post, b.post_scored, b.pruned) == (0.7, False, None)


def test_the_first_unscored_observation_takes_the_threshold(search_in):
    search = search_in({"offers": {(): "a"}, "r_post": {"a": None}}, max_rollouts=1)
    assert by_tool(search)["a"].r_post == 0.4
    assert search.best() is None


def test_a_missing_goal_score_is_inherited(search_in):
    search = search_in(
        {"offers": {(): "a", ("a",): "b"}, "goal": {"a": 0.6, "b": None}}
    )
    assert by_tool(search)["b"].goal == 0.6
    alone = search_in({"offers": {(): "a"}, "goal": {"a": None}})
    assert by_tool(alone)["a"].goal == 0.5


def test_without_a_tools_outcome_the_error_becomes_the_observation(
    table_world, run_pure
):
    class Lost(table_world):
        def answer(self, tree, operation):
            outcome = super().answer(tree, operation)
            return (
                replace(outcome, observation=None, error="lost")
                if operation.run
                else outcome
            )

    search = TreeSearch(KernelConfig(**BY_POSTERIOR, max_rollouts=1))
    run_pure(search, Lost(offers={(): "a"}))
    assert (search.tree[1].observation.kind, search.tree[1].observation.content) == (
        "exception",
        "lost",
    )


def test_parallel_rollouts_are_in_flight_together(search_in):
    offers = {(): "a b c d", **{(tool,): f"e{tool}" for tool in "abcd"}}
    most = {}
    for parallel in range(1, 9):
        widths = []
        search_in(
            {"offers": offers},
            watch=lambda launched, w=widths: w.append(len(launched)),
            parallel_rollouts=parallel,
        )
        most[parallel] = max(widths)
    assert most[1] == 1
    assert most[2] == 2
    assert most[8] >= 3


def test_outcomes_are_told_in_the_order_of_launch_only(table_world):
    search = TreeSearch(
        KernelConfig(selection="smoothed", parallel_rollouts=2), judge_calls=0
    )
    world = table_world(offers={(): "a b"})
    (first,) = search.ask()
    search.tell(world.answer(search.tree, first))
    (scoring,) = search.ask()
    search.tell(world.answer(search.tree, scoring))
    one, other = search.ask()
    with pytest.raises(ValueError, match=f"{one.id} is next, got {other.id}"):
        search.tell(world.answer(search.tree, other))


def test_a_policy_can_take_the_place_of_eq_1(table_world, run_pure):
    class Oldest(UCTPolicy):
        """Works at the oldest node first."""

        def select(self, tree):
            for node in tree.nodes:
                if tree.askable(node):
                    return Work("propose", node)
                if tree.runnable(node):
                    return Work("execute", node)
            return None

        def after_scoring(self, tree, _):
            return self.select(tree)

    config = KernelConfig(
        selection="smoothed", max_rollouts=4, max_proposals=1, parallel_rollouts=1
    )
    search = TreeSearch(config, policy=Oldest(config))
    run_pure(
        search, table_world(offers={(): "a b c"}, r_pre={"a": 0.5, "b": 0.6, "c": 0.9})
    )
    selected = [
        event["node"] for event in search.take_events() if event["type"] == "select"
    ]
    assert selected == [0, 1, 2, 2]
    assert [node.evaluated for node in search.tree.nodes[1:]] == [True, True, False]


def test_the_example_of_the_kernel_runs():
    search_all, perform = (
        textwrap.dedent(block)
        for block in re.findall(
            r"(?:^    .*\n|^\n(?=    ))+", kernel.__doc__, re.MULTILINE
        )
    )
    names = {"deque": deque, **vars(kernel)}
    exec(perform + search_all, names)  # noqa: S102 - own documentation
    assert [node.label for node in names["best"]] == ["look()"]
    assert names["search"].stop_reason == "solved"
