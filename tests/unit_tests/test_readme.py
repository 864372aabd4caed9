"""The README keeps its promises: its picture and figures are made anew, and its links lead somewhere, on PyPI, too.

That its code runs is tested with all pages, in `documentation/`.
"""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from langchain_tooltree import demo

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FIGURES = (ROOT / "cookbook" / "docs" / "figures.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TEXT = re.compile(r"<text [^>]*>([^<]+)</text>")


def test_the_picture_in_the_readme_is_the_demo_s_tree():
    picture = (ROOT / "cookbook" / "docs" / "images" / "demo.svg").read_text()
    assert TEXT.findall(picture) == TEXT.findall(
        demo.solved().to_svg()
    )  # how rich draws it is rich's affair


ROWS = {
    "hello": "hello",
    "weather": "weather",
    "sql": "SQL",
    "retrieval": "RAG",
    "chain_5": "chain of five calls",
}
"""Tasks of the price benchmark, by what the README and the page of figures call them."""


@pytest.mark.slow
@pytest.mark.parametrize("task", ROWS)
def test_what_a_search_costs_is_measured(task):
    price, tasks = (
        import_module("tests.benchmarks.price.__main__"),
        import_module("tests.benchmarks.price.tasks"),
    )
    costs = [
        price.measure(tasks.tasks()[task], planner)
        for planner in ("plain", "balanced", "paper")
    ]
    row = " | ".join(f"{each.calls} / {each.tokens:,}" for each in costs)
    assert f"| {ROWS[task]} | {row} |" in FIGURES


def test_what_the_readme_says_of_costs_is_what_the_page_of_figures_says():
    section = README.partition("## What it costs")[2].partition("\n## ")[0]
    rows = [
        line for line in section.splitlines() if " / " in line and line.startswith("|")
    ]
    assert len(rows) == 4
    assert [row for row in rows if row not in FIGURES.splitlines()] == []


NUMBER = re.compile(r"\d+(?:\.\d+)?")


def test_what_a_search_brings_is_what_the_page_of_figures_says():
    section = README.partition("## What it brings")[2].partition("\n## ")[0]
    rows = [
        NUMBER.findall(line)
        for line in section.splitlines()
        if re.match(r"\|.*\d\.\d", line)
    ]
    measured = [
        NUMBER.findall(line) for line in FIGURES.splitlines() if line.startswith("|")
    ]
    measured = [
        {*row, *(str(round(float(each))) for each in row)} for row in measured
    ]  # 283.2 may be told as 283
    assert len(rows) == 4
    assert [
        row for row in rows if not any(known.issuperset(row) for known in measured)
    ] == []


LINK = re.compile(r"\]\((?!https:)([^)#]+)")


def test_on_pypi_the_links_lead_to_the_home_of_the_project():
    shown = README
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    for each in hook["substitutions"]:
        shown = re.sub(each["pattern"], each["replacement"], shown)
    assert LINK.findall(shown) == []
    urls = PROJECT["project"]["urls"]
    raw = urls["Source"].replace("github.com", "raw.githubusercontent.com")
    for address in (
        f"{raw}/main/cookbook/docs/images/demo.svg",
        f"{urls['Source']}/blob/main/.github/SECURITY.md",
        f"{urls['Documentation']}concepts/tooltree",
        urls["Documentation"],
    ):
        assert f"]({address})" in shown
