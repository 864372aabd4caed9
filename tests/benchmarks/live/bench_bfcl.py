"""The multi-turn tasks of the Berkeley function-calling benchmark, turn by turn, by the rules of its own runner.

No system prompt; each user turn is a request in one conversation; a turn of the category `miss_func` that says nothing
adds the tools that were held back, at the end of the list, with the benchmark's own words for it; who still calls tools
after 20 steps of a turn is stopped, and has failed. The benchmark's checker decides, on the calls turn by turn.
"""

import importlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.tools import BaseTool

from langchain_tooltree import ObjectSandbox
from tests.benchmarks.bfcl_data import (
    fetch_package,
    load_entries,
    make_objects,
    owners_of,
    tool_specs,
)
from tests.benchmarks.bfcl_world import PlainCall, ToolSpec, World, tools_calling
from tests.benchmarks.live.episode import Options, Outcome, Typical, UsageError, chosen

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")

LONGEST_DETAIL = 300
"""Characters of the checker's message that are kept."""

Step = list[str]
"""The calls of one reply, as the Python expressions that the checker reads."""


class BfclBench:
    """The benchmark's tasks of one category, `base` if none is named."""

    typical = Typical(model_calls=10, input_tokens=4_500, output_tokens=40)
    """Gold has 5.7 calls and 3.7 turns a task, each with an answer; 18 to 37 tools of 150 tokens go with every call."""

    def tasks(self, options: Options) -> list["BfclTask"]:
        """The tasks that the options choose."""
        category = options.category or CATEGORIES[0]
        if category not in CATEGORIES:
            msg = f"--category {category!r} is unknown to bfcl; choose one of {', '.join(CATEGORIES)}."
            raise UsageError(msg)
        package = fetch_package(options.cache)
        entries = load_entries(package, category)
        tasks = [
            BfclTask(entry, package, long_context=category == "long_context")
            for entry in entries
        ]
        return chosen(tasks, options)


@dataclass(frozen=True)
class BfclTask:
    """An entry of the benchmark."""

    entry: Mapping[str, Any]
    package: Path
    long_context: bool = False

    @property
    def id(self) -> str:
        """The benchmark's identifier."""
        return str(self.entry["id"])

    def start(self) -> "BfclEpisode":
        """A new episode, its objects in their first state."""
        specs = tool_specs(self.package, owners_of(self.entry))
        return BfclEpisode(
            self.entry, specs, make_objects(self.entry, long_context=self.long_context)
        )


class BfclEpisode:
    """A task under way."""

    system = None
    effects: Mapping[str, str] = {}

    def __init__(
        self,
        entry: Mapping[str, Any],
        specs: Sequence[ToolSpec],
        objects: dict[str, Any],
    ) -> None:
        self.id = str(entry["id"])
        self._entry = entry
        self._specs = {spec.name: spec for spec in specs}
        self._world = World(objects)
        self._turn = -1
        self._held_back: Mapping[str, list[str]] = entry.get("missed_function", {})
        hidden = {name for names in self._held_back.values() for name in names}
        self._shown = [name for name in self._specs if name not in hidden]

    @property
    def sandbox(self) -> ObjectSandbox:
        """The world with the tools of this turn."""
        return ObjectSandbox(
            self._world, partial(_tools, [self._specs[name] for name in self._shown])
        )

    @property
    def tools(self) -> Sequence[BaseTool]:
        """The tools of this turn."""
        return self.sandbox.tools

    def next_request(self, messages: Sequence[BaseMessage]) -> str | None:
        """What the user says next; `None` where the benchmark has no more turns, or stopped the agent."""
        questions = self._entry["question"]
        if self._turn + 1 >= len(questions) or (messages and not _has_ended(messages)):
            return None
        self._turn += 1
        self._shown += self._held_back.get(str(self._turn), ())
        said = [message["content"] for message in questions[self._turn]]
        return (
            "\n".join(said)
            if said
            else str(_constants().DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC)
        )

    def outcome(self, messages: Sequence[BaseMessage]) -> Outcome:
        """What the benchmark's checker says."""
        gold = self._entry["ground_truth"]
        turns = calls_by_turn(messages, self._specs)
        if len(turns) != len(gold) or not _has_ended(messages):
            return Outcome(
                success=False,
                score=0.0,
                detail=f"stopped in turn {len(turns)} of {len(gold)}",
            )
        return _checked(self._entry, turns, gold)


def calls_by_turn(
    messages: Sequence[BaseMessage], known: Mapping[str, Any]
) -> list[list[Step]]:
    """The calls of a conversation, turn by turn, reply by reply; calls of tools that do not exist are left out.

    Arguments are written as one mapping, so that the checker, which evaluates the text, meets only what `repr` wrote.
    """
    turns: list[list[Step]] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            turns.append([])
        elif isinstance(message, AIMessage) and message.tool_calls:
            calls = [
                f"{call['name']}(**{call['args']!r})"
                for call in message.tool_calls
                if call["name"] in known
            ]
            turns[-1] += [calls] if calls else []
    return turns


def _checked(
    entry: Mapping[str, Any], turns: list[list[Step]], gold: list[list[str]]
) -> Outcome:
    module = importlib.import_module(
        "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker"
    )
    objects = vars(
        importlib.import_module(
            "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils"
        )
    )
    # The checker keeps its objects by this name in a module, and would go on with those of an earlier check.
    name = f"live_{uuid.uuid4().hex}"
    try:
        found = module.multi_turn_checker(
            turns, gold, dict(entry), str(entry["id"]).rsplit("_", 1)[0], name
        )
    finally:
        for key in [key for key in objects if key.startswith(name)]:
            del objects[key]
    valid = bool(found["valid"])
    return Outcome(
        valid, float(valid), str(found.get("error_message", ""))[:LONGEST_DETAIL]
    )


def _has_ended(messages: Sequence[BaseMessage]) -> bool:
    """Whether the agent ended the turn by itself."""
    return isinstance(messages[-1], AIMessage) and not messages[-1].tool_calls


def _tools(specs: Sequence[ToolSpec], world: World) -> list[BaseTool]:
    owners = {spec.name: spec.owner for spec in specs}
    call: Callable[[str, Mapping[str, Any]], str] = lambda tool, arguments: world.run(  # noqa: E731
        owners[tool], PlainCall(tool, arguments)
    )
    return tools_calling(call, specs)


def _constants() -> Any:
    return importlib.import_module("bfcl_eval.constants.default_prompts")
