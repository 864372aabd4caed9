"""Does a doubt before a write pay? The alarms of `SearchConfig.check_writes` on recorded runs of real models.

    python -m tests.benchmarks.check_writes FILE ... [--json out.json]

Each FILE holds runs, good and bad, as `load_trajectories` reads them. Tasks are left out in five folds, as for the next
tool: the graph is made of the good runs of the other folds, and each write is looked at as the planner looks at an own
step: is it unusual where it stands? What happens after a check is not in the files, so this says whom it would reach,
and not whom it would mend. Steps are tool calls; what does not read by its name counts as a write. Intervals of 95 %
are bootstrapped over tasks.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from langchain_tooltree import SITGraph, Trajectory, load_trajectories
from langchain_tooltree.flows import run_flow
from langchain_tooltree.learning.guide import PastRuns
from langchain_tooltree.messages.chat_format import get_called_function
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.tool_calls import Call
from langchain_tooltree.text import get_call_key
from tests.benchmarks.next_tool_protocol import FOLDS, fold_of, task_of

READS = ("get_", "list_", "search_", "find_", "calculate", "think")
"""How the names of tools begin that only read, in the shared files."""

BOOTSTRAP = 1_000


@dataclass(frozen=True, slots=True)
class Checked:
    """A run, and where it would have been checked.

    Attributes:
        task: Its task.
        success: Whether it went well.
        steps: Its tool calls.
        writes: Those that write.
        alarms: Those before which the planner would have checked.
        strange: Alarms at a call that no good run of the task makes; `None` where the task has no good run.
    """

    task: str
    success: bool
    steps: int
    writes: int
    alarms: int
    strange: int | None


def _key(call: Call) -> str:
    return get_call_key(call.tool, call.arguments or {})


def _checked(
    run: Trajectory, graph: SITGraph, names: Sequence[str], good: set[str] | None
) -> Checked:
    writes = alarms = strange = steps = 0
    messages = run.to_messages()
    for at, message in enumerate(run.messages):
        for call in message.get("tool_calls") or ():
            tool = get_called_function(call).get("name") or ""
            steps += 1
            if tool.startswith(READS):
                continue
            writes += 1
            path = messages[:at]
            guide = PastRuns(graph, None, Conversation(path), first=run.task)
            if run_flow(guide.is_unusual(path, tool, names=names)):
                alarms += 1
                arguments = json.loads(
                    get_called_function(call).get("arguments") or "{}"
                )
                strange += (
                    good is not None and get_call_key(tool, arguments) not in good
                )
    return Checked(
        task_of(run),
        bool(run.success),
        steps,
        writes,
        alarms,
        None if good is None else strange,
    )


def figures_of(runs: Sequence[Checked]) -> dict[str, float]:
    """What is told of runs; shares in [0, 1]."""
    good = [run for run in runs if run.success]
    bad = [run for run in runs if not run.success]
    alarmed = [run for run in runs if run.alarms]
    known = [run for run in bad if run.strange is not None]

    def share(part: float, whole: float) -> float:
        return part / whole if whole else float("nan")

    return {
        "alarms in 100 steps of good runs": 100
        * share(sum(run.alarms for run in good), sum(run.steps for run in good)),
        "good runs alarmed": share(sum(run.alarms > 0 for run in good), len(good)),
        "failing runs alarmed": share(sum(run.alarms > 0 for run in bad), len(bad)),
        "P(fail)": share(len(bad), len(runs)),
        "P(fail | alarm)": share(sum(not run.success for run in alarmed), len(alarmed)),
        "alarms of failing runs at a write that no good run makes": share(
            sum(run.strange or 0 for run in known), sum(run.alarms for run in known)
        ),
    }


def interval(
    runs: Sequence[Checked], of: Callable[[Sequence[Checked]], Mapping[str, float]]
) -> dict[str, list[float]]:
    """95 % of each figure, where tasks are drawn again."""
    by_task = defaultdict(list)
    for run in runs:
        by_task[run.task].append(run)
    tasks, draw = list(by_task.values()), np.random.default_rng(0)
    drawn = [
        of(
            [
                run
                for at in draw.integers(len(tasks), size=len(tasks))
                for run in tasks[at]
            ]
        )
        for _ in range(BOOTSTRAP)
    ]
    return {
        name: np.nanpercentile([each[name] for each in drawn], [2.5, 97.5]).tolist()
        for name in of(runs)
    }


def measure(path: Path) -> list[Checked]:
    """Look at all runs of a file; none is looked at by a graph that knows a run of its task."""
    runs = list(load_trajectories(path))
    names = sorted({call.tool for run in runs for call in run.calls})
    made: dict[str, set[str]] = {}
    for run in runs:
        if run.success:
            made.setdefault(task_of(run), set()).update(map(_key, run.calls))
    checked: list[Checked] = []
    for fold in track(range(FOLDS), description=path.name):
        graph = SITGraph.from_trajectories(
            run for run in runs if run.success and fold_of(run) != fold
        )
        checked += [
            _checked(run, graph, names, made.get(task_of(run)))
            for run in runs
            if fold_of(run) == fold
        ]
    return checked


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    table, report = (
        Table("figure", *(path.name.partition(".")[0] for path in given.files)),
        {},
    )
    for path in given.files:
        runs = measure(path)
        bounds = interval(runs, figures_of)
        report[path.name] = {
            "figures": {
                name: [value, *bounds[name]] for name, value in figures_of(runs).items()
            },
            "runs": [asdict(run) for run in runs],
        }
    for name in figures_of([]):
        cells = (report[path.name]["figures"][name] for path in given.files)
        table.add_row(
            name,
            *(f"{value:.3g} [{low:.3g}, {high:.3g}]" for value, low, high in cells),
        )
    Console(width=140).print(table)
    if given.json:
        given.json.write_text(json.dumps(report))


if __name__ == "__main__":
    main()
