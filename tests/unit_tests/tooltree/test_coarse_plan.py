"""The coarse planner: which tools a request may need at all."""

import json

import pytest

from langchain_tooltree import SearchConfig, ToolCard, ToolLibrary
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import Meter
from tests.internals.tooltree import ToolNarrowing, ToolRetriever, plan_tools

DOMAINS = {"fly": ("travel",), "stay": ("travel", "hotels"), "pay": ("money",)}
ALL = ("fly", "stay", "pay", "say")


def rated(name, relevance=0.9):
    return {"name": name, "relevance": relevance}


@pytest.fixture
def plan(drive, numbered_tools):
    async def run(*replies, **settings):
        model = ScriptedChatModel(replies=replies)
        library = ToolLibrary(numbered_tools(*ALL), [ToolCard(name, "", domains=d) for name, d in DOMAINS.items()])
        meter = Meter(2)
        kept = await drive(planned(model, library, "Fly to Rome.", meter, **settings))
        return kept, meter.model_calls, model

    return run


def planned(model, library, query, meter, *, reads=(), retriever=None, **settings):
    narrowing = ToolNarrowing(library, SearchConfig(**settings), ToolRetriever(library, retriever=retriever))
    return plan_tools(model, narrowing, reads, query, meter)


async def test_tools_of_other_domains_are_dropped_and_those_of_none_stay(plan):
    kept, asked, _ = await plan({"domains": ["travel"], "tools": [rated(name) for name in ALL]})
    assert (kept, asked) == (("fly", "stay", "say"), 1)


async def test_irrelevant_tools_are_dropped(plan):
    tools = [rated("fly"), rated("stay", 0.29), rated("pay"), rated("say", relevance=0.3)]
    assert (await plan({"domains": [], "tools": tools}))[0] == ("fly", "pay", "say")


TRIP = {"type": "object", "properties": {"trip": {"type": "object"}}, "required": ["trip"]}
LISTED = {"type": "array", "items": {"$ref": "#/$defs/T"}, "$defs": {"T": {"properties": {"trip": {}}}}}


@pytest.mark.parametrize(
    ("name", "output", "kept"),
    [
        ("find", {"type": "object", "properties": {"price": {"type": "number"}}}, ("find",)),
        ("find", {"type": "object", "properties": {"trip": {"type": "object"}}}, ("book", "find")),
        ("find", LISTED, ("book", "find")),
        ("find", {"type": "string"}, ("book", "find")),
        ("find", {"type": "object"}, ("book", "find")),
        ("list_trips", {"type": "object", "properties": {"price": {"type": "number"}}}, ("book", "list_trips")),
    ],
    ids=["other-fields", "same-field", "in-a-list", "text", "unknown", "by-its-name"],
)
async def test_a_tool_whose_input_no_kept_tool_offers_is_dropped(drive, numbered_tools, name, output, kept):
    cards = [ToolCard("book", "", input_schema=TRIP), ToolCard(name, "", output_schema=output)]
    library = ToolLibrary(numbered_tools("book", name), cards)
    model = ScriptedChatModel(replies=[{"domains": [], "tools": [rated("book"), rated(name)]}])
    assert await drive(planned(model, library, "Book it.", Meter(2))) == kept


async def test_plain_values_and_lists_of_them_can_always_be_had(drive, numbered_tools):
    kinds = {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "number"}}, "c": {}}
    schema = {"type": "object", "properties": kinds, "required": [*kinds]}
    library = ToolLibrary(numbered_tools("book"), [ToolCard("book", "", input_schema=schema)])
    model = ScriptedChatModel(replies=[{"domains": [], "tools": [rated("book")]}])
    assert await drive(planned(model, library, "Book it.", Meter(2))) == ("book",)


async def test_a_read_that_returns_nothing_is_dropped_and_a_write_is_not(drive, numbered_tools):
    nothing = [ToolCard(name, "", output_schema={"type": "null"}) for name in ("look", "send")]
    library = ToolLibrary(numbered_tools("look", "send", "say"), nothing)
    model = ScriptedChatModel(replies=[{"domains": [], "tools": []}])
    assert await drive(planned(model, library, "Go.", Meter(2), reads={"look", "say"})) == ("send", "say")


async def test_of_many_tools_the_question_is_about_the_most_relevant_sixty(drive, numbered_tools):
    names = [f"tool_{number}" for number in range(200)]
    model = ScriptedChatModel(replies=[{"domains": [], "tools": [rated("tool_198", 0.1)]}])
    library = ToolLibrary(numbered_tools(*names))
    flow = planned(model, library, "Go.", Meter(2), retriever=lambda text: names[::-1], always_include=("tool_3",))
    kept = await drive(flow)
    assert kept == ("tool_3", *names[-60:-2], "tool_199")
    document = model.calls[0][1].text
    assert len(json.loads(document)["tools"]) == 61
    assert len(document) < 10_000


async def test_some_tools_are_always_kept(plan):
    tools = [rated("fly"), rated("stay", 0.0), rated("pay", 0.0), rated("say", 0.0)]
    assert (await plan({"domains": [], "tools": tools}, always_include=("pay",)))[0] == ("fly", "pay")


async def test_a_tool_that_the_model_forgot_stays(plan):
    assert (await plan({"domains": [], "tools": [rated("fly", 0.0)]}))[0] == ("stay", "pay", "say")


@pytest.mark.parametrize(
    "reply",
    [
        "All of them!",
        {"domains": 5, "tools": 7},
        {"domains": "travel", "tools": None},
        {"domains": None},
        {"tools": ["fly", 3, None], "domains": []},
        ConnectionError("busy"),
        {"domains": ["cooking"], "tools": [rated(name, 0.0) for name in ALL]},
    ],
    ids=lambda reply: str(reply)[:30],
)
async def test_rubbish_takes_no_tools_away(plan, reply):
    kept, asked, _ = await plan(reply, reply)
    assert kept == ALL
    assert asked <= 2


async def test_an_unusable_plan_is_asked_for_once_more(plan):
    kept, asked, _ = await plan("What?", {"domains": ["money"], "tools": [rated(name) for name in ALL]})
    assert (kept, asked) == (("pay", "say"), 2)


async def test_the_model_sees_the_cards(plan):
    _, _, model = await plan({"domains": [], "tools": []})
    document = json.loads(model.calls[0][1].text)
    assert document["request"] == "Fly to Rome."
    assert [tool["name"] for tool in document["tools"]] == list(ALL)
    assert document["tools"][1]["domains"] == ["travel", "hotels"]


async def test_a_search_makes_the_plan_first_and_shows_only_what_it_kept(find, numbered_tools):
    plan = {"domains": [], "tools": [rated("fly"), rated("stay", 0.0), rated("pay", 0.0), rated("say")]}
    shown = []

    class Model(ScriptedChatModel):
        def bind_tools(self, tools, **kwargs):
            shown.append([tool.name if hasattr(tool, "name") else None for tool in tools])
            return super().bind_tools(tools, **kwargs)

    model = Model(replies=[plan, "Nothing to do.", "Done."])
    result = await find("Fly.", numbered_tools(*ALL), model=model, config=SearchConfig(coarse_planner=True))
    assert ["fly", "say"] in shown
    assert result.cost.model_calls == 3
