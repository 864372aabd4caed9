"""What ScienceWorld's answers mean, and how its actions become tool calls. No Java is run."""

import pytest

from tests.benchmarks.scienceworld_world import action_of, call_of, is_refusal

AMBIGUOUS = "Ambiguous request: Please enter the number for the action you intended (or blank to cancel):\n0:\tlook at door\n"
ROOM = "This room is called the hallway. In it, you see: \n\tthe agent\nYou also see:\n\tA door (that is not open)"


@pytest.mark.parametrize(
    "answer",
    [
        "No known action matches that input.",
        "Unknown action.  Type 'help' for a list of actions, and 'objects' for a list of possible object referents. ",
        AMBIGUOUS,
        "The door is not open.",
        "The table is not moveable.",
        "The apple is not something that can be activated.",
        "It's not clear how to read that.",
        "You can't move something into itself.",
        "The stove appears broken, and can't be activated or deactivated.",
    ],
)
def test_what_the_environment_refuses_is_an_error(answer):
    assert is_refusal(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "The door is already open.",
        "The freezer is already activated.",
        "The door is now open.",
        "You move to the kitchen.",
        "a freezer, which is turned off. The freezer door is closed. ",
        "the thermometer measures a temperature of -3 degrees celsius",
        ROOM,
    ],
)
def test_what_is_so_already_and_what_there_is_to_see_is_no_error(answer):
    assert not is_refusal(answer)


@pytest.mark.parametrize(
    "action", ["look around", "inventory", "wait", "wait1", "open door to kitchen", "0"]
)
def test_an_action_and_its_tool_call_are_two_ways_of_saying_the_same(action):
    assert action_of(*call_of(action)) == action
