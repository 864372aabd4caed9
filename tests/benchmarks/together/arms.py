"""The arms: which parts of an experience help a search, and how an arm does on tasks that nobody has learnt from."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import fmean

from langchain_tooltree import SearchConfig, SITGraph
from tests.benchmarks.bfcl_model import ArgumentPool, gold_arguments
from tests.benchmarks.recorded.model import Readers
from tests.benchmarks.recorded.ours import OwnSearch
from tests.benchmarks.together.guided import GuidedSearch, Help, Learnt, by_itself
from tests.benchmarks.together.model import Reaction, SimulatedModel
from tests.benchmarks.together.world import Played, played_tasks

LEARNT = 100
"""Tasks to learn from; the others are unseen."""

AMOUNTS = (0, 10, 25, 50, 100)
"""Tasks learnt from, for the learning curve."""

JUDGE = Readers(judge=0.9)

QUESTIONS = 60
"""Model calls of a search at the most: more than it comes to."""

HINT = Reaction(heeds=0.5, misled=0.1)
"""The hypothesis on hints. No source: so the figures are also told with half of it and with none."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Which parts of an experience help.

    Attributes:
        prior: The search gets the graph's shares.
        reaction: What the graph's hint changes in the model; it gets none if left out.
    """

    prior: bool = False
    reaction: Reaction | None = None


PLAIN = "plain"
"""Name of the model by itself, without a search."""

ARMS = {"none": Arm(), "suggestions": Arm(reaction=HINT), "prior": Arm(prior=True)}
"""By name."""


@dataclass(frozen=True, slots=True)
class Job:
    """One unseen task, for some arms and amounts learnt.

    Attributes:
        task: Its position among all tasks.
        arms: Names of the arms, each with how many tasks were learnt from.
        seeds: Seeds of all chance.
        cache: Where the benchmark's package is kept.
    """

    task: int
    arms: tuple[tuple[str, int], ...]
    seeds: tuple[int, ...]
    cache: Path


@dataclass(frozen=True, slots=True)
class Row:
    """What an arm made of a task."""

    arm: str
    learnt: int
    task: int
    seed: int
    turns: tuple[bool, ...]
    model_calls: int
    judge_calls: int
    tokens: int


def run_job(job: Job) -> list[Row]:
    """Play a task with each arm and seed."""
    return [row for arm, amount in job.arms for row in _rows(job, arm, amount)]


def _rows(job: Job, name: str, amount: int) -> Iterator[Row]:
    tasks, pool = _tasks(job.cache)
    arm = ARMS.get(name, Arm())
    helped = Help(learnt=_learnt(amount, job.cache), prior=arm.prior, hints=arm.reaction is not None)
    search = GuidedSearch(OwnSearch(SearchConfig(), QUESTIONS, graded=False), helped)
    for seed in job.seeds:
        passed, spent = [], []
        for scene in tasks[job.task].scenes:
            reaction = arm.reaction or Reaction()
            model = SimulatedModel(scene.turn, "simulated", JUDGE, seed, pool=pool, reaction=reaction)
            end, spending = by_itself(model, scene) if name == PLAIN else search(model, scene)
            passed.append(end.passing)
            spent.append(spending)
        yield Row(
            name,
            amount,
            job.task,
            seed,
            tuple(passed),
            sum(each.model_calls for each in spent),
            sum(each.judge_calls for each in spent),
            sum(each.tokens for each in spent),
        )


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """Success of tasks and of turns, and what a task cost."""
    return {
        "success": round(fmean(all(row.turns) for row in rows), 4),
        "turn_success": round(fmean(passed for row in rows for passed in row.turns), 4),
        **{
            name: round(fmean(asdict(row)[name] for row in rows), 3)
            for name in ("model_calls", "judge_calls", "tokens")
        },
    }


@cache
def _tasks(cache_folder: Path) -> tuple[list[Played], ArgumentPool]:
    tasks = played_tasks(cache_folder)
    return tasks, gold_arguments(played.task for played in tasks)


@cache
def _learnt(amount: int, cache_folder: Path) -> Learnt:
    runs = [played.trajectory() for played in _tasks(cache_folder)[0][:amount]]
    return Learnt(SITGraph.from_trajectories(runs))
