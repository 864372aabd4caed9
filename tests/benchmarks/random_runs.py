"""Runs agents with failures and kills at random, and compares what was done with what was recorded and approved.

    python -m tests.benchmarks.random_runs --runs 200 --json PATH

Every run follows from its seed, as far as timing allows: the kind of agent, sync or async, with or without sandbox
and approval, what fails, and when its process is killed, stopped or asked to end early; then a new process goes on.
The writes count themselves. Ends with 1 if one ran that was not emitted, or not approved where approval is on, or
twice under one `tool_call_id`; if a conversation is not one that providers accept, at any checkpoint; or if a run did
not end.

Lost records are counted apart: with LangGraph's default durability `async`, a step begins before the step before it
is persisted, so a process that dies in those milliseconds forgets what was emitted or approved; with `sync` there are
none.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path

from tests.integration_tests.campaign import SCRIPT, Tally, hold_campaign
from tests.integration_tests.child_processes import servers

COLUMNS = (
    "runs",
    "kills",
    "stops",
    "failures",
    "resumes",
    "writes",
    "repeated arrivals",
    "kills in the gap",
    "approves",
    "edits",
    "rejects",
)
"""Kills in the gap are those between a write's effect and its record; then the write arrives again with its id."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run; the others follow")
    parser.add_argument("--processes", type=int, default=2, help="runs at once")
    parser.add_argument("--json", type=Path, help="also write the figures and all that was found to this file")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, servers(SCRIPT, options.processes) as processes:
        held = hold_campaign(processes, Path(folder), range(options.first, options.first + options.runs))
    total = sum((tally for _, tally in held), Tally())
    _print_row("host", "durability", [*COLUMNS, "lost records", "violations"])
    for host, durability in product(("node", "middleware", "agent"), ("sync", "async")):
        kind = [tally for scenario, tally in held if (scenario.host, scenario.durability) == (host, durability)]
        _print_row(host, durability, _figures(sum(kind, Tally())))
    _print_row("all", "", _figures(total))
    print(f"{total.counts['planned writes']} of the writes were planned, the others asked for by the plain model.")
    print(f"{time.monotonic() - began:.0f} s")
    print(*total.violations, sep="\n")
    if options.json:
        runs = [{"scenario": asdict(scenario), **vars(tally)} for scenario, tally in held]
        options.json.write_text(json.dumps({"total": vars(total), "runs": runs}, indent=1))
    return int(bool(total.violations))


def _figures(tally: Tally) -> list[int]:
    return [*(tally.counts[column] for column in COLUMNS), len(tally.lost), len(tally.violations)]


def _print_row(host: str, durability: str, cells: Sequence[object]) -> None:
    names = [*COLUMNS, "lost records", "violations"]
    aligned = (f"{cell:>{len(name)}}" for name, cell in zip(names, cells, strict=True))
    print(f"{host:10}  {durability:10}", *aligned, sep="  ")


if __name__ == "__main__":
    sys.exit(main())
