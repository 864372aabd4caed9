"""`langchain-tooltree suggest`: what comes next, as a graph has it."""

import argparse
from difflib import get_close_matches
from typing import Any

from rich.text import Text

from langchain_tooltree.cli.terminal import Terminal, embeddings_named, table
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.sitgraph.transitions import START


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Ask the graph, and show what it suggests."""
    graph = SITGraph.load(options.graph, embeddings=embeddings_named(options.embeddings))
    suggestions = graph.suggest(options.last, state=options.state, k=options.k)
    if suggestions:
        rows = table("tool", "share", "mode", "tasks", "for example in")
        for each in suggestions:
            example = each.evidence[0] if each.evidence else None
            seen = (example.summary or example.trajectory) if example else ""
            rows.add_row(*map(Text, (each.tool, f"{each.score:.0%}", each.mode, str(each.support), seen)))
        terminal.print(rows)
    else:
        terminal.print(_nothing(graph, options.last), markup=False)
    return {"last": options.last, "state": options.state, "suggestions": [each.to_dict() for each in suggestions]}, 0


def _nothing(graph: SITGraph, last: str | None) -> str:
    """Why nothing is suggested: it may be that the graph has never heard of the tool."""
    if last is None:
        return "Nothing is known to come after the start."
    tools = {tool for edge in graph.to_networkx().edges for tool in edge} | {*graph.aliases}
    if last in tools:
        return f"Nothing is known to come after {last}."
    near = ", ".join(get_close_matches(last, sorted(tools - {START})))
    return f"The graph does not know the tool {last}." + (f" Near to it: {near}." if near else "")
