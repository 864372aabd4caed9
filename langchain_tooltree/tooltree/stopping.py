"""The best path so far, and whether looking on is worth it. Pure."""

from dataclasses import dataclass
from typing import Literal

from langchain_tooltree.tooltree.config import SearchConfig
from langchain_tooltree.tooltree.tree import Node, Tree

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

    def consider(self, tree: Tree, node: Node, *, goal_known: bool) -> None:
        """Take in a node that was just evaluated.

        Args:
            tree: The tree, rewards propagated.
            node: The node.
            goal_known: Whether its goal score came from the judge.
        """
        self._goals_known = self._goals_known or goal_known
        if not node.post_scored or node.pruned:
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
        node = tree.root
        while worthy := [c for c in tree.children(node) if c.evaluated and c.post_scored and not c.pruned]:
            node = max(worthy, key=lambda child: (child.value, child.visits, -child.id))
        return node if node.call else None
