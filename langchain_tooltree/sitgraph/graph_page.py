"""A tool graph as a page to explore: what the page is given of each edge. `pages/` shows it."""

from collections import Counter

from langchain_tooltree.pages.page import longest_text, page
from langchain_tooltree.sitgraph.graph import Graph, weights
from langchain_tooltree.sitgraph.transitions import START
from langchain_tooltree.text import one_line, plain, shortened

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

ROOM = 250_000
"""Characters of summaries in a page."""

LEAST_TEXT = 60
"""Characters that are shown of a summary however many there are."""


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
    shown = {edge[:2]: list(dict.fromkeys(summaries.get(edge[:2], ())))[:MOST_SUMMARIES] for edge in kept}
    longest = longest_text([text for texts in shown.values() for text in texts], ROOM, LEAST_TEXT)
    tools = sorted({name for edge in kept for name in edge[:2]})
    place = {name: at for at, name in enumerate(tools)}
    reached = Counter[str]()
    for edge in every:
        reached[edge[1]] += edge[4]
    runs: dict[str, int] = {}
    rows = []
    for source, target, *figures in kept:
        count, by = behind[source, target]
        telling = [[runs.setdefault(run, len(runs)), times] for run, times in by.items()]
        said = [shortened(text, longest) for text in shown[source, target]]
        written = len(summaries.get((source, target), ()))
        rows.append([place[source], place[target], *figures, count, said, written, telling])
    data = {
        "runs": len(graph),
        "tools": [[one_line(name, MAX_NAME), reached[name]] for name in tools],
        "start": place.get(START),
        "edges": rows,
        "left_out": len(every) - len(kept),
        "named": [one_line(run, MAX_NAME) for run in runs],
    }
    return page("graph", f"Tool graph of {len(graph)} runs", plain(data))


def _edges(graph: Graph, alpha: float) -> list[tuple[str, str, float, float, int, int, int]]:
    """All edges, those that were followed most often first."""
    found = [
        (source, target, round(weight, 4), round(edge.raw_weight(alpha), 2), edge.count, edge.support, edge.givers)
        for source, edges in graph.edges()
        for (target, weight), edge in zip(weights(edges, alpha).items(), edges.values(), strict=True)
    ]
    return sorted(found, key=lambda edge: (-edge[4], -edge[2], *edge[:2]))


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
