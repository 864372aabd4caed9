"""What a state is, where nobody summed it up: several views of the dialogue so far, at no cost. Pure."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Any

from langchain_tooltree.experience.records import part_of, requests_in, text_of
from langchain_tooltree.sitgraph.transitions import Moment

TEXT_VIEWS = ("news", "message", "request", "reply", "observation")
"""Views that are texts: what the user said since the last call, said last and said at all; what the agent said last;
what the last call brought."""

VIEWS = (*TEXT_VIEWS, "calls")
"""All views; `calls` is a bag of features of the calls so far and of how the dialogue went on since."""

MAX_CHARACTERS = 8_000
"""Of a longer text, the first and the last half as many are read."""

HALF = MAX_CHARACTERS // 2

MAX_CALLS = 200
"""Of a longer run, this many of the latest calls are looked at."""

MAX_COUNT = 4
MAX_LEAVES = 50
MAX_VALUE = 40
RECENT = 1.5
"""Weight of what happened last among the features of the calls."""


def texts_of(moment: Moment) -> dict[str, str]:
    """A text for each name of `TEXT_VIEWS`; empty where there is nothing to say."""
    replies = (text_of(each.get("content")) for each in reversed(moment.messages) if part_of(each) == "reply")
    observations = (step.outcome.text for step in reversed(moment.steps) if step.outcome)
    return {
        "news": both_ends(" ".join(_news(moment))),
        "message": both_ends(next(requests_in(reversed(moment.messages)), "")),
        "request": _request(moment),
        "reply": both_ends(next(filter(None, replies), "")),
        "observation": both_ends(next(observations, "")),
    }


def _request(moment: Moment) -> str:
    """All that the user has said, shortened; the middle of a long dialogue is never looked at."""
    first = _up_to(MAX_CHARACTERS + 1, requests_in(moment.messages))
    if len(text := " ".join(first)) <= MAX_CHARACTERS:
        return text
    last = " ".join(reversed(_up_to(HALF, requests_in(reversed(moment.messages)))))
    return f"{text[:HALF]} {last[-HALF:]}"


def _up_to(characters: int, texts: Iterable[str]) -> list[str]:
    """As many of some texts as it takes to have so many characters."""
    taken: list[str] = []
    for text in texts:
        taken.append(text)
        characters -= len(text) + 1  # with the space before the next
        if characters < 0:
            break
    return taken


def both_ends(text: str) -> str:
    """A text of `MAX_CHARACTERS` at the most: its beginning and its end."""
    return text if len(text) <= MAX_CHARACTERS else f"{text[:HALF]} {text[-HALF:]}"


def features_of(moment: Moment) -> dict[str, float]:
    """The view of the calls, as weights by feature: which tools, how often, in what order, with what arguments.

    Arguments count by their shape (`R-4711` and `R-12` are alike): what a call was about is seen, and which thing in
    particular is not.
    """
    steps = moment.steps[-MAX_CALLS:]
    tools = [step.tool for step in steps]
    features: dict[str, float] = {}
    for tool, count in Counter(tools).items():
        features[f"called {tool}"] = 1.0
        features[f"called {tool} {min(count, MAX_COUNT)} times"] = 1.0
    features[f"last {tools[-2:]}"] = RECENT
    features[f"latest {tools[-3:]}"] = RECENT
    features[f"{min(len(_news(moment)), MAX_COUNT - 1)} messages since"] = RECENT
    for step in steps:
        for feature in _argument_features(step.tool, step.arguments):
            features[f"argument {feature}"] = 1.0
    for step in steps[-1:]:
        for feature in _argument_features(step.tool, step.arguments):
            features[f"last argument {feature}"] = 1.0
    return features


def _news(moment: Moment) -> list[str]:
    """What the user has said since the last observation."""
    since = takewhile(lambda message: part_of(message) != "observation", reversed(moment.messages))
    return list(requests_in(since))[::-1]


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
