"""Focus points: asked for once, kept, and read out of replies that keep to no form."""

import json

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.store.memory import InMemoryStore
from teacher import attempt

from langchain_tooltree import CFGMMemory, ConfigurationError, ExperienceStore
from langchain_tooltree.cfgm.focus import LONGEST_FOCUS_POINT, FocusForm
from langchain_tooltree.errors import ReplyError
from langchain_tooltree.experience.transcript import MAX_RUN_CHARACTERS
from langchain_tooltree.testing import ScriptedChatModel

POINTS = ["Look where things are.", "Try doors before keys."]


def form(*points):
    return {
        "focus_points": [
            {"reasoning": "The examples show it.", "focus_point": point}
            for point in points
        ]
    }


FORM = form(*POINTS)


def memory(*replies, store=None):
    model = ScriptedChatModel(replies=list(replies))
    return CFGMMemory(model, store or ExperienceStore(InMemoryStore())), model


def test_they_are_asked_for_from_a_description_and_examples():
    ours, model = memory(FORM)
    run = attempt("Find the lamp.", ("open door", "It is open."))
    assert ours.focus_points("A house.", [run, "In the cellar it is dark."]) == POINTS
    document = json.loads(model.calls[0][1].text)
    assert document["description"] == "A house."
    assert document["examples"][0]["task"] == "Find the lamp."
    assert document["examples"][0]["success"] is True
    assert "open door" in str(document["examples"][0]["record"])
    assert document["examples"][1] == "In the cellar it is dark."
    asked = convert_to_openai_tool(FocusForm)["function"]["parameters"]["properties"][
        "focus_points"
    ]["items"]
    assert [*asked["properties"]] == [
        "reasoning",
        "focus_point",
    ]  # first the reasoning, as in the paper


def test_they_are_trimmed_cut_told_once_and_at_most_ten():
    said = ["  Look\n where things are. ", "look where things are", "x" * 5_000]
    ours, _ = memory(form(*said, *(f"Point {n}." for n in range(20))))
    points = ours.focus_points("A house.")
    assert points[0].casefold() == "look where things are"
    assert len(points[1]) < LONGEST_FOCUS_POINT + 100
    assert points[2:] == [f"Point {n}." for n in range(8)]


def test_a_model_is_asked_again_once():
    ours, model = memory("I do not know.", FORM)
    assert ours.focus_points("A house.") == POINTS
    assert len(model.calls) == 2


@pytest.mark.parametrize(
    "reply",
    [
        "I do not know.",
        "- Look.",
        {"focus_points": "Look."},
        {"focus_points": ["Look."]},
        form("Look.", "..."),
        form("Look.", 7),
        {"focus_points": None},
        OSError("down"),
    ],
)
def test_replies_without_any_are_an_error_and_nothing_is_kept(reply):
    ours, _ = memory(reply, reply, FORM)
    with pytest.raises(ReplyError, match="no focus points"):
        ours.focus_points("A house.")
    assert ours.focus_points("A house.") == POINTS


@pytest.mark.parametrize(
    ("description", "examples", "message"),
    [("", [], "description must be"), (None, [], "description must be")],
)
def test_what_cannot_be_shown_is_told(description, examples, message):
    with pytest.raises(ConfigurationError, match=message):
        memory()[0].focus_points(description, examples)


@pytest.mark.slow
def test_many_long_examples_stay_within_bounds():
    run = attempt(
        "Find the lamp.", *((f"open door {n}", "It is open. " * 200) for n in range(50))
    )
    ours, model = memory(FORM)
    ours.focus_points("A house.", [run] * 50)
    assert len(model.calls[0][1].text) < 3 * MAX_RUN_CHARACTERS


def test_each_tenant_has_its_own():
    store = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user}"))
    ours, model = memory(FORM, form("Mind the gap."), store=store)
    ada, bob = ({"configurable": {"user": user}} for user in ("ada", "bob"))
    assert ours.focus_points("A house.", config=ada) == POINTS
    assert ours.focus_points("A house.", config=bob) == ["Mind the gap."]
    assert len(model.calls) == 2
