"""What streams show of an agent with a planner, with real clients that talk to servers on a loopback port.

Each server is as strict as its provider, so that a run which ends shows that its requests were acceptable.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from doubts import node_agent
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from openai_server import OpenAIServer
from openai_wire import Reply, WrittenCall
from signing_servers import AnthropicServer, GeminiServer

from langchain_tooltree import ToolTreeMiddleware
from langchain_tooltree.testing import ScriptedChatModel

pytestmark = pytest.mark.filterwarnings(
    "ignore:The v3 streaming protocol",
    "ignore:Inheritance class AiohttpClientSession",  # in google-genai
)

Script = Sequence[str | list[str]]
"""Replies: a text, or the places to look at, each by a call."""

ANSWER = "It lies on the desk, by the lamp."
DRAFT = "I have no idea where."
SURE, UNSURE = '{"missing": "nothing"}\n', '{"missing": "the exact place"}\n'
NAMING = '{"missing": "the exact place", "call": {"name": "look", "args": {"place": "attic"}}}\n'

STRAIGHT = [["desk"], f"{SURE}{ANSWER}"]
PLAIN = [["desk"], ANSWER]

SEARCHES: dict[str, Script] = {
    "asked again": [["hall"], f"{UNSURE}{DRAFT}", ["desk"], f"{SURE}{ANSWER}"],
    "asked again without a draft": [["hall"], UNSURE, ["desk"], f"{SURE}{ANSWER}"],
    "a call named": [["hall"], f"{NAMING}{DRAFT}", f"{SURE}{ANSWER}"],
    "others asked for": [
        ["hall"],
        *[f"{UNSURE}{DRAFT}"] * 3,
        ["hall", "attic", "desk"],
        f"{SURE}{ANSWER}",
    ],
    "two calls named": [["hall"], f"{NAMING}{DRAFT}", ["desk"], f"{SURE}{ANSWER}"],
}

CLIENTS = ["chat completions", "responses", "anthropic", "gemini"]


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: dust"


@asynccontextmanager
async def opened(
    client: str, script: Script, **options: Any
) -> AsyncIterator[tuple[Any, Any]]:
    """A server that gives the replies of a script, preceded by reasoning where its provider signs it, and a client."""
    if client in {"chat completions", "responses"}:
        calls = iter(range(100))
        replies = [
            each
            if isinstance(each, str)
            else AIMessage(
                "",
                tool_calls=[
                    {"name": "look", "args": {"place": x}, "id": f"c{next(calls)}"}
                    for x in each
                ],
            )
            for each in script
        ]
        reasons = client == "responses"
        server = OpenAIServer(ScriptedChatModel(replies=replies), reasoning=reasons)
        async with server.client(use_responses_api=reasons, **options) as model:
            yield server, model
        return
    made = [
        Reply(each, reasoned=True, input_tokens=5, output_tokens=5)
        if isinstance(each, str)
        else Reply(
            calls=tuple(WrittenCall("look", json.dumps({"place": x})) for x in each),
            reasoned=True,
        )
        for each in script
    ]
    fixed: dict[str, Any] = {"api_key": "unused", "max_retries": 0, **options}
    if client == "anthropic":
        from langchain_anthropic import ChatAnthropic  # noqa: PLC0415 - takes seconds, in this module alone

        anthropic = AnthropicServer(made)
        thinking = {"type": "enabled", "budget_tokens": 1024}
        claude = ChatAnthropic(
            model="claude-local",
            base_url=anthropic.url,
            thinking=thinking,
            max_tokens=2048,
            **fixed,
        )
        yield anthropic, claude
        claude._client.close()
        await claude._async_client.close()
    else:
        from langchain_google_genai import ChatGoogleGenerativeAI  # noqa: PLC0415 - as above

        google = GeminiServer(made)
        gemini = ChatGoogleGenerativeAI(
            model="gemini-3-pro", base_url=google.url, include_thoughts=True, **fixed
        )
        yield google, gemini
        gemini.client.close()
        await gemini.client.aio.aclose()


def asking(text: str = "Where at home is the key? Please look.") -> Any:
    return {"messages": [HumanMessage(text)]}


def planned(model: Any, **options: Any) -> Any:
    return create_agent(
        model,
        [look],
        middleware=[ToolTreeMiddleware(effects={"look": "read"}, **options)],
    )


async def streamed(graph: Any, mode: Any, *, path: str) -> list[Any]:
    if path == "async":
        return [each async for each in graph.astream(asking(), stream_mode=mode)]
    return await asyncio.to_thread(
        lambda: list(graph.stream(asking(), stream_mode=mode))
    )


async def typed(graph: Any, name: str, *, path: str) -> list[Any]:
    if path == "async":
        run = await graph.astream_events(asking(), version="v3")
        return [each async for each in getattr(run, name)]
    return await asyncio.to_thread(
        lambda: list(getattr(graph.stream_events(asking(), version="v3"), name))
    )


def calls_of(message: Any) -> list[Any]:
    return [
        (call["name"], call["args"])
        for call in [*getattr(message, "tool_call_chunks", []), *message.tool_calls]
    ]


def blocks_of(message: Any) -> list[str]:
    return (
        []
        if isinstance(message.content, str)
        else [block["type"] for block in message.content]
    )


def outlined(message: Any, ids: list[Any]) -> Any:
    """A message as a user's stream shows it, without what differs between two runs."""
    ids.extend([message.id] if message.id not in ids else [])
    calls = calls_of(message) if isinstance(message, AIMessage) else []
    return (
        type(message).__name__,
        message.text,
        blocks_of(message),
        calls,
        ids.index(message.id),
    )


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(client: str) -> str:
    """Plain texts and texts in blocks take both paths."""
    return "sync" if client in {"chat completions", "anthropic"} else "async"


