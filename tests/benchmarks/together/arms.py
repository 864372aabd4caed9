"""The arms: which parts of an experience help a search, and how an arm does on tasks that nobody has learnt from."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Literal

from langchain_tooltree import SearchConfig, Trajectory
from tests.benchmarks.bfcl_model import ArgumentPool, gold_arguments
from tests.benchmarks.recorded.model import Readers
from tests.benchmarks.recorded.ours import OwnSearch
from tests.benchmarks.together.guided import Found, GuidedSearch, Help, by_itself
from tests.benchmarks.together.learnt import Learnt
from tests.benchmarks.together.model import Reaction, SimulatedModel
from tests.benchmarks.together.world import Played, played_tasks

LEARNT = 100
"""Tasks to learn from; the others are unseen."""

AMOUNTS = (0, 10, 25, 50, 100)
"""Tasks learnt from, for the learning curve."""

JUDGE = Readers(judge=0.9)

VERDICT = 0.85
"""Share of own runs that the verdict on them is right about."""

QUESTIONS = 60
"""Model calls of a search at the most: more than it comes to."""

HEEDS, MISLED = 1 / 3, 1 / 9
"""The hypothesis on all advice: of the steps that are not the right one, a third become right where the advice names
the right tool, and of the right ones, a ninth become wrong where it names others only.

Two careful readers stood in for a model at 24 states of unseen tasks, each state once with the hint and once without.
Of 4 steps that missed gold's tool, 1 called it with a right hint; of 7 that called it, none missed it with a wrong one.
By the rule of succession that is `(1 + 1) / (4 + 2)` and `(0 + 1) / (7 + 2)`. So few say little: the figures are
told with half of it and with none, too."""

ADVISED = Reaction(heeds=HEEDS, misled=MISLED)

LEARNING_SEED = 1_000
"""Of the runs that are learnt from; those that are measured have others."""

Source = Literal["gold", "own", "both"]
"""Whose runs of the tasks are learnt from: gold's, those of our own search, or both."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Which parts of an experience help; without a reaction, the model is not told.

    Attributes:
        source: Whose runs are learnt from.
        prior: Whether the search gets the graph's shares.
        suggestions: How the model reacts to suggestions.
        tips: How it reacts to recalled runs.
        trouble: How it reacts to what it makes of trouble.
    """

    source: Source = "gold"
    prior: bool = False
    suggestions: Reaction | None = None
    tips: Reaction | None = None
    trouble: Reaction | None = None

    def with_effect(self, factor: float) -> "Arm":
        """The same arm, with advice that changes less in the model."""
        weaker = {
            name: reaction and reaction.times(factor)
            for name, reaction in (("suggestions", self.suggestions), ("tips", self.tips), ("trouble", self.trouble))
        }
        return replace(self, **weaker)


PLAIN = "plain"
"""Name of the model by itself, without a search."""

ARMS = {
    "none": Arm(),
    "suggestions": Arm(suggestions=ADVISED),
    "prior": Arm(prior=True),
    "tips": Arm(tips=ADVISED),
    "searches": Arm("own", prior=True, suggestions=ADVISED),
    "trouble": Arm(trouble=ADVISED),
    "all": Arm("both", prior=True, suggestions=ADVISED, tips=ADVISED, trouble=ADVISED),
}
"""By name. No model writes tips here: what is recalled are runs."""

EFFECTS = {"half": 0.5, "no": 0.0}
"""How much of the hypothesis on advice is left, for the sensitivity."""

SENSITIVE = {
    f"{name}, {label} effect": ARMS[name].with_effect(factor)
    for name in ("suggestions", "all")
    for label, factor in EFFECTS.items()
}


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
    return [row for name, amount in job.arms for row in _rows(job, name, amount)]


def _rows(job: Job, name: str, amount: int) -> Iterator[Row]:
    arm = {PLAIN: Arm(), **ARMS, **SENSITIVE}[name]
    search = guided(arm, learnt_from(arm.source, amount, job.cache) if name not in (PLAIN, "none") else None)
    played = tasks_of(job.cache)[0][job.task]
    for seed in job.seeds:
        found = play(played, None if name == PLAIN else search, seed, job.cache)
        yield row_of(found, name, amount, job.task, seed)


def row_of(found: Sequence[Found], arm: str, learnt: int, task: int, seed: int) -> Row:
    """What a task came to, turn by turn."""
    spent = [each.spending for each in found]
    return Row(
        arm,
        learnt,
        task,
        seed,
        tuple(each.end.passing for each in found),
        sum(each.model_calls for each in spent),
        sum(each.judge_calls for each in spent),
        sum(each.tokens for each in spent),
    )


def guided(arm: Arm, learnt: Learnt | None) -> GuidedSearch:
    """The search of an arm, with the product's defaults."""
    helped = Help(learnt=learnt, prior=arm.prior, suggestions=arm.suggestions, recalled=arm.tips, trouble=arm.trouble)
    # As the package asks: a reply that stops says whether all is done, and not how sure it is.
    return GuidedSearch(OwnSearch(SearchConfig(), QUESTIONS, graded=False), helped)


def play(played: Played, search: GuidedSearch | None, seed: int, cache_folder: Path) -> list[Found]:
    """A task turn by turn; without a search, by the model alone."""
    pool = tasks_of(cache_folder)[1]
    found = []
    for scene in played.scenes:
        model = SimulatedModel(scene.turn, "simulated", JUDGE, seed, pool=pool)
        found.append(search(model, scene) if search else by_itself(model, scene))
    return found


def recorded(played: Played, found: Sequence[Found], name: str) -> Trajectory:
    """A run as it is kept, with a verdict that is right as often as it is supposed to be."""
    succeeded = all(each.end.passing for each in found)
    wrong = random.Random(repr((played.task.id, name, "verdict"))).random() >= VERDICT  # noqa: S311 - no secret
    return played.own_run(name, [each.way for each in found], success=succeeded != wrong)


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
def tasks_of(cache_folder: Path) -> tuple[list[Played], ArgumentPool]:
    """All tasks, and arguments for plausible wrong calls; read once in each process."""
    tasks = played_tasks(cache_folder)
    return tasks, gold_arguments(played.task for played in tasks)


@cache
def learnt_from(source: Source, amount: int, cache_folder: Path) -> Learnt:
    """What runs of the first tasks teach; once in each process."""
    first = tasks_of(cache_folder)[0][:amount]
    runs = [played.trajectory() for played in first] if source != "own" else []
    if source != "gold":
        runs += _own_runs(cache_folder)[:amount]
    return Learnt(runs)


@cache
def _own_runs(cache_folder: Path) -> list[Trajectory]:
    """What our own search makes of the tasks to learn from, when it has learnt nothing."""
    search = guided(Arm(), None)
    first = tasks_of(cache_folder)[0][:LEARNT]
    return [recorded(each, play(each, search, LEARNING_SEED, cache_folder), "own") for each in first]
