"""Trajectory: what happened in one run, read from messages of LangChain or OpenAI, and what is no part of it. Pure.

Messages of models are made fit to be read first, and calls are told apart into reads and writes.
"""

import ast
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    message_chunk_to_message,
)
from langchain_core.messages import ChatMessage as RoleMessage
from langchain_core.messages.tool import invalid_tool_call
from pydantic import AfterValidator, BaseModel, ConfigDict, StrictBool, ValidationError

from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.text import (
    cut,
    digest,
    get_mapping,
    holds_more_values,
    is_nested_too_deeply,
    is_plain_data,
    is_reference,
    remove_small_talk,
    shortened,
    text_in,
    to_plain_data,
    without_reference,
)

if TYPE_CHECKING:
    import os

NOTES = "tooltree"
"""Key of a message's `response_metadata` under which this package notes something; providers never get to see it."""

SEARCH_MARK = "mark"  # where that note of the planner's holds its mark, in a graph of the user's own

NOTE = "[Planner's note, not from the user]"
"""How a message of the planner's begins that stands behind the conversation in one of its questions."""

REPORT_FORM = '{"missing": "nothing'
"""Stands in the line by which the planner asks an agent for a report, at the end of its instructions."""


def without_report_line(instructions: str) -> str:
    """An agent's instructions without the planner's line."""
    own, _, last = instructions.rpartition("\n\n")
    return own if REPORT_FORM in last else instructions


ADDED = "added"
"""Name of the note that says which texts this package has added to a content; also in the artifact of its own tool."""

SUGGESTED = "suggested"
"""Name of the note beside a reply that says how past runs had gone on there: `tool`, `share` and `runs` of each."""

SUMMARIZE_STATE = (
    "summarize_state"  # name of the tool by which an agent sums up the state
)


def added_to(metadata: Any, *, artifact: Any = None, tool: Any = None) -> list[str]:
    """The texts that this package has added to the result of a tool, by what stands beside the content."""
    notes = metadata.get(NOTES) if isinstance(metadata, Mapping) else None
    places = [
        notes,
        artifact if tool == SUMMARIZE_STATE else None,
    ]  # what other tools return beside it is their own
    lists = [each.get(ADDED) for each in places if isinstance(each, Mapping)]
    return [
        text
        for texts in lists
        if isinstance(texts, list)
        for text in texts
        if isinstance(text, str) and text
    ]


def without_added(content: Any, added: Sequence[str]) -> Any:
    """The content of a result without texts that were added to it; the same object if they are not there."""
    for text in reversed(added):
        if isinstance(content, str) and text in content:
            before, _, after = content.rpartition(text)
            content = "\n\n".join(filter(None, (before.rstrip(), after.lstrip())))
        elif isinstance(content, list) and any(
            text == text_in(block).strip() for block in content
        ):
            content = [block for block in content if text_in(block).strip() != text]
    return content


def without_notes(
    content: Any, extras: Mapping[str, Any], *, tool: Any
) -> tuple[Any, Mapping[str, Any]]:
    """A result and what stands beside it, without what was added to it and the notes that hold it, too.

    What was suggested goes as well: it says what other runs did. Where there is nothing of this, both are the same
    objects.
    """
    metadata, artifact = (
        get_mapping(extras, "response_metadata"),
        extras.get("artifact"),
    )
    added = added_to(metadata, artifact=artifact, tool=tool)
    summary = (
        artifact if tool == SUMMARIZE_STATE and isinstance(artifact, Mapping) else {}
    )
    if not added and "suggestions" not in summary:
        return content, extras
    rest = dict(extras)
    if summary:
        rest["artifact"] = {
            key: value
            for key, value in summary.items()
            if key not in (ADDED, "suggestions")
        }
    if notes := get_mapping(metadata, NOTES):
        own = {key: value for key, value in notes.items() if key != ADDED}
        rest["response_metadata"] = {**metadata, NOTES: own}
    return without_added(content, added), rest


