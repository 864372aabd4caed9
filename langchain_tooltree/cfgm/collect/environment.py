"""Environments that are reset and stepped: those of ALFWorld, ScienceWorld, gymnasium and your own."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage

from langchain_tooltree.cfgm.collect.attempt import (
    Attempt,
    AttemptResult,
    FailedError,
    UnfinishedError,
    is_outage,
    is_unacceptable,
    no_fault_of_the_agent,
)
from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.experience.trajectory import SUCCESS_REWARD, Trajectory
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.models import call_tools, inner_config


@dataclass(frozen=True, slots=True)
class StepReading:
    """What a step brought."""

    observation: str
    reward: float | None = None
    done: bool = False
    truncated: bool = False  # cut off, by a limit of the environment, before the end


def is_environment(candidate: object) -> bool:
    """Whether it is an environment: an object, not a class, that can be reset and stepped."""
    able = all(callable(getattr(candidate, name, None)) for name in ("reset", "step"))
    return able and not isinstance(candidate, type)


def resetting(world: Any, task: Any) -> Flow[str]:
    """Begin an episode, as a flow; returns the first observation.

    `reset(task)` returns an observation, or one and an info. It is called without the task where its first argument can
    be left out and is not called `task`: gymnasium's is a seed.
    """
    first = next(iter(inspect.signature(world.reset).parameters.values()), None)
    named = first is not None and first.kind not in (first.KEYWORD_ONLY, first.VAR_KEYWORD)
    takes_task = first is not None and named and (first.default is first.empty or first.name == "task")
    match (yield FunctionStep(world.reset if takes_task else lambda _: world.reset(), task)):
        case tuple((observation, Mapping())) | observation:
            return as_text(observation)


def read_step(returned: Any) -> StepReading:
    """Read what a `step` returned; a `ConfigurationError` for tuples of other lengths.

    That is `(observation, reward, done)`, with an info if you like; gymnasium's five values; or the observation alone.
    One-element lists, which environments for batches return, count as their element.
    """
    truncated = False
    match returned:
        case tuple((observation, reward, done)) | tuple((observation, reward, done, _)):
            pass
        case tuple((observation, reward, done, truncated, _)):
            pass
        case tuple():
            remedy = "Return (observation, reward, done), with an info if you like, or gymnasium's five values."
            msg = f"step returned {len(returned)} values: {returned!r:.120}. {remedy}"
            raise ConfigurationError(msg)
        case _:
            return StepReading(as_text(returned))
    ended, cut_off = bool(_single(done)), bool(_single(truncated))
    given = None if _single(reward) is None else float(_single(reward))
    return StepReading(as_text(observation), given, ended or cut_off, cut_off and not ended)


def as_text(observation: Any) -> str:
    """An observation as text: data as JSON, and anything else as it prints itself."""
    observation = _single(observation)
    if isinstance(observation, Mapping | list | tuple):
        return json.dumps(observation, ensure_ascii=False, default=str)
    return "" if observation is None else str(observation)


def _single(value: Any) -> Any:
    """The element of a list of one; anything else as it is."""
    return value[0] if isinstance(value, list | tuple) and len(value) == 1 else value


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
            "properties": {"action": {"type": "string", "description": "The action, in the environment's own words"}},
            "required": ["action"],
        },
    },
}

Review = Callable[[Sequence[BaseMessage], int], Flow[ToolMessage | None]]
"""Looks at a dialogue after each reply's actions, with the steps left; an observation to take the place of its own."""


def run_in_environment(
    attempt: Attempt, world: Any, model: BaseChatModel, review: Review | None = None
) -> Flow[AttemptResult]:
    """Reset a world and let a model try a task in it, as a flow: until the world ends it, or it makes no more call.

    An attempt is unfinished if the model or the world cannot be reached, or what `step` returned cannot be read.
    """
    messages: list[BaseMessage] = []
    rewards: list[float] = []
    latest, steps, problem = StepReading(""), 0, ""
    with no_fault_of_the_agent("The environment could not be reset"):
        observation = yield from resetting(world, attempt.task.given)
    messages.append(HumanMessage(f"{attempt.request}\n\n{observation}".strip()))
    try:
        while not latest.done:
            messages.append(reply := (yield from _reply(attempt, model, messages)))
            if not reply.tool_calls:
                break
            for call in reply.tool_calls:
                steps += 1
                if steps > attempt.max_steps:
                    msg = f"The limit of {attempt.max_steps} steps was reached."
                    raise FailedError(msg)  # noqa: TRY301 - as the model and the world do
                latest, message = yield from _act(world, call)
                messages.append(message)
                rewards += [] if latest.reward is None else [latest.reward]
                if latest.done:
                    break
            if review is not None and (seen := (yield from review(messages, attempt.max_steps - steps))):
                ids = [getattr(each, "tool_call_id", None) for each in messages]
                messages[max(at for at, each in enumerate(ids) if each == seen.tool_call_id)] = seen
    except FailedError as error:
        problem = str(error)
    reward = sum(rewards) if rewards else None
    return AttemptResult(
        Trajectory.from_messages(messages, id=attempt.id, task=attempt.task.text),
        {"messages": messages, "reward": reward, "done": latest.done, "truncated": latest.truncated},
        problem,
        latest.done and not latest.truncated and (reward is None or reward >= SUCCESS_REWARD),
        reward,
    )


def _reply(attempt: Attempt, model: BaseChatModel, messages: Sequence[BaseMessage]) -> Flow[AIMessage]:
    """What the model says next."""
    attempt.check()
    meter = attempt.meter(1)
    config = inner_config("collect", {"trajectory": attempt.id})
    prompt = [SystemMessage(DEFAULT_ACT_PROMPT), *messages]
    try:
        with no_fault_of_the_agent("The model could not be asked"):
            reply = yield from call_tools(model, [ACT_TOOL], prompt, meter, config)
    except UnfinishedError as error:
        if len(messages) > 1 and is_unacceptable(error.__cause__):  # it has grown in the attempt, as into one too long
            raise FailedError(str(error)) from error
        raise
    finally:
        attempt.spent.add(meter)
    return reply.model_copy(update={"invalid_tool_calls": []})


def _act(world: Any, call: ToolCall) -> Flow[tuple[StepReading, ToolMessage]]:
    """Carry out a call."""
    action = str(call["args"].get("action") or "").strip() if call["name"] == ACT else ""
    try:
        reading = StepReading(MISCALLED) if not action else read_step((yield FunctionStep(world.step, action)))
    except ConfigurationError as error:
        raise UnfinishedError(str(error)) from error
    except Exception as error:
        msg = f"The environment raised {described(error)} on the action {action!r:.120}."
        raise (UnfinishedError if is_outage(error) else FailedError)(msg) from error
    status = "success" if action else "error"
    return reading, ToolMessage(reading.observation, tool_call_id=call["id"], name=call["name"], status=status)
