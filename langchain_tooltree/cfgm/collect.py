"""Exploring (CFGM, Alg. 1): training tasks are tried with focus points in mind.

An attempt is done when its trajectory is in the store: a collection makes those that are missing, and no other.
"""

import json
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.pregel import Pregel
from pydantic import BaseModel, Field

from langchain_tooltree._langgraph import interrupts_in, without_graph
from langchain_tooltree.errors import ConfigurationError, ToolTreeError, described
from langchain_tooltree.experience.recorder import MESSAGES_KEY, TrajectoryRecorder
from langchain_tooltree.experience.run_identity import collecting
from langchain_tooltree.experience.store import ExperienceStore
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.experience.trajectory_json import SUCCESS_REWARD
from langchain_tooltree.experience.transcript import MAX_RUN_CHARACTERS, excerpt
from langchain_tooltree.flows import CallStep, Flow, FunctionStep, GatherStep
from langchain_tooltree.messages.reference import mark_as_reference
from langchain_tooltree.models import (
    INNER_RUN_TAG,
    REPLY_ATTEMPTS,
    Meter,
    MeteringHandler,
    Words,
    call_tools,
    document_prompt,
    filled_in,
    inner_config,
)
from langchain_tooltree.text import cut, digest, shortened

logger = logging.getLogger(__name__)


# --- tasks, and what became of them ---


@dataclass(frozen=True, slots=True)
class Task:
    """A training task.

    Attributes:
        text: What is asked for, as the agent gets to read it.
        id: Tells it from other tasks of the same text; may stay empty where the text does.
        data: Whatever the user's functions need to set up the world and to evaluate the result. It is not stored.
    """

    text: str
    id: str = ""
    data: Any = None

    def attempt_id(self, number: int) -> str:
        """The id of the trajectory of its `number`-th attempt, from 1: the same in every collection."""
        return f"collected-{digest(json.dumps([self.id, self.text]), 24)}-{number}"

    def __str__(self) -> str:
        return f"{self.id}: {cut(self.text, 60)}".removeprefix(": ")


def task_of(original: str | Task) -> Task:
    """A task as a record; functions of the user's are passed the original."""
    return original if isinstance(original, Task) else Task(original)


