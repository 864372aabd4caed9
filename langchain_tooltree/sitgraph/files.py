"""A graph in a folder: the contributions of its runs as JSON lines, and a manifest with checksums."""

import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from langchain_tooltree.errors import GraphChangedError, GraphFileError
from langchain_tooltree.sitgraph.graph import FORMAT, Contribution, Graph
from langchain_tooltree.sitgraph.states import DIMENSIONS
from langchain_tooltree.sitgraph.transitions import VIEWS
from langchain_tooltree.stores.locks import locked
from langchain_tooltree.text import digest

MANIFEST = "manifest.json"
RUNS = "runs-{}.jsonl"  # named after the beginning of its checksum: a new version stands beside the old one
CHECKSUM = "checksum"  # key of the manifest for the checksum of everything else in it
SHAPE = {"format": FORMAT, "views": list(VIEWS), "dimensions": DIMENSIONS}
"""What two versions must agree on to read each other's files; a graph that another one wrote can be mined again."""

LOCK = ".lock"  # file that a writer holds; it is gone afterwards
SCRATCH = ".saving-"  # with which the names of what is not yet in place begin
OWN = re.compile(rf"runs-[0-9a-f]{{16}}\.jsonl|{re.escape(SCRATCH)}.*")
"""Names of what saving makes beside the manifest. Whatever else somebody keeps in the folder is left alone."""

PATIENCE = 60.0
"""Seconds that a writer waits for another one, many times what writing a large graph takes."""

Which = Callable[[Graph], Collection[str]]
"""Says which runs of a graph are meant."""


def save_graph(
    graph: Iterable[Contribution],
    settings: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    known: str | None = None,
    since: float = math.inf,
) -> str:
    """Write a graph to a folder, with settings in its manifest; returns its checksum. Equal graphs give equal bytes.

    The manifest that names the file of the runs is replaced in one step: a reader, or a restart after a crash, always
    finds a whole graph. Writers wait for each other, and what an earlier one left behind is removed. Raises
    `GraphChangedError` if the graph there is not the `known` one, or without that, was saved later than `since`.
    """
    with _alone(path) as folder:
        if _is_graph(folder):
            there = _read(folder / MANIFEST, folder).get(CHECKSUM)
            if there != known if known else (folder / MANIFEST).stat().st_mtime > since:
                msg = (
                    f"{path} has changed since this graph was {'read' if known else 'made'}: saving it would undo what "
                    f"somebody else has saved. Load the graph again, add the new runs to that one and save it; or save "
                    f"this one to another folder."
                )
                raise GraphChangedError(msg)
        return _write(graph, settings, folder)


def forget_in_graph(path: str | os.PathLike[str], which: Which) -> tuple[list[str], str, str]:
    """Take runs out of a graph in a folder, so that nothing there tells of them.

    Returns the ids of those that were in it, and its checksums before and after.
    """
    _read(Path(path) / MANIFEST, Path(path))  # where there is no graph, no folder is made
    with _alone(path) as folder:
        graph, manifest = load_graph(folder)
        gone = sorted(run for run in which(graph) if graph.remove(run))
        settings = {name: value for name, value in manifest.items() if name not in {*SHAPE, "runs", CHECKSUM}}
        # Even if it had none of them: what stands beside it is swept away, whoever was in it.
        return gone, manifest[CHECKSUM], _write(graph.runs.values(), settings, folder)


def load_graph(path: str | os.PathLike[str]) -> tuple[Graph, dict[str, Any]]:
    """A graph from a folder, compared with its checksums, and its manifest."""
    path = Path(path)
    while True:
        version = _version(path)
        manifest = _read(path / MANIFEST, path)
        try:
            return _load(path, dict(manifest)), manifest
        except GraphFileError:
            # Another process may have saved meanwhile: a new version, or an older one once more.
            if _version(path) == version:
                raise


def check_target(path: str | os.PathLike[str]) -> Path:
    """The folder with links followed, if a graph may be written there: new, empty, or one that holds a graph."""
    path = Path(path).resolve()
    own = re.compile(rf"{OWN.pattern}|\..*")  # what a first save leaves that is killed, and hidden files
    empty = path.is_dir() and all(own.fullmatch(each.name) for each in path.iterdir())
    if path.exists() and not empty and not _is_graph(path):
        msg = f"{path} exists and is no graph; it is left alone. Choose another path."
        raise GraphFileError(msg)
    return path


