"""Environments that are reset and stepped, read tolerantly: those of ALFWorld, ScienceWorld, gymnasium and your own."""

import inspect
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tooltree.cfgm.collect.attempt import (
    Attempt,
    AttemptResult,
    FailedError,
    UnfinishedError,
    cost_of,
    described,
    is_outage,
    is_unacceptable,
)
from langchain_tooltree.cfgm.collect.report import Cost
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.records import EXTRAS, ChatMessage, own_messages
from langchain_tooltree.experience.trajectory import SUCCESS_REWARD, to_chat, to_message
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.models import call_tools, inner_config
from langchain_tooltree.text import digest

STEP_LENGTHS = (3, 4, 5)  # values that `step` returns: old gym's without or with an info, and gymnasium's
OBSERVATION_NAMES = ("observation", "obs")


class UnreadableStepError(ConfigurationError):
    """An environment has returned something that cannot be read as a step; the message says what it should return."""


@dataclass(frozen=True, slots=True)
class StepReading:
    """What a step brought."""

    observation: str
    reward: float | None = None
    done: bool = False
    truncated: bool = False  # cut off, by a limit of the environment, before the end


def resetting(world: Any, task: Any) -> Flow[str]:
    """Begin an episode, as a flow; returns the first observation.

    `reset(task)` returns an observation, or one and an info. A `reset` without an argument is called without, as is one
    whose first argument can be left out and is not called `task`.
    """
    reset = world.reset
    match (yield FunctionStep(reset if _takes_task(reset) else lambda _: reset(), task)):
        case tuple((observation, Mapping())) | observation:
            return as_text(observation)


def stepping(world: Any, action: str) -> Flow[StepReading]:
    """Take an action, as a flow; `read_step` says what `step(action)` may return."""
    return read_step((yield FunctionStep(world.step, action)))


def is_environment(candidate: object) -> bool:
    """Whether it is an environment: an object, not a class, that can be reset and stepped."""
    able = all(callable(getattr(candidate, name, None)) for name in ("reset", "step"))
    return able and not isinstance(candidate, type)


def closing(world: object) -> Flow[None]:
    """Close a world, as a flow, if it has a `close` or `aclose`."""
    close = getattr(world, "aclose", None) or getattr(world, "close", None)
    if callable(close):
        yield FunctionStep(lambda _: close(), None)


def read_step(brought: Any) -> StepReading:
    """Read what a `step` returned; an `UnreadableStepError` for tuples of other lengths, and several episodes at once.

    Three, four (with an info) or five values (gymnasium), as a tuple or as a list of which the third is a bool; a
    mapping or an object with `observation` or `obs`, and perhaps `reward` and `done`, or `terminated` and `truncated`;
    or the observation alone. One-element lists, which environments for batches return, count as their element.
    """
    if isinstance(brought, list) and len(brought) in STEP_LENGTHS and isinstance(brought[2], bool | np.bool_):
        brought = tuple(brought)  # from a server that speaks JSON; other lists are observations
    if isinstance(brought, tuple):
        if len(brought) not in STEP_LENGTHS:
            remedy = "Return (observation, reward, done), with an info if you like, or gymnasium's five values."
            msg = f"step returned {len(brought)} values: {brought!r:.120}. {remedy}"
            raise UnreadableStepError(msg)
        return _observed(*(brought[:4] if len(brought) == max(STEP_LENGTHS) else brought[:3]))
    is_mapping = isinstance(brought, Mapping)
    names = (*OBSERVATION_NAMES, "reward", "done", "terminated", "truncated")
    held = dict(brought) if is_mapping else {name: getattr(brought, name) for name in names if hasattr(brought, name)}
    seen = next((name for name in OBSERVATION_NAMES if name in held), None)
    if seen is None or not (is_mapping or held.keys() & {"done", "terminated"}):
        return StepReading(as_text(brought))
    truncated = _truth(held.get("truncated"))
    terminated = held.get("terminated", _truth(held.get("done")) and not truncated)
    return _observed(held[seen], held.get("reward"), terminated, truncated)


def _observed(observation: Any, reward: Any, done: Any, truncated: Any = None) -> StepReading:
    ended, cut_off = _truth(done), _truth(truncated)
    return StepReading(as_text(observation), _reward(reward), done=ended or cut_off, truncated=cut_off and not ended)


