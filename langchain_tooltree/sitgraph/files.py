"""A graph in a folder: columns that are mapped into memory, a manifest with checksums, no pickle."""

import hashlib
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.errors import GraphChangedError, GraphFileError
from langchain_tooltree.sitgraph.graph import Graph, Snapshot, Texts
from langchain_tooltree.sitgraph.states import DIMENSIONS, Rows
from langchain_tooltree.sitgraph.transitions import VIEWS
from langchain_tooltree.stores.locks import locked
from langchain_tooltree.text import digest

FORMAT = 3  # version; another one is refused, since a graph can be mined again

MANIFEST = "manifest.json"
NAMES = "names.json"
LISTS = {
    "names": "names",
    "run_ids": "runs",
    "toolsets": "toolsets",
    "givers": "came_from",
}  # what is no array, and its key in that file
CHECKSUM = "checksum"  # key of the manifest for the checksum of everything else in it
VERSION = 16  # digits of the checksum that name the folder of the columns
TRIES = 5  # how often a graph is read before it counts as damaged, if its manifest stays the same

LOCK = ".lock"  # file that a writer holds; it is gone afterwards
SCRATCH = ".saving-"  # with which the names of what is not yet in place begin
OWN = re.compile(rf"[0-9a-f]{{{VERSION}}}|{re.escape(SCRATCH)}.*")
"""Names of what saving makes beside the manifest. Whatever else somebody keeps in the folder is left alone."""

PATIENCE = 60.0
"""Seconds that a writer waits for another one, many times what writing a graph of a million states takes."""

Which = Callable[[Graph, Mapping[str, str]], Collection[str]]
"""Says which runs of a graph are meant, with the new names of tools by old ones."""

VERIFIED = 100 * 2**20
"""Bytes up to which a graph is compared with its checksums unless somebody says otherwise: a tenth of a second."""

LARGE = {"states.codes.npy", "states.sketches.npy", "summaries.codes.npy", "summaries.sketches.npy"}
"""Files that are not compared in a larger graph: reading them all is what mapping them into memory avoids."""


def save_graph(
    snapshot: Snapshot,
    settings: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    known: str | None = None,
    since: float = math.inf,
) -> str:
    """Write a graph to a folder, with settings in its manifest; returns its checksum. Equal graphs give equal bytes.

    The columns go to a folder of their own inside, named after their checksum. The manifest that names that folder is
    replaced in one step: a reader, or a restart after a crash, always finds a whole graph. Writers wait for each other,
    and what an earlier one left behind is removed. Raises `GraphChangedError` if the graph there is not the `known`
    one, or without that, was saved later than `since`.
    """
    with _alone(path) as folder:
        if _is_graph(folder):
            there = _read_json(folder / MANIFEST, folder).get(CHECKSUM)
            if there != known if known else (folder / MANIFEST).stat().st_mtime > since:
                msg = (
                    f"{path} has changed since this graph was {'read' if known else 'made'}: saving it would undo what "
                    f"somebody else has saved. Load the graph again, add the new runs to that one and save it; or save "
                    f"this one to another folder."
                )
                raise GraphChangedError(msg)
        return _write(snapshot, settings, folder)


def forget_in_graph(path: str | os.PathLike[str], which: Which) -> tuple[list[str], str, str]:
    """Take runs out of a graph in a folder, so that nothing there tells of them.

    Returns the ids of those that were in it, and its checksums before and after.
    """
    _read_json(Path(path) / MANIFEST, Path(path))  # where there is no graph, no folder is made
    with _alone(path) as folder:
        snapshot, manifest = load_graph(folder, verify=True)
        graph = Graph(snapshot)
        gone = sorted(run for run in which(graph, manifest["aliases"]) if graph.remove(run))
        settings = {name: value for name, value in manifest.items() if name not in {*_shape(), "files", CHECKSUM}}
        # Even if it had none of them: what stands beside it is swept away, whoever was in it.
        return gone, manifest[CHECKSUM], _write(graph.snapshot(), settings, folder)


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


def _write(snapshot: Snapshot, settings: Mapping[str, Any], path: Path) -> str:
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=path))
    try:
        scratch.chmod(0o755)
        (scratch / NAMES).write_bytes(_json({key: getattr(snapshot, name) for name, key in LISTS.items()}))
        for name, column in _columns(snapshot):
            np.save(scratch / f"{name}.npy", column, allow_pickle=False)
        written = sorted(each.name for each in scratch.iterdir())
        manifest = {**_shape(), **settings, "files": {each: _checksum(scratch / each) for each in written}}
        seal = _seal(manifest)
        _put_in_place(scratch, path, {**manifest, CHECKSUM: seal})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return seal


def check_target(path: str | os.PathLike[str]) -> Path:
    """The folder with links followed, if a graph may be written there: new, empty, or one that holds a graph."""
    path = Path(path).resolve()
    own = re.compile(rf"{OWN.pattern}|\..*")  # what a first save leaves that is killed, and hidden files
    empty = path.is_dir() and all(own.fullmatch(each.name) for each in path.iterdir())
    if path.exists() and not empty and not _is_graph(path):
        msg = f"{path} exists and is no graph; it is left alone. Choose another path."
        raise GraphFileError(msg)
    return path


def load_graph(path: str | os.PathLike[str], *, verify: bool | None = None) -> tuple[Snapshot, dict[str, Any]]:
    """A graph from a folder, and its manifest. Vectors are mapped into memory.

    `verify` says whether they are compared with their checksums, as everything else is: by default, up to `VERIFIED`.
    """
    path = Path(path)
    left = TRIES
    while True:
        manifest = _read_json(path / MANIFEST, path)
        try:
            return _load(path, dict(manifest), verify=verify), manifest
        except GraphFileError:
            # Another process may have saved a new version meanwhile, so that the older columns are gone.
            left -= _read_json(path / MANIFEST, path) == manifest
            if not left:
                raise


