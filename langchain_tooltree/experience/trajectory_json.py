"""Read a trajectory from JSON, and write it as JSON, as files and stores keep it."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, StrictBool, ValidationError

from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.experience.trajectory import Branch, Trajectory
from langchain_tooltree.messages.chat_format import (
    get_first_request,
    get_opening_instructions,
)

SUCCESS_REWARD = 1.0
"""The reward from which on a run has succeeded, where the record does not say so itself: benchmarks such as tau-bench
give 1 for a solved task."""


def to_json(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as an object for JSON: metadata, `id`, `messages`, and what does not follow from these.

    What JSON has no form for, such as the artifact of a tool, is written as its text.
    """
    record = {
        key: value
        for key, value in trajectory.metadata.items()
        if key not in _Record.model_fields
    }
    by_reward = _rewarded(trajectory.metadata)
    messages = trajectory.messages
    record |= {"id": trajectory.id, "messages": list(messages)}
    if trajectory.task != get_first_request(messages):
        record["task"] = trajectory.task
    if trajectory.success != by_reward:
        record["success"] = trajectory.success
    if trajectory.reasons:
        record["reasons"] = trajectory.reasons
    if trajectory.instructions != get_opening_instructions(messages):
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
        fields = _Record.model_validate(record)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, problem["loc"])) or "all of it"
        msg = f"{where} is no trajectory: {place}: {problem['msg']}. Every record is an object with 'messages'."
        raise TrajectoryFormatError(msg) from error
    metadata = fields.model_extra or {}
    return Trajectory.from_chat(
        fields.messages,
        id=fields.id,
        task=fields.task,
        success=fields.success
        if "success" in fields.model_fields_set
        else _rewarded(metadata),
        branches=[
            Branch(each.name, each.after, tuple(each.messages))
            for each in fields.branches or ()
        ],
        reasons=fields.reasons or "",
        instructions=fields.instructions or "",
        metadata=metadata,
    )


def _rewarded(metadata: Mapping[str, Any]) -> bool | None:
    reward = metadata.get("reward")
    return (
        None
        if not isinstance(reward, int | float) or math.isnan(reward)
        else reward >= SUCCESS_REWARD
    )
