"""Attempts in environments: a plain ReAct loop that makes something of whatever the model says."""

from collections.abc import Mapping

import pytest
from langchain_core.messages import AIMessage
from little_worlds import empty_store

from langchain_tooltree import CFGMMemory
from langchain_tooltree.testing import ScriptedChatModel


class Hall:
    """Says what was done; `leave` ends the episode."""

    def __init__(self, reward=1.0):
        self.reward = reward
        self.actions = []

    def reset(self, task):
        return "A hall."

    def step(self, action):
        self.actions.append(action)
        if action == "explode":
            msg = "boom"
            raise ValueError(msg)
        if action == "vanish":
            msg = "gone"
            raise ConnectionError(msg)
        return f"You {action}.", self.reward, action == "leave"


class Server(Hall):
    """Returns what it is told to."""

    def __init__(self, *brought):
        super().__init__()
        self.brought = list(brought)

    def step(self, action):
        return self.brought.pop(0)


def act(*actions, name="act", key="action"):
    calls = [
        {"name": name, "args": {key: action}, "id": f"call_{n}"}
        for n, action in enumerate(actions)
    ]
    return AIMessage("", tool_calls=calls)


def play(*replies, world=None, **options):
    """One attempt with these replies; returns the trajectory, if there is one, the world, and the report."""
    world = world or Hall()
    model, experience = (
        ScriptedChatModel(
            replies=[*replies, {"what_went_wrong": "a", "next_time": "b"}]
        ),
        empty_store(),
    )
    report = CFGMMemory(model, experience).collect(
        world, ["leave"], None, max_retries=0, **options
    )
    return next(iter(experience.trajectories()), None), world, report, model


def test_calls_are_carried_out_one_by_one():
    stored, world, _, _ = play(act("look"), act("leave"))
    assert world.actions == ["look", "leave"]
    assert stored.success is True
    assert stored.metadata["reward"] == 2.0
    assert [step.result.text for step in stored.calls] == ["You look.", "You leave."]


def test_several_calls_at_once_are_carried_out_in_order_until_it_is_over():
    stored, world, _, _ = play(act("look", "leave", "dance"))
    assert world.actions == ["look", "leave"]
    assert [step.result and step.result.text for step in stored.calls] == [
        "You look.",
        "You leave.",
        None,
    ]


def test_several_calls_at_once_stop_at_the_limit():
    stored, world, _, _ = play(act("a", "b", "c"), max_steps=2)
    assert world.actions == ["a", "b"]
    assert stored.success is False
    assert "limit of 2 steps" in stored.reasons


@pytest.mark.parametrize(
    "call", [act("leave", name="go"), act(" "), act("leave", key="verb")]
)
def test_a_call_that_cannot_be_carried_out_is_answered_with_what_can(call):
    stored, world, _, model = play(call, act("leave"))
    assert world.actions == ["leave"]
    assert "act(action=" in model.calls[1][-1].text
    assert [step.result.status for step in stored.calls] == ["error", "success"]


@pytest.mark.parametrize(
    ("reward", "success"), [(1.0, True), (0.0, False), (None, True), (-100.0, False)]
)
def test_without_an_evaluation_the_environment_decides(reward, success):
    stored, _, _, _ = play(act("leave"), world=Hall(reward))
    assert stored.success is success
    assert stored.metadata["reward"] == reward


def test_rewards_add_up_to_a_success_whatever_the_last_digit_of_a_float():
    stored, _, _, _ = play(*[act("look")] * 9, act("leave"), world=Hall(0.1))
    assert (stored.success, stored.metadata["reward"]) == (True, 1.0)


def test_a_world_that_raises_on_an_action_has_been_failed_in():
    stored, _, report, _ = play(act("look"), act("explode"))
    assert stored.success is False
    assert "boom" in stored.reasons
    assert "explode" in stored.reasons
    assert not report.unfinished


def test_a_world_that_cannot_be_reached_leaves_the_attempt_unfinished():
    stored, _, report, _ = play(act("look"), act("vanish"))
    assert stored is None
    assert "gone" in report.outcomes[0].problem


def test_the_result_tells_messages_reward_and_whether_it_is_over():
    seen = []

    def evaluate(task, result):
        assert isinstance(result, Mapping)
        seen.append(
            (
                result["reward"],
                result["done"],
                [message.type for message in result["messages"]],
            )
        )
        return True

    model = ScriptedChatModel(replies=[act("look"), act("leave")])
    CFGMMemory(model, empty_store()).collect(Hall(), ["leave"], evaluate)
    assert seen == [(2.0, True, ["human", "ai", "tool", "ai", "tool"])]


def test_an_episode_that_was_cut_off_has_not_succeeded_whatever_the_rewards():
    stored, _, _, _ = play(
        act("look"), world=Server(("You look.", 5.0, False, True, {}))
    )
    assert stored.success is False
    assert stored.metadata["reward"] == 5.0
    assert "was cut off" in stored.reasons


def test_evaluate_is_told_of_an_episode_that_was_cut_off_and_decides():
    model, experience = ScriptedChatModel(replies=[act("look")]), empty_store()
    world = Server(("You look.", 0.0, False, True, {}))
    report = CFGMMemory(model, experience).collect(
        world, ["leave"], lambda _, result: result["done"] and result["truncated"]
    )
    assert report.successes == 1


def test_a_step_that_cannot_be_read_leaves_its_task_unfinished_and_no_other():
    model, experience = (
        ScriptedChatModel(replies=[act("look"), act("leave")]),
        empty_store(),
    )
    worlds = iter([Server(("seen", 1.0)), Hall()])
    report = CFGMMemory(model, experience).collect(
        lambda _: next(worlds), ["leave", "go"], None, max_retries=0, max_concurrency=1
    )
    assert [outcome.success for outcome in report.outcomes] == [None, True]
    assert "gymnasium" in report.outcomes[0].problem


def test_a_model_that_cannot_be_asked_is_not_the_agents_fault():
    stored, _, report, _ = play(ValueError("no such model"))
    assert stored is None
    assert "no such model" in report.outcomes[0].problem
