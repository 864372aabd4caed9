"""The correction: a reflection that reaches the model as part of the observation that it is about.

So calls and observations stay paired, whatever the provider. It is marked as reference material, and no later record
of the conversation holds it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_tooltree.cfgm.detection.anomaly import Anomaly, AnomalyKind
from langchain_tooltree.cfgm.reflection import Reflection
from langchain_tooltree.experience.excerpt import shortened
from langchain_tooltree.experience.reference import TAG, as_reference

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
    """An observation with what was found out about it.

    Args:
        message: The observation.
        anomaly: What is off.
        reflection: What was found out; `None` if nothing was, which is noted and not shown.

    Returns:
        A copy in which the correction stands at the end of the content, and a mark in `response_metadata`:
        `{"tooltree": {"anomaly": {...}, "reflected": bool}}`. All else is the same, the ids included, so that it takes
        the place of the message in the state.
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
    """What the model is told.

    Args:
        anomaly: What is off.
        reflection: What was found out about it.

    Returns:
        What was noticed, the key information, the answers and the corrected next step, as far as they are known.
    """
    return "\n".join(_lines(anomaly, reflection))


def was_reviewed(message: BaseMessage) -> bool:
    """Whether there was a reflection on an observation, be it that it failed."""
    return isinstance(message, ToolMessage) and "reflected" in _mark(message)


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
