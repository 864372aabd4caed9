"""SITGraphNode: what it reads, what it writes, and the graph before and after it is put in."""

from dataclasses import dataclass
from operator import add
from typing import Annotated

import pytest
from langchain_core.messages import AnyMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from library_desk import (
    ASKED,
    FOUND,
    THREAD,
    TOOLS,
    WANTED,
    calling,
    desk_graph,
    dialogue,
    either,
    summing_up,
)
from pydantic import BaseModel

from langchain_tooltree import (
    ConfigurationError,
    SITGraph,
    SITGraphNode,
    create_summarize_state_tool,
)
from langchain_tooltree.sitgraph.agents import with_suggestions
from langchain_tooltree.testing import ScriptedChatModel

KNOWN = dialogue("May I keep the atlas?", *FOUND)
SCRIPT = (*FOUND, summing_up(WANTED), calling("reserve_book"), "It is reserved.")


class Advised(MessagesState):
    """A conversation, and what came next in past runs."""

    suggestions: list[dict]


def before(model, tools):
    """A graph of one's own without the node."""

    def call_model(state):
        return {
            "messages": [
                model.bind_tools(tools).invoke(
                    [SystemMessage("Be kind."), *state["messages"]]
                )
            ]
        }

    graph = StateGraph(MessagesState)
    graph.add_node("model", call_model)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph


def after(model, tools, sit_graph):
    """The same graph with it."""

    def call_model(state):
        prompt = with_suggestions(
            [SystemMessage("Be kind."), *state["messages"]], state["suggestions"]
        )
        return {"messages": [model.bind_tools(tools).invoke(prompt)]}

    graph = StateGraph(Advised)
    graph.add_node("suggest", SITGraphNode(sit_graph, tools=tools))
    graph.add_node("model", call_model)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "suggest")
    graph.add_edge("suggest", "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "suggest")
    return graph


def test_a_graph_of_ones_own_gets_suggestions_and_stays_the_same_otherwise(path):
    tools = [*TOOLS, create_summarize_state_tool()]
    model, plain = ScriptedChatModel(replies=SCRIPT), ScriptedChatModel(replies=SCRIPT)
    agent = after(model, tools, desk_graph()).compile(checkpointer=InMemorySaver())

    messages = either(path, agent)(ASKED, THREAD)["messages"]

    without = either(path, before(plain, tools).compile())(ASKED)["messages"]
    assert [(each.type, each.content) for each in messages] == [
        (each.type, each.content) for each in without
    ]
    assert {prompt[0].text for prompt in plain.calls} == {"Be kind."}
    shown = [prompt[0].text for prompt in model.calls]
    assert [
        text
        for text in shown[:-1]
        if not text.startswith("Be kind.\n\n<reference_material ")
    ] == []
    assert "went on here with: find_reader in 4 of 4 runs." in shown[0]
    assert "went on here with: reserve_book" in shown[3]
    assert WANTED not in shown[3]
    assert shown[4] == "Be kind."
    visits = [
        step.values["suggestions"]
        for step in agent.get_state_history(THREAD)
        if step.next == ("model",)
    ]
    modes = [{each["mode"] for each in visit} for visit in reversed(visits)]
    assert modes == [
        {"contextual"},
        {"contextual"},
        {"contextual"},
        {"episodic"},
        set(),
    ]


@dataclass
class Record:
    messages: list


class Model(BaseModel):
    messages: list


@pytest.mark.parametrize(
    "state",
    [{"messages": KNOWN}, Record(KNOWN), Model(messages=KNOWN), KNOWN],
    ids=type,
)
def test_the_state_may_have_any_form(path, state):
    (first, *_) = either(path, SITGraphNode(desk_graph()))(state)["suggestions"]

    assert first["tool"] in {"renew_loan", "reserve_book"}
    assert first["mode"] == "contextual"


@pytest.mark.parametrize("state", [{}, {"messages": []}, {"messages": None}, []])
def test_a_conversation_that_has_not_begun_is_at_the_start(path, state):
    suggestions = either(path, SITGraphNode(desk_graph()))(state)["suggestions"]

    assert [each["tool"] for each in suggestions] == ["find_reader"]


def test_the_keys_are_those_of_the_state(path):
    class Talk(BaseModel):
        talk: Annotated[list[AnyMessage], add_messages]
        next_tools: Annotated[list[dict], add] = []

    builder = StateGraph(Talk)
    builder.add_node(
        "suggest",
        SITGraphNode(desk_graph(), messages_key="talk", suggestions_key="next_tools"),
    )
    builder.add_edge(START, "suggest")

    state = either(path, builder.compile())({"talk": KNOWN})

    assert len(state["next_tools"]) == 2
    assert len(state["talk"]) == len(KNOWN)


@pytest.mark.parametrize(
    "tools",
    [["renew_loan"], [TOOLS[2]], [{"name": "renew_loan"}]],
    ids=["name", "tool", "dict"],
)
def test_only_given_tools_are_suggested(path, tools):
    suggestions = either(path, SITGraphNode(desk_graph(), tools=tools))(KNOWN)[
        "suggestions"
    ]

    assert [(each["tool"], each["score"]) for each in suggestions] == [
        ("renew_loan", 1.0)
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": "runs/"}, "graph must be a SITGraph or an Experience, got 'runs/'"),
        ({"k": -1}, "k must be a whole number of 1 or more"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options, message):
    with pytest.raises(ConfigurationError, match=message):
        SITGraphNode(**{"graph": SITGraph(), **options})
