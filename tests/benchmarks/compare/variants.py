"""Variants of our search that were tried and are not the default: other selection policies, the rest unchanged.

All descend by a score from the root, as Eq. 1 does, and share the settings of `tooltree-uct`; so each shows what its
own idea is worth. They were tuned lightly on development tasks. They have one rollout in flight at a time: with more, a
descent from the root spends model calls on candidates that it would otherwise have passed over.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_tooltree.tooltree.search import KernelConfig, Node, Tree, UCTPolicy, Work
from tests.benchmarks.compare.ours import TreeSearchMethod
from tests.benchmarks.compare.simulation import READ_ONLY


@dataclass(frozen=True, slots=True)
class FirstPlay(UCTPolicy):
    """Eq. 1, smoothed, where a child never visited takes its r_pre for Q."""

    def score(self, state: Node, state_visits: int, child: Node) -> float:
        """Q(s, a) + lambda * r_pre(s, a) * sqrt(ln(1 + N(s))) / (1 + N(s, a))."""
        r_pre, visits = child.r_pre or 0.0, child.visits + child.in_flight
        value = child.value if child.visits else r_pre
        return value + self.config.exploration * r_pre * math.sqrt(
            math.log1p(state_visits)
        ) / (1 + visits)


@dataclass(frozen=True, slots=True)
class Descent(FirstPlay):
    """Eq. 1, smoothed (Kocsis & Szepesvari 2006, as changed by ToolTree), with gaps for the variants to fill."""

    def select(self, tree: Tree) -> Work | None:
        """Descend along the best scores; where a branch is wholly in flight, take the next best."""
        return self.below(tree, tree.root)

    def below(self, tree: Tree, state: Node) -> Work | None:
        """What to do at or below a state."""
        if tree.askable(state) and self.asks(tree, state):
            return Work("propose", state)
        live = [
            child
            for child in tree.children(state)
            if _is_live(child) and not child.closed
        ]
        for child in self.ranked(tree, state, live):
            if tree.runnable(child):
                return Work("execute", child)
            if child.evaluated and (found := self.below(tree, child)):
                return found
        return None

    def asks(self, tree: Tree, state: Node) -> bool:
        """Whether to ask a state for calls rather than to work below it."""
        return tree.spent(state)

    def ranked(self, tree: Tree, state: Node, live: Sequence[Node]) -> list[Node]:
        """The children that may be worked on, in the order in which they are tried."""
        visits = tree.state_visits(state) + state.in_flight
        return sorted(
            live,
            key=lambda child: (self.score(state, visits, child), tree.jitter(child)),
            reverse=True,
        )


@dataclass(frozen=True, slots=True)
class PUCT(Descent):
    """AlphaZero's PUCT (Silver et al. 2017), r_pre made a probability by a softmax over the state's candidates.

    Args:
        temperature: Of the softmax.
    """

    temperature: float = 0.07

    def ranked(self, tree: Tree, state: Node, live: Sequence[Node]) -> list[Node]:
        """By `Q + lambda * P * sqrt(N(s)) / (1 + N(s, a))`; a child never visited takes the state's mean for Q."""
        weights = {
            child.id: math.exp((child.r_pre or 0.0) / self.temperature)
            for child in live
        }
        total = sum(weights.values())
        explore = self.config.exploration * math.sqrt(
            tree.state_visits(state) + state.in_flight + 1
        )

        def score(child: Node) -> tuple[float, float]:
            value = child.value if child.visits else state.value
            prior = weights[child.id] / total
            return value + explore * prior / (
                1 + child.visits + child.in_flight
            ), tree.jitter(child)

        return sorted(live, key=score, reverse=True)


@dataclass(frozen=True, slots=True)
class Gumbel(Descent):
    """Gumbel AlphaZero (Danihelka et al. 2022), simplified.

    At the root, candidates are drawn without replacement by adding Gumbel noise to their logits, and the worse half
    drops out after each of the phases. Below, visits follow the improved policy. The logits are r_pre.

    Args:
        temperature: r_pre is divided by it.
        trust: Logits that one unit of Q is worth.
        noise: Scale of the Gumbel noise.
        phase: Rollouts before the first half drops out.
    """

    temperature: float = 0.07
    trust: float = 15.0
    noise: float = 0.3
    phase: int = 4

    def ranked(self, tree: Tree, state: Node, live: Sequence[Node]) -> list[Node]:
        """At the root the least visited of those still in; below the one most short of its share of visits."""
        logits = {child.id: self._logit(state, child) for child in live}
        if state.call is None:
            halvings = (tree.state_visits(state) + state.in_flight) // self.phase
            best = sorted(
                live,
                key=lambda child: logits[child.id] + self._gumbel(child),
                reverse=True,
            )
            still_in = max(1, len(best) >> halvings)
            return (
                sorted(
                    best[:still_in], key=lambda child: child.visits + child.in_flight
                )
                + best[still_in:]
            )
        top = max(logits.values(), default=0.0)
        shares = {child: math.exp(logit - top) for child, logit in logits.items()}
        total = sum(shares.values())
        visits = 1 + tree.state_visits(state) + state.in_flight
        return sorted(
            live,
            key=lambda child: (
                shares[child.id] / total - (child.visits + child.in_flight) / visits
            ),
            reverse=True,
        )

    def _logit(self, state: Node, child: Node) -> float:
        value = child.value if child.visits else state.value
        return (child.r_pre or 0.0) / self.temperature + self.trust * value

    def _gumbel(self, child: Node) -> float:
        chance = random.Random(f"{self.config.seed}:gumbel:{child.id}").random()  # noqa: S311 - no secret depends on it
        return -self.noise * math.log(-math.log(chance or 0.5))


