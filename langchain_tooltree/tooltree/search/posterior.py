"""How likely each path of a search tree is to be the right one, given all scores so far. Pure.

A path is right if every call on it was the right one to make. A state on the right path is likely to offer the next
right call among its candidates, any other state less so, and a judge scores right calls higher than wrong ones. Bayes'
rule over the tree then gives, for every path, the probability that it is right. "None of these" is one of the
alternatives in every state, so asking a state again competes with everything else; and evidence flows upwards: a state
whose candidates all look bad was probably reached by a wrong call.

A change at one node touches the path above it only, so that a rollout costs the same in a large tree as in a small one.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from langchain_tooltree.tooltree.search.config import SearchConfig
from langchain_tooltree.tooltree.search.tree import ROOT, Frontier, Node, Tree, Work

RIGHT_SCORE, WRONG_SCORE = 0.7, 0.3
"""Mean score of a right call and of a wrong one."""

DONE_SCORE, OPEN_SCORE = 0.75, 0.25
"""Mean goal score where the request is fulfilled, and where it is not."""

DEVIATION = 0.2
"""Standard deviation of a score, as long as nothing is known of the judge."""

LEAST_DEVIATION = 0.15
"""However close together the scores are, the judge is not taken to be surer than this."""

SCORES_ASSUMED = 15
"""So many scores the assumed deviation counts for."""

BETWEEN = 0.015
"""Variance of scores that comes from some calls being right and others wrong, not from the judge's uncertainty."""

OPINION = 0.5
"""Share of the variance that is the same in every score of a call."""

STRONGEST = 8.0
"""Bound on the logarithm of a likelihood ratio: no score is proof."""

FIRST_FIT = 10
FIT_GROWTH = 1.25
"""The deviation is fitted after so many scores, and again each time there are so many times more: what has to be
worked out anew then costs a constant share of the search."""


@dataclass(slots=True)
class JudgeCalibration:
    """Turns scores into likelihood ratios.

    Attributes:
        deviation: Standard deviation of a score around its mean.
    """

    deviation: float = DEVIATION
    _scores: int = 0
    _sum: float = 0.0
    _squares: float = 0.0
    _next_fit: int = FIRST_FIT

    def learn(self, r_pre: float) -> bool:
        """Take in the first score of a call.

        Returns:
            Whether the deviation was fitted anew, so that earlier ratios are out of date.
        """
        self._scores += 1
        self._sum += r_pre
        self._squares += r_pre**2
        if self._scores < self._next_fit:
            return False
        self._next_fit = math.ceil(self._scores * FIT_GROWTH)
        spread = self._squares - self._sum**2 / self._scores
        own = spread - BETWEEN * self._scores
        variance = (SCORES_ASSUMED * DEVIATION**2 + own) / (SCORES_ASSUMED + self._scores)
        self.deviation = math.sqrt(max(variance, LEAST_DEVIATION**2))
        return True

    def call_ratio(self, *scores: float) -> float:
        """How much likelier the scores of one call are if it is right than if it is wrong.

        Args:
            *scores: r_pre, r_post, or both; their mean says all that they say together.

        Returns:
            The likelihood ratio; 1 without any score.
        """
        if not scores:
            return 1.0
        return self._ratio(scores, RIGHT_SCORE, WRONG_SCORE)

    def goal_ratio(self, goal: float) -> float:
        """How much likelier a goal score is if the request is fulfilled than if it is not."""
        return self._ratio((goal,), DONE_SCORE, OPEN_SCORE)

    def _ratio(self, scores: tuple[float, ...], high: float, low: float) -> float:
        variance = self.deviation**2 * (OPINION + (1 - OPINION) / len(scores))
        mean = sum(scores) / len(scores)
        logarithm = (high - low) / variance * (mean - (high + low) / 2)
        return math.exp(min(max(logarithm, -STRONGEST), STRONGEST))


OFFERED, OFFERED_ASTRAY = 0.9, 0.4
"""How likely a state offers a next right call each time it is asked: on the right path, and off it."""

FIRST = 0.55
"""How likely the right call stands first, where candidates come best first and it is among them."""

HARMLESS = 0.25
"""How likely a call that was not the right one has done no harm, so that the path is still right after it."""

DONE = 0.15
"""How likely the request is fulfilled after one more right call, before any score is known."""

SILENT_IF_DONE, SILENT_IF_OPEN, SILENT_ASTRAY = 0.9, 0.05, 0.15
"""How likely a model that is asked for calls offers none: the request is fulfilled, it is not, or the path is wrong."""

DEEPER = 1.05
"""How much work is worth more for each call that its path is longer: less of the path is left to find."""

EXTREME = 1e30
"""Bound on likelihood ratios and their inverses, so that long paths do not overflow."""


