"""What holds for every search, whatever comes of its operations: properties over random worlds and settings."""

# ruff: noqa: S311 - nothing random here is a secret

import random
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_tooltree import SearchConfig
from tests.internals.tooltree import DEEPER, Spent, TreeSearch

pytestmark = pytest.mark.slow  # hundreds of searches a property

THRESHOLDS = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.4, 0.9])
BOUNDS = st.sampled_from([1.0, 0.95, 0.9, 0.5])
OWN, TOGETHER, MANY, PER_TOOL, JUDGED = (
    {"proposals": proposals, "pre_evaluation": pre_evaluation}
    for proposals, pre_evaluation in (
        ("own_step", "fused"),
        ("together", "fused"),
        ("together", "batched"),
        ("per_tool", "single"),
        ("own_step", "batched"),
    )
)
RULES = [
    *({"selection": "posterior", **questions} for questions in (OWN, TOGETHER, MANY, PER_TOOL, JUDGED)),
    *({"selection": form, **questions} for form in ("smoothed", "printed") for questions in (MANY, PER_TOOL)),
]
UNDISTURBED = {"exhausted", "max_rollouts", "converged"}


def named(rule):
    return "-".join(rule.values())


def configured(rule, *, goal_score, **chosen):
    """The settings; the posterior policy needs goal scores, so it has them."""
    return SearchConfig(**rule, **chosen, goal_score=goal_score or rule["selection"] == "posterior")


CONFIGS = st.builds(
    configured,
    rule=st.sampled_from([*RULES, *RULES[:1] * 4]),
    max_rollouts=st.sampled_from([40, 30, 20, 1]),
    exploration=st.sampled_from([1.4, 0.0, 3.0]),
    pre_threshold=THRESHOLDS,
    post_threshold=THRESHOLDS,
    top_k=st.sampled_from([4, 3, 2]),
    max_depth=st.sampled_from([5, 4, 3, 1]),
    parallel_rollouts=st.integers(1, 8),
    patience=st.sampled_from([30, 12, 5]),
    max_model_calls=st.none() | st.integers(1, 120),
    max_tool_calls=st.none() | st.integers(1, 25),
    max_tokens=st.sampled_from([None, None, 2_000, 300]),
    seed=st.integers(0, 3),
    confidence=st.sampled_from([None, 0.95, 1.0, 0.5]),
    speculation=st.sampled_from([0.75, 0.1, 1.0]),
    effort=st.sampled_from(["thorough", "balanced", "frugal"]),
    post_evaluation=st.sampled_from(["needed", "always"]),
    first_play=st.sampled_from(["parent_mean", "r_pre", "zero"]),
    max_proposals=st.integers(1, 3),
    goal_score=st.booleans(),
    goal_threshold=BOUNDS,
    value_threshold=BOUNDS,
    coarse_planner=st.booleans(),
)
WORLDS = {
    "seed": st.integers(0, 10_000),
    "trouble": st.sampled_from([0.05, 0.0, 0.3]),
    "past": st.booleans(),
}


