"""Tests of the filter that removes reports from a stream."""

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_tooltree.tooltree.completeness_report import (
    MAX_REPORT_LENGTH,
    parse_report,
)
from langchain_tooltree.tooltree.stream_filter import ReportFilter
from tests.unit_tests.tooltree.test_completeness_report import OWN_ANSWERS, REPORTS

FRAGMENTS = [
    *REPORTS,
    *OWN_ANSWERS,
    *("\n", "\n\n", " ", "{", "}", "[", "]", ",", ":", '"', "'", "`", "```", "**"),
    *("<think>", "</think>", "</th", "<", "- ", "> ", "missing", '{"missing": ', "é"),
    *(" " * 1000, "\n" * 1000, "x" * 1000, '{"missing": "' + "x" * 1000),
]

TEXTS = st.lists(
    st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=5)),
    max_size=8,
).map("".join)


def filter_pieces(pieces):
    report_filter = ReportFilter()
    shown = [report_filter.feed(piece) for piece in pieces]
    return [*shown, report_filter.finish()]


def cut(text, cuts):
    """Cut a text at the given fractions of its length."""
    positions = sorted({0, len(text), *(int(len(text) * cut) for cut in cuts)})
    return [text[start:end] for start, end in itertools.pairwise(positions)]


CUTS = st.lists(st.floats(0, 1), max_size=12)


@settings(max_examples=200, deadline=None)
@given(TEXTS, CUTS)
def test_filter_and_parser_agree(text, cuts):
    shown = "".join(filter_pieces(cut(text, cuts)))
    assert shown.strip() == parse_report(text).answer.strip()


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_single_characters_give_the_same_text(text):
    assert "".join(filter_pieces(text)).strip() == parse_report(text).answer.strip()


@settings(max_examples=200, deadline=None)
@given(TEXTS, CUTS)
def test_little_text_is_held_back(text, cuts):
    report_filter = ReportFilter()
    arrived = shown = 0
    for piece in cut(text, cuts):
        arrived += len(piece)
        shown += len(report_filter.feed(piece))
        removed = len(text) - len(parse_report(text).answer)
        assert arrived - shown <= MAX_REPORT_LENGTH + removed


@given(st.text(st.sampled_from("ab {}[]\"'`*\n:,-"), max_size=60))
def test_text_without_the_key_is_unchanged(text):
    assert "".join(filter_pieces(text)).strip() == text.strip()


@pytest.mark.parametrize("report", REPORTS)
def test_report_is_not_shown(report):
    assert "".join(filter_pieces(f"{report}\nYes.")).strip() == "Yes."
    assert "".join(filter_pieces(report)).strip() == ""


@pytest.mark.parametrize("answer", OWN_ANSWERS)
def test_answer_without_a_report_is_shown_unchanged(answer):
    assert "".join(filter_pieces(answer)) == answer


def test_text_is_shown_at_once():
    pieces = ["Order", " 7", " is", " open", ".\n", "It", " costs", " {7}", " EUR."]
    assert filter_pieces(pieces) == [*pieces, ""]


def test_answer_is_shown_as_soon_as_the_report_is_over():
    pieces = ['{"missing"', ": null}", "\n", "Order", " 7"]
    assert filter_pieces(pieces) == ["", "", "", "Order", " 7", ""]


def test_thinking_is_shown_at_once():
    pieces = ["<think>", "Let me see what", " there is", "</think>", "\nYes."]
    shown = filter_pieces(pieces)
    assert shown[1] == "<think>Let me s"
    assert "".join(shown) == "".join(pieces)


def test_line_of_the_answer_that_looks_like_a_report_is_shown_at_once():
    pieces = ["Write:\n", '{"missing": null}', "\ninto", " the file."]
    assert filter_pieces(pieces) == [*pieces, ""]


def test_long_line_is_not_held_back():
    report_filter = ReportFilter()
    assert report_filter.feed('{"missing": "' + "x" * 1900) == ""
    assert report_filter.feed("x" * 100).startswith('{"missing": "')


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    ["x", "\n", " ", "{", '{"missing": null}\n', '{"a":\n', "```\n", ">\n", "<think>"],
)
def test_time_is_linear(unit):
    text = unit * (200_000 // len(unit))
    pieces = [text[start : start + 500] for start in range(0, len(text), 500)]
    started = time.process_time()
    filter_pieces([text])
    filter_pieces(pieces)
    assert time.process_time() - started < 30
