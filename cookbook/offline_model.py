"""A small deterministic stand-in for a chat model that works with the planner, driven by a policy. No key, no network.

`OfflineChatModel` reads the planner's ordinary prompts and answers each kind of question from its policy, so that
everything but the intelligence is real. The prompts are no public interface: it goes with this version of the package.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from langchain_core.messages import AIMessage, BaseMessage

from langchain_tooltree.messages.content import describe_content
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.kinds import classify_chat_message, is_tool_result
from langchain_tooltree.messages.visible_messages import PLANNER_NOTE
from langchain_tooltree.testing import ChatDouble, Response
from langchain_tooltree.text import digest
from langchain_tooltree.tooltree import prompts
from langchain_tooltree.tooltree.completeness_report import (
    REPORT_AND_CALL_PROMPT,
    REPORT_AND_UNDO_PROMPT,
    REPORT_PROMPT,
)

FULFILLED = (
    0.5  # goal score from which an `OfflineChatModel` says that a request is fulfilled
)


@dataclass(frozen=True, slots=True)
class Made:
    """A call that a question tells of; its observation is `None` if it was not run."""

    tool: str
    arguments: Mapping[str, Any]
    observation: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One question of the planner, read from its prompt: to score a call `pre` or `post` execution, for example.

    A `step` is what the agent itself would do now, calls or the answer, in the second attempt told what its answer left
    open; `others` asks for other calls; a `check` asks what an answer leaves undone.
    """

    kind: Literal["plan", "step", "others", "propose", "pre", "post", "check", "answer"]
    request: str  # the user's
    path: tuple[Made, ...] = ()  # the calls made since the request, in order
    tools: tuple[
        str, ...
    ] = ()  # names of the tools that may be called, to `plan`, `step` and `propose`
    attempt: int = 1  # how often this is now asked, from 1
    count: int = 1  # how many calls are wanted, to `propose`


class Policy(Protocol):
    """What an `OfflineChatModel` thinks.

    Four methods more are used where a policy has them. `act(question)` returns all the calls that the agent makes now
    in one reply, in the form of `propose`; without it, the first call of `propose` is made. `missing(question)` returns
    what the request still lacks, in words; without it, an agent that stops says that nothing is missing, and a check
    goes by the goal score. `may_miss(question)` returns calls that may still be needed where the agent stops, as
    triples of tool, arguments and confidence; without it, none are named. `wrong(question)` returns the number, from 1,
    of the first step that should not have been made, or `None`; it is asked for in a sandbox.
    """

    def propose(self, question: Question) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """The calls to offer, as pairs of tool and arguments; none if the request is fulfilled."""

    def score_call(self, question: Question, call: Made) -> float:
        """r_pre of a candidate, in [0, 1]."""

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """r_post of a call and the goal score after it, each in [0, 1]."""

    def answer(self, question: Question) -> str:
        """The final answer."""


