"""The command line: `langchain-tooltree demo`, and `mine`, `suggest`, `show`, `doctor` for graphs, `copy`."""

import argparse
import importlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from langchain_tooltree import demo
from langchain_tooltree.errors import ConfigurationError, ToolTreeError
from langchain_tooltree.events import Event
from langchain_tooltree.experience.embeddings import resolve_embeddings
from langchain_tooltree.experience.files import count_trajectories, load_trajectories
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import run_flow
from langchain_tooltree.learning.copying import copied, opened
from langchain_tooltree.models import ATTEMPTS, Meter, resolve_model
from langchain_tooltree.sitgraph.drift import DriftReport
from langchain_tooltree.sitgraph.files import check_target
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.sitgraph.summarize import backfill_summaries
from langchain_tooltree.sitgraph.transitions import START, WRITTEN_SUMMARIES
from langchain_tooltree.text import digest
from langchain_tooltree.tooltree.driver import search
from langchain_tooltree.tooltree.result import SearchResult, answer_at
from langchain_tooltree.tooltree.search import SearchConfig

UNHEALTHY = 1
"""Exit code of `doctor` if a tool that the graph knows has been removed or has changed."""

INCOMPLETE = 1
"""Exit code of `copy` if some runs cannot be read, and were left out."""

REFUSED = 2
"""Exit code if a command cannot be carried out, such as when the model asked for cannot be used."""

SUMMARIZED_AT_ONCE = 8
"""Runs whose summaries are written at the same time. A guess: a few requests at once are within common rate limits."""

