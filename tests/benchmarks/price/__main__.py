"""What does the planner cost beside the plain agent, on the same task with the same model?

    python -m tests.benchmarks.price [--json out.json] [--plot out.svg] [--tasks NAME ...]

Real agents, graphs and tools: `create_agent` beside `create_tooltree_agent` at each effort, with a deep search by the
posterior, in the paper's form, and the plain agent under deepagents' `RubricMiddleware`, whose grader is always right.
The model is scripted: right and sure, or, in tasks whose names begin with `errs`,
wrong once: it makes a wrong call, or stops before all is done. As a judge, and in the report of its answers, it is
always right. Counted are its calls; tokens, four characters each; latencies, the model calls that had to wait for each
other, on a clock where tools take no time; and whether the answer and the state of the world are right in the end.
Where plain does not solve its task, it stops at its error: its calls are then those of the work that it has done. CPU
is that of a whole run with prepared replies, plain and planned in turns, as the median over repetitions; once more for
a turn in a conversation of 3,000 messages. Not measured: what a provider's prompt cache saves, how unsure real
models are, and what a search gains where a model is often wrong.

The targets stand below the table, each with what misses it.
"""

import argparse
import asyncio
import gc
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from deepagents.middleware.rubric import RubricMiddleware
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from rich.console import Console
from rich.progress import track
from rich.table import Table

from langchain_tooltree import SearchConfig, create_tooltree_agent
from langchain_tooltree.testing import ScriptedChatModel
from tests.benchmarks.pictures import draw_price
from tests.benchmarks.price.clock import VirtualLoop
from tests.benchmarks.price.model import (
    LATENCY,
    CountingModel,
    GradedModel,
    Grader,
    Worker,
)
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


def planned(
    model: CountingModel, setting: Setting, *, config: SearchConfig | None = None
) -> Any:
    return create_tooltree_agent(
        model,
        setting.tools,
        config=config,
        effects=setting.effects,
        sandbox=setting.sandbox,
    )


def graded(model: CountingModel, setting: Setting, *, task: Task) -> Any:
    """The plain agent, with a grader of deepagents that judges each answer and sends the agent back to its work."""
    worker = GradedModel(policy=model.policy)
    grader = Grader(
        policy=model.policy,
        is_done=lambda text: task.answer in text and setting.state == task.state,
    )
    worker._counts = grader._counts = model._counts
    with warnings.catch_warnings(action="ignore"):  # it is in beta
        rubric = RubricMiddleware(model=grader)
    return create_agent(worker, setting.tools, middleware=[rubric])


EFFORTS: tuple[Literal["frugal", "balanced", "thorough"], ...] = (
    "frugal",
    "balanced",
    "thorough",
)

RUBRIC = "All that was asked for is done, and the answer says what was asked."

PLANNERS: dict[str, Callable[..., Any]] = {
    "plain": plain,
    **{
        effort: partial(planned, config=SearchConfig(effort=effort))
        for effort in EFFORTS
    },
    "deep": partial(planned, config=SearchConfig(selection="posterior")),
    "paper": partial(planned, config=SearchConfig.paper()),
    "rubric": graded,
}
"""Agents by name; the others are compared with the first one."""

ERRING = "errs"
"""How the names of the tasks begin in which the model is wrong once."""

MOST_TOKENS = 1.06
"""Share of plain's tokens that the planner may take over all tasks where the model is right and sure."""

MOST_MORE_CALLS = 4
"""Calls that a search may make more than plain where the model errs once."""

MOST_CPU = 1.2
"""Share of plain's CPU that a turn may take, over all tasks where the model is right and sure, and each by itself in
those of `CPU_TASKS` and in a long conversation."""

CPU_TASKS = ("three_writes",)
REPEATS, LONG_REPEATS, LONG = 15, 9, 3_000
"""Repetitions of a run whose CPU is measured, the same in a long conversation, and the messages of that."""


