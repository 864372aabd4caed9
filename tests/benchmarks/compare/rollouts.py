"""How many rollouts a search by the paper's settings takes, in 300 simulated worlds, and what it returns.

    python -m tests.benchmarks.compare.rollouts

In each world 2 to 5 calls in a row are right, and every state offers four wrong ones beside the right one, if there is
any. Scores are normal with a deviation of .12, clipped to [0, 1]: r_pre around .75 for right calls and .42 for wrong
ones, r_post around .78 and .38. What is right after the last right call is to stop, of which nothing tells the search.
"""

import argparse
import json
import random
from collections import Counter
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.table import Table

from langchain_tooltree import SearchConfig
from langchain_tooltree.tooltree.search import (
    Action,
    KernelConfig,
    Node,
    Observation,
    Operation,
    OperationOutcome,
    TreeSearch,
)

WORLDS = 300
LENGTHS = (2, 5)
WRONG = 4
DEVIATION = 0.12
MEANS = {"score": (0.75, 0.42), "evaluate": (0.78, 0.38)}
"""Of right and wrong calls."""

FORMS = {
    "ICLR": SearchConfig.paper(proposals="together"),
    "ACL": SearchConfig.paper(form="acl", proposals="together"),
}


class World:
    """One made-up world, and the search in it."""

    def __init__(self, seed: int, config: KernelConfig) -> None:
        self._seed = seed
        self._length = random.Random(seed).randint(*LENGTHS)  # noqa: S311 - a simulation
        self.search = TreeSearch(config, tools=WRONG + 1, judge_calls=1)
        while operations := self.search.ask():
            for operation in operations:
                self.search.tell(self._outcome(operation))

    def right(self, node: Node) -> int | None:
        """How many calls are made if all of them are right; `None` otherwise."""
        places = [
            step.call.arguments["place"]
            for step in self.search.tree.path(node)
            if step.call
        ]
        return len(places) if places == [*range(len(places))] else None

    @property
    def is_solved(self) -> bool:
        """Whether just the right calls are returned."""
        best = self.search.best()
        return best is not None and self.right(best) == self._length

    def _outcome(self, operation: Operation) -> OperationOutcome:
        tree, found = self.search.tree, dict[str, Any]()
        node = tree[operation.node]
        match operation.kind:
            case "propose":
                found["calls"] = self._calls(node)
            case "score":
                found["scores"] = [
                    self._score("score", tree[each]) for each in operation.candidates
                ]
            case "execute":
                found["observation"] = Observation("done")
            case "evaluate":
                found["reward"] = self._score("evaluate", node)
        return OperationOutcome(
            operation.id, model_calls=int(operation.kind != "execute"), **found
        )

    def _calls(self, node: Node) -> list[Action]:
        done = self.right(node)
        places = [done] if done is not None and done < self._length else []
        wrong = [
            {"place": -1, "at": node.id, "number": number} for number in range(WRONG)
        ]
        return [
            Action("step", each, "read")
            for each in (*({"place": place} for place in places), *wrong)
        ]

    def _score(self, kind: str, node: Node) -> float:
        right, wrong = MEANS[kind]
        mean = wrong if self.right(node) is None else right
        drawn = random.Random(f"{self._seed} {kind} {node.id}").gauss(mean, DEVIATION)  # noqa: S311 - a simulation
        return min(1.0, max(0.0, drawn))


def measure(worlds: int = WORLDS) -> dict[str, Any]:
    """Rollouts, reasons to stop, and the share of worlds in which just the right calls are returned, for each form."""
    figures = {}
    for name, config in FORMS.items():
        played = [World(seed, config) for seed in range(worlds)]
        rollouts = [world.search.rollouts for world in played]
        first, _, third = quantiles(rollouts, n=4)
        figures[name] = {
            "rollouts": median(rollouts),
            "quartiles": [first, third],
            "stopped": dict(Counter(world.search.stop_reason for world in played)),
            "right": sum(world.is_solved for world in played) / worlds,
        }
    return figures


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.compare.rollouts", description=__doc__
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="write the figures there"
    )
    options = parser.parse_args()
    figures = measure()
    table = Table(
        "form", "median of rollouts", "quartiles", "stopped", "just the right calls"
    )
    for name, row in figures.items():
        quartiles, stopped = (", ".join(map(str, row["quartiles"])), row["stopped"])
        table.add_row(
            name, str(row["rollouts"]), quartiles, str(stopped), f"{row['right']:.0%}"
        )
    Console(width=max(Console().width, 120)).print(table)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
