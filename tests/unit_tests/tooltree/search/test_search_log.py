"""Every event of a search, as it is told."""

import pytest

from tests.internals.tooltree import Observation, Rollout, SearchLog, Spent, Tree


@pytest.fixture
def looked(grow):
    """A rollout that works at a call of a small tree."""
    tree = Tree()
    node = grow(tree, tree.root, "look", r_pre=0.7)
    return tree, node, Rollout(5, node)


HERE = {"node": 1, "rollout": 5}


def test_a_rollout_that_begins(looked):
    log = SearchLog()
    log.selected(looked[2])
    assert log.take() == [{"type": "select", **HERE}]


def test_what_was_paid(looked):
    log = SearchLog()
    log.spent(Spent(model_calls=2, tool_calls=1, input_tokens=30, output_tokens=4), rollouts=3)
    assert log.take() == [{"type": "budget", "rollouts": 3, "model_calls": 2, "tool_calls": 1, "tokens": 34}]


def test_a_proposal(looked):
    tree, node, rollout = looked
    log = SearchLog()
    log.proposed(rollout, tree.root, [node], ["bad(): refused"])
    told = {"type": "propose", "node": 0, "rollout": 5, "calls": ["look()"], "dropped": ["bad(): refused"]}
    assert log.take() == [told]


@pytest.mark.parametrize("scored", [True, False])
def test_a_candidate_that_was_scored(looked, scored):
    _, node, rollout = looked
    node.pre_scored = scored
    log = SearchLog()
    log.judged(rollout, node)
    assert log.take() == [{"type": "judge", **HERE, "call": "look()", "r_pre": 0.7, "scored": scored}]


@pytest.mark.parametrize("cached", [True, False])
def test_a_call_that_was_run(looked, cached):
    _, _, rollout = looked
    log = SearchLog()
    log.executed(rollout, Observation(content="late", kind="timeout"), cached=cached)
    assert log.take() == [{"type": "execute", **HERE, "call": "look()", "status": "timeout", "cached": cached}]


@pytest.mark.parametrize(("goal", "scored"), [(0.4, True), (None, True), (0.5, False)])
def test_a_call_that_was_judged(looked, goal, scored):
    _, node, rollout = looked
    node.r_post, node.goal, node.post_scored = 0.6, goal, scored
    log = SearchLog()
    log.evaluated(rollout, node)
    told = {"type": "evaluate", **HERE, "call": "look()", "r_post": 0.6, "goal": goal, "scored": scored}
    assert log.take() == [told]


def test_a_call_that_is_out(looked):
    _, node, rollout = looked
    log = SearchLog()
    log.pruned(rollout, node, "top_k")
    assert log.take() == [{"type": "prune", **HERE, "call": "look()", "reason": "top_k"}]


def test_another_best_path(looked, grow):
    tree, node, _ = looked
    log = SearchLog()
    log.best(tree.path(grow(tree, node, "ask")), 0.9)
    assert log.take() == [{"type": "best", "node": 2, "value": 0.9, "calls": ["look()", "ask()"]}]


def test_the_end():
    log = SearchLog()
    log.stopped("exhausted", 7)
    assert log.take() == [{"type": "stop", "reason": "exhausted", "rollouts": 7}]


def test_events_come_in_order_and_are_taken_once(looked):
    _, _, rollout = looked
    log = SearchLog()
    log.selected(rollout)
    log.stopped("cancelled", 1)
    assert [event["type"] for event in log.take()] == ["select", "stop"]
    assert log.take() == []
