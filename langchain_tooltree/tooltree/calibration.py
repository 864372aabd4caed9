"""How much a judge's scores say about a call, learnt while they come in. Pure.

A score is read as a Gaussian around one mean for right calls and around another for wrong ones. Its deviation decides
how far one score may be trusted. It is learnt from the spread of all r_pre: a judge that tells right from wrong gives
most calls much the same low score, one that guesses spreads them out. Half of its error is taken for its opinion, the
same whenever it is asked, and half for chance, which r_post draws anew.
"""

import math
from dataclasses import dataclass

RIGHT_SCORE, WRONG_SCORE = 0.7, 0.3
"""Mean score of a right call and of a wrong one."""

DONE_SCORE, OPEN_SCORE = 0.75, 0.25
"""Mean goal score where the request is fulfilled, and where it is not."""

DEVIATION = 0.2
"""Standard deviation of a score, as long as nothing is known of the judge."""

LEAST_DEVIATION = 0.15
"""However close together the scores are, the judge is not taken to be surer than this."""

SCORES_ASSUMED = 15
"""So many scores the assumed deviation counts for."""

BETWEEN = 0.015
"""Variance of scores that comes from some calls being right and others wrong, not from the judge's uncertainty."""

OPINION = 0.5
"""Share of the variance that is the same in every score of a call."""

STRONGEST = 8.0
"""Bound on the logarithm of a likelihood ratio: no score is proof."""

FIRST_FIT = 10
FIT_GROWTH = 1.25
"""The deviation is fitted after so many scores, and again each time there are so many times more: what has to be
worked out anew then costs a constant share of the search."""


@dataclass(slots=True)
class JudgeCalibration:
    """Turns scores into likelihood ratios.

    Attributes:
        deviation: Standard deviation of a score around its mean.
    """

    deviation: float = DEVIATION
    _scores: int = 0
    _sum: float = 0.0
    _squares: float = 0.0
    _next_fit: int = FIRST_FIT

    def learn(self, r_pre: float) -> bool:
        """Take in the first score of a call.

        Returns:
            Whether the deviation was fitted anew, so that earlier ratios are out of date.
        """
        self._scores += 1
        self._sum += r_pre
        self._squares += r_pre**2
        if self._scores < self._next_fit:
            return False
        self._next_fit = math.ceil(self._scores * FIT_GROWTH)
        spread = self._squares - self._sum**2 / self._scores
        own = spread - BETWEEN * self._scores
        variance = (SCORES_ASSUMED * DEVIATION**2 + own) / (SCORES_ASSUMED + self._scores)
        self.deviation = math.sqrt(max(variance, LEAST_DEVIATION**2))
        return True

    def call_ratio(self, *scores: float) -> float:
        """How much likelier the scores of one call are if it is right than if it is wrong.

        Args:
            *scores: r_pre, r_post, or both; their mean says all that they say together.

        Returns:
            The likelihood ratio; 1 without any score.
        """
        if not scores:
            return 1.0
        return self._ratio(scores, RIGHT_SCORE, WRONG_SCORE)

    def goal_ratio(self, goal: float) -> float:
        """How much likelier a goal score is if the request is fulfilled than if it is not."""
        return self._ratio((goal,), DONE_SCORE, OPEN_SCORE)

    def _ratio(self, scores: tuple[float, ...], high: float, low: float) -> float:
        variance = self.deviation**2 * (OPINION + (1 - OPINION) / len(scores))
        mean = sum(scores) / len(scores)
        logarithm = (high - low) / variance * (mean - (high + low) / 2)
        return math.exp(min(max(logarithm, -STRONGEST), STRONGEST))
