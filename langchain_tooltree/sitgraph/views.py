"""What a state is, where nobody summed it up: several views of the dialogue so far, at no cost. Pure."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from langchain_tooltree.experience.records import text_of
from langchain_tooltree.sitgraph.transitions import Moment

TEXT_VIEWS = ("news", "message", "request", "reply", "observation")
"""Views that are texts: what the user said since the last call, said last and said at all; what the agent said last;
what the last call brought."""

VIEWS = (*TEXT_VIEWS, "calls")
"""All views; `calls` is a bag of features of the calls so far and of how the dialogue went on since."""

MAX_CHARACTERS = 8_000
"""Of a longer text, the first and the last half as many are read."""

MAX_COUNT = 4
MAX_LEAVES = 50
MAX_VALUE = 40
RECENT = 1.5
"""Weight of what happened last among the features of the calls."""


def texts_of(moment: Moment) -> dict[str, str]:
    """The text views of a moment.

    Args:
        moment: A point of a dialogue.

    Returns:
        A text for each name of `TEXT_VIEWS`; empty where there is nothing to say.
    """
    requests = [text_of(message.get("content")) for message in moment.messages if message.get("role") == "user"]
    replies = (text_of(each.get("content")) for each in reversed(moment.messages) if each.get("role") == "assistant")
    observations = (step.outcome.text for step in reversed(moment.steps) if step.outcome)
    texts = {
        "news": " ".join(requests[len(requests) - _messages_since(moment) :]),
        "message": requests[-1] if requests else "",
        "request": " ".join(requests),
        "reply": next(filter(None, replies), ""),
        "observation": next(observations, ""),
    }
    return {view: shortened(text) for view, text in texts.items()}


def shortened(text: str) -> str:
    """A text of `MAX_CHARACTERS` at the most: its beginning and its end."""
    half = MAX_CHARACTERS // 2
    return text if len(text) <= MAX_CHARACTERS else f"{text[:half]} {text[-half:]}"


def features_of(moment: Moment) -> dict[str, float]:
    """The view of the calls: which tools, how often, in what order, with what kind of arguments.

    Args:
        moment: A point of a dialogue.

    Returns:
        Weights by feature. Arguments count by their shape (`R-4711` and `R-12` are alike), so that what a call was
        about is seen, and which one in particular is not.
    """
    tools = [step.tool for step in moment.steps]
    features: dict[str, float] = {}
    for tool, count in Counter(tools).items():
        features[f"called {tool}"] = 1.0
        features[f"called {tool} {min(count, MAX_COUNT)} times"] = 1.0
    features[f"last {tools[-2:]}"] = RECENT
    features[f"latest {tools[-3:]}"] = RECENT
    features[f"{min(_messages_since(moment), MAX_COUNT - 1)} messages since"] = RECENT
    for step in moment.steps:
        for feature in _argument_features(step.tool, step.arguments):
            features[f"argument {feature}"] = 1.0
    if moment.steps:
        for feature in _argument_features(moment.steps[-1].tool, moment.steps[-1].arguments):
            features[f"last argument {feature}"] = 1.0
    return features


def _messages_since(moment: Moment) -> int:
    """How many messages the user has sent since the last observation."""
    count = 0
    for message in reversed(moment.messages):
        if message.get("role") in {"tool", "function"}:
            break
        count += message.get("role") == "user"
    return count


def _argument_features(tool: str, arguments: Mapping[str, Any] | None) -> list[str]:
    return [f"{tool} {path} {shape}" for path, shape in islice(_leaves(arguments or {}, ""), MAX_LEAVES)]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(part, f"{path}.{key}")
    elif isinstance(value, list):
        yield f"{path}.length", str(len(value))
        for part in value:
            yield from _leaves(part, path)
    else:
        yield path, _shape(value)


def _shape(value: Any) -> str:
    """What kind of value it is: digits are alike, and so are long texts."""
    if isinstance(value, str):
        return re.sub(r"\d+", "0", value) if len(value) <= MAX_VALUE else "long"
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else json.dumps(value, default=str)
    )
