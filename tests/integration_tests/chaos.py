"""One part of an agent's run in a process of its own, up to its end, its failure or its death.

A run is made of parts: each goes on from what the one before has left in the checkpointer's file. What becomes of a
part that does not die is written to a report, and what was emitted and done to the ledger.
"""

import asyncio
import json
import logging
import signal
from pathlib import Path
from typing import Any

from child_processes import serve
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import GraphDrained
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.runtime import RunControl
from langgraph.types import Command
from shop import MISHAP, TOOL_TIMEOUT, Fate, Ledger, Luck, MoodyModel, Shop, Shopper

from langchain_tooltree import (
    ObjectSandbox,
    PlanReviewMiddleware,
    PlanReviewNode,
    SearchConfig,
    ToolTreeMiddleware,
    ToolTreeNode,
    create_tooltree_agent,
    review_condition,
)

THREAD: RunnableConfig = {"configurable": {"thread_id": "chaos"}, "recursion_limit": 100}

EFFECTS: dict[str, Any] = {"check": "read"}

BOUND = ("check", "order")
"""Tools that a sandbox can try out; the other has the runtime injected."""


def run(
    *,
    scenario: dict[str, Any],
    part: int,
    fate: dict[str, Any],
    given: dict[str, Any],
    database: str,
    ledger: str,
    report: str,
) -> None:
    """Do one part of a run.

    Args:
        scenario: What is the same in all parts of a run; see `campaign.Scenario`.
        part: Which part this is.
        fate: When the process dies, or the run is stopped: the arguments of `Fate`.
        given: A `request`, an `answer` to what a person was asked, or nothing, to go on.
        database: The checkpointer's file.
        ledger: The ledger's file.
        report: Where the outcome goes, if there is one.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job that a shell put in the background ignores it
    control = RunControl()
    watched = Fate(**fate, control=control)
    luck = Luck(scenario["seed"], part, scenario["trouble"])
    book = Ledger(Path(ledger), part, watched, luck)
    Run(scenario, Shop(book, watched, luck), book, control).do(_input(given), database, Path(report))


def _input(given: dict[str, Any]) -> Any:
    if "request" in given:
        return {"messages": [HumanMessage(given["request"], id=given["request"])]}
    return Command(resume=given["answer"]) if "answer" in given else None


class Run:
    """The agent of a run, and how it is driven."""

    def __init__(self, scenario: dict[str, Any], shop: Shop, ledger: Ledger, control: RunControl) -> None:
        self._scenario = scenario
        self._shop = shop
        self._ledger = ledger
        self._options: dict[str, Any] = {
            "stream_mode": "updates",
            "durability": scenario["durability"],
            "control": control,
        }

    def do(self, given: Any, database: str, report: Path) -> None:
        """Go on to the end, and tell how it was."""
        try:
            if self._scenario["path"] == "async":
                state = asyncio.run(self._ado(given, database))
            else:
                with SqliteSaver.from_conn_string(database) as saver:
                    agent = self._agent(saver)
                    for update in agent.stream(given, THREAD, **self._options):
                        self._note(update)
                    state = agent.get_state(THREAD)
            outcome: dict[str, Any] = {"asked": [interrupt.value for interrupt in state.interrupts]}
        except GraphDrained:
            outcome = {"stopped": "drained"}
        except KeyboardInterrupt:
            outcome = {"stopped": "interrupted"}
        except Exception as error:  # noqa: BLE001 - whatever it is, the campaign decides what it means
            outcome = {"failed": f"{type(error).__name__}: {error}", "expected": MISHAP in str(error)}
        report.write_text(json.dumps(outcome))

    async def _ado(self, given: Any, database: str) -> Any:
        async with AsyncSqliteSaver.from_conn_string(database) as saver:
            agent = self._agent(saver)
            async for update in agent.astream(given, THREAD, **self._options):
                self._note(update)
            return await agent.aget_state(THREAD)

    def _note(self, update: dict[str, Any]) -> None:
        """Take down the calls that leave the planner, or a review, before any of them is carried out."""
        for written in update.values():
            for message in (written or {}).get("messages", ()) if isinstance(written, dict) else ():
                for call in message.tool_calls if isinstance(message, AIMessage) else ():
                    self._ledger.note("emitted", key=call["id"], name=call["name"], args=call["args"])

    def _agent(self, checkpointer: Any) -> Any:
        scenario = self._scenario
        tools = self._shop.tools()
        luck = self._shop.luck
        model = MoodyModel(policy=Shopper(luck), luck=luck, fate=self._shop.fate)
        config = SearchConfig(seed=scenario["seed"], tool_timeout=TOOL_TIMEOUT, **scenario["limits"])
        parts: dict[str, Any] = {"effects": EFFECTS, "config": config}
        if scenario["sandbox"]:
            parts["sandbox"] = ObjectSandbox(
                self._shop, lambda shop: [tool for tool in shop.tools() if tool.name in BOUND]
            )
        if scenario["host"] == "node":
            return self._graph(model, tools, parts, checkpointer)
        middleware: list[Any] = []
        if scenario["handles_errors"]:
            middleware.append(ToolRetryMiddleware(max_retries=1, initial_delay=0.0, jitter=False))
        if scenario["host"] == "agent":
            parts["review"] = scenario["review"]
            return create_tooltree_agent(model, tools, middleware=middleware, checkpointer=checkpointer, **parts)
        planner = ToolTreeMiddleware(host_middleware=middleware, **parts)
        review = [PlanReviewMiddleware(EFFECTS)] if scenario["review"] else []
        return create_agent(model, tools, middleware=[*middleware, *review, planner], checkpointer=checkpointer)

    def _graph(self, model: Any, tools: Any, parts: dict[str, Any], checkpointer: Any) -> Any:
        graph = StateGraph(MessagesState)
        graph.add_node("model", ToolTreeNode(model, tools, **parts))
        tools_node: Any = ToolNode(tools, handle_tool_errors=self._scenario["handles_errors"])
        graph.add_edge(START, "model")
        if self._scenario["review"]:
            review = PlanReviewNode(EFFECTS)
            tools_node = review.guard(tools_node)
            graph.add_node("review", review)
            graph.add_edge("model", "review")
            graph.add_conditional_edges("review", review_condition, ["tools", "model", END])
        else:
            graph.add_conditional_edges("model", tools_condition)
        graph.add_node("tools", tools_node)
        graph.add_edge("tools", "model")
        return graph.compile(checkpointer=checkpointer)


if __name__ == "__main__":
    logging.getLogger("langchain_tooltree").setLevel(logging.ERROR)  # planning fails here all the time
    serve(run)
