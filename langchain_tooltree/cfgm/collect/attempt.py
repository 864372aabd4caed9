"""An attempt under way: what it is given, what it has spent, and what it came to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from langchain_tooltree.cfgm.collect.report import NamedTask
from langchain_tooltree.errors import ConfigurationError, ToolTreeError, described
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.models import Meter, http_status, was_refused

UNACCEPTABLE = frozenset({400, 413, 422})
"""HTTP statuses by which providers refuse a conversation as such, for its length or its form."""


class UnfinishedError(ToolTreeError, RuntimeError):
    """Something went wrong that is no fault of the agent: the attempt is not stored, and is made again later."""


class FailedError(ToolTreeError, RuntimeError):
    """The agent has failed before its attempt could be evaluated."""


def is_unacceptable(error: BaseException | None) -> bool:
    """Whether a provider will never take this conversation, which is the agent's own doing."""
    return error is not None and http_status(error) in UNACCEPTABLE


def is_outage(error: BaseException) -> bool:
    """Whether a service cannot be reached or does not serve now."""
    down = isinstance(error, ConnectionError | TimeoutError) or was_refused(error)
    return down and not is_unacceptable(error)


@contextmanager
def no_fault_of_the_agent(problem: str) -> Iterator[None]:
    """What is raised within leaves the attempt unfinished, for this reason."""
    try:
        yield
    except (ConfigurationError, FailedError, UnfinishedError):
        raise
    except Exception as error:
        msg = f"{problem}: {described(error)}"
        raise UnfinishedError(msg) from error


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """What an attempt came to, before it is evaluated."""

    trajectory: Trajectory
    result: Any = None  # what the user's `evaluate` is given
    problem: str = ""  # why it failed before it could be evaluated
    success: bool = False  # what the environment itself says
    reward: float | None = None  # the sum of the environment's rewards


@dataclass
class Attempt:
    """One attempt at a task: the `number`-th, from 1, of at most `max_steps` tool calls or environment steps."""

    task: NamedTask
    number: int
    request: str  # the task, and before it what may help
    max_steps: int
    stopped: threading.Event = field(default_factory=threading.Event)  # nothing new is begun once it is set
    spent: Meter = field(init=False)

    def __post_init__(self) -> None:
        self.spent = self.meter(0)  # it only counts

    @property
    def id(self) -> str:
        """The id of the trajectory that it becomes."""
        return self.task.attempt_id(self.number)

    def meter(self, allowance: int) -> Meter:
        """A meter for a question."""
        return Meter(allowance)

    def check(self) -> None:
        """Raise `UnfinishedError` once the collection is being stopped."""
        if self.stopped.is_set():
            msg = "The collection was stopped."
            raise UnfinishedError(msg)
