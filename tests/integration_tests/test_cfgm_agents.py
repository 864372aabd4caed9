"""Agents that recover from trouble and remember how: over conversations, many at once, killed, nested, and streamed."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agents import invoke, stream
from conversations import check_conversation
from door_keeper import ANSWERS, Door, DoorKeeper
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import CFGMMemory, CFGMMiddleware
from langchain_tooltree.cfgm.online import REFLECTION_PROMPT
from langchain_tooltree.testing import ScriptedChatModel

TASK = "Leave the house."
STRAIGHT = ["turn key", "open door"]
RECOVERED = ["open door", *STRAIGHT]
ASKED: Any = {"messages": [("user", TASK)]}


def watcher() -> ScriptedChatModel:
    """The model that reflects."""
    return ScriptedChatModel(replies=[ANSWERS[REFLECTION_PROMPT]] * 20)


def memory() -> CFGMMemory:
    return CFGMMemory(ScriptedChatModel(replies=[]), InMemoryStore())


def watched(
    watching: Any, known: CFGMMemory | None = None, *, verdict: Any = lambda _: True
) -> CFGMMiddleware:
    return CFGMMiddleware(
        watching, known, patience=0, verdict=verdict if known else None
    )


def door_agent(
    cfgm: CFGMMiddleware, door: Door | None = None, model: Any = None, **options: Any
) -> Any:
    tools = [(door or Door()).tool()]
    return create_agent(
        model or DoorKeeper(heeds_recall=True), tools, middleware=[cfgm], **options
    )


def thread(number: int = 1) -> Any:
    return {"configurable": {"thread_id": f"thread {number}"}}


def called(messages: Sequence[BaseMessage]) -> list[str]:
    """The actions that were taken, in order."""
    return [
        call["args"]["action"]
        for each in messages
        if isinstance(each, AIMessage)
        for call in each.tool_calls
    ]


def test_how_it_got_out_is_recalled_in_the_next_conversation(path: str) -> None:
    watching, known = watcher(), memory()

    runs = [
        invoke(
            door_agent(watched(watching, known), checkpointer=InMemorySaver()),
            ASKED,
            thread(number),
            path=path,
        )
        for number in (1, 2)
    ]

    assert [called(check_conversation(run["messages"])) for run in runs] == [
        RECOVERED,
        STRAIGHT,
    ]
    assert len(watching.calls) == 1


def test_many_conversations_at_once_do_not_mix(path: str) -> None:
    known = memory()
    cfgm = CFGMMiddleware(
        watcher(), known, patience=0, recall=False, verdict=lambda _: True
    )
    crowd = [door_agent(cfgm, checkpointer=InMemorySaver()) for _ in range(12)]

    if path == "async":

        async def run() -> list[Any]:
            return await asyncio.gather(
                *(
                    agent.ainvoke(ASKED, thread(number))
                    for number, agent in enumerate(crowd)
                )
            )

        states = asyncio.run(run())
    else:
        with ThreadPoolExecutor(6) as pool:
            states = list(
                pool.map(
                    lambda pair: pair[1].invoke(ASKED, thread(pair[0])),
                    enumerate(crowd),
                )
            )

    assert [called(check_conversation(state["messages"])) for state in states] == [
        RECOVERED
    ] * 12
    assert {run.id for run in known.experience.trajectories()} == {
        f"thread {number}" for number in range(12)
    }


def test_a_killed_run_goes_on_in_another_process_without_asking_again(
    tmp_path: Path,
) -> None:
    door, watching, known = Door(), watcher(), memory()

    def agent(saver: Any, **model: Any) -> Any:
        return door_agent(
            watched(watching, known), door, DoorKeeper(**model), checkpointer=saver
        )

    with (
        SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver,
        pytest.raises(ConnectionError),
    ):
        agent(saver, failures={3: ConnectionError("killed")}).invoke(ASKED, thread())
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        messages = agent(saver).invoke(None, thread())["messages"]

    assert called(check_conversation(messages)) == RECOVERED
    assert len(watching.calls) == 1
    assert [run.id for run in known.experience.trajectories()] == ["thread 1"]


def as_tool(agent: Any) -> StructuredTool:
    """An agent as a tool of another one."""

    def ask_keeper(wish: str) -> str:
        """Ask the keeper."""
        return str(agent.invoke({"messages": [("user", wish)]})["messages"][-1].text)

    async def aask_keeper(wish: str) -> str:
        return str(
            (await agent.ainvoke({"messages": [("user", wish)]}))["messages"][-1].text
        )

    return StructuredTool.from_function(ask_keeper, aask_keeper)


def test_an_agent_that_is_a_tool_of_another_recovers_inside_of_it(path: str) -> None:
    inner_watching, outer_watching, known = watcher(), watcher(), memory()
    inner = door_agent(watched(inner_watching, known), name="keeper")
    call = AIMessage(
        "", tool_calls=[{"name": "ask_keeper", "args": {"wish": TASK}, "id": "1"}]
    )
    chief = create_agent(
        ScriptedChatModel(replies=[call, "All done."]),
        [as_tool(inner)],
        middleware=[watched(outer_watching, known)],
        checkpointer=InMemorySaver(),
    )

    messages = invoke(
        chief, {"messages": [("user", "Get us out.")]}, thread(), path=path
    )["messages"]

    assert [
        message.text for message in messages if isinstance(message, ToolMessage)
    ] == ["I am out."]
    assert (len(inner_watching.calls), len(outer_watching.calls)) == (1, 0)
    runs = {
        run.task: [step.tool for step in run.calls]
        for run in known.experience.trajectories()
    }
    assert runs == {"Get us out.": ["ask_keeper"], TASK: ["act"] * 3}


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
@pytest.mark.parametrize("path", ["sync", "async", "typed"])
def test_the_models_that_reflect_and_judge_do_not_stream(path: str) -> None:
    watching = watcher()
    judge = ScriptedChatModel(
        replies=[{"reasons": "The door is open.", "verdict": "success"}]
    )
    agent = door_agent(
        watched(watching, memory(), verdict=judge), checkpointer=InMemorySaver()
    )

    if path == "typed":
        typed = list(agent.stream_events(ASKED, thread(), version="v3").messages)
        assert [each.output_message.text for each in typed] == ["", "", "", "I am out."]
    else:
        chunks = [
            chunk
            for chunk, _ in stream(
                agent, ASKED, thread(), path=path, stream_mode="messages"
            )
        ]
        assert (
            "".join(chunk.text for chunk in chunks if isinstance(chunk, AIMessageChunk))
            == "I am out."
        )
        results = [chunk.text for chunk in chunks if isinstance(chunk, ToolMessage)]
        assert results == [
            "Error: the door is locked.",
            "The key turns.",
            "The door is open.",
        ], "each is shown once"
    assert len(watching.calls) == len(judge.calls) == 1
