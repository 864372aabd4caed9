"""Environments: what `reset` and `step` return is read tolerantly."""

from typing import NamedTuple

import numpy as np
import pytest

from langchain_tooltree.cfgm.environment import Environment, Observed, as_text, closing, is_environment, read_step
from langchain_tooltree.errors import ConfigurationError


class NamedStep(NamedTuple):
    observation: str
    reward: float
    done: bool
    info: dict


@pytest.mark.parametrize(
    ("brought", "read"),
    [
        (("seen", 0.5, False), Observed("seen", 0.5)),
        (("seen", 1, True, {"score": 1}), Observed("seen", 1.0, done=True)),
        (("seen", 0.0, False, True, {}), Observed("seen", 0.0, done=True)),
        (("seen", 0.0, True, False, {}), Observed("seen", 0.0, done=True)),
        (("seen", None, False), Observed("seen")),
        (("seen", float("nan"), False), Observed("seen")),
        (("seen", "much", False), Observed("seen")),
        (("seen", np.float64(0.25), np.bool_(True)), Observed("seen", 0.25, done=True)),
        ((["seen"], (1.0,), [True], {"won": [True]}), Observed("seen", 1.0, done=True)),
        ((np.array(["seen"]), np.array([1.0]), np.array([False]), {}), Observed("seen", 1.0)),
        (NamedStep("seen", 0.5, True, {}), Observed("seen", 0.5, done=True)),
        ({"observation": "seen", "reward": 2, "done": True}, Observed("seen", 2.0, done=True)),
        ({"observation": {"room": "hall"}}, Observed('{"room": "hall"}')),
        ("seen", Observed("seen")),
        (None, Observed("")),
        ({"room": "hall"}, Observed('{"room": "hall"}')),
    ],
)
def test_what_a_step_returns_is_read(brought, read):
    assert read_step(brought) == read


@pytest.mark.parametrize("brought", [(), ("seen",), ("seen", True), tuple("abcdef")])
def test_tuples_of_other_lengths_are_refused_with_a_remedy(brought):
    with pytest.raises(ConfigurationError, match="observation, reward, done"):
        read_step(brought)


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
        (lambda task: [f"to {task}"], "to leave"),
        (lambda task: ("a", "b"), '["a", "b"]'),
        (lambda task: (["seen"], {"won": [False]}), "seen"),
        (dict, "{}"),
    ],
)
async def test_an_episode_begins_with_or_without_the_task(drive, reset, observation):
    if reset is dict:
        reset = lambda task: {}  # noqa: E731 - an empty observation
    assert await drive(Environment(Own(reset)).resetting("leave")) == observation


async def test_an_error_inside_reset_is_not_taken_for_a_missing_argument(drive):
    def reset(task):
        msg = "broken"
        raise TypeError(msg)

    with pytest.raises(TypeError, match="broken"):
        await drive(Environment(Own(reset)).resetting("leave"))


async def test_actions_may_be_awaited(drive):
    class Async(Own):
        async def step(self, action):
            return action.upper(), 1, True

    assert await drive(Environment(Async(None)).stepping("go")) == Observed("GO", 1.0, done=True)


def test_objects_with_reset_and_step_are_environments_and_classes_are_not():
    assert is_environment(Own(print))
    assert not is_environment(Own)
    assert not is_environment(print)
    assert not is_environment(Own(None))


async def test_what_has_no_close_needs_none(drive):
    await drive(closing(Own(print)))
