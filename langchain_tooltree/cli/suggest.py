"""`langchain-tooltree suggest`: what comes next, as a graph has it."""

import argparse
from typing import Any

from rich.table import Table
from rich.text import Text

from langchain_tooltree.cli.terminal import Terminal, embeddings_named
from langchain_tooltree.sitgraph.sit_graph import SITGraph


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Ask the graph, and show what it suggests."""
    graph = SITGraph.load(options.graph, embeddings=embeddings_named(options.embeddings))
    suggestions = graph.suggest(options.last, state=options.state, k=options.k)
    if suggestions:
        table = Table("tool", "share", "mode", "runs", "for example in")
        for each in suggestions:
            example = each.evidence[0] if each.evidence else None
            seen = (example.summary or example.trajectory) if example else ""
            table.add_row(*map(Text, (each.tool, f"{each.score:.0%}", each.mode, str(each.support), seen)))
        terminal.print(table)
    else:
        terminal.print(f"Nothing is known to come after {options.last or 'the start'}.", markup=False)
    return {"last": options.last, "state": options.state, "suggestions": [each.to_dict() for each in suggestions]}, 0
