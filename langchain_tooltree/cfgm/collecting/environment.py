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


STEP_LENGTHS = (3, 4, 5)
"""Lengths of what `step` returns as values in a row."""

OBSERVATION_NAMES = ("observation", "obs")


class UnreadableStepError(ConfigurationError):
    """An environment has returned something that cannot be read as a step; the message says what it should return."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a step brought.

    Attributes:
        observation: What there is to see, as text.
        reward: The reward of this step; `None` if there is none.
        done: Whether the episode is over.
        truncated: Whether it was cut off, by a limit of the environment, before its end.
    """

    observation: str
    reward: float | None = None
    done: bool = False
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment with `reset` and `step`, sync or async.

    Args:
        world: `reset(task)` returns an observation, or one and an info; `reset()` will do, as will one whose first
            argument can be left out and is not called `task`: it is called without. `step(action)` returns
            observation, reward, done and perhaps an info; or the five values of gymnasium; or the same as a mapping or
            an object; or the observation alone.
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
        brought = yield FunctionStep(reset if _takes_task(reset) else lambda _: reset(), task)
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
            UnreadableStepError: If `step` returned something that cannot be read.
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
        brought: Three, four (with an info) or five values (gymnasium), as a tuple or as a list of which the third is
            a bool; a mapping or an object with `observation` or `obs`, and perhaps `reward` and `done`, or `terminated`
            and `truncated`; or the observation alone. One-element lists, which environments for batches return, count
            as their element.

    Returns:
        What the step brought.

    Raises:
        UnreadableStepError: If it is a tuple of another length, or that of several episodes at once.
    """
    match tuple(brought) if _is_listed_step(brought) else brought:
        case tuple((observation, reward, done)) | tuple((observation, reward, done, _)):
            return _observed(observation, reward, done)
        case tuple((observation, reward, terminated, truncated, _)):
            return _observed(observation, reward, terminated, truncated)
        case tuple():
            msg = (
                f"step returned {len(brought)} values: {brought!r:.120}. "
                "Return (observation, reward, done), with an info if you like, or gymnasium's five values."
            )
            raise UnreadableStepError(msg)
    held = dict(brought) if isinstance(brought, Mapping) else _attributes(brought)
    seen = next((name for name in OBSERVATION_NAMES if name in held), None)
    if seen is None or not (isinstance(brought, Mapping) or held.keys() & {"done", "terminated"}):
        return Observed(as_text(brought))
    truncated = _truth(held.get("truncated"))
    terminated = held.get("terminated", _truth(held.get("done")) and not truncated)
    return _observed(held[seen], held.get("reward"), terminated, truncated)


def _attributes(brought: object) -> dict[str, Any]:
    names = (*OBSERVATION_NAMES, "reward", "done", "terminated", "truncated")
    return {name: getattr(brought, name) for name in names if hasattr(brought, name)}


def _observed(observation: Any, reward: Any, done: Any, truncated: Any = None) -> Observed:
    ended, cut_off = _truth(done), _truth(truncated)
    return Observed(as_text(observation), _reward(reward), done=ended or cut_off, truncated=cut_off and not ended)


def _is_listed_step(brought: Any) -> bool:
    """Whether a list is a step, as it comes from a server that speaks JSON, and not an observation."""
    return isinstance(brought, list) and len(brought) in STEP_LENGTHS and isinstance(brought[2], bool | np.bool_)


def as_text(observation: Any) -> str:
    """An observation as text: data as JSON, and anything else as it prints itself."""
    observation = _single(observation)
    if observation is None:
        return ""
    if isinstance(observation, Mapping | list | tuple):
        return json.dumps(observation, ensure_ascii=False, default=str)
    return str(observation)


def _takes_task(function: Any) -> bool:
    """Whether a `reset` is to be told the task; the first argument of gymnasium's is a seed, and can be left out."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some built-in functions have no signature
        return True
    first = next(iter(parameters), None)
    if first is None or first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD):
        return False
    return first.default is first.empty or first.name == "task"


def _single(value: Any) -> Any:
    """The element of a list of one; anything else as it is."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    alone = isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) == 1
    return value[0] if alone else value


def _reward(value: Any) -> float | None:
    try:
        reward = float(_single(value))
    except (OverflowError, TypeError, ValueError):
        return None
    return None if math.isnan(reward) else reward


def _truth(value: Any) -> bool:
    alone = _single(value)
    if isinstance(alone, Sequence):
        msg = (
            f"step says {value!r:.80} where it says whether the episode is over. Return one bool; an environment that "
            "plays several episodes at once must be made with a batch of one."
        )
        raise UnreadableStepError(msg)
    return bool(alone)
