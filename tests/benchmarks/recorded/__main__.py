"""What does a policy add to a real model? Recorded proposals, played by each policy.

    python -m tests.benchmarks.recorded FILE [--json out.json] [--plot out.svg] [--policies NAME ...] [--quick]

FILE holds recorded runs of the multi-turn base tasks of the Berkeley function-calling benchmark, gzipped, one JSON line
a run and task: `{"id", "run", "model", "valid", "error", "turns": [[[{"name", "arguments"}] a step] a turn]}`; the last
step of a turn is empty where the model stopped by itself. The worlds are the benchmark's own, downloaded once from PyPI
into `.cache`. What a recorded model calls in a state is what it did there; confidence, scores and checks are simulated
around what is good, so the figures say what a *policy* adds to real proposals and their real mistakes, with readers of
a stated quality. A turn passes if the world after it equals gold's and gold's results were all observed. Success is
per user turn and per task, over all recorded runs; intervals are bootstrapped over tasks; model calls are those of the
policy relative to plain's; headroom is the share of the way from plain to "some run passes".
"""

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.benchmarks.bfcl_data import fetch_package, load_tasks
from tests.benchmarks.pictures import draw_recorded
from tests.benchmarks.recorded.model import Readers, RecordedModel
from tests.benchmarks.recorded.ours import OwnSearch
from tests.benchmarks.recorded.policies import EFFORTS, POLICIES, Policy
from tests.benchmarks.recorded.runs import Turn, load_runs, turns_of

BOOTSTRAP = 1_000
"""Resamplings of the tasks for an interval of 95 %."""

DECIMALS = 6
"""Of a figure, so that what shows fewer of them rounds once: .83848 is 83.8 %, and .8385 might be either."""

READERS: dict[str, Readers] = {
    "own .8, judge .9": Readers(),
    **{f"own {own}": Readers(own=own) for own in (0.5, 0.7, 0.8, 0.9)},
    **{f"judge {judge}": Readers(judge=judge) for judge in (0.95, 0.9, 0.85)},
    "alternatives repeat": Readers(repeats=0.5),
    "errors correlated": Readers(correlated=0.5),
    "realist": Readers(judge=0.85, correlated=0.5, repeats=0.25, realist=True),
}
"""The first one is the table's; the others are the sensitivity. None of the policies reads the model's confidence in
its own steps, so the rows of `own` only show that nothing depends on it."""

CONTROL = "past-the-first-stop"


@dataclass(frozen=True, slots=True)
class Played:
    """One run's model under a policy in one turn; `counts` if the recorded run came there in gold's world."""

    task: str
    run: str
    passed: bool
    calls: int
    counts: bool


def play(policy: Policy, turns: Sequence[Turn], readers: Readers) -> list[Played]:
    """Every run of every turn under a policy; a run whose task has failed is played where it was recorded alone."""
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
            model = RecordedModel(turn, run, readers)
            end = policy(model)
            if not end.passing:
                lost.add((task, run))
            played.append(Played(task, run, end.passing, model.calls, counts))
    return [*played, *(Played(task, run, passed=False, calls=0, counts=False) for task, run in sorted(lost))]


def figures(played: Sequence[Played], plain: Sequence[Played], ceiling: float) -> dict[str, float]:
    """The figures of a policy beside plain's."""
    runs: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
    for each in played:
        runs[each.task, each.run].append(each.passed)
    played, plain = [each for each in played if each.counts], [each for each in plain if each.counts]
    by_task: defaultdict[str, list[Played]] = defaultdict(list)
    for each in played:
        by_task[each.task].append(each)
    low, high = _interval(list(by_task.values()), lambda rows: fmean(row.passed for row in rows))
    success, by_itself = fmean(each.passed for each in played), fmean(each.passed for each in plain)
    calls = fmean(each.calls for each in played)
    return {
        "success": round(success, DECIMALS),
        "low": round(low, DECIMALS),
        "high": round(high, DECIMALS),
        "task_success": round(fmean(all(passed) for passed in runs.values()), DECIMALS),
        "calls": round(calls, DECIMALS),
        "calls_over_plain": round(calls / fmean(each.calls for each in plain), DECIMALS),
        "headroom": round((success - by_itself) / (ceiling - by_itself), DECIMALS),
    }


