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
figures in the documentation are those of the other 100. Those of the agent's own steps and answers were chosen with
`tests.benchmarks.recorded`. Where nothing else is said they are probabilities.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, NamedTuple

from langchain_tooltree.tooltree.search.config import SearchConfig
from langchain_tooltree.tooltree.search.tree import ROOT, Frontier, Node, Openings, Tree, Work

RIGHT_SCORE, WRONG_SCORE = 0.7, 0.3
"""Mean score of a right call and of a wrong one, in [0, 1]."""

DONE_SCORE, OPEN_SCORE = 0.75, 0.25
"""Mean goal score where the request is fulfilled, and where it is not, in [0, 1]."""

DEVIATION, GOAL_DEVIATION = 0.24, 0.2
"""Standard deviation of a call's score, and of a goal score, before anything is known of the judge."""

LEAST_DEVIATION = 0.15
"""Least standard deviation: however close together its scores are, a judge is not taken to be surer than this."""

SCORES_ASSUMED = 15
"""How many scores the assumed deviation counts for."""

BETWEEN = 0.01
"""Variance of scores that comes from some calls being right and others wrong, not from the judge's uncertainty."""

RIGHT_SHARE, DONE_SHARE = 0.2, 0.1
"""Share of right calls among those that a judge scores, and of states where the request is fulfilled."""

RANK_APART = 1.5
"""Standard deviations between right and wrong calls that ranks are read with: a judge of AUC 0.86."""

RANK_TRUST = 0.3
"""Weight of ranks in the logarithm of a likelihood ratio, once many scores are known."""

OPINION = 0.5
"""Share of a score's variance that is the same in every score of one call."""

STRONGEST = 8.0
"""Bound on the logarithm of a likelihood ratio (3,000 to 1): no score is proof."""

FIRST_FIT, FIT_GROWTH = 10, 1.5
"""The deviation is fitted after so many scores, and again each time there are so many times more: what has to be
inferred again then costs a constant share of the search."""

OFFERED, OFFERED_ASTRAY = 0.9, 0.4
"""Candidates hold a next right call each time a state is asked for them: on the right path, and off it."""

OWN_RIGHT, OWN_ASTRAY = 0.975, 0.5
"""The agent's own step is right: on the right path, and, as far as a score can tell, off it."""

NAMED, NAMED_ASTRAY = 0.9, 0.2
"""A next right call is among those that come with an answer, as calls that may still be needed."""

FIRST = 0.55
"""The right call stands first, where candidates come best first and it is among them."""

HARMLESS_READ, HARMLESS_WRITE = 0.95, 0.1
"""A call that was not the right one has done no harm, so that the path is still right after it."""

DONE, OWN_DONE = 0.1, 0.15
"""The request is fulfilled after one more right call, or one more step of the agent, before any score is known."""

DONE_AT_START, DONE_AFTER_FAILURE = 0.05, 0.05
"""The request is fulfilled though no call was made for it, and right after a call that has failed."""

SILENT_IF_DONE, SILENT_IF_OPEN, SILENT_ASTRAY = 0.9, 0.1, 0.1
"""A model that is asked for calls offers none: the request is fulfilled, it is not, or the path is wrong."""

EARLY, EARLY_ASTRAY = 0.1, 0.15
"""An agent answers though the request is not fulfilled: on the right path (recorded models did in 14 % of the states in
which they answered and the turn could still be won), and off it."""

DEEPER = 1.05
"""Factor by which work gains for each call that its path is longer: less of the path is left to find."""

EXTREME = 1e30
"""Bound on likelihood ratios of states and their inverses: products along 15 calls stay far from a float's 1e308."""


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

        The fit shrinks the variance that is seen, less `BETWEEN`, towards the one assumed:
        `deviation^2 = (n0 * DEVIATION^2 + sum (s - mean)^2 - n * BETWEEN) / (n0 + n)` with `n0 = SCORES_ASSUMED`.
        """
        insort(self._scores, score)
        count = len(self._scores)
        if count < self._next_fit:
            return False
        self._next_fit = math.ceil(count * FIT_GROWTH)
        self._fitted = [*self._scores]
        mean = math.fsum(self._scores) / count
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

    def message(self) -> tuple[Any, ...]:
        """All that the node above depends on, beside the call's own scores."""
        return self.best, self.work, self.busy, self.if_done, self.if_open, self.plans


