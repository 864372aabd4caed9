"""Calls that are made again and again."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from runs_to_read import calls

from langchain_tooltree import AnomalyDetector
from langchain_tooltree.anomaly.rules import acknowledges

LOOK = ("look", {}, "A table and a chair.")


def kind(*pairs, **options):
    anomaly = AnomalyDetector(**options).check(calls(*pairs))
    return anomaly and anomaly.kind


def test_the_same_call_with_the_same_outcome_is_a_repetition():
    assert kind(LOOK, LOOK) is None
    assert kind(LOOK, LOOK, LOOK) == "repetition"


def test_a_repetition_says_what_was_called_how_often_and_what_came():
    evidence = AnomalyDetector().check(calls(LOOK, LOOK, LOOK)).evidence
    assert "`look()`" in evidence
    assert "3 times" in evidence
    assert "A table and a chair." in evidence


def test_another_outcome_or_another_call_in_between_ends_a_repetition():
    changed = ("look", {}, "A table.")
    assert kind(LOOK, LOOK, changed, LOOK) is None
    assert (
        kind(LOOK, ("open", {"what": "box"}, "The box is now open."), LOOK, LOOK)
        is None
    )


def test_a_call_that_is_confirmed_is_a_repetition_like_any_other():
    press = ("press", {"button": "next"}, "OK")
    assert kind(*[press] * 2) is None
    assert kind(*[press] * 3) == "repetition"


def test_cycles_that_are_confirmed_take_twice_as_long():
    turn = [
        ("fill", {"what": "jug"}, "You fill the jug."),
        ("pour", {"into": "pot"}, "You pour it into the pot."),
    ]
    assert kind(*turn * 5) is None
    assert kind(*turn * 6) == "cycle"


@pytest.mark.parametrize("poller", ["look", "lo*", "look()"])
def test_pollers_may_be_called_again_and_again(poller):
    assert kind(*[LOOK] * 9, pollers=[poller]) is None


def test_a_poller_may_be_a_kind_of_call():
    wait = ("act", "wait 5", "You wait and see a bird.")
    assert kind(*[wait] * 9, pollers=["act(wait*)"]) is None
    assert kind(*[wait] * 9, pollers=["act(look*)"]) == "repetition"


@pytest.mark.parametrize("period", [2, 3, 4])
def test_short_cycles_are_found(period):
    turn = [
        ("look", {"at": number}, f"Thing {number} stands there.")
        for number in range(period)
    ]
    assert kind(*turn * 2) is None
    assert kind(*turn * 3) == "cycle"


def test_a_cycle_with_a_poller_waits_for_something():
    turn = [("act", "wait", "You wait and see a bird."), LOOK]
    assert kind(*turn * 4, pollers=["act(wait)"]) is None


def test_different_calls_with_one_outcome_stagnate():
    searches = [
        ("search", {"query": f"word {number}"}, "The page is blank.")
        for number in range(5)
    ]
    assert kind(*searches[:4]) is None
    assert kind(*searches) == "stagnation"


@pytest.mark.parametrize(
    "outcome",
    [
        "OK",
        "Done.",
        "",
        "null",
        "None",
        "true",
        "Message sent.",
        "Taken.",
        '{"success": true}',
    ],
)
def test_writes_that_all_answer_the_same_are_normal(outcome):
    assert kind(*[("write", {"line": number}, outcome) for number in range(12)]) is None


def test_parallel_calls_do_not_know_of_each_other():
    made = [
        {"name": "search", "args": {"query": str(number)}, "id": str(number)}
        for number in range(6)
    ]
    answers = [
        ToolMessage("No results found.", tool_call_id=str(number), name="search")
        for number in range(6)
    ]
    assert (
        AnomalyDetector().check(
            [HumanMessage("Go"), AIMessage("", tool_calls=made), *answers]
        )
        is None
    )


def test_what_a_user_asks_again_is_no_loop():
    messages = [message for _ in range(4) for message in calls(LOOK)]
    assert AnomalyDetector().check(messages) is None


@pytest.mark.parametrize(
    "text", ["", "OK", "false", "12.5", "You go north.", "The file was deleted."]
)
def test_confirmations_are_told_from_news(text):
    assert acknowledges(text)
    assert not acknowledges("Nothing was added.")
    assert not acknowledges("[]")
