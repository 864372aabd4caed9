"""The commands of the command line that are about graphs: mine, suggest, show, doctor."""

import argparse
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from langchain_tooltree.errors import ConfigurationError, ToolTreeError
from langchain_tooltree.experience.embeddings import resolve_embeddings
from langchain_tooltree.experience.files import count_trajectories, load_trajectories
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.models import Meter, resolve_model
from langchain_tooltree.sitgraph.drift import DriftReport
from langchain_tooltree.sitgraph.files import check_target
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.sitgraph.summarize import backfill_summaries
from langchain_tooltree.sitgraph.transitions import START

UNHEALTHY = 1
"""Exit code of `doctor` if a tool that the graph knows has been removed or has changed."""

REFUSED = 2
"""Exit code if a command cannot be carried out."""

SUMMARIZED_AT_ONCE = 8
"""Runs whose summaries are written at the same time. A guess: a few requests at once are within common rate limits."""

ENOUGH_CALLS = 10**6
"""Model calls that one run may take: no bound, since a run asks once for each call that it lacks a summary of."""

SHOWN_EDGES = 40
"""Edges that `show` prints: about a screen."""

M = TypeVar("M")


def add_graph_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to a parser; each sets `run` to a function that takes the options and returns the exit code."""
    mined = commands.add_parser("mine", help="make a graph of the successful runs in files")
    mined.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="trajectories, one JSON object a line; .gz too"
    )
    mined.add_argument("-o", "--output", type=Path, required=True, metavar="GRAPH", help="folder to write the graph to")
    mined.add_argument("--summarize", metavar="MODEL", help="a model that writes the summaries that runs do not have")
    _add_embeddings(mined)
    mined.set_defaults(run=_mine)

    suggested = commands.add_parser("suggest", help="ask a graph what comes next")
    suggested.add_argument("graph", type=Path)
    suggested.add_argument("--last", metavar="TOOL", help="the tool that was called last; none at the start")
    suggested.add_argument("--state", metavar="TEXT", help="a summary of the state; by weight without it")
    suggested.add_argument("-k", type=int, default=2, help="suggestions at the most (default: %(default)s)")
    _add_embeddings(suggested)
    suggested.set_defaults(run=_suggest)

    shown = commands.add_parser("show", help="show the edges of a graph")
    shown.add_argument("graph", type=Path)
    shown.add_argument("--mermaid", action="store_true", help="as a Mermaid chart")
    _add_embeddings(shown)
    shown.set_defaults(run=_show)

    examined = commands.add_parser("doctor", help="check a graph's files, and its tools against those of an agent")
    examined.add_argument("graph", type=Path)
    examined.add_argument("--tools", required=True, metavar="MODULE:NAME", help="the list of the agent's tools")
    _add_embeddings(examined)
    examined.set_defaults(run=_examine)


def run_graph_command(options: argparse.Namespace) -> int:
    """Carry out a command."""
    try:
        code: int = options.run(options, Console())
    except (ToolTreeError, OSError, ImportError) as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    return code


def _add_embeddings(parser: argparse.ArgumentParser) -> None:
    text = "embeds texts, such as openai:text-embedding-3-small; by hashing, without a model, if left out"
    parser.add_argument("--embeddings", metavar="MODEL", help=text)


def _mine(options: argparse.Namespace, console: Console) -> int:
    total = sum(map(count_trajectories, options.files))
    seen: Counter[bool | None] = Counter()
    meter = Meter(ENOUGH_CALLS)
    check_target(options.output)
    model = _made(resolve_model, options.summarize) if options.summarize else None
    embeddings = _embeddings(options)
    with _progress(console) as progress:
        task = progress.add_task("mining", total=total)

        def read() -> Iterator[Trajectory]:
            for file in options.files:
                for trajectory in load_trajectories(file):
                    seen[trajectory.success] += 1
                    yield trajectory

        runs: Iterable[Trajectory] = read()
        if model:
            runs = _summarized(runs, model, meter)
        graph = SITGraph.from_trajectories(progress.track(runs, task_id=task), embeddings=embeddings)
    if not seen[True]:
        msg = (
            f"None of {seen.total()} runs is marked as a success, so there is nothing to learn. "
            "A run needs 'success': true or a 'reward' of 1."
        )
        raise ConfigurationError(msg)
    graph.save(options.output)
    drawn = graph.to_networkx()
    tools = drawn.number_of_nodes() - (START in drawn)
    console.print(f"{seen[True]} of {seen.total()} runs succeeded, {len(graph)} of them with tools.")
    console.print(f"The graph has {tools} tools and {drawn.number_of_edges()} edges.")
    if model:
        spent = f"{meter.model_calls} model calls, {meter.input_tokens + meter.output_tokens} tokens"
        console.print(f"Summaries: {spent}, {len(meter.problems)} not written.")
    console.print(f"Written to {options.output}.")
    return 0


def _embeddings(options: argparse.Namespace) -> Embeddings | None:
    return _made(resolve_embeddings, options.embeddings) if options.embeddings else None


def _made(make: Callable[[str], M], name: str) -> M:
    """The model of a name."""
    try:
        return make(name)
    except Exception as error:  # a missing key or package raises whatever the provider likes
        reason = str(error).strip().split("\n", 1)[0] or type(error).__name__
        msg = f"Cannot use the model {name!r}: {reason}"
        raise ConfigurationError(msg) from error


def _summarized(runs: Iterable[Trajectory], model: BaseChatModel, meter: Meter) -> Iterator[Trajectory]:
    """Runs with the summaries that they lack, several at once and in order; what they cost is added to the meter."""

    def write(run: Trajectory) -> tuple[Trajectory, Meter]:
        own = Meter(ENOUGH_CALLS)
        return (backfill_summaries(run, model, meter=own) if run.success else run), own

    with ThreadPoolExecutor(SUMMARIZED_AT_ONCE) as pool:
        for written, own in pool.map(write, runs):
            meter.add(own)
            yield written


def _suggest(options: argparse.Namespace, console: Console) -> int:
    graph = SITGraph.load(options.graph, embeddings=_embeddings(options))
    suggestions = graph.suggest(options.last, state=options.state, k=options.k)
    if not suggestions:
        console.print(f"Nothing is known to come after {options.last or 'the start'}.", markup=False)
        return 0
    table = Table("tool", "share", "mode", "came next", "for example in")
    for each in suggestions:
        example = each.evidence[0] if each.evidence else None
        seen = (example.summary or example.trajectory) if example else ""
        table.add_row(*map(Text, (each.tool, f"{each.score:.0%}", each.mode, str(each.support), seen)))
    console.print(table)
    return 0


def _show(options: argparse.Namespace, console: Console) -> int:
    graph = SITGraph.load(options.graph, embeddings=_embeddings(options))
    if options.mermaid:
        sys.stdout.write(graph.to_mermaid() + "\n")
        return 0
    edges = sorted(graph.to_networkx().edges(data=True), key=lambda edge: (-edge[2]["count"], edge[0], edge[1]))
    table = Table("after", "comes", "weight", "times", "states", "summaries")
    for source, target, edge in edges[:SHOWN_EDGES]:
        figures = (f"{edge['weight']:.2f}", *(str(edge[name]) for name in ("count", "states", "summaries")))
        table.add_row(*map(Text, (source or "(start)", target, *figures)))
    console.print(table)
    console.print(f"{len(graph)} runs, {len(edges)} edges; the {min(len(edges), SHOWN_EDGES)} followed most are shown.")
    return 0


def _examine(options: argparse.Namespace, console: Console) -> int:
    tools = _imported(options.tools)
    report = SITGraph.load(options.graph, embeddings=_embeddings(options), verify=True).drift(tools)
    console.print("The files are as they were written.")
    for line in _findings(report):
        console.print(line, markup=False)
    return 0 if report.healthy else UNHEALTHY


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
    found = getattr(importlib.import_module(module), name, None)
    if isinstance(found, str | Mapping) or not isinstance(found, Iterable):
        msg = f"{place} is no list of tools: {found!r:.80}."
        raise ConfigurationError(msg)
    return list(found)


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)
