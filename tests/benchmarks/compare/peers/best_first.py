"""Best-first search: go on from the most promising path, wherever it is (Koh et al. 2024).

Tried on the development tasks: the mean, the product and the last of the scores of a path; ordering by r_pre alone, by
r_pre and then r_post, or by r_post of all proposals, each run and judged, as the paper does it (.22 instead of .69 at
40 calls, for six model calls a state instead of two); asking no state again, any state, or poor ones.
"""

import heapq
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests.benchmarks.bfcl_world import PlainCall
from tests.benchmarks.compare.desk import Desk, Evaluate, Propose, Question, Run, Score, State
from tests.benchmarks.compare.peers.greedy import MAX_DEPTH


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a path: its score before it ran, and its place among the proposals, from 0."""

    score: float
    place: int


def mean_score(path: Sequence[Step]) -> float:
    """The mean of the scores of a path."""
    return sum(step.score for step in path) / len(path)


@dataclass(frozen=True)
class BestFirst:
    """Best-first search by the mean score of a path.

    Args:
        asks: How often a state is asked at most.
        promising: A state of which no proposal scores so much goes back into the queue to be asked again, as if a call
            of that score had been proposed.
        enough: Goal score with which it ends.
    """

    asks: int = 3
    promising: float = 0.4
    enough: float = 0.7

    def value(self, path: Sequence[Step]) -> float:
        """The value of a path: the highest goes on."""
        return mean_score(path)

    def __call__(self, desk: Desk) -> Generator[Sequence[Question], list[Any], None]:
        """Search until an end is good enough or nothing is left to try."""
        best = -math.inf
        turns = count()
        offered: dict[State, set[str]] = {}
        asked: dict[State, int] = {}
        queue: list[tuple[float, int, State, PlainCall | None, tuple[Step, ...]]] = []
        heapq.heappush(queue, (0.0, next(turns), desk.start, None, ()))
        while queue:
            _, _, state, call, path = heapq.heappop(queue)
            if call:
                [state] = yield [Run(state, call)]
            if best == -math.inf:
                desk.keep(state)
            [calls] = yield [Propose(state)]
            if not calls:
                [(_, goal)] = yield [Evaluate(state)]
                if goal * mean_score(path) > best:
                    best = goal * mean_score(path)
                    desk.keep(state)
                if goal >= self.enough:
                    return
                continue
            known = offered.setdefault(state, set())
            new = {place: call for place, call in enumerate(calls) if call.key not in known}
            if state.depth == MAX_DEPTH or not new:
                continue
            [scores] = yield [Score(state, list(new.values()))]
            known |= {call.key for call in new.values()}
            asked[state] = asked.get(state, 0) + 1
            for (place, call), score in zip(new.items(), scores, strict=True):
                longer = (*path, Step(score, place))
                heapq.heappush(queue, (-self.value(longer), next(turns), state, call, longer))
            if max(scores) < self.promising and asked[state] < self.asks:
                imagined = (*path, Step(self.promising, 0))
                heapq.heappush(queue, (-self.value(imagined), next(turns), state, None, path))
