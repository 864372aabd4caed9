"""From a state to suggestions: how stored states vote, which mode applies, and what speaks for a tool."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.sitgraph.graph import Graph, Outgoing, weights
from langchain_tooltree.sitgraph.states import (
    END,
    LABELS,
    Floats,
    Places,
    StateLabels,
    StateRows,
    cosines,
    mean_of,
    recenter,
)
from langchain_tooltree.sitgraph.transitions import START, TEXT_VIEWS

Figures = NDArray[np.float64]
Numbers = NDArray[Any]

NEAREST = (
    128  # states that vote: more change no figure of the next-tool benchmark by a point
)
SAME_TOOL = 0.05  # added to the kernel of two states after the same tool; chosen by hand, and the same for all data
SAME_TWO = 0.05  # and of two after the same two tools
BANDWIDTH = 0.05  # difference in cosine that divides the share of a summary by e; chosen by hand, the same for all data
EVIDENCE = 3  # stored states shown for a suggestion
MOSTLY = 0.8  # share of the end of a turn from which on no tool is suggested where no run ever went on


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """How far one named source is believed where there are others.

    With these, 20 runs of one source that call a harmful tool after each honest one change the first suggestion in at
    most 2 of 50 tasks of real agents, where they copy other dialogues, or the beginning of the one asked about. They
    were chosen on these data. Where each honest run has a named source of its own, the next-tool benchmark loses 3
    points of hit@1 and .8 of hit@2 at the most; runs without one lose nothing.
    """

    seats: int = 4  # states of a source among those that vote, as long as there are others: it may have near copies
    loud: float = 0.1  # share of all votes from which on it is asked how the others would vote without the source
    votes: float = 0.3  # share of all votes that a source has at most, or twice its share by heads where they are few
    seconded: float = 0.3  # votes of the others for what it would put first, as a share of those for their own first
    mixtures: int = 21  # how many shares are tried of the votes without the source


LIMITS = SourceLimits()


@dataclass(frozen=True, slots=True)
class FitSettings:
    """How the vote is fitted: the values that are tried, and what is expected beforehand."""

    temperatures: tuple[float, ...] = tuple(
        np.geomspace(0.04, 0.6, 25).tolist()
    )  # scores lie about between 0 and 1
    others: tuple[float, ...] = tuple(
        np.arange(-6.0, 3.25, 0.25).tolist()
    )  # scores of what no run did
    temperature_spread: float = (
        0.5  # standard deviation of its logarithm, as far as is known without any runs
    )
    other_spread: float = (
        2.0  # standard deviation of the score of what no run did, around 0
    )
    weight_step: float = (
        2.0  # factor by which the weight of a view is changed in a step
    )
    ridge_step: float = math.sqrt(10)  # and the ridge
    sweeps: int = 4  # times that all steps are tried
    rounding: float = 1e-9  # gain that rounding may have made


FITTING = FitSettings()


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
        sample: The digest of the sample of runs that it was fitted to.
    """

    weights: Floats
    center: Floats
    ridge: float = 0.1
    temperature: float = 0.15
    other: float = 0.0
    ending: float = 0.3
    sample: str = ""

    @classmethod
    def even(cls, center: Floats) -> Self:
        """What is taken beforehand: views of equal weight."""
        return cls(np.full(len(center), 1 / len(center), dtype=np.float32), center)

    def to_dict(self) -> dict[str, Any]:
        """The fit as plain data."""
        return {
            **asdict(self),
            "weights": self.weights.tolist(),
            "center": self.center.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The fit of which `to_dict` made plain data."""
        arrays = {
            name: np.array(data[name], dtype=np.float32)
            for name in ("weights", "center")
        }
        return cls(**{**data, **arrays})


def kernel(similar: NDArray[Any], some: StateLabels, others: StateLabels) -> Floats:
    """The kernel of states: 1 for the same state after the same two tools, and less for any other.

    Args:
        similar: The weighted means of their cosines.
        some: Their labels, of which the last two tools count; they must broadcast with `similar`.
        others: The labels of those that they are compared with.
    """
    last = some["source"] == others["source"]
    near = SAME_TOOL * last + SAME_TWO * (last & (some["before"] == others["before"]))
    # k(x, y) = (exp(cos(x, y) - 1) + .05 [same last tool] + .05 [same last two tools]) / 1.1
    whole: Floats = (np.exp(similar - 1) + near.astype(np.float32)) / (
        1 + SAME_TOOL + SAME_TWO
    )
    return whole


def gram(views: Floats) -> Floats:
    """The cosines of each view among states, shape `(views, n, n)`."""
    return np.stack([view @ view.T for view in views.swapaxes(0, 1)])


def softmax(scores: Figures, temperature: float) -> Figures:
    """Scores as shares that sum to 1."""
    powers = np.exp((scores - scores.max()) / temperature)
    shares: Figures = powers / powers.sum()
    return shares


def in_order(numbers: Numbers) -> tuple[Numbers, Places]:
    """Each number once, in the order in which they come, and the place of each: how they were numbered is by chance."""
    each, first, places = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return each[order], np.argsort(order)[places]


@dataclass(frozen=True, slots=True)
class Ballot:
    """How the nearest states vote."""

    labels: StateLabels  # of these states, in the order of their keys
    similar: (
        Floats  # the weighted mean of each one's cosines with the state asked about
    )
    beta: Figures  # their votes

    def scores(self) -> dict[int, float]:
        """The sum of the votes for each tool, by its number, in the order in which they come."""
        targets, places = in_order(self.labels["target"])
        return dict(
            zip(
                targets.tolist(),
                np.bincount(places, self.beta, minlength=len(targets)).tolist(),
                strict=True,
            )
        )

    def support(self) -> Counter[int]:
        """How many distinct voices there are for each tool, by its number."""
        pairs = zip(
            self.labels["target"].tolist(), self.labels["voice"].tolist(), strict=True
        )
        return Counter(target for target, _ in set(pairs))

    def evidence(self, target: int, most: int) -> list[int]:
        """The places of the states that vote most for a tool."""
        places = np.flatnonzero(self.labels["target"] == target)
        best: list[int] = places[np.argsort(-self.beta[places], kind="stable")][
            :most
        ].tolist()
        return best


def vote(
    rows: StateRows, among: Places, similar: Floats, question: StateLabels, fit: Fit
) -> Ballot:
    """Have the `NEAREST` of some states vote on what follows another one.

    The score of a tool is the posterior mean of a Gaussian process, or ridge regression in the kernel's space: each
    state x_i of the nearest that was followed by the tool gives its vote beta_i to it.

    Args:
        rows: States, in the order of their keys.
        among: The places of those that may vote.
        similar: The weighted mean of each row's cosines with the state asked about, as seen from the fit's center.
        question: The label of that state, of which the last two tools count.
        fit: What the vote goes by.
    """
    k = kernel(
        similar, rows.labels, question
    )  # k_i = k(x_i, x) for the state x asked about
    order = among[np.argsort(-k[among], kind="stable")]
    givers = rows.labels["giver"]
    late = (_places_within(givers[order]) >= LIMITS.seats) & (
        givers[order] >= 0
    )  # an unnamed run has no copies
    nearest = np.sort(np.concatenate([order[~late], order[late]])[:NEAREST])
    rows = rows.at(nearest)
    # The sum over views v of w_v x_iv x_jv, as one product of all views: `gram` would take twice the time.
    x = (recenter(rows.numbers, fit.center) * np.sqrt(fit.weights)[:, None]).reshape(
        len(rows), -1
    )
    K = kernel(x @ x.T, rows.labels[:, None], rows.labels)  # noqa: N806 - K_ij = k(x_i, x_j)
    # beta = (K + ridge I)^-1 k, and the score of a tool is the sum of beta_i over the states that it followed.
    beta = _limited(
        K + fit.ridge * np.eye(len(K)),
        k[nearest],
        givers[nearest],
        in_order(rows.labels["target"])[1],
    )
    return Ballot(rows.labels, similar[nearest], beta)


def _places_within(givers: Numbers) -> Places:
    """For each state, how many of the same giver come before it."""
    together = np.argsort(givers, kind="stable")
    first = np.searchsorted(givers[together], givers[together])
    within = np.empty(len(givers), dtype=np.intp)
    within[together] = np.arange(len(givers)) - first
    return within


def _limited(K: NDArray[Any], k: Floats, givers: Numbers, targets: Places) -> Figures:  # noqa: N803 - the formula's
    """The votes, of which the loudest named source has no more than its share, and alone does not say what comes first.

    Where it would, its votes are mixed with those that the others have without it, up to where it does no more. That is
    the same regression with more noise in the states of that source. What two others agree on comes first then; what
    the source alone would put there stays in view behind it. A source without others is as good as ever, and
    between two the nearer one decides. A run of no named source is what the host itself brought, and is heard as it is.
    """
    beta: Figures = np.linalg.solve(K, k).astype(np.float64)
    numbers, places = in_order(givers)
    parts = np.bincount(places, np.abs(beta))  # of each source
    own = places == np.where(numbers < 0, 0, parts).argmax()
    if givers[own][0] < 0 or own.all() or parts.max() <= LIMITS.loud * parts.sum():
        return beta
    others = np.zeros_like(beta)
    others[~own] = np.linalg.solve(K[np.ix_(~own, ~own)], k[~own])
    without = np.bincount(targets, others)
    first, rival = np.bincount(targets, beta).argmax(), without.argmax()
    agreed = len(set(givers[(targets == rival) & (others > 0)].tolist())) > 1
    seconded = not agreed or without[first] >= LIMITS.seconded * without[rival]
    most = max(LIMITS.votes, 2 / len(parts))
    mixed: Figures = others
    for share in np.linspace(0, 1, LIMITS.mixtures):
        mixed = (1 - share) * beta + share * others
        settled = seconded or np.bincount(targets, mixed).argmax() == rival
        if settled and np.abs(mixed[own]).sum() <= most * np.abs(mixed).sum():
            break
    return mixed


def fit_vote(rows: StateRows, sample: str = "") -> Fit:
    """The fit by the likelihood of whole runs, each foretold by all others.

    A step away from equal weights is taken only where it gains more than one standard error over the runs: what is
    gained by chance is lost with the next run.
    """
    center = mean_of(rows.vectors)
    start = Fit.even(center)
    targets = rows.labels["target"]
    called = targets != END
    if not called.any():
        return Fit(start.weights, center, sample=sample)
    tools = _Foretelling(rows.at(called), targets[called], center)
    setting = np.array([start.ridge, *start.weights])
    best = tools.likelihood(setting)
    for _ in range(FITTING.sweeps):
        before = setting
        for place in range(len(setting)):
            step = FITTING.weight_step if place else FITTING.ridge_step
            for factor in (step, 1 / step):
                trial = setting.copy()
                trial[place] *= factor
                trial[1:] /= trial[1:].sum()
                likelihood = tools.likelihood(trial)
                if _is_gain(likelihood - best):
                    setting, best = trial, likelihood
                    break
        if setting is before:
            break
    temperature, other = tools.calibration(setting, start.temperature)
    # All views are equal where it is foretold whether the turn ends: other weights foretell it no better.
    ends = _Foretelling(rows, targets == END, center)
    ending, _ = ends.calibration(np.array([start.ridge, *start.weights]), start.ending)
    return Fit(
        setting[1:].astype(np.float32),
        center,
        float(setting[0]),
        temperature,
        other,
        ending,
        sample,
    )


def _is_gain(gains: Figures) -> bool:
    """Whether the runs gain more in all than one standard error."""
    error = math.sqrt(len(gains) * gains.var(ddof=1)) if len(gains) > 1 else math.inf
    return bool(gains.sum() > error + FITTING.rounding)


class _Foretelling:
    """How well each of some runs is foretold by the others.

    A setting is an array of the ridge, and the weights of the views behind it.
    """

    def __init__(self, rows: StateRows, targets: Numbers, center: Floats) -> None:
        self._labels = rows.labels
        self._gram = gram(recenter(rows.numbers, center))
        runs, self._runs = in_order(rows.labels["run"])
        names, self._targets = in_order(targets)
        self._Y = np.eye(len(names))[
            self._targets
        ]  # Y_it is 1 where tool t came after state i
        self._blocks = [np.flatnonzero(self._runs == run) for run in range(len(runs))]
        of_run = np.stack([self._Y[block].sum(axis=0) for block in self._blocks])
        self._others = (of_run.sum(axis=0) - of_run)[
            self._runs
        ] > 0  # by state: what the other runs did
        self._foretold = self._others[np.arange(len(rows)), self._targets]

    def likelihood(self, setting: Figures) -> Figures:
        """The logarithm of the likelihood of each run at the best temperature, of what other runs did as well."""
        every = self._likelihoods(self._scores(setting))
        best = every[every.sum(axis=1).argmax()]
        return np.bincount(
            self._runs[self._foretold], best, minlength=len(self._blocks)
        ).astype(np.float64)

    def calibration(self, setting: Figures, expected: float) -> tuple[float, float]:
        """The most probable temperature, and the most probable score of what no run did."""
        scores = self._scores(setting)
        temperatures = np.array(FITTING.temperatures)
        prior = (np.log(temperatures / expected) / FITTING.temperature_spread) ** 2 / 2
        temperature = float(
            temperatures[(self._likelihoods(scores).sum(axis=1) - prior).argmax()]
        )
        powers = np.concatenate(
            [scores / temperature, np.zeros((len(scores), 1))], axis=1
        )
        places = np.where(self._foretold, self._targets, -1)

        def probability(other: float) -> float:
            powers[:, -1] = other
            return (
                float(_log_shares(powers, places).sum())
                - (other / FITTING.other_spread) ** 2 / 2
            )

        return temperature, max(FITTING.others, key=probability)

    def _likelihoods(self, scores: Figures) -> Figures:
        """The logarithm of the share of what came next, for each temperature and each state where others did it too."""
        powers = scores[self._foretold] / np.array(FITTING.temperatures)[:, None, None]
        return _log_shares(powers, self._targets[self._foretold])

    def _scores(self, setting: Figures) -> Figures:
        """The score of each tool in each state by all other runs; -inf for what they never did."""
        K = kernel(  # noqa: N806
            np.tensordot(setting[1:], self._gram, 1),
            self._labels[:, None],
            self._labels,
        )
        # P = (K + ridge I)^-1, A = P Y, and for the states R of a run in closed form: F_R = Y_R - (P_RR)^-1 A_R
        P = np.linalg.inv(K.astype(np.float64) + setting[0] * np.eye(len(K)))  # noqa: N806
        A = P @ self._Y  # noqa: N806
        F = np.empty_like(A)  # noqa: N806
        for block in self._blocks:
            F[block] = self._Y[block] - np.linalg.solve(
                P[np.ix_(block, block)], A[block]
            )
        return np.where(self._others, F, -np.inf)


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
        mode: What the share goes by.
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


Ablation = Literal[
    "w/o graph", "w/o weight", "w/o state", "only weight w/o efficiency", "w/o adapt"
]
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
    evidence: Callable[[str], tuple[Evidence, ...]] = (
        lambda _: ()
    )  # for a tool, best first


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
        named. The best come first, of equal ones those with more support. The list is empty where nothing is known.
        """
        ranking = self._ranking(source, before, views, summary, allowed)
        if ranking is None:
            return []
        shares, support = ranking.shares, ranking.support
        counts = self.ablation != "w/o weight"
        best = heapq.nsmallest(
            k, shares, key=lambda tool: (-shares[tool], -support[tool] * counts, tool)
        )
        of = self._of(source, best)
        return [
            Suggestion(
                tool,
                shares[tool],
                ranking.mode,
                support[tool],
                ranking.evidence(tool),
                of[tool],
            )
            for tool in best
        ]

    def next_tools(
        self,
        source: str,
        *,
        before: str,
        views: Floats | None,
        allowed: Collection[str] | None,
    ) -> dict[str, Any]:
        """What may come after `source`, by the fields of `NextTools`; empty where nothing is known."""
        if views is None or self.ablation is not None:
            return self._by_count(source, allowed)
        votes = self._votes(source, before, views)
        scores, runs = (
            self._scores(votes[0], source, allowed, least=1) if votes else ({}, {})
        )
        if votes is None or not scores:
            return {}
        # What no run did has a score of its own: it is likely where nothing stored is like this state.
        powers = [score / self.fit.temperature for score in scores.values()]
        *called, other = softmax(np.array([*powers, self.fit.other]), 1.0).tolist()
        done = self._done(votes[1])
        shares = {
            tool: share * (1 - done) for tool, share in zip(scores, called, strict=True)
        }
        return {
            "shares": shares,
            "runs": runs,
            "of": self._of(source, shares),
            "done": done,
            "ended": votes[1].support()[END],
            "other": other * (1 - done),
        }

    def _by_count(self, source: str, allowed: Collection[str] | None) -> dict[str, Any]:
        """The shares by weight; what no run did has that of the edges that were followed once (Good 1953)."""
        edges = self._edges(source, allowed)
        if not edges:
            return {}
        counts = [edge.count for edge in self.graph.outgoing(source).values()]
        other = counts.count(1) / sum(counts)
        shares = {
            tool: (1 - other) * weight for tool, weight in self._weights(edges).items()
        }
        runs = {tool: edge.support for tool, edge in edges.items()}
        return {
            "shares": shares,
            "runs": runs,
            "of": self._of(source, shares),
            "other": other,
        }

    def _of(self, source: str, tools: Iterable[str]) -> dict[str, int]:
        """How many voices went on after `source`, with any tool, for the tools that ever followed it; else 0."""
        edges = self.graph.outgoing(source)
        voices = self.graph.voices(source)
        return {tool: voices if tool in edges else 0 for tool in tools}

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
        return weights(
            edges, 0.0 if self.ablation == "only weight w/o efficiency" else self.alpha
        )

    def _ranking(
        self,
        source: str,
        before: str,
        views: Floats | None,
        summary: Floats | None,
        allowed: Collection[str] | None,
    ) -> Ranking | None:
        """Rank by the summary, by the vote of states where few edges have summaries, or by weight."""
        if self.ablation == "w/o adapt" and summary is None and views is not None:
            summary = views[: len(TEXT_VIEWS)].sum(axis=0)
        ranking = None
        if summary is not None and self.ablation not in {
            "w/o state",
            "only weight w/o efficiency",
        }:
            ranking = self._by_summary(source, summary, allowed)
        # Where most edges have no summary, the few that have one would stand for all.
        is_rare = ranking is None or 2 * len(ranking.shares) < len(
            self._edges(source, allowed)
        )
        if is_rare and views is not None and self.ablation in {None, "w/o weight"}:
            ranking = self._by_vote(source, before, views, allowed) or ranking
        if ranking is not None:
            return ranking
        edges = self._edges(source, allowed)
        support = {tool: edge.support for tool, edge in edges.items()}
        return Ranking(self._weights(edges), support, "procedural") if edges else None

    def _by_vote(
        self, source: str, before: str, views: Floats, allowed: Collection[str] | None
    ) -> Ranking | None:
        """Rank by the vote of all states; `None` where nothing is known."""
        votes = self._votes(source, before, views)
        if votes is None or (
            not self.graph.outgoing(source) and self._done(votes[1]) >= MOSTLY
        ):
            return None
        scores, support = self._scores(
            votes[0], source, allowed, least=self.min_support
        )
        # A tool that is less likely than all that no run did is no suggestion.
        likely = [
            tool
            for tool, score in scores.items()
            if score >= self.fit.other * self.fit.temperature
        ]
        if not likely:
            return None
        shares = softmax(
            np.array([scores[tool] for tool in likely]), self.fit.temperature
        ).tolist()
        evidence = partial(self._evidence, votes[0])
        return Ranking(
            dict(zip(likely, shares, strict=True)), support, "contextual", evidence
        )

    def _votes(
        self, source: str, before: str, views: Floats
    ) -> tuple[Ballot, Ballot] | None:
        """The votes on the next tool, and on the end of the turn against any tool, of which the target is 0.

        `None` where there are no states to compare.
        """
        number = self.graph.number(source)
        rows = self.graph.states.compared(number)
        called = np.flatnonzero(rows.labels["target"] != END)
        if not len(called):
            return None
        question = np.zeros(1, LABELS)
        question["source"], question["before"] = number, self.graph.number(before)
        similar = cosines(rows.numbers, views, self.fit.center)
        on_tools = vote(rows, called, similar @ self.fit.weights, question, self.fit)
        # All views are equal where the turn may end: other weights foretell it no better.
        rows = StateRows(rows.labels.copy(), rows.numbers)
        rows.labels["target"][called] = 0
        even = Fit.even(self.fit.center)
        return on_tools, vote(
            rows, np.arange(len(rows)), similar @ even.weights, question, even
        )

    def _scores(
        self,
        ballot: Ballot,
        source: str,
        allowed: Collection[str] | None,
        *,
        least: int,
    ) -> tuple[dict[str, float], dict[str, int]]:
        """The tools that are voted for and allowed, with their scores, and how many voices there are for each."""
        edges = self.graph.outgoing(source)
        near = ballot.support()
        scores, support = {}, {}
        for target, score in ballot.scores().items():
            tool = self.graph.names[target]
            voices = edges[tool].support if tool in edges else near[target]
            if voices >= least and (allowed is None or tool in allowed):
                scores[tool], support[tool] = score, voices
        return scores, support

    def _done(self, ballot: Ballot) -> float:
        """The share of the end of a turn in a vote between it and any tool."""
        scores = ballot.scores()
        shares = softmax(np.array([*scores.values()]), self.fit.ending)
        by_target: dict[int, float] = dict(zip(scores, shares.tolist(), strict=True))
        return by_target.get(END, 0.0)

    def _evidence(self, ballot: Ballot, tool: str) -> tuple[Evidence, ...]:
        places = ballot.evidence(self.graph.number(tool), EVIDENCE)
        runs = ballot.labels["run"][places].tolist()
        similar = ballot.similar[places].tolist()
        return tuple(
            Evidence(self.graph.run_of(run).id, round(each, 4))
            for run, each in zip(runs, similar, strict=True)
        )

    def _by_summary(
        self, source: str, summary: Floats, allowed: Collection[str] | None
    ) -> Ranking | None:
        """Rank by the agent's summary; `None` where nothing is similar.

        An edge is as similar as the most similar of its summaries.
        """
        edges = self._edges(source, allowed)
        rows = self.graph.summaries.after(self.graph.number(source))
        similar = cosines(rows.numbers, summary[None], np.zeros_like(summary[None]))[
            :, 0
        ].astype(np.float64)
        order = np.argsort(-similar, kind="stable")
        places: dict[str, list[int]] = {}
        for place, target in zip(
            order.tolist(), rows.labels["target"][order].tolist(), strict=True
        ):
            places.setdefault(self.graph.names[target], []).append(place)
        nearest = {
            tool: max(similar[places[tool][0]], 0.0) for tool in edges if tool in places
        }
        if not any(nearest.values()):
            return None

        def evidence(tool: str) -> tuple[Evidence, ...]:
            best = places.get(tool, [])[:EVIDENCE]
            runs = [self.graph.run_of(run) for run in rows.labels["run"][best].tolist()]
            texts = [
                run.summaries[at][1]
                for run, at in zip(
                    runs, rows.labels["place"][best].tolist(), strict=True
                )
            ]
            near = (round(each, 4) for each in similar[best].tolist())
            return tuple(
                Evidence(run.id, each, text)
                for run, each, text in zip(runs, near, texts, strict=True)
            )

        shares = softmax(np.array([*nearest.values()]), BANDWIDTH).tolist()
        support = {tool: edges[tool].support for tool in nearest}
        return Ranking(
            dict(zip(nearest, shares, strict=True)), support, "episodic", evidence
        )
