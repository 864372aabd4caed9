"""collect: try training tasks and keep what happened, with what was learnt from each failure."""

import asyncio
import inspect
import logging
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from langchain_tooltree.cfgm.collect.attempt import SHELF, StoppedError, journals
from langchain_tooltree.cfgm.collect.collection import Collection, Evaluate, Settings, Tally, is_agent, is_maker
from langchain_tooltree.cfgm.collect.environment import is_environment
from langchain_tooltree.cfgm.collect.report import CollectionReport, NamedTask, Task, TaskOutcome, named
from langchain_tooltree.errors import ConfigurationError, check_count
from langchain_tooltree.experience.store import ExperienceStore
from langchain_tooltree.flows import arun_flow, run_flow
from langchain_tooltree.models import resolve_model

logger = logging.getLogger(__name__)


class Progress:
    """Shows how far a collection is, on standard error.

    Args:
        tally: What it has done.
        tasks: How many tasks there are.
        shown: Whether to show it; where standard error is a terminal, if left out.
    """

    def __init__(self, tally: Tally, tasks: int, *, shown: bool | None) -> None:
        self._bar = _Live(
            tally,
            TextColumn("collecting"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("tasks, {task.fields[attempts]} attempts, {task.fields[successes]} successes,"),
            TextColumn("{task.fields[calls]} model calls"),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr),
            disable=not (sys.stderr.isatty() if shown is None else shown),
        )
        self._bar.add_task("", total=tasks, attempts=0, successes=0, calls=0)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()


