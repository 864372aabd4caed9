"""Suggestions with an Experience: each user has a graph, and a graph that all share learns from nobody who is known."""

import asyncio

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    Experience,
    SITGraph,
    SITGraphMiddleware,
    SITGraphNode,
    create_tooltree_agent,
)
from langchain_tooltree.errors import ForeignNamespaceError
from langchain_tooltree.testing import ScriptedChatModel


@tool
def open_safe(code: str) -> str:
    """Open the safe."""
    return "It is open."


def went_well(_):
    return True


def served(learning):
    """An agent that opens the safe in each turn, and its model."""
    call = AIMessage(
        "", tool_calls=[{"name": "open_safe", "args": {"code": "1"}, "id": "1"}]
    )
    replies = [lambda messages: "Done." if messages[-1].type == "tool" else call] * 9
    model = ScriptedChatModel(replies=replies)
    return create_agent(
        model, [open_safe], middleware=[learning], context_schema=dict
    ), model


def ask(path, agent, user, **configurable):
    given = {"messages": [("user", "Open the safe.")]}, {"configurable": configurable}
    context = {} if user is None else {"context": {"user_id": user}}
    if path == "sync":
        agent.invoke(*given, **context)
    else:
        asyncio.run(agent.ainvoke(*given, **context))


def first_prompts(model):
    return [
        messages[0].text for messages in model.calls if messages[-1].type == "human"
    ]


@pytest.mark.slow
def test_what_one_user_did_is_suggested_to_that_one_alone(path):
    experience = Experience(InMemoryStore(), verdict=went_well)
    agent, model = served(SITGraphMiddleware(experience, effects={"open_safe": "read"}))

    for user in ("ann", "ann", "bob"):
        ask(path, agent, user)

    assert ["open_safe" in prompt for prompt in first_prompts(model)] == [
        False,
        True,
        False,
    ]
    assert [
        experience.within(user_id=user).status().in_graph for user in ("ann", "bob")
    ] == [2, 1]
    with pytest.raises(ForeignNamespaceError):
        ask(path, agent, "bob", user_id="ann")


@pytest.mark.parametrize(("user", "learnt"), [("ann", 0), (None, 1)])
def test_a_graph_that_all_share_learns_nothing_of_a_user_who_is_known(
    path, caplog, user, learnt
):
    graph = SITGraph()
    agent, _ = served(SITGraphMiddleware(graph, verdict=went_well))

    ask(path, agent, user)

    assert len(graph) == learnt
    assert ("Pass an Experience, which has a graph for each" in caplog.text) == (
        not learnt
    )


def test_a_node_suggests_from_the_graph_of_the_user():
    experience = Experience(InMemoryStore(), verdict=went_well)
    agent, _ = served(SITGraphMiddleware(experience))
    ask("sync", agent, "ann")

    class State(MessagesState):
        suggestions: list

    builder = StateGraph(State, context_schema=dict)
    builder.add_node("suggest", SITGraphNode(experience))
    builder.add_edge(START, "suggest")
    graph = builder.compile()
    for user, tools in (("ann", ["open_safe"]), ("bob", [])):
        found = graph.invoke(
            {"messages": [("user", "Open the safe.")]}, context={"user_id": user}
        )
        assert [each["tool"] for each in found["suggestions"]] == tools


def test_a_run_of_an_agent_that_plans_with_the_same_experience_is_judged_once(path):
    judged = []
    experience = Experience(
        InMemoryStore(), verdict=lambda run: judged.append(run.id) or True
    )
    call = AIMessage(
        "", tool_calls=[{"name": "open_safe", "args": {"code": "1"}, "id": "1"}]
    )
    model = ScriptedChatModel(replies=[call, 'Done. {"missing": "nothing"}'])
    options = {
        "effects": {"open_safe": "read"},
        "context_schema": dict,
        "experience": experience,
    }
    agent = create_tooltree_agent(
        model, [open_safe], middleware=[SITGraphMiddleware(experience)], **options
    )

    ask(path, agent, "ann")

    assert len(judged) == 1
    assert experience.within(user_id="ann").status().runs == 1
