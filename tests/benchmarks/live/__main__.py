"""Any model in real environments: how often it solves a task by itself and with a search, and what that costs.

    python -m tests.benchmarks.live --bench bfcl --model openai:gpt-4.1-mini --method react --tasks 20 --json react.json
    python -m tests.benchmarks.live --bench bfcl --model openai:gpt-4.1-mini --method tooltree --tasks 20 \
        --against react.json
    python -m tests.benchmarks.live --paper tooltree --bench bfcl --model openai:gpt-4.1-mini --journal t.jsonl

The model is named as for `init_chat_model`; with `OPENAI_BASE_URL` and `OPENAI_API_KEY` set, `openai:NAME` reaches any
compatible server. What a run may cost is estimated before it starts. With `--journal FILE` each finished task is kept,
and the same command goes on where it stopped. Benches: `bfcl` (multi-turn function calling, `--category`),
`scienceworld`, `tau` (a second model plays the user, `--user-model`), `files` (your own tasks, `--file`, see
`bench_files`).
"""

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from langchain_tooltree import SearchConfig
from langchain_tooltree.errors import ConfigurationError
from tests.benchmarks.live.cassette import Recorder
from tests.benchmarks.live.episode import (
    MODEL_CALLS,
    STEPS,
    Bench,
    Memory,
    Method,
    Options,
    Setting,
    Task,
    Typical,
    UsageError,
)
from tests.benchmarks.live.figures import MEASURES, paired, summary
from tests.benchmarks.live.papers import PAPERS, compared, journal_of, show
from tests.benchmarks.live.runs import (
    FAILURES_IN_A_ROW,
    CallCounter,
    Journal,
    TaskRun,
    read_journal,
    run_task,
)

HERE = "tests.benchmarks.live"

BENCHES = {
    "bfcl": "bench_bfcl:BfclBench",
    "scienceworld": "bench_scienceworld:ScienceWorldBench",
    "tau": "bench_tau:TauBench",
    "files": "bench_files:FilesBench",
}
"""Where each bench is; imported when asked for, as some need packages that others do not."""

METHOD_MODULES = ("methods", "searches")

METHODS_HELP = (
    "zero_shot, react, cot, cot_sc, tooltree, tooltree-deep, tooltree-paper, tooltree-acl, mcts, best_of_n, beam, "
    "best_first, a_star, lats or dfsdt"
)

MILLION = 1_000_000

TIMEOUT = 600.0
"""Seconds that a reply of the model may take; what OpenAI's own client waits."""


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Run the command; 1 if it was stopped, by errors or a key, 2 if it cannot be carried out."""
    console = console or Console(emoji=False)  # a model may be called "x:a:"
    try:
        options = _parser().parse_args(arguments)
        return (
            _run_paper(options, console) if options.paper else _run(options, console)[0]
        )
    except (UsageError, ConfigurationError, ImportError) as error:
        console.print(f"[red]{type(error).__name__}[/]: {error}", highlight=False)
        return 2


def _run_paper(options: argparse.Namespace, console: Console) -> int:
    """Run each arm of a paper's comparison, then show them together."""
    paper = PAPERS[options.paper]
    if options.against or options.record or options.graph or options.memory:
        msg = "--paper compares its own arms; leave out --against, --record, --graph and --memory."
        raise UsageError(msg)
    runs: dict[str, list[TaskRun]] = {}
    for arm in paper.arms:
        console.rule(arm.name)
        experience = options.experience if arm.memory else None
        journal = journal_of(options.journal, arm)
        chosen = {
            "method": arm.method,
            "memory": arm.memory,
            "experience": experience,
            "journal": journal,
        }
        code, runs[arm.name] = _run(
            argparse.Namespace(**{**vars(options), **chosen, "json": None}), console
        )
        if code:
            return code
    compared_arms = compared(paper, runs)
    show(console, paper, compared_arms, f"{options.bench}, {options.model}")
    if options.json:
        result = {"settings": _settings(options), **compared_arms}
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
    return 0


def _run(options: argparse.Namespace, console: Console) -> tuple[int, list[TaskRun]]:
    """Run one method; the exit code and the tasks done."""
    if not options.method:
        msg = "Say what to run: --method NAME, or --paper NAME."
        raise UsageError(msg)
    bench: Bench = _found(BENCHES[options.bench])()
    method, relative_calls = _method(options.method)
    counters = [CallCounter(), CallCounter("user")]
    settings = _settings(options)
    against = (
        read_journal(options.against) if options.against else None
    )  # before anything is paid for
    model = _model(options.model, options, counters[0])
    user_model = (
        _model(options.user_model, options, counters[1]) if options.user_model else None
    )
    tasks = bench.tasks(_choice(options, user_model))
    journal = Journal(options.journal, settings)
    finished = {
        run.id: run for run in journal.runs if not (options.retry_failed and run.error)
    }
    left = [task for task in tasks if task.id not in finished]
    _print_estimate(
        console, options, len(left), len(tasks), bench.typical, relative_calls
    )
    if left and not options.yes and not _agreed(console):
        return 2, []
    setting = Setting(
        model=model,
        steps=options.steps,
        model_calls=options.model_calls,
        seed=options.seed,
        config=SearchConfig(effort=options.effort),
        judge=_model(options.judge_model, options, counters[0])
        if options.judge_model
        else None,
    )
    recorder = Recorder(options.record, settings) if left and options.record else None
    if recorder:
        model.callbacks = [counters[0], recorder]
    memory = _memory(options, model)
    perform = partial(
        run_task, method=method, setting=setting, memory=memory, counters=counters
    )
    stopped = _run_tasks(
        left, partial(perform, recorder=recorder), memory, journal, console
    )
    chosen = {task.id for task in tasks}
    runs = [run for run in journal.runs if run.id in chosen]
    _report(console, options, settings, runs, against)
    return (1 if stopped else 0), runs


