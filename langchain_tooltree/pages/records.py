"""What the pages of runs, of an experience and of a tool graph are given; the templates in this folder show it."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import networkx as nx

from langchain_tooltree.cfgm.focus import FOCUS, current_focus_points
from langchain_tooltree.cfgm.recall import Tip
from langchain_tooltree.cfgm.tips import all_tips
from langchain_tooltree.experience.store import (
    JUDGED,
    TASKS,
    RunEntry,
    entry_of,
    listing,
)
from langchain_tooltree.experience.trajectory import (
    ATTEMPT_OF,
    Branch,
    Trajectory,
    woven,
)
from langchain_tooltree.flows import FunctionStep
from langchain_tooltree.learning.fold import ExperienceStatus, Fold
from langchain_tooltree.messages.additions import (
    NOTES_KEY,
    SUGGESTED_KEY,
    get_added_texts,
    remove_added_texts,
)
from langchain_tooltree.messages.chat_format import (
    get_called_function,
    get_langchain_fields,
    get_response_metadata,
    get_tool_call_entries,
    parse_call_arguments,
)
from langchain_tooltree.messages.content import describe_content
from langchain_tooltree.messages.kinds import ChatMessage, classify_chat_message
from langchain_tooltree.pages import page
from langchain_tooltree.sitgraph.graph import Graph, weights
from langchain_tooltree.sitgraph.transitions import START
from langchain_tooltree.text import get_mapping, one_line, shortened

MAX_NAME_LABEL = 120  # characters of a name or an id
MAX_SHOWN_MESSAGES = 2_000  # messages of a dialogue, and of a branch in it, that are shown: those at its beginning
MOST_SUGGESTED = (
    5  # tools that are shown of a suggestion, as many as a search keeps the shares of
)
TIME_KEYS = (
    "timestamp",
    "created_at",
)  # where a time stands in messages, of tau2-bench and of some providers

MAX_LISTED_RUNS = 1_000  # runs of an experience, or of a file, that are listed, the latest; a row takes some 300 characters
MOST_READ = 3_000  # messages whose text is in their page: those of the latest runs
MAX_LISTED_TIPS = 200

MOST_EDGES = 5_000  # of a graph, those followed most often: at 60 characters each, a third of a megabyte
MOST_SUMMARIES = 6  # summaries of states that are shown of an edge
NAMED_RUNS = 12  # runs that are named behind an edge
ALL_NAMED_RUNS = 12_000  # and behind all edges together


def _label(name: Any) -> str:
    return one_line(str(name or ""), MAX_NAME_LABEL)


# --- runs ---


def run_page(run: Trajectory) -> str:
    """Return the page of a run."""
    return page("run", f"Run: {_label(run.task)}", _run_data(run))


def runs_page(
    name: str, runs: Sequence[Trajectory], outcomes: Mapping[str, int]
) -> str:
    """The latest runs of a file with their dialogues as a page; `outcomes` counts how all runs in it ended."""
    entries = {run.id: entry_of(run, "") for run in runs}
    total, judged = (
        sum(outcomes.values()),
        sum(outcomes.get(each, 0) for each in JUDGED),
    )
    data = {
        "name": f"File {_label(name)}",
        "status": {
            "runs": total,
            "successes": outcomes.get("success", 0),
            "judged": judged,
        },
        "runs": _message_rows([*reversed(runs)], entries, {}),
        "left_out": total - len(runs),
    }
    return page("experience", f"Runs: {_label(name)}", data)


def _run_data(run: Trajectory) -> dict[str, Any]:
    """What a page shows of a run."""
    facts = {
        "by": run.source or "",
        "from": _label(run.came_from),
        "reasons": run.reasons,
        "waits": [name for name in ("pending", "quarantined") if name in run.metadata],
        "attempt": _label(run.metadata.get(ATTEMPT_OF)),
        "recalled": [_label(each) for each in run.recall.runs],
        "tips": [_label(each) for each in run.recall.tips],
        "instructions": run.instructions,
    }
    shown = {
        "id": _label(run.id),
        "task": run.task,
        "success": run.success,
        "turns": run.turns,
    }
    dialogue = {"messages": list(_dialogue(run.messages, run.branches))}
    return {
        **shown,
        **{name: value for name, value in facts.items() if value},
        **dialogue,
    }


def _dialogue(
    messages: Sequence[ChatMessage], branches: Sequence[Branch]
) -> Iterator[dict[str, Any]]:
    for each in woven(enumerate(messages[:MAX_SHOWN_MESSAGES]), branches):
        if isinstance(each, Branch):
            inside = [
                _message(message) for message in each.messages[:MAX_SHOWN_MESSAGES]
            ]
            yield {"part": "branch", "name": _label(each.name), "messages": inside}
        else:
            yield _message(each)
    if (left := len(messages) - MAX_SHOWN_MESSAGES) > 0:
        yield {"part": "other", "text": f"{left} more messages are left out."}


def _message(message: ChatMessage) -> dict[str, Any]:
    """A message, with what is noted beside it; notes come from a state, which anybody may have written."""
    around = get_response_metadata(message)
    notes = get_mapping(around, NOTES_KEY)
    added, anomaly, suggested = (
        get_added_texts(around),
        get_mapping(notes, "anomaly"),
        notes.get(SUGGESTED_KEY),
    )
    more = {
        "calls": [
            {
                "tool": _label(get_called_function(entry).get("name") or "no function"),
                "arguments": _arguments(entry),
            }
            for entry in get_tool_call_entries(message)
        ],
        "tool": _label(message.get("name")),
        "failed": bool(message.get("error")),
        "added": [*added],
        "anomaly": anomaly
        and {
            "kind": _label(anomaly.get("kind")),
            "evidence": str(anomaly.get("evidence")),
            "confidence": _share(anomaly.get("confidence")),
        },
        "suggested": [
            {
                "tool": _label(each.get("tool")),
                "share": share,
                "runs": runs if isinstance(runs, int) else 0,
            }
            for each in (
                suggested[:MOST_SUGGESTED] if isinstance(suggested, list) else ()
            )
            if isinstance(each, Mapping)
            and (share := _share(each.get("share"))) is not None
            for runs in [each.get("runs")]
        ],
        "reflected": bool(notes.get("reflected")) and not added,
        "tokens": _count_tokens(message),
        "at": next(
            (
                str(each[name])[:40]
                for each in (message, around)
                for name in TIME_KEYS
                if each.get(name)
            ),
            "",
        ),
    }
    shown = {
        "part": classify_chat_message(message),
        "text": describe_content(remove_added_texts(message.get("content"), added)),
    }
    return shown | {name: value for name, value in more.items() if value}


def _arguments(entry: Mapping[str, Any]) -> str:
    arguments = parse_call_arguments(entry)
    if arguments is None:
        return str(get_called_function(entry).get("arguments"))
    return json.dumps(arguments, indent=2, default=str, ensure_ascii=False)


def _share(value: Any) -> float | None:
    """A number in [0, 1], if it is one."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