@dataclass(frozen=True, slots=True)
class Merged(Descent):
    """Eq. 1 without transpositions (Childs et al. 2008), as far as two states are exactly the same.

    Paths with the same writes, and the same reads between them in any order and number, lead to one state. A call that
    would lead to a state which another path has reached is dropped; the visits of that path are not credited to it.
    """

    _reached: dict[str, int] = field(default_factory=dict)

    def ranked(self, tree: Tree, state: Node, live: Sequence[Node]) -> list[Node]:
        """By Eq. 1, those left out whose state was reached elsewhere."""
        for child in live:
            name = _state_of(tree, child)
            if child.observation is not None:
                self._reached.setdefault(name, child.id)
            elif name in self._reached:
                child.pruned = "top_k"
        return Descent.ranked(
            self, tree, state, [child for child in live if child.pruned is None]
        )

    def after_scoring(self, tree: Tree, kept: Sequence[Node]) -> Work | None:
        """Run the best of the new candidates whose state is new."""
        state = tree.state_before(kept[0]) if kept else None
        return Descent.after_scoring(
            self, tree, self.ranked(tree, state, kept) if state else ()
        )


@dataclass(frozen=True, slots=True)
class EarlyExit(Descent):
    """Negative early exit (Kim et al. 2026): what has not gone well for some rollouts is given up for good.

    Args:
        bound: A call whose mean reward is below it is given up.
        rollouts: Not before it has had so many rollouts.
    """

    bound: float = 0.4
    rollouts: int = 4

    def ranked(self, tree: Tree, state: Node, live: Sequence[Node]) -> list[Node]:
        """By Eq. 1, those left out that are given up."""
        for child in live:
            if (
                child.visits >= self.rollouts
                and child.value < self.bound
                and not child.in_flight
            ):
                child.closed = True
        return Descent.ranked(
            self, tree, state, [child for child in live if not child.closed]
        )


@dataclass(frozen=True, slots=True)
class AdaptiveWidth(Descent):
    """Progressive widening (Coulom 2007; Couetoux et al. 2011): the more often a state is visited, the more is tried.

    Args:
        factor: Calls that may be tried at first.
        power: Their number grows as this power of the visits.
    """

    factor: float = 0.7
    power: float = 0.3

    def asks(self, tree: Tree, state: Node) -> bool:
        """Also where more calls may be tried than there are."""
        live = sum(_is_live(child) for child in tree.children(state))
        return tree.spent(state) or live < self._width(tree, state)

    def ranked(self, tree: Tree, state: Node, live: Sequence[Node]) -> list[Node]:
        """By Eq. 1, those of highest r_pre before the others."""
        width = self._width(tree, state)
        best = sorted(
            live,
            key=lambda child: (child.r_pre or 0.0, tree.jitter(child)),
            reverse=True,
        )
        return [
            *Descent.ranked(self, tree, state, best[:width]),
            *Descent.ranked(self, tree, state, best[width:]),
        ]

    def _width(self, tree: Tree, state: Node) -> int:
        return math.ceil(
            self.factor * math.pow(max(tree.state_visits(state), 1), self.power)
        )


def _is_live(child: Node) -> bool:
    return child.r_pre is not None and child.pruned is None


def _state_of(tree: Tree, node: Node) -> str:
    """The same text for paths with the same writes and the same reads between them."""
    writes: list[str] = []
    reads: set[tuple[int, str]] = set()
    for step in tree.path(node):
        if step.call and step.call.tool in READ_ONLY:
            reads.add((len(writes), step.call.key))
        elif step.call:
            writes.append(step.call.key)
    return repr((writes, sorted(reads)))


def _uct(**changes: Any) -> KernelConfig:
    """Eq. 1 as tuned on the development tasks, with rollouts enough for the model calls to be the limit."""
    settings: dict[str, Any] = {
        "selection": "smoothed",
        "exploration": 0.15,
        "pre_threshold": 0.35,
        "post_threshold": 0.3,
        "value_threshold": 0.6,
        "max_rollouts": 200,
        "patience": 20,
        "parallel_rollouts": 1,
    }
    return KernelConfig(**settings | changes)


VARIANTS = {
    "tooltree-uct": TreeSearchMethod(config=_uct(), policy=FirstPlay),
    "tooltree-puct": TreeSearchMethod(config=_uct(exploration=0.2), policy=PUCT),
    "tooltree-gumbel": TreeSearchMethod(config=_uct(), policy=Gumbel),
    "tooltree-merged": TreeSearchMethod(config=_uct(), policy=Merged),
    "tooltree-early-exit": TreeSearchMethod(config=_uct(), policy=EarlyExit),
    "tooltree-adaptive-width": TreeSearchMethod(config=_uct(), policy=AdaptiveWidth),
}
"""By name."""
