"""The arithmetic of the comparison, on made-up outcomes small enough to check by hand."""

import pytest

from tests.benchmarks.compare.figures import figures, floor, margins
from tests.benchmarks.compare.names import A_STAR, ABLATION, DEFAULT, HANDICAPPED, LATS, ablation, fused, in_flight
from tests.benchmarks.compare.noise import NOISES
from tests.benchmarks.compare.outcome import BUDGETS, Outcome
from tests.benchmarks.compare.targets import noise_targets, targets

pytest.importorskip("treequest", reason="peers are installed with the extra `benchmarks`")

from tests.benchmarks.compare.methods import CONTENDERS
from tests.benchmarks.compare.noise_runs import PLAYERS, NoiseOutcome, noise_figures

NEVER = len(BUDGETS)


def outcome(method, task, *, first, seed=0, auc=0.95, tokens=100, milliseconds=(400, 200, 100, 50), rollouts=4):
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
    found = figures([outcome("a", 1, first=1), outcome("a", 1, first=4, seed=1), outcome("a", 2, first=NEVER)])
    row = found["a"]["0.95"]
    # A task counts once, however many seeds it was tried with.
    assert row["success"] == {"10": 0, "20": 0.25, "40": 0.25, "80": 0.25, "160": 0.5}
    assert (row["tokens"], row["tool_calls"], row["seconds"]) == (100, 5, 1.5)
    assert row["latencies"] == {"1": 8, "2": 4, "4": 2, "8": 1}


def test_more_seeds_of_the_same_tasks_leave_the_interval_as_wide():
    def bounds(seeds):
        few = [outcome("a", task, first=0 if task % 2 else NEVER, seed=seed) for task in range(20) for seed in seeds]
        row = figures(few)["a"]["0.95"]
        return row["low"]["10"], row["high"]["10"]

    assert bounds([0]) == bounds(range(5))
    low, high = bounds([0])
    assert low == pytest.approx(0.28, abs=0.06)
    assert high == pytest.approx(0.72, abs=0.06)


def test_a_latency_that_was_not_measured_is_left_out():
    found = figures([outcome("a", 1, first=0, milliseconds=(0, 0, 100, 0))])
    assert found["a"]["0.95"]["latencies"] == {"4": 2}


def test_differences_are_paired_by_task():
    # Two methods that always succeed together but for one task of ten: only that task is uncertain.
    ours = [outcome("ours", task, first=0 if task < 5 else NEVER) for task in range(10)]
    best = [outcome("best", task, first=0 if task < 4 else NEVER) for task in range(10)]
    worst = [outcome("worst", task, first=NEVER) for task in range(10)]
    row = margins([*ours, *best, *worst], "ours", ["worst", "best"])["0.95"]["80"]
    assert (row["other"], row["success"], row["difference"], row["ratio"]) == ("best", 0.4, 0.1, 1.25)
    assert (row["low"], row["high"]) == (0, pytest.approx(0.3))


def test_there_is_no_ratio_to_a_method_that_never_succeeds():
    found = margins([outcome("ours", 1, first=0), outcome("other", 1, first=NEVER)], "ours", ["other"])
    assert found["0.95"]["10"]["ratio"] is None
    assert found["0.95"]["10"]["difference"] == 1


def test_the_floor_is_the_gold_path_and_the_answer():
    class Task:
        gold = ("call",) * 5

    assert floor([Task()]) == (5 * 60 + 50) / 50


def solving(name, count, *, auc=0.95):
    """A method that solves so many of a hundred tasks at once, and the others never."""
    return [outcome(name, task, first=0 if task < count else NEVER, auc=auc) for task in range(100)]


def test_no_peer_may_be_ahead_by_more_than_two_points():
    def verdicts(solved):
        return met({"methods": figures([*solving(DEFAULT, solved), *solving(LATS, 50)])}, "the best peer is ahead")

    assert verdicts(48) == [True] * 4
    assert verdicts(47) == [False] * 4


def test_the_default_has_levels_to_reach_with_each_judge():
    def verdicts(solved, auc):
        return met({"methods": figures(solving(DEFAULT, solved, auc=auc))}, "success of the default")

    assert verdicts(96, 0.95) == [True, True, False, False]
    assert verdicts(88, 0.9) == [True, True, False, False]
    assert verdicts(92, 0.85) == [True] * 4
    assert verdicts(100, 1.0) == []