def _count_tokens(message: ChatMessage) -> int:
    """What a reply has cost, sent and received, as far as its model has reported it."""
    total = get_mapping(get_langchain_fields(message), "usage_metadata").get(
        "total_tokens"
    )
    return total if isinstance(total, int) else 0


def _message_rows(
    runs: Sequence[Trajectory],
    entries: Mapping[str, RunEntry],
    dates: Mapping[str, tuple[str, str]],
) -> list[dict[str, Any]]:
    """Runs with their dialogues, as far as there is room for these."""
    rows, room = [], MOST_READ
    for run in runs:
        messages = [message for _, dialogue in run.dialogues() for message in dialogue]
        room -= min(len(messages), MAX_SHOWN_MESSAGES)
        shown = _run_data(run)
        if room < 0:
            shown = {
                name: value
                for name, value in shown.items()
                if name not in {"messages", "instructions"}
            }
        about = {
            "outcome": entries[run.id].outcome,
            "kept": dates.get(run.id, ("", ""))[0],
            "tools": one_line(
                " → ".join(step.tool for step in run.calls), 2 * MAX_NAME_LABEL
            ),
            "tokens": sum(map(_count_tokens, messages)),
        }
        rows.append({**shown, **about})
    return rows


# --- an experience ---


async def experience_page(fold: Fold) -> str:
    """What was learnt in a namespace, which has been refreshed, as a page."""
    store, entries = fold.store, dict(fold.entries)
    base, place = store.place
    items = await listing(base, (*place, TASKS))
    dates = {item.key: (item.created_at.isoformat(), item.key) for item in items}
    latest = sorted(entries, key=lambda run: dates.get(run, ("", run)), reverse=True)[
        :MAX_LISTED_RUNS
    ]
    runs: list[Trajectory] = await store.reading(latest)
    tips: list[Tip] = await all_tips(store)
    focus, _ = await current_focus_points(store.collection(FOCUS))
    status: ExperienceStatus = await fold.status()
    title = f"Experience: {_label('/'.join(place))}"

    def written(runs: list[Trajectory]) -> str:
        data = {
            "name": f"Namespace {_label(' / '.join(place))}",
            "status": asdict(status),
            "left_out": len(entries) - len(runs),
            "runs": _message_rows(runs, entries, dates),
            "tips": [_tip(tip, entries) for tip in tips[:MAX_LISTED_TIPS]],
            "focus": focus,
        }
        return page("experience", title, data)

    text: str = await FunctionStep(written, runs)  # a thousand dialogues take a second
    return text


