"""AB-MCTS-A of `treequest` from PyPI (Inoue et al. 2025), unmodified, through its ask / tell interface.

A node is a whole answer, as in its paper: from the start, calls are made until the model takes the request for
fulfilled, and the judge says whether the task is done. To refine a node is to go on from its end; where nothing is
left to do, to judge it once more. A node could as well be a single call, rated by r_post, the mean of r_post along the
path, its least one, the goal score, or sums and products of these: on the development tasks each of them solved fewer
tasks at every budget, since Thompson sampling starts with nothing at each node and spreads over the many wrong calls.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from treequest import ABMCTSA

from tests.benchmarks.compare.desk import Desk, Evaluate, Propose, Question, Run, Score
from tests.benchmarks.compare.peers.fused import BestScored
from tests.benchmarks.compare.peers.global_chance import OwnChance
from tests.benchmarks.compare.peers.greedy import MAX_DEPTH
from tests.benchmarks.compare.simulation import State

MAKE_NODE = "make a node"


Answer = Generator[Sequence[Question], list[Any], tuple[State, float]]


@dataclass(frozen=True)
class ABMCTS:
    """Ask it where to go on, make a node there, tell it the score; keep the path with the best mean goal score.

    Args:
        answer: Goes on from a state to an end; returns it and its goal score.
    """

    answer: Callable[[State], Answer]

    def __call__(self, desk: Desk) -> Generator[Sequence[Question], list[Any], None]:
        """Make and judge nodes for ever."""
        algorithm = ABMCTSA()
        tree = algorithm.init_tree()
        chance = OwnChance(desk.simulation.task.id)
        goals: defaultdict[State, list[float]] = defaultdict(list)
        while True:
            with chance.lent():
                tree, [trial] = algorithm.ask_batch(tree, 1, [MAKE_NODE])
            state = trial.parent_state or desk.start
            if state in goals:
                [(_, goal)] = yield [Evaluate(state)]
            else:
                state, goal = yield from self.answer(state)
            goals[state].append(goal)
            tree = algorithm.tell(tree, trial.trial_id, (state, fmean(goals[state])))
            desk.keep(max(goals, key=lambda end: fmean(goals[end])))


def ranked_answer(state: State) -> Answer:
    """Make the call that the judge ranks first, until the model has no more to make.

    Ranking is ToolTree's pre-evaluation and not a part of AB-MCTS. Without it, the model's first idea followed, it
    solves .63 instead of .92 of the development tasks within 160 calls.
    """
    while state.depth < MAX_DEPTH:
        [calls] = yield [Propose(state)]
        if not calls:
            break
        [scores] = yield [Score(state, calls)]
        best = max(range(len(calls)), key=scores.__getitem__)
        [state] = yield [Run(state, calls[best])]
    [(_, goal)] = yield [Evaluate(state)]
    return state, goal


@dataclass(frozen=True)
class FusedAnswer:
    """The same with fused calls, of which the last one judges the end.

    Args:
        pick: Which call is made.
    """

    pick: BestScored

    def __call__(self, state: State) -> Answer:
        """Go on to an end."""
        while state.depth < MAX_DEPTH:
            reply, call = yield from self.pick.ask(state)
            if call is None:
                return state, reply.goal or 0.0
            [state] = yield [Run(state, call)]
        [(_, goal)] = yield [Evaluate(state)]
        return state, goal
