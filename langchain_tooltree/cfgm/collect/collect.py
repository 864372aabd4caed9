"""collect: try training tasks and keep what happened, with what was learnt from each failure."""

import asyncio
import inspect
import logging
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel

from langchain_tooltree.cfgm.collect.attempt import SHELF, StoppedError, Tally, journals
from langchain_tooltree.cfgm.collect.collection import Collection, Evaluate, is_agent, is_maker
from langchain_tooltree.cfgm.collect.environment import is_environment
from langchain_tooltree.cfgm.collect.report import CollectionReport, NamedTask, Task, TaskOutcome, named
from langchain_tooltree.cfgm.recall import example_text
from langchain_tooltree.errors import ConfigurationError, check_count
from langchain_tooltree.experience.store import ExperienceStore
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, arun_flow, async_twin, driven, run_flow
from langchain_tooltree.models import resolve_model

logger = logging.getLogger(__name__)

DEFAULT_MAX_RETRIES = 3  # attempts after the first one, as in the paper
DEFAULT_MAX_STEPS = 30  # tool calls or environment steps, the H of the paper: room for a dozen and for their detours
DEFAULT_MAX_CONCURRENCY = 4  # a compromise between time and the rate limits of providers

HEARING = 1.0
"""Seconds after which a waiting main thread looks around: a signal does not always end its wait, on Windows never."""


class CollectOptions(TypedDict, total=False):
    """Further options of a collection; see `CFGMMemory.collect`."""

    focus_points: Sequence[str]
    examples: Sequence[str | Trajectory]
    max_steps: int
    max_concurrency: int
    config: RunnableConfig | None
    context: Any
    progress: bool | None


@driven
def collect(
    model: str | BaseChatModel,
    experience: ExperienceStore,
    agent: Any,
    tasks: Iterable[str | Task],
    evaluate: Evaluate | None,
    *,
    reflector: str | BaseChatModel | None = None,
    focus_points: Sequence[str] = (),
    examples: Sequence[str | Trajectory] = (),
    max_retries: int = DEFAULT_MAX_RETRIES,
    max_steps: int = DEFAULT_MAX_STEPS,
    max_concurrency: int = DEFAULT_MAX_CONCURRENCY,
    config: RunnableConfig | None = None,
    context: Any = None,
    progress: bool | None = None,
) -> Flow[CollectionReport]:
    """Collect experience: try each task until it succeeds, with a reflection after each failure (CFGM, Alg. 1).

    `CFGMMemory.collect` describes the arguments; `reflector` reflects on failures, the model if left out. Every attempt
    is shown the examples, the focus points and all earlier reflections on
    its task, and becomes a trajectory with `success` and `reasons`; `attempt`, `reflection`, `reward` and `usage` stand
    in its metadata.

    An interrupted collection that is run again repeats nothing of attempts that have ended, but perhaps the reflection
    on the last one. In an environment it takes the actions of the attempt under way in a fresh world, with the kept
    replies instead of the model's, and goes on live where the world answers otherwise. An attempt under way by a graph
    is made again, model calls included: at most one for each task that was being tried.
    """
    if problem := _problem_with(experience, agent, evaluate, focus_points, examples):
        raise ConfigurationError(problem)
    check_count("max_retries", max_retries, 0)
    check_count("max_steps", max_steps, 1)
    check_count("max_concurrency", max_concurrency, 1)
    to_try = named(tasks)
    begun = time.monotonic()
    experience = experience.within_config(config)
    collection = Collection(
        model=resolve_model(model),
        reflector=resolve_model(reflector or model),
        experience=experience,
        agent=agent,
        evaluate=evaluate,
        focus_points=focus_points,
        examples=[example_text(each) for each in examples],
        max_retries=max_retries,
        max_steps=max_steps,
        config=config,
        context=context,
        journals=(yield from journals(experience.collection(SHELF))),
    )
    concurrency = 1 if is_environment(agent) else min(max_concurrency, len(to_try))
    shown = sys.stderr.isatty() if progress is None else progress
    bar = _progress_bar(collection.tally, len(to_try)) if shown else nullcontext()
    outcomes: list[TaskOutcome] = yield _TryAll(collection, to_try, concurrency, bar)
    tally = collection.tally
    if not tally.made and all(outcome.success is not None for outcome in outcomes):
        logger.warning(
            "Nothing was tried: all %d attempts were stored before, perhaps with other arguments. "
            "Use another namespace to start over, or delete them.",
            tally.attempts,
        )
    return CollectionReport(tuple(outcomes), tally.made, tally.cost, tally.total, time.monotonic() - begun)


acollect = async_twin(collect)