def measure(task: Task, planner: str) -> Price:
    """Run a task once, in a world of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=VirtualLoop) as runner,
    ):
        return runner.run(_run(task, planner, Path(folder)))


async def _run(task: Task, planner: str, folder: Path) -> Price:
    model, setting = CountingModel(policy=Worker(task)), task.make(folder)
    agent = (
        graded(model, setting, task=task)
        if planner == "rubric"
        else PLANNERS[planner](model, setting)
    )
    loop = asyncio.get_running_loop()
    asked: dict[str, Any] = {"messages": [("user", task.request)]}
    end = await agent.ainvoke(
        asked | ({"rubric": RUBRIC} if planner == "rubric" else {})
    )
    if not (isinstance(loop, VirtualLoop) and loop.single_threaded):
        raise RuntimeError(
            "A thread took part, for which the virtual clock does not wait: make its tool async."
        )
    latencies = round(loop.time() / LATENCY)
    solved = task.answer in end["messages"][-1].text and setting.state == task.state
    return Price(model.calls, model.tokens, latencies, solved)


def scripted(task: Task) -> ScriptedChatModel:
    """A model that says what is prepared, so that reading a question costs nothing; it reports where it is asked to."""
    replies: list[Any] = [
        AIMessage(
            "",
            tool_calls=[
                {"name": c.tool, "args": dict(c.arguments), "id": f"{at}_{n}"}
                for n, c in numbered
            ],
        )
        for at, numbered in enumerate(map(enumerate, task.steps))
    ]

    def answer(messages: Sequence[BaseMessage]) -> str:
        report = '{"missing": "nothing"}\n' if '"missing"' in messages[0].text else ""
        return f"{report}{task.answer}"

    return ScriptedChatModel(replies=[*replies, answer])


def cpu_ms(
    task: Task, planner: str, earlier: Sequence[Any] = (), repeats: int = REPEATS
) -> dict[str, float]:
    """Median CPU milliseconds of a run, plain and planned in turns, behind `earlier` messages."""
    spent: dict[str, list[float]] = {"plain": [], planner: []}
    for at in range(repeats + 1):
        for name, times in list(spent.items())[
            :: 1 if at % 2 else -1
        ]:  # neither always comes first
            gc.collect()
            with tempfile.TemporaryDirectory() as folder:
                agent = PLANNERS[name](scripted(task), task.make(Path(folder)))
                began = time.process_time()
                asyncio.run(
                    agent.ainvoke({"messages": [*earlier, ("user", task.request)]})
                )
                if at:  # the first run makes what is made once
                    times.append(1_000 * (time.process_time() - began))
    return {name: round(statistics.median(times), 2) for name, times in spent.items()}


def earlier_messages(count: int) -> list[Any]:
    """A conversation of so many messages."""
    return [
        ("user" if at % 2 == 0 else "assistant", f"Message {at}.")
        for at in range(count)
    ]


def table_of(prices: dict[str, dict[str, Price]]) -> Table:
    """The figures beside plain's, a row for each task."""
    first, *others = PLANNERS
    table = Table(
        "task",
        f"{first}: calls, solved",
        title="Model calls (x plain's), tokens x plain's, latencies, solved",
    )
    for name in others:
        table.add_column(name, justify="right")
    for task, row in prices.items():
        base = row[first]
        cells = [_cell(row[name], base) for name in others]
        table.add_row(task, f"{base.calls}  {_mark(base)}", *cells)
    for label, erring in (("right and sure", False), ("erring once", True)):
        rows = [
            row for task, row in prices.items() if task.startswith(ERRING) == erring
        ]
        if rows:
            summed = {name: _sum(row[name] for row in rows) for name in PLANNERS}
            cells = [_cell(summed[name], summed[first]) for name in others]
            table.add_section()
            table.add_row(
                f"all {label}", f"{summed[first].calls}  {_mark(summed[first])}", *cells
            )
    return table


def verdict(
    prices: dict[str, dict[str, Price]], cpu: dict[str, dict[str, float]]
) -> dict[str, list[str]]:
    """The targets, each with the tasks and efforts that miss it."""
    rows = [
        (f"{task}, {name}", task, row["plain"], row[name])
        for task, row in prices.items()
        for name in EFFORTS
    ]
    sure = [row for row in rows if not row[1].startswith(ERRING)]
    erring = [row for row in rows if row[1].startswith(ERRING)]
    tokens = {
        name: sum(
            row[name].tokens
            for task, row in prices.items()
            if not task.startswith(ERRING)
        )
        / max(
            sum(
                row["plain"].tokens
                for task, row in prices.items()
                if not task.startswith(ERRING)
            ),
            1,
        )
        for name in EFFORTS
    }
    right = [row for task, row in cpu.items() if task in prices]
    total = sum(row["balanced"] for row in right) / max(
        sum(row["plain"] for row in right), 1e-9
    )
    ratios = {task: row["balanced"] / row["plain"] for task, row in cpu.items()}
    slow = {
        task: ratio
        for task, ratio in ratios.items()
        if task in CPU_TASKS or task not in prices
    }
    return {
        "right and sure: plain's calls": [
            f"{label}: {price.calls} for {base.calls}"
            for label, _, base, price in sure
            if price.calls != base.calls
        ],
        f"right and sure: at most {MOST_TOKENS} times plain's tokens in all": [
            f"{name}: {ratio:.3f}"
            for name, ratio in tokens.items()
            if round(ratio, 2) > MOST_TOKENS
        ],
        f"right and sure: at most {MOST_CPU} times plain's CPU": [
            *([f"all: {total:.2f}"] if total > MOST_CPU else []),
            *(
                f"{task}: {ratio:.2f}"
                for task, ratio in slow.items()
                if ratio > MOST_CPU
            ),
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument(
        "--plot", type=Path, help="where to draw the model calls, as SVG"
    )
    parser.add_argument(
        "--tasks", nargs="+", choices=every, default=list(every), help="all if left out"
    )
    options = parser.parse_args(arguments)
    prices = {
        name: {planner: measure(every[name], planner) for planner in PLANNERS}
        for name in track(options.tasks, "tasks", transient=True)
    }
    right = [name for name in options.tasks if not name.startswith(ERRING)]
    cpu = {
        name: cpu_ms(every[name], "balanced")
        for name in track(right, "CPU", transient=True)
    }
    if "weather" in right:
        long = cpu_ms(
            every["weather"], "balanced", earlier_messages(LONG), LONG_REPEATS
        )
        cpu[f"weather after {LONG} messages"] = long
    console = Console(width=45 + 32 * len(PLANNERS))
    console.print(table_of(prices))
    table = Table("task", "plain", "planned", "ratio", title="CPU of a run, ms")
    for name, row in cpu.items():
        table.add_row(
            name,
            f"{row['plain']:.1f}",
            f"{row['balanced']:.1f}",
            f"{row['balanced'] / row['plain']:.2f}",
        )
    console.print(table)
    for target, missed in verdict(prices, cpu).items():
        console.print(
            f"{'missed' if missed else 'holds '}  {target}",
            *missed,
            sep="\n        ",
            highlight=False,
        )
    text = {
        "tasks": {
            task: {name: asdict(price) for name, price in row.items()}
            for task, row in prices.items()
        }
    }
    text["cpu_ms"] = cpu
    if options.plot:
        draw_price(text, options.plot)
    if options.json:
        options.json.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
