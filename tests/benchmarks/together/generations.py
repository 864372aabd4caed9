"""Generations: each learns from what the one before has recorded of its own runs, verdicts that are wrong included."""

from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.together.arms import (
    ARMS,
    LEARNING_SEED,
    LEARNT,
    Job,
    Row,
    figures,
    guided,
    play,
    recorded,
    row_of,
    run_job,
    tasks_of,
)
from tests.benchmarks.together.learnt import Learnt

GENERATIONS = 5


@dataclass(frozen=True, slots=True)
class Lives:
    """What is measured after each generation.

    Attributes:
        unseen: Positions of the tasks.
        seed: Seed of all chance.
        cache: Where the benchmark's package is kept.
        generations: How many there are.
    """

    unseen: tuple[int, ...]
    seed: int
    cache: Path
    generations: int = GENERATIONS


def run(job: Job | Lives) -> list[Row] | list[dict[str, float]]:
    """Do a job in a process of its own."""
    return run_job(job) if isinstance(job, Job) else live(job)


def live(lives: Lives) -> list[dict[str, float]]:
    """Figures on unseen tasks: without experience, then with what each generation has left.

    A generation plans the tasks to learn from with what the one before has recorded, and records what it does; the
    first one has learnt nothing. Nothing of the runs is known to be right: a verdict says so, and errs.
    """
    tasks = tasks_of(lives.cache)[0]
    learnt: Learnt | None = None
    told = [_measured(lives, learnt)]
    for number in range(lives.generations):
        search = guided(ARMS["all" if learnt else "none"], learnt)
        runs = [
            recorded(each, play(each, search, LEARNING_SEED + number, lives.cache), f"generation {number}")
            for each in tasks[:LEARNT]
        ]
        learnt = Learnt(runs)
        told.append(_measured(lives, learnt))
    return told


def _measured(lives: Lives, learnt: Learnt | None) -> dict[str, float]:
    search = guided(ARMS["all" if learnt else "none"], learnt)
    tasks = tasks_of(lives.cache)[0]
    found = ((task, play(tasks[task], search, lives.seed, lives.cache)) for task in lives.unseen)
    return figures([row_of(turns, "all", LEARNT, task, lives.seed) for task, turns in found])
