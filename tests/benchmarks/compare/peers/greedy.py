"""ReAct: make the first proposal, again and again (Yao et al. 2023)."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.compare.desk import Desk, Propose, Question, Run
from tests.benchmarks.compare.peers.fused import BestScored

MAX_DEPTH = 15


def greedy(desk: Desk) -> Generator[Sequence[Question], list[Any], None]:
    """Follow the model's first idea until it has none."""
    state = desk.start
    while state.depth < MAX_DEPTH:
        [calls] = yield [Propose(state)]
        if not calls:
            return
        [state] = yield [Run(state, calls[0])]
        desk.keep(state)


@dataclass(frozen=True)
class FusedGreedy:
    """Make the proposal of the highest score, again and again.

    Args:
        pick: Which proposal is made.
    """

    pick: BestScored

    def __call__(self, desk: Desk) -> Generator[Sequence[Question], list[Any], None]:
        """Follow the best idea until the model has none."""
        state = desk.start
        while state.depth < MAX_DEPTH:
            _, call = yield from self.pick.ask(state)
            if call is None:
                return
            [state] = yield [Run(state, call)]
            desk.keep(state)
