"""Environments that are reset and stepped, read tolerantly: those of ALFWorld, ScienceWorld, gymnasium and your own."""

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.flows import Flow, FunctionStep

OBSERVATION_PARTS = 2
"""Length of what `reset` returns with information beside the observation."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a step brought.

    Attributes:
        observation: What there is to see, as text.
        reward: The reward of this step; `None` if there is none.
        done: Whether the episode is over.
    """

    observation: str
    reward: float | None = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment with `reset` and `step`, sync or async.

    Args:
        world: `reset(task)` returns an observation, or one and an info; `reset()` without a task will do.
            `step(action)` returns observation, reward, done and perhaps an info; or the five values of gymnasium; or
            the observation alone.
    """

    world: Any

    def resetting(self, task: Any) -> Flow[str]:
        """Begin an episode, as a flow.

        Args:
            task: What the user passed as the task.

        Returns:
            The first observation.
        """
        reset = self.world.reset
        brought = yield FunctionStep(reset if _takes_argument(reset) else lambda _: reset(), task)
        if isinstance(brought, tuple) and len(brought) == OBSERVATION_PARTS and isinstance(brought[1], Mapping):
            brought = brought[0]
        return as_text(brought)

    def stepping(self, action: str) -> Flow[Observed]:
        """Take an action, as a flow.

        Args:
            action: The action, in words.

        Returns:
            What it brought.

        Raises:
            ConfigurationError: If `step` returned something that cannot be read.
        """
        return read_step((yield FunctionStep(self.world.step, action)))


def is_environment(candidate: object) -> bool:
    """Whether it is an environment: an object, not a class, that can be reset and stepped."""
    able = all(callable(getattr(candidate, name, None)) for name in ("reset", "step"))
    return able and not isinstance(candidate, type)


def closing(world: object) -> Flow[None]:
    """Close a world, as a flow, if it has a `close` or `aclose`."""
    close = getattr(world, "aclose", None) or getattr(world, "close", None)
    if callable(close):
        yield FunctionStep(lambda _: close(), None)


def read_step(brought: Any) -> Observed:
    """Read what a `step` returned.

    Args:
        brought: A tuple of three, four (with an info) or five values (gymnasium); a mapping with `observation`, and
            perhaps `reward` and `done`; or the observation alone. One-element lists, which environments for batches
            return, count as their element.

    Returns:
        What the step brought.

    Raises:
        ConfigurationError: If it is a tuple of another length.
    """
    match brought:
        case tuple((observation, reward, done)) | tuple((observation, reward, done, _)):
            return Observed(as_text(observation), _reward(reward), _truth(done))
        case tuple((observation, reward, terminated, truncated, _)):
            return Observed(as_text(observation), _reward(reward), _truth(terminated) or _truth(truncated))
        case {"observation": observation, **rest}:
            return Observed(as_text(observation), _reward(rest.get("reward")), _truth(rest.get("done", False)))
        case tuple():
            msg = (
                f"step returned {len(brought)} values: {brought!r:.120}. "
                "Return (observation, reward, done), with an info if you like, or gymnasium's five values."
            )
            raise ConfigurationError(msg)
    return Observed(as_text(brought))


def as_text(observation: Any) -> str:
    """An observation as text: data as JSON, and anything else as it prints itself."""
    observation = _single(observation)
    if observation is None:
        return ""
    if isinstance(observation, Mapping | list | tuple):
        return json.dumps(observation, ensure_ascii=False, default=str)
    return str(observation)


def _takes_argument(function: Any) -> bool:
    """Whether a function can be called with one positional argument; gymnasium's `reset` cannot."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # some built-in functions have no signature
        return True
    return True


def _single(value: Any) -> Any:
    """The element of a list of one; anything else as it is."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    alone = isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) == 1
    return value[0] if alone else value


def _reward(value: Any) -> float | None:
    try:
        reward = float(_single(value))
    except (TypeError, ValueError):
        return None
    return None if math.isnan(reward) else reward


def _truth(value: Any) -> bool:
    return bool(_single(value))
