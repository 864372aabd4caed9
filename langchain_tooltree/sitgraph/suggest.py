"""From a state to suggestions: which edges may be followed, which mode applies, what speaks for it. Pure."""

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.sitgraph.graph import Graph, Outgoing, weights
from langchain_tooltree.sitgraph.states import END, LABELS, Floats, Places, Rows, center_of, centered, cosines
from langchain_tooltree.sitgraph.transitions import START, TEXT_VIEWS

Figures = NDArray[np.float64]
Numbers = NDArray[Any]
Labels = NDArray[np.void]

SEATS = 4  # states of a named source among those that vote, as long as there are others: it may have many near copies
LOUD = 0.1  # share of all votes from which on it is asked how the others would vote without a source
MOST_VOTES = 0.3  # share of all votes that a source has at the most, or twice its share by heads where they are few
SECONDED = 0.3
"""Votes that others must have for what a source would put first, as a share of those for what they would put first.

With these, 20 runs of one source that call a harmful tool after each honest one change the first suggestion in at most
2 of 50 tasks of real agents, where they copy other dialogues, or the beginning of the one asked about. They were chosen
on these data. Where each honest run has a named source of its own, the next-tool benchmark loses 3 points of hit@1 and
.8 of hit@2 at the most; runs without one lose nothing."""
MIXTURES = 21  # shares that are tried of the votes without a source
NEAREST = 128  # states that vote: more change no figure of the next-tool benchmark by a point
SAME_TOOL = 0.05  # added to the kernel of two states after the same tool; chosen by hand, and the same for all data
SAME_TWO = 0.05  # and of two after the same two tools
TEMPERATURES = np.geomspace(0.04, 0.6, 25)  # of the softmax over scores, which lie about between 0 and 1
OTHERS = np.arange(-6.0, 3.25, 0.25)  # scores of what no run did, in units of the temperature
TEMPERATURE_SPREAD = 0.5  # standard deviation of its logarithm, as far as is known without any runs
OTHER_SPREAD = 2.0  # standard deviation of the score of what no run did, around 0
WEIGHT_STEP = 2.0  # factor by which the weight of a view is changed in a step
RIDGE_STEP = math.sqrt(10)
SWEEPS = 4  # times that all steps are tried
TINY = 1e-9  # gain that rounding may have made


@dataclass(frozen=True, slots=True)
class Fit:
    """What a vote goes by; as it stands where there are too few runs to fit it to.

    Attributes:
        weights: The weight of each view; they sum to 1.
        center: The mean of the states that it was fitted to, from which states are seen. It is not that of all states,
            which one who gives many could move.
        ridge: How much noise states are taken to have.
        temperature: Of the softmax that makes shares of scores.
        other: The score of what no run did, in units of the temperature.
        ending: The temperature of the vote between the end of a turn and any tool.
    """

    weights: Floats
    center: Floats
    ridge: float = 0.1
    temperature: float = 0.15
    other: float = 0.0
    ending: float = 0.3

    @classmethod
    def unfitted(cls, center: Floats) -> "Fit":
        """What is taken beforehand: views of equal weight."""
        return cls(np.full(len(center), 1 / len(center), dtype=np.float32), center)


def kernel(similar: Floats, some: Labels, others: Labels) -> Floats:
    """The kernel of states by the weighted mean of their cosines: 1 for the same state after the same two tools.

    Of their labels, which must broadcast with `similar`, the last two tools count.
    """
    last = some["source"] == others["source"]
    near = SAME_TOOL * last + SAME_TWO * (last & (some["before"] == others["before"]))
    whole: Floats = (np.exp(similar - 1) + near.astype(np.float32)) / (1 + SAME_TOOL + SAME_TWO)
    return whole


def gram(views: Floats) -> Floats:
    """The cosines of each view among states, shape `(views, n, n)`."""
    return np.stack([view @ view.T for view in views.swapaxes(0, 1)])


