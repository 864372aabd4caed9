"""One task after another: what each came to and cost, and the journal that a later start goes on from."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.outputs import LLMResult

from tests.benchmarks.live.cassette import Recorder
from tests.benchmarks.live.episode import (
    Experience,
    Finished,
    Memory,
    Method,
    Outcome,
    Setting,
    Task,
    UsageError,
)

LONGEST_ERROR = 500
"""Characters of an error that are kept."""

FAILURES_IN_A_ROW = 3
"""So many errors one after the other stop the run: something is wrong with the model or the network."""

INNER = "tooltree"
"""Tag of the planner's own model calls."""

PREFIX = "tooltree."
"""Their names begin so."""

SEARCH = "search"
"""Kind of the planner's calls that have no name of their own: steps in forks, questions at a doubt, forms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """What became of a task.

    Attributes:
        id: The task.
        success: Whether it was solved; an error counts as a failure.
        score: The benchmark's score.
        detail: Why, in a line.
        error: What went wrong with the model or the network; `None` if nothing did.
        calls: Model calls by kind.
        input_tokens: Sent.
        output_tokens: Received.
        seconds: From start to end.
        messages: The conversation, in the OpenAI chat format.
        learnt: What a memory kept of it.
    """

    id: str
    success: bool
    score: float
    detail: str = ""
    error: str | None = None
    calls: Mapping[str, int] = field(default_factory=dict)
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    messages: Sequence[Mapping[str, Any]] = ()
    learnt: Any = None

    @property
    def model_calls(self) -> int:
        """Model calls of all kinds, without those of the simulated user."""
        return sum(count for kind, count in self.calls.items() if kind != "user")

    @property
    def finished(self) -> Finished:
        """What a memory learns from."""
        messages = convert_to_messages([dict(message) for message in self.messages])
        return Finished(
            self.id,
            messages,
            Outcome(self.success, self.score, self.detail),
            self.learnt,
        )


class CallCounter(BaseCallbackHandler):
    """Counts model calls by kind, and tokens; one for all models of a run, safe to use from several threads.

    Args:
        kind: The kind of calls whose run has no name of its own.
    """

    def __init__(self, kind: str = "agent") -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self.calls = Counter[str]()
        self.tokens = Counter[str]()

    def on_chat_model_start(
        self,
        serialized: Mapping[str, Any] | None,
        messages: object,
        *,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        """Count a call: the planner's own by their names, others by the name that the caller gave the run."""
        name = str(kwargs.get("name") or "")
        of_class = (serialized or {}).get("name") or (
            (serialized or {}).get("id") or [""]
        )[-1]
        if name and name != of_class and not name.startswith("Chat"):
            kind = name.removeprefix(PREFIX)
        else:
            kind = SEARCH if INNER in (kwargs.get("tags") or ()) else self._kind
        with self._lock:
            self.calls[kind] += 1

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Count the tokens that a reply reports."""
        for generations in response.generations:
            for generation in generations:
                usage = (
                    getattr(
                        getattr(generation, "message", None), "usage_metadata", None
                    )
                    or {}
                )
                with self._lock:
                    for key in ("input_tokens", "output_tokens"):
                        self.tokens[key] += usage.get(key, 0)


def converse(
    task: Task,
    method: Method,
    setting: Setting,
    memory: Memory | None,
    recorder: Recorder | None = None,
) -> tuple[list[BaseMessage], Outcome]:
    """Let a method talk to the user of a task until it is over.

    Returns:
        The conversation and how it ended.
    """
    episode = task.start()
    messages: list[BaseMessage] = []
    experience: Experience | None = None
    while (request := episode.next_request(messages)) is not None:
        messages.append(HumanMessage(request))
        if experience is None:
            experience = memory.recall(request) if memory else Experience()
            setting = replace(setting, experience=experience)
        if recorder:
            recorder.say(episode, request)
        messages += method(setting, episode, messages)
    outcome = episode.outcome(messages)
    if recorder:
        recorder.end(task.id, messages, outcome)
    return messages, outcome


def run_task(
    task: Task,
    method: Method,
    setting: Setting,
    memory: Memory | None,
    counters: Iterable[CallCounter],
    recorder: Recorder | None = None,
) -> TaskRun:
    """Do one task, and have a memory learn from it; an exception on the way makes it a failed one, which says why."""
    counters = list(counters)
    before = [(counter.calls.copy(), counter.tokens.copy()) for counter in counters]
    start = time.monotonic()
    messages: list[BaseMessage] = []
    error = None
    try:
        messages, outcome = converse(task, method, setting, memory, recorder)
    except Exception as problem:  # noqa: BLE001 - whatever a provider raises; it is shown, and can be redone
        error = f"{type(problem).__name__}: {problem}"[:LONGEST_ERROR]
        outcome = Outcome(success=False, score=0.0, detail=error)
    seconds = time.monotonic() - start
    run = TaskRun(
        id=task.id,
        success=outcome.success,
        score=outcome.score,
        detail=outcome.detail,
        error=error,
        seconds=round(seconds, 2),
        messages=[
            dict(message) for message in convert_to_openai_messages(_plain(messages))
        ],
    )
    learnt = memory.learn(run.finished) if memory and error is None else None
    calls, tokens = Counter[str](), Counter[str]()
    for counter, (calls_before, tokens_before) in zip(counters, before, strict=True):
        calls += counter.calls - calls_before
        tokens += counter.tokens - tokens_before
    figures = {
        "input_tokens": tokens["input_tokens"],
        "output_tokens": tokens["output_tokens"],
    }
    return replace(run, calls=dict(calls), learnt=learnt, **figures)


def _plain(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Messages as every format can hold them: signed reasoning and the planner's notes left out."""
    return [
        AIMessage(message.text, tool_calls=message.tool_calls)
        if isinstance(message, AIMessage)
        else message
        for message in messages
    ]