@st.composite
def searches(draw):
    """Builds a search, and the same one again."""
    config, judge_calls = draw(CONFIGS), draw(st.sampled_from([2, 0]))
    begun = draw(st.sampled_from([{}, {"turn_calls": 2}, {"turn_calls": 1, "last_failed": True}]))
    return lambda **changes: TreeSearch(
        replace(config, **changes), tools=4, judge_calls=judge_calls, reserved_model_calls=1, **begun
    )


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=150, deadline=None)
def test_values_are_exact_means_and_visits_are_sums(make, world, pure_world, run_pure, all_rewards):
    search = make()

    def check(_):
        for node in search.tree.nodes:
            rewards = all_rewards(search.tree, node)
            own = 0 if node.call is None or not node.evaluated else 1
            assert node.visits == len(rewards)
            assert node.visits == own + search.tree.state_visits(node)
            assert node.value == pytest.approx(sum(rewards) / len(rewards) if rewards else 0.0, abs=1e-12)

    run_pure(search, pure_world(**world), watch=check)


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=150, deadline=None)
def test_only_states_that_were_reached_are_asked_and_writes_never_run(make, world, pure_world, run_pure):
    search = make()
    fused = search.config.pre_evaluation == "fused"
    unjudged = search.config.selection == "posterior" and search.config.post_evaluation == "needed"
    judged = set()

    def check(launched):
        for operation in launched:
            node = search.tree[operation.node]
            if operation.kind == "propose":
                reached = node.observation is not None or node.id in operation.run
                assert node.call is None or reached
                assert node.call is None or node.evaluated or fused or (unjudged and node.observation.kind == "ok")
                assert not node.deferred
                assert node.pruned is None
                assert node.depth < search.config.max_depth
                assert operation.attempt == node.proposals + 1 <= search.config.max_proposals
                assert operation.own_step is (search.config.proposals == "own_step" and operation.attempt == 1)
            for each in operation.run:
                assert not search.tree[each].deferred
                assert search.tree[each].observation is None
                assert search.tree[each].pruned is None
            if operation.kind == "evaluate":
                assert node.answer is not None or (not fused and node.deferred is (node.observation is None))
                assert node.id not in judged
                judged.add(node.id)

    run_pure(search, pure_world(**world), watch=check)
    for node in search.tree.nodes:
        assert node.proposals <= search.config.max_proposals
        assert node.depth <= search.config.max_depth + 2, "a batch of three may begin at the last but one"
        assert not node.deferred or node.observation is None
        asked = any(not child.batched for child in search.tree.children(node))
        assert not (asked and node.call and node.observation is None)


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=150, deadline=None)
def test_the_calls_of_one_reply_stay_together(make, world, pure_world, run_pure):
    """They run in one operation unless their results are known, are followed by one another alone, and end as one."""
    search = make()

    def check(launched):
        for operation in launched:
            assert list(operation.run) == sorted(operation.run)
            for earlier, later in pairwise(operation.run):
                assert search.tree[later] in search.tree.batch(search.tree[earlier])
            if operation.kind == "propose":
                assert not search.tree.batch_goes_on(search.tree[operation.node])

    run_pure(search, pure_world(**world), watch=check)
    for node in search.tree.nodes:
        rest = [child for child in search.tree.children(node) if child.batched]
        assert len(rest) <= 1
        if rest:
            assert node.children == [rest[0].id]
            assert (node.proposals, node.answer) == (0, None)
            assert rest[0].deferred or not node.deferred, "what is deferred comes last"
    best = search.best()
    if best is not None and search.config.selection == "posterior" and search.config.pre_evaluation == "fused":
        assert not search.tree.batch_goes_on(best)


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=150, deadline=None)
def test_no_more_calls_than_the_effort_allows_are_made_beyond_the_agents_own(make, world, pure_world, run_pure):
    """Of answers that cost one model call each."""

    class Priced(pure_world):
        def answer(self, tree, operation):
            told = super().answer(tree, operation)
            calls = min(operation.model_calls, 1)
            return told.model_copy(
                update={"spent": Spent(model_calls=calls), "confidences": (0.5,) * len(told.actions)}
            )

    search = make(**RULES[0], post_evaluation="needed", goal_score=True)
    if search.config.pre_evaluation != "fused":
        return
    ended = []

    def check(_):
        if search._most_calls is not None:
            ended.append(search.budget.spent.model_calls)

    run_pure(search, Priced(**world), watch=check)
    if ended:
        assert search.budget.spent.model_calls <= ended[0] + search.config.extra_calls


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=200, deadline=None)
def test_budgets_on_calls_are_never_overshot(make, world, pure_world, run_pure):
    search = make()
    limits = search.limits

    def check(_):
        assert search.rollouts <= limits.rollouts
        assert search.budget.spent.model_calls <= limits.model_calls - 1
        assert search.budget.spent.tool_calls <= limits.tool_calls
        assert search.budget.free_model_calls >= 0
        assert search.budget.free_tool_calls >= 0

    told = run_pure(search, pure_world(**world), watch=check)
    assert search.finished
    assert search.stop_reason is not None
    assert sum(len(outcome.observations) for outcome in told) <= limits.tool_calls


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=200, deadline=None)
def test_a_spent_budget_on_calls_leaves_no_call_that_ran_unjudged(make, world, pure_world, run_pure):
    search = make(max_tokens=None, **MANY, post_evaluation="always")
    told = run_pure(search, pure_world(**world))
    if search.stop_reason in {"max_model_calls", "max_tool_calls"}:
        ran = [search.tree[outcome.node] for outcome in told if outcome.kind == "execute"]
        assert [node.label for node in ran if not node.evaluated] == []


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=150, deadline=None)
def test_what_is_inferred_are_probabilities(make, world, pure_world, run_pure):
    search = make(**RULES[0], goal_score=True)

    def check(_):
        solution, end = search._best._posterior.solution
        best, work = search._best._posterior.best
        assert 0 <= solution <= 1 + 1e-9
        assert (end is None) <= (solution == 0)
        assert 0 <= best <= DEEPER ** (search.config.max_depth + 2)
        assert 0 <= search._best._posterior.busy <= DEEPER ** (search.config.max_depth + 2)
        assert (best > 0) <= (work is not None)

    run_pure(search, pure_world(**world), watch=check)


@pytest.mark.parametrize("rule", RULES, ids=named)
@given(make=searches(), world=st.fixed_dictionaries(WORLDS), timing=st.integers())
@settings(max_examples=100, deadline=None)
def test_the_order_in_which_operations_end_does_not_matter(rule, make, world, timing, pure_world, run_pure, picture):
    rule = {**rule, "goal_score": True}
    one, other = make(**rule), make(**rule)
    run_pure(one, pure_world(**world))
    run_pure(other, pure_world(**world), shuffle=random.Random(timing))
    assert picture(one) == picture(other)


