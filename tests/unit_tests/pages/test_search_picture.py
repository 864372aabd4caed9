"""The picture of a search: what it shows, and that nothing in a tool's words can harm the page around it."""

import re
from html import escape
from xml.etree import ElementTree as ET

import pytest

from langchain_tooltree import demo
from langchain_tooltree.pages import in_notebook
from langchain_tooltree.pages.picture import to_svg
from langchain_tooltree.pages.search import to_html
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
    return [each.text or "" for each in ET.fromstring(svg).iter() if each.tag.endswith("}text")]  # noqa: S314 - our own


def boxes(svg):
    rects = (each for each in ET.fromstring(svg).iter() if each.tag.endswith("}rect"))  # noqa: S314 - our own
    return [
        [float(each.get(name)) for name in ("x", "y", "width", "height")] for each in rects if each.get("rx") == "6"
    ]


def test_the_demos_picture_tells_its_story():
    result = demo.solved()
    svg = result.to_svg()
    shown = "\n".join(texts(svg))

    assert [line for line in texts(svg) if line in {"1", "2", "3", "4"}] == ["1", "2", "3", "4"]
    assert "answer: It is about 213" in shown
    assert "Green: the plan, in order." in shown
    assert "r_pre" not in shown, "nobody gave a score"
    assert svg.count('class="way"') == 4
    assert result._repr_svg_() == svg == demo.solved().to_svg()


def test_a_notebook_shows_the_page_of_a_search_and_of_a_long_one_the_picture():
    few, many = (to_html(search_of(*[made("x" * 3_000)] * count)) for count in (2, 200))
    assert escape(few) in in_notebook(few)
    assert in_notebook(many) is None


def test_a_reader_of_screens_is_told_the_plan_and_the_answer():
    search = search_of(made(answer="Blue."), best=[1], query="What is there?")
    root = ET.fromstring(to_svg(search))  # noqa: S314 - our own
    names = {each.get("id"): each.text for each in root[:2]}

    assert root.get("role") == "img"
    assert [names[name] for name in root.get("aria-labelledby").split()] == [
        "Search tree: What is there?",
        '1 call considered · 0 run · 0 pruned · stopped: solved. The plan: look(at="look"). The answer there: Blue.',
    ]


def test_what_was_pruned_says_why():
    svg = to_svg(search_of(made(), made("guess", pruned="pre_evaluation"), made("send", seen="x", kind="timeout")))

    assert {"pruned before", "timeout"} <= set(texts(svg))
    assert svg.count('class="out"') == 2, "the box and its line"


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_gets_out_of_its_place(text):
    second = made(seen=text, answer=text, missing=[text], reasons={"r_post": text})
    svg = to_svg(search_of(made(text), second, best=[2], query=text))
    tags = {each.tag.partition("}")[2] for each in ET.fromstring(svg).iter()}  # noqa: S314 - our own

    assert tags <= {"svg", "title", "desc", "style", "g", "rect", "path", "circle", "text"}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069\u200e\u200f\ud800-\udfff]", svg)
    assert len(svg) < 20_000
    values = [value for each in ET.fromstring(svg).iter() for value in each.attrib.values()]  # noqa: S314 - our own
    assert not [value for value in values if re.search("http|url|script", value)]


@pytest.mark.parametrize("best", [lambda _: [1], lambda _: [], lambda nodes: [nodes[-1]["parent"], len(nodes)]])
def test_boxes_never_overlap_and_stand_in_the_picture(best):
    nodes = [made(tool) for tool in "abc"]
    for number in range(80):
        came = {"seen": "seen " * (number % 5)} if number % 3 else {}
        parent = number * 7 % (number + 4)
        nodes.append(made(f"tool_{number}", parent=parent, arguments={"text": "word " * (number % 9)}, **came))
    search = search_of(*nodes, best=best(nodes))
    svg = to_svg(search)
    found = boxes(svg)
    width, height = (float(ET.fromstring(svg).get(name)) for name in ("width", "height"))  # noqa: S314 - our own

    assert len(found) == 83
    for place, (x, y, wide, high) in enumerate(found):
        assert x >= 0
        assert y >= 0
        assert x + wide <= width
        assert y + high <= height
        for x2, y2, wide2, high2 in found[:place]:
            assert x + wide <= x2 or x2 + wide2 <= x or y + high <= y2 or y2 + high2 <= y


def test_of_a_large_search_the_plan_and_the_first_calls_are_drawn():
    many = [made(f"tool_{number}") for number in range(1, 401)]
    svg = to_svg(search_of(*many, made("last", parent=300), made("aside", parent=400), best=[300, 401]))

    assert len(boxes(svg)) == 152
    assert {"tool_1", "tool_150", "tool_300", "last"} <= set(texts(svg))
    assert not {"tool_151", "aside"} & set(texts(svg))
    assert "402 calls considered" in svg


def test_an_empty_search_is_a_picture_too():
    assert "0 calls considered" in to_svg(search_of())
