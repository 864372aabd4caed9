"""Searches through a real client whose server misbehaves: what can be mended is, the rest ends in the plain model."""

import asyncio
import functools
from typing import Any

import pytest
from conversations import check_conversation, outline
from langchain_core.messages import BaseMessage
from langgraph.graph import START, MessagesState, StateGraph
from openai_server import (
    Fault,
    OpenAIServer,
    always,
    at,
    chat_instead,
    decline,
    drop,
    garble,
    garble_arguments,
    hang,
    refuse,
)
from travel import APART, EFFECTS, PRICE, Agency, asking, travel_model

from langchain_tooltree import SearchConfig, SearchResult, ToolTreeNode, asearch, search
from tests.internals.tooltree import MANY_QUESTIONS

ANSWER = "All is done for you and it says OS-1 costs 90"
PLANNED = ["human", "call find_flights", "result find_flights", "call read_price", "result read_price", "answer"]

FIRST = [("propose", 1), ("pre", 1), ("post", 1)]
"""The first question of each kind."""

NEVER = "3600"
"""Seconds that nobody waits."""


@pytest.fixture(params=[("sync", False), ("async", True)], ids=["sync-chat-completions", "async-responses"])
def way(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """One of the two paths, and one of the two interfaces; all four combinations are tried where nothing goes wrong."""
    path, responses = request.param
    return path, {"use_responses_api": responses}


async def find(model: Any, *, path: str, config: SearchConfig = APART) -> SearchResult:
    given: dict[str, Any] = {"model": model, "effects": EFFECTS, "config": config}
    if path == "async":
        return await asearch(PRICE, Agency().tools, **given)
    return await asyncio.to_thread(lambda: search(PRICE, Agency().tools, **given))


async def observed(model: Any, *, path: str) -> tuple[list[BaseMessage], list[str]]:
    """The conversation that a planner in a graph leads, and the reasons of its fallbacks."""
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, Agency().tools, effects=EFFECTS, config=APART))
    graph.add_edge(START, "model")
    graph = graph.compile()
    options: Any = {"stream_mode": ["custom", "values"]}
    if path == "async":
        chunks = [chunk async for chunk in graph.astream(asking(PRICE), **options)]
    else:
        chunks = await asyncio.to_thread(lambda: list(graph.stream(asking(PRICE), **options)))
    events = [data["tooltree"] for mode, data in chunks if mode == "custom"]
    messages = [data for mode, data in chunks if mode == "values"][-1]["messages"]
    return messages, [event["reason"] for event in events if event["type"] == "fallback"]


@functools.cache
def calls_in_process() -> int:
    return search(PRICE, Agency().tools, model=travel_model(), effects=EFFECTS, config=APART).cost.model_calls


REFUSALS: dict[str, Fault] = {
    "rate limit in seconds": refuse(429, retry_after="0.2"),
    "rate limit in milliseconds": refuse(429, retry_after_ms="150"),
    "overloaded": refuse(503, retry_after="0.1"),
    "overloaded as Anthropic says it": refuse(529, retry_after="0.1"),
}


@pytest.mark.parametrize("fault", REFUSALS.values(), ids=REFUSALS)
async def test_a_rate_limit_is_waited_for_and_costs_no_call(way: Any, fault: Fault) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), at(*FIRST, fault=fault))
    async with server.client(**interface) as model:
        result = await find(model, path=path)

    assert result.answer is not None
    assert result.answer.text == ANSWER
    assert result.cost.model_calls == calls_in_process() == len(server.requests) - len(FIRST)
    proposals = [request.at for request in server.requests if request.kind == "propose"]
    assert proposals[1] - proposals[0] >= 0.1


async def test_a_rate_limit_without_a_time_is_waited_for_too(way: Any) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), at(("propose", 1), fault=refuse(429)))
    async with server.client(**interface) as model:
        messages, fallbacks = await observed(model, path=path)

    assert outline(check_conversation(messages)) == PLANNED
    assert fallbacks == []


async def test_the_answer_waits_for_a_rate_limit_too(way: Any) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), at(("answer", 1), fault=refuse(429, retry_after="0.2")))
    async with server.client(**interface) as model:
        messages, fallbacks = await observed(model, path=path)

    assert outline(check_conversation(messages)) == PLANNED
    assert fallbacks == []


async def test_a_rate_limit_is_not_waited_for_beyond_the_seconds_of_the_search(way: Any) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), always("propose", fault=refuse(429, retry_after="30")))
    async with server.client(**interface) as model:
        result = await find(model, path=path, config=SearchConfig(max_seconds=20, **MANY_QUESTIONS))

    assert "status 429 on order" in str(result.fallback)
    assert result.cost.seconds < 20


async def test_rate_limits_of_questions_in_flight_are_waited_for_together(way: Any) -> None:
    limited = [(kind, number) for kind in ("pre", "post") for number in range(1, 5)]
    path, interface = way
    server = OpenAIServer(travel_model(), at(*limited, fault=refuse(429, retry_after_ms="120")))
    async with server.client(**interface) as model:
        result = await find(model, path=path)

    assert result.answer is not None
    assert result.answer.text == ANSWER
    assert result.cost.model_calls == calls_in_process() == len(server.requests) - len(limited)