@pytest.mark.parametrize("rule", RULES, ids=named)
@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=80, deadline=None)
def test_replaying_the_recorded_outcomes_gives_the_same_tree(rule, make, world, pure_world, run_pure, picture):
    rule = {**rule, "goal_score": True}
    original, replayed = make(**rule), make(**rule)
    recorded = run_pure(original, pure_world(**world))
    outcomes = iter(recorded)
    while replayed.ask() or not replayed.finished:
        outcome = next(outcomes)
        replayed.tell(type(outcome).model_validate(outcome.model_dump()))
    assert not list(outcomes)
    assert picture(original) == picture(replayed)


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=100, deadline=None)
def test_nothing_stays_in_flight_or_reserved_after_an_undisturbed_search(make, world, pure_world, run_pure):
    search = make(
        goal_score=True, goal_threshold=1.0, patience=1_000, max_model_calls=9_999, max_tool_calls=999, max_tokens=None
    )
    run_pure(search, pure_world(**world))
    if search.stop_reason in UNDISTURBED:
        assert [node.in_flight for node in search.tree.nodes] == [0] * len(search.tree)
        assert not any(node.proposing or node.evaluating for node in search.tree.nodes)
        assert (search.budget.reserved_model_calls, search.budget.reserved_tool_calls) == (1, 0)
    else:
        assert search.stop_reason in {"proposer_failed", "judge_failed", "solved"}


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=100, deadline=None)
def test_no_call_is_offered_twice_in_a_state_and_no_read_twice_on_a_path(make, world, pure_world, run_pure):
    search = make()
    run_pure(search, pure_world(**world))
    for node in search.tree.nodes:
        offered = [child.call.key for child in search.tree.children(node)]
        assert len(offered) == len(set(offered))
        path = search.tree.path(node)
        # A read may be wanted again after a write of which nobody knew yet that it would change nothing.
        vain = list(accumulate(bool(step.observation and step.observation.unchanged) for step in path))
        made = zip(path, vain, strict=True)
        reads = [(step.world, before, step.call.key) for step, before in made if step.call.effect == "read"]
        assert len(reads) == len(set(reads))


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=100, deadline=None)
def test_equal_states_are_one_state_in_whatever_order_the_reads_came(make, world, pure_world, run_pure):
    search = make(**RULES[0], goal_score=True)
    run_pure(search, pure_world(**world))
    states = []
    for node in search.tree.nodes:
        path = search.tree.path(node)
        if not path or path[-1].call.effect != "read" or node.batched:
            continue
        changes = tuple(step.call.key for step in path if step.call.effect != "read")
        states.append((changes, frozenset((step.world, step.call.key) for step in path if step.call.effect == "read")))
    assert len(states) == len(set(states))


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=150, deadline=None)
def test_a_call_runs_once_in_a_world_unless_it_failed_for_a_passing_reason(make, world, pure_world, run_pure):
    search = make()
    settled, settled_before_any_write = set(), set()
    operations, settled_at_launch = {}, {}

    def watch(launched):
        operations.update((operation.id, operation) for operation in launched)
        settled_at_launch.update((operation.id, frozenset(settled)) for operation in launched)

    for outcome in run_pure(search, pure_world(**world), watch=watch):
        run = operations[outcome.operation].run
        for each, observation in zip(run, outcome.observations, strict=True):
            node = search.tree[each]
            key = (search.tree.parent(node).world, node.call.key)
            # What a write of the same reply would make of the world was not known when its operation was launched, so
            # a call behind it may repeat one, and be repeated by an operation that was launched meanwhile.
            if not any(search.tree[earlier].call.effect != "read" for earlier in run[: run.index(each)]):
                assert key not in settled_at_launch[outcome.operation] | settled_before_any_write
                if not observation.transient:
                    settled_before_any_write.add(key)
            if not observation.transient:
                settled.add(key)


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=100, deadline=None)
def test_pruning_follows_the_thresholds(make, world, pure_world, run_pure):
    search = make()
    run_pure(search, pure_world(**world))
    if search.config.selection == "posterior":
        assert {node.pruned for node in search.tree.nodes} == {None}
        return
    for node in search.tree.nodes[1:]:
        if node.r_pre is not None and not node.batched:
            assert (node.pruned == "pre_evaluation") is (node.r_pre < search.config.pre_threshold)
        if node.evaluated:
            assert (node.pruned == "post_evaluation") is (
                node.post_scored and node.r_post < search.config.post_threshold
            )
        else:
            assert node.pruned != "post_evaluation"


@given(make=searches(), world=st.fixed_dictionaries(WORLDS))
@settings(max_examples=100, deadline=None)
def test_the_best_path_by_eq_1_ends_in_a_call_that_was_judged_and_kept(make, world, pure_world, run_pure):
    search = make(goal_score=True, selection="smoothed", **MANY)
    run_pure(search, pure_world(**world))
    kept = [node for node in search.tree.nodes[1:] if node.evaluated and node.post_scored and not node.pruned]
    best = search.best()
    assert (best is None) is (not kept)
    if best is not None:
        assert search.tree.path_value(best) == max(map(search.tree.path_value, kept))
        ties = [node for node in kept if search.tree.path_value(node) == search.tree.path_value(best)]
        assert best.depth == min(node.depth for node in ties)
