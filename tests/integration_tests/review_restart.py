"""Agents whose writes a person approves, of every kind; run as a script, each step of one in a process of its own."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from langchain_tooltree import (
    PlanReviewMiddleware,
    PlanReviewNode,
    ToolTreeMiddleware,
    ToolTreeNode,
    create_tooltree_agent,
    review_condition,
)
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.child_processes import serve

HOSTS = ("node", "middleware", "agent")

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}

EFFECTS: dict[str, Any] = {"find_lamp": "read"}

REQUEST = "Order 2 modern lamps."

FIND = {"name": "find_lamp", "args": {"style": "modern"}, "id": "1", "type": "tool_call"}
ORDER = {"name": "order", "args": {"article": "L-1", "quantity": 2}, "id": "2", "type": "tool_call"}
SAYS = [AIMessage("", tool_calls=[FIND]), AIMessage("", tool_calls=[ORDER]), "Done."]
"""What the model says, one reply after the other."""


class Shop:
    """Tools that say what they did."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def find_lamp(self, style: str) -> str:
        """Find a lamp."""
        self.ran.append(f"find {style}")
        return "L-1, 80 EUR"

    def order(self, article: str, quantity: int) -> str:
        """Order an article."""
        self.ran.append(f"order {quantity} {article}")
        return f"{quantity} x {article} ordered"

    @property
    def tools(self) -> list[StructuredTool]:
        return [StructuredTool.from_function(each) for each in (self.find_lamp, self.order)]


def reviewed_agent(host: str, shop: Shop, *, replies: Sequence[Any] = SAYS, checkpointer: Any = None) -> Any:
    """An agent that plans and has its writes approved.

    Args:
        host: `"node"`: both nodes in a graph; `"middleware"`: both middleware in a `create_agent`; `"agent"`:
            `create_tooltree_agent`.
        shop: Its tools.
        replies: What its model says.
        checkpointer: Where its threads are kept.
    """
    model = ScriptedChatModel(replies=replies)
    if host == "agent":
        return create_tooltree_agent(model, shop.tools, effects=EFFECTS, review=True, checkpointer=checkpointer)
    if host == "middleware":
        middleware: list[Any] = [PlanReviewMiddleware(EFFECTS), ToolTreeMiddleware(effects=EFFECTS)]
        return create_agent(model, shop.tools, middleware=middleware, checkpointer=checkpointer)
    graph = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, shop.tools, effects=EFFECTS))
    graph.add_node("review", PlanReviewNode(EFFECTS))
    graph.add_node("tools", ToolNode(shop.tools))
    graph.add_edge(START, "model")
    graph.add_edge("model", "review")
    graph.add_conditional_edges("review", review_condition, ["tools", "model", END])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer)


def step(*, host: str, path: str, database: str, decision: Any, report: str) -> None:
    """Begin a run, or go on with one that waits for a decision, and write down where it stands then."""
    shop = Shop()
    given: Any = Command(resume={"decisions": [decision]}) if decision else {"messages": [("user", REQUEST)]}
    replies = SAYS[2:] if decision else SAYS[:2]

    async def arun() -> Any:
        async with AsyncSqliteSaver.from_conn_string(database) as saver:
            return await reviewed_agent(host, shop, replies=replies, checkpointer=saver).ainvoke(
                given, THREAD, version="v2"
            )

    def run() -> Any:
        with SqliteSaver.from_conn_string(database) as saver:
            return reviewed_agent(host, shop, replies=replies, checkpointer=saver).invoke(given, THREAD, version="v2")

    output = asyncio.run(arun()) if path == "async" else run()
    state = {
        "messages": [message.text for message in output.value["messages"]],
        "requests": [each.value["action_requests"] for each in output.interrupts],
        "ran": shop.ran,
    }
    Path(report).write_text(json.dumps(state), encoding="utf-8")


if __name__ == "__main__":
    serve(step)
