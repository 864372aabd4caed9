"""Agents whose turn needs a rescue, in a process of their own that is made to be killed.

Run as a script, it is a server that forks one child for each job on standard input (see `child_processes`).

Every model call, tool call and checkpoint appends a line to a log, so that the log survives the process. A job may ask
for the process to be killed once it has written its n-th line. What a tool has done to the world is in the log, too.
"""

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from doubts import middleware_agent, node_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from langchain_tooltree import ObjectSandbox
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.child_processes import serve

MISSING = "where the key is, so that a mail to ann can say it"
OTHERS = "Offer other tool calls"
STEPS: list[tuple[str, dict[str, str]]] = [
    ("write", {"name": "a"}),
    ("write", {"name": "b"}),
    ("erase", {"name": "old"}),
    ("write", {"name": "c"}),
]
REQUESTS = {
    "rescue": "Where is the key? Mail it to ann.",
    "plan": "Write a, b and c, and erase old.",
}


class Journal:
    """Writes down every event, and kills this process once it has written a line."""

    def __init__(self, path: Path, at: int | None = None) -> None:
        self._path, self._at = path, at
        self._lines = 0

    def note(self, line: str) -> None:
        """Write a line, and die if it is the last one."""
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{line}\n".encode())
        os.close(file)
        self._lines += 1
        if self._lines == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

    @property
    def lines(self) -> list[str]:
        """What was written by all runs of the thread."""
        return self._path.read_text().splitlines() if self._path.exists() else []


class Clerk(ScriptedChatModel):
    """Knows what to do from what it is shown alone, so that it goes on in any process."""

    journal: Any

    def _respond(
        self, messages: list[BaseMessage], _: Sequence[Mapping[str, Any]]
    ) -> Any:
        request = next(each.text for each in messages if isinstance(each, HumanMessage))
        others = OTHERS in messages[-1].text
        key = "others" if others else f"own {len(messages)}"
        self.journal.note(f"start model {key}")
        reply = (
            self._others()
            if others
            else self._rescue(messages)
            if "key" in request
            else self._plan(messages)
        )
        self.journal.note(f"end model {key}")
        return reply

    @staticmethod
    def _others() -> AIMessage:
        places = ("void", "shelf")
        return AIMessage(
            "",
            tool_calls=[
                {"name": "look", "args": {"place": at}, "id": at} for at in places
            ],
        )

    @staticmethod
    def _rescue(messages: Sequence[BaseMessage]) -> Any:
        seen = {
            each.name: each.text for each in messages if isinstance(each, ToolMessage)
        }
        if "send" in seen:
            return '{"missing": "nothing"}\nThe key lies on the shelf, and ann knows.'
        if "key" in seen.get("look", ""):
            call = {
                "name": "send",
                "args": {"to": "ann", "text": seen["look"]},
                "id": "send",
            }
            return AIMessage("", tool_calls=[call])
        if not seen:
            return AIMessage(
                "",
                tool_calls=[
                    {"name": "look", "args": {"place": "cellar"}, "id": "cellar"}
                ],
            )
        return f"{json.dumps({'missing': MISSING})}\nIt is not in the cellar."

    @staticmethod
    def _plan(messages: Sequence[BaseMessage]) -> Any:
        done = sum(isinstance(each, ToolMessage) for each in messages)
        if done == len(STEPS):
            return '{"missing": "nothing"}\nAll is written.'
        name, args = STEPS[done]
        return AIMessage(
            "", tool_calls=[{"name": name, "args": args, "id": f"{name}_{done}"}]
        )


class Files:
    """A folder; what is done to the real one stands in the journal, and what is done to a fork does not last."""

    def __init__(self, journal: Journal, *, real: bool = True) -> None:
        self._journal, self._tool = journal, "tool" if real else "trial"

    def __deepcopy__(self, _: Any) -> "Files":
        return Files(self._journal, real=False)

    def write(self, name: str) -> str:
        """Write a file."""
        return self._did(f"write {name}")

    def erase(self, name: str) -> str:
        """Erase a file."""
        return self._did(f"erase {name}")

    def _did(self, what: str) -> str:
        self._journal.note(f"start {self._tool} {what}")
        self._journal.note(f"end {self._tool} {what}")
        return f"{what}: done"


