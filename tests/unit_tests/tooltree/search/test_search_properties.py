"""What holds for every search, whatever comes of its operations: properties over random worlds and settings."""

# ruff: noqa: S311 - nothing random here is a secret

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_tooltree.tooltree.search import TreeSearch
from langchain_tooltree.tooltree.search.config import KernelConfig
from langchain_tooltree.tooltree.search.policies import DEEPER

pytestmark = pytest.mark.slow  # hundreds of searches a property

THRESHOLDS = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.4, 0.9])
BOUNDS = st.sampled_from([1.0, 0.95, 0.9, 0.5])
RULES = [
    {"selection": "posterior", "proposals": "together"},
    *(
        {"selection": form, "proposals": proposals, "pre_evaluation": pre_evaluation}
        for form in ("smoothed", "printed")
        for proposals, pre_evaluation in (
            ("together", "batched"),
            ("per_tool", "single"),
        )
    ),
]
UNDISTURBED = {"exhausted", "max_rollouts", "converged"}


def named(rule):
    return "-".join(rule.values())


CONFIGS = st.builds(
    lambda rule, **chosen: KernelConfig(**rule, **chosen),
    rule=st.sampled_from([*RULES, *RULES[:1] * 2]),
    max_rollouts=st.sampled_from([40, 30, 20, 1]),
    exploration=st.sampled_from([1.4, 0.0, 3.0]),
    pre_threshold=THRESHOLDS,
    post_threshold=THRESHOLDS,
    top_k=st.sampled_from([4, 3, 2]),
    max_depth=st.sampled_from([5, 4, 3, 1]),
    parallel_rollouts=st.integers(1, 8),
    patience=st.sampled_from([30, 12, 5]),
    max_model_calls=st.none() | st.integers(1, 120),
    seed=st.integers(0, 3),
    effort=st.sampled_from(["thorough", "balanced", "frugal"]),
    max_proposals=st.integers(1, 3),
    goal_score=st.booleans(),
    value_threshold=BOUNDS,
)
WORLDS = {"seed": st.integers(0, 10_000), "trouble": st.sampled_from([0.05, 0.0, 0.3])}


@st.composite
def searches(draw):
    """Builds a search, and the same one again."""
    config, judge_calls = draw(CONFIGS), draw(st.sampled_from([2, 0]))
    is_under_way = draw(st.booleans())
    return lambda **changes: TreeSearch(
        replace(config, **changes),
        tools=4,
        judge_calls=judge_calls,
        reserved_model_calls=1,
        is_under_way=is_under_way,
    )


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=22, deadline=None)
def test_values_are_exact_means_and_visits_are_sums(
    make, world, pure_world, run_pure, all_rewards
):
    search = make()

    def check(_):
        for node in search.tree.nodes:
            rewards = all_rewards(search.tree, node)
            own = 0 if node.call is None or not node.evaluated else 1
            assert node.visits == len(rewards)
            assert node.visits == own + search.tree.state_visits(node)
            assert node.value == pytest.approx(
                sum(rewards) / len(rewards) if rewards else 0.0, abs=1e-12
            )

    run_pure(search, pure_world(**world), watch=check)


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=22, deadline=None)
def test_only_states_that_were_reached_are_asked_and_writes_never_run(
    make, world, pure_world, run_pure
):
    search = make()
    unjudged = search.config.selection == "posterior"
    judged = set()

    def check(launched):
        for operation in launched:
            node = search.tree[operation.node]
            if operation.kind == "propose":
                reached = node.observation is not None or operation.run
                assert node.call is None or reached
                assert node.call is None or node.evaluated or unjudged
                assert not node.deferred
                assert node.pruned is None
                assert node.depth < search.config.max_depth
                assert (
                    operation.attempt
                    == node.proposals + 1
                    <= search.config.max_proposals
                )
            if operation.run:
                assert not node.deferred
                assert node.observation is None
                assert node.pruned is None
            if operation.kind == "evaluate":
                assert not unjudged
                assert node.deferred is (node.observation is None)
                assert node.id not in judged
                judged.add(node.id)

    run_pure(search, pure_world(**world), watch=check)
    for node in search.tree.nodes:
        assert node.proposals <= search.config.max_proposals
        assert node.depth <= search.config.max_depth
        assert not node.deferred or node.observation is None
        assert not (node.children and node.call and node.observation is None)


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=22, deadline=None)
def test_budgets_on_calls_are_never_overshot(make, world, pure_world, run_pure):
    search = make()
    most = search.config.max_rollouts

    def check(_):
        assert search.spent.tool_calls <= search.rollouts <= most
        assert search.spent.model_calls <= search.max_model_calls - 1
        assert (
            search.spent.model_calls + search.promised_model_calls
            <= search.max_model_calls
        )

    told = run_pure(search, pure_world(**world), watch=check)
    assert not search.ask()
    assert search.stop_reason is not None
    assert sum(outcome.observation is not None for outcome in told) <= most


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=22, deadline=None)
def test_what_is_inferred_are_probabilities(make, world, pure_world, run_pure):
    search = make(**{**RULES[0], "proposals": "together"})

    def check(_):
        outlook = search._best.outlook()
        assert 0 <= outlook.probability <= 1 + 1e-9
        assert (outlook.end is None) <= (outlook.probability == 0)
        assert 0 <= outlook.best <= DEEPER ** (search.config.max_depth)
        assert 0 <= outlook.busy <= DEEPER ** (search.config.max_depth)
        assert (outlook.best > 0) <= (outlook.work is not None)

    run_pure(search, pure_world(**world), watch=check)


