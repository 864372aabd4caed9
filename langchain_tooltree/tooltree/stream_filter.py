"""Remove the report from an answer that is being streamed."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from langchain_tooltree.tooltree.completeness_report import (
    may_start_report,
    parse_report,
    remove_leading_reports,
)
from langchain_tooltree.tooltree.thinking import THINK_END, THINK_START


class _Part(Enum):
    """The part of an answer that arrives next.

    An answer has an optional `<think>` block, optional reports, and the answer itself.
    """

    BEGINNING = auto()
    """The first characters, which decide if there is a `<think>` block."""

    THINKING = auto()
    """The rest of a `<think>` block."""

    REPORTS = auto()
    """The reports before the answer."""

    ANSWER = auto()
    """The answer after its reports."""


@dataclass(frozen=True)
class _Step:
    """A decision on text that has arrived.

    Attributes:
        shown: The text that can be shown.
        held: The text that follows it, which is decided later.
        next_part: The part of the answer to which the held text belongs.
    """

    shown: str
    held: str
    next_part: _Part


class ReportFilter:
    r"""A filter for the pieces of an answer, which holds back what may be a report.

    All that it returns, joined, equals `parse_report(text).answer` up to the white
    space at both ends, however the text is cut into pieces.

    Example:
        ```python
        report_filter = ReportFilter()
        for piece in ['{"missing": ', "null}", "\nOrder 7", " is open."]:
            print(report_filter.feed(piece), end="")
        print(report_filter.finish())
        ```
    """

    def __init__(self) -> None:
        self._part = _Part.BEGINNING
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be shown after a piece has arrived.

        Args:
            piece: The next piece of the answer.

        Returns:
            The text to show, which may include text that was held back before.
        """
        step = _FILTERS[self._part](self._held + piece)
        shown = step.shown
        # The piece can also contain the beginning of the next parts.
        while step.next_part is not self._part:
            self._part = step.next_part
            step = _FILTERS[self._part](step.held)
            shown += step.shown
        self._held = step.held
        return shown

    def finish(self) -> str:
        """Return the rest of the answer that is not a report.

        Call it once, when the answer is complete.
        """
        if self._part is _Part.REPORTS:
            # The answer has not begun yet, or all of it may be a report.
            return parse_report(self._held).answer
        return self._held


def _filter_beginning(text: str) -> _Step:
    """Show white space until it is clear if a `<think>` block begins the answer."""
    white_space, rest = _split_white_space(text)
    if rest.startswith(THINK_START):
        return _Step(white_space, rest, _Part.THINKING)
    if THINK_START.startswith(rest):
        return _Step(white_space, rest, _Part.BEGINNING)
    return _Step(white_space, rest, _Part.REPORTS)


def _filter_thinking(text: str) -> _Step:
    """Show the `<think>` block, except for an end tag that has arrived in part."""
    thinking, end_tag, rest = text.partition(THINK_END)
    if end_tag:
        return _Step(thinking + end_tag, rest, _Part.REPORTS)
    # The text may end with "</think", so as many characters are held back.
    shown_length = max(0, len(text) - len("</think"))
    return _Step(text[:shown_length], text[shown_length:], _Part.THINKING)


def _filter_reports(text: str) -> _Step:
    """Hold the reports back, and drop them as soon as the answer itself begins."""
    white_space, rest = _split_white_space(text)
    if may_start_report(rest):
        return _Step(white_space, rest, _Part.REPORTS)
    answer, _ = remove_leading_reports(rest)
    return _Step(white_space, answer, _Part.ANSWER)


def _filter_answer(text: str) -> _Step:
    """Show all of the answer: reports stand before it, and are removed by now."""
    return _Step(text, "", _Part.ANSWER)


def _split_white_space(text: str) -> tuple[str, str]:
    """Split a text after the white space at its beginning."""
    rest = text.lstrip()
    return text[: len(text) - len(rest)], rest


_FILTERS: dict[_Part, Callable[[str], _Step]] = {
    _Part.BEGINNING: _filter_beginning,
    _Part.THINKING: _filter_thinking,
    _Part.REPORTS: _filter_reports,
    _Part.ANSWER: _filter_answer,
}
