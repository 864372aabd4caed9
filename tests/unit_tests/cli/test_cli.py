"""The command line and the demo behind it."""

import json

import pytest
from langchain_core.tools import ToolException

from langchain_tooltree import demo, search
from langchain_tooltree.cli import main
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import REFUSED


def test_the_demo_finds_the_miles_and_prints_tree_and_cost(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    assert "about 213 miles" in shown
    assert "stand-in" in shown
    assert "343 km = 213.13 mi" in shown
    assert "model calls" in shown
    assert "solved" in shown


def test_the_demo_recovers_from_an_answer_that_came_too_early(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    result = search(demo.REQUEST, demo.TOOLS, model=demo.offline_model(), effects=demo.EFFECTS)
    first = result.tree[result.tree.root.children[0]]
    assert first.call.tool == "read_sign"
    assert [*first.missing] == ["a distance that can be read"]
    assert [call.tool for call in result.calls] == ["read_sign", "zoom", "read_sign", "convert_units"]
    assert main(["demo"]) == 0
    assert "would have ended with 'I could not find out.'" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("model", ["openai:gpt-4.1-mini", "no-such-provider:x"])
def test_a_model_that_cannot_be_used_is_told_in_one_line(model, capsys, monkeypatch):
    for key in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(key, raising=False)
    assert main(["demo", "--model", model]) == REFUSED
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert model in told


def test_a_model_that_fails_when_it_is_asked_is_told_in_one_line(monkeypatch, capsys):
    model = ScriptedChatModel(replies=[RuntimeError("Connection error.\nSee the log.")] * 9)
    monkeypatch.setattr("langchain_tooltree.cli.demo.model_named", lambda _: model)
    assert main(["demo", "--model", "some:model"]) == REFUSED
    told = "Cannot use the model 'some:model': Connection error. Is its name right, its key set"
    assert capsys.readouterr().err.startswith(told)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_sign", {"photo": "other.png"}),
        ("convert_units", {"value": 1, "from_unit": "km", "to_unit": "parsec"}),
        ("convert_currency", {"amount": 1, "from_currency": "EUR", "to_currency": "XXX"}),
        ("calculator", {"expression": "2 +"}),
        ("calculator", {"expression": "__import__('os')"}),
        ("calculator", {"expression": "1 / 0"}),
    ],
)
def test_the_tools_of_the_demo_refuse_what_they_cannot_do(tool, arguments):
    [chosen] = [candidate for candidate in demo.TOOLS if candidate.name == tool]
    with pytest.raises(ToolException):
        chosen.invoke(arguments)


def test_the_tools_of_the_demo_work():
    tools = {tool.name: tool for tool in demo.TOOLS}
    assert "?4? km" in tools["read_sign"].invoke({"photo": "road.png"})
    assert "343 km" in tools["read_sign"].invoke({"photo": "road.png#sign"})
    assert tools["calculator"].invoke({"expression": "(2 + 3) * -4 / 5 - 1"}).endswith("= -5")
    assert tools["convert_currency"].invoke({"amount": 1, "from_currency": "USD", "to_currency": "EUR"}).startswith("1")
    assert json.dumps(tools["describe_scene"].invoke({"photo": "road.png"}))
