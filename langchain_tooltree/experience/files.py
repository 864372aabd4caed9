"""Files of trajectories, as JSON lines."""

import gzip
import json
import logging
import os
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.experience.trajectory import Trajectory
from langchain_tooltree.experience.trajectory_json import from_json, to_json
from langchain_tooltree.messages.chat_format import get_tool_call_entries
from langchain_tooltree.messages.kinds import classify_chat_message
from langchain_tooltree.messages.tool_calls import pair_calls
from langchain_tooltree.secrets import masked

logger = logging.getLogger(__name__)


def load_trajectories(
    path: str | os.PathLike[str], *, unread: Counter[str] | None = None
) -> Iterator[Trajectory]:
    """Read trajectories from a file of JSON lines, one by one, so that the file may be larger than memory.

    Args:
        path: The file; one whose name ends in `.gz` is decompressed. A line is an object with `messages` in the OpenAI
            chat format and optionally `id`, `task`, `success`, `reasons`, `branches`, `reward` and anything else.
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
            run = from_json(record, where=where)
            counts += count_unread(run)
            counts[_SAME_ID] += run.id in ids
            ids.add(run.id)
            yield run
    finally:
        counts = +counts
        if unread is not None:
            unread += counts
        elif counts:
            summary = ", ".join(
                f"{count} {kind}" for kind, count in sorted(counts.items())
            )
            logger.warning("Not all of %s could be used: %s.", path, summary)


def count_unread(trajectory: Trajectory) -> Counter[str]:
    """What a run holds that no step tells of, by kind: nothing vanishes without a count."""
    unread: Counter[str] = Counter()
    for _, messages in trajectory.dialogues():
        parts = Counter(map(classify_chat_message, messages))
        entries = [
            entry
            for message in messages
            if classify_chat_message(message) == "response"
            for entry in get_tool_call_entries(message)
        ]
        steps, answers = pair_calls(messages)
        unread["observations without a call"] += parts["result"] - len(answers)
        unread["calls that name no tool"] += len(entries) - len(steps)
        unread["calls with unreadable arguments"] += sum(
            step.arguments is None for step in steps
        )
    return +unread


_SAME_ID = "runs with the id of an earlier one, as whose versions they count"


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """Where each record of a file stands, and what is written there."""
    with _opened(
        path, "rt", "utf-8-sig"
    ) as lines:  # files from Windows may begin with a mark
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    where = f"{path}, line {number}"
                    yield where, json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            msg = f"{where} is not JSON: {error}. Every line has to be one JSON object."
            raise TrajectoryFormatError(msg) from error
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            msg = f"{path} cannot be read: {error}. Is it a complete JSON lines file in UTF-8?"
            raise TrajectoryFormatError(msg) from error


def dump_trajectories(
    trajectories: Iterable[Trajectory],
    path: str | os.PathLike[str],
    *,
    keep_secrets: bool = False,
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
        with _opened(partial, "xt", "utf-8") as lines:
            for count, trajectory in enumerate(trajectories, 1):  # noqa: B007 - returned
                record = to_json(trajectory if keep_secrets else masked(trajectory))
                lines.write(
                    json.dumps(record, default=str) + "\n"
                )  # ASCII: some tools return surrogates
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return count


def _opened(path: Path, mode: str, encoding: str) -> IO[str]:
    opens: Any = gzip.open if path.suffix == ".gz" else open
    file: IO[str] = opens(path, mode, encoding=encoding)
    return file