def _load(path: Path, manifest: dict[str, Any], *, verify: bool | None) -> Snapshot:
    found = {name: manifest.get(name) for name in _shape()}
    if found != _shape() or not isinstance(manifest.get("files"), dict):
        msg = f"{path} was written in another format ({found}; this version reads {_shape()}). Mine the graph again."
        raise GraphFileError(msg)
    seal = manifest.pop(CHECKSUM, None)
    if seal != _seal(manifest) or (path / MANIFEST).read_bytes() != _json({**manifest, CHECKSUM: seal}):
        raise _damaged(path, f"{MANIFEST} is not what was written")
    folder = path / seal[:VERSION]
    files = manifest["files"]
    if verify is None:
        with suppress(OSError):  # what is missing is named below
            verify = sum((folder / name).stat().st_size for name in files) <= VERIFIED
    for name, checksum in files.items():
        if (verify or name not in LARGE) and not _intact(folder, {name: checksum}):
            raise _damaged(path, f"{name} is missing or is not what was written")
    lists = _read_json(folder / NAMES, path)
    tables: dict[str, dict[str, NDArray[Any]]] = {}
    for name, like in _columns(Snapshot()):
        table, _, column = name.rpartition(".")
        tables.setdefault(table, {})[column] = _mapped(folder / f"{name}.npy", path, like)
    plain: dict[str, Any] = tables.pop("")
    for name in ("states", "summaries"):
        if len({len(each) for each in tables[name].values()}) > 1:
            raise _damaged(path, f"the columns of {name} are not equally long")
    plain |= {name: tuple(lists[key]) for name, key in LISTS.items()}
    plain |= {name: (Texts if name == "summary_texts" else Rows)(**columns) for name, columns in tables.items()}
    return Snapshot(**plain)


def _columns(snapshot: Snapshot) -> Iterator[tuple[str, NDArray[Any]]]:
    for each in fields(snapshot):
        value = getattr(snapshot, each.name)
        if isinstance(value, np.ndarray):
            yield each.name, value
        elif isinstance(value, Rows | Texts):
            for column in fields(value):
                yield f"{each.name}.{column.name}", getattr(value, column.name)


def _mapped(file: Path, path: Path, like: NDArray[Any]) -> NDArray[Any]:
    """A column of a file, which has to be of the kind of another one."""
    try:
        # Changes are made to a private copy of the page that they are on: the file stays as it is.
        column: NDArray[Any] = np.load(file, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, TokenError, SystemError) as error:
        # A header is parsed as Python, and Python 3.11 may raise a SystemError if several threads do that at once.
        raise _damaged(path, f"{file.name} cannot be read ({error})") from error
    if (column.dtype, column.shape[1:]) != (like.dtype, like.shape[1:]):
        raise _damaged(path, f"{file.name} holds something else")
    return column


def _shape() -> dict[str, Any]:
    """What two versions must agree on to read each other's files."""
    return {"format": FORMAT, "views": list(VIEWS), "dimensions": DIMENSIONS}


def _is_graph(path: Path) -> bool:
    """Whether a folder is a graph, and not another one with a `manifest.json`."""
    try:
        return _shape().keys() <= _read_json(path / MANIFEST, path).keys()
    except GraphFileError:
        return False


def _damaged(path: Path, what: str) -> GraphFileError:
    return GraphFileError(f"{path} is damaged: {what}. Restore it, or mine the graph again.")


def _read_json(file: Path, path: Path) -> dict[str, Any]:
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


def _json(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    return text.encode("utf-8", "surrogatepass")


def _seal(manifest: Mapping[str, Any]) -> str:
    return digest(_json(manifest).decode("utf-8", "surrogatepass"), 64)


def _intact(folder: Path, checksums: Mapping[str, str]) -> bool:
    try:
        return all(_checksum(folder / name) == each for name, each in checksums.items())
    except OSError:
        return False


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _put_in_place(scratch: Path, path: Path, manifest: Mapping[str, Any]) -> None:
    """Give complete columns their name, have the manifest name them, and drop all that it does not name."""
    columns = path / manifest[CHECKSUM][:VERSION]
    if not (columns.exists() and _intact(columns, manifest["files"])):  # the same graph may be there, and in use
        shutil.rmtree(columns, ignore_errors=True)
        for each in scratch.iterdir():
            _flush(each)
        scratch.rename(columns)
    handle, name = tempfile.mkstemp(prefix=SCRATCH, dir=path)
    with os.fdopen(handle, "wb") as file:
        file.write(_json(manifest))
    _flush(Path(name))
    Path(name).chmod(0o644)
    Path(name).replace(path / MANIFEST)
    for each in [*path.iterdir(), *columns.iterdir()]:
        named = each.name in manifest["files"] if each.parent == columns else each in {columns, scratch}
        if not named and (each.parent == columns or OWN.fullmatch(each.name)):
            _drop(each)


def _flush(file: Path) -> None:
    """Have a file on the disk, so that no power cut leaves a manifest whose columns were never written."""
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())


def _drop(each: Path) -> None:
    """Remove a file or a folder; Windows keeps what somebody reads, and the next one who saves removes it."""
    if each.is_dir() and not each.is_symlink():
        shutil.rmtree(each, ignore_errors=True)
    else:
        with suppress(OSError):
            each.unlink()
