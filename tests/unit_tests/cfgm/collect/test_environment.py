"""Environments: what `reset` and `step` return is read tolerantly."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.internals.cfgm import (
    StepReading,
    UnreadableStepError,
    as_text,
    closing,
    is_environment,
    read_step,
    resetting,
    stepping,
)


class NamedStep(NamedTuple):
    observation: str
    reward: float
    done: bool
    info: dict


@dataclass
class Result:
    observation: Any
    reward: float
    done: bool


@dataclass
class Scene:
    """An observation that is an object, and no step."""

    observation: str


@pytest.mark.parametrize(
    ("brought", "read"),
    [
        (("seen", 0.5, False), StepReading("seen", 0.5)),
        (("seen", 1, True, {"score": 1}), StepReading("seen", 1.0, done=True)),
        (("seen", 0.0, False, True, {}), StepReading("seen", 0.0, done=True, truncated=True)),
        (("seen", 0.0, True, False, {}), StepReading("seen", 0.0, done=True)),
        (("seen", None, False), StepReading("seen")),
        (("seen", float("nan"), False), StepReading("seen")),
        (("seen", "much", False), StepReading("seen")),
        (("seen", np.float64(0.25), np.bool_(True)), StepReading("seen", 0.25, done=True)),
        ((["seen"], (1.0,), [True], {"won": [True]}), StepReading("seen", 1.0, done=True)),
        ((np.array(["seen"]), np.array([1.0]), np.array([False]), {}), StepReading("seen", 1.0)),
        (NamedStep("seen", 0.5, True, {}), StepReading("seen", 0.5, done=True)),
        ({"observation": "seen", "reward": 2, "done": True}, StepReading("seen", 2.0, done=True)),
        ({"observation": {"room": "hall"}}, StepReading('{"room": "hall"}')),
        (("seen", 1.0, True, True, {}), StepReading("seen", 1.0, done=True)),
        (["seen", 1.0, True], StepReading("seen", 1.0, done=True)),
        (["seen", 1.0, False, {}], StepReading("seen", 1.0)),
        (["seen", 1.0, False, True, {}], StepReading("seen", 1.0, done=True, truncated=True)),
        (["door", "lamp", "key"], StepReading('["door", "lamp", "key"]')),
        (
            {"observation": "seen", "reward": 2, "terminated": True, "truncated": False},
            StepReading("seen", 2.0, done=True),
        ),
        (
            {"observation": "seen", "terminated": False, "truncated": True},
            StepReading("seen", done=True, truncated=True),
        ),
        ({"observation": "seen", "done": True, "truncated": True}, StepReading("seen", done=True, truncated=True)),
        ({"obs": "seen", "reward": 2, "done": True}, StepReading("seen", 2.0, done=True)),
        (Result("seen", 0.5, True), StepReading("seen", 0.5, done=True)),
        (Scene("seen"), StepReading("Scene(observation='seen')")),
        (("seen", 10**400, False), StepReading("seen")),
        ("seen", StepReading("seen")),
        (None, StepReading("")),
        ({"room": "hall"}, StepReading('{"room": "hall"}')),
    ],
)
def test_what_a_step_returns_is_read(brought, read):
    assert read_step(brought) == read


@pytest.mark.parametrize("brought", [(), ("seen",), ("seen", True), tuple("abcdef")])
def test_tuples_of_other_lengths_are_refused_with_a_remedy(brought):
    with pytest.raises(UnreadableStepError, match="observation, reward, done"):
        read_step(brought)


@pytest.mark.parametrize("over", [(False, False), [True, False], np.array([False, False]), ()])
def test_several_episodes_at_once_are_refused_with_a_remedy(over):
    with pytest.raises(UnreadableStepError, match="batch of one"):
        read_step((["a", "b"], (0.0, 0.0), over))


def test_observations_that_are_no_text_become_some():
    assert as_text(7) == "7"
    assert as_text(["a", "b"]) == '["a", "b"]'
    assert as_text(["only"]) == "only"
    assert as_text(np.array(3)) == "3"
    assert as_text({"é": object}) == f'{{"é": "{object}"}}'


class Own:
    """An environment whose `reset` does what it is told."""

    def __init__(self, reset):
        self.reset = reset

    def step(self, action):
        return action


@pytest.mark.parametrize(
    ("reset", "observation"),
    [
        (lambda task: f"to {task}", "to leave"),
        (lambda task: (f"to {task}", {"info": 1}), "to leave"),
        (lambda: "somewhere", "somewhere"),
        (lambda *, seed=None, options=None: ("somewhere", {}), "somewhere"),
        (lambda task=None: f"to {task}", "to leave"),
        (lambda seed=None, options=None: (f"seed {seed}", {}), "seed None"),
        (lambda goal, seed=None: f"to {goal}", "to leave"),
        (lambda *given: f"to {given[0]}", "to leave"),
        (lambda task: [f"to {task}"], "to leave"),
        (lambda task: ("a", "b"), '["a", "b"]'),
        (lambda task: (["seen"], {"won": [False]}), "seen"),
        (dict, "{}"),
    ],
)
async def test_an_episode_begins_with_or_without_the_task(drive, reset, observation):
    if reset is dict:
        reset = lambda task: {}  # noqa: E731 - an empty observation
    assert await drive(resetting(Own(reset), "leave")) == observation


async def test_an_error_inside_reset_is_not_taken_for_a_missing_argument(drive):
    def reset(task):
        msg = "broken"
        raise TypeError(msg)

    with pytest.raises(TypeError, match="broken"):
        await drive(resetting(Own(reset), "leave"))


async def test_actions_may_be_awaited(drive):
    class Async(Own):
        async def step(self, action):
            return action.upper(), 1, True

    assert await drive(stepping(Async(None), "go")) == StepReading("GO", 1.0, done=True)


def test_objects_with_reset_and_step_are_environments_and_classes_are_not():
    assert is_environment(Own(print))
    assert not is_environment(Own)
    assert not is_environment(print)
    assert not is_environment(Own(None))


async def test_what_has_no_close_needs_none(drive):
    await drive(closing(Own(print)))
