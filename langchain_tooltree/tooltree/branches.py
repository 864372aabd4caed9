"""The search tree as a conversation holds it.

The messages of all branches stand in the host's state, one behind the other, as they were made. The model sees one
path: all messages but those whose ids are hidden. The `Mark` holds these ids and what else the search knows of the
turn, as plain data: in a private channel of the state, or in the metadata of the newest message. There is nothing else
to resume.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolCall,
    ToolMessage,
)
from pydantic import TypeAdapter, ValidationError

from langchain_tooltree.anomaly.rules import has_failed, is_empty
from langchain_tooltree.messages.additions import (
    NOTES_KEY,
    get_tool_output,
)
from langchain_tooltree.messages.kinds import get_tool_calls
from langchain_tooltree.messages.tool_calls import Call, Result
from langchain_tooltree.text import call_label, get_call_key

if TYPE_CHECKING:
    pass


KEY = NOTES_KEY  # under which a state or a message holds the mark
SUMMARY = "summarization"  # the `lc_source` of a message that stands in the place of earlier ones


@dataclass(frozen=True, slots=True)
class Candidate:
    """A read that may be tried next."""

    name: str  # of the tool
    args: dict[str, Any]
    hidden: list[
        str
    ]  # the ids that are hidden while it is tried: they say from which state of the turn it starts
    message: dict[
        str, Any
    ]  # the reply that offered it, for providers that want its reasoning back
    score: float | None = None  # r_pre in [0, 1], if a judge gave one

    @property
    def label(self) -> str:
        """The call in one line, for people."""
        return call_label(self.name, self.args)


@dataclass(frozen=True, slots=True)
class Best:
    """The best answer so far."""

    answer: dict[str, Any]  # the message, as `message_to_dict` gives it
    path: list[
        str
    ]  # ids of the messages of the turn that led to it, from the request on
    missing: str  # what it leaves open, as far as is known


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One message with calls of a plan that was tried in a sandbox."""

    message: dict[str, Any]  # as `message_to_dict` gives it
    tried: dict[
        str, str
    ]  # what each call brought back in the fork, by the ids of the calls


@dataclass(frozen=True, slots=True)
class Plan:
    """What is left of a plan, the step that is being carried out first."""

    steps: list[PlannedStep]
    answer: dict[str, Any] | None  # the message, if the plan ends in one


@dataclass(frozen=True, slots=True)
class Mark:
    """What a search knows of the turn, beside the messages."""

    turn: str | None = None  # id of the user's message that began the turn
    search: str = ""  # id of the search; empty while there was no doubt
    hidden: list[str] = field(
        default_factory=list
    )  # ids of the messages of abandoned branches
    parents: dict[str, str] = field(
        default_factory=dict
    )  # of the first message of each branch, what it follows
    used: int = 0  # model calls beyond those of the agent by itself
    usage: dict[str, Any] = field(
        default_factory=dict
    )  # their tokens, as `UsageMetadata`
    stops: int = 0  # how often the agent has answered in this turn
    again: int = (
        0  # how often its own step was asked again because of what its answer left open
    )
    asked: int = 0  # how often other calls were asked for
    missing: str = ""  # what the latest report says is missing
    doubts: list[list[str]] = field(
        default_factory=list
    )  # id of the message before a doubtful answer; what it lacks
    writes: list[str] = field(
        default_factory=list
    )  # tools whose writes have a first voice: a report named them
    evident: bool = False  # whether the turn itself spoke against the latest answer, see `report.Stop.is_evident`
    resumed: bool = False  # whether a write was made since the latest answer
    best: Best | None = None  # the best answer so far
    queue: list[Candidate] = field(
        default_factory=list
    )  # candidates that wait, most promising first
    plan: Plan | None = None  # what is left of a plan that was tried in a sandbox
    step: int = 0  # the super-step of the latest visit
    began: float = 0.0  # when the search began, in seconds of the clock
    recalled: dict[str, Any] = field(
        default_factory=dict
    )  # what was told of past runs, as a record notes it
    checked: bool = False  # whether a write was checked in this turn, see `SearchConfig.check_writes`

    @classmethod
    def from_dict(cls, data: Any) -> "Mark":
        """The mark that plain data holds; a new one for anything that is none, since clients may write a state."""
        if not isinstance(data, Mapping):
            return cls()
        try:
            return _MARKS.validate_python(data)
        except ValidationError:
            return cls()

    def to_dict(self) -> dict[str, Any]:
        """The mark as plain data, without what says nothing."""
        return {name: value for name, value in asdict(self).items() if value}

    @property
    def is_searching(self) -> bool:
        """Whether an answer was doubtful in this turn, and the search goes on."""
        return bool(self.search)


_MARKS = TypeAdapter(Mark)


