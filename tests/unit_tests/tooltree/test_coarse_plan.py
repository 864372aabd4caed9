"""The coarse planner of the paper's ACL-format version: what it keeps, and that it never takes all tools away."""

import json

import pytest
from langchain_core.tools import StructuredTool

from langchain_tooltree import ToolCard, ToolLibrary
from langchain_tooltree.flows import run_flow
from langchain_tooltree.models import Meter
from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.tooltree.deep import plan_tools

TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}


def library(*specs):
    """Tools by name, input schema and card."""
    tools = [
        StructuredTool(name=name, description=name, args_schema=schema, func=print)
        for name, schema, _ in specs
    ]
    return ToolLibrary(
        tools, [ToolCard(name=name, description="", **card) for name, _, card in specs]
    )


def planned(tools, relevance, domains=()):
    reply = {
        "domains": [*domains],
        "tools": [{"name": name, "relevance": p} for name, p in relevance.items()],
    }
    model = ScriptedChatModel(replies=[reply] * 2)
    return run_flow(plan_tools(model, tools, "Fly.", Meter(2)))


def test_tools_below_the_relevance_of_the_paper_are_dropped_and_unnamed_ones_stay():
    tools = library(("a", TEXT, {}), ("b", TEXT, {}), ("c", TEXT, {}))
    assert planned(tools, {"a": 0.3, "b": 0.29}) == ("a", "c")


def test_tools_of_other_domains_are_dropped():
    tools = library(
        ("fly", TEXT, {"domains": ("travel",)}),
        ("cook", TEXT, {"domains": ("food",)}),
        ("say", TEXT, {}),
    )
    assert planned(tools, {}, domains=["travel"]) == ("fly", "say")


@pytest.mark.parametrize("lacking", ["obtainable", "useful"])
def test_a_tool_without_input_or_use_is_dropped(lacking):
    tools = library(("a", TEXT, {}), ("b", TEXT, {}))
    reply = {"domains": [], "tools": [{"name": "a", "relevance": 1.0, lacking: False}]}
    assert run_flow(
        plan_tools(ScriptedChatModel(replies=[reply]), tools, "Fly.", Meter(2))
    ) == ("b",)


def test_the_planner_is_shown_the_cards():
    model = ScriptedChatModel(replies=[{"domains": [], "tools": []}])
    run_flow(
        plan_tools(
            model,
            library(("a", TEXT, {"examples": [{"text": "hi"}]})),
            "Fly.",
            Meter(2),
        )
    )
    (shown,) = json.loads(model.calls[0][1].text)["tools"]
    assert shown == {
        "name": "a",
        "description": "a",
        "input": TEXT,
        "examples": [{"text": "hi"}],
    }


@pytest.mark.parametrize(
    "reply",
    [{"tools": "all"}, {"domains": [], "tools": [{"name": "a", "relevance": 7}]}],
)
def test_a_reply_that_cannot_be_used_or_would_leave_none_keeps_all(reply):
    tools = library(("a", TEXT, {}), ("b", TEXT, {}))
    model = ScriptedChatModel(replies=[reply] * 2)
    kept = run_flow(plan_tools(model, tools, "Fly.", Meter(2)))
    assert kept == planned(tools, {"a": 0.0, "b": 0.0}) == ("a", "b")
