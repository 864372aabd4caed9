"""The page of a search: it holds all that it shows, sends nothing, and runs no word of a tool."""

import json
from html.parser import HTMLParser

from langchain_tooltree import SearchConfig, demo
from langchain_tooltree.pages.search import to_html
from tests.internals.pages import check_asks_nobody, data_in, made, search_of
from tests.internals.sign_reader import sign_reader

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "<img src=x onerror=alert(1)>",
    "{data} {policy} {title}",
    "\u2028\u2029\x00\ud800\U0001f937\u202e",
    '"}];alert(1)//',
    "\\g<0> \\1",
]


class Elements(HTMLParser):
    """The elements of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


def with_calls(texts, content=None):
    """A page of a search whose every text is one of these."""
    said = (
        {"reasons": {"r_post": text}, "dropped": [text], "missing": [text]}
        for text in texts
    )
    nodes = (
        made(arguments={"at": text}, seen=content or text, **more)
        for text, more in zip(texts, said, strict=True)
    )
    return to_html(search_of(*nodes, query=texts[0]))


def test_a_page_shows_what_each_call_brought_what_it_was_worth_and_what_it_cost(
    tmp_path,
):
    result = demo.solved(sign_reader(), config=SearchConfig(selection="posterior"))
    result.to_html(tmp_path / "search.html")
    data = data_in((tmp_path / "search.html").read_text(encoding="utf-8"))
    first, idea = data["nodes"][1], data["nodes"][3]

    assert data["query"] == demo.REQUEST
    assert data["plan"] == [step.node for step in result.steps]
    assert len(data["alternatives"]) == len(result.alternatives) == 3
    assert (first["label"], first["arguments"]) == (
        'read_sign(image="road.png")',
        '{\n  "image": "road.png"\n}',
    )
    assert first["seen"].startswith("The sign reads '?4? ?m'.")
    assert first["missing"] == ["a distance that can be read"]
    assert (
        data["nodes"][data["plan"][-1]]["answer"]
        == "It is about 213 miles to Granite Pass."
    )
    assert first["dropped"] == [
        'read_sign(image="road.png"): already made on this path'
    ]
    assert first["scores"] == {
        "r_pre": 0.8,
        "r_post": 0.2,
        "goal": 0.2,
        "Q": 0.675,
        "N": 4,
    }
    assert idea["scores"] == {"r_pre": 0.65}, "a score that nobody gave is left out"
    answer = result.answer.usage_metadata[
        "total_tokens"
    ]  # it is asked for after the search
    assert (
        sum(change["model_calls"] for change in data["history"])
        == result.cost.model_calls - 1
    )
    assert (
        sum(change["tokens"] for change in data["history"])
        == result.cost.tokens - answer
    )


def test_a_search_in_the_agents_own_loop_shows_its_plan_and_answer_and_no_scores():
    data = data_in(to_html(demo.solved().to_dict()))
    plan = [data["nodes"][place] for place in data["plan"]]

    assert [node["tool"] for node in plan] == [
        "read_sign",
        "zoom_image",
        "read_sign",
        "convert_units",
    ]
    assert plan[-1]["answer"] == "It is about 213 miles to Granite Pass."
    assert [node["tool"] for node in data["nodes"][1:] if "seen" not in node] == [
        "zoom_image",
        "image_size",
    ]
    assert [node for node in data["nodes"] if node["scores"]] == []
    assert (data["history"], data["cost"]["rollouts"]) == ([], 1)


def test_no_word_of_a_tool_or_a_user_leaves_its_place():
    plain = Elements(with_calls(["look"]))
    for text in HOSTILE:
        page = with_calls([text, *HOSTILE])

        assert Elements(page).tags == plain.tags
        check_asks_nobody(page)
        assert data_in(page)["nodes"][3]["seen"] == HOSTILE[1]
        assert json.loads(data_in(page)["nodes"][4]["arguments"]) == {"at": HOSTILE[2]}
        assert page.isascii() or "\u202e" not in page


def test_a_page_of_a_hundred_calls_with_long_texts_is_smaller_than_a_megabyte():
    texts = [f"call {number} " + "x" * 4_000 for number in range(100)]
    page = with_calls(texts, content="A short result.")

    assert len(page.encode()) < 1_000_000
    seen = {node["seen"] for node in data_in(page)["nodes"][1:]}
    assert seen == {"A short result."}, "long texts are shortened before short ones"
