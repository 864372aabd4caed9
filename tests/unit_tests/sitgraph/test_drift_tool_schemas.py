"""Which tools an agent has: names and hashes of what they take, in whatever form they come."""

import pytest
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_tooltree.errors import ToolDefinitionError
from tests.internals.sitgraph import schema_hash, toolset_of


@tool
def look(place: str, times: int = 1) -> str:
    """Look somewhere."""
    return place


@tool("gaze")
def renamed(place: str, times: int = 1) -> str:
    """Look somewhere for long."""
    return place


@tool("look")
def changed(place: str, often: int = 1) -> str:
    """Look somewhere."""
    return place


def test_a_tool_is_told_by_name_and_hash():
    [(name, schema)] = toolset_of([look]).items()

    assert name == "look"
    assert len(schema) == 16
    assert schema == toolset_of([renamed])["gaze"]
    assert schema != toolset_of([changed])["look"]


def test_all_forms_of_a_tool_have_the_same_hash():
    wrapped = convert_to_openai_tool(look)
    function = wrapped["function"]
    anthropic = {"name": "look", "description": "", "input_schema": function["parameters"]}

    assert toolset_of([wrapped]) == toolset_of([function]) == toolset_of([anthropic]) == toolset_of([look])


def test_of_a_name_alone_the_schema_is_not_known():
    assert toolset_of(["look", {"name": "gaze"}, {"type": "web_search"}]) == {"look": "", "gaze": "", "web_search": ""}


def test_tools_may_come_from_a_generator():
    assert toolset_of(name for name in "ab") == {"a": "", "b": ""}


def test_prose_has_no_part_in_the_hash_and_names_have():
    bare = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    told = {
        "title": "Look",
        "description": "Look somewhere.",
        "required": ["title"],
        "properties": {"title": {"type": "string", "description": "Where", "title": "Title"}},
        "type": "object",
    }

    assert schema_hash(told) == schema_hash(bare)
    assert schema_hash({**bare, "properties": {}}) != schema_hash(bare)
    assert schema_hash({**bare, "required": []}) != schema_hash(bare)


def test_the_hash_stays_what_it_is():
    assert schema_hash({"type": "object", "properties": {"x": {"type": "string"}}}) == "7d67f2da31c37dd2"


def test_a_function_is_a_tool_as_it_is_for_an_agent():
    def renew(loan: str) -> str:
        """Renew a loan."""
        return loan

    assert toolset_of([renew]) == toolset_of([tool(renew)])


@pytest.mark.parametrize("odd", [None, 7, {}, {"name": ""}, {"function": {}}, {"name": 7}])
def test_what_is_no_tool_is_refused(odd):
    with pytest.raises(ToolDefinitionError, match="A tool is a name, a LangChain tool, a function, or a dict"):
        toolset_of([odd])
