"""Limits of the agent's loop: a search is one model call, what it tries is no tool call, what it leaves is."""

from typing import Any

import pytest
from agents import BOOKED, LOOKED_UP, PRICED, THREAD, Witness, invoke, planning_agent
from conversations import check_conversation, outline
from langchain.agents.middleware import ModelCallLimitMiddleware, ToolCallLimitMiddleware
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain.agents.middleware.tool_call_limit import ToolCallLimitExceededError
from langgraph.checkpoint.memory import InMemorySaver
from travel import BOOKING, PRICE, Agency, asking


def limited_agent(agency: Agency, limit: Any) -> Any:
    return planning_agent(agency, limit, checkpointer=InMemorySaver())


def test_a_search_counts_as_one_model_call_and_its_reads_as_none(agency: Agency, path: str) -> None:
    witness = Witness()
    agent = planning_agent(
        agency,
        ModelCallLimitMiddleware(thread_limit=9),
        ToolCallLimitMiddleware(thread_limit=9),
        checkpointer=InMemorySaver(),
    )

    messages = invoke(agent, asking(BOOKING), {**THREAD, "callbacks": [witness]}, path=path)["messages"]

    assert outline(check_conversation(messages)) == BOOKED
    kept = agent.get_state(THREAD).values
    assert kept["thread_model_call_count"] == 2  # the search that ends in the write, and the answer
    assert kept["thread_tool_call_count"] == {"__all__": 1}
    spent = max((event["model_calls"], event["tool_calls"]) for event in witness.of("budget"))
    assert spent > (2, 1)


@pytest.mark.parametrize("behaviour", ["continue", "end", "error"])
def test_reads_that_are_searched_are_never_limited(agency: Agency, path: str, behaviour: Any) -> None:
    agent = limited_agent(agency, ToolCallLimitMiddleware(run_limit=0, exit_behavior=behaviour))

    messages = invoke(agent, asking(PRICE), THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == PRICED


@pytest.mark.parametrize("named", [{}, {"tool_name": "book"}], ids=["any tool", "one tool"])
@pytest.mark.parametrize("behaviour", ["continue", "end"])
def test_a_write_beyond_the_limit_is_not_carried_out(agency: Agency, path: str, behaviour: Any, named: Any) -> None:
    agent = limited_agent(agency, ToolCallLimitMiddleware(thread_limit=1, exit_behavior=behaviour, **named))
    invoke(agent, asking(BOOKING), THREAD, path=path)

    messages = invoke(agent, asking(BOOKING), THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == BOOKED * 2
    assert messages[-2].text.startswith("Tool call limit exceeded.")
    assert ("call limit reached" in messages[-1].text) == (behaviour == "end")
    assert agency.calls["book OS-1"] == 1


def test_a_write_beyond_the_limit_may_be_an_error(agency: Agency, path: str) -> None:
    agent = limited_agent(agency, ToolCallLimitMiddleware(run_limit=0, exit_behavior="error"))

    with pytest.raises(ToolCallLimitExceededError):
        invoke(agent, asking(BOOKING), THREAD, path=path)

    assert agency.calls["book OS-1"] == 0


def test_a_model_call_beyond_the_limit_ends_the_turn_after_the_write(agency: Agency, path: str) -> None:
    agent = limited_agent(agency, ModelCallLimitMiddleware(run_limit=1, exit_behavior="end"))

    messages = invoke(agent, asking(BOOKING), THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == BOOKED
    assert "call limit" in messages[-1].text


def test_a_model_call_beyond_the_limit_may_be_an_error(agency: Agency, path: str) -> None:
    agent = limited_agent(agency, ModelCallLimitMiddleware(run_limit=1, exit_behavior="error"))

    with pytest.raises(ModelCallLimitExceededError):
        invoke(agent, asking(BOOKING), THREAD, path=path)

    kept = agent.get_state(THREAD).values["messages"]
    assert outline(kept) == [*LOOKED_UP, "call book", "result book"]


@pytest.mark.parametrize("behaviour", ["end", "error"])
def test_where_no_model_call_is_left_nothing_is_searched(agency: Agency, path: str, behaviour: Any) -> None:
    agent = limited_agent(agency, ModelCallLimitMiddleware(thread_limit=1, exit_behavior=behaviour))
    invoke(agent, asking(PRICE), THREAD, path=path)
    made = agency.calls.copy()

    if behaviour == "error":
        with pytest.raises(ModelCallLimitExceededError):
            invoke(agent, asking(PRICE), THREAD, path=path)
    else:
        messages = invoke(agent, asking(PRICE), THREAD, path=path)["messages"]
        assert outline(check_conversation(messages)) == [*PRICED, "human", "answer"]

    assert agency.calls == made
