"""One plan, four ways: as a node, as middleware, as an agent and as a function, sync and async, one search is made.

What a search did is compared by its progress events, which tell of every node, score and token, and what came of it by
the messages of the plan.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from agents import stream
from conversations import check_pairs
from doubts import ASKED, READS, REPLIES, look, middleware_agent, node_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from travel import BOOKING, EFFECTS, Agency, travel_model

from langchain_tooltree import SearchConfig, asearch, create_tooltree_agent, search
from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.tooltree.search.config import KernelConfig

SMALL: dict[str, Any] = {
    "max_rollouts": 8,
    "post_threshold": 0.2,
    "value_threshold": 1.0,
}
"""Lets a tree of some depth grow in little time."""

CONFIGS: dict[str, SearchConfig] = {
    "posterior": KernelConfig(**SMALL),
    "smoothed": KernelConfig(**SMALL, selection="smoothed"),
    "paper": SearchConfig.paper(max_rollouts=6, max_depth=3),
    "few model calls": KernelConfig(**SMALL, max_model_calls=11),
    "one rollout": SearchConfig(selection="posterior", max_rollouts=1),
    "tools planned": KernelConfig(**SMALL, coarse_planner=True),
}

Seen = tuple[list[Any], list[Any]]
"""The events of a search, and the messages of its plan without what differs from run to run."""


def by_function(config: SearchConfig, path: str) -> Seen:
    """One turn of a search."""
    events: list[Any] = []
    options: Any = {
        "model": travel_model(),
        "effects": EFFECTS,
        "config": config,
        "on_event": events.append,
    }
    tools = Agency().tools
    result = (
        asyncio.run(asearch(BOOKING, tools, **options))
        if path == "async"
        else search(BOOKING, tools, **options)
    )
    return events, comparable(result.messages)


def by_graph(make: Any, config: SearchConfig, path: str) -> Seen:
    """One turn of an agent, up to the write that its plan waits for or to the answer."""
    thread = {"configurable": {"thread_id": "1"}}
    options: Any = {
        "effects": EFFECTS,
        "config": config,
        "checkpointer": InMemorySaver(),
    }
    agent = make(travel_model(), Agency().tools, **options)
    given: Any = {"messages": [HumanMessage(BOOKING)]}
    modes: Any = ["custom", "values"]
    chunks = stream(
        agent, given, thread, path=path, stream_mode=modes, interrupt_before=["tools"]
    )
    events = [chunk["tooltree"] for mode, chunk in chunks if mode == "custom"]
    *_, last = (chunk["messages"] for mode, chunk in chunks if mode == "values")
    return events, comparable(last[1:])


FORMS: tuple[Callable[..., Any], ...] = (
    node_agent,
    middleware_agent,
    create_tooltree_agent,
)
PATHS = ("sync", "async")


def comparable(messages: Sequence[BaseMessage]) -> list[Any]:
    """Messages as plain data, without ids and times."""
    check_pairs([HumanMessage(BOOKING), *messages], may_end_open=True)
    return [_plain(message) for message in messages]


def _plain(message: BaseMessage) -> Any:
    if isinstance(message, ToolMessage):
        return message.name, message.content, message.status, message.artifact
    assert isinstance(message, AIMessage)
    return [(call["name"], call["args"]) for call in message.tool_calls], message.text


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_every_way_makes_the_same_search_and_finds_the_same_plan(
    config: SearchConfig,
) -> None:
    events, plan = by_function(config, "sync")

    assert by_function(config, "async") == (events, plan)
    for make, path in itertools.product(FORMS, PATHS):
        assert by_graph(make, config, path) == (events, plan), (
            f"{make.__name__}, {path}"
        )
    assert {"select", "propose", "stop"} <= {event["type"] for event in events}
    assert plan


@pytest.mark.parametrize("replies", REPLIES.values(), ids=REPLIES)
def test_in_the_loop_every_way_makes_the_same_steps(replies: list[Any]) -> None:
    def agent(make: Any) -> tuple[Any, Any]:
        model = ScriptedChatModel(replies=replies)
        return make(model, [look], effects=READS), model

    seen = []
    for make, path in itertools.product(FORMS, PATHS):
        graph, model = agent(make)
        chunks = stream(graph, ASKED, path=path, stream_mode=["custom", "values"])
        events = [chunk["tooltree"] for mode, chunk in chunks if mode == "custom"]
        *_, last = (chunk["messages"] for mode, chunk in chunks if mode == "values")
        seen.append((events, comparable(last[1:]), prompts_of(model)))
    for path in PATHS:
        events, model = [], ScriptedChatModel(replies=replies)
        options: Any = {"model": model, "effects": READS, "on_event": events.append}
        asked = ASKED["messages"]
        result = (
            asyncio.run(asearch(asked, [look], **options))
            if path == "async"
            else search(asked, [look], **options)
        )
        seen.append((events, comparable(result.messages), prompts_of(model)))

    assert [each for each in seen if each != seen[0]] == []
    assert len(seen[0][2]) == len(replies)


def prompts_of(model: ScriptedChatModel) -> list[list[tuple[str, str]]]:
    return [
        [(message.type, message.text) for message in prompt] for prompt in model.calls
    ]
