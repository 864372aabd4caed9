"""The commands `show`, for a graph, a saved search or a file of runs, and `demo`, for a new search."""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from langchain_tooltree.cli.stores import is_store
from langchain_tooltree.cli.terminal import (
    Terminal,
    check_free,
    model_named,
    progress,
    table,
    using,
)
from langchain_tooltree.errors import ConfigurationError, described
from langchain_tooltree.experience.files import load_trajectories
from langchain_tooltree.experience.store import entry_of
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.pages.picture import to_svg
from langchain_tooltree.pages.records import MOST_RUNS, runs_page
from langchain_tooltree.pages.search import as_saved, read_search, to_html, to_mermaid, to_rich
from langchain_tooltree.sitgraph.files import FILE
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.text import counted, one_line

MOST_ROWS = 40  # of a table: about a screen
MAX_CELL = 60  # characters of a task or of the tools of a run: with what stands beside them, one line of 100
SEARCH_DRAWINGS = {".html": to_html, ".svg": to_svg, ".mmd": to_mermaid}  # how a search is drawn, by the file's ending
COSTS = ("rollouts", "nodes", "pruned_before", "pruned_after", "model_calls", "tokens", "tool_calls", "cache_hits")
DEMO_PAGE = Path("demo.html")

Drawings = Mapping[str, Callable[[], str]]


class Look(NamedTuple):
    """What something is: as plain data, as what is printed, and how it is drawn, by the ending of the file."""

    report: dict[str, Any]
    printed: Sequence[RenderableType]
    drawings: Drawings


