"""Trajectory: what happened in one run, read from and written as messages of LangChain and OpenAI, and JSON."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.messages import ChatMessage as LangChainChatMessage

from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.experience.records import (
    EXTRAS,
    Branch,
    Record,
    arguments_of,
    call_entry,
    entries_in,
    extras_of,
    first_request,
    function_of,
    opening_instructions,
    paired,
)
from langchain_tooltree.replies import sound
from langchain_tooltree.text import digest

UNKNOWN = "chat_format"
"""Key of `additional_kwargs` under which keys stand that only the chat format knew."""

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function"}
USUAL = frozenset({HumanMessage, AIMessage, SystemMessage, ToolMessage})
"""Types of nearly all messages: whether something is of one of them is known faster than whether it is a message."""

_SPECIAL = {*ROLES.values(), "developer"}
_SAID = {"role", "content", "name", "tool_calls", "tool_call_id", "error", EXTRAS}


def role_of(message: BaseMessage) -> str:
    """The role of a message in the OpenAI chat format; that of a chunk is the role of the whole message."""
    if role := ROLES.get(message.type):
        return role
    kind = message.type.removesuffix("MessageChunk").lower()
    return ROLES.get(kind) or str(getattr(message, "role", kind))


def to_chat(message: BaseMessage) -> dict[str, Any]:
    """One LangChain message in the OpenAI chat format, with `error` for a failed tool call.

    All that the format has no key for stands under `"langchain"`, so that `to_message` gives back an equal message.
    """
    usual = type(message) in USUAL
    if not usual and isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    if not usual and (not isinstance(message, BaseMessage) or isinstance(message, RemoveMessage)):
        msg = f"A trajectory is made of messages, got {type(message).__name__}: {message!r:.80}."
        raise TrajectoryFormatError(msg)
    message = sound(message)
    defaults = _defaults(type(message))
    extras = {
        name: value
        for name, value in message.__dict__.items()
        if name not in {"content", "name", "type", "role", "tool_calls", "tool_call_id", "status"}
        and value != defaults[name]
    }
    if message.__pydantic_extra__:
        extras |= message.__pydantic_extra__
    unknown = message.additional_kwargs.get(UNKNOWN, {})
    if unknown:
        kept = {key: value for key, value in message.additional_kwargs.items() if key != UNKNOWN}
        extras = {key: value for key, value in extras.items() if key != "additional_kwargs"}
        extras |= {"additional_kwargs": kept} if kept else {}
    said: dict[str, Any] = {"role": role_of(message)}
    if not usual and isinstance(message, LangChainChatMessage) and message.role in _SPECIAL:
        extras["type"] = message.type  # which the role alone would not tell
    said["content"] = message.content
    if message.name is not None:
        said["name"] = message.name
    if isinstance(message, AIMessage) and message.tool_calls:
        said["tool_calls"] = [call_entry(call["id"], call["name"], call["args"]) for call in message.tool_calls]
    if isinstance(message, ToolMessage):
        said["tool_call_id"] = message.tool_call_id
        if message.status == "error":
            said["error"] = True
    said |= unknown
    return {**said, EXTRAS: extras} if extras else said


def to_message(said: Mapping[str, Any]) -> BaseMessage:
    """One message of the OpenAI chat format as a LangChain message.

    A call whose arguments are no JSON object becomes an invalid tool call. Keys that LangChain has no field for are
    kept in `additional_kwargs`.
    """
    role, content = said.get("role"), "" if said.get("content") is None else said["content"]
    fields: dict[str, Any] = dict(extras_of(said))
    unknown = {key: value for key, value in said.items() if key not in _SAID}
    if unknown:
        fields["additional_kwargs"] = {**fields.get("additional_kwargs", {}), UNKNOWN: unknown}
    if (name := said.get("name")) is not None:
        fields["name"] = name
    kind = "chat" if fields.pop("type", None) == "chat" and isinstance(role, str) else role
    match kind:
        case "user":
            return HumanMessage(content, **fields)
        case "system" | "developer":
            return SystemMessage(content, **fields)
        case "assistant":
            return _assistant(said, content, fields)
        case "tool":
            fields["status"] = "error" if said.get("error") else "success"
            return ToolMessage(content, tool_call_id=said.get("tool_call_id") or "", **fields)
        case "function" if name is not None:
            return FunctionMessage(content=content, **fields)
        case str():
            return LangChainChatMessage(content=content, role=str(role), **fields)
        case _:
            msg = f"A message needs a role, such as 'user' or 'assistant'; got {dict(said)!r:.200}."
            raise TrajectoryFormatError(msg)


def to_messages(said: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """A dialogue of the OpenAI chat format as LangChain messages.

    Calls without an id get one, and observations bear the id of their call: most providers refuse a call without an
    observation.
    """
    messages = [to_message(each) for each in said]
    steps, answers = paired(said)
    ids: dict[int, str] = {}  # by the number of the call
    readable = [(number, step) for number, step in enumerate(steps) if step.arguments is not None]
    for position, made in groupby(readable, key=lambda each: each[1].position):
        reply = messages[position]
        calls = reply.tool_calls if isinstance(reply, AIMessage) else []
        for place, (call, (number, _)) in enumerate(zip(calls, made, strict=False)):
            call["id"] = ids[number] = call["id"] or f"call_{position}_{place}"
    for position, number in answers.items():
        message = messages[position]
        if isinstance(message, ToolMessage) and message.tool_call_id != ids.get(number, message.tool_call_id):
            messages[position] = message.model_copy(update={"tool_call_id": ids[number]})
    return messages


def _assistant(said: Mapping[str, Any], content: Any, fields: dict[str, Any]) -> AIMessage:
    calls, invalid = [], list(fields.pop("invalid_tool_calls", ()))
    for entry in entries_in({"tool_calls": said.get("tool_calls")}):
        function, arguments = function_of(entry), arguments_of(entry)
        call = {"id": entry.get("id"), "name": function.get("name"), "args": arguments}
        if arguments is None or not call["name"]:
            written = function.get("arguments", json.dumps(entry, default=str))
            reason = "its arguments are no JSON object" if call["name"] else "it calls no function"
            invalid.append({**call, "args": written, "error": reason, "type": "invalid_tool_call"})
        else:
            calls.append({**call, "type": "tool_call"})
    return AIMessage(content, tool_calls=calls, invalid_tool_calls=invalid, **fields)


@cache
def _defaults(kind: type[BaseMessage]) -> dict[str, Any]:
    """What the fields of a message are where nobody sets them; to be compared with, not to be handed out."""
    return {name: each.get_default(call_default_factory=True) for name, each in kind.model_fields.items()}


class Trajectory(Record):
    """One run of an agent on one task: who said what, which tools were called, and what came of it.

    It is immutable. Make one from LangChain messages with `from_messages`, from OpenAI chat messages with `from_chat`,
    from files with `load_trajectories`, or from a LangGraph thread with `load_thread`.
    """

    @classmethod
    def from_messages(
        cls,
        messages: Sequence[BaseMessage],
        *,
        task: str | None = None,
        success: bool | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
        instructions: str = "",
    ) -> "Trajectory":
        """Read a run from LangChain messages, oldest first; what is marked in them as reference material is left out.

        Where they are left out, `id` is a hash of the conversation, `task` its first user message, and `instructions`
        what it begins with. Raises `TrajectoryFormatError` if something is no message that a conversation can hold.
        """
        chat = [to_chat(message) for message in messages]
        return cls.from_chat(chat, id=id, task=task, success=success, instructions=instructions)

    def to_messages(self) -> list[BaseMessage]:
        """The dialogue as LangChain messages, ready for a model or a graph; calls without an id get one.

        They equal those that the trajectory was made from, apart from reference material. A message without a role
        raises `TrajectoryFormatError`.
        """
        return to_messages(self.chat())

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the run as a page to read: who said what, calls with their results, what was off, and the verdict.

        It is one file that asks nobody for anything. Long texts are shortened so that it stays below 1 MB.
        """
        from langchain_tooltree.experience.run_page import to_html  # noqa: PLC0415 - only who looks at a run needs it

        Path(path).write_text(to_html(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        """What a notebook shows: a table, since viewers take scripts out, and a notebook is to stay small."""
        from langchain_tooltree.experience.run_page import to_table  # noqa: PLC0415 - as above

        return to_table(self)


SUCCESS_REWARD = 1.0
"""The reward from which on a run has succeeded, where the record does not say so itself: benchmarks such as tau-bench
give 1 for a solved task."""

_OWN = {"id", "task", "success", "messages", "branches", "reasons", "instructions"}


def to_json(trajectory: Record) -> dict[str, Any]:
    """A trajectory as an object for JSON: metadata, `id`, `messages`, and what does not follow from these.

    What JSON has no form for, such as the artifact of a tool, is written as its text.
    """
    written = {key: value for key, value in trajectory.metadata.items() if key not in _OWN}
    rewarded = _rewarded(trajectory.metadata)
    messages = trajectory.messages if trajectory.branches or not trajectory.steps else trajectory.chat()
    written |= {"id": trajectory.id, "messages": list(messages)}
    if trajectory.task != first_request(messages):
        written["task"] = trajectory.task
    if trajectory.success != rewarded:
        written["success"] = trajectory.success
    if trajectory.reasons:
        written["reasons"] = trajectory.reasons
    if trajectory.instructions != opening_instructions(messages):
        written["instructions"] = trajectory.instructions
    if trajectory.branches:
        written["branches"] = [asdict(branch) for branch in trajectory.branches]
    return written


def from_json(written: Mapping[str, Any], *, where: str = "The record") -> Trajectory:
    """A trajectory from what `to_json` returned, or from a record of somebody else's, such as tau-bench's.

    `where` it stands is for error messages.
    """
    written = as_chat_format(written)
    metadata = {key: value for key, value in written.items() if key not in _OWN}
    return Trajectory.from_chat(
        _messages(written.get("messages"), where),
        id=None if written.get("id") is None else str(written["id"]),
        task=written.get("task"),
        success=_success(written["success"], where) if "success" in written else _rewarded(metadata),
        branches=[_branch(each, where) for each in written.get("branches") or ()],
        reasons=written.get("reasons") or "",
        instructions=str(written.get("instructions") or ""),
        metadata=metadata,
    )


USERS_OWN = "messages_of_users_own_tools"
"""Key of the metadata for how many messages were left out, since an agent never saw them: calls that a simulated user
made on its own device, and their results."""


def as_chat_format(written: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record as benchmarks publish it, with `messages` in the OpenAI chat format; any other as it is.

    tau-bench has the messages under `traj`, and no id: trials of a task that went the same way are different runs.
    tau2-bench has the reward under `reward_info`, and calls and observations of a form of its own.
    """
    if "messages" not in written and isinstance(written.get("traj"), list):
        rest = {key: value for key, value in written.items() if key != "traj"}
        number = [written.get("task_id"), written.get("trial"), written["traj"]]
        return {"id": digest(number), **rest, "messages": written["traj"]}
    if "reward_info" not in written or not isinstance(written.get("messages"), list):
        return written
    said = [_heard_by_agent(message) for message in written["messages"]]
    reward = written["reward_info"].get("reward") if isinstance(written["reward_info"], Mapping) else None
    left_out = {USERS_OWN: said.count(None)} if None in said else {}
    return {"reward": reward, **written, **left_out, "messages": [message for message in said if message is not None]}


def _heard_by_agent(message: Any) -> Any:
    """A message of tau2-bench in the chat format; `None` for one that passed between a user and its own tools."""
    if not isinstance(message, Mapping):
        return message
    calls = message.get("tool_calls")
    match message.get("role"):
        case "tool":
            renamed = {"tool_call_id": message["id"]} if "id" in message else {}
            rest = {key: value for key, value in message.items() if key != "id"}
            return None if message.get("requestor") == "user" else {**renamed, **rest}
        case "user" if calls:
            return {**message, "tool_calls": None} if message.get("content") else None
        case _ if isinstance(calls, list):
            return {**message, "tool_calls": [_entry(call) for call in calls]}
    return message


def _entry(call: Any) -> Any:
    """A call of tau2-bench as an entry of `tool_calls`."""
    if not isinstance(call, Mapping) or "function" in call:
        return call
    function = {key: call[key] for key in ("name", "arguments") if key in call}
    return {"type": "function", **{key: value for key, value in call.items() if key not in function}} | {
        "function": function
    }


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
