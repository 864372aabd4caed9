"""Tips: from comparison, then from success; kept with what they were made from; asked for once."""

import logging
from dataclasses import replace

import pytest
from langgraph.store.memory import InMemoryStore
from teacher import Teacher, attempt, tip_reply

from langchain_tooltree import CFGMMemory, ConfigurationError, ExperienceStore
from langchain_tooltree.cfgm import tips as tips_module
from langchain_tooltree.cfgm.recall import Tip, tips_for
from langchain_tooltree.errors import ReplyError
from langchain_tooltree.flows import run_flow
from langchain_tooltree.testing import ScriptedChatModel

NAMES = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel"]
COMPARED = "comparison"
PRAISED = "success"


def failure(task, number=1, **metadata):
    return attempt(
        task,
        ("push", f"Nothing happens at {number}."),
        success=False,
        number=number,
        **metadata,
    )


def success(task, number=2):
    return attempt(task, ("pull", f"It opens for {task}."), number=number)


def memory(*trajectories, model=None, store=None, at_once=1):
    experience = store or ExperienceStore(InMemoryStore())
    for trajectory in trajectories:
        experience.add(trajectory)
    return CFGMMemory(model or Teacher(), experience, max_concurrency=at_once)


def extracted(*replies, trajectories=None):
    given = [success("Open the gate.")] if trajectories is None else trajectories
    return memory(*given, model=ScriptedChatModel(replies=list(replies))).extract_tips()


def test_comparisons_come_first_then_successes():
    ours = memory(
        failure("alpha"),
        success("alpha"),
        success("bravo"),
        failure("charlie"),
        attempt("delta", success=None),
    )
    tips = ours.extract_tips()
    assert ours.model.asked == [
        (COMPARED, "alpha"),
        (PRAISED, "alpha"),
        (PRAISED, "bravo"),
    ]
    assert [(tip.source, tip.task) for tip in tips] == [
        (COMPARED, "alpha"),
        (PRAISED, "alpha"),
        (PRAISED, "bravo"),
    ]


def test_tips_are_adapted_to_another_environment_and_stay_as_they_are_here():
    ours = memory(success("alpha"), success("bravo"), model=Teacher(), at_once=1)
    first, second = ours.extract_tips()
    forms = [
        {"number": 2, "when": "when the cart is full", "tip": "Pay."},
        {"number": 9, "when": "", "tip": "Wait."},
    ]
    adapted = {"tips": forms}
    other = CFGMMemory(
        None,
        ours.experience,
        models={"alignment": ScriptedChatModel(replies=[adapted, "Hm.", "Hm."])},
    )

    (tip,) = other.align_tips("A web shop with the tools search, click and buy.")

    assert (tip.advice, tip.reasoning, tip.task) == (
        "When the cart is full: Pay.",
        second.reasoning,
        second.task,
    )
    assert ours.extract_tips() == [first, second]
    with pytest.raises(ReplyError, match="adapted no tips"):
        other.align_tips("A web shop.")
    with pytest.raises(ConfigurationError, match="description must be a text"):
        other.align_tips(" ")


def test_a_tip_says_why_and_from_which_trajectories():
    failed, succeeded = failure("alpha"), success("alpha")
    compared, praised = memory(failed, succeeded).extract_tips()
    assert compared == Tip(
        "Only act after looking around.",
        "It went well with alpha.",
        COMPARED,
        "alpha",
        ("act",),
        (failed.id, succeeded.id),
        "asked to alpha",
    )
    assert praised.trajectories == (succeeded.id,)


def test_the_model_is_shown_both_sides_and_what_was_thought_of_failures():
    ours = memory(
        failure("alpha", reflection="I should have pulled."), success("alpha")
    )
    ours.extract_tips()
    shown = ours.model.documents[0]
    assert shown["failed"][0]["reflection"] == "I should have pulled."
    assert "Nothing happens" in str(shown["failed"])
    assert "It opens" in str(shown["succeeded"])


def test_only_the_latest_failures_and_the_shortest_success_are_shown():
    long = attempt("alpha", *[("pull", "It is stuck.")] * 5)
    ours = memory(
        *(failure("alpha", number) for number in range(1, 8)), success("alpha"), long
    )
    ours.extract_tips()
    shown = ours.model.documents[0]
    assert [
        "at 5" in str(each) or "at 6" in str(each) or "at 7" in str(each)
        for each in shown["failed"]
    ] == [True] * 3
    assert "stuck" not in str(shown["succeeded"])


def test_extracting_again_asks_nothing_and_brings_the_same():
    ours = memory(failure("alpha"), success("alpha"), success("bravo"))
    tips = ours.extract_tips()
    asked = len(ours.model.asked)
    assert ours.extract_tips() == tips
    assert len(ours.model.asked) == asked


