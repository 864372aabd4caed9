"""How much of a long run is left in little room: condensed, beside cutting the end, the beginning or the middle.

    python -m tests.benchmarks.recall_budget RUNS.jsonl [--group KEY] [--leave-out look,examine] [--json PATH]

RUNS.jsonl holds trajectories as `load_trajectories` reads them. For each run that does not fit:

- kept: the share of its different calls that are still told, apart from those to be left out;
- transferable: of the calls that a run like it (the one with the nearest task, of the same group if there are groups)
  makes as well, up to names, the share that is still told. Names are the words that the other run does not use.

What is told is not all that counts, but what is not told cannot help. The same lines are condensed and cut.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from langchain_tooltree import Trajectory, load_trajectories
from tests.internals.cfgm import condensed, moves_of
from tests.internals.experience import RunRanking
from tests.internals.hall import run_flow, words_of

NAME = "_"
BUDGETS = (500, 1_000, 2_000, 4_000)


def head(run: Trajectory, _: str, room: int) -> str:
    """The end is cut off."""
    return whole(run)[:room]


def tail(run: Trajectory, _: str, room: int) -> str:
    """The beginning is cut off."""
    return whole(run)[-room:]


def middle(run: Trajectory, _: str, room: int) -> str:
    """The middle is cut out; two thirds are for the beginning."""
    text = whole(run)
    return text[: room - room // 3] + text[-(room // 3) :]


def chosen(run: Trajectory, task: str, room: int) -> str:
    """As memory puts it to a model."""
    return condensed(list(moves_of(run)), max_characters=room, about=task)


WAYS: dict[str, Callable[[Trajectory, str, int], str]] = {
    "head": head,
    "tail": tail,
    "middle": middle,
    "condensed": chosen,
}


def whole(run: Trajectory) -> str:
    return "\n".join(f"{move.call} → {' '.join(move.observation.split())}" for move in moves_of(run))


def measure(
    runs: Sequence[Trajectory],
    *,
    budgets: Sequence[int] = BUDGETS,
    group: Callable[[Trajectory], Any] = lambda _: None,
    leave_out: Sequence[str] = (),
) -> dict[str, dict[str, dict[str, float]]]:
    """Compare the ways of making a run short.

    Args:
        runs: Runs of which some have something in common.
        budgets: Characters there are for a run.
        group: Tells runs apart that have nothing to say to each other.
        leave_out: Calls that have a word from among these do not count, such as those that only look around.

    Returns:
        Figures by budget and way: `kept`, `transferable` and the number of `runs` that did not fit.
    """
    others = partners(runs, group)
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for budget in budgets:
        long = [place for place, run in enumerate(runs) if len(whole(run)) > budget]
        figures[str(budget)] = {}
        for name, way in WAYS.items():
            kept, transferable = [], []
            for place in long:
                run, other = runs[place], others[place]
                told = way(run, "" if other is None else other.task, budget)
                assert len(told) <= budget
                calls = calls_of(run, leave_out)
                left = {call for call in calls if call in told}
                kept.append(len(left) / len(calls) if calls else 1.0)
                if other is not None and (wanted := in_common(calls, calls_of(other, leave_out))):
                    transferable.append(len(in_common(left, calls_of(other, leave_out), calls)) / len(wanted))
            figures[str(budget)][name] = {
                "runs": len(long),
                "kept": fmean(kept) if kept else 1.0,
                "transferable": fmean(transferable) if transferable else 1.0,
            }
    return figures


def partners(runs: Sequence[Trajectory], group: Callable[[Trajectory], Any]) -> list[Trajectory | None]:
    """For each run the one of its group with the nearest task; `None` if it is alone."""
    ranking = RunRanking()
    found: list[Trajectory | None] = []
    for run in runs:
        others = [other for other in runs if other.id != run.id and group(other) == group(run)]
        scores = run_flow(ranking.scores(run.task, [other.task for other in others]))
        best = max(range(len(others)), key=lambda place: (scores[place], -place), default=None)
        found.append(None if best is None else others[best])
    return found


def calls_of(run: Trajectory, leave_out: Sequence[str] = ()) -> set[str]:
    calls = {move.call for move in moves_of(run) if not move.said}
    return {call for call in calls if not {*leave_out} & {*words_of(call)}}


def in_common(calls: set[str], others: set[str], vocabulary: set[str] | None = None) -> set[tuple[str, ...]]:
    """What calls and others have in common, up to names.

    Args:
        calls: The calls.
        others: Those of another run.
        vocabulary: Calls whose words are no names where the others use them, too; the calls, if left out.

    Returns:
        The common calls, with `_` in place of names; not those of which little but names is left.
    """
    shared = vocabulary_of(vocabulary or calls) & vocabulary_of(others)
    common = {up_to_names(call, shared) for call in calls} & {up_to_names(call, shared) for call in others}
    return {call for call in common if 2 * call.count(NAME) <= len(call)}


def vocabulary_of(calls: set[str]) -> set[str]:
    return {word for call in calls for word in words_of(call)}


def up_to_names(call: str, shared: set[str]) -> tuple[str, ...]:
    return tuple(word if word in shared else NAME for word in words_of(call))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--group", metavar="KEY", help="metadata by which runs are told apart")
    parser.add_argument("--leave-out", default="", metavar="WORDS", help="calls with these words do not count")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(arguments)
    runs = list(load_trajectories(options.runs))
    figures = measure(
        runs,
        group=lambda run: run.metadata.get(options.group) if options.group else None,
        leave_out=[word for word in options.leave_out.split(",") if word],
    )
    print(f"{len(runs)} runs")
    print(f"{'room':>6} {'way':<10} {'runs':>5} {'kept':>6} {'transferable':>13}")
    for budget, ways in figures.items():
        for name, row in ways.items():
            print(f"{budget:>6} {name:<10} {row['runs']:>5} {row['kept']:>6.3f} {row['transferable']:>13.3f}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
