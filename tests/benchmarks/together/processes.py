"""Two processes on one experience: how soon one knows what the other has learnt.

A local folder belongs to one process, and a second one is refused; so the folder is served by a Chroma server.
"""

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

from langchain_tooltree import ChromaStore, Experience, Trajectory

sys.path.append(str(Path(__file__).parents[2] / "integration_tests"))

from store_servers import chroma_client, chroma_server

DATABASE, NAMESPACE = "together", ("tooltree",)

PATIENCE = 60.0
"""Seconds after which the other process is taken never to know."""


def two_processes(runs: Sequence[Trajectory]) -> dict[str, float]:
    """One process learns some runs one by one; how many seconds later the other one, which asks all along, has each."""
    spawned = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, chroma_server(Path(folder)) as port:
        said: Queue[Any] = spawned.Queue()
        other = spawned.Process(target=_ask, args=(port, len(runs), said))
        other.start()
        said.get(timeout=PATIENCE)  # it has begun, and knows nothing
        learnt: list[float] = []
        with chroma_client(port, DATABASE) as client, ChromaStore(client) as store:
            experience = Experience(store, namespace=NAMESPACE)
            for run in runs:
                experience.learn(run)
                learnt.append(time.time())
        known = said.get(timeout=2 * PATIENCE)
        other.join(PATIENCE)
    waits = [max(seen - then, 0.0) for seen, then in zip(known, learnt, strict=False)]
    return {"learnt": len(runs), "known": len(known), "seconds_at_most": round(max(waits, default=0.0), 3)}


def _ask(port: int, wanted: int, said: "Queue[Any]") -> None:
    """The process that only asks: when it came to know each of the runs."""
    with chroma_client(port, DATABASE) as client, ChromaStore(client) as store:
        experience = Experience(store, namespace=NAMESPACE)
        known: list[float] = []
        said.put(len(experience.graph))
        until = time.monotonic() + PATIENCE
        while len(known) < wanted and time.monotonic() < until:
            known += [time.time()] * (len(experience.graph) - len(known))
        said.put(known)
