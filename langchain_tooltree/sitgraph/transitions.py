"""The transitions in a run: after which tool which other one came, and in what state. Pure."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType

from langchain_tooltree.experience.records import (
    ChatMessage,
    Record,
    Step,
    entries_in,
    function_of,
    part_of,
    said_in,
    steps_in,
    text_of,
)

START = ""
"""Name of the virtual node that every run begins at; no tool can have it."""

SUMMARIZE_STATE = "summarize_state"
"""Name of the tool by which an agent sums up the state. It is no node: what it says lies on the edge around it."""

WRITTEN_SUMMARIES = "state_summaries"
"""Key of a run's metadata for summaries that were written afterwards, by the place of the transition."""

SUGGESTIONS_HEADING = "Tools that came next in past runs:"
"""The line of its observation that ends a summary which a model wrote."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of a dialogue at which a tool is about to be called.

    Attributes:
        messages: All messages before it, in the OpenAI chat format. Calls of `summarize_state` and their results are
            left out, here and in `steps`: a state is the same whether or not it was summed up.
        steps: All tool calls before it.
    """

    messages: Sequence[ChatMessage]
    steps: Sequence[Step]

    @property
    def last_tool(self) -> str:
        """The tool called last; `START` if none was."""
        return self.steps[-1].tool if self.steps else START


@dataclass(frozen=True, slots=True)
class Transition:
    """One tool followed another.

    Attributes:
        source: The tool called before; `START` for the first call of a dialogue.
        target: The tool called next.
        summaries: What the agent said of the state in between.
        moment: What had happened until then.
    """

    source: str
    target: str
    summaries: tuple[str, ...]
    moment: Moment


def transitions_of(record: Record, aliases: Mapping[str, str] = MappingProxyType({})) -> Iterator[Transition]:
    """The transitions of a run in order, those of its sub-agents included; each dialogue begins at `START`.

    Calls made in parallel follow one another as they are listed. `aliases` are new names of tools by old ones.
    """
    written = _written(record)
    for _, messages in record.dialogues():
        plain = _plain(messages)
        places = [place for place, _ in plain]
        dialogue = [message for _, message in plain]
        steps: list[Step] = []
        summaries: list[str] = []
        for step in _steps(messages, aliases):
            if step.tool == SUMMARIZE_STATE:
                summaries += filter(None, [summary_of(step)])
                continue
            moment = Moment(dialogue[: bisect_left(places, step.position)], _as_known(steps, step.position))
            afterwards = next(written)
            yield Transition(moment.last_tool, step.tool, tuple(summaries or filter(None, [afterwards])), moment)
            steps.append(step)
            summaries = []


def moment_of(
    messages: Sequence[ChatMessage], aliases: Mapping[str, str] = MappingProxyType({})
) -> tuple[Moment, str | None]:
    """Where a dialogue stands now, and the summary that the agent has made since its last tool call, if it has."""
    messages = said_in(messages)
    steps: list[Step] = []
    summary: str | None = None
    for step in _steps(messages, aliases):
        if step.tool == SUMMARIZE_STATE:
            summary = summary_of(step) or summary
        else:
            steps.append(step)
            summary = None
    return Moment([message for _, message in _plain(messages)], tuple(steps)), summary


def summary_of(step: Step) -> str:
    """The summary in a call of `summarize_state`: its argument, or where a model wrote it, the observation."""
    written = (step.arguments or {}).get("summary")
    if not isinstance(written, str) and step.outcome is not None and step.outcome.status == "success":
        written = step.outcome.text.partition(SUGGESTIONS_HEADING)[0]
    return written.strip() if isinstance(written, str) else ""


def _steps(messages: Sequence[ChatMessage], aliases: Mapping[str, str]) -> Iterator[Step]:
    for step in steps_in(messages):
        yield replace(step, tool=aliases[step.tool]) if step.tool in aliases else step


def _plain(messages: Sequence[ChatMessage]) -> list[tuple[int, ChatMessage]]:
    """Messages and their places, without those that only call `summarize_state`, and without its results."""
    plain: list[tuple[int, ChatMessage]] = []
    answers: set[str] = set()
    for place, message in enumerate(messages):
        calls = entries_in(message)
        summing_up = [call for call in calls if function_of(call).get("name") == SUMMARIZE_STATE]
        answers.update(str(call["id"]) for call in summing_up if call.get("id"))
        mute = bool(summing_up) and len(summing_up) == len(calls) and not text_of(message.get("content"))
        result = message.get("name") == SUMMARIZE_STATE or str(message.get("tool_call_id")) in answers
        if not mute and not (result and part_of(message) == "observation"):
            plain.append((place, message))
    return plain


def _as_known(steps: Sequence[Step], position: int) -> tuple[Step, ...]:
    """Steps as they stood when a message was written: of the calls made in parallel there, nothing had come yet."""
    before = bisect_left(steps, position, key=lambda step: step.position)
    return (*steps[:before], *(replace(step, outcome=None) for step in steps[before:]))


def _written(record: Record) -> Iterator[str]:
    """The summary that was written afterwards for each transition; empty where there is none."""
    written = record.metadata.get(WRITTEN_SUMMARIES)
    for place in count():
        text = written.get(str(place)) if isinstance(written, Mapping) else None
        yield text.strip() if isinstance(text, str) else ""
