"""What the engines themselves cost: processor time and memory of a rollout when models, judges and tools cost nothing.

    python -m tests.benchmarks.compare.engine
    python -m tests.benchmarks.compare.engine --baseline ../another-checkout

Needs neither tasks nor a simulation: the model offers five calls in every state, and nothing is ever good enough to
stop. Processor time is that of all threads of the process, beyond the bare calls: the same calls of the same model,
judge and tools, made directly and subtracted. Memory is what is held after a search beside observations and states,
by node of the tree. Our own engine is measured as the forms of the planner run it.
"""

import argparse
import gc
import math
import time
import tracemalloc
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from rich.console import Console
from rich.table import Table

from tests.benchmarks.compare.desk import Method
from tests.benchmarks.compare.engine_baseline import measure_against
from tests.benchmarks.compare.engine_ours import OwnEngine
from tests.benchmarks.compare.engine_peers import (
    DeskEngine,
    ab_mcts_engine,
    tooltree_mcts_engine,
)
from tests.benchmarks.compare.names import DEFAULT, LATS, TOOLTREE_MCTS
from tests.benchmarks.compare.peers import lats

SMALL, LARGE = 60, 2_000
WEIGHED = 500
QUICK_LARGE = 500
REPETITIONS = 5
TURNS, QUICK_TURNS = 5, 2


class Finished(Protocol):
    """A search that is over; its tree is held as long as this is.

    Attributes:
        rollouts: Rollouts made.
    """

    rollouts: int

    @property
    def nodes(self) -> int:
        """Nodes of the tree."""

    @property
    def payload(self) -> int:
        """Bytes of observations and states among what is held."""

    def bare(self) -> None:
        """Make the calls of the search again, without it."""


Engine = Callable[[int], Finished]
"""Searches for so many rollouts."""

DESK_METHODS: Mapping[str, Method] = {LATS: lats.LATS(enough=math.inf)}
"""Methods that are measured at a desk that costs nothing; a rollout is a node evaluated to them."""

PEERS: Mapping[str, Engine] = {
    TOOLTREE_MCTS: tooltree_mcts_engine,
    "treequest-ab-mcts": ab_mcts_engine,
    **{name: DeskEngine(method) for name, method in DESK_METHODS.items()},
}

OURS = {
    DEFAULT: OwnEngine(is_async=False),
    f"{DEFAULT}-async": OwnEngine(is_async=True),
}


def measure_engines(*, quick: bool) -> dict[str, Any]:
    """All figures by name: `cpu_ms_per_rollout` by rollouts, `bytes_per_node`.

    Args:
        quick: Whether shorter searches have to do.
    """
    large = QUICK_LARGE if quick else LARGE
    found: dict[str, Any] = {}
    for name, engine in {**OURS, **PEERS}.items():
        small = _processor_time(engine, SMALL, repetitions=REPETITIONS)
        times = {
            str(SMALL): small,
            str(large): _processor_time(engine, large, repetitions=1),
        }
        # Our tree does not depend on the path that it grew on.
        held = _bytes_per_node(OURS[DEFAULT] if name in OURS else engine)
        found[name] = {"cpu_ms_per_rollout": times, "bytes_per_node": held}
    return found


def _processor_time(engine: Engine, rollouts: int, *, repetitions: int) -> float:
    """Milliseconds of processor time by rollout, the bare calls subtracted."""
    engine(SMALL)  # the first search warms up
    spent: list[float] = []
    for _ in range(repetitions):
        gc.collect()
        began = time.process_time()
        run = engine(rollouts)
        searched = time.process_time()
        run.bare()
        spent.append(2 * searched - began - time.process_time())
        made = run.rollouts
    return round(1000 * median(spent) / made, 3)


@cache
def _bytes_per_node(engine: Engine) -> int:
    """Bytes held by node."""
    engine(SMALL)
    gc.collect()
    tracemalloc.start()
    try:
        run = engine(WEIGHED)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        return round((held - run.payload) / run.nodes)
    finally:
        tracemalloc.stop()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.compare.engine", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="shorter searches")
    parser.add_argument(
        "--baseline",
        type=Path,
        help="measure our own only, in turns with another checkout of it",
    )
    options = parser.parse_args()
    console = Console()
    if options.baseline:
        turns = QUICK_TURNS if options.quick else TURNS
        console.print(
            _against(
                measure_against(
                    options.baseline.resolve(), rollouts=WEIGHED, turns=turns
                )
            )
        )
        return
    found = measure_engines(quick=options.quick)
    table = Table(title="What an engine costs beyond the bare calls")
    table.add_column("engine", overflow="fold")
    sizes = list(found[DEFAULT]["cpu_ms_per_rollout"])
    for heading in (
        *(f"CPU ms a rollout, of {size}" for size in sizes),
        "bytes a node",
    ):
        table.add_column(heading, justify="right")
    for name, row in found.items():
        times = (f"{row['cpu_ms_per_rollout'][size]:.3f}" for size in sizes)
        table.add_row(name, *times, f"{row['bytes_per_node']:,}")
    console.print(table)


def _against(found: Mapping[str, tuple[float, float]]) -> Table:
    table = Table(
        "engine", title=f"CPU ms a rollout, of {WEIGHED}, beyond the bare calls"
    )
    for heading in ("here", "there", "share"):
        table.add_column(heading, justify="right")
    for name, (ours, theirs) in found.items():
        table.add_row(name, f"{ours:.3f}", f"{theirs:.3f}", f"{ours / theirs:.2f}")
    return table


if __name__ == "__main__":
    main()
