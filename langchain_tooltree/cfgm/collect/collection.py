"""Collecting experience: the course of one task, attempt after attempt."""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from pydantic import BaseModel, Field

from langchain_tooltree.cfgm.collect.attempt import (
    ENDED,
    SHELF,
    Attempt,
    AttemptResult,
    Journal,
    KeptRecords,
    Tally,
    UnfinishedError,
    cost_of,
    described,
    request_for,
)
from langchain_tooltree.cfgm.collect.environment import closing, is_environment, run_in_environment
from langchain_tooltree.cfgm.collect.graph import run_graph
from langchain_tooltree.cfgm.collect.report import Cost, NamedTask, TaskOutcome
from langchain_tooltree.errors import ConfigurationError, TrajectoryFormatError
from langchain_tooltree.experience.excerpts import DEFAULT_MAX_CHARACTERS, excerpt
from langchain_tooltree.experience.store import ExperienceStore
from langchain_tooltree.experience.trajectory import SUCCESS_REWARD, Trajectory, from_json, to_json
from langchain_tooltree.flows import Flow, FunctionStep, flow_of
from langchain_tooltree.models import ATTEMPTS, Meter, StructuredQuestion, document_prompt, inner_config
from langchain_tooltree.text import shortened

logger = logging.getLogger(__name__)


Evaluate = Callable[[Any, Any], bool | float | Awaitable[bool | float]]
"""A function of the user's, sync or async, from a task and a result to whether it succeeded, or a reward."""


def evaluating(evaluate: Evaluate | None, task: NamedTask, run: AttemptResult) -> Flow[tuple[bool, float | None, str]]:
    """Judge an attempt, as a flow: whether it succeeded, its reward if it has one, and why.

    Without a function of the user's the environment decides. If the function raises, or returns neither a bool nor a
    number, the attempt is unfinished.
    """
    if run.problem:
        return False, run.reward, run.problem
    if evaluate is None:
        ended = "The agent stopped before the end"
        if run.result["truncated"]:
            ended = "The environment cut the episode off before its end"
        elif run.result["done"]:
            ended = "The environment says that the task is over"
        rewards = f"; the rewards add up to {run.reward:g}" if run.reward is not None else ""
        return bool(run.success), run.reward, f"{ended}{rewards}."
    try:
        said = yield FunctionStep(lambda given: evaluate(given, run.result), task.given)
    except Exception as error:
        msg = f"evaluate raised {described(error)} for the task {task}"
        raise UnfinishedError(msg) from error
    if isinstance(said, bool | np.bool_):
        return bool(said), run.reward, f"evaluate says that it {'succeeded' if said else 'failed'}."
    with suppress(OverflowError, TypeError):  # too large for a float, or complex
        if isinstance(said, int | float | np.number) and math.isfinite(reward := float(said)):
            success = reward >= SUCCESS_REWARD
            return success, reward, f"Its reward is {reward:g}; {SUCCESS_REWARD:g} is a success."
    msg = f"evaluate returned {said!r:.80} for the task {task}. Return True, False or a reward (1 is a success)."
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

MAX_REFLECTION = 2_000
"""Characters of a reflection that are kept: about 500 tokens, in every later attempt's prompt."""


class FailureForm(BaseModel):
    """What a model is asked to fill in."""

    what_went_wrong: str = Field(description="Where the attempt went wrong, and which observation shows it")
    next_time: str = Field(description="What to do instead, in concrete steps")


def reflecting_on_failure(
    model: BaseChatModel, trajectory: Trajectory, *, earlier: Sequence[str], focus_points: Sequence[str], meter: Meter
) -> Flow[str]:
    """Have a model reflect on a failed attempt, as a flow (CFGM, Alg. 1); empty, and logged, if it cannot be asked."""
    document = {
        "task": shortened(trajectory.task),
        "ended": shortened(trajectory.reasons),
        "focus_points": list(focus_points),
        "earlier_reflections": list(earlier),
        "record": excerpt(trajectory, max_characters=DEFAULT_MAX_CHARACTERS),
    }
    question = StructuredQuestion(
        model=model,
        schema=FailureForm,
        prompt=document_prompt(DEFAULT_FAILURE_PROMPT, document),
        usable=lambda reply: bool(_text(reply)),
        config=inner_config("failure_reflection", {"trajectory": trajectory.id}),
    )
    replies = yield from question.ask(meter)
    written = next(filter(None, map(_text, reversed(replies))), "")
    if not written:
        problem = "; ".join(meter.problems) or "it said nothing"
        logger.warning("Attempt %s is kept without a reflection: %s", trajectory.id, problem)
    return shortened(written, MAX_REFLECTION)


def _text(reply: Mapping[str, Any]) -> str:
    """What a reply says."""
    known = [reply.get("what_went_wrong"), reply.get("next_time")]
    return "\n".join(filter(None, (text.strip() for text in known if isinstance(text, str))))


