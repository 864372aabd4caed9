"""The command `view`: searches, graphs, runs and experiences as pages in a browser.

One thing has one page. A folder of them, or an experience, has a list, and a page for each of the latest. They are
files that a browser reads by itself: nothing is served, and nothing runs on behind the command.
"""

import argparse
import tempfile
import webbrowser
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore

from langchain_tooltree.cli.stores import is_store, namespaces_of, read_store
from langchain_tooltree.cli.terminal import Terminal, check_free, progress
from langchain_tooltree.errors import ConfigurationError, ToolTreeError, described
from langchain_tooltree.experience.files import load_trajectories
from langchain_tooltree.experience.store import (
    TASKS,
    ExperienceStore,
    entry_of,
    listing,
)
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import run_flow
from langchain_tooltree.learning.experience import Experience
from langchain_tooltree.pages import page
from langchain_tooltree.pages.records import MAX_LISTED_RUNS, runs_page
from langchain_tooltree.pages.search import search_in, to_html
from langchain_tooltree.pages.writer import render_page_flow
from langchain_tooltree.sitgraph.files import FILE
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.text import counted, one_line

INDEX, PAGE = (
    "index.html",
    "tooltree-{}.html",
)  # the page that is opened, and those that it leads to
FILES = (".json", ".jsonl", ".jsonl.gz")
MOST_FILES, MOST_NAMESPACES = (
    100,
    20,
)  # with pages, the latest: one takes 10 to 30 ms, and with 1,000 runs a second
MAX_CELL_CHARACTERS = (
    200  # characters of a request, or of a plan, in a row: two or three lines
)
NOTHING_TO_VIEW = "Nothing is here yet: no search (record_searches=FOLDER), file of runs, graph or experience."

Pages = dict[str, str]
"""Pages by the names of their files; the index stands first."""


def run_view(
    options: argparse.Namespace, terminal: Terminal
) -> tuple[dict[str, Any], int]:
    """Write the page, or the list and its pages, by default to temporary files of the user's own, and open it."""
    output = options.output
    if output:
        check_free(output, force=options.force)
    with progress("reading"):
        kind, pages = pages_of(options.what)
    if output and kind not in {
        "folder",
        "experience",
    }:  # these are lists, also while there is nothing in them
        first = output
        first.write_text(pages[INDEX], encoding="utf-8")
    else:
        folder = output or Path(tempfile.mkdtemp(prefix="tooltree-view-"))
        folder.mkdir(exist_ok=True)
        for old in folder.glob(PAGE.format("*")):
            old.unlink()
        for name, text in pages.items():
            (folder / name).write_text(text, encoding="utf-8")
        first = folder / INDEX
    address = first.absolute().as_uri()
    opened = not (output or options.no_browser or options.json) and webbrowser.open(
        address
    )
    terminal.say(
        f"{'Opened in your browser' if opened else 'A page to explore'}: {address}"
    )
    return {"kind": kind, "page": address}, 0


def pages_of(what: str) -> tuple[str, Pages]:
    """What something is, and its pages."""
    path = Path(what)
    if is_store(what):
        return "experience", read_store(what, _in_store)
    if path.is_dir() and not is_graph(path):
        return "folder", _in_folder(path)
    search = None if path.is_dir() else search_in(path)
    return "graph" if path.is_dir() else "search" if search else "trajectories", {
        INDEX: page_of(path, search)
    }


def is_graph(path: Path) -> bool:
    """Whether it is the folder of a graph."""
    return (path / FILE).exists()


def page_of(path: Path, search: Mapping[str, Any] | None) -> str:
    """The page of a graph, of a `search` in a file, or of the latest runs in one, each in its latest version."""
    if is_graph(path):
        return run_flow(render_page_flow(SITGraph.load(path)))
    if search:
        try:
            return to_html(search)
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
        ) as error:  # a file may hold anything
            msg = one_line(
                f"{path} is no search as SearchResult.to_dict() gives it ({described(error)}).",
                300,
            )
            raise ConfigurationError(msg) from error
    latest, outcomes = dict[str, Trajectory](), dict[str, str]()
    for run in load_trajectories(path, unread=Counter()):
        outcomes[run.id] = entry_of(run, "").outcome
        latest.pop(run.id, None)
        latest[run.id] = run
        if len(latest) > MAX_LISTED_RUNS:
            del latest[next(iter(latest))]
    if not latest:
        msg = f"Nothing in {path} can be read as a search, a graph or a run."
        raise ConfigurationError(msg)
    return runs_page(path.name, [*latest.values()], Counter(outcomes.values()))