def softmax(scores: Figures, temperature: float) -> Figures:
    """Scores as shares that sum to 1."""
    powers = np.exp((scores - scores.max()) / temperature)
    shares: Figures = powers / powers.sum()
    return shares


@dataclass(frozen=True, slots=True)
class Ballot:
    """How the nearest states vote."""

    labels: Labels  # of these states, in the order of their keys
    similar: Floats  # the weighted mean of each one's cosines with the state asked about
    beta: Figures  # their votes

    def scores(self) -> dict[int, float]:
        """The sum of the votes for each tool, by its number, in the order in which they come."""
        targets, places = in_order(self.labels["target"])
        return dict(zip(targets.tolist(), np.bincount(places, self.beta, minlength=len(targets)).tolist(), strict=True))

    def support(self, target: int) -> int:
        """How many distinct voices there are for a tool."""
        return len(np.unique(self.labels["voice"][self.labels["target"] == target]))

    def evidence(self, target: int, most: int) -> list[int]:
        """The places of the states that vote most for a tool."""
        places = np.flatnonzero(self.labels["target"] == target)
        best: list[int] = places[np.argsort(-self.beta[places], kind="stable")][:most].tolist()
        return best


def in_order(numbers: Numbers) -> tuple[Numbers, Places]:
    """Each number once, in the order in which they come, and the place of each: how they were numbered is by chance."""
    each, first, places = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return each[order], np.argsort(order)[places]


def vote(rows: Rows, similar: Floats, asked: Labels, fit: Fit, *, among: Places | None = None) -> Ballot:
    """Have the `NEAREST` of some states vote on what follows another one, the posterior mean there.

    `similar` is the weighted mean of each one's cosines with the state asked about, seen from the center of the fit;
    `asked` is its label, with its last two tools. States come in the order of their keys; those at the places `among`
    may vote, or all of them.
    """
    among = np.arange(len(rows)) if among is None else among
    k = kernel(similar[among], rows.labels[among], asked)
    order = np.argsort(-k, kind="stable")
    givers = rows.labels["giver"][among]
    late = (_places_within(givers[order]) >= SEATS) & (givers[order] >= 0)  # a run of nobody known has no copies
    chosen = np.sort(np.concatenate([order[~late], order[late]])[:NEAREST])
    places, k = among[chosen], k[chosen]
    rows = rows.taken(places)
    views = gram(centered(rows.vectors, fit.center))
    K = kernel(np.tensordot(fit.weights, views, 1), rows.labels[:, None], rows.labels)  # noqa: N806 - as in the formula
    beta = _capped(K + fit.ridge * np.eye(len(K)), k, givers=givers[chosen], targets=in_order(rows.labels["target"])[1])
    return Ballot(rows.labels, similar[places], beta)


def _places_within(givers: Numbers) -> Places:
    """For each state, how many of the same giver come before it."""
    together = np.argsort(givers, kind="stable")
    first = np.searchsorted(givers[together], givers[together])
    within = np.empty(len(givers), dtype=np.intp)
    within[together] = np.arange(len(givers)) - first
    return within


def _capped(K: NDArray[Any], k: Floats, *, givers: Numbers, targets: Places) -> Figures:  # noqa: N803 - the formula's
    """The votes, of which the loudest named source has no more than its share, and alone does not say what comes first.

    Where it would, its votes are mixed with those that the others have without it, up to where it does no more. That is
    the same regression with more noise in the states of that source. What two others agree on comes first then; what
    the source alone would put there stays in view behind it. A source without others is as good as ever, and
    between two the nearer one decides. A run of no named source is what the host itself brought, and is heard as it is.
    """
    beta: Figures = np.linalg.solve(K, k).astype(np.float64)
    numbers, places = in_order(givers)
    parts = np.bincount(places, np.abs(beta))
    own = places == np.where(numbers < 0, 0, parts).argmax()
    if givers[own][0] < 0 or own.all() or parts.max() <= LOUD * parts.sum():
        return beta
    others = np.zeros_like(beta)
    others[~own] = np.linalg.solve(K[np.ix_(~own, ~own)], k[~own])
    without = np.bincount(targets, others)
    first, rival = np.bincount(targets, beta).argmax(), without.argmax()
    agreed = len(set(givers[(targets == rival) & (others > 0)].tolist())) > 1
    seconded = not agreed or without[first] >= SECONDED * without[rival]
    most = max(MOST_VOTES, 2 / len(parts))
    mixed: Figures = others
    for part in np.linspace(0, 1, MIXTURES):
        mixed = (1 - part) * beta + part * others
        settled = seconded or np.bincount(targets, mixed).argmax() == rival
        if settled and np.abs(mixed[own]).sum() <= most * np.abs(mixed).sum():
            break
    return mixed


