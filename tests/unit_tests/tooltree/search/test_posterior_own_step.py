"""Bayes' rule by hand over small trees that begin with the agent's own step."""

import math

import pytest

from tests.internals.tooltree import (
    DEEPER,
    DONE_AT_START,
    EARLY,
    EARLY_ASTRAY,
    HARMLESS_READ,
    HARMLESS_WRITE,
    NAMED,
    NAMED_ASTRAY,
    OWN_DONE,
    OWN_RIGHT,
    OWN_STEP,
    SILENT_IF_DONE,
    Work,
)

GOAL = math.exp(0.5 / 0.2**2 * 0.4)
"""What a goal score of 0.9 says; one of 0.1 says the inverse."""


def inferred(sketch, node):
    """What is inferred of a node."""
    sketch.root()
    return sketch.posterior._nodes[node.id]


def test_the_agents_own_call_is_probably_right(own):
    [call] = own.offer(own.tree.root, None)
    root = own.root()
    done = DONE_AT_START * (1 - SILENT_IF_DONE)
    still_open = (1 - DONE_AT_START) * (1 - EARLY)
    assert root.work == Work("execute", call)
    assert root.best == pytest.approx(DEEPER * OWN_RIGHT * still_open / (done + still_open))


def test_an_answer_before_any_call_by_hand(own):
    own.stop(own.tree.root, 0.9)
    root = own.root()
    # No call came with it, so none of the calls offered is the right one.
    done, still_open = DONE_AT_START * GOAL * SILENT_IF_DONE, (1 - DONE_AT_START) * EARLY
    assert (root.end, root.solution) == (0, pytest.approx(done / (done + still_open)))


def test_an_answer_after_a_call_by_hand(own):
    [call] = own.offer(own.tree.root, None)
    own.stop(own.run(call), 0.9)
    here = inferred(own, call)
    assert here.if_done == pytest.approx(GOAL * SILENT_IF_DONE / EARLY_ASTRAY)
    assert here.if_open == pytest.approx(EARLY / EARLY_ASTRAY)
    after = OWN_DONE * here.if_done + (1 - OWN_DONE) * here.if_open
    root = inferred(own, own.tree.root)
    unharmed = HARMLESS_READ * here.if_open + 1 - HARMLESS_READ
    spoilt = (1 - EARLY_ASTRAY, 1 - SILENT_IF_DONE, 1 - EARLY)
    assert root.if_open == pytest.approx(
        (OWN_RIGHT * after / unharmed + 1 - OWN_RIGHT) * unharmed * spoilt[2] / spoilt[0]
    )
    assert root.if_done == pytest.approx((HARMLESS_READ * here.if_done + 1 - HARMLESS_READ) * spoilt[1] / spoilt[0])
    assert own.root().end == call.id
    assert own.root().solution > 0.7


def test_an_answer_that_a_low_goal_doubts_makes_its_state_the_place_to_ask(own, sketch_with):
    [call] = own.offer(own.tree.root, None)
    own.stop(own.run(call), 0.1)
    root = own.root()
    assert root.work == Work("propose", call)
    assert root.solution < 0.2
    sure = sketch_with(**OWN_STEP)
    [call] = sure.offer(sure.tree.root, None)
    sure.stop(sure.run(call), 0.9)
    assert root.best > 3 * sure.root().best


def test_a_call_that_the_answer_names_comes_before_a_question(own):
    [call] = own.offer(own.tree.root, None)
    own.stop(own.run(call), 0.1)
    asking = own.root()
    [named] = own.name(call, None)
    root = own.root()
    assert (asking.work, root.work) == (Work("propose", call), Work("execute", named))
    own_part = inferred(own, named)
    assert (own_part.offered, own_part.offered_astray) == (NAMED, NAMED_ASTRAY)


def finished_before(sketch, effect):
    """A request that is fulfilled after a first call, and a further call that the agent made all the same."""
    [first] = sketch.offer(sketch.tree.root, 0.9)
    sketch.run(first)
    first.goal = 0.95
    [second] = sketch.offer(first, 0.3, effect=effect)
    sketch.stop(sketch.run(second))
    return first, second


def test_a_read_after_all_is_done_keeps_it_done_and_a_write_may_not(sketch_with):
    kept = {}
    for effect in ("read", "sandboxed"):
        sketch = sketch_with(**OWN_STEP)
        first, second = finished_before(sketch, effect)
        below, here = inferred(sketch, second), inferred(sketch, first)
        harmless = HARMLESS_READ if effect == "read" else HARMLESS_WRITE
        plan = max(plan.if_done for plan in here.plans if plan.end == second.id)
        unharmed = harmless * below.if_done
        assert plan == pytest.approx(unharmed / (unharmed + 1 - harmless) * below.plans[0].if_done)
        kept[effect] = plan
    assert kept["read"] > 0.9
    assert kept["sandboxed"] < 0.7


@pytest.mark.parametrize(("goal", "rises"), [(0.9, True), (0.1, False)])
def test_what_is_seen_below_says_how_right_the_calls_above_were(own, goal, rises):
    [first] = own.offer(own.tree.root, None, effect="sandboxed")
    own.run(first)
    [second] = own.offer(first, None, effect="sandboxed")
    own.run(second)
    before = inferred(own, own.tree.root)
    before = (before.if_open, before.if_done)
    own.stop(second, goal)
    after = inferred(own, own.tree.root).if_open
    assert (after > before[0]) is rises


def test_calls_of_one_reply_are_right_together_and_nothing_is_done_between_them(own):
    [call] = own.offer(own.tree.root, 0.8)
    other = own.together(call)
    own.run(call)
    own.run(other)
    assert inferred(own, call).if_done < 1e-20
    assert (inferred(own, other).offered, inferred(own, other).ratio) == (1.0, 1.0)
    assert own.root().work == Work("propose", other)
    own.stop(other, 0.9)
    assert own.root().end == other.id


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_plan_of_one_reply_ends_in_its_last_write(own, writes):
    [end] = own.offer(own.tree.root, 0.8, effect="write")
    for _ in range(writes - 1):
        end = own.together(end, effect="write")
    assert own.root().end == end.id
    assert own.root().work is None or own.root().work.kind == "propose"


def test_no_plan_leads_through_a_call_that_has_not_run(own):
    [read] = own.offer(own.tree.root, 0.9)
    write = own.together(read, effect="write")
    assert own.root().end != write.id
    own.run(read)
    assert own.root().end == write.id


def test_the_same_request_is_believed_done_sooner_where_calls_were_made_before(sketch_with):
    standing = []
    for done_at_start in (DONE_AT_START, OWN_DONE):
        sketch = sketch_with(done_at_start=done_at_start, **OWN_STEP)
        sketch.stop(sketch.tree.root)
        standing.append(sketch.root().solution)
    assert standing[0] < 0.5 < standing[1]
