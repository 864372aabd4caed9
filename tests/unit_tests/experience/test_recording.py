"""What a recorder makes of compiled graphs that raise, stop or are tried again in the middle."""

import asyncio
from contextlib import suppress
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, RetryPolicy, Send, interrupt

from langchain_tooltree import ExperienceStore, TrajectoryRecorder, load_thread

CALL = AIMessage("", id="call", tool_calls=[{"name": "look", "args": {}, "id": "1"}])
REQUEST: Any = {"messages": [HumanMessage("Find it.", id="request")]}


@pytest.fixture
def record(path):
    """Runs a graph, and gives the texts of what was recorded of it; what it raises does not matter."""
    experience = ExperienceStore(InMemoryStore())

    def record(graph, given=REQUEST):
        config = {
            "configurable": {"thread_id": "one"},
            "callbacks": [TrajectoryRecorder(experience)],
        }
        with suppress(RuntimeError):
            graph.invoke(given, config) if path == "sync" else asyncio.run(
                graph.ainvoke(given, config)
            )
        return [message["content"] for message in experience.get("one").messages]

    return record


def compiled(*nodes, sends=None, saver=None):
    graph = StateGraph(MessagesState)
    before = START
    for name, node, *more in nodes:
        graph.add_node(name, node, **(more[0] if more else {}))
        if before == "model" and sends:
            graph.add_conditional_edges(before, lambda _: sends, [name])
        else:
            graph.add_edge(before, name)
        before = name
    return graph.compile(checkpointer=saver)


def says(text):
    return lambda _: {"messages": [AIMessage(text, id=text)]}


def breaks(_):
    msg = "no electricity"
    raise RuntimeError(msg)


@pytest.mark.parametrize("sends", [None, [Send("tools", {})]])
def test_a_run_that_raises_holds_the_call_that_led_there(record, sends):
    graph = compiled(
        ("model", lambda _: {"messages": [CALL]}), ("tools", breaks), sends=sends
    )
    assert record(graph) == ["Find it.", ""]


def test_a_step_in_which_a_node_did_not_end_is_told_when_it_did(record):
    def work(order):
        return {
            "messages": [
                AIMessage(
                    interrupt("?") if order["number"] else "done",
                    id=str(order["number"]),
                )
            ]
        }

    sends = [Send("tools", {"number": number}) for number in range(2)]
    graph = compiled(
        ("model", says("Wait.")), ("tools", work), sends=sends, saver=InMemorySaver()
    )

    assert record(graph) == ["Find it.", "Wait."]
    assert record(graph, Command(resume="and done")) == [
        "Find it.",
        "Wait.",
        "done",
        "and done",
    ]
    read = load_thread(graph, {"configurable": {"thread_id": "one"}})
    assert [message["content"] for message in read.messages] == [
        "Find it.",
        "Wait.",
        "done",
        "and done",
    ]


@pytest.mark.slow
def test_a_graph_that_is_tried_again_is_told_as_it_went_in_the_end(record):
    tries = []

    def talk(_):
        tries.append(1)
        return {"messages": [AIMessage(f"Try {len(tries)}.", id=f"try {len(tries)}")]}

    def last(state):
        if len(tries) == 1:
            msg = "again"
            raise ConnectionError(msg)
        return {"messages": [AIMessage("Done.", id="done")]}

    inner = compiled(
        ("talk", talk),
        ("model", says("Well.")),
        ("last", last),
        sends=[Send("last", {})],
    )
    graph = compiled(
        ("inner", inner, {"retry_policy": RetryPolicy(initial_interval=0.001)})
    )
    assert record(graph) == ["Find it.", "Try 2.", "Well.", "Done."]


class Count(TypedDict):
    count: int


class State(MessagesState):
    count: int


def test_a_graph_that_returns_no_messages_has_said_what_its_nodes_did(record):
    graph = StateGraph(State, output_schema=Count)
    graph.add_node("model", says("Done."))
    graph.add_edge(START, "model")
    assert record(graph.compile()) == ["Find it.", "Done."]


@pytest.mark.parametrize(
    "update",
    [
        {"messages": [AIMessage("One.", id="1"), AIMessage("Two.", id="2")]},
        Command(
            update={"messages": [AIMessage("One.", id="1"), AIMessage("Two.", id="2")]}
        ),
        [
            Command(update={"messages": AIMessage("One.", id="1")}),
            {"messages": AIMessage("Two.", id="2")},
        ],
    ],
    ids=["update", "command", "several"],
)
def test_messages_are_found_in_every_kind_of_update(record, update):
    graph = compiled(
        ("model", lambda _: update), ("tools", breaks), sends=[Send("tools", {})]
    )
    assert record(graph) == ["Find it.", "One.", "Two."]
