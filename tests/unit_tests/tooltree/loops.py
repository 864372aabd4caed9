"""The forms of the planner that live in a host's loop, made alike, and a small shop whose calls are counted."""

import operator
from collections import Counter
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel

from langchain_tooltree import ToolTreeMiddleware, ToolTreeNode
from langchain_tooltree.testing import ScriptedChatModel

READS = {"stock": "read", "price": "read", "broken": "read"}
GO = [HumanMessage("How much tea is there?", id="go")]


class AddedUp(TypedDict):
    """A state whose reducer cannot remove messages."""

    messages: Annotated[list[AnyMessage], operator.add]


class Item(BaseModel):
    """What all tools of the shop take; made once, since that takes longer than to call them."""

    item: str


class Shop:
    """Three reads, one of which fails, and a write; it notes what was called."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.result_of_broken = ""

    def tools(self) -> list[StructuredTool]:
        each_one = (self.stock, self.price, self.broken, self.order)
        return [
            StructuredTool.from_function(each, args_schema=Item) for each in each_one
        ]

    def stock(self, item: str) -> str:
        """Count an item in the stock."""
        self.made.append(f"stock({item})")
        return f"7 of {item}"

    def price(self, item: str) -> str:
        """Read the price tag."""
        self.made.append(f"price({item})")
        return f"{item} is 2 euros"

    def broken(self, item: str) -> str:
        """Ask a colleague about it."""
        self.made.append(f"broken({item})")
        return self.result_of_broken

    def order(self, item: str) -> str:
        """Order more from the wholesaler."""
        self.made.append(f"order({item})")
        return f"ordered {item}"


def report(text: str, missing: str = "nothing", **more: Any) -> str:
    """An answer with its report."""
    rest = "".join(f', "{name}": {value}' for name, value in more.items())
    return f'{{"missing": "{missing}"{rest}}}\n{text}'


def naming(name: str, item: str) -> dict[str, str]:
    """The part of a report that names a call."""
    return {"call": f'{{"name": "{name}", "args": {{"item": "{item}"}}}}'}


def calls(*made: tuple[str, str], text: str = "") -> AIMessage:
    """A reply that makes calls, pairs of tool and item; ids are unique in a conversation of this test."""
    numbered = [
        {"name": name, "args": {"item": item}, "id": f"{name}_{item}_{at}"}
        for at, (name, item) in enumerate(made)
    ]
    return AIMessage(text, tool_calls=numbered)


def agent_of(
    model: Any,
    tools: Any,
    *,
    middleware: Any = (),
    checkpointer: Any = None,
    **options: Any,
) -> Any:
    """An agent with the planner in."""
    planner = ToolTreeMiddleware(**options)
    return create_agent(
        model, tools, middleware=[*middleware, planner], checkpointer=checkpointer
    )


def graph_of(
    model: Any,
    tools: Any,
    *,
    checkpointer: Any = None,
    state: Any = MessagesState,
    **options: Any,
) -> Any:
    """The usual graph of a model and its tools, with the planner's node for the model."""
    graph = StateGraph(state)
    graph.add_node("model", ToolTreeNode(model, tools, **options))
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer)


FORMS = {"agent": agent_of, "node": graph_of}


def scripted(*replies: Any) -> ScriptedChatModel:
    """A model that gives these replies."""
    return ScriptedChatModel(replies=list(replies))


def shown(messages: Any) -> list[str]:
    """A conversation in short: texts, and calls by tool and item."""
    lines = []
    for message in messages:
        made = message.tool_calls if isinstance(message, AIMessage) else ()
        lines.append(
            ", ".join(f"{each['name']}({each['args'].get('item')})" for each in made)
            or message.text
        )
    return lines


def tokens(messages: Any) -> int:
    """What the messages of a conversation say they cost."""
    return sum(
        (getattr(message, "usage_metadata", None) or {}).get("total_tokens", 0)
        for message in messages
    )


def check_clean(messages: Any) -> None:
    """A conversation is one path: each call has its one result right behind it, and no mark or report is left."""
    ids = [message.id for message in messages]
    assert len(set(ids)) == len(ids)
    waiting: Counter[str] = Counter()
    for message in messages:
        if isinstance(message, ToolMessage):
            assert waiting[message.tool_call_id] == 1
            del waiting[message.tool_call_id]
            continue
        assert not waiting, "a result is missing"
        if isinstance(message, AIMessage):
            assert not isinstance(message, AIMessageChunk)
            assert '"missing"' not in message.text
            assert "mark" not in message.response_metadata.get("tooltree", {})
            waiting = Counter(call["id"] for call in message.tool_calls)
    assert not waiting
