"""The picture of a search: what it shows, and that nothing in a tool's words can harm the page around it."""

import re
from html import escape
from xml.etree import ElementTree as ET

import pytest

from langchain_tooltree import demo
from langchain_tooltree.pages import in_notebook
from langchain_tooltree.pages.search import to_html, to_svg
from tests.internals.pages import made, search_of

HOSTILE = [
    "</text><script>alert(1)</script>",
    '"/><image href="https://example.org/x.png"/>',
    "&lt;b&gt; &#x0; ]]>",
    "\x00\x07\x1b[31m\ufffe\ud800",
    "\u202etxt.exe \u2066\u200f\u061c",
    "שלום עולם",
    "🤷🏽‍♀️👩‍👩‍👧‍👦" * 40,
    "e\u0301\u0302\u0303" * 200,
    "x" * 1_000_000,
]


def texts(svg):
    """The lines of the terminal."""
    lines = {}
    for each in ET.fromstring(svg).iter():  # noqa: S314 - our own
        if each.tag.endswith("}text"):
            lines.setdefault(each.get("y"), []).append(each.text or "")
    return ["".join(line).replace("\xa0", " ").strip() for line in lines.values()]


def test_the_demos_picture_tells_its_story():
    result = demo.solved()
    svg = result.to_svg()
    shown = texts(svg)

    assert shown[0] == demo.REQUEST.splitlines()[0]
    assert sum("✔ " in line for line in shown) == 5, "four calls and the legend"
    assert "It is about 213 miles to Granite Pass." in shown
    assert "r_pre" not in svg, "nobody gave a score"
    assert result._repr_svg_() == svg == demo.solved().to_svg()


def test_a_notebook_shows_the_page_of_a_search_and_of_a_long_one_the_picture():
    few, many = (to_html(search_of(*[made("x" * 3_000)] * count)) for count in (2, 200))
    assert escape(few) in in_notebook(few)
    assert in_notebook(many) is None


def test_a_reader_of_screens_is_told_the_plan_and_the_answer():
    search = search_of(made(answer="Blue."), best=[1], query="What is there?")
    root = ET.fromstring(to_svg(search))  # noqa: S314 - our own
    names = {each.get("id"): each.text for each in root}

    assert root.get("role") == "img"
    assert names[root.get("aria-labelledby")] == (
        "Search tree: What is there?. 1 call considered · 0 run · 0 pruned · stopped: solved. "
        'The plan: look(at="look"). The answer: Blue.'
    )


def test_what_was_pruned_says_why():
    svg = to_svg(
        search_of(
            made(),
            made("guess", pruned="pre_evaluation"),
            made("send", seen="x", kind="timeout"),
        )
    )

    assert {"pruned before", "timeout"} <= {line.lstrip("│├└─ ") for line in texts(svg)}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_gets_out_of_its_place(text):
    second = made(seen=text, answer=text, missing=[text], reasons={"r_post": text})
    svg = to_svg(search_of(made(text), second, best=[2], query=text))
    tags = {each.tag.partition("}")[2] for each in ET.fromstring(svg).iter()}  # noqa: S314 - our own

    assert tags <= {
        "svg",
        "title",
        "style",
        "defs",
        "clipPath",
        "g",
        "rect",
        "circle",
        "text",
    }
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069\u200e\u200f\ud800-\udfff]", svg
    )
    assert len(svg) < 20_000
    values = [
        value
        for each in ET.fromstring(svg).iter()  # noqa: S314 - our own
        for value in each.attrib.values()
    ]
    assert not [
        value for value in values if re.search(r"http|url\((?!#)|script", value)
    ]
