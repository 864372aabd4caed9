"""What a user wants in the end: the task by which a run is found again."""

from langchain_core.messages import AIMessage, HumanMessage

from langchain_tooltree import Trajectory
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.request_summary import (
    MAX_AIM_CHARACTERS,
    summarize_requests,
)


def dialogue(*turns):
    return [
        message for turn in turns for message in (HumanMessage(turn), AIMessage("Hm."))
    ]


def test_greetings_and_names_are_skipped_and_later_wants_are_joined():
    turns = (
        "Hi!",
        "My name is Mia Li.",
        "Cancel my flight.",
        "Yes, please.",
        "Then book a train.",
        "Thank you!",
    )
    assert summarize_requests(turns) == "Cancel my flight. Then book a train."


def test_a_single_request_stands_as_it_is():
    assert (
        summarize_requests(["Hi! Cancel my flight, please. Thank you!"])
        == "Hi! Cancel my flight, please. Thank you!"
    )
    assert summarize_requests(["Hi!", "Hello?"]) == "Hi!"
    assert summarize_requests([]) == ""


def test_it_is_bounded_and_keeps_the_first_want_and_the_latest():
    turns = [
        f"Want number {number} is {'very ' * 20}important." for number in range(20)
    ]
    aim = summarize_requests(turns)
    assert len(aim) <= MAX_AIM_CHARACTERS
    assert aim.startswith("Want number 0 ")
    assert "Want number 19 " in aim
    assert "Want number 9 " not in aim


def test_a_run_and_a_conversation_have_the_same_aim():
    messages = dialogue("Hi, I need some help.", "Cancel my flight.")
    run = Trajectory.from_messages(messages)
    assert (run.task, run.aim) == ("Hi, I need some help.", "Cancel my flight.")
    assert Conversation(messages).aim == run.aim


def test_a_task_that_was_given_is_the_aim():
    run = Trajectory.from_messages(
        dialogue("Hi!", "Cancel my flight."), task="Get the money back."
    )
    assert run.aim == "Get the money back."


def test_a_run_without_its_dialogue_has_the_aim_of_its_task():
    assert Trajectory("t", "Cancel my flight.").aim == "Cancel my flight."
