"""`langchain-tooltree doctor`: whether a graph's files are whole, and its tools those of an agent."""

import argparse
import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from langchain_tooltree.cli import UNHEALTHY
from langchain_tooltree.cli.terminal import Terminal, embeddings_named
from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.sitgraph.drift import DriftReport
from langchain_tooltree.sitgraph.sit_graph import SITGraph


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Compare, and show what was found."""
    tools = _imported(options.tools)
    report = SITGraph.load(options.graph, embeddings=embeddings_named(options.embeddings)).drift(tools)
    terminal.print("The files are as they were written.")
    for line in _findings(report):
        terminal.print(line, markup=False)
    return {"healthy": report.healthy, **asdict(report)}, 0 if report.healthy else UNHEALTHY


def _findings(report: DriftReport) -> Iterator[str]:
    if report.healthy:
        taken = "" if report.unknown else ", and take what they took"
        yield f"All tools that the graph knows are there{taken}."
    if report.unknown:
        names = ", ".join(report.unknown)
        yield f"Not compared: the runs do not tell what {names} took. A recorder tells it, or 'tools' in the records."
    if report.removed:
        lost = f"{report.lost:.0%} of all transitions lead there"
        yield f"Removed, never suggested: {', '.join(report.removed)} ({lost})."
    for old, new in report.renamed.items():
        remedy = f"SITGraph.renamed({{{old!r}: {new!r}}})"
        yield f"Probably renamed: {old} is now {new}; both take the same arguments. {remedy} follows it."
    if report.changed:
        yield f"Changed, still suggested: {', '.join(report.changed)} take other arguments than before."
    if report.dead_ends:
        yield f"Nothing to suggest after: {', '.join(report.dead_ends)}; only removed tools came next."
    if report.added:
        yield f"New, not yet known to the graph: {', '.join(report.added)}."


def _imported(place: str) -> list[Any]:
    """The list of tools at `MODULE:NAME`, looked for in the current folder as well."""
    module, colon, name = place.partition(":")
    if not (module and colon and name):
        msg = f"--tools must be MODULE:NAME, such as my_agent:tools, got {place!r}."
        raise ConfigurationError(msg)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except (Exception, SystemExit) as error:  # whatever a user's module does
        msg = f"{module} cannot be imported from here ({described(error)}). Run the command where your agent starts."
        raise ConfigurationError(msg) from error
    if isinstance(found, str | Mapping) or not isinstance(found, Iterable):
        msg = f"{place} is no list of tools: {found!r:.80}."
        raise ConfigurationError(msg)
    return list(found)
