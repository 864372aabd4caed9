"""Recall inside a running graph, where memory that fails must not stop the run."""

import logging
from dataclasses import replace

from langchain_tooltree.cfgm.memory import CFGMMemory
from langchain_tooltree.cfgm.recollection import Recollection
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.flows import Flow
from langchain_tooltree.streaming import Writer, telling

logger = logging.getLogger(__name__)

DEFAULT_K = 2
"""Experiences that are recalled, as in the paper."""


def check_memory(memory: object) -> None:
    """Tell whoever passes something else than memory.

    Args:
        memory: What was passed.

    Raises:
        ConfigurationError: If it is neither a `CFGMMemory` nor `None`.
    """
    if memory is not None and not isinstance(memory, CFGMMemory):
        msg = f"memory must be a CFGMMemory, got {type(memory).__name__}. Make one: CFGMMemory(model, store)."
        raise ConfigurationError(msg)


def reminding(
    memory: CFGMMemory, task: str, *, k: int, own: str | None = None, writer: Writer | None
) -> Flow[Recollection]:
    """Recall what is known of tasks like this one, as a flow.

    Args:
        memory: Knows. The variables of its namespace are filled from the graph that is running.
        task: What was asked for.
        k: How many experiences to recall at the most.
        own: Id under which this conversation itself is remembered; it needs no reminder of what it shows.
        writer: Gets the event; without one, nothing is told.

    Returns:
        The experiences; none if memory fails, which is logged.
    """
    try:
        recollection = yield from memory.recalling(task, k if own is None else k + 1)
    except Exception as error:  # noqa: BLE001 - the store may be down, and the agent can do without
        logger.warning("Nothing was recalled: %s: %s", type(error).__name__, error)
        return Recollection(task)
    others = tuple(each for each in recollection.experiences if each.trajectory.id != own)
    recollection = replace(recollection, experiences=others[:k])
    yield from telling(
        {
            "type": "recall",
            "task": task,
            "experiences": [experience.trajectory.task for experience in recollection.experiences],
            "tips": [tip.text for tip in recollection.tips],
        },
        writer,
    )
    return recollection
