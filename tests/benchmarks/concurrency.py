"""Compares the processor time of runs at once with that of the same runs one after the other.

    python -m tests.benchmarks.concurrency --json PATH

Each run is a conversation with one compiled graph, in a thread of its own: two reads, a write, and the answer, each of
which takes some milliseconds. Sync runs have a thread each, async runs share an event loop.
Processor time is that of all threads of the process; every repetition measures both ways, in turns. Ends with 1 if the
median of the repetitions' ratios is above 1.3. Kept means: with a checkpointer.

What runs at once cost beyond the sum of their parts is almost only Python's garbage collector, which looks through the
objects of all of them.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from cookbook.offline_model import OfflineChatModel
from langchain_tooltree import ToolTreeMiddleware, ToolTreeNode
from tests.integration_tests.travel import (
    BOOKING,
    EFFECTS,
    Agency,
    TravelPolicy,
    asking,
)

TARGET = 1.3
"""The most that runs at once may cost, as a multiple of what they cost one after the other."""


class SlowModel(OfflineChatModel):
    """The stand-in model, which takes its time as a model does."""

    latency: float

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        time.sleep(self.latency)
        return super()._generate(*args, **kwargs)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(self.latency)
        return super()._generate(*args, **kwargs)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=50, help="runs at once")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument(
        "--latency", type=float, default=0.005, help="seconds each call takes"
    )
    parser.add_argument(
        "--host", choices=["node", "middleware"], help="only this host; both by default"
    )
    parser.add_argument(
        "--path", choices=["sync", "async"], help="only this path; both by default"
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    hosts = [options.host] if options.host else ["node", "middleware"]
    paths = [options.path] if options.path else ["sync", "async"]
    _print_row(
        "host", "path", "kept", "ms, one by one", "ms, at once", "ratio", "from", "to"
    )
    rows = [
        _row(host, path, options, kept=kept)
        for host, path, kept in product(hosts, paths, (False, True))
    ]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(any(row["ratio"] > TARGET for row in rows))


def _row(
    host: str, path: str, options: argparse.Namespace, *, kept: bool
) -> dict[str, Any]:
    """Measure one kind of run and print its line."""
    single: list[float] = []
    at_once: list[float] = []
    one_by_one, together = (
        (_one_by_one, _together) if path == "sync" else (_aone_by_one, _atogether)
    )
    for repetition in range(options.repetitions + 1):
        for run_all, seconds in ((one_by_one, single), (together, at_once)):
            agent = _agent(host, options.latency, kept=kept)
            began = time.process_time()
            run_all(agent, options.runs if repetition else 2)
            if repetition:  # the first warms up
                seconds.append(time.process_time() - began)
    ratios = sorted(both / alone for both, alone in zip(at_once, single, strict=True))
    row = {
        "host": host,
        "path": path,
        "kept": kept,
        "runs": options.runs,
        "single_ms": round(1000 * median(single) / options.runs, 1),
        "at_once_ms": round(1000 * median(at_once) / options.runs, 1),
        "ratio": round(median(ratios), 2),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }
    _print_row(
        host,
        path,
        "yes" if kept else "no",
        row["single_ms"],
        row["at_once_ms"],
        row["ratio"],
        *_ends(ratios),
    )
    return row


def _ends(ratios: Sequence[float]) -> tuple[float, float]:
    return round(ratios[0], 2), round(ratios[-1], 2)


def _print_row(*cells: object) -> None:
    widths = (10, 5, 4, 14, 11, 5, 5, 5)
    print(
        *(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)),
        sep="  ",
        flush=True,
    )


def _agent(host: str, latency: float, *, kept: bool) -> Any:
    agency = Agency(latency)
    model = SlowModel(policy=TravelPolicy(), latency=latency)
    checkpointer = InMemorySaver() if kept else None
    if host == "middleware":
        middleware = [ToolTreeMiddleware(effects=EFFECTS)]
        return create_agent(
            model, agency.tools, middleware=middleware, checkpointer=checkpointer
        )
    graph = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, agency.tools, effects=EFFECTS))
    graph.add_node("tools", ToolNode(agency.tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer)


def _given(number: int) -> tuple[Any, Any]:
    return asking(f"{BOOKING} #{number}"), {"configurable": {"thread_id": str(number)}}


def _one_by_one(agent: Any, runs: int) -> None:
    for number in range(runs):
        agent.invoke(*_given(number))


def _together(agent: Any, runs: int) -> None:
    with ThreadPoolExecutor(runs) as pool:
        list(pool.map(lambda number: agent.invoke(*_given(number)), range(runs)))


def _aone_by_one(agent: Any, runs: int) -> None:
    async def run() -> None:
        for number in range(runs):
            await agent.ainvoke(*_given(number))

    asyncio.run(run())


def _atogether(agent: Any, runs: int) -> None:
    async def run() -> None:
        await asyncio.gather(
            *(agent.ainvoke(*_given(number)) for number in range(runs))
        )

    asyncio.run(run())


if __name__ == "__main__":
    sys.exit(main())