def checked_tasks(tasks: Iterable[str | Task]) -> list[str | Task]:
    """Tasks in a list; a `ConfigurationError` if there are none, one says nothing, or two are the same."""
    ids: set[str] = set()
    listed: list[str | Task] = [tasks] if isinstance(tasks, str | Task) else list(tasks)
    for original in listed:
        task = task_of(original)
        if not isinstance(task.text, str) or not task.text.strip():
            msg = f"A task must be a text that says something, or a Task with one; got {original!r:.80}."
            raise ConfigurationError(msg)
        if task.attempt_id(1) in ids:
            msg = f"Two tasks are the same: {task}. Tell tasks with the same text apart: Task(text, id=...)."
            raise ConfigurationError(msg)
        ids.add(task.attempt_id(1))
    if not listed:
        msg = "tasks is empty: there is nothing to collect experience from. Pass texts or Task records."
        raise ConfigurationError(msg)
    return listed


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What became of a task."""

    task: Task
    success: (
        bool | None
    )  # `None` while it can still be tried: something went wrong that is no fault of the agent
    trajectories: tuple[str, ...]  # ids of its attempts in the store, in order
    reasons: str  # why the last attempt counts as what it does
    problem: (
        str  # why it is unfinished; the same collection, run again, goes on with it
    )


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """What a collection came to.

    Attributes:
        outcomes: One for each task, in the order they were passed.
        cost: Model calls and tokens of this run; those of each attempt stand in its metadata, under `usage`.
    """

    outcomes: tuple[TaskOutcome, ...]
    cost: Meter

    @property
    def successes(self) -> int:
        """How many tasks succeeded."""
        return sum(outcome.success is True for outcome in self.outcomes)

    @property
    def unfinished(self) -> tuple[TaskOutcome, ...]:
        """The tasks with which the same collection, run again, goes on."""
        return tuple(outcome for outcome in self.outcomes if outcome.success is None)

    def __str__(self) -> str:
        unfinished, cost = self.unfinished, self.cost
        failed = len(self.outcomes) - self.successes - len(unfinished)
        attempts = sum(len(outcome.trajectories) for outcome in self.outcomes)
        spent = f"{cost.model_calls:,} model calls, {cost.input_tokens:,} tokens in, {cost.output_tokens:,} out"
        lines = [
            f"{len(self.outcomes)} tasks: {self.successes} succeeded, {failed} failed, {len(unfinished)} unfinished",
            f"{attempts} attempts are stored. This run took {spent}.",
            *(f"unfinished: {each.task}: {each.problem:.160}" for each in unfinished),
        ]
        return "\n".join(lines)


# --- attempts ---

OUTAGES = (
    ConnectionError,
    TimeoutError,
)  # what is raised where a service cannot be reached


class UnfinishedError(ToolTreeError, RuntimeError):
    """An attempt cannot be evaluated, through no fault of the agent: it is not stored, and is made again later."""


class AttemptResult(NamedTuple):
    """What an attempt came to, before it is evaluated."""

    trajectory: Trajectory
    result: Any  # what the user's `evaluate` is passed
    problem: str  # why it failed before it could be evaluated
    reward: float | None = None  # the sum of the environment's rewards


@dataclass
class Attempt:
    """One attempt at a task: the `number`-th, from 1, of at most `max_steps` tool calls or environment steps."""

    original: str | Task
    number: int
    request: str  # the task, and before it what may help
    max_steps: int
    stopped: threading.Event = field(
        default_factory=threading.Event
    )  # once it is set, nothing new begins
    spent: Meter = field(default_factory=lambda: Meter(0))  # it only counts

    @property
    def task(self) -> Task:
        """The task as a record."""
        return task_of(self.original)

    @property
    def id(self) -> str:
        """The id of the trajectory that it becomes."""
        return self.task.attempt_id(self.number)

    def check(self) -> None:
        """Raise `UnfinishedError` once the collection is being stopped."""
        if self.stopped.is_set():
            msg = "The collection was stopped."
            raise UnfinishedError(msg)


# --- in an environment ---


class StepResult(NamedTuple):
    """What a step brought."""

    observation: str
    reward: float | None = None
    done: bool = False
    truncated: bool = False  # cut off, by a limit of the environment, before the end


def is_environment(candidate: object) -> bool:
    """Whether it is an environment: an object, not a class, that can be reset and stepped."""
    reset, step = getattr(candidate, "reset", None), getattr(candidate, "step", None)
    return callable(reset) and callable(step) and not isinstance(candidate, type)


def is_agent(candidate: object) -> bool:
    """Whether it is an agent or a world by itself: a compiled graph, or an environment with reset and step."""
    return isinstance(candidate, Pregel) or is_environment(candidate)


def read_step(returned: Any) -> StepResult:
    """Read what a `step` returned: `(observation, reward, done)`, with an info or not, or gymnasium's five values.

    What is no tuple is an observation alone; other tuples raise `UnfinishedError`.
    """
    if not isinstance(returned, tuple):
        return StepResult(as_text(returned))
    if len(returned) not in (3, 4, 5):
        msg = f"step has to return (observation, reward, done) or gymnasium's five values, got {returned!r:.120}."
        raise UnfinishedError(msg)
    observation, reward, done, *others = returned
    truncated = len(others) == 2 and bool(others[0])  # noqa: PLR2004 - and an info
    amount = None if reward is None else float(reward)
    return StepResult(
        as_text(observation), amount, bool(done) or truncated, truncated and not done
    )


def as_text(observation: Any) -> str:
    """An observation as text: data as JSON, and anything else as it prints itself."""
    if isinstance(observation, Mapping | list | tuple):
        return json.dumps(observation, ensure_ascii=False, default=str)
    return "" if observation is None else str(observation)


DEFAULT_ACT_PROMPT = """\
You act in an environment to carry out the task that you are given. Each time, think briefly about what the \
observations so far tell you, then call the tool `act` with exactly one action in the environment's own words. You see \
what came of it before you act again. What stands between reference_material tags is advice from earlier work: use it \
where it fits. Stop calling the tool only when the task is done."""

MISCALLED = 'Nothing was done: call `act` with the action as a text, as in act(action="look around").'
ACT = "act"