def as_text(observation: Any) -> str:
    """An observation as text: data as JSON, and anything else as it prints itself."""
    observation = _single(observation)
    if observation is None:
        return ""
    if isinstance(observation, Mapping | list | tuple):
        return json.dumps(observation, ensure_ascii=False, default=str)
    return str(observation)


def _takes_task(function: Any) -> bool:
    """Whether a `reset` takes the task; the first argument of gymnasium's is a seed, and can be left out."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some built-in functions have no signature
        return True
    first = next(iter(parameters), None)
    if first is None or first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD):
        return False
    return first.default is first.empty or first.name == "task"


def _single(value: Any) -> Any:
    """The element of a list of one; anything else as it is."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    alone = isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) == 1
    return value[0] if alone else value


def _reward(value: Any) -> float | None:
    try:
        reward = float(_single(value))
    except (OverflowError, TypeError, ValueError):
        return None
    return None if math.isnan(reward) else reward


def _truth(value: Any) -> bool:
    alone = _single(value)
    if isinstance(alone, Sequence):
        remedy = "Return one bool; an environment for several episodes at once must be made with a batch of one."
        msg = f"step says {value!r:.80} where it says whether the episode is over. {remedy}"
        raise UnreadableStepError(msg)
    return bool(alone)


DEFAULT_ACT_PROMPT = """\
You act in an environment to carry out the task that you are given. Each time, think briefly about what the \
observations so far tell you, then call the tool `act` with exactly one action in the environment's own words. You see \
what came of it before you act again. What stands between reference_material tags is advice from earlier work: use it \
where it fits. Stop calling the tool only when the task is done."""

NUDGE = """\
That was no action. Call the tool `act` with the next action, or write it on a line of its own: "Action: ...". If the \
task is done, say so again."""

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

_ACTION = re.compile(r"^[ \t>*_#`-]*action[ \t*_`]*:[\s*_`]*(\S.*)$", re.IGNORECASE | re.MULTILINE)


def said(message: BaseMessage) -> dict[str, Any]:
    """A message in the OpenAI chat format, without what only LangChain knows, such as its id."""
    return _plain(to_chat(message))


def _plain(message: ChatMessage) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != EXTRAS}


def place(before: str, message: BaseMessage) -> str:
    """A short name for a point in a dialogue: the same whenever the same was said and called, whatever the ids."""
    return digest([before, said(message)])


Review = Callable[[Sequence[BaseMessage], int], Flow[ToolMessage | None]]
"""Looks at a dialogue after each reply's actions, with the steps left; an observation to take the place of its own."""


def run_in_environment(
    attempt: Attempt, world: Any, model: BaseChatModel, review: Review | None = None
) -> Flow[AttemptResult]:
    """Reset a world and let a model try a task in it, as a flow.

    An attempt is unfinished if the model or the world cannot be reached, or what `step` returned cannot be read.
    """
    episode = _Episode(attempt, world, model, review)
    problem = ""
    try:
        yield from episode.playing()
    except FailedError as error:
        problem = str(error)
    reward = sum(episode.rewards) if episode.rewards else None
    ended = {"reward": reward, "done": episode.done, "truncated": episode.truncated}
    return AttemptResult(
        # Without advice first: what tells it from the observation is among what only LangChain knows.
        messages=tuple(map(_plain, own_messages(map(to_chat, episode.messages)))),
        result={"messages": episode.messages, **ended},
        problem=problem,
        success=episode.done and not episode.truncated and (reward is None or reward >= SUCCESS_REWARD),
        reward=reward,
    )


