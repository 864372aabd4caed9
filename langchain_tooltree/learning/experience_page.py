"""What was learnt in one namespace as a page to read: what the page is given. `pages/` shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, islice
from typing import Any

from langchain_tooltree.cfgm.collect import FOCUS, current_focus_points
from langchain_tooltree.cfgm.tips import Tip, all_tips
from langchain_tooltree.experience.store import JUDGED, TASKS, RunEntry, entry_of, listing, readable
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.learning.fold import ExperienceStatus, Fold
from langchain_tooltree.pages.page import page, table
from langchain_tooltree.pages.run_page import MAX_LABEL, MOST_MESSAGES, run_data, tokens_of
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.text import one_line, shortened

MOST_RUNS = 1_000
"""Runs that are listed, the latest ones; the others are counted. A row takes some 300 characters."""

MOST_SAID = 3_000
"""Messages whose text is in the page: the dialogues of the latest runs, as many as are this long together."""

MOST_TIPS = 200
"""Tips that are shown."""

MOST_EDGES = 30
"""Edges that are shown, those followed most often."""


def page_of(fold: Fold) -> Flow[str]:
    """What was learnt in a namespace, which has been refreshed, as one page without references to elsewhere."""
    store, place, entries = fold.store, fold.place, dict(fold.entries)
    items = yield from listing(store.place[0], (*place, TASKS))
    dates = {item.key: (item.created_at.isoformat(), item.updated_at.isoformat()) for item in items}
    latest = sorted(entries, key=lambda run: (dates.get(run, ("", ""))[0], run), reverse=True)[:MOST_RUNS]
    runs: list[Trajectory] = yield from readable(store, latest)
    tips: list[Tip] = yield from all_tips(store)
    focus, _ = yield from current_focus_points(store.collection(FOCUS))
    status: ExperienceStatus = yield from fold.status()

    data = {
        "name": f"Namespace {one_line(' / '.join(place), MAX_LABEL)}",
        "status": asdict(status),
        "left_out": len(entries) - len(runs),
        "tips": _tips(tips, entries),
        "more_tips": max(0, len(tips) - MOST_TIPS),
        "focus": focus,
        "edges": _edges(fold.graph),
    }

    def with_runs(runs: list[Trajectory]) -> str:
        rows = {"runs": _runs(runs, entries, dates)}
        return page("experience", f"Experience: {one_line('/'.join(place), MAX_LABEL)}", data | rows)

    text: str = yield FunctionStep(with_runs, runs)  # a thousand dialogues take a second
    return text


def page_of_runs(name: str, runs: Sequence[Trajectory], outcomes: Mapping[str, int]) -> str:
    """The latest runs of a file with their dialogues as one page; `outcomes` counts how all runs in it ended."""
    entries = {run.id: entry_of(run, "") for run in runs}
    total, judged = sum(outcomes.values()), sum(outcomes.get(each, 0) for each in JUDGED)
    data = {
        "name": f"File {one_line(name, MAX_LABEL)}",
        "status": {"runs": total, "successes": outcomes.get("success", 0), "judged": judged},
        "runs": _runs([*reversed(runs)], entries, {}),
        "left_out": total - len(runs),
    }
    return page("experience", f"Runs: {one_line(name, MAX_LABEL)}", data)


def _runs(
    runs: Sequence[Trajectory], entries: Mapping[str, RunEntry], dates: Mapping[str, tuple[str, str]]
) -> list[dict[str, Any]]:
    lengths = accumulate(sum(min(len(messages), MOST_MESSAGES) for _, messages in run.dialogues()) for run in runs)
    whole = sum(count <= MOST_SAID for count in lengths)
    rows = []
    for number, run in enumerate(runs):
        shown = run_data(run)
        if number >= whole:
            shown = {name: value for name, value in shown.items() if name not in {"said", "instructions"}}
        kept, changed = dates.get(run.id, ("", ""))
        entry = entries[run.id]
        tools = one_line(" → ".join(step.tool for step in run.steps), 2 * MAX_LABEL)
        spent = sum(tokens_of(message) for _, messages in run.dialogues() for message in messages)
        about = {"outcome": entry.outcome, "kept": kept, "changed": changed, "tools": tools, "tokens": spent}
        rows.append({**shown, **about})
    return rows


def _tips(tips: Sequence[Tip], entries: Mapping[str, RunEntry]) -> list[dict[str, Any]]:
    rows = []
    for tip in tips[:MOST_TIPS]:
        of = entries.get(tip.trajectories[-1]) if tip.trajectories else None
        is_retired = bool(tip.trajectories) and (of is None or of.outcome != "success")
        after = [entry.outcome for entry in entries.values() if tip.id in entry.tips and entry.outcome in JUDGED]
        rows.append(
            {
                "id": tip.id,
                "advice": tip.advice,
                "reasoning": tip.reasoning,
                "task": shortened(tip.task),
                "runs": [one_line(run, MAX_LABEL) for run in tip.trajectories],
                "told": len(after),
                "went_well": after.count("success"),
                "retired": "the run that it was taken of counts as no success any more" if is_retired else "",
            }
        )
    return rows


def _edges(graph: SITGraph) -> list[list[Any]]:
    edges = sorted(graph.to_networkx().edges(data=True), key=lambda edge: (-edge[2]["count"], *edge[:2]))
    named = ((one_line(source, MAX_LABEL) or "start", one_line(target, MAX_LABEL), of) for source, target, of in edges)
    return [[source, target, round(of["weight"], 3), of["count"]] for source, target, of in islice(named, MOST_EDGES)]


def to_table(fold: Fold, status: ExperienceStatus) -> str:
    """What there is in a namespace, in a few lines."""
    return table(
        {
            "Namespace": "/".join(fold.place),
            "Runs": f"{status.runs}, of which {status.successes} succeeded, {status.judged - status.successes} failed",
            "Waiting": f"{status.pending} for a verdict, {status.quarantined} in quarantine",
            "In the graph": status.in_graph,
            "Tips": status.tips,
        }
    )
