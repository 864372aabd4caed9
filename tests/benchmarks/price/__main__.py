"""What does a search cost beside the plain agent, on the same task with the same model?

    python -m tests.benchmarks.price [--json out.json] [--plot out.svg] [--tasks NAME ...]

Real agents, graphs and tools: `create_agent` beside `create_tooltree_agent` at each effort, and in the paper's form.
The model is scripted: right and sure, or, in tasks whose names begin with `errs`, wrong once: it makes a wrong call, or
stops before all is done. As a judge it is always right. Counted are its calls; tokens, four characters each; latencies,
the model calls that had to wait for each other, on a clock where tools take no time; and whether the answer and the
state of the world are right in the end. Where plain does not solve its task, it stops at its error: its calls are then
those of the work that it has done. Not measured: what a provider's prompt cache saves, how unsure real models are, and
what a search gains where a model is often wrong.

The targets stand below the table, each with what misses it.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from langchain.agents import create_agent
from rich.console import Console
from rich.progress import track
from rich.table import Table

from langchain_tooltree import SearchConfig, create_tooltree_agent
from tests.benchmarks.pictures import draw_price
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


EFFORTS: tuple[Literal["frugal", "balanced", "thorough"], ...] = ("frugal", "balanced", "thorough")

PLANNERS: dict[str, Callable[[CountingModel, Setting], Any]] = {
    "plain": plain,
    **{effort: partial(planned, config=SearchConfig(effort=effort)) for effort in EFFORTS},
    "paper": partial(planned, config=SearchConfig.paper()),
}
"""Agents by name; the others are compared with the first one."""

ERRING = "errs"
"""How the names of the tasks begin in which the model is wrong once."""

MOST_TOKENS = 1.15
"""Share of plain's tokens that a search may take where the model is right and sure."""

MOST_MORE_CALLS = 4
"""Calls that a search may make more than plain where the model errs once."""

WRITES = {"four_writes": 4, "two_writes": 2, "mail": 1, **{f"reads_{count}": 1 for count in range(1, 7)}}
"""Deferred and sandboxed writes of a task: each of them begins another run of the planner, which may cost a call."""


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
        rows = [row for task, row in prices.items() if task.startswith(ERRING) == erring]
        if rows:
            summed = {name: _sum(row[name] for row in rows) for name in PLANNERS}
            cells = [_cell(summed[name], summed[first]) for name in others]
            table.add_section()
            table.add_row(f"all {label}", f"{summed[first].calls}  {_mark(summed[first])}", *cells)
    return table


def verdict(prices: dict[str, dict[str, Price]]) -> dict[str, list[str]]:
    """The targets, each with the tasks and efforts that miss it."""
    rows = [(f"{task}, {name}", task, row["plain"], row[name]) for task, row in prices.items() for name in EFFORTS]
    sure = [row for row in rows if not row[1].startswith(ERRING)]
    erring = [row for row in rows if row[1].startswith(ERRING)]
    return {
        "right and sure: plain's calls, at most one more for each write": [
            f"{label}: {price.calls} for {base.calls}"
            for label, task, base, price in sure
            if not base.calls <= price.calls <= base.calls + WRITES.get(task, 0)
        ],
        f"right and sure: at most {MOST_TOKENS} times plain's tokens": [
            f"{label}: {price.tokens / base.tokens:.2f}"
            for label, _, base, price in sure
            if price.tokens > MOST_TOKENS * base.tokens
        ],
        f"erring once: at most {MOST_MORE_CALLS} calls more than plain": [
            f"{label}: {price.calls} for {base.calls}"
            for label, _, base, price in erring
            if price.calls > base.calls + MOST_MORE_CALLS
        ],
        "all solved": [label for label, _, _, price in rows if not price.solved],
    }


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
    parser.add_argument("--plot", type=Path, help="where to draw the model calls, as SVG")
    parser.add_argument("--tasks", nargs="+", choices=every, default=list(every), help="all if left out")
    options = parser.parse_args(arguments)
    prices = {
        name: {planner: measure(every[name], planner) for planner in PLANNERS}
        for name in track(options.tasks, "tasks", transient=True)
    }
    console = Console(width=45 + 32 * len(PLANNERS))
    console.print(table_of(prices))
    for target, missed in verdict(prices).items():
        console.print(f"{'missed' if missed else 'holds '}  {target}", *missed, sep="\n        ", highlight=False)
    text = {"tasks": {task: {name: asdict(price) for name, price in row.items()} for task, row in prices.items()}}
    if options.plot:
        draw_price(text, options.plot)
    if options.json:
        options.json.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