FAILURES: dict[str, Fault] = {
    "server error": refuse(500),
    "unavailable": refuse(503),
    "dropped connection": drop,
    "malformed body": garble,
}


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fault", FAILURES.values(), ids=FAILURES)
async def test_a_request_that_fails_is_made_once_more(way: Any, fault: Fault, *, streaming: bool) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), at(*FIRST, fault=fault))
    async with server.client(**interface, streaming=streaming) as model:
        result = await find(model, path=path)

    assert result.answer is not None
    assert result.answer.text == ANSWER
    assert result.fallback is None
    assert result.cost.model_calls == len(server.requests) == calls_in_process() + len(FIRST)


async def test_a_request_without_a_reply_is_made_once_more(way: Any) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), at(*FIRST, fault=hang))
    async with server.client(**interface, timeout=0.5) as model:
        result = await find(model, path=path)

    assert result.answer is not None
    assert result.answer.text == ANSWER
    assert result.cost.model_calls == len(server.requests) >= calls_in_process() + len(FIRST)


async def test_what_the_client_asks_again_by_itself_is_one_call(way: Any) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), at(*FIRST, fault=refuse(500, retry_after_ms="1")))
    async with server.client(**interface, max_retries=2) as model:
        result = await find(model, path=path)

    assert result.answer is not None
    assert result.answer.text == ANSWER
    assert result.cost.model_calls == calls_in_process() == len(server.requests) - len(FIRST)


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
async def test_malformed_arguments_are_written_again(way: Any, *, streaming: bool) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), at(("propose", 1), fault=garble_arguments))
    async with server.client(**interface, streaming=streaming) as model:
        messages, fallbacks = await observed(model, path=path)

    assert outline(check_conversation(messages)) == PLANNED
    assert fallbacks == []
    assert server.rejected == []


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fault", [decline, chat_instead])
async def test_a_judge_that_does_not_fill_in_the_form_is_asked_once_more(
    way: Any, fault: Fault, *, streaming: bool
) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), at(("pre", 1), ("post", 1), fault=fault))
    async with server.client(**interface, streaming=streaming) as model:
        result = await find(model, path=path)

    assert result.answer is not None
    assert result.answer.text == ANSWER
    assert result.cost.model_calls == len(server.requests) == calls_in_process() + 2
    assert server.rejected == []


async def test_a_judge_that_declines_now_and_then_leaves_calls_unscored(way: Any) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), at(("post", 1), ("post", 2), fault=decline))
    async with server.client(**interface) as model:
        result = await find(model, path=path, config=SearchConfig(parallel_rollouts=1, **MANY_QUESTIONS))

    assert result.answer is not None
    assert result.answer.text == ANSWER
    assert [node.post_scored for node in result.tree.nodes if node.visits and node.call].count(False) == 1


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
async def test_a_server_without_structured_output_is_asked_in_plain_text(way: Any, *, streaming: bool) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), forms="refused")
    async with server.client(**interface, streaming=streaming) as model:
        first = await find(model, path=path)
        refused = [request for request in server.requests if request.asked.schema]
        second = await find(model, path=path)

    assert first.answer is not None
    assert first.answer.text == ANSWER
    assert 1 <= len(refused) <= 1 + SearchConfig().parallel_rollouts  # those in flight before the first was known
    assert [request for request in server.requests if request.asked.schema] == refused
    assert first.to_mermaid() == second.to_mermaid()
    assert first.cost.model_calls == second.cost.model_calls == calls_in_process()
    assert server.rejected == []


async def test_a_server_that_ignores_the_form_is_told_it_in_words(way: Any) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), forms="ignored")
    async with server.client(**interface) as model:
        messages, fallbacks = await observed(model, path=path)

    assert outline(check_conversation(messages)) == PLANNED
    assert fallbacks == []
    assert server.rejected == []


JUDGE = ("pre", "post")

DOWN: dict[str, tuple[tuple[str, ...], Fault, str]] = {
    "proposals fail": (("propose",), refuse(500), "status 500 on order"),
    "proposals are refused": (("propose",), refuse(401), "status 401 on order"),
    "proposals are limited for longer than anyone waits": (("propose",), refuse(429, retry_after=NEVER), "status 429"),
    "the account has no credit": (("propose",), refuse(429, code="insufficient_quota"), "status 429 on order"),
    "proposals break off": (("propose",), drop, "proposer_failed"),
    "proposals are malformed": (("propose",), garble, "proposer_failed"),
    "proposals cannot be read": (("propose",), garble_arguments, "no call was worth keeping"),
    "the judge fails": (JUDGE, refuse(500), "status 500 on order"),
    "the judge is refused": (JUDGE, refuse(403), "status 403 on order"),
    "the judge is limited for longer than anyone waits": (JUDGE, refuse(429, retry_after=NEVER), "status 429"),
    "the judge breaks off": (JUDGE, drop, "judge_failed"),
    "the judge declines": (JUDGE, decline, "I cannot help with that."),
    "the judge chats": (JUDGE, chat_instead, "It depends."),
}


@pytest.mark.parametrize(("kinds", "fault", "reason"), DOWN.values(), ids=DOWN)
async def test_what_stays_broken_ends_in_the_plain_model_with_a_reason(
    way: Any, kinds: tuple[str, ...], fault: Fault, reason: str
) -> None:
    path, interface = way
    server = OpenAIServer(travel_model(), always(*kinds, fault=fault))
    async with server.client(**interface) as model:
        messages, fallbacks = await observed(model, path=path)

    check_conversation(messages)
    assert len(fallbacks) == 1
    assert reason in fallbacks[0]
    assert server.rejected == []
