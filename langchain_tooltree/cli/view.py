"""`langchain-tooltree view`: searches, graphs, runs and experiences in a browser, also while agents run."""

import argparse
import time
import webbrowser
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from errno import EACCES, EADDRINUSE
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from langgraph.store.base import BaseStore

from langchain_tooltree.cli.show import (
    counts,
    experience_page,
    is_store,
    looked_at,
    namespaces_in,
    opens_alone,
    reading,
)
from langchain_tooltree.cli.terminal import Terminal
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.store import HEAD, listing
from langchain_tooltree.flows import Flow, in_thread
from langchain_tooltree.learning.copying import held_in
from langchain_tooltree.pages.page import page
from langchain_tooltree.pages.saved import search_in
from langchain_tooltree.pages.server import PageServer, Served
from langchain_tooltree.stores.chroma.connection import DATABASE
from langchain_tooltree.text import counted, digest, one_line, plain

LISTED = 200
"""Rows of a folder's page, the newest: as far as people scroll. Reading so many searches takes half a second."""

LONGEST = 200
"""Characters of a request, or of a plan, in a row: two or three lines."""

NO_FILES = (
    "Nothing is here yet. This page waits for searches: an agent writes them here with record_searches=FOLDER, each "
    "when it ends. Files of runs, and folders of graphs and experiences, are listed here, too."
)
NO_RUNS = "Nothing is here yet. This page waits for runs: an agent with an Experience in this store keeps them."
"""What the page of an empty folder, or store, says."""

ENDINGS = (".json", ".jsonl", ".jsonl.gz")
"""Files that a folder's page lists, searches and runs, beside the folders of graphs and stores."""


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Serve it until Ctrl-C, for this machine alone."""
    shelf: _Shelf | _Namespaces | None = None
    if is_store(options.what):
        shelf, kind = _Namespaces(options), "experience"
        shelf.find("")  # what cannot be shown is refused at once
    elif Path(options.what).is_dir() and not opens_alone(options.what):
        shelf, kind = _Shelf(options), "folder"
    else:
        kind = _drawn(options)[0]
    try:
        server = PageServer(shelf.find if shelf else partial(_alone, options), options.port)
    except (OSError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno not in {EADDRINUSE, EACCES}:
            raise
        msg = f"Port {options.port} cannot be used ({error}). Choose another, or leave --port out for a free one."
        raise ConfigurationError(msg) from error
    in_thread(partial(server.serve_forever, 0.1), "tooltree-view")
    opened = not options.no_browser and webbrowser.open(server.address)
    terminal.print("Opened in your browser:" if opened else "Open this address in a browser:")
    terminal.print(server.address, markup=False, highlight=False, soft_wrap=True)
    terminal.print("It is served to this machine alone, until Ctrl-C.")
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


def _drawn(options: argparse.Namespace) -> tuple[str, str]:
    """What something is, and its page."""
    told, _, pictures = looked_at(options)
    return told["kind"], pictures[".html"]()


def _inside(options: argparse.Namespace, what: str | Path) -> argparse.Namespace:
    return argparse.Namespace(what=str(what), embeddings=options.embeddings)


def _served(options: argparse.Namespace) -> Served:
    return Served(_version(Path(options.what)), lambda: _drawn(options)[1])


def _alone(options: argparse.Namespace, name: str) -> Served | None:
    return None if name else _served(options)


def _version(*paths: Path) -> str:
    """What changes as soon as one of some files does; of a store's folder, the database."""
    held = [each for path in paths for each in (path, *(path / f"{DATABASE}{end}" for end in ("", "-wal")))]
    found = [(path.name, path.stat()) for path in held if path.exists()]
    return digest([(name, of.st_mtime_ns, of.st_size) for name, of in found], 16)


class _Namespaces:
    """The namespaces of a store, with a page of what was learnt in each; `prefix` is what their names begin with."""

    def __init__(self, options: argparse.Namespace, prefix: str = "") -> None:
        self._options, self._prefix = options, prefix
        self._files, self._version = "", ""
        self._held: dict[str, Mapping[str, Any]] = {}

    def find(self, name: str) -> Served | None:
        """The page of all namespaces, or of one."""
        files = _version(Path(self._options.what))
        if "://" in self._options.what or self._files != files:  # a folder is copied to be read
            reading(self._options.what, self._look)
            self._files = files
        if not name:
            return Served(self._version, partial(self._index, self._held))
        space = self._held.get(name)
        if space is None:
            return None
        return Served(self._version, partial(experience_page, self._options, space["namespace"]))

    def _look(self, store: BaseStore) -> Flow[None]:
        version = yield from _written(store)
        if version != self._version:
            spaces = yield from namespaces_in(store)
            self._held = {self._prefix + _name_of(each["namespace"]): each for each in spaces}
            self._version = version

    def _index(self, held: Mapping[str, Mapping[str, Any]]) -> str:
        rows = []
        for name, space in held.items():
            told = f"{counted(len(space['runs']), 'run')}: {counts(space['outcomes'])}"
            row = {"name": name, "title": " / ".join(space["namespace"]), "plan": told}
            rows.append(row | {"kind": "an experience", "written": space["changed"]})
        rows.sort(key=lambda row: row["written"], reverse=True)
        return _index_page(self._options.what.rpartition("@")[2], rows, len(rows[LISTED:]), NO_RUNS)