def test_with_worse_scores_the_default_may_not_be_behind_a_star():
    def verdicts(solved):
        outcomes = [*solving(DEFAULT, 90), *solving(HANDICAPPED, solved), *solving(A_STAR, 50)]
        return met({"methods": figures(outcomes)}, "where calls are fused")

    assert verdicts(50) == [True] * 4
    assert verdicts(49) == [False] * 4


def test_success_with_other_judges_is_a_mean_over_tasks_and_seeds():
    outcomes = [
        NoiseOutcome("weak-goal", LATS, (False, False, True, True)),
        NoiseOutcome("weak-goal", LATS, (False, True, True, True)),
        NoiseOutcome("tool-bias", LATS, (True, True, True, True)),
    ]
    found = noise_figures(outcomes)
    assert found["weak-goal"] == {LATS: {"20": 0.0, "40": 0.5, "80": 1.0, "160": 1.0}}
    assert found["tool-bias"] == {LATS: {"20": 1.0, "40": 1.0, "80": 1.0, "160": 1.0}}
    assert len(NOISES) == 9


def test_every_peer_plays_in_both_forms_and_with_all_judges():
    peers = {name for name, contender in CONTENDERS.items() if not contender.ours}
    separate = {name for name in peers if not name.endswith("-fused")}
    assert peers == separate | {fused(name) for name in separate}
    assert set(PLAYERS) == peers | {DEFAULT}


def test_other_judges_may_cost_only_so_much():
    found = noise_targets({"tool-bias": {DEFAULT: {"80": 0.85}}, "weak-goal": {DEFAULT: {"80": 0.84}, LATS: {"80": 1}}})
    assert [row["met"] for row in found] == [True, False]


def test_success_must_not_fall_with_the_budget():
    row = {"success": dict(zip(map(str, BUDGETS), (0.1, 0.2, 0.4, 0.3, 0.5), strict=True))}
    assert met({"methods": {DEFAULT: {"0.95": row}}}, "least gain") == [False]
    row = {"success": dict(zip(map(str, BUDGETS), (0.1, 0.2, 0.4, 0.4, 0.5), strict=True))}
    assert met({"methods": {DEFAULT: {"0.95": row}}}, "least gain") == [True]


def test_pruning_has_to_save_tokens():
    def verdict(tokens):
        outcomes = [
            outcome(ABLATION, 1, first=0, auc=1.0, tokens=tokens),
            outcome(ablation("both prunings"), 1, first=0, auc=1.0, tokens=100),
        ]
        return met({"methods": figures(outcomes)}, "prunings save")

    assert verdict(80) == [True]
    assert verdict(81) == [False]


def test_time_is_compared_at_the_same_number_of_rollouts():
    def verdict(rollouts):
        ours = outcome(DEFAULT, 1, first=0, milliseconds=(400, 200, 100, 100), rollouts=rollouts)
        peer = outcome(LATS, 1, first=0, milliseconds=(400, 200, 100, 100), rollouts=10)
        return met({"methods": figures([ours, peer])}, "rollout at 8 in flight over that of lats")

    assert verdict(30) == [True]
    assert verdict(20) == [False]


def test_what_many_calls_in_flight_cost_is_seen_between_the_arms():
    outcomes = [outcome(in_flight(1), 1, first=2), outcome(in_flight(8), 1, first=4)]
    assert met({"methods": figures(outcomes)}, "8 in flight instead of 1") == [False, False, True]


def test_what_was_not_measured_is_neither_met_nor_missed():
    assert {row["met"] for row in targets({"methods": {}, "floor": 4.0}, [])} == {None}


def engine_verdicts(part, **figures):
    row = {"cpu_ms_per_rollout": {"60": 1.0, "2000": 2.5}, "bytes_per_node": 1000}
    engine = {DEFAULT: {**row, **figures}, LATS: row, "tooltree-mcts": {**row, "bytes_per_node": 900}}
    found = targets({"methods": {}, "floor": 4.0, "engine": engine}, [])
    return [target["met"] for target in found if part in target["target"]]


def test_the_engine_has_bounds_of_its_own_and_those_of_the_peers():
    assert engine_verdicts("beyond the bare calls", cpu_ms_per_rollout={"60": 1.9, "2000": 3.1}) == [True, False]
    assert engine_verdicts("CPU ms of a rollout, of 60, against", cpu_ms_per_rollout={"60": 0.9}) == [True]
    assert engine_verdicts("bytes of a node, against", bytes_per_node=950) == [False]
    assert engine_verdicts("bytes of a node, against", bytes_per_node=899) == [True]
