"""What is run: every method on every task, seed and judge, a process at a time for each (task, seed)."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from rich.progress import track

from tests.benchmarks.bfcl_data import fetch_package, load_tasks
from tests.benchmarks.bfcl_model import ArgumentPool, gold_arguments
from tests.benchmarks.bfcl_world import Task
from tests.benchmarks.compare.desk import IN_FLIGHT, Desk
from tests.benchmarks.compare.methods import CONTENDERS, Contender
from tests.benchmarks.compare.noise import usual
from tests.benchmarks.compare.outcome import BUDGETS, Outcome
from tests.benchmarks.compare.simulation import Simulation
from tests.benchmarks.compare.tokens import PromptTokens, TokenCounter

CACHE = Path(".cache")

J = TypeVar("J")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """One task, one seed, for some methods and judges; what they learn of the simulation is shared.

    Attributes:
        task: Position of the task.
        seed: Seed of all chance.
        methods: Names of the methods.
        aucs: The judges; a method runs with those of them that it is meant for.
    """

    task: int
    seed: int
    methods: tuple[str, ...]
    aucs: tuple[float, ...]


def run_job(job: Job) -> list[Outcome]:
    """Let all methods work."""
    tasks, pool = benchmark()
    task = tasks[job.task]
    worlds: dict[int, tuple[Simulation, PromptTokens]] = {}
    outcomes: list[Outcome] = []
    for contender in map(CONTENDERS.__getitem__, job.methods):
        count = contender.proposals
        if count not in worlds:
            simulation = Simulation(task, pool, seed=job.seed, proposals=count)
            worlds[count] = (
                simulation,
                PromptTokens(task.request, task.tools, proposals=count),
            )
        aucs = [auc for auc in job.aucs if auc in contender.aucs]
        outcomes += [play(contender, auc, job, *worlds[count]) for auc in aucs]
    return outcomes


def play(
    contender: Contender,
    auc: float,
    job: Job,
    simulation: Simulation,
    prompts: PromptTokens,
) -> Outcome:
    """Let one method work with one judge."""
    counter = TokenCounter(prompts, lists_tried=contender.ours)
    judge, fused = (
        replace(usual(judge), wrong_pre=contender.wrong_pre)
        for judge in (auc, auc - contender.handicap)
    )
    desk = Desk(simulation, judge, max(BUDGETS), counter, fused_noise=fused)
    began = time.process_time()
    rollouts, nodes = contender.play(desk)
    plans = [desk.plan_at(budget) for budget in BUDGETS]
    return Outcome(
        method=contender.name,
        auc=auc,
        task=job.task,
        seed=job.seed,
        solved=tuple(plan is not None and plan.done for plan in plans),
        model_calls=desk.model_calls,
        tool_calls=desk.tool_calls,
        tokens=desk.tokens,
        milliseconds=tuple(desk.milliseconds[count] for count in IN_FLIGHT),
        rollouts=rollouts,
        nodes=nodes,
        seconds=time.process_time() - began,
    )


def in_processes(
    run: Callable[[J], T], jobs: Sequence[J], *, processes: int, label: str
) -> Iterator[T]:
    """Run jobs side by side, with a progress bar; results come as they are ready."""
    # Fresh processes, not forks: langgraph's threads and locks must not be copied half-way through.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(run, job) for job in jobs]
        for future in track(
            as_completed(futures), description=label, total=len(jobs), transient=True
        ):
            yield future.result()


@cache
def benchmark() -> tuple[list[Task], ArgumentPool]:
    """Tasks and argument pool, read once in each process."""
    tasks = load_tasks(fetch_package(CACHE))
    return tasks, gold_arguments(tasks)
