"""What a search may ask of past runs: the seam between the planner, which knows neither graph nor memory, and these."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from langchain_tooltree.conversation import Conversation
from langchain_tooltree.experience.records import ChatMessage
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow
from langchain_tooltree.models import Meter


@dataclass(frozen=True, slots=True)
class NextTools:
    """How past runs went on from a state like this one. The shares, `done` and `other` sum to 1.

    Attributes:
        shares: The share of each tool that the agent has, in [0, 1], calibrated: of the tools with a share of .7, seven
            of ten came next.
        runs: How many distinct runs speak for each.
        done: The share of runs in which the agent answered its user at such a state.
        other: The share left for what no run did here.
        ended: How many distinct runs speak for `done`.
        refused: By the key of a call (its tool and arguments): how often it was made at such a state, and how often it
            failed there.
        text: The same in words for who proposes the next call; empty where nothing is worth saying.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    runs: Mapping[str, int] = field(default_factory=dict)
    done: float = 0.0
    other: float = 1.0
    ended: int = 0
    refused: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What a model made of trouble (CFGM, Alg. 3).

    Attributes:
        text: The correction, marked as reference material, for who proposes the next call.
        next_step: The corrected next step, in words.
    """

    text: str
    next_step: str


class Guide(Protocol):
    """Past runs as one search sees them: of one namespace, for one request. Its methods are flows and raise nothing.

    What they return may change while a search goes on, as runs are learnt. So the search takes it in as part of the
    outcome of an operation, and a replay asks nobody.
    """

    @property
    def advice(self) -> str:
        """Recalled runs and tips, marked as reference material, for who proposes calls; empty if there are none."""

    def next_tools(self, dialogue: Sequence[ChatMessage], allowed: Collection[str]) -> Flow[NextTools | None]:
        """How past runs went on from the end of a dialogue, among the tools allowed; `None` if nothing is known."""

    def is_anomalous(self, said: Conversation) -> Flow[bool]:
        """Whether the latest observations of a dialogue show that something is off, by rules alone."""

    def remedy(self, said: Conversation, tools: Sequence[Any], meter: Meter) -> Flow[Remedy | None]:
        """Ask a model what went wrong at the end of a dialogue, and what to do next; `None` if it says nothing."""

    def failed(self, attempts: Sequence[Trajectory]) -> Flow[None]:
        """Keep what a search has tried and given up: failed attempts at the same task."""
