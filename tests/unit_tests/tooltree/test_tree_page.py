"""The page of a search: it holds all that it shows, sends nothing, and runs no word of a tool."""

import base64
import hashlib
import json
from html.parser import HTMLParser
from itertools import chain

import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from pydantic import PrivateAttr

from langchain_tooltree import SearchConfig, SearchResult, demo
from langchain_tooltree.testing import OfflineChatModel
from tests.internals.tooltree import Call, Observation, SearchCost, Tree, to_html

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
    """The elements of a page with their attributes, and the texts of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.found, self.texts, self.open = [], [], ("", {})
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open = (tag, dict(attrs))
        self.found.append(self.open)

    def handle_endtag(self, tag):
        self.open = ("", {})

    def handle_data(self, data):
        self.texts.append((self.open, data))

    def text_of(self, tag, **attributes):
        return "".join(
            text for (name, found), text in self.texts if name == tag and attributes.items() <= found.items()
        )


def page_of(result, folder):
    path = folder / "search.html"
    result.to_html(path)
    return path.read_text(encoding="utf-8")


def data_in(page):
    return json.loads(Elements(page).text_of("script", id="data"))


def demo_search(**settings):
    return demo.solved(config=SearchConfig(**settings))


def with_calls(texts, content=None):
    tree = Tree()
    for text in texts:
        node = tree.add(tree.root, Call(tool="look", arguments={"at": text}, effect="read"))
        node.observation = Observation(content=text if content is None else content)
        node.post_reason, node.dropped, node.missing = text, [text], (text,)
    return SearchResult(texts[0], tree, (), SearchCost(), "solved")


def test_a_page_shows_what_each_call_brought_what_it_was_worth_and_what_it_cost(tmp_path):
    result = demo_search()
    data = data_in(page_of(result, tmp_path))
    first, sign = data["nodes"][1], data["nodes"][3]

    assert data["query"] == demo.REQUEST
    assert data["plan"] == [1, 3, 6, 7]
    assert len(data["alternatives"]) == len(result.alternatives) == 3
    assert (first["label"], first["arguments"]) == ('read_sign(image="road.png")', {"image": "road.png"})
    assert first["seen"].startswith("The sign reads '?4? ?m'.")
    assert first["missing"] == ["a distance that can be read"]
    assert first["dropped"] == ['read_sign(image="road.png"): already made on this path']
    assert first["scores"] == {"r_post": 0.2, "goal": 0.2, "Q": 0.2, "N": 1}
    assert sign["scores"] == {"r_pre": 0.65}, "a score that nobody gave is left out"
    assert sum(change["model_calls"] for change in data["history"]) == result.cost.model_calls
    assert sum(change["tokens"] for change in data["history"]) == result.cost.tokens


def test_only_an_answer_before_which_nothing_was_weighed_is_told_as_that_of_the_agent_alone():
    found = demo_search().to_dict()
    told = data_in(to_html(found))["recovery"]
    found["nodes"][1]["scored"] = [True, True]
    weighed = data_in(to_html(found))["recovery"]
    found["best"] = [1]

    assert "the agent by itself would have ended with 'I could not find out.'" in told
    assert told.endswith("The plan: read_sign → zoom_image → read_sign → convert_units.")
    assert "this answer was not accepted: 'I could not find out.' (missing: a distance that can be read)" in weighed
    assert data_in(to_html(found))["recovery"] == "", "the answer is the one that was taken"


@pytest.mark.parametrize(
    "settings", [{}, {"selection": "smoothed", "parallel_rollouts": 3}, {"pre_evaluation": "batched"}], ids=str
)
def test_the_history_tells_when_every_node_came_and_every_call_ran(settings):
    saved = demo_search(**settings).to_dict()
    sizes = [change["nodes"] for change in saved["history"]]
    ran = sorted(node for change in saved["history"] for node in change["ran"])
    pruned = sorted(node for change in saved["history"] for node in change["pruned"])

    assert sizes == sorted(sizes)
    assert sizes[-1] == len(saved["nodes"])
    assert ran == [node["id"] for node in saved["nodes"] if node["observation"]]
    assert pruned == [node["id"] for node in saved["nodes"] if node["pruned"]]
    assert saved == demo_search(**settings).to_dict()


class Noting(OfflineChatModel):
    """Notes what it is asked."""

    _asked: list = PrivateAttr(default_factory=list)

    def _respond(self, messages, tools):
        self._asked.append(messages[0].text)
        return super()._respond(messages, tools)


@tool
def look(at: str) -> str:
    """Look."""
    return f"a {at}"


@pytest.mark.parametrize("settings", [{}, {"pre_evaluation": "batched", "selection": "smoothed"}], ids=str)
async def test_a_page_says_in_what_words_each_step_asked_and_keeps_the_agents_own_to_itself(
    find, offline, tmp_path, settings
):
    policy = offline(offers={(): [("look", {"at": "desk"}), ("look", {"at": "lamp"})]}).policy
    model, own = Noting(policy=policy), "You are Bo. The code is 7391.\n\nBe kind."
    request = [SystemMessage(own), HumanMessage("Find the lamp.")]
    result = await find(request, [look], model=model, effects={"look": "read"}, config=SearchConfig(**settings))
    page = page_of(result, tmp_path)
    data = data_in(page)
    words = [
        ["\n\n".join(data["words"][key] for key in keys) for keys in change["asked"]] for change in data["history"]
    ]
    sent = [prompt.replace(own, "[The agent's instructions]") for prompt in model._asked if prompt != own]

    assert sorted(chain.from_iterable(words)) == sorted(sent)
    assert [len(questions) for questions in words] == [change["model_calls"] for change in data["history"]]
    assert any("[The agent's instructions]" in each for each in sent)
    assert "7391" not in page
    assert len(data["words"]) == len(set(data["words"].values()))


def test_a_tree_keeps_questions_as_far_as_there_is_room():
    tree = Tree()
    tree.keep_words({"a": "x" * 99_990, "b": "y" * 20, "c": "z" * 10})
    assert [len(text) for text in tree.words.values()] == [99_990, 0, 10]
    assert tree.in_paragraphs(["z\n\nz"])["words"].keys().isdisjoint(tree.words)


def test_a_page_asks_nobody_for_anything(tmp_path):
    text = page_of(demo_search(), tmp_path)
    elements = Elements(text)
    policy = next(given["content"] for tag, given in elements.found if given.get("http-equiv"))
    script = elements.text_of("script").replace(elements.text_of("script", id="data"), "")
    known = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

    assert policy.startswith(f"default-src 'none'; script-src 'sha256-{known}'; style-src 'sha256-")
    assert not [given for _, given in elements.found for name in given if name in {"src", "srcset", "style"}]
    assert [given["href"] for _, given in elements.found if "href" in given] == ["data:,"]
    assert not [given for _, given in elements.found for name in given if name.startswith("on")]
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "fetch(",
        "http",
        "import(",
    ):
        assert forbidden not in script


def test_no_word_of_a_tool_or_a_user_leaves_its_place(tmp_path):
    plain = Elements(page_of(with_calls(["look"]), tmp_path))
    for text in HOSTILE:
        page = page_of(with_calls([text, *HOSTILE]), tmp_path)
        elements = Elements(page)

        assert [tag for tag, _ in elements.found] == [tag for tag, _ in plain.found]
        assert data_in(page)["nodes"][3]["seen"] == HOSTILE[1]
        assert data_in(page)["nodes"][4]["arguments"] == {"at": HOSTILE[2]}
        assert page.isascii() or "\u202e" not in page


def test_a_page_of_five_hundred_calls_with_long_texts_is_smaller_than_a_megabyte(tmp_path):
    texts = [f"call {number} " + "x" * 20_000 for number in range(500)]
    page = page_of(with_calls(texts, content="A short result."), tmp_path)

    assert len(page.encode()) < 1_000_000
    seen = {node["seen"] for node in data_in(page)["nodes"][1:]}
    assert seen == {"A short result."}, "long texts are shortened before short ones"


def test_a_search_that_was_saved_before_there_was_a_history_has_a_page_too():
    result = with_calls(["look"])
    saved = result.to_dict()
    del saved["history"], saved["words"]
    assert data_in(to_html(saved))["history"] == []
