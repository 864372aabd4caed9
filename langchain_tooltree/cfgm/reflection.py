"""Reflection: what was found out about an anomaly, read from a reply, and how it reaches the model."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_tooltree.cfgm.anomaly.rules import Anomaly, AnomalyKind
from langchain_tooltree.conversation import is_observation
from langchain_tooltree.experience.reference import TAG, as_reference
from langchain_tooltree.text import LONGEST_TEXT, shortened

LONGEST_ANSWER = 500
"""Characters that are kept of one piece of key information, one question or one answer."""

MOST_QUESTIONS = 5
"""Questions that are kept."""

_ASKED_FOR = ("key_information", "objective", "initial_environment", "progress", "questions")

_NEXT_STEP = (
    "next_step",
    "corrected_next_step",
    "next_action",
    "what_to_do",
    "action",
    "advice",
    "recommendation",
)
"""Under what names models give the next step."""

_REFUSAL = re.compile(
    r"\W*(?:i.m |i am |we.re )?(?:very |really )?sorry\b|\W*i (?:can.t|cannot|am unable to|won.t) (?:help|assist|do)",
    re.IGNORECASE,
)
"""How a model begins that declines; the dots are apostrophes of any kind."""

LONGEST_REFUSAL = 300

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Reflection:
    """What a model made of an anomalous observation (CFGM, Alg. 3).

    What a model has not said is empty. Texts are of bounded length.

    Attributes:
        objective: Key information: what the task wants to have achieved.
        initial_environment: Key information: what was there and known at the beginning.
        progress: Key information: what has been achieved so far, and where things stand.
        questions: Pairs of a question about what went wrong and its answer.
        next_step: The corrected next step.
    """

    objective: str = ""
    initial_environment: str = ""
    progress: str = ""
    questions: tuple[Pair, ...] = ()
    next_step: str = ""

    @property
    def empty(self) -> bool:
        """Whether it says nothing at all."""
        return self == Reflection()

    def ending_in(self, next_step: str) -> "Reflection":
        """The same with another next step.

        Args:
            next_step: A text of any length.

        Returns:
            A copy; the same if the text only declines to say anything.
        """
        if len(next_step) <= LONGEST_REFUSAL and _REFUSAL.match(next_step):
            return self
        return replace(self, next_step=shortened(next_step.strip(), LONGEST_TEXT))

    def to_dict(self) -> dict[str, Any]:
        """The reflection as plain data."""
        return {
            "objective": self.objective,
            "initial_environment": self.initial_environment,
            "progress": self.progress,
            "questions": [{"question": question, "answer": answer} for question, answer in self.questions],
            "next_step": self.next_step,
        }


def read_reflection(reply: Mapping[str, Any]) -> Reflection:
    """What can be read of a reply, which may have other names than were asked for, or lack parts."""
    said = _named(reply)
    if not said.keys() & {*_ASKED_FOR, *_NEXT_STEP}:
        inner = [value for value in said.values() if isinstance(value, Mapping)]
        if len(inner) == 1:  # the whole form under some name
            return read_reflection(inner[0])
    given = said.get("key_information")
    # Some models leave out the inner object, and others write a single text in its place.
    key_information = _named(given) if isinstance(given, Mapping) else {"progress": given, **said}
    next_steps = (said[name] for name in _NEXT_STEP if said.get(name))
    return Reflection(
        objective=_text(key_information.get("objective")),
        initial_environment=_text(key_information.get("initial_environment")),
        progress=_text(key_information.get("progress")),
        questions=tuple(_pairs(said.get("questions")))[:MOST_QUESTIONS],
        next_step=_text(next(next_steps, _only_text(said)), LONGEST_TEXT),
    )


def _named(reply: Mapping[str, Any]) -> dict[str, Any]:
    """A reply with names as they were asked for: "Next Step" is `next_step`."""
    return {re.sub(r"\W+", "_", str(name).strip()).lower(): value for name, value in reply.items()}


def _only_text(reply: Mapping[str, Any]) -> str | None:
    """The text in a reply that holds one and nothing else, under a name that was not asked for."""
    match list(reply.items()):
        case [(name, str(text))] if name not in _ASKED_FOR:
            return text
    return None


def _pairs(said: Any) -> Iterator[Pair]:
    """Questions with their answers, of a list of objects, of pairs, or of an object from questions to answers."""
    for each in said.items() if isinstance(said, Mapping) else said if isinstance(said, list) else ():
        match each:
            case Mapping():
                question, answer = _text(each.get("question")), _text(each.get("answer"))
            case (asked, answered):
                question, answer = _text(asked), _text(answered)
            case _:
                continue
        if answer:  # a question alone helps nobody
            yield question, answer


def _text(said: Any, longest: int = LONGEST_ANSWER) -> str:
    if said is None or isinstance(said, bool):
        return ""
    if isinstance(said, list) and all(isinstance(part, str) for part in said):
        said = "\n".join(said)
    return shortened(
        said.strip() if isinstance(said, str) else json.dumps(said, ensure_ascii=False, default=str), longest
    )


KEY = "tooltree"
"""Key of `response_metadata` under which the mark stands; providers never get to see it."""

SOURCE = "reflection"
NEXT_STEP = "Next step: "

LONGEST_EVIDENCE = 300
"""Characters of the evidence that the model is shown; it has the observation itself above."""

ADVICE = "This is advice from a review of the course so far, and not output of the tool."

NOTICED: Mapping[AnomalyKind, str] = {
    "error": "the tool failed",
    "error_field": "the tool reports an error",
    "phrase": "the action was refused or had no effect",
    "repetition": "the same call has brought the same outcome again and again",
    "cycle": "the same calls come round in a circle",
    "stagnation": "other arguments make no difference to the outcome",
    "unknown_tool": "there is no such tool",
    "drift": "a tool used earlier is not there any more",
    "classified": "something seems to be off",
}


def corrected(message: ToolMessage, anomaly: Anomaly, reflection: Reflection | None) -> ToolMessage:
    """A copy of an observation with the correction at the end of its content, to take its place in the state.

    `response_metadata` gets a mark: `{"tooltree": {"anomaly": {...}, "reflected": bool}}`. Without a reflection, the
    mark is all that is added.
    """
    mark = {"anomaly": anomaly.to_dict(), "reflected": reflection is not None}
    metadata = {**message.response_metadata, KEY: {**_mark(message), **mark}}
    content = message.content
    if reflection is not None:
        added = as_reference(correction_text(anomaly, reflection), source=SOURCE)
        if isinstance(content, str):
            content = f"{content}\n\n{added}" if content else added
        else:
            content = [*content, {"type": "text", "text": added}]
    return message.model_copy(update={"content": content, "response_metadata": metadata})


def correction_text(anomaly: Anomaly, reflection: Reflection) -> str:
    """What was noticed, the key information, the answers and the corrected next step, as far as they are known."""
    return "\n".join(_lines(anomaly, reflection))


def was_reviewed(message: BaseMessage) -> bool:
    """Whether there was a reflection on an observation, or an attempt at one."""
    return is_observation(message) and "reflected" in _mark(message)


def advice_in(message: ToolMessage) -> str:
    """The next step that an observation advises; empty if there was no reflection on it."""
    if not _mark(message).get("reflected"):
        return ""
    last = message.content[-1] if isinstance(message.content, list) else message.content
    text = last.get("text", "") if isinstance(last, dict) else last
    _, _, marked = text.rpartition(f'<{TAG} source="{SOURCE}"')
    _, _, advice = marked.partition(f"\n{NEXT_STEP}")
    return str(advice.rpartition("\n")[0])


def _lines(anomaly: Anomaly, reflection: Reflection) -> Iterator[str]:
    evidence = _on_one_line(shortened(anomaly.evidence, LONGEST_EVIDENCE))
    yield f"Noticed: {NOTICED[anomaly.kind]}" + (f' ("{evidence}").' if evidence else ".")
    yield ADVICE
    for name, text in (
        ("Objective", reflection.objective),
        ("At the beginning", reflection.initial_environment),
        ("So far", reflection.progress),
    ):
        if text:
            yield f"{name}: {_on_one_line(text)}"
    for question, answer in reflection.questions:
        if question:
            yield f"Question: {_on_one_line(question)}"
        yield f"Answer: {_on_one_line(answer)}"
    if reflection.next_step:
        yield f"{NEXT_STEP}{reflection.next_step}"


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _mark(message: ToolMessage) -> Mapping[str, Any]:
    mark = message.response_metadata.get(KEY)
    return mark if isinstance(mark, dict) else {}
