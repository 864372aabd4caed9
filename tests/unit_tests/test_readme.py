"""The README keeps its promises: its code runs and its picture is what the demo draws."""

import re
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_tooltree import demo, search, testing

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_picture_in_the_readme_is_the_demo_s_tree():
    drawn = re.search(r"<!-- picture: demo -->\n```mermaid\n(.*?)\n```", README, re.DOTALL)
    result = search(demo.REQUEST, demo.TOOLS, model=demo.offline_model(), effects=demo.EFFECTS)
    assert drawn is not None
    assert drawn.group(1) == result.to_mermaid()


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_code_in_the_readme_runs(block):
    code = block.replace('"openai:gpt-4.1-mini"', "model").replace('"search_flights"', '"read_sign"')
    names = {
        "MessagesState": MessagesState,
        "START": START,
        "StateGraph": StateGraph,
        "ToolNode": ToolNode,
        "checkpointer": InMemorySaver(),
        "model": demo.offline_model(),
        "tools": demo.TOOLS,
        "tools_condition": tools_condition,
    }
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102 - our own README
    if "agent" in names:
        thread = {"configurable": {"thread_id": "1"}}
        messages = names["agent"].invoke({"messages": [("user", demo.REQUEST)]}, thread)["messages"]
        assert len(messages) > 1


def test_the_readme_names_only_what_exists():
    for name in ("ScriptedChatModel", "OfflineChatModel"):
        assert hasattr(testing, name)
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (Path(__file__).parents[2] / link).exists(), link
