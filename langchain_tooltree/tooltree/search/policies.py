"""Where the next rollout works, which path is the best so far, and whether searching on can gain anything. Pure.

A selection policy sees the whole tree and returns the node to work at: a call that has not run yet, or a state to ask
for calls. The other policy, which goes by how probable each path is, stands in `posterior`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from langchain_tooltree.tooltree.search.config import KernelConfig
from langchain_tooltree.tooltree.search.tree import Frontier, Node, Tree, Work

GOAL = 0.7  # goal score in [0, 1] from which a path counts as a solution under Eq. 1
MIN_GAIN = 1e-3  # value of the best path that counts as a gain: what the paper prints


@dataclass(frozen=True, slots=True)
class UCTPolicy:
    """Eq. 1 of ToolTree (arXiv 2603.12740), descending from the root.

    Rollouts in flight count as visits without a reward (WU-UCT, Liu et al. 2020), so parallel rollouts spread out.
    """

    config: KernelConfig

    def score(self, state: Node, state_visits: int, child: Node) -> float:
        """Eq. 1 for one pre-evaluated child.

        `printed`, as the paper prints it, visits every child once first, in the order of r_pre. `smoothed`, as the
        authors' code has it, is made defined at N = 0: a child never visited takes its parent's mean for Q. Visits
        count rollouts in flight; `state_visits` is N(s), with them.
        """
        r_pre = child.r_pre or 0.0
        exploration = self.config.exploration * self.config.exploration_annealing**state.depth
        visits = child.visits + child.in_flight
        if self.config.selection == "printed":
            # Q(s, a) + lambda * r_pre(s, a) * sqrt(ln N(s) / N(s, a))
            if visits == 0:
                return math.inf
            return child.value + exploration * r_pre * math.sqrt(math.log(max(state_visits, 1)) / visits)
        # Q(s, a) + lambda * r_pre(s, a) * sqrt(ln(1 + N(s))) / (1 + N(s, a))
        value = child.value if child.visits else state.value
        return value + exploration * r_pre * math.sqrt(math.log1p(state_visits)) / (1 + visits)

    def select(self, tree: Tree, frontier: Frontier) -> Work | None:
        """Descend along the best scores; where a branch is wholly in flight, take the next best."""
        return self._descend(tree, tree.root, frontier)

    def _descend(self, tree: Tree, state: Node, frontier: Frontier) -> Work | None:
        if frontier.askable(state) and frontier.spent(state):
            return Work("propose", state)
        state_visits = tree.state_visits(state) + state.in_flight
        may_enter = [child for child in tree.children(state) if _may_enter(child)]
        may_enter.sort(
            key=lambda child: (self.score(state, state_visits, child), child.visits, child.r_pre, tree.jitter(child)),
            reverse=True,
        )
        for child in may_enter:
            if child.r_post is None:
                return Work("execute", child)
            if work := self._descend(tree, child, frontier):
                return work
        return None

    def after_scoring(self, tree: Tree, frontier: Frontier, kept: Sequence[Node]) -> Work | None:  # noqa: ARG002
        """Run the best of the new candidates, as in the paper."""
        return Work("execute", kept[0]) if kept else None


def _may_enter(child: Node) -> bool:
    """Whether a rollout may enter: scored, not pruned, work left, and not being run for the first time now."""
    if child.r_pre is None or child.pruned is not None or child.closed:
        return False
    return child.r_post is not None or child.in_flight == 0


StopReason = Literal[
    "solved",
    "converged",
    "exhausted",
    "max_rollouts",
    "max_model_calls",
    "max_seconds",
    "proposer_failed",
    "judge_failed",
]
"""Why a search ended: a limit of the configuration is reached, a path is good enough, more rollouts bring nothing,
nothing is left to try, or the model in one of its roles keeps failing."""


class BestPath:
    """The path of the best value: its goal score times its mean r_post.

    In the paper's form, without goal scores, it is the descent along the best Q, and its value the cumulative reward on
    it; as long as that changes, a search has not converged.
    """

    def __init__(self, config: KernelConfig) -> None:
        self.value: float | None = None  # of the best path, once there is one
        self._config = config
        self._counting = not config.goal_score
        self._compared = -math.inf  # the value at the latest gain or change
        self._stale_rollouts = 0
        self._end: Node | None = None
        self._has_goals = False

    def consider(self, tree: Tree, node: Node) -> bool:
        """Take in a node that was just evaluated; whether goal score and value of its path suffice to stop at once."""
        self._has_goals = self._has_goals or node.goal_scored
        if not self._config.goal_score:
            self._follow(tree)
            return False
        if not node.accepted:
            return False
        value = tree.path_value(node)
        fulfilled = (node.goal or 0.0) >= GOAL
        self._counting = self._counting or fulfilled
        if value - self._compared >= MIN_GAIN:
            self._compared, self._stale_rollouts = value, 0
        if self.value is None or self._end is None or (value, -node.depth) > (self.value, -self._end.depth):
            self.value, self._end = value, node
        return fulfilled and value >= self._config.value_threshold

    def _follow(self, tree: Tree) -> None:
        """Take the value of the descent along the best Q for the best one."""
        end = tree.best_descent()
        if end is None:
            return
        self.value = tree.cumulative_reward(end)
        if abs(self.value - self._compared) >= MIN_GAIN:
            self._compared, self._stale_rollouts = self.value, 0

    def converged(self) -> bool:
        """Count a rollout that has ended; whether there were more than `patience` in a row that brought nothing."""
        self._stale_rollouts += self._counting
        return self._stale_rollouts > self._config.patience

    def find(self, tree: Tree) -> Node | None:
        """The end of the path to return, `None` if no call is accepted.

        With goal scores that of the highest value, ties to fewer calls; without, or if the judge never gave one, the
        end of the descent along the best Q.
        """
        return self._end if self._config.goal_score and self._has_goals else tree.best_descent()