class Branches:
    """The messages of a conversation, and which of them the model sees.

    Args:
        messages: All messages of the state.
        mark: The mark of the turn before this visit; that of another turn keeps its hidden ids only.
        is_read: Whether a call only reads.
        is_free: Whether a call may be tried and given up; the same if left out. In a sandbox it is so for its writes.
    """

    def __init__(
        self,
        messages: Sequence[BaseMessage],
        mark: Mark,
        is_read: Callable[[str, Any], bool],
        is_free: Callable[[str, Any], bool] | None = None,
    ) -> None:
        self.messages = messages
        self.is_read = is_read
        self.is_free = is_free or is_read
        self.begin = _last(messages, lambda each: isinstance(each, HumanMessage))
        request = messages[self.begin] if self.begin is not None else None
        if (
            request is not None
            and not _is_summary_message(request)
            and request.id != mark.turn
        ):
            mark = Mark(turn=request.id, hidden=mark.hidden)
        if (
            mark.hidden or mark.parents or mark.best
        ):  # what other middleware has removed is forgotten
            ids = {message.id for message in messages}
            places = {
                *mark.parents,
                *mark.parents.values(),
                *(mark.best.path if mark.best else ()),
            }
            if not ids.issuperset(
                places
            ):  # and a tree that does not fit any more is given up
                mark = replace(
                    mark, parents={}, best=None, queue=[], plan=None, missing=""
                )
            mark = replace(mark, hidden=[each for each in mark.hidden if each in ids])
        self.mark = mark

    @property
    def request(self) -> BaseMessage | None:
        """The user's latest message; `None` if there is none."""
        return None if self.begin is None else self.messages[self.begin]

    def path(self, hidden: Iterable[str] | None = None) -> Sequence[BaseMessage]:
        """The messages that the model sees; with `hidden`, those it would see if these ids were hidden instead."""
        ids = set(self.mark.hidden if hidden is None else hidden)
        return (
            [message for message in self.messages if message.id not in ids]
            if ids
            else self.messages
        )

    def this_turn(self, path: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        """The part of a path since the user's latest message."""
        at = _last(path, lambda each: each is self.request)
        return path if at is None else path[at + 1 :]

    @property
    def tried(self) -> dict[str, ToolCall]:
        """All calls of this turn, on any branch, by their canonical texts."""
        turn = self.messages if self.begin is None else self.messages[self.begin + 1 :]
        return {
            get_call_key(call["name"], call["args"]): call
            for message in turn
            for call in get_tool_calls(message)
        }

    @property
    def latest(self) -> list[ToolMessage]:
        """What the latest calls of the path brought back; nothing if the path does not end with it."""
        results: list[Any] = [
            *takewhile(
                lambda each: isinstance(each, ToolMessage), reversed(self.path())
            )
        ]
        return results[::-1]

    def results(self, path: Sequence[BaseMessage]) -> list[tuple[str, bool]]:
        """Of each result of the turn on a path, its tool and whether it has failed; a person's refusal is none."""
        results = (
            each for each in self.this_turn(path) if isinstance(each, ToolMessage)
        )
        return [
            (each.name or "", each.status == "error")
            for each in results
            if not is_decided(each)
        ]

    def weakest(self) -> list[str]:
        """The ids that are hidden if the search goes on from the weakest state of the turn.

        That is the state before the first reads that all failed or came back empty. Without any it is the state as it
        is now: nothing shows where the turn went astray. It never lies before a write.
        """
        path, hidden = self.path(), self.mark.hidden
        for at in range(len(path) - 1, -1, -1):
            calls = get_tool_calls(path[at])
            is_free = all(self.is_free(call["name"], call["args"]) for call in calls)
            if isinstance(path[at], HumanMessage) or not is_free:
                break
            results = results_of(path, at)
            if (
                results
                and is_fruitless(path[at], results)
                and not any(map(is_decided, results))
            ):
                hidden = self.mark.hidden + [
                    message.id for message in path[at:] if message.id
                ]
        return hidden

    def may_be_given_up(self, ids: Iterable[str | None]) -> bool:
        """Whether none of these messages makes a call that has changed something."""
        abandoned = set(ids)
        return all(
            self.is_free(call["name"], call["args"])
            for message in self.messages
            if message.id in abandoned
            for call in get_tool_calls(message)
        )


def results_of(messages: Sequence[BaseMessage], at: int) -> list[ToolMessage]:
    """What the calls of the message at a place brought back; ids may repeat in later messages of some models."""
    if not get_tool_calls(messages[at]):
        return []
    later = takewhile(lambda each: not isinstance(each, AIMessage), messages[at + 1 :])
    return [each for each in later if isinstance(each, ToolMessage)]


PERSON_DECISIONS = (
    "User rejected the tool call",
    "Note: a human reviewer replaced this tool call",
)
"""How results begin that `HumanInTheLoopMiddleware` writes where a person has rejected or edited a call."""


def is_decided(result: BaseMessage) -> bool:
    """Whether a result shows what a person decided about its call."""
    return isinstance(result, ToolMessage) and result.text.startswith(PERSON_DECISIONS)


def is_fruitless(message: BaseMessage, results: Sequence[ToolMessage]) -> bool:
    """Whether all calls of a message have failed or brought nothing back."""
    arguments = {call["id"]: call["args"] for call in get_tool_calls(message)}
    return all(
        _brought_nothing(result, arguments.get(result.tool_call_id) or {})
        for result in results
    )


def _brought_nothing(result: ToolMessage, arguments: dict[str, Any]) -> bool:
    content = get_tool_output(result)  # without additions such as a reflection
    call = Call(result.name or "", arguments, Result(content, result.status))
    # Only reads are explored, whatever the name of the tool says.
    return has_failed(call) or is_empty(call, is_read_only=True)


def _is_summary_message(message: BaseMessage) -> bool:
    return message.additional_kwargs.get("lc_source") == SUMMARY


def _last(
    messages: Sequence[BaseMessage], holds: Callable[[BaseMessage], bool]
) -> int | None:
    """The place of the last message of which something holds; `None` if there is none."""
    return next(
        (at for at in range(len(messages) - 1, -1, -1) if holds(messages[at])), None
    )


# --- calls in the blocks of a reply, as providers write them ---

FORM_FIELDS = frozenset(
    {"model_provider", "output_version"}
)  # metadata of a message that says how its blocks are to be read

CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call", "tool_call_chunk"})
"""Types of content blocks that repeat the calls of a message."""


def made_anew(reply: AIMessage, calls: Sequence[ToolCall], **others: Any) -> AIMessage:
    """A reply with other calls and fields, as one that costs nothing: its form is kept, but no id and no usage."""
    form = {
        key: each for key, each in reply.response_metadata.items() if key in FORM_FIELDS
    }
    fresh = {
        "id": None,
        "tool_calls": [*calls],
        "usage_metadata": None,
        "response_metadata": form,
        **others,
    }
    return reply.model_copy(update=fresh)


def call_blocks(call: ToolCall, form: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A call as a block of content, for forms in which typed streams read the calls from there."""
    if form.get("output_version") == "v1":
        return [{**call, "type": "tool_call"}]
    if form.get("model_provider") == "anthropic":
        return [
            {
                "type": "tool_use",
                "id": call["id"],
                "name": call["name"],
                "input": call["args"],
            }
        ]
    return []


def with_only_call(message: AIMessage, call: ToolCall | None) -> AIMessage:
    """A reply with one of its calls, or none, and without its text; the reasoning stays for providers that sign it."""
    content: Any = message.content
    if isinstance(content, list):
        ids = {None, call["id"]} if call else {None}
        content = [
            block
            for block in content
            if isinstance(block, dict)
            and block.get("type") != "text"
            and (
                block.get("type") not in CALL_BLOCKS
                or (block.get("call_id") or block.get("id")) in ids
            )
            # OpenAI's items of reasoning belong to the item behind them, and are refused without it.
            and (
                call is not None
                or block.get("type") != "reasoning"
                or "id" not in block
            )
        ]
    else:
        content = ""
    update = {
        "content": content,
        "tool_calls": [call] if call else [],
        "invalid_tool_calls": [],
    }
    return message.model_copy(update=update)


GEMINI_SIGNATURES = "__gemini_function_call_thought_signatures__"
"""Where Gemini's integration keeps the signatures of calls, by their ids."""


def repeated(reply: AIMessage, call: ToolCall) -> AIMessage:
    """A reply with another in place of its one call, as its provider expects that call back."""
    own = str(reply.tool_calls[0]["id"])
    content: Any = reply.content
    if isinstance(content, list):
        content = [
            _repeating(block, own, call) if isinstance(block, dict) else block
            for block in content
        ]
    keywords = dict(reply.additional_kwargs)
    if signatures := keywords.get(GEMINI_SIGNATURES):
        keywords[GEMINI_SIGNATURES] = {
            call["id"]: signatures.get(own, next(iter(signatures.values())))
        }
    return made_anew(reply, [call], content=content, additional_kwargs=keywords)


def _repeating(block: dict[str, Any], own: str, call: ToolCall) -> dict[str, Any]:
    """A block of content; one that repeats the call has its id and arguments, as providers name and write them."""
    if own not in (block.get("id"), block.get("call_id")):
        return block
    arguments = {
        "input": call["args"],
        "args": call["args"],
        "arguments": json.dumps(call["args"]),
    }
    ids = {key: call["id"] for key in ("id", "call_id") if block.get(key) == own}
    return {
        **block,
        **ids,
        **{key: value for key, value in arguments.items() if key in block},
    }


@dataclass(frozen=True, slots=True)
class VisitResult:
    """What comes of a visit."""

    message: AIMessage | None = (
        None  # to return; `None` for the own step as the host received it
    )
    remove: list[str] = field(
        default_factory=list
    )  # ids of messages that are to be removed from the conversation
    mark: Mark | None = None  # to keep for the next visit, if any is
    ended: "Ended | None" = (
        None  # the search that has ended with this visit, if one has
    )
    before: Sequence[
        BaseMessage
    ] = ()  # to return before the message: reads of a deep search with their results


@dataclass(frozen=True, slots=True)
class Ended:
    """A search that is over: the conversation with all its branches, the last mark, and the answer."""

    branches: Branches
    mark: Mark
    answer: AIMessage
    reason: str
