"""AB-MCTS-A of `treequest` from PyPI (Inoue et al. 2025), unmodified, through its ask / tell interface.

A node is a whole answer, as in its paper: from the start, calls are made until the model takes the request for
fulfilled, and the judge says whether the task is done. To refine a node is to go on from its end; where nothing is
left to do, to judge it once more. A node could as well be a single call, rated by r_post, the mean of r_post along the
path, its least one, the goal score, or sums and products of these: on the development tasks each of them solved fewer
tasks at every budget, since Thompson sampling starts with nothing at each node and spreads over the many wrong calls.
"""

from collections import defaultdict
from collections.abc import Generator, Sequence
from statistics import fmean
from typing import Any

from treequest import ABMCTSA

from tests.benchmarks.compare.desk import Desk, Evaluate, Propose, Question, Run, Score
from tests.benchmarks.compare.peers.global_chance import OwnChance
from tests.benchmarks.compare.peers.greedy import MAX_DEPTH
from tests.benchmarks.compare.simulation import State

MAKE_NODE = "make a node"


def ab_mcts(desk: Desk) -> Generator[Sequence[Question], list[Any], None]:
    """Ask it where to go on, make a node there, tell it the score; keep the path with the best mean goal score.

    Args:
        desk: Where questions are answered.
    """
    algorithm = ABMCTSA()
    tree = algorithm.init_tree()
    chance = OwnChance(desk.simulation.task.id)
    goals: defaultdict[State, list[float]] = defaultdict(list)
    while True:
        with chance.lent():
            tree, [trial] = algorithm.ask_batch(tree, 1, [MAKE_NODE])
        state = trial.parent_state or desk.start
        if state not in goals:
            state = yield from _answer(state)
        [(_, goal)] = yield [Evaluate(state)]
        goals[state].append(goal)
        tree = algorithm.tell(tree, trial.trial_id, (state, fmean(goals[state])))
        desk.keep(max(goals, key=lambda end: fmean(goals[end])))


def _answer(state: State) -> Generator[Sequence[Question], list[Any], State]:
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
    return state
