"""Wrong actions, put into copies of gold runs of ScienceWorld, and executed there."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.benchmarks.scienceworld_world import (
    Taken,
    Task,
    World,
    is_ambiguous,
    is_refusal,
)

REPEATS = 3
"""How often a useless action is repeated: the last time, it counts as an anomaly."""

POINTS = 12
"""Points of a run at which an injection is tried, until one of them really goes wrong."""

GOING_ON = 25
"""Steps of the gold path that are taken after an injection; all of them are taken in the run without one."""

RECENT = 3
"""Actions before the point that are not taken for useless: to repeat them would be a longer repetition."""

NORMAL = "normal"
REFUSED = "refused gold step"
"""A step of the gold path that the environment refuses: as much of an anomaly as those that are injected."""
REPEATED_ON = "repetition goes on"
"""A step like the repeated one right behind it, with the same answer: neither a new anomaly nor normal."""

UNKNOWN_VERBS = (
    "teleport to",
    "grab",
    "search",
    "unlock",
    "attack",
    "climb",
    "paint",
    "ask about",
    "throw",
    "hide",
)
VERBS = (
    "open",
    "pick up",
    "activate",
    "look at",
    "focus on",
    "pour",
    "read",
    "move",
    "eat",
    "use",
    "go to",
)
ABSENT = (
    "elephant", "purple unicorn", "microscope", "printer", "violin", "bicycle", "ladder", "umbrella", "telescope",
    "door to the cellar", "parking lot", "chocolate cake", "hammer", "newspaper", "key",
)  # fmt: skip
IMPOSSIBLE = (
    "eat {}", "pick up {}", "open {}", "activate {}", "read {}", "look in {}", "flush {}", "go to {}", "mix {}",
    "pour {} into {}", "move {} to {}", "use {} on {}", "dunk {} into {}", "connect {} to {}",
)  # fmt: skip
DOORS = ("open door to ", "go to ")
AMBIGUOUS = (
    "look at door",
    "open door",
    "look at substance",
    "examine cup",
    "close door",
    "examine substance",
)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a run, and what it counts as: `NORMAL`, `REFUSED`, `REPEATED_ON`, or the kind of what was injected."""

    taken: Taken
    label: str


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a task.

    Attributes:
        steps: Its steps.
        counted: The first of them that is counted; those before are the same as in the run without injections.
    """

    task: Task
    text: str
    steps: tuple[Step, ...]
    counted: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is injected: actions around the wrong one, which belong to it but are no mistakes, and the wrong one."""

    wrong: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    times: int = 1


def gold_run(world: World, task: Task, gold: Sequence[str]) -> Run:
    """The gold path of a task, as the environment takes it."""
    text = world.describe(task)
    return Run(task, text, tuple(labelled(world.play(task, gold))))


def wrong_run(
    world: World, task: Task, gold: Sequence[str], kind: str, chance: random.Random
) -> Run | None:
    """A copy of the gold run in which something goes wrong at a random point, and which then goes on for a while.

    Args:
        world: Where it is played.
        task: The task.
        gold: Its gold path.
        kind: One of `KINDS`.
        chance: Chooses the point and the action.

    Returns:
        The run; `None` if nothing went wrong at any of the points that were tried.
    """
    points = [point for point in range(1, len(gold)) if not gold[point].isdigit()]
    if kind == "closed door":
        points = [point for point in points if gold[point].startswith(DOORS)]
    for point in chance.sample(points, min(POINTS, len(points))):
        text = world.begin(task)
        course = [*labelled(world.take(action) for action in gold[:point])]
        for plan in KINDS[kind](world, gold, point, chance):
            injected = _inject(world, plan, kind)
            if injected is None:
                break
            rest = [*_going_on(world, gold[point : point + GOING_ON])]
            return Run(
                task,
                text,
                (*course, *injected, *_excused(injected, labelled(rest))),
                len(course),
            )
    return None


def labelled(taken: Iterable[Taken]) -> Iterator[Step]:
    """Steps that nobody meant to go wrong."""
    for each in taken:
        yield Step(each, REFUSED if is_refusal(each.answer) else NORMAL)


