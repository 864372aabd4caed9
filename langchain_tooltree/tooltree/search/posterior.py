"""How probable each path of a search tree is to be the right one, given all scores so far. Pure.

A path is right if every call on it was the right one to make. A state on the right path probably offers the next right
call among its candidates, any other state less often, and a judge scores right calls higher than wrong ones. Bayes'
rule over the tree then gives, for every path, the probability that it is right. "None of these" is one of the
alternatives in every state, so asking a state again competes with everything else; and evidence flows upwards: a state
whose candidates all look bad was probably reached by a wrong call.

Every state has two readings, each with its own likelihood: the request is fulfilled there already, or it is still open.
What is done stays done after a read that was not needed, so a plan that reads on is worth little less than one that
stops; after a write that was not needed it probably is not.

A change at one node affects the path above it only, so a rollout costs the same in a large tree as in a small one.

The constants are the assumptions of the model. All were chosen on the first 100 of the 200 multi-turn tasks of
`tests.benchmarks.compare`, for the most tasks solved within 20 to 160 model calls at judges of AUC 0.85 to 0.95; the
figures in the documentation are those of the other 100. Where nothing else is said they are probabilities.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, NamedTuple

from langchain_tooltree.tooltree.search.config import KernelConfig
from langchain_tooltree.tooltree.search.tree import ROOT, Frontier, Node, Tree, Work

# Scores, in [0, 1].
RIGHT_SCORE, WRONG_SCORE = 0.7, 0.3  # mean score of a right call, and of a wrong one
DONE_SCORE, OPEN_SCORE = 0.75, 0.25  # mean goal score where the request is fulfilled, and where it is not
DEVIATION, GOAL_DEVIATION = 0.24, 0.2  # standard deviation of a call's score and of a goal score, for an unknown judge
LEAST_DEVIATION = 0.15  # however close together its scores are, a judge is not taken to be surer than this
SCORES_ASSUMED = 15  # how many scores the assumed deviation counts for
BETWEEN = 0.01  # variance of scores because some calls are right and others wrong, not because the judge is unsure
RIGHT_SHARE, DONE_SHARE = 0.2, 0.1  # share of right calls among those scored, and of states with nothing left to do
RANK_APART = 1.5  # standard deviations between right and wrong calls that ranks are read with: a judge of AUC 0.86
RANK_TRUST = 0.3  # weight of ranks in the logarithm of a likelihood ratio, once many scores are known
OPINION = 0.5  # share of a score's variance that is the same in every score of one call
STRONGEST = 8.0  # bound on the logarithm of a likelihood ratio (3,000 to 1): no score is proof
# The deviation is fitted after so many scores, and again each time there are so many times more: what has to be
# inferred again then costs a constant share of the search.
FIRST_FIT, FIT_GROWTH = 10, 1.5

# Proposals.
OFFERED, OFFERED_ASTRAY = 0.9, 0.4  # an offer holds a next right call: on the right path, and off it
FIRST = 0.55  # the right call stands first, where candidates come best first and it is among them
HARMLESS_READ, HARMLESS_WRITE = 0.95, 0.1  # a call that was not the right one leaves the path right all the same
SILENT_IF_DONE, SILENT_IF_OPEN, SILENT_ASTRAY = 0.9, 0.1, 0.1  # a model that is asked offers no call

# The request is fulfilled, before any score is known.
DONE = 0.1  # after one more right call
DONE_AT_START, DONE_AFTER_FAILURE = 0.05, 0.05  # without any call for it, and right after one that has failed

DEEPER = 1.05  # factor by which work gains for each call that its path is longer: less of the path is left to find
EXTREME = 1e30  # bound on likelihood ratios and their inverses: products along 15 calls stay within a float


@dataclass(slots=True)
class JudgeCalibration:
    """Turns scores into likelihood ratios, and learns where the judge's scores lie and how far they scatter.

    The ratio is the geometric mean of two: that of normal distributions around `high` and `low`, which is the better
    one while few scores are known, and that of the score's rank among all scores, which holds on any scale. A share
    `right` of the scores is taken to be of right calls, and judges to tell them from others as far as their scatter
    says.
    """

    high: float = RIGHT_SCORE
    low: float = WRONG_SCORE
    right: float = RIGHT_SHARE
    deviation: float = DEVIATION
    offset: float = 0.0  # how much higher than assumed the judge's scores are as a whole
    _scores: list[float] = field(default_factory=list)  # in order of size
    _fitted: list[float] = field(default_factory=list)  # those known at the last fit
    _next_fit: int = FIRST_FIT

    def learn(self, score: float) -> bool:
        """Take in the first score of a call; whether the scale was fitted, so that earlier ratios are outdated.

        The fit shrinks the variance of the scores, less `BETWEEN`, towards the one assumed.
        """
        insort(self._scores, score)
        count = len(self._scores)
        if count < self._next_fit:
            return False
        self._next_fit = math.ceil(count * FIT_GROWTH)
        self._fitted = [*self._scores]
        mean = math.fsum(self._scores) / count
        # deviation^2 = (n0 * DEVIATION^2 + sum (s - mean)^2 - n * BETWEEN) / (n0 + n), with n0 = SCORES_ASSUMED
        own = math.fsum((each - mean) ** 2 for each in self._scores) - BETWEEN * count
        variance = (SCORES_ASSUMED * DEVIATION**2 + own) / (SCORES_ASSUMED + count)
        self.deviation = math.sqrt(max(variance, LEAST_DEVIATION**2))
        expected = self.low + self.right * (self.high - self.low)
        self.offset = (mean - expected) * count / (SCORES_ASSUMED + count)
        return True

    def ratio(self, *scores: float) -> float:
        """Likelihood ratio, right against wrong, of r_pre, r_post or both; 1 without any score."""
        if not scores:
            return 1.0
        share = OPINION + (1 - OPINION) / len(scores)
        apart = (self.high - self.low) / self.deviation
        middle = (self.high + self.low) / 2 + self.offset
        normal = math.fsum((each - middle) / self.deviation for each in scores) / len(scores)
        logarithm = apart * normal / share
        if self._fitted:
            trust = RANK_TRUST * len(self._fitted) / (len(self._fitted) + SCORES_ASSUMED)
            ranked = math.fsum(map(self._standing, scores)) / len(scores)
            logarithm = (1 - trust) * logarithm + trust * RANK_APART * ranked / share
        return math.exp(min(max(logarithm, -STRONGEST), STRONGEST))

    def _standing(self, score: float) -> float:
        """Where a score stands between wrong and right ones, in standard deviations, by its rank alone."""
        count = len(self._fitted)
        rank = (bisect_left(self._fitted, score) + bisect_right(self._fitted, score)) / 2
        quantile = NormalDist().inv_cdf((rank + 0.5) / (count + 1))
        spread = math.sqrt(1 + self.right * (1 - self.right) * RANK_APART**2)
        return spread * quantile + (self.right - 0.5) * RANK_APART


class PlanEnd(NamedTuple):
    """A plan that ends at or below a state, and how probably it is right and complete.

    The two probabilities are given that the path to the state is right, and that the request is fulfilled there
    already, or that it is not.
    """

    if_done: float
    if_open: float
    end: int  # node in which the plan ends


@dataclass(slots=True)
class NodePosterior:
    """What is inferred of a node; "here" means: given that the path to the node is right.

    Likelihoods are ratios against a path that is wrong. Work promises the probability that the right path goes on
    there, times `DEEPER` for each call below the node.
    """

    offered: float = 0.0  # prior probability that, of all that its state may offer, this call is the right one
    offered_astray: float = 0.0  # the same for a state off the right path
    done: float = 0.0  # prior probability that nothing is left to do after the call, if it was the right one
    harmless: float = 0.0  # probability that the call, if it was not the right one, has done no harm
    happened: bool = False  # whether the call was run: the path may go on after it even if it was wrong
    ratio: float = 1.0  # likelihood ratio of the call's own scores, right against wrong
    if_done: float = 1.0  # likelihood of all seen at and below the state if the request is fulfilled here
    if_open: float = 1.0  # the same if it is not
    best: tuple[float, float] = (0.0, 0.0)  # what the best work at or below promises, if done here and if open
    work: Work | None = None  # that work, `None` if there is none
    busy: tuple[float, float] = (0.0, 0.0)  # what the best work in flight at or below promises
    plans: tuple[PlanEnd, ...] = ()  # the most probable plan if the request is done here, and if it is open

    @property
    def likelihood(self) -> float:
        """Of all seen at and below the state, if the call was the right one: `D * L_done + (1 - D) * L_open`."""
        return self.done * self.if_done + (1 - self.done) * self.if_open if self.happened else 1.0

    @property
    def probability_done(self) -> float:
        """That the request is fulfilled here, given all seen: `D * L_done / (D * L_done + (1 - D) * L_open)`."""
        done = self.done * self.if_done
        return done / (done + (1 - self.done) * self.if_open)

    def message(self) -> tuple[Any, ...]:
        """All that the node above depends on, beside the call's own scores."""
        return self.best, self.work, self.busy, self.if_done, self.if_open, self.plans


