"""summarize_state inside a search: a read by itself, whose result belongs to the path that it stands on."""

import pytest
from langchain_core.tools import tool
from library_desk import (
    ASKED,
    FOUND,
    RENEWABLE,
    TOOLS,
    WANTED,
    desk_graph,
    either,
    results,
    summing_up,
)

from langchain_tooltree import (
    ToolLibrary,
    create_summarize_state_tool,
    create_tooltree_agent,
)
from langchain_tooltree.messages.reference import remove_reference
from langchain_tooltree.sitgraph.agents import ACKNOWLEDGEMENT
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import classify_tools

READS = {"find_reader": "read", "list_loans": "read"}


@pytest.mark.parametrize(
    ("summary", "first"), [(RENEWABLE, "renew_loan"), (WANTED, "reserve_book")]
)
def test_a_search_sums_up_the_state_of_its_own_path(path, summary, first):
    model = ScriptedChatModel(replies=[*FOUND, summing_up(summary), "It can be done."])
    agent = create_tooltree_agent(
        model, [*TOOLS, create_summarize_state_tool(desk_graph())], effects=READS
    )

    messages = either(path, agent)(ASKED)["messages"]

    (told,) = results(messages, "summarize_state")
    assert f"went on here with: {first} " in told.content
    assert remove_reference(told.content) == ACKNOWLEDGEMENT
    assert told.artifact["suggestions"][0]["mode"] == "episodic", (
        "the tool before it on the path was list_loans"
    )


def test_the_tool_is_known_for_a_read_and_a_write_of_the_same_name_is_not():
    @tool
    def summarize_state(summary: str) -> str:
        """File a report about the state."""
        return summary

    own = create_summarize_state_tool(desk_graph())
    assert classify_tools(ToolLibrary([own])) == {"summarize_state": "read"}
    assert classify_tools(ToolLibrary([own]), {"summarize_state": "write"}) == {
        "summarize_state": "write"
    }
    assert classify_tools(ToolLibrary([summarize_state])) == {
        "summarize_state": "write"
    }
