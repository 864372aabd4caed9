"""A simulated chat model that knows the gold calls of a task, and is wrong as often as it is told to be.

What is right. A state is the path of calls made so far. A path is *on track* if making the gold calls that are still
missing, in their order, would solve the task; this is found out by really making them. The right call in a state is
the first missing gold call of a path on track. So a wrong call that does no harm leaves the same call right, and after
one that does harm (it moved a file away, or drew from a random generator that a later result depends on) nothing is
right any more. A state is *done* once the task is really solved in it, however it came about.

All chance derives from a hash of the seed, the task, the state and what is asked, never from the order of questions:
the same search gives the same answers at any timing and with any number of rollouts in flight.
"""

import copy
import math
import random
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from cookbook.offline_model import Made, Question
from tests.benchmarks.bfcl_world import PlainCall, Task, World

RIGHT_CALL = 0.72
WRONG_CALL = 0.32
DONE = 0.75
NOT_DONE = 0.25

FIRST = 0.5
"""Probability that a right call which is offered at all stands first."""

DRAWS_PER_DISTRACTOR = 20
"""Where tools are few, not every wish for yet another wrong call can be met."""

State = tuple[PlainCall, ...]
ArgumentPool = Mapping[str, Sequence[Mapping[str, Any]]]
"""Arguments seen in gold calls, by tool."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a path has led.

    Attributes:
        world: The world after it.
        made: How many gold calls it holds, taken in their order.
        on_track: Whether the missing gold calls would still solve the task.
        done: Whether the task is solved.
    """

    world: World
    made: int
    on_track: bool
    done: bool


class Oracle:
    """Knows what is right in every state of a task. Safe to use from several threads."""

    def __init__(self, task: Task) -> None:
        self.task = task
        start = task.fresh()
        self._standings = {
            (): Standing(start, made=0, on_track=True, done=task.solved(start))
        }
        self._lock = threading.Lock()

    def right_call(self, state: State) -> PlainCall | None:
        """The call to make next, `None` if nothing is left or nothing would help."""
        standing = self._standing(state)
        missing = self.task.gold[standing.made :]
        return (
            missing[0] if missing and standing.on_track and not standing.done else None
        )

    def done(self, state: State) -> bool:
        """Whether the task is solved."""
        return self._standing(state).done

    def _standing(self, state: State) -> Standing:
        with self._lock:
            for length in range(1, len(state) + 1):
                path = _keys(state[:length])
                if path not in self._standings:
                    self._standings[path] = self._after(
                        self._standings[path[:-1]], state[length - 1]
                    )
            return self._standings[_keys(state)]

    def _after(self, before: Standing, call: PlainCall) -> Standing:
        world = copy.deepcopy(before.world)
        self.task.run(world, call)
        missing = self.task.gold[before.made :]
        made, on_track = before.made, before.on_track
        if on_track and missing and call.key == missing[0].key:
            made += 1
        elif on_track:
            on_track = self._completes(world, missing)
        return Standing(world, made, on_track, self.task.solved(world))

    def _completes(self, world: World, missing: Iterable[PlainCall]) -> bool:
        trial = copy.deepcopy(world)
        for call in missing:
            self.task.run(trial, call)
        return self.task.solved(trial)


