"""The README keeps its promises: its code runs and its picture is what the demo draws."""

import re
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tooltree import demo, search, testing

README = (Path(__file__).parents[2] / "README.md").read_text()
PLAN = ["zoom", "read_sign", "convert_units"]
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_picture_in_the_readme_is_the_demo_s_tree():
    drawn = re.search(r"<!-- picture: demo -->\n```mermaid\n(.*?)\n```", README, re.DOTALL)
    result = search(demo.REQUEST, demo.TOOLS, model=demo.offline_model(), effects=demo.EFFECTS)
    assert drawn is not None
    assert drawn.group(1) == result.to_mermaid()


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_code_in_the_readme_runs(block):
    code = block.replace('"openai:gpt-4.1-mini"', "model")
    code = code.replace('{"search_flights": "read"}', "EFFECTS").replace('"search_flights"', '"read_sign"')
    names = {
        "EFFECTS": demo.EFFECTS,
        "checkpointer": InMemorySaver(),
        "model": demo.offline_model(),
        "tools": demo.TOOLS,
    }
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own README
    if "agent" in names:
        thread = {"configurable": {"thread_id": "1"}}
        messages = names["agent"].invoke({"messages": [("user", demo.REQUEST)]}, thread)["messages"]
        made = [message.name for message in messages if message.type == "tool"]
        assert made == (PLAN if "langchain_tooltree" in block else []), (
            "the stand-in makes no call unless it is planned"
        )
        assert messages[-1].text
    if "Policy" in names:
        found = search("Read the sign.", demo.TOOLS, model=names["model"], effects=demo.EFFECTS)
        assert "343 km" in found.answer.text
    if "judge" in names:
        assert (names["result"].stop_reason, names["result"].answer.text[:22]) == ("solved", "It is about 213 miles ")


def test_the_readme_names_only_what_exists():
    for name in ("ScriptedChatModel", "OfflineChatModel"):
        assert hasattr(testing, name)
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (Path(__file__).parents[2] / link).exists(), link
