"""From a state to suggestions: which edges may be followed, which mode applies, what speaks for it. Pure."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.sitgraph.graph import Graph, Outgoing
from langchain_tooltree.sitgraph.states import Floats, Likeness, Rows, SourceStates
from langchain_tooltree.sitgraph.transitions import TEXT_VIEWS, VIEWS

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
        support: How often it came next in successful trajectories.
        evidence: The stored states that speak most for it, best first; empty in procedural mode.
    """

    tool: str
    score: float
    mode: Mode
    support: int
    evidence: tuple[Evidence, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The suggestion as plain data, for the state of a graph and for events."""
        data = asdict(self)
        return {**data, "evidence": list(data["evidence"])}


def plain(suggestion: Suggestion | Mapping[str, Any]) -> Mapping[str, Any]:
    """What the suggestion's `to_dict` returns, or has returned."""
    return suggestion.to_dict() if isinstance(suggestion, Suggestion) else suggestion


BANDWIDTH = 0.05  # difference in cosine that divides a vote by e; chosen by hand, and the same for all data
PRIOR = 0.1  # share of the weights of Eq. 2 beside the votes of states; chosen by hand, and the same for all data
EVIDENCE = 3  # stored states shown for a suggestion

Shares = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ToolRanking:
    """Shares of the tools that may come next; they sum to 1."""

    shares: Shares
    mode: Mode
    likeness: Likeness | None = None
    evidence: Mapping[int, list[int]] = field(default_factory=dict)  # by place of a target: rows for it, best first


def contextual(targets: NDArray[np.int32], weights: Shares, likeness: Likeness, *, prior: float = PRIOR) -> ToolRanking:
    """Rank by a vote of the stored states, near ones counting for more (Nadaraya 1964, Watson 1964).

    A state counts by its mean similarity over all views. The weights of Eq. 2 keep a share of `prior` beside the votes.
    """
    rows, place = _among(targets, likeness)
    if not len(rows):
        return ToolRanking(weights, "procedural")
    near = likeness.similarities.mean(axis=1, dtype=np.float64)[rows]
    votes = likeness.rows.weights[rows] * np.exp((near - near.max()) / BANDWIDTH)
    shares = np.bincount(place, votes, minlength=len(targets)) / votes.sum()
    mixed = (1 - prior) * shares + prior * weights
    return ToolRanking(mixed, "contextual", likeness, _evidence(rows, place, near))


def most_similar(targets: NDArray[np.int32], likeness: Likeness) -> Shares:
    """The similarity of the most similar state of each edge, by any of its views; 0 where there is no state."""
    rows, place = _among(targets, likeness)
    best = np.zeros(len(targets))
    if len(rows):
        np.maximum.at(best, place, likeness.similarities[rows].max(axis=1))
    return best


def _among(targets: NDArray[np.int32], likeness: Likeness) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The states that lead to one of the targets, and the place of it."""
    rows = np.flatnonzero(np.isin(likeness.rows.targets, targets))
    return rows, np.searchsorted(targets, likeness.rows.targets[rows])


def _evidence(rows: NDArray[np.intp], place: NDArray[np.intp], near: Shares) -> dict[int, list[int]]:
    evidence: dict[int, list[int]] = {}
    for each in np.argsort(-near, kind="stable").tolist():
        seen = evidence.setdefault(int(place[each]), [])
        if len(seen) < EVIDENCE:
            seen.append(int(rows[each]))
    return evidence


Ablation = Literal["w/o graph", "w/o weight", "w/o state", "only weight w/o efficiency", "w/o adapt"]
"""Parts of SIT-Graph that can be left out, named as in the paper:

- `w/o graph`: states are compared with those at all edges, whichever tool was called last;
- `w/o weight`: edges are ranked by states alone;
- `w/o state`: edges are ranked by weight alone;
- `only weight w/o efficiency`: by how often each was followed, without the 1 / T term of Eq. 1;
- `w/o adapt`: weight times similarity at every step, whether or not the agent has summed up the state.
"""


@dataclass(frozen=True, slots=True)
class Recommender:
    """Suggests tools that came next at least `min_support` times, with weights by `alpha` (Eq. 1)."""

    graph: Graph
    alpha: float
    min_support: int
    ablation: Ablation | None = None

    def suggest(
        self,
        source: str,
        *,
        views: Floats | None = None,
        summary: Floats | None = None,
        k: int = 2,
        allowed: Collection[str] | None = None,
    ) -> list[Suggestion]:
        """The tools that came after `source` where the state had these views or this summary, best first.

        Views have the shape `(len(VIEWS), DIMENSIONS)`, a summary `(DIMENSIONS,)`. All tools are allowed if none are
        named. The list is empty where nothing is known.
        """
        edges = self._all_edges() if self.ablation == "w/o graph" else self.graph.outgoing(source)
        kept = edges.counts >= self.min_support
        if allowed is not None:
            kept &= np.isin(edges.targets, self.graph.numbers(allowed))
        if not kept.any():
            return []
        edges = edges.taken(kept)
        ranked = self._ranked(edges, source, views, summary)
        return [
            Suggestion(
                tool=self.graph.names[edges.targets[place]],
                score=float(ranked.shares[place]),
                mode=ranked.mode,
                support=int(edges.counts[place]),
                evidence=tuple(self._evidence(source, ranked, place)),
            )
            for place in self._best(ranked.shares, edges, k)
        ]

    def next_tools(self, source: str, *, views: Floats | None, allowed: Collection[str] | None) -> dict[str, Any]:
        """What may come after `source`, by the fields of `NextTools`; empty where nothing is known.

        The share of what no run did is that of the edges that were followed once (Good 1953).
        """
        suggestions = self.suggest(source, views=views, k=len(self.graph.names) or 1, allowed=allowed)
        if not suggestions:
            return {}
        counts = self.graph.outgoing(source).counts
        other = min(float((counts == 1).sum() / counts.sum()), 0.5)
        rows = self.graph.states(source).rows()
        runs = {
            each.tool: len(np.unique(rows.runs[np.isin(rows.targets, self.graph.numbers([each.tool]))]))
            for each in suggestions
        }
        shares = {each.tool: (1 - other) * each.score for each in suggestions}
        return {"shares": shares, "runs": runs, "other": other}

    def _all_edges(self) -> Outgoing:
        """One edge to each tool, from anywhere."""
        every = [edges for _, edges in self.graph.edges()]
        targets, place = np.unique(np.concatenate([[], *(each.targets for each in every)]), return_inverse=True)
        sums = np.zeros((2, len(targets)), dtype=np.int64)
        for each, column in zip(sums, ("counts", "inverse_turns"), strict=True):
            np.add.at(each, place, np.concatenate([[], *(getattr(edges, column) for edges in every)]).astype(np.int64))
        return Outgoing(targets.astype(np.int32), *sums)

    def _best(self, shares: NDArray[np.float64], edges: Outgoing, k: int) -> list[int]:
        """The places of the largest shares. Of equal ones, the edge followed more often, then the name decides."""
        places = np.arange(len(shares))
        if k < len(shares):
            places = np.flatnonzero(shares >= np.partition(shares, len(shares) - k)[len(shares) - k])
        names = self.graph.names
        order = [
            (-shares[place], -edges.counts[place], names[edges.targets[place]], place) for place in places.tolist()
        ]
        return [place for *_, place in sorted(order)[:k]]

    def _ranked(self, edges: Outgoing, source: str, views: Floats | None, summary: Floats | None) -> ToolRanking:
        alpha = 0.0 if self.ablation == "only weight w/o efficiency" else self.alpha
        weights = edges.weights(alpha)
        if self.ablation == "w/o weight":
            weights = np.full(len(weights), 1 / len(weights))
        by_weight = ToolRanking(weights, "procedural")
        if self.ablation in {"w/o state", "only weight w/o efficiency"}:
            return by_weight
        if summary is not None:
            by_summary = self._by_summary(edges, weights, source, summary[None], dialogue_known=views is not None)
            if by_summary is not None:
                return by_summary
        if views is None:
            return by_weight
        likeness = self._compare(self.graph.states, source, views)
        if self.ablation == "w/o adapt":
            mean: Floats = likeness.similarities.mean(axis=1, keepdims=True)
            similar = most_similar(edges.targets, Likeness(likeness.rows, mean))
            shares = weights * similar
            return ToolRanking(shares / math.fsum(shares), "contextual") if shares.any() else by_weight
        prior = 0.0 if self.ablation == "w/o weight" else PRIOR
        return contextual(edges.targets, weights, likeness, prior=prior)

    def _by_summary(
        self, edges: Outgoing, weights: Shares, source: str, summary: Floats, *, dialogue_known: bool
    ) -> ToolRanking | None:
        """Rank by the agent's summary; `None` where nothing is similar.

        An edge without summaries is compared by the texts of its derived states. Where no summary is similar, the
        state derived from the dialogue says more than such a comparison.
        """
        likeness = self._compare(self.graph.summaries, source, summary, centered=False)
        similar = most_similar(edges.targets, likeness)
        if not similar.any() and dialogue_known:
            return None
        summed_up = np.isin(edges.targets, likeness.rows.targets)
        if not summed_up.all():
            texts = np.zeros((len(VIEWS), summary.shape[1]), dtype=np.float32)
            texts[: len(TEXT_VIEWS)] = summary
            derived = self._compare(self.graph.states, source, texts, centered=False)
            similar = np.where(summed_up, similar, most_similar(edges.targets, derived))
        if self.ablation == "w/o adapt":
            similar = similar * weights
        if not similar.any():
            return None
        rows, place = _among(edges.targets, likeness)
        near = likeness.similarities[rows].max(axis=1, initial=0.0).astype(np.float64)
        votes = np.exp((similar - similar.max()) / BANDWIDTH)
        return ToolRanking(votes / math.fsum(votes), "episodic", likeness, _evidence(rows, place, near))

    def _compare(
        self, table: Callable[[str], SourceStates], source: str, state: Floats, *, centered: bool = True
    ) -> Likeness:
        if self.ablation != "w/o graph":
            return table(source).compare(state, centered=centered)
        compared = [table(name).compare(state, centered=centered) for name, _ in self.graph.edges()]
        rows = Rows.joined([Rows.empty(len(state)), *(each.rows for each in compared)])
        similarities = [np.zeros((0, len(state)), dtype=np.float32), *(each.similarities for each in compared)]
        return Likeness(rows, np.concatenate(similarities))

    def _evidence(self, source: str, ranked: ToolRanking, place: int) -> Iterator[Evidence]:
        if ranked.likeness is None:
            return
        rows = ranked.likeness.rows
        for row in ranked.evidence.get(place, ()):
            trajectory = self.graph.run_ids[rows.runs[row]]
            summarized = ranked.mode == "episodic" and self.ablation != "w/o graph"
            text = self.graph.summary_text(source, int(rows.keys[row])) if summarized else ""
            yield Evidence(trajectory, round(float(ranked.likeness.similarities[row].mean()), 4), text)