def fitted(rows: Rows) -> Fit:
    """The fit by the likelihood of whole runs, each foretold by all others.

    A step away from equal weights is taken only where it gains more than one standard error over the runs: what is
    gained by chance is lost with the next run.
    """
    center = center_of(rows.vectors)
    start = Fit.unfitted(center)
    targets = rows.labels["target"]
    if not (targets != END).any():
        return start
    called = _Foretelling(rows.taken(targets != END), targets[targets != END], center)
    weights, ridge = start.weights, start.ridge
    best = called.likelihood(weights, ridge)
    for _ in range(SWEEPS):
        moved = False
        for view in range(-1, len(weights)):
            for up in (True, False):
                step = _step(weights, ridge, view, up=up)
                likelihood = called.likelihood(*step)
                if _is_gain(likelihood - best):
                    (weights, ridge), best, moved = step, likelihood, True
                    break
        if not moved:
            break
    temperature, other = called.calibrated(weights, ridge, start.temperature)
    # All views are equal where it is foretold whether the turn ends: other weights foretell it no better.
    whole = _Foretelling(rows, targets == END, center)
    ending, _ = whole.calibrated(start.weights, start.ridge, start.ending)
    return Fit(weights, center, ridge, temperature, other, ending)


def _step(weights: Floats, ridge: float, view: int, *, up: bool) -> tuple[Floats, float]:
    """A step of one weight, or for view -1 of the ridge."""
    if view < 0:
        return weights, ridge * RIDGE_STEP if up else ridge / RIDGE_STEP
    changed = weights.copy()
    changed[view] *= WEIGHT_STEP if up else 1 / WEIGHT_STEP
    return changed / changed.sum(), ridge


def _is_gain(gains: Figures) -> bool:
    """Whether the runs gain more in all than one standard error."""
    error = math.sqrt(len(gains) * gains.var(ddof=1)) if len(gains) > 1 else math.inf
    return bool(gains.sum() > error + TINY)


