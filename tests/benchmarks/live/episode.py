"""What the benches, the methods and the memories of the live benchmark agree on."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool

from langchain_tooltree import CFGMMemory, Sandbox, SearchConfig, SITGraph

STEPS = 20
"""Replies of the agent's model that one user turn may take, as in the function-calling benchmark."""

MODEL_CALLS = 40
"""Model calls that a search may take for one user turn, where a method has such a budget."""


SHOWN_IDS = 5
"""Tasks that an error names as examples."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended.

    Attributes:
        success: Whether the benchmark counts it as solved.
        score: The benchmark's own score, between 0 and 1; equal to `success` where it has none.
        detail: Why it counts so, in a line.
    """

    success: bool
    score: float
    detail: str = ""


class Episode(Protocol):
    """One task under way, in its real world."""

    id: str
    system: str | None
    """The agent's system prompt, as the benchmark has it."""
    effects: Mapping[str, str]
    """`"read"` or `"write"` by tool; a tool without an entry is a write."""
    sandbox: Sandbox | None
    """Its tools act on the real world of this very turn, and its forks on copies; `None` if it cannot be copied."""

    @property
    def tools(self) -> Sequence[BaseTool]:
        """The tools of this user turn; they act on the real world."""

    def next_request(self, messages: Sequence[BaseMessage]) -> str | None:
        """What the user says next, given the conversation so far; `None` if it is over."""

    def outcome(self, messages: Sequence[BaseMessage]) -> Outcome:
        """How it ended, given the whole conversation, without a system message."""


class Task(Protocol):
    """A task that can be started, and started again."""

    @property
    def id(self) -> str:
        """Its name in the benchmark."""

    def start(self) -> Episode:
        """A new episode in a world of its own."""


AnyTask = TypeVar("AnyTask", bound=Task)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command says about the tasks.

    Attributes:
        tasks: How many, drawn by the seed; all if `None`.
        ids: Only these.
        category: The benchmark's category.
        file: The file of tasks.
        seed: Decides whatever is drawn.
        cache: Where downloaded packages are kept.
        user_model: Plays the user.
    """

    tasks: int | None = None
    ids: tuple[str, ...] = ()
    category: str | None = None
    file: Path | None = None
    seed: int = 0
    cache: Path = Path(".cache")
    user_model: BaseChatModel | None = None


@dataclass(frozen=True, slots=True)
class Typical:
    """What a task takes the plain agent (`react`): model calls, and tokens of a call."""

    model_calls: float
    input_tokens: float
    output_tokens: float


class Bench(Protocol):
    """A set of tasks. It raises `UsageError` with the remedy where options do not fit."""

    typical: Typical

    def tasks(self, options: Options) -> Sequence[Task]:
        """The tasks that the options choose, in the benchmark's order."""


@dataclass(frozen=True, slots=True)
class Experience:
    """What earlier tasks of this run give to a task.

    Attributes:
        advice: Reference text that goes before the conversation, at the end of the system prompt; empty for none.
        graph: A graph of earlier tool calls.
        memory: The package's own memory.
        reflecting: Options of the middleware that recalls from it and reflects.
    """

    advice: str = ""
    graph: SITGraph | None = None
    memory: CFGMMemory | None = None
    reflecting: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finished:
    """A task that ended; what a memory learns from. Also made again from the journal when a run goes on.

    Attributes:
        id: The task.
        messages: The conversation.
        outcome: How it ended.
        learnt: What the memory kept of it the first time, so that it need not ask a model again.
    """

    id: str
    messages: Sequence[BaseMessage]
    outcome: Outcome
    learnt: Any = None


class Memory(Protocol):
    """Learns from each task that ended, in order, and gives experience to those that follow."""

    def recall(self, request: str) -> Experience:
        """What helps with a task, given its first request."""

    def learn(self, finished: Finished) -> Any:
        """Take in a task that ended; returns what `finished.learnt` is to hold the next time, as JSON has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Under which conditions a method works; the same for every method.

    Attributes:
        model: The agent's model; the callbacks that it carries count its calls, by the name of the run.
        steps: Replies of the model that a user turn may take.
        model_calls: Budget of a search for a user turn.
        seed: Decides whatever is drawn.
        experience: From earlier tasks.
        config: The settings of `tooltree`.
        judge: Scores what calls brought back in the papers' searches; the agent's model if `None`.
    """

    model: BaseChatModel
    steps: int = STEPS
    model_calls: int = MODEL_CALLS
    seed: int = 0
    experience: Experience = field(default_factory=Experience)
    config: SearchConfig = field(default_factory=SearchConfig)
    judge: BaseChatModel | None = None


Method = Callable[[Setting, Episode, Sequence[BaseMessage]], list[BaseMessage]]
"""Works on one user turn: from the conversation, its new `HumanMessage` last and no system message in it, to the
messages to append. A method that searches in forks makes the calls that it chose on the episode's real tools."""


def system_text(setting: Setting, episode: Episode, *more: str) -> str:
    """The system prompt of every method: the benchmark's, what the method adds, and the advice of earlier tasks."""
    return "\n\n".join(
        part
        for part in (episode.system or "", *more, setting.experience.advice)
        if part
    )


def chosen(tasks: Sequence[AnyTask], options: Options) -> list[AnyTask]:
    """The tasks that the options choose, in order: those named, or so many drawn by the seed.

    Those drawn are among those that a larger number draws, so that a run can be extended.
    """
    by_id = {task.id: task for task in tasks}
    if options.ids:
        if unknown := [each for each in options.ids if each not in by_id]:
            some = ", ".join(list(by_id)[:SHOWN_IDS])
            msg = f"--task {unknown[0]!r} is no task of this bench, whose tasks are {some}, and so on."
            raise UsageError(msg)
        return [task for task in tasks if task.id in options.ids]
    places = list(range(len(tasks)))
    if options.tasks is not None:
        random.Random(options.seed).shuffle(places)  # noqa: S311 - no secret depends on it
    return [tasks[place] for place in sorted(places[: options.tasks])]


class UsageError(Exception):
    """The command cannot be carried out; the message says what to change."""
