"""What the graph reads off a run: after which tool which other one came, and what the state was then.

Where nobody summed a state up, it is known by several views of the dialogue so far, which cost no model call.
"""

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, takewhile
from typing import Any

from langchain_tooltree.anomaly.rules import has_failed
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.messages.additions import SUMMARIZE_STATE
from langchain_tooltree.messages.chat_format import (
    find_requests,
    get_called_function,
    get_tool_call_entries,
    remove_additions_from,
)
from langchain_tooltree.messages.content import get_text
from langchain_tooltree.messages.kinds import ChatMessage, classify_chat_message
from langchain_tooltree.messages.reference import REFERENCE_START
from langchain_tooltree.messages.tool_calls import Call, find_calls

START = ""  # name of the virtual node that every run begins at; no tool can have it


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of a dialogue at which a tool is about to be called, with all messages and tool calls before it.

    Calls of `summarize_state` and their results are left out: a state is the same whether or not it was summed up.
    """

    messages: Sequence[ChatMessage]
    steps: Sequence[Call]
    requests: Sequence[str]  # the texts of the user's messages
    arguments: Sequence[Sequence[str]]  # of each step, the features of its arguments

    @property
    def last_tool(self) -> str:
        """The tool called last; `START` if none was."""
        return self.steps[-1].tool if self.steps else START

    @property
    def tool_before(self) -> str:
        """The tool called before that one; `START` if none was."""
        return self.steps[-2].tool if len(self.steps) > 1 else START


@dataclass(frozen=True, slots=True)
class Transition:
    """One tool followed another."""

    source: str  # the tool called before; `START` for the first call of a dialogue
    target: str  # the tool called next
    summaries: tuple[str, ...]  # what the agent said of the state in between
    moment: Moment  # what had happened until then
    failed: bool = False  # whether the call of `target` failed, so that it was tried here, and nothing more


def read_run(record: Trajectory) -> tuple[list[Transition], list[Moment]]:
    """The transitions of a run in order, and where it stood each time that the agent answered its user without a call.

    Those of its sub-agents are included; each dialogue begins at `START`. Calls made in parallel follow one another as
    they are listed.
    """
    transitions: list[Transition] = []
    ends: list[Moment] = []
    for _, messages in record.dialogues():
        _read_dialogue(messages, transitions, ends)
    return transitions, ends


def _read_dialogue(
    messages: Sequence[ChatMessage], transitions: list[Transition], ends: list[Moment]
) -> None:
    """Add the transitions and ends of one dialogue of a run."""
    plain = _without_reference_messages(messages)
    positions, dialogue = (
        [position for position, _ in plain],
        [message for _, message in plain],
    )
    steps = find_calls(messages)
    calls = [step for step in steps if step.tool != SUMMARIZE_STATE]
    # Once for the dialogue, and not for each of its moments: that would take the square of a long one.
    asked = [
        (position, text)
        for position, message in plain
        for text in find_requests([message])
    ]
    arguments = [_argument_features(step) for step in calls]

    def moment_at(position: int, number: int) -> Moment:
        """Before the message at a position, after so many calls: of those it makes itself, nothing has come yet."""
        earlier = bisect_left(
            calls, position, hi=number, key=lambda step: step.position
        )
        pending = [replace(step, result=None) for step in calls[earlier:number]]
        return Moment(
            dialogue[: bisect_left(positions, position)],
            (*calls[:earlier], *pending),
            [text for _, text in asked[: bisect_left(asked, (position, ""))]],
            arguments[:number],
        )

    number = 0
    summaries: list[str] = []
    for step in steps:
        if step.tool == SUMMARIZE_STATE:
            summaries += filter(None, [summary_of(step)])
            continue
        moment, failed = moment_at(step.position, number), has_failed(step)
        transitions.append(
            Transition(moment.last_tool, step.tool, tuple(summaries), moment, failed)
        )
        number += 1
        summaries = (
            summaries if failed else []
        )  # the agent does something else in place of a call that failed
    for position, message in plain:
        if (
            classify_chat_message(message) == "response"
            and not get_tool_call_entries(message)
            and get_text(message.get("content"))
        ):
            ends.append(
                moment_at(
                    position,
                    bisect_left(calls, position, key=lambda step: step.position),
                )
            )


def moment_of(messages: Sequence[ChatMessage]) -> tuple[Moment, str | None]:
    """Where a dialogue stands now, and the summary that the agent has made since its last tool call, if it has."""
    own = remove_additions_from(
        messages
    )  # nothing that was recalled is part of a state
    steps: list[Call] = []
    summary: str | None = None
    for step in find_calls(own):
        if step.tool == SUMMARIZE_STATE:
            summary = summary_of(step) or summary
        else:
            steps.append(step)
            summary = None
    dialogue = [message for _, message in _without_reference_messages(own)]
    return Moment(
        dialogue,
        tuple(steps),
        [*find_requests(dialogue)],
        [*map(_argument_features, steps)],
    ), summary


def summary_of(step: Call) -> str:
    """The summary in a call of `summarize_state`: its arguments, or where a model wrote it, the observation."""
    arguments = step.arguments or {}
    written = arguments.get("summary")
    if isinstance(written, str):
        return with_next_step(written, arguments.get("next_step"))
    if step.result is not None and step.result.status == "success":
        # Formats that have no place for an artifact keep the hints behind it.
        return step.result.text.partition(REFERENCE_START)[0].strip()
    return ""


def with_next_step(summary: str, next_step: Any) -> str:
    """A summary with what the agent means to do next as its last sentence: often it decides which tool comes next."""
    intended = next_step.strip() if isinstance(next_step, str) else ""
    return " ".join(filter(None, [summary.strip(), intended and f"Next: {intended}"]))


def _without_reference_messages(
    messages: Sequence[ChatMessage],
) -> list[tuple[int, ChatMessage]]:
    """Messages and their positions, without those that only call `summarize_state`, and without its results."""
    plain: list[tuple[int, ChatMessage]] = []
    summaries: set[str] = set()  # ids of calls
    for position, message in enumerate(messages):
        calls = get_tool_call_entries(message)
        summing_up = [
            call
            for call in calls
            if get_called_function(call).get("name") == SUMMARIZE_STATE
        ]
        summaries.difference_update(
            str(call.get("id")) for call in calls
        )  # of some models, ids come again
        summaries.update(str(call["id"]) for call in summing_up if call.get("id"))
        only = (
            bool(summing_up)
            and len(summing_up) == len(calls)
            and not get_text(message.get("content"))
        )
        is_result = (
            message.get("name") == SUMMARIZE_STATE
            or str(message.get("tool_call_id")) in summaries
        )
        if not only and not (is_result and classify_chat_message(message) == "result"):
            plain.append((position, message))
    return plain


TEXT_VIEWS = ("news", "message", "request", "reply", "observation")
"""Views that are texts: what the user said since the last call, said last and said at all; what the agent said last;
what the last call brought."""

VIEWS = (*TEXT_VIEWS, "calls")
"""All views; `calls` is a bag of features of the calls so far and of how the dialogue went on since."""

MAX_CHARACTERS = (
    8_000  # of a text view: some 2,000 tokens, which every embedding model takes
)
MAX_CALLS = 200  # latest calls that the features tell of, so that a step costs the same in a long run
MAX_COUNT = 4  # calls of a tool, or messages, from which on they are just many: more tells apart runs that are alike
MAX_LEAVES = 50  # values among the arguments of one call that are looked at, of a call that sends data
MAX_VALUE = 40  # characters of a value that may be a name or a number; a longer one is a text, and all texts are alike
LATEST_CALL_WEIGHT = 1.5  # weight of what happened last among the features of the calls


def get_feature_texts(moment: Moment) -> dict[str, str]:
    """A text for each name of `TEXT_VIEWS`; empty where there is nothing to say."""
    replies = (
        get_text(each.get("content"))
        for each in reversed(moment.messages)
        if classify_chat_message(each) == "response"
    )
    observations = (step.result.text for step in reversed(moment.steps) if step.result)
    return {
        "news": both_ends(" ".join(_news(moment))),
        "message": both_ends(moment.requests[-1] if moment.requests else ""),
        "request": both_ends(" ".join(moment.requests)),
        "reply": both_ends(next(filter(None, replies), "")),
        "observation": both_ends(next(observations, "")),
    }


def both_ends(text: str) -> str:
    """A text of `MAX_CHARACTERS` at the most: its beginning and its end."""
    half = MAX_CHARACTERS // 2
    return text if len(text) <= MAX_CHARACTERS else f"{text[:half]} {text[-half:]}"


def features_of(moment: Moment) -> dict[str, float]:
    """The view of the calls, as weights by feature: which tools, how often, in what order, with what arguments.

    Arguments count by their shape (`R-4711` and `R-12` are alike): what a call was about is seen, and which thing in
    particular is not.
    """
    steps = moment.steps[-MAX_CALLS:]
    tools = [step.tool for step in steps]
    features: dict[str, float] = {}
    for tool, times in Counter(tools).items():
        features[f"called {tool}"] = 1.0
        features[f"called {tool} {min(times, MAX_COUNT)} times"] = 1.0
    features[f"last {tools[-2:]}"] = LATEST_CALL_WEIGHT
    features[f"latest {tools[-3:]}"] = LATEST_CALL_WEIGHT
    features[f"{min(len(_news(moment)), MAX_COUNT - 1)} messages since"] = (
        LATEST_CALL_WEIGHT
    )
    made = dict.fromkeys(
        chain.from_iterable(moment.arguments[-MAX_CALLS:])
    )  # in order, so that sums are the same
    features |= {f"argument {feature}": 1.0 for feature in made}
    features |= {
        f"last argument {feature}": 1.0
        for each in moment.arguments[-1:]
        for feature in each
    }
    return features


def _news(moment: Moment) -> list[str]:
    """What the user has said since the last observation."""
    since = takewhile(
        lambda message: classify_chat_message(message) != "result",
        reversed(moment.messages),
    )
    return list(find_requests(since))[::-1]


def _argument_features(step: Call) -> list[str]:
    return [
        f"{step.tool} {path} {shape}"
        for path, shape in islice(
            _argument_leaves(step.arguments or {}, ""), MAX_LEAVES
        )
    ]


def _argument_leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _argument_leaves(part, f"{path}.{key}")
    elif isinstance(value, list):
        yield f"{path}.length", str(len(value))
        for part in value:
            yield from _argument_leaves(part, path)
    else:
        yield path, _shape(value)


def _shape(value: Any) -> str:
    """What kind of value it is: digits are alike, and so are long texts."""
    if isinstance(value, str):
        return re.sub(r"\d+", "0", value) if len(value) <= MAX_VALUE else "long"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "number" if is_number else json.dumps(value, default=str)
