"""CFGM in a real environment: detection, recall and the loop, over all 30 task types of ScienceWorld.

    python -m tests.benchmarks.scienceworld --json out.json

- *Detection*: does an `AnomalyDetector` notice wrong actions that are injected into gold runs, and nothing else? What
  counts is written down in `scienceworld_detection`.
- *Recall*: does memory bring a run of the same task type for variations that it has not seen?
- *Loop*: does an agent with `CFGMMiddleware` come back on course? The agent and the model that reflects are simulated,
  by assumptions that are printed, so this shows that each part does its job in a real environment. It is no claim
  about any model.

Needs Java and `pip install scienceworld`. Takes some ten minutes, or one with `--quick`.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from langchain_tooltree import (
    AnomalyDetector,
    CFGMMemory,
    dump_trajectories,
    load_trajectories,
)
from tests.benchmarks.scienceworld_detection import Tally, runs_of, tallied
from tests.benchmarks.scienceworld_injections import Run
from tests.benchmarks.scienceworld_loop import (
    ARMS,
    POSSIBLE,
    Played,
    by_type,
    loop_figures,
    play,
    play_alone,
)
from tests.benchmarks.scienceworld_players import Assumptions, Way
from tests.benchmarks.scienceworld_pool import Pool
from tests.benchmarks.scienceworld_recall import memory_of, recall_figures, trajectory
from tests.benchmarks.scienceworld_world import WAITING, Task, World, missing

QUICK_TYPES = 6
"""Task types of a quick run: those with the shortest names, which is as good as any."""

ASSUMPTIONS = Assumptions()

NO_CLAIM = (
    "The agent and the reflecting model are simulated by these assumptions. So the loop shows that each part does its "
    "job in a real environment, and is no claim about any model."
)

WIDTH = 120
"""Columns that the tables need."""

LONG = 80
"""Steps of a gold path from which on a single variation of the task type is played."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if problem := missing():
        print(problem, file=sys.stderr)
        return 2
    with Pool(options.processes) as pool, tempfile.TemporaryDirectory() as folder:
        report = measure(pool, Path(folder), options)
    console = Console()
    _print(console if console.width >= WIDTH else Console(width=WIDTH), report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def measure(pool: Pool, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure all three.

    Args:
        pool: Where the world runs.
        folder: For what the processes hand to each other.
        options: The command line.

    Returns:
        What `--json` writes.
    """
    variations: dict[str, int] = next(pool.map(_variations, [()], "task types"))
    names = (
        sorted(sorted(variations, key=len)[:QUICK_TYPES])
        if options.quick
        else sorted(variations)
    )
    chosen = {name: _chosen(variations[name], options) for name in names}
    jobs = [
        (Task(name, each), options.copies, options.seed)
        for name in names
        for each in chosen[name]["known"]
    ]
    known, tally = [], Tally()
    for run, steps in pool.map(_detect, jobs, "detection"):
        known.append(trajectory(run.task, run.text, [step.taken for step in run.steps]))
        tally += steps
    dump_trajectories(known, folder / "known.jsonl")
    asked = [(Task(name, each),) for name in names for each in chosen[name]["asked"]]
    texts = dict(
        zip(
            [task for (task,) in asked],
            pool.map(_describe, asked, "recall"),
            strict=True,
        )
    )
    jobs = [
        (
            name,
            chosen[name]["played"],
            options.variations,
            seed,
            str(folder / "known.jsonl"),
        )
        for name in names
        for seed in range(options.seed, options.seed + options.seeds)
    ]
    played = [each for many in pool.map(_play, jobs, "loop") for each in many]
    recall = recall_figures(memory_of(known), texts)
    return {
        "detection": tally.figures(),
        "recall_at_2": recall["recall_at_2"],
        "recall": recall,
        "loop": {
            arm: figures for arm, figures in loop_figures(played).items() if arm in ARMS
        },
        "loop_possible": loop_figures(played)[POSSIBLE],
        "loop_by_type": by_type(played),
        "assumptions": {**asdict(ASSUMPTIONS), "note": NO_CLAIM},
        "task_types": len(names),
    }


def _chosen(count: int, options: argparse.Namespace) -> dict[str, list[int]]:
    """Which variations of a task type are known, asked for and played; the latter two are not known."""
    known = sorted({count * place // options.known for place in range(options.known)})
    unseen = [each for each in range(count) if each not in known]
    random.Random(f"{options.seed} {count}").shuffle(unseen)  # noqa: S311 - nothing depends on its secrecy
    return {
        "known": known,
        "asked": unseen[: options.queries],
        "played": unseen[: options.candidates],
    }


def _variations(world: World) -> dict[str, int]:
    return {name: world.variations(name) for name in world.task_names()}


def _detect(world: World, task: Task, copies: int, seed: int) -> tuple[Run, Tally]:
    runs = runs_of(world, task, copies=copies, seed=seed)
    return runs[0], tallied(runs, AnomalyDetector(pollers=[WAITING]).check)


def _describe(world: World, task: Task) -> str:
    return world.describe(task)


def _play(
    world: World,
    name: str,
    candidates: Sequence[int],
    count: int,
    seed: int,
    known: str,
) -> list[Played]:
    """Play the variations with the shortest gold paths: to watch a plant grow for long shows nothing new."""
    ways = [
        Way(Task(name, each), tuple(world.gold(Task(name, each))), seed)
        for each in candidates
    ]
    shortest, *others = sorted(ways, key=lambda way: (len(way.gold), way.task))
    return [
        each
        for way in (
            shortest,
            *(other for other in others[: count - 1] if len(other.gold) < LONG),
        )
        for each in (
            *(play(world, way, arm, _memory(known), ASSUMPTIONS) for arm in ARMS),
            play_alone(world, way, ASSUMPTIONS),
        )
    ]


@cache
def _memory(path: str) -> CFGMMemory:
    return memory_of(load_trajectories(path))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.scienceworld",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="also write the figures to this file"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_TYPES} task types, and less of each",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=2,
        choices=(1, 2),
        help="Java processes (default 2)",
    )
    parser.add_argument("--seed", type=int, default=0, help="(default 0)")
    options = parser.parse_args(arguments)
    # known: variations of a type for detection, and in memory; copies: of each, for each kind of injection;
    # queries: unseen variations for recall; candidates: of which the shortest are played, `variations` in number.
    options.known, options.copies, options.queries = (
        (2, 1, 5) if options.quick else (3, 1, 5)
    )
    options.candidates, options.variations, options.seeds = (
        (2, 1, 1) if options.quick else (4, 2, 1)
    )
    return options


def _print(console: Console, report: Mapping[str, Any]) -> None:
    detection = report["detection"]
    console.print(f"\n[bold]Detection[/bold], {report['task_types']} task types")
    console.print(
        _table(
            ("recall", "precision", "false per 1,000", "normal steps", "anomalies"),
            (
                (
                    _percent(detection["recall"]),
                    _percent(detection["precision"]),
                    f"{detection['false_per_1000']:.2f} ({detection['false_positives']})",
                    detection["normal_steps"],
                    detection["anomalies"],
                ),
            ),
        )
    )
    kinds = report["detection"]["kinds"]
    console.print(
        _table(
            ("\nnoticed", "recall", "steps"),
            (
                (kind, _percent(kinds[kind]["recall"]), kinds[kind]["steps"])
                for kind in kinds
            ),
        )
    )
    for told in (*detection["false"], *detection["missed"]):
        what = (
            f"false ({told['kind']})"
            if "kind" in told
            else f"missed ({told['injected']})"
        )
        answer = told["answer"].replace("\n", " ")
        console.print(
            f"{what}: {told['task']}: {told['action']} -> {answer}", markup=False
        )
    _print_recall(console, report["recall"])
    _print_loop(console, report)


def _print_recall(console: Console, recall: Mapping[str, Any]) -> None:
    console.print(
        f"\n[bold]Recall[/bold] of the same task type for {recall['variations']} unseen variations: "
        f"@2 {_percent(recall['recall_at_2'])}, @1 {_percent(recall['recall_at_1'])}"
    )
    rows = (
        (
            name,
            _percent(each["recall_at_1"]),
            _percent(each["recall_at_2"]),
            each["variations"],
        )
        for name, each in recall["types"].items()
        if each["recall_at_1"] < 1
    )
    console.print(
        _table(("types that are not always first", "@1", "@2", "variations"), rows)
    )


def _print_loop(console: Console, report: Mapping[str, Any]) -> None:
    console.print("\n[bold]Loop[/bold]")
    arms = {
        **report["loop"],
        f"({POSSIBLE}: finds back by itself)": report["loop_possible"],
    }
    rows = (
        (
            arm,
            _percent(each["success"]),
            f"{each['steps']:.1f}",
            f"{each['reflections']:.1f}",
            _percent(each["shown"]),
            each["runs"],
        )
        for arm, each in arms.items()
    )
    console.print(
        _table(
            ("arm", "success", "steps", "reflections", "next action recalled", "runs"),
            rows,
        )
    )
    rates = ", ".join(
        f"{name} {rate}"
        for name, rate in report["assumptions"].items()
        if name != "note"
    )
    console.print(f"Assumptions: {rates}.\n{NO_CLAIM}")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for place, heading in enumerate(headings):
        table.add_column(
            heading,
            justify="right" if place else "left",
            no_wrap=True,
            vertical="bottom",
        )
    for row in rows:
        table.add_row(*map(str, row))
    return table


if __name__ == "__main__":
    sys.exit(main())
