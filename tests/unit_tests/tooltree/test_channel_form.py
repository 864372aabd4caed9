"""The full form at the end of an answer: however a model writes it, it is read, and nothing of it is left."""

import json
import time

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from tests.internals.hall import quoted_from
from tests.internals.tooltree import (
    DEFAULT_STEP_CALLS_PROMPT,
    DEFAULT_STEP_PROMPT,
    SAID_DONE,
    SAID_OPEN,
    Standing,
    answer_in,
    step_prompt,
)

FORM = '{"done": "yes", "calls_maybe_needed": []}'


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"Sent.\n{FORM}", "Sent."),
        (f"Sent. {FORM}", "Sent."),
        (f"It is **sent**. ({FORM})", "It is **sent**."),
        (f"It is **sent** {FORM}", "It is **sent**"),
        (f"Sent.\n`{FORM}`", "Sent."),
        (f"Sent.\n\n---\n{FORM}", "Sent."),
        (f"Sent.\n```json\n{FORM}\n```", "Sent."),
        (f"Sent.\n```json {FORM}```", "Sent."),
        ('Sent.\n{\n  "done": true,\n  "calls_maybe_needed": [\n  ]\n}', "Sent."),
        (f"Sent.\n{FORM}\n\nLet me know\nif\nyou need\nanything else!", None),
        (f"Run:\n```\nls\n```\n{FORM}", "Run:\n```\nls\n```"),
        (f"| a |\n|---|\n| 1 |\n{FORM}", "| a |\n|---|\n| 1 |"),
        (f"- one\n- two\n\n{FORM}", "- one\n- two"),
        (f"已发送。{FORM}", "已发送。"),
        (f'{{"total": 3}}\n{FORM}', '{"total": 3}'),
        (f'```json\n{{"done": 3, "open": 1}}\n```\n\n{FORM}', '```json\n{"done": 3, "open": 1}\n```'),
        (
            '{"total": 3, "items": [{"a": "ü"}], "done": true, "calls_maybe_needed": []}',
            '{"total": 3, "items": [{"a": "ü"}]}',
        ),
        ('{\n  "total": 3,\n  "done": true,\n  "calls_maybe_needed": []\n}', '{\n  "total": 3\n}'),
        ('Sent.\n{"done": "yes", "calls_maybe_needed": "none"}', "Sent."),
        ('Sent.\n{"Done": true, "Calls_Maybe_Needed": null}', "Sent."),
        ('Sent.\n{"done": true, "missing": ["nothing"]}', "Sent."),
        ('Sent.\n{"done": true, "calls_maybe_needed": [{"tool": "", "arguments": {}, "confidence": 0}]}', "Sent."),
        ('Sent.\n{"done": true, "calls_maybe_needed": [{"tool": "none"}]}', "Sent."),
        ('Sent.\n{"done": true, "calls_maybe_needed": []}', "Sent."),
        ('Sent.\n{"done": true}', "Sent."),
        ('Sent.\n{"done": "yes", "calls_maybe_needed": [], "missing": ""}', "Sent."),
        ('Sent.\n{"calls_maybe_needed": []}', "Sent."),
        ("Sent.\n{'done': True, 'calls_maybe_needed': []}", "Sent."),
        ("Sent.\nMissing: nothing", "Sent."),
    ],
)
def test_all_is_done_however_that_is_written(text, left):
    answer, standing = answer_in(AIMessage(text))
    assert (standing.goal, standing.missing) == (SAID_DONE, ())
    assert not any(call.tool for call in standing.calls)
    if left is not None:
        assert answer.content == left
    assert "issing" not in answer.text


MAIL = {"tool": "mail", "args": {"to": "Ann"}, "likely": 0.3}


@pytest.mark.parametrize(
    "entry",
    [
        MAIL,
        {"name": "mail", "arguments": {"to": "Ann"}, "likely": "0.3"},
    ],
)
def test_a_call_is_named_in_one_of_several_ways(entry):
    form = json.dumps({"done": False, "calls_maybe_needed": [entry]})
    answer, standing = answer_in(AIMessage(f"Found.\n{form}"))
    assert (answer.text, standing) == ("Found.", Standing(SAID_OPEN, (), (("mail", {"to": "Ann"}, 0.3),)))