def test_a_task_with_new_attempts_is_asked_about_again():
    ours = memory(failure("alpha"), success("alpha"), success("bravo"))
    ours.extract_tips()
    ours.experience.add(failure("alpha", 2))
    ours.extract_tips()
    assert ours.model.asked[3:] == [(COMPARED, "alpha"), (PRAISED, "alpha")]
    ours.experience.add(success("bravo", 7))
    ours.experience.add(attempt("bravo", ("twist", "It opens."), id="other"))
    ours.extract_tips()
    assert ours.model.asked[5:] == [(PRAISED, "bravo")]


@pytest.mark.slow
@pytest.mark.parametrize("killed_at", [1, 2, 5, 7])
def test_an_extraction_that_was_killed_goes_on_where_it_stopped(killed_at):
    attempts = [made for task in NAMES[:4] for made in (failure(task), success(task))]
    whole = memory(*attempts).extract_tips()
    store = ExperienceStore(InMemoryStore())
    killed = CFGMMemory(Teacher(dies_at=killed_at), store, max_concurrency=1)
    for each in attempts:
        store.add(each)
    with pytest.raises(KeyboardInterrupt):
        killed.extract_tips()
    resumed = memory(store=store)
    assert resumed.extract_tips() == whole
    assert (
        len(resumed.model.asked) == 8 - (killed_at - 1) // 2 * 2
    )  # of a task, both questions


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 3, 50])
async def test_the_async_twin_brings_the_same(at_once):
    attempts = [made for task in NAMES for made in (failure(task), success(task))]
    tips = memory(*attempts, at_once=at_once).extract_tips()
    assert len(tips) == 16
    assert await memory(*attempts, at_once=at_once).aextract_tips() == tips


def test_a_task_without_a_usable_reply_is_left_to_the_next_time(caplog):
    attempts = [success("alpha"), success("bravo")]
    store = ExperienceStore(InMemoryStore())
    silent = memory(*attempts, model=Teacher(silent_on=["alpha"]), store=store)
    with caplog.at_level(logging.WARNING):
        assert [tip.task for tip in silent.extract_tips()] == ["bravo"]
    assert "left to the next time" in caplog.text
    later = memory(store=store)
    assert [tip.task for tip in later.extract_tips()] == ["alpha", "bravo"]
    assert later.model.asked == [(PRAISED, "alpha")]


def test_tips_are_deleted_with_their_success_though_failures_stay():
    gone = success("alpha")
    ours = memory(failure("alpha"), gone)
    assert len(ours.extract_tips()) == 2
    ours.experience.delete(gone.id)
    assert ours.extract_tips() == []
    assert run_flow(ours.experience.collection("tips").reading()) == {}


def test_tips_of_a_deleted_success_are_deleted_where_they_hold_for_another_task_too():
    gone = success("alpha")
    ours = memory(gone, model=Teacher(followed=[1]))
    ours.extract_tips()
    ours.experience.add(success("bravo"))
    ours.extract_tips()
    ours.experience.delete(gone.id)
    (tip,) = ours.extract_tips()
    assert tip.task == "bravo"
    assert ours.recall("alpha and bravo").tips == (tip,)


def test_tasks_of_one_text_are_told_apart_by_their_ids():
    ours = memory(
        failure("alpha", task_id="1"),
        attempt("alpha", id="other", task_id="2"),
        failure("alpha", 2, task_id="2"),
    )
    ours.extract_tips()
    assert ours.model.asked == [(COMPARED, "alpha"), (PRAISED, "alpha")]
    assert [len(each.get("failed", [])) for each in ours.model.documents] == [1, 0]


def test_each_tenant_has_its_own():
    store = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user}"))
    ada, bob = ({"configurable": {"user": user}} for user in ("ada", "bob"))
    store.within(user="ada").add(success("alpha"))
    store.within(user="bob").add(success("bravo"))
    ours = CFGMMemory(Teacher(), store)
    assert [tip.task for tip in ours.extract_tips(config=ada)] == ["alpha"]
    assert [tip.task for tip in ours.extract_tips(config=bob)] == ["bravo"]
    assert [
        shown
        for shown in ours.model.documents
        if not ("known_tips" in shown and not shown["known_tips"])
    ] == []


def test_known_tips_are_shown_and_those_that_hold_are_kept_with_the_task_too():
    ours = memory(success("alpha"), model=Teacher(followed=[1, 99]))
    (known,) = ours.extract_tips()
    ours.experience.add(success("bravo"))
    tips = ours.extract_tips()
    assert ours.model.documents[-1]["known_tips"] == [
        {"number": 1, "tip": known.advice}
    ]
    assert len(tips) == 2
    assert ours.recall("bravo", 1).tips == (known, tips[1])
    assert ours.recall("alpha", 1).tips == (known,)


def test_a_tip_that_repeats_one_is_not_kept_twice():
    same = {"tips": [tip_reply("Pull the red lever.", quote="pull")], "followed": []}
    other = tip_reply("Pull the RED lever!", quote="pull", reasoning="other")
    again = {
        "tips": [other, tip_reply("Shut it.", "the wind blows", quote="pull")],
        "followed": [],
    }
    tips = extracted(same, again, trajectories=[success("alpha"), success("bravo")])
    assert [(tip.text, tip.reasoning, tip.task) for tip in tips] == [
        ("Pull the red lever.", "r", "alpha"),
        ("Shut it.", "r", "bravo"),
    ]


