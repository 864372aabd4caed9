"""Pre- and post-evaluation: scoring a call before and after it runs, the paper's r_pre and r_post.

A judge is a chat model, or any function from a [`JudgeRequest`][langchain_tooltree.JudgeRequest] to scores. Whatever
it answers is validated: what is no number in [0, 1] is left unscored, and never taken for 0. A model is asked again
once.
"""

import logging
import math
import random
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

from langchain_core.language_models import BaseChatModel

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.flows import FunctionStep
from langchain_tooltree.messages.kinds import classify_chat_message
from langchain_tooltree.models import (
    REPLY_ATTEMPTS,
    Meter,
    document_prompt,
    filled_in,
    inner_config,
    is_chat_model,
    resolve_model,
)
from langchain_tooltree.text import one_line
from langchain_tooltree.tooltree.prompts import (
    DEFAULT_PROMPTS,
    CandidateScores,
    ExplainedScore,
    ObservationScore,
    Prompts,
    RequestCheck,
)

logger = logging.getLogger(__name__)

Score = float | None

SAID_DONE, SAID_OPEN = 0.75, 0.2
"""Goal scores in [0, 1] of a model's word that nothing is missing, and that something is.

At 48 recorded stops a careful reader's check caught 21 of 24 early ones and raised no false alarm at 24 right ones:
likelihood ratios of 7 and 1/43, with half a case added to each count. The kernel reads a score `s` as about
`exp(12.5 * (s - 0.5))`, so 0.2 is 1/42. 0.75 is 23, more than was measured: it is the kernel's mean for a fulfilled
request, and has to pass `goal_threshold`."""


class Judged(NamedTuple):
    """A score, and why, if the judge said so."""

    score: Score = None
    reason: str = ""

    @classmethod
    def of(cls, score: Score, reason: str = "") -> "Judged":
        """A score with the beginning of its reason."""
        return cls(score, one_line(reason, 500))


class Standing(NamedTuple):
    """How things stand with a request, as far as a model has said."""

    goal: Score = None  # `SAID_DONE` if it is fulfilled, `SAID_OPEN` if not
    missing: tuple[str, ...] = ()  # what is not done yet, in words

    @classmethod
    def of(cls, form: RequestCheck) -> "Standing":
        """What a form says."""
        missing = tuple(one_line(each, 200) for each in form.missing if each.strip())[
            :5
        ]  # what one prompt shows
        return cls(SAID_DONE if form.fulfilled else SAID_OPEN, missing)


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A call put to a judge.

    Attributes:
        id: Identifier, unique in the search; scores are matched by it.
        tool: Name of the tool.
        arguments: Its arguments.
        deferred: Whether the call changes the real world and therefore waits for approval instead of being run.
        writes: Whether the call changes something, in the real world or in a fork of a sandbox.
    """

    id: str
    tool: str
    arguments: Mapping[str, Any]
    deferred: bool = False
    writes: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The call as JSON-like data, for a prompt."""
        call = {"id": self.id, "tool": self.tool, "arguments": self.arguments}
        return {**call, "writes": True} if self.writes or self.deferred else call


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """A question to a judge.

    Attributes:
        stage: `"pre"`: score the calls before they run; `"post"`: score the only call by its observation.
        query: The user's request.
        history: What was said, called and observed before, as JSON-like entries.
        calls: The calls in question.
        tools: Cards of their tools, as JSON-like data.
        observation: For `post`: what the call brought back; `None` if it was deferred.
        answer: For `post`: what the assistant would answer now; `None` if it may go on.
        tool_names: Names of the tools that the assistant has, the first of them where there are many.
        tried: Calls that were offered at the same step before those in question, each as a line.
    """

    stage: Literal["pre", "post"]
    query: str
    history: Sequence[Mapping[str, Any]]
    calls: Sequence[JudgedCall]
    tools: Sequence[Mapping[str, Any]]
    observation: str | None = None
    answer: str | None = None
    tool_names: Sequence[str] = ()
    tried: Sequence[str] = ()

    def to_dict(self, **more: Any) -> dict[str, Any]:
        """What all questions show, as JSON-like data for a prompt, and more; empty parts are left out.

        The request stands by itself only where it is not in the history.
        """
        in_history = any(
            classify_chat_message(entry) == "request"
            and entry.get("text") == self.query
            for entry in self.history
        )
        document = {
            "request": None if in_history else self.query,
            "history": self.history,
            "tools": self.tools,
            "tool_names": list(self.tool_names),
            "tried": self.tried,
            **more,
        }
        return {
            key: value for key, value in document.items() if value not in (None, [], ())
        }


class Judge(Protocol):
    """A function that scores calls; it may be a coroutine function.

    For stage `"pre"` it returns a number in [0, 1], or a pair of one and the reason, for each call, as a sequence in
    the order of `request.calls`. For stage `"post"` it returns `(r_post, goal)`, each in [0, 1], or `(r_post, goal,
    reason)`; without goal scores the bare `r_post` will do. Anything else leaves the calls unscored.
    """

    def __call__(self, request: JudgeRequest) -> Any | Awaitable[Any]:
        """Score the calls of a request."""