def house_tools(journal: Journal) -> list[BaseTool]:
    """Tools to look around, and to tell somebody."""

    def look(place: str) -> str:
        """Look what is in a place."""
        journal.note(f"start tool look {place}")
        journal.note(f"end tool look {place}")
        return "the key" if place == "shelf" else ""

    def send(to: str, text: str) -> str:
        """Send a mail."""
        journal.note(f"start tool send {to}")
        journal.note(f"end tool send {to}")
        return f"{text} sent to {to}"

    return [StructuredTool.from_function(look), StructuredTool.from_function(send)]


def agent_of(host: str, turn: str, journal: Journal, checkpointer: Any) -> Any:
    """The agent or graph under test."""
    model = Clerk(journal=journal)
    if turn == "plan":
        sandbox = ObjectSandbox.of_methods(Files(journal))
        tools, options = list(sandbox.tools), {"sandbox": sandbox}
    else:
        tools, options = house_tools(journal), {"effects": {"look": "read"}}
    make = middleware_agent if host == "agent" else node_agent
    return make(model, tools, checkpointer=checkpointer, **options)


def noting(saver: Any, journal: Journal) -> Any:
    """A checkpointer that writes down each checkpoint once it is kept."""
    put, aput = saver.put, saver.aput

    def noted(*arguments: Any) -> Any:
        config = put(*arguments)
        journal.note("checkpoint")
        return config

    async def anoted(*arguments: Any) -> Any:
        config = await aput(*arguments)
        journal.note("checkpoint")
        return config

    saver.put, saver.aput = noted, anoted
    return saver


def asked(turn: str) -> dict[str, Any]:
    """The input of a turn."""
    return {"messages": [HumanMessage(REQUESTS[turn])]}


def outcome(state: Any) -> dict[str, Any]:
    """What a run has come to, without what no two runs share."""
    messages = state.values["messages"]
    return {
        "messages": [
            [
                each.type,
                each.text,
                each.name,
                [
                    [call["name"], call["args"]]
                    for call in getattr(each, "tool_calls", ())
                ],
            ]
            for each in messages
        ],
        "metadata": {
            key: len(value) if key == "removed" else value
            for key, value in messages[-1].response_metadata.get("tooltree", {}).items()
            if key != "search"
        },
        "usage": messages[-1].usage_metadata,
        "next": list(state.next),
        "mark": state.values.get("tooltree", {}),
    }


def work(
    *,
    host: str,
    turn: str,
    path: str,
    database: str,
    thread: str,
    log: str,
    report: str,
    resumed: bool = False,
    kill: int | None = None,
) -> None:
    """Run or resume a turn to its end or to the kill; each super-step is kept before the next one begins.

    Args:
        host: `"agent"` or `"node"`.
        turn: `"rescue"`: own steps, doubts, tried reads of which one leads nowhere, and a write after a stop that named
            it. `"plan"`: four writes that are tried in a sandbox before they are made.
        path: `"sync"` or `"async"`.
        database: The checkpointer: a Postgres connection string, or the file of a SQLite database.
        thread: Id of the thread.
        log: Where each event writes its line.
        report: Where the outcome goes, if there is one.
        resumed: Whether the run goes on from its checkpoint.
        kill: The line, from 1, after which the process is killed.
    """
    journal = Journal(Path(log), kill)
    given = None if resumed else asked(turn)
    config: Any = {"configurable": {"thread_id": thread}}
    is_postgres = database.startswith("postgresql")
    saver_kind: Any = PostgresSaver if is_postgres else SqliteSaver
    asaver_kind: Any = AsyncPostgresSaver if is_postgres else AsyncSqliteSaver

    def run() -> Any:
        with saver_kind.from_conn_string(database) as saver:
            agent = agent_of(host, turn, journal, noting(saver, journal))
            agent.invoke(given, config, durability="sync")
            return agent.get_state(config)

    async def arun() -> Any:
        async with asaver_kind.from_conn_string(database) as saver:
            agent = agent_of(host, turn, journal, noting(saver, journal))
            await agent.ainvoke(given, config, durability="sync")
            return await agent.aget_state(config)

    state = asyncio.run(arun()) if path == "async" else run()
    Path(report).write_text(json.dumps(outcome(state)))


if __name__ == "__main__":
    serve(work)
