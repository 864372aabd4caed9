"""Small searches, compared whole with the trees on record.

A change of prompts, scores, selection or bookkeeping shows up here. If it is meant, record the trees again and read the
difference before committing it:

    TOOLTREE_RECORD_GOLDEN=1 python -m pytest tests/unit_tests/test_golden_trees.py
"""

import json
import os
from pathlib import Path

import pytest
from langchain_core.tools import tool

from cookbook.offline_model import OfflineChatModel
from langchain_tooltree import ObjectSandbox, SearchConfig
from langchain_tooltree.tooltree.search.config import KernelConfig

FOLDER = Path(__file__).parent / "golden"
RECORD = "TOOLTREE_RECORD_GOLDEN"


@tool
def look_at_sign() -> str:
    """Read the road sign."""
    return "Lyon 343 km"


@tool
def zoom(factor: int) -> str:
    """Enlarge the picture."""
    return f"a blur, {factor} times as large"


@tool
def to_miles(kilometres: float) -> str:
    """Convert kilometres to miles."""
    return f"{kilometres / 1.609344:.1f} miles"


@tool
def guess() -> str:
    """Guess the answer."""
    return "about 200 miles"


@tool
def mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent {text} to {to}"


class Cart:
    """A shopping cart."""

    def __init__(self) -> None:
        self.items: list[str] = []

    def put(self, item: str) -> str:
        """Put an item into the cart."""
        self.items.append(item)
        return f"{len(self.items)} in the cart"

    def list_items(self) -> str:
        """List the items in the cart."""
        return ", ".join(self.items) or "nothing"


SIGN = [look_at_sign, zoom, guess, to_miles]
EQ_1 = {"selection": "smoothed", "max_proposals": 2}
SIGN_READS = {sign_tool.name: "read" for sign_tool in SIGN}
SIGN_POLICY = {
    "offers": {
        (): [("zoom", {"factor": 8}), ("look_at_sign", {}), ("guess", {})],
        ("zoom",): [("zoom", {"factor": 16}), ("look_at_sign", {})],
        ("look_at_sign",): [
            ("to_miles", {"kilometres": 343}),
            ("zoom", {"factor": 2}),
            ("to_miles", {"kilometres": "x"}),
        ],
        ("zoom", "look_at_sign"): [("to_miles", {"kilometres": 343})],
    },
    "r_pre": {"zoom": 0.9, "look_at_sign": 0.7, "to_miles": 0.6, "guess": 0.2},
    "r_post": {"zoom": 0.2, "look_at_sign": 0.8, "to_miles": 0.9},
    "goal": {"zoom": 0.0, "look_at_sign": 0.3, "to_miles": 0.9},
}


class Careful:
    """Thinks what another policy does, and says what is missing where that has no high goal score."""

    def __init__(self, policy):
        self.propose, self.score_call, self.answer = (
            policy.propose,
            policy.score_call,
            policy.answer,
        )
        self.score_observation = policy.score_observation

    def act(self, question):
        made = [each.tool for each in question.path]
        return (
            self.propose(question)[:1]
            if len(made) < 2 or "look_at_sign" in made
            else []
        )

    def missing(self, question):
        goal = (
            self.score_observation(question, question.path[-1])[1]
            if question.path
            else 0.0
        )
        return [] if goal > 0.5 else ["the distance in miles"]


SHOP_POLICY = {
    "offers": {
        (): [("put", {"item": "tea"}), ("list_items", {})],
        ("put",): [("put", {"item": "milk"}), ("list_items", {})],
        ("put", "put"): [
            ("list_items", {}),
            ("mail", {"to": "Ada", "text": "tea, milk"}),
        ],
    },
    "r_pre": {"list_items": 0.4},
    "r_post": {"put": 0.95, "list_items": 0.5, "mail": 0.9},
    "goal": {"put": 0.2, "mail": 0.2},
}


def read_the_sign(config=None):
    return {
        "query": "How many miles to Lyon?",
        "tools": SIGN,
        "effects": SIGN_READS,
        "config": config,
    }, SIGN_POLICY


def sign_in_the_loop():
    """The agent looks closer and closer, says what is missing, and is helped on by other calls."""
    arguments, policy = read_the_sign()
    more = {("zoom", "zoom"): [("look_at_sign", {})]}
    more["zoom", "zoom", "look_at_sign"] = [("to_miles", {"kilometres": 343})]
    config = SearchConfig(effort="thorough")
    return {**arguments, "config": config}, {
        **policy,
        "offers": {**policy["offers"], **more},
    }


def sign_by_the_posterior():
    return read_the_sign(SearchConfig(selection="posterior"))


def sign_by_eq_1_as_released():
    """The best-looking first step leads nowhere; the search recovers and solves the task."""
    return read_the_sign(KernelConfig(**EQ_1))


def sign_in_the_papers_form():
    return read_the_sign(SearchConfig.paper(max_rollouts=8))


def shop_with_sandbox_and_deferred_write():
    sandbox = ObjectSandbox.of_methods(Cart())
    arguments = {
        "query": "Buy tea and milk, then tell Ada.",
        "tools": [*sandbox.tools, mail],
        "sandbox": sandbox,
        "effects": {"list_items": "read"},
        "config": KernelConfig(**EQ_1, max_rollouts=10, parallel_rollouts=2),
    }
    return arguments, SHOP_POLICY


SEARCHES = [
    sign_in_the_loop,
    sign_by_the_posterior,
    sign_by_eq_1_as_released,
    sign_in_the_papers_form,
    shop_with_sandbox_and_deferred_write,
]


@pytest.mark.parametrize("make", SEARCHES, ids=lambda make: make.__name__)
async def test_the_tree_is_the_one_on_record(find, offline, make):
    arguments, policy = make()
    model = offline(**policy)
    if make is sign_in_the_loop:
        model = OfflineChatModel(policy=Careful(model.policy))
    whole = (await find(**arguments, model=model)).to_dict()
    tree = {
        name: part
        for name, part in whole.items()
        if name not in {"history", "words", "alternatives"}
    }
    recorded = FOLDER / f"{make.__name__}.json"
    if os.environ.get(RECORD):
        recorded.write_text(
            json.dumps(tree, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    assert json.loads(json.dumps(tree)) == json.loads(
        recorded.read_text(encoding="utf-8")
    )


def test_there_is_no_tree_on_record_that_nothing_compares():
    assert {path.stem for path in FOLDER.glob("*.json")} == {
        make.__name__ for make in SEARCHES
    }
