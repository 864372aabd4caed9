"""An agent's own steps: errands whose every reply is known, and a model that makes them, planned or not."""

from collections.abc import Mapping, Sequence
from typing import Any

from agents import ListeningModel
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import Field
from travel import EFFECTS, Agency, Step

from langchain_tooltree import SearchConfig, ToolTreeMiddleware
from langchain_tooltree.testing import Made, Question, read_question

OWN = SearchConfig(proposals="own_step", pre_evaluation="fused")

HELLO = "Hello!"
LOOK = "Which flights go to Oslo?"
CHAIN = "What does the cheapest flight to Oslo cost?"
COMPARE = "Book the flight to Oslo if hotels and weather are fine."
TRIP = "Book both flights."

FIND: Step = ("find_flights", {"city": "Oslo"})
HOTELS: Step = ("find_hotels", {"city": "Oslo"})
WEATHER: Step = ("check_weather", {"city": "Oslo"})
PRICE: Step = ("read_price", {"flight": "OS-1"})
BOOK: Step = ("book", {"flight": "OS-1"})
BACK: Step = ("book", {"flight": "OS-2"})

REPLIES: dict[str, list[list[Step]]] = {
    HELLO: [],
    LOOK: [[FIND]],
    CHAIN: [[FIND], [PRICE]],
    COMPARE: [[FIND, HOTELS, WEATHER], [BOOK]],
    TRIP: [[FIND, BOOK, BACK]],
}
"""The calls of each reply, in order; the answer follows."""


class OwnSteps:
    """Knows the replies of every errand, and is sure of them.

    Args:
        early: How many replies it makes before it believes that it is done, where it errs; the last thing it then
            says that is missing.
    """

    def __init__(self, early: Mapping[str, int] | None = None) -> None:
        self._early = early or {}

    def act(self, question: Question) -> Sequence[Step]:
        """The calls of the next reply."""
        made = self._made(question)
        replies = REPLIES[question.request]
        return [] if made >= self._early.get(question.request, len(replies)) else replies[made]

    def propose(self, question: Question) -> Sequence[Step]:
        """The right call first, and one that leads nowhere."""
        return [*self._left(question)[:1], WEATHER]

    def missing(self, question: Question) -> Sequence[str]:
        """What is not done yet."""
        return [f"the call of {tool}" for tool, _ in self._left(question)]

    def score_call(self, question: Question, call: Made) -> float:
        """High for a call of the errand."""
        return 0.9 if (call.tool, call.arguments) in self._left(question) else 0.2

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """High for a call of the errand; the goal is reached once none is left."""
        right = (call.tool, call.arguments) in self._left(question)
        later = Question("post", question.request, (*question.path, call))
        return (0.9 if right else 0.3), float(not self._left(later))

    def answer(self, question: Question) -> str:
        """The latest observation, in a sentence."""
        return f"It says: {question.path[-1].observation if question.path else 'hello'}"

    @staticmethod
    def _left(question: Question) -> list[Step]:
        made = [(each.tool, each.arguments) for each in question.path]
        return [step for reply in REPLIES[question.request] for step in reply if step not in made]

    def _made(self, question: Question) -> int:
        """How many whole replies of the errand were made."""
        left = self._left(question)
        return sum(all(step not in left for step in reply) for reply in REPLIES[question.request])


class SteppingModel(ListeningModel):
    """A model with this policy; to the plain agent's question it gives the same reply as to that of a search."""

    policy: Any = Field(default_factory=OwnSteps)

    def _respond(self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> Any:
        question, _ = read_question(messages, tools)
        if question.kind == "answer" and tools and (calls := self.policy.act(question)):
            asked = [{"name": tool, "args": dict(given), "id": f"call_{at}"} for at, (tool, given) in enumerate(calls)]
            return AIMessage("", tool_calls=asked)
        return super()._respond(messages, tools)


def plain_agent(agency: Agency, model: Any = None, **options: Any) -> Any:
    """The agent without a planner."""
    return create_agent(model or SteppingModel(), agency.tools, **options)


def stepping_agent(
    agency: Agency, model: Any = None, *, planner: Mapping[str, Any] | None = None, **options: Any
) -> Any:
    """The same agent with a planner that begins with its own steps."""
    planning = ToolTreeMiddleware(**{"effects": EFFECTS, "config": OWN, **(planner or {})})
    before, more = options.pop("before", []), options.pop("tools", [])
    return create_agent(model or SteppingModel(), [*agency.tools, *more], middleware=[*before, planning], **options)


def asking(request: str) -> dict[str, list[BaseMessage]]:
    """The input that asks for something."""
    return {"messages": [HumanMessage(request)]}
