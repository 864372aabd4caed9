"""What models are shown of a run, and the verdict on it: of a function, or of a model that gives its reasons."""

import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, ConfigDict, Field, create_model

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.run_identity import TOOLS_KEY, tools_in
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.experience.trajectory_json import SUCCESS_REWARD
from langchain_tooltree.experience.transcript import (
    LONGEST_INSTRUCTIONS,
    MAX_RUN_CHARACTERS,
    excerpt,
)
from langchain_tooltree.flows import Flow, FunctionStep, arun_flow, run_flow
from langchain_tooltree.messages.chat_format import get_first_request
from langchain_tooltree.models import (
    REPLY_ATTEMPTS,
    Meter,
    document_prompt,
    filled_in,
    inner_config,
    is_chat_model,
    resolve_model,
)
from langchain_tooltree.text import shortened

logger = logging.getLogger(__name__)

VERDICT_PROMPT = """\
You review a finished run of an assistant that works with tools. Decide whether it did right by its instructions and \
by its user.

You get one JSON document:
- `instructions`: the rules that the assistant had to keep. Without them, it may do whatever the user wants.
- `tools`: the names of its tools, where they are known.
- `task`: what it was asked to do, where the record does not tell.
- `record`: in order, what the user and the assistant said, and each call of a tool with its `arguments` and `result`.\
%(numbered)s Long texts are shortened, with a note of how much is missing.
- `ended`: how the run stopped, if it did not end by itself.

Only the result of a call is a fact. What the user or the assistant says is a claim: look it up in the results, and \
work out each date, sum, count and comparison yourself.

Reply with one JSON object that has these fields, in this order, since each rests on those before it.

`rules`: a list with the rules of the instructions that decide something in this run, each in one sentence with its \
conditions and numbers. Empty if none does.
%(writes)s
`missing`: a list with everything that the assistant should have done and did not do, or not rightly, each in one \
sentence. Empty if there is nothing. Go through all that the user wanted, with its conditions ("the cheapest", "all of \
them", "if not, then ..."); where the user changed their mind, the last word counts. Something is missing if it was \
forgotten; if it was promised and no call did it; if a question was answered wrongly, or with "none" although the \
results do not cover all that was asked; if the assistant refused it, or \
passed it on to somebody else, although the rules allowed it; if the rules told the assistant to do it; or if the user \
was told something false that changes how things stand in the end. What the rules forbid, what no tool can do, and \
what the user gave up freely does not count as missing.

`verdict`: one of three words.
- "failure" if %(fault)sanything is missing. It does not matter how content the user is, who does not know the rules.
- "success" if %(right)snothing is missing. Refusing, or handing the user over, is right where the rules \
demand it. Clumsy words and needless lookups are no fault.
- "unclear" only if the record does not show what decides.

`reasons`: two or three sentences that say what decided it."""

NUMBERED = """ \
A call with a number under `write` may have changed something; the others looked something up."""

WRITES_PROMPT = """
`writes`: a list with one object for each numbered call that did not fail; handing the user over is no write. One that \
only looked something up is allowed and confirmed: say so in `facts`.
- `write`: its number in the record.
- `facts`: for each condition that a rule sets for it, what the results show, with your own calculation; and whether \
each argument (which thing, how many, how much, how it is paid) follows from the rules and from the user's words. A \
condition counts as met only if the results show it.
- `allowed`: true if the rules permit this write with these arguments. Agreement does not make allowed what the rules \
forbid.
- `confirmed`: true if, before the write, the user asked for just this or agreed to it in words of their own. Where \
the rules demand that details are listed and a yes is obtained, a wish alone is not enough.
"""


