import math

import pytest

from langchain_tooltree.tooltree.search.config import KernelConfig
from langchain_tooltree.tooltree.search.policies import UCTPolicy
from langchain_tooltree.tooltree.search.tree import Tree, Work


def work(tree, *, askable=lambda _: False, **settings):
    """What Eq. 1 works on where a test says which states may be asked."""
    tree.config = KernelConfig(
        **{"selection": "smoothed", "seed": tree.config.seed, **settings}
    )
    tree.askable, tree.spent = askable, lambda _: True
    return UCTPolicy(tree.config).select(tree)


def select(tree, **settings):
    found = work(tree, **settings)
    return found and found.node


def score(state, state_visits, child, **settings):
    return UCTPolicy(KernelConfig(**{"selection": "smoothed", **settings})).score(
        state, state_visits, child
    )


def test_the_smoothed_form_by_hand(grow):
    tree = Tree()
    child = grow(tree, tree.root, "a", r_pre=0.5, rewards=(0.6, 0.8))
    # Q = 0.7, lambda = 1.4, N(s) = 5, N(s,a) = 2:  0.7 + 1.4 * 0.5 * sqrt(ln 6) / 3
    assert score(tree.root, 5, child) == pytest.approx(1.0123321, abs=1e-6)


def test_the_printed_form_by_hand(grow):
    tree = Tree()
    child = grow(tree, tree.root, "a", r_pre=0.5, rewards=(0.6, 0.8))
    # 0.7 + 1.4 * 0.5 * sqrt(ln 5 / 2)
    assert score(tree.root, 5, child, selection="printed") == pytest.approx(
        1.3279429, abs=1e-6
    )


def test_annealing_weighs_exploration_less_at_each_depth(grow):
    tree = Tree()
    parent = grow(tree, tree.root, "a", rewards=(0.7,))
    child = grow(tree, parent, "b", r_pre=0.5, rewards=(0.6, 0.8))
    # 0.7 + 1.4 * 0.9 * 0.5 * sqrt(ln 5 / 2)
    annealed = score(parent, 5, child, selection="printed", exploration_annealing=0.9)
    assert annealed == pytest.approx(1.2651486, abs=1e-6)


def test_the_printed_form_is_defined_after_a_single_visit(grow):
    tree = Tree()
    child = grow(tree, tree.root, "a", rewards=(0.6,))
    assert score(tree.root, 1, child, selection="printed") == pytest.approx(0.6)


def test_a_child_never_visited_takes_its_parents_mean(grow):
    tree = Tree()
    grow(tree, tree.root, "visited", rewards=(0.6,))
    fresh = grow(tree, tree.root, "fresh", r_pre=0.5)
    bonus = 1.4 * 0.5 * math.sqrt(math.log(2))
    assert score(tree.root, 1, fresh) == pytest.approx(0.6 + bonus)


def test_the_printed_form_visits_every_child_once_in_the_order_of_r_pre(grow):
    tree = Tree()
    grow(tree, tree.root, "visited", r_pre=1.0, rewards=(1.0,))
    grow(tree, tree.root, "low", r_pre=0.4)
    high = grow(tree, tree.root, "high", r_pre=0.6)
    assert score(tree.root, 1, high, selection="printed") == math.inf
    assert select(tree, selection="printed") is high


def test_ties_go_to_the_larger_n(grow):
    tree = Tree()
    grow(tree, tree.root, "once", rewards=(0.5,))
    twice = grow(tree, tree.root, "twice", rewards=(0.5, 0.5))
    assert (
        select(tree, exploration=0.0, askable=lambda node: node.visits in {1, 2})
        is twice
    )


def test_the_last_ties_go_to_the_seeded_jitter(grow):
    chosen = set()
    for seed in range(20):
        tree = Tree(KernelConfig(seed=seed))
        children = [grow(tree, tree.root, name) for name in "abc"]
        winner = select(tree)
        assert winner is max(children, key=tree.jitter)
        chosen.add(winner.id)
    assert len(chosen) == 3


def test_rollouts_in_flight_lower_the_score(grow):
    tree = Tree()
    child = grow(tree, tree.root, "a", rewards=(0.5, 0.5))
    free = score(tree.root, 4, child)
    tree.occupy(child, 1)
    # 0.5 + 1.4 * 0.5 * sqrt(ln 5) / (1 + 2 + 1)
    assert score(tree.root, 4, child) == pytest.approx(
        0.5 + 0.7 * math.sqrt(math.log(5)) / 4
    )
    assert score(tree.root, 4, child) < free


