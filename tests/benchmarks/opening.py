"""What an experience of many runs costs: to open it in a new process, to add a run, to recall.

    python -m tests.benchmarks.opening --json PATH

Runs of 6 calls each, all of them judged successes, are learnt once and then copied, with the parts of their fold,
into SQLite, which has no index here, a Chroma folder and Postgres. For each store a new process measures

- opening: from the imports on, until the graph says what comes next in a dialogue of two messages;
- adding: learning one more run that is judged, at all of them and at a hundred; the median;
- recall: `ExperienceStore.similar` with k=2 for tasks that were not stored, the 95th percentile;
- langmem: its search tool, on as many memories of the same tasks with the same embeddings, in stores with an index.

Times are CPU seconds of the process, with numpy on one thread; those of a database server are not in them, so recall
also has a clock. Nothing is downloaded.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from langchain_core.utils import batch_iterate
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import ChromaStore, Experience, HashingEmbeddings, Trajectory
from tests.integration_tests.store_servers import postgres_programs, postgres_server

NAMESPACE = ("tooltree",)
MEMORIES = ("memories",)
FEW = 100
TARGETS = {"opening_s": 2.0, "adding_ms": 15.0, "recall_p95_ms": 30.0}
INDEXED = ("Chroma folder", "Postgres")
KINDS = ("SQLite", *INDEXED)

PLACES = (
    "Oslo",
    "Rome",
    "Lima",
    "Cairo",
    "Quito",
    "Delhi",
    "Perth",
    "Turin",
    "Accra",
    "Minsk",
)
KINDS_OF_TASK = {
    "Book a flight to {place} for {number} people": (
        "find_user",
        "search_flights",
        "quote",
        "book",
        "pay",
        "confirm",
    ),
    "Cancel order {number} from the shop in {place}": (
        "find_user",
        "find_order",
        "policy",
        "cancel",
        "refund",
        "mail",
    ),
    "Is the red mug {number} in stock in {place}": (
        "search",
        "open_item",
        "stock",
        "compare",
        "open_item",
        "reserve",
    ),
    "Repair the line of customer {number} in {place}": (
        "find_user",
        "line",
        "speed",
        "reset",
        "speed",
        "note",
    ),
}


def run_of(number: int) -> Trajectory:
    """A run that went well."""
    rng = random.Random(number)  # noqa: S311 - no secret
    task, tools = rng.choice(list(KINDS_OF_TASK.items()))
    asked = f"{task.format(place=rng.choice(PLACES), number=number)}, please. It is urgent, and I have code {number}."
    messages: list[dict[str, Any]] = [{"role": "user", "content": asked}]
    for at, tool in enumerate(tools):
        call = {
            "id": str(at),
            "function": {
                "name": tool,
                "arguments": json.dumps({"id": number, "step": at}),
            },
        }
        result = json.dumps(
            {
                "id": number,
                "state": "open",
                "amount": rng.randrange(900),
                "place": rng.choice(PLACES),
            }
        )
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": str(at), "content": result},
        ]
    messages.append({"role": "assistant", "content": "It is done."})
    return Trajectory.from_chat(messages, id=f"run {number}", success=True)


@contextmanager
def opened(kind: str, address: str) -> Iterator[BaseStore]:
    """The store of a kind at an address."""
    embeddings = HashingEmbeddings()
    index: Any = {"dims": embeddings.dims, "embed": embeddings, "fields": ["content"]}
    if kind == "Chroma folder":
        with ChromaStore(address, embeddings=embeddings, fields=["content"]) as store:
            yield store
    elif kind == "Postgres":
        with PostgresStore.from_conn_string(address, index=index) as store:
            store.setup()
            yield store
    else:
        with SqliteStore.from_conn_string(address) as store:
            store.setup()
            yield store


def filled(runs: int) -> InMemoryStore:
    """A store in which so many runs were learnt."""
    store = InMemoryStore()
    experience = Experience(store, namespace=NAMESPACE)
    for number in range(runs):
        experience.learn(run_of(number))
    experience.graph.next_tools(
        run_of(0).messages[:1]
    )  # as some agent has asked by then, so that the vote is fitted
    experience.learn(run_of(runs))
    return store


def fill(store: BaseStore, source: InMemoryStore, *, memories: bool) -> None:
    """Copy everything, with the parts of the fold; with `memories`, also have the tasks found by langmem."""
    for namespace in source.list_namespaces(limit=100):
        index: Any = ["task"] if namespace[-1] == "tasks" else False
        items = source.search(namespace, limit=1_000_000)
        for page in batch_iterate(500, items):
            store.batch(
                [
                    PutOp(item.namespace, item.key, item.value, index=index)
                    for item in page
                ]
            )
            if memories and namespace[-1] == "tasks":
                store.batch(
                    [
                        PutOp(MEMORIES, item.key, {"content": item.value["task"]})
                        for item in page
                    ]
                )


def timed(work: Callable[[int], Any], times: int) -> tuple[list[float], list[float]]:
    """Milliseconds of CPU, and by the clock, of each time."""
    spent, clock = [], []
    for number in range(times):
        cpu, began = time.process_time(), time.perf_counter()
        work(number)
        clock.append((time.perf_counter() - began) * 1e3)
        spent.append((time.process_time() - cpu) * 1e3)
    return spent, clock


def p95(figures: Sequence[float]) -> float:
    return statistics.quantiles(figures, n=20)[-1]


def langmem_search(store: BaseStore) -> Callable[[str], Any] | None:
    """langmem's search tool; `None` where it is not installed."""
    try:
        from langmem import create_search_memory_tool  # noqa: PLC0415 - a peer of the user's choice
    except ImportError:
        return None
    tool = create_search_memory_tool(namespace=MEMORIES, store=store)
    return lambda query: tool.invoke({"query": query, "limit": 2})


