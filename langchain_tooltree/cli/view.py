"""`langchain-tooltree view`: searches, graphs, runs and experiences in a browser, also while agents run."""

import argparse
import time
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from errno import EACCES, EADDRINUSE
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from langchain_tooltree.cli.show import counts, experience_page, is_graph, is_store, look_at, namespaces_in, read_store
from langchain_tooltree.cli.terminal import Terminal
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.flows import in_thread
from langchain_tooltree.pages.page import page
from langchain_tooltree.pages.saved import search_in
from langchain_tooltree.pages.server import PageServer, Served
from langchain_tooltree.stores.chroma.connection import DATABASE
from langchain_tooltree.text import counted, digest, one_line, plain

LISTED = 200
"""Rows of a folder's page, the newest: as far as people scroll. Reading so many searches takes half a second."""

LONGEST = 200
"""Characters of a request, or of a plan, in a row: two or three lines."""

REREAD = 5.0
"""Seconds after which a database is read again."""

NOTHING = (
    "Nothing is here yet. This page waits for searches, which an agent writes with record_searches=FOLDER, for files "
    "of runs and folders of graphs, or for the runs of an agent with an Experience in this store."
)
"""What the page of an empty folder, or store, says."""


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Serve it until Ctrl-C, for this machine alone."""
    find, kind = _found(options.what, options.embeddings)
    try:
        server = PageServer(find, options.port)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno not in {EADDRINUSE, EACCES}:
            raise
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


def _found(what: str, embeddings: str | None) -> tuple[Callable[[str], Served | None], str]:
    """How the pages of something are found by their names, and what it is; what cannot be shown is refused at once."""
    path = Path(what)
    if is_store(what):
        store = _Store(what, embeddings)
        store.find("")
        return store.find, "experience"
    if path.is_dir() and not is_graph(path):
        return partial(_in_folder, path, embeddings), "folder"
    kind = look_at(what, embeddings).report["kind"]
    return lambda name: None if name else _served(path, embeddings), kind


def _served(path: Path, embeddings: str | None) -> Served:
    """A graph, a search or a file of runs."""
    return Served(_version(path), lambda: look_at(str(path), embeddings).drawings[".html"]())  # noqa: PLW0108 - later


def _version(*paths: Path) -> str:
    """What changes as soon as one of some files does; of a store's folder, the database."""
    files = [each for path in paths for each in (path, *(path / f"{DATABASE}{end}" for end in ("", "-wal")))]
    states = [(path.name, path.stat()) for path in files if path.exists()]
    return digest([(name, state.st_mtime_ns, state.st_size) for name, state in states], 16)


def _index(name: str, rows: Sequence[Mapping[str, Any]], more: int) -> str:
    return page("list", f"In {name}", plain({"name": name, "entries": rows, "more": more, "none": NOTHING}))


class _Store:
    """The namespaces of a store, with a page of what was learnt in each."""

    def __init__(self, address: str, embeddings: str | None) -> None:
        self._address, self._embeddings, self._state = address, embeddings, ""
        self._spaces: dict[str, Mapping[str, Any]] = {}

    def find(self, name: str) -> Served | None:
        """The page of all namespaces, or of one."""
        is_remote = "://" in self._address  # a folder is read when a file in it has changed
        state = str(time.monotonic() // REREAD) if is_remote else _version(Path(self._address))
        if state != self._state:
            spaces = read_store(self._address, namespaces_in)
            self._spaces = {"/".join(quote(each, safe="") for each in space["namespace"]): space for space in spaces}
            self._state = state
        if not name:
            return Served(digest(self._spaces, 16), partial(self._list, self._spaces))
        if (space := self._spaces.get(name)) is None:
            return None
        return Served(digest(space, 16), partial(experience_page, self._address, self._embeddings, space["namespace"]))

    def _list(self, spaces: Mapping[str, Mapping[str, Any]]) -> str:
        rows = []
        for name, space in sorted(spaces.items(), key=lambda item: item[1]["changed"], reverse=True):
            runs = f"{counted(len(space['runs']), 'run')}: {counts(space['outcomes'])}"
            about = {"title": " / ".join(space["namespace"]), "kind": "an experience", "plan": runs}
            rows.append({"name": name, "written": space["changed"], **about})
        return _index(self._address.rpartition("@")[2], rows[:LISTED], len(rows[LISTED:]))


def _in_folder(folder: Path, embeddings: str | None, name: str) -> Served | None:
    """The page of a folder of searches, graphs and files of runs, or of one of these."""
    paths = [
        path for path in folder.iterdir() if not (path.name.startswith(".") or path.is_symlink())
    ]  # links lead out
    shown = [path for path in paths if is_graph(path) or path.name.endswith((".json", ".jsonl", ".jsonl.gz"))]
    if name:
        return next((_served(path, embeddings) for path in shown if path.name == name), None)
    newest = sorted(shown, key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=True)
    return Served(_version(*newest), partial(_list_folder, folder, newest))


def _list_folder(folder: Path, newest: Sequence[Path]) -> str:
    paths = iter(newest)
    rows = [*islice(filter(None, (_row(path, _version(path)) for path in paths)), LISTED)]
    return _index(str(folder), rows, len([*paths]))


@lru_cache(maxsize=2 * LISTED)
def _row(path: Path, version: str) -> dict[str, Any] | None:  # noqa: ARG001 - a changed file is read again
    """What a row says of a search; of others the kind, since counting their runs may take long."""
    row = {
        "name": path.name,
        "written": datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds"),
    }
    if path.suffix == ".json":
        search = search_in(path)
        return None if search is None else row | _about(search)
    size = {"plan": f"{path.stat().st_size / 1e6:,.1f} MB"} if path.is_file() else {}
    return row | {"kind": "runs" if path.is_file() else "a tool graph", **size}


def _about(search: Mapping[str, Any]) -> dict[str, str]:
    try:
        recorded, cost, nodes = search.get("recorded", {}), search["cost"], search["nodes"]
        tools = [nodes[node]["call"]["tool"] for node in search["best"] if nodes[node]["call"]]
        return {name: str(recorded[name]) for name in ("written", "thread") if recorded.get(name)} | {
            "title": one_line(search["query"], LONGEST),
            "plan": one_line(" → ".join(tools), LONGEST),
            "cost": f"{cost['model_calls']:,} model calls, {cost['tokens']:,} tokens",
            "stop_reason": search["stop_reason"],
        }
    except (LookupError, TypeError, ValueError, AttributeError):
        return {"stop_reason": "cannot be read"}
