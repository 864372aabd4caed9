"""Reflection: what was found out about an anomaly, and how it is read from a model's reply. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from langchain_tooltree.experience.excerpt import LONGEST_TEXT, shortened

LONGEST_ANSWER = 500
"""Characters that are kept of one piece of key information, one question or one answer."""

MOST_QUESTIONS = 5
"""Questions that are kept."""

_ASKED_FOR = ("key_information", "objective", "initial_environment", "progress", "questions")

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
            A copy.
        """
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
    given = reply.get("key_information")
    # Some models leave out the inner object, and others write a single text in its place.
    key_information: Mapping[str, Any] = given if isinstance(given, Mapping) else {"progress": given, **reply}
    return Reflection(
        objective=_text(key_information.get("objective")),
        initial_environment=_text(key_information.get("initial_environment")),
        progress=_text(key_information.get("progress")),
        questions=tuple(_pairs(reply.get("questions")))[:MOST_QUESTIONS],
        next_step=_text(reply.get("next_step", _only_text(reply)), LONGEST_TEXT),
    )


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
