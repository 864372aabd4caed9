"""The graph for others to look at: networkx and Mermaid. Pure."""

import networkx as nx

from langchain_tooltree.sitgraph.graph import Graph
from langchain_tooltree.sitgraph.transitions import START
from langchain_tooltree.text import mermaid_text, shorten

MAX_LABEL = 40
THICK = 0.5
"""Share of a tool's weights from which on an edge is drawn thick."""


def to_networkx(graph: Graph, alpha: float) -> "nx.DiGraph[str]":
    """The graph for networkx.

    Args:
        graph: The graph.
        alpha: How much runs of few messages count for more (Eq. 1).

    Returns:
        A directed graph whose edges have `weight`, `raw_weight`, `count`, `states` and `summaries`.
    """
    drawn: nx.DiGraph[str] = nx.DiGraph()
    for source, edges in graph.edges():
        states, summaries = graph.states(source).counts(), graph.summaries(source).counts()
        columns = (edges.targets.tolist(), edges.weights(alpha), edges.raw_weights(alpha), edges.counts.tolist())
        for target, weight, raw_weight, count in zip(*columns, strict=True):
            drawn.add_edge(
                source,
                graph.names[target],
                weight=float(weight),
                raw_weight=float(raw_weight),
                count=count,
                states=states[target],
                summaries=summaries[target],
            )
    return drawn


def to_mermaid(graph: Graph, alpha: float, *, max_edges: int) -> str:
    """The graph as a Mermaid flowchart.

    Args:
        graph: The graph.
        alpha: How much runs of few messages count for more (Eq. 1).
        max_edges: Edges at the most; those followed most often stay.

    Returns:
        The text of the chart; an edge says its weight (Eq. 2) and how often it was followed.
    """
    drawn = to_networkx(graph, alpha)
    every = sorted(drawn.edges(data=True), key=lambda edge: (-edge[2]["count"], edge[0], edge[1]))
    shown = sorted(every[:max_edges], key=lambda edge: (edge[0], edge[1]))
    names = sorted({name for edge in shown for name in edge[:2]})
    number = {name: place for place, name in enumerate(names)}
    lines = ["flowchart LR"]
    for name in names:
        label = '(["start"])' if name == START else f'["{mermaid_text(shorten(name, MAX_LABEL))}"]'
        lines.append(f"  n{number[name]}{label}")
    for source, target, edge in shown:
        arrow = "==>" if edge["weight"] >= THICK else "-->"
        lines.append(f'  n{number[source]} {arrow}|"{edge["weight"]:.2f}, {edge["count"]}x"| n{number[target]}')
    if left_out := len(every) - len(shown):
        lines.append(f"  %% {left_out} edges that were followed less often are left out")
    return "\n".join(lines)
