"""Where the next rollout works, which path is the best so far, and whether searching on can gain anything. Pure.

A selection policy sees the whole tree and returns the node to work at: a call that has not run yet, or a state to ask
for calls. `UCTPolicy` is Eq. 1 of the paper; `PosteriorPolicy` goes by how probable each path is to be the right one.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

from langchain_tooltree.tooltree.search.config import KernelConfig
from langchain_tooltree.tooltree.search.tree import ROOT, Node, Tree, Work

GOAL = 0.7  # goal score in [0, 1] from which a path counts as a solution under Eq. 1
MIN_GAIN = 1e-3  # value of the best path that counts as a gain: what the paper prints


@dataclass(frozen=True, slots=True)
class UCTPolicy:
    """Eq. 1 of ToolTree (arXiv 2603.12740), descending from the root.

    Rollouts in flight count as visits without a reward (WU-UCT, Liu et al. 2020), so parallel rollouts spread out.
    """

    config: KernelConfig

    def score(self, state: Node, state_visits: int, child: Node) -> float:
        """Eq. 1 for one pre-evaluated child.

        `printed`, as the paper prints it, visits every child once first, in the order of r_pre. `smoothed`, as the
        authors' code has it, is made defined at N = 0: a child never visited takes its parent's mean for Q. Visits
        count rollouts in flight; `state_visits` is N(s), with them.
        """
        r_pre = child.r_pre or 0.0
        exploration = (
            self.config.exploration * self.config.exploration_annealing**state.depth
        )
        visits = child.visits + child.in_flight
        if self.config.selection == "printed":
            # Q(s, a) + lambda * r_pre(s, a) * sqrt(ln N(s) / N(s, a))
            if visits == 0:
                return math.inf
            return child.value + exploration * r_pre * math.sqrt(
                math.log(max(state_visits, 1)) / visits
            )
        # Q(s, a) + lambda * r_pre(s, a) * sqrt(ln(1 + N(s))) / (1 + N(s, a))
        value = child.value if child.visits else state.value
        return value + exploration * r_pre * math.sqrt(math.log1p(state_visits)) / (
            1 + visits
        )

    def select(self, tree: Tree) -> Work | None:
        """Descend along the best scores; where a branch is wholly in flight, take the next best."""
        return self._descend(tree, tree.root)

    def _descend(self, tree: Tree, state: Node) -> Work | None:
        if tree.askable(state) and tree.spent(state):
            return Work("propose", state)
        for child in self.ranked(
            tree, state, [child for child in tree.children(state) if _may_enter(child)]
        ):
            if child.r_post is None:
                return Work("execute", child)
            if work := self._descend(tree, child):
                return work
        return None

    def ranked(self, tree: Tree, state: Node, children: Sequence[Node]) -> list[Node]:
        """The children of a state that may be entered, in the order in which they are tried."""
        state_visits = tree.state_visits(state) + state.in_flight

        def rank(child: Node) -> tuple[float, ...]:
            return (
                self.score(state, state_visits, child),
                child.visits,
                child.r_pre or 0.0,
                tree.jitter(child),
            )

        return sorted(children, key=rank, reverse=True)

    def after_scoring(self, tree: Tree, best: Sequence[Node]) -> Work | None:  # noqa: ARG002
        """Run the best of the new candidates, as in the paper."""
        return Work("execute", best[0]) if best else None


def _may_enter(child: Node) -> bool:
    """Whether a rollout may enter: scored, not pruned, work left, and not being run for the first time now."""
    if child.r_pre is None or child.pruned is not None or child.closed:
        return False
    return child.r_post is not None or child.in_flight == 0


# --- the posterior: assumptions ---

# The constants are the assumptions of the model. All were chosen on the first 100 of the 200 multi-turn tasks of
# `tests.benchmarks.compare`, for the most tasks solved within 20 to 160 model calls at scores of AUC 0.85 to 0.95; the
# figures in the documentation are those of the other 100. Where nothing else is said they are probabilities.

# Scores, in [0, 1].
RIGHT_SCORE, WRONG_SCORE = 0.7, 0.3  # mean score of a right call, and of a wrong one
DONE_SCORE, OPEN_SCORE = (
    0.75,
    0.25,
)  # mean goal score where the request is fulfilled, and where it is not
DEVIATION, GOAL_DEVIATION = (
    0.24,
    0.2,
)  # standard deviation of a call's score and of a goal score, for an unknown judge
LEAST_DEVIATION = 0.15  # however close together its scores are, a judge is not taken to be surer than this
SCORES_ASSUMED = 15  # how many scores the assumed deviation counts for
BETWEEN = 0.01  # variance of scores because some calls are right and others wrong, not because the judge is unsure
RIGHT_SHARE, DONE_SHARE = (
    0.2,
    0.1,
)  # share of right calls among those scored, and of states with nothing left to do
RANK_APART = 1.5  # standard deviations between right and wrong calls that ranks are read with: a judge of AUC 0.86
RANK_TRUST = 0.3  # weight of ranks in the logarithm of a likelihood ratio, once many scores are known
OPINION = 0.5  # share of a score's variance that is the same in every score of one call
STRONGEST = (
    8.0  # bound on the logarithm of a likelihood ratio (3,000 to 1): no score is proof
)
FIRST_FIT, FIT_GROWTH = (
    10,
    1.5,
)  # the deviation is fitted after so many scores, and each time there are so many more

# Proposals.
OFFERED, OFFERED_ASTRAY = (
    0.9,
    0.4,
)  # an offer holds a next right call: on the right path, and off it
P_RIGHT_CALL_FIRST = 0.55  # the right call stands first, where candidates come best first and it is among them
HARMLESS_READ, HARMLESS_WRITE = (
    0.95,
    0.1,
)  # a call that was not the right one leaves the path right all the same
SILENT_IF_DONE, SILENT_IF_OPEN, SILENT_ASTRAY = (
    0.9,
    0.1,
    0.1,
)  # a model that is asked offers no call

# The request is fulfilled, before any score is known.
P_DONE_AFTER_RIGHT_CALL = 0.1  # after one more right call
DONE_AT_START, DONE_AFTER_FAILURE = (
    0.05,
    0.05,
)  # without any call for it, and right after one that has failed

DEEPER = 1.05  # factor by which work gains for each call that its path is longer: less of the path is left to find
EXTREME = 1e30  # bound on likelihood ratios and their inverses: products along 15 calls stay within a float
SPECULATION = 0.75  # work that is less likely to help than this share of the best work in flight waits for that; near
# 1 fewer calls are made, near 0 a search takes less time


@dataclass(slots=True)
class JudgeCalibration:
    """Turns scores into likelihood ratios, and learns where a judge's scores lie and how far they scatter.

    The ratio is the geometric mean of two: that of normal distributions around `high` and `low`, which is the better
    one while few scores are known, and that of the score's rank among all scores, which holds on any scale. A share
    `right` of the scores is taken to be of right calls, and judges to tell them from others as far as their scatter
    says.
    """

    high: float = RIGHT_SCORE
    low: float = WRONG_SCORE
    right: float = RIGHT_SHARE
    deviation: float = DEVIATION
    offset: float = (
        0.0  # how much higher than assumed the judge's scores are as a whole
    )
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
        normal = math.fsum((each - middle) / self.deviation for each in scores) / len(
            scores
        )
        logarithm = apart * normal / share
        if self._fitted:
            trust = (
                RANK_TRUST * len(self._fitted) / (len(self._fitted) + SCORES_ASSUMED)
            )
            ranked = math.fsum(map(self._standing, scores)) / len(scores)
            logarithm = (1 - trust) * logarithm + trust * RANK_APART * ranked / share
        return math.exp(min(max(logarithm, -STRONGEST), STRONGEST))

    def _standing(self, score: float) -> float:
        """Where a score stands between wrong and right ones, in standard deviations, by its rank alone."""
        count = len(self._fitted)
        rank = (
            bisect_left(self._fitted, score) + bisect_right(self._fitted, score)
        ) / 2
        quantile = NormalDist().inv_cdf((rank + 0.5) / (count + 1))
        spread = math.sqrt(1 + self.right * (1 - self.right) * RANK_APART**2)
        return spread * quantile + (self.right - 0.5) * RANK_APART


class Pair(NamedTuple):
    """A value of a state in its two readings: if the request is done there, and if it is open."""

    if_done: float
    if_open: float

    def expected(self, done: float) -> float:
        """The value where the request is done with a probability of `done`."""
        return done * self.if_done + (1 - done) * self.if_open


NO_EVIDENCE = Pair(0.0, 0.0)


class PlanEnd(NamedTuple):
    """A plan that ends at or below a state."""

    value: Pair  # how probably it is right and complete, given that the path to the state is right
    node: int  # in which it ends


@dataclass(slots=True)
class Belief:
    """What is inferred of a node, given that the path to it is right.

    Work promises the probability that the right path goes on there, times `DEEPER` for each call below the node.
    """

    ratio: float  # r
    done: float  # D
    harmless: float  # h
    ran: bool  # whether the call has run: the path may go on after it even if it was wrong
    prior: float = 0.0  # pi
    prior_astray: float = 0.0  # the same for a state off the right path
    done_likelihood: float = 1.0  # L_done
    open_likelihood: float = 1.0  # L_open
    promise: Pair = NO_EVIDENCE  # of the best work at or below
    work: Work | None = None  # that work, `None` if there is none
    busy: Pair = NO_EVIDENCE  # what the best work in flight at or below promises
    plans: tuple[
        PlanEnd, ...
    ] = ()  # the most probable plan if the request is done here, and if it is open

    @property
    def likelihood(self) -> float:
        """Of all that was seen at and below the state, if the call was the right one."""
        # L = D * L_done + (1 - D) * L_open
        return (
            self.done * self.done_likelihood + (1 - self.done) * self.open_likelihood
            if self.ran
            else 1.0
        )

    @property
    def probability_done(self) -> float:
        """That the request is done here, given all that was seen."""
        # P(done) = D * L_done / (D * L_done + (1 - D) * L_open)
        done = self.done * self.done_likelihood
        return done / (done + (1 - self.done) * self.open_likelihood)


class Outlook(NamedTuple):
    """What is inferred of a whole tree."""

    best: float  # what the most promising work promises, in [0, 1] but for `DEEPER`
    work: Work | None  # that work
    busy: float  # what the most promising work in flight promises
    probability: float  # of the most probable complete plan
    end: int | None  # the node in which that plan ends


class PosteriorPolicy:
    """Best-first on the probability that the whole path is right and fulfils the request.

    The next rollout works where the right path most probably goes on: at a call that has not run, at a state that was
    not asked yet, or at one whose candidates are probably all wrong. Scores come with the candidates, from the model
    that proposes them; the reply after a call also scores what that has brought back. Nothing is pruned: a score is
    evidence and no verdict.

    A path is right if every call on it was the right one to make. A state on the right path probably offers the
    next right call among its candidates, any other state less often, and right calls get higher scores than wrong
    ones. Bayes' rule over the tree then gives, for every path, the probability that it is right. "None of these" is
    one of the alternatives in every state, so asking a state again competes with everything else; and evidence
    flows upwards: a state whose candidates all look bad was probably reached by a wrong call.

    Every state has two readings, each with its own likelihood: the request is fulfilled there already (done), or it
    is still open. What is done stays done after a read that was not needed, so a plan that reads on is worth little
    less than one that stops; after a write that was not needed it probably is not.

    Symbols, in the formulas beside the code:

        pi      prior probability that a call is the right one, of all that its state may offer
        r       likelihood ratio of a call's own scores, right against wrong
        D       prior probability that the request is done after a call, if it was the right one
        L_done  likelihood of all that was seen at and below a state if the request is done there,
        L_open  and if it is open; both against a path that is wrong
        h       probability that a call that was not the right one has done no harm

    Args:
        tree: The tree, which has the settings.
        done_at_start: Probability that the request is fulfilled before any call.
    """

    def __init__(self, tree: Tree, *, done_at_start: float = DONE_AT_START) -> None:
        self._tree, self._stop_at, self._done_at_start = (
            tree,
            tree.config.stop_at,
            done_at_start,
        )
        self._calls = JudgeCalibration()
        self._goals = JudgeCalibration(
            high=DONE_SCORE, low=OPEN_SCORE, right=DONE_SHARE, deviation=GOAL_DEVIATION
        )
        self._goals_learnt: set[int] = set()
        self._calls_learnt = (
            1  # nodes from which the calibration has learnt, the root among them
        )
        self._beliefs: list[Belief] = []

    def select(self, *_: Any) -> Work | None:
        """The most promising work, unless what is in flight promises much more."""
        outlook = self.outlook()
        return None if outlook.best < SPECULATION * outlook.busy else outlook.work

    @property
    def value(self) -> float | None:
        """The probability of the most probable plan; `None` before there is one."""
        outlook = self.outlook()
        return None if outlook.end is None else outlook.probability

    def consider(self, *_: Any) -> bool:
        """Whether some path is right and complete with enough confidence."""
        outlook = self.outlook()
        return outlook.end is not None and outlook.probability >= self._stop_at

    def find(self, *_: Any) -> Node | None:
        """The end of the most probable plan; `None` if it is empty."""
        end = self.outlook().end
        return self._tree[end] if end else None

    def outlook(self) -> Outlook:
        """What is inferred of the tree as it is now."""
        if self._tree.changed:
            self._infer()
            self._tree.changed.clear()
        root = self._beliefs[ROOT]
        done = root.probability_done
        plan = max(root.plans, key=lambda plan: plan.value.expected(done), default=None)
        probability, end = (
            (0.0, None) if plan is None else (plan.value.expected(done), plan.node)
        )
        return Outlook(
            root.promise.expected(done),
            root.work,
            root.busy.expected(done),
            probability,
            end,
        )

    def _infer(self) -> None:
        """Carry new evidence to the root; children come after their parents in the tree.

        What is inferred of a node depends on its descendants alone, unless a judge's scale was fitted anew.
        """
        tree = self._tree
        is_fitted = self._learn()
        paths = ([tree.root, *tree.path(tree[each])] for each in tree.changed)
        stale = (
            range(len(tree))
            if is_fitted
            else sorted({node.id for path in paths for node in path})
        )
        self._beliefs += map(self._read_scores, tree.nodes[len(self._beliefs) :])
        for node_id in stale:
            self._beliefs[node_id] = self._read_scores(tree[node_id])
        for node_id in reversed(stale):
            node, own = tree[node_id], self._beliefs[node_id]
            if node.deferred:
                # A plan ends with a deferred write whether more has to follow or not: the next search starts after it.
                own.plans = (PlanEnd(Pair(0.0, 1.0), node.id),)
            elif node.call and node.observation is None:
                if self._tree.runnable(node):
                    own.promise, own.work = Pair(0.0, 1.0), Work("execute", node)
                own.busy = Pair(0.0, float(node.in_flight > 0))
            else:
                children = [self._beliefs[child] for child in node.children]
                self._share_priors(node, children)
                shares, none = self._weigh(node, own, children)
                self._choose_at(node, own, none)
                self._choose_below(own, children, shares)

    def _learn(self) -> bool:
        """Learn from the scores that are new; whether a judge's scale was fitted anew."""
        nodes, is_fitted = self._tree.nodes, False
        for node_id in sorted(self._tree.changed - self._goals_learnt):
            node = nodes[node_id]
            if node.goal is not None and node.goal_scored:
                self._goals_learnt.add(node_id)
                is_fitted |= self._goals.learn(node.goal)
        for node in nodes[self._calls_learnt :]:
            if node.pre_scored and node.r_pre is not None:
                is_fitted |= self._calls.learn(node.r_pre)
        self._calls_learnt = len(nodes)
        return is_fitted

    def _read_scores(self, node: Node) -> Belief:
        """What the scores of a call say of it; a score that nobody gave is no evidence."""
        scores = ((node.r_pre, node.pre_scored), (node.r_post, node.post_scored))
        ratio = self._calls.ratio(
            *(score for score, is_scored in scores if is_scored and score is not None)
        )
        done = P_DONE_AFTER_RIGHT_CALL if node.call else self._done_at_start
        if node.observation is not None and node.observation.kind != "ok":
            done = DONE_AFTER_FAILURE
        harmless = (
            HARMLESS_READ
            if node.call and node.call.effect == "read"
            else HARMLESS_WRITE
        )
        return Belief(ratio, done, harmless, ran=node.observation is not None)

    def _share_priors(self, node: Node, beliefs: Sequence[Belief]) -> None:
        """Give each candidate its prior: what its state probably offers, shared out by rank within each offer."""
        children = zip(self._tree.children(node), beliefs, strict=True)
        for attempt, offer in groupby(children, key=lambda pair: pair[0].offer):
            candidates = [belief for _, belief in offer]
            none, none_astray = _none_in(attempt - 1)
            for rank, belief in enumerate(candidates):
                share = (
                    P_RIGHT_CALL_FIRST
                    if rank == 0
                    else (1 - P_RIGHT_CALL_FIRST) / (len(candidates) - 1)
                )
                share = 1.0 if len(candidates) == 1 else share
                # pi = (1 - OFFERED)^(attempt - 1) * OFFERED * share: the right call is in this offer and in none before
                belief.prior = none * OFFERED * share
                belief.prior_astray = none_astray * OFFERED_ASTRAY * share

    def _weigh(
        self, node: Node, own: Belief, children: Sequence[Belief]
    ) -> tuple[list[float], float]:
        """Bayes' rule at one state: how likely all is that was seen at and below it, if it is done and if it is open.

        Returns:
            The probability of each child to be the right call, and that none of them is.
        """
        none, none_astray = _none_in(node.proposals)
        done_unharmed = open_unharmed = 1.0
        right, astray = none, none_astray
        joint: list[float] = []
        for child in children:
            open_harm = 1.0
            if child.ran:
                # A call that was not the right one: h * L + (1 - h). Where one call is the right one, all others are
                # not, so this stands in the product over all children, and is divided out for the right one.
                open_harm = child.harmless * child.open_likelihood + 1 - child.harmless
                done_unharmed *= (
                    child.harmless * child.done_likelihood + 1 - child.harmless
                )
            # joint = pi * r * (D * L_done + (1 - D) * L_open) / (h * L_open + 1 - h)
            joint.append(child.prior * child.ratio * child.likelihood / open_harm)
            right += joint[-1]
            astray += child.prior_astray * child.ratio
            open_unharmed *= open_harm
        silence_done, silence_open, silence_astray = _silence(node)
        goal = (
            self._goals.ratio(node.goal)
            if node.goal is not None and node.goal_scored
            else 1.0
        )
        # L_done = goal * product(h * L_done + 1 - h) * silence_done / (astray * silence_astray)
        own.done_likelihood = _bounded(
            goal * done_unharmed * silence_done / (astray * silence_astray)
        )
        # L_open = (none + sum(joint)) * product(h * L_open + 1 - h) * silence_open / (astray * silence_astray)
        own.open_likelihood = _bounded(
            right * open_unharmed * silence_open / (astray * silence_astray)
        )
        return [each / right for each in joint], none / right

    def _choose_at(self, node: Node, own: Belief, none: float) -> None:
        """The work at a state itself, and the plan that ends there.

        `none` is the probability that no call offered so far is the right one.
        """
        if node.call:
            own.plans = (PlanEnd(Pair(1.0, 0.0), node.id),)
        # A state that was never asked is asked in any case; later, P(next) = P(none) * OFFERED, if the request is open.
        if self._tree.askable(node):
            own.promise = (
                Pair(0.0, none * OFFERED) if node.proposals else Pair(1.0, 1.0)
            )
            own.work = Work("propose", node)
        if node.proposing:
            own.busy = Pair(0.0, 1.0) if node.proposals else Pair(1.0, 1.0)

    @staticmethod
    def _choose_below(
        own: Belief, children: Sequence[Belief], shares: Sequence[float]
    ) -> None:
        """Whatever is better below a child than at the state: work, work in flight, or a plan.

        `shares` has the probability of each child to be the right call.
        """
        done = own.probability_done
        plans = list(own.plans)
        for child, share in zip(children, shares, strict=True):
            to_done, to_open, still_done = _passage(child, share)
            # promise_open = DEEPER * (P(done after the call) * promise_done + P(open after it) * promise_open)
            promise = Pair(
                0.0,
                DEEPER
                * (to_done * child.promise.if_done + to_open * child.promise.if_open),
            )
            if promise.expected(done) > own.promise.expected(done):
                own.promise, own.work = promise, child.work
            busy = Pair(
                0.0,
                DEEPER * (to_done * child.busy.if_done + to_open * child.busy.if_open),
            )
            if busy.expected(done) > own.busy.expected(done):
                own.busy = busy
            for (if_done, if_open), end in child.plans:
                plans.append(
                    PlanEnd(
                        Pair(
                            still_done * if_done, to_done * if_done + to_open * if_open
                        ),
                        end,
                    )
                )
        if plans:
            best_if_done = max(plans, key=lambda plan: plan.value)
            best_if_open = max(plans, key=lambda plan: plan.value.if_open)
            own.plans = (
                (best_if_done,)
                if best_if_done == best_if_open
                else (best_if_done, best_if_open)
            )


