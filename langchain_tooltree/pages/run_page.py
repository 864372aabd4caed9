"""A run as a page to read: what the page is given of it. `pages/` shows it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from langchain_tooltree.experience.records import (
    ATTEMPT_OF,
    SUGGESTED,
    Branch,
    ChatMessage,
    Record,
    added_to,
    arguments_of,
    entries_in,
    extras_of,
    function_of,
    metadata_of,
    notes_of,
    part_of,
    readable,
    recalled_in,
    without_added,
    woven,
)
from langchain_tooltree.pages.page import longest_text, page
from langchain_tooltree.svg import visible
from langchain_tooltree.text import mapping_in, one_line, plain, shortened, shortened_in

ROOM = 600_000
"""Characters of what is said in a page: with what else it holds, it stays below 1 MB."""

LEAST_TEXT = 160
"""Characters that are shown of a text however many there are."""

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


def to_html(run: Record) -> str:
    """A run as one page without references to elsewhere."""
    longest = longest_text(texts_of(run), ROOM, LEAST_TEXT)
    return page("run", f"Run: {one_line(run.task, MAX_LABEL)}", plain(run_data(run, longest)))


def run_data(run: Record, longest: int) -> dict[str, Any]:
    """What a page shows of a run, no text of which is longer than `longest`."""
    facts = {
        "by": run.source or "",
        "from": _label(run.came_from),
        "reasons": shortened(run.reasons, longest),
        "waits": [name for name in ("pending", "quarantined") if name in run.metadata],
        "attempt": _label(run.metadata.get(ATTEMPT_OF)),
        "recalled": [_label(each) for each in recalled_in(run.metadata, "runs")],
        "tips": [_label(each) for each in recalled_in(run.metadata, "tips")],
        "instructions": shortened(run.instructions, longest),
    }
    shown = {"id": _label(run.id), "task": shortened(run.task, longest), "success": run.success, "turns": run.turns}
    said = list(_dialogue(run.chat(), run.branches, longest))
    return {**shown, **{name: value for name, value in facts.items() if value}, "said": said}


def _label(name: Any) -> str:
    return one_line(str(name or ""), MAX_LABEL)


def _dialogue(messages: Sequence[ChatMessage], branches: Sequence[Branch], longest: int) -> Iterator[dict[str, Any]]:
    for each in woven(enumerate(messages[:MOST_MESSAGES]), branches):
        if isinstance(each, Branch):
            inside = [_shown(message, longest) for message in each.messages[:MOST_MESSAGES]]
            yield {"part": "branch", "name": _label(each.name), "said": inside}
        else:
            yield _shown(each, longest)
    if (left := len(messages) - MOST_MESSAGES) > 0:
        yield {"part": "other", "text": f"{left} more messages are left out."}


def _shown(message: ChatMessage, longest: int) -> dict[str, Any]:
    around, notes = metadata_of(message), notes_of(message)
    added = added_to(around)
    content = readable(without_added(message.get("content"), added))
    anomaly = mapping_in(notes, "anomaly")
    more = {
        "calls": [_call(entry, longest) for entry in entries_in(message)],
        "tool": _label(message.get("name")),
        "failed": bool(message.get("error")),
        "added": [shortened(text, longest) for text in added],
        "anomaly": anomaly and _anomaly(anomaly, longest),
        "suggested": [*_suggested(notes.get(SUGGESTED))],
        "scores": {name: value for name in SCORES if (value := _share(notes.get(name))) is not None},
        "reflected": bool(notes.get("reflected")) and not added,
        "tokens": tokens_of(message),
        "at": next((str(each[name])[:40] for each in (message, around) for name in TIMES if each.get(name)), ""),
    }
    shown = {"part": part_of(message), "text": shortened(content, longest)}
    return shown | {name: value for name, value in more.items() if value}


def _call(entry: Mapping[str, Any], longest: int) -> dict[str, Any]:
    arguments = arguments_of(entry)
    written = shortened(str(function_of(entry).get("arguments")), longest)
    if arguments is not None:
        arguments = shortened_in(arguments, longest)
        if len(text := json.dumps(arguments, default=str, ensure_ascii=False)) > 2 * longest + MAX_LABEL:
            arguments, written = None, shortened(text, longest)
    name = function_of(entry).get("name") or "no function"
    return {"tool": _label(name), "arguments": written if arguments is None else arguments}


def _anomaly(noted: Mapping[str, Any], longest: int) -> dict[str, Any]:
    names = {name: _label(noted.get(name)) for name in ("kind", "tool")}
    return {
        **names,
        "evidence": shortened(str(noted.get("evidence")), longest),
        "sure": _share(noted.get("confidence")),
    }


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


def texts_of(run: Record) -> Iterator[str]:
    """All texts of a run that may be long."""
    yield from (run.task, run.reasons, run.instructions)
    for _, messages in run.dialogues():
        for message in messages:
            yield readable(message.get("content"))
            yield from (str(function_of(entry).get("arguments")) for entry in entries_in(message))


OUTCOMES = {True: "success", False: "failure", None: "not judged"}
"""What a verdict comes to, in words."""

SHORT = 200
"""Characters of a text in a table."""


def table(rows: Mapping[str, Any]) -> str:
    """A table as a notebook shows it: plain HTML without scripts, styles or pictures, which every viewer leaves so."""
    cells = (
        f"<tr><th>{escape(name)}</th><td>{escape(visible(one_line(str(each), SHORT)))}</td></tr>"
        for name, each in rows.items()
    )
    return f"<table>{''.join(cells)}</table>"


def to_table(run: Record) -> str:
    """A run in a few lines."""
    tools = " → ".join(step.tool for step in run.steps) or "none"
    verdict = OUTCOMES[run.success] + (f": {run.reasons}" if run.reasons else "")
    return table({"Run": run.id, "Task": run.task, "Tools": tools, "Replies": run.turns, "Verdict": verdict})