class PathPosterior:
    """The posterior over the paths of one tree.

    It follows `Tree.changed`: what has changed is inferred in one pass when it is next looked at.
    """

    def __init__(
        self, config: KernelConfig, tree: Tree, frontier: Frontier, *, done_at_start: float = DONE_AT_START
    ) -> None:
        self._tree = tree
        self._frontier = frontier
        self._ranked = config.proposals != "per_tool"
        self._done_at_start = done_at_start
        self._calibration = JudgeCalibration()
        self._goals = JudgeCalibration(high=DONE_SCORE, low=OPEN_SCORE, right=DONE_SHARE, deviation=GOAL_DEVIATION)
        self._goals_learnt: set[int] = set()
        self._nodes = [NodePosterior()]
        self._learnt = 1  # nodes from which the calibration has learnt, the root among them

    @property
    def best(self) -> tuple[float, Work | None]:
        """What the most promising work of all promises, in [0, 1] but for `DEEPER`, and that work."""
        root, done = self._root
        return _expected(root.best, done), root.work

    @property
    def busy(self) -> float:
        """What the most promising work in flight promises."""
        root, done = self._root
        return _expected(root.busy, done)

    @property
    def solution(self) -> tuple[float, int | None]:
        """The probability of the most probable complete plan, and the node in which it ends."""
        root, done = self._root
        plan = max(root.plans, key=lambda each: _expected(each[:2], done), default=None)
        return (0.0, None) if plan is None else (_expected(plan[:2], done), plan.end)

    def plan(self, probability: float) -> int | None:
        """The node in which the most probable complete plan ends, if it is at least so probable."""
        highest, end = self.solution
        return end if highest >= probability else None

    @property
    def _root(self) -> tuple[NodePosterior, float]:
        """The root, and the probability that the request was fulfilled there."""
        if self._tree.changed:
            self._update()
        root = self._nodes[ROOT]
        return root, root.probability_done

    def _update(self) -> None:
        """Infer what has changed, and carry it upwards until a node is reached of which the same is inferred as before.

        Children come after their parents in the tree, so one pass from the last node to the first is enough.
        """
        nodes, changed = self._tree.nodes, self._tree.changed
        self._add_priors()
        self._learn()
        above = set(changed)
        for node_id in changed:
            parent = nodes[node_id].parent
            while parent is not None and parent not in above:
                above.add(parent)
                parent = nodes[parent].parent
        stale = set(changed)
        for node_id in sorted(above, reverse=True):
            if node_id not in stale:
                continue
            node, own = nodes[node_id], self._nodes[node_id]
            before = own.message()
            if node_id in changed:
                self._read_scores(node, own)
            self._infer(node, own)
            if node.parent is not None and (node_id in changed or own.message() != before):
                stale.add(node.parent)
        changed.clear()

    def _read_scores(self, node: Node, own: NodePosterior) -> None:
        """What the scores of a call say of it; a score that no judge gave is no evidence."""
        scored = ((node.r_pre, node.pre_scored), (node.r_post, node.post_scored))
        own.ratio = self._calibration.ratio(*(score for score, given in scored if given and score is not None))
        own.happened = node.observation is not None
        own.done = DONE if node.call else self._done_at_start
        if node.observation is not None and node.observation.kind != "ok":
            own.done = DONE_AFTER_FAILURE

    def _add_priors(self) -> None:
        """Give new candidates their prior: what their state probably offers, shared out by rank."""
        nodes = self._tree.nodes
        fresh = nodes[len(self._nodes) :]
        sizes = Counter((node.parent, node.offer) for node in fresh)
        begun = set[tuple[int | None, int]]()
        for node in fresh:
            offer = (node.parent, node.offer)
            size = sizes[offer]
            share = 1 / size
            if self._ranked and size > 1:
                share = (1 - FIRST) / (size - 1) if offer in begun else FIRST
            begun.add(offer)
            # The right call is in this offer, and was in none before: p * (1 - p)^(attempt - 1), then its share.
            none, none_astray = _none_in(node.offer - 1)
            reads = node.call is not None and node.call.effect == "read"
            self._nodes.append(
                NodePosterior(
                    offered=none * OFFERED * share,
                    offered_astray=none_astray * OFFERED_ASTRAY * share,
                    harmless=HARMLESS_READ if reads else HARMLESS_WRITE,
                )
            )

    def _learn(self) -> None:
        """Learn from the scores given since; after a fit every ratio of the kind is outdated."""
        nodes, changed = self._tree.nodes, self._tree.changed
        for node_id in sorted(changed - self._goals_learnt):
            node = nodes[node_id]
            if node.goal is not None and node.goal_scored:
                self._goals_learnt.add(node_id)
                if self._goals.learn(node.goal):
                    changed.update(self._goals_learnt)
        while self._learnt < len(nodes) and (score := nodes[self._learnt].r_pre) is not None:
            if nodes[self._learnt].pre_scored and self._calibration.learn(score):
                changed.update(range(len(nodes)))
            self._learnt += 1

    # --- inference at one node ---

    def _infer(self, node: Node, own: NodePosterior) -> None:
        """What is inferred of a node from its scores and its children; then the best work and plan at or below it."""
        own.best, own.work, own.busy, own.plans = (0.0, 0.0), None, (0.0, 0.0), ()
        if node.deferred or (node.call and node.observation is None and not node.children):
            if self._frontier.runnable(node):
                own.best, own.work = (0.0, 1.0), Work("execute", node)
            own.busy = (0.0, float(node.in_flight > 0 and node.r_post is None))
            if node.deferred and self._frontier.may_end(node):
                # A plan ends with a deferred write whether more has to follow or not: the next search starts after it.
                own.plans = (PlanEnd(0.0, 1.0, node.id),)
            return
        children = [self._nodes[child] for child in node.children]
        joint, none, right = self._weigh_children(node, own, children)
        if node.pruned is None:
            self._choose_here(node, own, none_right=none / right)
            self._choose_below(node, own, children, [each / right for each in joint])

    def _weigh_children(
        self, node: Node, own: NodePosterior, children: Sequence[NodePosterior]
    ) -> tuple[list[float], float, float]:
        """Bayes' rule: how likely all that was seen at and below a state is, if it is done there and if it is open.

        Returns:
            For each child, the joint probability that it is the right call and of what was seen; the same for "none
            of these"; and their sum.
        """
        none, none_astray = _none_in(node.proposals)
        done_unharmed = open_unharmed = 1.0
        right, astray = none, none_astray
        joint: list[float] = []
        for child in children:
            # Right: pi * ratio * (D * L_done + (1 - D) * L_open). All others are wrong then, each with the likelihood
            # h * L + (1 - h), which stands in the product over all children and is divided out for the right one.
            open_harm = 1.0
            if child.happened:
                open_harm = child.harmless * child.if_open + 1 - child.harmless
                done_unharmed *= child.harmless * child.if_done + 1 - child.harmless
            joint.append(child.offered * child.ratio * child.likelihood / open_harm)
            right += joint[-1]
            astray += child.offered_astray * child.ratio
            open_unharmed *= open_harm
        silence_done, silence_open, silence_astray = _silence(node)
        goal = self._goals.ratio(node.goal) if node.goal is not None and node.goal_scored else 1.0
        # L_done = goal * product(h * L_done + 1 - h) * silence / (astray * silence_astray)
        own.if_done = _bounded(goal * done_unharmed * silence_done / (astray * silence_astray))
        # L_open = right * product(h * L_open + 1 - h) * silence / (astray * silence_astray)
        own.if_open = _bounded(right * open_unharmed * silence_open / (astray * silence_astray))
        return joint, none, right

    def _choose_here(self, node: Node, own: NodePosterior, *, none_right: float) -> None:
        """The best work at a node itself, that in flight, and the plan that ends here.

        `none_right` is the probability that none of the calls offered so far is the right one.
        """
        done, frontier = own.probability_done, self._frontier
        if frontier.may_end(node):
            own.plans = (PlanEnd(1.0, 0.0, node.id),)
        may_ask = frontier.askable(node)
        if frontier.runnable(node):
            own.best, own.work = (0.0, 1.0), Work("execute", node)
        elif may_ask:
            again = (0.0, none_right * OFFERED)
            own.best, own.work = again if node.proposals else (1.0, 1.0), Work("propose", node)
        judging_helps = node.proposals or not may_ask  # a state that was never asked is asked first
        if frontier.judgeable(node) and judging_helps and (own.work is None or done > _expected(own.best, done)):
            own.best, own.work = (1.0, 0.0), Work("evaluate", node)
        if node.in_flight and node.call and node.observation is None:
            own.busy = (0.0, 1.0)
        elif node.proposing or any(self._tree.nodes[child].r_pre is None for child in node.children):
            own.busy = (0.0, 1.0) if node.proposals else (1.0, 1.0)
        elif node.evaluating:
            own.busy = (1.0, 0.0)

    def _choose_below(
        self, node: Node, own: NodePosterior, children: Sequence[NodePosterior], shares: Sequence[float]
    ) -> None:
        """Whatever is better below a child than at the node: work, work in flight, or a plan.

        `shares` has the probability of each child to be the right call. No plan leads through a call that has not run.
        """
        done = own.probability_done
        plans = list(own.plans)
        for child, share in zip(children, shares, strict=True):
            then_done, then_open, still_done = _passage(child, share)
            best = (0.0, DEEPER * (then_done * child.best[0] + then_open * child.best[1]))
            if _expected(best, done) > _expected(own.best, done):
                own.best, own.work = best, child.work
            busy = (0.0, DEEPER * (then_done * child.busy[0] + then_open * child.busy[1]))
            if _expected(busy, done) > _expected(own.busy, done):
                own.busy = busy
            plans += [
                PlanEnd(still_done * plan.if_done, then_done * plan.if_done + then_open * plan.if_open, plan.end)
                for plan in child.plans
            ]
        if plans and (node.call is None or own.happened):
            if_done = max(plans, key=lambda plan: (plan.if_done, plan.if_open))
            if_open = max(plans, key=lambda plan: plan.if_open)
            own.plans = (if_done,) if if_done == if_open else (if_done, if_open)


