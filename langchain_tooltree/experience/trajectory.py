"""Trajectory: what happened in one run, read from and written as messages of LangChain and OpenAI, and JSON."""

import gzip
import json
import logging
import math
import os
import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)

from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.experience.records import (
    EXTRAS,
    Branch,
    Record,
    arguments_of,
    call_entry,
    count_unread,
    entries_in,
    extras_of,
    first_request,
    function_of,
    opening_instructions,
    paired,
)
from langchain_tooltree.replies import sound
from langchain_tooltree.secrets import masked

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
USUAL = frozenset({HumanMessage, AIMessage, SystemMessage, ToolMessage})
"""Types of nearly all messages: whether something is of one of them is known faster than whether it is a message."""

_IN_CHAT = {"content", "name", "type", "role", "tool_calls", "tool_call_id", "status"}
"""Fields of messages that the chat format has a place for."""


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
        name: value for name, value in message.__dict__.items() if name not in _IN_CHAT and value != defaults[name]
    }
    if message.__pydantic_extra__:
        extras |= message.__pydantic_extra__
    chat: dict[str, Any] = {"role": role_of(message)}
    chat["content"] = message.content
    if message.name is not None:
        chat["name"] = message.name
    if isinstance(message, AIMessage) and message.tool_calls:
        chat["tool_calls"] = [call_entry(call["id"], call["name"], call["args"]) for call in message.tool_calls]
    if isinstance(message, ToolMessage):
        chat["tool_call_id"] = message.tool_call_id
        if message.status == "error":
            chat["error"] = True
    return {**chat, EXTRAS: extras} if extras else chat


def to_message(chat: Mapping[str, Any]) -> BaseMessage:
    """One message of the OpenAI chat format as a LangChain message.

    A call whose arguments are no JSON object becomes an invalid tool call. Keys that LangChain has no field for are
    left out.
    """
    role, content = chat.get("role"), "" if chat.get("content") is None else chat["content"]
    fields: dict[str, Any] = dict(extras_of(chat))
    if (name := chat.get("name")) is not None:
        fields["name"] = name
    match role:
        case "user":
            return HumanMessage(content, **fields)
        case "system" | "developer":
            return SystemMessage(content, **fields)
        case "assistant":
            return _assistant(chat, content, fields)
        case "tool":
            fields["status"] = "error" if chat.get("error") else "success"
            return ToolMessage(content, tool_call_id=chat.get("tool_call_id") or "", **fields)
        case str():
            return ChatMessage(content=content, role=str(role), **fields)
        case _:
            msg = f"A message needs a role, such as 'user' or 'assistant'; got {dict(chat)!r:.200}."
            raise TrajectoryFormatError(msg)


def to_messages(dialogue: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """A dialogue of the OpenAI chat format as LangChain messages.

    Calls without an id get one, and observations bear the id of their call: most providers refuse a call without an
    observation.
    """
    messages = [to_message(each) for each in dialogue]
    steps, answers = paired(dialogue)
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


def _assistant(chat: Mapping[str, Any], content: Any, fields: dict[str, Any]) -> AIMessage:
    calls, invalid = [], list(fields.pop("invalid_tool_calls", ()))
    for entry in entries_in(chat):
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
    from files with `load_trajectories`, or from a LangGraph thread with `load_thread`. It is the one record that
    everything else is made from.

    Attributes:
        id: Identifies the run. Records with the same id are versions of the same run.
        task: What the user asked for.
        steps: The tool calls in order; those of a branch stand where the branch began.
        success: Whether it succeeded; `None` if nobody has said.
        turns: Number of assistant messages, T in Eq. 1 of SIT-Graph.
        messages: The dialogue in the OpenAI chat format; empty if only the steps are known.
        branches: Dialogues of sub-agents that are not part of `messages`.
        reasons: Why it counts as a success or a failure.
        instructions: The system prompt of the agent, as its developer wrote it; empty if it is not known.
        metadata: Everything else the record came with, such as a reward.
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
        from langchain_tooltree.pages.records import run_page  # noqa: PLC0415 - only who looks at a run needs it

        Path(path).write_text(run_page(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        """What a notebook shows: a table, since viewers take scripts out, and a notebook is to stay small."""
        from langchain_tooltree.pages.records import run_table  # noqa: PLC0415 - as above

        return run_table(self)


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
    """A trajectory from an object with `messages` in the OpenAI chat format, as `to_json` returns it.

    `where` it stands is for error messages.
    """
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
        problem = "is missing" if written is None else f"is a {type(written).__name__}"
        msg = f"{where}: 'messages' {problem}. It has to be a list of messages in the OpenAI chat format."
        raise TrajectoryFormatError(msg)
    for place, message in enumerate(written):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            msg = f"{where}: message {place} has no role: {message!r:.120}. Expected {{'role': ..., 'content': ...}}."
            raise TrajectoryFormatError(msg)
    return written


logger = logging.getLogger(__name__)

_UNREADABLE = (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error)


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


_SAME_ID = "runs with the id of an earlier one, as whose versions they count"


def _records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Where each record of a file stands, and what is written there."""
    with _opened(path, "rt") as lines:
        number = 0
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    where = f"{path}, line {number}"
                    yield where, _parsed(line, where)
        except _UNREADABLE as error:
            msg = f"{path} cannot be read after line {number}: {error}. Is it a complete JSON lines file in UTF-8?"
            raise TrajectoryFormatError(msg) from error


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
