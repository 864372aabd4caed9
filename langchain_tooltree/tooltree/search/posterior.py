"""How probable each path of a search tree is to be the right one, given all scores so far. Pure.

A path is right if every call on it was the right one to make. A state on the right path probably offers the next right
call among its candidates, any other state less often, and a judge scores right calls higher than wrong ones. Bayes'
rule over the tree then gives, for every path, the probability that it is right. "None of these" is one of the
alternatives in every state, so asking a state again competes with everything else; and evidence flows upwards: a state
whose candidates all look bad was probably reached by a wrong call.

A change at one node affects the path above it only, so a rollout costs the same in a large tree as in a small one.

The constants are the assumptions of the model. All were chosen on the first 100 of the 200 multi-turn tasks of
`tests.benchmarks.compare`, for the most tasks solved within 20 to 160 model calls at judges of AUC 0.85 to 0.95; the
README's figures are those of the other 100. Where nothing else is said they are probabilities.
"""

import math
from collections import Counter
from dataclasses import dataclass

from langchain_tooltree.tooltree.search.config import SearchConfig
from langchain_tooltree.tooltree.search.tree import ROOT, Frontier, Node, Openings, Tree, Work

RIGHT_SCORE, WRONG_SCORE = 0.7, 0.3
"""Mean score of a right call and of a wrong one, in [0, 1]."""

DONE_SCORE, OPEN_SCORE = 0.75, 0.25
"""Mean goal score where the request is fulfilled, and where it is not, in [0, 1]."""

DEVIATION = 0.2
"""Standard deviation of a score before anything is known of the judge."""

LEAST_DEVIATION = 0.15
"""Least standard deviation: however close together its scores are, a judge is not taken to be surer than this."""

SCORES_ASSUMED = 15
"""How many scores the assumed deviation counts for."""

BETWEEN = 0.015
"""Variance of scores that comes from some calls being right and others wrong, not from the judge's uncertainty."""

OPINION = 0.5
"""Share of a score's variance that is the same in every score of one call."""

STRONGEST = 8.0
"""Bound on the logarithm of a likelihood ratio (3,000 to 1): no score is proof."""

FIRST_FIT, FIT_GROWTH = 10, 1.25
"""The deviation is fitted after so many scores, and again each time there are so many times more: what has to be
inferred again then costs a constant share of the search."""

OFFERED, OFFERED_ASTRAY = 0.9, 0.4
"""A state offers a next right call each time it is asked: on the right path, and off it."""

FIRST = 0.55
"""The right call stands first, where candidates come best first and it is among them."""

HARMLESS = 0.25
"""A call that was not the right one has done no harm, so that the path is still right after it."""

DONE = 0.15
"""The request is fulfilled after one more right call, before any score is known."""

SILENT_IF_DONE, SILENT_IF_OPEN, SILENT_ASTRAY = 0.9, 0.05, 0.15
"""A model that is asked for calls offers none: the request is fulfilled, it is not, or the path is wrong."""

DEEPER = 1.05
"""Factor by which work gains for each call that its path is longer: less of the path is left to find."""

EXTREME = 1e30
"""Bound on likelihood ratios of states and their inverses: products along 15 calls stay far from a float's 1e308."""


