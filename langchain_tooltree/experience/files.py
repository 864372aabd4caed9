"""Trajectories in files: JSON lines, gzipped if the name says so."""

import gzip
import json
import os
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.experience.records import Record
from langchain_tooltree.experience.trajectory import Trajectory, from_json, to_json

_UNREADABLE = (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error)


def load_trajectories(path: str | os.PathLike[str]) -> Iterator[Trajectory]:
    """Read trajectories from a file of JSON lines, one by one, so that the file may be larger than memory.

    Args:
        path: The file; one whose name ends in `.gz` is decompressed. A line is an object with `messages` in the OpenAI
            chat format and optionally `id`, `task`, `success`, `reasons`, `branches`, `reward` and anything else.

    Yields:
        The trajectories. Without `success`, a `reward` of 1 or more is a success and a smaller one a failure. Other
        keys are kept in `metadata`.

    Raises:
        TrajectoryFormatError: If a line cannot be read; the message names file, line and remedy.
        OSError: If the file cannot be read.
    """
    path = Path(path)
    with _opened(path, "rt") as lines:
        number = 0
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield from_json(_parsed(line, f"{path}, line {number}"), where=f"{path}, line {number}")
        except _UNREADABLE as error:
            msg = f"{path} cannot be read after line {number}: {error}. Is it a complete JSON lines file in UTF-8?"
            raise TrajectoryFormatError(msg) from error


def count_trajectories(path: str | os.PathLike[str]) -> int:
    """How many trajectories a file holds by the number of its lines, without reading them."""
    path = Path(path)
    try:
        with _opened(path, "rt") as lines:
            return sum(1 for line in lines if line.strip())
    except _UNREADABLE as error:
        msg = f"{path} cannot be read: {error}. Is it a complete JSON lines file in UTF-8?"
        raise TrajectoryFormatError(msg) from error


def dump_trajectories(trajectories: Iterable[Record], path: str | os.PathLike[str]) -> int:
    """Write trajectories to a file of JSON lines that `load_trajectories` reads back unchanged.

    The file appears when it is complete: an error on the way leaves an older file as it was.

    Args:
        trajectories: What to write.
        path: The file; one whose name ends in `.gz` is compressed.

    Returns:
        How many were written.

    Raises:
        OSError: If the file cannot be written.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}{path.suffix}")
    count = 0
    try:
        with _opened(partial, "xt") as lines:
            for count, trajectory in enumerate(trajectories, 1):  # noqa: B007 - returned
                lines.write(_line(to_json(trajectory)))
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return count


def _line(written: Mapping[str, Any]) -> str:
    """A line of JSON. What UTF-8 cannot say (lone surrogates, which some tools return) is escaped."""
    line = json.dumps(written, ensure_ascii=False, default=str)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:
        line = json.dumps(written, default=str)
    return f"{line}\n"


def _parsed(line: str, where: str) -> Mapping[str, Any]:
    try:
        written = json.loads(line)
    except ValueError as error:
        msg = f"{where} is not JSON: {error}. Every line has to be one JSON object."
        raise TrajectoryFormatError(msg) from error
    if not isinstance(written, Mapping):
        msg = f"{where} holds a {type(written).__name__}. Every line has to be one JSON object with 'messages'."
        raise TrajectoryFormatError(msg)
    return written


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[IO[str]]:
    encoding = "utf-8-sig" if mode == "rt" else "utf-8"  # files from Windows may begin with a mark
    if path.suffix == ".gz":
        with gzip.open(path, mode, encoding=encoding) as file:
            yield file  # type: ignore[misc]
    else:
        with path.open(mode, encoding=encoding) as file:
            yield file