def test_five_by_comparison_and_three_from_success_at_the_most():
    words = [*NAMES, "india", "juliet"]
    many = {"tips": [tip_reply(f"Use {word}.", word, quote="pull") for word in words]}
    more = {
        "tips": [
            tip_reply(f"Mind {word} and {word[::-1]}.", word[::-1], quote="pull")
            for word in words
        ]
    }
    more["followed"] = []
    tips = extracted(many, more, trajectories=[failure("alpha"), success("alpha")])
    assert [tip.source for tip in tips] == [COMPARED] * 5 + [PRAISED] * 3


def test_tools_are_those_that_the_text_names_as_whole_words():
    named = tip_reply("Call act, then react; an action is no act_two.", quote="pull")
    reply = {
        "tips": [named, tip_reply("Acting.", "it rains", quote="pull")],
        "followed": [],
    }
    assert [tip.tools for tip in extracted(reply)] == [("act",), ()]


@pytest.mark.parametrize(
    "reply",
    [
        "No.",
        "",
        "1. Pull.",
        {"tips": ["Pull."]},
        {"tips": [7, {}]},
        {"tips": None},
        {"verdict": "good"},
        OSError("down"),
    ],
)
def test_replies_that_hold_none_are_asked_for_again_and_given_up(reply, caplog):
    with caplog.at_level(logging.CRITICAL):
        assert extracted(reply, reply) == []


def test_that_there_is_nothing_new_is_an_answer():
    ours = memory(
        success("alpha"),
        model=ScriptedChatModel(replies=[{"tips": [], "followed": []}]),
    )
    assert ours.extract_tips() == ours.extract_tips() == []


def tip(text, when="", tools=()):
    return Tip(text, "r", "success", "Boil water.", tools, (), when)


LID = tip("Use a lid.", "the stove is weak")


def test_a_tip_says_when_it_applies_and_is_known_by_what_it_says():
    assert LID.advice == "When the stove is weak: Use a lid."
    assert tip("Use a lid.").advice == "Use a lid."
    assert LID.id == replace(LID, reasoning="Other.").id != tip("Stir.").id


def test_a_condition_is_read_without_the_word_that_opens_it():
    (taken,) = extracted(
        {
            "tips": [tip_reply("Use a lid.", "When the stove is weak,", quote="pull")],
            "followed": [],
        }
    )
    assert taken.advice == LID.advice


ORDER = attempt(
    "Return order 7781.",
    ("return #W77812", "Refused: shipped on Monday."),
    ("cancel", "Done."),
)


@pytest.mark.parametrize(
    ("form", "kept"),
    [
        ({}, True),
        (
            {"bears_out": [{"tool": "act", "quote": "refused  SHIPPED on"}]},
            True,
        ),  # as words, from the result
        (
            {
                "bears_out": [
                    {"tool": "act", "quote": "never said"},
                    {"tool": "act", "quote": "Done."},
                ]
            },
            True,
        ),
        ({"bears_out": [{"tool": "act", "quote": "shipped on Tuesday"}]}, False),
        ({"bears_out": [{"tool": "refund", "quote": "shipped on Monday"}]}, False),
        ({"bears_out": [{"tool": "act", "quote": "..."}]}, False),
        ({"bears_out": []}, False),
        ({"when": " "}, False),
        (
            {"when": "order W77812 is refused"},
            False,
        ),  # one thing's identifier helps with no other
        ({"tip": "Ask for W77812 again."}, False),
    ],
)
def test_a_tip_is_dropped_without_a_condition_without_evidence_in_the_run_or_about_one_thing(
    form, kept
):
    reply = {
        "tips": [tip_reply("Cancel it.", "it was shipped", quote="return") | form],
        "followed": [],
    }
    assert len(extracted(reply, trajectories=[ORDER])) == kept


def test_the_tips_for_a_task_are_those_whose_conditions_stand_in_it():
    stove, flight = LID, tip("Ask for a date.", "a flight has no return date")
    assert tips_for(
        [stove, flight, tip("Be kind.")], "The weak stove does not get the water hot."
    ) == [stove]
    assert tips_for(
        [stove, flight], "Book a flight to Rome; the return date is open."
    ) == [flight]
    assert tips_for([stove, flight], "Paint the fence.") == []


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("Close the red valve before you check the small gauge!", True),
        ("close the RED valve, before you check the small gauge", True),
        (
            "Close the red valve before you check the small gauge in the cellar and the attic.",
            False,
        ),
        ("Close the blue valve before you check the small gauge.", False),
        ("Close the red valve after you check the small gauge.", False),
        ("Do not close the red valve before you check the small gauge.", False),
    ],
)
def test_tips_in_the_same_words_are_one(other, same):
    one = tip("Close the red valve before you check the small gauge.")
    assert len(tips_module.distinct([one, tip(other)])) == 2 - same
