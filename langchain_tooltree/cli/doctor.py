"""`langchain-tooltree doctor`: whether a graph's files are whole, and its tools those of an agent."""

import argparse
import importlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from langchain_tooltree.cli import UNHEALTHY
from langchain_tooltree.cli.terminal import Terminal, embeddings_named
from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.sitgraph.drift import DriftReport
from langchain_tooltree.sitgraph.sit_graph import SITGraph


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Compare, and show what was found."""
    tools = _tools_at(options.tools)
    report = SITGraph.load(options.graph, embeddings=embeddings_named(options.embeddings)).drift(tools)
    terminal.say("\n".join(["The files are as they were written.", *_findings(report)]))
    return {"healthy": report.healthy, **asdict(report)}, 0 if report.healthy else UNHEALTHY


def _findings(report: DriftReport) -> list[str]:
    names = {name: ", ".join(tools) for name, tools in asdict(report).items() if isinstance(tools, tuple)}
    taken = "" if report.unknown else ", and take what they took"
    lost = f"{report.lost:.0%} of all transitions lead there"
    findings = [
        (report.healthy, f"All tools that the graph knows are there{taken}."),
        (report.unknown, f"Not compared: the runs do not tell what {names['unknown']} took."),
        (report.removed, f"Removed, never suggested: {names['removed']} ({lost})."),
        (report.changed, f"Changed, still suggested: {names['changed']} take other arguments than before."),
        (report.dead_ends, f"Nothing to suggest after: {names['dead_ends']}; only removed tools came next."),
        (report.added, f"New, not yet known to the graph: {names['added']}."),
    ]
    for old, new in report.renamed.items():
        remedy = f"SITGraph.renamed({{{old!r}: {new!r}}})"
        findings.append(
            (True, f"Probably renamed: {old} is now {new}; both take the same arguments. {remedy} follows it.")
        )
    return [text for holds, text in findings if holds]


def _tools_at(place: str) -> list[Any]:
    """The list of tools at `MODULE:NAME`, looked for in the current folder as well."""
    module, _, name = place.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        tools = getattr(importlib.import_module(module), name, None)
    except (Exception, SystemExit) as error:  # whatever a user's module does
        msg = (
            f"{module!r} cannot be imported from here ({described(error)}). --tools is MODULE:NAME, such as "
            "my_agent:tools; run the command where your agent starts."
        )
        raise ConfigurationError(msg) from error
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):
        msg = f"{place} is no list of tools: {tools!r:.80}. Pass MODULE:NAME, such as my_agent:tools."
        raise ConfigurationError(msg)
    return list(tools)
