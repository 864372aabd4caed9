"""Real input: the 200 multi-turn base tasks of the Berkeley function-calling benchmark.

    python -m tests.benchmarks.bfcl --auc 0.95 --hit 0.9 --tasks 50

The tools really execute, in forks of their world; the model is simulated (`bfcl_model.py`). The first run downloads
the benchmark's package from PyPI. Needs the extra `benchmarks`.
"""

import argparse
import ast
import json
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from langchain_tooltree.tooltree.search import KernelConfig
from tests.benchmarks.bfcl_data import fetch_package, load_tasks
from tests.benchmarks.bfcl_model import ArgumentPool, gold_arguments, noise_level
from tests.benchmarks.bfcl_run import Simulation, TaskReport, run_task
from tests.benchmarks.bfcl_world import Task

COSTS = (
    "rollouts",
    "nodes",
    "model_calls",
    "tool_calls",
    "tokens",
    "pruned_before",
    "pruned_after",
)


def main() -> None:
    """Run the command line."""
    options = _options()
    package = fetch_package(options.cache)
    tasks = _benchmark(package)[0][: options.tasks]
    simulation = Simulation(auc=options.auc, hit=options.hit, seed=options.seed)
    config = _config(options)
    began = time.monotonic()
    # Fresh processes, not forks: langgraph's threads and locks must not be copied half-way through.
    with ProcessPoolExecutor(
        options.processes, multiprocessing.get_context("spawn")
    ) as pool:
        jobs = [
            pool.submit(_run, package, position, simulation, config)
            for position in range(len(tasks))
        ]
        waiting = track(jobs, description=f"{len(tasks)} tasks", transient=True)
        reports = [job.result() for job in waiting]
    figures = summary(reports, seconds=time.monotonic() - began)
    _print(reports, figures, options)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def summary(reports: Sequence[TaskReport], *, seconds: float) -> dict[str, Any]:
    """The figures of a run, totals over its tasks."""
    return {
        "tasks": len(reports),
        "solved": sum(report.search.solved for report in reports),
        "greedy_solved": sum(report.greedy.solved for report in reports),
        "touched_originals": sum(report.touched_originals for report in reports),
        **{
            name: sum(getattr(report.search, name) for report in reports)
            for name in COSTS
        },
        "replay_mismatches": sum(not report.replayed_alike for report in reports),
        "unsolved": [report.task for report in reports if not report.search.solved],
        "seconds": round(seconds, 1),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.bfcl", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument(
        "--auc",
        type=_auc,
        default=1.0,
        help="the judge ranks a right call above a wrong one so often",
    )
    parser.add_argument(
        "--hit",
        type=_share,
        default=1.0,
        help="the right call is among the proposals so often",
    )
    parser.add_argument(
        "--tasks", type=int, default=200, help="the first so many tasks"
    )
    parser.add_argument("--rollouts", type=int, help="max_rollouts of the search")
    parser.add_argument("--parallel", type=int, help="parallel_rollouts of the search")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed of the simulated model and of the search",
    )
    parser.add_argument(
        "--set",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="any other setting of the search; may be repeated",
    )
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count(), help="tasks worked on at once"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(".cache"),
        help="where the benchmark's package is kept",
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="write the figures there"
    )
    return parser.parse_args()


def _config(options: argparse.Namespace) -> KernelConfig:
    changes: dict[str, Any] = {"seed": options.seed}
    if options.rollouts:
        changes["max_rollouts"] = options.rollouts
    if options.parallel:
        changes["parallel_rollouts"] = options.parallel
    return KernelConfig(**changes, **dict(options.settings))


def _auc(text: str) -> float:
    try:
        noise_level(float(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return float(text)


def _share(text: str) -> float:
    if not 0 <= float(text) <= 1:
        msg = f"must be between 0 and 1, got {text}."
        raise argparse.ArgumentTypeError(msg)
    return float(text)


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if name not in KernelConfig.__dataclass_fields__:
        msg = f"KernelConfig has no field {name!r}."
        raise argparse.ArgumentTypeError(msg)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


@cache
def _benchmark(package: Path) -> tuple[list[Task], ArgumentPool]:
    """Tasks and argument pool, read once in each process."""
    tasks = load_tasks(package)
    return tasks, gold_arguments(tasks)


def _run(
    package: Path, position: int, simulation: Simulation, config: KernelConfig
) -> TaskReport:
    tasks, pool = _benchmark(package)
    return run_task(tasks[position], pool, simulation, config)


def _print(
    reports: Sequence[TaskReport], figures: dict[str, Any], options: argparse.Namespace
) -> None:
    console = Console()
    table = Table(
        title=f"BFCL multi-turn base: auc {options.auc}, hit {options.hit}, seed {options.seed}"
    )
    table.add_column("")
    table.add_column("search", justify="right")
    table.add_column("greedy", justify="right")
    table.add_row(
        "solved",
        f"{figures['solved']} of {len(reports)}",
        f"{figures['greedy_solved']} of {len(reports)}",
    )
    for name in ("calls", *COSTS):
        found = sum(getattr(report.search, name) for report in reports)
        greedy = sum(getattr(report.greedy, name) for report in reports)
        label = "calls in the plans" if name == "calls" else name.replace("_", " ")
        table.add_row(label, f"{found:,}", f"{greedy:,}" if greedy else "-")
    console.print(table)
    console.print(
        f"Originals touched in {figures['touched_originals']} tasks, plans that replay differently: "
        f"{figures['replay_mismatches']}, {figures['seconds']} s."
    )
    for report in reports:
        if not report.search.solved:
            console.print(
                f"Unsolved: {report.task} ({report.search.stop_reason}, {report.search.calls} calls)"
            )


if __name__ == "__main__":
    main()
