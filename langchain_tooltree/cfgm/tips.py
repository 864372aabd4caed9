"""Tips: what failed attempts against a successful one, and successes alone, teach (CFGM, Alg. 2)."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel

from langchain_tooltree.cfgm.tip import Tip
from langchain_tooltree.cfgm.tip_questions import comparing, content_of, praising
from langchain_tooltree.experience.records import digest
from langchain_tooltree.experience.shelf import Shelf
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

Holder = tuple[str, Part]
"""Key of a task, and the part of its tips."""


def extracting(model: BaseChatModel, experience: ExperienceStore, *, max_concurrency: int) -> Flow[list[Tip]]:
    """Take tips from what is stored, as far as that was not done before, as a flow.

    First every task with a success and failures, from their comparison; then every task with a success, from the
    success alone. What was made is kept after each few tasks, with what it was made from: an extraction that was
    killed goes on where it stopped, and a task is asked about again once there are new attempts at it. A task about
    which the model gives no usable reply stays as it is until the next time. A tip whose success was
    deleted is deleted. Tasks of the same text are told apart by the `task_id` in the metadata of their attempts.

    Args:
        model: The chat model to ask.
        experience: Holds the attempts; it must keep to one namespace.
        max_concurrency: How many tasks are asked about at once.

    Returns:
        All tips there are now, each once.
    """
    shelf = experience.shelf(SHELF)
    tasks: dict[str, _Task] = yield _Survey(experience)
    notes = yield from _current_notes(shelf, tasks)
    known = _Known(notes)
    tried = sorted((task for task in tasks.values() if task.successes), key=lambda task: (task.text, task.id))
    for part in PARTS:
        due = [task for task in tried if task.is_due(part, notes.get(task.key, {}))]
        for start in range(0, len(due), max_concurrency):
            together = due[start : start + max_concurrency]
            asked = yield from _questions(model, experience, part, together, known)
            replies: list[list[Tip] | None] = yield _Together(asked)
            for task, tips in zip(together, replies, strict=True):
                if tips is not None:
                    # A tip that another task has already is kept as it stands there: recalled with both, told once.
                    kept = known.replace((task.key, part), tips)
                    made = {"made_from": task.evidence(part), "tips": [tip.to_dict() for tip in kept]}
                    notes[task.key] = {"task": task.text, **notes.get(task.key, {}), part: made}
                    yield from shelf.putting(task.key, notes[task.key])
    return _all_tips(notes)


def tips_of(experience: ExperienceStore, task: str, ids: Iterable[str] = ("",)) -> Flow[tuple[Tip, ...]]:
    """The tips of one task, those from a comparison first, as a flow.

    Args:
        experience: Holds them.
        task: Its text.
        ids: Ids of the tasks with this text whose tips are wanted; that of a task without one is empty.

    Returns:
        The tips, each once.
    """
    shelf = experience.shelf(SHELF)
    notes: dict[str, Note] = {}
    for key in dict.fromkeys(_key(task, each) for each in ids):
        note = yield from shelf.getting(key)
        if note is not None:
            notes[key] = note
    return tuple(_all_tips(notes))


def task_id_of(attempt: Trajectory) -> str:
    """The id by which the task of an attempt is told from others with the same text; empty if it has none."""
    given = attempt.metadata.get("task_id")
    return given if isinstance(given, str) else ""


def _current_notes(shelf: Shelf, tasks: Mapping[str, "_Task"]) -> Flow[dict[str, Note]]:
    """What was kept, without tips whose success is no longer there; these are deleted from the shelf as well."""
    stored = {success for task in tasks.values() for success in task.successes}
    notes: dict[str, Note] = {}
    for key, note in (yield from shelf.reading()).items():
        if key not in tasks or not tasks[key].successes:
            yield from shelf.deleting(key)
            continue
        notes[key] = note
        for part in PARTS:
            tips = _tips_in(note, part)
            left = [tip for tip in tips if not tip.trajectories or tip.trajectories[-1] in stored]
            if left != tips:
                kept = {**notes[key][part], "tips": [tip.to_dict() for tip in left]}
                notes[key] = {**notes[key], part: kept}
        if notes[key] is not note:
            yield from shelf.putting(key, notes[key])
    return notes


class _Known:
    """All tips there are, by what they say: a repeat is found without going through them.

    Args:
        notes: Where they are kept.
    """

    def __init__(self, notes: Mapping[str, Note]) -> None:
        self._holders: dict[frozenset[str], dict[Holder, Tip]] = {}
        self._held: dict[Holder, list[frozenset[str]]] = {}
        for key, note in _in_order(notes):
            for part in PARTS:
                self._hold((key, part), _tips_in(note, part))

    def without(self, holder: Holder) -> list[Tip]:
        """The tips that others than this part of this task hold, each once, in the order of their tasks."""
        others = (
            next((tip for other, tip in holders.items() if other != holder), None) for holders in self._holders.values()
        )
        return sorted((tip for tip in others if tip is not None), key=lambda tip: tip.task)

    def replace(self, holder: Holder, tips: Iterable[Tip]) -> list[Tip]:
        """Let a part of a task hold these tips in place of those before; returns them as they are known."""
        for content in self._held.pop(holder, ()):
            self._holders[content].pop(holder)
            if not self._holders[content]:
                del self._holders[content]
        known = (next(iter(self._holders.get(content_of(tip), {}).values()), tip) for tip in tips)
        kept = list(dict.fromkeys(known))
        self._hold(holder, kept)
        return kept

    def _hold(self, holder: Holder, tips: Iterable[Tip]) -> None:
        by_content = {content_of(tip): tip for tip in tips}
        for content, tip in by_content.items():
            self._holders.setdefault(content, {})[holder] = tip
        self._held[holder] = list(by_content)


@dataclass(slots=True)
class _Task:
    """What is stored of one task: the attempts, each with a fingerprint, and which ones are to be shown.

    Attributes:
        text: The task.
        id: Tells it from other tasks of the same text.
        successes: Fingerprints of the successful attempts, by id.
        failures: Fingerprints of the failed attempts, by id.
        best: The shortest success, as its length and its id.
        last: The latest failures, as number of the attempt and id.
    """

    text: str
    id: str = ""
    successes: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    best: tuple[int, str] | None = None
    last: list[tuple[int, str]] = field(default_factory=list)

    @property
    def key(self) -> str:
        return _key(self.text, self.id)

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
        return possible and (note.get(part) or {}).get("made_from") != self.evidence(part)


def _key(task: str, task_id: str) -> str:
    return digest([{"task": task, "id": task_id} if task_id else {"task": task}])


def _number(attempt: Trajectory) -> int:
    number = attempt.metadata.get("attempt")
    return number if isinstance(number, int) else 0


def _questions(
    model: BaseChatModel, experience: ExperienceStore, part: Part, tasks: Sequence[_Task], known: _Known
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
            asked.append(praising(model, success, known.without((task.key, part))))
    return asked


def _nothing() -> Flow[list[Tip] | None]:
    return None
    yield


def _in_order(notes: Mapping[str, Note]) -> list[tuple[str, Note]]:
    """Some notes with their keys, in the order of their tasks."""
    return sorted(notes.items(), key=lambda kept: (str(kept[1].get("task")), kept[0]))


def _tips_in(note: Note, part: Part) -> list[Tip]:
    """The tips in a part of a note, apart from such as another version has written and this one cannot read."""
    kept = note.get(part)
    written = kept.get("tips") if isinstance(kept, dict) else None
    data = (tip for tip in written if isinstance(tip, dict)) if isinstance(written, list) else ()
    return [tip for tip in map(Tip.from_dict, data) if tip.text]


def _all_tips(notes: Mapping[str, Note]) -> list[Tip]:
    """The tips in some notes, in the order of their tasks, each once."""
    return list(dict.fromkeys(tip for _, note in _in_order(notes) for part in PARTS for tip in _tips_in(note, part)))


@dataclass(frozen=True, slots=True)
class _Survey:
    """Going through everything that is stored, one by one: from the key of each task to what is stored of it."""

    experience: ExperienceStore

    def run(self) -> dict[str, _Task]:
        tasks: dict[str, _Task] = {}
        for trajectory in self.experience.trajectories():
            _file(trajectory, tasks)
        return tasks

    async def arun(self) -> dict[str, _Task]:
        tasks: dict[str, _Task] = {}
        async for trajectory in self.experience.atrajectories():
            _file(trajectory, tasks)
        return tasks


def _file(attempt: Trajectory, tasks: dict[str, _Task]) -> None:
    task = _Task(attempt.task, task_id_of(attempt))
    tasks.setdefault(task.key, task).add(attempt)


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