SHOWN_EDGES = 40
"""Edges that `show` prints: about a screen."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, by default the one that the process was started with, and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options, Console())
    except (ToolTreeError, OSError, ImportError) as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    return code


def _parser() -> argparse.ArgumentParser:
    """The parser; each command sets `run` to a function that takes the options and returns the exit code."""
    parser = argparse.ArgumentParser(prog="langchain-tooltree", description="Planning and experience for agents.")
    commands = parser.add_subparsers(dest="command", required=True)
    tried = commands.add_parser("demo", help="watch a search solve a small task with real local tools")
    tried.add_argument("--model", help="a model such as openai:gpt-4.1-mini; without it, a stand-in that needs no key")
    tried.add_argument("--rollouts", type=int, default=30, help="rollouts at the most (default: %(default)s)")
    tried.add_argument("--seed", type=int, default=0, help="seed of the search (default: %(default)s)")
    tried.add_argument("--mermaid", type=Path, metavar="PATH", help="also write the tree as a Mermaid chart")
    tried.set_defaults(run=_demo)

    mined = commands.add_parser("mine", help="make a graph of the successful runs in files")
    mined.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="trajectories, one JSON object a line; .gz too"
    )
    mined.add_argument("-o", "--output", type=Path, required=True, metavar="GRAPH", help="folder to write the graph to")
    mined.add_argument(
        "--summarize",
        metavar="MODEL",
        help="a model that writes the summaries that runs do not have; they are kept in GRAPH.summaries.jsonl as they "
        "come, and not asked for again",
    )
    mined.set_defaults(run=_mine)

    suggested = commands.add_parser("suggest", help="ask a graph what comes next")
    suggested.add_argument("--last", metavar="TOOL", help="the tool that was called last; none at the start")
    suggested.add_argument("--state", metavar="TEXT", help="a summary of the state; by weight without it")
    suggested.add_argument("-k", type=int, default=2, help="suggestions at the most (default: %(default)s)")
    suggested.set_defaults(run=_suggest)

    shown = commands.add_parser("show", help="show the edges of a graph")
    shown.add_argument("--mermaid", action="store_true", help="as a Mermaid chart")
    shown.set_defaults(run=_show)

    examined = commands.add_parser("doctor", help="check a graph's files, and its tools against those of an agent")
    examined.add_argument("--tools", required=True, metavar="MODULE:NAME", help="the list of the agent's tools")
    examined.set_defaults(run=_examine)

    copying = commands.add_parser("copy", help="copy an experience to another store, or go on with a copy")
    where = "a folder, http://host:port/database of a Chroma server, or postgresql://..."
    copying.add_argument("source", metavar="SRC", help=where)
    copying.add_argument("target", metavar="DST", help=where)
    text = "the embedder that filled SRC, where it is a Chroma store; by hashing, without a model, if left out"
    copying.add_argument("--source-embeddings", metavar="MODEL", help=text)
    copying.set_defaults(run=_copy)

    for command in (suggested, shown, examined):
        command.add_argument("graph", type=Path)
    for command in (mined, suggested, shown, examined, copying):
        text = "embeds texts, such as openai:text-embedding-3-small; by hashing, without a model, if left out"
        command.add_argument("--embeddings", metavar="MODEL", help=text)
    return parser


def _demo(options: argparse.Namespace, console: Console) -> int:
    with _using(options.model):
        model = resolve_model(options.model) if options.model else demo.offline_model()
    speaker = options.model or "an offline stand-in that follows a few rules (use --model for a real model)"
    console.print(f"[bold]{demo.REQUEST}[/bold]\nModel: {speaker}\n")
    config = SearchConfig(max_rollouts=options.rollouts, seed=options.seed)
    with _using(options.model):
        result = _search(console, model, config)
    console.print(result.to_rich())
    console.print("[dim]Q mean reward, N visits, r_pre / r_post scores before / after the call, ✔ the plan[/]")
    if recovery := _recovery(result):
        console.print(f"\n{recovery}")
    console.print(f"\n[bold green]{result.answer.text if result.answer else 'The plan waits for approval.'}[/]\n")
    console.print(_cost_table(result))
    if options.mermaid:
        options.mermaid.write_text(result.to_mermaid(), encoding="utf-8")
    return 0


def _search(console: Console, model: BaseChatModel, config: SearchConfig) -> SearchResult:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("searching", total=config.max_rollouts)

        def follow(event: Event) -> None:
            match event["type"]:
                case "budget":
                    progress.update(bar, completed=event["rollouts"])
                case "execute" | "evaluate" | "prune":
                    progress.update(bar, description=f"{event['type']} {event['call']}"[:60].ljust(60))

        return search(demo.REQUEST, demo.TOOLS, model=model, config=config, effects=demo.EFFECTS, on_event=follow)


def _recovery(result: SearchResult) -> str | None:
    """The story of an answer that came too early, if there is one."""
    early = next((node for node in result.tree.nodes if node.answer is not None and node.missing), None)
    answer = None if early is None else answer_at(early)
    if early is None or answer is None or not result.steps or early.id == result.steps[-1].node:
        return None
    after = early.label if early.call else "nothing"
    plan = " → ".join(call.tool for call in result.calls)
    return (
        f"Recovered: after {after} the agent by itself would have ended with {answer.text!r} "
        f"(missing: {'; '.join(early.missing)}). The plan: {plan}."
    )


def _cost_table(result: SearchResult) -> Table:
    cost = result.cost
    pruned = f"{cost.pruned_before} / {cost.pruned_after}"
    figures = (cost.rollouts, cost.nodes, pruned, cost.model_calls, cost.tokens, cost.tool_calls, cost.cache_hits)
    table = Table("rollouts", "nodes", "pruned before / after", "model calls", "tokens", "tool calls", "cached", "stop")
    table.add_row(*map(str, figures), result.stop_reason)
    return table


def _mine(options: argparse.Namespace, console: Console) -> int:
    total = sum(map(count_trajectories, options.files))
    seen: Counter[bool | None] = Counter()
    unread: Counter[str] = Counter()
    check_target(options.output)
    with _using(options.summarize):
        model = resolve_model(options.summarize) if options.summarize else None
    summaries = _Summaries(model, Path(f"{options.output}.summaries.jsonl")) if model else None
    embeddings = _embeddings(options)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("mining", total=total)

        def read() -> Iterator[Trajectory]:
            for file in options.files:
                for trajectory in load_trajectories(file, unread=unread):
                    seen[trajectory.success] += 1
                    yield trajectory

        runs: Iterable[Trajectory] = read()
        if summaries:
            runs = summaries.written(runs)
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
    for kind, count in sorted(unread.items()):
        console.print(f"Not used: {count} {kind}.")
    if summaries:
        console.print(summaries.told(), markup=False)
    console.print(f"Written to {options.output}.")
    return 0


def _embeddings(options: argparse.Namespace) -> Embeddings | None:
    with _using(options.embeddings):
        return resolve_embeddings(options.embeddings) if options.embeddings else None


@contextmanager
def _using(name: str | None) -> Iterator[None]:
    """Put what a model raises into one line; a missing key or package raises whatever the provider likes."""
    try:
        yield
    except Exception as error:
        if not name:
            raise
        reason = str(error).strip().split("\n", 1)[0] or type(error).__name__
        msg = f"Cannot use the model {name!r}: {reason}"
        raise ConfigurationError(msg) from error


class _Summaries:
    """Summaries that a model writes of runs, kept in a file as they come: they are paid for."""

    def __init__(self, model: BaseChatModel, path: Path) -> None:
        self._model = model
        self._path = path
        self._kept: dict[str, dict[str, str]] = {}
        for line in path.read_text("utf-8").splitlines() if path.exists() else []:
            with suppress(ValueError, KeyError, TypeError):  # the last one may be cut off
                kept = json.loads(line)
                self._kept[kept["run"]] = dict(kept["summaries"])
        self._meter = Meter(0)

    def written(self, runs: Iterable[Trajectory]) -> Iterator[Trajectory]:
        """The runs with the summaries that they lack, several at once and in order."""
        rest = iter(runs)
        had = False
        with ThreadPoolExecutor(SUMMARIZED_AT_ONCE) as pool:
            while batch := list(islice(rest, SUMMARIZED_AT_ONCE)):
                known = [self._known(run) for run in batch]
                for before, (after, own) in zip(known, pool.map(self._write, known), strict=True):
                    self._meter.add(own)
                    if after is not before:
                        had = True
                        self._keep(after)
                    yield after
                if self._meter.problems and not had:
                    msg = f"No summary was written in {self._meter.model_calls} requests: {self._meter.problems[0]}"
                    raise ConfigurationError(msg)

    def _write(self, run: Trajectory) -> tuple[Trajectory, Meter]:
        meter = Meter(ATTEMPTS)
        return (backfill_summaries(run, self._model, meter=meter) if run.success else run), meter

    def _known(self, run: Trajectory) -> Trajectory:
        known = self._kept.get(_key(run))
        return replace(run, metadata={**run.metadata, WRITTEN_SUMMARIES: known}) if known else run

    def _keep(self, run: Trajectory) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            # Behind a line of its own, as the last one may be cut off.
            file.write("\n" + json.dumps({"run": _key(run), "summaries": run.metadata[WRITTEN_SUMMARIES]}))

    def told(self) -> str:
        """What they cost, and the first problem."""
        meter = self._meter
        spent = f"{meter.model_calls} model calls, {meter.input_tokens + meter.output_tokens} tokens"
        problems = f" {len(meter.problems)} problems, the first: {meter.problems[0]}." if meter.problems else ""
        return f"Summaries: {spent}; kept in {self._path}.{problems}"


def _key(run: Trajectory) -> str:
    """Identifies a run and its version, since summaries belong to places in it."""
    return digest([run.id, run.messages])


def _suggest(options: argparse.Namespace, console: Console) -> int:
    graph = SITGraph.load(options.graph, embeddings=_embeddings(options))
    suggestions = graph.suggest(options.last, state=options.state, k=options.k)
    if not suggestions:
        console.print(f"Nothing is known to come after {options.last or 'the start'}.", markup=False)
        return 0
    table = Table("tool", "share", "mode", "runs", "for example in")
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


def _copy(options: argparse.Namespace, console: Console) -> int:
    with _using(options.source_embeddings):
        filled_by = resolve_embeddings(options.source_embeddings) if options.source_embeddings else None
    columns = (TextColumn("{task.description} {task.completed}"), SpinnerColumn())
    ends = (options.source, filled_by), (options.target, _embeddings(options))
    with ExitStack() as stores, Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("runs copied:")
        try:
            source, target = (
                stores.enter_context(opened(address, embedder, exists=address == options.source))
                for address, embedder in ends
            )
            told = run_flow(copied(source, target, on_run=lambda: progress.advance(bar)))
        except (ToolTreeError, OSError, ImportError):
            raise
        except Exception as error:  # whatever a database raises
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            msg = f"The copy has stopped ({reason}). What is copied stays; the same command goes on from there."
            raise ConfigurationError(msg) from error
    console.print(
        f"{told.runs} runs copied, {told.there} were there already; {told.others} tips and other notes copied."
    )
    if told.unread:
        console.print(f"Left out, since they cannot be read: {told.unread} runs.")
    return INCOMPLETE if told.unread else 0


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
