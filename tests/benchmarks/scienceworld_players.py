"""Simulated models that play ScienceWorld: an agent that goes astray, and a reflector that knows the way, mostly.

They are no models. What they do is set by `Assumptions`, and chance is a hash of seed, task and place, so that all arms
of a comparison meet the same temptations.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from tests.benchmarks.scienceworld_injections import ABSENT, UNKNOWN_VERBS, VERBS
from tests.benchmarks.scienceworld_world import Taken, Task, action_of, call_of

IGNORED = "Unknown action."
"""What the environment answers to an action that came where it waited for the answer to a question of its own."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What the simulation takes for granted; none of it is measured.

    Attributes:
        derails: How often the agent goes astray at a step.
        derails_shown: The same, where its prompt shows that kind of action in a run that it recalled.
        right: How often a reflection names the right next step.
    """

    derails: float = 0.06
    derails_shown: float = 0.03
    right: float = 0.9


@dataclass(frozen=True, slots=True)
class Way:
    """The way through a task: its gold path, and where one goes astray on it."""

    task: Task
    gold: tuple[str, ...]
    seed: int = 0

    def walked(self, taken: Iterable[Taken]) -> tuple[int, list[Taken]]:
        """How many steps of the gold path have been taken, and what was done after the last of them."""
        place, astray = 0, list[Taken]()
        for each in taken:
            if (
                place < len(self.gold)
                and each.action == self.gold[place]
                and not each.answer.startswith(IGNORED)
            ):
                place, astray = place + 1, []
            else:
                astray.append(each)
        return place, astray

    def chance(self, *what: object) -> float:
        """A number in [0, 1) that is the same each time."""
        digest = hashlib.sha256(
            repr((self.seed, str(self.task), *what)).encode()
        ).digest()
        return int.from_bytes(digest[:8]) / 2**64

    def choice(self, options: Sequence[str], *what: object) -> str:
        return options[int(self.chance(*what) * len(options))]


def astray(way: Way, place: int, number: int) -> str:
    """What an agent does that has gone astray.

    Args:
        way: The way.
        place: Where it has left the way; the kind of the mistake goes by that.
        number: How many wrong actions it has taken there so far.

    Returns:
        A wrong or a useless action.
    """
    wanted = way.gold[place]
    if wanted.startswith("open door to ") and way.chance(place, "door") < 0.5:
        return f"go to {wanted.removeprefix('open door to ')}"
    kind = way.choice(
        ("unknown verb", "missing object", "ambiguous object", "repeated no-op"),
        place,
        "kind",
    )
    if kind == "unknown verb":
        return (
            f"{way.choice(UNKNOWN_VERBS, place, number)} {wanted.split(maxsplit=1)[-1]}"
        )
    if kind == "missing object":
        return f"{way.choice(VERBS, place, number)} {way.choice(ABSENT, place, number, 'object')}"
    if kind == "ambiguous object":
        return "look at door" if wanted != "look at door" else "look at substance"
    return _another(wanted)


def _another(wanted: str) -> str:
    return "look around" if wanted != "look around" else "inventory"


def kind_of_action(action: str) -> str:
    """What an action is, apart from the details: its verb and the first thing that it names."""
    if action.startswith("go to "):
        return action
    words = re.sub(r"\s+\d+\b", "", action)
    particle = re.match(r"(focus on|look at|look in|pick up|put down) ", words)
    start = particle.end() if particle else 0
    return (
        words[:start]
        + re.split(r" (?:in|into|on|to|from|with|containing) ", words[start:])[0]
    )


class Player:
    """The agent: a function of its prompt.

    It follows the gold path. At each step it may go astray, less often if its prompt shows that kind of action in a
    run that it has recalled. Then it takes wrong or useless actions until its prompt names the right one.

    Args:
        way: The way.
        assumptions: How often it goes astray.
        finds_back: After how many wrong actions it finds the way by itself; never if left out.
    """

    def __init__(
        self, way: Way, assumptions: Assumptions, *, finds_back: int | None = None
    ) -> None:
        self._way = way
        self._assumptions = assumptions
        self._finds_back = finds_back

    def reply(self, prompt: Sequence[BaseMessage]) -> AIMessage:
        """What it says to a prompt: a tool call, or that the task is done."""
        taken = read_taken(prompt)
        action = self.next_action(taken, read_recalled(prompt))
        if action is None:
            return AIMessage("The task is done.")
        name, arguments = call_of(action)
        return AIMessage(
            "",
            tool_calls=[{"name": name, "args": arguments, "id": f"call_{len(taken)}"}],
        )

    def next_action(self, taken: Sequence[Taken], recalled: str = "") -> str | None:
        """The next action; `None` if the task is done.

        Args:
            taken: What it has done so far. The answers may hold advice.
            recalled: What it was told of other runs.
        """
        way = self._way
        place, wrong = way.walked(taken)
        if place == len(way.gold):
            return None
        wanted = way.gold[place]
        if wrong:
            told = any(f'"{wanted}"' in each.answer for each in wrong)
            back = self._finds_back is not None and len(wrong) >= self._finds_back
            return wanted if told or back else astray(way, place, len(wrong))
        if wanted.isdigit():
            return wanted  # the answer to a question of the environment, which is not asked twice
        rate = (
            self._assumptions.derails_shown
            if is_shown(wanted, recalled)
            else self._assumptions.derails
        )
        return astray(way, place, 0) if way.chance(place, "derails") < rate else wanted


def is_shown(action: str, recalled: str) -> bool:
    """Whether recalled text shows that kind of action."""
    return kind_of_action(action) in recalled


def read_recalled(prompt: Sequence[BaseMessage]) -> str:
    """What a prompt tells of other runs."""
    return "\n".join(
        message.text for message in prompt if isinstance(message, SystemMessage)
    )


def read_taken(prompt: Sequence[BaseMessage]) -> list[Taken]:
    """The actions that a prompt tells of, with their answers and whatever was written below them."""
    calls = {
        call["id"]: call
        for message in prompt
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }
    answers = [message for message in prompt if isinstance(message, ToolMessage)]
    return [
        Taken(action_of(call["name"], call["args"]), answer.text)
        for answer in answers
        if (call := calls.get(answer.tool_call_id))
    ]


class ReflectingModel:
    """The model that reflects: it sees in the world where the agent stands, and is right at a set rate.

    Args:
        way: The way.
        assumptions: How often it is right.
        progress: What has really been done so far.
    """

    def __init__(
        self,
        way: Way,
        assumptions: Assumptions,
        progress: Callable[[], Sequence[Taken]],
    ) -> None:
        self._way = way
        self._assumptions = assumptions
        self._progress = progress

    def reply(self, _: Sequence[BaseMessage]) -> dict[str, Any]:
        """Fill in the form that the prompt asks for."""
        way, taken = self._way, self._progress()
        place, _ = way.walked(taken)
        right = way.chance(len(taken), "reflection") < self._assumptions.right
        wanted = way.gold[min(place, len(way.gold) - 1)]
        action = wanted if right else _another(wanted)
        return {
            "key_information": {
                "objective": f"The task {way.task.name}.",
                "initial_environment": "Some room of the house.",
                "progress": f"{place} of {len(way.gold)} steps.",
            },
            "questions": [
                {
                    "question": "What is to be done now?",
                    "answer": "The next step of the task.",
                }
            ],
            "next_step": f'Call {call_of(action)[0]}: "{action}".',
        }
