"""The report of an answer, taken out of its message."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langchain_tooltree.tooltree.report import Report, split_report


@pytest.mark.parametrize(
    "text",
    ['I say {"missing": "nothing"}, really.', '{"found": 3}', "Done.", ""],
)
def test_a_message_without_a_report_is_returned_itself(text: str) -> None:
    reply = AIMessage(text)
    assert split_report(reply) == (reply, None)


def test_a_report_names_what_is_missing_a_call_and_a_wrong_step() -> None:
    text = '{"missing": "it", "call": {"name": "look", "args": {"at": 1}}, "wrong": 2}'
    message, report = split_report(AIMessage(f"{text}\nWell"))
    assert message.text == "Well"
    assert report is not None
    assert (report.missing, report.wrong) == ("it", 2)
    assert report.call is not None
    assert (report.call["name"], report.call["args"]) == ("look", {"at": 1})


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
    "between thinking and the answer": (
        [
            {"type": "text", "text": '<think>Hm.</think>{"missing": ""}'},
            {"type": "text", "text": "Yes"},
        ],
        [{"type": "text", "text": "<think>Hm.</think>Yes"}],
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
