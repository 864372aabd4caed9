"""What real models did, as a graph of states: user turn by user turn, in the benchmark's own worlds.

A state is a task, a turn, the digest of the world, and which of gold's results of this turn were observed so far. Runs
that meet in a state share it. A step is all that a model called in one reply; an empty step is stopping. A call, or
stopping, is *good* if some recorded way leads from it to a passing end.
"""

import gzip
import hashlib
import json
import pickle
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from tests.benchmarks.bfcl_world import Objects, PlainCall, Task, World

Step = tuple[str, ...]
"""What a model calls in one reply, as the keys of the calls; empty where it stops."""

STOP: Step = ()

FEWEST_RUNS = 3
"""A turn counts if the worlds of at least so many runs equal gold's before it."""


@dataclass(eq=False, slots=True)
class State:
    """A state of a turn; states are compared by identity.

    Attributes:
        turn: The turn it belongs to.
        digest: Digest of the world.
        objects: The objects of the world, pickled.
        observed: How often each of gold's results was observed, as far as gold has it.
        world: Whether the world equals gold's at the end of the turn.
        passing: Whether the turn would pass if it ended here.
        children: States after a step, by the keys of its calls, with what the calls brought back.
        recorded: The steps that runs took here, by key, with their number.
        good: Whether some recorded way leads to a passing end.
    """

    turn: "Turn"
    digest: str
    objects: bytes
    observed: tuple[tuple[str, int], ...]
    world: bool
    passing: bool
    children: dict[Step, "tuple[State, tuple[str, ...]]"] = field(default_factory=dict)
    recorded: "Counter[Step]" = field(default_factory=Counter)
    good: bool = False


class Turn:
    """One user turn of a task: gold's calls and results, the states that were seen, and what runs did in them.

    Args:
        task: The task.
        number: Which turn, from 0.
        before: The objects of gold's world before the turn, pickled.
    """

    def __init__(self, task: Task, number: int, before: bytes) -> None:
        self.task = task
        self.number = number
        self.gold = task.gold_turns[number]
        world = World(_unpacked(before))
        self.wanted = Counter(self._run(world, call) for call in self.gold)
        self.after = _packed(world.objects)
        self._gold_end = _unpacked(self.after)
        self._states: dict[tuple[str, tuple[tuple[str, int], ...]], State] = {}
        self._calls: dict[str, PlainCall] = {}
        self.ways: dict[str, list[tuple[State, Step]]] = {}
        self.start = self._state(_unpacked(before), Counter())
        self.starts: dict[str, State] = {}

    @property
    def name(self) -> str:
        """Task and turn."""
        return f"{self.task.id}/{self.number}"

    def take(self, state: State, step: Step) -> tuple[State, tuple[str, ...]]:
        """Make the calls of a step in a copy of a state's world.

        Returns:
            The state after it, and what each call brought back.
        """
        if not step:
            return state, ()
        if step not in state.children:
            world = World(_unpacked(state.objects))
            results = tuple(self._run(world, self._calls[key]) for key in step)
            observed = Counter(dict(state.observed)) + Counter(
                each for each in results if each in self.wanted
            )
            state.children[step] = (self._state(world.objects, observed), results)
        return state.children[step]

    def step(self, calls: Sequence[PlainCall]) -> Step:
        """Calls as a step, which can be taken from now on."""
        self._calls |= {call.key: call for call in calls}
        return tuple(call.key for call in calls)

    def call(self, key: str) -> PlainCall:
        """The call of this key, if it is part of a step."""
        return self._calls[key]

    def _run(self, world: World, call: PlainCall) -> str:
        owner = self.task.owners.get(call.tool)
        return (
            f"Error: there is no tool {call.tool}."
            if owner is None
            else world.run(owner, call)
        )

    def _state(self, objects: Objects, observed: "Counter[str]") -> State:
        kept = tuple(sorted((observed & self.wanted).items()))
        key = (digest(objects), kept)
        if key not in self._states:
            world = self.task.same_state(objects, self._gold_end)
            done = world and Counter(dict(kept)) == self.wanted
            self._states[key] = State(self, key[0], _packed(objects), kept, world, done)
        return self._states[key]

    def record(
        self, run: str, before: bytes, calls: Sequence[Sequence[PlainCall]]
    ) -> State:
        """Let a recorded run pass through the turn.

        Args:
            run: The run.
            before: The objects of its world before the turn, pickled: equal to gold's as the benchmark compares them,
                but perhaps in another folder.
            calls: What it called, step by step.

        Returns:
            The state in which it ended.
        """
        way: list[tuple[State, Step]] = []
        state = self.starts[run] = self._state(_unpacked(before), Counter())
        for together in calls:
            step = self.step(together)
            state.recorded[step] += 1
            way.append((state, step))
            state, _ = self.take(state, step)
        self.ways[run] = way
        return state

    @property
    def counts(self) -> bool:
        """Whether enough runs came to the turn in gold's world."""
        return len(self.ways) >= FEWEST_RUNS

    def passed(self, run: str) -> bool:
        """Whether a recorded run passed the turn."""
        if not self.ways[run]:
            return self.starts[run].passing
        state, step = self.ways[run][-1]
        return self.take(state, step)[0].passing

    def play(self, objects: bytes, calls: Iterable[PlainCall]) -> bytes:
        """Make calls in a world of another state, of which nothing is recorded; returns the world after them."""
        world = World(_unpacked(objects))
        for call in calls:
            self._run(world, call)
        return _packed(world.objects)

    def judge(self) -> None:
        """Work out, once all runs are recorded, from which states some recorded way leads to a passing end."""
        before: defaultdict[State, set[State]] = defaultdict(set)
        for state in self._states.values():
            for key in state.recorded:
                if key:
                    before[state.children[key][0]].add(state)
        reached = [state for state in self._states.values() if state.passing]
        while reached:
            state = reached.pop()
            if not state.good:
                state.good = True
                reached.extend(before[state])

    def is_good(self, state: State, step: Step) -> bool:
        """Whether a step, or stopping, is good in a state."""
        return state.passing if not step else self.take(state, step)[0].good

    def needs(self, state: State) -> list[str]:
        """The recorded calls of this turn that help in a state, most common first, found by making each of them there.

        A call helps if the turn passes after it, or some recorded way leads on to a passing end. The first call of a
        recorded good step helps as well, where it is made together with others.
        """
        if state.passing:
            return []
        steps = Counter(
            step
            for way in self.ways.values()
            for step in dict.fromkeys(step for _, step in way if step)
        )
        keys = dict.fromkeys(key for step, _ in steps.most_common() for key in step)
        ends = {key: self.take(state, (key,))[0] for key in keys}
        good = (
            step
            for step in state.recorded
            if len(step) > 1 and self.is_good(state, step)
        )
        helps = [
            key
            for key, end in ends.items()
            if end is not state and (end.passing or end.good)
        ]
        return list(dict.fromkeys((*helps, *(step[0] for step in good))))


