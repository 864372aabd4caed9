"""The command `view`: searches, graphs, runs and experiences in a browser.

A page is made when it is asked for, so that it shows what agents have written by then. The server listens on
the loopback address, to be read, and to no page of others.
"""

import argparse
import os
import sys
import threading
import time
import webbrowser
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from langgraph.store.base import BaseStore

from langchain_tooltree.cli.stores import is_store, namespaces_of, read_store
from langchain_tooltree.cli.terminal import Terminal, check_free
from langchain_tooltree.errors import ConfigurationError, ToolTreeError, described
from langchain_tooltree.experience.files import load_trajectories
from langchain_tooltree.experience.run_identity import Namespace
from langchain_tooltree.experience.store import TASKS, ExperienceStore, entry_of, listing
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.flows import Flow, in_thread
from langchain_tooltree.learning.experience import Experience
from langchain_tooltree.pages import page
from langchain_tooltree.pages.records import MOST_RUNS, runs_page
from langchain_tooltree.pages.search import search_in, to_html
from langchain_tooltree.sitgraph.files import FILE
from langchain_tooltree.sitgraph.sit_graph import SITGraph
from langchain_tooltree.stores.chroma import DATABASE
from langchain_tooltree.text import counted, one_line

LOOPBACK, PLAIN = "127.0.0.1", "text/plain"
# Nothing is kept by the browser, sent to other servers, taken for something else, or shown within other pages; what a
# page itself may do stands in it.
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
LIST_SECONDS = 5.0  # for which the list of a server's namespaces is taken to be as it was
MOST_ROWS = 200  # of a folder's page, the newest: as far as people scroll
NEVER = datetime.fromtimestamp(0, UTC)  # when a namespace without runs was written to
MAX_CELL = 200  # characters of a request, or of a plan, in a row: two or three lines
NOTHING = (
    "Nothing is here yet. This page waits for searches, which an agent writes with record_searches=FOLDER, for files "
    "of runs and folders of graphs, or for the runs of an agent with an Experience in this store."
)


Find = Callable[[str], str | None]
"""The page of a name, of which the empty one is the first page; `None` if there is none."""


class PageServer(ThreadingHTTPServer):
    """Gives the pages that `find` knows by names, the empty one first; a name is looked up and never made a path."""

    daemon_threads = False  # closing it waits for pages that are being made, which may read a temporary copy
    allow_reuse_address = os.name == "posix"  # elsewhere two programs would share a port

    def __init__(self, find: Find, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), _Request)
        self.find = find
        self.address = f"http://{LOOPBACK}:{self.server_port}/"
        # A page elsewhere can have its own name stand for this address, but browsers send the name that they asked for.
        self.names = {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}

    def handle_error(self, *request: Any) -> None:
        """Print what went wrong, but not that a browser has gone."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(*request)


class _Request(BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "langchain-tooltree", ""
    timeout = 2  # seconds: who connects and asks for nothing, as browsers do beforehand, holds a thread

    def do_GET(self) -> None:
        """Give the page of a name."""
        hosts = [name.lower() for name in self.headers.get_all("Host", [])]
        status, text, kind = HTTPStatus.FORBIDDEN, f"This server is {self.server.address} and has no other name.", PLAIN
        if len(hosts) == 1 and hosts[0] in self.server.names:
            status, text, kind = self._page()
        body = text.encode("utf-8", "replace")
        about = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        self.send_response(status)
        for name, value in (about | HEADERS).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _page(self) -> tuple[HTTPStatus, str, str]:
        try:
            page = self.server.find(unquote(urlsplit(self.path).path).removeprefix("/"))
        except (ToolTreeError, OSError) as error:  # it is gone, damaged or none of ours
            return HTTPStatus.NOT_FOUND, str(error), PLAIN
        except Exception as error:  # noqa: BLE001 - what is read may be anything
            return HTTPStatus.INTERNAL_SERVER_ERROR, f"This cannot be shown: {described(error)}", PLAIN
        if page is None:
            return HTTPStatus.NOT_FOUND, "There is no such page.", PLAIN
        return HTTPStatus.OK, page, "text/html"

    def log_message(self, *_: object) -> None:
        """Nothing is logged: addresses hold names of files."""


def run_view(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Serve it until Ctrl-C, for this machine alone, or write its page to a file."""
    if options.output:
        check_free(options.output, force=options.force)
    find, kind = _finder(options.what)
    first = find("")  # what cannot be shown is refused at once
    if options.output:
        options.output.write_text(first or "", encoding="utf-8")
        terminal.say(f"A page to explore: {options.output.absolute().as_uri()}")
        return {"kind": kind, "page": options.output.absolute().as_uri(), "opened": False}, 0
    try:
        server = PageServer(find, options.port)
    except (OSError, OverflowError) as error:
        msg = f"Port {options.port} cannot be used ({error}). Choose another, or leave --port out for a free one."
        raise ConfigurationError(msg) from error
    in_thread(partial(server.serve_forever, 0.1), "tooltree-view")
    opened = not options.no_browser and webbrowser.open(server.address)
    terminal.say("Opened in your browser:" if opened else "Open this address in a browser:")
    terminal.say(f"{server.address}\nIt is served to this machine alone, until Ctrl-C.")
    options.afterwards = partial(serve, server)
    return {"kind": kind, "page": server.address, "opened": opened}, 0


def serve(server: PageServer) -> None:
    """Wait for Ctrl-C."""
    try:
        while True:
            time.sleep(3600)
    finally:
        server.shutdown()
        server.server_close()


