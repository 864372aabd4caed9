"""ReAct: make the first proposal, again and again (Yao et al. 2023)."""

from collections.abc import Generator, Sequence
from typing import Any

from tests.benchmarks.compare.desk import Desk, Propose, Question, Run

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
