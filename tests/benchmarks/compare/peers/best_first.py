"""Best-first search: go on from the most promising path, wherever it is (Koh et al. 2024).

Tried on the development tasks: the mean, the product and the last of the scores of a path; ordering by r_pre alone, by
r_pre and then r_post, or by r_post of all proposals, each run and judged, as the paper does it (.22 instead of .69 at
40 calls, for six model calls a state instead of two); asking no state again, any state, or poor ones.

With fused calls a call's score is the mean of r_pre and r_post. Tried on the development tasks: weights of r_post of
.25 to 1; asking states again below .4 to .65, up to 5 times; ending at .6 or .7.
"""

import heapq
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

from tests.benchmarks.bfcl_world import PlainCall
from tests.benchmarks.compare.desk import (
    Desk,
    Evaluate,
    Fused,
    Propose,
    Question,
    Run,
    Score,
    State,
)
from tests.benchmarks.compare.peers.greedy import MAX_DEPTH


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a path: its score before it ran, and its place among the proposals, from 0."""

    score: float
    place: int


class Seen(NamedTuple):
    """What asking a state brought.

    Attributes:
        offers: New calls with their scores.
        reward: r_post of the call that led there, where it was told.
        goal: Goal score, where the model proposed nothing.
    """

    offers: Sequence[tuple[PlainCall, Step]]
    reward: float | None = None
    goal: float | None = None


Asking = Generator[Sequence[Question], list[Any], Seen]


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
        fused: Whether it asks for everything at once.
        after: Weight of r_post against r_pre in the score of a call, where fused calls bring both.
    """

    asks: int = 3
    promising: float = 0.4
    enough: float = 0.7
    fused: bool = False
    after: float = 0.5

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
        ask = _asked_at_once if self.fused else _asked
        while queue:
            _, _, state, call, path = heapq.heappop(queue)
            if call:
                [state] = yield [Run(state, call)]
            if best == -math.inf:
                desk.keep(state)
            seen = yield from ask(state, offered.setdefault(state, set()))
            path = self._corrected(path, seen.reward if call else None)
            if seen.goal is not None:
                if seen.goal * mean_score(path) > best:
                    best = seen.goal * mean_score(path)
                    desk.keep(state)
                if seen.goal >= self.enough:
                    return
            if not seen.offers:
                continue
            asked[state] = asked.get(state, 0) + 1
            for offer, step in seen.offers:
                longer = (*path, step)
                heapq.heappush(
                    queue, (-self.value(longer), next(turns), state, offer, longer)
                )
            if (
                max(step.score for _, step in seen.offers) < self.promising
                and asked[state] < self.asks
            ):
                imagined = (*path, Step(self.promising, 0))
                heapq.heappush(
                    queue, (-self.value(imagined), next(turns), state, None, path)
                )

    def _corrected(
        self, path: tuple[Step, ...], reward: float | None
    ) -> tuple[Step, ...]:
        """The path with what is now known of its last call."""
        if reward is None or not path:
            return path
        score = (1 - self.after) * path[-1].score + self.after * reward
        return (*path[:-1], replace(path[-1], score=score))


def _asked(state: State, known: set[str]) -> Asking:
    """Ask a state for calls and have those scored that are not known, or the end."""
    [calls] = yield [Propose(state)]
    if not calls:
        [(_, goal)] = yield [Evaluate(state)]
        return Seen((), goal=goal)
    new = {place: call for place, call in enumerate(calls) if call.key not in known}
    if state.depth == MAX_DEPTH or not new:
        return Seen(())
    [scores] = yield [Score(state, list(new.values()))]
    known |= {call.key for call in new.values()}
    return Seen(
        [
            (call, Step(score, place))
            for (place, call), score in zip(new.items(), scores, strict=True)
        ]
    )


def _asked_at_once(state: State, known: set[str]) -> Asking:
    """Ask a state for all of it in one call."""
    [(reward, goal, calls, scores)] = yield [Fused(state)]
    new = [
        (call, Step(scores[place], place))
        for place, call in enumerate(calls)
        if call.key not in known
    ]
    known |= {call.key for call, _ in new}
    return Seen(new if state.depth < MAX_DEPTH else (), reward, None if calls else goal)
