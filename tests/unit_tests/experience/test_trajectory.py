"""Trajectories from LangChain messages, and back."""

import pytest
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_tooltree import Trajectory
from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.messages.tool_calls import Result

CONVERSATION = [
    SystemMessage("Be kind."),
    HumanMessage("Find it.", id="1"),
    AIMessage(
        "Both.",
        tool_calls=[
            {"name": "look", "args": {"place": "desk"}, "id": "a"},
            {"name": "look", "args": {"place": "shed"}, "id": "b"},
        ],
        usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    ),
    ToolMessage("Nothing.", tool_call_id="b", name="look", artifact={"seen": 0}),
    ToolMessage("It is locked.", tool_call_id="a", name="look", status="error"),
    AIMessage([{"type": "text", "text": "I did not find it."}]),
]


def test_a_trajectory_tells_what_was_called_and_what_came_of_it():
    trajectory = Trajectory.from_messages(CONVERSATION, success=False, id="7")

    assert (trajectory.id, trajectory.task, trajectory.success, trajectory.turns) == (
        "7",
        "Find it.",
        False,
        2,
    )
    assert [
        (step.arguments["place"], step.result, step.turn) for step in trajectory.calls
    ] == [
        ("desk", Result("It is locked.", "error"), 1),
        ("shed", Result("Nothing."), 1),
    ]


def test_it_gives_back_the_messages_that_it_was_made_from():
    assert Trajectory.from_messages(CONVERSATION).to_messages() == CONVERSATION


@pytest.mark.parametrize(
    "thing", ["hello", RemoveMessage(id="1"), {"role": "user", "content": "hello"}]
)
def test_only_messages_make_a_trajectory(thing):
    with pytest.raises(
        TrajectoryFormatError, match=f"made of messages, got {type(thing).__name__}"
    ):
        Trajectory.from_messages([thing])
