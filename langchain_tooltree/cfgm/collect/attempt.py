"""An attempt under way: what it is shown, what is kept of it, what it has spent, and what it came to."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_tooltree.cfgm.collect.report import Cost, NamedTask
from langchain_tooltree.errors import ToolTreeError
from langchain_tooltree.experience.records import Branch, ChatMessage, as_reference
from langchain_tooltree.experience.store import RecordCollection
from langchain_tooltree.flows import Flow
from langchain_tooltree.models import Meter, Patience, http_status, was_refused
from langchain_tooltree.text import cut

UNACCEPTABLE = frozenset({400, 413, 422})
"""HTTP statuses by which providers refuse a conversation as such, for its length or its form."""

ASYNC_ONLY = (
    "No synchronous function provided",  # nodes of LangGraph
    "Cannot invoke a coroutine function",  # runnables of LangChain
    "does not support sync invocation",  # tools
    "Synchronous implementation of",  # middleware
)
"""What errors say that are raised where the sync half of something is missing."""

SHOWN_ERROR = 300
"""Characters of an error's text that are kept: reasons are read by people, and by the model that reflects."""


def is_unacceptable(error: BaseException) -> bool:
    """Whether an error says that a provider will never take this conversation, which is the agent's own doing."""
    return http_status(error) in UNACCEPTABLE


def is_outage(error: BaseException) -> bool:
    """Whether an error says that a service cannot be reached or does not serve now."""
    if is_unacceptable(error):
        return False
    return isinstance(error, ConnectionError | TimeoutError) or was_refused(error)


def is_async_only(error: BaseException) -> bool:
    """Whether an error says that something can only be awaited."""
    return isinstance(error, TypeError | NotImplementedError) and any(words in str(error) for words in ASYNC_ONLY)


def described(error: BaseException) -> str:
    """An error in words."""
    return cut(f"{type(error).__name__}: {error}".strip().removesuffix(":"), SHOWN_ERROR)


SHELF = "attempts"
"""Label under which journals stand in the namespace of the experience."""

ENDED = "ended"
"""Key of the record of an attempt that has ended and is not yet stored as experience."""

SEPARATOR = "/"
"""Stands between the id of an attempt and the key of a record."""

Records = dict[str, dict[str, Any]]


class Journal:
    """What is kept of one attempt until it is stored: its records of this process, and those of earlier ones."""

    def __init__(
        self, records: RecordCollection, attempt: str, earlier: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self._store = records
        self._attempt = attempt
        self._earlier = dict(earlier or {})
        self._kept = dict.fromkeys(self._earlier)
        self._used = {ENDED}

    def recorded(self, key: str) -> Mapping[str, Any] | None:
        """What was kept under a key before this process; `None` if nothing was."""
        self._used.add(key)
        return self._earlier.get(key)

    def keeping(self, key: str, record: Mapping[str, Any]) -> Flow[None]:
        """Keep a record, as a flow; it is safe when the flow has ended."""
        self._kept[key] = None
        yield from self._store.putting(f"{self._attempt}{SEPARATOR}{key}", record)

    def clearing(self) -> Flow[None]:
        """Delete all that was kept of the attempt, as a flow."""
        for key in list(self._kept):
            yield from self._store.deleting(f"{self._attempt}{SEPARATOR}{key}")
            del self._kept[key]

    @property
    def holds(self) -> bool:
        """Whether anything is kept."""
        return bool(self._kept)

    @property
    def unused(self) -> int:
        """How many earlier records have not been asked for."""
        return len(self._earlier.keys() - self._used)


def journals(records: RecordCollection) -> Flow[dict[str, Records]]:
    """All that is kept of attempts under way, by attempt and key, as a flow."""
    found: dict[str, Records] = {}
    for name, record in (yield from records.reading()).items():
        attempt, _, key = name.partition(SEPARATOR)
        found.setdefault(attempt, {})[key] = record
    return found


FOCUS_POINTS_TEXT = "Points that matter in this environment:\n{points}"

REFLECTIONS_TEXT = "You have tried this task before and failed. What was learnt from it:\n{reflections}"


def request_for(text: str, focus_points: Sequence[str], reflections: Sequence[str]) -> str:
    """What an agent is given: the task, and in front of it what may help, marked as reference material."""
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


class UnfinishedError(ToolTreeError, RuntimeError):
    """Something went wrong that is no fault of the agent: the attempt is not stored, and is tried again later."""


class StoppedError(ToolTreeError, RuntimeError):
    """The collection is being stopped: nothing new is begun."""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """What an attempt came to, before it is evaluated."""

    messages: tuple[ChatMessage, ...]
    result: Any = None  # what the user's `evaluate` is given
    branches: tuple[Branch, ...] = ()  # dialogues of sub-agents
    problem: str = ""  # why it failed before it could be evaluated
    success: bool | None = None  # what the environment itself says
    reward: float | None = None  # the sum of the environment's rewards


class Attempt:
    """One attempt at a task: the `number`-th, from 1, of at most `max_steps` tool calls or environment steps.

    `spend` is called with every cost of this run; `stopped` says whether the collection is being stopped.
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
        """Let nothing new begin, by a `StoppedError`, once the collection is being stopped."""
        if self._stopped():
            msg = "The collection was stopped."
            raise StoppedError(msg)


def cost_of(meter: Meter) -> Cost:
    """What a meter has counted."""
    return Cost(meter.model_calls, meter.input_tokens, meter.output_tokens)