def test_rollouts_in_flight_spread_over_equal_branches(grow):
    tree = Tree()
    for name in "abc":
        grow(tree, tree.root, name, rewards=(0.5,))
    taken = []
    for _ in range(6):
        node = select(tree, askable=lambda node: node is not tree.root)
        tree.occupy(node, 1)
        taken.append(node.id)
    assert sorted(taken[:3]) == sorted(taken[3:]) == [1, 2, 3]


def test_rollouts_in_flight_below_a_state_raise_its_visits(grow):
    tree = Tree()
    good = grow(tree, tree.root, "good", r_pre=0.3, rewards=(0.97,))
    promising = grow(tree, tree.root, "promising", r_pre=0.9, rewards=(0.5,))
    other = grow(tree, tree.root, "other", r_pre=0.3)
    other.closed = True
    # N(s) = 2: 0.97 + .42 * sqrt(ln 3) / 2 = 1.190 against 0.5 + 1.26 * sqrt(ln 3) / 2 = 1.160
    assert select(tree, askable=lambda node: node is not tree.root) is good
    tree.occupy(other, 1)
    # N(s) = 3: 0.97 + .42 * sqrt(ln 4) / 2 = 1.217 against 0.5 + 1.26 * sqrt(ln 4) / 2 = 1.242
    assert select(tree, askable=lambda node: node is not tree.root) is promising


@pytest.mark.parametrize(
    "change", [{"pruned": "top_k"}, {"closed": True}, {"r_pre": None}]
)
def test_pruned_closed_and_unscored_children_are_passed_over(grow, change):
    tree = Tree()
    best = grow(tree, tree.root, "best", r_pre=0.9)
    second = grow(tree, tree.root, "second", r_pre=0.5)
    for name, value in change.items():
        setattr(best, name, value)
    assert select(tree) is second


def test_where_a_branch_has_nothing_to_offer_the_next_best_is_taken(grow):
    tree = Tree()
    best = grow(tree, tree.root, "best", r_pre=0.9, rewards=(0.9,))
    under_way = grow(tree, best, "under way")
    tree.occupy(under_way, 1)
    second = grow(tree, tree.root, "second", r_pre=0.3)
    assert select(tree) is second


def test_eq_1_says_what_there_is_to_do(grow):
    tree = Tree()
    assert work(tree, askable=lambda node: node is tree.root) == Work(
        "propose", tree.root
    )
    call = grow(tree, tree.root, "look")
    assert work(tree) == Work("execute", call)


def test_a_state_that_may_be_asked_again_is_left_alone_while_it_has_something_to_explore(
    grow,
):
    tree = Tree()
    tree.root.proposals = 1
    call = grow(tree, tree.root, "look")
    config = KernelConfig(selection="smoothed", max_proposals=2)
    policy, tree.config = UCTPolicy(config), config
    assert policy.select(tree) == Work("execute", call)
    call.closed = True
    assert policy.select(tree) == Work("propose", tree.root)


def test_under_eq_1_a_rollout_runs_the_best_of_its_candidates_and_has_it_judged(grow):
    tree = Tree()
    best, second = grow(tree, tree.root, "best"), grow(tree, tree.root, "second")
    config = KernelConfig(selection="smoothed")
    policy, tree.config = UCTPolicy(config), config
    assert policy.after_scoring(tree, [best, second]) == Work("execute", best)
    assert policy.after_scoring(tree, []) is None


def test_the_posterior_policy_does_the_best_work_there_is(sketch):
    good, _ = sketch.offer(sketch.tree.root, 0.7, 0.3)
    assert sketch.posterior.select() == Work("execute", good)


@pytest.mark.parametrize(("score", "starts"), [(0.6, True), (0.45, False)])
def test_work_that_promises_much_less_than_what_is_in_flight_waits_for_it(
    sketch, score, starts
):
    first, second = sketch.offer(sketch.tree.root, 0.6, score)
    sketch.tree.occupy(first, 1)
    outlook = sketch.posterior.outlook()
    assert (outlook.best >= 0.75 * outlook.busy) is starts
    assert sketch.posterior.select() == (Work("execute", second) if starts else None)
