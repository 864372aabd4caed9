"""Tests of the parser of reports."""

# ruff: noqa: RUF001 - the typographic quotation marks are meant.

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_tooltree.tooltree.completeness_report import (
    MAX_REPORT_LENGTH,
    REPORT_AND_CALL_PROMPT,
    REPORT_AND_UNDO_PROMPT,
    REPORT_PROMPT,
    ParsedAnswer,
    may_start_report,
    parse_report,
)

SPECIFIED_REPORTS = [
    '{"missing": null}',
    '{"missing": "the total"}',
    '{"missing": null, "call": null}',
    '{"missing": "the total", "call": {"name": "find_orders", "args": {"id": 7}}}',
    '{"missing": null, "wrong": null}',
    '{"missing": "the total", "wrong": 3}',
    '```json\n{"missing": null}\n```',
    '```\n{"missing": null}\n```',
    '**{"missing": null}**',
    '> {"missing": null}',
    '"{"missing": null}"',
    '`{"missing": null}`',
    "{'missing': null}",
    "{“missing”: null}",
    '{"Missing": null}',
    '{"missing": false}',
    '{"missing": []}',
    '{"missing": ""}',
    '{"missing": "nothing"}',
    '{"missing": ["the total", "the date"]}',
    '{"missing": null,}',
    '{"missing": null},',
    '{"missing": null}\n{"missing": null}',
    # Reports that cannot be read.
    '{"missing": nul',
    '{"missing": null: 3}',
]

FURTHER_REPORTS = [
    "{missing: null}",
    "{'missing': None}",
    '{"missing":null}',
    '{ "missing" : null }',
    '{"MISSING": null}',
    '{"missing ": null}',
    '{"missing": null}.',
    '{"missing": null};',
    '{"missing": null}}',
    '{{"missing": null}}',
    '{\\"missing\\": null}',
    '"{\\"missing\\": null}"',
    "{`missing`: null}",
    "{„missing“: null}",
    "{«missing»: null}",
    "{‘missing’: ‘the total’}",
    '{“missing": "the total"}',
    "“{'missing': null}”",
    "*{'missing': null}*",
    '__{"missing": null}__',
    '***{"missing": null}***',
    '**`{"missing": null}`**',
    "'{\"missing\": null}'",
    '### {"missing": null}',
    '- {"missing": null}',
    '* {"missing": null}',
    '~~~json\n{"missing": null}\n~~~',
    '`````json\n{"missing": null}\n`````',
    '```JSON\n\n{"missing": null}\n\n```',
    '``` json\n{"missing": null}\n```',
    '```json {"missing": null} ```',
    '```{"missing": null}```',
    '---\n{"missing": null}\n---',
    '```json\n{"missing": null}\n{"missing": null}\n```',
    '> **{"missing": null}**',
    '**{"missing": null}**.',
    '`{"missing": null}`\n`{"missing": null}`',
    '{\n  "missing": null\n}',
    '{\r\n  "missing": null\r\n}\r\n',
    '{\n  "missing": "the total",\n  "call": {\n    "name": "a", "args": {}\n  }\n}',
    '{"missing": the total of order 7}',
    '{"missing": "the "total" of order 7"}',
    "{'missing': 'the customer's name'}",
    '{"missing": "the price {net}, and [gross]"}',
    '{"missing": null, "call": find_orders(status="open")}',
    '{"missing": "the total", "call": {"name": "a", "args": {}}',
    '{"missing": {"total": "not computed"}}',
    '{"missing": true}',
    '{"missing": 0}',
    '{"missing" = null}',
    '{"call": null, "missing": null}',
    '{"missing": null} {"missing": null}',
    '{"missing": null}, {"missing": null}',
    '  {"missing": null}',
    '\n\n{"missing": null}\n\n',
]

REPORTS = SPECIFIED_REPORTS + FURTHER_REPORTS


@pytest.mark.parametrize("report", REPORTS)
class TestSpellings:
    def test_report_on_the_first_line_is_removed(self, report):
        parsed = parse_report(f"{report}\nOrder 7 is open.")
        assert parsed.answer == "Order 7 is open."
        assert parsed.has_report

    def test_report_behind_an_answer_is_part_of_it(self, report):
        # It may be a quotation of a tool's text, which must not pass for a report.
        text = f"Order 7 is open.\n\n{report}"
        assert parse_report(text) == ParsedAnswer(text)

    def test_answer_of_nothing_but_a_report_is_empty(self, report):
        parsed = parse_report(report)
        assert parsed.answer == ""
        assert parsed.has_report

    def test_report_between_parts_of_an_answer_stays(self, report):
        text = f"A question:\n{report}\nAn answer."
        assert parse_report(text).answer == text

    def test_report_follows_a_think_block(self, report):
        parsed = parse_report(
            f"<think>\nHm.</think>\n{report.strip()}\nOrder 7 is open."
        )
        assert parsed.answer == "<think>\nHm.</think>\nOrder 7 is open."
        assert parsed.has_report

    def test_every_beginning_of_a_report_may_start_a_report(self, report):
        for length in range(len(report) + 1):
            assert may_start_report(report[:length])

    def test_markdown_around_the_answer_stays(self, report):
        answer = "```python\nf()\n```"
        assert parse_report(f"{report}\n{answer}").answer == answer


