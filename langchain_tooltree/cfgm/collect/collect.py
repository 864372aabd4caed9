"""Collecting: training tasks are tried, and what happened is kept with what was learnt from failures (CFGM, Alg. 1)."""

import logging
import math
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from pydantic import BaseModel, Field

from langchain_tooltree.cfgm.collect.attempt import Attempt, AttemptResult, UnfinishedError, no_fault_of_the_agent
from langchain_tooltree.cfgm.collect.environment import is_environment, run_in_environment
from langchain_tooltree.cfgm.collect.graph import run_graph
from langchain_tooltree.cfgm.collect.report import CollectionReport, Cost, NamedTask, TaskOutcome
from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.experience.excerpts import DEFAULT_MAX_CHARACTERS, excerpt
from langchain_tooltree.experience.reference import as_reference
from langchain_tooltree.experience.store import ExperienceStore
from langchain_tooltree.experience.trajectory import SUCCESS_REWARD, Trajectory
from langchain_tooltree.flows import Flow, FunctionStep, TogetherStep, flow_of
from langchain_tooltree.models import ATTEMPTS, Words, document_prompt, filled_in, inner_config
from langchain_tooltree.text import shortened

logger = logging.getLogger(__name__)

Evaluate = Callable[[Any, Any], bool | float | Awaitable[bool | float]]
"""A function of the user's, sync or async, from a task and a result to whether it succeeded, or a reward."""


@dataclass(kw_only=True)
class Collection:
    """The arguments of a collection, and the course of its tasks.

    An attempt is done when its trajectory is in the store: what is there is not made again, and what is not, is.
    """

    model: BaseChatModel  # acts in environments
    reflector: BaseChatModel  # reflects on failures
    experience: ExperienceStore
    agent: Any
    evaluate: Evaluate | None
    focus_points: Sequence[str]
    examples: Sequence[str]
    max_retries: int
    max_steps: int
    config: RunnableConfig | None
    context: Any
    _stopped: threading.Event = field(default_factory=threading.Event)

    def collecting(self, tasks: Sequence[NamedTask], max_concurrency: int) -> Flow[CollectionReport]:
        """Try all tasks, some of them at once, as a flow."""
        outcomes: dict[str, TaskOutcome] = {}
        waiting = iter(tasks)  # shared: who is free takes the next one
        # An environment is one world, in which one attempt is made at a time.
        workers = 1 if is_environment(self.agent) else min(max_concurrency, len(tasks))
        with self._stopping_on_error():
            yield TogetherStep([self._working(waiting, outcomes) for _ in range(workers)])
        return CollectionReport(tuple(outcomes[task.attempt_id(1)] for task in tasks))

    @contextmanager
    def _stopping_on_error(self) -> Iterator[None]:
        """After an error of the store or an interrupt, have nobody begin anything new."""
        try:
            yield
        except BaseException:  # also that a flow is closed, which is how it hears of Ctrl-C
            self._stopped.set()
            raise

    def _working(self, waiting: Iterator[NamedTask], outcomes: dict[str, TaskOutcome]) -> Flow[None]:
        """Try one task after the other, beside others who do so."""
        with self._stopping_on_error():
            for task in waiting:
                outcomes[task.attempt_id(1)] = yield from self._trying(task)

    def _trying(self, task: NamedTask) -> Flow[TaskOutcome]:
        """Try a task until it succeeds or there are no retries left."""
        attempts: list[Trajectory] = []
        made, cost, problem = 0, Cost(), ""
        for number in range(1, self.max_retries + 2):
            stored = yield from flow_of(self.experience.get)(task.attempt_id(number))
            if stored is None:
                reflections = [text for each in attempts if (text := str(each.metadata.get("reflection") or ""))]
                attempt = Attempt(task, number, self._request(task, reflections), self.max_steps, self._stopped)
                try:
                    stored = yield from self._attempting(attempt, reflections)
                except UnfinishedError as error:
                    problem = str(error)
                    logger.warning("Attempt %d at the task %s is unfinished: %s", number, task, problem)
                    break
                finally:
                    cost += _cost(attempt)
                made += 1
                yield from flow_of(self.experience.add)(stored)
            attempts.append(stored)
            if stored.success:
                break
        ids = tuple(each.id for each in attempts)
        success = None if problem else bool(attempts[-1].success)
        reasons = attempts[-1].reasons if attempts else ""
        return TaskOutcome(task.text, task.id, success, ids, reasons, problem, made, cost)

    def _request(self, task: NamedTask, reflections: Sequence[str]) -> str:
        """What an agent is given: the task, and in front of it what may help, marked as reference material."""
        parts = []
        if self.examples:
            parts.append("\n\n".join(["Examples of tasks done in this environment:", *self.examples]))
        if self.focus_points:
            parts.append("\n- ".join(["Points that matter in this environment:", *self.focus_points]))
        if reflections:
            listed = [f"{number}. {reflection}" for number, reflection in enumerate(reflections, 1)]
            parts.append("\n".join(["You have tried this task before and failed. What was learnt from it:", *listed]))
        reference = [as_reference("\n\n".join(parts), source="earlier work")] if parts else []
        return "\n\n".join([*reference, task.text])

    def _attempting(self, attempt: Attempt, reflections: Sequence[str]) -> Flow[Trajectory]:
        """Make an attempt, evaluate it, and reflect on it if it failed."""
        attempt.check()
        run = yield from self._in_world(attempt)
        success, reward, reasons = yield from evaluating(self.evaluate, attempt.task, run)
        trajectory = replace(run.trajectory, success=success, reasons=reasons)
        reflection = "" if success else (yield from self._reflecting(attempt, trajectory, reflections))
        about = {"attempt": attempt.number, "task_id": attempt.task.id, "reflection": reflection, "reward": reward}
        return replace(trajectory, metadata={**trajectory.metadata, **about, "usage": asdict(_cost(attempt))})

    def _in_world(self, attempt: Attempt) -> Flow[AttemptResult]:
        """Run the agent, in a world of its own if there is a function that makes one, which is closed afterwards."""
        if is_agent(self.agent):
            return (yield from self._running(attempt, self.agent))
        with no_fault_of_the_agent("No world could be made"):
            world = yield FunctionStep(self.agent, attempt.task.given)
        if not is_agent(world):
            remedy = "It has to return a compiled graph or an environment with reset and step."
            msg = f"The function passed as agent returned {type(world).__name__} for the task {attempt.task}. {remedy}"
            raise ConfigurationError(msg)
        try:
            run = yield from self._running(attempt, world)
        except Exception:
            yield from _closing(world)
            raise
        yield from _closing(world)
        return run

    def _running(self, attempt: Attempt, world: Any) -> Flow[AttemptResult]:
        if isinstance(world, Pregel):
            return (yield from run_graph(attempt, world, self.config, self.context))
        return (yield from run_in_environment(attempt, world, self.model))

    def _reflecting(self, attempt: Attempt, trajectory: Trajectory, earlier: Sequence[str]) -> Flow[str]:
        """Have a model reflect on a failed attempt; empty, and logged, if it gives no usable reply."""
        document = {
            "task": shortened(trajectory.task),
            "ended": shortened(trajectory.reasons),
            "focus_points": list(self.focus_points),
            "earlier_reflections": list(earlier),
            "record": excerpt(trajectory, max_characters=DEFAULT_MAX_CHARACTERS),
        }
        meter = attempt.meter(ATTEMPTS)
        asked = document_prompt(DEFAULT_FAILURE_PROMPT, document)
        config = inner_config("failure_reflection", {"trajectory": trajectory.id})
        reply = yield from filled_in(self.reflector, FailureForm, asked, config, meter)
        attempt.spent.add(meter)
        if reply is None:
            logger.warning("Attempt %s is kept without a reflection: %s", attempt.id, "; ".join(meter.problems))
            return ""
        return shortened(f"{reply.what_went_wrong}\n{reply.next_time}", LONGEST_REFLECTION)


