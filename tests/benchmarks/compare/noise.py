"""How a simulated judge errs, and how often the simulated model offers what is right.

The usual judge scores the next gold call around .72 and any other around .32, and whether the task is done around .75
where it is and around .25 elsewhere, with normal errors. Half of their variance belongs to the state and the call, half
is drawn each time.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

from tests.benchmarks.bfcl_model import (
    DONE,
    NOT_DONE,
    RIGHT_CALL,
    WRONG_CALL,
    noise_level,
)

OFFERED = 0.9
"""Probability that the next gold call is among the proposals of an aligned state."""

Standing = Literal["right", "early", "wrong"]
"""The next gold call, one of a later step, or any other."""

Stage = Literal["pre", "post", "goal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """A judge and what it errs by.

    Attributes:
        right: Mean score of the next gold call.
        wrong: Mean score of any other.
        early: Mean score of a gold call of a later step; that of any other if left out.
        wrong_pre: Mean r_pre of a wrong call, where it differs from that of r_post.
        done: Mean goal score of a solved task.
        not_done: Mean goal score of any other.
        sigma: Standard deviation of a call's score.
        right_sigma: That of a right call's, where it differs.
        goal_sigma: That of the goal score.
        tool_bias: Standard deviation of what all scores of a tool have in common.
        repeats: Whether a call gets the same error each time it is scored, before it ran and after.
        logit: Whether errors are added to the logit of a call's score.
        levels: Scores are rounded to so many equal steps from 0 to 1; not at all if it is 0.
        offered: Probability that the next gold call is among the proposals of an aligned state.
        early_offers: Probability that another proposal is a gold call of a later step.
    """

    right: float = RIGHT_CALL
    wrong: float = WRONG_CALL
    early: float | None = None
    wrong_pre: float | None = None
    done: float = DONE
    not_done: float = NOT_DONE
    sigma: float = 0.0
    right_sigma: float | None = None
    goal_sigma: float = 0.0
    tool_bias: float = 0.0
    repeats: bool = False
    logit: bool = False
    levels: int = 0
    offered: float = OFFERED
    early_offers: float = 0.0

    def mean(self, standing: Standing, stage: Stage) -> float:
        """The mean score of a call."""
        if standing == "right":
            return self.right
        if standing == "early" and self.early is not None:
            return self.early
        return (
            self.wrong_pre
            if stage == "pre" and self.wrong_pre is not None
            else self.wrong
        )

    def spread(self, standing: Standing) -> float:
        """The standard deviation of a call's score."""
        return (
            self.right_sigma
            if standing == "right" and self.right_sigma is not None
            else self.sigma
        )

    def score(self, mean: float, error: float, *, logit: bool = False) -> float:
        """A score as it is told."""
        plain = min(max(mean + error, 0.0), 1.0)
        score = 1 / (1 + math.exp(-(logit_of(mean) + error))) if logit else plain
        return round(score * self.levels) / self.levels if self.levels else score


def logit_of(probability: float) -> float:
    """The logarithm of the odds."""
    return math.log(probability / (1 - probability))


def usual(auc: float) -> Noise:
    """The usual judge, which scores a right call above a wrong one with this probability."""
    return Noise(sigma=noise_level(auc), goal_sigma=noise_level(auc))


NOISE_AUC = 0.9
"""Of the usual judge from which the others differ in what their names say."""

_BASE = usual(NOISE_AUC)
NEXT_CALL, LATER_CALL, NO_CALL = 0.93, 0.61, 0.38
"""What a real judge gives to the next gold call, to one of a later step, and to any other; normal in the logit."""

NOISES = {
    "close-means": replace(
        _BASE, right=0.6, wrong=0.45, sigma=noise_level(0.9, 0.6 - 0.45)
    ),
    "close-means-noisier": replace(
        _BASE,
        right=0.6,
        wrong=0.45,
        sigma=noise_level(0.85, 0.6 - 0.45),
        goal_sigma=noise_level(0.85),
    ),
    "right-calls-vary": replace(_BASE, right=0.9, right_sigma=0.25, wrong=0.5),
    "tool-bias": replace(_BASE, tool_bias=0.1),
    "repeated-errors": replace(_BASE, repeats=True),
    "offered-less": replace(_BASE, offered=0.7),
    "three-scores": replace(_BASE, levels=2),
    "weak-goal": replace(_BASE, done=0.6, not_done=0.4),
    "early-calls": replace(
        _BASE,
        right=NEXT_CALL,
        early=LATER_CALL,
        wrong=NO_CALL,
        logit=True,
        sigma=noise_level(NOISE_AUC, logit_of(NEXT_CALL) - logit_of(NO_CALL)),
        early_offers=0.2,
    ),
}
"""Other judges, by name: means of .6 and .45; the same with more noise; right calls around .9 with a standard deviation
of .25 and wrong ones around .5; scores of a tool with something in common; errors that are the same before and after;
the right call offered with .7; scores 0, .5 and 1 only; a goal score that hardly tells; and calls of later steps, a
fifth of the other proposals, as a class of their own."""
