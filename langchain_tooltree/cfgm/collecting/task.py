"""Task: what is to be tried while experience is collected."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from langchain_tooltree.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Task:
    """A training task.

    Attributes:
        text: What is asked for, as the agent gets to read it.
        id: Tells it from other tasks of the same text; may stay empty where the text does.
        data: Whatever the user's functions need to set up the world and to evaluate the result. It is not stored.
    """

    text: str
    id: str = ""
    data: Any = None


@dataclass(frozen=True, slots=True)
class NamedTask:
    """A task under the name by which its attempts are found again.

    Attributes:
        given: What the user passed: a text or a `Task`.
        text: Its text.
        id: Its id; empty if it has none.
    """

    given: str | Task
    text: str
    id: str

    def attempt_id(self, number: int) -> str:
        """The id of an attempt's trajectory: the same one in every collection.

        Args:
            number: Which attempt it is, from 1.

        Returns:
            The id.
        """
        canonical = json.dumps([self.id, self.text])
        name = hashlib.sha256(canonical.encode()).hexdigest()[:24]
        return f"collected-{name}-{number}"

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= SHOWN_TEXT else f"{self.text[:SHOWN_TEXT]}…"
        return f"{self.id}: {shown}" if self.id else shown


SHOWN_TEXT = 60
"""Characters of a task's text in messages and reports."""


def named(tasks: Iterable[str | Task]) -> list[NamedTask]:
    """Check tasks and name them.

    Args:
        tasks: Texts or `Task` records.

    Returns:
        The tasks, in order.

    Raises:
        ConfigurationError: If there are none, one of them is no task or says nothing, or two are the same.
    """
    if isinstance(tasks, str | Task) or not isinstance(tasks, Iterable):
        msg = f"tasks must be a list of texts or Task records, got {type(tasks).__name__}. Put a single task in a list."
        raise ConfigurationError(msg)
    found: dict[str, NamedTask] = {}
    ids: set[str] = set()
    for given in tasks:
        task = _named(given)
        if task.attempt_id(1) in found or (task.id and task.id in ids):
            msg = f"Two tasks are the same: {task}. Tell tasks with the same text apart: Task(text, id=...)."
            raise ConfigurationError(msg)
        found[task.attempt_id(1)] = task
        ids.add(task.id)
    if not found:
        msg = "tasks is empty: there is nothing to collect experience from. Pass texts or Task records."
        raise ConfigurationError(msg)
    return list(found.values())


def _named(given: Any) -> NamedTask:
    text, key = (given.text, given.id) if isinstance(given, Task) else (given, "")
    if not isinstance(text, str) or not text.strip() or not isinstance(key, str):
        msg = (
            f"A task must be a text that says something, or a Task with such a text and a str as id; got {given!r:.80}."
        )
        raise ConfigurationError(msg)
    return NamedTask(given, text, key)
