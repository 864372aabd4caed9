"""Did a run succeed? Said by a function of the user's, or by a model that gives its reasons."""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field

from langchain_tooltree.errors import ConfigurationError, check_count
from langchain_tooltree.experience.excerpts import (
    DEFAULT_MAX_CHARACTERS,
    FEWEST_CHARACTERS,
    LONGEST_INSTRUCTIONS,
    reviewed,
)
from langchain_tooltree.experience.run_identity import TOOLS, tools_in
from langchain_tooltree.experience.trajectory import SUCCESS_REWARD, Trajectory
from langchain_tooltree.flows import Flow, FunctionStep, async_twin, driven, flow_of
from langchain_tooltree.models import (
    ATTEMPTS,
    Meter,
    StructuredQuestion,
    document_prompt,
    inner_config,
    is_chat_model,
    resolve_model,
)
from langchain_tooltree.text import shortened

logger = logging.getLogger(__name__)

DEFAULT_VERDICT_PROMPT = """\
You review finished work, as an auditor does: did an assistant with tools do right by its user and by its instructions?

You get one JSON document. `instructions` are the rules that the assistant had to keep; `tools` are the names of its \
tools, if they are known; `task` is what was asked for first; `record` tells in order what was said, which tools were \
called and what they brought back. A call with a number under `write` changed something, the others looked something \
up.

Only what tools brought back is a fact. What the user or the assistant says about it is a claim: look it up in the \
results, and work out every time span, sum, count and comparison yourself, step by step.

Fill in the form in its order; each part is the ground of the next.

`rules`: the rules of the instructions that decide something in this run, each in short with all its conditions and \
numbers. If there are no instructions, none, and all is allowed that the user wants.

`writes`: every write of the record, by its number. `facts`: what the results show for each condition of the rules \
that apply to it, with your own calculation, and whether each argument (which thing, how many, how much, paid how) is \
what the rules and the user's words come to. A condition that the record does not show to be met is not met because \
somebody said so. `allowed`: whether the rules permit this write with these arguments. `confirmed`: whether the user, \
before it and in words of their own, asked for or agreed to just this, or asked the assistant to do what somebody \
else wants, and a result shows that it is just this; where the rules demand that details are listed and a yes is \
obtained, a plain wish is not enough. Agreement does not make allowed what the rules forbid. Leave out writes that \
failed: they changed nothing. Handing the user over is no write.

`missing`: go through all that the user wanted, the latest wish on each point being the one that counts, with its \
conditions ("the cheapest", "all of them", "if not, then ..."). Name each part that the rules and tools allowed and \
that was not done, or not as wanted: it was forgotten; it was promised or agreed on, but no call did it; a question \
was answered wrongly; or the assistant refused it, passed it on to somebody else, or let the user give it up, although \
a rule allowed it, directly or in another way that the user would have taken. Name too what the rules told the \
assistant to do here and it did not do, and what it told the user that is false, if that changes how things stand in \
the end. What the rules do not allow, what no tool can do that is known or stands in the record, or what the user \
freely gave up, is not missing.

`verdict`: "failure" if a write was not allowed, not confirmed or had a wrong argument, or if anything is missing, \
however content the user is, who does not know the rules. "success" if all writes were right and nothing is \
missing; a refusal is a success where the rules demand it, and so is handing the user over where the rules demand it, \
or where the user asks for it after a right refusal. Clumsy words or a needless \
lookup, which change nothing in the end, are no failure. "unclear" only if the record does not show what decides, \
such as a refusal of which only a lookup that nobody made could tell whether it was right.

`reasons`: what decided it, in two or three sentences."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a run succeeded.

    Attributes:
        success: Whether it did; `None` if nobody can tell.
        reasons: Why.
    """

    success: bool | None
    reasons: str = ""


Success = Verdict | bool | float | None
VerdictFunction = Callable[[Trajectory], Success | Awaitable[Success]]
"""A function, sync or async, from a trajectory to a `Verdict`, a bool, `None` for unknown, or a reward: 1 or more is a
success."""

VerdictFlow = Callable[[Trajectory], Flow[Verdict]]


class WriteForm(BaseModel):
    """What a model is asked about one write."""

    write: int = Field(description="Its number in the record")
    facts: str = Field(description="What the results show for each condition and argument, with your calculation")
    allowed: bool = Field(description="Whether the rules permit it, with these arguments")
    confirmed: bool = Field(description="Whether the user wanted just this, and confirmed it where the rules demand it")


class VerdictForm(BaseModel):
    """What a model is asked to fill in, in this order."""

    rules: list[str] = Field(description="The rules that decide something in this run, with conditions and numbers")
    writes: list[WriteForm]
    missing: list[str] = Field(description="What was wanted and allowed, and was not done, or not rightly")
    verdict: Literal["success", "failure", "unclear"]
    reasons: str = Field(description="What decided it, in two or three sentences")


MOST_TOOLS = 100
"""Names of tools that a model is shown: about 500 tokens, and few agents have more."""

UNUSABLE = "The model gave no usable verdict:"
"""With this the reasons begin where a model could not be asked, or has said nothing that can be read."""


