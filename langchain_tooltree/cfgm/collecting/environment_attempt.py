"""An attempt in an environment that is reset and stepped: the model acts through one tool, in a plain ReAct loop."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_tooltree.cfgm.collecting.attempt import Attempt, Run, UnfinishedError, cost_of
from langchain_tooltree.cfgm.collecting.environment import Environment, Observed, UnreadableStepError
from langchain_tooltree.cfgm.collecting.faults import is_outage, is_unacceptable, told
from langchain_tooltree.cfgm.collecting.journal import place, said
from langchain_tooltree.cfgm.collecting.report import Cost
from langchain_tooltree.errors import ConfigurationError, ToolTreeError
from langchain_tooltree.experience.files import SUCCESS_REWARD
from langchain_tooltree.experience.formats import to_chat, to_message
from langchain_tooltree.flows import Flow
from langchain_tooltree.models import call_tools, inner_config

DEFAULT_ACT_PROMPT = """\
You act in an environment to carry out the task that you are given. Each time, think briefly about what the \
observations so far tell you, then call the tool `act` with exactly one action in the environment's own words. You see \
what came of it before you act again. What stands between reference_material tags is advice from earlier work: use it \
where it fits. Stop calling the tool only when the task is done."""

NUDGE = """\
That was no action. Call the tool `act` with the next action, or write it on a line of its own: "Action: ...". If the \
task is done, say so once more."""

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

_ACTION = re.compile(r"^[\s>*_#`-]*action[\s*_`]*:[\s*_`]*(\S.*?)[\s*_`]*$", re.IGNORECASE | re.MULTILINE)


def run_in_environment(attempt: Attempt, environment: Environment, model: BaseChatModel) -> Flow[Run]:
    """Try a task, as a flow.

    Args:
        attempt: The attempt.
        environment: The world, which is reset first.
        model: Acts in it.

    Returns:
        What it came to.

    Raises:
        UnfinishedError: If the model or the world cannot be reached, or `step` returned something that cannot be read.
        StoppedError: If the collection is being stopped.
        ConfigurationError: If the model cannot act at all.
    """
    try:
        observation = yield from environment.resetting(attempt.task.given)
    except Exception as error:
        msg = f"The environment could not be reset: {told(error)}"
        raise UnfinishedError(msg) from error
    return (yield from _Episode(attempt, environment, model).playing(observation))


class _RefusedError(ToolTreeError, RuntimeError):
    """A provider did not take a conversation that has grown in the attempt, as one too long: the agent has failed."""


