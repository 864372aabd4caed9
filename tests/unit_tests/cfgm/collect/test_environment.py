"""Environments: what `reset` and `step` return is read."""

from typing import NamedTuple

import numpy as np
import pytest
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import CFGMMemory
from langchain_tooltree.cfgm.collect import (
    StepResult,
    UnfinishedError,
    is_environment,
    read_step,
)
from langchain_tooltree.testing import ScriptedChatModel


class NamedStep(NamedTuple):
    observation: str
    reward: float
    done: bool
    info: dict


@pytest.mark.parametrize(
    ("brought", "read"),
    [
        (("seen", 0.5, False), StepResult("seen", 0.5)),
        (("seen", 1, True, {"score": 1}), StepResult("seen", 1.0, done=True)),
        (
            ("seen", 0.0, False, True, {}),
            StepResult("seen", 0.0, done=True, truncated=True),
        ),
        (("seen", 0.0, True, False, {}), StepResult("seen", 0.0, done=True)),
        (("seen", None, False), StepResult("seen")),
        (
            ("seen", np.float64(0.25), np.bool_(True)),
            StepResult("seen", 0.25, done=True),
        ),
        (NamedStep("seen", 0.5, True, {}), StepResult("seen", 0.5, done=True)),
        (("seen", 1.0, True, True, {}), StepResult("seen", 1.0, done=True)),
        (["door", "lamp", "key"], StepResult('["door", "lamp", "key"]')),
        ("seen", StepResult("seen")),
        (None, StepResult("")),
        ({"room": "hall"}, StepResult('{"room": "hall"}')),
    ],
)
def test_what_a_step_returns_is_read(brought, read):
    assert read_step(brought) == read


@pytest.mark.parametrize("brought", [(), ("seen",), ("seen", True), tuple("abcdef")])
def test_tuples_of_other_lengths_are_refused_with_a_remedy(brought):
    with pytest.raises(UnfinishedError, match="observation, reward, done"):
        read_step(brought)


class Own:
    """An environment whose `reset` brings what it is told to."""

    def __init__(self, brought):
        self.reset = brought and (lambda task: brought)
        self.step = print


@pytest.mark.parametrize(
    ("brought", "observation"),
    [
        ("a hall", "a hall"),
        (("a hall", {"info": 1}), "a hall"),
        (("a", "b"), '["a", "b"]'),
        ({"room": "hall"}, '{"room": "hall"}'),
    ],
)
def test_an_episode_begins_with_what_reset_brings(brought, observation):
    model = ScriptedChatModel(replies=["I am there."])
    run = CFGMMemory(model, InMemoryStore()).act(Own(brought), "leave", lambda *_: True)
    assert run.messages[0]["content"] == f"leave\n\n{observation}"


def test_objects_with_reset_and_step_are_environments_and_classes_are_not():
    assert is_environment(Own("seen"))
    assert not is_environment(Own)
    assert not is_environment(print)
    assert not is_environment(Own(None))
