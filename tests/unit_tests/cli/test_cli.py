"""The command line and the demo behind it."""

import json
import sys

import pytest
from langchain_core.tools import ToolException

from langchain_tooltree import demo
from langchain_tooltree.cli import REFUSED, main
from langchain_tooltree.testing import ScriptedChatModel


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


def test_the_demo_finds_the_miles_prints_tree_and_cost_and_ends_with_a_page_to_open(capsys, folder):
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
    assert shown.endswith("open demo.html\n") or sys.platform == "win32"
    assert [each.name for each in folder.iterdir()] == ["demo.html"]


@pytest.mark.slow
def test_the_demo_writes_its_page_over_its_own_alone_and_goes_on_where_it_cannot(capsys, folder):
    page = folder / "demo.html"
    assert main(["demo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["query"] == demo.REQUEST
    assert not page.exists()
    for before, force, told in (
        (f"an older page: {demo.REQUEST}", [], "open demo.html"),
        ("mine", [], "demo.html is there already. Choose another path, or replace it with --force. (--draw FILE.html"),
        ("mine", ["--force"], "open demo.html"),
    ):
        page.write_text(before)
        assert main(["demo", *force]) == 0
        assert told in capsys.readouterr().out
        assert (page.read_text() == before) == (before == "mine" and not force)
    page.unlink()
    page.mkdir()
    assert main(["demo", "--force"]) == 0
    assert "No page was written: demo.html: Is a directory." in capsys.readouterr().out


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
    monkeypatch.setattr("langchain_tooltree.cli.show.model_named", lambda _: model)
    assert main(["demo", "--model", "some:model"]) == REFUSED
    told = "Cannot use the model 'some:model' (RuntimeError: Connection error). Is its name right, its key set"
    assert capsys.readouterr().err.startswith(told)


def test_the_demos_sign_is_read_from_the_pixels_that_the_toolbox_names(folder):
    tools = {tool.name: tool for tool in demo.tools(folder)}
    read = tools["read_sign"].invoke
    assert read({"image": "road.png"}) == "The sign reads '?4? ?m'. 3 letters are too coarse to tell apart."
    for part, text in (("top right", "The sign reads '343 km'."), ("bottom left", "There are no letters.")):
        assert read({"image": tools["zoom_image"].invoke({"image": "road.png", "part": part})}) == text
    with pytest.raises(ToolException, match="no file 'other"):
        read({"image": "other.png"})


def test_the_demo_needs_the_toolbox_and_says_so_in_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert main(["demo", "--json"]) == REFUSED
    told = capsys.readouterr()
    assert (told.out, told.err) == (
        "",
        "The demo needs PIL, which is not installed: pip install 'langchain-tooltree[toolbox]'\n",
    )