class OfflineChatModel(ChatDouble):
    """A small deterministic stand-in for a chat model, driven by a policy.

    It is no model: it knows only what its policy knows. But it speaks through the ordinary prompts, tool calling and
    structured output, so a search with it runs every production path.

    Args:
        policy: Answers the planner's questions.
    """

    policy: Any

    def _respond(
        self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]
    ) -> Response:
        question, judged = read_question(messages, tools)
        reply = self._reply(question, judged, messages, tools)
        if isinstance(
            reply, AIMessage
        ):  # a call's id is unique in a conversation, and the same in each run of it
            prompt = digest(
                "\n".join(f"{each.type}: {each.text}" for each in messages), 12
            )
            calls = [
                {**call, "id": f"call_{prompt}_{at}"}
                for at, call in enumerate(reply.tool_calls)
            ]
            reply = reply.model_copy(update={"tool_calls": calls})
        return reply

    def _reply(  # noqa: PLR0911 - one for each kind of question
        self,
        question: Question,
        judged: Sequence[tuple[str, Made]],
        messages: list[BaseMessage],
        tools: Sequence[Mapping[str, Any]],
    ) -> Response:
        policy: Policy = self.policy
        match question.kind:
            case "step":
                return self._step(question, Conversation(messages).instructions)
            case "others":
                calls = [Made(*call) for call in policy.propose(question)]
                calls.sort(
                    key=lambda call: policy.score_call(question, call), reverse=True
                )
                return _calling(
                    [(call.tool, call.arguments) for call in calls],
                    "There is nothing else to try.",
                )
            case "propose":
                return self._candidates(question, tools)
            case "pre":
                scores = [
                    {
                        "id": key,
                        "reason": "",
                        "score": policy.score_call(question, call),
                    }
                    for key, call in judged
                ]
                return {
                    "scores": scores,
                    "score": scores[0]["score"],
                }  # in either form, of one or several calls
            case "post":
                score, goal = policy.score_observation(question, judged[0][1])
                return {"reason": "", "score": score, "goal": goal}
            case "check":
                missing = self._missing(question)
                return {
                    "missing": missing,
                    "fulfilled": not missing
                    and self._latest_scores(question)[1] >= FULFILLED,
                }
            case "plan":
                return {
                    "domains": [],
                    "tools": [
                        {"name": name, "relevance": 1.0} for name in question.tools
                    ],
                }
        return policy.answer(question)

    def _step(self, question: Question, instructions: str) -> Response:
        """All the calls of the agent's next reply, or its answer, which begins with its report if that is asked for."""
        if calls := self._ask("act", question, self.policy.propose(question)[:1]):
            return _calling(calls)
        report: dict[str, Any] = {
            "missing": "; ".join(self._missing(question)) or "nothing"
        }
        if REPORT_AND_CALL_PROMPT in instructions:
            named = self._ask("may_miss", question, ())
            report["call"] = next(
                ({"name": tool, "args": dict(args)} for tool, args, _ in named), None
            )
        elif REPORT_AND_UNDO_PROMPT in instructions:
            report["wrong"] = self._ask("wrong", question, None)
        return (
            f"{json.dumps(report, ensure_ascii=False)}\n{self.policy.answer(question)}"
        )

    def _candidates(
        self, question: Question, tools: Sequence[Mapping[str, Any]]
    ) -> AIMessage:
        """Candidates, with scores and an assessment where the tools have room for them."""
        forms = {tool["function"]["name"]: tool["function"] for tool in tools}
        calls: list[tuple[str, Mapping[str, Any]]] = []
        for tool, arguments in self.policy.propose(question):
            confidence = (
                forms.get(tool, {})
                .get("parameters", {})
                .get("properties", {})
                .get(prompts.CONFIDENCE, {})
            )
            if confidence.get("description") == prompts.CONFIDENCE_DESCRIPTION:
                score = self.policy.score_call(question, Made(tool, arguments))
                calls.append((tool, {**arguments, prompts.CONFIDENCE: score}))
            else:
                calls.append((tool, arguments))
        for name, form in forms.items():
            if form.get("description") == prompts.ASSESS_DESCRIPTION:
                reward, goal = self._latest_scores(question)
                missing = self._missing(question)
                fulfilled = (
                    not missing
                    and goal >= FULFILLED
                    and (bool(question.path) or not calls)
                )
                assessment = {
                    "last_result": reward,
                    "missing": missing,
                    "fulfilled": fulfilled,
                }
                fields = form["parameters"]["properties"]
                calls.append(
                    (
                        name,
                        {
                            field: value
                            for field, value in assessment.items()
                            if field in fields
                        },
                    )
                )
        return _calling(calls, "Nothing is left to do.")

    def _latest_scores(self, question: Question) -> tuple[float, float]:
        """r_post and the goal score of the latest call of the path; without one, nothing speaks against being done."""
        if not question.path:
            return 1.0, 1.0
        before = replace(question, kind="post", path=question.path[:-1])
        scores: tuple[float, float] = self.policy.score_observation(
            before, question.path[-1]
        )
        return scores

    def _missing(self, question: Question) -> list[str]:
        return [*self._ask("missing", question, ())]

    def _ask(self, method: str, question: Question, otherwise: Any) -> Any:
        """What a method says that a policy need not have."""
        return (
            getattr(self.policy, method)(question)
            if hasattr(self.policy, method)
            else otherwise
        )


