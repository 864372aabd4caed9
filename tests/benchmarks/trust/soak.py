"""Searches and recorded runs in one process, one after the other: what grows that should not."""

import ctypes
import gc
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import Experience, SearchConfig, demo
from tests.internals.sign_reader import sign_reader

SEARCHES, RUNS = 2_000, 20_000
SECONDS = 80.0  # for each of the two, where so many take longer
KEPT = 400  # runs that are there at the same time: as many go as come, so that whatever grows is a leak
WARM_UP = 0.3  # share of the time before it is measured
LOOKS = 30
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # as malloc.h numbers them
GIVEN_BACK = 2**16  # bytes: the arrays of a fit are larger


def measure(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """Megabytes that stay for 1,000 recorded runs and for 1,000 searches, and handles and threads that stay open."""
    _give_back_at_once()
    seconds = 6.0 if quick else SECONDS
    found = _soaked(_searching(), SEARCHES, seconds)
    with SqliteStore.from_conn_string(str(scratch / "runs.db")) as store:
        store.setup()
        recorded = _soaked(_recording(store), RUNS, seconds)
    told = {"mb_per_1000_runs": recorded["mb"], "runs": recorded["done"]}
    told |= {"mb_per_1000_searches": found["mb"], "searches": found["done"]}
    return {
        "soak": told
        | {what: found[what] + recorded[what] for what in ("handles", "threads")}
    }


def _soaked(work: Callable[[int], Any], most: int, seconds: float) -> dict[str, Any]:
    """What grows while something is done again and again."""
    began = time.monotonic()
    looks: list[tuple[int, float]] = []
    before = None
    done = 0
    while done < most and (spent := time.monotonic() - began) < seconds:
        work(done)
        done += 1
        share = max(spent / seconds, done / most)
        if share < WARM_UP or (share - WARM_UP) / (1 - WARM_UP) < len(looks) / LOOKS:
            continue
        gc.collect()
        before = before or (_handles(), threading.active_count())
        looks.append((done, _megabytes()))
    slope = np.polyfit(*np.array(looks).T, 1)[0] if len(looks) > 1 else 0.0
    assert before is not None, "nothing was done in so little time"
    handles, threads = _handles() - before[0], threading.active_count() - before[1]
    return {
        "done": done,
        "mb": round(float(slope) * 1_000, 2),
        "handles": handles,
        "threads": threads,
    }


def _give_back_at_once() -> None:
    """Have glibc return freed blocks to the system, since each thread's arena otherwise keeps its peak as free memory.

    What is measured is then what the process holds. Without it, memory grows until each thread has fitted a graph once.
    """
    if set_option := getattr(ctypes.CDLL(None), "mallopt", None):
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            set_option(option, GIVEN_BACK)


def _megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _handles() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@tool
def find(parcel: str) -> str:
    """Find a parcel."""
    return f"{parcel} is in hall 3."


@tool
def move(parcel: str) -> str:
    """Move a parcel to the door."""
    return f"{parcel} is at the door."


class Porter(BaseChatModel):
    """Finds a parcel, moves it, and says so."""

    @property
    def _llm_type(self) -> str:
        return "porter"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """It knows its tools."""
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        made = sum(isinstance(message, ToolMessage) for message in messages)
        call = {
            "name": ["find", "move", ""][made],
            "args": {"parcel": str(messages[0].content)},
            "id": f"call {made}",
        }
        reply = AIMessage("Done.") if made == 2 else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def _searching() -> Callable[[int], None]:

    def work(number: int) -> None:
        config = (
            SearchConfig(selection="posterior", max_rollouts=8)
            if number % 2
            else SearchConfig()
        )
        demo.solved(sign_reader(), config=config)

    return work


def _recording(store: SqliteStore) -> Callable[[int], None]:
    """Records a run of an agent, and deletes an old one."""
    experience = Experience(
        store, namespace=("trust",), verdict=lambda _: True, settle_seconds=0
    )
    store.conn.execute(
        "PRAGMA synchronous=OFF"
    )  # what the disk takes is not what is measured
    agent = create_agent(Porter(), [find, move])
    there: deque[str] = deque()

    def record(number: int) -> None:
        thread = f"thread {number}"
        config: Any = {
            "callbacks": [experience.recorder],
            "configurable": {"thread_id": thread},
        }
        agent.invoke(
            {"messages": [("user", f"Move parcel {number} to the door.")]}, config
        )
        there.append(thread)
        if len(there) > KEPT:
            experience.store.delete(there.popleft())

    return record