class _Live(Bar):
    """A bar that reads its figures whenever it is drawn, so that no attempt has to wait for it."""

    def __init__(self, tally: Tally, *columns: str | ProgressColumn, console: Console, disable: bool) -> None:
        self._tally = tally
        super().__init__(*columns, console=console, disable=disable)

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is drawn."""
        tally = self._tally
        for task in self.tasks:
            task.completed = tally.done
            task.fields.update(attempts=tally.attempts, successes=tally.successes, calls=tally.cost.model_calls)
        return super().get_renderables()


DEFAULT_MAX_RETRIES = 3
"""Attempts after the first one, as in the paper."""

DEFAULT_MAX_STEPS = 30

DEFAULT_MAX_CONCURRENCY = 4


class CollectOptions(TypedDict, total=False):
    """Further options of a collection; see `collect`."""

    focus_points: Sequence[str]
    max_steps: int
    max_concurrency: int
    config: RunnableConfig | None
    context: Any
    progress: bool | None


def collect(
    model: str | BaseChatModel,
    experience: ExperienceStore,
    agent: Any,
    tasks: Iterable[str | Task],
    evaluate: Evaluate | None,
    *,
    focus_points: Sequence[str] = (),
    max_retries: int = DEFAULT_MAX_RETRIES,
    max_steps: int = DEFAULT_MAX_STEPS,
    max_concurrency: int = DEFAULT_MAX_CONCURRENCY,
    config: RunnableConfig | None = None,
    context: Any = None,
    progress: bool | None = None,
) -> CollectionReport:
    """Collect experience: try each task until it succeeds, with a reflection after each failure (CFGM, Alg. 1).

    Every attempt is shown the focus points and all earlier reflections on its task, and becomes a trajectory in
    `experience`: `success`, `reasons`, and as metadata `attempt`, `reflection`, `reward` and `usage`.

    A collection that was stopped or killed goes on when it is run again with the same arguments: stored attempts are
    not repeated, and an attempt under way takes its actions once more in a fresh world, with the replies that were kept
    instead of the model's. So worlds have to be made anew, or reset, for each attempt; where one does not behave as it
    did before, the attempt goes on live from there. In a graph, what is kept is the output of every node that has asked
    a model and called no tool itself, in graphs inside it as well. A node that asks a model and acts by itself, or runs
    a whole agent inside a function, is run again; let a node that asks a model not act otherwise than through
    LangChain tools or tool calls.

    Attempts are found again by the id and the text of their task alone. So with another model, agent, `evaluate`,
    `max_steps` or prompt, those that are stored stand as they were made and judged, and only what is missing is tried;
    a larger `max_retries` adds attempts to tasks that have failed so far. A report that has `made` none says that all
    of it was stored before, which is logged as a warning. To start over, collect into another namespace, or delete the
    trajectories that the report names.

    What goes wrong with one task (a model that cannot be reached, a world that cannot be made, an `evaluate` that
    raises, a `step` that cannot be read) does not disturb the others and raises nothing: the report says which tasks
    are unfinished and why, and the same collection, run again, goes on with them. An agent that raises, spends its
    steps or is interrupted has failed, as has one whose conversation grows until its model does not take it any more.

    Args:
        model: Writes the reflections, and acts in environments: a chat model, or a name for `init_chat_model`.
        experience: Where attempts are kept. Variables of its namespace are filled from `config`.
        agent: Who tries. A compiled graph whose state has `messages`; an environment with `reset(task)` and
            `step(action)`, sync or async, in which `model` acts; or a function, sync or async, from a task to one of
            these, for a fresh world for each attempt, which is closed afterwards by its `aclose` or `close`.
        tasks: Texts or `Task` records.
        evaluate: A function, sync or async, from the task as it was passed and the result to whether it succeeded, or
            a reward, of which 1 or more is a success. The result of a graph is its final state; that of an
            environment a mapping with `messages`, `reward` (their sum), `done` and `truncated` (cut off by a limit of
            its own). `None` lets an environment decide: done and not cut off, with rewards of 1 or more in all if it
            gives rewards.
        focus_points: What matters in this environment.
        max_retries: Attempts after the first one.
        max_steps: Tool calls or environment steps that an attempt may make. One that needs more has failed.
        max_concurrency: Tasks that are tried at once; an environment that is passed itself takes one at a time.
        config: Merged into the configuration of each run of a graph. Each run has a thread of its own, in memory.
        context: Runtime context of each run of a graph.
        progress: Whether to show a progress bar; where standard error is a terminal, if left out.

    Returns:
        What came of each task and what it cost.

    Raises:
        ConfigurationError: If an argument is invalid.
        StoreError: If something that stands among the kept records was not written by this package.
        Exception: Whatever the store raises, as when its disk is full: that ends the whole collection, since nothing
            could be kept. What was kept before is there when it is run again.
    """
    work = _Assignment(
        model=model,
        experience=experience,
        agent=agent,
        tasks=tasks,
        evaluate=evaluate,
        focus_points=focus_points,
        limits={"max_retries": max_retries, "max_steps": max_steps, "max_concurrency": max_concurrency},
        config=config,
        context=context,
    )
    begun = time.monotonic()
    collection = work.collection(run_flow(work.reading()))
    with Progress(collection.tally, len(work.tasks), shown=progress):
        outcomes = _try_all(collection, work)
    return work.report(collection, outcomes, time.monotonic() - begun)


async def acollect(
    model: str | BaseChatModel,
    experience: ExperienceStore,
    agent: Any,
    tasks: Iterable[str | Task],
    evaluate: Evaluate | None,
    *,
    focus_points: Sequence[str] = (),
    max_retries: int = DEFAULT_MAX_RETRIES,
    max_steps: int = DEFAULT_MAX_STEPS,
    max_concurrency: int = DEFAULT_MAX_CONCURRENCY,
    config: RunnableConfig | None = None,
    context: Any = None,
    progress: bool | None = None,
) -> CollectionReport:
    """The async twin of `collect`."""
    work = _Assignment(
        model=model,
        experience=experience,
        agent=agent,
        tasks=tasks,
        evaluate=evaluate,
        focus_points=focus_points,
        limits={"max_retries": max_retries, "max_steps": max_steps, "max_concurrency": max_concurrency},
        config=config,
        context=context,
    )
    begun = time.monotonic()
    collection = work.collection(await arun_flow(work.reading()))
    with Progress(collection.tally, len(work.tasks), shown=progress):
        outcomes = await _atry_all(collection, work)
    return work.report(collection, outcomes, time.monotonic() - begun)


def _try_all(collection: Collection, work: "_Assignment") -> list[TaskOutcome]:
    with ThreadPoolExecutor(work.concurrency, thread_name_prefix="collect") as pool:
        running: list[Future[TaskOutcome]] = [
            pool.submit(copy_context().run, _try_one, collection, task) for task in work.tasks
        ]
        try:
            wait(running, return_when=FIRST_EXCEPTION)
        finally:
            # After an interrupt or an error nothing new is begun; what is running keeps what it was told.
            collection.tally.stopped.set()
            pool.shutdown(cancel_futures=True)
            run_flow(collection.closing())
    errors = [error for future in running if not future.cancelled() and (error := future.exception())]
    for error in sorted(errors, key=lambda each: isinstance(each, StoppedError)):
        raise error  # rather the one that has stopped the others
    return [future.result() for future in running]


def _try_one(collection: Collection, task: NamedTask) -> TaskOutcome:
    try:
        return run_flow(collection.trying(task))
    except BaseException:
        collection.tally.stopped.set()  # at once: this thread is about to take up the next task
        raise


async def _atry_all(collection: Collection, work: "_Assignment") -> list[TaskOutcome]:
    free = asyncio.Semaphore(work.concurrency)

    async def attend(task: NamedTask) -> TaskOutcome:
        async with free:
            return await arun_flow(collection.trying(task))

    running = [asyncio.create_task(attend(task)) for task in work.tasks]
    try:
        return list(await asyncio.gather(*running))
    finally:
        collection.tally.stopped.set()
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await arun_flow(collection.closing())


class _Assignment:
    """The arguments of a collection, checked."""

    def __init__(
        self,
        *,
        model: str | BaseChatModel,
        experience: ExperienceStore,
        agent: Any,
        tasks: Iterable[str | Task],
        evaluate: Evaluate | None,
        focus_points: Sequence[str],
        limits: dict[str, int],
        config: RunnableConfig | None,
        context: Any,
    ) -> None:
        if not isinstance(experience, ExperienceStore):
            msg = (
                f"experience must be an ExperienceStore, got {type(experience).__name__}. "
                "Wrap a BaseStore: ExperienceStore(store)."
            )
            raise ConfigurationError(msg)
        _check_agent(agent)
        _check_evaluate(evaluate, agent)
        _check_focus_points(focus_points)
        for name, least in (("max_retries", 0), ("max_steps", 1), ("max_concurrency", 1)):
            check_count(name, limits[name], least)
        self.tasks = named(tasks)
        self.concurrency = 1 if is_environment(agent) else min(limits["max_concurrency"], len(self.tasks))
        self._settings = Settings(
            model=resolve_model(model),
            experience=experience.within_config(config),
            agent=agent,
            evaluate=evaluate,
            focus_points=tuple(focus_points),
            max_retries=limits["max_retries"],
            max_steps=limits["max_steps"],
            config=config,
            context=context,
        )

    def reading(self) -> Any:
        """What was kept of attempts under way, as a flow."""
        return journals(self._settings.experience.collection(SHELF))

    def collection(self, kept: Any) -> Collection:
        """The collection, with what was kept of attempts under way."""
        return Collection(self._settings, kept)

    def report(self, collection: Collection, outcomes: Sequence[TaskOutcome], seconds: float) -> CollectionReport:
        """What it came to."""
        tally = collection.tally
        if not tally.made and all(outcome.success is not None for outcome in outcomes):
            logger.warning(
                "Nothing was tried: all %d attempts were stored before, be it with other arguments. "
                "Use another namespace to start over, or delete them.",
                tally.attempts,
            )
        return CollectionReport(tuple(outcomes), tally.made, tally.cost, tally.total, seconds)


def _check_focus_points(focus_points: Any) -> None:
    listed = isinstance(focus_points, Sequence) and not isinstance(focus_points, str)
    if not listed or not all(isinstance(point, str) for point in focus_points):
        msg = f"focus_points must be a list of texts, got {focus_points!r:.120}. Pass () for none."
        raise ConfigurationError(msg)


def _check_agent(agent: Any) -> None:
    if isinstance(agent, StateGraph):
        msg = "agent is a StateGraph that is not compiled. Pass agent.compile()."
        raise ConfigurationError(msg)
    if not is_agent(agent) and not is_maker(agent):
        msg = (
            f"agent must be a compiled graph, an environment with reset and step, or a function from a task to one of "
            f"these; got {type(agent).__name__}."
        )
        raise ConfigurationError(msg)


def _check_evaluate(evaluate: Any, agent: Any) -> None:
    if evaluate is None:
        if isinstance(agent, Pregel):
            msg = "evaluate is None, but a graph does not say whether it succeeded. Pass evaluate(task, result)."
            raise ConfigurationError(msg)
    elif not callable(evaluate):
        msg = f"evaluate must be a function of a task and a result, got {evaluate!r:.80}."
        raise ConfigurationError(msg)
    elif not _takes_two(evaluate):
        msg = f"evaluate is called with a task and a result, and {evaluate!r:.80} does not take these two arguments."
        raise ConfigurationError(msg)


def _takes_two(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some built-in functions have no signature
        return True
    return True
