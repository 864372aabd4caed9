"""Tips say when they apply, near-equal ones are one, and what happened after them decides which are told."""

from dataclasses import replace

import pytest
from langgraph.store.memory import InMemoryStore
from teacher import attempt

from langchain_tooltree import CFGMMemory, recall_text
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.cfgm import RecalledRun, Recollection, Tip, tips_module


def tip(text, when="", tools=()):
    return Tip(text, "r", "success", "Boil water.", tools, (), when)


LID = tip("Use a lid.", "the stove is weak")
STIR = tip("Stir now and then.", "the pot is full")


def test_a_tip_says_when_it_applies():
    assert LID.advice == "When the stove is weak: Use a lid."
    assert tip("Use a lid.").advice == "Use a lid."
    assert Tip.from_dict(LID.to_dict()) == LID
    assert LID.to_dict()["id"] == LID.id == replace(LID, reasoning="Other.").id != STIR.id


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"when": "the stove is weak", "tip": "Use a lid."}, "When the stove is weak: Use a lid."),
        ({"when": "When the stove is weak,", "tip": "Use a lid."}, "When the stove is weak: Use a lid."),
        ({"when": "the stove is weak", "tip": "If the stove is weak, use a lid."}, "If the stove is weak, use a lid."),
        ({"tip": "Use a lid."}, "Use a lid."),
    ],
)
def test_it_is_read_from_what_a_model_says(written, told):
    model = ScriptedChatModel(replies=[{"tips": [{"reasoning": "It boiled.", **written}]}])
    memory = CFGMMemory(model, InMemoryStore())
    memory.experience.add(attempt("Boil water."))
    (taken,) = memory.extract_tips()
    assert taken.advice == told
    recollection = memory.recall("Boil water.")
    assert f"- {told}\n" in recall_text(recollection, max_characters=2_000)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("Close the red valve before you check the small gauge!", True),
        ("You should close the red valve before checking the small gauge, please.", True),
        ("Close the red valve before you check the small gauge in the cellar and the attic.", False),
        ("Close the blue valve before you check the small gauge.", False),
        ("Close the red valve after you check the small gauge.", False),
        ("Do not close the red valve before you check the small gauge.", False),
    ],
)
def test_tips_that_say_nearly_the_same_are_one(other, same):
    one = tip("Close the red valve before you check the small gauge.")
    assert len(tips_module.distinct([one, tip(other)])) == 2 - same


def test_tips_about_other_tools_are_others():
    assert len(tips_module.distinct([LID, replace(LID, tools=("cover",))])) == 2


def remembering(*runs):
    """Memory with two tips for a task, and runs after which it was told: the tips, and whether the run went well."""
    written = [{"reasoning": each.reasoning, "tip": each.text, "when": each.when} for each in (LID, STIR)]
    memory = CFGMMemory(ScriptedChatModel(replies=[{"tips": written}]), InMemoryStore())
    memory.experience.add(attempt("Boil water."))
    memory.extract_tips()
    for number, (tips, success) in enumerate(runs):
        told = {"runs": [], "tips": [each.id for each in tips]}
        memory.experience.add(attempt(f"Paint {number}.", success=success, id=f"{number}", recalled=told))
    return memory


def told_by(memory):
    return [each.text for each in memory.recall("Boil water.").tips]


def test_tips_after_which_runs_went_well_rise():
    assert told_by(remembering()) == [LID.text, STIR.text]
    assert told_by(remembering(([STIR], True))) == [STIR.text, LID.text]
    assert told_by(remembering(([LID], False))) == [STIR.text, LID.text]


def test_tips_after_which_runs_failed_are_retired_and_come_back_with_what_spoke_against_them():
    memory = remembering(*[([LID], False)] * 3, *[([STIR], True)] * 3)
    assert told_by(memory) == [STIR.text]
    memory.experience.delete("0")
    assert told_by(memory) == [STIR.text, LID.text]


def test_where_everything_fails_no_tip_is_to_blame():
    assert sorted(told_by(remembering(*[([LID], False)] * 4, *[([STIR], False)] * 9))) == [STIR.text, LID.text]


def test_runs_that_nobody_judged_say_nothing():
    assert told_by(remembering(*[([LID], None)] * 9)) == [LID.text, STIR.text]


def test_near_equal_tips_of_two_runs_are_told_once():
    runs = [attempt("Boil water."), attempt("Boil milk.")]
    twins = [(tip("Use a lid on the big pot."),), (tip("You should use the lid on a big pot."),)]
    recollection = Recollection("Boil tea.", tuple(map(RecalledRun, runs, twins)))
    assert recall_text(recollection, max_characters=2_000).count("lid") == 1
