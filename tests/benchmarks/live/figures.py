"""What a run comes to: success with its interval, costs, and paired differences to another run."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from tests.benchmarks.compare.figures import interval
from tests.benchmarks.live.runs import TaskRun

Z = 1.96
"""Standard deviations of a normal distribution within which 95 % lie."""

DIGITS = 4

MEASURES: dict[str, Callable[[TaskRun], float]] = {
    "success": lambda run: float(run.success),
    "score": lambda run: run.score,
    "model calls": lambda run: run.model_calls,
    "tokens": lambda run: run.input_tokens + run.output_tokens,
    "seconds": lambda run: run.seconds,
}
"""What is compared, task by task."""


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Bounds of a share at 95 %; unlike the bootstrap's, they are sensible where all of few tasks were solved."""
    share, spread = successes / trials, Z * Z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * math.sqrt((share * (1 - share) + spread / 4) / trials)
    return max(0.0, middle - half), min(1.0, middle + half)


def summary(runs: Sequence[TaskRun]) -> dict[str, Any]:
    """The figures of a run with at least one task: means a task, but for the count of tasks and errors."""
    low, high = wilson(sum(run.success for run in runs), len(runs))
    calls: Counter[str] = sum((Counter(run.calls) for run in runs), Counter())
    return {
        "tasks": len(runs),
        "errors": sum(run.error is not None for run in runs),
        **{
            name: _rounded(fmean(measure(run) for run in runs))
            for name, measure in MEASURES.items()
        },
        "success_low": _rounded(low),
        "success_high": _rounded(high),
        "calls": {
            kind: _rounded(count / len(runs)) for kind, count in sorted(calls.items())
        },
        "input_tokens": _rounded(fmean(run.input_tokens for run in runs)),
        "output_tokens": _rounded(fmean(run.output_tokens for run in runs)),
    }


def paired(runs: Sequence[TaskRun], others: Sequence[TaskRun]) -> dict[str, Any]:
    """Mean differences to another run over the tasks of both, with their intervals.

    Returns:
        For each measure `difference`, `low` and `high` at 95 %, from tasks drawn with replacement; and `tasks`, how
        many there are: with none of them there is nothing else.
    """
    there = {run.id: run for run in others}
    pairs = [(run, there[run.id]) for run in runs if run.id in there]
    found: dict[str, Any] = {"tasks": len(pairs)}
    for name, measure in MEASURES.items() if pairs else ():
        differences = np.array([measure(own) - measure(other) for own, other in pairs])
        low, high = interval(differences)
        found[name] = {
            "difference": _rounded(differences.mean()),
            "low": _rounded(float(low)),
            "high": _rounded(float(high)),
        }
    return found


def _rounded(value: Any) -> float:
    return round(float(value), DIGITS)
