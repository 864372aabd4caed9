"""The best path so far, and whether looking on is worth it. Pure."""

from dataclasses import dataclass
from typing import Literal

from langchain_tooltree.tooltree.search.config import SearchConfig
from langchain_tooltree.tooltree.search.posterior import PathPosterior
from langchain_tooltree.tooltree.search.tree import Node, Tree

StopReason = Literal[
    "solved",
    "converged",
    "exhausted",
    "max_rollouts",
    "max_model_calls",
    "max_tool_calls",
    "max_tokens",
    "max_seconds",
    "cancelled",
    "proposer_failed",
    "judge_failed",
]
"""Why a search ended: a path is good enough, looking on brings nothing, nothing is left to look at, a limit of the
configuration is reached, the caller cancelled, or the model in one of its roles keeps failing."""


@dataclass(slots=True)
class BestPath:
    """Follows the best path while a search grows.

    The value of a path is its goal score times its mean r_post; in the paper's form, without goal scores, the best Q
    of a first call stands in for it.

    Args:
        config: Supplies thresholds and patience.

    Attributes:
        value: Value of the best path; `None` before the first.
        end: Identifier of the node it ends in.
    """

    config: SearchConfig
    value: float | None = None
    end: int | None = None
    _depth: int = 0
    _solved: bool = False
    _goals_known: bool = False
    _compared: float | None = None
    _stale_rollouts: int = 0

    def consider(self, tree: Tree, node: Node) -> None:
        """Take in a node that was just evaluated.

        Args:
            tree: The tree, rewards propagated.
            node: The node.
        """
        self._goals_known = self._goals_known or node.goal_scored
        if not node.worthy:
            return
        if self.config.goal_score:
            value = tree.path_value(node)
            self._solved = self._solved or (node.goal or 0.0) >= self.config.goal_threshold
        else:
            value = max(child.value for child in tree.children(tree.root))
        if self._compared is None or value - self._compared >= self.config.min_gain:
            self._compared = value
            self._stale_rollouts = 0
        if self.value is None or (value, -node.depth) > (self.value, -self._depth):
            self.value, self.end, self._depth = value, node.id, node.depth

    def solves(self, tree: Tree, node: Node) -> bool:
        """Whether the path to a node is good enough to stop at once: goal score and value above their bounds."""
        return (
            self.config.goal_score
            and node.post_scored
            and not node.pruned
            and (node.goal or 0.0) >= self.config.goal_threshold
            and tree.path_value(node) >= self.config.value_threshold
        )

    def rollout_ended(self) -> Literal["converged"] | None:
        """Count a rollout.

        Returns:
            `"converged"` once `patience` rollouts in a row brought no gain. They count from the first solution on; in
            the paper's form from the start.
        """
        if self._solved or not self.config.goal_score:
            self._stale_rollouts += 1
        return "converged" if self._stale_rollouts > self.config.patience else None

    def find(self, tree: Tree) -> Node | None:
        """The end of the path to return.

        Args:
            tree: The tree.

        Returns:
            With goal scores the node of the highest path value, ties to fewer calls; without, or if the judge never
            gave one, the end of the descent along the best Q. `None` if no call was worth keeping.
        """
        if self.config.goal_score and self._goals_known:
            return None if self.end is None else tree[self.end]
        return tree.best_descent()


@dataclass(slots=True)
class LikeliestPath:
    """Follows the path that most likely is right and fulfils the request.

    Args:
        config: Supplies the confidence at which to stop, and patience.
        beliefs: The posterior over the paths of the tree.
    """

    config: SearchConfig
    beliefs: PathPosterior
    _solved: bool = False
    _compared: float = 0.0
    _stale_rollouts: int = 0

    @property
    def value(self) -> float | None:
        """Probability that the path is right and fulfils the request; `None` before there is one."""
        return None if self.beliefs.root.solution_at is None else self.beliefs.root.solution

    def consider(self, tree: Tree, node: Node) -> None:  # noqa: ARG002 - the beliefs know the tree
        """Take in a node that was just evaluated.

        Args:
            tree: The tree.
            node: The node; taken in by the beliefs.
        """
        self._solved = self._solved or (node.worthy and (node.goal or 0.0) >= self.config.goal_threshold)
        value = self.value or 0.0
        if value - self._compared >= self.config.min_gain:
            self._compared, self._stale_rollouts = value, 0

    def solves(self, tree: Tree, node: Node) -> bool:  # noqa: ARG002 - any node may decide on any path
        """Whether some path is so likely right and complete, by its goal score too, that the search may stop."""
        end = self.beliefs.root.solution_at
        return end is not None and tree[end].worthy and (self.value or 0.0) >= self.config.confidence

    def rollout_ended(self) -> Literal["converged"] | None:
        """Count a rollout.

        Returns:
            `"converged"` once `patience` rollouts in a row brought no gain, counted from the first solution on.
        """
        self._stale_rollouts += self._solved
        return "converged" if self._stale_rollouts > self.config.patience else None

    def find(self, tree: Tree) -> Node | None:
        """The end of the likeliest plan."""
        return None if self.beliefs.root.solution_at is None else tree[self.beliefs.root.solution_at]
