"""Attack the package, break what it stores, and count what got through.

    python -m tests.benchmarks.trust --json out.json [--quick] [--only PART ...]

Each part is a module of this folder with a function `measure`, which says what was tried and what got through; the
targets are those of `targets`. Everything runs here, without a key: models are scripted to be fooled.
"""

import argparse
import json
import logging
import os
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.trust.targets import targets

PARTS = (
    "replies",
    "agents",
    "writes",
    "tenants",
    "poison",
    "identities",
    "erase",
    "kills",
    "graph_folder",
    "learning",
    "load",
    "soak",
)
"""Modules of this folder. `measure(scratch, quick=...)` of each returns a part of the figures."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print figures and targets, and write JSON where wanted."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.trust", description=__doc__.split("\n", 1)[0]
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="write the figures there"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer attempts of everything"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PARTS,
        default=PARTS,
        metavar="PART",
        help="only these parts",
    )
    options = parser.parse_args(arguments)
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # several processes work side by side already
    logging.disable(logging.WARNING)  # each attack that fails is said in one
    told: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    console = Console()
    for part in options.only:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            told |= import_module(f"tests.benchmarks.trust.{part}").measure(
                Path(scratch), quick=options.quick
            )
        seconds[part] = round(time.monotonic() - began, 1)
        console.print(f"{part}: {seconds[part]} s")
    told["targets"] = targets(told)
    told["seconds"] = seconds
    _show(told, console)
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _show(told: dict[str, Any], console: Console) -> None:
    table = Table("figure", "value")
    for part, figures in told.items():
        if part in {"targets", "seconds"}:
            continue
        for name, value in (
            figures.items() if isinstance(figures, dict) else [("", figures)]
        ):
            table.add_row(f"{part} {name}".strip(), str(value))
    console.print(table)
    for target, holds in told["targets"].items():
        console.print(f"{'holds' if holds else 'DOES NOT HOLD'}: {target}")


if __name__ == "__main__":
    main()