def _passage(child: Belief, share: float) -> tuple[float, float, float]:
    """How probably a path goes on rightly through a child that is the right call with a probability of `share`.

    Returns:
        The probabilities that the request, open before, is done after the child's call; that it, open before, is open
        after it; and that it, done before, is unharmed after it.
    """
    if not child.ran:
        return 0.0, share, 0.0
    # P(done | right) = D * L_done / L, and P(open | right) = (1 - D) * L_open / L
    to_done = share * child.done * child.done_likelihood / child.likelihood
    to_open = share * (1 - child.done) * child.open_likelihood / child.likelihood
    # P(harmless | seen) = h * L / (h * L + 1 - h), for a call that was not the right one
    unharmed = child.harmless * child.open_likelihood
    to_open += (1 - share) * unharmed / (unharmed + 1 - child.harmless)
    unharmed = child.harmless * child.done_likelihood
    return to_done, to_open, unharmed / (unharmed + 1 - child.harmless)


def _silence(node: Node) -> tuple[float, float, float]:
    """How probable it is that a state's proposals held calls, or none: if it is done, if it is open, off the path."""
    if not node.proposals:
        return 1.0, 1.0, 1.0
    if node.finished and not node.children:
        return SILENT_IF_DONE, SILENT_IF_OPEN, SILENT_ASTRAY
    return 1 - SILENT_IF_DONE, 1 - SILENT_IF_OPEN, 1 - SILENT_ASTRAY


