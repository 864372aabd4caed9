"""A graph in a folder: columns that are mapped into memory, a manifest with checksums, no pickle."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.errors import GraphFileError
from langchain_tooltree.sitgraph.encoding import DIMENSIONS
from langchain_tooltree.sitgraph.rows import Rows
from langchain_tooltree.sitgraph.snapshot import Snapshot, Texts
from langchain_tooltree.sitgraph.views import VIEWS

FORMAT = 1
MANIFEST = "manifest.json"
NAMES = "names.json"
CHECKSUM = "checksum"
"""Key of the manifest for the checksum of everything else in it."""

CHUNK = 1 << 22
LARGE = {"states.codes.npy", "states.sketches.npy", "summaries.codes.npy", "summaries.sketches.npy"}
"""Files whose checksums are compared on request only: reading them all is what mapping them into memory avoids."""


def save_graph(snapshot: Snapshot, settings: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a graph to a folder. The same graph gives the same bytes.

    It is written beside the place and moved there when it is complete; a graph that was there before is replaced.

    Args:
        snapshot: The graph.
        settings: What else is to be known when it is read.
        path: The folder.

    Raises:
        GraphFileError: If something else than a graph stands there.
        OSError: If it cannot be written.
    """
    path = Path(path).resolve()
    if path.exists() and not _is_graph(path) and not (path.is_dir() and not any(path.iterdir())):
        msg = f"{path} exists and is no graph; it is left alone. Choose another path."
        raise GraphFileError(msg)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        scratch.chmod(0o755)
        lists = {"names": snapshot.names, "runs": snapshot.run_ids, "toolsets": snapshot.toolsets}
        _write_json(scratch / NAMES, lists)
        for name, column in _columns(snapshot):
            np.save(scratch / f"{name}.npy", column, allow_pickle=False)
        written = sorted(each.name for each in scratch.iterdir())
        manifest = {**_shape(), **settings, "files": {each: _checksum(scratch / each) for each in written}}
        _write_json(scratch / MANIFEST, {**manifest, CHECKSUM: _seal(manifest)})
        _put_in_place(scratch, path)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def load_graph(path: str | os.PathLike[str], *, verify: bool = False) -> tuple[Snapshot, dict[str, Any]]:
    """Read a graph from a folder. Vectors stay in the file until they are needed, and are never written to.

    Args:
        path: The folder.
        verify: Whether the vectors are compared with their checksums, too; everything else always is.

    Returns:
        The graph, and the manifest with the settings it was saved with.

    Raises:
        GraphFileError: If there is no graph, if it is damaged, or if it was written in another format.
    """
    path = Path(path)
    manifest = _read_json(path / MANIFEST, path)
    _check_format(manifest, path)
    if manifest.pop(CHECKSUM, None) != _seal(manifest):
        raise _damaged(path, f"{MANIFEST} is not what was written")
    for name, checksum in manifest["files"].items():
        if (verify or name not in LARGE) and (not (path / name).is_file() or _checksum(path / name) != checksum):
            raise _damaged(path, f"{name} is missing or is not what was written")
    lists = _read_json(path / NAMES, path)
    columns = {name: _mapped(path / f"{name}.npy", path) for name, _ in _columns(Snapshot.empty())}
    plain: dict[str, Any] = {name: column for name, column in columns.items() if "." not in name}
    snapshot = Snapshot(
        names=tuple(lists["names"]),
        run_ids=tuple(lists["runs"]),
        toolsets=tuple(lists["toolsets"]),
        states=Rows(**_under(columns, "states")),
        summaries=Rows(**_under(columns, "summaries")),
        summary_texts=Texts(**_under(columns, "summary_texts")),
        **plain,
    )
    return snapshot, manifest


def _columns(snapshot: Snapshot) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a snapshot under dotted names."""
    for each in fields(snapshot):
        value = getattr(snapshot, each.name)
        if isinstance(value, np.ndarray):
            yield each.name, value
        elif isinstance(value, Rows | Texts):
            for column in fields(value):
                yield f"{each.name}.{column.name}", getattr(value, column.name)


def _under(columns: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    start = f"{prefix}."
    return {name.removeprefix(start): column for name, column in columns.items() if name.startswith(start)}


def _mapped(file: Path, path: Path) -> NDArray[Any]:
    try:
        # Changes are made to a private copy of the page that they are on: the file stays as it is.
        column: NDArray[Any] = np.load(file, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _damaged(path, f"{file.name} cannot be read ({error})") from error
    return column


def _check_format(manifest: Mapping[str, Any], path: Path) -> None:
    found = {name: manifest.get(name) for name in _shape()}
    if found != _shape() or not isinstance(manifest.get("files"), dict):
        msg = f"{path} was written in another format ({found}; this version reads {_shape()}). Mine the graph again."
        raise GraphFileError(msg)


def _shape() -> dict[str, Any]:
    """What two versions must agree on to read each other's files."""
    return {"format": FORMAT, "views": list(VIEWS), "dimensions": DIMENSIONS}


def _is_graph(path: Path) -> bool:
    """Whether a folder is a graph, and not somebody else's with a `manifest.json`."""
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


def _write_json(file: Path, content: Mapping[str, Any]) -> None:
    file.write_bytes(_json(content))


def _json(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    return text.encode("utf-8", "surrogatepass")


def _seal(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(_json(manifest)).hexdigest()


def _checksum(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _put_in_place(scratch: Path, path: Path) -> None:
    """Move a complete folder to its place; an older one makes room at the last moment."""
    old = scratch.with_name(f"{scratch.name}.old")
    if path.exists():
        path.rename(old)
    try:
        scratch.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)
