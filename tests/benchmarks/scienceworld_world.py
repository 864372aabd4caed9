"""ScienceWorld (Wang et al. 2022): school science in a text world, a real environment that runs in a Java process.

A `World` is one such process. It is a reset / step environment, and an agent plays it with the tools of `tools_of`.
What it knows beside that, the gold path, is for those who measure and for simulated models alone.
"""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool

try:
    from scienceworld import ScienceWorldEnv
except ImportError:
    ScienceWorldEnv = None

NO_LIMIT = 1_000_000
"""Steps after which the environment itself would end a run; those who play set their own limit."""

PERFECT = 100
"""The score of a task that is done."""

PATIENCE = 30
"""Seconds for the Java process to end."""

WAITING = "wait"
"""The tool that is called again and again on purpose: things in this world take their time."""

Call = tuple[str, dict[str, Any]]
"""A tool's name and arguments."""


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """One variation of one of the 30 task types."""

    name: str
    variation: int

    def __str__(self) -> str:
        return f"{self.name}/{self.variation}"


@dataclass(frozen=True, slots=True)
class Taken:
    """An action that was taken.

    Attributes:
        action: What was typed.
        answer: What the environment said.
        score: The score after it, up to 100; below zero once the task is spoilt for good.
        done: Whether the environment takes the task for finished, whether well or badly.
    """

    action: str
    answer: str
    score: int = 0
    done: bool = False


def missing() -> str:
    """What is missing to run ScienceWorld, and the remedy; empty if nothing is."""
    if ScienceWorldEnv is None:
        return "ScienceWorld is not installed: pip install scienceworld"
    if shutil.which("java") is None:
        return "ScienceWorld runs in Java, and there is no java command here: install a Java runtime, 8 or newer"
    return ""


