"""The picture of a search: what it shows, and that nothing in a tool's words can harm the page around it."""

import re
from html import escape
from xml.etree import ElementTree as ET

import pytest

from langchain_tooltree import SearchResult, demo
from tests.internals.tooltree import Call, Observation, SearchCost, Tree, to_svg

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


def picture_of(tree, *, best=(), query="What is there?"):
    result = SearchResult(query, tree, (), SearchCost(), "solved")
    return to_svg({**result.to_dict(), "best": list(best)})


def texts(svg):
    return [each.text or "" for each in ET.fromstring(svg).iter() if each.tag.endswith("}text")]  # noqa: S314 - our own


def boxes(svg):
    rects = (each for each in ET.fromstring(svg).iter() if each.tag.endswith("}rect"))  # noqa: S314 - our own
    return [
        [float(each.get(name)) for name in ("x", "y", "width", "height")] for each in rects if each.get("rx") == "6"
    ]


def with_calls(*tools):
    tree = Tree()
    for tool in tools:
        tree.add(tree.root, Call(tool=tool, arguments={"at": tool}, effect="read"))
    return tree


def test_the_demos_picture_tells_its_story():
    result = demo.solved()
    svg = result.to_svg()
    shown = "\n".join(texts(svg))

    assert [line for line in texts(svg) if line in {"1", "2", "3", "4"}] == ["1", "2", "3", "4"]
    assert "missing: a distance that" in shown
    assert "r_pre=0.65" in shown
    assert "the plan, in order" in shown
    assert svg.count('class="way"') == 4
    assert result._repr_svg_() == svg == demo.solved().to_svg()


def test_a_notebook_shows_the_page_of_a_search_and_of_a_long_one_the_picture(tmp_path):
    few, many = (SearchResult("Look.", with_calls(*["x" * 3_000] * n), (), SearchCost(), "solved") for n in (2, 200))
    few.to_html(tmp_path / "few.html")

    assert escape((tmp_path / "few.html").read_text(encoding="utf-8")) in few._repr_html_()
    assert many._repr_html_() is None
    assert many._repr_svg_()


def test_a_reader_of_screens_is_told_the_plan_and_the_answer():
    tree = with_calls("look")
    tree[1].answer = {"type": "ai", "data": {"content": "Blue."}}
    root = ET.fromstring(picture_of(tree, best=[1]))  # noqa: S314 - our own
    names = {each.get("id"): each.text for each in root[:2]}

    assert root.get("role") == "img"
    assert [names[name] for name in root.get("aria-labelledby").split()] == [
        "Search tree: What is there?",
        '1 call considered · 0 run · 0 pruned · stopped: solved. The plan: look(at="look"). The answer there: Blue.',
    ]


def test_what_was_pruned_says_why():
    tree = with_calls("look", "guess", "send")
    tree[2].pruned = "pre_evaluation"
    tree[3].observation = Observation(content="x", kind="timeout")
    svg = picture_of(tree)

    assert {"pruned before", "timeout", "pruned, with the reason"} <= set(texts(svg))
    assert svg.count('class="out"') == 3  # the box, its line, and the legend's


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_gets_out_of_its_place(text):
    tree = with_calls(text, "look")
    tree[2].observation = Observation(content=text)
    tree[2].answer, tree[2].missing = {"type": "ai", "data": {"content": text}}, (text,)
    tree[2].post_reason = text
    svg = picture_of(tree, best=[2], query=text)
    tags = {each.tag.partition("}")[2] for each in ET.fromstring(svg).iter()}  # noqa: S314 - our own

    assert tags <= {"svg", "title", "desc", "style", "g", "rect", "path", "circle", "text"}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069\u200e\u200f\ud800-\udfff]", svg)
    assert len(svg) < 20_000
    values = [value for each in ET.fromstring(svg).iter() for value in each.attrib.values()]  # noqa: S314 - our own
    assert not [value for value in values if re.search("http|url|script", value)]


def test_boxes_never_overlap_and_stand_in_the_picture():
    tree = with_calls("a", "b", "c")
    for number in range(80):
        parent = tree[number * 7 % len(tree)]
        node = tree.add(parent, Call(tool=f"tool_{number}", arguments={"text": "word " * (number % 9)}, effect="read"))
        node.observation = Observation(content="seen " * (number % 5)) if number % 3 else None
    svg = picture_of(tree, best=[1])
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


def test_of_a_large_search_the_plan_and_the_most_promising_calls_are_drawn():
    tree = with_calls(*(f"tool_{number}" for number in range(400)))
    for node in tree.nodes[1:]:
        node.r_pre, node.pruned = node.id / 400, None if node.id % 2 else "top_k"
    below = tree.add(tree[4], Call(tool="last", arguments={}, effect="read"))
    svg = picture_of(tree, best=[4, below.id])

    assert len(boxes(svg)) == 150
    assert {"tool_3", "last", "tool_398"} <= set(texts(svg))
    assert "tool_397" not in texts(svg)
    assert "401 calls considered" in svg


def test_a_long_word_stands_beside_the_arrow_before_it():
    tree = with_calls("a")
    tree[1].observation = Observation(content="x" * 40)
    assert [text for text in texts(picture_of(tree)) if text == "→" or text.startswith("→ xxx")] == [f"→ {'x' * 22}"]


def test_an_empty_search_is_a_picture_too():
    assert "0 calls considered" in picture_of(Tree())


def test_a_long_plan_goes_down_and_an_alternative_that_was_tried_has_its_colour():
    tree = Tree()
    node = tree.root
    for place in range(8):
        node = tree.add(node, Call(tool=f"step_{place}", arguments={}, effect="read"))
    other = tree.add(tree.root, Call(tool="another_way", arguments={}, effect="read"))
    other.observation, other.r_post, other.post_scored = Observation(content="x"), 0.4, True
    svg = picture_of(tree, best=range(1, 9), query="W" * 90)
    boxes = [each.attrib for each in ET.fromstring(svg).iter() if each.tag.endswith("rect")]  # noqa: S314 - our own

    assert float(ET.fromstring(svg).get("width")) < 860  # noqa: S314 - our own
    assert [each["class"] for each in boxes[1:-2]] == ["best"] * 8 + ["other"]
    assert sorted(boxes[1:-2], key=lambda each: float(each["y"])) == boxes[1:-2]
    assert max(map(len, texts(svg)[:2])) < 60, "bold capitals fit, too"
    assert {"alternative", "the plan, in order"} <= set(texts(svg))
    assert "considered" not in texts(svg), "the legend tells of what is drawn"