@pytest.mark.parametrize(
    "report",
    ['{"missing": null}', '**{"missing": null}**', '```\n{"missing": null}\n```'],
)
def test_answer_may_follow_on_the_same_line(report):
    assert parse_report(f"{report} **Order 7** is open.").answer == (
        "**Order 7** is open."
    )


@pytest.mark.parametrize(
    "value",
    [
        *("null", "false", "[]", '""', '"  "', '"-"', '"..."', "None", "{}", "[null]"),
        *('"nothing"', '"none"', '"None."', '"n/a"', '"N/A"', '"nothing is missing"'),
        *('"Nothing is missing."', '"N/A - all done"', '"None, all data is there"'),
        *('"nothing – the answer is complete"', '"**None**"', '"null"', '["none"]'),
        *('"Nothing (complete answer)"', '"no"', '"Nothing else is missing!"'),
        *('"nichts"', '"Es fehlt nichts."', '"Nichts fehlt"', '"keine"'),
        *('"Die Antwort ist vollständig"', '"rien"', '"Rien ne manque."'),
        *('"rien d’autre"', '"aucune"', '"nada"', '"No falta nada."', '"ninguno"'),
    ],
)
def test_nothing_is_missing(value):
    parsed = parse_report('{"missing": ' + value + "}\nDone.")
    assert parsed.missing is None
    assert parsed.has_report


@pytest.mark.parametrize(
    ("value", "missing"),
    [
        ('"the total"', "the total"),
        ('" the total "', "the total"),
        ('["the total", "the date"]', "the total; the date"),
        ('["the total", null, "none"]', "the total"),
        ('{"total": "not computed"}', "not computed"),
        ('"Nothing was found about order 7"', "Nothing was found about order 7"),
        ('"nothing, except the date"', "nothing, except the date"),
        ('"None of the totals"', "None of the totals"),
        ('"no price for order 7"', "no price for order 7"),
        ('"description"', "description"),
        ('"nichts, außer dem Datum"', "nichts, außer dem Datum"),
        ('"a \\"b\\" c"', 'a "b" c'),
        ('"line\\nbreak"', "line\nbreak"),
        ('"Größe"', "Größe"),
    ],
)
def test_description_of_what_is_missing(value, missing):
    assert parse_report('{"missing": ' + value + "}\nDone.").missing == missing


@pytest.mark.parametrize(
    "value",
    [
        '"nothing, or what"',
        '"what"',
        "true",
        "3",
        '[["the total"]]',
        "[" * 900 + "]" * 900,
        '"the total": 7',
        "...",
    ],
)
def test_nothing_is_known(value):
    parsed = parse_report('{"missing": ' + value + "}\nDone.")
    assert parsed.has_report
    assert parsed.answer == "Done."
    assert parsed.missing is None


@pytest.mark.parametrize(
    "instruction",
    [REPORT_PROMPT, REPORT_AND_CALL_PROMPT, REPORT_AND_UNDO_PROMPT],
)
def test_reports_of_the_instruction_say_nothing(instruction):
    _, *reports = instruction.split('{"missing"')
    for report in reports:
        parsed = parse_report('{"missing"' + report)
        assert parsed.has_report
        assert parsed.missing is None


def test_call_is_read():
    call = '{"name": "find_orders", "arguments": "{\\"id\\": 7}"}'
    parsed = parse_report('{"missing": "the total", "call": ' + call + "}\nDone.")
    assert parsed.call == {
        "name": "find_orders",
        "args": {"id": 7},
        "id": None,
        "type": "tool_call",
    }


@pytest.mark.parametrize("call", ["null", "3", '"find_orders"', "{}", '{"name": "a"}'])
def test_unreadable_call_is_none(call):
    assert parse_report('{"missing": "x", "call": ' + call + "}").call is None


@pytest.mark.parametrize(
    ("wrong", "number"),
    [("3", 3), ('"3"', 3), ("null", None), ("true", None), ('"three"', None)],
)
def test_number_of_the_wrong_message(wrong, number):
    assert parse_report('{"missing": "x", "wrong": ' + wrong + "}").wrong == number


def test_repeated_report_is_removed_and_another_one_stays():
    report = '{"missing": "the total"}'
    other = '{"missing": "everything", "call": {"name": "wipe", "args": {}}}'
    parsed = parse_report(f"{report}\n{report}\n{other}")
    assert parsed == ParsedAnswer(other, has_report=True, missing="the total")


def test_an_object_with_other_keys_is_part_of_the_answer():
    text = '{"missing": "the total", "status": "ok"}\nOrder 7 is open.'
    assert parse_report(text) == ParsedAnswer(text)


