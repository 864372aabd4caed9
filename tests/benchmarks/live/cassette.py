"""What a real model was asked and answered in the live benchmark, as a file, and a chat model that answers from it.

To the lines of `cookbook.recorded_model.AnswerRecorder` come those of tasks. `{"id", "tool"}`: a tool, where it is
first met. `{"turn", "request", "tools": [ids], ...}`: the user of a task says something. `{"ended", "messages": [ids],
"outcome"}`: a task is over. A run's settings name its `method`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from cookbook.recorded_model import (
    AnswerRecorder,
    RecordedAnswer,
    RecordedChatModel,
    message_data,
    recorded_lines,
)
from tests.benchmarks.live.episode import Episode, Outcome


class Recorder(AnswerRecorder):
    """Records tasks beside answers."""

    def say(self, episode: Episode, request: str) -> None:
        """Write what the user says, and what the agent has to work with from then on."""
        with self._lock:
            tools = [
                self._id_of("tool", convert_to_openai_tool(tool)["function"])
                for tool in episode.tools
            ]
            parts = {
                "system": episode.system,
                "effects": dict(episode.effects),
                "forks": episode.sandbox is not None,
            }
            self._write(
                {"turn": episode.id, "request": request, "tools": tools, **parts}
            )

    def end(self, task: str, messages: Sequence[BaseMessage], outcome: Outcome) -> None:
        """Write how a task ended."""
        with self._lock:
            said = [
                self._id_of("message", message_data(message)) for message in messages
            ]
            self._write({"ended": task, "messages": said, "outcome": asdict(outcome)})


class RecordedMethod(RecordedChatModel):
    """Answers as in the runs of one method.

    Args:
        path: The recording.
        method: Only the runs of this method, and of these the tasks that ended.
    """

    method: str

    def _recorded(self) -> Sequence[RecordedAnswer]:
        return read_cassette(self.path, self.method)[0]


@dataclass(slots=True)
class RecordedRun:
    """A task as it went.

    Attributes:
        id: The task.
        turns: What the user said, with `tools` in full, `system`, `effects` and `forks`.
        requests: What the model was asked.
        asked: The conversations that it was shown.
        messages: The whole conversation at the end.
        outcome: What the benchmark made of it; `None` if the task did not end.
    """

    id: str
    turns: list[Mapping[str, Any]] = field(default_factory=list)
    requests: list[RecordedAnswer] = field(default_factory=list)
    asked: list[Sequence[Mapping[str, Any]]] = field(default_factory=list)
    messages: Sequence[Mapping[str, Any]] = ()
    outcome: Outcome | None = None


def read_cassette(
    path: Path, method: str
) -> tuple[list[RecordedAnswer], list[RecordedRun]]:
    """What a method's runs recorded: the requests, in order, and the tasks that ended.

    Requests of a task that did not end, since the process or the model failed, are left out.
    """
    beside: list[RecordedAnswer] = []  # asked between tasks, by a memory that learns
    runs: list[RecordedRun] = []
    now: RecordedRun | None = None
    chosen = True
    for place, line in recorded_lines(path):
        if "run" in line:
            chosen, now = line["run"].get("method") == method, None
        elif not chosen:
            continue
        elif "turn" in line:
            now = now if now and now.id == line["turn"] else RecordedRun(line["turn"])
            now.turns.append(line)
        elif "reply" in line:
            (now.requests if now else beside).append(RecordedAnswer.of(place, line))
            if now:
                now.asked.append(line["asked"])
        elif now:
            now.messages = line["messages"]
            now.outcome = Outcome(**line["outcome"])
            runs, now = [*runs, now], None
    requests = [*beside, *(request for run in runs for request in run.requests)]
    return sorted(requests, key=lambda each: each.place), runs