class _Episode:
    def __init__(self, attempt: Attempt, environment: Environment, model: BaseChatModel) -> None:
        self._attempt = attempt
        self._environment = environment
        self._model = model
        self._messages: list[BaseMessage] = []
        self._place = place(DEFAULT_ACT_PROMPT)
        self._steps = 0
        self._rewards: list[float] = []
        self._done = False
        self._truncated = False

    def playing(self, observation: str) -> Flow[Run]:
        self._say(HumanMessage(f"{self._attempt.request}\n\n{observation}".strip()))
        nudged = False
        while not self._done and self._steps < self._attempt.max_steps:
            try:
                reply = yield from self._reply()
            except _RefusedError as error:
                return self._run(str(error))
            self._say(reply)
            if reply.tool_calls:
                nudged = False
                for call in reply.tool_calls:
                    problem = yield from self._act(call)
                    if problem:
                        return self._run(problem)
                    if self._done or self._steps >= self._attempt.max_steps:
                        break
            elif nudged:
                return self._run()  # it has said twice that there is nothing left to do
            else:
                nudged = True
                self._steps += 1
                self._say(HumanMessage(NUDGE))
        if self._done:
            return self._run()
        return self._run(f"The limit of {self._attempt.max_steps} steps was reached.")

    def _reply(self) -> Flow[AIMessage]:
        """What the model says next: as it was recorded, or live and recorded before anything is done about it."""
        journal, key = self._attempt.journal, self._place
        recorded = journal.recorded(key)
        if recorded is not None and "reply" in recorded:
            self._attempt.replay(Cost.read(recorded.get("usage")))
            return _with_action(to_message(recorded["reply"]), key)
        self._attempt.check()
        meter = self._attempt.meter(allowance=1)
        config = inner_config("collect", {"trajectory": self._attempt.id, "step": self._steps})
        prompt = [SystemMessage(DEFAULT_ACT_PROMPT), *self._messages]
        try:
            reply = yield from call_tools(self._model, [ACT_TOOL], prompt, meter, config)
        except ConfigurationError:
            raise
        except Exception as error:
            self._attempt.spend(cost_of(meter))
            if self._steps and is_unacceptable(error):
                msg = f"The model did not take the conversation: {told(error)}"
                raise _RefusedError(msg) from error
            msg = f"The model could not be asked: {told(error)}"
            raise UnfinishedError(msg) from error
        cost = cost_of(meter)
        self._attempt.spend(cost)
        yield from journal.keeping(key, {"reply": to_chat(reply), "usage": asdict(cost)})
        return _with_action(reply, key)

    def _act(self, call: Mapping[str, Any]) -> Flow[str]:
        """Carry out a call; returns what went wrong, if the attempt is over because of it."""
        self._steps += 1
        action = _action_in(call)
        if action is None:
            self._observe(call, Observed(MISCALLED), status="error")
            return ""
        try:
            observed: Observed = yield from self._environment.stepping(action)
        except UnreadableStepError as error:
            raise UnfinishedError(str(error)) from error
        except Exception as error:
            msg = f"The environment raised {told(error)} on the action {action!r:.120}."
            if is_outage(error):
                raise UnfinishedError(msg) from error
            return msg
        self._observe(call, observed)
        return ""

    def _observe(self, call: Mapping[str, Any], observed: Observed, **fields: Any) -> None:
        self._say(ToolMessage(observed.observation, tool_call_id=call["id"], name=call["name"], **fields))
        self._done = observed.done
        self._truncated = observed.truncated
        if observed.reward is not None:
            self._rewards.append(observed.reward)

    def _say(self, message: BaseMessage) -> None:
        self._messages.append(message)
        self._place = place(self._place, message)

    def _run(self, problem: str = "") -> Run:
        reward = sum(self._rewards) if self._rewards else None
        return Run(
            messages=tuple(said(message) for message in self._messages),
            result={
                "messages": self._messages,
                "reward": reward,
                "done": self._done,
                "truncated": self._truncated,
            },
            problem=problem,
            success=self._done and not self._truncated and (reward is None or reward >= SUCCESS_REWARD),
            reward=reward,
        )


def _with_action(reply: BaseMessage, key: str) -> AIMessage:
    """A reply whose action is a tool call, be it written in words; ids that are missing or doubled are made up."""
    if not isinstance(reply, AIMessage):  # what was recorded was written by `to_chat`
        msg = f"A recorded reply is a {type(reply).__name__}."
        raise TypeError(msg)
    calls: Sequence[Any] = reply.tool_calls
    if not calls and (written := _ACTION.search(reply.text)):
        calls = [{"name": ACT, "args": {"action": written.group(1)}, "id": None}]
    numbered = [
        {**call, "id": call["id"] or f"act-{key[:12]}-{n}", "type": "tool_call"} for n, call in enumerate(calls)
    ]
    return reply.model_copy(update={"tool_calls": numbered, "invalid_tool_calls": []})


def _action_in(call: Mapping[str, Any]) -> str | None:
    """The action that a call asks for, even if the model names its only argument otherwise."""
    arguments: Mapping[str, Any] = call["args"]
    given = arguments.get("action", next(iter(arguments.values())) if len(arguments) == 1 else None)
    return given.strip() if call["name"] == ACT and isinstance(given, str) and given.strip() else None
