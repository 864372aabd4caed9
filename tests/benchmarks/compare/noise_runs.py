"""How the default and its peers hold up with other judges than the usual one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from tests.benchmarks.compare.desk import Desk
from tests.benchmarks.compare.jobs import benchmark
from tests.benchmarks.compare.methods import CONTENDERS
from tests.benchmarks.compare.names import DEFAULT
from tests.benchmarks.compare.noise import NOISES
from tests.benchmarks.compare.simulation import Simulation

NOISE_BUDGETS = (20, 40, 80, 160)
DIGITS = 4

PLAYERS = tuple(
    name
    for name, contender in CONTENDERS.items()
    if name == DEFAULT or not (contender.ours or contender.arm)
)
"""The default and its peers in both forms."""

NoiseFigures = dict[str, dict[str, dict[str, float]]]
"""Success by judge, method and budget."""


@dataclass(frozen=True, slots=True)
class NoiseJob:
    """A task and a seed, for some methods and all judges."""

    task: int
    seed: int
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoiseOutcome:
    """Whether a method solved a task with a judge, by budget."""

    noise: str
    method: str
    solved: tuple[bool, ...]


def run_noise_job(job: NoiseJob) -> list[NoiseOutcome]:
    """Let the methods work with every judge."""
    tasks, pool = benchmark()
    worlds: dict[tuple[float, float], Simulation] = {}
    outcomes: list[NoiseOutcome] = []
    for name, noise in NOISES.items():
        offers = noise.offered, noise.early_offers
        if offers not in worlds:
            offered, early = offers
            worlds[offers] = Simulation(
                tasks[job.task],
                pool,
                seed=job.seed,
                offered=offered,
                early_offers=early,
            )
        for method in job.methods:
            desk = Desk(
                worlds[offers], noise, max(NOISE_BUDGETS), lambda question, answer: 0
            )
            CONTENDERS[method].play(desk)
            plans = [desk.plan_at(budget) for budget in NOISE_BUDGETS]
            outcomes.append(
                NoiseOutcome(
                    name,
                    method,
                    tuple(plan is not None and plan.done for plan in plans),
                )
            )
    return outcomes


def noise_figures(
    outcomes: Iterable[NoiseOutcome], methods: Sequence[str] = PLAYERS
) -> NoiseFigures:
    """Success as a mean over tasks and seeds."""
    grouped: dict[tuple[str, str], list[tuple[bool, ...]]] = {}
    for outcome in outcomes:
        grouped.setdefault((outcome.noise, outcome.method), []).append(outcome.solved)
    return {
        noise: {
            method: {
                str(budget): round(fmean(solved), DIGITS)
                for budget, solved in zip(
                    NOISE_BUDGETS,
                    zip(*grouped[noise, method], strict=True),
                    strict=True,
                )
            }
            for method in methods
            if (noise, method) in grouped
        }
        for noise in NOISES
    }
