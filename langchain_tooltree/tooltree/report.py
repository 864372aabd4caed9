"""The report of an answer in a message, and what follows from it for the answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, ToolCall

from langchain_tooltree.messages.content import get_block_text
from langchain_tooltree.tooltree.completeness_report import ParsedAnswer, parse_report

AnyMessageT = TypeVar("AnyMessageT", bound=BaseMessage)

LARGE_REQUEST = 6_000
"""Characters of a request, tools included, from which the longer line is asked for."""


@dataclass(frozen=True, slots=True)
class Report:
    """What an answer says of itself.

    Attributes:
        missing: What of the request is not done yet, or "" if nothing is.
        call: The tool call that would help most, if the answer proposes one.
        wrong: The number, from 1, of the first step of the turn that was a mistake.
    """

    missing: str = ""
    call: ToolCall | None = None
    wrong: int | None = None

    @property
    def doubtful(self) -> bool:
        """Return True if the answer admits that something is missing or wrong."""
        return bool(self.missing) or self.wrong is not None


def build_report(parsed: ParsedAnswer) -> Report | None:
    """Return what a parsed answer reports, or None if it has no report."""
    if not parsed.has_report:
        return None
    return Report(
        missing=parsed.missing or "",
        call=parsed.call,
        wrong=parsed.wrong,
    )


def split_report(reply: AIMessage) -> tuple[AIMessage, Report | None]:
    """Take the report out of a reply.

    Returns:
        The reply with its other text and blocks, and the report. The reply itself and
        None if it has no report.
    """
    texts = find_texts(reply)
    text = "".join(texts)
    parsed = parse_report(text)
    report = build_report(parsed)
    if report is None:
        return reply, None
    answer_texts = _cut_texts(texts, text, parsed.answer)
    return without_blanks(with_texts(reply, answer_texts)), report


def _cut_texts(texts: Sequence[str], text: str, answer: str) -> list[str]:
    """Return the part of the answer that stands in each block.

    Args:
        texts: The text of each block.
        text: All of these texts, joined.
        answer: The text without its report. Where a report stood in the middle, such
            as after a `<think>` block, all of it goes to the first block with text.
    """
    start = text.find(answer)
    if start < 0:
        first_block = next(index for index, each in enumerate(texts) if each)
        return [answer if index == first_block else "" for index in range(len(texts))]

    end = start + len(answer)
    parts = []
    offset = 0
    for each in texts:
        parts.append(each[max(0, start - offset) : max(0, end - offset)])
        offset += len(each)
    return parts


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
