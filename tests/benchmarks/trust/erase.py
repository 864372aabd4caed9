"""Put a text of its own into each part of what is kept of a run, forget it, and look for the texts in every byte."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import CFGMMemory, ChromaStore, Experience, SITGraph, Trajectory
from langchain_tooltree.experience.trajectory import Branch
from langchain_tooltree.testing import ScriptedChatModel
from tests.integration_tests.store_servers import postgres_server

PARTS = (
    *(
        "request",
        "arguments",
        "result",
        "answer",
        "instructions",
        "reasons",
        "metadata",
        "tool",
        "branch",
        "summary",
    ),
    *(
        "label",
        "earlier",
        "attempt",
        "pending",
        "tip",
        "focus",
        "record_half",
        "entry_half",
    ),
    *("of_user", "id", "source"),
)
"""What holds a text of its own."""

NAMESPACE = ("trust", "{user_id}")
OTHERS = 10  # runs of somebody else beside it
MANY = 550  # enough for Chroma to write its indexes


@dataclass(frozen=True)
class Opened:
    """A store, and how to read every byte that it keeps."""

    store: BaseStore
    contents: Callable[[], Iterator[bytes]]


def measure(scratch: Path, *, quick: bool) -> dict[str, Any]:
    """Count the texts that are left after forgetting by run, by tool, by time and by user, in four kinds of stores."""
    found = {"texts": 0, "texts_left": 0}
    for opened in (in_memory, chroma, sqlite, postgres):
        for way in ("run", "tool", "user"):
            folder = scratch / f"{opened.__name__}-{way}"
            folder.mkdir(parents=True)
            many = opened is chroma and way == "run" and not quick
            put, left = forgotten(opened, way, folder, MANY if many else OTHERS)
            found["texts"] += put
            found["texts_left"] += len(left)
            if left:
                print(
                    f"left in {opened.__name__} after forgetting by {way}: {', '.join(left)}"
                )
    return {"erase": found}


def text_of(part: str) -> str:
    """The text that a part holds, which stands nowhere else."""
    return f"Z9{part.replace('_', '')}Q7secret"


def forgotten(
    opened: Any, way: str, folder: Path, others: int
) -> tuple[int, list[str]]:
    """Keep a run in every way there is, and forget it: how many texts were put somewhere, and which are left."""
    with opened(folder) as found:
        everybody = Experience(found.store, model=_teller(), namespace=NAMESPACE)
        bob = everybody.within(user_id="bob")
        for number in range(others):
            bob.store.add(_plain(f"bob {number}"))
        bob.learn(_plain("bob"))
        mine = everybody.within(user_id=text_of("of_user"))
        graph, names = _filled(mine, folder / "graph")
        before = _parts_in(found, folder)
        what: dict[str, Any] = {"user": text_of("of_user")}
        if way != "user":
            mine.learn(_plain("mine"))
        if way == "run":
            what = {"run": names}
        elif way == "tool":
            what = {"tool": text_of("tool")}
        (everybody if way == "user" else mine).forget(
            **what, graphs=[graph, folder / "graph"]
        )
        graph.save(folder / "graph")
        expected = {*PARTS} if way == "user" else {*PARTS} - {"of_user"}
        if way == "tool":  # halves of which nobody knows the tool, and tips of no run
            expected -= {"entry_half"}
        left = [part for part in _parts_in(found, folder) if part in expected]
        assert len(bob.graph) == others + 1
        return len(before), left


def _filled(experience: Experience, folder: Path) -> tuple[SITGraph, list[str]]:
    """An experience in which every part holds its text; a graph beside it, and the ids of the runs."""
    secret = Trajectory.from_chat(
        _said(text_of("tool")),
        id=text_of("id"),
        success=True,
        reasons=text_of("reasons"),
        instructions=text_of("instructions"),
        branches=[
            Branch("helper", 1, ({"role": "assistant", "content": text_of("branch")},))
        ],
        metadata={"note": text_of("metadata"), "came_from": text_of("source")},
    )
    earlier = replace(secret, metadata={"note": text_of("earlier")})
    experience.learn(earlier)  # whose version is overwritten
    experience.learn(secret)
    experience.memory.extract_tips()
    experience.label(secret.id, success=True, reasons=text_of("label"))
    waits = replace(
        _run("waits", text_of("pending")), success=None, metadata={"pending": 0.0}
    )
    tried = replace(
        _run("tried", text_of("attempt")),
        success=False,
        metadata={"attempt_of": secret.id},
    )
    halves = [
        _run("first half", text_of("record_half")),
        _run("second half", text_of("entry_half")),
    ]
    for each in (waits, tried, *halves):
        experience.store.add(each)
    store, place = experience.store.place
    store.delete((*place, "tasks"), "first half")
    store.delete((*place, "trajectories"), "second half")
    point = {"reasoning": "It matters.", "focus_point": text_of("focus")}
    pointer = ScriptedChatModel(replies=[{"focus_points": [point]}])
    CFGMMemory(pointer, experience.store).focus_points("A shop.", [secret])
    graph = SITGraph.from_trajectories([secret, _plain("another")])
    graph.save(folder)
    experience.graph.suggest(
        None, messages=[{"role": "user", "content": text_of("request")}]
    )
    return graph, [secret.id, "waits", "first half", "second half"]


def _said(tool: str, part: Callable[[str], str] = text_of) -> list[dict[str, Any]]:
    summary = {
        "name": "summarize_state",
        "arguments": json.dumps({"state": part("summary")}),
    }
    call = {"name": tool, "arguments": json.dumps({"of": part("arguments")})}
    made = [
        {"id": str(number), "type": "function", "function": each}
        for number, each in enumerate((call, summary, call))
    ]
    said: list[dict[str, Any]] = [
        {"role": "user", "content": f"A wish: {part('request')}."}
    ]
    for each in made:
        said.append({"role": "assistant", "content": None, "tool_calls": [each]})
        said.append(
            {"role": "tool", "tool_call_id": each["id"], "content": part("result")}
        )
    return [*said, {"role": "assistant", "content": part("answer")}]


def _run(name: str, text: str) -> Trajectory:
    """A run that holds one text, and calls the tool in question."""
    return Trajectory.from_chat(
        _said(text_of("tool"), lambda _: text), id=name, success=True
    )


def _plain(name: str) -> Trajectory:
    return Trajectory.from_chat(
        _said("look", lambda part: f"{name} {part}"), id=name, success=True
    )


def _teller() -> BaseChatModel:
    shown = [
        {"tool": text_of("tool"), "quote": text_of("result")},
        {"tool": "look", "quote": "result"},
    ]
    tip = {
        "reasoning": "The records show it.",
        "when": "it rains",
        "tip": text_of("tip"),
        "bears_out": shown,
    }
    return ScriptedChatModel(replies=[{"tips": [tip], "followed": []}] * 9)


def _parts_in(opened: Opened, folder: Path) -> list[str]:
    contents = [*opened.contents(), *_bytes_in(folder / "graph")]
    return [
        part
        for part in PARTS
        if any(text_of(part).encode() in each for each in contents)
    ]


def _bytes_in(folder: Path) -> Iterator[bytes]:
    for each in folder.rglob("*"):
        yield each.name.encode()
        if each.is_file():
            yield each.read_bytes()


@contextmanager
def in_memory(folder: Path) -> Iterator[Opened]:
    store = InMemoryStore()
    yield Opened(store, lambda: iter([repr((store._data, store._vectors)).encode()]))


@contextmanager
def chroma(folder: Path) -> Iterator[Opened]:
    with ChromaStore(folder / "store") as store:
        yield Opened(store, lambda: _bytes_in(folder / "store"))


@contextmanager
def sqlite(folder: Path) -> Iterator[Opened]:
    (folder / "store").mkdir()
    connection = sqlite3.connect(
        folder / "store" / "s.db", check_same_thread=False, isolation_level=None
    )
    connection.execute("PRAGMA journal_mode=WAL")
    store = SqliteStore(connection)
    store.setup()
    yield Opened(store, lambda: _bytes_in(folder / "store"))
    connection.close()


@contextmanager
def postgres(folder: Path) -> Iterator[Opened]:
    """A Postgres, vacuumed as the report says before its tables are read."""
    with postgres_server() as address, PostgresStore.from_conn_string(address) as store:
        store.setup()
        with store._cursor() as cursor:
            cursor.execute("SHOW data_directory")
            data = Path(cursor.fetchone()["data_directory"])

        def contents() -> Iterator[bytes]:
            with store._cursor() as cursor:
                cursor.execute("VACUUM FULL store")
                cursor.execute("CHECKPOINT")
            for each in (data / "base").rglob("*"):
                if each.is_file():
                    yield each.read_bytes()

        yield Opened(store, contents)
