"""The coarse planner: which tools a request may need at all."""

import json

import pytest

from langchain_tooltree import SearchConfig, ToolCard, ToolLibrary
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import Meter
from tests.internals.tooltree import plan_tools

DOMAINS = {"fly": ("travel",), "stay": ("travel", "hotels"), "pay": ("money",)}
ALL = ("fly", "stay", "pay", "say")


def rated(name, relevance=0.9, **verdict):
    return {"name": name, "relevance": relevance, "input_available": True, "output_useful": True, **verdict}


@pytest.fixture
def plan(drive, numbered_tools):
    async def run(*replies, **settings):
        model = ScriptedChatModel(replies=replies)
        library = ToolLibrary(numbered_tools(*ALL), [ToolCard(name, "", domains=d) for name, d in DOMAINS.items()])
        meter = Meter(2)
        kept = await drive(plan_tools(model, library, "Fly to Rome.", SearchConfig(**settings), meter))
        return kept, meter.model_calls, model

    return run


async def test_tools_of_other_domains_are_dropped_and_those_of_none_stay(plan):
    kept, asked, _ = await plan({"domains": ["travel"], "tools": [rated(name) for name in ALL]})
    assert (kept, asked) == (("fly", "stay", "say"), 1)


@pytest.mark.parametrize("verdict", [{"relevance": 0.29}, {"input_available": False}, {"output_useful": False}])
async def test_irrelevant_unusable_and_useless_tools_are_dropped(plan, verdict):
    tools = [rated("fly"), rated("stay", **verdict), rated("pay"), rated("say", relevance=0.3)]
    assert (await plan({"domains": [], "tools": tools}))[0] == ("fly", "pay", "say")


async def test_the_relevance_threshold_is_a_setting(plan):
    tools = [rated(name, relevance) for name, relevance in zip(ALL, (0.2, 0.5, 0.6, 0.9), strict=True)]
    assert (await plan({"domains": [], "tools": tools}, relevance_threshold=0.55))[0] == ("pay", "say")


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