def _finder(what: str) -> tuple[Find, str]:
    """How the pages of something are made by their names, and what it is."""
    path = Path(what)
    if is_store(what):
        return _pages_of_store(what), "experience"
    if is_graph(path):
        return partial(_alone, path), "graph"
    if path.is_dir():
        return partial(_in_folder, path), "folder"
    return partial(_alone, path), "search" if search_in(path) else "trajectories"


def is_graph(path: Path) -> bool:
    """Whether it is the folder of a graph."""
    return (path / FILE).exists()


def _alone(path: Path, name: str) -> str | None:
    """A graph, a search or a file of runs has one page."""
    return None if name else page_of(path)


def page_of(path: Path) -> str:
    """The page of a graph, of a saved search, or of the latest runs in a file, each in its latest version."""
    if is_graph(path):
        return SITGraph.load(path)._page()  # noqa: SLF001 - what `to_html` writes to a file
    if search := search_in(path):
        try:
            return to_html(search)
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # a file may hold anything
            msg = one_line(f"{path} is no search as SearchResult.to_dict() gives it ({described(error)}).", 300)
            raise ConfigurationError(msg) from error
    latest, outcomes = dict[str, Trajectory](), dict[str, str]()
    for run in load_trajectories(path, unread=Counter()):
        outcomes[run.id] = entry_of(run, "").outcome
        latest.pop(run.id, None)
        latest[run.id] = run
        if len(latest) > MOST_RUNS:
            del latest[next(iter(latest))]
    if not latest and path.stat().st_size:
        msg = f"Nothing in {path} can be read as a search, a graph or a run."
        raise ConfigurationError(msg)
    return runs_page(path.name, [*latest.values()], Counter(outcomes.values()))


def _list(name: str, rows: Iterator[Mapping[str, Any]]) -> str:
    """The page of a folder or of a store."""
    entries = [*islice(rows, MOST_ROWS)]
    return page("list", f"In {name}", {"name": name, "entries": entries, "more": len([*rows]), "none": NOTHING})


def namespaces_in(store: BaseStore) -> Flow[list[dict[str, Any]]]:
    """A row for each namespace of a store, as a flow, the one first in which a run was kept or judged last."""
    rows = []
    for namespace in (yield from namespaces_of(store)):
        runs = yield from listing(store, (*namespace, TASKS))
        outcomes = Counter(str(run.value.get("outcome")) for run in runs)
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
        row = {
            "name": _name_of(namespace),
            "written": max((run.updated_at for run in runs), default=NEVER).isoformat(timespec="milliseconds"),
            "title": " / ".join(namespace),
            "kind": "an experience",
            "plan": f"{counted(len(runs), 'run')}: {kinds}",
        }
        rows.append(row)
    return sorted(rows, key=lambda row: row["written"], reverse=True)


def _name_of(namespace: Namespace) -> str:
    return "/".join(quote(each, safe="") for each in namespace)


def _pages_of_store(address: str) -> Find:
    """The pages of a store, of which one is made at a time: reading a folder takes a copy, and memory for its index.

    A browser asks for the list every few seconds. It is made anew when a folder has changed, or, of a server, after
    some time.
    """
    alone, latest = threading.Lock(), dict[float, str | None]()

    def find(name: str) -> str | None:
        with alone:
            if name:
                return _in_store(address, name)
            is_server = "://" in address
            version = time.monotonic() // LIST_SECONDS if is_server else Path(address, DATABASE).stat().st_mtime_ns
            if version not in latest:
                latest.clear()
                latest[version] = _in_store(address, "")
            return latest[version]

    return find


def _in_store(address: str, name: str) -> str | None:
    """The page of all namespaces of a store, or of what was learnt in one of them."""

    def read(store: BaseStore) -> Flow[str | None]:
        if not name:
            return _list(address.rpartition("@")[2], iter((yield from namespaces_in(store))))
        for namespace in (yield from namespaces_of(store)):
            if _name_of(namespace) == name:
                experience = Experience(ExperienceStore(store, namespace=namespace))
                return (yield from experience._page())  # noqa: SLF001 - what `to_html` writes to a file
        return None

    return read_store(address, read)


def _in_folder(folder: Path, name: str) -> str | None:
    """The page of a folder of searches, graphs and files of runs, or of one of these. Links lead out."""
    paths = (path for path in folder.iterdir() if not (path.name.startswith(".") or path.is_symlink()))
    shown = [path for path in paths if is_graph(path) or path.name.endswith((".json", ".jsonl", ".jsonl.gz"))]
    if name:
        return next((page_of(path) for path in shown if path.name == name), None)
    newest = sorted(shown, key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=True)
    return _list(str(folder), filter(None, map(_row, newest)))


def _row(path: Path) -> dict[str, Any] | None:
    """What a row says of a search; of others the kind, since counting their runs may take long."""
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    row = {"name": path.name, "written": changed}
    if path.suffix == ".json":
        search = search_in(path)
        return None if search is None else row | _about(search)
    if path.is_dir():
        return row | {"kind": "a tool graph"}
    return row | {"kind": "runs", "plan": f"{path.stat().st_size / 1e6:,.1f} MB"}


def _about(search: Mapping[str, Any]) -> dict[str, str]:
    try:
        recorded, cost, nodes = search.get("recorded", {}), search["cost"], search["nodes"]
        tools = [nodes[node]["call"]["tool"] for node in search["best"] if nodes[node]["call"]]
        return {name: str(recorded[name]) for name in ("written", "thread") if recorded.get(name)} | {
            "title": one_line(search["query"], MAX_CELL),
            "plan": one_line(" → ".join(tools), MAX_CELL),
            "cost": f"{cost['model_calls']:,} model calls, {cost['tokens']:,} tokens",
            "stop_reason": search["stop_reason"],
        }
    except (LookupError, TypeError, ValueError, AttributeError):
        return {"stop_reason": "cannot be read"}