class Journal:
    """The finished tasks of a run, a line each, after a line with its settings; kept in memory without a file.

    Args:
        path: The file; it is made, or gone on with.
        settings: What the run was started with.

    Raises:
        UsageError: If the file holds a run with other settings, or no run.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        self._path = path
        self._runs: dict[str, TaskRun] = {}
        if path is None:
            return
        if path.exists() and path.stat().st_size:
            kept, runs = read_journal(path)
            if differing := sorted(
                key for key in {*kept, *settings} if kept.get(key) != settings.get(key)
            ):
                key = differing[0]
                msg = (
                    f"{path} holds a run with {key}={kept.get(key)!r}, and this one has {settings.get(key)!r}. "
                    "Start with the same settings to go on with it, or name another file."
                )
                raise UsageError(msg)
            self._runs = {run.id: run for run in runs}
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written anew: the last line may have been cut off, and a task done again needs one line only.
        lines = [{"settings": settings}, *map(asdict, self.runs)]
        path.write_text("".join(map(_line, lines)), encoding="utf-8")

    @property
    def runs(self) -> list[TaskRun]:
        """What is finished, in the order in which it was first done."""
        return list(self._runs.values())

    def add(self, run: TaskRun) -> None:
        """Keep a finished task; one done again takes the place of its first try."""
        self._runs[run.id] = run
        if self._path:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(_line(asdict(run)))


def _line(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False) + "\n"


def read_journal(path: Path) -> tuple[dict[str, Any], list[TaskRun]]:
    """The settings and the tasks of a journal, or of the file that `--json` wrote.

    Raises:
        UsageError: If it is neither.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if text.startswith(
            "{\n"
        ):  # the indented form of --json; in a journal a line is a whole object
            written = json.loads(text)
            return written["settings"], [TaskRun(**each) for each in written["tasks"]]
        lines = [line for line in text.splitlines() if line.strip()]
        first = json.loads(lines[0])
        runs = {
            each["id"]: TaskRun(**each) for each in map(json.loads, _whole(lines[1:]))
        }
        return first["settings"], list(runs.values())
    except (OSError, ValueError, LookupError, TypeError) as error:
        msg = f"{path} holds no run of this benchmark ({type(error).__name__}: {error}). Name another file."
        raise UsageError(msg) from error


def _whole(lines: list[str]) -> list[str]:
    """The lines without a last one that was cut off by the end of the process."""
    try:
        json.loads(lines[-1] if lines else "{}")
    except ValueError:
        return lines[:-1]
    return lines
