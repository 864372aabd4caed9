"""From a state to suggestions: which edges may be followed, which mode applies, what speaks for it. Pure."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.sitgraph.graph import Graph, Outgoing
from langchain_tooltree.sitgraph.states import END, Floats, Rows, States, cosines
from langchain_tooltree.sitgraph.transitions import START, TEXT_VIEWS, VIEWS
from langchain_tooltree.sitgraph.votes import Ballot, Figures, Fit, Numbers, equal, softmax, vote

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
MANY = 0.5  # share of the edges with summaries from which on these alone decide; fewer join the vote of states
MOSTLY = 0.8  # share of the end of a turn from which on no tool is suggested where no run ever went on


@dataclass(frozen=True, slots=True)
class Ranking:
    """The tools that may come next, in columns of equal length; their shares sum to 1."""

    targets: Numbers
    shares: Figures
    support: NDArray[np.int64]
    mode: Mode
    evidence: Callable[[int], tuple[Evidence, ...]] = lambda _: ()  # for a target, best first
    counted: bool = True  # whether of equal shares that of more runs comes first

    def joined(self, other: "Ranking", share: float) -> "Ranking":
        """Both rankings in one, to which the other one gives this share. What it knows is shown first."""
        targets = np.union1d(self.targets, other.targets)
        shares, support = np.zeros(len(targets)), np.zeros(len(targets), dtype=np.int64)
        for ranking, part in ((self, 1 - share), (other, share)):
            places = np.searchsorted(targets, ranking.targets)
            shares[places] += part * ranking.shares
            support[places] = np.maximum(support[places], ranking.support)
        return Ranking(targets, shares, support, other.mode, lambda each: other.evidence(each) or self.evidence(each))

    def best(self, k: int, names: Sequence[str]) -> list[Suggestion]:
        """The tools with the largest shares. Of equal ones, that of more runs comes first, then the name decides."""
        ties = self.support * self.counted
        places = np.arange(len(self.shares))
        if k < len(self.shares):
            places = np.flatnonzero(self.shares >= np.partition(self.shares, len(places) - k)[len(places) - k])
        order = sorted((-self.shares[at], -ties[at], names[self.targets[at]], at) for at in places.tolist())
        return [
            Suggestion(name, float(-share), self.mode, int(self.support[at]), self.evidence(int(self.targets[at])))
            for share, _, name, at in order[:k]
        ]


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
class Recommender:
    """Suggests tools that came next by at least `min_support` voices, with weights by `alpha` (Eq. 1)."""

    graph: Graph
    alpha: float
    min_support: int
    fit: Fit = field(default_factory=Fit)
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
        best = [] if ranked is None else ranked.best(k, self.graph.names)
        of = self._of(source, [each.tool for each in best])
        return [replace(each, of=of[each.tool]) for each in best]

    def _of(self, source: str, tools: Iterable[str]) -> dict[str, int]:
        """How many voices went on after `source`, with any tool, for the tools that ever followed it; else 0."""
        edges = self.graph.outgoing(source)
        followed, voices = {self.graph.names[target] for target in edges.targets.tolist()}, int(edges.support.sum())
        return {tool: voices if tool in followed else 0 for tool in tools}

    def next_tools(
        self, source: str, *, before: str, views: Floats | None, allowed: Collection[str] | None
    ) -> dict[str, Any]:
        """What may come after `source`, by the fields of `NextTools`; empty where nothing is known."""
        if views is None or self.ablation is not None:
            return self._by_count(source, allowed)
        ballot = self._vote(source, before, views)
        if ballot is None:
            return {}
        targets, scores, support = self._elected(ballot, source, allowed, least=1)
        if not len(targets):
            return {}
        # What no run did has a score of its own: it is likely where nothing stored is like this state.
        shares = softmax(np.append(scores / self.fit.temperature, self.fit.other), 1.0)
        done, ended = self._done(source, before, views)
        names = [self.graph.names[target] for target in targets]
        *called, other = (float(share) * (1 - done) for share in shares)
        return {
            "shares": dict(zip(names, called, strict=True)),
            "runs": dict(zip(names, support.tolist(), strict=True)),
            "of": self._of(source, names),
            "done": done,
            "ended": ended,
            "other": other,
        }

    def _by_count(self, source: str, allowed: Collection[str] | None) -> dict[str, Any]:
        """The shares by weight; what no run did has that of the edges that were followed once (Good 1953)."""
        edges = self._edges(source, allowed)
        if edges is None:
            return {}
        counts = self.graph.outgoing(source).counts
        other = float((counts == 1).sum() / max(counts.sum(), 1))
        shares = (1 - other) * self._weights(edges)
        names = [self.graph.names[target] for target in edges.targets]
        runs = dict(zip(names, edges.support.tolist(), strict=True))
        return {
            "shares": dict(zip(names, shares.tolist(), strict=True)),
            "runs": runs,
            "of": self._of(source, names),
            "other": other,
        }

    def _edges(self, source: str, allowed: Collection[str] | None) -> Outgoing | None:
        """The edges that may be followed; `None` if there are none."""
        edges = self.graph.outgoing(source)
        kept = (edges.support >= self.min_support) & (self.ablation != "w/o graph")
        if allowed is not None:
            kept &= np.isin(edges.targets, self.graph.numbers(allowed))
        return edges.taken(kept) if kept.any() else None

    def _ranked(
        self, source: str, before: str, views: Floats | None, summary: Floats | None, allowed: Collection[str] | None
    ) -> Ranking | None:
        edges = self._edges(source, allowed)
        stateless = self.ablation in {"w/o state", "only weight w/o efficiency"}
        by_summary, share = None, 0.0
        forced = self.ablation == "w/o adapt"
        if forced and summary is None and views is not None:
            summary = views[: len(TEXT_VIEWS)].sum(axis=0)
        if edges is not None and summary is not None and not stateless:
            known = forced or views is not None
            by_summary, share = self._by_summary(edges, source, summary[None], dialogue_known=known)
        if by_summary is not None and (views is None or share >= MANY):
            return by_summary
        if views is not None and self.ablation in {None, "w/o weight"}:
            by_vote = self._by_vote(source, before, views, allowed)
            if by_vote is not None:
                return by_vote if by_summary is None else by_vote.joined(by_summary, share)
        if by_summary is not None:
            return by_summary
        if edges is None:
            return None
        by_weight = self.ablation != "w/o weight"
        return Ranking(edges.targets, self._weights(edges), edges.support, "procedural", counted=by_weight)

    def _seconded(self, edges: Outgoing) -> NDArray[np.bool_]:
        """Which edges more than one source followed; all of them where there is one source only."""
        return (edges.givers > 1) | self.graph.is_of_one

    def _weights(self, edges: Outgoing) -> Figures:
        if self.ablation == "w/o weight":
            return np.full(len(edges.targets), 1 / len(edges.targets))
        return edges.weights(0.0 if self.ablation == "only weight w/o efficiency" else self.alpha)

    def _by_vote(self, source: str, before: str, views: Floats, allowed: Collection[str] | None) -> Ranking | None:
        """Rank by the vote of all states; `None` where nothing is known."""
        ballot = self._vote(source, before, views)
        if ballot is None:
            return None
        if not self._seconded(self.graph.outgoing(source)).any() and self._done(source, before, views)[0] >= MOSTLY:
            return None
        targets, scores, support = self._elected(ballot, source, allowed, least=self.min_support)
        # A tool that is less likely than all that no run did is no suggestion.
        kept = scores >= self.fit.other * self.fit.temperature
        if not kept.any():
            return None
        targets, scores, support = targets[kept], scores[kept], support[kept]
        shares = softmax(scores, self.fit.temperature)
        return Ranking(targets, shares, support, "contextual", partial(self._evidence, ballot))

    def _elected(
        self, ballot: Ballot, source: str, allowed: Collection[str] | None, *, least: int
    ) -> tuple[Numbers, Figures, NDArray[np.int64]]:
        """The tools that are voted for and allowed, with their scores, and the runs that speak for each."""
        targets, scores = ballot.scores()
        edges = self.graph.outgoing(source)
        runs = self._support(ballot) | dict(zip(edges.targets.tolist(), edges.support.tolist(), strict=True))
        support = np.array([runs[each] for each in targets.tolist()], dtype=np.int64)
        kept = support >= least
        if allowed is not None:
            kept &= np.isin(targets, self.graph.numbers(allowed))
        return targets[kept], scores[kept], support[kept]

    def _done(self, source: str, before: str, views: Floats) -> tuple[float, int]:
        """The share of the end of a turn in a vote between it and any tool, and the runs that ended at such a state.

        All views are equal in it: other weights foretell the end no better.
        """
        rows = self.graph.states.near(views, ends=True)
        ballot = self._cast(replace(rows, targets=np.minimum(rows.targets, 0)), source, before, views, Fit())
        targets, scores = ballot.scores()
        if END not in targets:
            return 0.0, 0
        return float(softmax(scores, self.fit.ending)[targets == END][0]), self._support(ballot)[END]

    def _vote(self, source: str, before: str, views: Floats) -> Ballot | None:
        near = self.graph.states.near(views)
        return self._cast(near, source, before, views, self.fit) if len(near) else None

    def _cast(self, rows: Rows, source: str, before: str, views: Floats, fit: Fit) -> Ballot:
        tools = self.graph.number(before), self.graph.number(source)
        weights = fit.weights if len(fit.weights) else equal(len(VIEWS))
        center = self.fit.center if len(self.fit.center) else np.zeros_like(views)
        givers = self.graph.givers(rows.runs)
        return vote(rows, views, tools, center, weights=weights, ridge=fit.ridge, givers=givers)

    def _support(self, ballot: Ballot) -> dict[int, int]:
        return ballot.support(self.graph.voices(ballot.rows.runs))

    def _evidence(self, ballot: Ballot, target: int) -> tuple[Evidence, ...]:
        return tuple(
            Evidence(self.graph.run_ids[ballot.rows.runs[place]], round(float(ballot.similar[place]), 4))
            for place in ballot.evidence(target, EVIDENCE)
        )

    def _by_summary(
        self, edges: Outgoing, source: str, summary: Floats, *, dialogue_known: bool
    ) -> tuple[Ranking | None, float]:
        """Rank by the agent's summary, `None` where nothing is similar; and the share of the edges with summaries.

        An edge without summaries is compared by the texts of its derived states. Where no summary is similar, the
        state derived from the dialogue says more than such a comparison.
        """
        rows, likeness = self._compared(self.graph.summaries, source, summary)
        similar = _most_similar(edges.targets, rows.targets, likeness)
        summed_up = np.isin(edges.targets, rows.targets)
        if dialogue_known and not similar.any():
            return None, 0.0
        if not summed_up.all():
            texts = np.zeros((len(VIEWS), summary.shape[1]), dtype=np.float32)
            texts[: len(TEXT_VIEWS)] = summary
            derived, derived_likeness = self._compared(self.graph.states, source, texts)
            similar = np.where(summed_up, similar, _most_similar(edges.targets, derived.targets, derived_likeness))
        if not similar.any():
            return None, 0.0
        powers = np.exp((similar - similar.max()) / BANDWIDTH)
        evidence: dict[int, tuple[Evidence, ...]] = {}
        for row in np.argsort(-likeness, kind="stable").tolist():
            target = int(rows.targets[row])
            seen = evidence.get(target, ())
            if len(seen) < EVIDENCE:
                text = self.graph.summary_text(int(rows.keys[row]))
                run = self.graph.run_ids[rows.runs[row]]
                evidence[target] = (*seen, Evidence(run, round(float(likeness[row]), 4), text))
        ranking = Ranking(
            edges.targets,
            powers / math.fsum(powers),
            edges.support,
            "episodic",
            lambda target: evidence.get(target, ()),
        )
        return ranking, float(summed_up.mean())

    def _compared(self, table: States, source: str, state: Floats) -> tuple[Rows, Figures]:
        """The states after a tool, and how similar each is to one by any of its views."""
        rows = table.near(state, source=self.graph.number(source))
        similar = cosines(rows.codes, state, np.zeros_like(state))
        return rows, similar.max(axis=1, initial=0.0).astype(np.float64)


def _most_similar(targets: Numbers, of: Numbers, similar: NDArray[np.floating]) -> Figures:
    """The similarity of the most similar state of each edge; 0 where there is no state."""
    rows = np.flatnonzero(np.isin(of, targets))
    best = np.zeros(len(targets))
    np.maximum.at(best, np.searchsorted(targets, of[rows]), similar[rows])
    return best
