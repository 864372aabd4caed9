"""A library's desk: its tools, what went on there in past runs, and agents that work at it by a script."""

import asyncio
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from langchain_tooltree import SITGraph, Trajectory
from langchain_tooltree.testing import ScriptedChatModel

RENEWABLE = (
    "The reader wants to keep a loan. The loan is known and nobody waits for the book."
)
WANTED = "The reader wants to keep a loan. The loan is known, but another reader waits for the book."
ASKED = {"messages": [("user", "May I keep the atlas for longer?")]}
THREAD: Any = {"configurable": {"thread_id": "desk 1"}}


@tool
def find_reader(name: str) -> str:
    """Find a reader."""
    return f"{name} has card 17"


@tool
def list_loans(card: int) -> str:
    """List what a reader has borrowed."""
    return f"card {card}: atlas"


@tool
def renew_loan(title: str) -> str:
    """Renew a loan."""
    return f"{title} renewed"


@tool
def reserve_book(title: str) -> str:
    """Reserve a book."""
    return f"{title} reserved"


TOOLS = [find_reader, list_loans, renew_loan, reserve_book]
_ARGUMENTS = {
    "find_reader": {"name": "Ann"},
    "list_loans": {"card": 17},
    "renew_loan": {"title": "atlas"},
    "reserve_book": {"title": "atlas"},
}


def calling(name: str, number: int = 0, **arguments: Any) -> AIMessage:
    """The model calls a tool."""
    given = arguments or _ARGUMENTS.get(name, {})
    return AIMessage(
        "", tool_calls=[{"name": name, "args": given, "id": f"{name} {number}"}]
    )


def summing_up(summary: str, number: int = 0) -> AIMessage:
    """The model calls `summarize_state`."""
    return calling("summarize_state", number, summary=summary)


def dialogue(request: str, *said: AIMessage, result: str = "done") -> list[BaseMessage]:
    """A conversation in which every call was answered."""
    messages: list[BaseMessage] = [HumanMessage(request)]
    for message in said:
        messages.append(message)
        messages += [
            ToolMessage(result, tool_call_id=call["id"], name=call["name"])
            for call in message.tool_calls
        ]
    return messages


def past_run(number: int, request: str, *said: AIMessage) -> Trajectory:
    """A run that went well."""
    return Trajectory.from_messages(
        dialogue(request, *said, AIMessage("Done.")), success=True, id=f"run {number}"
    )


FOUND = (calling("find_reader"), calling("list_loans"))
PAST = [  # each twice, since one run alone is no ground for a write
    past_run(number, request, *FOUND, summing_up(summary), calling(tool))
    for number, (request, summary, tool) in enumerate(
        2
        * [
            ("Can I renew my novel?", RENEWABLE, "renew_loan"),
            ("Can I renew the dictionary?", WANTED, "reserve_book"),
        ]
    )
]


def desk_graph() -> SITGraph:
    """The graph of the past runs."""
    return SITGraph.from_trajectories(PAST)


def desk_agent(
    *replies: Any, tools: Any = TOOLS, **options: Any
) -> tuple[Any, ScriptedChatModel]:
    """An agent that works by a script, and its model."""
    model = ScriptedChatModel(replies=list(replies))
    return create_agent(model, tools, **options), model


def results(messages: list[BaseMessage], name: str) -> list[ToolMessage]:
    """The results of a tool in a conversation."""
    return [
        message
        for message in messages
        if isinstance(message, ToolMessage) and message.name == name
    ]


def either(path: str, runnable: Any) -> Callable[..., Any]:
    """Its `invoke` on one of the two paths."""

    def run(*arguments: Any, **options: Any) -> Any:
        if path == "sync":
            return runnable.invoke(*arguments, **options)
        return asyncio.run(runnable.ainvoke(*arguments, **options))

    return run
