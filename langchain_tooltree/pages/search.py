"""Searches as plain data (`SearchResult.to_dict()`): as files, as a page, as a picture, and in a terminal.

They are drawn of the data, so that a search that was saved looks like a live one.
"""

import json
import logging
import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_tooltree.errors import described, import_extra
from langchain_tooltree.messages.content import describe_content
from langchain_tooltree.pages import page
from langchain_tooltree.secrets import masked
from langchain_tooltree.text import (
    LONGEST_TEXT,
    call_label,
    counted,
    digest,
    one_line,
    shortened,
    to_plain_data,
    visible,
    visible_lines,
)

if TYPE_CHECKING:
    from rich.tree import Tree


logger = logging.getLogger(__name__)

SEARCH_FORMAT_VERSION = 1  # version of a search as JSON: what `SearchResult.to_dict()` gives, and this number as `version`
KEPT_FILES = 1_000  # searches that a folder keeps, the latest: some hundred megabytes, at 0.1 to 0.3 MB each
MAX_CALL_LABEL = 60  # characters of a call in a terminal, of which a line has some 90
MAX_OBSERVATION = 70  # characters of an observation in a terminal: with its indentation, it stays on one line of 100
COLUMNS = 92  # characters in a line of a picture
MAX_IN_PICTURE = 400  # characters of a request and of an answer there: some five lines
MAX_ON_PAGE = 200  # characters of a call in one line of a page, where its arguments stand beside it
MOST_DROPPED = 20  # proposals that came to nothing and are named on a page
REASONS = {
    "pre_evaluation": "pruned before",
    "top_k": "pruned before: not in top k",
    "post_evaluation": "pruned after",
}

_TIME = "%Y%m%dT%H%M%S%fZ"
_OWN = re.compile(
    r"\.?\d{8}T\d{12}Z-[0-9a-f]{16}\.json(\.\w+)?"
)  # also what a process did not finish writing


# --- files ---


def search_in(path: Path) -> dict[str, Any] | None:
    """What looks like a search in a file; `None` if nothing does. Damage within it shows where it is drawn."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            first = file.readline()
            # A document on many lines is read whole, but not a large file with a run on each line.
            data = json.loads(first + (file.read() if first.strip() == "{" else ""))
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and {"nodes", "best"} <= data.keys() else None


def record(
    folder: Path, search: Mapping[str, Any], *, key: str, thread: str = ""
) -> None:
    """Write a search to its file in a folder: whole or not at all, and for its owner alone to read.

    What cannot be written is logged, and breaks nothing. The call blocks: on an event loop, make it in a thread.
    Where a killed process is repeated, the `key` of a search, and its `thread`, have its file be written again.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        name, now = digest([thread, key], 16), datetime.now(UTC)
        path = next(
            folder.glob(f"*-{name}.json"), folder / f"{now:{_TIME}}-{name}.json"
        )
        recorded = {
            "written": now.isoformat(timespec="seconds"),
            "thread": thread or None,
        }
        _replace(
            path,
            json.dumps(
                masked(
                    to_plain_data(
                        {
                            "version": SEARCH_FORMAT_VERSION,
                            **search,
                            "recorded": recorded,
                        }
                    )
                )
            ),
        )
        own = [each for each in folder.iterdir() if _OWN.fullmatch(each.name)]
        for oldest in sorted(own, key=lambda each: each.name.lstrip("."))[:-KEPT_FILES]:
            with suppress(OSError):  # another process may be at it, too
                oldest.unlink()
    except Exception as error:  # noqa: BLE001 - a disk, a result that cannot be written: the agent goes on
        logger.warning(
            "Searches cannot be recorded in %s: %s", folder, described(error)
        )


def _replace(path: Path, text: str) -> None:
    handle, scratch = tempfile.mkstemp(
        prefix=f".{path.name}.", dir=path.parent
    )  # which its owner alone may read
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(scratch).replace(path)
    finally:
        Path(scratch).unlink(missing_ok=True)


# --- trees, pictures and pages ---


def to_rich(search: Mapping[str, Any]) -> "Tree":
    """A search as a tree that `rich.print` shows, the nodes of the best path marked."""
    import_extra("rich", "cli", "to_rich")
    from rich.markup import escape  # noqa: PLC0415 - only who looks at a search in a terminal needs it
    from rich.tree import Tree  # noqa: PLC0415 - as above

    branches = {0: Tree("[bold]request[/bold]", guide_style="dim")}
    for node in search["nodes"][1:]:
        is_best = node["id"] in search["best"]
        style = "bold green" if is_best else "dim" if node["pruned"] else "default"
        scores, fate = figures(node), status(node)
        notes = (
            f"[cyan]{scores}[/]" if scores else "",
            f"[yellow]{escape(fate)}[/]" if fate else "",
        )
        lines = (
            f"[{style}]{'✔ ' if is_best else ''}{escape(one_line(label(node), MAX_CALL_LABEL))}[/]",
            f"[dim]{escape(one_line(seen(node), MAX_OBSERVATION))}[/]"
            if node["observation"]
            else "",
            "  ".join(filter(None, notes)),
        )
        text = visible_lines(
            "\n".join(filter(None, lines))
        )  # whatever console prints it
        branches[node["id"]] = branches[node["parent"]].add(text)
    return branches[0]