class SimulatedPolicy:
    """The policy of an `OfflineChatModel` for one task.

    Args:
        task: The task.
        pool: Arguments for plausible wrong calls.
        auc: Probability that the judge scores a right call above a wrong one, above .5 and at most 1.
        hit: Probability that the right call is among the proposals for a state.
        seed: Seed of all chance.
    """

    def __init__(
        self, task: Task, pool: ArgumentPool, *, auc: float, hit: float, seed: int
    ) -> None:
        self.oracle = Oracle(task)
        self._task = task
        self._pool = pool
        self._hit = hit
        self._seed = seed
        self._sigma = noise_level(auc)
        self._schemas = {tool.name: tool.schema for tool in task.tools}
        self._words = sorted(set(re.findall(r"[\w.#@/-]*\w", task.request))) or ["text"]

    def propose(self, question: Question) -> list[tuple[str, Mapping[str, Any]]]:
        """The right call, if its tool is shown and luck has it, among wrong ones; nothing once the task is done."""
        state = _state(question)
        if self.oracle.done(state):
            return []
        chance = self._chance("propose", state, question.attempt)
        offers_right = chance.random() < self._hit
        place = (
            0
            if chance.random() < FIRST
            else chance.randint(1, max(question.count - 1, 1))
        )
        right = self.oracle.right_call(state)
        calls = self._wrong_calls(chance, question, right)
        if right is not None and offers_right and right.tool in question.tools:
            calls = calls[: question.count - 1]
            calls.insert(place, right)
        return [(call.tool, call.arguments) for call in calls]

    def score_call(self, question: Question, call: Made) -> float:
        """r_pre: around .72 for the right call, around .32 for any other."""
        return self._call_score("pre", question, call)

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """r_post, as r_pre but asked again, and a goal score around .75 in a solved task and .25 before."""
        state = _state(question)
        done = self.oracle.done((*state, PlainCall(call.tool, call.arguments)))
        goal = (DONE if done else NOT_DONE) + self._noise(
            "goal", "goal", question, call
        )
        return self._call_score("post", question, call), _clip(goal)

    def answer(self, question: Question) -> str:
        """The words around the plan, which nobody scores."""
        return "Done."

    def _call_score(self, stage: str, question: Question, call: Made) -> float:
        right = self.oracle.right_call(_state(question))
        is_right = (
            right is not None and right.key == PlainCall(call.tool, call.arguments).key
        )
        return _clip(
            (RIGHT_CALL if is_right else WRONG_CALL)
            + self._noise("call", stage, question, call)
        )

    def _noise(self, subject: str, stage: str, question: Question, call: Made) -> float:
        """Half of the variance belongs to the state and call, half is drawn each time the judge is asked."""
        key = PlainCall(call.tool, call.arguments).key
        state = _state(question)
        fixed = self._chance(subject, "fixed", state, key).gauss()
        fresh = self._chance(subject, stage, state, key, question.attempt).gauss()
        return self._sigma * (fixed + fresh) / math.sqrt(2)

    def _wrong_calls(
        self, chance: random.Random, question: Question, right: PlainCall | None
    ) -> list[PlainCall]:
        """Different calls of tools that are shown, none of them the right one."""
        calls: dict[str, PlainCall] = {}
        for _ in range(DRAWS_PER_DISTRACTOR * question.count):
            if len(calls) == question.count or not question.tools:
                break
            tool = chance.choice(question.tools)
            seen = self._pool.get(tool)
            if seen and chance.random() < 0.5:
                arguments = chance.choice(seen)
            else:
                arguments = arguments_for(self._schemas[tool], self._words, chance)
            call = PlainCall(tool, arguments)
            if right is None or call.key != right.key:
                calls[call.key] = call
        return list(calls.values())

    def _chance(self, *what: Any) -> random.Random:
        parts = [_keys(part) if isinstance(part, tuple) else part for part in what]
        return random.Random(repr((self._seed, self._task.id, *parts)))  # noqa: S311 - no secret depends on it


def arguments_for(
    schema: Mapping[str, Any], words: Sequence[str], chance: random.Random
) -> dict[str, Any]:
    """Arguments by chance that fit a schema: those that are required, and half of the others."""
    required = schema.get("required", ())
    return {
        name: value_for(part, words, chance)
        for name, part in schema.get("properties", {}).items()
        if name in required or chance.random() < 0.5
    }


def value_for(
    schema: Mapping[str, Any], words: Sequence[str], chance: random.Random
) -> Any:
    """A value by chance that fits a schema; a text is one of the words."""
    value: Any = chance.choice(words)
    match schema.get("type"):
        case "integer":
            value = chance.randint(1, 100)
        case "number":
            value = round(chance.uniform(1, 100), 1)
        case "boolean":
            value = chance.random() < 0.5
        case "array":
            value = [
                value_for(schema.get("items", {}), words, chance)
                for _ in range(chance.randint(1, 2))
            ]
        case "object":
            value = {
                name: value_for(part, words, chance)
                for name, part in schema.get("properties", {}).items()
            }
    return value


def noise_level(auc: float, gap: float = RIGHT_CALL - WRONG_CALL) -> float:
    """Standard deviation of a score at which a right call outranks a wrong one with this probability.

    The difference of two scores has a mean, the gap, and variance 2 sigma^2, so auc = Phi(gap / (sqrt(2) sigma)).
    """
    if not 0.5 < auc <= 1:
        msg = f"auc must be above 0.5 and at most 1, got {auc}."
        raise ValueError(msg)
    return 0.0 if auc == 1 else gap / (math.sqrt(2) * NormalDist().inv_cdf(auc))


def gold_arguments(tasks: Iterable[Task]) -> dict[str, list[Mapping[str, Any]]]:
    """The different arguments with which the gold calls of all tasks use each tool."""
    pool: dict[str, dict[str, Mapping[str, Any]]] = {}
    for task in tasks:
        for call in task.gold:
            pool.setdefault(call.tool, {})[call.key] = call.arguments
    return {tool: list(calls.values()) for tool, calls in pool.items()}


def _state(question: Question) -> State:
    return tuple(PlainCall(made.tool, made.arguments) for made in question.path)


def _keys(state: State) -> tuple[str, ...]:
    return tuple(call.key for call in state)


def _clip(score: float) -> float:
    return min(max(score, 0.0), 1.0)