async def test_a_straight_run_streams_messages_as_the_plain_agent_does(
    client: str, path: str
) -> None:
    runs = []
    for script in (STRAIGHT, PLAIN):
        async with opened(client, script) as (_, model):
            agent = create_agent(model, [look]) if script is PLAIN else planned(model)
            ids: list[Any] = []
            shown = await streamed(agent, "messages", path=path)
            places = (
                "langgraph_node",
                "langgraph_step",
                "ls_provider",
                "ls_model_name",
                "tags",
            )
            runs.append(
                [
                    (outlined(each, ids), [about.get(key) for key in places])
                    for each, about in shown
                ]
            )

    ours, plain = runs
    assert ours == plain
    assert (
        "".join(message[1] for message, (node, *_) in ours if node == "model") == ANSWER
    )
    assert len([message for message, _ in ours if message[1]]) >= len(ANSWER.split()), (
        "token by token"
    )


async def test_a_straight_run_has_the_events_of_the_plain_agent(client: str) -> None:
    runs = []
    for script in (STRAIGHT, PLAIN):
        async with opened(client, script) as (_, model):
            agent = create_agent(model, [look]) if script is PLAIN else planned(model)
            events = [
                event async for event in agent.astream_events(asking(), version="v2")
            ]
            runs.append(
                [
                    (each["event"], each["name"], each["tags"], *said_in(each))
                    for each in events
                ]
            )

    ours, plain = runs
    assert ours == plain


def said_in(event: Any) -> list[Any]:
    data = event["data"].get("chunk", event["data"].get("output"))
    return (
        [data.text, blocks_of(data), calls_of(data)]
        if isinstance(data, AIMessage)
        else []
    )


@pytest.mark.parametrize(
    ("client", "name"),
    [
        *(("chat completions", name) for name in SEARCHES),
        *(("responses", name) for name in SEARCHES),
        ("anthropic", "asked again without a draft"),
        ("anthropic", "others asked for"),
        ("gemini", "asked again"),
        ("gemini", "two calls named"),
    ],
)
async def test_a_search_streams_its_steps_and_the_answer_but_no_draft(
    client: str, name: str
) -> None:
    script = SEARCHES[name]
    async with opened(client, script) as (server, model):
        shown = await streamed(planned(model), ["messages", "custom"], path="sync")
        messages = [
            data[0]
            for mode, data in shown
            if mode == "messages" and not isinstance(data[0], HumanMessage)
        ]

    assert server.rejected == []
    said = [message for message in messages if isinstance(message, AIMessage)]
    assert "".join(message.text for message in said) == ANSWER
    assert "missing" not in repr(
        [message for message in said if message.id == said[-1].id]
    )
    assert DRAFT not in repr(said)
    assert len([message for message in said if message.text]) >= len(ANSWER.split()), (
        "token by token"
    )
    events = [data["tooltree"]["type"] for mode, data in shown if mode == "custom"]
    assert events[0] == "doubt"
    assert events[-1] == "stop"


