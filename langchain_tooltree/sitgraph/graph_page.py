"""A tool graph as a page to explore: what the page is given of each edge. `pages/` shows it."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import networkx as nx

from langchain_tooltree.pages.page import page
from langchain_tooltree.sitgraph.graph import Graph, weights
from langchain_tooltree.sitgraph.transitions import START
from langchain_tooltree.text import one_line, shortened

MAX_NAME = 120
"""Characters of a tool's name, and of a run's id."""

MOST_EDGES = 5_000
"""Edges in a page, those that were followed most often; at some 60 characters each, they take a third of a megabyte."""

MOST_RUNS = 12
"""Runs that are named behind an edge at the most; how many there are is told in any case."""

NAMED_RUNS = 12_000
"""Runs that are named behind all edges together, so that a page stays below 1 MB: with many edges, few for each."""

MOST_SUMMARIES = 6
"""Summaries of states that are shown of an edge at the most."""


class DrawnEdge(NamedTuple):
    """An edge as people see it."""

    source: str
    target: str
    weight: float  # by Eq. 2
    raw_weight: float  # by Eq. 1
    times: int
    support: int
    givers: int


def to_html(graph: Graph, alpha: float) -> str:
    """A graph as one page without references to elsewhere: tools, and edges with what stands behind them.

    An edge is a row of numbers, since there may be thousands: from, to, its weight by Eq. 2 and by Eq. 1, how often it
    was followed, by how many tasks, sources and runs; then some of the summaries on it, how many there are, and some of
    these runs, each with how often it followed the edge.
    """
    every = _edges(graph, alpha)
    kept = every[:MOST_EDGES]
    named = max(2, min(MOST_RUNS, NAMED_RUNS // max(1, len(kept))))
    behind, summaries = _runs_behind(graph, named), graph.summaries_by_edge()
    tools = sorted({name for edge in kept for name in edge[:2]})
    place = {name: at for at, name in enumerate(tools)}
    columns, called = _columns(every), _calls(every)
    runs: dict[str, int] = {}
    rows = []
    for edge in kept:
        count, by = behind[edge[:2]]
        behind_it = [[runs.setdefault(run, len(runs)), times] for run, times in by.items()]
        written = summaries.get(edge[:2], ())
        shown = [shortened(text) for text in dict.fromkeys(written)][:MOST_SUMMARIES]
        rows.append([place[edge.source], place[edge.target], *edge[2:], count, shown, len(written), behind_it])
    data = {
        "runs": len(graph),
        "tools": [[one_line(name, MAX_NAME), called[name], columns.get(name, 1)] for name in tools],
        "start": place.get(START),
        "edges": rows,
        "left_out": len(every) - len(kept),
        "named": [one_line(run, MAX_NAME) for run in runs],
    }
    return page("graph", f"Tool graph of {len(graph)} runs", data)


def _edges(graph: Graph, alpha: float) -> list[DrawnEdge]:
    """All edges, those that were followed most often first."""
    edges = [
        DrawnEdge(
            source, target, round(weight, 4), round(edge.raw_weight(alpha), 2), edge.count, edge.support, edge.givers
        )
        for source, targets in graph.edges()
        for (target, weight), edge in zip(weights(targets, alpha).items(), targets.values(), strict=True)
    ]
    return sorted(edges, key=lambda edge: (-edge.times, -edge.weight, *edge[:2]))


def _calls(edges: Sequence[DrawnEdge]) -> Counter[str]:
    """How often each tool was called."""
    counts = Counter[str]()
    for edge in edges:
        counts[edge.target] += edge.times
    return counts


def _runs_behind(graph: Graph, most: int) -> dict[tuple[str, str], tuple[int, dict[str, int]]]:
    """How many runs followed each edge, and how often those did whose ids come first, `most` at the most."""
    counts: Counter[tuple[str, str]] = Counter()
    named: dict[tuple[str, str], dict[str, int]] = {}
    for run, given in sorted(graph.runs.items()):
        for pair, times in Counter(given.transitions).items():
            counts[pair] += 1
            if counts[pair] <= most:
                named.setdefault(pair, {})[run] = times
    return {pair: (count, named[pair]) for pair, count in counts.items()}


def _columns(every: Sequence[DrawnEdge]) -> dict[str, int]:
    """By how many steps from the start each tool is, on the way that is most probable."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for edge in every:
        graph.add_edge(edge.source, edge.target, far=-math.log(max(edge.weight, 1e-12)))
    ways = nx.single_source_dijkstra_path(graph, START, weight="far") if START in graph else {}
    return {name: len(way) - 1 for name, way in ways.items()}
