"""A* in the form of ToolChain* (Zhuang et al. 2023), without its long-term memory.

The cost of a call is what it lacks in score, and in self-consistency: how often the model would make it, which its
place among the proposals tells, halved from each to the next. The cost to come is that of the calls up to the greatest
depth, the one bound on it that is known without the examples that the paper's memory holds.

Tried on the development tasks: logarithms of scores as costs, the paper's geometric mean of both parts, r_post as well,
asking any state again, poor ones or none; weights of 0 to .8; costs to come of .2 to .6, and .75 of the weight on top.
A lower one is better with a poor judge and a large budget, a higher one with a good judge and a small budget.
With fused calls, 60 draws from: weights of .25 to .75, costs to come of .4 to .75, weights of r_post of 0 to 1, 1 to 5
asks below .4 to .6, ending at .6 to .8.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.benchmarks.compare.peers.best_first import BestFirst, Step
from tests.benchmarks.compare.peers.greedy import MAX_DEPTH


@dataclass(frozen=True)
class AStar(BestFirst):
    """Best-first search by cost so far plus cost to come.

    Args:
        consistency: Weight of how often the model would make a call, against the score that the judge gives it.
        to_come: What each call costs that may still follow.
    """

    consistency: float = 0.5
    to_come: float = 0.625

    def value(self, path: Sequence[Step]) -> float:
        """The cost of a path and of what may follow, negated."""
        so_far = sum(
            1 - step.score + self.consistency * (1 - 0.5 ** (step.place + 1))
            for step in path
        )
        return -(so_far + self.to_come * (MAX_DEPTH - len(path)))
