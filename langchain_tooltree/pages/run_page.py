"""A run as a page to read: what the page is given of it. `pages/` shows it."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_tooltree.experience.trajectory import (
    ATTEMPT_OF,
    NOTES,
    SUGGESTED,
    Branch,
    ChatMessage,
    Trajectory,
    added_to,
    arguments_of,
    entries_in,
    extras_of,
    function_of,
    metadata_of,
    part_of,
    readable,
    without_added,
    woven,
)
from langchain_tooltree.pages.page import page, table
from langchain_tooltree.text import mapping_in, one_line

MOST_MESSAGES = 2_000
"""Messages of a dialogue that are shown, of a branch too: those at its beginning."""

MOST_SUGGESTED = 5
"""Tools that are shown of a suggestion, as many as a search keeps the shares of."""

MAX_LABEL = 120
"""Characters of a name or an id."""

TIMES = ("timestamp", "created_at")
"""Where a time stands: in messages of tau2-bench, and in what some providers send beside a reply."""

SCORES = ("r_pre", "r_post", "goal")
"""What a search has noted beside a reply that it planned."""


def write_html(run: Trajectory, path: str | os.PathLike[str]) -> None:
    """Write a run as one page without references to elsewhere."""
    text = page("run", f"Run: {one_line(run.task, MAX_LABEL)}", run_data(run))
    Path(path).write_text(text, encoding="utf-8")


def run_data(run: Trajectory) -> dict[str, Any]:
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
    shown = {"id": _label(run.id), "task": run.task, "success": run.success, "turns": run.turns}
    given = {name: value for name, value in facts.items() if value}
    return {**shown, **given, "said": list(_dialogue(run.chat(), run.branches))}


def _label(name: Any) -> str:
    return one_line(str(name or ""), MAX_LABEL)


def _dialogue(messages: Sequence[ChatMessage], branches: Sequence[Branch]) -> Iterator[dict[str, Any]]:
    for each in woven(enumerate(messages[:MOST_MESSAGES]), branches):
        if isinstance(each, Branch):
            inside = [_shown(message) for message in each.messages[:MOST_MESSAGES]]
            yield {"part": "branch", "name": _label(each.name), "said": inside}
        else:
            yield _shown(each)
    if (left := len(messages) - MOST_MESSAGES) > 0:
        yield {"part": "other", "text": f"{left} more messages are left out."}


def _shown(message: ChatMessage) -> dict[str, Any]:
    around, notes = metadata_of(message), mapping_in(metadata_of(message), NOTES)
    added = added_to(around)
    anomaly = mapping_in(notes, "anomaly")
    more = {
        "calls": [_call(entry) for entry in entries_in(message)],
        "tool": _label(message.get("name")),
        "failed": bool(message.get("error")),
        "added": [*added],
        "anomaly": anomaly
        and {
            **{name: _label(anomaly.get(name)) for name in ("kind", "tool")},
            "evidence": str(anomaly.get("evidence")),
            "sure": _share(anomaly.get("confidence")),
        },
        "suggested": [*_suggested(notes.get(SUGGESTED))],
        "scores": {name: value for name in SCORES if (value := _share(notes.get(name))) is not None},
        "reflected": bool(notes.get("reflected")) and not added,
        "tokens": tokens_of(message),
        "at": next((str(each[name])[:40] for each in (message, around) for name in TIMES if each.get(name)), ""),
    }
    shown = {"part": part_of(message), "text": readable(without_added(message.get("content"), added))}
    return shown | {name: value for name, value in more.items() if value}


def _call(entry: Mapping[str, Any]) -> dict[str, str]:
    arguments = arguments_of(entry)
    written = str(function_of(entry).get("arguments"))
    if arguments is not None:
        written = json.dumps(arguments, indent=2, default=str, ensure_ascii=False)
    return {"tool": _label(function_of(entry).get("name") or "no function"), "arguments": written}


def _suggested(noted: Any) -> Iterator[dict[str, Any]]:
    """How past runs went on, as it is noted beside a reply; notes come from a state, which anybody may have written."""
    for each in noted[:MOST_SUGGESTED] if isinstance(noted, list) else ():
        if isinstance(each, Mapping) and (share := _share(each.get("share"))) is not None:
            runs = each.get("runs")
            yield {"tool": _label(each.get("tool")), "share": share, "runs": runs if isinstance(runs, int) else 0}


def _share(value: Any) -> float | None:
    """A number in [0, 1], if it is one."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


def tokens_of(message: ChatMessage) -> int:
    """What a reply has cost, sent and received, as far as its model has reported it."""
    total = mapping_in(extras_of(message), "usage_metadata").get("total_tokens")
    return total if isinstance(total, int) else 0


OUTCOMES = {True: "success", False: "failure", None: "not judged"}
"""What a verdict comes to, in words."""


def to_table(run: Trajectory) -> str:
    """A run in a few lines."""
    tools = " → ".join(step.tool for step in run.steps) or "none"
    verdict = OUTCOMES[run.success] + (f": {run.reasons}" if run.reasons else "")
    return table({"Run": run.id, "Task": run.task, "Tools": tools, "Replies": run.turns, "Verdict": verdict})
