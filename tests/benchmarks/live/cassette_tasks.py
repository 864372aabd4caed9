"""Recorded tasks, played again without the benchmark that they are from.

What a tool brings back is known from the conversations that the model was shown: the same calls from the start of the
task on lead to the same result. Who does what was recorded is judged as it was then.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool

from cookbook.recorded_model import message_data
from langchain_tooltree import ObjectSandbox
from tests.benchmarks.bfcl_world import ToolSpec, tools_calling
from tests.benchmarks.live.cassette import RecordedRun, read_cassette
from tests.benchmarks.live.episode import Outcome

NOT_RECORDED = "Error: what this call brings back was not recorded."

Results = dict[tuple[str, ...], str]
"""What the last one of some calls brought back, the calls being all since the start of the task."""


class RecordedTask:
    """A task that can be played again.

    Args:
        run: The recording.

    Attributes:
        outcome: What the benchmark made of it.
        model_calls: How often the model was asked.
    """

    def __init__(self, run: RecordedRun) -> None:
        self.id = run.id
        self.outcome = run.outcome
        self.model_calls = len(run.asked)
        self._run = run
        self._results: Results = {}
        tools = {tool["name"] for turn in run.turns for tool in turn["tools"]}
        for conversation in (*run.asked, run.messages):
            self._results |= _results_in(conversation, tools)

    def start(self) -> "RecordedEpisode":
        """A new episode."""
        return RecordedEpisode(self._run, self._results)


class RecordedEpisode:
    """A recorded task under way."""

    def __init__(self, run: RecordedRun, results: Results) -> None:
        self.id = run.id
        self._run = run
        self._results = results
        self._made: list[str] = []
        self._turn = -1

    @property
    def _said(self) -> Mapping[str, Any]:
        return self._run.turns[max(0, self._turn)]

    @property
    def system(self) -> str | None:
        """The agent's system prompt."""
        system: str | None = self._said["system"]
        return system

    @property
    def effects(self) -> Mapping[str, str]:
        """Which tools read."""
        effects: Mapping[str, str] = self._said["effects"]
        return effects

    @property
    def sandbox(self) -> ObjectSandbox | None:
        """The calls made so far, of which forks are copies."""
        return ObjectSandbox(self._made, self._bound) if self._said["forks"] else None

    @property
    def tools(self) -> Sequence[BaseTool]:
        """The tools of this turn."""
        return self._bound(self._made)

    def _bound(self, made: list[str]) -> list[BaseTool]:
        def call(tool: str, arguments: Mapping[str, Any]) -> str:
            made.append(_call_key(tool, arguments))
            return self._results.get(tuple(made), NOT_RECORDED)

        specs = [
            ToolSpec(each["name"], "", each["description"], each["parameters"])
            for each in self._said["tools"]
        ]
        return tools_calling(call, specs)

    def next_request(self, messages: Sequence[BaseMessage]) -> str | None:
        """What the user said next."""
        if self._turn + 1 >= len(self._run.turns):
            return None
        self._turn += 1
        request: str = self._said["request"]
        return request

    def outcome(self, messages: Sequence[BaseMessage]) -> Outcome:
        """What the benchmark made of the same calls, turn by turn."""
        if self._run.outcome and _calls(
            [message_data(each) for each in messages]
        ) == _calls(self._run.messages):
            return self._run.outcome
        return Outcome(success=False, score=0.0, detail="other calls than recorded")


def recorded_tasks(path: Path, method: str) -> list[RecordedTask]:
    """The tasks that a method's runs recorded to their end."""
    return [RecordedTask(run) for run in read_cassette(path, method)[1]]


def _results_in(conversation: Sequence[Mapping[str, Any]], tools: set[str]) -> Results:
    """What each call of a conversation brought back; calls of tools that there are not have reached none."""
    found: Results = {}
    made: tuple[str, ...] = ()
    waiting: list[str | None] = []
    for message in conversation:
        if message["role"] == "ai":
            calls = message.get("calls", ())
            waiting = [
                _call_key(name, given) if name in tools else None
                for name, given in calls
            ]
        elif message["role"] == "tool" and waiting and (key := waiting.pop(0)):
            made = (*made, key)
            found[made] = message["text"]
    return found


def _calls(conversation: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    turns: list[list[Any]] = []
    for message in conversation:
        if message["role"] == "human":
            turns.append([])
        elif message["role"] == "ai":
            turns[-1] += message.get("calls", ())
    return turns


def _call_key(tool: str, arguments: Mapping[str, Any]) -> str:
    return f"{tool}({json.dumps(arguments, sort_keys=True)})"
