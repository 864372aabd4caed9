"""The command `mine`: a graph of the successful runs in files."""

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any

from langchain_tooltree.cli.terminal import Terminal, check_free, embeddings_named, progress
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.files import load_trajectories
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.sitgraph.files import MANIFEST, check_target
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.sitgraph.transitions import START
from langchain_tooltree.text import counted


def run_mine(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Read the runs, and save their graph."""
    if (check_target(options.output) / MANIFEST).exists():
        check_free(options.output, force=options.force)
    outcomes, unread = Counter[bool | None](), Counter[str]()

    def runs() -> Iterator[Trajectory]:
        for file in options.files:
            for trajectory in load_trajectories(file, unread=unread):
                outcomes[trajectory.success] += 1
                yield trajectory

    with progress("mining"):
        graph = SITGraph.from_trajectories(runs(), embeddings=embeddings_named(options.embeddings))
    if not outcomes[True]:
        msg = (
            f"None of {outcomes.total()} runs is marked as a success, so there is nothing to learn. "
            "A run needs 'success': true or a 'reward' of 1."
        )
        raise ConfigurationError(msg)
    graph.save(options.output)
    drawn = graph.to_networkx()
    report: dict[str, Any] = {
        "graph": str(options.output),
        "runs": outcomes.total(),
        "succeeded": outcomes[True],
        "in_graph": len(graph),
        "tools": drawn.number_of_nodes() - (START in drawn),
        "edges": drawn.number_of_edges(),
        "not_used": dict(sorted(unread.items())),
    }
    terminal.say(f"{outcomes[True]} of {outcomes.total()} runs succeeded, {len(graph)} of them with tools.")
    terminal.say(f"The graph has {counted(report['tools'], 'tool')} and {counted(report['edges'], 'edge')}.")
    for kind, count in report["not_used"].items():
        terminal.say(f"Not used: {count} {kind}.")
    terminal.say(f"Written to {options.output}.")
    return report, 0
