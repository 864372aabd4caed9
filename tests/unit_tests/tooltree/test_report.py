"""The line with which an answer says what is missing."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langchain_tooltree.tooltree.report import (
    NamedCall,
    Report,
    may_be_report,
    parse_report,
    split_report,
)

READABLE: dict[str, tuple[str, Report, str]] = {
    "nothing": ('{"missing": "nothing"}\nDone.', Report(missing=""), "Done."),
    "nothing, in other words": (
        '{"missing": " None. "} Done.',
        Report(missing=""),
        "Done.",
    ),
    "null": ('{"missing": null}\n\nDone.', Report(missing=""), "Done."),
    "something": (
        '\n{"missing": "the\\n price"}Well',
        Report(missing="the price"),
        "Well",
    ),
    "a call": (
        '{"missing": "it", "call": {"name": "look", "args": {"at": 1}}}',
        Report(missing="it", call=NamedCall(name="look", args={"at": 1})),
        "",
    ),
    "no call": ('{"missing": "it", "call": "look"}', Report(missing="it"), ""),
    "a wrong step": (
        '{"missing": "nothing", "wrong": 2}\nOops',
        Report(missing="", wrong=2),
        "Oops",
    ),
    "no step": (
        '{"missing": "nothing", "wrong": "none"}\nOops',
        Report(missing=""),
        "Oops",
    ),
}


@pytest.mark.parametrize(("text", "report", "rest"), READABLE.values(), ids=READABLE)
def test_a_report_is_taken_out_of_the_text_behind_it(
    text: str, report: Report, rest: str
) -> None:
    assert parse_report(text) == (report, rest)


UNREADABLE = {
    "prose": 'I say {"missing": "nothing"}',
    "a list": '["missing"]',
    "JSON of its own": '{"found": 3}',
    "JSON with other keys": '{"missing": "two", "found": 3}',
    "another type": '{"missing": ["a", "b"]}',
    "cut off": '{"missing": "noth',
    "too long": f'{{"missing": "{"x" * 2000}"}}',
    "too deep": '{"missing": ' + "[" * 1900,
    "nothing": "",
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_report_stays_in_the_text(text: str) -> None:
    assert parse_report(text) is None
    assert split_report(AIMessage(text)) == (AIMessage(text), None)


@pytest.mark.parametrize("text", [text for text, *_ in READABLE.values()])
def test_the_beginning_of_a_report_may_be_one(text: str) -> None:
    end = text.index("}", text.rindex('"')) if text.endswith("}") else text.index("}")
    assert [at for at in range(end) if not may_be_report(text[:at])] == []


@pytest.mark.parametrize(
    "text",
    [
        "No",
        "[",
        '{"found',
        '{"found"',
        "{'",
        '{"missing": ["a"]}',
        f'{{"missing": "{"x" * 2000}',
    ],
)
def test_what_can_be_no_report_any_more_is_known_early(text: str) -> None:
    assert may_be_report(text) is (text == '{"found')


def test_doubt_is_what_is_missing_or_went_wrong() -> None:
    assert not Report(missing="").doubtful
    assert Report(missing="the price").doubtful
    assert Report(missing="", wrong=1).doubtful


THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
CONTENTS: dict[str, tuple[list[Any], list[Any]]] = {
    "behind reasoning": (
        [THINKING, {"type": "text", "text": '{"missing": ""}\nYes', "id": "m"}],
        [THINKING, {"type": "text", "text": "Yes", "id": "m"}],
    ),
    "alone in its block": (
        [
            {"type": "text", "text": '{"missing": ""}'},
            {"type": "text", "text": "Yes", "citations": ["c"]},
        ],
        [{"type": "text", "text": "Yes", "citations": ["c"]}],
    ),
    "in several blocks": (
        [
            {"type": "text", "text": '{"missing"'},
            ': ""}\n',
            {"type": "text", "text": "Yes"},
        ],
        [{"type": "text", "text": "Yes"}],
    ),
    "all of the text": (
        [THINKING, {"type": "text", "text": '{"missing": ""}'}],
        [THINKING],
    ),
    "before a signature": (
        [{"type": "text", "text": '{"missing": ""}', "extras": {"signature": "s"}}],
        [{"type": "text", "text": "", "extras": {"signature": "s"}}],
    ),
}


@pytest.mark.parametrize(("content", "rest"), CONTENTS.values(), ids=CONTENTS)
def test_a_report_is_taken_out_of_blocks_of_content(
    content: list[Any], rest: list[Any]
) -> None:
    message, report = split_report(AIMessage(content))

    assert message.content == rest
    assert report == Report(missing="")
