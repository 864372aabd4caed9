"""A process is killed at every step of a rescue; a new one goes on from the checkpoints, and repeats one step at most.

A step is a super-step of the graph: a visit of the model node with all that it asks, or the calls of one message.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, product, repeat
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from agents import invoke
from conversations import check_pairs
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from rescued import Journal, agent_of, asked
from store_references import References
from store_servers import postgres_programs

from tests.internals.child_processes import Servers, servers

TURNS = ("rescue", "plan")
HOSTS = ("agent", "node")

SCRIPT = Path(__file__).with_name("rescued.py")

CHECKPOINT = "checkpoint"

PLACES = [
    pytest.param("sqlite", {"agent": "sync", "node": "async"}, 31, id="sqlite"),
    pytest.param(
        "postgres",
        {"agent": "async", "node": "sync"},
        71,
        id="postgres",
        marks=pytest.mark.skipif(
            postgres_programs() is None, reason="pgserver has no wheel for this Python"
        ),
    ),
]
"""The checkpointers, which path each host takes with them, and of how many lines one is followed by a kill."""


@pytest.fixture(scope="module")
def children() -> Iterator[Servers]:
    with servers(SCRIPT, count=1) as running:
        yield running


@pytest.fixture
def databases(place: str, references: References, tmp_path: Path) -> Iterator[str]:
    """Where each run keeps its checkpoints."""
    if place == "sqlite":
        return (str(tmp_path / f"{number}.db") for number in count())
    with PostgresSaver.from_conn_string(references.postgres) as saver:
        saver.setup()
    return repeat(references.postgres)


@dataclass(frozen=True)
class Run:
    """What a run has come to, and what it has done, a line each."""

    outcome: dict[str, Any]
    lines: list[str]

    def made(self, kind: str) -> Counter[str]:
        """The calls of a kind: `model`, `tool`, or `trial` for those in a fork."""
        return Counter(line for line in self.lines if line.startswith(f"start {kind} "))


def in_flight(lines: Sequence[str]) -> Counter[str]:
    """The calls that were begun since the latest checkpoint."""
    begun: Counter[str] = Counter()
    for line in lines:
        begun = (
            Counter()
            if line == CHECKPOINT
            else begun + Counter([line] * line.startswith("start"))
        )
    return begun


def check_resumed(run: Run, whole: Run, at: int) -> None:
    """Fail unless a run that was killed after its n-th line ended as the whole one, and repeated one step at most."""
    assert run.lines[:at] == whole.lines[:at]
    assert run.outcome == whole.outcome, f"killed at {at}, {run.lines[at - 1]}"
    again = sum(
        (run.made(kind) - whole.made(kind) for kind in ("model", "tool", "trial")),
        Counter(),
    )
    assert again == in_flight(run.lines[:at])


def check_whole(run: Run, turn: str) -> None:
    """Fail unless a run holds every kind of step that its turn is about."""
    assert run.outcome["next"] == []
    assert run.outcome["mark"] == {}
    if turn == "plan":
        assert (
            run.made("model").total(),
            run.made("trial").total(),
            run.made("tool").total(),
        ) == (5, 4, 4)
    else:
        assert run.outcome["metadata"]["tried"] == [
            'look(place="cellar")',
            'look(place="void")',
        ]
        assert (run.made("model").total(), run.made("tool").total()) == (7, 4)
        assert [
            text for kind, text, *_ in run.outcome["messages"] if kind == "tool"
        ] == [
            "the key",
            "the key sent to ann",
        ]


@pytest.mark.parametrize(("place", "paths", "every"), PLACES)
def test_a_process_that_was_killed_at_any_step_is_resumed_by_another(
    children: Servers,
    databases: Iterator[str],
    tmp_path: Path,
    place: str,
    paths: dict[str, str],
    every: int,
) -> None:
    def run(host: str, turn: str, at: int | None) -> Run:
        name = f"{host} {turn} {at}"
        log, report = tmp_path / f"{name}.log", tmp_path / f"{name}.json"
        job = {
            "host": host,
            "turn": turn,
            "path": paths[host],
            "database": next(databases),
            "thread": name,
        }
        job |= {"log": str(log), "report": str(report)}
        ended = children.do({**job, "kill": at})
        if at is not None:
            assert ended == -SIGKILL
            ended = children.do({**job, "resumed": True})
        assert ended == 0
        return Run(json.loads(report.read_text()), Journal(log).lines)

    kinds = list(product(HOSTS, TURNS))
    with ThreadPoolExecutor(children.count) as pool:
        whole = dict(
            zip(kinds, pool.map(lambda kind: run(*kind, None), kinds), strict=True)
        )
        for kind, each in whole.items():
            check_whole(each, kind[1])
        starts = {
            "agent": 1,
            "node": 1 + every // 2,
        }  # so that both together are killed after twice as many lines
        points = [
            (*kind, at)
            for kind in kinds
            for at in range(starts[kind[0]], len(whole[kind].lines), every)
        ]
        for (host, turn, at), resumed in zip(
            points, pool.map(lambda point: run(*point), points), strict=True
        ):
            check_resumed(resumed, whole[host, turn], at)


# --- time travel ---

THREAD: Any = {"configurable": {"thread_id": "1"}}


@pytest.mark.parametrize("host", HOSTS)
def test_a_thread_that_is_forked_inside_a_search_takes_another_branch(
    host: str, path: str, tmp_path: Path
) -> None:
    journal, saver = Journal(tmp_path / "log"), InMemorySaver()
    agent = agent_of(host, "rescue", journal, saver)
    invoke(agent, asked("rescue"), THREAD, path=path)
    history = agent.get_state_history(THREAD)
    tried = next(
        each
        for each in history
        if _latest_call(each) == {"place": "void"} and each.next == ("tools",)
    )

    call = tried.values["messages"][-1].tool_calls[0]
    seen = ToolMessage("the key", tool_call_id=call["id"], name="look")
    fork = agent.update_state(tried.config, {"messages": [seen]}, as_node="tools")
    before = len(journal.lines)
    messages = invoke(agent, None, fork, path=path)["messages"]

    check_pairs(messages)
    assert [
        each.tool_calls[0]["args"]
        for each in messages
        if each.type == "ai" and each.tool_calls
    ] == [
        {"place": "void"},
        {"to": "ann", "text": "the key"},
    ]
    assert messages[-1].response_metadata["tooltree"]["tried"] == [
        'look(place="cellar")'
    ]
    assert [
        line for line in journal.lines[before:] if line.startswith("start tool")
    ] == ["start tool send ann"]


def _latest_call(snapshot: Any) -> Any:
    last = snapshot.values["messages"][-1] if snapshot.values.get("messages") else None
    return (
        last.tool_calls[0]["args"]
        if isinstance(last, AIMessage) and last.tool_calls
        else None
    )