@dataclass(kw_only=True)
class Collection:
    """The arguments of a collection, and the course of its tasks."""

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
    journals: Mapping[str, KeptRecords]  # what was kept of attempts under way, by their ids
    tally: Tally = field(default_factory=Tally)
    _worlds: dict[int, Any] = field(default_factory=dict)

    def trying(self, task: NamedTask) -> Flow[TaskOutcome]:
        """Try a task until it succeeds or there are no retries left, as a flow (CFGM, Alg. 1)."""
        ids: list[str] = []
        reflections: list[str] = []
        last: Trajectory | None = None
        problem = ""
        for number in range(1, self.max_retries + 2):
            try:
                last = yield from self._attempt(task, number, reflections)
            except UnfinishedError as error:
                problem = str(error)
                logger.warning("Attempt %d at the task %s is unfinished: %s", number, task, problem)
                break
            ids.append(last.id)
            if last.success:
                break
            if reflection := str(last.metadata.get("reflection") or ""):
                reflections.append(reflection)
        with self.tally.lock:
            self.tally.done += 1
        success = None if problem else bool(last and last.success)
        return TaskOutcome(task.text, task.id, success, tuple(ids), last.reasons if last else "", problem)

    def closing(self) -> Flow[None]:
        """Close the worlds of attempts that were given up half-way, as a flow."""
        for world in [self._worlds.pop(key) for key in list(self._worlds)]:
            yield from closing(world)

    def _attempt(self, task: NamedTask, number: int, reflections: list[str]) -> Flow[Trajectory]:
        """One attempt: read if it is stored, made or gone on with otherwise."""
        key = task.attempt_id(number)
        journal = Journal(self.experience.collection(SHELF), key, self.journals.get(key))
        stored = yield from flow_of(self.experience.get)(key)
        made = stored is None
        if stored is None:
            request = request_for(task.text, self.focus_points, reflections, self.examples)
            attempt = Attempt(task, number, request, journal, self.max_steps, self.tally)
            attempt.check()
            stored = yield from self._making(attempt, reflections)
        if made or journal.holds:
            # Storing takes several writes: what a kill in between has left undone is done again.
            yield from flow_of(self.experience.add)(stored)
            yield from journal.clearing()
        with self.tally.lock:
            self.tally.attempts += 1
            self.tally.made += made
            self.tally.successes += stored.success is True
            self.tally.total += Cost.read(stored.metadata.get("usage"))
        return stored

    def _making(self, attempt: Attempt, reflections: list[str]) -> Flow[Trajectory]:
        """Make an attempt, and reflect on it if it failed."""
        journal = attempt.journal
        trajectory: Trajectory | None = None
        if ended := journal.recorded(ENDED):
            try:
                trajectory = from_json(ended)
            except TrajectoryFormatError as error:
                logger.warning("An attempt is made again, since what was kept of it cannot be read: %s", error)
        if trajectory is None:
            run: AttemptResult = yield from self._in_world(attempt)
            success, reward, reasons = yield from evaluating(self.evaluate, attempt.task, run)
            metadata = {"attempt": attempt.number, "task_id": attempt.task.id, "reflection": "", "reward": reward}
            trajectory = Trajectory.from_chat(
                run.messages,
                id=attempt.id,
                task=attempt.task.text,
                success=success,
                branches=run.branches,
                reasons=reasons,
                metadata={**metadata, "usage": asdict(attempt.usage)},
            )
            if journal.unused:
                logger.info("Attempt %s took another course: %d replies are dropped.", attempt.id, journal.unused)
            yield from journal.keeping(ENDED, to_json(trajectory))
        if trajectory.success:
            return trajectory
        attempt.check()
        meter = attempt.meter(allowance=ATTEMPTS)
        reflection = yield from reflecting_on_failure(
            self.reflector, trajectory, earlier=reflections, focus_points=self.focus_points, meter=meter
        )
        cost = cost_of(meter)
        attempt.spend(cost)
        usage = asdict(Cost.read(trajectory.metadata.get("usage")) + cost)
        return replace(trajectory, metadata={**trajectory.metadata, "reflection": reflection, "usage": usage})

    def _in_world(self, attempt: Attempt) -> Flow[AttemptResult]:
        """Run the agent, in a world of its own if there is a function that makes one."""
        if not is_maker(self.agent):
            return (yield from self._run(attempt, self.agent))
        try:
            world = yield FunctionStep(self.agent, attempt.task.given)
        except Exception as error:
            msg = f"No world could be made: {described(error)}"
            raise UnfinishedError(msg) from error
        if not is_agent(world):
            remedy = "It has to return a compiled graph or an environment with reset and step."
            msg = f"The function passed as agent returned {type(world).__name__} for the task {attempt.task}. {remedy}"
            raise ConfigurationError(msg)
        self._worlds[id(world)] = world
        try:
            run = yield from self._run(attempt, world)
        except Exception:
            yield from self._closing(world)
            raise
        yield from self._closing(world)
        return run

    def _run(self, attempt: Attempt, world: Any) -> Flow[AttemptResult]:
        if isinstance(world, Pregel):
            return (yield from run_graph(attempt, world, self.config, self.context))
        return (yield from run_in_environment(attempt, world, self.model))

    def _closing(self, world: Any) -> Flow[None]:
        if self._worlds.pop(id(world), None) is None:
            return
        try:
            yield from closing(world)
        except Exception as error:  # noqa: BLE001 - the attempt is over, and what came of it is kept
            logger.warning("A world could not be closed: %s", described(error))


def is_agent(candidate: object) -> bool:
    """Whether it is an agent or a world by itself: a compiled graph, or an environment with reset and step."""
    return isinstance(candidate, Pregel) or is_environment(candidate)


def is_maker(candidate: object) -> bool:
    """Whether it is a function that makes an agent or a world for each attempt."""
    return callable(candidate) and not is_agent(candidate)
