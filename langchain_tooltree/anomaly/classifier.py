"""The user's own classifier of observations: a function, or a chat model."""

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, Field

from langchain_tooltree.anomaly.rules import Anomaly, noted
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.records import Step
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.models import (
    ATTEMPTS,
    Meter,
    document_prompt,
    filled_in,
    inner_config,
    is_chat_model,
    resolve_model,
)
from langchain_tooltree.text import compact_json, shortened

logger = logging.getLogger(__name__)


DEFAULT_CLASSIFIER_PROMPT = """\
You watch an assistant that works with tools. You get one JSON document with the observations that its latest calls \
brought back. Does one of them show that something is off: the call was refused or had no effect, it did not do what \
its arguments ask for, or what came back cannot be true?

That a result is empty, short, or bad news is not off by itself. Errors that an observation only tells of, as a log or \
an e-mail does, are not off either.

First say in one sentence what speaks for and against it, then decide."""

LIKELY = 0.5  # the probability from which on a function says yes: more likely than not
DEFAULT_CONFIDENCE = 0.7  # where a classifier gives none: below that of every rule, since none has found anything

ClassifierAnswer = bool | float | str | None
ClassifierFunction = Callable[[Step], ClassifierAnswer | Awaitable[ClassifierAnswer]]
"""A function, sync or async, that gets a call with its observation (`step.outcome.text`). It returns whether that is
anomalous: a bool, a probability, a text that says what is off, or `None` for no."""

Classify = Callable[[Sequence[Step]], Flow[Anomaly | None]]


class ClassifierForm(BaseModel):
    """What a model is asked to fill in."""

    reason: str = Field(description="What speaks for and against it, in one sentence")
    anomalous: bool
    observation: int = Field(default=1, description="Number of the observation that is off, from 1")


def resolve_classifier(classifier: "ClassifierFunction | BaseChatModel | str") -> Classify:
    """Make a flow of what a user passed as `classifier`; a `ConfigurationError` if it is nothing of the kind."""
    if isinstance(classifier, str) or is_chat_model(classifier):
        model = resolve_model(classifier)
        return lambda steps: _ask_model(model, steps)
    if callable(classifier):
        function: ClassifierFunction = classifier
        return lambda steps: _ask_function(function, steps)
    msg = f"classifier must be a function, a chat model or its name, got {type(classifier).__name__}."
    raise ConfigurationError(msg)


def _ask_function(function: ClassifierFunction, steps: Sequence[Step]) -> Flow[Anomaly | None]:
    for step in steps:
        answer = yield FunctionStep(function, step)
        anomalous, reason, confidence = _understood(answer)
        if anomalous:
            return noted(step, "classified", f"The classifier says: {reason or 'yes'}.", confidence)
    return None


def _understood(answer: Any) -> tuple[bool, str, float]:
    match answer:
        case None:
            return False, "", 0.0
        case bool() | np.bool_():
            return bool(answer), "", DEFAULT_CONFIDENCE
        case str():
            return bool(answer.strip()), answer.strip(), DEFAULT_CONFIDENCE
        case int() | float() | np.number() if 0 <= float(answer) <= 1 or math.isnan(float(answer)):
            return float(answer) >= LIKELY, "", float(answer)
    ways = "a bool, a probability between 0 and 1, a text that says what is off, or None"
    msg = f"A classifier must return {ways}; got {type(answer).__name__}: {answer!r:.80}."
    raise ConfigurationError(msg)


def _ask_model(model: BaseChatModel, steps: Sequence[Step]) -> Flow[Anomaly | None]:
    """Ask about all observations at once. A model that gives no usable reply has noticed nothing."""
    shown = [
        {
            "number": number,
            "tool": step.tool,
            "arguments": shortened(compact_json(step.arguments)),
            "observation": shortened(step.outcome.text if step.outcome is not None else ""),
        }
        for number, step in enumerate(steps, start=1)
    ]
    meter = Meter(allowance=ATTEMPTS)
    asked = document_prompt(DEFAULT_CLASSIFIER_PROMPT, {"observations": shown})
    reply = yield from filled_in(model, ClassifierForm, asked, inner_config("classify", {}), meter)
    if reply is None:
        logger.warning("Observations were not classified: %s", "; ".join(meter.problems) or "the model was not asked")
        return None
    step = steps[reply.observation - 1] if 1 <= reply.observation <= len(steps) else steps[0]
    remark = f"The classifier says: {reply.reason or 'yes'}."
    return noted(step, "classified", remark, DEFAULT_CONFIDENCE) if reply.anomalous else None
