"""ToolTree against its peers: one simulated model and judge, real tools, the same budgets for all.

    python -m tests.benchmarks.compare --json out.json --plot out.svg
    python -m tests.benchmarks.compare --noise --json noise.json

Takes about an hour on two cores; `--quick` and `--noise` some minutes. Needs the extra `benchmarks`. Each peer plays
twice: with separate questions, and as `NAME-fused` with one call that brings the score of the last result, whether all
is done, and the next candidates with their scores.
"""

import argparse
import json
import platform
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.benchmarks.bfcl_data import REQUIREMENT
from tests.benchmarks.compare.desk import IN_FLIGHT, MODEL_MS, TOOL_MS
from tests.benchmarks.compare.engine import measure_engines
from tests.benchmarks.compare.figures import Figures, figures, floor, margins
from tests.benchmarks.compare.jobs import Job, benchmark, in_processes, run_job
from tests.benchmarks.compare.methods import AUCS, CONTENDERS
from tests.benchmarks.compare.names import DEFAULT, PAPER, fused, in_flight
from tests.benchmarks.compare.noise import NOISES
from tests.benchmarks.compare.noise_runs import (
    PLAYERS,
    NoiseJob,
    noise_figures,
    run_noise_job,
)
from tests.benchmarks.compare.outcome import BUDGETS, Outcome
from tests.benchmarks.compare.report import show
from tests.benchmarks.compare.targets import noise_targets, targets
from tests.benchmarks.compare.tokens import token_rule
from tests.benchmarks.pictures import draw_compare

SEEDS = (0, 1, 2, 3, 4)
DEVELOPMENT = range(100)
REPORTING = range(100, 200)
QUICK_STEP = 5
QUICK_AUC = 0.95
NOISE_SEEDS = (0,)

LEAST_WIDTH = 140
"""Where the output is no terminal, the tables would be cut at 80 columns."""

RACE = [name for name, contender in CONTENDERS.items() if not contender.arm]
OTHERS = [name for name in RACE if not CONTENDERS[name].ours]
DRAWN = [DEFAULT, PAPER, *(name for name in OTHERS if fused(name) not in OTHERS)]
"""Peers in their better form; more lines could not be told apart."""


def main() -> None:
    """Run the command line."""
    options = _options()
    result = _noises(options) if options.noise else _race(options)
    show(result, Console(width=max(Console().width, LEAST_WIDTH)))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.plot and not options.noise:
        draw_compare(result["methods"], DRAWN, options.plot)


def _race(options: argparse.Namespace) -> dict[str, Any]:
    """All figures with the usual judges."""
    began = time.monotonic()
    found = _run(options)
    reporting, development = (
        [outcome for outcome in found if outcome.task in half]
        for half in (REPORTING, DEVELOPMENT)
    )
    result: dict[str, Any] = {
        "methods": _timed_in_flight(figures(reporting)),
        "floor": floor(
            [
                benchmark()[0][task]
                for task in sorted({outcome.task for outcome in reporting or found})
            ]
        ),
        "engine": measure_engines(quick=options.quick)
        if DEFAULT in options.methods
        else {},
        "margins": margins(reporting, DEFAULT, OTHERS),
        "development": _timed_in_flight(figures(development)),
        "protocol": _protocol(found, time.monotonic() - began),
    }
    result["targets"] = targets(result, OTHERS)
    return result


def _noises(options: argparse.Namespace) -> dict[str, Any]:
    """Success with other judges, on the reporting tasks."""
    began = time.monotonic()
    methods = tuple(name for name in options.methods if name in PLAYERS)
    tasks = [position for position in _positions(options) if position in REPORTING]
    jobs = [NoiseJob(task, seed, methods) for task in tasks for seed in NOISE_SEEDS]
    batches = in_processes(
        run_noise_job, jobs, processes=options.processes, label="other judges"
    )
    noise = noise_figures(outcome for batch in batches for outcome in batch)
    rule = {
        "tasks": len(tasks),
        "seeds": NOISE_SEEDS,
        "judges": {name: asdict(judge) for name, judge in NOISES.items()},
    }
    return {
        "noise": noise,
        "protocol": {**rule, "seconds": round(time.monotonic() - began, 1)},
        "targets": noise_targets(noise),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.compare", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="write the figures there"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="PATH", help="draw them there, as SVG"
    )
    parser.add_argument(
        "--quick", action="store_true", help="20 tasks, one seed, one judge"
    )
    parser.add_argument(
        "--noise",
        action="store_true",
        help="nine other judges instead, on the reporting tasks",
    )
    parser.add_argument(
        "--tasks",
        choices=("all", "development", "reporting"),
        default="all",
        help="which half",
    )
    parser.add_argument(
        "--processes", type=int, default=2, help="tasks worked on at once"
    )
    parser.add_argument(
        "--methods",
        type=_names,
        default=tuple(CONTENDERS),
        metavar="A,B",
        help="only these",
    )
    return parser.parse_args()


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in CONTENDERS]:
        msg = f"there is no method {', '.join(unknown)}; the methods are {', '.join(CONTENDERS)}."
        raise argparse.ArgumentTypeError(msg)
    return names


def _positions(options: argparse.Namespace) -> list[int]:
    """The tasks, reporting ones first; of the first half every fifth if it has to be quick."""
    chosen = {
        "all": (*REPORTING, *DEVELOPMENT),
        "development": DEVELOPMENT,
        "reporting": REPORTING,
    }[options.tasks]
    return list(chosen[: len(REPORTING) : QUICK_STEP] if options.quick else chosen)


def _run(options: argparse.Namespace) -> list[Outcome]:
    """Let all methods work; the outcomes in an order that does not depend on which process was the faster."""
    seeds, aucs = (SEEDS[:1], (QUICK_AUC,)) if options.quick else (SEEDS, AUCS)
    jobs = [
        Job(task, seed, options.methods, aucs)
        for task in _positions(options)
        for seed in seeds
    ]
    batches = in_processes(
        run_job, jobs, processes=options.processes, label=f"{len(jobs)} tasks and seeds"
    )
    order = {name: place for place, name in enumerate(CONTENDERS)}
    return sorted(
        (outcome for batch in batches for outcome in batch),
        key=lambda outcome: (
            order[outcome.method],
            -outcome.auc,
            outcome.task,
            outcome.seed,
        ),
    )


def _timed_in_flight(found: Figures) -> Figures:
    """The default's latencies with each number of calls in flight, taken from the arms that run so many."""
    for auc, row in found.get(DEFAULT, {}).items():
        for count in map(str, IN_FLIGHT):
            arm = found.get(in_flight(int(count)), {}).get(auc, row)
            if count in arm["latencies"]:
                row["latencies"][count] = arm["latencies"][count]
    return found


def _protocol(found: list[Outcome], seconds: float) -> dict[str, Any]:
    """What the figures rest on."""
    return {
        "tasks": len({outcome.task for outcome in found}),
        "seeds": sorted({outcome.seed for outcome in found}),
        "budgets": BUDGETS,
        "model_ms": MODEL_MS,
        "tool_ms": TOOL_MS,
        "tokens": token_rule(),
        "versions": {
            "python": platform.python_version(),
            "benchmark": REQUIREMENT,
            **{
                name: version(name)
                for name in ("langchain-tooltree", "tooltree-mcts", "treequest")
            },
        },
        "seconds": round(seconds, 1),
    }


if __name__ == "__main__":
    main()
