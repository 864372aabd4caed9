"""An attempt under way: what it is shown, what is kept of it, what it has spent, and what it came to."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_tooltree.cfgm.collect.report import Cost, NamedTask
from langchain_tooltree.errors import ToolTreeError
from langchain_tooltree.errors import described as in_words
from langchain_tooltree.experience.records import Branch, ChatMessage
from langchain_tooltree.experience.reference import as_reference
from langchain_tooltree.experience.store import RecordCollection
from langchain_tooltree.flows import Flow
from langchain_tooltree.models import Meter, http_status, was_refused
from langchain_tooltree.text import cut

UNACCEPTABLE = frozenset({400, 413, 422})
"""HTTP statuses by which providers refuse a conversation as such, for its length or its form."""

SHOWN_ERROR = 300
"""Characters of an error's text that are kept: reasons are read by people, and by the model that reflects."""


class UnfinishedError(ToolTreeError, RuntimeError):
    """Something went wrong that is no fault of the agent: the attempt is not stored, and is tried again later."""


class StoppedError(ToolTreeError, RuntimeError):
    """The collection is being stopped: nothing new is begun."""


class FailedError(ToolTreeError, RuntimeError):
    """The agent has failed before its attempt could be evaluated."""


def is_unacceptable(error: BaseException) -> bool:
    """Whether an error says that a provider will never take this conversation, which is the agent's own doing."""
    return http_status(error) in UNACCEPTABLE


def is_outage(error: BaseException) -> bool:
    """Whether an error says that a service cannot be reached or does not serve now."""
    down = isinstance(error, ConnectionError | TimeoutError) or was_refused(error)
    return down and not is_unacceptable(error)


def described(error: BaseException) -> str:
    """An error in words."""
    return cut(in_words(error), SHOWN_ERROR)


SHELF = "attempts"  # label under which journals stand in the namespace of the experience
ENDED = "ended"  # key of the record of an attempt that has ended and is not yet stored as experience
SEPARATOR = "/"  # between the id of an attempt and the key of a record

KeptRecords = dict[str, dict[str, Any]]


class Journal:
    """What is kept of one attempt until it is stored: its records of this process, and those of earlier ones.

    Without a collection to keep them in, nothing is kept.
    """

    def __init__(
        self, records: RecordCollection | None, attempt: str, earlier: Mapping[str, Mapping[str, Any]] | None = None
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
        if self._store is None:
            return
        self._kept[key] = None
        yield from self._store.putting(f"{self._attempt}{SEPARATOR}{key}", record)

    def clearing(self) -> Flow[None]:
        """Delete all that was kept of the attempt, as a flow."""
        for key in list(self._kept):
            if self._store is not None:
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


def journals(records: RecordCollection) -> Flow[dict[str, KeptRecords]]:
    """All that is kept of attempts under way, by attempt and key, as a flow."""
    found: dict[str, KeptRecords] = {}
    for name, record in (yield from records.reading()).items():
        attempt, _, key = name.partition(SEPARATOR)
        found.setdefault(attempt, {})[key] = record
    return found


def request_for(
    text: str, focus_points: Sequence[str], reflections: Sequence[str], examples: Sequence[str] = ()
) -> str:
    """What an agent is given: the task, and in front of it what may help, marked as reference material."""
    parts = []
    if examples:
        parts.append("\n\n".join(["Examples of tasks done in this environment:", *examples]))
    if focus_points:
        parts.append("\n- ".join(["Points that matter in this environment:", *focus_points]))
    if reflections:
        listed = [f"{number}. {reflection}" for number, reflection in enumerate(reflections, 1)]
        parts.append("\n".join(["You have tried this task before and failed. What was learnt from it:", *listed]))
    reference = [as_reference("\n\n".join(parts), source="earlier work")] if parts else []
    return "\n\n".join([*reference, text])


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """What an attempt came to, before it is evaluated."""

    messages: tuple[ChatMessage, ...]
    result: Any = None  # what the user's `evaluate` is given
    branches: tuple[Branch, ...] = ()  # dialogues of sub-agents
    problem: str = ""  # why it failed before it could be evaluated
    success: bool | None = None  # what the environment itself says
    reward: float | None = None  # the sum of the environment's rewards


@dataclass
class Tally:
    """What a collection has done so far, counted by several threads at once."""

    cost: Cost = field(default_factory=Cost)  # of this run
    total: Cost = field(default_factory=Cost)  # of all stored attempts
    made: int = 0
    attempts: int = 0
    successes: int = 0
    done: int = 0  # tasks that are over, for this run at least
    stopped: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Attempt:
    """One attempt at a task: the `number`-th, from 1, of at most `max_steps` tool calls or environment steps."""

    task: NamedTask
    number: int
    request: str
    journal: Journal
    max_steps: int
    tally: Tally
    usage: Cost = field(default_factory=Cost)

    @property
    def id(self) -> str:
        """The id of the trajectory that it becomes."""
        return self.task.attempt_id(self.number)

    def meter(self, allowance: int) -> Meter:
        """A meter for questions to our own model."""
        return Meter(allowance)

    def spend(self, cost: Cost, *, before: bool = False) -> None:
        """Count what was spent just now, or `before` in an earlier run."""
        with self.tally.lock:
            self.usage += cost
            if not before:
                self.tally.cost += cost

    def check(self) -> None:
        """Let nothing new begin, by a `StoppedError`, once the collection is being stopped."""
        if self.tally.stopped.is_set():
            msg = "The collection was stopped."
            raise StoppedError(msg)


def cost_of(meter: Meter) -> Cost:
    """What a meter has counted."""
    return Cost(meter.model_calls, meter.input_tokens, meter.output_tokens)
