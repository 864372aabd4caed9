"""From a state to suggestions: which edges may be followed, which mode applies, what speaks for it. Pure."""

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from langchain_tooltree.sitgraph.graph import Graph, Outgoing, weights
from langchain_tooltree.sitgraph.states import END, LABELS, Floats, cosines
from langchain_tooltree.sitgraph.transitions import START, TEXT_VIEWS
from langchain_tooltree.sitgraph.votes import Ballot, Fit, softmax, vote

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