@dataclass(slots=True)
class JudgeCalibration:
    """Turns scores into likelihood ratios, and learns how far the judge's scores scatter around their means."""

    deviation: float = DEVIATION
    _scores: int = 0
    _sum: float = 0.0
    _squares: float = 0.0
    _next_fit: int = FIRST_FIT

    def learn(self, r_pre: float) -> bool:
        """Take in the first score of a call; whether the deviation was fitted, so that earlier ratios are outdated.

        The fit shrinks the variance that is seen, less `BETWEEN`, towards the one assumed:
        `deviation^2 = (n0 * DEVIATION^2 + sum (s - mean)^2 - n * BETWEEN) / (n0 + n)` with `n0 = SCORES_ASSUMED`.
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
        """Likelihood ratio, right against wrong, of r_pre, r_post or both; 1 without any score."""
        return self._ratio(scores, RIGHT_SCORE, WRONG_SCORE) if scores else 1.0

    def goal_ratio(self, goal: float) -> float:
        """Likelihood ratio of a goal score, request fulfilled against not fulfilled."""
        return self._ratio((goal,), DONE_SCORE, OPEN_SCORE)

    def _ratio(self, scores: tuple[float, ...], high: float, low: float) -> float:
        """Two normal distributions around `high` and `low`: `ln ratio = (high - low) / var * (mean - middle)`."""
        variance = self.deviation**2 * (OPINION + (1 - OPINION) / len(scores))
        mean = sum(scores) / len(scores)
        logarithm = (high - low) / variance * (mean - (high + low) / 2)
        return math.exp(min(max(logarithm, -STRONGEST), STRONGEST))


@dataclass(slots=True)
class NodePosterior:
    """What is inferred of a node; "here" means: given that the path to the node is right.

    Work promises the probability that the right path goes on there, times `DEEPER` for each call below the node.
    """

    offered: float = 0.0  # prior probability that, of all that its state may offer, this call is the right one
    offered_astray: float = 0.0  # the same for a state off the right path
    happened: bool = False  # whether the call was run: the path may go on after it even if it was wrong
    ratio: float = 1.0  # likelihood ratio of the call's own scores, right against wrong
    evidence: float = 1.0  # likelihood ratio of all seen at and below the state, right path against off it
    unharmed: float = 1.0  # the same for a call that was wrong and maybe harmless
    done: float = 0.0  # probability here that the request is fulfilled
    best: float = 0.0  # what the best work that could be started at or below the node promises here
    work: Work | None = None  # that work, `None` if there is none
    busy: float = 0.0  # what the best work in flight at or below the node promises here
    solution: float = 0.0  # probability here of the most probable complete plan that ends at or below the node
    solution_at: int | None = None  # node that it ends in, `None` if there is none

    def message(self) -> tuple[float, Work | None, float, float, float, int | None]:
        """All that the node above depends on, beside the call's own scores."""
        return self.best, self.work, self.busy, self.evidence, self.solution, self.solution_at


