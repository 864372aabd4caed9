"""`search()` and `asearch()` called inside somebody's node, task or entrypoint."""

import asyncio
from typing import Any

import pytest
from conversations import check_conversation, outline
from langchain_core.messages import AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from travel import BOOKING, EFFECTS, PRICE, Agency, asking, travel_model

from langchain_tooltree import SearchResult, asearch, search

THREAD: Any = {"configurable": {"thread_id": "1"}}

PRICE_PLAN = ["call find_flights", "result find_flights", "call read_price", "result read_price", "answer"]
BOOKING_PLAN = [*PRICE_PLAN[:-1], "call book"]


def plan(request: str) -> SearchResult:
    return search(request, Agency().tools, model=travel_model(), effects=EFFECTS)


async def aplan(request: str) -> SearchResult:
    return await asearch(request, Agency().tools, model=travel_model(), effects=EFFECTS)


def one_node(node: Any, *, checkpointer: Any = None) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile(checkpointer=checkpointer)


def check_plans(plans: list[list[AnyMessage]]) -> None:
    """The first plan answers a question, the second waits for a booking."""
    check_conversation([HumanMessage(PRICE), *plans[0]])
    check_conversation([HumanMessage(BOOKING), *plans[1]], pending="book")
    assert [outline(messages) for messages in plans] == [PRICE_PLAN, BOOKING_PLAN]


def test_a_node_may_search() -> None:
    graph = one_node(lambda state: {"messages": plan(state["messages"][-1].text).messages})

    messages = graph.invoke(asking(PRICE))["messages"]

    assert outline(check_conversation(messages)) == ["human", *PRICE_PLAN]


async def test_an_async_node_may_search_in_a_thread() -> None:
    async def node(state: MessagesState) -> dict[str, Any]:
        result = await asyncio.to_thread(plan, state["messages"][-1].text)
        return {"messages": result.messages}

    messages = (await one_node(node, checkpointer=InMemorySaver()).ainvoke(asking(PRICE), THREAD))["messages"]

    assert outline(check_conversation(messages)) == ["human", *PRICE_PLAN]


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver()], ids=["without-checkpointer", "with-checkpointer"])
def test_two_searches_in_one_node_use_different_call_ids(checkpointer: Any) -> None:
    def node(_: MessagesState) -> dict[str, Any]:
        first, second = plan(PRICE), plan(PRICE)
        return {"messages": [*first.messages, HumanMessage("Are you sure?"), *second.messages]}

    messages = one_node(node, checkpointer=checkpointer).invoke(asking(PRICE), THREAD)["messages"]

    assert outline(check_conversation(messages)) == ["human", *PRICE_PLAN, "human", *PRICE_PLAN]


async def test_two_async_searches_may_run_at_once_in_one_node() -> None:
    plans: list[list[AnyMessage]] = []

    async def node(_: MessagesState) -> dict[str, Any]:
        plans.extend(result.messages for result in await asyncio.gather(aplan(PRICE), aplan(BOOKING)))
        return {}

    await one_node(node, checkpointer=InMemorySaver()).ainvoke(asking(PRICE), THREAD)

    check_plans(plans)


def test_an_entrypoint_may_search_in_tasks_at_once() -> None:
    @task
    def planned(request: str) -> list[AnyMessage]:
        return plan(request).messages

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(requests: list[str]) -> list[list[AnyMessage]]:
        started = [planned(request) for request in requests]
        return [future.result() for future in started]

    check_plans(workflow.invoke([PRICE, BOOKING], THREAD))


async def test_an_async_entrypoint_may_search_in_tasks_at_once() -> None:
    @task
    async def planned(request: str) -> list[AnyMessage]:
        return (await aplan(request)).messages

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(requests: list[str]) -> list[list[AnyMessage]]:
        return list(await asyncio.gather(*map(planned, requests)))

    check_plans(await workflow.ainvoke([PRICE, BOOKING], THREAD))


def test_an_entrypoint_may_search_itself_and_is_resumed_with_its_searches() -> None:
    searched: list[str] = []
    failures = [RuntimeError("after both searches")]

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(requests: list[str]) -> list[list[AnyMessage]]:
        plans = []
        for request in requests:
            agency = Agency()
            plans.append(search(request, agency.tools, model=travel_model(), effects=EFFECTS).messages)
            searched.extend(agency.calls.elements())
        if failures:
            raise failures.pop()
        return plans

    with pytest.raises(RuntimeError, match="after both searches"):
        workflow.invoke([PRICE, BOOKING], THREAD)
    made = len(searched)

    check_plans(workflow.invoke(None, THREAD))
    assert len(searched) == made, "the tool calls of both searches were persisted"