def _none_in(offers: int) -> tuple[float, float]:
    """How probably none of so many offers of a state held a next right call: on the right path, and off it."""
    return math.prod([1 - OFFERED] * offers, start=1.0), math.prod(
        [1 - OFFERED_ASTRAY] * offers, start=1.0
    )


def _bounded(ratio: float) -> float:
    return min(max(ratio, 1 / EXTREME), EXTREME)


# --- the end of a search ---

StopReason = Literal[
    "solved",
    "converged",
    "exhausted",
    "max_rollouts",
    "max_model_calls",
    "max_seconds",
    "proposer_failed",
    "judge_failed",
]
"""Why a search ended: a limit of the configuration is reached, a path is good enough, more rollouts bring nothing,
nothing is left to try, or the model in one of its roles keeps failing."""


class BestPath:
    """The path of the best value: its goal score times its mean r_post.

    In the paper's form, without goal scores, it is the descent along the best Q, and its value the cumulative reward on
    it; as long as that changes, a search has not converged.
    """

    def __init__(self, config: KernelConfig) -> None:
        self.value: float | None = None  # of the best path, once there is one
        self._config = config
        self._counting = not config.goal_score
        self._compared = -math.inf  # the value at the latest gain or change
        self._stale_rollouts = 0
        self._end: Node | None = None
        self._has_goals = False

    def consider(self, tree: Tree, node: Node) -> bool:
        """Take in a node that was just evaluated; whether goal score and value of its path suffice to stop at once."""
        self._has_goals = self._has_goals or node.goal_scored
        if not self._config.goal_score:
            self._follow(tree)
            return False
        if not node.accepted:
            return False
        value = tree.path_value(node)
        fulfilled = (node.goal or 0.0) >= GOAL
        self._counting = self._counting or fulfilled
        if value - self._compared >= MIN_GAIN:
            self._compared, self._stale_rollouts = value, 0
        if (
            self.value is None
            or self._end is None
            or (value, -node.depth) > (self.value, -self._end.depth)
        ):
            self.value, self._end = value, node
        return fulfilled and value >= self._config.value_threshold

    def _follow(self, tree: Tree) -> None:
        """Take the value of the descent along the best Q for the best one."""
        end = tree.best_descent()
        if end is None:
            return
        self.value = tree.cumulative_reward(end)
        if abs(self.value - self._compared) >= MIN_GAIN:
            self._compared, self._stale_rollouts = self.value, 0

    def converged(self) -> bool:
        """Count a rollout that has ended; whether there were more than `patience` in a row that brought nothing."""
        self._stale_rollouts += self._counting
        return self._stale_rollouts > self._config.patience

    def find(self, tree: Tree) -> Node | None:
        """The end of the path to return, `None` if no call is accepted.

        With goal scores that of the highest value, ties to fewer calls; without, or if the judge never gave one, the
        end of the descent along the best Q.
        """
        return (
            self._end
            if self._config.goal_score and self._has_goals
            else tree.best_descent()
        )
