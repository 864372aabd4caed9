"""The coarse planner of the paper's ACL-format version: what it keeps, and that it never takes all tools away."""

import json

import pytest
from langchain_core.tools import StructuredTool

from langchain_tooltree import ToolCard, ToolLibrary
from langchain_tooltree.flows import run_flow
from langchain_tooltree.models import Meter
from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.tooltree.ask import plan_tools

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
OBJECT = {"type": "object", "properties": {"flight": {"type": "object"}}, "required": ["flight"]}


def library(*specs):
    """Tools by name, input schema and card."""
    tools = [StructuredTool(name=name, description=name, args_schema=schema, func=print) for name, schema, _ in specs]
    return ToolLibrary(tools, [ToolCard(name=name, description="", **card) for name, _, card in specs])


def planned(tools, relevance, domains=(), reads=()):
    reply = {"domains": [*domains], "tools": [{"name": name, "relevance": p} for name, p in relevance.items()]}
    model = ScriptedChatModel(replies=[reply] * 2)
    return run_flow(plan_tools(model, tools, reads, "Fly.", Meter(2)))


def test_tools_below_the_relevance_of_the_paper_are_dropped_and_unnamed_ones_stay():
    tools = library(("a", TEXT, {}), ("b", TEXT, {}), ("c", TEXT, {}))
    assert planned(tools, {"a": 0.3, "b": 0.29}) == ("a", "c")


def test_tools_of_other_domains_are_dropped():
    tools = library(("fly", TEXT, {"domains": ("travel",)}), ("cook", TEXT, {"domains": ("food",)}), ("say", TEXT, {}))
    assert planned(tools, {}, domains=["travel"]) == ("fly", "say")


def test_an_object_has_to_come_from_another_tool():
    output = {"type": "object", "properties": {"flight": {"type": "object"}}}
    price = {"type": "object", "properties": {"price": {"type": "number"}}}
    book = ("book", OBJECT, {})
    assert planned(library(book, ("find", TEXT, {"output_schema": output})), {}) == ("book", "find")
    assert planned(library(book, ("ask", TEXT, {"output_schema": price})), {}) == ("ask",)


def test_a_read_that_returns_nothing_is_of_no_use():
    nothing = {"output_schema": {"type": "null"}}
    assert planned(library(("a", TEXT, nothing), ("b", TEXT, nothing)), {}, reads={"a"}) == ("b",)


def test_a_read_whose_objects_no_other_tool_takes_is_of_no_use():
    flight = {"type": "object", "properties": {"flight": {"type": "object"}}}
    told = {"type": "object", "properties": {"flight": {"type": "object"}, "price": {"type": "number"}}}
    find, quote, book = ("find", TEXT, {"output_schema": flight}), ("quote", TEXT, {"output_schema": told}), OBJECT
    assert planned(library(find, quote), {}, reads={"find", "quote"}) == ("quote",)
    assert planned(library(find, ("book", book, {})), {}, reads={"find"}) == ("find", "book")


def test_the_planner_is_shown_the_examples_of_the_cards():
    model = ScriptedChatModel(replies=[{"domains": [], "tools": []}])
    run_flow(plan_tools(model, library(("a", TEXT, {"examples": [{"text": "hi"}]})), (), "Fly.", Meter(2)))
    (shown,) = json.loads(model.calls[0][1].text)["tools"]
    assert shown == {"name": "a", "description": "a", "examples": ['{"text":"hi"}']}


@pytest.mark.parametrize("reply", [{"tools": "all"}, {"domains": [], "tools": [{"name": "a", "relevance": 7}]}])
def test_a_reply_that_cannot_be_used_or_would_leave_none_keeps_all(reply):
    tools = library(("a", TEXT, {}), ("b", TEXT, {}))
    model = ScriptedChatModel(replies=[reply] * 2)
    kept = run_flow(plan_tools(model, tools, (), "Fly.", Meter(2)))
    assert kept == planned(tools, {"a": 0.0, "b": 0.0}) == ("a", "b")
