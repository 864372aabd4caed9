"""What a judge's scores say: likelihood ratios by hand, and the deviation that is learnt."""

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tooltree.tooltree.search.policies import (
    BETWEEN,
    DEVIATION,
    DONE_SCORE,
    GOAL_DEVIATION,
    LEAST_DEVIATION,
    OPEN_SCORE,
    RANK_TRUST,
    SCORES_ASSUMED,
    STRONGEST,
    JudgeCalibration,
)

SCORES = st.floats(0.0, 1.0)


def taught(*scores):
    calibration = JudgeCalibration()
    fitted = [
        position
        for position, score in enumerate(scores, start=1)
        if calibration.learn(score)
    ]
    return calibration, fitted


def test_one_score_by_hand():
    # (0.7 - 0.3) / 0.2 ** 2 * (0.8 - 0.5) = 3
    assert JudgeCalibration(deviation=0.2).ratio(0.8) == pytest.approx(math.exp(3))


def test_two_scores_of_a_call_share_half_of_their_error():
    # variance 0.04 * (0.5 + 0.5 / 2) = 0.03, mean 0.65: 0.4 / 0.03 * 0.15 = 2
    assert JudgeCalibration(deviation=0.2).ratio(0.8, 0.5) == pytest.approx(math.exp(2))


def test_two_equal_scores_say_more_than_one_but_less_than_twice_as_much():
    once, twice = (
        math.log(JudgeCalibration().ratio(*scores)) for scores in ([0.7], [0.7, 0.7])
    )
    assert once < twice < 2 * once


def goals():
    return JudgeCalibration(high=DONE_SCORE, low=OPEN_SCORE, deviation=GOAL_DEVIATION)


def test_a_goal_score_by_hand():
    # (0.75 - 0.25) / 0.2 ** 2 * (0.7 - 0.5) = 2.5
    assert goals().ratio(0.7) == pytest.approx(math.exp(2.5))


def test_a_score_between_right_and_wrong_says_nothing_and_neither_does_none():
    calibration = JudgeCalibration()
    assert calibration.ratio() == 1
    assert calibration.ratio(0.5) == goals().ratio(0.5) == 1


def test_no_score_is_proof():
    sure = JudgeCalibration(deviation=LEAST_DEVIATION)
    assert sure.ratio(1.0) == pytest.approx(math.exp(STRONGEST))
    assert sure.ratio(0.0, 0.0) == pytest.approx(math.exp(-STRONGEST))
    assert JudgeCalibration(high=1.0, low=0.0, deviation=LEAST_DEVIATION).ratio(
        1.0
    ) == pytest.approx(math.exp(STRONGEST))


def test_a_judge_that_scores_nearly_all_calls_alike_is_trusted_more_but_not_without_bound():
    assert taught(*[0.3] * 40)[0].deviation == LEAST_DEVIATION


def test_a_judge_whose_scores_are_all_over_the_place_is_trusted_less():
    # squares about the mean 10 * 0.25, less 10 * BETWEEN, shrunk towards the variance of 15 scores
    variance = (15 * DEVIATION**2 + 2.5 - 10 * BETWEEN) / 25
    assert taught(*[0.0, 1.0] * 5)[0].deviation == pytest.approx(math.sqrt(variance))


def test_the_scale_is_fitted_after_ten_scores_and_then_after_a_half_more():
    assert taught(*[0.0, 1.0] * 20)[1] == [10, 15, 23, 35]
    assert taught(*[0.0, 1.0] * 4)[0].deviation == DEVIATION


@pytest.mark.slow
@given(low=SCORES, high=SCORES, learnt=st.lists(SCORES, max_size=60))
def test_a_higher_score_never_says_less(low, high, learnt):
    calibration, _ = taught(*learnt)
    low, high = sorted((low, high))
    assert calibration.ratio(low) <= calibration.ratio(high)
    assert calibration.ratio(low, 0.5) <= calibration.ratio(high, 0.5)
    assert calibration.deviation >= LEAST_DEVIATION


def test_a_score_and_its_rank_by_hand():
    scores = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    calibration, _ = taught(*scores)
    trust = RANK_TRUST * 10 / (10 + SCORES_ASSUMED)
    # 0.9 is the ninth of ten, after eight and a half others; (8.5 + 0.5) / 11
    standing = (
        math.sqrt(1 + 0.2 * 0.8 * 1.5**2) * NormalDist().inv_cdf(9 / 11)
        + (0.2 - 0.5) * 1.5
    )
    # The mean is 0.55 where 0.3 + 0.2 * 0.4 is expected: ten scores against fifteen assumed move the middle by 0.068.
    normal = 0.4 / calibration.deviation * (0.9 - 0.568) / calibration.deviation
    assert calibration.ratio(0.9) == pytest.approx(
        math.exp((1 - trust) * normal + trust * 1.5 * standing)
    )


def squeezed(score):
    """A judge that gives right calls .6 where another gives .7, and wrong ones .45 where it gives .3."""
    return 0.6 + (score - 0.7) * (0.6 - 0.45) / (0.7 - 0.3)


@pytest.mark.slow
@given(scores=st.lists(st.integers(0, 100), min_size=10, max_size=60))
def test_a_judge_on_another_scale_prefers_the_same_calls(scores):
    plain, _ = taught(*(score / 100 for score in scores))
    narrow, _ = taught(*(squeezed(score / 100) for score in scores))
    order = sorted(set(scores))
    for ratio in (
        lambda score: plain.ratio(score / 100),
        lambda score: narrow.ratio(squeezed(score / 100)),
    ):
        ratios = [ratio(score) for score in order]
        assert ratios == sorted(ratios)


def test_ranks_tell_right_from_wrong_where_the_scale_hides_it():
    """Of 40 scores a fifth are of right calls; the assumed means are .7 and .3."""
    scores = ([0.6] + [0.45] * 4) * 8
    narrow, _ = taught(*scores)
    apart = math.log(narrow.ratio(0.6) / narrow.ratio(0.45))
    assert apart > math.log(5)
    high, _ = taught(*([0.9] + [0.5] * 4) * 8)
    assert high.ratio(0.5) < 1 < high.ratio(0.9), (
        "a wrong call that scores .5 is told from a right one"
    )
