"""The tasks, user turn by user turn: their worlds, their dialogues, and gold's run of a task as something to learn."""

import hashlib
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_tooltree import Trajectory
from tests.benchmarks.bfcl_data import CATEGORY, fetch_package, load_entries, load_tasks
from tests.benchmarks.bfcl_world import PlainCall, Task
from tests.benchmarks.recorded.runs import State, Step, Turn

GOLD = "gold"
"""Name of gold's run in a turn."""

ANSWER = "Done."
"""What stands for the agent's answers, which nobody scores; the same everywhere, so that it tells nothing."""

Message = dict[str, Any]
"""A message of the OpenAI chat format."""


@dataclass
class Scene:
    """A user turn, and the dialogue before it, which is gold's: turns are played apart from each other.

    Attributes:
        turn: World, states and gold.
        before: The dialogue up to the turn's request, it included.
        requests: What is recalled for: the task's first request, and the turn's.
    """

    turn: Turn
    before: list[Message]
    requests: Sequence[str] = ()

    @cached_property
    def tools(self) -> list[str]:
        """Names of the tools that may be used."""
        return [tool.name for tool in self.turn.task.tools]

    @cached_property
    def tool_characters(self) -> int:
        """Characters of the tools in a request."""
        specs = ({"name": tool.name, "description": tool.description, **tool.schema} for tool in self.turn.task.tools)
        return len(json.dumps(list(specs)))

    def dialogue(self, way: Sequence[tuple[State, Step]]) -> list[Message]:
        """The dialogue after the steps of a way."""
        messages = [*self.before]
        for state, step in way:
            messages += _round([self.turn.call(key) for key in step], self.turn.take(state, step)[1], len(messages))
        return messages


@dataclass
class Played:
    """A task, turn by turn, with gold's run of it."""

    task: Task
    requests: Sequence[str]
    scenes: list[Scene] = field(default_factory=list)

    def __post_init__(self) -> None:
        objects = pickle.dumps(self.task.make_objects())
        messages: list[Message] = []
        for number, request in enumerate(self.requests):
            turn = Turn(self.task, number, objects)
            end = turn.record(GOLD, objects, [(call,) for call in turn.gold])
            turn.judge()
            scene = Scene(turn, [*messages, {"role": "user", "content": request}], [self.requests[0], request])
            self.scenes.append(scene)
            messages = [*scene.dialogue(turn.ways[GOLD]), {"role": "assistant", "content": ANSWER}]
            objects = end.objects
        self.gold = messages

    def trajectory(self) -> Trajectory:
        """Gold's run."""
        return self._run(GOLD, self.gold, success=True)

    def own_run(self, name: str, ways: Sequence[Sequence[tuple[State, Step]]], *, success: bool) -> Trajectory:
        """A run that took these steps, turn by turn, with the verdict on it."""
        messages: list[Message] = []
        for scene, way in zip(self.scenes, ways, strict=True):
            messages += scene.dialogue(way)[len(scene.before) - 1 :]
            messages.append({"role": "assistant", "content": ANSWER})
        return self._run(name, messages, success=success)

    def _run(self, name: str, messages: Sequence[Message], *, success: bool) -> Trajectory:
        return Trajectory(
            id=f"{self.task.id}/{name}",
            task="\n".join(self.requests),
            messages=list(messages),
            success=success,
            metadata={"task_id": self.task.id},
        )


def played_tasks(cache: Path) -> list[Played]:
    """All tasks, in an order that nobody chose: by the hash of their identifiers, since neighbours are alike."""
    package = fetch_package(cache)
    tasks = load_tasks(package)
    requests = {entry["id"]: _requests(entry) for entry in load_entries(package, CATEGORY)}
    tasks.sort(key=lambda task: hashlib.sha256(task.id.encode()).hexdigest())
    return [Played(task, requests[task.id]) for task in tasks]


def _requests(entry: Mapping[str, Any]) -> list[str]:
    return ["\n".join(message["content"] for message in turn) for turn in entry["question"]]


def _round(calls: Sequence[PlainCall], results: Sequence[str], place: int) -> Iterator[Message]:
    """The message that makes calls, and what they bring back."""
    ids = [f"call_{place}_{number}" for number in range(len(calls))]
    made = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(dict(call.arguments))},
        }
        for call_id, call in zip(ids, calls, strict=True)
    ]
    yield {"role": "assistant", "content": "", "tool_calls": made}
    for call_id, result in zip(ids, results, strict=True):
        yield {"role": "tool", "tool_call_id": call_id, "content": result}
