"""`langchain-tooltree mine`: a graph of the successful runs in files."""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from langchain_tooltree.cli.terminal import Terminal, check_free, embeddings_named, model_named, progress
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.files import count_trajectories, load_trajectories
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.models import ATTEMPTS, Meter
from langchain_tooltree.sitgraph.files import MANIFEST, check_target
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.sitgraph.summarize import backfill_summaries
from langchain_tooltree.sitgraph.transitions import START, WRITTEN_SUMMARIES
from langchain_tooltree.text import counted, digest

SUMMARIZED_AT_ONCE = 8
"""Runs whose summaries are written at the same time. A guess: a few requests at once are within common rate limits."""


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Read the runs, have the summaries written that they lack, and save their graph."""
    if (check_target(options.output) / MANIFEST).exists():
        check_free(options.output, force=options.force)
    total = sum(map(count_trajectories, options.files))
    seen: Counter[bool | None] = Counter()
    unread: Counter[str] = Counter()
    model = model_named(options.summarize) if options.summarize else None
    summaries = _Summaries(model, Path(f"{options.output}.summaries.jsonl")) if model else None
    embeddings = embeddings_named(options.embeddings)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with progress(*columns) as shown:
        task = shown.add_task("mining", total=total)

        def read() -> Iterator[Trajectory]:
            for file in options.files:
                for trajectory in load_trajectories(file, unread=unread):
                    seen[trajectory.success] += 1
                    yield trajectory

        runs: Iterable[Trajectory] = read()
        if summaries:
            runs = summaries.written(runs)
        graph = SITGraph.from_trajectories(shown.track(runs, task_id=task), embeddings=embeddings)
    if not seen[True]:
        msg = (
            f"None of {seen.total()} runs is marked as a success, so there is nothing to learn. "
            "A run needs 'success': true or a 'reward' of 1."
        )
        raise ConfigurationError(msg)
    graph.save(options.output)
    drawn = graph.to_networkx()
    tools, edges = drawn.number_of_nodes() - (START in drawn), drawn.number_of_edges()
    told = {
        "graph": str(options.output),
        "runs": seen.total(),
        "succeeded": seen[True],
        "in_graph": len(graph),
        "tools": tools,
        "edges": edges,
        "not_used": dict(sorted(unread.items())),
        "summaries": summaries and summaries.told(),
    }
    terminal.print(f"{seen[True]} of {seen.total()} runs succeeded, {len(graph)} of them with tools.")
    terminal.print(f"The graph has {counted(tools, 'tool')} and {counted(edges, 'edge')}.")
    for kind, count in sorted(unread.items()):
        terminal.print(f"Not used: {count} {kind}.")
    if summaries:
        terminal.print(summaries.in_words(), markup=False)
    terminal.print(f"Written to {options.output}.", markup=False)
    return told, 0


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

    def told(self) -> dict[str, Any]:
        """What they cost, and the problems."""
        meter = self._meter
        spent = {"model_calls": meter.model_calls, "tokens": meter.input_tokens + meter.output_tokens}
        return {**spent, "file": str(self._path), "problems": list(meter.problems)}

    def in_words(self) -> str:
        """The same, with the first problem."""
        meter = self._meter
        spent = f"{meter.model_calls} model calls, {meter.input_tokens + meter.output_tokens} tokens"
        problems = f" {len(meter.problems)} problems, the first: {meter.problems[0]}." if meter.problems else ""
        return f"Summaries: {spent}; kept in {self._path}.{problems}"


def _key(run: Trajectory) -> str:
    """Identifies a run and its version, since summaries belong to places in it."""
    return digest([run.id, run.messages])
