"""Runs of two users whose threads have the same name: what one is told and offered is kept for no other."""

import asyncio

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import dynamic_prompt
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.config import get_config
from langgraph.runtime import get_runtime
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    CFGMMemory,
    CFGMMiddleware,
    Experience,
    ExperienceStore,
    SITGraph,
    SITGraphMiddleware,
    ToolTreeMiddleware,
)
from langchain_tooltree.testing import ScriptedChatModel

USERS = ("ann", "bob")


async def both_run(learning, *, in_context=False):
    """Both users' runs, each of which has asked its model before either goes on."""
    both_have_asked = asyncio.Barrier(2)

    @dynamic_prompt
    def served(_):
        values = get_runtime().context if in_context else get_config()["configurable"]
        return f"You serve {values['user_id']}."

    @tool
    async def look(place: str) -> str:
        """Look at a place."""
        await both_have_asked.wait()
        return f"On the {place} lies a red key."

    def reply(messages):
        if any(each.type == "tool" for each in messages):
            return "It is on the desk."
        return AIMessage(
            "", tool_calls=[{"name": "look", "args": {"place": "desk"}, "id": "1"}]
        )

    model = ScriptedChatModel(replies=[reply] * 4)
    schema = {"context_schema": dict} if in_context else {}
    agent = create_agent(model, [look], middleware=[served, learning], **schema)

    async def run(user):
        config = {
            "configurable": {"thread_id": "same"}
            | ({} if in_context else {"user_id": user})
        }
        context = {"context": {"user_id": user}} if in_context else {}
        await agent.ainvoke(
            {"messages": [("user", f"Where is the key of {user}?")]}, config, **context
        )

    await asyncio.gather(*map(run, USERS))


def with_memory():
    """The middleware that keeps runs in a memory, and the store of that."""
    store = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user_id}"))
    memory = CFGMMemory(ScriptedChatModel(), store)
    return CFGMMiddleware(ScriptedChatModel(), memory, verdict=lambda _: True), store


def with_planner():
    """The planner, which keeps runs in an experience, and the store of that."""
    experience = Experience(InMemoryStore(), verdict=lambda _: True)
    return ToolTreeMiddleware(experience=experience), experience.store


@pytest.mark.parametrize("keeping", [with_memory, with_planner])
@pytest.mark.parametrize("in_context", [False, True], ids=["configurable", "context"])
async def test_what_one_user_was_told_is_kept_for_that_one_alone(keeping, in_context):
    learning, store = keeping()
    await both_run(learning, in_context=in_context)

    for user in USERS:
        [run] = [each async for each in store.within(user_id=user).atrajectories()]
        assert run.instructions == f"You serve {user}."


@pytest.mark.parametrize("in_context", [False, True], ids=["configurable", "context"])
async def test_a_verdict_on_what_a_graph_learns_knows_what_that_user_was_told(
    in_context,
):
    judged = {}

    def verdict(run):
        judged[run.task] = run.instructions
        return True

    await both_run(
        SITGraphMiddleware(SITGraph(), verdict=verdict), in_context=in_context
    )

    assert judged == {
        f"Where is the key of {user}?": f"You serve {user}." for user in USERS
    }