OWN_ANSWERS = [
    "Order 7 is open.",
    "",
    "```python\nf()\n```",
    '{"orders": [{"id": 7}]}',
    '{"missing": null, "answer": "Order 7 is open."}',
    '```json\n{"missing": ["a"], "found": 3}\n```',
    '{"id": 1, "missing": "a"}\n{"id": 2, "missing": null}',
    '[{"missing": null}, {"missing": "a"}]',
    '[\n  {"missing": null},\n  {"missing": "a"}\n]',
    '{\n  "result": 1,\n  "missing": null\n}\nThat is all.',
    '{\n  "rows": [\n    {"missing": null}\n  ]\n}',
    '{"missing_items": []}',
    '{"missing items": []}\nThat is all.',
    '{"call": "555-1234"}',
    '{"call": {"name": "find_orders", "args": {}}}',
    '{"wrong": 3}',
    '{"result": null}\nThat is all.',
    'The key is {"missing": null}',
    'Write\n{"missing": null}\ninto the file.',
    'Write ```json\n{"missing": null}\n``` into the file.',
    "```python\nreturn {'missing': None}\n```",
    "missing: null",
    '"missing": null',
    "The missing total is 3.",
    "**Missing:** nothing",
    "> quoted\n\n- item\n\n1. one\n\n---\n\n# Title",
    "<think>Hm.</think>Yes.",
    '<think>\n{"missing": null}',
    '<think>\n{"missing": null}\n</think>\nYes.',
    "{ int x; }",
    "{",
    '{"',
    "{missing",
    '{"missing"',
    "{}",
    '{"": null}',
]


@pytest.mark.parametrize("answer", OWN_ANSWERS)
def test_answer_without_a_report_is_unchanged(answer):
    parsed = parse_report(answer)
    assert parsed.answer == answer
    assert not parsed.has_report


@pytest.mark.parametrize("answer", OWN_ANSWERS[:6])
def test_json_answer_after_a_report_is_unchanged(answer):
    assert parse_report(f'{{"missing": null}}\n{answer}').answer == answer


def test_fence_around_report_and_answer_stays():
    text = '```json\n{"missing": null}\n{"result": 5}\n```'
    assert parse_report(text).answer == '```json\n{"result": 5}\n```'


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('**{"missing": null} Order 7** is open.', "**Order 7** is open."),
        ('```\n{"missing": null}\nf()\n```', "```\nf()\n```"),
        ('{"missing": null}\n...and so on.', "...and so on."),
        ('> {"missing": null}\n> quoted', "> quoted"),
    ],
)
def test_markdown_that_goes_on_after_the_report_stays(text, answer):
    assert parse_report(text).answer == answer


def test_lines_of_json_in_a_fence_stay():
    text = '```\n{"missing": null, "id": 1}\n{"missing": "a", "id": 2}\n```'
    assert parse_report(text).answer == text


def test_report_must_be_short():
    description = "x" * MAX_REPORT_LENGTH
    text = '{"missing": "' + description + '"}\nDone.'
    assert parse_report(text).answer == text


def test_streamed_code_is_not_held_back():
    assert not may_start_report("{\n  int x")
    assert not may_start_report('{\n  "orders": [')
    assert not may_start_report("The")
    assert not may_start_report('{"result": 5}')
    assert not may_start_report('{"missing": null}\nThe')
    assert not may_start_report(" " * (MAX_REPORT_LENGTH + 1))


@given(
    answer=st.text(st.sampled_from("ab *`'\"\n{}[]:,.>-"), max_size=40).map(
        lambda text: f"A{text}Z",
    ),
    report=st.sampled_from(REPORTS),
)
def test_no_text_of_an_answer_is_lost(answer, report):
    assert parse_report(f"{report}\n{answer}").answer == answer
    assert parse_report(f"{answer}\n{report}").answer == f"{answer}\n{report}"


@settings(max_examples=300)
@given(st.text(st.sampled_from("{}[]\"'`:,\n missing\\“”*-"), max_size=60))
def test_any_text_can_be_parsed(text):
    parsed = parse_report(text)
    assert parsed.has_report or parsed.answer == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        *(
            "{",
            '{"',
            '{"missing":',
            '{"missing":\n',
            '{"missing": "',
            '{"a":\n',
            '{"a":\n{"missing":\n',
        ),
        *('{"missing": null}', '{"missing": null}\n', '{"missing": null, "x": 1}\n'),
        *("\n", " ", " \n", ">\n", "```\n", "`", '"', "**", "- ", "*", "---\n", "x"),
        *("<think>", "</think>", "\\", '{"missing": "\\"', '{"missing": "x" ', "[{"),
        *(
            "`" * 900 + " " * 1000 + "x\n",
            "{a",
            "{'a'",
            "}",
            "{missing: [",
            "“",
            "{“missing”: “",
            '{"missing": 1' * 9,
        ),
    ],
)
def test_time_is_linear(unit):
    text = unit * (1_000_000 // len(unit))
    started = time.process_time()
    for variant in (text, f"A\n{text}", f"{text}\nA", f'{text}{{"missing": null}}'):
        parse_report(variant)
        may_start_report(variant)
    assert time.process_time() - started < 15