class PathPosterior:
    """The posterior over the paths of one tree.

    It follows `Tree.changed`: what has changed is inferred in one pass when it is next looked at.
    """

    def __init__(self, config: SearchConfig, tree: Tree, frontier: Frontier) -> None:
        self._tree = tree
        self._frontier = frontier
        self._ranked = config.proposals == "together"
        self._goal_threshold = config.goal_threshold
        self._calibration = JudgeCalibration()
        self._nodes = [NodePosterior()]
        self._learnt = 1
        """Nodes from which the calibration has learnt, the root among them."""

    @property
    def root(self) -> NodePosterior:
        """What is inferred of the root, and so of the tree as a whole."""
        if self._tree.changed:
            self._update()
        return self._nodes[ROOT]

    def _update(self) -> None:
        """Infer what has changed, and carry it upwards until a node is reached of which the same is inferred as before.

        Children come after their parents in the tree, so one pass from the last node to the first is enough.
        """
        nodes, changed = self._tree.nodes, self._tree.changed
        self._add_priors()
        if self._learn():
            changed.update(range(len(nodes)))
        above = set(changed)
        for node_id in changed:
            parent = nodes[node_id].parent
            while parent is not None and parent not in above:
                above.add(parent)
                parent = nodes[parent].parent
        may = self._frontier.openings(above)
        stale = set(changed)
        for node_id in sorted(above, reverse=True):
            if node_id not in stale:
                continue
            node, own = nodes[node_id], self._nodes[node_id]
            before = own.message()
            if node_id in changed:
                # What the scores of a call say of it; a score that no judge gave is no evidence.
                given = ((node.r_pre, node.pre_scored), (node.r_post, node.post_scored))
                known = [score for score, scored in given if scored and score is not None]
                own.happened, own.ratio = node.observation is not None, self._calibration.call_ratio(*known)
            self._infer(node, own, may[node_id])
            if node.parent is not None and (node_id in changed or own.message() != before):
                stale.add(node.parent)
        changed.clear()

    def _add_priors(self) -> None:
        """Give new candidates their prior: what their state probably offers, shared out by rank."""
        fresh = self._tree.nodes[len(self._nodes) :]
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
            self._nodes.append(
                NodePosterior(
                    offered=(1 - OFFERED) ** earlier * OFFERED * share,
                    offered_astray=(1 - OFFERED_ASTRAY) ** earlier * OFFERED_ASTRAY * share,
                )
            )

    def _learn(self) -> bool:
        """Learn from candidates that were scored since; whether every ratio is outdated."""
        nodes = self._tree.nodes
        fitted = False
        while self._learnt < len(nodes) and (score := nodes[self._learnt].r_pre) is not None:
            if nodes[self._learnt].pre_scored:
                fitted = self._calibration.learn(score) or fitted
            self._learnt += 1
        return fitted

    def _infer(self, node: Node, own: NodePosterior, may: Openings) -> None:
        """Bayes' rule at one node, from what is inferred of its children; then the best work and plan below it."""
        if node.call and node.call.effect == "write":
            # A deferred write ends its plan whether more has to follow or not: the next search starts after it.
            own.work = Work("execute", node) if may.run else None
            own.best = float(may.run)
            own.busy = float(node.in_flight > 0 and node.r_post is None)
            own.solution, own.solution_at = float(may.end), node.id
            return
        children = [self._nodes[child] for child in node.children]
        none = (1 - OFFERED) ** node.proposals
        right, astray = none, (1 - OFFERED_ASTRAY) ** node.proposals
        others = 1.0
        parts: list[float] = []
        for child in children:
            part = child.offered * child.ratio * child.evidence / child.unharmed
            parts.append(part)
            right += part
            astray += child.offered_astray * child.ratio
            others *= child.unharmed
        if_done, if_open, if_astray = _silence_likelihoods(node)
        prior = DONE if node.call else 0.0
        goal = self._calibration.goal_ratio(node.goal) if node.goal is not None and node.goal_scored else 1.0
        done = prior * goal * if_done
        unfinished = (1 - prior) * right * others * if_open
        own.evidence = min(max((done + unfinished) / (astray * if_astray), 1 / EXTREME), EXTREME)
        own.unharmed = HARMLESS * own.evidence + 1 - HARMLESS
        own.done = done / (done + unfinished)
        own.best, own.work, own.busy = 0.0, None, 0.0
        own.solution, own.solution_at = 0.0, None
        if node.pruned is None:
            self._choose_here(node, own, may, again=none / right)
            self._choose_below(
                node, own, may, [(child, part / right) for child, part in zip(children, parts, strict=True)]
            )

    def _choose_here(self, node: Node, own: NodePosterior, may: Openings, *, again: float) -> None:
        """The best work at a node itself, that in flight, and the plan that ends here.

        `again` is the probability that none of the calls offered so far is the right one.
        """
        if may.end:
            own.solution, own.solution_at = own.done, node.id
        if may.run:
            own.best, own.work = 1.0, Work("execute", node)
        else:
            if may.ask:
                own.best = (1 - own.done) * (again * OFFERED if node.proposals else 1.0)
                own.work = Work("propose", node)
            if may.judge and (node.proposals or not may.ask) and (own.work is None or own.done > own.best):
                own.best, own.work = own.done, Work("evaluate", node)
        if node.in_flight and node.call and node.observation is None:
            own.busy = 1.0
        elif node.proposing or any(self._tree.nodes[child].r_pre is None for child in node.children):
            own.busy = 1 - own.done
        elif node.evaluating:
            own.busy = own.done

    def _choose_below(
        self, node: Node, own: NodePosterior, may: Openings, shares: list[tuple[NodePosterior, float]]
    ) -> None:
        """Whatever is better below a child than at the node: work, work in flight, or a plan.

        `shares` has the probability of each child to be the right call.
        """
        unfinished = 1 - own.done
        for child, as_right in shares:
            if not (child.best or child.busy or child.solution):
                continue
            share = as_right
            if child.happened:
                share += (1 - share) * HARMLESS * child.evidence / child.unharmed
            share *= unfinished
            if share * DEEPER * child.best > own.best:
                own.best, own.work = share * DEEPER * child.best, child.work
                if may.judge and child.work and child.work.node.parent == node.id and child.work.node.deferred:
                    own.work = Work("evaluate", node)  # in a state that was not judged the write may be needless
            if share * child.solution > own.solution and not self._is_needless(node, child.solution_at):
                own.solution, own.solution_at = share * child.solution, child.solution_at
            own.busy = max(own.busy, share * DEEPER * child.busy)

    def _is_needless(self, state: Node, end: int | None) -> bool:
        """Whether a plan ends in a write right after a state in which the judge holds the request fulfilled."""
        if end is None or (state.goal or 0.0) < self._goal_threshold or not state.accepted:
            return False
        return self._tree.nodes[end].parent == state.id and self._tree.nodes[end].deferred


def _silence_likelihoods(node: Node) -> tuple[float, float, float]:
    """How probable a state's answer, calls or none, is if the request is done, if it is not, and off the right path."""
    if not node.proposals:
        return 1.0, 1.0, 1.0
    if node.finished and not node.children:
        return SILENT_IF_DONE, SILENT_IF_OPEN, SILENT_ASTRAY
    return 1 - SILENT_IF_DONE, 1 - SILENT_IF_OPEN, 1 - SILENT_ASTRAY
