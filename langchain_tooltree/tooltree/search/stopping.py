"""The best path so far, and whether searching on can gain anything. Pure."""

from dataclasses import dataclass
from typing import Literal

from langchain_tooltree.tooltree.search.config import SearchConfig
from langchain_tooltree.tooltree.search.posterior import PathPosterior
from langchain_tooltree.tooltree.search.tree import Node, Tree

Limit = Literal["max_rollouts", "max_model_calls", "max_tool_calls", "max_tokens", "max_seconds"]

StopReason = Limit | Literal["solved", "converged", "exhausted", "cancelled", "proposer_failed", "judge_failed"]
"""Why a search ended: a limit of the configuration is reached, a path is good enough, more rollouts bring nothing,
nothing is left to try, the caller cancelled, or the model in one of its roles keeps failing."""


@dataclass(slots=True)
class Convergence:
    """Counts rollouts without a gain, from the first solution on."""

    config: SearchConfig
    counting: bool = False
    _compared: float | None = None
    _stale_rollouts: int = 0

    def compare(self, value: float) -> None:
        """Take in the value of the best path; a gain of `min_gain` starts the count again."""
        if self._compared is None or value - self._compared >= self.config.min_gain:
            self._compared, self._stale_rollouts = value, 0

    def rollout_ended(self) -> bool:
        """Count a rollout; whether there were more than `patience` in a row without a gain."""
        self._stale_rollouts += self.counting
        return self._stale_rollouts > self.config.patience


class BestPath:
    """The path of the best value: its goal score times its mean r_post.

    In the paper's form, without goal scores, the best Q of a first call stands in for the value, and rollouts without a
    gain count from the start.
    """

    def __init__(self, config: SearchConfig) -> None:
        self.value: float | None = None  # of the best path, once there is one
        self.convergence = Convergence(config, counting=not config.goal_score)
        self._config = config
        self._end: int | None = None
        self._depth = 0
        self._goals_known = False

    def consider(self, tree: Tree, node: Node) -> bool:
        """Take in a node that was just evaluated, rewards propagated.

        Returns:
            Whether its path is good enough to stop at once: goal score and value have reached their bounds.
        """
        self._goals_known = self._goals_known or node.goal_scored
        if not node.accepted:
            return False
        fulfilled = False
        if self._config.goal_score:
            value = tree.path_value(node)
            fulfilled = (node.goal or 0.0) >= self._config.goal_threshold
            self.convergence.counting = self.convergence.counting or fulfilled
        else:
            value = max(child.value for child in tree.children(tree.root))
        self.convergence.compare(value)
        if self.value is None or (value, -node.depth) > (self.value, -self._depth):
            self.value, self._end, self._depth = value, node.id, node.depth
        return fulfilled and value >= self._config.value_threshold

    def find(self, tree: Tree) -> Node | None:
        """The end of the path to return, `None` if no call is accepted.

        With goal scores that of the highest value, ties to fewer calls; without, or if the judge never gave one, the
        end of the descent along the best Q.
        """
        if self._config.goal_score and self._goals_known:
            return None if self._end is None else tree.nodes[self._end]
        return tree.best_descent()


class MostProbablePath:
    """The path that is right and fulfils the request with the highest posterior probability."""

    def __init__(self, config: SearchConfig, posterior: PathPosterior) -> None:
        self.convergence = Convergence(config)
        self.convergence.compare(0.0)
        self._config = config
        self._posterior = posterior

    @property
    def value(self) -> float | None:
        """The probability; `None` before there is a path."""
        root = self._posterior.root
        return None if root.solution_at is None else root.solution

    def consider(self, tree: Tree, node: Node) -> bool:
        """Take in a node that was just evaluated.

        Returns:
            Whether some path, not only that of the node, is right and complete with the configured confidence, and its
            end was judged.
        """
        fulfilled = node.accepted and (node.goal or 0.0) >= self._config.goal_threshold
        self.convergence.counting = self.convergence.counting or fulfilled
        root = self._posterior.root
        self.convergence.compare(root.solution)
        confident = root.solution_at is not None and root.solution >= self._config.confidence
        return confident and tree.nodes[root.solution_at or 0].accepted

    def find(self, tree: Tree) -> Node | None:
        """The end of the most probable plan."""
        end = self._posterior.root.solution_at
        return None if end is None else tree.nodes[end]
