"""`langchain-tooltree view`: searches and graphs in a browser, and searches while they run."""

import argparse
import time
import webbrowser
from collections.abc import Mapping
from datetime import UTC, datetime
from errno import EACCES, EADDRINUSE
from functools import partial
from pathlib import Path
from typing import Any

from langchain_tooltree.cli.show import looked_at, opens_alone, search_in
from langchain_tooltree.cli.terminal import Terminal
from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.flows import in_thread
from langchain_tooltree.pages.page import page
from langchain_tooltree.pages.server import PageServer, Served
from langchain_tooltree.text import digest, one_line, plain

SHOWN_BY_BROWSERS = (".html", ".svg")
"""Endings of the pictures that a browser opens, the best first: what `looked_at` draws so has a page here."""

LISTED = 200
"""Rows of a folder's page, the newest: as far as people scroll. Reading so many searches takes half a second."""

LONGEST = 200
"""Characters of a request, or of a plan, in a row: two or three lines."""

ENDINGS = (".json", ".jsonl", ".jsonl.gz")
"""Files that a folder's page lists, beside the folders of graphs and stores."""


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Serve it until Ctrl-C, for this machine alone."""
    path = Path(options.what)
    is_shelf = path.is_dir() and not opens_alone(options.what)
    kind = "folder" if is_shelf else _drawn(options, options.what)[0]  # what cannot be shown is refused at once
    find = _Shelf(options, path).find if is_shelf else partial(_alone, options)
    try:
        server = PageServer(find, options.port)
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


def _drawn(options: argparse.Namespace, what: str) -> tuple[str, str]:
    """What something is, and its page, or a picture where there is no page yet."""
    told, _, pictures = looked_at(argparse.Namespace(what=what, embeddings=options.embeddings))
    ending = next((each for each in SHOWN_BY_BROWSERS if each in pictures), None)
    if ending is None:
        msg = f"There is no page of {what}: view is for searches and graphs. `langchain-tooltree show` prints it."
        raise ConfigurationError(msg)
    return told["kind"], pictures[ending]()


def _served(options: argparse.Namespace, what: str) -> Served:
    return Served(_version(Path(what)), lambda: _drawn(options, what)[1])


def _alone(options: argparse.Namespace, name: str) -> Served | None:
    return None if name else _served(options, options.what)


def _version(*paths: Path) -> str:
    """What changes as soon as one of some files does."""
    found = [(path.name, path.stat()) for path in paths if path.exists()]  # an address of a store is no path
    return digest([(name, of.st_mtime_ns, of.st_size) for name, of in found], 16)


class _Shelf:
    """A folder of recorded searches, and of what else stands there."""

    def __init__(self, options: argparse.Namespace, path: Path) -> None:
        self._options, self._path = options, path
        self._rows: dict[str, tuple[str, dict[str, Any] | None]] = {}

    def find(self, name: str) -> Served | None:
        """The page of the folder itself, or of a thing in it."""
        entries = self._entries()
        if not name:
            return Served(_version(*entries.values()), partial(self._index, entries))
        path = entries.get(name)
        return None if path is None else _served(self._options, str(path))

    def _entries(self) -> dict[str, Path]:
        """What can be shown, the newest first, by its name; no link, which may lead out of the folder."""
        found = []
        for path in self._path.iterdir():
            if not (path.name.startswith(".") or path.is_symlink()):
                wanted = opens_alone(str(path)) if path.is_dir() else path.name.endswith(ENDINGS)
                if wanted:
                    found.append((path.stat().st_mtime_ns, path.name, path))
        return {name: path for _, name, path in sorted(found, reverse=True)}

    def _index(self, entries: Mapping[str, Path]) -> str:
        rows, paths = [], iter(entries.values())
        for path in paths:
            if row := self._row(path):
                rows.append(row)
            if len(rows) == LISTED:
                break
        data = {"name": str(self._path), "entries": rows, "more": len([*paths])}
        return page("index.html", f"Searches: {self._path.name}", plain(data))

    def _row(self, path: Path) -> dict[str, Any] | None:
        """What a row says; of a file that is read already, what was read."""
        version = _version(path)
        kept, row = self._rows.get(path.name, ("", None))
        if kept != version:
            row = _row_of(path)
            self._rows[path.name] = version, row
        return row


def _row_of(path: Path) -> dict[str, Any] | None:
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    row: dict[str, Any] = {"name": path.name, "began": written, "written": written}
    if path.suffix != ".json":
        return row
    found = search_in(path)
    if found is None:
        return None
    try:
        recorded, cost, nodes = found.get("recorded", {}), found["cost"], found["nodes"]
        tools = [nodes[node]["call"]["tool"] for node in found["best"] if nodes[node]["call"]]
        row |= {name: str(recorded[name]) for name in ("began", "written", "thread") if recorded.get(name)}
        row["title"] = one_line(found["query"], LONGEST)
        row["plan"] = one_line(" → ".join(tools), LONGEST)
        row["cost"] = f"{cost['model_calls']} model calls, {cost['tokens']} tokens"
        row["stop_reason"] = found["stop_reason"]
    except (LookupError, TypeError, ValueError, AttributeError):
        row["stop_reason"] = "cannot be read"
    return row
