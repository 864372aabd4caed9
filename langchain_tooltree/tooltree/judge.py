"""Pre- and post-evaluation: scoring a call before and after it runs, the paper's r_pre and r_post.

A judge is a chat model, or any function from a [`JudgeRequest`][langchain_tooltree.JudgeRequest] to scores. Whatever
it answers is checked: a score that is missing, malformed, out of range, NaN, given twice, or about something else is
asked for a second time and then left unscored. It is never taken for 0.
"""

import logging
import random
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

from langchain_core.language_models import BaseChatModel

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.records import part_of
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.models import (
    ATTEMPTS,
    Meter,
    StructuredQuestion,
    document_prompt,
    inner_config,
    is_chat_model,
    resolve_model,
)
from langchain_tooltree.text import as_text, one_line
from langchain_tooltree.tooltree.channel import Standing, as_score, standing_of
from langchain_tooltree.tooltree.prompts import (
    DEFAULT_PROMPTS,
    CandidateScores,
    ObservationScore,
    Prompts,
    RequestCheck,
)

logger = logging.getLogger(__name__)

Score = float | None

REASON_CHARS = 500
"""Characters that are kept of a judge's reason: four sentences."""


SHOWN_ANSWER = 200
"""Characters of a function's answer that are shown where it is unusable: enough to know it by."""


class Judged(NamedTuple):
    """A score, and why, if the judge said so."""

    score: Score = None
    reason: str = ""


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
        attempt: 1, or 2 if the question is asked again.
        metadata: Where in the search the question stands, for traces.
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
    attempt: int = 1
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tool_names: Sequence[str] = ()
    tried: Sequence[str] = ()

    def to_dict(self, **more: Any) -> dict[str, Any]:
        """What all questions show, as JSON-like data for a prompt, and more; empty parts are left out.

        The request stands by itself only where the history does not tell it.
        """
        told = any(part_of(entry) == "request" and entry.get("text") == self.query for entry in self.history)
        document = {
            "request": None if told else self.query,
            "history": self.history,
            "tools": self.tools,
            "tool_names": list(self.tool_names),
            "tried": self.tried,
            **more,
        }
        return {key: value for key, value in document.items() if value not in (None, [], ())}


class Judge(Protocol):
    """A function that scores calls; it may be a coroutine function.

    For stage `"pre"` it returns a number in [0, 1], or a pair of one and the reason, for each call, as a sequence in
    the order of `request.calls` or as a mapping from their ids. For stage `"post"` it returns `(r_post, goal)`, each
    in [0, 1], or `(r_post, goal, reason)`. A bare `r_post` will do where goal scores are switched off; otherwise only
    the model that runs out of calls tells the search that it is done.
    """

    def __call__(self, request: JudgeRequest) -> Any | Awaitable[Any]:
        """Score the calls of a request."""


@dataclass(frozen=True, slots=True)
class ModelEvaluator:
    """A chat model as a judge; candidates are shown in a seeded order, so that none gains from its place."""

    model: BaseChatModel
    seed: int = 0
    prompts: Prompts = DEFAULT_PROMPTS
    calls_per_question: int = ATTEMPTS

    def pre(self, request: JudgeRequest, meter: Meter) -> Flow[list[Judged]]:
        """Score candidates in one question; those without a usable score are asked about a second time."""
        wanted = {call.id for call in request.calls}
        shown = list(request.calls)
        random.Random(f"{self.seed}:{request.calls[0].id}").shuffle(shown)  # noqa: S311 - no secret depends on it
        document = request.to_dict(candidates=[call.to_dict() for call in shown])
        question = StructuredQuestion(
            self.model,
            CandidateScores,
            document_prompt(self.prompts.pre_judge, document),
            usable=lambda reply: wanted <= set(_scores_by_id(reply)),
            config=inner_config("pre_judge", request.metadata),
        )
        scores: dict[str, Judged] = {}
        for reply in (yield from question.ask(meter)):
            scores = {**_scores_by_id(reply), **scores}
        return [scores.get(call.id, Judged()) for call in request.calls]

    def post(self, request: JudgeRequest, meter: Meter) -> Flow[tuple[Judged, Score]]:
        """Score an observation, and the request; asked a second time if the reply is unusable."""
        call = request.calls[0]
        came = {"executed": False} if call.deferred else {"observation": request.observation}
        document = request.to_dict(call=call.to_dict()) | came
        question = StructuredQuestion(
            self.model,
            ObservationScore,
            document_prompt(self.prompts.post_judge, document),
            usable=lambda reply: as_score(reply.get("score")) is not None and as_score(reply.get("goal")) is not None,
            config=inner_config("post_judge", request.metadata),
        )
        judged, goal = Judged(), None
        for reply in (yield from question.ask(meter)):
            judged = _judged(reply.get("score"), reply.get("reason")) if judged.score is None else judged
            goal = as_score(reply.get("goal")) if goal is None else goal
        return judged, goal

    def check(self, request: JudgeRequest, meter: Meter) -> Flow[Standing]:
        """Say what of the request is not done yet, where the assistant would answer now; asked again if unusable."""
        document = replace(request, tools=(), tried=()).to_dict(answer=request.answer)
        question = StructuredQuestion(
            self.model,
            RequestCheck,
            document_prompt(self.prompts.check, document),
            usable=lambda reply: standing_of(reply).goal is not None,
            config=inner_config("check", request.metadata),
        )
        replies = yield from question.ask(meter)
        return standing_of(replies[-1]) if replies else Standing()