async def test_typed_streams_of_a_search_show_its_steps_and_the_answer(
    client: str, path: str
) -> None:
    script = SEARCHES["a call named" if path == "sync" else "others asked for"]
    async with opened(client, script) as (server, model):
        messages = await typed(planned(model), "messages", path=path)
        said = [message.output_message for message in messages]
    async with opened(client, script) as (_, model):
        calls = await typed(planned(model), "tool_calls", path=path)
    async with opened(client, script) as (_, model):
        in_graph = await typed(
            node_agent(model, [look], effects={"look": "read"}), "messages", path=path
        )

    assert server.rejected == []
    assert [message.text for message in said if message.text] == [ANSWER]
    assert [call.tool_name for call in calls] == ["look"] * 2
    assert [len(message.tool_calls) for message in said if message.tool_calls] == [1, 1]
    assert [
        each.output_message.text for each in in_graph if each.output_message.text
    ] == [ANSWER]


@pytest.mark.parametrize(
    ("client", "name"),
    [
        ("chat completions", "asked again"),
        *((each, "others asked for") for each in CLIENTS),
    ],
)
async def test_events_show_candidates_apart_from_the_agents_own_steps(
    client: str, name: str
) -> None:
    script = SEARCHES[name]
    async with opened(client, script) as (_, model):
        events = [
            event
            async for event in planned(model).astream_events(asking(), version="v2")
        ]

    replies = [
        each
        for each in events
        if each["event"] in {"on_chat_model_stream", "on_chat_model_end"}
    ]
    own = [said_in(each) for each in replies if "nostream" not in each["tags"]]
    assert [
        each
        for each in replies
        if ("tooltree" in each["tags"]) != ("nostream" in each["tags"])
    ] == []
    assert DRAFT not in repr(own)
    assert "missing" not in repr(own)
    ended = [each for each in replies if each["event"] == "on_chat_model_end"]
    assert ended[-1]["data"]["output"].text == ANSWER
    assert sum("nostream" in each["tags"] for each in ended) == (
        name == "others asked for"
    )
    progress = [
        event["name"] for event in events if event["event"] == "on_custom_event"
    ]
    assert {progress[0], progress[-1]} == {"tooltree.doubt", "tooltree.stop"}


@pytest.mark.parametrize("name", ["asked again without a draft", "others asked for"])
async def test_without_streams_the_conversation_is_the_same(
    client: str, path: str, name: str
) -> None:
    ends, script = [], SEARCHES[name]
    for options in ({}, {"disable_streaming": True}):
        async with opened(client, script, **options) as (server, model):
            agent = planned(model)
            if path == "async":
                messages = (await agent.ainvoke(asking()))["messages"]
            else:
                messages = (await asyncio.to_thread(agent.invoke, asking()))["messages"]
            assert server.rejected == []
        ends.append([(type(each).__name__, str(each.text)) for each in messages])

    assert ends[0] == ends[1]
    assert ends[0][-1] == ("AIMessage", ANSWER)
    assert [text for _, text in ends[0] if DRAFT in text] == []


async def test_a_conversation_goes_on_after_a_search(client: str) -> None:
    script = [*SEARCHES["a call named"], *STRAIGHT, *SEARCHES["others asked for"]]
    async with opened(client, script) as (server, model):
        agent = planned(model)
        messages: list[Any] = []
        for _ in range(3):
            given = {
                "messages": [
                    *messages,
                    HumanMessage("Where at home is the key? Please look."),
                ]
            }
            messages = (await agent.ainvoke(given))["messages"]
            assert messages[-1].text == ANSWER
        assert server.rejected == []


@pytest.mark.parametrize(
    "script", [STRAIGHT, SEARCHES["others asked for"]], ids=["straight", "search"]
)
async def test_a_model_that_is_chosen_when_it_is_asked_streams_the_same(
    script: Script,
) -> None:
    async with opened("chat completions", script) as (server, client):
        fixed = {
            name: getattr(client, name)
            for name in ("http_client", "http_async_client", "max_retries")
        }
        model: Any = init_chat_model(
            configurable_fields=("model",),
            model="gpt-4.1-mini",
            model_provider="openai",
            base_url=server.url,
            api_key="unused",
            **fixed,
        )
        shown = await streamed(
            planned(model), "messages", path="sync" if script is STRAIGHT else "async"
        )

    texts = [
        message.text
        for message, _ in shown
        if isinstance(message, AIMessage) and message.text
    ]
    assert "".join(texts) == ANSWER
    assert len(texts) == len(ANSWER.split())
