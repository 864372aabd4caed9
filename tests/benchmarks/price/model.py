"""One model that plays the plain agent and answers the planner's questions, from one and the same knowledge.

It knows the right steps of its task. As an agent it calls the next step, all calls of it in one reply, and answers once
nothing is missing. Asked by the planner, it offers and scores calls by the same steps. A model that errs does so once,
in the first reply that is asked of it at that point, as agent or as proposer. As a judge it is right, also where it
stops too early and is asked what is missing, in words or in calls: a careful reader found that at 21 of 24 early stops
of real models, and named the right call first at 20.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from pydantic import PrivateAttr

from cookbook.offline_model import Made, OfflineChatModel, Question, read_question
from tests.benchmarks.price.tasks import Call, Task

NOW, LATER, WRONG = 0.95, 0.6, 0.1
"""Scores of a call that is right now, right but too early, and wrong, and of a goal reached or not. A real model gave
.93, .61 and .38 to the three kinds of calls; this one is surer of what is wrong."""

LATENCY = 1.0
"""Seconds that a model call takes on the virtual clock."""


class Worker:
    """The policy of the model for one run of a task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._erred = False

    def act(self, question: Question) -> list[tuple[str, Mapping[str, Any]]]:
        """The calls of the next reply."""
        return [
            (call.tool, call.arguments)
            for call in self.next_calls(question.path, question.tools)
        ]

    def missing(self, question: Question) -> list[str]:
        """What is not done, without error."""
        return [call.key for call in self._undone(question.path)]

    def may_miss(
        self, question: Question
    ) -> list[tuple[str, Mapping[str, Any], float]]:
        """The calls that come next where the model stops too early."""
        return [
            (call.tool, call.arguments, NOW)
            for call in self._missing(question.path, self._step(question.path))
        ]

    def wrong(self, question: Question) -> int | None:
        """The step from which nothing leads to the goal any more, by its number."""
        keys = [Call(made.tool, made.arguments).key for made in question.path]
        mistake = self.task.mistake
        return (
            keys.index(mistake.call.key) + 1
            if mistake and mistake.call and self._lost(question.path)
            else None
        )

    def next_calls(
        self, path: Sequence[Made], tools: Sequence[str] | None = None
    ) -> list[Call]:
        """The calls of the next reply, with the shown tools only; none if the model thinks that all is done."""
        step, mistake = self._step(path), self.task.mistake
        calls = self._missing(path, step)
        if (
            mistake
            and not self._erred
            and mistake.after == step
            and not self._strayed(path)
        ):
            wrong = [mistake.call] if mistake.call else []
            if not wrong or tools is None or wrong[0].tool in tools:
                self._erred = True
                calls = wrong
        return [call for call in calls if tools is None or call.tool in tools]

    def propose(self, question: Question) -> list[tuple[str, Mapping[str, Any]]]:
        """The calls of the next reply, as candidates; what is not done where no call leads to the goal any more."""
        lost = self._undone(question.path)[:1] if self._lost(question.path) else []
        return (self.act(question) or [(call.tool, call.arguments) for call in lost])[
            : question.count
        ]

    def score_call(self, question: Question, call: Made) -> float:
        """r_pre, without error."""
        step, key = self._step(question.path), Call(call.tool, call.arguments).key
        if key in {each.key for each in self._missing(question.path, step)}:
            return NOW
        later = {each.key for steps in self.task.steps[step + 1 :] for each in steps}
        return LATER if key in later and not self._lost(question.path) else WRONG

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """r_post as r_pre, and whether all is done."""
        path = [*question.path, call]
        done = self._step(path) == len(self.task.steps) and not self._lost(path)
        return self.score_call(question, call), NOW if done else WRONG

    def answer(self, question: Question) -> str:
        """All that was observed."""
        return (
            " ".join(made.observation or "" for made in question.path)
            or "Hello! What can I do for you?"
        )

    def _step(self, path: Sequence[Made]) -> int:
        """How many steps are complete."""
        made = _keys(path)
        return next(
            (
                at
                for at, calls in enumerate(self.task.steps)
                if any(call.key not in made for call in calls)
            ),
            len(self.task.steps),
        )

    def _undone(self, path: Sequence[Made]) -> list[Call]:
        """All calls of the task that are still to be made."""
        made = _keys(path)
        return [
            call for step in self.task.steps for call in step if call.key not in made
        ]

    def _missing(self, path: Sequence[Made], step: int) -> list[Call]:
        if step == len(self.task.steps) or self._lost(path):
            return []
        made = _keys(path)
        return [call for call in self.task.steps[step] if call.key not in made]

    def _strayed(self, path: Sequence[Made]) -> bool:
        mistake = self.task.mistake
        return (
            mistake is not None
            and mistake.call is not None
            and mistake.call.key in _keys(path)
        )

    def _lost(self, path: Sequence[Made]) -> bool:
        return (
            self._strayed(path)
            and self.task.mistake is not None
            and self.task.mistake.fatal
        )


