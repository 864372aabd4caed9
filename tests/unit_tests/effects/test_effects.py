from typing import Annotated

import pytest
from langchain_core.tools import StructuredTool, tool
from langgraph.prebuilt import InjectedState, ToolRuntime
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from langchain_tooltree import (
    ConfigurationError,
    ToolLibrary,
    create_summarize_state_tool,
    mcp_effects,
)
from langchain_tooltree.effects import CallEffects, http_reads, sql_reads
from langchain_tooltree.effects.names import is_read
from tests.internals.hall import classify_tools


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return place


@tool("look")
def other(place: str) -> str:
    """Look somewhere."""
    return place


def by_method(arguments):
    return "read" if arguments["method"] == "GET" else "write"


def test_a_call_is_judged_by_its_arguments():
    effects = CallEffects.declared_as(
        {"http": by_method, "look": "read", "pay": "write"}
    )
    assert effects.of("http", {"method": "GET"}) == "read"
    assert effects.of("http", {"method": "POST"}) == "write"
    assert effects.of("look", {"anything": 1}) == "read"
    assert effects.of("pay", {}) == effects.of("unknown", {}) == "write"
    assert effects.reads == {"look"}
    assert effects.by_arguments == {"http"}


def failing(_):
    raise RuntimeError


@pytest.mark.parametrize("answer", ["Read", "reads", True, None, b"read", ["read"]])
def test_a_function_that_answers_anything_else_means_a_write(answer):
    assert CallEffects.declared_as({"http": lambda _: answer}).of("http", {}) == "write"


def test_a_function_that_fails_means_a_write():
    effects = CallEffects.declared_as({"http": failing, "by_key": by_method})
    assert (
        effects.of("http", {"method": "GET"})
        == effects.of("by_key", {})
        == effects.of("by_key", None)
        == "write"
    )


def test_a_function_cannot_change_the_arguments_that_it_is_asked_about():
    arguments = {"query": ["x"]}
    assert (
        CallEffects.declared_as(
            {"sql": lambda given: given["query"].clear() or "read"}
        ).of("sql", arguments)
        == "read"
    )
    assert arguments == {"query": ["x"]}


async def answers_later(_):
    return "read"


@pytest.mark.parametrize(
    ("effects", "message"),
    [
        (["look"], "effects must be a mapping"),
        ("look", "effects must be a mapping"),
        ({"look": "sandboxed"}, r"effects\['look'\] must be 'read' or 'write'"),
        ({"look": answers_later}, "a plain function of the arguments"),
        ([(3, "read")], "must be a tool or the name of one, got int 3"),
    ],
)
def test_what_no_effects_can_be_is_refused(effects, message):
    with pytest.raises(ConfigurationError, match=message):
        CallEffects.declared_as(effects)


def test_what_is_declared_of_a_tool_holds_for_that_tool_alone(caplog):
    effects = CallEffects.declared_as([(look, "read")])
    assert classify_tools(ToolLibrary([look]), effects) == {"look": "read"}
    assert classify_tools(ToolLibrary([other]), effects) == {"look": "write"}
    assert classify_tools(ToolLibrary([other]), effects) == {"look": "write"}
    assert (
        len([message for message in caplog.messages if "Declare this one" in message])
        == 1
    ), "it is told once"


def test_a_copy_that_runs_the_same_function_is_the_same_tool():
    told = look.model_copy(update={"description": "Look around."})
    assert classify_tools(ToolLibrary([told]), [(look, "read")]) == {"look": "read"}
    swapped = look.model_copy(update={"func": lambda place: place})
    assert classify_tools(ToolLibrary([swapped]), [(look, "read")]) == {"look": "write"}


def test_a_function_stands_for_the_tool_made_of_it():
    def glance(place: str) -> str:
        """Look somewhere."""
        return place

    assert classify_tools(ToolLibrary([glance]), {glance: "read"}) == {"glance": "read"}


def test_two_tools_of_one_name_are_writes():
    declared = CallEffects.declared_as({"look": "read"})
    assert declared.among([look, other]).of("look", {}) == "write"
    assert declared.among([look, look]).of("look", {}) == "read"


def on_server(name, **hints):
    return StructuredTool.from_function(
        lambda: "", name=name, description=name, metadata=hints
    )


def test_a_hint_of_one_server_says_nothing_of_another_servers_tool_of_the_same_name():
    mine, theirs = (
        on_server("find", readOnlyHint=True),
        on_server("find", readOnlyHint=False),
    )
    effects = {**mcp_effects([mine], server="files")}
    assert classify_tools(ToolLibrary([mine]), effects) == {"find": "read"}
    assert classify_tools(ToolLibrary([theirs]), effects) == {"find": "write"}
    both = {**mcp_effects([theirs], server="mail"), **effects}
    assert classify_tools(ToolLibrary([theirs]), both) == {"find": "write"}


@pytest.mark.parametrize("destructive", [True, "false", 1])
def test_a_tool_hinted_read_only_and_destructive_is_a_write(destructive):
    assert mcp_effects(
        [on_server("a", readOnlyHint=True, destructiveHint=destructive)], server="s"
    ) == {"a": "write"}
    annotations = {"read_only_hint": True, "destructive_hint": destructive}
    native = on_server(
        "b", mcp={"server": {"name": "s"}, "tool": {"annotations": annotations}}
    )
    assert mcp_effects([native], server="s") == {"b": "write"}
    assert mcp_effects(
        [on_server("c", readOnlyHint=True, destructiveHint=False)], server="s"
    ) == {"c": "read"}