def load_runs(path: Path) -> list[dict[str, Any]]:
    """The recorded runs, one a line."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def turns_of(
    tasks: Iterable[Task], runs: Sequence[Mapping[str, Any]]
) -> Iterator[Turn]:
    """All turns of the tasks that runs were recorded of, in order, with what the runs did in them."""
    by_task: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for run in runs:
        by_task[run["id"]].append(run)
    for task in tasks:
        if task.id not in by_task:
            continue
        before = _packed(task.make_objects())
        worlds = {run["run"]: before for run in by_task[task.id]}
        for number in range(len(task.gold_turns)):
            turn = Turn(task, number, before)
            gold = _unpacked(before)
            for run in by_task[task.id]:
                if run["run"] not in worlds or number >= len(run["turns"]):
                    continue
                steps = [_step(step) for step in run["turns"][number]]
                if task.same_state(_unpacked(worlds[run["run"]]), gold):
                    end = turn.record(run["run"], worlds[run["run"]], steps)
                    worlds[run["run"]] = end.objects
                else:
                    worlds[run["run"]] = turn.play(
                        worlds[run["run"]], chain.from_iterable(steps)
                    )
            turn.judge()
            before = turn.after
            yield turn


def _step(calls: Sequence[Mapping[str, Any]]) -> tuple[PlainCall, ...]:
    return tuple(PlainCall(call["name"], call["arguments"]) for call in calls)


def digest(objects: Objects) -> str:
    """A digest of a world that is the same for equal worlds: generators by their state, no addresses, no clock."""
    return hashlib.sha256(repr(_canonical(objects, {})).encode()).hexdigest()


def _canonical(value: Any, seen: dict[int, int]) -> Any:
    if isinstance(value, str | int | float | bool | bytes | None):
        return value
    if isinstance(value, random.Random):
        return ("random", hashlib.sha256(repr(value.getstate()).encode()).hexdigest())
    if isinstance(
        value, datetime
    ):  # when a file was changed; nothing that a tool shows depends on it
        return "datetime"
    if id(value) in seen:  # worlds hold circles: a folder knows the one around it
        return ("seen", seen[id(value)])
    seen[id(value)] = len(seen)
    told: Any = repr(value)
    if isinstance(value, Mapping):
        parts = sorted(value.items(), key=lambda part: repr(part[0]))
        told = [(repr(key), _canonical(part, seen)) for key, part in parts]
    elif isinstance(value, set | frozenset):
        told = sorted(map(repr, value))
    elif isinstance(value, list | tuple):
        told = [_canonical(part, seen) for part in value]
    elif hasattr(value, "__dict__"):
        told = _canonical(vars(value), seen)
    return (type(value).__name__, told)


def _packed(objects: Objects) -> bytes:
    return pickle.dumps(objects)


def _unpacked(objects: bytes) -> Objects:
    unpacked: Objects = pickle.loads(objects)  # noqa: S301 - written by this very process
    return unpacked
