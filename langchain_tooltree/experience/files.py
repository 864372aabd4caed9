"""Trajectories in files: JSON lines, gzipped if the name says so."""

import gzip
import json
import math
import os
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.experience.records import Branch, Record, first_request
from langchain_tooltree.experience.trajectory import Trajectory

SUCCESS_REWARD = 1.0
"""The reward from which on a run has succeeded, where the record does not say so itself: benchmarks such as tau-bench
give 1 for a solved task."""

_UNREADABLE = (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error)
_OWN = {"id", "task", "success", "messages", "branches", "reasons"}


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
    """How many trajectories a file holds by the number of its lines, without reading them.

    Raises:
        TrajectoryFormatError: If it is no text in UTF-8, or not compressed though its name says so.
        OSError: If the file cannot be read.
    """
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


def to_json(trajectory: Record) -> dict[str, Any]:
    """A trajectory as an object for JSON: metadata, `id`, `messages`, and what does not follow from these.

    What JSON has no form for, such as the artifact of a tool, is written as its text.
    """
    written = {key: value for key, value in trajectory.metadata.items() if key not in _OWN}
    messages = trajectory.messages if trajectory.branches or not trajectory.steps else trajectory.chat()
    written |= {"id": trajectory.id, "messages": list(messages)}
    if trajectory.task != first_request(messages):
        written["task"] = trajectory.task
    if trajectory.success != _rewarded(trajectory.metadata):
        written["success"] = trajectory.success
    if trajectory.reasons:
        written["reasons"] = trajectory.reasons
    if trajectory.branches:
        written["branches"] = [asdict(branch) for branch in trajectory.branches]
    return written


def from_json(written: Mapping[str, Any], *, where: str = "The record") -> Trajectory:
    """A trajectory from what `to_json` returned, or from a record of somebody else's with `messages` and a `reward`.

    `where` it stands is for error messages.

    Raises:
        TrajectoryFormatError: If it has no usable `messages`, or `success` or `branches` are no such thing.
    """
    messages = _messages(written.get("messages"), where)
    metadata = {key: value for key, value in written.items() if key not in _OWN}
    return Trajectory.from_chat(
        messages,
        id=None if written.get("id") is None else str(written["id"]),
        task=written.get("task"),
        success=_success(written["success"], where) if "success" in written else _rewarded(metadata),
        branches=[_branch(each, where) for each in written.get("branches") or ()],
        reasons=written.get("reasons") or "",
        metadata=metadata,
    )


def _rewarded(metadata: Mapping[str, Any]) -> bool | None:
    reward = metadata.get("reward")
    return None if not isinstance(reward, int | float) or math.isnan(reward) else reward >= SUCCESS_REWARD


def _success(written: Any, where: str) -> bool | None:
    if written not in (None, True, False):
        msg = f"{where}: 'success' is {written!r:.80}. It has to be true, false or null; a number goes under 'reward'."
        raise TrajectoryFormatError(msg)
    return None if written is None else bool(written)


def _branch(written: Any, where: str) -> Branch:
    try:
        name, after, messages = str(written["name"]), int(written["after"]), written["messages"]
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{where}: a branch has to be an object with 'name', 'after' and 'messages', got {written!r:.120}."
        raise TrajectoryFormatError(msg) from error
    return Branch(name, after, tuple(_messages(messages, where)))


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


def _messages(written: Any, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(written, list):
        found = "is missing" if written is None else f"is a {type(written).__name__}"
        msg = f"{where}: 'messages' {found}. It has to be a list of messages in the OpenAI chat format."
        raise TrajectoryFormatError(msg)
    for position, message in enumerate(written):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            msg = (
                f"{where}: message {position} has no role: {message!r:.120}. Expected {{'role': ..., 'content': ...}}."
            )
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