def _run_tasks(
    left: Sequence[Task],
    perform: Callable[[Task], TaskRun],
    memory: Memory | None,
    journal: Journal,
    console: Console,
) -> bool:
    """Do what is left, one task after another, since each may learn from those before; whether it was stopped."""
    if memory:
        for run in journal.runs:
            if run.error is None:
                memory.learn(run.finished)
    failures = 0
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task("0 solved", total=len(left))
        solved = 0
        for task in left:
            try:
                run = perform(task)
            except KeyboardInterrupt:
                console.print(
                    f"Interrupted in {task.id}. With --journal, the same command goes on there.",
                    style="red",
                )
                return True
            journal.add(run)
            solved += run.success
            failures = failures + 1 if run.error else 0
            console.print(_line(run), highlight=False, markup=False)
            progress.update(bar, advance=1, description=f"{solved} solved")
            if failures == FAILURES_IN_A_ROW:
                console.print(
                    f"{failures} errors in a row: stopped. Start again with --retry-failed to redo them.",
                    style="red",
                )
                return True
    return False


def _line(run: TaskRun) -> str:
    what = "ERROR" if run.error else "solved" if run.success else "failed"
    costs = f"{run.model_calls} calls, {run.input_tokens + run.output_tokens:,} tokens, {run.seconds:.1f} s"
    return f"{what:6}  {run.id}  {costs}  {run.detail}".rstrip()


def _print_estimate(
    console: Console,
    options: argparse.Namespace,
    left: int,
    chosen: int,
    typical: Typical,
    relative_calls: float,
) -> None:
    calls = left * typical.model_calls * relative_calls
    sent, received = calls * typical.input_tokens, calls * typical.output_tokens
    money = ""
    if options.price:
        dollars = (sent * options.price[0] + received * options.price[1]) / MILLION
        money = f", ${dollars:,.2f}"
    console.print(
        f"{left} of {chosen} tasks to do with {options.method} and {options.model}: about {calls:,.0f} model calls, "
        f"{sent:,.0f} tokens sent and {received:,.0f} received{money}, by typical figures of this bench and method.",
        highlight=False,
    )


def _agreed(console: Console) -> bool:
    if not sys.stdin.isatty():
        msg = "There is nobody to ask whether to go on; pass --yes to start at once."
        raise UsageError(msg)
    return console.input("Start? [y/N] ").strip().lower() in {"y", "yes"}


def _report(
    console: Console,
    options: argparse.Namespace,
    settings: Mapping[str, Any],
    runs: Sequence[TaskRun],
    against: tuple[dict[str, Any], list[TaskRun]] | None,
) -> None:
    if not runs:
        console.print("No task was finished.")
        return
    figures = summary(runs)
    table = Table(
        title=f"{options.bench}, {options.method}, {options.model}: {len(runs)} tasks",
        title_justify="left",
    )
    for heading in ("measure", "mean a task", "95 %"):
        table.add_column(heading, justify="left" if heading == "measure" else "right")
    for name in MEASURES:
        bounds = (
            f"{figures['success_low']:.3f} to {figures['success_high']:.3f}"
            if name == "success"
            else ""
        )
        table.add_row(name, f"{figures[name]:,.3f}", bounds)
    for kind, count in figures["calls"].items():
        table.add_row(f"  calls: {kind}", f"{count:,.2f}", "")
    console.print(table)
    for run in runs:
        if run.error:
            console.print(
                f"error in {run.id}: {run.error}",
                style="red",
                highlight=False,
                markup=False,
            )
    result = {"settings": settings, "figures": figures}
    if against:
        other, there = against
        result["against"] = {"settings": other, **(found := paired(runs, there))}
        _print_paired(console, found, f"{other.get('method')} in {options.against}")
    if options.json:
        tasks = [{**asdict(run), "messages": []} for run in runs]
        options.json.write_text(
            json.dumps({**result, "tasks": tasks}, indent=1), encoding="utf-8"
        )