def test_only_the_packages_own_summarize_state_is_a_read_by_itself():
    @tool
    def summarize_state(summary: str) -> str:
        """File a report about the state."""
        return summary

    own = create_summarize_state_tool(None)
    none = CallEffects.declared_as(None)
    assert none.among([own]).of("summarize_state", {}) == "read"
    assert none.among([summarize_state]).of("summarize_state", {}) == "write"
    assert none.among([own, summarize_state]).of("summarize_state", {}) == "write"


def test_a_record_says_which_calls_of_a_tool_were_reads():
    effects = CallEffects.declared_as({"http": by_method, "look": "read"})
    calls = [{"name": "http", "args": {"method": method}} for method in ("GET", "POST")]
    told = effects.of_calls(
        [*calls, {"name": "look", "args": {}}, {"name": "pay", "args": {}}]
    )
    assert (told["look"], told["pay"]) == ("read", "write")
    assert [is_read(call["name"], told, call["args"]) for call in calls] == [
        True,
        False,
    ]


def test_no_name_makes_a_write_of_a_users_own_a_read_for_those_who_judge_a_run():
    assert not is_read("summarize_state")
    assert not is_read("summarize_state", {"get_mail": "read"})


class ByAlias(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    query: str = Field(alias="q")


class ByChoice(BaseModel):
    query: str = Field(validation_alias=AliasChoices("q", "query"))


@pytest.mark.parametrize("schema", [ByAlias, ByChoice])
def test_an_argument_that_is_given_by_another_name_is_a_write(schema):
    tool = StructuredTool.from_function(
        lambda query: query, name="sql", description="Query.", args_schema=schema
    )
    hidden = {"query": "SELECT 1", "q": "DELETE FROM t"}
    assert tool.invoke(hidden) == "DELETE FROM t"
    effects = CallEffects.declared_as({"sql": sql_reads(dialect="sqlite")}).among(
        [tool]
    )
    assert effects.of("sql", hidden) == effects.of("sql", {"q": "SELECT 1"}) == "write"
    assert effects.of("sql", {"query": "SELECT 1"}) == "read"


def test_arguments_that_the_host_injects_are_none_of_the_functions_matter():
    def query(
        query: str, state: Annotated[dict, InjectedState], runtime: ToolRuntime
    ) -> str:
        """Query."""
        return query

    tool = StructuredTool.from_function(query)
    effects = CallEffects.declared_as({"query": sql_reads(dialect="sqlite")}).among(
        [tool]
    )
    assert effects.of("query", {"query": "SELECT 1"}) == "read"
    assert effects.of("query", {"query": "SELECT 1", "state": {}}) == "write"


def test_an_argument_that_a_servers_tool_does_not_name_makes_a_write():
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    tool = StructuredTool(
        name="sql", description="Query.", func=lambda **given: given, args_schema=schema
    )
    effects = CallEffects.declared_as({"sql": sql_reads(dialect="sqlite")}).among(
        [tool]
    )
    assert effects.of("sql", {"query": "SELECT 1"}) == "read"
    assert effects.of("sql", {"query": "SELECT 1", "sql": "DELETE FROM t"}) == "write"


class Options(BaseModel):
    mode: str = "write"


class ByMode(BaseModel):
    path: str
    mode: str = Field(default_factory=lambda: "write")
    options: Options | None = None
    steps: list[Options] = []


def by_mode(arguments):
    nested = [*arguments.get("steps", []), arguments.get("options") or {"mode": "read"}]
    return (
        "write"
        if "write" in [arguments.get("mode"), *(each.get("mode") for each in nested)]
        else "read"
    )


MODE_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "mode": {"type": "string", "default": "write"},
        "options": {
            "type": "object",
            "properties": {"mode": {"type": "string", "default": "write"}},
        },
    },
}


@pytest.mark.parametrize("schema", [ByMode, MODE_SCHEMA])
def test_what_a_call_leaves_out_is_judged_by_the_default_of_the_tools_schema(schema):
    tool = StructuredTool(
        name="open", description="Open.", func=lambda **given: given, args_schema=schema
    )
    effects = CallEffects.declared_as({"open": by_mode}).among([tool])
    assert effects.of("open", {"path": "x", "mode": "read"}) == "read"
    assert (
        effects.of("open", {"path": "x"})
        == effects.of("open", {"path": "x", "mode": "write"})
        == "write"
    )
    assert effects.of("open", {"path": "x", "mode": "read", "options": {}}) == "write"
    assert (
        effects.of("open", {"path": "x", "mode": "read", "options": {"mode": "read"}})
        == "read"
    )


def test_models_in_a_list_have_their_defaults_too():
    tool = StructuredTool(
        name="open", description="Open.", func=lambda **given: given, args_schema=ByMode
    )
    effects = CallEffects.declared_as({"open": by_mode}).among([tool])
    assert (
        effects.of("open", {"path": "x", "mode": "read", "steps": [{"mode": "read"}]})
        == "read"
    )
    assert (
        effects.of(
            "open", {"path": "x", "mode": "read", "steps": [{"mode": "read"}, {}]}
        )
        == "write"
    )
    assert (
        effects.of("open", {"path": "x", "mode": "read", "steps": ["rubbish"]})
        == "write"
    )


def test_a_method_left_out_is_the_schemas():
    def request(url: str, method: str = "DELETE") -> str:
        """Ask a server."""
        return url

    tool = StructuredTool.from_function(request)
    effects = CallEffects.declared_as({"request": http_reads()}).among([tool])
    assert effects.of("request", {"url": "https://x.org", "method": "GET"}) == "read"
    assert effects.of("request", {"url": "https://x.org"}) == "write"
