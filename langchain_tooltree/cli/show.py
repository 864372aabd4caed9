"""`langchain-tooltree show`: what is in a graph, a saved search, an experience or a file of runs."""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from subprocess import list2cmdline
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from langgraph.store.base import BaseStore
from rich.progress import SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from langchain_tooltree.cli.addresses import Looked, opened
from langchain_tooltree.cli.terminal import Terminal, check_writable, embeddings_named, ids, progress, table
from langchain_tooltree.errors import ConfigurationError, ToolTreeError, described
from langchain_tooltree.experience.files import load_trajectories
from langchain_tooltree.experience.store import TASKS, ExperienceStore, entry_of, listing
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, FunctionStep, run_flow
from langchain_tooltree.learning.copying import held_in
from langchain_tooltree.learning.experience import Experience
from langchain_tooltree.learning.experience_page import MOST_RUNS, page_of_runs
from langchain_tooltree.pages.draw import figures, to_mermaid, to_rich
from langchain_tooltree.pages.saved import read_search, undamaged
from langchain_tooltree.pages.tree_page import to_html
from langchain_tooltree.pages.tree_svg import to_svg
from langchain_tooltree.sitgraph.files import MANIFEST
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.stores.chroma.connection import DATABASE, copied_still
from langchain_tooltree.text import counted, one_line

T = TypeVar("T")

SHOWN = 40
"""Rows of a table: about a screen."""

LONGEST = 60
"""Characters of a task or of the tools of a run in a row: with what stands beside them, it stays on one line of 100."""

DRAWN: Mapping[str, Callable[[Mapping[str, Any]], str]] = {".html": to_html, ".svg": to_svg, ".mmd": to_mermaid}
"""How a search is drawn, by the ending of the file."""

OPENS = {"darwin": "open", "win32": "explorer"}.get(sys.platform, "xdg-open")
"""The system's command that shows a page in a browser."""

Pictures = Mapping[str, Callable[[], str]]
Printed = Callable[[Mapping[str, Any], Terminal], None]

OUTCOMES = {True: "success", False: "failure", None: "unknown"}


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Tell what it is, and show it."""
    if options.draw:
        check_drawable(options.draw, force=options.force)
    told, printed, pictures = looked_at(options)
    if options.draw:
        write_picture(pictures, options.draw)
    if not options.mermaid:
        printed(told, terminal)
        print_drawn(options.draw, terminal)
    elif ".mmd" in pictures:
        terminal.print(pictures[".mmd"](), markup=False, highlight=False, emoji=False, soft_wrap=True)
    else:
        msg = f"There is no chart of {options.what}: --mermaid is for graphs and searches."
        raise ConfigurationError(msg)
    return told, 0


def is_store(what: str | Path) -> bool:
    """Whether it is the address or the folder of a store."""
    return "://" in str(what) or (Path(what) / DATABASE).exists()


def opens_alone(what: str | Path) -> bool:
    """Whether it is one thing, a store or a graph, and no folder of others."""
    return is_store(what) or (Path(what) / MANIFEST).exists()


def looked_at(options: argparse.Namespace) -> tuple[dict[str, Any], Printed, Pictures]:
    """What was given, as plain data; how it is printed, and how it is drawn."""
    path = Path(options.what)
    if is_store(options.what):
        spaces = reading(options.what, namespaces_in)
        told = {"kind": "experience", "namespaces": spaces}
        return told, _print_experience, {".html": partial(_only_page, spaces, options)}
    if (path / MANIFEST).exists():
        graph = SITGraph.load(path, embeddings=embeddings_named(options.embeddings))
        page = partial(_page_by, graph.to_html)
        return _graph(graph), _print_graph, {".html": page, ".mmd": graph.to_mermaid, ".svg": graph.to_svg}
    if path.is_dir():
        msg = (
            f"{path} is a folder without a graph or a store. Pass one that SITGraph.save or ChromaStore has filled, or "
            f"a file in it; `langchain-tooltree view {path}` lists the searches and runs in a folder."
        )
        raise ConfigurationError(msg)
    if found := read_search(path):
        pictures = {ending: undamaged(path)(draw) for ending, draw in pictures_of(found).items()}
        return {"kind": "search", **found}, undamaged(path)(_print_found), pictures
    runs, latest, outcomes = _trajectories(path)
    return runs, _print_trajectories, {".html": partial(page_of_runs, path.name, [*latest.values()], outcomes)}


def _page_by(write: Callable[[Path], None]) -> str:
    """The page that an object writes to a file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        write(file)
        return file.read_text(encoding="utf-8")