@dataclass(frozen=True, slots=True)
class FunctionEvaluator:
    """A user's function as a judge; it costs no model calls that the planner could count."""

    judge: Judge
    calls_per_question: int = 0

    def pre(self, request: JudgeRequest, meter: Meter) -> Flow[list[Judged]]:
        """Score candidates; what is unusable is asked for a second time."""
        scores: dict[str, Judged] = {}
        for attempt in range(1, ATTEMPTS + 1):
            answer = yield from self._ask(request, attempt)
            scores = {**_scores_by_position(request.calls, answer), **scores}
            if all(call.id in scores for call in request.calls):
                break
            _note(meter, answer, "a number in [0, 1] for each call")
        return [scores.get(call.id, Judged()) for call in request.calls]

    def post(self, request: JudgeRequest, meter: Meter) -> Flow[tuple[Judged, Score]]:
        """Score an observation, and the request; asked a second time if the answer is unusable."""
        judged, goal = Judged(), None
        for attempt in range(1, ATTEMPTS + 1):
            answer = yield from self._ask(request, attempt)
            parts: list[Any] = [*answer] if isinstance(answer, tuple | list) else [answer]
            reward, goal_score, reason = [*parts, None, None, None][:3]
            judged, goal = _judged(reward, reason), as_score(goal_score)
            if judged.score is not None:
                break
            _note(meter, answer, "r_post or (r_post, goal), each in [0, 1]")
        return judged, goal

    def check(self, request: JudgeRequest, meter: Meter) -> Flow[Standing]:
        """Take the goal score of the latest call; a function cannot be asked where none was made."""
        if not request.calls:
            return Standing()
        _, goal = yield from self.post(request, meter)
        return Standing(goal)

    def _ask(self, request: JudgeRequest, attempt: int) -> Flow[Any]:
        try:
            return (yield FunctionStep(self.judge, replace(request, attempt=attempt)))
        except Exception as error:  # noqa: BLE001 - a judge that fails leaves its candidates unscored
            return error


Evaluator = ModelEvaluator | FunctionEvaluator
"""A judge with the checks around it, as the search asks it for scores."""


def resolve_judge(judge: str | BaseChatModel | Judge, *, seed: int, prompts: Prompts = DEFAULT_PROMPTS) -> Evaluator:
    """Turn what a user passed as `judge`, a chat model, the name of one, or a function, into an evaluator."""
    if isinstance(judge, str) or is_chat_model(judge):
        return ModelEvaluator(resolve_model(judge), seed, prompts)
    if callable(judge):
        return FunctionEvaluator(judge)
    msg = f"judge must be a chat model, the name of one, or a function, got {type(judge).__name__}."
    raise ConfigurationError(msg)


def _note(meter: Meter, answer: Any, expected: str) -> None:
    """Say what is wrong with a function's answer, or that there is none because it raised."""
    failed = isinstance(answer, Exception)
    shown = as_text(answer, repr)[:SHOWN_ANSWER]
    problem = f"raised {shown}" if failed else f"returned {shown}; expected {expected}"
    if (said := f"the judge {problem}") not in meter.problems:  # it is asked twice
        logger.warning("No score came of a question: %s", said)
    meter.problems.append(said)


def _judged(score: Any, reason: Any = None) -> Judged:
    return Judged(as_score(score), one_line(reason, REASON_CHARS) if isinstance(reason, str) else "")


def _scores_by_id(reply: Mapping[str, Any]) -> dict[str, Judged]:
    """The usable scores of a model's reply; an id that stands twice has none."""
    listed = entries if isinstance(entries := reply.get("scores"), list) else []
    entries = (entry for entry in listed if isinstance(entry, dict))
    return _unique((str(entry.get("id")), _judged(entry.get("score"), entry.get("reason"))) for entry in entries)


def _scores_by_position(calls: Sequence[JudgedCall], answer: Any) -> dict[str, Judged]:
    """The usable scores of a function's answer: a mapping by id, or a sequence in the order of the calls."""
    if isinstance(answer, Mapping):
        return _unique((str(key), _taken(value)) for key, value in answer.items())
    if len(calls) == 1 and (only := _taken(answer)).score is not None:
        return {calls[0].id: only}
    if isinstance(answer, Iterable) and not isinstance(answer, str):
        values = list(answer)
        pairs = zip(calls, values, strict=True) if len(values) == len(calls) else ()
        return _unique((call.id, _taken(value)) for call, value in pairs)
    return {}


def _taken(value: Any) -> Judged:
    """A function's score of a call, alone or with the reason."""
    match value:
        case [score, str(reason)]:
            return _judged(score, reason)
    return _judged(value)


def _unique(pairs: Iterable[tuple[str, Judged]]) -> dict[str, Judged]:
    scores: dict[str, Judged] = {}
    seen: set[str] = set()
    for key, judged in pairs:
        if key in seen:
            scores.pop(key, None)
        elif judged.score is not None:
            scores[key] = judged
        seen.add(key)
    return scores