@dataclass(frozen=True, slots=True)
class ModelEvaluator:
    """A chat model as a judge; candidates are shown in a seeded order, so that none gains from its place.

    A reply that does not fill in its form is asked for once more, and then left unscored. If it `explains`, each
    question is about one call and is answered by a score and an explanation, as in the paper, without a goal score.
    """

    model: BaseChatModel
    seed: int = 0
    prompts: Prompts = DEFAULT_PROMPTS
    explains: bool = False
    calls_per_question: int = REPLY_ATTEMPTS

    async def pre(self, request: JudgeRequest, meter: Meter) -> list[Judged]:
        """Score candidates in one question."""
        if self.explains:
            document = request.to_dict(call=request.calls[0].to_dict())
            return [(await self._explained("pre_judge", document, meter))]
        candidates = [call.to_dict() for call in request.calls]
        random.Random(f"{self.seed}:{request.calls[0].id}").shuffle(candidates)  # noqa: S311 - no secret depends on it
        prompt = document_prompt(
            self.prompts.pre_judge, request.to_dict(candidates=candidates)
        )
        form = await filled_in(
            self.model, CandidateScores, prompt, inner_config("pre_judge", {}), meter
        )
        scores = (
            {each.id: Judged.of(each.score, each.reason) for each in form.scores}
            if form
            else {}
        )
        return [scores.get(call.id, Judged()) for call in request.calls]

    async def post(self, request: JudgeRequest, meter: Meter) -> tuple[Judged, Score]:
        """Score an observation, and the request."""
        call = request.calls[0]
        outcome = (
            {"executed": False}
            if call.deferred
            else {"observation": request.observation}
        )
        document = request.to_dict(call=call.to_dict()) | outcome
        if self.explains:
            return (await self._explained("post_judge", document, meter)), None
        prompt = document_prompt(self.prompts.post_judge, document)
        form = await filled_in(
            self.model, ObservationScore, prompt, inner_config("post_judge", {}), meter
        )
        return (
            (Judged.of(form.score, form.reason), form.goal)
            if form
            else (Judged(), None)
        )

    async def _explained(
        self, role: str, document: dict[str, Any], meter: Meter
    ) -> Judged:
        prompt = document_prompt(getattr(self.prompts, role), document)
        form = await filled_in(
            self.model, ExplainedScore, prompt, inner_config(role, {}), meter
        )
        return Judged.of(form.score, form.explanation) if form else Judged()

    async def check(self, request: JudgeRequest, meter: Meter) -> Standing:
        """Say what of the request is not done yet, where the assistant would answer now."""
        document = replace(request, tools=(), tried=()).to_dict(answer=request.answer)
        prompt = document_prompt(self.prompts.check, document)
        form = await filled_in(
            self.model, RequestCheck, prompt, inner_config("check", {}), meter
        )
        return Standing.of(form) if form else Standing()


@dataclass(frozen=True, slots=True)
class FunctionEvaluator:
    """A user's function as a judge; it costs no model calls that the planner could count."""

    judge: Judge
    calls_per_question: int = 0

    async def pre(self, request: JudgeRequest, meter: Meter) -> list[Judged]:
        """Score candidates; those without a usable score stay unscored."""
        answer = await self._ask(request)
        values = (
            list(answer)
            if isinstance(answer, Sequence) and not isinstance(answer, str)
            else []
        )
        if len(values) != len(request.calls):
            values = [None] * len(request.calls)
        scores = [
            _judged_of(*value) if isinstance(value, tuple) else _judged_of(value)
            for value in values
        ]
        if any(judged.score is None for judged in scores):
            _note(meter, answer, "a number in [0, 1] for each call")
        return scores

    async def post(self, request: JudgeRequest, meter: Meter) -> tuple[Judged, Score]:
        """Score an observation, and the request."""
        answer = await self._ask(request)
        parts: list[Any] = [*answer] if isinstance(answer, tuple | list) else [answer]
        score, goal, reason = [*parts, None, None, None][:3]
        verdict = _judged_of(score, reason)
        if verdict.score is None:
            _note(meter, answer, "r_post or (r_post, goal), each in [0, 1]")
        return verdict, as_score(goal)

    async def check(self, request: JudgeRequest, meter: Meter) -> Standing:
        """Take the goal score of the latest call; a function cannot be asked where none was made."""
        if not request.calls:
            return Standing()
        _, goal = await self.post(request, meter)
        return Standing(goal)

    async def _ask(self, request: JudgeRequest) -> Any:
        try:
            return await FunctionStep(self.judge, request)
        except Exception as error:  # noqa: BLE001 - a judge that fails leaves its candidates unscored
            return error


Evaluator = (
    ModelEvaluator | FunctionEvaluator
)  # a judge with the checks around it, as the search asks it for scores


def resolve_judge(
    judge: str | BaseChatModel | Judge, prompts: Prompts = DEFAULT_PROMPTS
) -> Evaluator:
    """Turn what a user passed as `judge`, a chat model, the name of one, or a function, into an evaluator."""
    if isinstance(judge, str) or is_chat_model(judge):
        return ModelEvaluator(resolve_model(judge), prompts=prompts)
    if callable(judge):
        return FunctionEvaluator(judge)
    msg = f"judge must be a chat model, the name of one, or a function, got {type(judge).__name__}."
    raise ConfigurationError(msg)


def as_score(value: Any) -> Score:
    """A number in [0, 1], `None` for anything else."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and 0 <= number <= 1 else None


def _judged_of(score: Any = None, reason: Any = None, *_: Any) -> Judged:
    return Judged.of(as_score(score), reason if isinstance(reason, str) else "")


def _note(meter: Meter, answer: Any, expected: str) -> None:
    """Say what is wrong with a function's answer, or that there is none because it raised."""
    text = repr(answer)[:200]
    problem = (
        f"raised {text}"
        if isinstance(answer, Exception)
        else f"returned {text}; expected {expected}"
    )
    logger.warning("No score came of a question: the judge %s", problem)
    meter.problems.append(f"the judge {problem}")
