"""An agent with the whole toolbox: results go into the next call, and tools run beside an event loop."""

import asyncio

import pytest
from agents import invoke
from langchain_core.messages import AIMessage, ToolMessage

from langchain_tooltree import create_tooltree_agent
from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.toolbox import toolbox


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    from PIL import Image  # noqa: PLC0415 - an extra

    folder = tmp_path_factory.mktemp("office")
    (folder / "many.txt").write_text("a" * 60 + "b")
    Image.new("RGB", (80, 40), (255, 0, 0)).save(folder / "flag.png")
    return toolbox(
        folder=folder, vision=ScriptedChatModel(replies=["It is red."] * 20), seconds=1
    )


def calling(name, **arguments):
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": name}])


def test_an_agent_asks_about_the_part_that_it_has_zoomed_into(box, path):
    def asking_about_the_part(messages):
        return calling(
            "ask_image", image=messages[-1].text, question="Which colour is it?"
        )

    replies = [
        calling("zoom_image", image="flag.png", part="top right"),
        asking_about_the_part,
        "It is red.",
    ]
    agent = create_tooltree_agent(
        ScriptedChatModel(replies=replies), box, effects=box.effects
    )

    messages = invoke(
        agent,
        {"messages": [("user", "Which colour is the upper right quarter?")]},
        path=path,
    )["messages"]

    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert [(each.name, each.status) for each in results] == [
        ("zoom_image", "success"),
        ("ask_image", "success"),
    ]
    assert results[-1].text == "It is red."


async def test_tools_run_beside_an_event_loop_and_outlive_a_call_that_was_given_up(box):
    for_ever = {"pattern": "(a+)+$", "file": "many.txt"}
    slow = asyncio.create_task(box.tool("search_documents").ainvoke(for_ever))
    turns = 0
    while not slow.done():
        await asyncio.sleep(0.01)
        turns += 1
    assert "was stopped" in await slow
    assert turns > 10
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(box.tool("search_documents").ainvoke(for_ever), 0.1)
    numbers = range(1, 20)
    said = await asyncio.gather(
        *(box.tool("calculator").ainvoke({"expression": f"{n} * 7"}) for n in numbers)
    )
    assert said == [str(n * 7) for n in numbers]