def run_show(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Say what it is, and show it."""
    if options.draw:
        check_drawable(options.draw, force=options.force)
    look = look_at(options.what)
    terminal.print(*look.printed, sep="\n")
    if options.draw:
        draw(look.drawings, options.draw, terminal)
    return look.report, 0


def run_demo(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Search, and show tree, answer and cost; the search as plain data."""
    from langchain_tooltree import demo  # noqa: PLC0415 - no other command needs its world

    page = options.draw
    if page:
        check_drawable(page, force=options.force)
    elif not options.json and (options.force or not DEMO_PAGE.exists()):
        page = DEMO_PAGE
    model = model_named(options.model) if options.model else None
    speaker = options.model or "an offline stand-in that follows a few rules (use --model for a real model)"
    terminal.say(f"{demo.REQUEST}\nModel: {speaker}\n")
    with using(options.model), progress("asking the model"):
        search = as_saved(demo.solved(model))
    look = _look_at_search(search)
    terminal.print(*look.printed[1:], sep="\n")
    if page:
        draw(look.drawings, page, terminal)
    elif not options.json:
        terminal.say(f"{DEMO_PAGE} is there already: --force replaces it, --draw FILE.html names another one.")
    return search, 0


def check_drawable(path: Path, *, force: bool) -> None:
    """Refuse, before any work, a file that nothing can be drawn to."""
    check_free(path, force=force)
    if path.suffix not in SEARCH_DRAWINGS:
        msg = f"{path} must end with one of {', '.join(SEARCH_DRAWINGS)}: the ending says how it is drawn."
        raise ConfigurationError(msg)


def draw(drawings: Drawings, path: Path, terminal: Terminal) -> None:
    """Draw to a file, as its ending says, and say where it is."""
    if path.suffix not in drawings:
        ways = f"It can be drawn to {' or '.join(drawings)}." if drawings else "`langchain-tooltree view` can show it."
        msg = f"This cannot be drawn to {path.name}. {ways}"
        raise ConfigurationError(msg)
    path.write_text(drawings[path.suffix]().rstrip("\n") + "\n", encoding="utf-8")
    terminal.say(f"\nA page to explore: {path.absolute().as_uri()}" if path.suffix == ".html" else f"Drawn to {path}")


def look_at(what: str) -> Look:
    """What stands at a path or an address."""
    path = Path(what)
    if is_store(what):
        msg = f"{what} is an experience: `langchain-tooltree view` shows it."
        raise ConfigurationError(msg)
    if is_graph(path):
        return _look_at_graph(path)
    if path.is_dir():
        msg = (
            f"{path} is a folder without a graph. Pass one that SITGraph.save has filled, or a file in it; "
            f"`langchain-tooltree view {path}` lists the searches and runs in a folder."
        )
        raise ConfigurationError(msg)
    if search := read_search(path):
        try:
            look = _look_at_search(search)
            for drawing in look.drawings.values():
                drawing()
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # a file may hold anything
            msg = one_line(f"{path} is no search as SearchResult.to_dict() gives it ({described(error)}).", 300)
            raise ConfigurationError(msg) from error
        return look
    return _look_at_runs(path)


def is_graph(path: Path) -> bool:
    """Whether it is the folder of a graph."""
    return (path / FILE).exists()


def _look_at_search(search: Mapping[str, Any]) -> Look:
    answer = search["nodes"][[0, *search["best"]][-1]].get("answer") or "The plan waits for approval."
    costs = ", ".join(f"{search['cost'][name]:,} {name.replace('_', ' ')}" for name in COSTS)
    printed: list[RenderableType] = [
        Text(f"{search['query']}\n", "bold"),
        to_rich(search),
        Text("✔ the plan", "dim"),
        Text(f"\n{answer}\n", "bold green"),
        Text(f"{costs}. Stopped: {search['stop_reason']}."),
    ]
    drawings = {ending: partial(way, search) for ending, way in SEARCH_DRAWINGS.items()}
    return Look({"kind": "search", **search}, printed, drawings)


def _look_at_graph(path: Path) -> Look:
    graph = SITGraph.load(path)
    ordered = sorted(graph.to_networkx().edges(data=True), key=lambda edge: (-edge[2]["count"], edge[0], edge[1]))
    edges = [{"after": source, "comes": target, **figures} for source, target, figures in ordered]
    rows = (
        (edge["after"] or "(start)", edge["comes"], f"{edge['weight']:.2f}", edge["count"], edge["summaries"])
        for edge in edges[:MOST_ROWS]
    )
    printed = (
        table(("after", "comes", "weight", "count", "summaries"), rows),
        f"{counted(len(graph), 'run')}, {counted(len(edges), 'edge')}; {len(edges[:MOST_ROWS])} of them are shown.",
    )
    drawings: Drawings = {".html": partial(page_by, graph.to_html), ".mmd": graph.to_mermaid}
    return Look({"kind": "graph", "runs": len(graph), "edges": edges}, printed, drawings)


def page_by(write: Callable[[Path], None]) -> str:
    """The page that an object writes to a file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        write(file)
        return file.read_text(encoding="utf-8")


def _look_at_runs(path: Path) -> Look:
    """The runs in a file; a page has room for the latest, each in its latest version."""
    unread, runs = Counter[str](), list[dict[str, Any]]()
    latest, endings = dict[str, Trajectory](), dict[str, str]()
    for run in load_trajectories(path, unread=unread):
        outcome = {True: "success", False: "failure", None: "unknown"}[run.success]
        runs.append({"id": run.id, "outcome": outcome, "task": run.task, "tools": [step.tool for step in run.steps]})
        endings[run.id] = entry_of(run, "").outcome
        latest.pop(run.id, None)
        latest[run.id] = run
        if len(latest) > MOST_RUNS:
            del latest[next(iter(latest))]
    rows = [
        (run["id"], run["outcome"], one_line(run["task"], MAX_CELL), one_line(" → ".join(run["tools"]), MAX_CELL))
        for run in runs[:MOST_ROWS]
    ]
    outcomes = Counter(run["outcome"] for run in runs)
    printed: list[RenderableType] = [
        table(("run", "outcome", "task", "tools"), rows),
        f"{counted(len(runs), 'run')}: {counts(outcomes)}; {len(rows)} of them are shown.",
        *(f"Cannot be used: {count} {kind}." for kind, count in sorted(unread.items())),
    ]
    report = {"kind": "trajectories", "outcomes": outcomes, "not_used": unread, "runs": runs}
    page = partial(runs_page, path.name, [*latest.values()], Counter(endings.values()))
    return Look(report, printed, {".html": page})


def counts(of: Mapping[str, int]) -> str:
    """How many there are of each kind, in words."""
    return ", ".join(f"{count} {name}" for name, count in sorted(of.items()))
