"""`langchain-tooltree suggest`: what comes next, as a graph has it."""

import argparse
from difflib import get_close_matches
from typing import Any

from langchain_tooltree.cli.terminal import Terminal, embeddings_named, table
from langchain_tooltree.sitgraph.sit_graph import SITGraph


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Ask the graph, and show what it suggests."""
    graph = SITGraph.load(options.graph, embeddings=embeddings_named(options.embeddings))
    suggestions = graph.suggest(options.last, state=options.state, k=options.k)
    rows = []
    for each in suggestions:
        example = next((evidence.summary or evidence.trajectory for evidence in each.evidence), "")
        rows.append((each.tool, f"{each.score:.0%}", each.mode, each.support, example))
    if rows:
        terminal.print(table(("tool", "share", "mode", "tasks", "for example in"), rows))
    else:
        terminal.say(_why_nothing(graph, options.last))
    return {"last": options.last, "state": options.state, "suggestions": [each.to_dict() for each in suggestions]}, 0


def _why_nothing(graph: SITGraph, last: str | None) -> str:
    """Why nothing is suggested: it may be that the graph has never heard of the tool."""
    tools = {tool for edge in graph.to_networkx().edges for tool in edge if tool} | {*graph.aliases}
    if last is None or last in tools:
        return f"Nothing is known to come after {last or 'the start'}."
    return f"The graph does not know the tool {last}. Near to it: {', '.join(get_close_matches(last, sorted(tools)))}."
