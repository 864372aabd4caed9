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

NO_FILES = (
    "Nothing is here yet. This page waits for searches: an agent writes them here with record_searches=FOLDER, each "
    "when it ends. Files of runs, and folders of graphs and experiences, are listed here, too."
)
NO_RUNS = "Nothing is here yet. This page waits for runs: an agent with an Experience in this store keeps them."
"""What the page of an empty folder, or store, says."""

Find = Callable[[str], Served | None]


def run(options: argparse.Namespace, terminal: Terminal) -> tuple[dict[str, Any], int]:
    """Serve it until Ctrl-C, for this machine alone."""
    what, path = options.what, Path(options.what)
    find: Find
    if is_store(what):
        find, kind = _Store(what, options.embeddings).find, "experience"
        find("")  # what cannot be shown is refused at once
    elif path.is_dir() and not is_graph(path):
        find, kind = _Folder(path, options.embeddings).find, "folder"
    else:
        kind = look_at(what, options.embeddings).report["kind"]
        find = partial(_only, _thing(path, options.embeddings))
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


def _thing(path: Path, embeddings: str | None) -> Callable[[], Served]:
    """A graph, a search or a file of runs, as it is whenever somebody asks."""

    def draw() -> str:
        return look_at(str(path), embeddings).drawings[".html"]()

    return lambda: Served(_version(path), draw)


def _only(served: Callable[[], Served], name: str) -> Served | None:
    return None if name else served()


def _version(*paths: Path) -> str:
    """What changes as soon as one of some files does; of a store's folder, the database."""
    files = [each for path in paths for each in (path, *(path / f"{DATABASE}{end}" for end in ("", "-wal")))]
    states = [(path.name, path.stat()) for path in files if path.exists()]
    return digest([(name, state.st_mtime_ns, state.st_size) for name, state in states], 16)


def _index(name: str, rows: Sequence[Mapping[str, Any]], more: int, none_yet: str) -> str:
    return page("list", f"In {name}", plain({"name": name, "entries": rows, "more": more, "none": none_yet}))


class _Store:
    """The namespaces of a store, with a page of what was learnt in each; `prefix` is what their names begin with."""

    def __init__(self, address: str, embeddings: str | None, prefix: str = "") -> None:
        self._address, self._embeddings, self._prefix = address, embeddings, prefix
        self._state = ""
        self._spaces: dict[str, Mapping[str, Any]] = {}

    def find(self, name: str) -> Served | None:
        """The page of all namespaces, or of one."""
        is_remote = "://" in self._address  # a folder is read when a file in it has changed
        state = str(time.monotonic() // REREAD) if is_remote else _version(Path(self._address))
        if state != self._state:
            spaces = read_store(self._address, namespaces_in)
            self._spaces = {self._name(each["namespace"]): each for each in spaces}
            self._state = state
        if not name:
            return Served(digest(self._spaces, 16), partial(self._list, self._spaces))
        space = self._spaces.get(name)
        if space is None:
            return None
        return Served(digest(space, 16), partial(experience_page, self._address, self._embeddings, space["namespace"]))

    def _name(self, namespace: Sequence[str]) -> str:
        return self._prefix + "/".join(quote(label, safe="") for label in namespace)

    def _list(self, spaces: Mapping[str, Mapping[str, Any]]) -> str:
        rows = [
            {
                "name": name,
                "title": " / ".join(space["namespace"]),
                "plan": f"{counted(len(space['runs']), 'run')}: {counts(space['outcomes'])}",
                "kind": "an experience",
                "written": space["changed"],
            }
            for name, space in sorted(spaces.items(), key=lambda item: item[1]["changed"], reverse=True)
        ]
        return _index(self._address.rpartition("@")[2], rows[:LISTED], len(rows[LISTED:]), NO_RUNS)


class _Folder:
    """A folder of recorded searches, and of what else stands there."""

    def __init__(self, path: Path, embeddings: str | None) -> None:
        self._path, self._embeddings = path, embeddings
        self._stores: dict[str, _Store] = {}

    def find(self, name: str) -> Served | None:
        """The page of the folder itself, or of a thing in it; of a store, those of its namespaces, too."""
        entries = self._entries()
        if not name:
            return Served(_version(*entries.values()), partial(self._list, entries))
        first, _, rest = name.partition("/")
        path = entries.get(first)
        if path is not None and is_store(path):
            store = self._stores.setdefault(first, _Store(str(path), self._embeddings, f"{first}/"))
            return store.find(name if rest else "")
        return None if path is None or rest else _thing(path, self._embeddings)()

    def _entries(self) -> dict[str, Path]:
        """What can be shown, the newest first, by its name; no link, which may lead out of the folder."""
        paths = [path for path in self._path.iterdir() if not (path.name.startswith(".") or path.is_symlink())]
        files = [path for path in paths if path.is_file() and path.name.endswith((".json", ".jsonl", ".jsonl.gz"))]
        folders = [path for path in paths if path.is_dir() and (is_store(path) or is_graph(path))]
        newest = sorted(files + folders, key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=True)
        return {path.name: path for path in newest}

    def _list(self, entries: Mapping[str, Path]) -> str:
        paths = iter(entries.values())
        rows = [*islice(filter(None, (_row(path, _version(path)) for path in paths)), LISTED)]
        return _index(str(self._path), rows, len([*paths]), NO_FILES)


@lru_cache(maxsize=2 * LISTED)
def _row(path: Path, version: str) -> dict[str, Any] | None:  # noqa: ARG001 - a changed file is read again
    """What a row says of a search; of others the kind, since counting their runs may take long."""
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    row = {"name": path.name, "written": written}
    if path.suffix == ".json":
        search = search_in(path)
        return None if search is None else row | _about(search)
    if path.is_file():
        return row | {"kind": "runs", "plan": f"{path.stat().st_size / 1e6:,.1f} MB"}
    return row | {"kind": "an experience" if is_store(path) else "a tool graph"}


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