ACT_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": ACT,
        "description": "Take one action in the environment and see what comes of it.",
        "parameters": {
            "type": "object",
            "properties": {
                "action": {
                    "type": "string",
                    "description": "The action, in the environment's own words",
                }
            },
            "required": ["action"],
        },
    },
}

ReviewStep = Callable[[Sequence[BaseMessage]], Flow[ToolMessage | None]]
"""Looks at a dialogue after each reply's actions; an observation to take the place of its own."""


async def run_in_environment(
    attempt: Attempt, world: Any, model: BaseChatModel, review: ReviewStep | None = None
) -> AttemptResult:
    """Reset a world and let a model try a task in it, as a flow: until the world ends it, or it makes no more call.

    Whatever else is raised is no fault of the model: it, or the world, cannot be reached, or what `step` returned
    cannot be read.
    """
    messages: list[BaseMessage] = []
    rewards: list[float] = []
    step, steps, problem = StepResult(""), 0, ""
    match await FunctionStep(world.reset, attempt.original):
        case tuple((observation, Mapping())) | observation:
            messages.append(
                HumanMessage(f"{attempt.request}\n\n{as_text(observation)}".strip())
            )
    while not (step.done or problem):
        messages.append(reply := (await _reply(attempt, model, messages)))
        if not reply.tool_calls:
            break
        for call in reply.tool_calls:
            steps += 1
            if steps > attempt.max_steps:
                problem = f"The limit of {attempt.max_steps} steps was reached."
                break
            action = (
                str(call["args"].get("action") or "").strip()
                if call["name"] == ACT
                else ""
            )
            try:
                step = (
                    read_step(await FunctionStep(world.step, action))
                    if action
                    else StepResult(MISCALLED)
                )
            except (*OUTAGES, UnfinishedError):
                raise
            except Exception as error:  # noqa: BLE001 - the agent has brought it about, whatever it is
                problem = f"The environment raised {described(error)} on the action {action!r:.120}."
                break
            status = "success" if action else "error"
            messages.append(
                ToolMessage(
                    step.observation,
                    tool_call_id=call["id"],
                    name=call["name"],
                    status=status,
                )
            )
            rewards += [] if step.reward is None else [step.reward]
            if step.done:
                break
        if not problem and review is not None and (advised := (await review(messages))):
            ids = [getattr(each, "tool_call_id", None) for each in messages]
            messages[
                max(at for at, each in enumerate(ids) if each == advised.tool_call_id)
            ] = advised
    reward = (
        math.fsum(rewards) if rewards else None
    )  # as steps of 0.08 and 0.17 add up to 1, a success
    trajectory = Trajectory.from_messages(
        messages, id=attempt.id, task=attempt.task.text
    )
    result = {
        "messages": messages,
        "reward": reward,
        "done": step.done,
        "truncated": step.truncated,
    }
    return AttemptResult(trajectory, result, problem, reward)


async def _reply(
    attempt: Attempt, model: BaseChatModel, messages: Sequence[BaseMessage]
) -> AIMessage:
    """What the model says next."""
    attempt.check()
    meter = Meter(1)
    prompt = [SystemMessage(DEFAULT_ACT_PROMPT), *messages]
    config = inner_config("collect", {"trajectory": attempt.id})
    try:
        reply = await call_tools(model, [ACT_TOOL], prompt, meter, config)
    finally:
        attempt.spent.add(meter)
    return reply.model_copy(update={"invalid_tool_calls": []})


# --- by a graph ---


class _Halt(BaseException):
    """Ends the run of a graph. No `except Exception` of an agent, a tool or a retry policy takes it for its own."""


