"""The tools that models were offered: in OpenAI form whatever the provider's, by name, as JSON gives them back."""

import json
from uuid import UUID

import pytest
from langchain_core.tools import tool

from tests.internals.experience import as_metadata, tools_in

SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
FUNCTION = {"name": "look", "description": "Look somewhere.", "parameters": SCHEMA}


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return place


@pytest.mark.parametrize(
    "offered",
    [
        {"type": "function", "function": FUNCTION},
        {"type": "function", **FUNCTION},
        FUNCTION,
        {"name": "look", "description": "Look somewhere.", "input_schema": SCHEMA},
        {"type": "custom", "name": "look", "description": "Look somewhere.", "input_schema": SCHEMA},
        {"toolSpec": {"name": "look", "description": "Look somewhere.", "inputSchema": {"json": SCHEMA}}},
        look,
    ],
    ids=["chat", "responses", "function", "anthropic", "anthropic with a type", "bedrock", "langchain"],
)
def test_tools_of_every_provider_are_kept_in_one_form(offered):
    assert tools_in([offered]) == {"look": {"type": "function", "function": FUNCTION}}


def test_tools_of_the_provider_itself_stay_as_they_are():
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    assert tools_in([search, {"type": "code_interpreter"}]) == {
        "web_search": search,
        "code_interpreter": {"type": "code_interpreter"},
    }


@pytest.mark.parametrize("offered", [None, "look", 3, {}, [], [None, 3, {}, {"type": "function"}, {"function": {}}]])
def test_what_is_no_tool_is_left_out(offered):
    assert tools_in(offered) == {}


def test_what_is_kept_is_as_json_gives_it_back_and_nobody_elses():
    properties = {"place": {"enum": ("shed", UUID(int=1))}}
    given = {"type": "function", "function": {**FUNCTION, "parameters": {"type": "object", "properties": properties}}}
    kept = tools_in([given])
    properties.clear()

    assert json.loads(json.dumps(kept)) == kept
    assert kept["look"]["function"]["parameters"]["properties"]["place"]["enum"] == ["shed", str(UUID(int=1))]


def test_the_order_is_that_of_the_names():
    first, second = ({"type": "function", "function": {"name": name}} for name in ("a", "b"))
    assert (
        as_metadata({"b": second, "a": first}) == as_metadata({"a": first, "b": second}) == {"tools": [first, second]}
    )
    assert as_metadata({}) == {}
