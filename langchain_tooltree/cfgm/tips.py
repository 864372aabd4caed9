"""Tips: what failed attempts against a successful one, and successes alone, teach (CFGM, Alg. 2)."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel

from langchain_tooltree.cfgm.tip import Tip
from langchain_tooltree.cfgm.tip_questions import comparing, praising, repeated
from langchain_tooltree.experience.records import digest
from langchain_tooltree.experience.store import ExperienceStore
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, arun_flow, run_flow

SHELF = "tips"

MOST_FAILURES = 3
"""Failed attempts that a successful one is compared with."""

Part = Literal["comparison", "success"]
PARTS: tuple[Part, ...] = ("comparison", "success")

Note = dict[str, Any]
"""What is kept of a task: its text, and for each part the tips and what they were made from."""


def extracting(model: BaseChatModel, experience: ExperienceStore, *, max_concurrency: int) -> Flow[list[Tip]]:
    """Take tips from what is stored, as far as that was not done before, as a flow.

    First every task with a success and failures, from their comparison; then every task with a success, from the
    success alone. What was made is kept after each few tasks, with what it was made from: an extraction that was
    killed goes on where it stopped, and a task is asked about again once there are new attempts at it. A task about
    which the model gives no usable reply stays as it is until the next time. Tips of a task that was
    deleted are deleted.

    Args:
        model: The chat model to ask.
        experience: Holds the attempts; it must keep to one namespace.
        max_concurrency: How many tasks are asked about at once.

    Returns:
        All tips there are now, each once.
    """
    shelf = experience.shelf(SHELF)
    tasks: dict[str, _Task] = yield _Survey(experience)
    notes: dict[str, Note] = yield from shelf.reading()
    for key in [key for key, note in notes.items() if note.get("task") not in tasks]:
        yield from shelf.deleting(key)
        del notes[key]
    tried = [tasks[task] for task in sorted(tasks) if tasks[task].successes]
    for part in PARTS:
        due = [task for task in tried if task.is_due(part, notes.get(task.key, {}))]
        for start in range(0, len(due), max_concurrency):
            together = due[start : start + max_concurrency]
            asked = yield from _questions(model, experience, part, together, notes)
            replies: list[list[Tip] | None] = yield _Together(asked)
            for task, tips in zip(together, replies, strict=True):
                if tips is not None:
                    known = _all_tips(notes, without=(task.key, part))
                    # A tip that another task has already is kept as it stands there: recalled with both, told once.
                    kept = dict.fromkeys(repeated(tip, known) or tip for tip in tips)
                    made = {"made_from": task.evidence(part), "tips": [tip.to_dict() for tip in kept]}
                    notes[task.key] = {"task": task.text, **notes.get(task.key, {}), part: made}
                    yield from shelf.putting(task.key, notes[task.key])
    return _all_tips(notes)


def tips_of(experience: ExperienceStore, task: str) -> Flow[tuple[Tip, ...]]:
    """The tips of one task, those from a comparison first, as a flow."""
    note = yield from experience.shelf(SHELF).getting(_key(task))
    return () if note is None else tuple(_all_tips({"": note}))


@dataclass(slots=True)
class _Task:
    """What is stored of one task: the attempts, each with a fingerprint, and which ones are to be shown.

    Attributes:
        text: The task.
        successes: Fingerprints of the successful attempts, by id.
        failures: Fingerprints of the failed attempts, by id.
        best: The shortest success, as its length and its id.
        last: The latest failures, as number of the attempt and id.
    """

    text: str
    successes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    best: tuple[int, str] | None = None
    last: list[tuple[int, str]] = field(default_factory=list)

    @property
    def key(self) -> str:
        return _key(self.text)

    def add(self, attempt: Trajectory) -> None:
        print_ = digest(attempt.chat())[:16]
        if attempt.success:
            self.successes[attempt.id] = print_
            length = (len(attempt.steps), attempt.id)
            self.best = length if self.best is None else min(self.best, length)
        elif attempt.success is False:
            self.failures[attempt.id] = print_
            self.last = sorted([*self.last, (_number(attempt), attempt.id)])[-MOST_FAILURES:]

    def evidence(self, part: Part) -> dict[str, str]:
        """What the tips of a part are made from."""
        return {**self.successes, **self.failures} if part == "comparison" else self.successes

    def is_due(self, part: Part, note: Note) -> bool:
        """Whether there is something to ask that was not asked before."""
        possible = bool(self.failures) or part == "success"
        return possible and note.get(part, {}).get("made_from") != self.evidence(part)


def _key(task: str) -> str:
    return digest([{"task": task}])


def _number(attempt: Trajectory) -> int:
    number = attempt.metadata.get("attempt")
    return number if isinstance(number, int) else 0


def _questions(
    model: BaseChatModel, experience: ExperienceStore, part: Part, tasks: Sequence[_Task], notes: Mapping[str, Note]
) -> Flow[list[Flow[list[Tip] | None]]]:
    """One question for each of these tasks; attempts are read as late as this, since there may be many."""
    asked: list[Flow[list[Tip] | None]] = []
    for task in tasks:
        success = None if task.best is None else (yield from experience.getting(task.best[1]))
        failures = []
        for _, failed in task.last if part == "comparison" else ():
            failure = yield from experience.getting(failed)
            failures += [] if failure is None else [failure]
        if success is None or (part == "comparison" and not failures):  # deleted since it was surveyed
            asked.append(_nothing())
        elif part == "comparison":
            asked.append(comparing(model, success, failures))
        else:
            asked.append(praising(model, success, _all_tips(notes, without=(task.key, part))))
    return asked


def _nothing() -> Flow[list[Tip] | None]:
    return None
    yield


def _all_tips(notes: Mapping[str, Note], *, without: tuple[str, Part] | None = None) -> list[Tip]:
    """The tips in some notes, in the order of their tasks, each once."""
    written = (
        tip
        for key, note in sorted(notes.items(), key=lambda kept: str(kept[1].get("task")))
        for part in PARTS
        if (key, part) != without
        for tip in note.get(part, {}).get("tips", ())
    )
    return list(dict.fromkeys(Tip.from_dict(tip) for tip in written))


@dataclass(frozen=True, slots=True)
class _Survey:
    """Going through everything that is stored, one by one: from each task to what is stored of it."""

    experience: ExperienceStore

    def run(self) -> dict[str, _Task]:
        tasks: dict[str, _Task] = {}
        for trajectory in self.experience.trajectories():
            tasks.setdefault(trajectory.task, _Task(trajectory.task)).add(trajectory)
        return tasks

    async def arun(self) -> dict[str, _Task]:
        tasks: dict[str, _Task] = {}
        async for trajectory in self.experience.atrajectories():
            tasks.setdefault(trajectory.task, _Task(trajectory.task)).add(trajectory)
        return tasks


@dataclass(frozen=True, slots=True)
class _Together:
    """Several flows at once, as one step; it brings what each of them returned, in their order."""

    flows: Sequence[Flow[Any]]

    def run(self) -> list[Any]:
        with ThreadPoolExecutor(len(self.flows)) as pool:
            running = [pool.submit(copy_context().run, run_flow, flow) for flow in self.flows]
            return [each.result() for each in running]

    async def arun(self) -> list[Any]:
        return list(await asyncio.gather(*(arun_flow(flow) for flow in self.flows)))