class _Watch(MeteringHandler):
    """Counts what a graph spends, and ends its run at the limit of tool calls; a search of this package makes none."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt.spent)
        self.errors: list[BaseException] = []  # what models raised
        self.calls = 0
        self._attempt = attempt

    def on_tool_start(self, *_: Any, tags: list[str] | None = None, **__: Any) -> None:
        """Let no tool begin once the run is to end."""
        self.calls += INNER_RUN_TAG not in (tags or ())
        if self.calls > self._attempt.max_steps or self._attempt.stopped.is_set():
            raise _Halt

    def on_llm_error(self, error: BaseException, **_: Any) -> None:
        """Note what a model raised."""
        super().on_llm_error(error)
        self.errors.append(error)


async def run_graph(
    attempt: Attempt,
    graph: Pregel[Any, Any, Any, Any],
    config: RunnableConfig | None,
    context: Any,
) -> AttemptResult:
    """Try a task with an agent whose state has `messages`, as a flow.

    Nothing is kept before it ends: its tools may have changed a world that is gone, so going on from a checkpoint would
    go on in a world in which nothing has happened.
    """
    runs: list[Trajectory] = []
    watch = _Watch(attempt)
    if (
        graph.checkpointer
    ):  # a graph that has none may hold things in its state that no checkpoint takes
        graph = graph.copy(update={"checkpointer": InMemorySaver()})
    state = {MESSAGES_KEY: [HumanMessage(attempt.request)]}
    # Enough for an agent whose nodes all run once for each tool call; what counts is the limit of tool calls.
    limit = (attempt.max_steps + 1) * (len(graph.nodes) + 1)
    configured: RunnableConfig = {
        "recursion_limit": max(limit, (graph.config or {}).get("recursion_limit", 0)),
        **merge_configs(
            config, {"callbacks": [watch, TrajectoryRecorder(runs.append)]}
        ),
        # Another thread each time: what tools keep by thread belongs to the world, which has to be fresh.
        # The memory that is being filled may be the agent's own as well, which would learn each attempt a second time.
        "configurable": {
            **without_graph((config or {}).get("configurable") or {}),
            "thread_id": f"{attempt.id}-{uuid4().hex}",
            **collecting(),
        },
    }

    def run() -> Any:
        with suppress(_Halt):
            return graph.invoke(state, configured, context=context)

    async def arun() -> Any:
        with suppress(_Halt):
            return await graph.ainvoke(state, configured, context=context)

    raised, end = None, None
    try:
        end = await CallStep(run, arun)
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - what it means is decided below
        raised = error
    attempt.check()
    problem = _problem(raised, end, watch, attempt)
    messages = (
        end.get(MESSAGES_KEY)
        if isinstance(end, Mapping)
        else getattr(end, MESSAGES_KEY, None)
    )
    if not runs or not (problem or messages):
        msg = f"The state of the agent has no {MESSAGES_KEY!r}; collect needs an agent that keeps its messages there."
        raise UnfinishedError(msg)
    return AttemptResult(
        replace(runs[-1], id=attempt.id, task=attempt.task.text), end, problem
    )


def _problem(
    error: Exception | None, state: Any, watch: _Watch, attempt: Attempt
) -> str:
    """Why an agent has failed before it could be evaluated; empty if it has not. It is raised if it is not to blame."""
    if watch.calls > attempt.max_steps:
        return f"The limit of {attempt.max_steps} tool calls was reached."
    if interrupts := interrupts_in(state):
        questions = "; ".join(f"{interrupt.value!r:.200}" for interrupt in interrupts)
        return f"The agent was interrupted, and nobody is there to answer: {questions}"
    if error is None or isinstance(error, GraphRecursionError):
        return str(error or "")
    # Tools and middleware without a sync half raise the one, nodes and runnables of LangGraph and LangChain the other.
    if (
        isinstance(error, NotImplementedError)
        or "synchronous function" in str(error)
        or "coroutine" in str(error)
    ):
        msg = f"The agent is async in part and cannot be run by collect; use acollect. ({described(error)})"
        raise ConfigurationError(msg) from error
    if isinstance(error, OUTAGES) or any(
        error is each for each in watch.errors
    ):  # those of models
        msg = f"The agent could not be run: {described(error)}"
        raise UnfinishedError(msg) from error
    return f"The agent raised {described(error)}"


# --- the collection ---

Evaluate = Callable[[Any, Any], bool | float | Awaitable[bool | float]]
"""A function of the user's, sync or async, from a task and a result to whether it succeeded, or a reward."""


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
    _stopped: threading.Event = field(default_factory=threading.Event)
    _spent: list[Meter] = field(
        default_factory=list
    )  # of each attempt, also of one that was not finished

    async def collecting(
        self, tasks: Sequence[str | Task], max_concurrency: int
    ) -> CollectionReport:
        """Try all tasks, some of them at once, as a flow."""
        outcomes: dict[int, TaskOutcome] = {}
        waiting = iter(enumerate(tasks))  # shared: who is free takes the next one
        # An environment is one world, in which one attempt is made at a time.
        workers = 1 if is_environment(self.agent) else min(max_concurrency, len(tasks))
        try:
            await GatherStep([self._working(waiting, outcomes) for _ in range(workers)])
        finally:
            self._stopped.set()  # after Ctrl-C other threads still run
        cost = Meter(0)
        for each in self._spent:
            cost.add(each)
        return CollectionReport(
            tuple(outcomes[place] for place in range(len(tasks))), cost
        )

    async def _working(
        self,
        waiting: Iterator[tuple[int, str | Task]],
        outcomes: dict[int, TaskOutcome],
    ) -> None:
        """Try one task after the other, beside others who do so; after an error nobody begins anything new."""
        try:
            for place, original in waiting:
                outcomes[place] = await self._trying(original)
        except BaseException:
            self._stopped.set()
            raise

    async def _trying(self, original: str | Task) -> TaskOutcome:
        """Try a task until it succeeds or there are no retries left."""
        task = task_of(original)
        attempts: list[Trajectory] = []
        problem = ""
        for number in range(1, self.max_retries + 2):
            trajectory = await self.experience.get_flow(task.attempt_id(number))
            if trajectory is None:
                reflections = [
                    text
                    for each in attempts
                    if (text := str(each.metadata.get("reflection") or ""))
                ]
                attempt = Attempt(
                    original,
                    number,
                    self._request(task, reflections),
                    self.max_steps,
                    self._stopped,
                )
                try:
                    trajectory = await self._attempting(attempt, reflections)
                except ConfigurationError:
                    raise
                except Exception as error:
                    problem = described(error)
                    logger.warning(
                        "Attempt %d at the task %s is unfinished.",
                        number,
                        task,
                        exc_info=True,
                    )
                    break
                finally:
                    self._spent.append(attempt.spent)
                await self.experience.add_flow(trajectory)
            attempts.append(trajectory)
            if trajectory.success:
                break
        success = None if problem else bool(attempts[-1].success)
        reasons = attempts[-1].reasons if attempts else ""
        return TaskOutcome(
            task, success, tuple(each.id for each in attempts), reasons, problem
        )

    def _request(self, task: Task, reflections: Sequence[str]) -> str:
        """What an agent is asked: the task, and in front of it what may help, marked as reference material."""
        parts = []
        if self.examples:
            parts.append(
                "\n\n".join(
                    ["Examples of tasks done in this environment:", *self.examples]
                )
            )
        if self.focus_points:
            parts.append(
                "\n- ".join(
                    ["Points that matter in this environment:", *self.focus_points]
                )
            )
        if reflections:
            listed = [
                f"{number}. {reflection}"
                for number, reflection in enumerate(reflections, 1)
            ]
            parts.append(
                "\n".join(
                    [
                        "You have tried this task before and failed. What was learnt from it:",
                        *listed,
                    ]
                )
            )
        reference = (
            [mark_as_reference("\n\n".join(parts), source="earlier work")]
            if parts
            else []
        )
        return "\n\n".join([*reference, task.text])

    async def _attempting(
        self, attempt: Attempt, reflections: Sequence[str]
    ) -> Trajectory:
        """Make an attempt, evaluate it, and reflect on it if it failed."""
        attempt.check()
        run = await self._in_world(attempt)
        success, reward, reasons = await evaluating(
            self.evaluate, attempt.original, run
        )
        trajectory = replace(run.trajectory, success=success, reasons=reasons)
        reflection = (
            ""
            if success
            else (await self._reflecting(attempt, trajectory, reflections))
        )
        usage = {
            name: getattr(attempt.spent, name)
            for name in ("model_calls", "input_tokens", "output_tokens")
        }
        about = {
            "attempt": attempt.number,
            "task_id": attempt.task.id,
            "reflection": reflection,
            "reward": reward,
        }
        return replace(
            trajectory, metadata={**trajectory.metadata, **about, "usage": usage}
        )

    async def _in_world(self, attempt: Attempt) -> AttemptResult:
        """Run the agent, in a world of its own if there is a function that makes one, which is closed afterwards."""
        if is_agent(self.agent):
            return await self._running(attempt, self.agent)
        world = await FunctionStep(self.agent, attempt.original)
        if not is_agent(world):
            msg = f"agent returned {type(world).__name__}, no graph or environment, for the task {attempt.task}."
            raise ConfigurationError(msg)
        try:
            run = await self._running(attempt, world)
        except Exception:
            await _closing(world)
            raise
        await _closing(world)
        return run

    async def _running(self, attempt: Attempt, world: Any) -> AttemptResult:
        if isinstance(world, Pregel):
            return await run_graph(attempt, world, self.config, self.context)
        return await run_in_environment(attempt, world, self.model)

    async def _reflecting(
        self, attempt: Attempt, trajectory: Trajectory, earlier: Sequence[str]
    ) -> str:
        """Have a model reflect on a failed attempt; empty, and logged, if it gives no usable reply."""
        document = {
            "task": shortened(trajectory.task),
            "ended": shortened(trajectory.reasons),
            "focus_points": list(self.focus_points),
            "earlier_reflections": list(earlier),
            "record": excerpt(trajectory, max_characters=MAX_RUN_CHARACTERS),
        }
        meter = Meter(REPLY_ATTEMPTS)
        prompt = document_prompt(DEFAULT_FAILURE_PROMPT, document)
        config = inner_config("failure_reflection", {"trajectory": trajectory.id})
        reply = await filled_in(self.reflector, FailureForm, prompt, config, meter)
        attempt.spent.add(meter)
        if reply is None:
            logger.warning(
                "Attempt %s is kept without a reflection: %s",
                attempt.id,
                "; ".join(meter.problems),
            )
            return ""
        return shortened(
            f"{reply.what_went_wrong}\n{reply.next_time}", LONGEST_REFLECTION
        )


