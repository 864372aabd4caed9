"""What a search may ask of past runs: the seam between the planner, which knows neither graph nor memory, and these."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypedDict

from langchain_core.messages import BaseMessage

from langchain_tooltree.conversation import Conversation
from langchain_tooltree.effects.calls import CallEffects, Effects
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.hints import NextTools
from langchain_tooltree.experience.records import ChatMessage
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow
from langchain_tooltree.models import Meter

ROOM = 0.2
"""Share of an agent's first request that recalled text may take: with a hint at each step, a run that was guided costs
at most 1.3 times the tokens of one that was not. Short requests, of which this is next to nothing, have a little more
room: see `FEWEST_CHARACTERS` in `cfgm/memory.py`."""


def room_for(system: Sequence[BaseMessage], tools: int, said: Conversation) -> int:
    """Characters of advice that a request has room for: the same at each step, so that prompt caches hold.

    It goes by the first request of the turn: the agent's instructions, so many characters of tools, and what was said
    up to its task.
    """
    first = next((at for at, message in enumerate(said.messages, 1) if message is said.request), len(said.messages))
    texts = (str(message.content) for message in (*system, *said.messages[:first]))
    return int(ROOM * (tools + sum(map(len, texts))))


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

    def remedy(self, said: Conversation, tools: Sequence[Any], meter: Meter) -> Flow[str]:
        """Where something is off at the end of a dialogue, ask a model what went wrong, and what to do next.

        What it says is marked as reference material, for who proposes the next call; empty if all is well, or it says
        nothing.
        """

    def failed(self, attempts: Sequence[Trajectory]) -> Flow[None]:
        """Keep what a search has tried and given up: failed attempts at the same task."""


REMEMBERED = "tooltree_recalled"
"""Where the state of an agent that plans with experience keeps what was recalled for a request."""


class Remembered(TypedDict):
    """What was recalled for a request: plain data, since a checkpointer keeps it for the one who resumes the run."""

    namespace: dict[str, str]  # values of the variables of the namespace: what is one user's is not for another
    first: str  # what the user asked for first in this conversation
    request: str | None  # id of the user's message
    runs: list[str]  # ids of the runs, most similar first
    tips: list[dict[str, Any]]  # as memory writes them


class Learner(Protocol):
    """What `experience=` takes, such as an `Experience`: it recalls for a request, guides its search, keeps the run.

    Its methods are flows.
    """

    def begun(self, said: Conversation, known: Mapping[str, Any] | None = None) -> Flow[Remembered | None]:
        """Recall for a conversation whose turn begins; `known` is what was recalled for it before.

        `None` for runs that are collected, which are neither recalled for nor kept. A namespace that is not known here
        raises `ConfigurationError`.
        """

    def guide(self, remembered: Mapping[str, Any], room: int, effects: CallEffects) -> Flow[Guide]:
        """The guide for a request, whose advice takes at most `room` characters; `effects` are those of its tools."""

    def ended(
        self,
        messages: Sequence[BaseMessage],
        remembered: Mapping[str, Any] | None,
        *,
        id: str | None = None,  # noqa: A002 - the record's field
        tools: Sequence[Any] = (),
        effects: Effects | CallEffects | None = None,
        instructions: str = "",
    ) -> Flow[None]:
        """Keep a conversation whose turn is over, with what its model was offered and told. It raises nothing.

        `remembered` is what was recalled for it; `None` if that was not asked for.

        `effects` are those of its tools, as far as they are known; they say which calls a verdict has to review.

        `id` is that of a run of its own; else it is the run of the graph that is running.
        """


def checked_experience(experience: Learner | None) -> Learner | None:
    """What was passed as `experience`; a `ConfigurationError` if it is nothing of the kind."""
    if experience is None or all(callable(getattr(experience, name, None)) for name in ("begun", "guide", "ended")):
        return experience
    msg = f"experience must be an Experience, got {type(experience).__name__}. Make one: Experience(store)."
    raise ConfigurationError(msg)
