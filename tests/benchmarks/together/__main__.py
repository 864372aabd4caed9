"""What does an agent gain by what it has been through? The parts of an experience, each by itself and all together.

    python -m tests.benchmarks.together [FILE ...] --json out.json [--short | --quick]

The multi-turn base tasks of the Berkeley function-calling benchmark, user turn by user turn: 100 to learn from, 100
unseen. Worlds, requests, observations, the graph that is mined of the runs learnt from, and what is recalled of them
are real; model and judge are simulated, see `model` for their rules, and `HEEDS` in `arms` for what advice changes in a
model. FILE: trajectories in the OpenAI chat format, JSON lines, replayed for suggestions inside a path.
"""

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.compare.jobs import in_processes
from tests.benchmarks.together.arms import AMOUNTS, ARMS, LEARNT, PLAIN, SENSITIVE, Job, Row, figures, tasks_of
from tests.benchmarks.together.generations import GENERATIONS, Lives, run
from tests.benchmarks.together.guided import CHARACTERS_PER_TOKEN
from tests.benchmarks.together.path import inside_a_search
from tests.benchmarks.together.processes import two_processes
from tests.benchmarks.together.targets import targets

SEEDS = (0, 1)
TASKS = 200
QUICK_STEP = 10
SHORT_STEP = 4

SHARED = 20
"""Runs that one process learns while another one asks."""

CURVE = "all"
"""The arm whose learning curve is drawn."""

TABLES = {
    "arm": "arms",
    "with less effect of advice": "sensitivity",
    f"tasks learnt from, {CURVE}": "curve",
    "generation": "generations",
    "file": "inside_a_search",
}
"""The parts of the figures that are tables, by the heading of their first column."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Play, print tables and targets, and write JSON where wanted."""
    options = _options(arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two processes work side by side already
    began = time.monotonic()
    told = _arms(options)
    told["inside_a_search"] = {path.name: inside_a_search(path) for path in options.files}
    told["two_processes"] = two_processes([played.trajectory() for played in tasks_of(options.cache)[0][:SHARED]])
    told["targets"] = targets(told)
    told["seconds"] = round(time.monotonic() - began, 1)
    _show(told, Console())
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.together", description=__doc__.split("\n", 1)[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="trajectories to replay")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--short", action="store_true", help="one seed, no weaker effects, generations with 25 tasks")
    forms.add_argument("--quick", action="store_true", help="10 unseen tasks, one seed, two generations")
    parser.add_argument("--cache", type=Path, default=Path(".cache"), help="where the benchmark's package is kept")
    return parser.parse_args(arguments)


def _arms(options: argparse.Namespace) -> dict[str, Any]:
    """The arms, the learning curve and the generations, on the same unseen tasks."""
    unseen = tuple(range(LEARNT, TASKS, QUICK_STEP if options.quick else 1))
    of_generations = unseen[::SHORT_STEP] if options.short else unseen
    cheap = options.short or options.quick
    seeds = SEEDS[:1] if cheap else SEEDS
    weaker = () if cheap else tuple(SENSITIVE)
    asked = dict.fromkeys(
        [*((name, LEARNT) for name in (PLAIN, *ARMS, *weaker)), *((CURVE, amount) for amount in AMOUNTS)]
    )
    jobs: list[Job | Lives] = [Lives(of_generations, seeds[0], options.cache, 2 if options.quick else GENERATIONS)]
    jobs += [Job(task, tuple(asked), seeds, options.cache) for task in unseen]
    by_arm: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    generations: list[dict[str, float]] = []
    for found in in_processes(run, jobs, processes=2, label="unseen tasks"):
        if isinstance(found, Sequence) and found and isinstance(found[0], dict):
            generations = list(found)
            continue
        for row in found:
            by_arm[row.arm, row.learnt].append(row)
    return {
        "arms": {name: figures(by_arm[name, LEARNT]) for name in (PLAIN, *ARMS)},
        "sensitivity": {name: figures(by_arm[name, LEARNT]) for name in weaker},
        "curve": {str(amount): figures(by_arm[CURVE, amount]) for amount in AMOUNTS},
        "generations": generations,
        "form": {"unseen": len(unseen), "unseen_of_generations": len(of_generations), "seeds": len(seeds)},
    }


def _show(told: dict[str, Any], console: Console) -> None:
    for title, part in TABLES.items():
        rows = dict(enumerate(told[part])) if isinstance(told[part], list) else told[part]
        if not rows:
            continue
        names = list(next(iter(rows.values())))
        table = Table(title, *names)
        for name, row in rows.items():
            table.add_row(str(name), *(f"{row[each]:.3f}" for each in names))
        console.print(table)
    shared, form = told["two_processes"], told["form"]
    console.print(
        f"{form['unseen']} unseen tasks, {form['unseen_of_generations']} for the generations; {form['seeds']} seeds. "
        f"Of {shared['learnt']} runs that one process learnt another one knew {shared['known']}, after at most "
        f"{shared['seconds_at_most']} seconds. Tokens are characters of requests / {CHARACTERS_PER_TOKEN}.",
        highlight=False,
    )
    for target, missed in told["targets"].items():
        console.print(f"{'does not hold' if missed else 'holds        '}  {target}", highlight=False)
        for each in missed:
            console.print(f"               {each}", highlight=False)


if __name__ == "__main__":
    main()