@pytest.mark.parametrize("rule", RULES, ids=named)
@given(make=searches(), world=st.fixed_dictionaries(WORLDS), timing=st.integers())
@settings(max_examples=22, deadline=None)
def test_the_order_in_which_operations_end_does_not_matter(
    rule, make, world, timing, pure_world, run_pure, picture
):
    rule = {**rule, "goal_score": True}
    one, other = make(**rule), make(**rule)
    run_pure(one, pure_world(**world))
    run_pure(other, pure_world(**world), shuffle=random.Random(timing))
    assert picture(one) == picture(other)


@pytest.mark.parametrize("rule", RULES, ids=named)
@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=22, deadline=None)
def test_replaying_the_recorded_outcomes_gives_the_same_tree(
    rule, make, world, pure_world, run_pure, picture
):
    rule = {**rule, "goal_score": True}
    original, replayed = make(**rule), make(**rule)
    recorded = run_pure(original, pure_world(**world))
    for outcome in recorded:
        replayed.ask()
        replayed.tell(outcome)
    assert not replayed.ask()
    assert picture(original) == picture(replayed)


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=22, deadline=None)
def test_nothing_stays_in_flight_or_reserved_after_an_undisturbed_search(
    make, world, pure_world, run_pure
):
    search = make(goal_score=True, patience=1_000, max_model_calls=9_999)
    run_pure(search, pure_world(**world))
    if search.stop_reason in UNDISTURBED:
        assert [node.in_flight for node in search.tree.nodes] == [0] * len(search.tree)
        assert [node for node in search.tree.nodes if node.proposing] == []
        assert search.promised_model_calls == 1
    else:
        assert search.stop_reason in {"proposer_failed", "judge_failed", "solved"}


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=22, deadline=None)
def test_no_call_is_offered_twice_in_a_state_and_no_read_twice_on_a_path(
    make, world, pure_world, run_pure
):
    search = make()
    run_pure(search, pure_world(**world))
    for node in search.tree.nodes:
        offered = [child.call.key for child in search.tree.children(node)]
        assert len(offered) == len(set(offered))
        path = search.tree.path(node)
        reads = [
            (step.world, step.call.key) for step in path if step.call.effect == "read"
        ]
        assert len(reads) == len(set(reads))


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=22, deadline=None)
def test_equal_states_are_one_state_in_whatever_order_the_reads_came(
    make, world, pure_world, run_pure
):
    search = make(**RULES[0], goal_score=True)
    run_pure(search, pure_world(**world))
    states = []
    for node in search.tree.nodes:
        path = search.tree.path(node)
        if not path or path[-1].call.effect != "read":
            continue
        changes = tuple(step.call.key for step in path if step.call.effect != "read")
        states.append(
            (
                changes,
                frozenset(
                    (step.world, step.call.key)
                    for step in path
                    if step.call.effect == "read"
                ),
            )
        )
    assert len(states) == len(set(states))


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=22, deadline=None)
def test_no_call_runs_again_in_a_world_in_which_it_has_succeeded(
    make, world, pure_world, run_pure
):
    search = make(parallel_rollouts=1)

    def key(node):
        return search.tree.state_before(node).world, node.call.key

    def watch(launched):
        settled = {
            key(node)
            for node in search.tree.nodes
            if node.observation and node.observation.kind == "ok"
        }
        assert [
            operation
            for operation in launched
            if (operation.run and key(search.tree[operation.node]) in settled)
        ] == []

    run_pure(search, pure_world(**world), watch=watch)


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=22, deadline=None)
def test_pruning_follows_the_thresholds(make, world, pure_world, run_pure):
    search = make()
    run_pure(search, pure_world(**world))
    if search.config.selection == "posterior":
        assert {node.pruned for node in search.tree.nodes} == {None}
        return
    for node in search.tree.nodes[1:]:
        if node.r_pre is not None and not node.batched:
            assert (node.pruned == "pre_evaluation") is (
                node.r_pre < search.config.pre_threshold
            )
        if node.evaluated:
            assert (node.pruned == "post_evaluation") is (
                node.post_scored and node.r_post < search.config.post_threshold
            )
        else:
            assert node.pruned != "post_evaluation"


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=22, deadline=None)
def test_the_best_path_by_eq_1_ends_in_a_call_that_was_judged_and_kept(
    make, world, pure_world, run_pure
):
    search = make(goal_score=True, **RULES[1])
    run_pure(search, pure_world(**world))
    kept = [
        node
        for node in search.tree.nodes[1:]
        if node.evaluated and node.post_scored and not node.pruned
    ]
    best = search.best()
    assert (best is None) is (not kept)
    if best is not None:
        assert search.tree.path_value(best) == max(map(search.tree.path_value, kept))
        ties = [
            node
            for node in kept
            if search.tree.path_value(node) == search.tree.path_value(best)
        ]
        assert best.depth == min(node.depth for node in ties)
