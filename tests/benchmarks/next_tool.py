"""Which tool comes next? SIT-Graph beside its ablations and baselines, on recorded trajectories.

    python -m tests.benchmarks.next_tool FILE... [--json out.json] [--plot out.svg]

A file is JSON lines, gzipped if its name ends in .gz: a trajectory a line with `messages` in the OpenAI chat format,
`reward`, `domain` and `task_id`. The tasks are split in five folds; each fold's successful trajectories are asked about
after training on those of the other four. Every tool call after the first of its trajectory is a question. Needs the
extra `benchmarks`.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from langchain_tooltree import Trajectory
from langchain_tooltree.errors import TrajectoryFormatError
from tests.benchmarks.next_tool_baselines import Bigram, Train, trigram
from tests.benchmarks.next_tool_figures import (
    BOOTSTRAP,
    DEPTHS,
    LEVEL,
    calibration,
    figures,
    hits,
)
from tests.benchmarks.next_tool_graphs import graphs, outlooks
from tests.benchmarks.next_tool_learners import (
    knn,
    on_one_thread,
    retrieval3,
    supervised,
)
from tests.benchmarks.next_tool_protocol import (
    load_successes,
    questions_in,
    splits,
    task_of,
)
from tests.benchmarks.pictures import draw_next_tool

BASELINES: dict[str, Train] = {
    "bigram": Bigram,
    "trigram": trigram,
    "retrieval3": retrieval3,
    "knn": knn,
    "supervised": supervised,
}

REFERENCES = ("bigram", "supervised")
"""The methods that all others are compared with."""

WIDTH = 128
"""Columns that the tables need."""

Figures = dict[str, dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    try:
        files = {_name(path): load_successes(path) for path in options.files}
    except (TrajectoryFormatError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    with on_one_thread():
        report = measure(files)
    console = Console()
    console = console if console.width >= WIDTH else Console(width=WIDTH)
    for name, data in report["data"].items():
        _print(console, name, data, report["files"][name], report["calibration"][name])
    if options.plot:
        draw_next_tool(report, options.plot)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


def measure(files: Mapping[str, Sequence[Trajectory]]) -> dict[str, Any]:
    """Ask every method every question of every file.

    Args:
        files: The successful trajectories by the name of the file.

    Returns:
        What `--json` writes: `files` with the figures of the methods, `calibration` of the graph's shares with its
        error and bins, `data` with what the files hold, `bootstrap` with how intervals are made.
    """
    report: dict[str, Any] = {
        "files": {},
        "calibration": {},
        "data": {},
        "bootstrap": BOOTSTRAP,
    }
    for name, trajectories in files.items():
        questions = [
            question
            for _, tested in splits(trajectories)
            for question in questions_in(tested)
        ]
        report["data"][name] = {
            "trajectories": len(trajectories),
            "tasks": len({task_of(trajectory) for trajectory in trajectories}),
            "questions": len(questions),
            "questions_no_repeats": sum(not question.repeats for question in questions),
        }
        methods = {**graphs(), **BASELINES}
        report["files"][name] = {
            "questions": len(questions),
            **_compared(methods, trajectories, name),
        }
        seen = [
            outlook
            for known, tested in splits(trajectories)
            for outlook in outlooks(known, tested)
        ]
        report["calibration"][name] = {
            part: calibration(*zip(*(each[part] for each in seen), strict=True))
            for part in seen[0]
        }
    return report


def _compared(
    methods: Mapping[str, Train],
    trajectories: Sequence[Trajectory],
    title: str,
    *,
    references: Sequence[str] = REFERENCES,
) -> Figures:
    """Train and ask each method, fold by fold."""
    folds = list(splits(trajectories))
    questions = [questions_in(tested) for _, tested in folds]
    asked = [question for fold in questions for question in fold]
    right = {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        job = progress.add_task(title, total=len(methods) * len(asked))
        for method, train in methods.items():
            progress.update(job, description=f"{title}: {method}")
            rankings = []
            for (known, _), fold in zip(folds, questions, strict=True):
                rank = train(known)
                for question in fold:
                    rankings.append(rank(question))
                    progress.advance(job)
            right[method] = hits(asked, rankings)
    return figures(asked, right, references=references)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.next_tool",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="trajectories, .jsonl or .jsonl.gz",
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="also write the figures to this file"
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="PATH",
        help="also draw hit@1 and the shares there, as SVG",
    )
    options = parser.parse_args(arguments)
    names = [_name(path) for path in options.files]
    if len(set(names)) < len(names):
        parser.error(f"the files must have different names, got {', '.join(names)}")
    return options


def _name(path: Path) -> str:
    return re.sub(r"\.jsonl(\.gz)?$", "", path.name)


def _print(
    console: Console,
    name: str,
    data: Mapping[str, int],
    methods: Mapping[str, Any],
    shares: Mapping[str, Any],
) -> None:
    console.print(
        f"\n[bold]{name}[/bold]: {data['questions']} questions ({data['questions_no_repeats']} without those whose "
        f"answer repeats the last tool), {data['trajectories']} trajectories, {data['tasks']} tasks"
    )
    entries = {
        method: entry for method, entry in methods.items() if isinstance(entry, dict)
    }
    console.print(_table("method", entries, reference=REFERENCES[0]))
    for reference in REFERENCES:
        apart = methods["sitgraph"][f"minus_{reference}"]
        cells = (
            f"hit@{depth} {_cell(apart, f'hit{depth}', sign='+')}" for depth in DEPTHS
        )
        console.print(f"sitgraph minus {reference}: {', '.join(cells)}")
    errors = ", ".join(
        f"{part} {100 * found['error']:.1f}" for part, found in shares.items()
    )
    console.print(f"expected calibration error of the shares: {errors}")
    console.print(
        f"In percent; in brackets {LEVEL:.0%} bootstrap intervals, for which whole tasks were drawn."
    )


def _table(title: str, rows: Figures, *, reference: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(title, no_wrap=True)
    for heading in (
        *(f"hit@{depth}" for depth in DEPTHS),
        "no repeats @1/2/3",
        f"hit@1 minus {reference}",
    ):
        table.add_column(heading, justify="right", no_wrap=True, vertical="bottom")
    for method, entry in rows.items():
        without = (entry[f"hit{depth}_no_repeats"] for depth in DEPTHS)
        table.add_row(
            method,
            *(_cell(entry, f"hit{depth}") for depth in DEPTHS),
            " / ".join(
                "-" if each is None else f"{100 * each:.1f}" for each in without
            ),
            _cell(entry[f"minus_{reference}"], "hit1", sign="+"),
        )
    return table


def _cell(entry: Mapping[str, Any], figure: str, *, sign: str = "") -> str:
    low, high = (f"{100 * end:{sign}.0f}" for end in entry["intervals"][figure])
    return f"{100 * entry[figure]:{sign}.1f} \\[{low}, {high}]"


if __name__ == "__main__":
    sys.exit(main())