@dataclass(frozen=True, slots=True)
class _TryAll:
    """Trying all tasks, several at once, as a step: in threads, or as tasks of the event loop.

    After an interrupt or an error nothing new is begun; what is running keeps the replies that it gets.
    """

    collection: Collection
    tasks: Sequence[NamedTask]
    concurrency: int
    bar: AbstractContextManager[Any]

    def run(self) -> list[TaskOutcome]:
        running: list[Future[TaskOutcome]] = []
        with self.bar, ThreadPoolExecutor(self.concurrency, thread_name_prefix="collect") as pool:
            try:
                for task in self.tasks:
                    running.append(pool.submit(copy_context().run, self._try, task))  # noqa: PERF401 - an interrupt may come between
                _wait_for(running)
            finally:
                self.collection.tally.stopped.set()
                pool.shutdown(cancel_futures=True)
                run_flow(self.collection.closing())
        errors = [error for future in running if not future.cancelled() and (error := future.exception())]
        for error in sorted(errors, key=lambda each: isinstance(each, StoppedError)):
            raise error  # rather the one that has stopped the others
        return [future.result() for future in running]

    def _try(self, task: NamedTask) -> TaskOutcome:
        try:
            return run_flow(self.collection.trying(task))
        except BaseException:
            self.collection.tally.stopped.set()  # at once: this thread is about to take up the next task
            raise

    async def arun(self) -> list[TaskOutcome]:
        free = asyncio.Semaphore(self.concurrency)

        async def attend(task: NamedTask) -> TaskOutcome:
            async with free:
                return await arun_flow(self.collection.trying(task))

        with self.bar:
            running = [asyncio.create_task(attend(task)) for task in self.tasks]
            try:
                return list(await asyncio.gather(*running))
            finally:
                self.collection.tally.stopped.set()
                for each in running:
                    each.cancel()
                await asyncio.gather(*running, return_exceptions=True)
                await arun_flow(self.collection.closing())


def _wait_for(running: Sequence[Future[TaskOutcome]]) -> None:
    """Wait until all have ended, or one has raised; an interrupt is heard in between."""
    while True:
        ended, others = wait(running, timeout=HEARING, return_when=FIRST_EXCEPTION)
        if not others or any(future.exception() for future in ended):
            return


def _progress_bar(tally: Tally, tasks: int) -> AbstractContextManager[Any]:
    """Shows how far a collection is, on standard error. It reads the figures whenever it is drawn."""
    from rich.console import Console, RenderableType  # noqa: PLC0415 - most collections run without a terminal
    from rich.live import Live  # noqa: PLC0415 - as above
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    figures = "{task.fields[tally].attempts} attempts, {task.fields[tally].successes} successes,"
    bar = Progress(
        TextColumn("collecting"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"tasks, {figures} {{task.fields[tally].cost.model_calls}} model calls"),
        TimeElapsedColumn(),
    )
    row = bar.add_task("", total=tasks, tally=tally)

    def drawn() -> RenderableType:
        bar.update(row, completed=tally.done)
        return bar.get_renderable()

    return Live(get_renderable=drawn, console=Console(file=sys.stderr), refresh_per_second=10)


def _problem_with(experience: Any, agent: Any, evaluate: Any, focus_points: Any, examples: Any) -> str:
    """What is wrong with the arguments of a collection; empty if nothing is."""
    listed, shown = (isinstance(each, Sequence) and not isinstance(each, str) for each in (focus_points, examples))
    problem = ""
    if not isinstance(experience, ExperienceStore):
        given = type(experience).__name__
        problem = f"experience must be an ExperienceStore, got {given}. Wrap a BaseStore: ExperienceStore(store)."
    elif isinstance(agent, StateGraph):
        problem = "agent is a StateGraph that is not compiled. Pass agent.compile()."
    elif not is_agent(agent) and not is_maker(agent):
        ways = "a compiled graph, an environment with reset and step, or a function from a task to one of these"
        problem = f"agent must be {ways}; got {type(agent).__name__}."
    elif evaluate is None and isinstance(agent, Pregel):
        problem = "evaluate is None, but a graph does not say whether it succeeded. Pass evaluate(task, result)."
    elif evaluate is not None and not callable(evaluate):
        problem = f"evaluate must be a function of a task and a result, got {evaluate!r:.80}."
    elif evaluate is not None and not _takes_two(evaluate):
        problem = f"evaluate is called with a task and a result, and {evaluate!r:.80} does not take two arguments."
    elif not listed or not all(isinstance(point, str) for point in focus_points):
        problem = f"focus_points must be a list of texts, got {focus_points!r:.120}. Pass () for none."
    elif not shown or not all(isinstance(example, str | Trajectory) for example in examples):
        problem = f"examples must be a list of texts or trajectories, got {examples!r:.120}. Pass () for none."
    return problem


def _takes_two(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError) as error:
        return isinstance(error, ValueError)  # some built-in functions have no signature
    return True
