"""Memory end to end through ChatOpenAI: from focus points to reflection, whatever form the replies have."""

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest
from door_keeper import LESSON, POINTS, TIPS, Door, DoorKeeper
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langgraph.store.memory import InMemoryStore
from openai_server import OpenAIServer

from langchain_tooltree import CFGMMemory, CFGMMiddleware, TrajectoryRecorder
from langchain_tooltree.cfgm.recall import recall_text
from langchain_tooltree.errors import ReplyError
from langchain_tooltree.messages.reference import REFERENCE_TAG
from langchain_tooltree.sitgraph.transitions import get_feature_texts, read_run

TASK = "Leave the house."
OTHER = "Leave the shed."
DESCRIPTION = "Houses with doors. The tool act takes an action."


async def on(
    path: str, thing: Any, method: str, *arguments: Any, **options: Any
) -> Any:
    """Call a method on one of the two paths."""
    if path == "async":
        return await getattr(thing, f"a{method}")(*arguments, **options)
    return await asyncio.to_thread(getattr(thing, method), *arguments, **options)


async def learnt(memory: CFGMMemory, path: str) -> None:
    """Collect experience with the door, and take tips from it."""
    await on(path, memory, "focus_points", DESCRIPTION)
    await on(path, memory, "collect", Door(), [TASK], None, max_steps=2)
    await on(path, memory, "extract_tips")


async def invoked(path: str, agent: Any, text: str, config: Any = None) -> list[Any]:
    bounded = {"recursion_limit": 40, **(config or {})}
    result = await on(path, agent, "invoke", {"messages": [("user", text)]}, bounded)
    return result["messages"]


CHAT, RESPONSES = "chat-completions", "responses"
FORMS = [
    ("as asked", "filled in", "sync", CHAT),
    ("as asked", "filled in", "async", RESPONSES),
    ("as asked", "refused", "sync", RESPONSES),
    ("fenced", "refused", "async", CHAT),
    ("fenced", "ignored", "sync", CHAT),
    ("empty first", "filled in", "sync", RESPONSES),
    ("prose first", "ignored", "async", RESPONSES),
    ("nonsense first", "ignored", "sync", CHAT),
]


@pytest.mark.parametrize(("way", "forms", "path", "interface"), FORMS)
async def test_experience_is_collected_learnt_from_and_used(
    way: str, forms: Any, path: str, interface: str
) -> None:
    server = OpenAIServer(DoorKeeper(way=way), forms=forms)
    async with server.client(use_responses_api=interface == RESPONSES) as model:
        memory = CFGMMemory(model, InMemoryStore())

        assert (
            await on(
                path,
                memory,
                "focus_points",
                DESCRIPTION,
                ["A brass key opens brass locks."],
            )
            == POINTS
        )
        report = await on(path, memory, "collect", Door(), [TASK], None, max_steps=2)
        assert [outcome.success for outcome in report.outcomes] == [True]
        attempts = sorted(
            memory.experience.trajectories(), key=lambda each: each.metadata["attempt"]
        )
        assert [attempt.success for attempt in attempts] == [False, True]
        assert LESSON in attempts[0].metadata["reflection"]
        asked = [
            message.text for each in server.requests for message in each.asked.messages
        ]
        assert POINTS[0] in "\n".join(asked)

        tips = await on(path, memory, "extract_tips")
        assert {tip.source: tip.text for tip in tips} == TIPS
        assert [tip.tools for tip in tips] == [("act",), ()]
        recollection = await on(path, memory, "recall", OTHER)
        told = recall_text(recollection, max_characters=2_000)
        assert [text for text in TIPS.values() if text not in told] == []
        assert "act(action): ok (2 times)" in told

        before = len(server.requests)
        agent = create_agent(
            model,
            [Door().tool()],
            middleware=[
                CFGMMiddleware(model, memory, patience=0, verdict=lambda _: True)
            ],
        )
        messages = await invoked(path, agent, OTHER)
        assert messages[-1].text == "I am out."
        assert [
            message.status for message in messages if isinstance(message, ToolMessage)
        ] == [
            "error",
            "success",
            "success",
        ]
        assert TIPS["comparison"] in server.requests[before].asked.messages[0].text
    assert server.rejected == []


async def test_a_model_that_never_answers_costs_the_help_and_not_the_work(
    caplog: Any,
) -> None:
    caplog.set_level(logging.CRITICAL)
    server = OpenAIServer(DoorKeeper(way="never"), forms="ignored")
    async with server.client() as model:
        memory = CFGMMemory(model, InMemoryStore())
        with pytest.raises(ReplyError, match="rather not"):
            await memory.afocus_points(DESCRIPTION)
        report = await memory.acollect(Door(), [TASK], None, 1, max_steps=2)
        assert [outcome.success for outcome in report.outcomes] == [False]
        assert await memory.aextract_tips() == []
        assert (await memory.arecall(TASK)).runs == ()


@pytest.mark.parametrize("path", ["sync", "async"])
async def test_what_was_recalled_and_advised_is_not_mined_again(path: str) -> None:
    """An agent with recalled text in its system prompt, in its thread and in the results of its tools."""
    server = OpenAIServer(DoorKeeper())
    async with server.client() as model:
        memory = CFGMMemory(model, InMemoryStore())
        await learnt(memory, path)
        known = {trajectory.id for trajectory in memory.experience.trajectories()}
        told = recall_text(
            await on(path, memory, "recall", OTHER), max_characters=2_000
        )
        middleware = CFGMMiddleware(model, memory, patience=0, record=False)
        agent = create_agent(model, [Door().tool()], middleware=[middleware])
        recorder = TrajectoryRecorder(memory.experience, verdict=lambda _: True)
        messages = await invoked(
            path, agent, f"{OTHER}\n\n{told}", {"callbacks": [recorder]}
        )
        assert REFERENCE_TAG in messages[0].text
        results = [each.text for each in messages if isinstance(each, ToolMessage)]
        assert REFERENCE_TAG in "\n".join(results)

        before = len(server.requests)
        tips = await on(path, memory, "extract_tips")
        recalled = await on(path, memory, "recall", OTHER, 1)
    (recorded,) = (
        each for each in memory.experience.trajectories() if each.id not in known
    )
    (again,) = recalled.runs
    assert again == recorded
    assert recorded.task == OTHER
    assert [step.result.status for step in recorded.calls if step.result] == [
        "error",
        "success",
        "success",
    ]
    asked = [request.asked.messages[1].text for request in server.requests[before:]]
    assert len(asked) == 1
    shown, _, _ = asked[0].partition('"known_tips"')
    assert "open door" in shown
    moments = [transition.moment for transition in read_run(recorded)[0]]
    states = [str(get_feature_texts(moment)) for moment in moments]
    assert len(states) == 3
    for text in (
        str(replace(recorded, metadata={})),
        shown,
        *states,
    ):  # people may read there what a reflection said
        for foreign in (REFERENCE_TAG, LESSON, TASK, *TIPS.values()):
            assert foreign not in text
    assert [tip for tip in tips if REFERENCE_TAG in tip.text] == []
    assert recall_text(recalled, max_characters=2_000).count(REFERENCE_TAG) == 2
