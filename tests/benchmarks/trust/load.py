"""Two hundred agents at once in one process, and what fails around them: lag, memory, and losses that nobody hears of.

200 agents take turns of three model calls of 50 ms and two tools of 10 ms, as tasks of one event loop and, once more,
as threads; the plain agent first, then ours with an experience. The lag of the loop is how late a timer of 20 ms
fires. Of the faults around an experience (a full disk, a folder that cannot be written, a store that raises now and
then, a clock that goes back an hour), a turn counts as lost silently if it is neither in the store nor in the log.
"""

import asyncio
import gc
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import Experience, create_tooltree_agent

AGENTS = 200
SECONDS, QUICK_SECONDS = 75.0, 5.0
"""For each of the four loads: five minutes in all."""

TICK = 0.02
TURNS = 20
"""Turns that are taken under each fault."""


class Waiting(BaseChatModel):
    """A model that looks two things up, one after the other, and answers; each reply takes 50 ms."""

    @property
    def _llm_type(self) -> str:
        return "waiting"

    @staticmethod
    def _reply(messages: list[BaseMessage]) -> ChatResult:
        looked = sum(isinstance(message, ToolMessage) for message in messages)
        call = {
            "name": "look",
            "args": {"place": f"place {looked}"},
            "id": f"call{looked}",
        }
        reply = (
            AIMessage("", tool_calls=[call])
            if looked < 2
            else AIMessage('{"missing": "nothing"}\nFound.')
        )
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        time.sleep(0.05)
        return self._reply(messages)

    async def _agenerate(
        self, messages: list[BaseMessage], *_: Any, **__: Any
    ) -> ChatResult:
        await asyncio.sleep(0.05)
        return self._reply(messages)

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """Bind nothing."""
        return self.bind()


def _look(place: str) -> str:
    """Look at a place."""
    time.sleep(0.01)
    return f"{place} is empty"


async def _alook(place: str) -> str:
    await asyncio.sleep(0.01)
    return f"{place} is empty"


LOOK = StructuredTool.from_function(_look, coroutine=_alook, name="look")


def _plain(_: Any = None) -> Any:
    return create_agent(Waiting(), [LOOK])


def _ours(store: Any = None) -> Any:
    experience = Experience(
        store or InMemoryStore(), namespace=("all",), verdict=lambda _: True
    )
    return create_tooltree_agent(
        Waiting(), [LOOK], effects={"look": "read"}, experience=experience
    )


def measure(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """Load the process with plain agents and with ours, then break what is around them."""
    seconds = QUICK_SECONDS if quick else SECONDS
    told: dict[str, Any] = {}
    for name, make in (("plain", _plain), ("ours", _ours)):
        told |= {
            f"{name}_async_{what}": value
            for what, value in asyncio.run(_tasks(make(), seconds)).items()
        }
        told |= {
            f"{name}_threads_{what}": value
            for what, value in _threads(make(), seconds).items()
        }
    silent = {
        name: _lost(break_it, scratch / name) for name, break_it in FAULTS.items()
    }
    return {
        "load": {
            **told,
            "lost_silently": sum(silent.values()),
            **{f"lost_{name}": n for name, n in silent.items()},
        }
    }


async def _tasks(graph: Any, seconds: float) -> dict[str, float]:
    until, turns, late = time.monotonic() + seconds, 0, []

    async def agent(number: int) -> None:
        nonlocal turns
        while time.monotonic() < until:
            await graph.ainvoke({"messages": [HumanMessage(f"Look around, {number}.")]})
            turns += 1

    async def ticking() -> None:
        while time.monotonic() < until:
            began = time.monotonic()
            await asyncio.sleep(TICK)
            late.append(time.monotonic() - began - TICK)

    before = _held()
    await asyncio.gather(ticking(), *(agent(number) for number in range(AGENTS)))
    lag = {
        f"lag_p{part}_ms": round(float(np.percentile(late, part)) * 1e3, 1)
        for part in (50, 99)
    }
    return {"turns": turns, **lag, **_grown(before)}


def _threads(graph: Any, seconds: float) -> dict[str, float]:
    until = time.monotonic() + seconds

    def agent(number: int) -> int:
        turns = 0
        while time.monotonic() < until:
            graph.invoke({"messages": [HumanMessage(f"Look around, {number}.")]})
            turns += 1
        return turns

    before = _held()
    with ThreadPoolExecutor(AGENTS) as pool:
        turns = sum(pool.map(agent, range(AGENTS)))
    return {"turns": turns, **_grown(before)}


def _held() -> tuple[float, int, int]:
    """Megabytes, handles and threads of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return (
        pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        len([*Path("/proc/self/fd").iterdir()]),
        threading.active_count(),
    )


def _grown(before: tuple[float, int, int]) -> dict[str, float]:
    megabytes, handles, threads = (
        now - then for now, then in zip(_held(), before, strict=True)
    )
    return {"mb": round(megabytes, 1), "handles": handles, "threads": threads}


# --- faults ---


class _Heard(logging.Handler):
    """Counts what the package says aloud."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def _lost(break_it: Callable[[Path], tuple[Any, Any]], place: Path) -> int:
    """Turns that were neither kept nor said to be lost; the agent has to answer all of them."""
    heard, logger = _Heard(), logging.getLogger("langchain_tooltree")
    logging.disable(logging.NOTSET)
    logger.addHandler(heard)
    try:
        store, fault = break_it(place)
        graph = _ours(store)
        with fault:
            for number in range(TURNS):
                answer = graph.invoke(
                    {"messages": [HumanMessage(f"Look around, {number}.")]}
                )["messages"][-1]
                assert answer.text == "Found."
        kept = 0
        with suppress(Exception):  # a store that is broken for good
            kept = Experience(store, namespace=("all",)).status().runs
        return 0 if heard.messages else TURNS - kept
    finally:
        logger.removeHandler(heard)
        logging.disable(logging.WARNING)


def _full_disk(place: Path) -> tuple[Any, Any]:
    connection = sqlite3.connect(
        f"{place}.db", check_same_thread=False, isolation_level=None
    )
    store = SqliteStore(connection)
    store.setup()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 8}")
    return store, nullcontext()


def _unwritable(place: Path) -> tuple[Any, Any]:
    SqliteStore(
        connection := sqlite3.connect(f"{place}.db", isolation_level=None)
    ).setup()
    connection.close()
    read_only = sqlite3.connect(
        f"file:{place}.db?mode=ro",
        uri=True,
        check_same_thread=False,
        isolation_level=None,
    )
    return SqliteStore(read_only), nullcontext()


class _Resetting(InMemoryStore):
    """A store of which every third call fails."""

    __slots__ = ("_calls",)

    def batch(self, ops: Any) -> Any:
        self._calls = getattr(self, "_calls", 0) + 1
        if self._calls % 3 == 0:
            msg = "The connection was reset."
            raise ConnectionError(msg)
        return super().batch(ops)


def _raising(_: Path) -> tuple[Any, Any]:
    return _Resetting(), nullcontext()


def _clock_back(_: Path) -> tuple[Any, Any]:
    now, looks = time.time, iter(range(10_000_000))
    return InMemoryStore(), mock.patch(
        "time.time", side_effect=lambda: now() - (3_600 if next(looks) % 2 else 0)
    )


FAULTS: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    "full_disk": _full_disk,
    "unwritable": _unwritable,
    "raising": _raising,
    "clock_back": _clock_back,
}