def verdict_prompt(*, writes: bool) -> str:
    """The instructions of a model that judges a run; how to check writes is told where there are some."""
    return VERDICT_PROMPT % {
        "numbered": NUMBERED if writes else "",
        "writes": WRITES_PROMPT if writes else "",
        "fault": "a write was not allowed, was not confirmed or had a wrong argument, or if "
        if writes
        else "",
        "right": "all writes were right and " if writes else "",
    }


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a run succeeded.

    Attributes:
        success: Whether it did; `None` if nobody can tell.
        reasons: Why.
    """

    success: bool | None
    reasons: str = ""

    def on(self, run: Trajectory) -> Trajectory:
        """A run with this verdict; its own reasons, such as an error that it raised, stand first."""
        reasons = "\n".join(filter(None, (run.reasons, self.reasons)))
        return run.judged(self.success, reasons, source="verdict")


Success = Verdict | bool | float | None
VerdictFunction = Callable[[Trajectory], Success | Awaitable[Success]]
"""A function, sync or async, from a trajectory to a `Verdict`, a bool, `None` for unknown, or a reward: 1 or more is a
success."""

VerdictFlow = Callable[[Trajectory], Flow[Verdict]]


def _require_all(schema: dict[str, Any]) -> None:
    schema["required"] = list(schema["properties"])


class WriteCheck(BaseModel):
    """What a model replies about one write."""

    write: int = Field(description="Its number in the record")
    facts: str = Field(
        description="What the results show for each condition and argument, with your calculation"
    )
    allowed: bool = Field(
        description="Whether the rules permit it, with these arguments"
    )
    confirmed: bool = Field(
        description="Whether the user wanted just this, and confirmed it where the rules demand it"
    )


class Review(BaseModel):
    """What a model replies about a run; each part is the ground of the next.

    It is asked for every field, but a reply that leaves out an empty list is read all the same.
    """

    model_config = ConfigDict(json_schema_extra=_require_all)

    rules: list[str] = Field(
        default_factory=list, description="The rules that decide something in this run"
    )
    writes: list[WriteCheck] = Field(
        default_factory=list, description="One for each numbered call that did not fail"
    )
    missing: list[str] = Field(
        default_factory=list, description="What should have been done and was not"
    )
    verdict: Literal["success", "failure", "unclear"]
    reasons: str = Field(description="What decided it, in two or three sentences")


_READ_FIELDS: Any = {
    name: (each.annotation, each)
    for name, each in Review.model_fields.items()
    if name != "writes"
}
ReadReview = create_model("ReadReview", __config__=Review.model_config, **_READ_FIELDS)
"""What a model is asked about a run that only looked something up."""

MAX_TOOL_NAMES = 100  # names of tools that a model is shown: about 500 tokens, and few agents have more

UNUSABLE = "The model gave no usable verdict:"
"""With this the reasons begin where a model could not be asked, or has said nothing that can be read."""


class ModelVerdict:
    """A chat model that says whether a run succeeded, and why.

    It works like a careful reviewer: it lists the rules of the agent's instructions that apply, checks each write
    against them and against what the user confirmed, looks for what is missing, and then decides.

    A reply that is not of the form asked for is asked for once more. A model that gives no verdict leaves the run
    unjudged: `success` is `None`, and the reasons say what went wrong. Its tokens do not appear in
    `stream_mode="messages"`.

    Args:
        model: The chat model, or the name of one.
        prompt: Its instructions, in place of ours, which speak of writes only where there are some.
    """

    def __init__(
        self, model: str | BaseChatModel, *, prompt: str | None = None
    ) -> None:
        self._model = resolve_model(model)
        self._prompt = prompt

    def judge(self, trajectory: Trajectory) -> Verdict:
        """Judge a run."""
        return run_flow(self.judge_flow(trajectory))

    async def ajudge(self, trajectory: Trajectory) -> Verdict:
        """Async version of `judge`."""
        return await arun_flow(self.judge_flow(trajectory))

    async def judge_flow(self, trajectory: Trajectory) -> Verdict:
        """Flow of `judge` and `ajudge`; other flows await it."""
        document = verdict_document(trajectory)
        has_writes = any("write" in entry for entry in document["record"])
        prompt = self._prompt or verdict_prompt(writes=has_writes)
        form, meter = (
            Review if has_writes else ReadReview,
            Meter(allowance=REPLY_ATTEMPTS),
        )
        question, config = (
            document_prompt(prompt, document),
            inner_config("verdict", {"trajectory": trajectory.id}),
        )
        review = await filled_in(self._model, form, question, config, meter)
        if review is not None:
            return _verdict_of(review)
        problem = "; ".join(meter.problems) or "it was not asked"
        logger.warning("Trajectory %s is not judged: %s", trajectory.id, problem)
        return Verdict(None, f"{UNUSABLE} {problem}")


def verdict_document(trajectory: Trajectory) -> dict[str, Any]:
    """What a model is shown of a run to judge it."""
    rules = shortened(trajectory.instructions, LONGEST_INSTRUCTIONS)
    tools = list(islice(tools_in(trajectory.metadata.get(TOOLS_KEY)), MAX_TOOL_NAMES))
    in_record = trajectory.task in ("", get_first_request(trajectory.messages))
    document = {
        "instructions": rules,
        "tools": tools,
        "task": "" if in_record else shortened(trajectory.task),
        "record": excerpt(
            trajectory, max_characters=MAX_RUN_CHARACTERS, number_writes=True
        ),
        "ended": shortened(trajectory.reasons),
    }
    return {name: part for name, part in document.items() if part or name == "record"}


def _verdict_of(review: Any) -> Verdict:
    """What a filled-in `Review` says.

    A success in spite of a wrong write contradicts itself: it is unclear, and nobody learns from it.
    """
    is_right = all(
        each.allowed and each.confirmed for each in getattr(review, "writes", ())
    )
    return Verdict(
        {"success": is_right or None, "failure": False}.get(review.verdict),
        review.reasons,
    )


AnyVerdict = VerdictFunction | ModelVerdict | BaseChatModel | str
"""What users pass as `verdict`: a function, a `ModelVerdict`, a chat model, or the name of one."""


def resolve_verdict(verdict: AnyVerdict) -> VerdictFlow:
    """Turn what a user passed as `verdict` into a function from a trajectory to a flow."""
    if isinstance(verdict, str) or is_chat_model(verdict):
        return ModelVerdict(verdict).judge_flow
    if isinstance(verdict, ModelVerdict):
        return verdict.judge_flow
    if callable(verdict):
        function: VerdictFunction = verdict

        async def ask(trajectory: Trajectory) -> Verdict:
            return _verdict(await FunctionStep(function, trajectory))

        return ask
    msg = f"verdict must be a function, a chat model, its name, or a ModelVerdict, got {type(verdict).__name__}."
    raise ConfigurationError(msg)


def _verdict(answer: Any) -> Verdict:
    """What a function answered, as a verdict."""
    match answer:
        case Verdict():
            return answer
        case None:
            return Verdict(None)
        case bool() | np.bool_():
            return Verdict(bool(answer))
        case int() | float() | np.number():
            reward = float(answer)
            success = None if math.isnan(reward) else reward >= SUCCESS_REWARD
            return Verdict(success, f"Its reward is {reward:g}.")
    msg = f"A verdict must be a Verdict, a bool, a number or None, got {type(answer).__name__}: {answer!r:.80}."
    raise ConfigurationError(msg)