@dataclass(slots=True)
class NodePosterior:
    """What is believed of a node; "here" means: given that the path to the node is right.

    Attributes:
        offered: Prior probability that, of all that its state may offer, this call is the right one.
        offered_astray: The same for a state off the right path.
        scored: Whether r_pre of the call is taken in.
        happened: Whether the call was run: then the path may go on after it even if it was not the right one.
        ratio: Likelihood ratio of the call's own scores, right against wrong.
        evidence: Likelihood ratio of all that was seen at and below the state, on the right path against off it.
        done: Probability here that the request is fulfilled.
        best: Worth here of the best work that could be started at or below the node: the probability that the right
            path goes on there, times `DEEPER` for each call below the node.
        work: That work, `None` if there is none.
        busy: Worth here of the best work in flight at or below the node.
        solution: Probability here of the likeliest complete plan that ends at or below the node.
        solution_at: Node that it ends in, `None` if there is none.
    """

    offered: float = 0.0
    offered_astray: float = 0.0
    scored: bool = False
    happened: bool = False
    ratio: float = 1.0
    evidence: float = 1.0
    done: float = 0.0
    best: float = 0.0
    work: Work | None = None
    busy: float = 0.0
    solution: float = 0.0
    solution_at: int | None = None

    @property
    def unharmed(self) -> float:
        """Likelihood ratio of what was seen below the call, wrong but maybe harmless against off the right path."""
        return HARMLESS * self.evidence + 1 - HARMLESS

    @property
    def promising(self) -> bool:
        """Whether there is any work or plan at or below the node."""
        return bool(self.best or self.busy or self.solution)

    @property
    def found(self) -> tuple[float, Work | None, float, float, float, int | None]:
        """All that the node above depends on, beside the scores of the call."""
        return self.best, self.work, self.busy, self.evidence, self.solution, self.solution_at


