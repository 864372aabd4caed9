"""Bayes' rule over small trees, by hand, and what holds for every tree."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_tooltree.tooltree.search.policies import (
    DEEPER,
    DEVIATION,
    DONE_AT_START,
    HARMLESS_READ,
    HARMLESS_WRITE,
    OFFERED,
    OFFERED_ASTRAY,
    P_DONE_AFTER_RIGHT_CALL,
    P_RIGHT_CALL_FIRST,
    SILENT_ASTRAY,
    SILENT_IF_DONE,
    SILENT_IF_OPEN,
)
from langchain_tooltree.tooltree.search.tree import Work
from tests.internals.tooltree import BY_POSTERIOR

GOOD, BAD = math.exp(0.4 / DEVIATION**2 * 0.2), math.exp(-0.4 / DEVIATION**2 * 0.2)
"""What a first score of 0.7 and one of 0.3 say."""


@pytest.fixture
def sketch(sketch_with):
    """A tree to draw by hand, of a request that is surely open at first."""
    return sketch_with(done_at_start=0.0, **BY_POSTERIOR)


def test_before_anything_is_known_the_request_is_asked_for_calls(sketch):
    root = sketch.root()
    assert (root.work, root.best) == (Work("propose", sketch.tree.root), 1.0)
    assert (root.probability, root.end) == (0.0, None)


def test_two_scored_candidates_by_hand(sketch):
    good, _ = sketch.offer(sketch.tree.root, 0.7, 0.3)
    root = sketch.root()
    first, second, none = (
        OFFERED * P_RIGHT_CALL_FIRST * GOOD,
        OFFERED * (1 - P_RIGHT_CALL_FIRST) * BAD,
        1 - OFFERED,
    )
    assert root.work == Work("execute", good)
    assert root.best == pytest.approx(DEEPER * first / (first + second + none))


def test_work_below_the_request_helps_only_if_that_is_not_fulfilled_already(
    sketch, sketch_with
):
    begun = sketch_with(**BY_POSTERIOR)
    for each in (sketch, begun):
        each.offer(each.tree.root, 0.7, 0.3)
    right = (
        OFFERED * P_RIGHT_CALL_FIRST * GOOD
        + OFFERED * (1 - P_RIGHT_CALL_FIRST) * BAD
        + 1
        - OFFERED
    )
    done = DONE_AT_START * (1 - SILENT_IF_DONE)
    still_open = (1 - DONE_AT_START) * right * (1 - SILENT_IF_OPEN)
    assert begun.root().best == pytest.approx(
        sketch.root().best * still_open / (done + still_open)
    )


def test_after_a_bad_offer_asking_again_is_the_best_work(sketch):
    state = sketch.tree.root
    sketch.offer(state, 0.1, 0.1)
    root = sketch.root()
    none = (1 - OFFERED) / (1 - OFFERED + OFFERED * BAD**2)
    assert root.work == Work("propose", state)
    assert root.best == pytest.approx(none * OFFERED)


def test_a_second_offer_is_expected_to_hold_the_right_call_only_if_the_first_did_not(
    sketch,
):
    sketch.offer(sketch.tree.root, 0.3)
    [later] = sketch.offer(sketch.tree.root, 0.7)
    root = sketch.root()
    early, late, none = (
        OFFERED * BAD,
        (1 - OFFERED) * OFFERED * GOOD,
        (1 - OFFERED) ** 2,
    )
    assert root.work == Work("execute", later)
    assert root.best == pytest.approx(DEEPER * late / (early + late + none))


def test_a_call_that_was_run_is_asked_for_what_follows(sketch):
    first, _ = sketch.offer(sketch.tree.root, 0.7, 0.3)
    before = sketch.root().best
    sketch.run(first)
    root = sketch.root()
    assert root.work == Work("propose", first)
    # Nothing was learnt of the call, but one that was wrong may have done no harm.
    share = before / DEEPER
    assert root.best == pytest.approx(DEEPER * (share + (1 - share) * HARMLESS_READ))


@pytest.mark.parametrize(("below", "wanted"), [(0.9, "first"), (0.1, "second")])
def test_evidence_flows_upwards(sketch, below, wanted):
    first, second = sketch.offer(sketch.tree.root, 0.7, 0.7, effect="sandboxed")
    sketch.run(first)
    [best, _] = sketch.offer(first, below, below)
    assert sketch.root().work == Work("execute", best if wanted == "first" else second)


def test_evidence_from_below_by_hand(sketch):
    first, second = sketch.offer(sketch.tree.root, 0.7, 0.7, effect="sandboxed")
    sketch.run(first)
    sketch.offer(first, 0.1, 0.1)
    root = sketch.root()
    bad = BAD**2
    astray = (1 - OFFERED_ASTRAY + OFFERED_ASTRAY * bad) * (1 - SILENT_ASTRAY)
    if_done = (1 - SILENT_IF_DONE) / astray
    if_open = (1 - OFFERED + OFFERED * bad) * (1 - SILENT_IF_OPEN) / astray
    after = P_DONE_AFTER_RIGHT_CALL * if_done + (1 - P_DONE_AFTER_RIGHT_CALL) * if_open
    unharmed = HARMLESS_WRITE * if_open + 1 - HARMLESS_WRITE
    first_right = OFFERED * P_RIGHT_CALL_FIRST * GOOD * after / unharmed
    second_right = OFFERED * (1 - P_RIGHT_CALL_FIRST) * GOOD
    assert after < 1
    assert root.work == Work("execute", second)
    assert root.best == pytest.approx(
        DEEPER * second_right / (first_right + second_right + 1 - OFFERED)
    )


def test_a_path_goes_on_after_a_wrong_call_that_did_no_harm(sketch):
    [wrong] = sketch.offer(sketch.tree.root, 0.1)
    sketch.judge(sketch.run(wrong), 0.4, 0.0)
    [right] = sketch.offer(wrong, 0.9)
    harmless = sketch.root()
    assert harmless.work == Work("execute", right)
    assert harmless.best > HARMLESS_READ / 2


def completed(sketch, goal, *, silent=True):
    """A call of which nothing is known but whether the request is fulfilled after it."""
    [call] = sketch.offer(sketch.tree.root, 0.5)
    sketch.run(call)
    if silent:
        sketch.silence(call)
    return sketch.judge(call, 0.5, goal)


def test_done_from_a_goal_score_by_hand(sketch):
    call = completed(sketch, 0.7, silent=False)
    root = sketch.root()
    said = P_DONE_AFTER_RIGHT_CALL * math.exp(2.5)
    assert root.end == call.id
    assert root.probability == pytest.approx(
        OFFERED * said / (OFFERED * (said + 1 - P_DONE_AFTER_RIGHT_CALL) + 1 - OFFERED)
    )


def test_done_from_a_silent_model_by_hand(sketch):
    [call] = sketch.offer(sketch.tree.root, 0.5)
    sketch.silence(sketch.run(call))
    root = sketch.root()
    astray = (1 - OFFERED_ASTRAY) * SILENT_ASTRAY
    if_done, if_open = SILENT_IF_DONE / astray, (1 - OFFERED) * SILENT_IF_OPEN / astray
    unharmed = HARMLESS_READ * if_open + 1 - HARMLESS_READ
    done, unfinished = (
        OFFERED * part / unharmed
        for part in (
            P_DONE_AFTER_RIGHT_CALL * if_done,
            (1 - P_DONE_AFTER_RIGHT_CALL) * if_open,
        )
    )
    assert root.end == call.id
    assert root.probability == pytest.approx(done / (done + unfinished + 1 - OFFERED))


def test_a_silent_model_is_not_believed_against_a_low_goal_score(sketch, sketch_with):
    low, high = sketch, sketch_with(done_at_start=0.0, **BY_POSTERIOR)
    completed(low, 0.1)
    completed(high, 0.9)
    assert low.root().probability < 0.5
    assert high.root().probability > 0.95


def test_a_score_that_no_judge_gave_says_nothing(sketch, sketch_with):
    unscored, neutral = sketch, sketch_with(done_at_start=0.0, **BY_POSTERIOR)
    unscored.offer(unscored.tree.root, None, 0.3)
    neutral.offer(neutral.tree.root, 0.5, 0.3)
    assert unscored.root().best == pytest.approx(neutral.root().best)


def test_a_goal_score_that_no_judge_gave_says_nothing(sketch, sketch_with):
    unscored, neutral = sketch, sketch_with(done_at_start=0.0, **BY_POSTERIOR)
    completed(unscored, None)
    completed(neutral, 0.5)
    assert unscored.root().probability == pytest.approx(neutral.root().probability)


def test_what_is_in_flight_is_busy_and_offers_no_work(sketch):
    first, second = sketch.offer(sketch.tree.root, 0.7, 0.7)
    idle = sketch.root().best
    sketch.tree.occupy(first, 1)
    root = sketch.root()
    assert root.busy == pytest.approx(idle)
    assert root.work == Work("execute", second)


def share_of(sketch, child):
    """Posterior probability of a call that was not run, read off the work that is left when no other is."""
    state = sketch.tree.root
    state.finished = True
    for other in sketch.tree.children(state):
        other.closed = other is not child
    return sketch.root().best / DEEPER


def share_of_none(sketch):
    state = sketch.tree.root
    state.finished = False
    for child in sketch.tree.children(state):
        child.closed = True
    return sketch.root().best / OFFERED


@pytest.mark.slow
@given(
    offers=st.lists(
        st.lists(st.none() | st.floats(0.0, 1.0), min_size=1, max_size=8),
        min_size=1,
        max_size=2,
    )
)
@settings(deadline=None)
def test_the_shares_of_siblings_and_of_none_of_them_sum_to_1(offers, sketch_with):
    sketch = sketch_with(done_at_start=0.0)
    for scores in offers:
        sketch.offer(sketch.tree.root, *scores)
    shares = [
        share_of(sketch, child) for child in sketch.tree.children(sketch.tree.root)
    ]
    assert [share for share in shares if not (0 < share < 1)] == []
    assert sum(shares) + share_of_none(sketch) == pytest.approx(1.0)


def test_a_deferred_write_is_a_plan_in_itself(sketch):
    [write] = sketch.offer(sketch.tree.root, 0.7, effect="write")
    root = sketch.root()
    assert root.end == write.id
    assert root.probability == pytest.approx(
        OFFERED * GOOD / (OFFERED * GOOD + 1 - OFFERED)
    )
    assert root.work == Work("propose", sketch.tree.root)


def test_a_state_that_is_being_asked_is_busy(sketch):
    sketch.tree.root.proposing = True
    assert (sketch.root().busy, sketch.root().work) == (1.0, None)
