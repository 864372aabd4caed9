"""Parse the report on what is missing that a model adds to its final answer.

The planner asks the model to begin each final answer with a line of JSON. This
module holds that instruction, and separates the report from the answer for the user:

    **{"missing": "the total"}** Order 7 is open.

- The *report* is a JSON object with the key `missing`: `{"missing": "the total"}`.
- Its *opening* is what the model puts directly before it. Here it is `**`. Others are
  the `> ` of a quotation, quotation marks, and a code fence with its language.
- Its *closing* ends what the opening began. Here it is `**`, too.
- The *answer* is the rest: `Order 7 is open.`

A report is removed where a text begins, after the model's `<think>` block. Behind the
beginning of an answer it stays, because it may be a quotation: the text of a tool must
never pass for the report of the model.
"""

# ruff: noqa: RUF001 - the typographic quotation marks and dashes are meant.

import re
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolCall

from langchain_tooltree.tooltree.model_json import read_object, read_tool_call
from langchain_tooltree.tooltree.thinking import split_thinking

REPORT_PROMPT = 'First line of an answer: {"missing": "nothing, or what"}'
"""The instruction for a report that only describes what is missing.

Each model call of the agent pays for it, so it is short.
"""

REPORT_AND_CALL_PROMPT = (
    "Begin an answer (a reply without tool calls) with one line of JSON: "
    '{"missing": "nothing", "call": null}. If your tools can still find out or do a '
    'part of the request, name that part instead of "nothing", and the next call for '
    'it as {"name": ..., "args": {...}}.'
)
"""The instruction for a report that also proposes the next tool call.

It is used where the request is so large that it is at most a twentieth of it.
"""

REPORT_AND_UNDO_PROMPT = (
    'First line of an answer: {"missing": "nothing, or what", "wrong": null}. If a '
    "step was wrong, put the number of the first such step for null. A step is a "
    "message of this turn that calls tools, counted from 1."
)
"""The instruction for a report that also names a step to undo, for use in a sandbox."""

_PLACEHOLDERS = frozenset({"nothing, or what", "or what", "what"})
"""What stands in the instruction where the description belongs. Some models copy it."""

MAX_REPORT_LENGTH = 2_000
"""The number of characters at the beginning of an answer in which a report is found.

Text of an answer is held back from the stream as long as it may be a report, but
never more than this number of characters.
"""

REPORT_KEYS = frozenset({"missing", "call", "wrong"})

_NOTHING_PHRASES_BY_LANGUAGE = {
    "English": (
        "no, none, nothing, null, nil, n/a, na, false, undefined, empty, done, "
        "all done, complete, completed, nothing missing, nothing is missing, "
        "nothing else, nothing else is missing, nothing more, nothing further, "
        "nothing left, nothing to add, nothing at all, none missing, "
        "no missing information, no missing data, no missing items, "
        "no information missing, no information is missing, no data is missing, "
        "not missing anything, not applicable, answer is complete, "
        "the answer is complete, everything is complete, everything is included, "
        "fully answered"
    ),
    "German": (
        "nein, kein, keine, keines, nichts, nichts fehlt, es fehlt nichts, "
        "fehlt nichts, nichts mehr, nichts weiter, nichts weiteres, leer, fertig, "
        "keine fehlenden informationen, keine informationen fehlen, "
        "es fehlen keine informationen, die antwort ist vollständig, vollständig, "
        "alles vollständig, alles vorhanden, alles da, alles erledigt, entfällt, "
        "nicht zutreffend"
    ),
    "French": (
        "non, rien, rien ne manque, il ne manque rien, rien d'autre, rien de plus, "
        "aucun, aucune, aucune information manquante, aucun élément manquant, "
        "aucune information ne manque, néant, sans objet, s/o, complet, "
        "tout est complet, la réponse est complète"
    ),
    "Spanish": (
        "nada, nada falta, no falta nada, nada más, ninguno, ninguna, "
        "ninguna información, no falta información, no falta ninguna información, "
        "completo, completa, todo completo, todo está completo, no aplica, "
        "la respuesta está completa"
    ),
}

NOTHING_PHRASES = frozenset(
    ", ".join(_NOTHING_PHRASES_BY_LANGUAGE.values()).split(", ")
)
"""Descriptions, in lower case and without punctuation, that say nothing is missing."""

_CLAUSE_END = re.compile(r"[.,;:!(\n]|\s[-–—]+\s|[–—]")
_EXCEPTION = re.compile(
    r"\b(?:but|except|however|only|still|apart|aber|außer|nur|jedoch"
    r"|mais|sauf|seulement|pero|excepto|salvo|solo)\b",
    re.IGNORECASE,
)

