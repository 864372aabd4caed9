from typing import Annotated, Any

import pytest
from langchain_core.tools import StructuredTool, tool
from langgraph.prebuilt import InjectedStore, ToolRuntime
from langgraph.types import Command

from langchain_tooltree import (
    ConfigurationError,
    ObjectSandbox,
    ToolLibrary,
    mcp_effects,
)
from langchain_tooltree.effects.names import verb_of_write
from langchain_tooltree.errors import ToolDefinitionError
from tests.internals.hall import classify_tools


class Board:
    def __init__(self):
        self.lines = []

    def draw(self, line: str) -> str:
        """Draw a line."""
        self.lines.append(line)
        return line

    def show(self) -> str:
        """Show all lines."""
        return ",".join(self.lines)


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return place


@tool
def jump() -> Command:
    """Go elsewhere in the graph."""
    return Command(goto="there")


@tool
def maybe_jump() -> Command[str] | str:
    """Go elsewhere in the graph, perhaps."""
    return ""


def hinted(name, metadata):
    return StructuredTool.from_function(
        lambda: "", name=name, description=name, metadata=metadata
    )


def adapters(name, hint):
    """Metadata as langchain-mcp-adapters writes it."""
    return hinted(name, {"readOnlyHint": hint})


def native(name, hint, server):
    """Metadata as `langchain.mcp` writes it."""
    annotations = {} if hint is None else {"read_only_hint": hint}
    return hinted(
        name,
        {"mcp": {"server": {"name": server}, "tool": {"annotations": annotations}}},
    )


def test_a_tool_of_unknown_effect_is_a_write():
    assert classify_tools(ToolLibrary([look])) == {"look": "write"}


def test_declared_effects_are_taken():
    library = ToolLibrary([look, jump])
    assert classify_tools(library, {"look": "read", "jump": "write"}) == {
        "look": "read",
        "jump": "write",
    }


def test_a_tool_that_returns_a_command_cannot_be_a_read():
    library = ToolLibrary([jump])
    assert classify_tools(library) == {"jump": "write"}
    with pytest.raises(
        ConfigurationError, match="returns a Command, which updates the state"
    ):
        classify_tools(library, {"jump": "read"})


def test_a_tool_that_returns_a_command_at_times_may_be_declared_a_read():
    library = ToolLibrary([maybe_jump])
    assert classify_tools(library) == {maybe_jump.name: "write"}
    assert classify_tools(library, {maybe_jump.name: "read"}) == {
        maybe_jump.name: "read"
    }


def test_unknown_names_are_refused():
    with pytest.raises(
        ToolDefinitionError, match="effects names fly, watch, but the tools are look"
    ):
        classify_tools(
            ToolLibrary([look]), {"watch": "read", "look": "read", "fly": "read"}
        )
    with pytest.raises(ToolDefinitionError, match="the sandbox names draw, show"):
        classify_tools(ToolLibrary([look]), None, ObjectSandbox.of_methods(Board()))


@pytest.mark.parametrize("injected", [Annotated[Any, InjectedStore()], ToolRuntime])
def test_a_sandbox_may_not_bind_a_tool_that_reaches_the_store(injected):
    def draw(line: str, runtime: injected) -> str:
        """Draw."""
        return line

    sandbox = ObjectSandbox(None, lambda _: [tool(draw)])
    with pytest.raises(
        ConfigurationError, match="'draw' has the store or the runtime injected"
    ):
        classify_tools(ToolLibrary(sandbox.tools), None, sandbox)


@pytest.mark.parametrize("value", ["Read", "sandboxed", True, ""])
def test_other_values_are_refused(value):
    with pytest.raises(
        ConfigurationError, match=r"effects\['look'\] must be 'read' or 'write', got"
    ):
        classify_tools(ToolLibrary([look]), {"look": value})


def test_hints_count_in_both_forms_of_metadata():
    tools = [
        adapters("a", hint=True),
        adapters("b", hint=False),
        adapters("c", hint=None),
        native("d", True, "files"),
        native("e", False, "files"),
        native("f", None, "files"),
        hinted("g", None),
    ]
    assert mcp_effects(tools, server="files") == {
        "a": "read",
        "b": "write",
        "d": "read",
        "e": "write",
    }


def loaded(name, server_name):
    """A tool as langchain-mcp-adapters loads it: only its coroutine knows from which server."""

    async def call_tool():
        return server_name

    return StructuredTool(
        name=name,
        description=name,
        coroutine=call_tool,
        args_schema={},
        metadata={"readOnlyHint": True},
    )


def test_hints_of_another_server_do_not_count():
    tools = [
        native("d", True, "mail"),
        loaded("e", "mail"),
        loaded("f", "files"),
        loaded("g", None),
    ]
    assert mcp_effects(tools, server="files") == {"f": "read", "g": "read"}


@pytest.mark.parametrize("hint", ["true", 1, "yes"])
def test_a_hint_that_is_not_a_plain_yes_is_a_write(hint):
    assert mcp_effects([adapters("a", hint)], server="files") == {"a": "write"}


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("send_email", "send"),
        ("gmailDeleteThread", "delete"),
        ("mcp__shop__PAY", "pay"),
        ("book_flight", "book"),
        ("get_book", None),
        ("list_transfers", None),
        ("search_payments", None),
        ("sender_of", None),
        ("check_last_update", "update"),
        ("get_last_update", None),
    ],
)
def test_the_name_of_a_tool_says_whether_it_acts(name, verb):
    assert verb_of_write(name) == verb
