"""Did an attempt succeed? Said by the user's `evaluate`, or by the environment."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from langchain_tooltree.cfgm.collecting.attempt import Run, UnfinishedError
from langchain_tooltree.cfgm.collecting.faults import told
from langchain_tooltree.cfgm.collecting.task import NamedTask, Task
from langchain_tooltree.experience.files import SUCCESS_REWARD
from langchain_tooltree.flows import Flow, FunctionStep

Evaluate = Callable[[Any, Any], bool | float | Awaitable[bool | float]]
"""A function of the user's, sync or async, from a task and a result to whether it succeeded, or a reward."""


def evaluating(evaluate: Evaluate | None, task: NamedTask, run: Run) -> Flow[tuple[bool, float | None, str]]:
    """Judge an attempt, as a flow.

    Args:
        evaluate: The user's function; the environment decides without one.
        task: The task.
        run: What the attempt came to.

    Returns:
        Whether it succeeded, its reward if it has one, and why.

    Raises:
        UnfinishedError: If the function raises, or returns neither a bool nor a number.
    """
    if run.problem:
        return False, run.reward, run.problem
    if evaluate is None:
        return bool(run.success), run.reward, _by_environment(run)

    def ask(given: str | Task) -> Any:
        return evaluate(given, run.result)

    try:
        said = yield FunctionStep(ask, task.given)
    except Exception as error:
        msg = f"evaluate raised {told(error)} for the task {task}"
        raise UnfinishedError(msg) from error
    match said:
        case bool() | np.bool_():
            success = bool(said)
            return success, run.reward, f"evaluate says that it {'succeeded' if success else 'failed'}."
        case int() | float() | np.number() if (reward := _finite(said)) is not None:
            return reward >= SUCCESS_REWARD, reward, f"Its reward is {reward:g}; {SUCCESS_REWARD:g} is a success."
    msg = f"evaluate returned {said!r:.80} for the task {task}. Return True, False or a reward (1 is a success)."
    raise UnfinishedError(msg)


def _finite(said: Any) -> float | None:
    """A number as a reward; `None` if it cannot be one."""
    try:
        reward = float(said)
    except (OverflowError, TypeError):  # too large for a float, or complex
        return None
    return reward if math.isfinite(reward) else None


def _by_environment(run: Run) -> str:
    if run.result["truncated"]:
        ended = "The environment cut the episode off before its end"
    elif run.result["done"]:
        ended = "The environment says that the task is over"
    else:
        ended = "The agent stopped before the end"
    return ended + (f"; the rewards add up to {run.reward:g}." if run.reward is not None else ".")