class _Foretelling:
    """How well each of some runs is foretold by the others."""

    def __init__(self, rows: Rows, targets: Numbers, center: Floats) -> None:
        self._labels = rows.labels
        self._gram = gram(centered(rows.vectors, center))
        runs, self._runs = in_order(rows.labels["run"])
        names, self._targets = in_order(targets)
        self._Y = np.eye(len(names))[self._targets]
        self._blocks = [np.flatnonzero(self._runs == run) for run in range(len(runs))]
        of_run = np.stack([self._Y[block].sum(axis=0) for block in self._blocks])
        self._known = (of_run.sum(axis=0) - of_run)[self._runs] > 0  # by state: what the other runs did
        self._foretold = self._known[np.arange(len(rows)), self._targets]

    def likelihood(self, weights: Floats, ridge: float) -> Figures:
        """The logarithm of the likelihood of each run at the best temperature, of what other runs did as well."""
        every = self._likelihoods(self._scores(weights, ridge))
        best = every[every.sum(axis=1).argmax()]
        return np.bincount(self._runs[self._foretold], best, minlength=len(self._blocks)).astype(np.float64)

    def calibrated(self, weights: Floats, ridge: float, expected: float) -> tuple[float, float]:
        """The most probable temperature, and the most probable score of what no run did."""
        scores = self._scores(weights, ridge)
        prior = (np.log(TEMPERATURES / expected) / TEMPERATURE_SPREAD) ** 2 / 2
        temperature = float(TEMPERATURES[(self._likelihoods(scores).sum(axis=1) - prior).argmax()])
        powers = np.concatenate([scores / temperature, np.zeros((len(scores), 1))], axis=1)
        places = np.where(self._foretold, self._targets, -1)

        def probability(other: float) -> float:
            powers[:, -1] = other
            return float(_log_shares(powers, places).sum()) - (other / OTHER_SPREAD) ** 2 / 2

        return temperature, max(OTHERS.tolist(), key=probability)

    def _likelihoods(self, scores: Figures) -> Figures:
        """The logarithm of the share of what came next, for each temperature and each state where others did it too."""
        known = scores[self._foretold] / TEMPERATURES[:, None, None]
        return _log_shares(known, self._targets[self._foretold])

    def _scores(self, weights: Floats, ridge: float) -> Figures:
        """The score of each tool in each state by all other runs, in closed form: `F`."""
        K = kernel(np.tensordot(weights, self._gram, 1), self._labels[:, None], self._labels)  # noqa: N806
        P = np.linalg.inv(K.astype(np.float64) + ridge * np.eye(len(K)))  # noqa: N806
        A = P @ self._Y  # noqa: N806
        F = np.empty_like(A)  # noqa: N806
        for block in self._blocks:
            F[block] = self._Y[block] - np.linalg.solve(P[np.ix_(block, block)], A[block])
        return np.where(self._known, F, -np.inf)


def _log_shares(powers: Figures, places: Places) -> Figures:
    """The logarithm of the share at one place of each row, along the last axis."""
    highest = powers.max(axis=-1, initial=-np.inf)
    whole = np.log(np.exp(powers - highest[..., None]).sum(axis=-1)) + highest
    shares: Figures = powers[..., np.arange(len(places)), places] - whole
    return shares


Mode = Literal["episodic", "contextual", "procedural"]
"""By the agent's own summary of the state, by the state as it can be read off the dialogue, or by weight alone."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A stored state that speaks for a suggestion."""

    trajectory: str  # id of the successful trajectory that it comes from
    similarity: float  # how similar it is to the state now, at most 1
    summary: str = ""  # what was written there; empty where nothing was


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A tool that often came next.

    Attributes:
        tool: Its name.
        score: Its share among the tools that may come next, in [0, 1]; all shares sum to 1.
        mode: How it was found.
        support: How many voices went on with it after the tool called last: distinct tasks of distinct sources, so
            that a source that repeats itself counts once; where none did, how many of those with a state that voted.
        evidence: The stored states that speak most for it, best first; empty in procedural mode.
        of: How many voices went on after the tool called last, with any tool; 0 where this one never followed it.
    """

    tool: str
    score: float
    mode: Mode
    support: int
    evidence: tuple[Evidence, ...] = ()
    of: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The suggestion as plain data, for the state of a graph and for events."""
        data = asdict(self)
        return {**data, "evidence": list(data["evidence"])}


def plain(suggestion: Suggestion | Mapping[str, Any]) -> Mapping[str, Any]:
    """What the suggestion's `to_dict` returns, or has returned."""
    return suggestion.to_dict() if isinstance(suggestion, Suggestion) else suggestion


BANDWIDTH = 0.05  # difference in cosine that divides the share of a summary by e; chosen by hand, the same for all data
EVIDENCE = 3  # stored states shown for a suggestion
MOSTLY = 0.8  # share of the end of a turn from which on no tool is suggested where no run ever went on

