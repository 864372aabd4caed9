"""An attempt under way: what it is shown, what it has spent, and what it came to."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_tooltree.cfgm.collecting.journal import Journal
from langchain_tooltree.cfgm.collecting.report import Cost
from langchain_tooltree.cfgm.collecting.task import NamedTask
from langchain_tooltree.errors import ToolTreeError
from langchain_tooltree.experience.records import Branch, ChatMessage
from langchain_tooltree.experience.reference import as_reference
from langchain_tooltree.models import Meter
from langchain_tooltree.rate_limits import Patience

FOCUS_POINTS_TEXT = "Points that matter in this environment:\n{points}"

REFLECTIONS_TEXT = "You have tried this task before and failed. What was learnt from it:\n{reflections}"


class UnfinishedError(ToolTreeError, RuntimeError):
    """Something went wrong that is no fault of the agent: the attempt is not stored, and can be gone on with."""


class StoppedError(ToolTreeError, RuntimeError):
    """The collection is being stopped: nothing new is begun."""


@dataclass(frozen=True, slots=True)
class Run:
    """What an attempt came to, before it is evaluated.

    Attributes:
        messages: The dialogue in the OpenAI chat format.
        result: What the user's `evaluate` is given.
        branches: Dialogues of sub-agents.
        problem: Why it failed before it could be evaluated; empty if it did not.
        success: What the environment itself says; `None` if it does not.
        reward: The sum of the environment's rewards; `None` if there were none.
    """

    messages: tuple[ChatMessage, ...]
    result: Any = None
    branches: tuple[Branch, ...] = ()
    problem: str = ""
    success: bool | None = None
    reward: float | None = None


class Attempt:
    """One attempt at a task.

    Args:
        task: The task.
        number: Which attempt it is, from 1.
        request: What the agent is told: the task, with focus points and earlier reflections in front.
        journal: What is kept of it.
        max_steps: Tool calls or environment steps that it may make.
        spend: Told of every cost of this run.
        stopped: Whether the collection is being stopped.
    """

    def __init__(
        self,
        task: NamedTask,
        number: int,
        request: str,
        journal: Journal,
        *,
        max_steps: int,
        spend: Callable[[Cost], None],
        stopped: Callable[[], bool],
    ) -> None:
        self.task = task
        self.number = number
        self.id = task.attempt_id(number)
        self.request = request
        self.journal = journal
        self.max_steps = max_steps
        self.usage = Cost()
        self._spend = spend
        self._stopped = stopped
        self._lock = threading.Lock()

    def meter(self, allowance: int) -> Meter:
        """A meter for questions to our own model, which wait for no rate limit once the collection is being stopped."""
        return Meter(allowance, Patience(cancelled=self._stopped))

    def spend(self, cost: Cost) -> None:
        """Count what was spent just now."""
        self.replay(cost)
        self._spend(cost)

    def replay(self, cost: Cost) -> None:
        """Count what was spent before and is not spent again."""
        with self._lock:
            self.usage += cost

    def check(self) -> None:
        """Let nothing new begin once the collection is being stopped.

        Raises:
            StoppedError: If it is.
        """
        if self._stopped():
            msg = "The collection was stopped."
            raise StoppedError(msg)


def request_for(text: str, focus_points: Sequence[str], reflections: Sequence[str]) -> str:
    """What an agent is told: the task, and in front of it what may help, marked as reference material.

    Args:
        text: The task.
        focus_points: What matters in this environment.
        reflections: What was learnt from earlier attempts, in order.

    Returns:
        The text of one user message.
    """
    parts = []
    if focus_points:
        parts.append(FOCUS_POINTS_TEXT.format(points="\n".join(f"- {point}" for point in focus_points)))
    if reflections:
        listed = "\n".join(f"{number}. {reflection}" for number, reflection in enumerate(reflections, 1))
        parts.append(REFLECTIONS_TEXT.format(reflections=listed))
    if not parts:
        return text
    reference = as_reference("\n\n".join(parts), source="earlier work")
    return f"{reference}\n\n{text}"


def cost_of(meter: Meter) -> Cost:
    """What a meter has counted."""
    return Cost(meter.model_calls, meter.input_tokens, meter.output_tokens)
