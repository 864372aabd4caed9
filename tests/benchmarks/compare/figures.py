"""Means and intervals over tasks and seeds.

The seeds of a task are not independent of each other, so intervals come from drawing tasks, each with all its seeds,
with replacement (the cluster bootstrap). The same draws serve all methods, so that differences are paired.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.bfcl_world import Task
from tests.benchmarks.compare.desk import IN_FLIGHT, MODEL_MS, TOOL_MS
from tests.benchmarks.compare.outcome import BUDGETS, Outcome

RESAMPLES = 2000
LEVEL = 95
DIGITS = 4
COSTS = ("tokens", "tool_calls", "model_calls", "rollouts", "nodes")

Figures = dict[str, dict[str, dict[str, Any]]]
Rates = dict[tuple[str, float], NDArray[np.float64]]
"""For each method and judge: a row for each task, a column for each budget, success over the seeds."""


def figures(outcomes: Iterable[Outcome]) -> Figures:
    """Success and costs by method and judge."""
    grouped = _grouped(outcomes)
    rates = success_rates(grouped)
    found: Figures = {}
    for (method, auc), group in grouped.items():
        low, high = interval(rates[method, auc])
        found.setdefault(method, {})[str(auc)] = {
            "success": _by_budget(rates[method, auc].mean(axis=0)),
            "low": _by_budget(low),
            "high": _by_budget(high),
            **{
                name: round(fmean(getattr(outcome, name) for outcome in group), DIGITS)
                for name in COSTS
            },
            "latencies": {
                str(count): round(
                    fmean(outcome.milliseconds[place] for outcome in group) / MODEL_MS,
                    DIGITS,
                )
                for place, count in enumerate(IN_FLIGHT)
                if all(outcome.milliseconds[place] for outcome in group)
            },
            "seconds": round(sum(outcome.seconds for outcome in group), 1),
        }
    return found


def margins(
    outcomes: Iterable[Outcome], ours: str, others: Iterable[str]
) -> dict[str, dict[str, dict[str, Any]]]:
    """By judge and budget: the best of the other methods, and by how much ours is better.

    Args:
        outcomes: What the methods made of the tasks.
        ours: The method that is compared.
        others: The methods it is compared to.

    Returns:
        The name of the best other method, its success, the difference with its interval, and the ratio with its
        interval; `None` where the other method never succeeds.
    """
    rates = success_rates(_grouped(outcomes))
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for auc in sorted({auc for method, auc in rates if method == ours}, reverse=True):
        rivals = [name for name in others if name != ours and (name, auc) in rates]
        for place, budget in enumerate(BUDGETS if rivals else ()):
            best = max(rivals, key=lambda name: rates[name, auc][:, place].mean())
            pair = np.stack([rates[ours, auc][:, place], rates[best, auc][:, place]])
            found.setdefault(str(auc), {})[str(budget)] = {
                "other": best,
                **_compared(*pair),
            }
    return found


def success_rates(grouped: Mapping[tuple[str, float], Sequence[Outcome]]) -> Rates:
    """The success of each method on each task, tasks in their order."""
    rates: Rates = {}
    for key, group in grouped.items():
        ordered = sorted(group, key=lambda outcome: outcome.task)
        by_task = groupby(ordered, key=lambda outcome: outcome.task)
        rates[key] = np.array(
            [
                np.mean([outcome.solved for outcome in seeds], axis=0)
                for _, seeds in by_task
            ]
        )
    return rates


def interval(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bounds of the mean over tasks, the rows."""
    tails = (100 - LEVEL) / 2
    low, high = np.percentile(_resampled(values), [tails, 100 - tails], axis=0)
    return low, high


def floor(tasks: Sequence[Task]) -> float:
    """The critical path of a method that is always right, in model latencies, as a mean over tasks."""
    return round(
        fmean(len(task.gold) * (MODEL_MS + TOOL_MS) + MODEL_MS for task in tasks)
        / MODEL_MS,
        DIGITS,
    )


def _grouped(outcomes: Iterable[Outcome]) -> dict[tuple[str, float], list[Outcome]]:
    groups: dict[tuple[str, float], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.method, outcome.auc), []).append(outcome)
    return groups


def _compared(ours: NDArray[np.float64], other: NDArray[np.float64]) -> dict[str, Any]:
    means = np.stack([_resampled(ours), _resampled(other)])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = means[0] / means[1]
    tails = ((100 - LEVEL) / 2, (100 + LEVEL) / 2)
    low, high = np.percentile(means[0] - means[1], tails)
    return {
        "success": _rounded(other.mean()),
        "difference": _rounded(ours.mean() - other.mean()),
        "low": _rounded(low),
        "high": _rounded(high),
        "ratio": _rounded(ours.mean() / other.mean()) if other.mean() else None,
        "ratio_low": _rounded(np.percentile(ratios, tails[0]))
        if np.isfinite(ratios).all()
        else None,
        "ratio_high": _rounded(np.percentile(ratios, tails[1]))
        if np.isfinite(ratios).all()
        else None,
    }


def _resampled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means over tasks drawn with replacement; the same tasks each time it is called with as many."""
    draws = np.random.default_rng(0).integers(
        len(values), size=(RESAMPLES, len(values))
    )
    means: NDArray[np.float64] = values[draws].mean(axis=1)
    return means


def _by_budget(values: NDArray[np.float64]) -> dict[str, float]:
    return {
        str(budget): _rounded(value)
        for budget, value in zip(BUDGETS, values, strict=True)
    }


def _rounded(value: Any) -> float:
    return round(float(value), DIGITS)