T = TypeVar("T")
MessageT = TypeVar("MessageT", bound=BaseMessage)

ChatMessage = Mapping[str, Any]
"""A message in the OpenAI chat format: `role`, `content`, `tool_calls`, `tool_call_id`, and whatever it came with."""

EXTRAS = "langchain"  # key of a chat message under which fields stand that only LangChain knows

Part = Literal[
    "request", "summary", "reference", "reply", "observation", "instruction", "other"
]
"""What a message is in a conversation."""

PARTS: Mapping[str, Part] = {
    "assistant": "reply",
    "tool": "observation",
    "user": "request",
    "system": "instruction",
    "developer": "instruction",
}
"""Parts by role, as long as nothing is marked."""

PROMPTED = frozenset({"request", "instruction"})
"""Parts of a prompt, in which there may be reference material made here."""


def part_of(message: ChatMessage) -> Part:
    """The part that a message plays: the one place where that is decided, for messages of any form.

    A *summary* stands in place of messages: LangChain's `SummarizationMiddleware` writes it in the user's name, with a
    mark. *Reference* is a message that holds nothing but reference material; an empty one is an empty request.
    """
    role = message.get("role")
    part = PARTS.get(role, "other") if isinstance(role, str) else "other"
    if part == "request" and _is_summary(message):
        return "summary"
    return (
        "reference"
        if part in PROMPTED and is_reference(message.get("content"))
        else part
    )


def _is_summary(message: ChatMessage) -> bool:
    return (
        get_mapping(extras_of(message), "additional_kwargs").get("lc_source")
        == "summarization"
    )


ATTEMPT_OF = "attempt_of"
"""Key of a record's metadata for what a search has tried and given up: the id of the run that it was part of."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a tool call.

    Attributes:
        content: The observation as it was recorded: a text, or a list of content blocks.
        status: Whether the record marks it as a failure. Nothing is guessed from the text.
    """

    content: Any
    status: Literal["success", "error"] = "success"

    @property
    def text(self) -> str:
        """The observation as text; blocks that are no text are left out."""
        return text_of(self.content)


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call.

    Attributes:
        tool: Name of the tool.
        arguments: Its arguments; `None` where what the model wrote could not be read.
        outcome: What came of it; `None` if nothing is recorded, as for a call that was interrupted.
        call_id: The id that pairs call and observation; `None` where the record has none.
        turn: Number of the assistant message that made the call, from 1. Calls made in parallel share it.
        position: Index of that message in the messages of its trajectory or branch.
        branch: Name of the branch it was made in; empty for the trajectory's own dialogue.
    """

    tool: str
    arguments: Mapping[str, Any] | None = None
    outcome: Outcome | None = None
    call_id: str | None = None
    turn: int = 1
    position: int = 0
    branch: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """The dialogue of a sub-agent that the trajectory's own dialogue does not contain.

    Attributes:
        name: The nodes that lead to the sub-agent, joined by `/`.
        after: How many messages of the trajectory came before it.
        messages: Its messages.
    """

    name: str
    after: int
    messages: tuple[ChatMessage, ...]


RECALLED = "recalled"
"""Key of a record's metadata under which it stands what was recalled for it; there also where nothing was."""