class PathPosterior:
    """The posterior over the paths of one tree.

    It follows `Tree.changed`: what has changed is inferred in one pass when it is next looked at.
    """

    def __init__(
        self, config: SearchConfig, tree: Tree, frontier: Frontier, *, done_at_start: float = DONE_AT_START
    ) -> None:
        self._tree = tree
        self._frontier = frontier
        self._ranked = config.proposals != "per_tool"
        self._own_step = config.proposals == "own_step"
        self._done = OWN_DONE if self._own_step else DONE
        self._done_at_start = done_at_start
        self._calibration = JudgeCalibration()
        self._goals = JudgeCalibration(high=DONE_SCORE, low=OPEN_SCORE, right=DONE_SHARE, deviation=GOAL_DEVIATION)
        self._goals_learnt: set[int] = set()
        self._nodes = [NodePosterior()]
        self._learnt = 1
        """Nodes from which the calibration has learnt, the root among them."""

    @property
    def best(self) -> tuple[float, Work | None]:
        """What the most promising work of all promises, in [0, 1] but for `DEEPER`, and that work."""
        root, done = self._root
        return _mixed(root.best, done), root.work

    @property
    def busy(self) -> float:
        """What the most promising work in flight promises."""
        root, done = self._root
        return _mixed(root.busy, done)

    @property
    def solution(self) -> tuple[float, int | None]:
        """The probability of the most probable complete plan, and the node in which it ends."""
        root, done = self._root
        plan = max(root.plans, key=lambda each: _mixed(each[:2], done), default=None)
        return (0.0, None) if plan is None else (_mixed(plan[:2], done), plan.end)

    def plan(self, probability: float) -> int | None:
        """The node in which the most probable complete plan ends, if it is at least so probable."""
        found, end = self.solution
        return end if found >= probability else None

    @property
    def _root(self) -> tuple[NodePosterior, float]:
        """The root, and the probability that the request was fulfilled there."""
        if self._tree.changed:
            self._update()
        root = self._nodes[ROOT]
        done = root.done * root.if_done
        return root, done / (done + (1 - root.done) * root.if_open)

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
                # What the scores of a call say of it; a score that no judge gave is no evidence.
                given = ((node.r_pre, node.pre_scored), (node.r_post, node.post_scored))
                known = [score for score, scored in given if scored and score is not None]
                own.happened = node.observation is not None
                own.done = self._done_here(node)
                own.ratio = 1.0 if node.batched else node.odds * self._calibration.ratio(*known)
            self._infer(node, own, self._frontier.openings(node))
            if node.parent is not None and (node_id in changed or own.message() != before):
                stale.add(node.parent)
        changed.clear()

    def _add_priors(self) -> None:
        """Give new candidates their prior: what their state probably offers, shared out by rank."""
        nodes = self._tree.nodes
        fresh = nodes[len(self._nodes) :]
        sizes = Counter((node.parent, node.offer) for node in fresh)
        seen = set[tuple[int | None, int]]()
        for node in fresh:
            reads = node.call is not None and node.call.effect == "read"
            own = NodePosterior(harmless=HARMLESS_READ if reads else HARMLESS_WRITE)
            self._nodes.append(own)
            if node.batched:
                own.offered = own.offered_astray = 1.0
                continue
            offer = (node.parent, node.offer)
            size = sizes[offer]
            share = 1 / size
            if self._ranked and size > 1:
                share = (1 - FIRST) / (size - 1) if offer in seen else FIRST
            seen.add(offer)
            state = self._tree.state_before(node)
            right, astray = self._offered(state, node.offer)
            before = self._none_before(state, node.offer)
            own.offered, own.offered_astray = before[0] * right * share, before[1] * astray * share

    def _offered(self, state: Node, attempt: int) -> tuple[float, float]:
        """How probably an offer of a state holds a next right call: on the right path, and off it."""
        if self._own_step and attempt == 1:
            if state.answer is None:
                return OWN_RIGHT, OWN_ASTRAY
            # What may still be needed may come with the answer.
            named = any(self._tree.nodes[child].offer == 1 for child in state.children)
            return (NAMED, NAMED_ASTRAY) if named else (0.0, 0.0)
        return OFFERED, OFFERED_ASTRAY

    def _none_before(self, state: Node, attempt: int) -> tuple[float, float]:
        """How probably none of the offers before this attempt held one."""
        right = astray = 1.0
        for earlier in range(1, attempt):
            offered = self._offered(state, earlier)
            right, astray = right * (1 - offered[0]), astray * (1 - offered[1])
        return right, astray

    def _done_here(self, node: Node) -> float:
        """How probably nothing is left to do in a state that a right call led to, before any score is known."""
        assumed = self._done if node.call else self._done_at_start
        if node.observation is not None and node.observation.kind != "ok":
            assumed = DONE_AFTER_FAILURE
        return assumed if node.prior is None else node.prior.done_or(assumed)

    def chance(self, step: Node) -> float:
        """How probably the agent's own step, offered just now, is the right one, by that and by past runs alone."""
        self._add_priors()
        right = self._nodes[step.id].offered * step.odds
        state = self._tree.state_before(step)
        return right / (right + self._none_before(state, state.proposals + 1)[0])

    def _learn(self) -> None:
        """Learn from what was scored since; after a fit every ratio of the kind is outdated."""
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

    def _infer(self, node: Node, own: NodePosterior, may: Openings) -> None:
        """Bayes' rule at one node, from what is inferred of its children; then the best work and plan below it."""
        if node.deferred:
            # A deferred write ends its plan whether more has to follow or not: the next search starts after it.
            own.work = Work("execute", node) if may.run else None
            own.best = (0.0, float(may.run))
            busy = float(node.in_flight > 0 and node.r_post is None)
            own.busy = (0.0, busy)
            # Those of one reply wait together.
            own.plans = (PlanEnd(0.0, 1.0, self._tree.batch(node)[-1].id),) if may.end else ()
            return
        if node.call and node.observation is None and not node.children:
            own.best, own.work = ((0.0, 1.0), Work("execute", node)) if may.run else ((0.0, 0.0), None)
            own.busy = (0.0, float(node.in_flight > 0))
            return
        children = [self._nodes[child] for child in node.children]
        none, astray = self._none_before(node, node.proposals + 1)
        if children and children[0].offered == 1.0:
            none, astray = 0.0, 0.0
        right, if_done, unharmed = none, 1.0, 1.0
        parts: list[float] = []
        for child in children:
            after, harm = 1.0, 1.0
            if child.happened:
                after = child.done * child.if_done + (1 - child.done) * child.if_open
                harm = child.harmless * child.if_open + 1 - child.harmless
                if_done *= child.harmless * child.if_done + 1 - child.harmless
            part = child.offered * child.ratio * after / harm
            parts.append(part)
            right += part
            astray += child.offered_astray * child.ratio
            unharmed *= harm
        said_done, said_open, said_astray = self._silence(node)
        goal = self._goals.ratio(node.goal) if node.goal is not None and node.goal_scored else 1.0
        own.if_done = _bounded(goal * if_done * said_done / (astray * said_astray))
        if self._tree.batch_goes_on(node):
            own.if_done = 1 / EXTREME  # what was called together is needed together
        own.if_open = _bounded(right * unharmed * said_open / (astray * said_astray))
        done = own.done * own.if_done / (own.done * own.if_done + (1 - own.done) * own.if_open)
        own.best, own.work, own.busy, own.plans = (0.0, 0.0), None, (0.0, 0.0), ()
        if node.pruned is None:
            self._choose_here(node, own, may, done, again=none / right)
            shares = [(child, part / right) for child, part in zip(children, parts, strict=True)]
            self._choose_below(own, done, shares, runs=node.call is None or own.happened)

    def _choose_here(self, node: Node, own: NodePosterior, may: Openings, done: float, *, again: float) -> None:
        """The best work at a node itself, that in flight, and the plan that ends here.

        `again` is the probability that none of the calls offered so far is the right one.
        """
        if may.end:
            # The agent goes on by itself after a path that is as long as it may be, as after a deferred write.
            goes_on = self._own_step and self._frontier.is_deepest(node)
            own.plans = (PlanEnd(1.0, float(goes_on), node.id),)
        if may.run:
            own.best, own.work = (0.0, 1.0), Work("execute", node)
        elif may.ask:
            asked = (0.0, again * OFFERED)
            own.best, own.work = asked if node.proposals else (1.0, 1.0), Work("propose", node)
        if may.judge and (node.proposals or not may.ask) and (own.work is None or done > _mixed(own.best, done)):
            own.best, own.work = (1.0, 0.0), Work("evaluate", node)
        if node.in_flight and node.call and node.observation is None:
            own.busy = (0.0, 1.0)
        elif node.proposing or any(self._tree.nodes[child].r_pre is None for child in node.children):
            own.busy = (0.0, 1.0) if node.proposals else (1.0, 1.0)
        elif node.evaluating:
            own.busy = (1.0, 0.0)

    def _choose_below(
        self, own: NodePosterior, done: float, shares: list[tuple[NodePosterior, float]], *, runs: bool
    ) -> None:
        """Whatever is better below a child than at the node: work, work in flight, or a plan.

        `shares` has the probability of each child to be the right call. No plan leads through a call that has not run,
        though a write of the same reply may wait behind it: `runs` says whether one may.
        """
        plans = list(own.plans)
        for child, right in shares:
            if child.happened:
                after = child.done * child.if_done + (1 - child.done) * child.if_open
                then_done = right * child.done * child.if_done / after
                unharmed = child.harmless * child.if_open
                then_open = right * (1 - child.done) * child.if_open / after
                then_open += (1 - right) * unharmed / (unharmed + 1 - child.harmless)
                unharmed = child.harmless * child.if_done
                still_done = unharmed / (unharmed + 1 - child.harmless)
            else:
                then_done, then_open, still_done = 0.0, right, 0.0
            promise = (0.0, DEEPER * (then_done * child.best[0] + then_open * child.best[1]))
            if _mixed(promise, done) > _mixed(own.best, done):
                own.best, own.work = promise, child.work
            busy = (0.0, DEEPER * (then_done * child.busy[0] + then_open * child.busy[1]))
            if _mixed(busy, done) > _mixed(own.busy, done):
                own.busy = busy
            plans += [
                PlanEnd(still_done * plan.if_done, then_done * plan.if_done + then_open * plan.if_open, plan.end)
                for plan in child.plans
            ]
        if plans and runs:
            most = max(plans, key=lambda plan: (plan.if_done, plan.if_open)), max(plans, key=lambda plan: plan.if_open)
            own.plans = most[:1] if most[0] == most[1] else most

    def _silence(self, node: Node) -> tuple[float, float, float]:
        """How probable a state's answers, calls or none, are if the request is done, if it is not, and off the path."""
        if not node.proposals or self._tree.batch_goes_on(node):
            return 1.0, 1.0, 1.0
        if self._own_step:
            if node.answer is None:
                return 1 - SILENT_IF_DONE, 1 - EARLY, 1 - EARLY_ASTRAY
            return SILENT_IF_DONE, EARLY, EARLY_ASTRAY
        if node.finished and not node.children:
            return SILENT_IF_DONE, SILENT_IF_OPEN, SILENT_ASTRAY
        return 1 - SILENT_IF_DONE, 1 - SILENT_IF_OPEN, 1 - SILENT_ASTRAY


def _mixed(pair: tuple[float, float], done: float) -> float:
    return done * pair[0] + (1 - done) * pair[1]


def _bounded(ratio: float) -> float:
    return min(max(ratio, 1 / EXTREME), EXTREME)