def _passage(child: NodePosterior, share: float) -> tuple[float, float, float]:
    """How probably a path goes on rightly through a child that is the right call with a probability of `share`.

    Returns:
        The probabilities that the request, open before, is done after the child's call; that it, open before, is open
        after it; and that it, done before, is unharmed after it.
    """
    if not child.happened:
        return 0.0, share, 0.0
    # P(done | right) = D * L_done / (D * L_done + (1 - D) * L_open)
    then_done = share * child.done * child.if_done / child.likelihood
    then_open = share * (1 - child.done) * child.if_open / child.likelihood
    # A wrong call may have done no harm: P(harmless | seen) = h * L / (h * L + 1 - h)
    unharmed = child.harmless * child.if_open
    then_open += (1 - share) * unharmed / (unharmed + 1 - child.harmless)
    unharmed = child.harmless * child.if_done
    return then_done, then_open, unharmed / (unharmed + 1 - child.harmless)


def _silence(node: Node) -> tuple[float, float, float]:
    """How probable it is that a state's proposals held calls, or none: if it is done, if it is open, off the path."""
    if not node.proposals:
        return 1.0, 1.0, 1.0
    if node.finished and not node.children:
        return SILENT_IF_DONE, SILENT_IF_OPEN, SILENT_ASTRAY
    return 1 - SILENT_IF_DONE, 1 - SILENT_IF_OPEN, 1 - SILENT_ASTRAY


def _none_in(offers: int) -> tuple[float, float]:
    """How probably none of so many offers of a state held a next right call: on the right path, and off it."""
    return math.prod([1 - OFFERED] * offers, start=1.0), math.prod([1 - OFFERED_ASTRAY] * offers, start=1.0)


def _expected(pair: tuple[float, float], done: float) -> float:
    return done * pair[0] + (1 - done) * pair[1]


def _bounded(ratio: float) -> float:
    return min(max(ratio, 1 / EXTREME), EXTREME)
