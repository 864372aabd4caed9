"""Best-of-N ReAct: run after run that samples its calls; the judge picks the best end (Cobbe et al. 2021).

A run samples by asking: the first proposal of a fresh answer is a draw from the model, and no two asks are the same.
Drawing by rank from each answer on top of that was tried (weights .2 and .5 to the power of the rank) and lost 16 and
30 points at 80 calls, for the model ranks well. So were 1, 4 and 8 runs side by side: 1 gains a point, 4 and 8 lose.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.bfcl_world import PlainCall
from tests.benchmarks.compare.desk import Desk, Evaluate, Propose, Question, Run, State
from tests.benchmarks.compare.peers.fused import BestScored
from tests.benchmarks.compare.peers.greedy import MAX_DEPTH


@dataclass(frozen=True)
class BestOfN:
    """Best of as many runs as the budget allows.

    Args:
        side_by_side: Runs at once, after a first one alone.
        enough: Goal score with which it ends.
    """

    side_by_side: int = 2
    enough: float = 0.7

    def __call__(self, desk: Desk) -> Generator[Sequence[Question], list[Any], None]:
        """Start runs until one is good enough."""
        best = -math.inf
        starting = 1
        while best < self.enough:
            running = [desk.start] * starting
            starting = self.side_by_side
            ended: list[State] = []
            while running:
                answers: list[list[PlainCall]] = yield [
                    Propose(state) for state in running
                ]
                asked = list(zip(running, answers, strict=True))
                ended += [state for state, calls in asked if not calls]
                # A run that is cut off has no end to judge.
                going_on = [
                    (state, calls[0])
                    for state, calls in asked
                    if calls and state.depth < MAX_DEPTH
                ]
                running = yield [Run(state, call) for state, call in going_on]
                if best == -math.inf and (ended or running):
                    desk.keep((ended or running)[0])
            for state, (_, goal) in zip(
                ended, (yield [Evaluate(state) for state in ended]), strict=True
            ):
                if goal > best:
                    best = goal
                    desk.keep(state)


@dataclass(frozen=True)
class FusedBestOfN:
    """Best of as many runs as the budget allows, one after another; the last call of a run judges its end.

    Args:
        pick: Which proposal is made.
        enough: Goal score with which it ends.
    """

    pick: BestScored
    enough: float = 0.7

    def __call__(self, desk: Desk) -> Generator[Sequence[Question], list[Any], None]:
        """Start runs until one is good enough."""
        best = -math.inf
        while best < self.enough:
            state = desk.start
            while state.depth < MAX_DEPTH:
                reply, call = yield from self.pick.ask(state)
                if call is None:
                    goal = reply.goal or 0.0
                    if goal > best:
                        best = goal
                        desk.keep(state)
                    break
                [state] = yield [Run(state, call)]
                if best == -math.inf:
                    desk.keep(state)
