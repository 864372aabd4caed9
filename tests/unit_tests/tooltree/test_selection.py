import math

import pytest

from langchain_tooltree import SearchConfig
from langchain_tooltree.tooltree.selection import UpperConfidence
from langchain_tooltree.tooltree.tree import Tree


def select(tree, *, expandable=lambda _: False, **settings):
    return UpperConfidence(SearchConfig(**settings)).select(tree, expandable)


def score(state, state_visits, child, **settings):
    return UpperConfidence(SearchConfig(**settings)).score(state, state_visits, child)


def test_the_smoothed_form_by_hand(grow):
    tree = Tree()
    child = grow(tree, tree.root, "a", r_pre=0.5, rewards=(0.6, 0.8))
    # Q = 0.7, lambda = 1.4, N(s) = 5, N(s,a) = 2:  0.7 + 1.4 * 0.5 * sqrt(ln 6) / 3
    assert score(tree.root, 5, child) == pytest.approx(1.0123321, abs=1e-6)


def test_the_printed_form_by_hand(grow):
    tree = Tree()
    child = grow(tree, tree.root, "a", r_pre=0.5, rewards=(0.6, 0.8))
    # 0.7 + 1.4 * 0.5 * sqrt(ln 5 / 2)
    assert score(tree.root, 5, child, selection="printed") == pytest.approx(1.3279429, abs=1e-6)


def test_the_printed_form_is_defined_after_a_single_visit(grow):
    tree = Tree()
    child = grow(tree, tree.root, "a", rewards=(0.6,))
    assert score(tree.root, 1, child, selection="printed") == pytest.approx(0.6)


@pytest.mark.parametrize(("first_play", "value"), [("parent_mean", 0.6), ("r_pre", 0.5), ("zero", 0.0)])
def test_first_play_values(grow, first_play, value):
    tree = Tree()
    grow(tree, tree.root, "visited", rewards=(0.6,))
    fresh = grow(tree, tree.root, "fresh", r_pre=0.5)
    bonus = 1.4 * 0.5 * math.sqrt(math.log(2))
    assert score(tree.root, 1, fresh, first_play=first_play) == pytest.approx(value + bonus)


def test_the_printed_form_visits_every_child_once_in_the_order_of_r_pre(grow):
    tree = Tree()
    grow(tree, tree.root, "visited", r_pre=1.0, rewards=(1.0,))
    grow(tree, tree.root, "low", r_pre=0.4)
    high = grow(tree, tree.root, "high", r_pre=0.6)
    assert score(tree.root, 1, high, selection="printed") == math.inf
    assert select(tree, selection="printed") is high


def test_exploration_decays_with_the_depth_of_the_state(grow):
    tree = Tree()
    first = grow(tree, tree.root, "first", rewards=(0.5,))
    second = grow(tree, first, "second", r_pre=1.0, rewards=(0.5,))
    full = score(first, 1, second) - 0.5
    assert score(first, 1, second, exploration_decay=0.5) - 0.5 == pytest.approx(full / 2)
    assert score(tree.root, 1, first, exploration_decay=0.5) == score(tree.root, 1, first)


def test_ties_go_to_the_larger_n(grow):
    tree = Tree()
    grow(tree, tree.root, "once", rewards=(0.5,))
    twice = grow(tree, tree.root, "twice", rewards=(0.5, 0.5))
    assert select(tree, exploration=0.0, expandable=lambda node: node.visits in {1, 2}) is twice


def test_further_ties_go_to_the_larger_r_pre(grow):
    tree = Tree()
    grow(tree, tree.root, "low", r_pre=0.4)
    high = grow(tree, tree.root, "high", r_pre=0.6)
    grow(tree, tree.root, "middle", r_pre=0.5)
    assert select(tree, exploration=0.0, first_play="zero") is high


def test_the_last_ties_go_to_the_seeded_jitter(grow):
    chosen = set()
    for seed in range(20):
        tree = Tree(seed=seed)
        children = [grow(tree, tree.root, name) for name in "abc"]
        winner = select(tree)
        assert winner is max(children, key=tree.jitter)
        chosen.add(winner.id)
    assert len(chosen) == 3


def test_a_state_that_may_be_asked_comes_before_its_children(grow):
    tree = Tree()
    grow(tree, tree.root, "child")
    assert select(tree, expandable=lambda node: node is tree.root) is tree.root


def test_rollouts_in_flight_lower_the_score(grow):
    tree = Tree()
    child = grow(tree, tree.root, "a", rewards=(0.5, 0.5))
    free = score(tree.root, 4, child)
    tree.occupy(child, 1)
    # 0.5 + 1.4 * 0.5 * sqrt(ln 5) / (1 + 2 + 1)
    assert score(tree.root, 4, child) == pytest.approx(0.5 + 0.7 * math.sqrt(math.log(5)) / 4)
    assert score(tree.root, 4, child) < free


def test_rollouts_in_flight_spread_over_equal_branches(grow):
    tree = Tree()
    for name in "abc":
        grow(tree, tree.root, name, rewards=(0.5,))
    taken = []
    for _ in range(6):
        node = select(tree, expandable=lambda node: node is not tree.root)
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
    assert select(tree, expandable=lambda node: node is not tree.root) is good
    tree.occupy(other, 1)
    # N(s) = 3: 0.97 + .42 * sqrt(ln 4) / 2 = 1.217 against 0.5 + 1.26 * sqrt(ln 4) / 2 = 1.242
    assert select(tree, expandable=lambda node: node is not tree.root) is promising


def test_a_child_whose_first_run_is_under_way_is_passed_over(grow):
    tree = Tree()
    best = grow(tree, tree.root, "best", r_pre=0.9)
    second = grow(tree, tree.root, "second", r_pre=0.5)
    tree.occupy(best, 1)
    assert select(tree) is second
    tree.occupy(second, 1)
    assert select(tree) is None


@pytest.mark.parametrize("change", [{"pruned": "top_k"}, {"closed": True}, {"r_pre": None}])
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
