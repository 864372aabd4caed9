"""From a state to suggestions: which edges may be followed, which mode applies, what speaks for it. Pure."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.sitgraph import ranking
from langchain_tooltree.sitgraph.edges import Outgoing
from langchain_tooltree.sitgraph.encoding import Floats
from langchain_tooltree.sitgraph.graph import Graph
from langchain_tooltree.sitgraph.ranking import Ranking
from langchain_tooltree.sitgraph.rows import Rows
from langchain_tooltree.sitgraph.states import Likeness, SourceStates
from langchain_tooltree.sitgraph.suggestion import Evidence, Suggestion
from langchain_tooltree.sitgraph.views import TEXT_VIEWS, VIEWS

Ablation = Literal["w/o graph", "w/o weight", "w/o state", "only weight w/o efficiency", "w/o adapt"]
"""Parts of SIT-Graph that can be left out, named as in the paper:

- `w/o graph`: states are compared with those at all edges, whichever tool was called last;
- `w/o weight`: edges are ranked by states alone;
- `w/o state`: edges are ranked by weight alone;
- `only weight w/o efficiency`: by how often each was followed, without the 1 / T term of Eq. 1;
- `w/o adapt`: weight times similarity at every step, whether or not the agent has summed up the state.
"""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the graph.

    Attributes:
        source: The tool called last, or `START`.
        views: The views of the state, shape `(len(VIEWS), DIMENSIONS)`; `None` if it is not known.
        summary: The vector of the agent's summary, shape `(DIMENSIONS,)`; `None` if it made none.
        k: Suggestions at the most.
        allowed: Names of the tools that may be suggested; `None` for all.
    """

    source: str
    views: Floats | None = None
    summary: Floats | None = None
    k: int = 2
    allowed: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class Recommender:
    """Suggests tools.

    Attributes:
        graph: The graph.
        alpha: How much runs of few messages count for more (Eq. 1).
        min_support: How often an edge must have been followed to be suggested.
        ablation: What is left out, for measurements.
    """

    graph: Graph
    alpha: float
    min_support: int
    ablation: Ablation | None = None

    def suggest(self, question: Question) -> list[Suggestion]:
        """The tools that came next.

        Args:
            question: Where the dialogue stands.

        Returns:
            Suggestions, best first; none where nothing is known.
        """
        edges = self._edges(question)
        if not len(edges.targets):
            return []
        ranked = self._ranked(question, edges)
        return [
            Suggestion(
                tool=self.graph.names[edges.targets[place]],
                score=float(ranked.shares[place]),
                mode=ranked.mode,
                support=int(edges.counts[place]),
                evidence=tuple(self._evidence(question.source, ranked, place)),
            )
            for place in self._best(ranked.shares, edges, question.k)
        ]

    def _edges(self, question: Question) -> Outgoing:
        """The edges that may be followed."""
        edges = self._all_edges() if self.ablation == "w/o graph" else self.graph.outgoing(question.source)
        kept = edges.counts >= self.min_support
        if question.allowed is not None:
            kept &= np.isin(edges.targets, self.graph.numbers(question.allowed))
        return edges if kept.all() else edges.taken(kept)

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

    def _ranked(self, question: Question, edges: Outgoing) -> Ranking:
        alpha = 0.0 if self.ablation == "only weight w/o efficiency" else self.alpha
        weights = edges.weights(alpha)
        if self.ablation == "w/o weight":
            weights = np.full(len(weights), 1 / len(weights))
        by_weight = ranking.procedural(weights)
        if self.ablation in {"w/o state", "only weight w/o efficiency"}:
            return by_weight
        if question.summary is not None and (by_summary := self._by_summary(question, edges, weights)):
            return by_summary
        if question.views is None:
            return by_weight
        likeness = self._compare(self._states(question.source), question.views)
        if self.ablation == "w/o adapt":
            similar = ranking.most_similar(edges.targets, replace(likeness, similarities=_mean(likeness)))
            shares = weights * similar
            return Ranking(shares / math.fsum(shares), "contextual") if shares.any() else by_weight
        prior = 0.0 if self.ablation == "w/o weight" else ranking.PRIOR
        return ranking.contextual(edges.targets, weights, likeness, prior=prior)

    def _by_summary(self, question: Question, edges: Outgoing, weights: NDArray[np.float64]) -> Ranking | None:
        """Rank by the agent's summary. An edge without summaries is compared by the texts of its derived states.

        Where no summary is similar, the state derived from the dialogue tells more than such a comparison.
        """
        summary = np.asarray(question.summary)[None]
        likeness = self._compare(self._summaries(question.source), summary, centered=False)
        similar = ranking.most_similar(edges.targets, likeness)
        if not similar.any() and question.views is not None:
            return None
        summed_up = np.isin(edges.targets, likeness.rows.targets)
        if not summed_up.all():
            texts = np.zeros((len(VIEWS), summary.shape[1]), dtype=np.float32)
            texts[: len(TEXT_VIEWS)] = summary
            derived = ranking.most_similar(
                edges.targets, self._compare(self._states(question.source), texts, centered=False)
            )
            similar = np.where(summed_up, similar, derived)
        return ranking.episodic(edges.targets, similar * weights if self.ablation == "w/o adapt" else similar, likeness)

    def _compare(self, tables: list[SourceStates], state: Floats, *, centered: bool = True) -> Likeness:
        compared = [table.compare(state, centered=centered) for table in tables]
        if len(compared) == 1:
            return compared[0]
        rows = Rows.joined([Rows.empty(len(state)), *(each.rows for each in compared)])
        similarities = [np.zeros((0, len(state)), dtype=np.float32), *(each.similarities for each in compared)]
        return Likeness(rows, np.concatenate(similarities))

    def _states(self, source: str) -> list[SourceStates]:
        return [self.graph.states(each) for each in self._sources(source)]

    def _summaries(self, source: str) -> list[SourceStates]:
        return [self.graph.summaries(each) for each in self._sources(source)]

    def _sources(self, source: str) -> list[str]:
        return [name for name, _ in self.graph.edges()] if self.ablation == "w/o graph" else [source]

    def _evidence(self, source: str, ranked: Ranking, place: int) -> Iterator[Evidence]:
        if ranked.likeness is None:
            return
        rows = ranked.likeness.rows
        for row in ranked.evidence.get(place, ()):
            trajectory = self.graph.run_id(int(rows.runs[row]))
            summarized = ranked.mode == "episodic" and self.ablation != "w/o graph"
            text = self.graph.summary_text(source, int(rows.keys[row])) if summarized else ""
            yield Evidence(trajectory, round(float(ranked.likeness.similarities[row].mean()), 4), text)


def _mean(likeness: Likeness) -> Floats:
    """The similarity over all views, as if it were of one."""
    similarities: Floats = likeness.similarities.mean(axis=1, keepdims=True)
    return similarities
