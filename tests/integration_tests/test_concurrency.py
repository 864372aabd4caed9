"""Searches, hosts and limits at once: nothing hangs, nothing leaks, and timing decides nothing."""

import asyncio
import itertools
import operator
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, TypedDict

import pytest
from conversations import check_conversation, outline
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Send
from travel import BOOKING, PRICE, ROUND_TRIP, Agency, asking, planner_node, travel_agent

from langchain_tooltree import SearchConfig

HANGS_AFTER = 20
"""Seconds after which a run that takes a tenth of one counts as hanging."""

LIMITS: list[dict[str, int]] = [{"max_concurrency": 1}, {"max_concurrency": 2}, {"max_concurrency": 4}, {}]


def in_time(run: Callable[[], Any]) -> Any:
    """Run in a thread of its own; a run that hangs is left behind."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(run).result(HANGS_AFTER)
    finally:
        pool.shutdown(wait=False)


def invoke(graph: Any, given: Any, config: Any, *, path: str) -> Any:
    if path == "sync":
        return in_time(lambda: graph.invoke(given, config))
    return in_time(lambda: asyncio.run(graph.ainvoke(given, config)))


@pytest.mark.parametrize("parallel_rollouts", range(1, 9))
def test_rollouts_in_flight_neither_hang_nor_depend_on_limits_or_path(parallel_rollouts: int) -> None:
    config = SearchConfig(parallel_rollouts=parallel_rollouts, max_rollouts=10, value_threshold=1.0)
    seen = set()
    for path, limit in itertools.product(("sync", "async"), LIMITS):
        agency = Agency(latency=0.001)

        messages = invoke(travel_agent(agency, config), asking(BOOKING), limit, path=path)["messages"]

        plan = [call["args"].popitem() for message in messages for call in getattr(message, "tool_calls", [])]
        seen.add((*outline(check_conversation(messages)), *plan, *sorted(agency.calls.items())))
    assert len(seen) == 1


class Fan(TypedDict):
    requests: list[str]
    plans: Annotated[list[list[BaseMessage]], operator.add]


def fan_out(agency: Agency, checkpointer: Any) -> Any:
    """One planner for each request, all at once."""
    planner = planner_node(agency)

    def plan(state: Any, config: RunnableConfig) -> dict[str, Any]:
        return {"plans": [[*state["messages"], *planner.invoke(state, config)["messages"]]]}

    async def aplan(state: Any, config: RunnableConfig) -> dict[str, Any]:
        return {"plans": [[*state["messages"], *(await planner.ainvoke(state, config))["messages"]]]}

    graph = StateGraph(Fan)
    graph.add_node("plan", RunnableLambda(plan, aplan))
    graph.add_conditional_edges(
        START, lambda state: [Send("plan", asking(request)) for request in state["requests"]], ["plan"]
    )
    return graph.compile(checkpointer=checkpointer)


@pytest.mark.parametrize("path", ["sync", "async"])
@pytest.mark.parametrize("limit", [{}, {"max_concurrency": 2}], ids=["unlimited", "two-at-once"])
@pytest.mark.parametrize("checkpointer", [None, InMemorySaver], ids=["without-checkpointer", "with-checkpointer"])
def test_eight_planners_in_one_step_do_not_starve_each_other(path: str, limit: Any, checkpointer: Any) -> None:
    requests = [f"{request} #{number}" for number, request in enumerate([PRICE, BOOKING] * 4)]
    graph = fan_out(Agency(latency=0.002), checkpointer and checkpointer())
    config = {"configurable": {"thread_id": "1"}, **limit}

    plans = invoke(graph, {"requests": requests}, config, path=path)["plans"]

    assert [plan[0].text for plan in plans] == requests
    for plan in plans:
        check_conversation(plan, pending="book" if plan[0].text.startswith(BOOKING) else None)


def check_twenty(results: list[Any], requests: list[str], agency: Agency) -> None:
    """Each thread got the plan for its own request, and every booking was made once for each thread that wanted it."""
    length = {PRICE: 6, BOOKING: 8, ROUND_TRIP: 12}
    for request, result in zip(requests, results, strict=True):
        messages = check_conversation(result["messages"])
        assert messages[0].text == request
        assert len(messages) == length[request.partition(" #")[0]]
    wanted = Counter(request.partition(" #")[0] for request in requests)
    assert agency.calls["book OS-1"] == wanted[BOOKING] + wanted[ROUND_TRIP]
    assert agency.calls["book RO-1"] == wanted[ROUND_TRIP]
    ids = [call["id"] for result in results for each in result["messages"] for call in getattr(each, "tool_calls", [])]
    assert len(set(ids)) == len(ids)


REQUESTS = [f"{request} #{number}" for number, request in zip(range(20), itertools.cycle([PRICE, BOOKING, ROUND_TRIP]))]


def thread(number: int) -> Any:
    return {"configurable": {"thread_id": str(number)}}


def test_twenty_threads_of_one_graph_do_not_mix_on_threads() -> None:
    agency = Agency(latency=0.001)
    agent = travel_agent(agency, checkpointer=InMemorySaver())

    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda number: agent.invoke(asking(REQUESTS[number]), thread(number)), range(20)))

    check_twenty(results, REQUESTS, agency)


async def test_twenty_threads_of_one_graph_do_not_mix_on_one_loop() -> None:
    agency = Agency(latency=0.001)
    agent = travel_agent(agency, checkpointer=InMemorySaver())

    runs = [agent.ainvoke(asking(request), thread(number)) for number, request in enumerate(REQUESTS)]
    results = await asyncio.wait_for(asyncio.gather(*runs), 2 * HANGS_AFTER)

    check_twenty(results, REQUESTS, agency)
