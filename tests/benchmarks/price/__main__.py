"""What does a search cost beside the plain agent, on the same task with the same model?

    python -m tests.benchmarks.price [--json out.json] [--tasks NAME ...]

Real agents, graphs and tools: `create_agent` beside `create_tooltree_agent`. The model is scripted: right and sure, or,
in tasks whose names begin with `errs`, wrong once: it makes a wrong call, or stops before all is done. Counted are its
calls; tokens, four characters each; latencies, the model calls that had to wait for each other, on a clock where tools
take no time; and whether the answer and the state of the world are right in the end. Not measured: what a provider's
prompt cache saves, how unsure real models are, and what a search gains where a model is often wrong.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from rich.console import Console
from rich.progress import track
from rich.table import Table

from langchain_tooltree import SearchConfig, create_tooltree_agent
from tests.benchmarks.price.clock import VirtualLoop
from tests.benchmarks.price.model import LATENCY, CountingModel, Worker
from tests.benchmarks.price.tasks import Setting, Task, tasks


@dataclass(frozen=True, slots=True)
class Price:
    """What a run cost, and whether it solved its task."""

    calls: int
    tokens: int
    latencies: int
    solved: bool


def plain(model: CountingModel, setting: Setting) -> Any:
    return create_agent(model, setting.tools)


def planned(model: CountingModel, setting: Setting, *, config: SearchConfig | None = None) -> Any:
    return create_tooltree_agent(model, setting.tools, config=config, effects=setting.effects, sandbox=setting.sandbox)


PLANNERS: dict[str, Callable[[CountingModel, Setting], Any]] = {
    "plain": plain,
    "default": planned,
    "paper": partial(planned, config=SearchConfig.paper()),
}
"""Agents by name; the others are compared with the first one."""


def measure(task: Task, planner: str) -> Price:
    """Run a task once, in a world of its own."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_run(task, planner, Path(folder)))


async def _run(task: Task, planner: str, folder: Path) -> Price:
    model, setting = CountingModel(policy=Worker(task)), task.make(folder)
    agent = PLANNERS[planner](model, setting)
    loop = asyncio.get_running_loop()
    end = await agent.ainvoke({"messages": [("user", task.request)]})
    if not (isinstance(loop, VirtualLoop) and loop.single_threaded):
        raise RuntimeError("A thread took part, for which the virtual clock does not wait: make its tool async.")
    latencies = round(loop.time() / LATENCY)
    solved = task.answer in end["messages"][-1].text and setting.state == task.state
    return Price(model.calls, model.tokens, latencies, solved)


def table_of(prices: dict[str, dict[str, Price]]) -> Table:
    """The figures beside plain's, a row for each task."""
    first, *others = PLANNERS
    table = Table(
        "task", f"{first}: calls, solved", title="Model calls (x plain's), tokens x plain's, latencies, solved"
    )
    for name in others:
        table.add_column(name, justify="right")
    for task, row in prices.items():
        base = row[first]
        cells = [_cell(row[name], base) for name in others]
        table.add_row(task, f"{base.calls}  {_mark(base)}", *cells)
    for label, erring in (("right and sure", False), ("erring once", True)):
        rows = [row for task, row in prices.items() if task.startswith("errs") == erring]
        if rows:
            summed = {name: _sum(row[name] for row in rows) for name in PLANNERS}
            cells = [_cell(summed[name], summed[first]) for name in others]
            table.add_section()
            table.add_row(f"all {label}", f"{summed[first].calls}  {_mark(summed[first])}", *cells)
    return table


def _cell(price: Price, base: Price) -> str:
    calls, tokens = price.calls / base.calls, price.tokens / base.tokens
    return f"{price.calls:4} ({calls:5.2f}) {tokens:6.2f} {price.latencies:4}  {_mark(price)}"


def _mark(price: Price) -> str:
    return "yes" if price.solved else "no "


def _sum(prices: Iterable[Price]) -> Price:
    each = list(prices)
    return Price(
        sum(price.calls for price in each),
        sum(price.tokens for price in each),
        sum(price.latencies for price in each),
        all(price.solved for price in each),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print a table, and write JSON where wanted."""
    every = tasks()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--tasks", nargs="+", choices=every, default=list(every), help="all if left out")
    options = parser.parse_args(arguments)
    prices = {
        name: {planner: measure(every[name], planner) for planner in PLANNERS}
        for name in track(options.tasks, "tasks", transient=True)
    }
    Console(width=45 + 32 * len(PLANNERS)).print(table_of(prices))
    if options.json:
        text = {"tasks": {task: {name: asdict(price) for name, price in row.items()} for task, row in prices.items()}}
        options.json.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
