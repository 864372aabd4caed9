"""Selection policies: where the next rollout works. Pure.

A policy sees the whole tree and returns the node to work at: a call that has not run yet, a state to ask for calls, or
an observation to judge.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from langchain_tooltree.tooltree.search.config import SearchConfig
from langchain_tooltree.tooltree.search.posterior import PathPosterior
from langchain_tooltree.tooltree.search.tree import Frontier, Node, Tree, Work

START_SHARE = 0.75
"""Work that is less likely to help than this share of the best work in flight waits for what that brings. Measured with
`tests.benchmarks.compare`: .75 where calls are scarce, .3 balanced, .1 where time is (1.5 times as fast with 8 in
flight, for twice the calls)."""


class SelectionPolicy(Protocol):
    """Chooses what rollouts do."""

    def select(self, tree: Tree, frontier: Frontier) -> Work | None:
        """Where a rollout begins; `None` if nothing should be started now."""

    def after_scoring(self, tree: Tree, frontier: Frontier, kept: Sequence[Node]) -> Work | None:
        """Where a rollout works on whose candidates were scored; `None` if it ends here.

        `kept` are the candidates that were not pruned, best r_pre first.
        """

    def judges_at_once(self, frontier: Frontier, node: Node) -> bool:
        """Whether what a call has brought back is judged in the rollout that ran it."""


@dataclass(frozen=True, slots=True)
class UCTPolicy:
    """Eq. 1 of ToolTree (arXiv 2603.12740), descending from the root.

    Rollouts in flight count as visits without a reward (WU-UCT, Liu et al. 2020), so parallel rollouts spread out.
    """

    config: SearchConfig

    def score(self, state: Node, state_visits: int, child: Node) -> float:
        """Eq. 1 for one pre-evaluated child.

        With Q = Q(s, a), N = N(s, a), lambda = `exploration`, and visits that count rollouts in flight:

            printed:   Q + lambda * r_pre(s, a) * sqrt(ln N(s) / N)                (Eq. 1 as the paper prints it)
            smoothed:  Q + lambda * r_pre(s, a) * sqrt(ln(1 + N(s))) / (1 + N)     (Eq. 1 as the authors' code has it)

        `printed` visits every child once first, in the order of r_pre. `smoothed` is made defined at N = 0: a child
        never visited takes the configured first-play value for Q.

        Args:
            state: The parent.
            state_visits: N(s), rollouts in flight included.
            child: The child.

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

    def select(self, tree: Tree, frontier: Frontier) -> Work | None:
        """Descend along the best scores; where a branch is wholly in flight, take the next best."""
        return self._descend(tree, tree.root, frontier)

    def _descend(self, tree: Tree, state: Node, frontier: Frontier) -> Work | None:
        if frontier.askable(state) and frontier.spent(state):
            return Work("propose", state)
        state_visits = tree.state_visits(state) + state.in_flight
        may_enter = [child for child in tree.children(state) if _may_enter(child)]
        jitter = {child.id: tree.jitter(child) for child in may_enter}
        may_enter.sort(
            key=lambda child: (self.score(state, state_visits, child), child.visits, child.r_pre, jitter[child.id]),
            reverse=True,
        )
        for child in may_enter:
            if child.r_post is None:
                return Work("execute", child)
            if found := self._descend(tree, child, frontier):
                return found
        return None

    def after_scoring(self, tree: Tree, frontier: Frontier, kept: Sequence[Node]) -> Work | None:  # noqa: ARG002
        """Run the best of the new candidates, as in the paper."""
        return Work("execute", kept[0]) if kept else None

    def judges_at_once(self, frontier: Frontier, node: Node) -> bool:  # noqa: ARG002
        """Always: the reward is what a rollout is for."""
        return True


def _may_enter(child: Node) -> bool:
    """Whether a rollout may enter: scored, not pruned, work left, and not being run for the first time now."""
    if child.r_pre is None or child.pruned is not None or child.closed:
        return False
    return child.r_post is not None or child.in_flight == 0


@dataclass(frozen=True, slots=True)
class PosteriorPolicy:
    """Best-first on the probability that the whole path is right.

    The next rollout works where the right path most probably goes on: at a call that has not run, at a state that was
    not asked yet, at one whose candidates are probably all wrong, or at an observation that may be the last one. The
    proposer reads what a call has brought back anyway; the judge is asked about it where that can decide something.
    """

    posterior: PathPosterior
    config: SearchConfig

    def select(self, tree: Tree, frontier: Frontier) -> Work | None:  # noqa: ARG002 - the posterior knows both
        """The most promising work, unless what is in flight promises much more."""
        root = self.posterior.root
        return None if root.best < START_SHARE * root.busy else root.work

    def after_scoring(self, tree: Tree, frontier: Frontier, kept: Sequence[Node]) -> Work | None:  # noqa: ARG002
        """The same, anywhere in the tree: good candidates elsewhere are not left for bad ones here."""
        return self.select(tree, frontier)

    def judges_at_once(self, frontier: Frontier, node: Node) -> bool:
        """If the call changes the world, has failed, or nothing may follow it."""
        changes = node.call is not None and node.call.effect != "read"
        failed = node.observation is None or node.observation.kind != "ok"
        return changes or failed or frontier.is_deepest(node) or self.config.post_evaluation == "always"
