"""Searches through a real client, `ChatOpenAI` over HTTP: they find what the same model finds in process."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from conversations import check_conversation, outline
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openai_server import OpenAIServer
from travel import APART, BOOKING, EFFECTS, PRICE, ROUND_TRIP, Agency, asking, travel_model

from langchain_tooltree import SearchConfig, SearchResult, ToolTreeNode, asearch, create_tooltree_agent, search
from tests.internals.tooltree import MANY_QUESTIONS

CHAT: dict[str, Any] = {"use_responses_api": False}
RESPONSES: dict[str, Any] = {"use_responses_api": True}
STREAMING: dict[str, Any] = {"streaming": True, "stream_usage": True}

ANSWER = "All is done for you and it says OS-1 costs 90"


@pytest.fixture(params=[CHAT, RESPONSES], ids=["chat-completions", "responses"])
def interface(request: pytest.FixtureRequest) -> Any:
    return request.param


def agent_of(model: Any, agency: Agency, **options: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A ReAct graph with a planner in place of the model."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, agency.tools, **{"effects": EFFECTS, **options}))
    graph.add_node("tools", ToolNode(agency.tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


async def conversation(graph: Any, request: str | list[BaseMessage], *, path: str) -> list[BaseMessage]:
    given = asking(request) if isinstance(request, str) else {"messages": request}
    if path == "async":
        return (await graph.ainvoke(given))["messages"]
    return (await asyncio.to_thread(graph.invoke, given))["messages"]


async def find(model: Any, *, path: str, **options: Any) -> SearchResult:
    given: dict[str, Any] = {"model": model, "effects": EFFECTS, **options}
    if path == "async":
        return await asearch(PRICE, Agency().tools, **given)
    return await asyncio.to_thread(lambda: search(PRICE, Agency().tools, **given))


def said(messages: Sequence[BaseMessage]) -> list[Any]:
    """What a conversation says, without the ids in it."""
    return [
        [(call["name"], call["args"]) for call in message.tool_calls]
        if isinstance(message, AIMessage) and message.tool_calls
        else (message.type, message.text, message.name if isinstance(message, ToolMessage) else None)
        for message in messages
    ]


@pytest.mark.parametrize("request_", [PRICE, BOOKING, ROUND_TRIP])
async def test_the_conversation_is_that_of_the_model_in_process(path: str, interface: Any, request_: str) -> None:
    agency = Agency()
    server = OpenAIServer(travel_model())
    async with server.client(**interface) as model:
        messages = await conversation(agent_of(model, agency), request_, path=path)

    in_process = agent_of(travel_model(), Agency()).invoke(asking(request_))["messages"]
    assert said(check_conversation(messages)) == said(in_process)
    assert agency.calls["book OS-1"] == (request_ != PRICE)
    assert server.rejected == []


async def test_an_agent_of_create_agent_plans_through_a_client(path: str, interface: Any) -> None:
    agency = Agency()
    server = OpenAIServer(travel_model())
    async with server.client(**interface) as model:
        agent = create_tooltree_agent(model, agency.tools, effects=EFFECTS, system_prompt="You are a travel agent.")
        messages = await conversation(agent, BOOKING, path=path)

    in_process = agent_of(travel_model(), Agency()).invoke(asking(BOOKING))["messages"]
    assert said(check_conversation(messages)) == said(in_process)
    assert agency.calls["book OS-1"] == 1
    assert server.rejected == []


@pytest.mark.parametrize("streaming", [{}, STREAMING], ids=["whole", "streamed"])
async def test_a_conversation_goes_on_after_an_answer(path: str, interface: Any, streaming: Any) -> None:
    server = OpenAIServer(travel_model())
    async with server.client(**interface, **streaming) as model:
        graph = agent_of(model, Agency(), system_prompt="You are a travel agent.")
        booked = await conversation(graph, BOOKING, path=path)
        messages = await conversation(graph, [*booked, HumanMessage(PRICE)], path=path)

    assert check_conversation(messages)[-1].text == ANSWER
    assert said(messages[: len(booked)]) == said(booked)
    assert server.rejected == []


@pytest.mark.parametrize("settings", [SearchConfig(), SearchConfig.paper()], ids=["default", "paper"])
async def test_the_search_takes_the_steps_that_it_takes_in_process(path: str, interface: Any, settings: Any) -> None:
    server = OpenAIServer(travel_model())
    async with server.client(**interface) as model:
        result = await find(model, path=path, config=settings)

    in_process = search(PRICE, Agency().tools, model=travel_model(), effects=EFFECTS, config=settings)
    assert result.to_mermaid() == in_process.to_mermaid()
    assert result.cost.model_calls == in_process.cost.model_calls == len(server.requests)


@pytest.mark.parametrize("streaming", [{}, STREAMING], ids=["whole", "streamed"])
async def test_the_tokens_of_every_reply_are_counted(path: str, interface: Any, streaming: Any) -> None:
    server = OpenAIServer(travel_model())
    async with server.client(**interface, **streaming) as model:
        result = await find(model, path=path)

    assert result.answer is not None
    assert result.answer.text == ANSWER
    assert all(request.asked.streaming == bool(streaming) for request in server.requests)
    assert result.cost.tokens == server.tokens > 0


async def test_only_the_tokens_of_the_answer_are_streamed(path: str, interface: Any) -> None:
    server = OpenAIServer(travel_model())
    async with server.client(**interface) as model:
        graph = agent_of(model, Agency(), config=APART)  # which asks for its answer after the search
        if path == "async":
            chunks = [chunk async for chunk in graph.astream(asking(PRICE), stream_mode="messages")]
        else:
            chunks = await asyncio.to_thread(lambda: list(graph.stream(asking(PRICE), stream_mode="messages")))

    assert all(request.asked.streaming for request in server.requests)
    streamed = [message for message, _ in chunks if isinstance(message, AIMessageChunk)]
    assert not any(message.tool_call_chunks for message in streamed)
    words = [message.text for message in streamed if message.text]
    assert len(words) == len(ANSWER.split())
    assert "".join(words) == ANSWER
    whole = [message for message, _ in chunks if not isinstance(message, AIMessageChunk)]
    assert outline(whole) == ["call find_flights", "result find_flights", "call read_price", "result read_price"]


async def test_the_judge_may_be_a_client_of_another_server(path: str, interface: Any) -> None:
    proposing = OpenAIServer(travel_model())
    judging = OpenAIServer(travel_model())
    async with proposing.client(**interface) as model, judging.client(**interface) as judge:
        messages = await conversation(agent_of(model, Agency(), judge=judge, config=APART), PRICE, path=path)

    assert check_conversation(messages)[-1].text == ANSWER
    assert set(proposing.kinds()) == {"propose", "answer"}
    assert set(judging.kinds()) == {"pre", "post"}


async def test_the_reply_is_asked_for_as_structured_output(path: str, interface: Any) -> None:
    server = OpenAIServer(travel_model())
    async with server.client(**interface) as model:
        await find(model, path=path, config=SearchConfig(coarse_planner=True, **MANY_QUESTIONS))

    schemas = {
        request.kind: set(request.asked.schema["properties"]) for request in server.requests if request.asked.schema
    }
    assert schemas == {
        "plan": {"domains", "tools"},
        "pre": {"scores"},
        "post": {"reason", "score", "goal"},
    }


@pytest.mark.parametrize("streaming", [{}, STREAMING], ids=["whole", "streamed"])
@pytest.mark.parametrize("form", ["v0", "responses/v1", "v1"])
async def test_reasoning_comes_back_with_what_it_led_to(path: str, form: Any, streaming: Any) -> None:
    server = OpenAIServer(travel_model(), reasoning=True)
    async with server.client(**RESPONSES, **streaming, output_version=form) as model:
        graph = agent_of(model, Agency())
        booked = await conversation(graph, BOOKING, path=path)
        messages = await conversation(graph, [*booked, HumanMessage(PRICE)], path=path)

    assert check_conversation(messages)[-1].text == ANSWER
    assert server.rejected == []
    returned = [item["type"] for request in server.requests for item in request.body["input"] if request.kind == "step"]
    assert "reasoning" in returned


async def test_a_server_that_gives_one_call_a_reply_will_do(path: str, interface: Any) -> None:
    server = OpenAIServer(travel_model(), parallel_calls=False)
    async with server.client(**interface) as model:
        messages = await conversation(agent_of(model, Agency()), BOOKING, path=path)

    called = ["find_flights", "read_price", "book"]
    steps = [f"{what} {name}" for name in called for what in ("call", "result")]
    assert outline(check_conversation(messages)) == ["human", *steps, "answer"]
    assert server.rejected == []


async def test_a_model_chosen_at_run_time_plans(path: str) -> None:
    agency = Agency()
    server = OpenAIServer(travel_model())
    async with server.client() as client:
        fixed = {name: getattr(client, name) for name in ("http_client", "http_async_client", "max_retries")}
        model: Any = init_chat_model(
            configurable_fields=("model",), model_provider="openai", base_url=server.url, api_key="unused", **fixed
        )
        agent = create_tooltree_agent(model, agency.tools, effects=EFFECTS)
        chosen = agent.with_config(configurable={"model": "gpt-4.1-nano"})
        messages = await conversation(chosen, PRICE, path=path)

    assert [request.body["model"] for request in server.requests] == ["gpt-4.1-nano"] * len(server.requests)
    assert outline(check_conversation(messages))[-1] == "answer"
    assert agency.calls["read_price OS-1"] == 1
