"""A model that refuses is asked no more than in the plain agent, and whoever handles refusals handles them."""

import asyncio
from typing import Any

import pytest
from composition import Depot, middleware_of
from langchain.agents import create_agent
from langchain.agents import middleware as mw
from langchain_core.messages import AIMessage

from langchain_tooltree.testing import ScriptedChatModel

REFUSAL = AIMessage([{"type": "refusal", "refusal": "I cannot help with that."}])


def answer_to(request: str, model: ScriptedChatModel, others: list[Any], planner: str | None, path: str) -> AIMessage:
    """The last message of a run."""
    agent = create_agent(model, Depot().tools, middleware=middleware_of(others, planner))
    asked: Any = {"messages": [("user", request)]}
    end = asyncio.run(agent.ainvoke(asked)) if path == "async" else agent.invoke(asked)
    message: AIMessage = end["messages"][-1]
    return message


@pytest.mark.parametrize("planner", [None, "first"])
def test_a_refusal_is_an_answer_and_asks_for_no_second_one(planner: str | None, path: str) -> None:
    model = ScriptedChatModel(replies=[REFUSAL, "It costs 90."])

    assert answer_to("Find the price of an item, the bolt.", model, [], planner, path).content == REFUSAL.content
    assert len(model.calls) == 1


@pytest.mark.skipif(not hasattr(mw, "ModelRefusalMiddleware"), reason="it is in langchain from 1.5 on")
@pytest.mark.parametrize("planner", [None, "first", "last"])
def test_a_fallback_answers_where_a_refusal_is_an_error(planner: str | None, path: str) -> None:
    model, fallback = ScriptedChatModel(replies=[REFUSAL]), ScriptedChatModel(replies=["Good day."])
    others = [mw.ModelFallbackMiddleware(fallback), mw.ModelRefusalMiddleware()]

    assert answer_to("Hello!", model, others, planner, path).text == "Good day."
    assert (len(model.calls), len(fallback.calls)) == (1, 1)
