"""Selection rules: where the next rollout works. Pure.

A rule sees the whole tree and answers with the node to work at: a call that has not run yet, or a state to ask for
calls.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from langchain_tooltree.tooltree.search.config import SearchConfig
from langchain_tooltree.tooltree.search.posterior import PathPosterior
from langchain_tooltree.tooltree.search.tree import Frontier, Node, Tree, Work

WORTH_STARTING = 0.75
"""Work that is less likely to help than this share of the best work already in flight waits for what that brings."""


class SelectionPolicy(Protocol):
    """Chooses what rollouts do."""

    def select(self, tree: Tree, frontier: Frontier) -> Work | None:
        """Choose where a rollout begins.

        Args:
            tree: The tree so far.
            frontier: What may be worked on.

        Returns:
            What to do there; `None` if nothing is worth starting now.
        """

    def after_scoring(self, tree: Tree, frontier: Frontier, kept: Sequence[Node]) -> Work | None:
        """Choose where a rollout works on that has had candidates scored.

        Args:
            tree: The tree so far.
            frontier: What may be worked on.
            kept: The candidates that were not pruned, best r_pre first.

        Returns:
            What to do there; `None` if the rollout ends here.
        """

    def judges_at_once(self, frontier: Frontier, node: Node) -> bool:
        """Whether what a call has brought back is judged in the rollout that ran it.

        Args:
            frontier: What may be worked on.
            node: The call that has run.
        """


@dataclass(frozen=True, slots=True)
class UCTPolicy:
    """Eq. 1 of the paper, descending from the root.

    Rollouts in flight count as visits without a reward (WU-UCT, Liu et al. 2020), so parallel rollouts spread out.

    `smoothed`: `Q(s,a) + lambda * r_pre(s,a) * sqrt(ln(1 + N(s))) / (1 + N(s,a))`, as in the authors' released code
    and made defined at N = 0; a child never visited takes the configured first-play value for Q.

    `printed`: `Q(s,a) + lambda * r_pre(s,a) * sqrt(ln N(s) / N(s,a))`; children never visited come first, in the
    order of r_pre.

    Args:
        config: Supplies the form, lambda, its decay and the first-play value.
    """

    config: SearchConfig

    def select(self, tree: Tree, frontier: Frontier) -> Work | None:
        """Descend along the best scores; where a branch is wholly in flight, take the next best."""
        return self._descend(tree, tree.root, frontier)

    def after_scoring(self, tree: Tree, frontier: Frontier, kept: Sequence[Node]) -> Work | None:  # noqa: ARG002
        """Run the best of the new candidates, as in the paper."""
        return Work("execute", kept[0]) if kept else None

    def judges_at_once(self, frontier: Frontier, node: Node) -> bool:  # noqa: ARG002
        """Always: the reward is what a rollout is for."""
        return True

    def _descend(self, tree: Tree, state: Node, frontier: Frontier) -> Work | None:
        if frontier.askable(state) and frontier.spent(state):
            return Work("propose", state)
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
                return Work("execute", child)
            if found := self._descend(tree, child, frontier):
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


@dataclass(frozen=True, slots=True)
class PosteriorPolicy:
    """Best-first on the probability that the whole path is right.

    The next rollout works where the right path most likely goes on: at a call that has not run, at a state that was
    not asked yet, at one whose candidates are probably all wrong, or at an observation that may be the last one. What
    a call has brought back is read by the proposer anyway; it is put to the judge where that can decide something.

    Args:
        beliefs: The posterior over the paths of the tree.
        config: Says whether every observation is judged nevertheless.
    """

    beliefs: PathPosterior
    config: SearchConfig

    def select(self, tree: Tree, frontier: Frontier) -> Work | None:  # noqa: ARG002 - the beliefs know both
        """The most promising work, unless what is in flight promises much more."""
        root = self.beliefs.root
        return None if root.best < WORTH_STARTING * root.busy else root.work

    def after_scoring(self, tree: Tree, frontier: Frontier, kept: Sequence[Node]) -> Work | None:  # noqa: ARG002
        """The same, anywhere in the tree: good candidates elsewhere are not left for bad ones here."""
        return self.select(tree, frontier)

    def judges_at_once(self, frontier: Frontier, node: Node) -> bool:
        """If the call changes the world, has failed, or nothing may follow it."""
        changes = node.call is not None and node.call.effect != "read"
        failed = node.observation is None or node.observation.kind != "ok"
        return changes or failed or frontier.is_deepest(node) or self.config.post_evaluation == "always"