class PathPosterior:
    """The posterior over the paths of one tree.

    Args:
        config: The settings.
        tree: The tree.
        frontier: What may be worked on.
    """

    def __init__(self, config: SearchConfig, tree: Tree, frontier: Frontier) -> None:
        self._tree = tree
        self._frontier = frontier
        self._ranked = config.proposals == "together"
        self._goal_threshold = config.goal_threshold
        self._calibration = JudgeCalibration()
        self._beliefs = [NodePosterior()]
        self._learnt = 1
        self._infer(tree.root)

    @property
    def root(self) -> NodePosterior:
        """What is believed of the root, and so of the tree as a whole."""
        return self._beliefs[ROOT]

    def update(self, node: Node) -> None:
        """Take in that something has changed at a node: its candidates, its scores, or the work in flight.

        Args:
            node: The node; what is new among its children is taken in as well.
        """
        known = len(self._beliefs)
        self._take_in(self._tree.nodes[known:])
        if self._learn():
            self._weigh_all()
            return
        for child in self._tree.children(node):
            if child.id >= known or (child.r_pre is not None and not self._beliefs[child.id].scored):
                self._weigh(child)
                self._infer(child)
        self._weigh(node)
        self._infer(node)
        self._infer_above(node)

    def _infer_above(self, node: Node) -> None:
        """Carry a change upwards, until a node is reached of which the same is believed as before."""
        above = self._tree.parent(node)
        while above is not None:
            before = self._beliefs[above.id].found
            self._infer(above)
            if self._beliefs[above.id].found == before:
                return
            above = self._tree.parent(above)

    def adopt(self) -> None:
        """Take in a tree that an earlier search has grown."""
        self._take_in(self._tree.nodes[len(self._beliefs) :])
        self._learn()
        self._weigh_all()

    def _weigh_all(self) -> None:
        for node in reversed(self._tree.nodes):
            self._weigh(node)
            self._infer(node)

    def _take_in(self, fresh: Sequence[Node]) -> None:
        """Give new candidates their prior: what their state was likely to offer, shared out by rank."""
        sizes = Counter((node.parent, node.offer) for node in fresh)
        seen = set[tuple[int | None, int]]()
        for node in fresh:
            offer = (node.parent, node.offer)
            size = sizes[offer]
            share = 1 / size
            if self._ranked and size > 1:
                share = (1 - FIRST) / (size - 1) if offer in seen else FIRST
            seen.add(offer)
            earlier = node.offer - 1
            self._beliefs.append(
                NodePosterior(
                    offered=(1 - OFFERED) ** earlier * OFFERED * share,
                    offered_astray=(1 - OFFERED_ASTRAY) ** earlier * OFFERED_ASTRAY * share,
                )
            )

    def _learn(self) -> bool:
        """Learn from candidates that were scored since; whether everything has to be weighed anew."""
        fitted = False
        while self._learnt < len(self._tree) and (score := self._tree[self._learnt].r_pre) is not None:
            if self._tree[self._learnt].pre_scored:
                fitted = self._calibration.learn(score) or fitted
            self._learnt += 1
        return fitted

    def _weigh(self, node: Node) -> None:
        """What the scores of a call say of it; a score that no judge gave says nothing."""
        given = ((node.r_pre, node.pre_scored), (node.r_post, node.post_scored))
        scores = [score for score, scored in given if scored and score is not None]
        self._beliefs[node.id].scored = node.r_pre is not None
        self._beliefs[node.id].happened = node.observation is not None
        self._beliefs[node.id].ratio = self._calibration.call_ratio(*scores)

    def _infer(self, node: Node) -> None:
        """Bayes' rule at one node, from what is believed of its children; then the best work and plan below it."""
        belief = self._beliefs[node.id]
        if node.deferred:
            self._wait(node, belief)
            return
        children = [self._beliefs[child] for child in node.children]
        none = (1 - OFFERED) ** node.proposals
        right, astray = none, (1 - OFFERED_ASTRAY) ** node.proposals
        others = 1.0
        parts: list[float] = []
        for child in children:
            unharmed = child.unharmed
            parts.append(child.offered * child.ratio * child.evidence / unharmed)
            right += parts[-1]
            astray += child.offered_astray * child.ratio
            others *= unharmed
        if_done, if_open, if_astray = _said_nothing(node)
        prior = DONE if node.call else 0.0
        done = prior * self._goal_ratio(node) * if_done
        unfinished = (1 - prior) * right * others * if_open
        belief.evidence = min(max((done + unfinished) / (astray * if_astray), 1 / EXTREME), EXTREME)
        belief.done = done / (done + unfinished)
        shares = [(child, part / right) for child, part in zip(children, parts, strict=True) if child.promising]
        self._choose(node, belief, shares, again=none / right)

    def _goal_ratio(self, node: Node) -> float:
        """What the goal score of a node says; one that no judge gave says nothing."""
        return self._calibration.goal_ratio(node.goal) if node.goal is not None and node.goal_scored else 1.0

    def _wait(self, node: Node, belief: NodePosterior) -> None:
        """A deferred write ends its plan whether more has to follow or not: the next search goes on from there."""
        belief.work = Work("execute", node) if self._frontier.runnable(node) else None
        belief.best = float(belief.work is not None)
        belief.busy = float(node.in_flight > 0 and not node.evaluated)
        belief.solution, belief.solution_at = float(node.worthy), node.id

    def _choose(
        self, node: Node, belief: NodePosterior, shares: Sequence[tuple[NodePosterior, float]], *, again: float
    ) -> None:
        """Find the best work that could be started, that in flight, and the likeliest plan, at or below a node."""
        belief.best, belief.work, belief.busy = 0.0, None, 0.0
        belief.solution, belief.solution_at = 0.0, None
        if node.pruned is not None:
            return
        unfinished = 1 - belief.done
        if node.worthy or node.harmless:
            belief.solution, belief.solution_at = belief.done, node.id
        belief.best, belief.work = self._work_at(node, belief, again)
        if node.in_flight and node.call and node.observation is None:
            belief.busy = 1.0
        elif node.proposing or any(child.r_pre is None for child in self._tree.children(node)):
            belief.busy = unfinished
        elif node.evaluating:
            belief.busy = belief.done
        for child, as_right in shares:
            share = as_right
            if child.happened:
                share += (1 - share) * HARMLESS * child.evidence / child.unharmed
            share *= unfinished
            if share * DEEPER * child.best > belief.best:
                belief.best, belief.work = share * DEEPER * child.best, self._before_write(node, child.work)
            if share * child.solution > belief.solution and not self._is_needless(node, child.solution_at):
                belief.solution, belief.solution_at = share * child.solution, child.solution_at
            belief.busy = max(belief.busy, share * DEEPER * child.busy)

    def _is_needless(self, state: Node, end: int | None) -> bool:
        """Whether a plan ends in a write right after a state in which the judge holds the request fulfilled."""
        fulfilled = state.worthy and (state.goal or 0.0) >= self._goal_threshold
        return fulfilled and end is not None and self._tree[end].deferred and self._tree[end].parent == state.id

    def _before_write(self, state: Node, work: Work | None) -> Work | None:
        """The work, unless a write is to be planned in a state that nobody has judged: it may be needless there."""
        writes = work is not None and work.node.deferred and work.node.parent == state.id
        return Work("evaluate", state) if writes and self._frontier.judgeable(state) else work

    def _work_at(self, node: Node, belief: NodePosterior, none: float) -> tuple[float, Work | None]:
        """The best work at a node itself, and its worth."""
        if self._frontier.runnable(node):
            return 1.0, Work("execute", node)
        choices: list[tuple[float, Work]] = []
        if self._frontier.askable(node):
            again = none * OFFERED if node.proposals else 1.0
            choices.append(((1 - belief.done) * again, Work("propose", node)))
        if self._frontier.judgeable(node) and (node.proposals or not choices):
            choices.append((belief.done, Work("evaluate", node)))
        return max(choices, key=lambda choice: choice[0], default=(0.0, None))


def _said_nothing(node: Node) -> tuple[float, float, float]:
    """How likely a state's answer, calls or none, is if the request is done, if it is not, and off the right path."""
    if not node.proposals:
        return 1.0, 1.0, 1.0
    if node.finished and not node.children:
        return SILENT_IF_DONE, SILENT_IF_OPEN, SILENT_ASTRAY
    return 1 - SILENT_IF_DONE, 1 - SILENT_IF_OPEN, 1 - SILENT_ASTRAY
