"""Kills a search at every call, before, during and after it, resumes it each time, and prints what was repeated.

    python -m tests.benchmarks.kill_sweep --rollouts 60 --path async --sandbox --every 5

Ends with 1 if a resumed run differs from the undisturbed one, or makes a call again whose result was persisted.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.integration_tests.sweep import Harness, Resumed, crash_servers


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=12, help="length of the search")
    parser.add_argument("--path", choices=["sync", "async", "both"], default="both")
    parser.add_argument("--sandbox", action="store_true", help="only with a sandbox; with and without by default")
    parser.add_argument("--latency", type=float, default=0.02, help="seconds each call takes")
    parser.add_argument("--every", type=int, default=1, help="take every n-th kill point")
    parser.add_argument("--processes", type=int, default=2, help="children at once")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    paths = ["sync", "async"] if options.path == "both" else [options.path]
    sandboxes = [True] if options.sandbox else [False, True]
    with crash_servers(options.processes) as servers:
        rows = [_row(servers, options, path, sandbox=sandbox) for path in paths for sandbox in sandboxes]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(any(row["wrong"] for row in rows))


def _row(servers: Any, options: argparse.Namespace, path: str, *, sandbox: bool) -> dict[str, Any]:
    """Sweep one kind of run and print its line."""
    with tempfile.TemporaryDirectory() as folder:
        kind = {"path": path, "sandbox": sandbox, "rollouts": options.rollouts}
        harness = Harness(servers, Path(folder), latency=options.latency, **kind)
        runs = harness.sweep(harness.points[:: options.every])
    row = {
        **kind,
        "calls": harness.calls.total(),
        "kills": len(runs),
        "wrong": [run.point for run in runs if not run.right],
        "in_flight": _spread(runs, "in_flight"),
        "unsaved": _spread(runs, "unsaved"),
        "replayed": _spread(runs, "replayed"),
    }
    print("  ".join(f"{name}={value}" for name, value in row.items()), flush=True)
    return row


def _spread(runs: Sequence[Resumed], figure: str) -> dict[str, float]:
    values = [getattr(run, figure) for run in runs]
    return {"mean": round(sum(values) / len(values), 2), "max": max(values)}


if __name__ == "__main__":
    sys.exit(main())