def _calling(
    calls: Sequence[tuple[str, Mapping[str, Any]]], otherwise: str = ""
) -> AIMessage:
    tool_calls = [
        {"name": tool, "args": dict(args), "id": f"call_{at}"}
        for at, (tool, args) in enumerate(calls)
    ]
    return AIMessage("" if tool_calls else otherwise, tool_calls=tool_calls)


_OPENINGS: dict[str, Literal["plan", "propose", "pre", "post", "check"]] = {
    prompts.PROPOSE_PROMPT: "propose",
    prompts.CANDIDATES_PROMPT: "propose",
    prompts.DRAFT_PROMPT: "propose",
    prompts.DEFAULT_PRE_JUDGE_PROMPT: "pre",
    prompts.DEFAULT_POST_JUDGE_PROMPT: "post",
    prompts.PAPER_PRE_JUDGE_PROMPT: "pre",
    prompts.PAPER_POST_JUDGE_PROMPT: "post",
    prompts.DEFAULT_CHECK_PROMPT: "check",
    prompts.PLAN_PROMPT: "plan",
}


def read_question(
    messages: Sequence[BaseMessage], tools: Sequence[Mapping[str, Any]] = ()
) -> tuple[Question, list[tuple[str, Made]]]:
    """Understand a prompt of the planner, with the tools bound in OpenAI's form.

    Returns the question, and the calls to be scored with their ids.
    """
    system = (
        str(messages[0].text) if messages else ""
    )  # a prompt that begins with another message is the user's own
    first_line = system.split("\n", 1)[0]
    kind = next(
        (
            kind
            for opening, kind in _OPENINGS.items()
            if opening.split("\n", 1)[0] == first_line
        ),
        None,
    )
    forms = [tool["function"] for tool in tools if "function" in tool]
    names = tuple(
        form["name"]
        for form in forms
        if form.get("description") != prompts.ASSESS_DESCRIPTION
    )
    if kind in {"pre", "post", "check", "plan"}:
        return _read_document(
            kind, json.loads(messages[1].text), attempt=len(messages) // 2
        )
    note = (
        str(messages[-1].text)
        if messages and str(messages[-1].text).startswith(PLANNER_NOTE)
        else ""
    )
    conversation = Conversation(messages[:-1] if note else messages)
    request = conversation.goal
    # What a model reads of the results: with the advice in them.
    results = {
        each.tool_call_id: describe_content(each.content)
        for each in conversation.messages
        if is_tool_result(each)
    }
    path = tuple(
        Made(call.tool, call.arguments or {}, results.get(call.call_id or ""))
        for call in conversation.calls
    )
    if note.startswith(prompts.OTHERS_PROMPT.partition("{")[0]):
        return Question("others", request, path, names), []
    lines = (REPORT_PROMPT, REPORT_AND_CALL_PROMPT, REPORT_AND_UNDO_PROMPT)
    if kind is None and any(line in conversation.instructions for line in lines):
        return Question("step", request, path, names, attempt=2 if note else 1), []
    if kind is None:
        return Question("answer", request, path), []
    attempt = _number_after("This is attempt ", system)
    return Question(
        "propose", request, path, names, attempt, _number_after("Offer up to ", system)
    ), []


def _read_document(
    kind: Any, document: Mapping[str, Any], *, attempt: int
) -> tuple[Question, list[tuple[str, Made]]]:
    path: list[Made] = []
    request = ""
    for entry in document.get("history", []):
        if classify_chat_message(entry) == "request":
            path, request = [], entry["text"]
        elif "call" in entry:
            path.append(Made(entry["call"]["tool"], entry["call"]["arguments"]))
        elif "observation" in entry and path:
            path[-1] = Made(path[-1].tool, path[-1].arguments, entry["observation"])
    tools = tuple(tool["name"] for tool in document.get("tools", []))
    calls = document.get("candidates") or (
        [document["call"]] if "call" in document else []
    )
    observation = document.get("observation")
    judged = [
        (call["id"], Made(call["tool"], call["arguments"], observation))
        for call in calls
    ]
    return Question(
        kind, document.get("request", request), tuple(path), tools, attempt
    ), judged


def _number_after(marker: str, text: str) -> int:
    match = re.search(rf"{marker}(\d+)", text)
    return int(match[1]) if match else 1
