"""The arithmetic of the comparison, on made-up outcomes small enough to check by hand."""

import pytest

from tests.benchmarks.compare.figures import figures, floor, margins
from tests.benchmarks.compare.names import DEFAULT, LATS
from tests.benchmarks.compare.outcome import BUDGETS, Outcome
from tests.benchmarks.compare.targets import targets

NEVER = len(BUDGETS)


def outcome(
    method,
    task,
    *,
    first,
    seed=0,
    auc=0.95,
    tokens=100,
    milliseconds=(400, 200, 100, 50),
    rollouts=4,
):
    """A method that solves a task from one of the budgets on, given by its place."""
    return Outcome(
        method=method,
        auc=auc,
        task=task,
        seed=seed,
        solved=tuple(place >= first for place in range(len(BUDGETS))),
        model_calls=10,
        tool_calls=5,
        tokens=tokens,
        milliseconds=milliseconds,
        rollouts=rollouts,
        nodes=6,
        seconds=0.5,
    )


def met(result, part, others=(LATS,)):
    """The verdicts on the targets of which this is a part."""
    found = targets({"floor": 4.0, **result}, others)
    return [row["met"] for row in found if part in row["target"]]


def test_success_is_the_share_of_tasks_and_seeds_solved_within_a_budget():
    found = figures(
        [
            outcome("a", 1, first=1),
            outcome("a", 1, first=4, seed=1),
            outcome("a", 2, first=NEVER),
        ]
    )
    row = found["a"]["0.95"]
    # A task counts once, however many seeds it was tried with.
    assert row["success"] == {"10": 0, "20": 0.25, "40": 0.25, "80": 0.25, "160": 0.5}
    assert (row["tokens"], row["tool_calls"], row["seconds"]) == (100, 5, 1.5)
    assert row["latencies"] == {"1": 8, "2": 4, "4": 2, "8": 1}


def test_more_seeds_of_the_same_tasks_leave_the_interval_as_wide():
    def bounds(seeds):
        few = [
            outcome("a", task, first=0 if task % 2 else NEVER, seed=seed)
            for task in range(20)
            for seed in seeds
        ]
        row = figures(few)["a"]["0.95"]
        return row["low"]["10"], row["high"]["10"]

    assert bounds([0]) == bounds(range(5))
    low, high = bounds([0])
    assert low == pytest.approx(0.28, abs=0.06)
    assert high == pytest.approx(0.72, abs=0.06)


def test_differences_are_paired_by_task():
    # Two methods that always succeed together but for one task of ten: only that task is uncertain.
    ours = [outcome("ours", task, first=0 if task < 5 else NEVER) for task in range(10)]
    best = [outcome("best", task, first=0 if task < 4 else NEVER) for task in range(10)]
    worst = [outcome("worst", task, first=NEVER) for task in range(10)]
    row = margins([*ours, *best, *worst], "ours", ["worst", "best"])["0.95"]["80"]
    assert (row["other"], row["success"], row["difference"], row["ratio"]) == (
        "best",
        0.4,
        0.1,
        1.25,
    )
    assert (row["low"], row["high"]) == (0, pytest.approx(0.3))


def test_the_floor_is_the_gold_path_and_the_answer():
    class Task:
        gold = ("call",) * 5

    assert floor([Task()]) == (5 * 60 + 50) / 50


def solving(name, count, *, auc=0.95):
    """A method that solves so many of a hundred tasks at once, and the others never."""
    return [
        outcome(name, task, first=0 if task < count else NEVER, auc=auc)
        for task in range(100)
    ]


def test_no_peer_may_be_ahead_by_more_than_two_points():
    def verdicts(solved):
        return met(
            {"methods": figures([*solving(DEFAULT, solved), *solving(LATS, 50)])},
            "the best peer is ahead",
        )

    assert verdicts(48) == [True] * 4
    assert verdicts(47) == [False] * 4


def test_success_with_other_judges_is_a_mean_over_tasks_and_seeds():
    pytest.importorskip(
        "treequest", reason="peers are installed with the extra `benchmarks`"
    )
    from tests.benchmarks.compare.noise_runs import NoiseOutcome, noise_figures  # noqa: PLC0415 - needs the peers

    outcomes = [
        NoiseOutcome("weak-goal", LATS, (False, False, True, True)),
        NoiseOutcome("weak-goal", LATS, (False, True, True, True)),
        NoiseOutcome("tool-bias", LATS, (True, True, True, True)),
    ]
    found = noise_figures(outcomes)
    assert found["weak-goal"] == {LATS: {"20": 0.0, "40": 0.5, "80": 1.0, "160": 1.0}}
    assert found["tool-bias"] == {LATS: {"20": 1.0, "40": 1.0, "80": 1.0, "160": 1.0}}


def test_what_was_not_measured_is_neither_met_nor_missed():
    assert {row["met"] for row in targets({"methods": {}, "floor": 4.0}, [])} == {None}
