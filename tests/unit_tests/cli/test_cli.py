"""The command line and the demo behind it."""

import json

import pytest

from langchain_tooltree import demo
from langchain_tooltree.cli import REFUSED, main
from langchain_tooltree.testing import ScriptedChatModel


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


def test_the_demo_finds_the_miles_prints_tree_and_cost_and_ends_with_a_page_to_open(
    capsys, folder
):
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    for part in (
        "about 213 miles",
        "stand-in",
        "343 km = 213.1303189 mile",
        "model calls",
        "✔ read_sign",
        'zoom_image(image="road.png", part="top left")',
        "✔ the plan",
    ):
        assert part in shown
    assert shown.endswith(f"A page to explore: {(folder / 'demo.html').as_uri()}\n")
    assert [each.name for each in folder.iterdir()] == ["demo.html"]


def test_the_demo_overwrites_nothing(capsys, folder):
    page = folder / "demo.html"
    page.write_text("mine")
    assert main(["demo"]) == 0
    assert "demo.html is there already: --force replaces it" in capsys.readouterr().out
    assert page.read_text() == "mine"
    assert main(["demo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["query"] == demo.REQUEST
    assert main(["demo", "--force"]) == 0
    assert page.read_text().startswith("<!doctype html>")


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
    model = ScriptedChatModel(
        replies=[RuntimeError("Connection error.\nSee the log.")] * 9
    )
    monkeypatch.setattr("langchain_tooltree.cli.demo.model_named", lambda _: model)
    assert main(["demo", "--model", "some:model"]) == REFUSED
    told = "Cannot use the model 'some:model' (RuntimeError: Connection error). Is its name right, its key set"
    assert capsys.readouterr().err.startswith(told)
