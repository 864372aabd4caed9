"""Hit rates, and how sure they are."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.next_tool_protocol import Question

DEPTHS = (1, 2, 3)
"""hit@1 is how often the first suggestion is right, hit@2 how often one of the first two is."""

RESAMPLES = 2000
SEED = 0
LEVEL = 0.95
DECIMALS = 6
"""Of a figure, so that what shows fewer of them rounds once."""

BOOTSTRAP = {
    "unit": "task",
    "resamples": RESAMPLES,
    "seed": SEED,
    "level": LEVEL,
    "method": "percentiles; tasks are drawn with replacement and bring all questions of all their trajectories",
}
"""How the intervals are made, for those who read the figures."""

Values = NDArray[np.float64]


class TaskBootstrap:
    """Confidence intervals of means over questions.

    The questions of a task are alike, so whole tasks are drawn: drawing questions would make the intervals too narrow.
    Every interval is made from the same draws, so that a difference of two methods is a paired one.

    Args:
        tasks: The task of each question.
        resamples: How many draws.
        seed: Seed of the draws.
    """

    def __init__(
        self, tasks: Sequence[str], *, resamples: int = RESAMPLES, seed: int = SEED
    ) -> None:
        names, self._place = np.unique(np.array(tasks), return_inverse=True)
        random = np.random.default_rng(seed)
        self._times = random.multinomial(
            len(names), np.full(len(names), 1 / len(names)), size=resamples
        )
        self._drawn = self._times @ np.bincount(self._place)

    def interval(self, values: Values) -> list[float]:
        """The interval of the mean of some values, one a question."""
        means = (self._times @ np.bincount(self._place, values)) / self._drawn
        outside = 100 * (1 - LEVEL) / 2
        return [
            round(float(end), DECIMALS)
            for end in np.percentile(means, [outside, 100 - outside])
        ]


def hits(questions: Sequence[Question], rankings: Sequence[Sequence[str]]) -> Values:
    """Which suggestions were right.

    Args:
        questions: The questions.
        rankings: The tools suggested for each, best first.

    Returns:
        For each question and depth 1 if the answer is among so many first suggestions, else 0; shape
        `(n, len(DEPTHS))`.
    """
    pairs = zip(questions, rankings, strict=True)
    right = [
        [float(question.answer in ranking[:depth]) for depth in DEPTHS]
        for question, ranking in pairs
    ]
    return np.array(right).reshape(-1, len(DEPTHS))


def calibration(
    shares: Sequence[float], came: Sequence[bool], *, bins: int = 10
) -> dict[str, Any]:
    """How far shares are from how often it came so, over bins of equal width.

    Args:
        shares: What was foretold, in [0, 1].
        came: Whether it came so, one for each share.
        bins: How many bins.

    Returns:
        `error`, the expected calibration error, and `bins`: of each that is not empty the number of shares, their mean
        (`said`), and how often it came so (`came`).
    """
    said, is_so = np.array(shares, dtype=float), np.array(came, dtype=float)
    place = np.minimum((said * bins).astype(int), bins - 1)
    of, sums, times = (
        np.bincount(place, each, minlength=bins)
        for each in (np.ones_like(said), said, is_so)
    )
    filled = zip(*(each[of > 0].tolist() for each in (of, sums, times)), strict=True)
    return {
        "error": round(float(np.abs(sums - times).sum() / len(said)), DECIMALS),
        "bins": [
            {
                "shares": int(many),
                "said": round(total / many, DECIMALS),
                "came": round(so / many, DECIMALS),
            }
            for many, total, so in filled
        ],
    }


def figures(
    questions: Sequence[Question],
    right: Mapping[str, Values],
    *,
    references: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """The figures of all methods on the same questions.

    Args:
        questions: The questions.
        right: What `hits` returned, by method.
        references: The methods that all are compared with.

    Returns:
        By method: `hit1` and so on over all questions, `hit1_no_repeats` and so on over those whose answer does not
        repeat the last tool (`None` if there are none), and their `intervals`. The differences to each reference stand
        under `minus_...` in the same form.
    """
    samples = {
        "": _Sample(questions, np.ones(len(questions), dtype=bool)),
        "_no_repeats": _Sample(
            questions,
            np.array([not question.repeats for question in questions], dtype=bool),
        ),
    }
    return {
        method: _entry(values, samples)
        | {
            f"minus_{reference}": _entry(values - right[reference], samples)
            for reference in references
        }
        for method, values in right.items()
    }


class _Sample:
    """Some of the questions."""

    def __init__(
        self, questions: Sequence[Question], chosen: NDArray[np.bool_]
    ) -> None:
        self._chosen = chosen
        tasks = [
            question.task
            for question, kept in zip(questions, chosen, strict=True)
            if kept
        ]
        self._bootstrap = TaskBootstrap(tasks) if tasks else None

    def mean(self, values: Values) -> tuple[float | None, list[float] | None]:
        """The mean of one value a question, and its interval."""
        if self._bootstrap is None:
            return None, None
        chosen = values[self._chosen]
        return round(float(chosen.mean()), DECIMALS), self._bootstrap.interval(chosen)


def _entry(values: Values, samples: Mapping[str, _Sample]) -> dict[str, Any]:
    means = {
        f"hit{depth}{suffix}": sample.mean(values[:, column])
        for suffix, sample in samples.items()
        for column, depth in enumerate(DEPTHS)
    }
    return {
        **{name: mean for name, (mean, _) in means.items()},
        "intervals": {name: interval for name, (_, interval) in means.items()},
    }