class ModelVerdict:
    """A chat model that says whether a run succeeded, and why.

    It works like a careful reviewer: it lists the rules of the agent's instructions that apply, checks each write
    against them and against what the user confirmed, looks for what is missing, and then decides. Of a long run it is
    shown the writes and what they rest on first.

    It is asked a second time if its reply is unusable; of a reply that is filled in in part, that part is used. A model
    that gives no verdict leaves the run unjudged: `success` is `None`, and the reasons say what went wrong. Its tokens
    do not appear in `stream_mode="messages"`.

    Args:
        model: The chat model, or the name of one.
        prompt: Its instructions.
        max_characters: About how much of a run it is shown, beside the instructions.
    """

    def __init__(
        self,
        model: str | BaseChatModel,
        *,
        prompt: str = DEFAULT_VERDICT_PROMPT,
        max_characters: int = DEFAULT_MAX_CHARACTERS,
    ) -> None:
        check_count("max_characters", max_characters, FEWEST_CHARACTERS)
        self._model = resolve_model(model)
        self._prompt = prompt
        self._max_characters = max_characters

    @driven
    def judge(self, trajectory: Trajectory) -> Flow[Verdict]:
        """Judge a run."""
        rules = shortened(trajectory.instructions, LONGEST_INSTRUCTIONS)
        tools = list(islice(tools_in(trajectory.metadata.get(TOOLS)), MOST_TOOLS))
        document = {
            **({"instructions": rules} if rules else {}),
            **({"tools": tools} if tools else {}),
            "task": shortened(trajectory.task),
            "record": reviewed(trajectory, max_characters=self._max_characters),
        }
        if trajectory.reasons:
            document["ended"] = shortened(trajectory.reasons)
        question = StructuredQuestion(
            model=self._model,
            schema=VerdictForm,
            prompt=document_prompt(self._prompt, document),
            usable=lambda reply: read_verdict(reply) is not None,
            config=inner_config("verdict", {"trajectory": trajectory.id}),
        )
        meter = Meter(allowance=ATTEMPTS)
        for reply in (yield from question.ask(meter)):
            if (verdict := read_verdict(reply)) is not None:
                return verdict
        problem = "; ".join(meter.problems) or "it was not asked"
        logger.warning("Trajectory %s is not judged: %s", trajectory.id, problem)
        return Verdict(None, f"{UNUSABLE} {problem}")

    ajudge = async_twin(judge)


AnyVerdict = VerdictFunction | ModelVerdict | BaseChatModel | str
"""What users pass as `verdict`: a function, a `ModelVerdict`, a chat model, or the name of one."""


def resolve_verdict(verdict: AnyVerdict) -> VerdictFlow:
    """Turn what a user passed as `verdict` into a function from a trajectory to a flow."""
    if isinstance(verdict, str) or is_chat_model(verdict):
        return flow_of(ModelVerdict(verdict).judge)
    if isinstance(verdict, ModelVerdict):
        return flow_of(verdict.judge)
    if callable(verdict):
        function: VerdictFunction = verdict

        def ask(trajectory: Trajectory) -> Flow[Verdict]:
            return _verdict((yield FunctionStep(function, trajectory)))

        return ask
    msg = f"verdict must be a function, a chat model, its name, or a ModelVerdict, got {type(verdict).__name__}."
    raise ConfigurationError(msg)


def _verdict(said: Any) -> Verdict:
    """What a function said, as a verdict."""
    match said:
        case Verdict():
            return said
        case None:
            return Verdict(None)
        case bool() | np.bool_():
            return Verdict(bool(said))
        case int() | float() | np.number():
            reward = float(said)
            success = None if math.isnan(reward) else reward >= SUCCESS_REWARD
            return Verdict(success, f"Its reward is {reward:g}.")
    msg = f"A verdict must be a Verdict, a bool, a number or None, got {type(said).__name__}: {said!r:.80}."
    raise ConfigurationError(msg)


_SUCCESS = {"success": True, "failure": False, "unclear": None}


def read_verdict(reply: Mapping[str, Any]) -> Verdict | None:
    """What a model's reply says; `None` if its verdict is none of the three.

    A success in spite of a write that was not right is no verdict that anybody should learn from: it is unclear.
    """
    said = reply.get("verdict")
    if said not in (*_SUCCESS,):
        return None
    writes, missing = (each if isinstance(each, list) else [] for each in (reply.get("writes"), reply.get("missing")))
    wrong = [each for each in writes if isinstance(each, Mapping) and not _is_right(each)]
    faults = [str(each.get("facts") or f"Write {each.get('write')} was not right.") for each in wrong]
    reasons = str(reply.get("reasons") or "") or "\n".join([*faults, *map(str, missing)])
    success = _SUCCESS[said]
    return Verdict(None if success and wrong else success, reasons)


def _is_right(write: Mapping[str, Any]) -> bool:
    """Whether a write is said to be allowed and confirmed; what is left out is no objection."""
    return all(write.get(name) is not False for name in ("allowed", "confirmed"))