def _interval(tasks: Sequence[list[Played]], mean: Callable[[list[Played]], float]) -> tuple[float, float]:
    chance = random.Random(0)  # noqa: S311 - no secret depends on it
    drawn = sorted(
        mean([row for rows in chance.choices(tasks, k=len(tasks)) for row in rows]) for _ in range(BOOTSTRAP)
    )
    return drawn[BOOTSTRAP // 40], drawn[-1 - BOOTSTRAP // 40]


Rows = Mapping[str, Mapping[str, float]]
"""The figures by policy."""


def verdict(table: Rows, sensitivity: Mapping[str, Rows]) -> dict[str, list[str]]:
    """The targets of our search, each with what misses it; a policy that was not played misses nothing."""
    ours = {name: table[name] for name in (f"tooltree-{effort}" for effort in EFFORTS) if name in table}
    own = {"plain", *(name for name, policy in POLICIES.items() if isinstance(policy, OwnSearch) and name != "eq-1")}
    peers = {name: row for name, row in table.items() if name not in own}
    targets: dict[str, list[str]] = {}
    for wanted, most in ((0.84, 1.3), (0.88, 2.0)):
        reached = any(row["success"] >= wanted and row["calls_over_plain"] <= most for row in ours.values())
        told = ", ".join(_told(name, row) for name, row in ours.items())
        targets[f"at least {wanted} at {most} times plain's calls"] = [] if reached else [told]
    if control := table.get(CONTROL):
        there = _at(ours.values(), control["calls_over_plain"])
        behind = there <= control["success"]
        targets["above the control without scores, at its calls"] = [f"{there:.3f}"] if behind else []
    targets["no peer is as good with no more calls"] = [
        f"{_told(name, row)}: {_told(peer, against)}"
        for name, row in ours.items()
        for peer, against in peers.items()
        if against["success"] >= row["success"] and against["calls_over_plain"] <= row["calls_over_plain"]
    ]
    rows = [(label, row, name) for label, row in sensitivity.items() for name in ours]
    targets["never below plain"] = [
        f"{label}: {_told(name, row[name])}"
        for label, row, name in rows
        if row[name]["success"] < row["plain"]["success"]
    ]
    targets["the realist at least .05 above plain"] = [
        _told(name, row[name])
        for label, row, name in rows
        if label == "realist" and row[name]["success"] < row["plain"]["success"] + 0.05
    ]
    return targets


def _told(name: str, row: Mapping[str, float]) -> str:
    return f"{name} {row['success']:.3f} at {row['calls_over_plain']:.2f}"


def _at(rows: Iterable[Mapping[str, float]], calls: float) -> float:
    """The success at so many calls, on the straight lines between the efforts."""
    known = sorted((row["calls_over_plain"], row["success"]) for row in rows)
    for (fewer, low), (more, high) in pairwise(known):
        if fewer <= calls <= more:
            return low + (high - low) * (calls - fewer) / (more - fewer)
    return max((success for used, success in known if used <= calls), default=0.0)


def main() -> None:
    """Play, print a table, and write JSON where wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the recorded runs")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--plot", type=Path, help="where to draw turns solved against calls, as SVG")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES), help="all if left out")
    parser.add_argument("--quick", action="store_true", help="without the sensitivity to the readers")
    parser.add_argument("--cache", type=Path, default=Path(".cache"), help="where the benchmark's package is kept")
    options = parser.parse_args()
    turns = list(turns_of(load_tasks(fetch_package(options.cache)), load_runs(options.file)))
    names = list(dict.fromkeys(["plain", *options.policies]))
    ceiling = fmean(any(turn.passed(run) for run in turn.ways) for turn in turns if turn.counts for _ in turn.ways)
    told: dict[str, dict[str, dict[str, float]]] = {}
    done: dict[Readers, dict[str, dict[str, float]]] = {}
    for label, readers in list(READERS.items())[: 1 if options.quick else None]:
        read = replace(readers, own=Readers().own)  # what no policy reads changes nothing
        if read not in done:
            played = {name: play(POLICIES[name], turns, read) for name in track(names, label, transient=True)}
            done[read] = {name: figures(played[name], played["plain"], ceiling) for name in names}
        told[label] = done[read]
    first, *others = told
    console = Console(width=30 + 16 * len(READERS))
    table = Table(
        "policy", "a turn", "95 %", "a task", "calls", "over plain", "headroom", title=f"{first}; {len(turns)} turns"
    )
    for name, row in told[first].items():
        interval = f"{row['low']:.3f} - {row['high']:.3f}"
        shown = (f"{row[key]:.3f}" for key in ("task_success", "calls", "calls_over_plain", "headroom"))
        table.add_row(name, f"{row['success']:.3f}", interval, *shown)
    console.print(table, f"Some run passes: {ceiling:.3f} of the turns.")
    if others:
        sensitivity = Table("policy", *others, title="Success a turn, and model calls over plain's, by the readers")
        for name in names:
            cells = (
                f"{told[label][name]['success']:.3f} at {told[label][name]['calls_over_plain']:.2f}" for label in others
            )
            sensitivity.add_row(name, *cells)
        console.print(sensitivity)
    for target, missed in verdict(told[first], {label: told[label] for label in others}).items():
        console.print(f"{'missed' if missed else 'holds '}  {target}", *missed, sep="\n        ", highlight=False)
    text = {"policies": told[first], "ceiling": ceiling, "sensitivity": {label: told[label] for label in others}}
    if options.plot:
        draw_recorded(text, options.plot)
    if options.json:
        options.json.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