def is_agent(candidate: object) -> bool:
    """Whether it is an agent or a world by itself: a compiled graph, or an environment with reset and step."""
    return isinstance(candidate, Pregel) or is_environment(candidate)


def _cost(attempt: Attempt) -> Cost:
    return Cost(attempt.spent.model_calls, attempt.spent.input_tokens, attempt.spent.output_tokens)


def _closing(world: Any) -> Flow[None]:
    """Close a world, if it has a `close` or `aclose`."""
    close = getattr(world, "aclose", None) or getattr(world, "close", None)
    if callable(close):
        try:
            yield FunctionStep(lambda _: close(), None)
        except Exception as error:  # noqa: BLE001 - the attempt is over, and what came of it is kept
            logger.warning("A world could not be closed: %s", described(error))


def evaluating(evaluate: Evaluate | None, task: NamedTask, run: AttemptResult) -> Flow[tuple[bool, float | None, str]]:
    """Judge an attempt, as a flow: whether it succeeded, its reward if it has one, and why.

    Without a function of the user's the environment decides. If the function raises, or returns neither a bool nor a
    number, the attempt is unfinished.
    """
    if run.problem:
        return False, run.reward, run.problem
    if evaluate is None:
        ended = "is over" if run.result["done"] else "was given up by the agent"
        reasons = f"The episode {'was cut off' if run.result['truncated'] else ended}; its reward is {run.reward}."
        return run.success, run.reward, reasons
    with no_fault_of_the_agent(f"evaluate raised for the task {task}"):
        verdict = yield FunctionStep(lambda given: evaluate(given, run.result), task.given)
    if isinstance(verdict, bool | np.bool_):
        return bool(verdict), run.reward, f"evaluate says that it {'succeeded' if verdict else 'failed'}."
    with suppress(OverflowError, TypeError):  # too large for a float, or complex
        if isinstance(verdict, int | float | np.number) and math.isfinite(reward := float(verdict)):
            return reward >= SUCCESS_REWARD, reward, f"Its reward is {reward:g}; {SUCCESS_REWARD:g} is a success."
    msg = f"evaluate returned {verdict!r:.80} for the task {task}. Return True, False or a reward (1 is a success)."
    raise UnfinishedError(msg)


DEFAULT_FAILURE_PROMPT = """\
An assistant has tried a task and failed. It will try the same task again from the beginning, and will read what you \
write before it does.

You get one JSON document: `task` is what was asked for, `ended` how the attempt ended, `record` what was said, which \
tools were called and what they brought back, `earlier_reflections` what was written after attempts before this one, \
`focus_points` what matters in this environment.

Say what went wrong: name the step at which the attempt left the right course and the observation that shows it. Then \
say what to do next time: concrete steps in the environment's own words, and what is still unknown and should be found \
out first. Go by what the record shows, make nothing up, and do not repeat earlier reflections: where one of them was \
followed and did not help, say so. A few sentences each."""

LONGEST_REFLECTION = 2_000
"""Characters of a reflection that are kept: about 500 tokens, in every later attempt's prompt."""


class FailureForm(BaseModel):
    """What a model is asked to fill in."""

    what_went_wrong: Words = Field(description="Where the attempt went wrong, and which observation shows it")
    next_time: Words = Field(description="What to do instead, in concrete steps")