@dataclass(frozen=True, slots=True)
class Recall:
    """What was recalled for a run.

    Attributes:
        runs: The ids of past runs.
        tips: The ids of tips, each with those of the runs that it was taken from: other tips may stand in the store by
            the time these runs are forgotten.
    """

    runs: Sequence[str] = ()
    tips: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of_note(cls, note: Mapping[str, Any]) -> Self:
        """What a note says, as `note` writes it; it may come from anybody."""
        runs, tips, sources = (
            note.get("runs"),
            note.get("tips"),
            get_mapping(note, "sources"),
        )
        return cls(
            _to_ids(runs), {tip: _to_ids(sources.get(tip)) for tip in _to_ids(tips)}
        )

    def __bool__(self) -> bool:
        """Whether anything was recalled."""
        return bool(self.runs or self.tips)

    def __or__(self, later: "Recall") -> "Recall":
        """What was recalled at one of two times."""
        return Recall(
            tuple(dict.fromkeys([*self.runs, *later.runs])), {**self.tips, **later.tips}
        )

    def note(self) -> dict[str, Any]:
        """It as plain data."""
        sources = {tip: list(runs) for tip, runs in self.tips.items() if runs}
        return {
            "runs": list(self.runs),
            "tips": list(self.tips),
            **({"sources": sources} if sources else {}),
        }

    def metadata(self) -> dict[str, Any]:
        """The metadata of a run for which past runs were looked for."""
        return {RECALLED: self.note()}

    def gone(self, is_gone: Callable[[str], bool]) -> set[str]:
        """The ids of what is gone: a tip goes with any run that it was taken from, whatever the others."""
        return {
            *filter(is_gone, self.runs),
            *(tip for tip, runs in self.tips.items() if any(map(is_gone, runs))),
        }

    def without(self, gone: Collection[str]) -> "Recall":
        """What is left where runs and tips are gone."""
        lost = {*gone, *self.gone(gone.__contains__)}
        tips = {tip: runs for tip, runs in self.tips.items() if tip not in lost}
        return Recall(tuple(run for run in self.runs if run not in lost), tips)


def _to_ids(ids: Any) -> tuple[str, ...]:
    return tuple(map(str, ids)) if isinstance(ids, list | tuple) else ()


JUDGED_BY = "judged_by"  # key of a record's metadata: who has judged it

VerdictSource = Literal["verdict", "user", "agent"]
"""Who says whether a run succeeded: a verdict, a person, or the agent about itself."""

CAME_FROM = "came_from"
"""Key of a record's metadata under which it stands whom the run came from, such as a user. The host says so: what the
run itself says would be the word of whoever made it."""


