"""Our engine against that of another checkout of this repository, in turns on the same machine."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parents[3]

MEASURE = """
import json, sys
from tests.benchmarks.compare import engine
found = {name: engine._processor_time(each, int(sys.argv[1]), repetitions=1) for name, each in engine.OURS.items()}
print(json.dumps(found))
"""
"""What both checkouts run in a process of their own, with their own benchmark."""


def measure_against(
    baseline: Path, *, rollouts: int, turns: int
) -> Mapping[str, tuple[float, float]]:
    """Milliseconds of processor time by rollout, ours and the baseline's, by engine.

    The least of all turns: what else the machine does only adds to it.

    Args:
        baseline: Root of the other checkout, such as `git worktree add` makes.
        rollouts: Rollouts of each search.
        turns: How often each is measured.
    """
    measured = [
        (_measured(HERE, rollouts), _measured(baseline, rollouts)) for _ in range(turns)
    ]
    return {
        name: (
            min(ours[name] for ours, _ in measured),
            min(theirs[name] for _, theirs in measured),
        )
        for name in measured[0][0]
        if name in measured[0][1]
    }


def _measured(root: Path, rollouts: int) -> dict[str, float]:
    told = subprocess.run(  # noqa: S603 - this very interpreter
        [sys.executable, "-c", MEASURE, str(rollouts)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(told.stdout.splitlines()[-1])
    return found