Ablation = Literal["w/o graph", "w/o weight", "w/o state", "only weight w/o efficiency", "w/o adapt"]
"""Parts of SIT-Graph that can be left out, named and meant as in the paper:

- `w/o graph`: nothing is suggested, and what is left is the tool that sums up the state;
- `w/o weight`: states alone decide, and where there are none to compare, all edges are equal;
- `w/o state`, which is *only weight*: weights alone decide;
- `only weight w/o efficiency`: counts alone decide, without the 1 / T term of Eq. 1;
- `w/o adapt`: where edges of the last tool have summaries, states are compared with them at every step, and weights
  decide elsewhere. Where the agent has not summed up the state, it is read off the dialogue.

*With GNN4Plan* would be another method on the same graph, which has to be trained; it is not here.
"""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The tools that may come next, with their shares, which sum to 1."""

    shares: Mapping[str, float]
    support: Mapping[str, int]
    mode: Mode
    evidence: Callable[[str], tuple[Evidence, ...]] = lambda _: ()  # for a tool, best first

    def joined(self, other: "Ranking", share: float) -> "Ranking":
        """Both rankings in one, to which the other one gives this share. What it knows is shown first."""
        tools = {**self.shares, **other.shares}
        return Ranking(
            {each: (1 - share) * self.shares.get(each, 0) + share * other.shares.get(each, 0) for each in tools},
            {each: max(self.support.get(each, 0), other.support.get(each, 0)) for each in tools},
            other.mode,
            lambda tool: other.evidence(tool) or self.evidence(tool),
        )

    def best(self, k: int, *, by_support: bool) -> list[Suggestion]:
        """The tools with the largest shares; of equal ones those that come first `by_support`, then by their names."""

        def order(tool: str) -> tuple[float, int, str]:
            return -self.shares[tool], -self.support[tool] * by_support, tool

        return [
            Suggestion(tool, self.shares[tool], self.mode, self.support[tool], self.evidence(tool))
            for tool in heapq.nsmallest(k, self.shares, key=order)
        ]


@dataclass(frozen=True, slots=True)
class Votes:
    """How stored states vote on what follows another one."""

    on_tools: Ballot
    on_ending: Ballot  # the end of the turn against any tool, of which the targets are 0


@dataclass(frozen=True, slots=True)
class Recommender:
    """Suggests tools that came next by at least `min_support` voices, with weights by `alpha` (Eq. 1)."""

    graph: Graph
    alpha: float
    min_support: int
    fit: Fit
    ablation: Ablation | None = None

    def suggest(
        self,
        source: str,
        *,
        before: str = START,
        views: Floats | None = None,
        summary: Floats | None = None,
        k: int = 2,
        allowed: Collection[str] | None = None,
    ) -> list[Suggestion]:
        """The tools that came after `source`, and `before` it, where the state had these views or this summary.

        Views have the shape `(len(VIEWS), DIMENSIONS)`, a summary `(DIMENSIONS,)`. All tools are allowed if none are
        named. The best come first. The list is empty where nothing is known.
        """
        ranked = self._ranked(source, before, views, summary, allowed)
        weighed = self.ablation != "w/o weight" or (ranked is not None and ranked.mode != "procedural")
        best = [] if ranked is None else ranked.best(k, by_support=weighed)
        of = self._of(source, [each.tool for each in best])
        return [replace(each, of=of[each.tool]) for each in best]

    def _of(self, source: str, tools: Iterable[str]) -> dict[str, int]:
        """How many voices went on after `source`, with any tool, for the tools that ever followed it; else 0."""
        edges, voices = self.graph.outgoing(source), self.graph.voices_after(source)
        return {tool: voices if tool in edges else 0 for tool in tools}

    def next_tools(
        self, source: str, *, before: str, views: Floats | None, allowed: Collection[str] | None
    ) -> dict[str, Any]:
        """What may come after `source`, by the fields of `NextTools`; empty where nothing is known."""
        if views is None or self.ablation is not None:
            return self._by_count(source, allowed)
        votes = self._votes(source, before, views)
        scores, runs = self._elected(votes.on_tools, source, allowed, least=1) if votes else ({}, {})
        if votes is None or not scores:
            return {}
        # What no run did has a score of its own: it is likely where nothing stored is like this state.
        powers = [score / self.fit.temperature for score in scores.values()]
        *called, other = softmax(np.array([*powers, self.fit.other]), 1.0).tolist()
        done, ended = self._done(votes.on_ending), votes.on_ending.support(END)
        shares = {tool: share * (1 - done) for tool, share in zip(scores, called, strict=True)}
        known = {"shares": shares, "runs": runs, "of": self._of(source, shares)}
        return {**known, "done": done, "ended": ended, "other": other * (1 - done)}

    def _by_count(self, source: str, allowed: Collection[str] | None) -> dict[str, Any]:
        """The shares by weight; what no run did has that of the edges that were followed once (Good 1953)."""
        edges = self._edges(source, allowed)
        if not edges:
            return {}
        counts = [edge.count for edge in self.graph.outgoing(source).values()]
        other = counts.count(1) / sum(counts)
        shares = {tool: (1 - other) * weight for tool, weight in self._weights(edges).items()}
        runs = {tool: edge.support for tool, edge in edges.items()}
        return {"shares": shares, "runs": runs, "of": self._of(source, shares), "other": other}

    def _edges(self, source: str, allowed: Collection[str] | None) -> Outgoing:
        """The edges that may be followed."""
        if self.ablation == "w/o graph":
            return {}
        return {
            tool: edge
            for tool, edge in self.graph.outgoing(source).items()
            if edge.support >= self.min_support and (allowed is None or tool in allowed)
        }

    def _weights(self, edges: Outgoing) -> dict[str, float]:
        if self.ablation == "w/o weight":
            return dict.fromkeys(edges, 1 / len(edges))
        return weights(edges, 0.0 if self.ablation == "only weight w/o efficiency" else self.alpha)

    def _ranked(
        self, source: str, before: str, views: Floats | None, summary: Floats | None, allowed: Collection[str] | None
    ) -> Ranking | None:
        edges = self._edges(source, allowed)
        if self.ablation == "w/o adapt" and summary is None and views is not None:
            summary = views[: len(TEXT_VIEWS)].sum(axis=0)
        by_summary, share = None, 0.0
        if edges and summary is not None and self.ablation not in {"w/o state", "only weight w/o efficiency"}:
            by_summary, share = self._by_summary(edges, source, summary)
        if by_summary is not None and (views is None or share == 1):
            return by_summary
        if views is not None and self.ablation in {None, "w/o weight"}:
            by_vote = self._by_vote(source, before, views, allowed)
            if by_vote is not None:
                return by_vote if by_summary is None else by_vote.joined(by_summary, share)
        if by_summary is not None or not edges:
            return by_summary
        return Ranking(self._weights(edges), {tool: edge.support for tool, edge in edges.items()}, "procedural")

    def _by_vote(self, source: str, before: str, views: Floats, allowed: Collection[str] | None) -> Ranking | None:
        """Rank by the vote of all states; `None` where nothing is known."""
        votes = self._votes(source, before, views)
        if votes is None or (self._done(votes.on_ending) >= MOSTLY and not self._seconded(source)):
            return None
        scores, support = self._elected(votes.on_tools, source, allowed, least=self.min_support)
        # A tool that is less likely than all that no run did is no suggestion.
        kept = [tool for tool, score in scores.items() if score >= self.fit.other * self.fit.temperature]
        if not kept:
            return None
        shares = softmax(np.array([scores[tool] for tool in kept]), self.fit.temperature).tolist()
        evidence = partial(self._evidence, votes.on_tools)
        return Ranking(dict(zip(kept, shares, strict=True)), support, "contextual", evidence)

    def _seconded(self, source: str) -> bool:
        """Whether more than one source went on after a tool in the same way, or there is one source only."""
        return self.graph.is_of_one or any(edge.givers > 1 for edge in self.graph.outgoing(source).values())

    def _votes(self, source: str, before: str, views: Floats) -> Votes | None:
        """The votes of all states that are compared; `None` where there are none."""
        number = self.graph.number(source)
        rows = self.graph.states.compared(number)
        called = np.flatnonzero(rows.labels["target"] != END)
        if not len(called):
            return None
        asked = np.zeros(1, LABELS)
        asked["source"], asked["before"] = number, self.graph.number(before)
        similar = cosines(rows.numbers, views, self.fit.center)
        on_tools = vote(rows, similar @ self.fit.weights, asked, self.fit, among=called)
        # All views are equal where the turn may end: other weights foretell it no better.
        rows.labels["target"][called] = 0
        even = Fit.unfitted(self.fit.center)
        return Votes(on_tools, vote(rows, similar @ even.weights, asked, even))

    def _elected(
        self, ballot: Ballot, source: str, allowed: Collection[str] | None, *, least: int
    ) -> tuple[dict[str, float], dict[str, int]]:
        """The tools that are voted for and allowed, with their scores, and how many voices there are for each."""
        edges = self.graph.outgoing(source)
        scores, support = {}, {}
        for target, score in ballot.scores().items():
            tool = self.graph.names[target]
            voices = edges[tool].support if tool in edges else ballot.support(target)
            if voices >= least and (allowed is None or tool in allowed):
                scores[tool], support[tool] = score, voices
        return scores, support

    def _done(self, ballot: Ballot) -> float:
        """The share of the end of a turn in a vote between it and any tool."""
        scores = ballot.scores()
        places = {target: place for place, target in enumerate(scores)}
        shares = softmax(np.array([*scores.values()]), self.fit.ending)
        return float(shares[places[END]]) if END in places else 0.0

    def _evidence(self, ballot: Ballot, tool: str) -> tuple[Evidence, ...]:
        places = ballot.evidence(self.graph.number(tool), EVIDENCE)
        runs = ballot.labels["run"][places].tolist()
        similar = ballot.similar[places].tolist()
        return tuple(
            Evidence(self.graph.run_of(run).id, round(each, 4)) for run, each in zip(runs, similar, strict=True)
        )

    def _by_summary(self, edges: Outgoing, source: str, summary: Floats) -> tuple[Ranking | None, float]:
        """Rank by the agent's summary, `None` where nothing is similar; and the share of the edges with summaries.

        An edge is as similar as the most similar of its summaries.
        """
        rows = self.graph.summaries.after(self.graph.number(source))
        similar = cosines(rows.numbers, summary[None], np.zeros_like(summary[None]))[:, 0].astype(np.float64)
        order = np.argsort(-similar, kind="stable")
        places: dict[str, list[int]] = {}
        for place, target in zip(order.tolist(), rows.labels["target"][order].tolist(), strict=True):
            places.setdefault(self.graph.names[target], []).append(place)
        nearest = {tool: max(similar[places[tool][0]], 0.0) for tool in edges if tool in places}
        if not any(nearest.values()):
            return None, 0.0

        def evidence(tool: str) -> tuple[Evidence, ...]:
            best = places.get(tool, [])[:EVIDENCE]
            runs = [self.graph.run_of(run) for run in rows.labels["run"][best].tolist()]
            texts = [run.summaries[at][1] for run, at in zip(runs, rows.labels["place"][best].tolist(), strict=True)]
            near = (round(each, 4) for each in similar[best].tolist())
            return tuple(Evidence(run.id, *said) for run, *said in zip(runs, near, texts, strict=True))

        shares = softmax(np.array([*nearest.values()]), BANDWIDTH).tolist()
        support = {tool: edges[tool].support for tool in nearest}
        ranking = Ranking(dict(zip(nearest, shares, strict=True)), support, "episodic", evidence)
        return ranking, len(nearest) / len(edges)