def _only_page(namespaces: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> str:
    if len(namespaces) == 1:
        return experience_page(options, namespaces[0]["namespace"])
    msg = (
        f"The store holds {len(namespaces)} namespaces, and a page shows one. `langchain-tooltree view` shows all, and "
        "Experience(...).within(...).to_html(...) writes the page of one."
    )
    raise ConfigurationError(msg)


def experience_page(options: argparse.Namespace, namespace: Sequence[str]) -> str:
    """The page of one namespace of the store at an address."""
    embeddings = embeddings_named(options.embeddings)

    def drawn(store: BaseStore) -> Flow[str]:
        experience = Experience(ExperienceStore(store, namespace=namespace), embeddings=embeddings)
        text: str = yield FunctionStep(_page_by, experience.to_html)
        return text

    return reading(options.what, drawn)


def pictures_of(found: Mapping[str, Any]) -> Pictures:
    """How a search, as plain data, is drawn to files, by their endings."""
    return {ending: partial(draw, found) for ending, draw in DRAWN.items()}


def check_drawable(path: Path, *, force: bool) -> None:
    """Refuse, before any work, a file that no picture can be written to."""
    check_writable(path, force=force)
    if path.suffix not in DRAWN:
        msg = f"{path} must end with one of {', '.join(DRAWN)}: the ending says how it is drawn."
        raise ConfigurationError(msg)


def write_picture(pictures: Pictures, path: Path) -> None:
    """Draw to a file, as its ending says."""
    if path.suffix not in pictures:
        msg = f"This cannot be drawn to {path.name}. It can be drawn to {' or '.join(pictures)}."
        raise ConfigurationError(msg)
    text = pictures[path.suffix]()
    path.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")


def print_drawn(path: Path | None, terminal: Terminal) -> None:
    """Say where the picture is, if one was drawn."""
    if path:
        command = (list2cmdline if sys.platform == "win32" else shlex.join)([OPENS, str(path)])
        told = f"\nA page to explore:\n\n{command}" if path.suffix == ".html" else f"Drawn to {path}"
        terminal.print(told, markup=False, highlight=False, soft_wrap=True)


def _graph(graph: SITGraph) -> dict[str, Any]:
    edges = sorted(graph.to_networkx().edges(data=True), key=lambda edge: (-edge[2]["count"], edge[0], edge[1]))
    return {
        "kind": "graph",
        "runs": len(graph),
        "edges": [{"after": source, "comes": target, **figures} for source, target, figures in edges],
    }


def _print_graph(told: Mapping[str, Any], terminal: Terminal) -> None:
    edges = told["edges"]
    rows = table("after", "comes", "weight", "times", "summaries")
    for edge in edges[:SHOWN]:
        figures = (f"{edge['weight']:.2f}", *(str(edge[name]) for name in ("count", "summaries")))
        rows.add_row(*map(Text, (edge["after"] or "(start)", edge["comes"], *figures)))
    terminal.print(rows)
    some = f"; the {SHOWN} followed most are shown" if len(edges) > SHOWN else ""
    terminal.print(f"{counted(told['runs'], 'run')}, {counted(len(edges), 'edge')}{some}.")


def _print_found(found: Mapping[str, Any], terminal: Terminal) -> None:
    print_search(found, terminal, title=f"{found['query']}\n")


def print_search(found: Mapping[str, Any], terminal: Terminal, *, title: str = "") -> None:
    """Show tree, answer and cost of a search, as plain data. What is damaged raises before anything is printed."""
    tree, costs = to_rich(found), _cost_table(found)
    end = found["nodes"][[0, *found["best"]][-1]]
    answer = end.get("answer") or "The plan waits for approval."
    if title:
        terminal.print(title, style="bold", markup=False)
    terminal.print(tree)
    scores = "Q mean reward, N visits, r_pre / r_post scores before / after the call, "
    has_scores = any(map(figures, found["nodes"]))  # a search in the agent's own loop has none
    terminal.print(f"[dim]{scores if has_scores else ''}✔ the plan[/]")
    terminal.print(f"\n{answer}\n", style="bold green", markup=False)
    terminal.print(costs)


def _cost_table(found: Mapping[str, Any]) -> Table:
    cost = found["cost"]
    pruned = f"{cost['pruned_before']} / {cost['pruned_after']}"
    counts = [cost[name] for name in ("model_calls", "tokens", "tool_calls", "cache_hits")]
    row = table("rollouts", "nodes", "pruned before / after", "model calls", "tokens", "tool calls", "cached", "stop")
    row.add_row(*map(str, (cost["rollouts"], cost["nodes"], pruned, *counts, found["stop_reason"])))
    return row


def reading(address: str, read: Callable[[BaseStore], Flow[T]]) -> T:
    """What is read of the store at an address, and nothing is changed there, nor is anybody kept from opening it.

    Raises:
        ConfigurationError: If there is no store, or it does not answer.
    """
    try:
        is_folder = "://" not in address and is_store(address)  # opening it writes to it, and keeps its agent out
        still = copied_still(Path(address)) if is_folder else nullcontext(address)
        with still as place, opened(place, exists=True) as store:
            return run_flow(read(Looked(store)))
    except (ToolTreeError, OSError, ImportError):
        raise
    except Exception as error:  # whatever a database raises
        msg = f"The store cannot be read ({' '.join(described(error).split())}). Does it run, and hold an experience?"
        raise ConfigurationError(msg) from error


def namespaces_in(store: BaseStore) -> Flow[list[dict[str, Any]]]:
    """What is in each namespace of a store, as a flow; `changed` is when a run was kept or judged last."""
    told = []
    for root, labels in (yield from held_in(store)).items():
        items = yield from listing(store, (*root, TASKS))
        runs = [{"id": item.key, **{name: item.value.get(name) for name in ("outcome", "task")}} for item in items]
        others = {}
        for each in labels:
            others[each] = len((yield from listing(store, (*root, each))))
        changed = max((item.updated_at.isoformat(timespec="seconds") for item in items), default="")
        counted = {"outcomes": Counter(run["outcome"] for run in runs), "others": others, "changed": changed}
        told.append({"namespace": [*root], **counted, "runs": runs})
    return told


def _print_experience(told: Mapping[str, Any], terminal: Terminal) -> None:
    namespaces = told["namespaces"]
    run = ids((each["id"] for space in namespaces for each in space["runs"]), terminal)
    rows = table("namespace", run, "outcome", "task")
    for space in namespaces:
        for each in space["runs"][: SHOWN - rows.row_count]:
            outcome, task = str(each["outcome"]), one_line(str(each["task"]), LONGEST)
            rows.add_row(*map(Text, ("/".join(space["namespace"]), each["id"], outcome, task)))
    terminal.print(rows)
    summary = table("namespace", "runs", "outcomes", "beside them")
    for space in namespaces[:SHOWN]:
        outcomes, others = (counts(space[name]) for name in ("outcomes", "others"))
        summary.add_row(*map(Text, ("/".join(space["namespace"]), str(len(space["runs"])), outcomes, others)))
    terminal.print(summary)
    runs = counted(sum(len(space["runs"]) for space in namespaces), "run")
    terminal.print(f"{runs} in {counted(len(namespaces), 'namespace')}; {rows.row_count} of the runs are shown.")


def _trajectories(path: Path) -> tuple[dict[str, Any], dict[str, Trajectory], Counter[str]]:
    """What is in a file; those of its runs that a page has room for, in their latest version; and how all ended."""
    unread = Counter[str]()
    latest: dict[str, Trajectory] = {}
    ended: dict[str, str] = {}
    runs: list[dict[str, Any]] = []
    if path.suffix in {*DRAWN, ".png"} and path.is_file():
        msg = f"{path} is a picture or a page, which a browser opens. Here, pass a graph, a search or a file of runs."
        raise ConfigurationError(msg)
    with progress(TextColumn("{task.description} {task.completed}"), SpinnerColumn()) as shown:
        for run in shown.track(load_trajectories(path, unread=unread), description="runs read:"):
            tools = [step.tool for step in run.steps]
            runs.append({"id": run.id, "outcome": OUTCOMES[run.success], "task": run.task, "tools": tools})
            latest.pop(run.id, None)
            latest[run.id] = run
            ended[run.id] = entry_of(run, "").outcome
            if len(latest) > MOST_RUNS:
                del latest[next(iter(latest))]
    outcomes = Counter(run["outcome"] for run in runs)
    return (
        {"kind": "trajectories", "outcomes": outcomes, "not_used": unread, "runs": runs},
        latest,
        Counter(ended.values()),
    )


def _print_trajectories(told: Mapping[str, Any], terminal: Terminal) -> None:
    rows = table(ids((each["id"] for each in told["runs"]), terminal), "outcome", "task", "tools")
    for each in told["runs"][:SHOWN]:
        task, tools = one_line(each["task"], LONGEST), one_line(" → ".join(each["tools"]), LONGEST)
        rows.add_row(*map(Text, (each["id"], each["outcome"], task, tools)))
    terminal.print(rows)
    runs = counted(len(told["runs"]), "run")
    terminal.print(f"{runs}: {counts(told['outcomes'])}; {rows.row_count} of them are shown.")
    for kind, count in sorted(told["not_used"].items()):
        terminal.print(f"Cannot be used: {count} {kind}.")


def counts(of: Mapping[str, int]) -> str:
    """How many there are of each kind, in words."""
    return ", ".join(f"{count} {name}" for name, count in sorted(of.items())) or "none"