_REPORT_OPENING = re.compile(
    r"""
    \A\s*+
    # Quotations, headings and list items, which need no closing.
    (?:[ \t>\#•]|[*-][ \t])*+
    (?:
        # A code fence with its language. When the report has been removed from it, a
        # part of the closing fence may follow.
        (?P<fence>`{3,}+|~{3,}+|-{3,}+)[ \t]*+\w*+\s*+(?:[`~-]+\Z)?
        # Bold, code, quotation marks.
        | (?P<marks>[*_~`"'“”„‟‘’‚‛«»-]*+)
    )
    # The report follows, or has not arrived yet.
    (?=\{|\Z)
    """,
    re.VERBOSE,
)
_CLOSING_MARKS = str.maketrans("“„‘‚«»", "”“’‘»«")

# An object whose first key is a key of the report, or has not arrived completely.
_REPORT_KEY_FIRST = re.compile(
    r"\{\W*(?:(?:missing|call|wrong)\b|\w*\Z)",
    re.IGNORECASE,
)
_UNREADABLE_REPORT = re.compile(r"\{\W*missing[^\w:=]*[:=]", re.IGNORECASE)


@dataclass(frozen=True)
class ParsedAnswer:
    """An answer of a model, separated from its report.

    Attributes:
        answer: The text for the user, without the report. It is empty if the model
            wrote nothing but the report.
        has_report: True if there was a report, even one that cannot be read.
        missing: The description of what is missing. None if nothing is missing, or
            if nothing is known about it.
        call: The tool call that the model proposes, without an id.
        wrong: The number of the message whose tool calls were a mistake.
    """

    answer: str
    has_report: bool = False
    missing: str | None = None
    call: ToolCall | None = None
    wrong: int | None = None


@dataclass(frozen=True)
class _Report:
    """The report at the beginning of a text, and the text around it.

    Attributes:
        content: The keys of the report in lower case, with their values. It is empty
            if the report cannot be read.
        unclosed_opening: The opening, if no closing follows the report. It belongs to
            the answer, as in `**{"missing": null} Order 7** is open.`
        following_text: The text after the report and its closing.
    """

    content: dict[str, Any]
    unclosed_opening: str
    following_text: str


def parse_report(text: str) -> ParsedAnswer:
    r"""Separate the text of an answer from the report in it.

    An answer without a report is returned unchanged.

    Example:
        ```python
        parsed = parse_report('{"missing": "the total"}\nOrder 7 is open.')
        assert parsed.answer == "Order 7 is open."
        assert parsed.missing == "the total"
        ```

    Args:
        text: The text of a final answer.

    Returns:
        The answer for the user, and what the report says.
    """
    thinking, visible_text = split_thinking(text)
    answer, reports = remove_leading_reports(visible_text)
    if not reports:
        return ParsedAnswer(text)

    content = reports[0]
    return ParsedAnswer(
        (thinking + answer).strip(),
        has_report=True,
        missing=_describe_missing(content.get("missing")),
        call=read_tool_call(content.get("call")),
        wrong=_read_number(content.get("wrong")),
    )


def may_start_report(line_so_far: str) -> bool:
    r"""Return True if a line that has arrived in part may turn out to be a report.

    A stream holds such a line back. A report can have several lines, for example in a
    code fence, so the text may contain line breaks.

    Example:
        ```python
        assert may_start_report('**{"miss')
        assert may_start_report('**{"missing": null}**\n')
        assert not may_start_report('**{"missing": null}**\nOrder')
        ```

    Args:
        line_so_far: The text from the beginning of a line on.

    Returns:
        True if the text is a report, several reports, or the beginning of one.
    """
    if len(line_so_far) > MAX_REPORT_LENGTH:
        return False

    # After the reports that are complete, only the beginning of one may follow.
    rest = line_so_far
    while report := _read_report(rest):
        rest = report.unclosed_opening + report.following_text

    opening = _REPORT_OPENING.match(rest)
    if opening is None:
        return False
    # If nothing follows the opening, then all of the object is still to come.
    object_so_far = rest[opening.end() :]
    if object_so_far and not _REPORT_KEY_FIRST.match(object_so_far):
        return False
    json_object = read_object(object_so_far)
    is_followed_by_text = json_object.end < len(object_so_far)
    return not json_object.is_closed and not is_followed_by_text


