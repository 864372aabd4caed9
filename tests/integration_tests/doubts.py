"""Somebody looks for a key: scripts with which a search opens, and agents that play them."""

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_tooltree import ToolTreeMiddleware, ToolTreeNode

READS: dict[str, Any] = {"look": "read"}
ASKED: Any = {"messages": [HumanMessage("Where is the key?")]}

NOTHING = '{"missing": "nothing"}\n'
DOUBT = '{"missing": "where the key is"}\nI do not know.'
NAMED = '{"missing": "where the key is", "call": {"name": "look", "args": {"place": "shelf"}}}\nI do not know.'
FOUND = f"{NOTHING}On the shelf."


@tool
def look(place: str) -> str:
    """Look what is in a place."""
    return {"shelf": "the key", "desk": "a pen"}.get(place, "")


def calling(*places: str) -> AIMessage:
    """A reply that looks in these places at once."""
    return AIMessage(
        "",
        tool_calls=[{"name": "look", "args": {"place": at}, "id": at} for at in places],
    )


REPLIES: dict[str, list[Any]] = {
    "straight": [calling("shelf"), FOUND],
    "no report": [calling("shelf"), "On the shelf."],
    "again": [calling("desk"), DOUBT, calling("shelf"), FOUND],
    "a named read": [calling("desk"), NAMED, FOUND],
    "removed branches": [
        calling("void"),
        *[DOUBT] * 3,
        calling("void", "cellar", "shelf"),
        FOUND,
    ],
    "in vain": [calling("desk"), *[DOUBT] * 3, calling("shelf"), DOUBT],
    "nothing is offered": [calling("desk"), *[DOUBT] * 3, "There is nothing."],
}
"""What a model says, from an accepted answer to a search that removes what it tried; one reply a model call."""


def node_agent(
    model: Any,
    tools: Sequence[Any],
    *,
    schema: Any = MessagesState,
    context_schema: Any = None,
    **options: Any,
) -> Any:
    """A ReAct graph with the planner in place of the model; options are the planner's, and those of `compile`."""
    compiled = {
        name: options.pop(name)
        for name in ("checkpointer", "store", "name")
        if name in options
    }
    graph = StateGraph(schema, context_schema=context_schema)
    graph.add_node("model", ToolTreeNode(model, tools, **options))
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(**compiled)


def middleware_agent(
    model: Any,
    tools: Sequence[Any],
    *,
    schema: Any = None,
    context_schema: Any = None,
    **options: Any,
) -> Any:
    """An agent with the planner among its middleware; options as above."""
    made = {
        name: options.pop(name)
        for name in ("checkpointer", "store", "name")
        if name in options
    }
    made |= {"state_schema": schema, "context_schema": context_schema}
    return create_agent(
        model, tools, middleware=[ToolTreeMiddleware(**options)], **made
    )
