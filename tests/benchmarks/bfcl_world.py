"""A task, the world its calls act on, and when it counts as solved."""

import copy
import inspect
import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

from langchain_tooltree import ObjectSandbox

Objects = dict[str, Any]
"""The stateful objects of a task, by class name."""


@dataclass(frozen=True)
class PlainCall:
    """A call with all its arguments named."""

    tool: str
    arguments: Mapping[str, Any]

    @cached_property
    def key(self) -> str:
        """Equal for equal calls."""
        return f"{self.tool}({json.dumps(self.arguments, sort_keys=True)})"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the benchmark says of a tool; `owner` is the class whose method it is."""

    name: str
    owner: str
    description: str
    schema: dict[str, Any]


@dataclass(slots=True)
class World:
    """The objects of a task and what was done to them: one (key of the call, observation) pair a call."""

    objects: Objects
    journal: list[tuple[str, str]] = field(default_factory=list)

    def run(self, owner: str, call: PlainCall) -> str:
        """Make a call; the observation is written the way the benchmark writes results.

        Arguments and defaults are handed over as copies: some methods keep the list they are given and change it later.
        """
        method = getattr(self.objects[owner], call.tool)
        try:
            bound = inspect.signature(method).bind(**call.arguments)
            bound.apply_defaults()
            result = method(**copy.deepcopy(bound.arguments))
        except Exception as error:  # noqa: BLE001 - the benchmark shows any error to the model
            observation = f"Error during execution: {error}"
        else:
            observation = _as_text(result)
        self.journal.append((call.key, observation))
        return observation

    @property
    def observations(self) -> list[str]:
        """What the calls brought back, in order."""
        return [observation for _, observation in self.journal]

    def fingerprint(self) -> bytes:
        """Everything about the world, private attributes and random generators included."""
        return pickle.dumps((self.objects, self.journal))


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        id: The benchmark's identifier.
        request: What the user wants, all turns in one.
        tools: The tools that may be used.
        gold: Calls that fulfil the request.
        gold_turns: The same calls, user turn by user turn.
        make_objects: Makes the objects in their first state.
        same_state: Whether the objects of two worlds are in the same state, as the benchmark compares them.
    """

    id: str
    request: str
    tools: tuple[ToolSpec, ...]
    gold: tuple[PlainCall, ...]
    make_objects: Callable[[], Objects]
    same_state: Callable[[Objects, Objects], bool]
    gold_turns: tuple[tuple[PlainCall, ...], ...] = ()

    @cached_property
    def owners(self) -> dict[str, str]:
        """The class of each tool."""
        return {tool.name: tool.owner for tool in self.tools}

    @cached_property
    def gold_world(self) -> World:
        """The world after the gold calls."""
        return self.replay(self.gold)

    def fresh(self) -> World:
        """The world before any call."""
        return World(self.make_objects())

    def run(self, world: World, call: PlainCall) -> str:
        """Make a call in a world."""
        return world.run(self.owners[call.tool], call)

    def replay(self, calls: Iterable[PlainCall]) -> World:
        """A new world in which the calls were made."""
        world = self.fresh()
        for call in calls:
            self.run(world, call)
        return world

    def solved(self, world: World, observations: Sequence[str] | None = None) -> bool:
        """Whether the end state is the gold one and every gold result was observed, in any order.

        Args:
            world: The world after a plan.
            observations: What the plan observed; the journal of the world if left out.
        """
        observed = Counter(world.observations if observations is None else observations)
        return Counter(self.gold_world.observations) <= observed and self.same_state(
            world.objects, self.gold_world.objects
        )


class RecordedSandbox(ObjectSandbox):
    """A sandbox over the world of a task that remembers the world after every sequence of calls it has seen.

    A search forks before each call and hands back only the plan. The record tells which world belongs to that plan,
    so that a call made in the wrong fork shows.
    """

    def __init__(self, task: Task) -> None:
        self.original = task.fresh()
        self._record: dict[tuple[str, ...], World] = {(): self.original}
        super().__init__(self.original, partial(_bind, task, self._record))

    def world_after(self, calls: Iterable[PlainCall]) -> World | None:
        """The world in which exactly these calls were made, `None` if there is none."""
        return self._record.get(tuple(call.key for call in calls))


def _bind(
    task: Task, record: dict[tuple[str, ...], World], world: World
) -> list[BaseTool]:
    def call(tool: str, arguments: Mapping[str, Any]) -> str:
        observation = task.run(world, PlainCall(tool, arguments))
        record[tuple(key for key, _ in world.journal)] = world
        return observation

    return tools_calling(call, task.tools)


def tools_calling(
    call: Callable[[str, Mapping[str, Any]], str], specs: Iterable[ToolSpec]
) -> list[BaseTool]:
    """Tools that hand their name and arguments to a function, unchecked: the benchmark answers wrong ones itself."""

    def caller(tool: str) -> Callable[..., str]:
        return lambda **arguments: call(tool, arguments)

    return [
        StructuredTool(
            name=spec.name,
            description=spec.description,
            args_schema=spec.schema,
            func=caller(spec.name),
        )
        for spec in specs
    ]


def _as_text(result: Any) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)
    return str(result)