def remove_leading_reports(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Remove the reports at the beginning of a text.

    They are only looked for in as many characters as a stream holds back. Otherwise
    the user would have seen a long report already.

    Args:
        text: The text of an answer, after the model's `<think>` block.

    Returns:
        The text without the reports, and the content of each report.
    """
    beginning, later_text = text[:MAX_REPORT_LENGTH], text[MAX_REPORT_LENGTH:]
    reports: list[dict[str, Any]] = []
    while report := _read_report(beginning):
        # A report that reaches the later text may go on there.
        is_too_long = bool(later_text) and not report.following_text
        if is_too_long:
            break
        # Some models repeat their report. Anything else may be a quotation.
        if reports and report.content != reports[0]:
            break
        reports.append(report.content)
        # The next report, if there is one, now stands at the beginning.
        beginning = report.unclosed_opening + report.following_text
    return beginning + later_text, reports


def _read_report(text: str) -> _Report | None:
    """Read the report at the beginning of a text, with its opening and closing.

    Returns:
        The report, or None if the text does not begin with a report.
    """
    opening = _REPORT_OPENING.match(text)
    if opening is None:
        return None
    text_after_opening = text[opening.end() :]
    if not _REPORT_KEY_FIRST.match(text_after_opening):
        # Code and JSON with other keys are streamed as soon as their first key is known.
        return None
    json_object = read_object(text_after_opening)
    content = _read_content(json_object.value, text_after_opening[: json_object.end])
    if content is None:
        return None

    # Some models write one brace too many, or a comma after the report.
    following_text = text_after_opening[json_object.end :].lstrip("},;.").lstrip()
    text_after_closing = _remove_closing(following_text, _get_closing(opening))
    if text_after_closing is None:
        return _Report(content, opening[0], following_text)
    return _Report(content, "", text_after_closing)


def _read_content(
    value: dict[str, Any] | None,
    object_text: str,
) -> dict[str, Any] | None:
    """Return the content of a report, or None if an object is not a report.

    Args:
        value: The object, or None if it cannot be read as JSON.
        object_text: The text of the object. If it cannot be read, but begins like a
            report, as in `{"missing": nul`, then the content is empty.
    """
    if value is None:
        return {} if _UNREADABLE_REPORT.match(object_text) else None
    content = {key.strip().lower(): value[key] for key in value}
    # An object with other keys is an answer of the application's own.
    is_report = "missing" in content and content.keys() <= REPORT_KEYS
    return content if is_report else None


def _get_closing(opening: re.Match[str]) -> str:
    """Return the closing that belongs to an opening, or "" if it needs none.

    For example, "**`" is closed by "`**", "```json" by "```", and "> " by nothing.
    """
    if opening["fence"]:
        return opening["fence"]
    return opening["marks"][::-1].translate(_CLOSING_MARKS)


def _remove_closing(text: str, closing: str) -> str | None:
    """Remove a closing from the beginning of a text.

    Returns:
        The text after the closing, or None if the text does not begin with it.
    """
    if not closing:
        return text
    if not text.startswith(closing):
        return None
    return text.removeprefix(closing).lstrip(",;.").lstrip()


def _describe_missing(value: object) -> str | None:
    """Return a description of what is missing, or None if the value does not say.

    The descriptions in a list, or in the values of an object, are joined.
    """
    if isinstance(value, list):
        items = value
    elif isinstance(value, dict):
        items = list(value.values())
    else:
        items = [value]

    descriptions = []
    for item in items:
        if not isinstance(item, str):
            continue
        if not _means_nothing(item) and not _is_copied_instruction(item):
            descriptions.append(item.strip())
    return "; ".join(descriptions) or None


def _means_nothing(description: str) -> bool:
    """Return True if a description says that nothing is missing.

    Models explain such a description ("N/A - all done"). So only its first clause
    counts, unless the explanation makes an exception ("Nothing, except the date").
    """
    if _EXCEPTION.search(description):
        return False
    first_clause, *_ = _CLAUSE_END.split(description, maxsplit=1)
    phrase = _normalize_phrase(first_clause)
    return not phrase or phrase in NOTHING_PHRASES


def _is_copied_instruction(description: str) -> bool:
    """Return True if a description is the placeholder of the instruction itself."""
    return _normalize_phrase(description) in _PLACEHOLDERS


def _normalize_phrase(text: str) -> str:
    """Return a text in lower case, without punctuation at its ends."""
    words = text.lower().replace("’", "'").split()
    return re.sub(r"^\W+|\W+$", "", " ".join(words))


def _read_number(value: object) -> int | None:
    """Return the number of a message, which models also write as a string."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return None
