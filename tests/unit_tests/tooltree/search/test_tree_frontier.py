"""What may be worked on: calls to run, states to ask, observations to judge; and what is closed for good."""

from dataclasses import replace

import pytest

from langchain_tooltree.tooltree.search.config import KernelConfig
from langchain_tooltree.tooltree.search.tree import Observation, Tree

RULES = ("posterior", "smoothed")


def frontier_of(tree, **settings):
    tree.config = KernelConfig(**settings)
    return tree


def seen(node, **observation):
    node.observation = Observation(**{"content": "seen", **observation})
    return node


@pytest.fixture
def call(grow):
    """A candidate below the request."""
    tree = Tree()
    tree.root.proposals = 1
    return tree, grow(tree, tree.root, "look")


def test_a_scored_candidate_may_be_run(call):
    tree, node = call
    assert frontier_of(tree).runnable(node)
    assert not frontier_of(tree).askable(node)


@pytest.mark.parametrize(
    "change",
    [
        {"r_pre": None},
        {"pruned": "top_k"},
        {"closed": True},
        {"in_flight": 1},
        {"r_post": 0.5},
        {"observation": Observation(content="seen")},
    ],
)
def test_a_call_that_is_out_under_way_or_done_may_not_be_run(call, change):
    tree, node = call
    for name, value in change.items():
        setattr(node, name, value)
    assert not frontier_of(tree).runnable(node)


@pytest.mark.parametrize("rule", RULES)
def test_the_request_may_be_asked_from_the_start(rule):
    tree = Tree()
    assert frontier_of(tree, selection=rule).askable(tree.root)


@pytest.mark.parametrize(
    ("settings", "may"),
    [({"selection": "posterior"}, True), ({"selection": "smoothed"}, False)],
)
def test_a_call_that_brought_something_back_is_asked_unjudged_by_the_posterior_alone(
    call, settings, may
):
    tree, node = call
    seen(node)
    assert frontier_of(tree, **settings).askable(node) is may
    node.r_post = 0.5
    assert frontier_of(tree, **settings).askable(node)


@pytest.mark.parametrize(
    "change",
    [
        {"closed": True},
        {"proposing": True},
        {"finished": True},
        {"pruned": "post_evaluation"},
        {"proposals": 3},
    ],
)
def test_a_state_that_is_out_being_asked_or_asked_enough_may_not_be_asked(call, change):
    tree, node = call
    seen(node)
    for name, value in change.items():
        setattr(node, name, value)
    assert not frontier_of(tree).askable(node)


def test_nothing_follows_a_deferred_write_or_the_deepest_call(call, grow):
    tree, node = call
    seen(node)
    assert frontier_of(tree, max_depth=1).is_deepest(node)
    assert not frontier_of(tree, max_depth=1).askable(node)
    assert not frontier_of(tree, max_depth=2).is_deepest(node)
    write = grow(tree, tree.root, "send", rewards=(0.9,))
    write.call = replace(write.call, effect="write")
    assert not frontier_of(tree).askable(write)


def test_a_state_is_spent_when_every_child_is_pruned_or_closed(call, grow):
    tree, node = call
    other = grow(tree, tree.root, "ask")
    frontier = frontier_of(tree)
    assert frontier.spent(node)
    assert not frontier.spent(tree.root)
    node.pruned = "top_k"
    assert not frontier.spent(tree.root)
    other.closed = True
    assert frontier.spent(tree.root)


def test_a_state_is_closed_with_its_parents_once_nothing_is_left_below(call, grow):
    tree, node = call
    child = grow(tree, node, "ask")
    frontier = frontier_of(tree)
    for state in (tree.root, node, child):
        state.proposals = 3
    frontier.close_upwards(child)
    assert [state.closed for state in tree.nodes] == [True, True, True]


@pytest.mark.parametrize("open_end", [{"proposals": 1}, {"proposing": True}])
def test_closing_stops_at_a_state_that_is_or_may_be_asked(call, open_end):
    tree, node = call
    tree.root.proposals = node.proposals = 3
    for name, value in open_end.items():
        setattr(tree.root, name, value)
    frontier_of(tree).close_upwards(node)
    assert (node.closed, tree.root.closed) == (True, False)


def test_closing_stops_at_a_state_with_an_open_child(call, grow):
    tree, node = call
    grow(tree, tree.root, "ask")
    tree.root.proposals = node.proposals = 3
    frontier_of(tree).close_upwards(node)
    assert (node.closed, tree.root.closed) == (True, False)


def test_a_state_whose_model_had_no_more_calls_is_closed_however_often_it_was_asked(
    call,
):
    tree, node = call
    seen(node).finished = True
    tree.root.proposals = 3
    frontier_of(tree).close_upwards(node)
    assert tree.root.closed
