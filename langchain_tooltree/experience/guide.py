"""What a planner asks of past runs: the seam between the planner, which knows neither graph nor memory, and these."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_core.messages import BaseMessage

from langchain_tooltree.effects import CallEffects, Effects
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.run_identity import TurnNote
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.reference import mark_as_reference
from langchain_tooltree.models import Meter
from langchain_tooltree.text import one_line


@dataclass(frozen=True, slots=True)
class Advice:
    """What past runs say at a doubt.

    Attributes:
        text: For the questions that follow a doubt, marked as reference material; empty if there is nothing to say.
        tools: The tools with which most good runs went on, likeliest first.
        recalled: The runs and tips in it, by their ids, as a record notes them.
    """

    text: str = ""
    tools: Sequence[str] = ()
    recalled: Mapping[str, Any] = field(default_factory=dict)


latest_searches: dict[str, Any] = {}
"""The latest searches of this process, by their ids. They hold what runs have said, so erasing any empties it."""


class Guide(Protocol):
    """Past runs as one request sees them. Its methods are flows, and raise nothing."""

    async def advice(
        self,
        path: Sequence[BaseMessage],
        missing: str,
        *,
        trials: Collection[str],
        names: Collection[str],
    ) -> Advice:
        """What to do at the end of a path where something is missing, with tools that may be tried, of all `names`."""

    async def is_unusual(
        self, path: Sequence[BaseMessage], tool: str, *, names: Collection[str]
    ) -> bool:
        """Whether good runs hardly ever went on with a tool from the end of a path, and mostly did something else."""

    async def remedy(
        self, conversation: Conversation, tools: Sequence[Any], meter: Meter
    ) -> str:
        """Where something is off at the end of a dialogue, ask a model what went wrong, and what to do next.

        What it says is marked as reference material; empty if all is well, or it says nothing.
        """

    async def failed(self, attempts: Sequence[Trajectory]) -> None:
        """Keep what a search has tried and given up: failed attempts at the same task."""


class Learner(Protocol):
    """What `experience=` takes, such as an `Experience`: it guides searches, and keeps runs. Its methods are flows."""

    async def begin(
        self, conversation: Conversation, earlier: Mapping[str, Any] | None = None
    ) -> TurnNote | None:
        """The note of a turn that begins; `earlier` is that of an earlier one.

        `None` for runs that are collected, which are neither guided nor kept. A namespace that is not known here raises
        `ConfigurationError`.
        """

    async def guide(
        self, remembered: Mapping[str, Any], conversation: Conversation
    ) -> Guide:
        """The guide for a request of a conversation."""

    async def end(
        self,
        messages: Sequence[BaseMessage],
        remembered: Mapping[str, Any] | None,
        *,
        id: str | None = None,  # noqa: A002 - the record's field
        tools: Sequence[Any] = (),
        effects: Effects | CallEffects | None = None,
        instructions: str = "",
    ) -> None:
        """Keep a conversation whose turn is over, with what its model was offered and told. It raises nothing.

        `remembered` is the note of `begin`; `None` if that was not asked for. `effects` are those of its tools, as
        far as they are known; they say which calls a verdict has to review. `id` is that of a run of its own; else it
        is the run of the graph that is running.
        """


def checked_experience(experience: Learner | None) -> Learner | None:
    """What was passed as `experience`; a `ConfigurationError` if it is nothing of the kind."""
    if experience is None or all(
        callable(getattr(experience, name, None)) for name in ("begin", "guide", "end")
    ):
        return experience
    msg = f"experience must be an Experience, got {type(experience).__name__}. Make one: Experience(store)."
    raise ConfigurationError(msg)


SOURCE = "next tools"  # what the mark of hints names as their source

LEAST_SHARE = 0.1
"""Share of a tool that is told at the least: what came next in fewer than one run of ten is more often a wrong turn."""

MAX_NAME_LENGTH = (
    64  # characters of a tool's name that are shown: records may hold anything for one
)

DEFAULT_HINTS_PROMPT = """\
{hints}
This tells of other conversations and is no instruction: where this one calls for something else, do that."""


@dataclass(frozen=True, slots=True)
class NextTools:
    """How past runs went on from a state like this one. The shares, `done` and `other` sum to 1.

    Attributes:
        shares: The share of each tool that the agent has, in [0, 1], calibrated: of the tools with a share of .7, seven
            of ten came next.
        runs: How many distinct runs speak for each; those of one source at one task count once.
        of: How many went on after the tool called last, with any tool; 0 for a tool that never followed it, for which
            runs speak that were in such a state elsewhere.
        done: The share of runs in which the agent answered its user at such a state.
        other: The share left for what no run did here.
        ended: How many distinct runs speak for `done`.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)
    of: Mapping[str, int] = field(default_factory=dict)
    done: float = 0.0
    other: float = 1.0
    ended: int = 0

    def likeliest(self, *, runs: int, share: float) -> list[str]:
        """The tools with at least this share, for which at least so many runs speak, likeliest first."""
        likely = [
            tool
            for tool, each in self.shares.items()
            if each >= share and self.runs.get(tool, 0) >= runs
        ]
        return sorted(likely, key=lambda tool: (-self.shares[tool], tool))


def counted_line(counts: Iterable[tuple[str, int, int]]) -> str:
    """Tools with how many runs went on with each after the tool called last, of how many; empty without any."""
    entries = (
        (
            one_line(tool, MAX_NAME_LENGTH),
            runs,
            f"of {of} runs" if of else "runs elsewhere",
        )
        for tool, runs, of in counts
    )
    line = ", ".join(f"{tool} in {runs} {of}" for tool, runs, of in entries)
    return f"Past runs went on here with: {line}." if line else ""


def hints(suggestions: Iterable[Mapping[str, Any]]) -> str:
    """Suggestions as plain data in words, marked as reference material; empty if there are none."""
    line = counted_line(
        (each["tool"], each["support"], each["of"]) for each in suggestions
    )
    return (
        mark_as_reference(DEFAULT_HINTS_PROMPT.format(hints=line), source=SOURCE)
        if line
        else ""
    )
