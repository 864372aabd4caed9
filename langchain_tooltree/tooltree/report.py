"""The line with which an answer begins: what of the request is not done yet.

A model that answers says in one line of JSON whether something is missing, and in large requests also which call would
help most. The line stands first, so that a doubtful answer is known before any of it is shown. A reply without such a
line is accepted as it is.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from langchain_tooltree.messages.content import get_block_text

AnyMessageT = TypeVar("AnyMessageT", bound=BaseMessage)

REPORT_PROMPT = 'First line of an answer: {"missing": "nothing, or what"}'
"""Stands at the end of the agent's instructions. Each of its model calls pays for it, so it is short."""

REPORT_AND_CALL_PROMPT = (
    'Begin an answer (a reply without tool calls) with one line of JSON: {"missing": "nothing", "call": null}. If your '
    'tools can still find out or do a part of the request, name that part instead of "nothing", and the next call for '
    'it as {"name": ..., "args": {...}}.'
)
"""Stands there where the request is so large that the longer line is at most a twentieth of it."""

REPORT_AND_UNDO_PROMPT = (
    'First line of an answer: {"missing": "nothing, or what", "wrong": null}. If a step was wrong, put the number of '
    "the first such step for null. A step is a message of this turn that calls tools, counted from 1."
)
"""Stands there where the steps are tried in a sandbox, and one that went wrong can be undone."""

LARGE_REQUEST = 6_000  # characters of a request, tools included, from which the longer line is asked for
LONGEST_REPORT = 2_000  # characters of a reply that are searched for its report. A stream holds back no more than these

_NOTHING = frozenset({"", "nothing", "none", "null", "no", "n/a"})


class NamedCall(BaseModel):
    """A call that a report names as the one that would help most."""

    model_config = ConfigDict(frozen=True)

    name: str
    args: dict[str, Any] = Field(default_factory=dict)


class Report(BaseModel):
    """What an answer says of itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    missing: (
        str | None
    )  # what of the request is not done yet, in words; empty if nothing is
    call: NamedCall | None = (
        None  # the one that would help most, if the answer names one
    )
    wrong: int | None = (
        None  # number, from 1, of the first step of the turn that should not have been made, if named
    )

    @field_validator("missing")
    @classmethod
    def _nothing_is_empty(cls, missing: str | None) -> str:
        text = " ".join((missing or "").split())
        return "" if text.rstrip(".!").casefold() in _NOTHING else text

    @field_validator("call", "wrong", mode="wrap")
    @classmethod
    def _unreadable_is_none(
        cls, value: Any, validate: ValidatorFunctionWrapHandler
    ) -> Any:
        try:
            return validate(value)
        except ValidationError:
            return None

    @property
    def doubtful(self) -> bool:
        """Whether the answer admits that something is missing or went wrong."""
        return bool(self.missing) or self.wrong is not None


_DECODER = json.JSONDecoder()
_BEGINNING = re.compile(
    r'\s*(?:\{\s*(?:"(?:\w*\Z|(?:missing|call|wrong)").*)?)?', re.DOTALL
)


def may_be_report(text: str) -> bool:
    """Whether a reply that begins with a text, as far as it has come, may turn out to begin with a report."""
    if len(text.lstrip()) > LONGEST_REPORT or _BEGINNING.fullmatch(text) is None:
        return False
    try:
        _DECODER.raw_decode(text.lstrip())
    except ValueError:
        return True  # the object is not complete
    except RecursionError:
        pass
    return False


def parse_report(text: str) -> tuple[Report, str] | None:
    """The report with which a reply begins, and the rest without the white space between them.

    `None` if there is no report, which an object with other keys is not: it is the answer.
    """
    start = text.lstrip()
    if not start.startswith("{"):
        return None
    try:
        data, end = _DECODER.raw_decode(start[:LONGEST_REPORT])
        report = Report.model_validate(data)
    except (ValueError, RecursionError):
        return None
    return report, start[end:].lstrip()


def split_report(reply: AIMessage) -> tuple[AIMessage, Report | None]:
    """Take the report out of a reply, other blocks left as they are; the reply itself and `None` if it has none."""
    texts = find_texts(reply)
    parts = parse_report("".join(texts))
    if parts is None:
        return reply, None
    report, rest = parts
    ahead = sum(map(len, texts)) - len(
        rest
    )  # characters of the report, which may stand in several blocks
    for at, text in enumerate(texts):
        texts[at] = text[ahead:]
        ahead -= min(ahead, len(text))
    return without_blanks(with_texts(reply, texts)), report


def find_texts(message: BaseMessage) -> list[str]:
    """The text of each block of a message's content, empty for blocks of other kinds."""
    blocks: list[Any] = (
        [message.content] if isinstance(message.content, str) else message.content
    )
    return [get_block_text(block) if _is_text(block) else "" for block in blocks]