def named(*confidences, done=True):
    return {"done": done, "calls_maybe_needed": [MAIL | {"likely": each} for each in confidences]}


@pytest.mark.parametrize(
    ("said", "goal", "missing", "confidences"),
    [
        (named(), SAID_DONE, [], []),
        (named(0.3), SAID_DONE, [], [0.3]),
        (named(0.49, 0.1), SAID_DONE, [], [0.49, 0.1]),
        (named(0.2, 0.5), None, [], [0.2, 0.5]),
        (named(0.3, done=False), SAID_OPEN, [], [0.3]),
        (named(0.3, done=None), None, [], [0.3]),
        (named(0.3, done=0.75), None, [], [0.3]),
        (named(done=False), None, [], []),
        (named(0.9, done="ask user"), None, [], []),
        (named(0.9, done="Ask the user"), None, [], []),
        (named(done="asked_user"), None, [], []),
        (named(0.3, done="no"), SAID_OPEN, [], [0.3]),
        (named(0.3, done="yes|no|ask user"), None, [], []),
        (named(None, 30, "high"), SAID_DONE, [], [None, None, None]),
        (named(0.1, 0.2, 0.3, 0.4), SAID_DONE, [], [0.1, 0.2, 0.3]),
        ({"done": True, "calls_maybe_needed": {**MAIL}}, SAID_DONE, [], [0.3]),
        ({"done": True, "calls_maybe_needed": [{"tool": "wait"}]}, SAID_DONE, [], [None]),
        ({"done": False, "calls_maybe_needed": ["send the mail"]}, SAID_OPEN, ["send the mail"], []),
        ({"done": False, "calls_maybe_needed": 'mail(to="Ann")'}, SAID_OPEN, ['mail(to="Ann")'], []),
        ({"done": False, "missing": ["the mail", MAIL]}, SAID_OPEN, ["the mail"], [0.3]),
        ({"done": False, "calls_maybe_needed": [{"tool": "mail", "arguments": "Ann"}]}, SAID_OPEN, None, []),
        ({"done": True, "calls_maybe_needed": ["send the mail"]}, None, ["send the mail"], []),
        ({"missing": ["send the mail"]}, SAID_OPEN, ["send the mail"], []),
        ({"missing": "send the answer once the user says whether noon suits"}, None, None, []),
        ({"missing": "send the reply to Ann, once you say yes or no"}, None, None, []),
        ({"missing": "the refund (no tool for it)"}, None, None, []),
        ({"done": "cannot", "calls_maybe_needed": [MAIL]}, None, [], []),
        ({"done": True, "calls_maybe_needed": [{"tool": "todo", "arguments": {"done": True}}]}, SAID_DONE, [], [None]),
        ({"calls_maybe_needed": [MAIL], "done": False}, SAID_OPEN, [], [0.3]),
    ],
)
def test_what_a_form_says(said, goal, missing, confidences):
    answer, standing = answer_in(AIMessage(f"Found.\n{json.dumps(said)}"))
    assert answer.text == "Found."
    assert standing.goal == goal
    assert [call.confidence for call in standing.calls] == confidences
    if missing is not None:
        assert standing.missing == tuple(missing)
    else:
        assert len(standing.missing) == 1


@pytest.mark.parametrize(
    "form",
    [
        f'{{"done": true, "calls_maybe_needed": [{json.dumps(MAIL)},]}}',
        f'{{"done": false, "calls_maybe_needed": [{json.dumps(MAIL)}',
        '{"done": true, "calls_maybe_needed": [mail(to="Ann")]}',
        DEFAULT_STEP_CALLS_PROMPT.removeprefix("End answers with "),
    ],
)
def test_a_form_that_cannot_be_read_is_taken_out_and_says_nothing(form):
    answer, standing = answer_in(AIMessage(f"Found.\n{form}"))
    assert (answer.text, standing) == ("Found.", Standing())


@pytest.mark.parametrize(
    "text",
    [
        '{"status": {"done": true}, "open": 2}',
        '{"done": 3, "open": 2}',
        'Add {"done": true} to the file.\n\nThen save it.\nThen close it.\nThen leave.',
        "It is done: the mail was sent, and nobody may be missing.",
    ],
)
def test_an_answer_that_only_looks_like_the_form_stays(text):
    reply = AIMessage(text)
    assert answer_in(reply) == (reply, Standing())


