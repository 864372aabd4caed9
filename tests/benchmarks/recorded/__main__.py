"""What does a policy add to a real model? Recorded proposals, played by each policy.

    python -m tests.benchmarks.recorded FILE [--json out.json] [--plot out.svg] [--policies NAME ...] [--quick]

FILE holds recorded runs of the multi-turn base tasks of the Berkeley function-calling benchmark, gzipped, one JSON line
a run and task: `{"id", "run", "model", "valid", "error", "turns": [[[{"name", "arguments"}] a step] a turn]}`; the last
step of a turn is empty where the model stopped by itself. The worlds are the benchmark's own, downloaded once from PyPI
into `.cache`. What a recorded model calls in a state is what it did there. Scores, checks and reports are simulated
around what is good, so the figures say what a *policy* adds to real proposals and their real mistakes, with readers of
a stated quality. A turn passes if the world after it equals gold's and gold's results were all observed. Success is
per user turn and per task, over all recorded runs; intervals are bootstrapped over tasks, those of the gain over plain
pair each turn with itself; model calls are those of the policy relative to plain's; headroom is the share of the way
from plain to "some run passes"; lost are the turns of 1,000 that plain had and the policy does not have.

Our own rows play the package's rules in the host's loop, without forks: a report says yes or no. The searches of the
literature have forks and graded scores.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.benchmarks.bfcl_data import fetch_package, load_tasks
from tests.benchmarks.pictures import draw_recorded
from tests.benchmarks.recorded.model import Readers, RecordedModel
from tests.benchmarks.recorded.ours import BUDGETS
from tests.benchmarks.recorded.policies import POLICIES, Policy
from tests.benchmarks.recorded.runs import Turn, load_runs, turns_of

BOOTSTRAP = 1_000
"""Resamplings of the tasks for an interval of 95 %."""

DECIMALS = 6
"""Of a figure, so that what shows fewer of them rounds once: .83848 is 83.8 %, and .8385 might be either."""

READERS: dict[str, Readers] = {
    "good": Readers(),
    "judge .85": Readers(judge=0.85),
    "correlated": Readers(shared=0.5),
    "coin": Readers(judge=0.5, coin=True),
}
"""The first one is the table's: its judge has an AUC of .9. The correlated one takes half of the model's own errors for
good. A coin knows nothing, and names calls at random.
"""

DRAWS = 3
"""How often all chance is drawn; figures are means over the draws."""

CONTROL = "resample"

DEFAULT = "tooltree-balanced"


@dataclass(frozen=True, slots=True)
class Played:
    """One run's model under a policy in one turn.

    Attributes:
        task: Id of the task.
        turn: Number of the turn.
        run: The run.
        draw: Which draw of chance.
        passed: Whether the turn passes.
        calls: Model calls.
        counts: Whether the recorded run came to the turn in gold's world.
        world: Whether the world is gold's at the end.
    """

    task: str
    turn: int
    run: str
    draw: int
    passed: bool
    calls: int
    counts: bool
    world: bool


def play(
    policy: Policy, turns: Sequence[Turn], readers: Readers, draws: int = 1
) -> list[Played]:
    """Every run of every turn under a policy; a run whose task has failed is played where it was recorded alone."""
    return [
        played
        for draw in range(draws)
        for played in _play(policy, turns, readers, draw)
    ]


def _play(
    policy: Policy, turns: Sequence[Turn], readers: Readers, draw: int
) -> list[Played]:
    played: list[Played] = []
    lost: set[tuple[str, str]] = set()
    runs: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for turn in turns:
        task = turn.task.id
        runs[task] |= dict.fromkeys(turn.ways)
        for run in runs[task]:
            counts = turn.counts and run in turn.ways
            if not turn.ways or ((task, run) in lost and not counts):
                lost.add((task, run))
                continue
            model = RecordedModel(turn, run, readers, draw)
            end = policy(model)
            if not end.passing:
                lost.add((task, run))
            played.append(
                Played(
                    task,
                    turn.number,
                    run,
                    draw,
                    end.passing,
                    model.calls,
                    counts,
                    end.world,
                )
            )
    return [
        *played,
        *(
            Played(task, -1, run, draw, False, 0, False, False)
            for task, run in sorted(lost)
        ),
    ]


def figures(
    played: Sequence[Played], plain: Sequence[Played], ceiling: float
) -> dict[str, float]:
    """The figures of a policy beside plain's.

    Args:
        played: All turns under the policy.
        plain: The same turns and draws under plain.
        ceiling: Share of the turns that some run passes.
    """
    runs: defaultdict[tuple[str, str, int], list[bool]] = defaultdict(list)
    for each in played:
        runs[each.task, each.run, each.draw].append(each.passed)
    played, plain = (
        [each for each in played if each.counts],
        [each for each in plain if each.counts],
    )
    pairs = list(zip(played, plain, strict=True))
    low, high = _interval([(each.task, each.passed) for each in played])
    gain_low, gain_high = _interval(
        [(each.task, each.passed - before.passed) for each, before in pairs]
    )
    success, by_itself = (
        fmean(each.passed for each in played),
        fmean(each.passed for each in plain),
    )
    calls = fmean(each.calls for each in played)
    lost = [each for each, before in pairs if before.passed and not each.passed]
    had = sum(each.passed for each in plain) / 1_000
    told = {
        "success": success,
        "low": low,
        "high": high,
        "task_success": fmean(all(passed) for passed in runs.values()),
        "calls": calls,
        "calls_over_plain": calls / fmean(each.calls for each in plain),
        "headroom": (success - by_itself) / (ceiling - by_itself),
        "gain": success - by_itself,
        "gain_low": gain_low,
        "gain_high": gain_high,
        "lost": len(lost) / had,
        "lost_by_write": sum(not each.world for each in lost) / had,
        "lost_by_read": sum(each.world for each in lost) / had,
        "world_wrong": fmean(not each.world for each in played),
        "read_unseen": fmean(each.world and not each.passed for each in played),
    }
    return {name: round(figure, DECIMALS) for name, figure in told.items()}


def _interval(rows: Sequence[tuple[str, float]]) -> tuple[float, float]:
    """The middle 95 % of the mean of what stands beside each task, where the tasks are drawn anew."""
    by_task: defaultdict[str, list[float]] = defaultdict(list)
    for task, figure in rows:
        by_task[task].append(figure)
    sums = np.array([sum(each) for each in by_task.values()], dtype=float)
    counts = np.array([len(each) for each in by_task.values()], dtype=float)
    drawn = np.random.default_rng(0).integers(0, len(sums), (BOOTSTRAP, len(sums)))
    means = np.sort(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    return float(means[BOOTSTRAP // 40]), float(means[-1 - BOOTSTRAP // 40])


Rows = Mapping[str, Mapping[str, float]]
"""The figures by policy."""


def verdict(tables: Mapping[str, Rows]) -> dict[str, list[str]]:
    """The targets of our policy, each with what misses it; a policy that was not played misses nothing.

    Args:
        tables: The figures by reader.
    """
    efforts = [f"tooltree-{effort}" for effort in BUDGETS]
    ours = [
        (label, name, rows[name])
        for label, rows in tables.items()
        for name in efforts
        if name in rows
    ]
    by_default = [each for each in ours if each[1] == DEFAULT]
    good = [row for label, _, row in ours if label == "good"]
    reached = any(
        row["success"] >= 0.86 and row["calls_over_plain"] <= 1.35 for row in good
    )
    extremes = [
        (label, rows["tooltree-frugal"], rows["tooltree-thorough"])
        for label, rows in tables.items()
        if {"tooltree-frugal", "tooltree-thorough"} <= set(rows)
    ]
    return {
        "at each judge no effort solves significantly less than plain": [
            f"{label}: {name} {row['gain']:+.3f} ({row['gain_low']:+.3f} to {row['gain_high']:+.3f})"
            for label, name, row in ours
            if row["gain_high"] < 0
        ],
        "at each judge the default loses at most 2 in 1,000 turns that plain had": [
            f"{label}: {row['lost']:.1f}"
            for label, _, row in by_default
            if row["lost"] > 2
        ],
        "good: at least .86 at 1.35 times plain's calls": []
        if reached or not good
        else [_told(name, row) for label, name, row in ours if label == "good"],
        "correlated: the default solves what the honest resample does, with fewer calls": [
            f"{_told(name, row)}: {_told(CONTROL, control)}"
            for label, name, row in by_default
            if label == "correlated" and (control := tables[label].get(CONTROL))
            if row["success"] < control["success"]
            or row["calls_over_plain"] >= control["calls_over_plain"]
        ],
        "at each judge thorough is at most .005 below frugal": [
            f"{label}: {thorough['success']:.3f}, {frugal['success']:.3f}"
            for label, frugal, thorough in extremes
            if thorough["success"] < frugal["success"] - 0.005
        ],
    }


def _told(name: str, row: Mapping[str, float]) -> str:
    return f"{name} {row['success']:.3f} at {row['calls_over_plain']:.2f}"


def main() -> None:
    """Play, print the tables, and write JSON where wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the recorded runs")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument(
        "--plot", type=Path, help="where to draw turns solved against calls, as SVG"
    )
    parser.add_argument(
        "--policies",
        nargs="+",
        choices=POLICIES,
        default=list(POLICIES),
        help="all if left out",
    )
    parser.add_argument(
        "--quick", action="store_true", help="one draw of all chance instead of three"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(".cache"),
        help="where the benchmark's package is kept",
    )
    options = parser.parse_args()
    turns = list(
        turns_of(load_tasks(fetch_package(options.cache)), load_runs(options.file))
    )
    names = list(dict.fromkeys(["plain", *options.policies]))
    ceiling = fmean(
        any(turn.passed(run) for run in turn.ways)
        for turn in turns
        if turn.counts
        for _ in turn.ways
    )
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for label, readers in READERS.items():
        draws = 1 if options.quick else DRAWS
        played = {
            name: play(POLICIES[name], turns, readers, draws)
            for name in track(names, label, transient=True)
        }
        tables[label] = {
            name: figures(played[name], played["plain"], ceiling) for name in names
        }
    console = Console(width=190)
    for label, rows in tables.items():
        console.print(_table(f"{label}; {len(turns)} turns", rows))
    console.print(f"Some run passes: {ceiling:.3f} of the turns.")
    for target, missed in verdict(tables).items():
        console.print(
            f"{'missed' if missed else 'holds '}  {target}",
            *missed,
            sep="\n        ",
            highlight=False,
        )
    text = {
        "policies": tables["good"],
        "ceiling": ceiling,
        "sensitivity": {
            label: rows for label, rows in tables.items() if label != "good"
        },
    }
    if options.plot:
        draw_recorded(text, options.plot)
    if options.json:
        options.json.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


def _table(title: str, rows: Rows) -> Table:
    """All figures of a reader; calls and gain as differences from plain, lost in 1,000 turns that plain had."""
    table = Table(title=title)
    for column in (
        "policy",
        "a turn",
        "95 %",
        "a task",
        "over plain",
        "gain, 95 %",
        "lost",
        "by write / read",
        "world wrong",
        "read unseen",
    ):
        table.add_column(column, no_wrap=True)
    for name, row in rows.items():
        table.add_row(
            name,
            f"{row['success']:.3f}",
            f"{row['low']:.3f} - {row['high']:.3f}",
            f"{row['task_success']:.3f}",
            f"{row['calls_over_plain']:.2f}",
            f"{row['gain_low']:+.3f} to {row['gain_high']:+.3f}",
            f"{row['lost']:.1f}",
            f"{row['lost_by_write']:.1f} / {row['lost_by_read']:.1f}",
            f"{row['world_wrong']:.3f}",
            f"{row['read_unseen']:.3f}",
        )
    return table


if __name__ == "__main__":
    main()