class World:
    """One Java process with ScienceWorld in it; to be closed, or used in a `with` statement.

    The same task and actions bring the same course of things, but for the order of what is listed and for a degree or
    two of temperature.
    """

    def __init__(self) -> None:
        self._environment = ScienceWorldEnv("", envStepLimit=NO_LIMIT)
        self.taken: list[Taken] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process and everything that belongs to it."""
        process = self._environment._gateway.java_process
        self._environment.close()
        process.wait(PATIENCE)
        process.stdin.close()
        self._environment._obj_tree_tempdir.cleanup()

    def task_names(self) -> list[str]:
        return sorted(self._environment.get_task_names())

    def variations(self, name: str) -> int:
        """How many variations a task type has."""
        return self._environment.get_max_variations(name)

    def test_variations(self, name: str) -> list[int]:
        """The variations of a task type that are kept for tests; ends what was being played."""
        self._environment.load(name, 0, "")
        return [int(each) for each in self._environment.get_variations_test()]

    def gold(self, task: Task) -> list[str]:
        """Actions that solve a task, as the environment knows them; ends what was being played."""
        self._environment.load(task.name, task.variation, "", generateGoldPath=True)
        return self._environment.get_gold_action_sequence()

    def describe(self, task: Task) -> str:
        """The text of a task; ends what was being played."""
        self._environment.load(task.name, task.variation, "")
        return self._environment.get_task_description()

    def begin(self, task: Task) -> str:
        """Begin a task.

        Returns:
            Its text.
        """
        text = self.describe(task)
        self.taken = []
        return text

    def take(self, action: str) -> Taken:
        """Take an action."""
        # ScienceWorldEnv.step also lists every action that would be possible, which takes twenty times as long.
        server = self._environment.server
        answer = server.step(action)
        score = round(PERFECT * server.getScore())
        self.taken.append(
            Taken(action, answer, score, server.getCompleted() or score < 0)
        )
        return self.taken[-1]

    @property
    def last(self) -> Taken:
        """The latest action."""
        return self.taken[-1] if self.taken else Taken("", "")

    def objects(self) -> list[str]:
        """What can be referred to where the agent is."""
        return sorted(self._environment.get_possible_objects())

    def play(self, task: Task, actions: Sequence[str]) -> list[Taken]:
        """Begin a task and take actions until they end or the task does."""
        self.begin(task)
        for action in actions:
            if self.take(action).done:
                break
        return list(self.taken)

    def reset(self, task: Any) -> tuple[str, dict[str, Any]]:
        """Begin a task, as environments have it.

        Args:
            task: The task, or something that has it as its `data`.

        Returns:
            What there is to see, and the text of the task.
        """
        text = self.begin(task if isinstance(task, Task) else task.data)
        return self.take("look around").answer, {"task": text}

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        """Take an action, as environments have it.

        Returns:
            The answer; the reward of this step, which adds up to 1 for a task that is done; whether the task is over;
            and the score.
        """
        before = self.last.score
        taken = self.take(action)
        return (
            taken.answer,
            (taken.score - before) / PERFECT,
            taken.done,
            {"score": taken.score},
        )


class Actor(Protocol):
    """Something in which actions are taken: a world, or a copy of one."""

    def take(self, action: str) -> Taken:
        """Take an action."""


def tools_of(world: Actor) -> list[BaseTool]:
    """The tools of an agent that plays."""

    def act(action: str) -> str:
        """Do something, in words: open, close, go to, pick up, put down, move ... to ..., pour ... into ..., activate,
        deactivate, use ... on ..., connect ... to ..., disconnect, mix, dunk ... into ..., eat, flush, read,
        focus on, look at, look in. Where a request is ambiguous, the next one is the number of what was meant."""
        return world.take(action).answer

    def look() -> str:
        """Look around."""
        return world.take("look around").answer

    def inventory() -> str:
        """See what you carry."""
        return world.take("inventory").answer

    def wait(turns: Literal[1, 10] = 10) -> str:
        """Let time pass."""
        return world.take(action_of("wait", {"turns": turns})).answer

    return [
        StructuredTool.from_function(function)
        for function in (act, look, inventory, wait)
    ]


_PLAIN: dict[str, Call] = {
    "look around": ("look", {}),
    "inventory": ("inventory", {}),
    "wait": (WAITING, {"turns": 10}),
    "wait1": (WAITING, {"turns": 1}),
}


def call_of(action: str) -> Call:
    """The tool call that takes an action."""
    return _PLAIN.get(action) or ("act", {"action": action})


def action_of(tool: str, arguments: dict[str, Any]) -> str:
    """The action that a tool call takes."""
    if tool == "act":
        return str(arguments.get("action", ""))
    return next(
        (action for action, call in _PLAIN.items() if call == (tool, arguments)), tool
    )


def dialogue(text: str, taken: Sequence[Taken]) -> list[BaseMessage]:
    """A run as the conversation of an agent that was given the task's text and called a tool for each action."""
    messages: list[BaseMessage] = [HumanMessage(text)]
    for number, each in enumerate(taken):
        name, arguments = call_of(each.action)
        call = {"name": name, "args": arguments, "id": f"call_{number}"}
        messages.append(AIMessage("", tool_calls=[call]))
        messages.append(ToolMessage(each.answer, name=name, tool_call_id=call["id"]))
    return messages


REFUSALS = (
    # the parser
    r"No known action matches that input\.",
    r"Unknown action\..*",
    r"Ambiguous request: .*",
    r"<?ERROR\b.*",
    # the checks before an action
    r"I'm not sure (what that means|how to ).*",
    r"It'?s not clear how .*",
    r".* is not (something that can be \w+|a container|\w+able|edible|open|currently passable)\.",
    r".* (isn't|is not) open, so you can't see inside\.",
    r".* aren't able to move\.",
    r".* does not contain any liquids to dunk into\.",
    r".* is already connected, and must be disconnected before .*",
    r"Connections must specify .*",
    r"You must disconnect entire objects .*",
    r".* can't be connected to itself\.",
    r"You can't .*",
    r"That can't be moved there.*",
    r".* can't be poured out.*",
    r".* is empty, so there's nothing to pour\.",
    r"That container is empty, so there are no items to mix\.",
    r"The door doesn't appear to go anywhere\.",
    r"That object does not appear to be in the inventory\.",
    r".* appears broken, and can't be .*",
)
"""The first line of an answer by which the environment refuses an action, written after its own sources: what its
parser says, and what its actions say where they check whether they are possible.

That something is "already open", "already activated" or "already in the inventory" is no refusal: it is as was wanted.
"""

_REFUSED = re.compile("|".join(f"(?:{refusal})" for refusal in REFUSALS))


def is_refusal(answer: str) -> bool:
    """Whether the environment answers with an error text."""
    return _REFUSED.fullmatch(answer.partition("\n")[0].strip()) is not None


def is_ambiguous(answer: str) -> bool:
    """Whether the environment asks what was meant, and so reads the next action as an answer to that."""
    return answer.startswith("Ambiguous request: Please enter the number")
