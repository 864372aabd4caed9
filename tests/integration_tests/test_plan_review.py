"""A person approves the writes of a planner, in every host; the decision is given to an agent that is made anew."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from composition import THREAD
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
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

EFFECTS: dict[str, Any] = {"find_lamp": "read"}

FIND = {
    "name": "find_lamp",
    "args": {"style": "modern"},
    "id": "1",
    "type": "tool_call",
}
ORDER = {
    "name": "order",
    "args": {"article": "L-1", "quantity": 2},
    "id": "2",
    "type": "tool_call",
}

DESCRIPTION = """\
order(article='L-1', quantity=2) waits for approval.
The user asked: 'Order 2 modern lamps.'
Not from the user, only in the result of find_lamp(style='modern'): article 'L-1'
Read for it: find_lamp(style='modern') gave 'L-1, 80 EUR'"""

DECISIONS: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "approve": ({"type": "approve"}, ["order 2 L-1"], "2 x L-1 ordered"),
    "edit": (
        {
            "type": "edit",
            "edited_action": {
                "name": "order",
                "args": {"article": "L-1", "quantity": 1},
            },
        },
        ["order 1 L-1"],
        "1 x L-1 ordered",
    ),
    "reject": (
        {"type": "reject", "message": "Too dear."},
        [],
        "with reason: Too dear.",
    ),
}
"""What a person decides, what is ordered then, and how the result ends that the agent reads."""


class Shop:
    """Tools that note what they did."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def find_lamp(self, style: str) -> str:
        """Find a lamp."""
        self.calls.append(f"find {style}")
        return "L-1, 80 EUR"

    def order(self, article: str, quantity: int) -> str:
        """Order an article."""
        self.calls.append(f"order {quantity} {article}")
        return f"{quantity} x {article} ordered"


def by_node(model: Any, tools: Sequence[Any], checkpointer: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, tools, effects=EFFECTS))
    graph.add_node("review", PlanReviewNode(EFFECTS))
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_edge("model", "review")
    graph.add_conditional_edges("review", review_condition, ["tools", "model", END])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer)


def by_middleware(model: Any, tools: Sequence[Any], checkpointer: Any) -> Any:
    middleware: list[Any] = [
        PlanReviewMiddleware(EFFECTS),
        ToolTreeMiddleware(effects=EFFECTS),
    ]
    return create_agent(model, tools, middleware=middleware, checkpointer=checkpointer)


def by_agent(model: Any, tools: Sequence[Any], checkpointer: Any) -> Any:
    return create_tooltree_agent(
        model, tools, effects=EFFECTS, review=True, checkpointer=checkpointer
    )


@pytest.mark.parametrize("make", [by_node, by_middleware, by_agent])
@pytest.mark.parametrize(
    ("decision", "orders", "result"), DECISIONS.values(), ids=DECISIONS
)
def test_a_decision_may_be_given_to_a_new_agent(
    tmp_path: Path,
    make: Any,
    path: str,
    decision: dict[str, Any],
    orders: list[str],
    result: str,
) -> None:
    def step(given: Any, *replies: Any) -> tuple[Any, list[str]]:
        """Begin a run, or go on with it, in an agent that shares nothing but the database with the one before."""
        shop, database = Shop(), str(tmp_path / "thread.db")
        tools = [
            StructuredTool.from_function(each) for each in (shop.find_lamp, shop.order)
        ]
        model = ScriptedChatModel(replies=replies)

        async def arun() -> Any:
            async with AsyncSqliteSaver.from_conn_string(database) as saver:
                return await make(model, tools, saver).ainvoke(
                    given, THREAD, version="v2"
                )

        if path == "async":
            return asyncio.run(arun()), shop.calls
        with SqliteSaver.from_conn_string(database) as saver:
            return make(model, tools, saver).invoke(
                given, THREAD, version="v2"
            ), shop.calls

    asked: Any = {"messages": [("user", "Order 2 modern lamps.")]}
    first, calls = step(
        asked, AIMessage("", tool_calls=[FIND]), AIMessage("", tool_calls=[ORDER])
    )
    [interrupt] = first.interrupts
    [request] = interrupt.value["action_requests"]
    assert (request["name"], request["args"]) == (
        "order",
        {"article": "L-1", "quantity": 2},
    )
    assert request["description"] == DESCRIPTION
    assert calls == ["find modern"]

    last, calls = step(Command(resume={"decisions": [decision]}), "Done.")

    assert (list(last.interrupts), calls) == ([], orders)
    *_, told, answer = last.value["messages"]
    assert told.text.endswith(result)
    assert answer.text == "Done."