def _tip(tip: Tip, entries: Mapping[str, RunEntry]) -> dict[str, Any]:
    success = entries.get(tip.trajectories[-1]) if tip.trajectories else None
    is_retired = bool(tip.trajectories) and (
        success is None or success.outcome != "success"
    )
    return {
        "id": tip.id,
        "advice": tip.advice,
        "reasoning": tip.reasoning,
        "runs": [_label(run) for run in tip.trajectories],
        "retired": "the run that it was taken of counts as no success any more"
        if is_retired
        else "",
    }


# --- a tool graph ---


def graph_page(graph: Graph, alpha: float) -> str:
    """A graph as a page: tools, and edges with what stands behind them.

    An edge is a row of numbers, since there may be thousands: from, to, its weight by Eq. 2 and by Eq. 1, how often it
    was followed, by how many tasks, sources and runs; then some of the summaries on it, how many there are, and some of
    these runs, each with how often it followed the edge.
    """
    every = [
        (source, target, weight, edge)
        for source, targets in graph.edges()
        for (target, weight), edge in zip(
            weights(targets, alpha).items(), targets.values(), strict=True
        )
    ]
    every.sort(key=lambda row: (-row[3].count, -row[2], row[0], row[1]))
    shown = every[:MOST_EDGES]
    behind, summaries = _runs_behind(graph), graph.summaries_by_edge()
    most = max(2, min(NAMED_RUNS, ALL_NAMED_RUNS // max(1, len(shown))))
    tools = sorted({name for row in shown for name in row[:2]})
    place = {name: at for at, name in enumerate(tools)}
    calls = Counter[str]()
    steps: nx.DiGraph[str] = nx.DiGraph()
    for source, target, weight, edge in every:
        calls[target] += edge.count
        steps.add_edge(source, target, far=-math.log(max(weight, 1e-12)))
    # A tool's column: by how many steps from the start it is, on the way that is most probable.
    ways = (
        nx.single_source_dijkstra_path(steps, START, weight="far")
        if START in steps
        else {}
    )
    named: dict[str, int] = {}
    rows = []
    for source, target, weight, edge in shown:
        runs, states = behind[source, target], summaries.get((source, target), ())
        names = [
            [named.setdefault(run, len(named)), times] for run, times in runs[:most]
        ]
        texts = [shortened(text) for text in dict.fromkeys(states)][:MOST_SUMMARIES]
        counts = [edge.count, edge.support, edge.givers, len(runs)]
        weighed = [round(weight, 4), round(edge.raw_weight(alpha), 2)]
        rows.append(
            [place[source], place[target], *weighed, *counts, texts, len(states), names]
        )
    data = {
        "runs": len(graph),
        "tools": [
            [_label(name), calls[name], len(ways.get(name, (START, name))) - 1]
            for name in tools
        ],
        "start": place.get(START),
        "edges": rows,
        "left_out": len(every) - len(shown),
        "named": [_label(run) for run in named],
    }
    return page("graph", f"Tool graph of {len(graph)} runs", data)


def _runs_behind(graph: Graph) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """The runs that followed each edge, by their ids, and how often each did."""
    behind: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for run, contribution in sorted(graph.runs.items()):
        for pair, times in Counter(contribution.transitions).items():
            behind.setdefault(pair, []).append((run, times))
    return behind
