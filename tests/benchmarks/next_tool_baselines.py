"""Baselines that count: which tool came after which."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain

from langchain_tooltree import Trajectory
from tests.benchmarks.next_tool_protocol import Question, questions_in

Rank = Callable[[Question], Sequence[str]]
"""Tools for a question, best first."""

Train = Callable[[Sequence[Trajectory]], Rank]
"""A method: from the trajectories it may learn from to its answers."""


class Bigram:
    """Ranks tools by how often they came after the last one, then those that never did by how often they were called.

    Ties go by name.

    Args:
        trajectories: What it learns from.
    """

    def __init__(self, trajectories: Sequence[Trajectory]) -> None:
        self.after: dict[str, Counter[str]] = {}
        for question in questions_in(trajectories):
            self.after.setdefault(question.last_tool, Counter())[question.answer] += 1
        self._calls = Counter(
            call.tool for trajectory in trajectories for call in trajectory.calls
        )

    def __call__(self, question: Question) -> list[str]:
        return chained(ranked(self.after.get(question.last_tool, {})), self.overall)

    @cached_property
    def overall(self) -> list[str]:
        """All tools, those called most often first."""
        return ranked(self._calls)


def trigram(trajectories: Sequence[Trajectory]) -> Rank:
    """Ranks tools by how often they came after the last two, then as the bigram does."""
    bigram = Bigram(trajectories)
    after: dict[tuple[str, ...], Counter[str]] = {}
    for question in questions_in(trajectories):
        after.setdefault(question.tools[-2:], Counter())[question.answer] += 1
    return lambda question: chained(
        ranked(after.get(question.tools[-2:], {})), bigram(question)
    )


def ranked(votes: dict[str, int] | dict[str, float]) -> list[str]:
    """What got most votes first; ties by name."""
    return sorted(votes, key=lambda name: (-votes[name], name))


def chained(*rankings: Iterable[str]) -> list[str]:
    """One ranking, then what the next ones have beyond it."""
    return list(dict.fromkeys(chain(*rankings)))
