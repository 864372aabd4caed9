"""Selection rules: where the next rollout works. Pure.

A rule sees the whole tree and answers with the node to work at: a child that has not run yet, or a state to ask for
calls. Rollouts in flight count as visits without a reward (WU-UCT, Liu et al. 2020), so parallel rollouts spread out.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from langchain_tooltree.tooltree.config import SearchConfig
from langchain_tooltree.tooltree.tree import Node, Tree


class SelectionRule(Protocol):
    """Chooses the node at which the next rollout works."""

    def select(self, tree: Tree, expandable: Callable[[Node], bool]) -> Node | None:
        """Choose a node.

        Args:
            tree: The tree so far.
            expandable: Whether a state may be asked for calls now.

        Returns:
            An unvisited child to run, or a state to expand; `None` if all that is open is already in flight.
        """


@dataclass(frozen=True, slots=True)
class UpperConfidence:
    """Eq. 1 of the paper, descending from the root.

    `smoothed`: `Q(s,a) + lambda * r_pre(s,a) * sqrt(ln(1 + N(s))) / (1 + N(s,a))`, as in the authors' released code
    and made defined at N = 0; a child never visited takes the configured first-play value for Q.

    `printed`: `Q(s,a) + lambda * r_pre(s,a) * sqrt(ln N(s) / N(s,a))`; children never visited come first, in the
    order of r_pre.

    Args:
        config: Supplies the form, lambda, its decay and the first-play value.
    """

    config: SearchConfig

    def select(self, tree: Tree, expandable: Callable[[Node], bool]) -> Node | None:
        """Descend along the best scores; where a branch is wholly in flight, take the next best."""
        return self._descend(tree, tree.root, expandable)

    def _descend(self, tree: Tree, state: Node, expandable: Callable[[Node], bool]) -> Node | None:
        if expandable(state):
            return state
        state_visits = tree.state_visits(state) + state.in_flight
        ranked = sorted(
            (child for child in tree.children(state) if _is_open(child)),
            key=lambda child: (
                self.score(state, state_visits, child),
                child.visits,
                child.r_pre,
                tree.jitter(child),
            ),
            reverse=True,
        )
        for child in ranked:
            if not child.evaluated:
                return child
            if found := self._descend(tree, child, expandable):
                return found
        return None

    def score(self, state: Node, state_visits: int, child: Node) -> float:
        """Eq. 1 for one child.

        Args:
            state: The parent.
            state_visits: N(s), rollouts in flight included.
            child: The child to score; pre-evaluated.

        Returns:
            The upper confidence bound; infinite for an unvisited child under `printed`.
        """
        prior = child.r_pre or 0.0
        weight = self.config.exploration * self.config.exploration_decay**state.depth
        visits = child.visits + child.in_flight
        if self.config.selection == "printed":
            if visits == 0:
                return math.inf
            return child.value + weight * prior * math.sqrt(math.log(max(state_visits, 1)) / visits)
        value = child.value if child.visits else self._first_play(state, child)
        return value + weight * prior * math.sqrt(math.log1p(state_visits)) / (1 + visits)

    def _first_play(self, state: Node, child: Node) -> float:
        match self.config.first_play:
            case "parent_mean":
                return state.value
            case "r_pre":
                return child.r_pre or 0.0
            case "zero":
                return 0.0


def _is_open(child: Node) -> bool:
    """Whether a rollout may enter: scored, not pruned, work left, and not being run for the first time now."""
    if child.r_pre is None or child.pruned is not None or child.closed:
        return False
    return child.evaluated or child.in_flight == 0
