"""The user's own tasks: a file of JSON lines, one task each.

    {"id": "oslo", "question": "Which flight to Oslo is cheapest?", "tools": "travel.tools:make_tools",
     "check": "travel.tools:is_cheapest", "effects": {"search_flights": "read"}}

`question` is what the user asks, or `turns` a list of what they say one after the other. `tools` names, by module and
attribute, a list of tools or functions, a sandbox, or a function without arguments that makes either, anew for each
task. `check` names a function of the messages of the conversation, or of the messages and the task: it returns whether
the task is solved, a score between 0 and 1 (solved from 1 on), or a pair of either and a reason. `effects` (which tools
only `"read"`) and `system` (the agent's system prompt) may be left out, and so may `id`.
"""

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool, tool

from langchain_tooltree import Sandbox
from tests.benchmarks.live.episode import Options, Outcome, Typical, UsageError, chosen

KEYS = frozenset({"id", "question", "turns", "tools", "check", "effects", "system"})


class FilesBench:
    """The tasks of `--file`."""

    typical = Typical(model_calls=4, input_tokens=1_500, output_tokens=80)
    """Of a short task with a handful of tools: three calls and the answer."""

    def tasks(self, options: Options) -> list["FileTask"]:
        """The tasks that the options choose."""
        if options.file is None:
            msg = "The bench files needs --file FILE with a task a line; bench_files.py says how they look."
            raise UsageError(msg)
        try:
            lines = options.file.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            msg = f"--file {options.file} cannot be read: {error}."
            raise UsageError(msg) from error
        problems: list[str] = []
        tasks: dict[str, FileTask] = {}
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    task = _task(json.loads(line), number)
                    if task.id in tasks:
                        _fail(f"the id {task.id!r} occurs twice")
                    tasks[task.id] = task
                except (ValueError, ImportError, AttributeError) as error:
                    problems.append(f"line {number}: {error}")
        if problems or not tasks:
            msg = f"{options.file} cannot be used:\n" + "\n".join(
                problems or ["it holds no task"]
            )
            raise UsageError(msg)
        return chosen(list(tasks.values()), options)


@dataclass(frozen=True, kw_only=True)
class FileTask:
    """A line of the file, understood.

    Attributes:
        id: Its name.
        turns: What the user says.
        tools: Tools, a sandbox, or what makes them.
        check: Judges a conversation.
        effects: Which tools read.
        system: The agent's system prompt.
        entry: The line itself.
    """

    id: str
    turns: tuple[str, ...]
    tools: Any
    check: Callable[..., Any]
    effects: Mapping[str, str] = field(default_factory=dict)
    system: str | None = None
    entry: Mapping[str, Any] = field(default_factory=dict)

    def start(self) -> "FileEpisode":
        """A new episode; tools that are made by a function are made for it."""
        return FileEpisode(self)


class FileEpisode:
    """A task under way."""

    def __init__(self, task: FileTask) -> None:
        self.id = task.id
        self.system = task.system
        self.effects = task.effects
        self._task = task
        self._said = 0
        given = (
            task.tools()
            if callable(task.tools) and not isinstance(task.tools, BaseTool)
            else task.tools
        )
        self.sandbox: Sandbox | None = given if isinstance(given, Sandbox) else None
        listed = given.tools if isinstance(given, Sandbox) else given
        self.tools: Sequence[BaseTool] = [
            each if isinstance(each, BaseTool) else tool(each) for each in listed
        ]

    def next_request(self, messages: Sequence[BaseMessage]) -> str | None:
        """What the user says next; `None` once everything is said, or where the agent did not come to an end."""
        if self._said == len(self._task.turns) or (
            messages and not _has_ended(messages)
        ):
            return None
        self._said += 1
        return self._task.turns[self._said - 1]

    def outcome(self, messages: Sequence[BaseMessage]) -> Outcome:
        """What the check says; who never came to an end has failed."""
        if not _has_ended(messages):
            return Outcome(success=False, score=0.0, detail="stopped before an answer")
        check = self._task.check
        found = (
            check(list(messages), self._task.entry)
            if len(signature(check).parameters) > 1
            else check(messages)
        )
        said, why = found if isinstance(found, tuple) else (found, "")
        score = min(1.0, max(0.0, float(said)))
        return Outcome(score >= 1, score, str(why))


def _has_ended(messages: Sequence[BaseMessage]) -> bool:
    return isinstance(messages[-1], AIMessage) and not messages[-1].tool_calls


def _task(entry: Any, number: int) -> FileTask:
    if not isinstance(entry, dict):
        _fail(f"a task is a JSON object, got {type(entry).__name__}")
    if unknown := sorted(entry.keys() - KEYS):
        _fail(f"unknown key {unknown[0]!r}; a task has {', '.join(sorted(KEYS))}")
    if ("question" in entry) == ("turns" in entry):
        _fail("give either a question or turns")
    turns = entry.get("turns", [entry.get("question")])
    if not (
        isinstance(turns, list)
        and turns
        and all(isinstance(each, str) and each for each in turns)
    ):
        _fail(f"question must be a text, turns a list of texts, got {turns!r}")
    if missing := sorted({"tools", "check"} - entry.keys()):
        _fail(f"{missing[0]!r} is missing; it names package.module:attribute")
    effects = entry.get("effects", {})
    if not (
        isinstance(effects, dict)
        and all(effect in {"read", "write"} for effect in effects.values())
    ):
        _fail(f'effects must say "read" or "write" by tool, got {effects!r}')
    check = _imported(entry, "check")
    if not callable(check):
        _fail(
            f"check must name a function, and {entry['check']} is a {type(check).__name__}"
        )
    return FileTask(
        id=str(entry.get("id", number)),
        turns=tuple(turns),
        tools=_imported(entry, "tools"),
        check=check,
        effects=effects,
        system=entry.get("system"),
        entry=entry,
    )


def _imported(entry: Mapping[str, Any], key: str) -> Any:
    module, _, attribute = str(entry[key]).partition(":")
    if not (module and attribute):
        _fail(f"{key} must be package.module:attribute, got {entry[key]!r}")
    return getattr(importlib.import_module(module), attribute)


def _fail(problem: str) -> None:
    raise ValueError(problem)