@dataclass(frozen=True)
class Trajectory:
    """One run of an agent on one task: who said what, which tools were called, and what came of it.

    It is immutable. Make one from LangChain messages with `from_messages`, from OpenAI chat messages with `from_chat`,
    from files with `load_trajectories`, or from a LangGraph thread with `load_thread`. It is the one record that
    everything else is made from.

    Attributes:
        id: Identifies the run. Records with the same id are versions of the same run.
        task: What the user asked for.
        messages: The dialogue in the OpenAI chat format.
        success: Whether it succeeded; `None` if nobody has said.
        branches: Dialogues of sub-agents that are not part of `messages`.
        reasons: Why it counts as a success or a failure.
        instructions: The system prompt of the agent, as its developer wrote it; empty if it is not known.
        metadata: Everything else the record came with, such as a reward.
    """

    id: str
    task: str
    messages: tuple[ChatMessage, ...] = ()
    success: bool | None = None
    branches: tuple[Branch, ...] = ()
    reasons: str = ""
    instructions: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The tool calls in order; those of a branch stand where the branch began."""
        placed = ((step.position, step) for step in steps_in(self.messages))
        return tuple(
            step
            for each in woven(placed, self.branches)
            for step in (
                steps_in(each.messages, branch=each.name)
                if isinstance(each, Branch)
                else [each]
            )
        )

    @property
    def turns(self) -> int:
        """Number of assistant messages, T in Eq. 1 of SIT-Graph."""
        return sum(part_of(message) == "reply" for message in self.messages)

    @classmethod
    def from_chat(
        cls,
        messages: Sequence[ChatMessage],
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        task: str | None = None,
        success: bool | None = None,
        branches: Sequence[Branch] = (),
        reasons: str = "",
        instructions: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        """Read a run from messages in the OpenAI chat format.

        Calls and observations are paired by id, and by order where ids fail. Reference material that this package has
        put there is left out: it did not happen in this run. Where they are left out, `id` is a hash of the dialogue,
        `task` its first user message, and `instructions` what it begins with.
        """
        own = [own_message(message) for message in messages]
        messages = tuple(message for message in own if message is not None)
        # Where a branch begins is counted in messages that stay.
        cleaned = (
            replace(
                each,
                after=each.after - own[: each.after].count(None),
                messages=own_messages(each.messages),
            )
            for each in branches
        )
        branches = tuple(sorted(cleaned, key=lambda each: (each.after, each.name)))
        return cls(
            id=id or digest(messages),
            task=first_request(messages) if task is None else task,
            messages=messages,
            success=success,
            branches=branches,
            reasons=reasons,
            instructions=instructions or opening_instructions(messages),
            metadata=metadata or {},
        )

    @classmethod
    def from_messages(
        cls,
        messages: Sequence[BaseMessage],
        *,
        task: str | None = None,
        success: bool | None = None,
        id: str | None = None,  # noqa: A002 - the field's name
        instructions: str = "",
    ) -> Self:
        """Read a run from LangChain messages, oldest first; what is marked in them as reference material is left out.

        Where they are left out, `id` is a hash of the conversation, `task` its first user message, and `instructions`
        what it begins with. Raises `TrajectoryFormatError` if something is no message that a conversation can hold.
        """
        chat = [to_chat(message) for message in messages]
        return cls.from_chat(
            chat, id=id, task=task, success=success, instructions=instructions
        )

    @property
    def source(self) -> VerdictSource | None:
        """Who has said whether it succeeded; `None` if that is not known, as for runs from files."""
        by = self.metadata.get(JUDGED_BY)
        return by if by in ("verdict", "user", "agent") else None

    @property
    def came_from(self) -> str:
        """Whom the run came from; empty if that is not known, and then it counts as somebody of its own.

        So does each conversation of a file: those that are published are by many people. Where one file is one
        source, `coming_from` says so.
        """
        name = self.metadata.get(CAME_FROM)
        return name if isinstance(name, str) else ""

    def coming_from(self, name: str) -> Self:
        """A copy of the run that came from somebody, such as a user, an agent or a file."""
        return replace(self, metadata={**self.metadata, CAME_FROM: name})

    @property
    def voice(self) -> tuple[str, str]:
        """What counts once where runs are counted: whom it came from, and the task.

        What an agent says of its own success is worth one voice, however many tasks it has.
        """
        return (
            self.came_from or f"run {self.id}",
            "" if self.source == "agent" else self.task,
        )

    def judged(
        self,
        success: bool | None,  # noqa: FBT001 - the verdict itself
        reasons: str = "",
        *,
        source: VerdictSource | None = None,
    ) -> Self:
        """A copy of the run with a verdict: whether it succeeded, and why; with a `source`, also who says so."""
        metadata = (
            self.metadata if source is None else {**self.metadata, JUDGED_BY: source}
        )
        return replace(self, success=success, reasons=reasons, metadata=metadata)

    @property
    def recall(self) -> Recall:
        """What was recalled for it."""
        return Recall.of_note(get_mapping(self.metadata, RECALLED))

    def with_recall(self, recall: Recall) -> Self:
        """A copy of the run with what was recalled for it."""
        return replace(self, metadata={**self.metadata, **recall.metadata()})

    def dialogues(self) -> Iterator[tuple[str, tuple[ChatMessage, ...]]]:
        """The dialogue of the trajectory, named by an empty text, then those of its branches by their names."""
        yield "", self.messages
        for branch in self.branches:
            yield branch.name, branch.messages

    @property
    def aim(self) -> str:
        """What the user wanted in the end: the task, unless that is no more than the first thing they said."""
        return (
            aim_of(requests_in(self.messages))
            if self.task == first_request(self.messages)
            else self.task
        )

    def to_messages(self) -> list[BaseMessage]:
        """The dialogue as LangChain messages.

        They equal those that the trajectory was made from, apart from reference material. A message without a role
        raises `TrajectoryFormatError`.
        """
        return [to_message(message) for message in self.messages]

    def to_html(self, path: "str | os.PathLike[str]") -> None:
        """Write the run as a page to read: who said what, calls with their results, what was off, and the verdict.

        It is one file that asks nobody for anything. Long texts are shortened so that it stays below 1 MB.
        """
        from langchain_tooltree.pages.records import write_run  # noqa: PLC0415 - only who looks at a run needs it

        write_run(self, path)


def own_message(message: ChatMessage) -> ChatMessage | None:
    """A message without reference material; `None` if it holds nothing else.

    An observation stays where nothing is left of it, since its call needs one.
    """
    content, part = message.get("content"), part_of(message)
    if part in PROMPTED:
        rest = without_reference(content)
        return message if rest is content else {**message, "content": rest}
    if part == "observation" and (extras := extras_of(message)):
        observation, rest = without_notes(content, extras, tool=message.get("name"))
        return (
            message
            if rest is extras
            else {**message, "content": observation, EXTRAS: rest}
        )
    return None if part == "reference" else message


def own_messages(messages: Iterable[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Messages without reference material, in order."""
    return tuple(
        own for message in messages if (own := own_message(message)) is not None
    )