def measured(kind: str, address: str, times: int) -> dict[str, float]:
    """The figures of one store, in a process that has just begun."""
    dialogue = [*run_of(0).messages[:3]]
    began = time.process_time()
    with opened(kind, address) as store:
        experience = Experience(store, namespace=NAMESPACE)
        hint = experience.graph.next_tools(dialogue)
        figures = {
            "opening_s": time.process_time() - began,
            "in_graph": float(len(experience.graph)),
        }
        assert hint is not None
        adding, _ = timed(
            lambda number: experience.learn(run_of(1_000_000 + number)), times
        )
        figures["adding_ms"] = statistics.median(adding)
        tasks = [run_of(2_000_000 + number).task for number in range(times)]
        experience.store.similar(
            tasks[0]
        )  # the vectors of runs without a stored one are made once
        spent, clock = timed(
            lambda number: experience.store.similar(tasks[number], k=2), times
        )
        figures |= {"recall_p95_ms": p95(spent), "recall_p95_clock_ms": p95(clock)}
        if kind in INDEXED and (search := langmem_search(store)) is not None:
            spent, clock = timed(lambda number: search(tasks[number]), times)
            figures |= {
                "langmem_p95_ms": p95(spent),
                "langmem_p95_clock_ms": p95(clock),
            }
    return figures


def in_a_process(kind: str, address: str, times: int) -> dict[str, float]:
    command = [
        sys.executable,
        "-m",
        "tests.benchmarks.opening",
        "--inside",
        kind,
        address,
        "--times",
        str(times),
    ]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(  # noqa: S603 - our own
        command, capture_output=True, text=True, check=True, env=environment
    )
    return dict(json.loads(done.stdout))


def compared(
    runs: int, times: int, kinds: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The figures of each kind of store."""
    sources = {runs: filled(runs), FEW: filled(FEW)}
    has_postgres = "Postgres" in kinds and postgres_programs() is not None
    figures: dict[str, dict[str, float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_server() if has_postgres else nullcontext("") as server,
    ):
        for kind in kinds:
            for count, source in sources.items():
                if kind == "Postgres" and not has_postgres:
                    continue
                address = server if kind == "Postgres" else str(Path(folder) / "store")
                with opened(kind, address) as store:
                    fill(store, source, memories=kind in INDEXED)
                told = in_a_process(kind, address, times)
                if count == FEW:
                    figures[kind]["adding_few_ms"] = told["adding_ms"]
                else:
                    figures[kind] = told
                if kind == "Postgres":
                    emptied(address)
                else:
                    for path in Path(folder).iterdir():
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return figures


def emptied(address: str) -> None:
    """Leave nothing of an experience in a Postgres."""
    with PostgresStore.from_conn_string(address) as store:
        store.conn.execute("TRUNCATE store CASCADE")


def report(figures: Mapping[str, Mapping[str, float]]) -> str:
    """The figures as a table."""
    columns = {
        "opening_s": "opening, s",
        "adding_ms": "adding, ms",
        "adding_few_ms": f"adding at {FEW}, ms",
        "recall_p95_ms": "recall p95, ms",
        "recall_p95_clock_ms": "by the clock",
        "langmem_p95_ms": "langmem p95, ms",
        "langmem_p95_clock_ms": "by the clock",
    }
    rows = [["store", *columns.values()]]
    rows += [
        [kind, *(f"{of[name]:.1f}" if name in of else "-" for name in columns)]
        for kind, of in figures.items()
    ]
    widths = [max(len(str(row[at])) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)
        )
        for row in rows
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument(
        "--times",
        type=int,
        default=100,
        help="runs that are added, and tasks that are recalled for",
    )
    parser.add_argument("--stores", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--quick", action="store_true", help="300 runs, ten times each")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        sys.stdout.write(json.dumps(measured(*options.inside, options.times)))
        return 0
    runs, times = (300, 10) if options.quick else (options.runs, options.times)
    figures = compared(runs, times, options.stores)
    sys.stdout.write(f"{report(figures)}\n")
    if options.json:
        options.json.write_text(
            json.dumps({"runs": runs, "targets": TARGETS, "figures": figures}, indent=2)
        )
    missed = [
        (kind, name)
        for kind, of in figures.items()
        for name, most in TARGETS.items()
        if of[name] > most
    ]
    for kind, name in missed:
        sys.stdout.write(
            f"missed: {kind} {name} {figures[kind][name]:.1f} > {TARGETS[name]}\n"
        )
    return int(bool(missed) and not options.quick)


if __name__ == "__main__":
    sys.exit(main())