def to_svg(search: Mapping[str, Any]) -> str:
    """A search as an SVG picture of a terminal, which refers to nothing outside itself; equal searches look equal."""
    import_extra("rich", "cli", "to_svg")
    from rich.console import CONSOLE_SVG_FORMAT, Console  # type: ignore[attr-defined]  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    nodes, plan = search["nodes"], [search["nodes"][place] for place in search["best"]]
    answer = str(nodes[[0, *search["best"]][-1]].get("answer", ""))
    model_calls, stop = search["cost"].get("model_calls"), search["stop_reason"]
    counts = [
        f"{counted(len(nodes) - 1, 'call')} considered",
        f"{sum(node['observation'] is not None for node in nodes)} run",
        f"{sum(node['pruned'] is not None for node in nodes)} pruned",
        f"{model_calls} model calls" if model_calls else "",
        f"stopped: {stop}" if stop else "",
    ]
    summary = " · ".join(filter(None, counts))
    console = Console(
        record=True, file=StringIO(), width=COLUMNS, highlight=False, emoji=False
    )
    texts = (
        ("bold", search["query"]),
        ("bold green", answer),
        ("dim", f"✔ the plan · {summary}"),
    )
    query, reply, legend = (
        Text(visible(one_line(text, MAX_IN_PICTURE)), style) for style, text in texts
    )
    console.print(
        query, to_rich(search), *([reply] if answer else []), legend, sep="\n"
    )
    calls = ", then ".join(map(label, plan)) or "none"
    about = f"Search tree: {search['query']}. {summary}. The plan: {calls}. {f'The answer: {answer}' if answer else ''}"
    about = visible(one_line(about, 10 * MAX_IN_PICTURE))
    name = f"tt-{digest([about, search['nodes']], 10)}"  # several may stand in one page
    # Without the fonts that rich's frame of a terminal fetches from elsewhere.
    frame = re.sub(
        r"<!--.*?-->|@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL
    )
    svg = console.export_svg(title="", code_format=frame, unique_id=name)
    svg = svg.replace("<svg ", f'<svg role="img" aria-labelledby="{name}-about" ', 1)
    return svg.replace(
        "<style>", f'<title id="{name}-about">{escape(about)}</title>\n<style>', 1
    )


def to_html(search: Mapping[str, Any]) -> str:
    """A search as one page without references to elsewhere."""
    data = {
        "query": shortened(search["query"], 20 * LONGEST_TEXT),
        "stop_reason": search["stop_reason"],
        "cost": search["cost"],
        "plan": search["best"],
        "alternatives": search["alternatives"],
        "history": search["history"],
        "nodes": [_on_page(node) for node in search["nodes"]],
    }
    return page("search", f"Search: {one_line(search['query'], MAX_ON_PAGE)}", data)


def _on_page(node: Mapping[str, Any]) -> dict[str, Any]:
    call, observation = node["call"], node["observation"]
    shown: dict[str, Any] = {"id": node["id"], "parent": node["parent"]}
    if call:
        arguments = json.dumps(
            call["arguments"], indent=2, default=str, ensure_ascii=False
        )
        shown |= {
            "tool": shortened(call["tool"], MAX_ON_PAGE),
            "arguments": arguments,
            "effect": call["effect"],
        }
        shown["label"] = one_line(label(node), MAX_ON_PAGE)
    if observation:
        shown |= {"seen": seen(node), "kind": observation.get("kind", "ok")}
    scored = zip(("r_pre", "r_post", "goal"), (*node["scored"], True), strict=True)
    shown["scores"] = {
        name: node[name] for name, given in scored if given and node[name] is not None
    }
    if node["N"]:
        shown["scores"] |= {"Q": node["Q"], "N": node["N"]}
    dropped = Counter(node["dropped"][:MOST_DROPPED])
    extra = {
        "figures": figures(node),
        "fate": fate(node),
        "pruned": node["pruned"],
        "reasons": node.get("reasons"),
        "missing": node.get("missing"),
        "dropped": [
            f"{text} ({times} times)" if times > 1 else text
            for text, times in dropped.items()
        ],
    }
    answer = {"answer": node["answer"]} if "answer" in node else {}
    return {
        **shown,
        **answer,
        **{name: value for name, value in extra.items() if value},
    }


def label(node: Mapping[str, Any]) -> str:
    """The call of a node in one line."""
    return call_label(node["call"]["tool"], node["call"]["arguments"])


def seen(node: Mapping[str, Any]) -> str:
    """What a call has brought back, as text."""
    return (
        describe_content(node["observation"]["content"]) if node["observation"] else ""
    )


def figures(node: Mapping[str, Any]) -> str:
    """Q, N, r_pre, r_post and goal score of a node; a score that nobody gave is left out."""
    pre_scored, post_scored = node["scored"]
    given = (("r_pre", pre_scored), ("r_post", post_scored), ("goal", True))
    parts = [
        f"{name}={node[name]:.2f}"
        for name, scored in given
        if scored and node[name] is not None
    ]
    return " ".join(
        [f"Q={node['Q']:.2f} N={node['N']}", *parts] if node["N"] else parts
    )


def status(node: Mapping[str, Any]) -> str:
    """What became of a node, if that is worth a word."""
    missing = "; ".join(node.get("missing", ()))
    answered = [
        "answered" if "answer" in node else "",
        f"missing: {missing}" if missing else "",
    ]
    return ", ".join(
        filter(
            None,
            (fate(node), one_line(", ".join(filter(None, answered)), MAX_CALL_LABEL)),
        )
    )


def fate(node: Mapping[str, Any]) -> str:
    """What became of the call of a node, answers aside."""
    notes = [
        "in the same reply" if node.get("batched") else "",
        "write, not run" if node["call"] and node["call"]["effect"] == "write" else "",
        REASONS[node["pruned"]]
        if node["pruned"]
        else (node["observation"] or {}).get("kind", ""),
    ]
    return ", ".join(filter(None, notes))
