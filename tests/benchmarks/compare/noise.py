"""How a simulated judge errs, and how often the simulated model offers what is right.

The usual judge scores the next gold call around .72 and any other around .32, and whether the task is done around .75
where it is and around .25 elsewhere, with normal errors. Half of their variance belongs to the state and the call, half
is drawn each time.
"""

import math
from dataclasses import dataclass
from typing import Literal

from tests.benchmarks.bfcl_model import DONE, NOT_DONE, RIGHT_CALL, WRONG_CALL, noise_level

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
        return self.wrong_pre if stage == "pre" and self.wrong_pre is not None else self.wrong

    def spread(self, standing: Standing) -> float:
        """The standard deviation of a call's score."""
        return self.right_sigma if standing == "right" and self.right_sigma is not None else self.sigma

    def score(self, mean: float, error: float, *, logit: bool = False) -> float:
        """A score as it is told."""
        if logit:
            score = 1 / (1 + math.exp(-(math.log(mean / (1 - mean)) + error)))
        else:
            score = min(max(mean + error, 0.0), 1.0)
        return round(score * self.levels) / self.levels if self.levels else score


def usual(auc: float) -> Noise:
    """The usual judge, which scores a right call above a wrong one with this probability."""
    return Noise(sigma=noise_level(auc), goal_sigma=noise_level(auc))
