"""What a judge's scores say: likelihood ratios by hand, and the deviation that is learnt."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.internals.tooltree import DEVIATION, LEAST_DEVIATION, STRONGEST, JudgeCalibration

SCORES = st.floats(0.0, 1.0)


def taught(*scores):
    calibration = JudgeCalibration()
    fitted = [position for position, score in enumerate(scores, start=1) if calibration.learn(score)]
    return calibration, fitted


def test_one_score_by_hand():
    # (0.7 - 0.3) / 0.2 ** 2 * (0.8 - 0.5) = 3
    assert JudgeCalibration().call_ratio(0.8) == pytest.approx(math.exp(3))


def test_two_scores_of_a_call_share_half_of_their_error():
    # variance 0.04 * (0.5 + 0.5 / 2) = 0.03, mean 0.65: 0.4 / 0.03 * 0.15 = 2
    assert JudgeCalibration().call_ratio(0.8, 0.5) == pytest.approx(math.exp(2))


def test_two_equal_scores_say_more_than_one_but_less_than_twice_as_much():
    once, twice = (math.log(JudgeCalibration().call_ratio(*scores)) for scores in ([0.7], [0.7, 0.7]))
    assert once < twice < 2 * once


def test_a_goal_score_by_hand():
    # (0.75 - 0.25) / 0.2 ** 2 * (0.7 - 0.5) = 2.5
    assert JudgeCalibration().goal_ratio(0.7) == pytest.approx(math.exp(2.5))


def test_a_score_between_right_and_wrong_says_nothing_and_neither_does_none():
    calibration = JudgeCalibration()
    assert calibration.call_ratio() == 1
    assert calibration.call_ratio(0.5) == calibration.goal_ratio(0.5) == 1


def test_no_score_is_proof():
    sure = JudgeCalibration(deviation=LEAST_DEVIATION)
    assert sure.call_ratio(1.0) == pytest.approx(math.exp(STRONGEST))
    assert sure.call_ratio(0.0, 0.0) == pytest.approx(math.exp(-STRONGEST))
    assert sure.goal_ratio(1.0) == pytest.approx(math.exp(STRONGEST))


def test_a_judge_that_scores_nearly_all_calls_alike_is_trusted_more_but_not_without_bound():
    assert taught(*[0.3] * 10)[0].deviation == LEAST_DEVIATION


def test_a_judge_whose_scores_are_all_over_the_place_is_trusted_less():
    # squares about the mean 10 * 0.25, less 10 * 0.015; (15 * 0.04 + 2.35) / 25 = 0.118
    assert taught(*[0.0, 1.0] * 5)[0].deviation == pytest.approx(math.sqrt(0.118))


def test_the_deviation_is_fitted_after_ten_scores_and_then_after_a_quarter_more():
    assert taught(*[0.0, 1.0] * 20)[1] == [10, 13, 17, 22, 28, 35]
    assert taught(*[0.0, 1.0] * 4)[0].deviation == DEVIATION


@given(low=SCORES, high=SCORES, learnt=st.lists(SCORES, max_size=60))
def test_a_higher_score_never_says_less(low, high, learnt):
    calibration, _ = taught(*learnt)
    low, high = sorted((low, high))
    assert calibration.call_ratio(low) <= calibration.call_ratio(high)
    assert calibration.call_ratio(low, 0.5) <= calibration.call_ratio(high, 0.5)
    assert calibration.goal_ratio(low) <= calibration.goal_ratio(high)
    assert calibration.deviation >= LEAST_DEVIATION
