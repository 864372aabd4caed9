"""A graph in a folder: one file of JSON lines, settings first and then runs, with their checksum before them."""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from langchain_tooltree.errors import GraphChangedError, GraphFileError
from langchain_tooltree.sitgraph.graph import (
    CONTRIBUTION_FORMAT_VERSION,
    Contribution,
    Graph,
)
from langchain_tooltree.sitgraph.states import DIMENSIONS
from langchain_tooltree.sitgraph.transitions import VIEWS
from langchain_tooltree.stores.locks import locked

FILE = "graph.jsonl"
LOCK = ".lock"  # file that a writer holds; it is gone afterwards
SCRATCH = ".saving"  # file that a writer fills, and then puts in place of the graph
PATIENCE = 60.0  # seconds that a writer waits for another one, many times what writing a large graph takes
SHAPE = {
    "format": CONTRIBUTION_FORMAT_VERSION,
    "views": list(VIEWS),
    "dimensions": DIMENSIONS,
}
"""What two versions must agree on to read each other's files; a graph that another one wrote can be mined again."""

Which = Callable[[Graph], Collection[str]]  # says which runs of a graph are meant


def save_graph(
    runs: Iterable[Contribution],
    settings: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    replaces: str | None = None,
) -> str:
    """Write a graph to a folder; returns its checksum. Equal graphs give equal bytes.

    The file is replaced in one step: a reader, or a restart after a crash, always finds a whole graph. Writers wait for
    each other. Raises `GraphChangedError` if there is a graph of another checksum than the one that it `replaces`.
    """
    with _alone(path) as folder:
        if (
            replaces is not None
            and (folder / FILE).exists()
            and _read_file(folder)[0] != replaces
        ):
            msg = (
                f"{path} has changed since this graph was read: saving it would undo what somebody else has saved. "
                "Load the graph again, add the new runs to that one and save it; or save this one to another folder."
            )
            raise GraphChangedError(msg)
        return _write_file(runs, settings, folder)


def forget_in_graph(
    path: str | os.PathLike[str], which: Which
) -> tuple[list[str], str, str]:
    """Take runs out of a graph in a folder, so that nothing there tells of them.

    Returns the ids of those that were in it, and its checksums before and after.
    """
    _read_file(path)  # where there is no graph, no folder is made
    with _alone(path) as folder:
        graph, settings, before = load_graph(folder)
        gone = sorted(run for run in which(graph) if graph.remove(run))
        return gone, before, _write_file(graph.runs.values(), settings, folder)


def load_graph(path: str | os.PathLike[str]) -> tuple[Graph, dict[str, Any], str]:
    """A graph from a folder, compared with its checksum; its settings, and the checksum."""
    checksum, content = _read_file(path)
    if hashlib.sha256(content).hexdigest() != checksum:
        msg = f"{path} is damaged: {FILE} is not what was written. Restore it, or mine the graph again."
        raise GraphFileError(msg)
    settings, *runs = (
        json.loads(line.decode("utf-8", "surrogatepass"))
        for line in content.splitlines()
    )
    shape = {name: settings.pop(name, None) for name in SHAPE}
    if shape != SHAPE:
        msg = f"{path} was written in another format ({shape}; this version reads {SHAPE}). Mine the graph again."
        raise GraphFileError(msg)
    graph = Graph(Contribution(**run) for run in runs)
    graph.states.unpack()
    return graph, settings, checksum


@contextmanager
def _alone(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Hold a folder for writing."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / LOCK, PATIENCE) as alone:
        if not alone:
            msg = f"Somebody else has been writing to {path} for {PATIENCE:g} seconds. Stop them, or try again."
            raise GraphFileError(msg)
        yield folder


def _write_file(
    runs: Iterable[Contribution], settings: Mapping[str, Any], folder: Path
) -> str:
    lines = [
        {**SHAPE, **settings},
        *(asdict(run) for run in sorted(runs, key=lambda run: run.id)),
    ]
    content = b"".join(map(_line, lines))
    checksum = hashlib.sha256(content).hexdigest()
    scratch = folder / SCRATCH
    try:
        with scratch.open("wb") as file:
            file.writelines([checksum.encode(), b"\n", content])
            file.flush()
            os.fsync(
                file.fileno()
            )  # on the disk first, so that no power cut leaves it half there
        scratch.replace(folder / FILE)
    finally:
        scratch.unlink(missing_ok=True)
    return checksum


def _line(data: Mapping[str, Any]) -> bytes:
    text = (
        json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        + "\n"
    )
    return text.encode("utf-8", "surrogatepass")


def _read_file(path: str | os.PathLike[str]) -> tuple[str, bytes]:
    """The checksum of a graph, and what it is of."""
    try:
        checksum, _, content = (Path(path) / FILE).read_bytes().partition(b"\n")
    except (FileNotFoundError, NotADirectoryError) as error:
        msg = (
            f"There is no graph at {path}: {FILE} is missing. SITGraph.save writes one."
        )
        raise GraphFileError(msg) from error
    except OSError as error:
        msg = f"{path} is damaged: {FILE} cannot be read ({error}). Restore it, or mine the graph again."
        raise GraphFileError(msg) from error
    return checksum.decode("ascii", "replace"), content