def _inject(world: World, plan: Plan, kind: str) -> list[Step] | None:
    """Take the actions of a plan; `None` if they do not go as planned."""
    steps = [*labelled(world.take(action) for action in plan.before)]
    steps += [Step(world.take(plan.wrong), NORMAL) for _ in range(plan.times)]
    wrong = steps[-plan.times :]
    answers = {step.taken.answer for step in wrong}
    refused = is_refusal(wrong[-1].taken.answer)
    went_wrong = len(answers) == 1 and not refused if plan.times > 1 else refused
    if kind == "ambiguous object":
        went_wrong = is_ambiguous(wrong[-1].taken.answer)
    if not went_wrong or world.last.done or any(step.label != NORMAL for step in steps):
        return None
    steps[-1] = Step(steps[-1].taken, kind)
    if is_ambiguous(steps[-1].taken.answer):
        steps += labelled([world.take("0")])
    return [*steps, *labelled(world.take(action) for action in plan.after)]


def _going_on(world: World, gold: Sequence[str]) -> Iterator[Taken]:
    """The rest of the gold path, until the task is over."""
    for action in gold:
        if world.last.done:
            return
        yield world.take(action)


def _excused(injected: Sequence[Step], rest: Iterable[Step]) -> Iterator[Step]:
    """Do not count what goes on with a repetition."""
    last = injected[-1].taken
    goes_on = injected[-1].label in KINDS
    for step in rest:
        goes_on = goes_on and (step.taken.action, step.taken.answer) == (
            last.action,
            last.answer,
        )
        yield Step(step.taken, REPEATED_ON) if goes_on else step


Inject = Callable[[World, Sequence[str], int, random.Random], Iterator[Plan]]


def _unknown_verb(
    world: World, gold: Sequence[str], point: int, chance: random.Random
) -> Iterator[Plan]:
    yield Plan(f"{chance.choice(UNKNOWN_VERBS)} {chance.choice(world.objects())}")


def _missing_object(
    world: World, gold: Sequence[str], point: int, chance: random.Random
) -> Iterator[Plan]:
    yield Plan(f"{chance.choice(VERBS)} {chance.choice(ABSENT)}")


def _impossible_action(
    world: World, gold: Sequence[str], point: int, chance: random.Random
) -> Iterator[Plan]:
    """Something that cannot be done with things that are there; where it can be done, it is no mistake."""
    here = world.objects()
    yield Plan(
        chance.choice(IMPOSSIBLE).format(chance.choice(here), chance.choice(here))
    )


def _ambiguous_object(
    world: World, gold: Sequence[str], point: int, chance: random.Random
) -> Iterator[Plan]:
    yield Plan(chance.choice(AMBIGUOUS))


def _closed_door(
    world: World, gold: Sequence[str], point: int, chance: random.Random
) -> Iterator[Plan]:
    """Walk on without opening the door; or open it, close it again, and walk."""
    opened = gold[point].removeprefix("open door to ")
    walked = gold[point].removeprefix("go to ")
    if opened != gold[point]:
        yield Plan(f"go to {opened}")
    elif walked != gold[point] and gold[point - 1] == f"open door to {walked}":
        yield Plan(
            gold[point],
            before=(f"close door to {walked}",),
            after=(f"open door to {walked}",),
        )


def _repeated_no_op(
    world: World, gold: Sequence[str], point: int, chance: random.Random
) -> Iterator[Plan]:
    doors = [action for action in gold[:point] if action.startswith("open ")]
    seen = [f"look at {each}" for each in world.objects()]
    useless = {
        "look around",
        "inventory",
        chance.choice([*doors, "look around"]),
        chance.choice(seen),
    }
    fitting = sorted(useless - {*gold[max(point - RECENT, 0) : point]})
    if fitting:
        yield Plan(chance.choice(fitting), times=REPEATS)


KINDS: dict[str, Inject] = {
    "unknown verb": _unknown_verb,
    "missing object": _missing_object,
    "impossible action": _impossible_action,
    "ambiguous object": _ambiguous_object,
    "closed door": _closed_door,
    "repeated no-op": _repeated_no_op,
}
"""What can go wrong, by name."""