def with_texts(message: AnyMessageT, texts: Sequence[str]) -> AnyMessageT:
    """A message with other texts, as `texts_of` gives them; what else a block holds, such as an id, stays."""
    if isinstance(message.content, str):
        return message.model_copy(update={"content": texts[0]})
    pairs = zip(message.content, texts, strict=True)
    content = [
        ({**block, "text": text} if isinstance(block, dict) else text)
        if _is_text(block)
        else block
        for block, text in pairs
    ]
    return message.model_copy(update={"content": content})


def with_first_text(message: AnyMessageT, text: str) -> AnyMessageT:
    """A message with a text where its first one stood, or behind its other blocks; the rest of its texts stay."""
    content: Any = text
    if isinstance(message.content, list):
        places = [
            at
            for at, each in enumerate(message.content)
            if isinstance(each, dict) and each.get("type") == "text"
        ]
        content = [
            *message.content,
            *([] if places else [{"type": "text", "text": ""}]),
        ]
        at = next(iter(places), -1)
        content[at] = {**content[at], "text": text}
    return without_blanks(message.model_copy(update={"content": content}))


def without_blanks(message: AnyMessageT) -> AnyMessageT:
    """A message without blocks of text that say nothing, which providers refuse; Gemini's signatures say something."""
    if isinstance(message.content, str):
        return message
    content = [
        block
        for block, text in zip(message.content, find_texts(message), strict=True)
        if text.strip()
        or not _is_text(block)
        or (isinstance(block, dict) and block.get("extras"))
    ]
    return message.model_copy(update={"content": content})


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or block.get("type") == "text"


Move = Literal["accept", "read", "again", "others"]
"""What to do with an answer: accept it, run a read that is named or waits, ask the agent's own step again with what is
missing, or ask for other calls at the weakest state of the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """What is known where the agent has answered without a call."""

    missing: bool  # whether its report, or a judge, says that something is missing: "no" always counts
    has_read: bool  # whether an untried read is named by the report, or waits from an earlier question
    idle: (
        bool  # whether the turn ends without any call although a tool fits the request
    )
    trouble: bool  # whether a call of the path has failed, and none of the same tool has succeeded since
    used: int  # extra model calls so far in this turn
    budget: int  # extra model calls at the most
    stops: int  # how often the agent has answered in this turn, this time included
    again: int  # how often its own step was asked again since
    asked: int  # how often other calls were asked for

    @property
    def is_evident(self) -> bool:
        """Whether the turn itself speaks against its first answer, whatever the answer reports."""
        return (self.idle or self.trouble) and self.stops == 1


def next_move(stop: Stop) -> Move:
    """What to do with an answer, cheapest first.

    A read costs one call, the own step after it; so does asking the own step again, which may take half of the budget.
    Asking for others costs two, and is left for where asking again has brought nothing. An answer is accepted where
    nothing speaks against it, or no model call is left.
    """
    left = stop.budget - stop.used
    if not (stop.missing or stop.is_evident) or left < 1:
        return "accept"
    if stop.has_read:
        return "read"
    if stop.again < max(1, stop.budget // 2):
        return "again"
    if stop.missing and stop.asked == 0 and left > 1:
        return "others"
    return "accept"


def is_trouble(results: Iterable[tuple[str, bool]]) -> bool:
    """Whether a failure stands that nothing has made good: of each result in order, its tool and whether it failed."""
    return any(dict(results).values())  # of each tool, the latest result


def admits(
    *, writes: bool, stops: int, named: bool, evident: bool, resumed: bool
) -> bool:
    """Whether an own step goes to the host: the first write after an answer needs two voices.

    One voice is the own step; the other one is a report that has `named` the tool, or a turn that was `evident`, see
    `Stop.is_evident`. Before any answer, and once the agent has `resumed` its work by a write, it needs none.
    """
    return not writes or stops == 0 or named or evident or resumed


def is_better(*, missing: bool, best_missing: bool, extends: bool) -> bool:
    """Whether a later answer takes the place of the best one so far.

    It does if it leaves nothing open, or no more than that one with new results beside all of its path (`extends`).
    """
    return not missing or (best_missing and extends)