async def _closing(world: Any) -> None:
    """Close a world, if it has a `close` or `aclose`."""
    close = getattr(world, "aclose", None) or getattr(world, "close", None)
    if callable(close):
        try:
            await FunctionStep(lambda _: close(), None)
        except Exception as error:  # noqa: BLE001 - the attempt is over, and what came of it is kept
            logger.warning("A world could not be closed: %s", described(error))


async def evaluating(
    evaluate: Evaluate | None, original: str | Task, run: AttemptResult
) -> tuple[bool, float | None, str]:
    """Judge an attempt, as a flow: whether it succeeded, its reward if it has one, and why.

    Without a function of the user's the environment decides. Raises `UnfinishedError` if the function returns neither a
    bool nor a number.
    """
    if run.problem:
        return False, run.reward, run.problem
    if evaluate is None:
        done, truncated = run.result["done"], run.result["truncated"]
        ended = (
            "was cut off"
            if truncated
            else "is over"
            if done
            else "was given up by the agent"
        )
        success = (
            done
            and not truncated
            and (run.reward is None or run.reward >= SUCCESS_REWARD)
        )
        return success, run.reward, f"The episode {ended}; its reward is {run.reward}."
    verdict = await FunctionStep(lambda task: evaluate(task, run.result), original)
    if isinstance(verdict, bool):
        return (
            verdict,
            run.reward,
            f"evaluate says that it {'succeeded' if verdict else 'failed'}.",
        )
    with suppress(OverflowError, TypeError, ValueError):
        if math.isfinite(reward := float(verdict)):
            return (
                reward >= SUCCESS_REWARD,
                reward,
                f"Its reward is {reward:g}; {SUCCESS_REWARD:g} is a success.",
            )
    msg = f"evaluate returned {verdict!r:.80} for the task {task_of(original)}, which is no bool or reward."
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

LONGEST_REFLECTION = 2_000  # characters of a reflection: about 500 tokens, in every later attempt's prompt


class FailureForm(BaseModel):
    """What a model is asked to fill in."""

    what_went_wrong: Words = Field(
        description="Where the attempt went wrong, and which observation shows it"
    )
    next_time: Words = Field(description="What to do instead, in concrete steps")