def extras_of(message: ChatMessage) -> Mapping[str, Any]:
    """What a LangChain message had that the chat format has no place for; empty if there is nothing."""
    return get_mapping(message, EXTRAS)


def metadata_of(message: ChatMessage) -> Mapping[str, Any]:
    """The `response_metadata` of a LangChain message: what stands beside its content."""
    return get_mapping(extras_of(message), "response_metadata")


def requests_in(messages: Iterable[ChatMessage]) -> Iterator[str]:
    """The texts of the requests among messages that hold no reference material."""
    by_user = (
        message for message in messages if message.get("role") == "user"
    )  # few, and soon known
    return (
        text_of(message.get("content"))
        for message in by_user
        if part_of(message) == "request"
    )


def first_request(messages: Iterable[ChatMessage]) -> str:
    """What the user asked for first, in words; empty if nobody asked for anything."""
    return next(filter(None, map(str.strip, requests_in(messages))), "")


LONGEST_AIM = 400
"""Characters of what somebody wants who has said it in several turns: about 100 tokens. Of 200 to 1,000, more of real
support dialogues only adds what they share with others."""


def aim_of(requests: Iterable[str]) -> str:
    """What a user wants in the end, from all that they said: the first want, then the latest ones that have room.

    Greetings, thanks, consent, and who they are do not count, unless that is all there is. A single request stands as
    it is.
    """
    texts = [text for text in map(str.strip, requests) if text]
    wants = (
        list(dict.fromkeys(filter(None, map(remove_small_talk, texts)))) or texts[:1]
    )
    if len(texts) <= 1 or not wants:
        return shortened(texts[0]) if texts else ""
    aim = [cut(wants[0], LONGEST_AIM // 2 if len(wants) > 1 else LONGEST_AIM)]
    left = LONGEST_AIM - len(aim[0])
    for want in reversed(wants[1:]):
        if left < len(want) + 1 and len(aim) > 1:
            break
        aim.insert(1, cut(want, left - 1))
        left -= len(aim[1]) + 1
    return " ".join(aim)


def opening_instructions(messages: Iterable[ChatMessage]) -> str:
    """The system prompt in a dialogue: the text of the system messages that it begins with, without our additions."""
    opening = takewhile(
        lambda message: PARTS.get(str(message.get("role"))) == "instruction", messages
    )
    texts = (
        text_of(without_reference(message.get("content"))).strip()
        for message in opening
    )
    return "\n\n".join(filter(None, texts))


def text_of(content: Any) -> str:
    """The text in the content of a message: of a string, or of the text blocks of a list."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, Sequence):
        return "\n".join(filter(None, map(text_in, content)))
    return str(content)


def readable(content: Any) -> str:
    """The content of a message as text; blocks that are not text are named, as `[image]`, not shown."""
    if not isinstance(content, list | tuple):
        return text_of(content)
    return text_of(
        [each if isinstance(each, str) else _name_block(each) for each in content]
    )


def _name_block(block: Any) -> Any:
    return (
        block.get("text") or f"[{block.get('type', 'content')}]"
        if isinstance(block, Mapping)
        else None
    )


def steps_in(messages: Sequence[ChatMessage], *, branch: str = "") -> list[Step]:
    """The tool calls of a dialogue in order, each with its observation; what names no function is no call.

    See `paired` for which observation belongs to which call.
    """
    return paired(messages, branch=branch)[0]


def paired(
    messages: Sequence[ChatMessage], *, branch: str = ""
) -> tuple[list[Step], dict[int, int]]:
    """The tool calls of a dialogue, and by the place of each observation that belongs to one the number of its call.

    An observation belongs to a call of its id. Where ids are missing, unknown or the same for several calls, the order
    decides: the earliest call without an observation in the latest reply that has one, of the tool that the observation
    names if there is one.
    """
    steps: list[Step] = []
    answers: dict[int, int] = {}
    open_calls: list[int] = []
    turn = 0
    for position, message in enumerate(messages):
        match part_of(message):
            case "reply":
                turn += 1
                for call in entries_in(message):
                    name = function_of(call).get("name")
                    if name and isinstance(name, str):
                        open_calls.append(len(steps))
                        steps.append(
                            Step(
                                name,
                                arguments_of(call),
                                None,
                                call.get("id"),
                                turn,
                                position,
                                branch,
                            )
                        )
            case "observation":
                number = _call_of(message, steps, open_calls)
                if number is not None:
                    open_calls.remove(number)
                    answers[position] = number
                    status: Literal["success", "error"] = (
                        "error" if message.get("error") else "success"
                    )
                    steps[number] = replace(
                        steps[number], outcome=Outcome(message.get("content"), status)
                    )
    return steps, answers


def _call_of(
    observation: ChatMessage, steps: Sequence[Step], open_calls: Sequence[int]
) -> int | None:
    """The number of the call that an observation belongs to; `None` if there is none."""
    call_id = observation.get("tool_call_id")
    candidates = [
        number for number in open_calls if call_id and steps[number].call_id == call_id
    ]
    if not candidates:
        if call_id and any(step.call_id == call_id for step in steps):
            return None  # a second result of a call says nothing of another one
        candidates = list(open_calls)
    latest = [
        number
        for number in candidates
        if steps[number].turn == steps[candidates[-1]].turn
    ]
    named = (
        number for number in latest if steps[number].tool == observation.get("name")
    )
    return next(named, next(iter(latest), None))


def entries_in(message: ChatMessage) -> Sequence[Mapping[str, Any]]:
    """The entries of a message's `tool_calls` that can be one."""
    entries = message.get("tool_calls")
    return (
        [entry for entry in entries if isinstance(entry, Mapping)]
        if isinstance(entries, Sequence)
        else []
    )


def function_of(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """The function that an entry of `tool_calls` calls; empty if it calls something else."""
    return get_mapping(call, "function")


LONGEST_LITERAL = 100_000
"""Characters of arguments that are read as a Python literal, far above what models write: reading one is no stream."""


def arguments_of(call: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments of an entry of `tool_calls`: an object, its JSON, or a Python dict as benchmarks print it.

    `None` if they are none of these.
    """
    arguments = function_of(call).get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            arguments = _python_literal(arguments)
    return dict(arguments) if isinstance(arguments, Mapping) else None


def _python_literal(text: str) -> Any:
    """What a Python literal says, as JSON would; `None` if it is none, or says what JSON cannot.

    Python's own parser bounds how deep it may be.
    """
    if len(text) > LONGEST_LITERAL or not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(json.dumps(ast.literal_eval(text.strip())))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def woven(
    placed: Iterable[tuple[int, T]], branches: Sequence[Branch]
) -> Iterator[T | Branch]:
    """What stands at places in a dialogue, with its branches where they began."""
    rest = list(branches)
    for place, each in placed:
        while rest and rest[0].after <= place:
            yield rest.pop(0)
        yield each
    yield from rest


def call_key(tool: str, arguments: Mapping[str, Any]) -> str:
    """Canonical text of a call: equal for calls that mean the same."""
    return f"{tool}({json.dumps(arguments, sort_keys=True, default=str, ensure_ascii=False)})"


def call_entry(
    call_id: str | None, tool: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """A call as an entry of `tool_calls`."""
    function = {
        "name": tool,
        "arguments": json.dumps(arguments, ensure_ascii=False, default=str),
    }
    return {"id": call_id, "type": "function", "function": function}


SUCCESS_REWARD = 1.0
"""The reward from which on a run has succeeded, where the record does not say so itself: benchmarks such as tau-bench
give 1 for a solved task."""

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}

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
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    if not isinstance(message, BaseMessage) or isinstance(message, RemoveMessage):
        msg = f"A trajectory is made of messages, got {type(message).__name__}: {message!r:.80}."
        raise TrajectoryFormatError(msg)
    message = sound(message)
    defaults = defaults_of(type(message))
    extras = {
        name: value
        for name, value in message.__dict__.items()
        if name not in _IN_CHAT and value != defaults[name]
    }
    if message.__pydantic_extra__:
        extras |= message.__pydantic_extra__
    chat: dict[str, Any] = {"role": role_of(message)}
    chat["content"] = message.content
    if message.name is not None:
        chat["name"] = message.name
    if isinstance(message, AIMessage) and message.tool_calls:
        chat["tool_calls"] = [
            call_entry(call["id"], call["name"], call["args"])
            for call in message.tool_calls
        ]
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
    role, content = (
        chat.get("role"),
        "" if chat.get("content") is None else chat["content"],
    )
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
            return ToolMessage(
                content, tool_call_id=chat.get("tool_call_id") or "", **fields
            )
        case str():
            return RoleMessage(content=content, role=str(role), **fields)
        case _:
            msg = f"A message needs a role, such as 'user' or 'assistant'; got {dict(chat)!r:.200}."
            raise TrajectoryFormatError(msg)


def _assistant(
    chat: Mapping[str, Any], content: Any, fields: dict[str, Any]
) -> AIMessage:
    calls, invalid = [], list(fields.pop("invalid_tool_calls", ()))
    for entry in entries_in(chat):
        function, arguments = function_of(entry), arguments_of(entry)
        call = {"id": entry.get("id"), "name": function.get("name"), "args": arguments}
        if arguments is None or not call["name"]:
            written = function.get("arguments", json.dumps(entry, default=str))
            reason = (
                "its arguments are no JSON object"
                if call["name"]
                else "it calls no function"
            )
            invalid.append(
                {**call, "args": written, "error": reason, "type": "invalid_tool_call"}
            )
        else:
            calls.append({**call, "type": "tool_call"})
    return AIMessage(content, tool_calls=calls, invalid_tool_calls=invalid, **fields)


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
    if trajectory.task != first_request(messages):
        record["task"] = trajectory.task
    if trajectory.success != by_reward:
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


# --- messages of models ---

# LangChain checks a message when it is made. What an integration assigns later, or builds without checks, is checked
# here by the same classes, and what does not validate is left out: rubbish is normal input.

INVALID_ARGUMENTS = "the arguments are not valid JSON"  # what is said of a call that cannot be made as it is

_OPTIONAL_NAME_TYPES = frozenset({str, type(None)})

LARGEST_REPLY = 10_000  # values in the data of one reply to a question of ours; the largest forms have hundreds

_DATA = (
    "content",
    "additional_kwargs",
    "response_metadata",
    "tool_calls",
    "usage_metadata",
)
"""Fields of a message in which data may stand within data."""


def sound(message: MessageT) -> MessageT:
    """A message whose fields are of the types that its class declares: itself, nearly always.

    A field that does not validate, or that no checkpointer takes, has its default instead; of a required one it is "".
    """
    fields, kind, defaults = message.__dict__, type(message), defaults_of(type(message))
    if _is_ordinary(fields):
        return message
    unfit = [name for name in _DATA if is_nested_too_deeply(fields.get(name))]
    if not _are_blocks(fields.get("content")):
        unfit.append("content")
    values = fields | {name: defaults[name] for name in unfit}
    try:
        right = kind.model_validate({**values}, strict=True)
    except ValidationError as error:
        wrong = [
            str(each["loc"][0])
            for each in error.errors(include_input=False)
            if each["loc"]
        ]
        right = kind.model_validate(
            values | {name: defaults[name] for name in wrong}, strict=True
        )
    except (
        AttributeError,
        LookupError,
        TypeError,
    ):  # of LangChain's own validators, which do not say which field
        text = values["content"] if isinstance(values.get("content"), str) else ""
        right = kind.model_validate(defaults | {"content": text})
    if not isinstance(right.response_metadata.get("model_provider", ""), str):
        right.response_metadata = {}  # LangChain looks up by it how the blocks are to be read
    return (
        message
        if right.__dict__ == fields
        else message.model_copy(update=right.__dict__)
    )


def _are_blocks(content: Any) -> bool:
    """Whether the blocks of a content, if it has any, say in words of which type they are."""
    blocks = content if isinstance(content, list) else ()
    return all(
        isinstance(each.get("type", ""), str)
        for each in blocks
        if isinstance(each, dict)
    )


@cache
def defaults_of(kind: type[BaseMessage]) -> dict[str, Any]:
    """What the fields of a message are where nobody sets them, of a required one ""; not to be handed out unchecked."""
    fields = kind.model_fields.items()
    return {
        name: "" if each.is_required() else each.get_default(call_default_factory=True)
        for name, each in fields
    }


def _is_ordinary(fields: Mapping[str, Any]) -> bool:
    """Whether a message is a text that makes no call and holds nothing else: a long conversation has thousands."""
    return (
        type(fields.get("content")) is str
        and fields.get("additional_kwargs") == {}
        and fields.get("response_metadata") == {}
        and type(fields.get("id", "")) in _OPTIONAL_NAME_TYPES
        and type(fields.get("name")) in _OPTIONAL_NAME_TYPES
        and type(fields.get("tool_call_id", "")) is str
        and fields.get("tool_calls", []) == fields.get("invalid_tool_calls", []) == []
        and fields.get("usage_metadata") is None
    )


def is_too_large(reply: AIMessage) -> bool:
    """Whether a reply to a question of ours holds more data than any of them asks for: checking all takes too long.

    What a provider adds does not count: with `logprobs`, metadata have dozens of values for each token.
    """
    return any(
        holds_more_values(reply.__dict__.get(name), LARGEST_REPLY)
        for name in ("content", "tool_calls")
    )


def storable(reply: AIMessage) -> AIMessage:
    """A sound reply that was asked for, as it can be kept: calls that JSON or a store cannot say are invalid calls."""
    if is_plain_data(reply.content) and is_plain_data(reply.tool_calls):
        return reply
    broken = [
        invalid_tool_call(
            name=to_plain_data(call["name"]),
            args=shortened(str(to_plain_data(call["args"]))),
            error=INVALID_ARGUMENTS,
        )
        for call in reply.tool_calls
        if not is_plain_data(call)
    ]
    update = {
        "content": to_plain_data(reply.content),
        "tool_calls": [call for call in reply.tool_calls if is_plain_data(call)],
        "invalid_tool_calls": [*reply.invalid_tool_calls, *broken],
    }
    return reply.model_copy(update=update)


def calls_in(message: BaseMessage) -> list[ToolCall]:
    """The calls that a message makes."""
    return message.tool_calls if isinstance(message, AIMessage) else []


# --- reads and writes ---
