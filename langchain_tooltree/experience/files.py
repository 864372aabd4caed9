"""Trajectories in files: JSON lines, or one JSON document as benchmarks publish it; gzipped if the name says so."""

import gzip
import json
import logging
import os
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.experience.records import Record, count_unread
from langchain_tooltree.experience.trajectory import Trajectory, from_json, to_json
from langchain_tooltree.secrets import masked
from langchain_tooltree.text import digest, mapping_in

logger = logging.getLogger(__name__)

_UNREADABLE = (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error)


def load_trajectories(path: str | os.PathLike[str], *, unread: Counter[str] | None = None) -> Iterator[Trajectory]:
    """Read trajectories from a file, one by one; of JSON lines, so that the file may be larger than memory.

    Args:
        path: The file; one whose name ends in `.gz` is decompressed. A line is an object with `messages` in the OpenAI
            chat format and optionally `id`, `task`, `success`, `reasons`, `branches`, `reward` and anything else. Or
            the file is one JSON document: a list of such objects, the runs of tau-bench (with `traj`), or the results
            of tau2-bench (with `simulations`).
        unread: Gets what could not be read added to it, by kind, such as observations without a call. Without it, the
            log has that, as a warning once the file was read.

    Yields:
        The trajectories. Without `success`, a `reward` of 1 or more is a success and a smaller one a failure. Other
        keys are kept in `metadata`. Arguments may be objects, JSON or Python dicts; where ids of calls are missing,
        repeated or unknown, observations belong to calls by their order.

    Raises:
        TrajectoryFormatError: If a record cannot be read; the message names file, line and remedy.
        OSError: If the file cannot be read.
    """
    path = Path(path)
    counts: Counter[str] = Counter()
    ids: set[str] = set()
    try:
        for where, record in _records(path):
            written = _as_chat_format(record)
            run = from_json(written, where=where)
            counts += count_unread(run)
            counts[_LEFT_OUT] += len(_messages_in(record)) - len(_messages_in(written))
            counts[_SAME_ID] += run.id in ids
            ids.add(run.id)
            yield run
    finally:
        counts = +counts
        if unread is not None:
            unread += counts
        elif counts:
            listed = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
            logger.warning("Not all of %s could be used: %s.", path, listed)


_LEFT_OUT = "messages between users and their own tools"
_SAME_ID = "runs with the id of an earlier one, as whose versions they count"


def _messages_in(record: Mapping[str, Any]) -> list[Any]:
    messages = record.get("messages", record.get("traj"))
    return messages if isinstance(messages, list) else []


def _as_chat_format(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record as a benchmark publishes it, with `messages` in the OpenAI chat format; any other as it is.

    tau-bench has the messages under `traj`, and no id: trials of a task that went the same way are different runs.
    tau2-bench has the reward under `reward_info`, and calls and observations of a form of its own.
    """
    if "messages" not in record and isinstance(record.get("traj"), list):
        rest = {key: value for key, value in record.items() if key != "traj"}
        number = [record.get("task_id"), record.get("trial"), record["traj"]]
        return {"id": digest(number), **rest, "messages": record["traj"]}
    if "reward_info" not in record or not isinstance(record.get("messages"), list):
        return record
    messages = [each for each in map(_from_tau2, record["messages"]) if each is not None]
    return {"reward": mapping_in(record, "reward_info").get("reward"), **record, "messages": messages}


def _from_tau2(message: Any) -> Any:
    """A message of tau2-bench in the chat format; `None` for one that passed between a user and its own tools."""
    if not isinstance(message, Mapping):
        return message
    calls = message.get("tool_calls")
    match message.get("role"):
        case "tool" if message.get("requestor") == "user":
            return None
        case "tool":
            return {"tool_call_id": message.get("id"), **{key: message[key] for key in message if key != "id"}}
        case "user" if calls:
            return {**message, "tool_calls": None} if message.get("content") else None
        case _ if isinstance(calls, list):
            return {**message, "tool_calls": list(map(_entry_from_tau2, calls))}
    return message


def _entry_from_tau2(call: Any) -> Any:
    """A call of tau2-bench as an entry of `tool_calls`."""
    if not isinstance(call, Mapping) or "function" in call:
        return call
    function = {key: call[key] for key in ("name", "arguments") if key in call}
    rest = {key: value for key, value in call.items() if key not in function}
    return {**rest, "type": "function", "function": function}


def _records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Where each record of a file stands, and what is written there."""
    with _opened(path, "rt") as lines:
        number, is_first = 0, True
        try:
            for number, line in enumerate(lines, 1):
                where = f"{path}, line {number}"
                if not line.strip():
                    continue
                if is_first and (document := _document(line, lines)) is not None:
                    for place, each in enumerate(document, 1):
                        yield f"{path}, record {place}", _object(each, f"{path}, record {place}")
                else:
                    yield where, _parsed(line, where)
                is_first = False
        except _UNREADABLE as error:
            msg = f"{path} cannot be read after line {number}: {error}. Is it a complete JSON lines file in UTF-8?"
            raise TrajectoryFormatError(msg) from error


_INDENTED = {"[", "{", "[{"}
"""First lines of a JSON document that is written over many lines; only then is the whole file read at once."""


def _document(first: str, rest: IO[str]) -> list[Any] | None:
    """The records of a file that is one JSON document; `None` if it holds JSON lines."""
    try:
        written = json.loads(first + rest.read() if first.strip() in _INDENTED else first)
    except ValueError:
        return None  # the line is reported as such
    if isinstance(written, Mapping) and "messages" not in written:
        written = written.get("simulations")
    return written if isinstance(written, list) else None


def dump_trajectories(
    trajectories: Iterable[Record], path: str | os.PathLike[str], *, keep_secrets: bool = False
) -> int:
    """Write trajectories to a file of JSON lines that `load_trajectories` reads back unchanged; returns how many.

    What looks like a key, a token or a password is replaced by `[secret]`, unless `keep_secrets` is set.

    A name that ends in `.gz` compresses it. The file appears when it is complete: an error on the way leaves an older
    file as it was.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}{path.suffix}")
    count = 0
    try:
        with _opened(partial, "xt") as lines:
            for count, trajectory in enumerate(trajectories, 1):  # noqa: B007 - returned
                written = to_json(trajectory if keep_secrets else masked(trajectory))
                lines.write(json.dumps(written, default=str) + "\n")  # ASCII: some tools return surrogates
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return count


def _parsed(line: str, where: str) -> Mapping[str, Any]:
    try:
        written = json.loads(line)
    except ValueError as error:
        msg = f"{where} is not JSON: {error}. Every line has to be one JSON object."
        raise TrajectoryFormatError(msg) from error
    return _object(written, where)


def _object(written: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(written, Mapping):
        msg = f"{where} holds a {type(written).__name__}. Every record has to be one JSON object with 'messages'."
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