def _print_paired(console: Console, found: Mapping[str, Any], other: str) -> None:
    if not found["tasks"]:
        console.print(f"No task is both here and in {other}.", style="red")
        return
    table = Table(
        title=f"Paired differences to {other}: {found['tasks']} tasks",
        title_justify="left",
    )
    for heading in ("measure", "difference", "95 %"):
        table.add_column(heading, justify="left" if heading == "measure" else "right")
    for name in MEASURES:
        each = found[name]
        table.add_row(
            name,
            f"{each['difference']:+,.3f}",
            f"{each['low']:+,.3f} to {each['high']:+,.3f}",
        )
    console.print(table)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """What must be the same for a run to go on; more tasks may be asked for."""
    names = (
        "bench",
        "model",
        "method",
        "user_model",
        "temperature",
        "seed",
        "category",
        "file",
        "effort",
        "graph",
    )
    settings = {
        name: getattr(options, name)
        for name in (*names, "judge_model", "memory", "steps", "model_calls")
    }
    files = {
        name: str(path) if (path := getattr(options, name)) else None
        for name in ("file", "experience")
    }
    return {**settings, **files}


def _choice(options: argparse.Namespace, user_model: BaseChatModel | None) -> Options:
    return Options(
        tasks=options.tasks,
        ids=tuple(options.task),
        category=options.category,
        file=options.file,
        seed=options.seed,
        cache=options.cache,
        user_model=user_model,
    )


def _model(
    name: str, options: argparse.Namespace, counter: CallCounter
) -> BaseChatModel:
    settings: dict[str, Any] = {"timeout": options.timeout}
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    try:
        model: BaseChatModel = init_chat_model(name, **settings)
    except Exception as error:
        msg = f"The model {name!r} cannot be made: {error}"
        raise UsageError(msg) from error
    model.callbacks = [counter]
    return model


def _memory(options: argparse.Namespace, model: BaseChatModel) -> Memory | None:
    if options.memory is None and not options.graph:
        if options.experience:
            msg = "--experience is for a memory or a graph to learn from; add --memory NAME or --graph."
            raise UsageError(msg)
        return None
    memory: Memory = _found("memories:make_memory")(
        options.memory, options.graph, model, options.experience
    )
    return memory


def _method(name: str) -> tuple[Method, float]:
    """A method with its model calls relative to those of `react`; searches are imported when one is asked for."""
    known: dict[str, tuple[Method, float]] = {}
    for module in METHOD_MODULES:
        known |= _found(f"{module}:METHODS")
        if name in known:
            return known[name]
    msg = f"--method {name!r} is unknown; choose one of {', '.join(known)}."
    raise UsageError(msg)


def _found(place: str) -> Any:
    module, name = place.split(":")
    return getattr(importlib.import_module(f"{HERE}.{module}"), name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {HERE}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bench", required=True, choices=sorted(BENCHES))
    parser.add_argument(
        "--model",
        required=True,
        help="as for init_chat_model, such as openai:gpt-4.1-mini",
    )
    parser.add_argument("--method", help=METHODS_HELP)
    parser.add_argument(
        "--paper",
        choices=sorted(PAPERS),
        help="all arms of a paper's comparison in place of a method",
    )
    parser.add_argument(
        "--judge-model",
        help="scores what calls brought back, with the paper's searches",
    )
    parser.add_argument("--user-model", help="plays the user, in tau")
    parser.add_argument(
        "--temperature",
        type=float,
        help="of the models; the provider's own if left out",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT,
        help="seconds a reply may take (%(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the searches and of what benches draw"
    )
    parser.add_argument(
        "--tasks",
        type=int,
        metavar="N",
        help="so many, drawn by the seed; all if left out",
    )
    parser.add_argument(
        "--task",
        action="append",
        default=[],
        metavar="ID",
        help="this one; may be repeated",
    )
    parser.add_argument(
        "--category", help="of bfcl: base, miss_func, miss_param or long_context"
    )
    parser.add_argument("--file", type=Path, help="of files and tau: the tasks")
    parser.add_argument(
        "--effort", choices=("frugal", "balanced", "thorough"), default="balanced"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=STEPS,
        help="replies with calls a user turn may take",
    )
    parser.add_argument(
        "--model-calls",
        type=int,
        default=MODEL_CALLS,
        help="budget of a peer's search for a turn",
    )
    parser.add_argument(
        "--graph",
        action="store_true",
        help="suggest tools from a graph of the tasks done before",
    )
    parser.add_argument(
        "--memory", metavar="NAME", help="from the tasks before; see memories.py"
    )
    parser.add_argument(
        "--experience",
        type=Path,
        metavar="FILE",
        help="earlier runs to learn from first",
    )
    parser.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="keeps finished tasks; goes on from them",
    )
    parser.add_argument(
        "--retry-failed",
        action="store_true",
        help="redo the tasks of the journal that had an error",
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="add each request and its reply to this file",
    )
    parser.add_argument(
        "--price",
        type=float,
        nargs=2,
        metavar=("IN", "OUT"),
        help="dollars a million tokens",
    )
    parser.add_argument(
        "--yes", action="store_true", help="start at once after the estimate"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures there"
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="compare with this journal or --json file",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(".cache"),
        help="where downloaded packages are kept",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
