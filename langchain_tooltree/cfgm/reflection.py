"""Reflection: what was found out about an anomaly, and how it is read from a model's reply. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from langchain_tooltree.experience.excerpt import LONGEST_TEXT, shortened

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
    """Read a reply as far as it is of the form that was asked for.

    Args:
        reply: The object that a model has sent: `{"key_information": {"objective", "initial_environment",
            "progress"}, "questions": [{"question", "answer"}], "next_step"}`, or something like it.

    Returns:
        What could be read of it.
    """
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