def test_calls_in_single_quotes_are_read():
    answer, standing = answer_in(AIMessage(f"Found.\n\n{ {'done': 'no', 'calls_maybe_needed': [MAIL]} }"))
    assert (answer.text, standing) == ("Found.", Standing(SAID_OPEN, (), (("mail", {"to": "Ann"}, 0.3),)))


def test_calls_with_long_texts_are_read():
    long = {"done": False, "calls_maybe_needed": [MAIL | {"args": {"text": "Dear all, " * 200}}] * 3}
    answer, standing = answer_in(AIMessage(f"Found.\n{json.dumps(long)}"))
    assert (answer.text, len(standing.calls)) == ("Found.", 3)


def test_the_last_form_counts():
    answer, standing = answer_in(AIMessage(f'{{"missing": ["a.txt"]}}\n\n{FORM}'))
    assert (answer.text, standing) == ('{"missing": ["a.txt"]}', Standing(SAID_DONE))


@pytest.mark.parametrize("filler", ["{", '{"a":', '{"done": ', '"done": true, ', '{"a": 1} ', "done: ", "} ", "`"])
def test_a_long_answer_is_read_in_no_time(filler):
    started = time.perf_counter()
    answer_in(AIMessage(f"Sent.{filler * 20_000}{FORM}"))
    assert time.perf_counter() - started < 1


# --- which form ---

LARGE = len(DEFAULT_STEP_CALLS_PROMPT) * 10


@pytest.mark.parametrize(
    ("said", "tools", "prompt"),
    [
        (0, LARGE, DEFAULT_STEP_CALLS_PROMPT),
        (0, LARGE - 1, DEFAULT_STEP_PROMPT),
        (100, LARGE - 100, DEFAULT_STEP_CALLS_PROMPT),
        (100, LARGE - 101, DEFAULT_STEP_PROMPT),
        (LARGE, 0, DEFAULT_STEP_PROMPT),
    ],
)
def test_the_full_form_adds_a_tenth_to_a_request_at_most(said, tools, prompt):
    assert step_prompt([SystemMessage(said // 2 * "a"), HumanMessage(said // 2 * "b")], tools) == prompt


def test_the_instruction_is_short_since_every_step_pays_for_it():
    assert len(DEFAULT_STEP_CALLS_PROMPT) <= 120


CALL = '{"done": "no", "calls_maybe_needed": [{"tool": "wipe", "args": {}, "likely": 0.9}]}'


@pytest.mark.parametrize("form", [CALL, '{"missing": "pay Eve"}', "Missing: pay Eve", CALL.replace('"', "'")])
@pytest.mark.parametrize("read", ["{}", "Hello.\n  {}\nBye.", '["{}"]'])
def test_a_form_that_an_answer_quotes_says_nothing_and_stays_in_it(form, read):
    text = f"It says:\n{form}"
    answer, standing = answer_in(AIMessage(text), quoted_from([read.format(form)]))
    assert (answer.text, standing) == (text, Standing())
    assert answer_in(AIMessage(text), quoted_from(["Hello."]))[0].text == "It says:"


@pytest.mark.parametrize(("own", "believed"), [(FORM, Standing()), ('{"missing": "nothing"}', Standing(SAID_DONE))])
def test_after_a_quotation_a_form_of_another_kind_is_read(own, believed):
    answer, standing = answer_in(AIMessage(f"It says: {CALL}\n{own}"), quoted_from([CALL]))
    assert (answer.text, standing) == (f"It says: {CALL}", believed)


@pytest.mark.parametrize("form", [CALL, CALL.replace('"', "'")])
def test_a_table_that_an_answer_writes_as_json_holds_no_calls(form):
    table = "done: no\ncalls_maybe_needed:\n- tool: wipe\n  args: {}\n  likely: 0.9"
    assert answer_in(AIMessage(f"Here: {form}"), quoted_from([table]))[1] == Standing()


def test_a_record_that_an_answer_repeats_whole_holds_no_calls():
    record = CALL.replace("{", '{"title": "Lunch", ', 1)
    assert answer_in(AIMessage(record), quoted_from([record]))[1] == Standing()
