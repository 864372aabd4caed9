"""What was learnt, asked by the package's own objects; each question is asked once, for all arms."""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from langgraph.store.memory import InMemoryStore

from langchain_tooltree import Experience, Trajectory
from tests.benchmarks.compare.simulation import READ_ONLY
from tests.benchmarks.together.world import Message
from tests.internals.cfgm import recall_text, standard_detector
from tests.internals.experience import NextTools, to_messages
from tests.internals.hall import Conversation
from tests.internals.sitgraph import hint_line

RECALLED = 2
"""Runs that are recalled at the most, as in CFGM."""

RECALL_CHARACTERS = 4_000
"""Room for what is recalled: about a fifth of a first request of these tasks."""


class Recalled(NamedTuple):
    """What was recalled for a request: the tools that its runs show, and how much room it takes."""

    tools: frozenset[str]
    characters: int


class Learnt:
    """An experience, and what it has answered.

    Args:
        runs: What it learns from.
    """

    def __init__(self, runs: Sequence[Trajectory]) -> None:
        self._experience = Experience(InMemoryStore(), namespace=("tooltree",))
        for run in runs:
            self._experience.learn(run)
        self._graph = self._experience.graph
        self._known: dict[str, NextTools | None] = {}
        self._recalled: dict[str, Recalled] = {}

    def __bool__(self) -> bool:
        return len(self._graph) > 0

    def next_tools(self, messages: Sequence[Message], tools: Sequence[str]) -> NextTools | None:
        """How past runs went on from the end of a dialogue."""
        key = json.dumps([messages, tools])
        if key not in self._known:
            self._known[key] = self._graph.next_tools(messages, allowed=tools) if self else None
        return self._known[key]

    def recalled(self, requests: Sequence[str]) -> Recalled:
        """What past runs with tasks like this one show."""
        task = "\n".join(dict.fromkeys(requests))
        if task not in self._recalled:
            found = self._experience.memory.recall(task, RECALLED)
            tools = frozenset(step.tool for run in found.runs for step in run.trajectory.steps)
            text = recall_text(found, max_characters=RECALL_CHARACTERS)
            self._recalled[task] = Recalled(tools, len(text))
        return self._recalled[task]


def hint(past: NextTools | None) -> tuple[str, list[str]]:
    """The line that a model is told, and the tools that it names."""
    text = hint_line(past, reads=READ_ONLY) if past else ""
    words = set(re.findall(r"\w+", text))
    return text, [tool for tool in past.shares if tool in words] if past else []


def is_trouble(messages: Sequence[Message]) -> bool:
    """Whether something is off at the end of a dialogue, by the rules that ask no model."""
    found = standard_detector().check(Conversation.of(to_messages(messages)))
    return found is not None and found.recoverable
