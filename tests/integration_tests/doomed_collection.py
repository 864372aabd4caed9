"""A collection of experience in a process of its own, made to be killed.

Run as a script, it is a server (see `child_processes`). Everything that happens is appended to a log, which survives
the process: questions to the model, worlds, actions, and records that were written.
"""

import asyncio
import hashlib
import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

from child_processes import serve
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import ExperienceStore
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.cfgm import FailureForm, acollect, collect, said

NEEDED = {"Open the shed": 0, "Light the lamp": 2, "Fly to the moon": 9, "Water the roses": 1}
"""Tasks, and how many reflections it takes until they succeed."""

LENGTH = 5
"""Actions that an attempt takes."""

PARALLEL = (2, 3)
"""The actions that a model asks for at once."""


LONGEST_LIFE = {"environment": 90, "agent": 120, "graph": 150}
"""Events that a doomed process sees at the most; an attempt by a graph, which is not kept half-way, has some 70."""


class Fate:
    """Counts what happens, writes it down, and kills the process when its time has come."""

    def __init__(self, log: str, dies_after: int | None) -> None:
        self._file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._left = dies_after
        self._lock = threading.Lock()

    def note(self, line: str) -> None:
        """Write down that something begins or has ended; the process may die right before or after."""
        self._pass()
        os.write(self._file, f"{line}\n".encode())
        self._pass()

    def _pass(self) -> None:
        with self._lock:
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)


class Thoughtful(ScriptedChatModel):
    """Answers by what it reads: right actions once it has read enough reflections."""

    fate: Any

    def _respond(self, messages: Any, tools: Any) -> Any:
        key = hashlib.sha256(repr([said(message) for message in messages]).encode()).hexdigest()[:16]
        self.fate.note(f"ask {key}")
        reply = self._reply(messages, tools)
        self.fate.note(f"answer {key}")
        return reply

    def _reply(self, messages: Any, tools: Any) -> Any:
        names = [each["function"]["name"] for each in tools]
        if FailureForm.__name__ in names:
            return {
                "what_went_wrong": f"Not enough was known ({len(messages[1].text)}).",
                "next_time": "Think: LESSON.",
            }
        opening = next(message for message in messages if message.type == "human").text
        # An agent may give several calls at once, as the second reply of each attempt does.
        done = sum(message.type == "tool" for message in messages)
        if done >= LENGTH:
            return "Done."
        count = 2 if done + 1 == PARALLEL[0] else 1
        verb = "right" if opening.count("LESSON") >= self._needed(opening) else "wrong"
        calls = [
            {"name": names[0], "args": {"action": f"{verb} {done + n}"}, "id": f"call_{done + n}"} for n in range(count)
        ]
        return AIMessage(f"Step {done}.", tool_calls=calls)

    def _needed(self, opening: str) -> int:
        return next(needed for task, needed in NEEDED.items() if task in opening)


class Garden:
    """A world that is content with right actions, and tells after each what was done before.

    It does not tell so in the middle of parallel calls, of which no one knows the order.
    """

    def __init__(self, fate: Fate, task: str) -> None:
        self._fate = fate
        self._right = 0
        self._taken = 0
        self._lock = threading.Lock()
        fate.note(f"world {task}")

    def reset(self, task: str) -> str:
        """Begin."""
        return f"You stand in a garden and are to: {task}"

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        """Act; what one sees depends on all that was done before."""
        with self._lock:
            self._fate.note(f"act {action}")
            self._taken += 1
            self._right += action.startswith("right")
            alone = self._taken not in PARALLEL
            seen = f"{action}: {self._right} of {self._taken} things are right." if alone else f"{action}: done."
            self._fate.note(f"acted {action}")
            return seen, float(self._right >= LENGTH), self._taken >= LENGTH, {}


class WatchedStore(SqliteStore):
    """A store that may die around every write."""

    fate: Any = None

    def batch(self, ops: Any) -> Any:
        """Write and delete records, or read them."""
        ops = list(ops)
        puts = [op for op in ops if isinstance(op, PutOp)]
        for op in puts:
            self.fate.note(f"{'put' if op.value is not None else 'delete'} {op.namespace[-1]} {op.key}")
        results = super().batch(ops)
        for op in puts:
            self.fate.note(f"{'kept' if op.value is not None else 'deleted'} {op.namespace[-1]} {op.key}")
        return results


def action_tool(garden: Garden) -> Any:
    """The tool by which a graph acts."""

    @tool
    def do(action: str) -> str:
        """Do something in the garden."""
        return garden.step(action)[0]

    return do


def agent_for(kind: str, fate: Fate, model: Thoughtful) -> Any:
    """A function that makes a fresh world, and an agent in it."""

    def own_graph(do: Any) -> Any:
        def think(state: MessagesState) -> Any:
            return {"messages": [model.bind_tools([do]).invoke([SystemMessage("Be good."), *state["messages"]])]}

        graph = StateGraph(MessagesState)
        graph.add_node("think", think)
        graph.add_node("tools", ToolNode([do]))
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", tools_condition)
        graph.add_edge("tools", "think")
        return graph.compile()

    def make(task: str) -> Any:
        garden = Garden(fate, task)
        if kind == "environment":
            return garden
        do = action_tool(garden)
        if kind == "agent":
            return create_agent(model, [do], system_prompt="Be good.", checkpointer=InMemorySaver())
        return own_graph(do)

    return make


def evaluate(task: str, result: Any) -> float:
    """How much of the task was done."""
    if "reward" in result:
        return float(result["reward"])
    return sum(message.type == "tool" and message.text.startswith("right") for message in result["messages"]) / LENGTH


def run(*, kind: str, path: str, concurrency: int, database: str, log: str, report: str, seed: int | None) -> None:
    """Collect, up to the end or to the kill.

    Args:
        kind: Who acts: `environment`, `agent` (create_agent) or `graph` (a hand-written one).
        path: `sync` or `async`.
        concurrency: Tasks at once.
        database: The store's file.
        log: Where it is written what happens.
        report: Where the report goes, if there is one.
        seed: Draws the time of death; no death if left out.
    """
    dies_after = None if seed is None else random.Random(seed).randrange(1, LONGEST_LIFE[kind])  # noqa: S311 - no secret
    fate = Fate(log, dies_after)
    model = Thoughtful(fate=fate)
    with WatchedStore.from_conn_string(database) as store:
        store.setup()
        store.fate = fate
        arguments = (model, ExperienceStore(store), agent_for(kind, fate, model), list(NEEDED), evaluate)
        options: Any = {"focus_points": ["Be gentle."], "max_retries": 2, "max_concurrency": concurrency}
        run_all = acollect(*arguments, **options) if path == "async" else None
        outcome = asyncio.run(run_all) if run_all else collect(*arguments, **options)
    Path(report).write_text(str(outcome), encoding="utf-8")


if __name__ == "__main__":
    serve(run)