class _Episode:
    """One dialogue of a model with a world, and how far it is."""

    def __init__(self, attempt: Attempt, world: Any, model: BaseChatModel, review: Review | None) -> None:
        self.messages: list[BaseMessage] = []
        self.rewards: list[float] = []
        self.done = False
        self.truncated = False
        self._attempt = attempt
        self._world = world
        self._model = model
        self._review = review
        self._place = digest(DEFAULT_ACT_PROMPT)
        self._steps = 0

    def playing(self) -> Flow[None]:
        """Play until the world or the agent ends it; a `FailedError` if the agent fails."""
        try:
            observation = yield from resetting(self._world, self._attempt.task.given)
        except Exception as error:
            msg = f"The environment could not be reset: {described(error)}"
            raise UnfinishedError(msg) from error
        self._say(HumanMessage(f"{self._attempt.request}\n\n{observation}".strip()))
        nudged = False
        while not self.done:
            self._check_steps()
            reply = yield from self._reply()
            self._say(reply)
            for call in reply.tool_calls:
                self._check_steps()
                yield from self._act(call)
                if self.done:
                    return
            left = self._attempt.max_steps - self._steps
            if reply.tool_calls and self._review and (seen := (yield from self._review(self.messages, left))):
                ids = [getattr(each, "tool_call_id", None) for each in self.messages]
                self.messages[max(at for at, each in enumerate(ids) if each == seen.tool_call_id)] = seen
            if not reply.tool_calls:
                if nudged:
                    return  # it has said twice that there is nothing left to do
                self._steps += 1
                self._say(HumanMessage(NUDGE))
            nudged = not reply.tool_calls

    def _check_steps(self) -> None:
        if self._steps >= self._attempt.max_steps:
            msg = f"The limit of {self._attempt.max_steps} steps was reached."
            raise FailedError(msg)

    def _reply(self) -> Flow[AIMessage]:
        """What the model says next: as it was kept, or live and kept before anything is done about it."""
        journal, key = self._attempt.journal, self._place
        recorded = journal.recorded(key)
        if recorded is not None and "reply" in recorded:
            self._attempt.spend(Cost.read(recorded.get("usage")), before=True)
            return _with_action(cast("AIMessage", to_message(recorded["reply"])), key)
        self._attempt.check()
        meter = self._attempt.meter(allowance=1)
        config = inner_config("collect", {"trajectory": self._attempt.id, "step": self._steps})
        prompt = [SystemMessage(DEFAULT_ACT_PROMPT), *self.messages]
        try:
            reply = yield from call_tools(self._model, [ACT_TOOL], prompt, meter, config)
        except ConfigurationError:
            raise
        except Exception as error:
            self._attempt.spend(cost_of(meter))
            if self._steps and is_unacceptable(error):  # it has grown in the attempt, as into one too long
                msg = f"The model did not take the conversation: {described(error)}"
                raise FailedError(msg) from error
            msg = f"The model could not be asked: {described(error)}"
            raise UnfinishedError(msg) from error
        cost = cost_of(meter)
        self._attempt.spend(cost)
        yield from journal.keeping(key, {"reply": to_chat(reply), "usage": asdict(cost)})
        return _with_action(reply, key)

    def _act(self, call: Mapping[str, Any]) -> Flow[None]:
        """Carry out a call."""
        self._steps += 1
        action = _action_in(call)
        try:
            observed = StepReading(MISCALLED) if action is None else (yield from stepping(self._world, action))
        except UnreadableStepError as error:
            raise UnfinishedError(str(error)) from error
        except Exception as error:
            msg = f"The environment raised {described(error)} on the action {action!r:.120}."
            raise (UnfinishedError if is_outage(error) else FailedError)(msg) from error
        status = "error" if action is None else "success"
        self._say(ToolMessage(observed.observation, tool_call_id=call["id"], name=call["name"], status=status))
        self.done, self.truncated = observed.done, observed.truncated
        if observed.reward is not None:
            self.rewards.append(observed.reward)

    def _say(self, message: BaseMessage) -> None:
        self.messages.append(message)
        self._place = place(self._place, message)


def _with_action(reply: AIMessage, key: str) -> AIMessage:
    """A reply whose action is a tool call, also if it was written in words; calls without an id get one."""
    calls: Sequence[Any] = reply.tool_calls
    if not calls and (written := _ACTION.search(reply.text)):
        calls = [{"name": ACT, "args": {"action": written.group(1).rstrip(" \t*_`")}, "id": None}]
    numbered = [
        {**call, "id": call["id"] or f"act-{key[:12]}-{n}", "type": "tool_call"} for n, call in enumerate(calls)
    ]
    return reply.model_copy(update={"tool_calls": numbered, "invalid_tool_calls": []})


def _action_in(call: Mapping[str, Any]) -> str | None:
    """The action that a call asks for, even if the model names its only argument otherwise."""
    arguments: Mapping[str, Any] = call["args"]
    given = arguments.get("action", next(iter(arguments.values())) if len(arguments) == 1 else None)
    return given.strip() if call["name"] == ACT and isinstance(given, str) and given.strip() else None
