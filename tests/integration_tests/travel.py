"""A small travel agency: tools that count their calls, and a stand-in model that knows what each request needs."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.tools import BaseTool, StructuredTool

from cookbook.offline_model import Made, OfflineChatModel, Question

Step = tuple[str, Mapping[str, Any]]

READS = ("find_flights", "find_hotels", "check_weather", "read_price")
EFFECTS: dict[str, Any] = dict.fromkeys(READS, "read")

PRICE = "What does the cheapest flight to Oslo cost?"
BOOKING = "Book the cheapest flight to Oslo."

ERRANDS: dict[str, list[Step]] = {
    PRICE: [("find_flights", {"city": "Oslo"}), ("read_price", {"flight": "OS-1"})],
    BOOKING: [
        ("find_flights", {"city": "Oslo"}),
        ("read_price", {"flight": "OS-1"}),
        ("book", {"flight": "OS-1"}),
    ],
}

DETOURS: list[Step] = [
    ("find_hotels", {"city": "Oslo"}),
    ("check_weather", {"city": "Oslo"}),
]


class TravelPolicy:
    """Knows the steps of every errand, and offers detours beside them."""

    def propose(self, question: Question) -> Sequence[Step]:
        """The next right step first, then the detours; nothing once all steps are made."""
        done = self._done(question.request, question.path)
        steps = self._steps(question.request)
        return [] if done == len(steps) else [steps[done], *DETOURS]

    def score_call(self, question: Question, call: Made) -> float:
        """High for the next right step."""
        done = self._done(question.request, question.path)
        return (
            0.9
            if [(call.tool, call.arguments)]
            == self._steps(question.request)[done : done + 1]
            else 0.4
        )

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """High for a right step; the goal is reached with the last, or, for now, with a write to be approved."""
        before = self._done(question.request, question.path)
        after = self._done(question.request, (*question.path, call))
        if after == before:
            return 0.45, 0.1
        return 0.9, 0.9 if call.tool == "book" or after == len(
            self._steps(question.request)
        ) else 0.3

    def answer(self, question: Question) -> str:
        """The latest observation, in a sentence."""
        seen = question.path[-1].observation if question.path else "nothing"
        return f"All is done for you and it says {seen}"

    @staticmethod
    def _steps(request: str) -> list[Step]:
        return ERRANDS[request.partition(" #")[0]]

    def _done(self, request: str, path: Sequence[Made]) -> int:
        """How many steps of the errand the path has made, in order."""
        done = 0
        steps = self._steps(request)
        for made in path:
            done += (
                (made.tool, made.arguments) == steps[done] if done < len(steps) else 0
            )
        return done


class Agency:
    """The tools; every call is counted, from whichever thread it comes.

    Args:
        latency: Seconds that each call takes.
    """

    def __init__(self, latency: float = 0.0) -> None:
        self.calls: Counter[str] = Counter()
        self.busy = threading.Event()
        self._latency = latency
        self._lock = threading.Lock()

    def _count(self, label: str) -> None:
        with self._lock:
            self.calls[label] += 1
        self.busy.set()

    @property
    def tools(self) -> list[BaseTool]:
        """The tools, each with a sync and an async form."""
        return [
            self._tool(
                "find_flights",
                "Find flights to a city.",
                "city",
                "{}: OS-1 for 90, OS-2 for 120",
            ),
            self._tool(
                "find_hotels", "Find hotels in a city.", "city", "{}: Grand, Ritz"
            ),
            self._tool(
                "check_weather", "Tell the weather in a city.", "city", "{}: sunny"
            ),
            self._tool(
                "read_price", "Read the price of a flight.", "flight", "{} costs 90"
            ),
            self._tool("book", "Book a flight.", "flight", "{} is booked"),
        ]

    def _tool(self, name: str, description: str, argument: str, reply: str) -> BaseTool:
        def run(**arguments: str) -> str:
            self._count(f"{name} {arguments[argument]}")
            time.sleep(self._latency)
            return reply.format(arguments[argument])

        async def arun(**arguments: str) -> str:
            self._count(f"{name} {arguments[argument]}")
            await asyncio.sleep(self._latency)
            return reply.format(arguments[argument])

        schema = {
            "type": "object",
            "properties": {argument: {"type": "string"}},
            "required": [argument],
        }
        return StructuredTool.from_function(
            run, arun, name=name, description=description, args_schema=schema
        )


def travel_model() -> OfflineChatModel:
    """The stand-in model."""
    return OfflineChatModel(policy=TravelPolicy())


def asking(request: str) -> dict[str, list[BaseMessage]]:
    """The input that asks for something."""
    return {"messages": [HumanMessage(request)]}