def _list_files(
    name: str, rows: Sequence[Mapping[str, Any]], pages: Mapping[str, str], more: int
) -> Pages:
    """The list of a folder or of a store before its pages; `more` things are older than those in it."""
    data = {"name": name, "entries": rows, "more": more, "none": NOTHING_TO_VIEW}
    return {INDEX: page("list", f"In {name}", data), **pages}


async def _in_store(store: BaseStore) -> Pages:
    """The namespaces of a store, that in which a run was kept or judged last first."""
    rows: list[dict[str, Any]] = []
    pages = Pages()
    for namespace in await namespaces_of(store):
        runs = await listing(store, (*namespace, TASKS))
        outcomes = Counter(str(run.value.get("outcome")) for run in runs)
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
        written = max(
            (run.updated_at.isoformat(timespec="milliseconds") for run in runs),
            default="",
        )
        plan = f"{counted(len(runs), 'run')}: {kinds}"
        rows.append(
            {
                "name": namespace,
                "written": written,
                "title": " / ".join(namespace),
                "plan": plan,
            }
        )
    shown = sorted(rows, key=lambda row: row["written"], reverse=True)[:MOST_NAMESPACES]
    for number, row in enumerate(shown, 1):
        experience = Experience(ExperienceStore(store, namespace=row["name"]))
        row["page"] = PAGE.format(number)
        pages[row["page"]] = await render_page_flow(experience)
    return _list_files("this store", shown, pages, len(rows) - len(shown))


def _in_folder(folder: Path) -> Pages:
    """A folder of searches, graphs and files of runs, the newest first. Links lead out, and are left alone."""
    changed: dict[Path, float] = {}
    for path in folder.iterdir():
        with suppress(OSError):  # an agent may be at it
            if not (path.name.startswith(".") or path.is_symlink()) and (
                is_graph(path) or path.name.endswith(FILES)
            ):
                changed[path] = path.stat().st_mtime
    rows: list[dict[str, Any]] = []
    pages, more = Pages(), 0
    for path in sorted(
        changed, key=lambda path: (changed[path], path.name), reverse=True
    ):
        if len(rows) == MOST_FILES:
            more += 1
            continue
        written = datetime.fromtimestamp(changed[path], UTC).isoformat(
            timespec="seconds"
        )
        row = {"name": path.name, "written": written}
        try:
            search = search_in(path) if path.suffix == ".json" else None
            if search is None and path.suffix == ".json":
                continue
            text, about = page_of(path, search), _about(path, search)
        except (
            ToolTreeError,
            OSError,
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
        ):  # a file may hold anything
            rows.append(row | {"stop_reason": "cannot be read"})
            continue
        name = PAGE.format(len(pages) + 1)
        pages[name] = text
        rows.append({**row, "page": name, **about})
    return _list_files(str(folder), rows, pages, more)


def _about(path: Path, search: Mapping[str, Any] | None) -> dict[str, str]:
    """What a row says of a search; of others the kind."""
    if path.is_dir():
        return {"kind": "a tool graph"}
    if search is None:
        return {"kind": "runs", "plan": f"{path.stat().st_size / 1e6:,.1f} MB"}
    recorded, cost, nodes = search.get("recorded", {}), search["cost"], search["nodes"]
    tools = [
        nodes[node]["call"]["tool"] for node in search["best"] if nodes[node]["call"]
    ]
    return {
        name: str(recorded[name])
        for name in ("written", "thread")
        if recorded.get(name)
    } | {
        "title": one_line(search["query"], MAX_CELL_CHARACTERS),
        "plan": one_line(" → ".join(tools), MAX_CELL_CHARACTERS),
        "cost": f"{cost['model_calls']:,} model calls, {cost['tokens']:,} tokens",
        "stop_reason": search["stop_reason"],
    }