def _written(store: BaseStore) -> Flow[str]:
    """What changes as soon as a record does, by the token in the head of its namespace, or a tip."""
    written: list[Any] = []
    for root, labels in (yield from held_in(store)).items():
        for label in (HEAD, *labels):
            written += [(item.key, item.updated_at) for item in (yield from listing(store, (*root, label)))]
    return digest(written, 16)


def _name_of(namespace: Sequence[str]) -> str:
    """A namespace as the name of a page."""
    return "/".join(quote(label, safe="") for label in namespace)


def _index_page(name: str, rows: list[dict[str, Any]], more: int, none_yet: str) -> str:
    title = f"In {Path(name).name or name}"
    return page("index.html", title, plain({"name": name, "entries": rows[:LISTED], "more": more, "none": none_yet}))


class _Shelf:
    """A folder of recorded searches, and of what else stands there."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options, self._path = options, Path(options.what)
        self._rows: dict[str, tuple[str, dict[str, Any] | None]] = {}
        self._stores: dict[str, _Namespaces] = {}

    def find(self, name: str) -> Served | None:
        """The page of the folder itself, or of a thing in it; of a store, those of its namespaces, too."""
        entries = self._entries()
        if not name:
            return Served(_version(*entries.values()), partial(self._index, entries))
        first, _, rest = name.partition("/")
        path = entries.get(first)
        if path is not None and is_store(path):
            if first not in self._stores:
                self._stores[first] = _Namespaces(_inside(self._options, path), f"{first}/")
            return self._stores[first].find(name if rest else "")
        return None if path is None or rest else _served(_inside(self._options, path))

    def _entries(self) -> dict[str, Path]:
        """What can be shown, the newest first, by its name; no link, which may lead out of the folder."""
        seen = (path for path in self._path.iterdir() if not (path.name.startswith(".") or path.is_symlink()))
        wanted = [each for each in seen if (opens_alone(each) if each.is_dir() else each.name.endswith(ENDINGS))]
        return {each.name: each for each in sorted(wanted, key=lambda each: (each.stat().st_mtime_ns, each.name))[::-1]}

    def _index(self, entries: Mapping[str, Path]) -> str:
        paths = iter(entries.values())
        rows = [*islice(filter(None, map(self._row, paths)), LISTED)]
        return _index_page(str(self._path), rows, len([*paths]), NO_FILES)

    def _row(self, path: Path) -> dict[str, Any] | None:
        """What a row says; of a file that is read already, what was read."""
        version = _version(path)
        if self._rows.get(path.name, ("", None))[0] != version:
            self._rows[path.name] = version, _row_of(path)
        return self._rows[path.name][1]


def _row_of(path: Path) -> dict[str, Any] | None:
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    row: dict[str, Any] = {"name": path.name, "written": written}
    if path.suffix == ".json":
        return _row_of_search(path, row)
    # Runs are not counted here: a file or a store may hold more than anybody wants to wait for.
    kind = "runs" if path.is_file() else "an experience" if is_store(path) else "a tool graph"
    return row | {"kind": kind, **({"plan": f"{path.stat().st_size / 1e6:,.1f} MB"} if path.is_file() else {})}


def _row_of_search(path: Path, row: dict[str, Any]) -> dict[str, Any] | None:
    found = search_in(path)
    if found is None:
        return None
    try:
        recorded, cost, nodes = found.get("recorded", {}), found["cost"], found["nodes"]
        tools = [nodes[node]["call"]["tool"] for node in found["best"] if nodes[node]["call"]]
        row |= {name: str(recorded[name]) for name in ("written", "thread") if recorded.get(name)}
        row["title"] = one_line(found["query"], LONGEST)
        row["plan"] = one_line(" → ".join(tools), LONGEST)
        row["cost"] = f"{cost['model_calls']:,} model calls, {cost['tokens']:,} tokens"
        row["stop_reason"] = found["stop_reason"]
    except (LookupError, TypeError, ValueError, AttributeError):
        row["stop_reason"] = "cannot be read"
    return row
