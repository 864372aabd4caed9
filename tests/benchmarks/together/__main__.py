"""What does an agent gain by what it has been through? The parts of an experience, each by itself and all together.

    python -m tests.benchmarks.together --json out.json [--quick]

The multi-turn base tasks of the Berkeley function-calling benchmark, user turn by user turn: 100 to learn from, 100
unseen. Worlds, requests, observations, and the graph that is mined from gold's runs are real, and so are its shares in
the states of unseen tasks; model and judge are simulated, see `model` for their rules.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.compare.jobs import in_processes
from tests.benchmarks.together.arms import AMOUNTS, ARMS, LEARNT, PLAIN, Job, Row, figures, run_job

SEEDS = (0, 1, 2)
TASKS = 200
QUICK_STEP = 4

CURVE = "prior"
"""The arm whose learning curve is drawn."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Play, print tables, and write JSON where wanted."""
    options = _options(arguments)
    began = time.monotonic()
    unseen = range(LEARNT, TASKS, QUICK_STEP if options.quick else 1)
    arms = tuple(
        dict.fromkeys([(PLAIN, LEARNT), *((name, LEARNT) for name in ARMS), *((CURVE, amount) for amount in AMOUNTS)])
    )
    jobs = [Job(task, tuple(arms), SEEDS[:1] if options.quick else SEEDS, options.cache) for task in unseen]
    rows = [row for batch in in_processes(run_job, jobs, processes=2, label="unseen tasks") for row in batch]
    by_arm: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        by_arm[row.arm, row.learnt].append(row)
    told: dict[str, Any] = {
        "arms": {name: figures(by_arm[name, LEARNT]) for name in (PLAIN, *ARMS)},
        "curve": {str(amount): figures(by_arm[CURVE, amount]) for amount in AMOUNTS},
        "seconds": round(time.monotonic() - began, 1),
    }
    _show(told, Console())
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.together", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there")
    parser.add_argument("--quick", action="store_true", help="25 unseen tasks, one seed")
    parser.add_argument("--cache", type=Path, default=Path(".cache"), help="where the benchmark's package is kept")
    return parser.parse_args(arguments)


def _show(told: dict[str, Any], console: Console) -> None:
    for title, rows in (("arm", told["arms"]), (f"learnt ({CURVE})", told["curve"])):
        names = list(next(iter(rows.values())))
        table = Table(title, *names)
        for name, row in rows.items():
            table.add_row(name, *(f"{row[each]:.3f}" for each in names))
        console.print(table)


if __name__ == "__main__":
    main()
