"""Beam search, which is Tree of Thoughts in breadth-first order (Yao et al. 2023).

The states of a level are asked together, all proposals are scored before any of them runs, and the best paths by the
product of their scores go on. A pass that found no good end is followed by a wider one with fresh proposals.

Tried on the development tasks: first widths of 1, 2, 3 and 5; widening by 1 to 3; 1 to 3 asks for every state, or more
asks only where nothing promising came (.4 to .6); proposals kept from pass to pass; twice the calls run and judged
again by r_post; the mean instead of the product; calls below .3 to .5 cut off. Starting narrow is best: a first width
of 2 loses 26 points at 20 calls and gains 3 at 160. Width 1 throughout gains up to 2.5 points, which are within
chance, and is no beam.

With fused calls a call's score is taken from r_pre and r_post. Tried on the development tasks: weights of r_post of .25
to 1; first widths of 1 and 2; widening by 1.25 to 2; 1 to 4 asks below .4 to .6; ending at .6 or .7.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.bfcl_world import PlainCall
from tests.benchmarks.compare.desk import (
    Desk,
    Evaluate,
    Fused,
    FusedReply,
    Propose,
    Question,
    Run,
    Score,
    State,
)
from tests.benchmarks.compare.peers.greedy import MAX_DEPTH

LEAST = 0.01
"""A path is not lost for good by one score of 0."""


@dataclass(slots=True)
class Node:
    """A state of the beam.

    Attributes:
        state: The state.
        scores: Scores of the calls of its path.
        offers: Calls proposed in it, with their scores.
        ended: Whether the model proposed nothing.
        goal: What a fused call said of the state.
    """

    state: State
    scores: tuple[float, ...] = ()
    offers: dict[str, tuple[PlainCall, float]] = field(default_factory=dict)
    ended: bool = False
    goal: float | None = None


@dataclass(frozen=True)
class Beam:
    """Beam search, again and again.

    Args:
        width: Paths that go on from a level, in the first pass.
        widening: Factor by which a pass is wider than the one before.
        asks: How often a state is asked at most.
        promising: A state is asked again while none of its proposals scores so much.
        enough: Goal score with which it ends.
        fused: Whether it asks for everything at once.
        after: Weight of r_post against r_pre, where fused calls bring both.
    """

    width: int = 1
    widening: float = 1.5
    asks: int = 3
    promising: float = 0.4
    enough: float = 0.7
    fused: bool = False
    after: float = 0.5

    def __call__(self, desk: Desk) -> Generator[Sequence[Question], list[Any], None]:
        """Search with wider and wider beams until an end is good enough."""
        best, best_goal, width = -math.inf, 0.0, float(self.width)
        while best_goal < self.enough:
            level = [Node(desk.start)]
            while level and best_goal < self.enough:
                yield from self._ask(level) if self.fused else self._fill(level)
                ended = [node for node in level if node.ended]
                goals = [(None, node.goal) for node in ended] if self.fused else None
                goals = goals or (yield [Evaluate(node.state) for node in ended])
                for node, (_, goal) in zip(ended, goals, strict=True):
                    worth = goal * sum(node.scores) / len(node.scores)
                    best_goal = max(best_goal, goal)
                    if worth > best:
                        best = worth
                        desk.keep(node.state)
                edges = [
                    (node, call, (*node.scores, score))
                    for node in level
                    if node.state.depth < MAX_DEPTH
                    for call, score in node.offers.values()
                ]
                edges.sort(
                    key=lambda edge: math.prod(max(score, LEAST) for score in edge[2]),
                    reverse=True,
                )
                edges = edges[: round(width)]
                states = yield [Run(node.state, call) for node, call, _ in edges]
                level = [
                    Node(state, scores)
                    for state, (_, _, scores) in zip(states, edges, strict=True)
                ]
                if level and best == -math.inf:
                    desk.keep(level[0].state)
            width *= self.widening

    def _fill(
        self, level: Sequence[Node]
    ) -> Generator[Sequence[Question], list[Any], None]:
        """Ask for proposals and score them, once more where nothing promising came."""
        for _ in range(self.asks):
            poor = [
                node
                for node in level
                if not node.ended
                and all(score < self.promising for _, score in node.offers.values())
            ]
            news: list[tuple[Node, list[PlainCall]]] = []
            for node, calls in zip(
                poor, (yield [Propose(node.state) for node in poor]), strict=True
            ):
                node.ended = not calls
                new = [call for call in calls if call.key not in node.offers]
                if new:
                    news.append((node, new))
            answers = yield [Score(node.state, new) for node, new in news]
            for (node, new), scores in zip(news, answers, strict=True):
                node.offers |= {
                    call.key: (call, score)
                    for call, score in zip(new, scores, strict=True)
                }

    def _ask(
        self, level: Sequence[Node]
    ) -> Generator[Sequence[Question], list[Any], None]:
        """Ask for everything at once, once more where nothing promising came."""
        for attempt in range(self.asks):
            poor = [
                node
                for node in level
                if not node.ended
                and all(score < self.promising for _, score in node.offers.values())
            ]
            replies: list[FusedReply] = yield [Fused(node.state) for node in poor]
            for node, reply in zip(poor, replies, strict=True):
                if not attempt and reply.reward is not None:
                    last = (1 - self.after) * node.scores[
                        -1
                    ] + self.after * reply.reward
                    node.scores = (*node.scores[:-1], last)
                node.ended, node.goal = not reply.calls, reply.goal
                for call, score in zip(reply.calls, reply.scores, strict=True):
                    node.offers.setdefault(call.key, (call, score))
