"""Many processes record into one Postgres and one Chroma server, others suggest, and all of them are killed at random.

What a process was told is kept must be there afterwards, once, and whole.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

from langgraph.store.base import BaseStore
from langgraph.store.postgres import PostgresStore

from langchain_tooltree import ChromaStore, Experience, Trajectory
from langchain_tooltree.experience.store import TASKS, TRAJECTORIES
from langchain_tooltree.learning import erasure as erasure_module
from tests.integration_tests.store_servers import (
    chroma_client,
    chroma_server,
    postgres_server,
)

WRITERS, SUGGESTERS = 8, 2
RUNS = 1_000  # of each writer, as far as the time goes
SECONDS = 45.0  # for each backend
CALM = 0.4, 1.2  # seconds from one kill to the next
NAMESPACE = ("trust",)


def measure(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """Count what is lost, there twice, or half there, in both backends together."""
    told = Counter[str]()
    with postgres_server() as address:
        told += _stormed(scratch / "postgres", "postgres", address, quick=quick)
    with chroma_server(scratch / "server") as port:
        told += _stormed(scratch / "chroma", "chroma", str(port), quick=quick)
    names = ("acknowledged", "killed", "lost", "duplicated", "orphans", "healed")
    return {"kills": {name: told[name] for name in names}}


def _stormed(folder: Path, backend: str, address: str, *, quick: bool) -> Counter[str]:
    """What came of a backend under so many processes."""
    folder.mkdir()
    with _store(backend, address) as store:
        Experience(store, namespace=NAMESPACE).learn(
            _run("before", 0)
        )  # what the first one makes, such as tables
    killed = _storm(folder, backend, address, 6 if quick else SECONDS)
    with _store(backend, address) as store:
        return _looked_at(store, folder) + Counter(killed=killed)


def _storm(folder: Path, backend: str, address: str, seconds: float) -> int:
    """Have processes record and suggest until the time is up, and kill one of them now and then; how often."""
    processes = get_context("forkserver")  # which has all imports done, and no thread
    processes.set_forkserver_preload([__name__])
    first = processes.Process(target=_run, args=("first", 0))
    first.start()
    first.join()  # the server has made its imports, which takes seconds
    until = time.time() + seconds

    def start(number: int) -> BaseProcess:
        process = processes.Process(
            target=_work,
            args=(backend, address, until, number, folder / f"{number}.log"),
        )
        process.start()
        return process

    running = [start(number) for number in range(WRITERS + SUGGESTERS)]
    draw, kills = random.Random(7), 0  # noqa: S311 - not a secret
    while time.time() < until:
        time.sleep(draw.uniform(*CALM))
        number = draw.randrange(len(running))
        if running[number].is_alive():
            running[number].kill()
            running[number].join()
            running[number], kills = start(number), kills + 1
    for process in running:
        process.join()
    failed = [process.exitcode for process in running if process.exitcode]
    assert not failed, f"Processes ended with {failed}: see what they wrote above."
    return kills


def _work(backend: str, address: str, until: float, number: int, log: Path) -> None:
    """What one process does until it is killed, or the time is up."""
    with _store(backend, address) as store:
        experience = Experience(store, namespace=NAMESPACE)
        if number < WRITERS:
            _record(experience, number, until, log)
        else:
            _suggest(experience, until)


def _record(experience: Experience, writer: int, until: float, log: Path) -> None:
    lines = log.read_text().splitlines() if log.exists() else []
    done = 1 + int(lines[-1].rpartition("-")[2]) if lines else -1
    with log.open("a") as file:
        # The one during which the last process was killed is not made again: nobody would.
        for number in range(done + 1, RUNS):
            if time.time() > until:
                return
            run = _run(str(writer), number)
            experience.learn(run)
            file.write(f"{run.id}\n")
            file.flush()


def _suggest(experience: Experience, until: float) -> None:
    while time.time() < until:
        experience.graph.suggest(None)
        time.sleep(1)


@contextmanager
def _store(backend: str, address: str) -> Iterator[BaseStore]:
    if backend == "postgres":
        with PostgresStore.from_conn_string(address) as store:
            with suppress(Exception):  # of several, one makes the tables
                store.setup()
            yield store
    else:
        with (
            chroma_client(int(address), "trust") as client,
            ChromaStore(client) as chroma,
        ):
            yield chroma


def _run(writer: str, number: int) -> Trajectory:
    """A run of two calls, whose text occurs nowhere else."""
    calls = [
        {"role": "assistant", "tool_calls": [_call("find", number)]},
        {
            "role": "tool",
            "tool_call_id": f"find {number}",
            "content": f"Parcel {writer}-{number} is in hall 3.",
        },
        {"role": "assistant", "tool_calls": [_call("move", number)]},
        {"role": "tool", "tool_call_id": f"move {number}", "content": "Moved."},
    ]
    asked = {"role": "user", "content": f"Move parcel {writer}-{number}."}
    said = [asked, *calls, {"role": "assistant", "content": "Done."}]
    return Trajectory.from_chat(said, id=f"run-{writer}-{number}", success=True)


def _call(tool: str, number: int) -> dict[str, Any]:
    return {
        "id": f"{tool} {number}",
        "function": {"name": tool, "arguments": json.dumps({"number": number})},
    }


def _looked_at(store: BaseStore, folder: Path) -> Counter[str]:
    """What is in a store against what its writers were told."""
    half = len(_keys(store, TRAJECTORIES) ^ _keys(store, TASKS))
    experience = Experience(store, namespace=NAMESPACE)
    with patch.object(erasure_module, "UNDER_WAY", 0.0):  # as minutes later
        experience.forget(run="none of them")  # which cleans up halves
    status = experience.status()
    acknowledged = {
        line for log in folder.glob("*.log") for line in log.read_text().splitlines()
    }
    kept = {run.id: run for run in experience.store.trajectories()}
    whole = {
        name
        for name, run in kept.items()
        if run == _run(*name.split("-")[1:2], int(name.rpartition("-")[2]))
    }
    requests = Counter(run.task for run in kept.values())
    edges = experience.graph.to_networkx().edges
    twice = sum(count - 1 for count in requests.values()) + abs(
        edges["find", "move"]["count"] - len(kept)
    )
    left = _keys(store, TRAJECTORIES) ^ _keys(store, TASKS)
    return Counter(
        acknowledged=len(acknowledged),
        lost=len(acknowledged - whole) + abs(status.runs - len(kept)),
        duplicated=twice,
        orphans=len(left),
        healed=half,
    )


def _keys(store: BaseStore, label: str) -> set[str]:
    found = store.search((*NAMESPACE, label), limit=10 * WRITERS * RUNS)
    return {item.key for item in found if item.namespace == (*NAMESPACE, label)}
