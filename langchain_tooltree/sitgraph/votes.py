"""The vote of stored states on which tool comes next: the posterior mean of a Gaussian process, and its fit. Pure.

A state votes for the tool that followed it. With `K` the kernel among the nearest states, `k` the kernel between them
and the state asked about, the votes are `beta = (K + ridge I)^-1 k` (Rasmussen and Williams, Gaussian Processes for
Machine Learning, 2006, section 2.2; also known as kernel ridge regression). A tool's score is the sum of `beta` over
the states that it followed. So ten near copies of a state count little more than one, where a sum of similarities would
count them ten times.

No single source settles what others know better: see `_capped`.

What is not known beforehand is fitted by how well runs are foretold by all others. That needs no loop over runs: with
`P = (K + ridge I)^-1`, `Y` what followed each state and `A = P Y`, the states of run b, left out together, are foretold
`F_b = Y_b - P_bb^-1 A_b` (their section 5.4.2, for blocks in place of single cases).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.sitgraph.states import END, Floats, Places, Rows, center_of, centered

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
SAMPLED = 512  # states of the runs that a vote is fitted to: it takes about half a second
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