@contextmanager
def _alone(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Hold a folder for writing; one that is left empty is removed."""
    folder = check_target(path)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder / LOCK, PATIENCE) as alone:
            if not alone:
                msg = f"Somebody else has been writing to {path} for {PATIENCE:g} seconds. Stop them, or try again."
                raise GraphFileError(msg)
            yield folder
    finally:
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def _write(graph: Iterable[Contribution], settings: Mapping[str, Any], folder: Path) -> str:
    runs = b"".join(_line(each) for each in sorted(graph, key=lambda given: given.id))
    manifest = {**SHAPE, **settings, "runs": hashlib.sha256(runs).hexdigest()}
    manifest[CHECKSUM] = _seal(manifest)
    name = _name_of(manifest)
    _put(folder / name, runs)
    _put(folder / MANIFEST, _json(manifest))
    for each in folder.iterdir():
        if each.name != name and OWN.fullmatch(each.name):
            with suppress(OSError):  # Windows keeps what somebody reads, and the next one who saves removes it
                each.unlink()
    return str(manifest[CHECKSUM])


def _put(file: Path, content: bytes) -> None:
    """Replace a file in one step, with the content on the disk first, so that no power cut leaves it half there."""
    handle, scratch = tempfile.mkstemp(prefix=SCRATCH, dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        Path(scratch).chmod(0o644)
        Path(scratch).replace(file)
    finally:
        Path(scratch).unlink(missing_ok=True)


def _load(path: Path, manifest: dict[str, Any]) -> Graph:
    found = {name: manifest.get(name) for name in SHAPE}
    if found != SHAPE:
        msg = f"{path} was written in another format ({found}; this version reads {SHAPE}). Mine the graph again."
        raise GraphFileError(msg)
    seal = manifest.pop(CHECKSUM, None)
    if seal != _seal(manifest) or (path / MANIFEST).read_bytes() != _json({**manifest, CHECKSUM: seal}):
        raise _damaged(path, f"{MANIFEST} is not what was written")
    file = path / _name_of(manifest)
    try:
        runs = file.read_bytes()
    except OSError as error:
        raise _damaged(path, f"{file.name} cannot be read ({error})") from error
    if hashlib.sha256(runs).hexdigest() != manifest["runs"]:
        raise _damaged(path, f"{file.name} is not what was written")
    lines = (line.decode("utf-8", "surrogatepass") for line in runs.splitlines())
    return Graph(Contribution.from_dict(json.loads(line)) for line in lines)


def _version(path: Path) -> tuple[int, int]:
    """What differs between two saved versions even where their content is the same."""
    try:
        stat = (path / MANIFEST).stat()
    except OSError:
        return (0, 0)
    return stat.st_ino, stat.st_mtime_ns


def _name_of(manifest: Mapping[str, Any]) -> str:
    return RUNS.format(manifest["runs"][:16])


def _is_graph(path: Path) -> bool:
    """Whether a folder is a graph, and not another one with a `manifest.json`."""
    try:
        return SHAPE.keys() <= _read(path / MANIFEST, path).keys()
    except GraphFileError:
        return False


def _damaged(path: Path, what: str) -> GraphFileError:
    return GraphFileError(f"{path} is damaged: {what}. Restore it, or mine the graph again.")


def _read(file: Path, path: Path) -> dict[str, Any]:
    try:
        read = json.loads(file.read_bytes().decode("utf-8", "surrogatepass"))
    except (FileNotFoundError, NotADirectoryError) as error:
        msg = f"There is no graph at {path}: {file.name} is missing. SITGraph.save writes one."
        raise GraphFileError(msg) from error
    except (OSError, ValueError) as error:
        raise _damaged(path, f"{file.name} cannot be read ({error})") from error
    if not isinstance(read, dict):
        raise _damaged(path, f"{file.name} holds no object")
    return read


def _line(given: Contribution) -> bytes:
    text = json.dumps(given.to_dict(), ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"
    return text.encode("utf-8", "surrogatepass")


def _json(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    return text.encode("utf-8", "surrogatepass")


def _seal(manifest: Mapping[str, Any]) -> str:
    return digest(_json(manifest).decode("utf-8", "surrogatepass"), 64)
