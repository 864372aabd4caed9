"""Trajectories as JSON, and files of them."""

import gzip
import json
import logging
import math
import os
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, StrictBool, ValidationError

from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.experience.trajectory import (
    SUCCESS_REWARD,
    Branch,
    Trajectory,
    entries_in,
    first_request,
    opening_instructions,
    paired,
    part_of,
)
from langchain_tooltree.secrets import masked

logger = logging.getLogger(__name__)


def to_json(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as an object for JSON: metadata, `id`, `messages`, and what does not follow from these.

    What JSON has no form for, such as the artifact of a tool, is written as its text.
    """
    record = {key: value for key, value in trajectory.metadata.items() if key not in _Record.model_fields}
    rewarded = _rewarded(trajectory.metadata)
    messages = trajectory.messages
    record |= {"id": trajectory.id, "messages": list(messages)}
    if trajectory.task != first_request(messages):
        record["task"] = trajectory.task
    if trajectory.success != rewarded:
        record["success"] = trajectory.success
    if trajectory.reasons:
        record["reasons"] = trajectory.reasons
    if trajectory.instructions != opening_instructions(messages):
        record["instructions"] = trajectory.instructions
    if trajectory.branches:
        record["branches"] = [asdict(branch) for branch in trajectory.branches]
    return record


def _with_role(message: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(message.get("role"), str):
        msg = f"a message has no role: {message!r:.120}. Expected {{'role': ..., 'content': ...}}"
        raise ValueError(msg)  # noqa: TRY004 - as pydantic expects it
    return message


_Messages = list[Annotated[dict[str, Any], AfterValidator(_with_role)]]


class _BranchRecord(BaseModel):
    name: str
    after: int
    messages: _Messages


class _Record(BaseModel):
    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True)

    messages: _Messages
    id: str | None = None
    task: str | None = None
    success: StrictBool | None = None
    branches: list[_BranchRecord] | None = None
    reasons: str | None = None
    instructions: str | None = None


def from_json(record: Any, *, where: str = "The record") -> Trajectory:
    """A trajectory from an object with `messages` in the OpenAI chat format, as `to_json` returns it.

    `where` it stands is for error messages.
    """
    try:
        read = _Record.model_validate(record)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"])) or "all of it"
        msg = f"{where} is no trajectory: {place}: {problem['msg']}. Every record is an object with 'messages'."
        raise TrajectoryFormatError(msg) from error
    metadata = read.model_extra or {}
    return Trajectory.from_chat(
        read.messages,
        id=read.id,
        task=read.task,
        success=read.success if "success" in read.model_fields_set else _rewarded(metadata),
        branches=[Branch(each.name, each.after, tuple(each.messages)) for each in read.branches or ()],
        reasons=read.reasons or "",
        instructions=read.instructions or "",
        metadata=metadata,
    )


def _rewarded(metadata: Mapping[str, Any]) -> bool | None:
    reward = metadata.get("reward")
    return None if not isinstance(reward, int | float) or math.isnan(reward) else reward >= SUCCESS_REWARD


def load_trajectories(path: str | os.PathLike[str], *, unread: Counter[str] | None = None) -> Iterator[Trajectory]:
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
            listed = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
            logger.warning("Not all of %s could be used: %s.", path, listed)


def count_unread(trajectory: Trajectory) -> Counter[str]:
    """What a run holds that no step tells of, by kind: nothing vanishes without a count."""
    unread: Counter[str] = Counter()
    for _, messages in trajectory.dialogues():
        parts = Counter(map(part_of, messages))
        entries = [entry for message in messages if part_of(message) == "reply" for entry in entries_in(message)]
        steps, answers = paired(messages)
        unread["observations without a call"] += parts["observation"] - len(answers)
        unread["calls that name no tool"] += len(entries) - len(steps)
        unread["calls with unreadable arguments"] += sum(step.arguments is None for step in steps)
    return +unread


_SAME_ID = "runs with the id of an earlier one, as whose versions they count"


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """Where each record of a file stands, and what is written there."""
    with _opened(path, "rt", "utf-8-sig") as lines:  # files from Windows may begin with a mark
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    where = f"{path}, line {number}"
                    yield where, json.loads(line)
        except json.JSONDecodeError as error:
            msg = f"{where} is not JSON: {error}. Every line has to be one JSON object."
            raise TrajectoryFormatError(msg) from error
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            msg = f"{path} cannot be read: {error}. Is it a complete JSON lines file in UTF-8?"
            raise TrajectoryFormatError(msg) from error


def dump_trajectories(
    trajectories: Iterable[Trajectory], path: str | os.PathLike[str], *, keep_secrets: bool = False
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
                lines.write(json.dumps(record, default=str) + "\n")  # ASCII: some tools return surrogates
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return count


def _opened(path: Path, mode: str, encoding: str) -> IO[str]:
    opens: Any = gzip.open if path.suffix == ".gz" else open
    file: IO[str] = opens(path, mode, encoding=encoding)
    return file
