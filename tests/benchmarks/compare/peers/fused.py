"""A step of the peers that make one call after another: one fused call tells the last result and the next call.

Tried on the development tasks with best-of-n, and the best of these with greedy and AB-MCTS: weights of
self-consistency of 0 to .4, 2 to 4 asks below .4 to .6. Giving up a run after a poor call (.2 to .4) loses 2 points.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.bfcl_world import PlainCall
from tests.benchmarks.compare.desk import Fused, FusedReply, Question
from tests.benchmarks.compare.simulation import State


@dataclass(frozen=True)
class BestScored:
    """Makes the call of the highest score.

    Args:
        consistency: Weight of how often the model would make a call, which its place among the proposals tells, halved
            from each to the next, against its score.
        asks: How often a state is asked at most.
        promising: A state is asked again while no call scores so much.
    """

    consistency: float = 0.0
    asks: int = 1
    promising: float = 0.0

    def ask(
        self, state: State
    ) -> Generator[Sequence[Question], list[Any], tuple[FusedReply, PlainCall | None]]:
        """Ask a state; returns the first reply and the call to make, `None` if the model has none."""
        first: FusedReply | None = None
        best: tuple[float, PlainCall] | None = None
        for _ in range(self.asks):
            reply: FusedReply
            [reply] = yield [Fused(state)]
            first = first or reply
            for place, (call, score) in enumerate(
                zip(reply.calls, reply.scores, strict=True)
            ):
                worth = score + self.consistency * 0.5 ** (place + 1)
                best = max(
                    best or (worth, call), (worth, call), key=lambda found: found[0]
                )
            if not reply.calls or max(reply.scores) >= self.promising:
                break
        assert first is not None
        return first, best[1] if best else None
