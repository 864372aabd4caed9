"""CollectionReport: what a collection of experience came to, and what it cost. Pure."""

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from operator import add
from typing import Any

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.text import cut, digest


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
    """A task under the name by which its attempts are recognised in the store."""

    given: str | Task  # what the user passed
    text: str
    id: str

    def attempt_id(self, number: int) -> str:
        """The id of the trajectory of its `number`-th attempt, from 1: the same in every collection."""
        return f"collected-{digest(json.dumps([self.id, self.text]), 24)}-{number}"

    def __str__(self) -> str:
        shown = cut(self.text, 60)  # in messages and reports
        return f"{self.id}: {shown}" if self.id else shown


def named(tasks: Iterable[str | Task]) -> list[NamedTask]:
    """Check tasks and name them; a `ConfigurationError` if there are none, one says nothing, or two are the same."""
    if isinstance(tasks, str | Task) or not isinstance(tasks, Iterable):
        msg = f"tasks must be a list of texts or Task records, got {type(tasks).__name__}. Put a single task in a list."
        raise ConfigurationError(msg)
    kept: dict[str, NamedTask] = {}
    for given in tasks:
        text, key = (given.text, given.id) if isinstance(given, Task) else (given, "")
        if not isinstance(text, str) or not text.strip() or not isinstance(key, str):
            msg = f"A task must be a text that says something, or a Task with one and a str as id; got {given!r:.80}."
            raise ConfigurationError(msg)
        task = NamedTask(given, text, key)
        if kept.setdefault(task.attempt_id(1), task) is not task:
            msg = f"Two tasks are the same: {task}. Tell tasks with the same text apart: Task(text, id=...)."
            raise ConfigurationError(msg)
    if not kept:
        msg = "tasks is empty: there is nothing to collect experience from. Pass texts or Task records."
        raise ConfigurationError(msg)
    return list(kept.values())


@dataclass(frozen=True, slots=True)
class Cost:
    """What model calls cost; tokens as far as the provider reports them."""

    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*map(add, astuple(self), astuple(other)))

    def __str__(self) -> str:
        return f"{self.model_calls:,} model calls, {self.input_tokens:,} tokens in, {self.output_tokens:,} out"


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What became of a task."""

    task: str
    id: str  # empty if it has none
    success: bool | None  # `None` while it can still be tried: something went wrong that is no fault of the agent
    trajectories: tuple[str, ...]  # ids of its attempts in the store, in order
    reasons: str  # why the last attempt counts as what it does
    problem: str  # why it is unfinished; the same collection, run again, goes on with it
    made: int  # attempts that were made in this run; the others were stored before
    cost: Cost  # of this run, with an attempt that it did not finish


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """What a collection came to, with one outcome for each task, in the order they were given."""

    outcomes: tuple[TaskOutcome, ...]

    @property
    def attempts(self) -> int:
        """How many attempts are stored, of this run and of those before."""
        return sum(len(outcome.trajectories) for outcome in self.outcomes)

    @property
    def made(self) -> int:
        """How many attempts were made in this run."""
        return sum(outcome.made for outcome in self.outcomes)

    @property
    def successes(self) -> int:
        """How many tasks succeeded."""
        return sum(outcome.success is True for outcome in self.outcomes)

    @property
    def unfinished(self) -> tuple[TaskOutcome, ...]:
        """The tasks with which the same collection, run again, goes on."""
        return tuple(outcome for outcome in self.outcomes if outcome.success is None)

    @property
    def cost(self) -> Cost:
        """What this run cost; what each stored attempt did stands in its metadata, under `usage`."""
        return sum((outcome.cost for outcome in self.outcomes), Cost())

    def __str__(self) -> str:
        tasks, unfinished = len(self.outcomes), self.unfinished
        failed = tasks - self.successes - len(unfinished)
        lines = [
            f"{tasks} tasks: {self.successes} succeeded, {failed} failed, {len(unfinished)} unfinished",
            f"{self.attempts} attempts, {self.made} of them in this run: {self.cost}",
        ]
        return "\n".join(
            [*lines, *(f"unfinished: {each.id or each.task:.60}: {each.problem:.160}" for each in unfinished)]
        )
