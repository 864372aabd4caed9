"""A run as a page to read: what the page is given of it. `pages/` shows it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from langchain_tooltree.experience.notes import notes_of
from langchain_tooltree.experience.records import (
    ATTEMPT_OF,
    Branch,
    ChatMessage,
    Record,
    arguments_of,
    beside,
    entries_in,
    extras_of,
    function_of,
    part_of,
    readable,
    recalled_in,
    woven,
)
from langchain_tooltree.experience.reference import ADVISED, MOST_ADVICE, SUGGESTED, added_to, without_added
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


def to_html(run: Record) -> str:
    """A run as one page without references to elsewhere."""
    longest = longest_text(texts_of(run), ROOM, LEAST_TEXT)
    return page("run", f"Run: {one_line(run.task, MAX_LABEL)}", plain(run_data(run, longest)))


def run_data(run: Record, longest: int) -> dict[str, Any]:
    """What a page shows of a run, no text of which is longer than `longest`."""
    replaced = run.overruled or {}
    facts = {
        "by": run.source or "",
        "from": one_line(run.came_from, MAX_LABEL),
        "reasons": shortened(run.reasons, longest),
        "overruled": replaced
        and {"success": replaced.get("success"), "reasons": shortened(str(replaced.get("reasons") or ""), longest)},
        "waits": [name for name in ("pending", "quarantined") if name in run.metadata],
        "attempt": one_line(str(run.metadata.get(ATTEMPT_OF) or ""), MAX_LABEL),
        "recalled": [one_line(each, MAX_LABEL) for each in recalled_in(run.metadata, "runs")],
        "tips": [one_line(each, MAX_LABEL) for each in recalled_in(run.metadata, "tips")],
        "instructions": shortened(run.instructions, longest),
    }
    told = {"id": one_line(run.id, MAX_LABEL), "task": shortened(run.task, longest), "success": run.success}
    said = list(_said(run.chat(), run.branches, _advised(run), longest))
    return told | {name: value for name, value in facts.items() if value} | {"turns": run.turns, "said": said}


def _advised(run: Record) -> dict[int, list[str]]:
    """What reflections have said, by the place of the message at which they did; a file may hold anything there."""
    found: dict[int, list[str]] = {}
    told = run.metadata.get(ADVISED)
    for each in told[-MOST_ADVICE:] if isinstance(told, list) else ():
        if isinstance(each, Mapping) and isinstance(at := each.get("at"), int):
            found.setdefault(at, []).append(str(each.get("text")))
    return found


def _said(
    messages: Sequence[ChatMessage], branches: Sequence[Branch], advised: Mapping[int, Sequence[str]], longest: int
) -> Iterator[dict[str, Any]]:
    placed = enumerate(messages[:MOST_MESSAGES])
    for each in woven(((place, (place, message)) for place, message in placed), branches):
        if isinstance(each, Branch):
            inside = [_shown(message, longest) for message in each.messages[:MOST_MESSAGES]]
            yield {"part": "branch", "name": one_line(each.name, MAX_LABEL), "said": inside}
        else:
            place, message = each
            said = _shown(message, longest)
            told = [shortened(text, longest) for text in advised.get(place, ())]
            yield {**said, "reflected": False, "advised": told} if told else said
    if left := len(messages) - MOST_MESSAGES:
        yield from [{"part": "other", "text": f"{left} more messages are left out."}] if left > 0 else []


def _shown(message: ChatMessage, longest: int) -> dict[str, Any]:
    around = beside(message)
    notes = notes_of(message)
    added = added_to(around)
    content = without_added(message.get("content"), added)
    told: dict[str, Any] = {"part": part_of(message), "text": shortened(readable(content), longest)}
    anomaly = notes.get("anomaly")
    extra = {
        "calls": [_call(entry, longest) for entry in entries_in(message)],
        "tool": one_line(str(message.get("name") or ""), MAX_LABEL),
        "failed": bool(message.get("error")),
        "added": [shortened(text, longest) for text in added],
        "anomaly": _anomaly(anomaly, longest) if isinstance(anomaly, Mapping) else None,
        "suggested": [*_suggested(notes.get(SUGGESTED))],
        "scores": {name: value for name in SCORES if (value := _share(notes.get(name))) is not None},
        "reflected": bool(notes.get("reflected")) and not added,
        "tokens": tokens_of(message),
        "at": next((str(each[name])[:40] for each in (message, around) for name in TIMES if each.get(name)), ""),
    }
    return told | {name: value for name, value in extra.items() if value}


def _call(entry: Mapping[str, Any], longest: int) -> dict[str, Any]:
    arguments = arguments_of(entry)
    written = shortened(str(function_of(entry).get("arguments")), longest)
    if arguments is not None:
        arguments = shortened_in(arguments, longest)
        if len(text := json.dumps(arguments, default=str, ensure_ascii=False)) > 2 * longest + MAX_LABEL:
            arguments, written = None, shortened(text, longest)
    name = one_line(str(function_of(entry).get("name") or "no function"), MAX_LABEL)
    return {"tool": name, "arguments": written if arguments is None else arguments}


def _anomaly(noted: Mapping[str, Any], longest: int) -> dict[str, Any]:
    told = {name: one_line(str(noted.get(name) or ""), MAX_LABEL) for name in ("kind", "tool")}
    sure = noted.get("confidence")
    return {**told, "evidence": shortened(str(noted.get("evidence")), longest), "sure": _share(sure)}


def _suggested(noted: Any) -> Iterator[dict[str, Any]]:
    """How past runs went on, as it is noted beside a reply; notes come from a state, which anybody may have written."""
    for each in noted[:MOST_SUGGESTED] if isinstance(noted, list) else ():
        if isinstance(each, Mapping) and (share := _share(each.get("share"))) is not None:
            runs = each.get("runs")
            tool = one_line(str(each.get("tool")), MAX_LABEL)
            yield {"tool": tool, "share": share, "runs": runs if isinstance(runs, int) else 0}


def _share(value: Any) -> float | None:
    """A number in [0, 1], if it is one."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


def tokens_of(message: ChatMessage) -> int:
    """What a reply has cost, sent and received, as far as its model has reported it."""
    total = mapping_in(extras_of(message), "usage_metadata").get("total_tokens")
    return total if isinstance(total, int) else 0


def texts_of(run: Record) -> Iterator[str]:
    """All texts of a run that may be long."""
    yield from (run.task, run.reasons, run.instructions, str((run.overruled or {}).get("reasons") or ""))
    yield from (text for texts in _advised(run).values() for text in texts)
    for _, messages in run.dialogues():
        for message in messages:
            yield readable(message.get("content"))
            yield from (str(function_of(entry).get("arguments")) for entry in entries_in(message))


SCORES = ("r_pre", "r_post", "goal")
"""What a search has noted beside a reply that it planned."""

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