class CountingModel(OfflineChatModel):
    """Counts its calls and their tokens; each call takes a second of the event loop's clock.

    Attributes:
        calls: Replies given.
        tokens: Tokens sent and received, four characters each.
    """

    _counts: Counter[str] = PrivateAttr(
        default_factory=Counter
    )  # which copies of the model share

    @property
    def calls(self) -> int:
        return self._counts["calls"]

    @property
    def tokens(self) -> int:
        return self._counts["tokens"]

    def _respond(
        self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]
    ) -> Any:
        question, _ = read_question(messages, tools)
        calls = (
            self.policy.next_calls(question.path) if question.kind == "answer" else []
        )
        if not calls:
            return super()._respond(messages, tools)
        at = len(question.path)
        asked = [
            {"name": c.tool, "args": dict(c.arguments), "id": f"call_{at}_{n}"}
            for n, c in enumerate(calls)
        ]
        return AIMessage("", tool_calls=asked)

    def _message(
        self, messages: list[BaseMessage], options: Mapping[str, Any]
    ) -> AIMessage:
        reply = super()._message(messages, options)
        self._counts["calls"] += 1
        self._counts["tokens"] += reply.usage_metadata["total_tokens"]
        return reply

    async def _agenerate(
        self, messages: list[BaseMessage], *rest: Any, **options: Any
    ) -> ChatResult:
        result = await super()._agenerate(messages, *rest, **options)
        await asyncio.sleep(LATENCY)
        return result


class GradedModel(CountingModel):
    """The same model under deepagents' `RubricMiddleware`: it takes up its work again where the grader sent it back."""

    def _respond(
        self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]
    ) -> Any:
        work = [
            message
            for message, following in pairwise([*messages, None])
            if message is not None
            and not _is_feedback(message)
            and not (following and _is_feedback(following))
        ]
        return super()._respond(work, tools)


class Grader(CountingModel):
    """The grader of `RubricMiddleware`, which is always right: it knows the world and the answer of the task.

    Attributes:
        is_done: Says of a transcript whether the task is solved.
    """

    is_done: Callable[[str], bool]

    def _respond(
        self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]
    ) -> Any:
        done = self.is_done(messages[-1].text)
        criterion = {"name": "All that was asked for is done.", "passed": done}
        if not done:
            criterion["gap"] = "Something that was asked for is not done yet."
        verdict = {
            "result": "satisfied" if done else "needs_revision",
            "explanation": "All is done." if done else "Not all is done.",
            "criteria": [criterion],
        }
        return AIMessage(
            "",
            tool_calls=[
                {"name": tools[0]["function"]["name"], "args": verdict, "id": "verdict"}
            ],
        )


def _is_feedback(message: BaseMessage) -> bool:
    return message.additional_kwargs.get("lc_source") == "rubric_grader"


def _keys(path: Sequence[Made]) -> set[str]:
    return {Call(made.tool, made.arguments).key for made in path}
