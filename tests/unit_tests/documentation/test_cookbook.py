"""The notebooks of the cookbook: their index, their pictures, their recorded answers and their common form."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

COOKBOOK = Path(__file__).parents[3] / "cookbook"
NOTEBOOKS = sorted(COOKBOOK.glob("*.ipynb"))
RECORDED = re.compile(r"RecordedChatModel\(\s*\"answers/(\w+)\.jsonl\"")
ONE_LINE = re.compile(
    r"^# Recorded answers\. For a real model: model = .*\"openai:gpt.*\n"
    r"model = RecordedChatModel\(",
    re.MULTILINE,
)
ROW = re.compile(
    r"^\| \[!\[(.+?)\]\(docs/images/(\w+)\.svg\)\]\((\w+)\.ipynb\) "
    r"\| \[\*\*(.+?)\*\*\]\((\w+)\.ipynb\)<br>\S.+ \|$"
)
DIFFERS = re.compile(
    r"0x[0-9a-f]{6,}|/tmp/|/home/|/root/|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-"
)
"""Addresses, folders and ids, which are others in the next run."""


def cells(notebook, kind):
    return [
        cell
        for cell in json.loads(notebook.read_text())["cells"]
        if cell["cell_type"] == kind
    ]


def source(notebook, kind):
    return ["".join(cell["source"]) for cell in cells(notebook, kind)]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param


def test_the_index_shows_each_notebook_with_its_title_and_picture():
    rows = [
        line
        for line in (COOKBOOK / "README.md").read_text().splitlines()
        if line.startswith("| [")
    ]
    shown = [ROW.match(row) for row in rows]
    assert [row for row, found in zip(rows, shown, strict=True) if not found] == []
    assert {found.groups() for found in shown} == {
        (title, path.stem, path.stem, title, path.stem)
        for path in NOTEBOOKS
        for title in [source(path, "markdown")[0].partition("\n")[0].removeprefix("# ")]
    }
    assert len(rows) == len(NOTEBOOKS)


def test_each_recording_is_used_and_there():
    asked = {
        name
        for path in NOTEBOOKS
        for code in source(path, "code")
        for name in RECORDED.findall(code)
    }
    assert asked == {path.stem for path in COOKBOOK.glob("answers/*.jsonl")}


def test_a_notebook_takes_what_the_package_has(notebook):
    lines = "\n".join(source(notebook, "code"))
    taken = re.findall(
        r"^\s*from (langchain_tooltree[\w.]*) import ([\w, ]+)", lines, re.MULTILINE
    )
    there = [
        (import_module(module), name.split()[0])
        for module, names in taken
        for name in names.split(",")
    ]
    assert [name for module, name in there if not hasattr(module, name)] == []


def test_a_notebook_opens_with_what_one_has_at_its_end_and_a_picture(notebook):
    first, *_ = json.loads(notebook.read_text())["cells"]
    title, _, rest = "".join(first["source"]).partition("\n\n")
    assert re.fullmatch(r"# .+", title)
    assert rest.startswith("At the end")
    assert (COOKBOOK / f"docs/images/{notebook.stem}.svg").exists()
    assert f"](docs/images/{notebook.stem}.svg)" in rest


def test_a_notebook_says_whose_answers_it_shows(notebook):
    code, text = (
        "\n".join(source(notebook, "code")),
        " ".join("\n".join(source(notebook, "markdown")).split()),
    )
    if RECORDED.search(code):
        assert re.search(r"recorded on 2026-\d\d-\d\d", text)
        assert ONE_LINE.search(code), "one line changes to a real model"
    if re.search(r"\b(Offline|Scripted)ChatModel\b", code):
        assert re.search(r"scripted|stand-in|stands? in", text, re.IGNORECASE)


def test_a_notebook_is_short_and_fails_when_it_is_wrong(notebook):
    made = json.loads(notebook.read_text())["cells"]
    assert 8 <= len(made) <= 20
    assert "assert " in "\n".join(source(notebook, "code"))


def test_a_notebook_was_run_as_it_stands(notebook):
    run = cells(notebook, "code")
    assert [cell["execution_count"] for cell in run] == [*range(1, len(run) + 1)]
    outputs = [output for cell in run for output in cell["outputs"]]
    assert outputs
    assert not [
        each
        for each in outputs
        if each["output_type"] == "error" or each.get("name") == "stderr"
    ]
    assert not DIFFERS.findall(json.dumps(outputs))


def test_a_notebook_ends_with_what_comes_next(notebook):
    last = json.loads(notebook.read_text())["cells"][-1]
    text = "".join(last["source"])
    assert last["cell_type"] == "markdown"
    assert "## What next" in text
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text.partition("## What next")[2])
    assert links
    assert [link for link in links if not (COOKBOOK / link).exists()] == []
