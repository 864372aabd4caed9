"""Memory beside suggestions and a planner, and over HTTP with replies that do not keep to the form."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from agents import invoke
from conversations import check_conversation
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from openai_server import OpenAIServer
from warehouse import (
    ANSWER,
    RECOVERED,
    REVIEW,
    Warehouse,
    asking,
    called,
    calling,
    memory,
    thread,
    warehouse_agent,
    watcher,
    went_well,
    work,
)

from langchain_tooltree import (
    CFGMMiddleware,
    SITGraph,
    SITGraphMiddleware,
)
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.cfgm import REFLECTION_PROMPT


def systems(model: ScriptedChatModel) -> list[str]:
    return [messages[0].text if isinstance(messages[0], SystemMessage) else "" for messages in model.calls]


def test_suggestions_and_recollections_stand_side_by_side_and_the_graph_learns_what_happened(path: str) -> None:
    def run(*cfgm: Any, replies: Sequence[Any]) -> tuple[SITGraph, ScriptedChatModel]:
        graph = SITGraph()
        model = ScriptedChatModel(replies=list(replies))
        reads = {"place": "read", "uncover": "read"}  # so that one run is enough
        suggesting = SITGraphMiddleware(graph, verdict=went_well, effects=reads)
        agent = create_agent(model, Warehouse().tools, middleware=[suggesting, *cfgm], checkpointer=InMemorySaver())
        for number in (1, 2):
            invoke(agent, asking(), thread(number), path=path)
        return graph, model

    script = [
        calling(0, place={"item": "lamp", "shelf": "A1"}),
        calling(1, uncover={"shelf": "A1"}),
        calling(2, place={"item": "lamp", "shelf": "A1"}),
        ANSWER,
        calling(3, place={"item": "lamp", "shelf": "A1"}),
        ANSWER,
    ]
    graph, model = run(CFGMMiddleware(watcher(), memory(), patience=0, verdict=went_well), replies=script)
    plain, _ = run(replies=script)

    assert "reference_material" in systems(model)[4]
    assert "Past runs went on here" in systems(model)[5]
    assert graph.to_mermaid() == plain.to_mermaid()
    for last in (None, "place", "uncover"):
        said = [each.to_dict() for each in graph.suggest(last, messages=[])]
        assert said == [each.to_dict() for each in plain.suggest(last, messages=[])]


# --- over HTTP ---


def in_form(messages: Sequence[BaseMessage]) -> Any:
    """The watcher fills in forms, and the worker works."""
    return REVIEW if messages[0].text.startswith(REFLECTION_PROMPT[:80]) else work(messages)


@pytest.mark.parametrize("forms", ["filled in", "refused"])
async def test_a_real_client_reflects_even_where_the_form_is_ignored(path: str, forms: Any) -> None:
    server = OpenAIServer(ScriptedChatModel(replies=[in_form] * 30), forms=forms)
    async with server.client() as model:
        agent = warehouse_agent(CFGMMiddleware(model, memory(), patience=0, verdict=went_well), model=model)
        if path == "async":
            messages = (await agent.ainvoke(asking()))["messages"]
        else:
            messages = (await asyncio.to_thread(agent.invoke, asking()))["messages"]

    assert called(check_conversation(messages)) == RECOVERED
    assert server.rejected == []
