"""What models reply is made fit to be read: `replies.py`, and the readers of text."""

import random
import time
from contextlib import suppress

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from langchain_tooltree.errors import ReplyError, SummaryError
from tests.benchmarks.trust.rubbish import READERS, deep, random_reply, worst_texts
from tests.internals.hall import LEVELS, is_plain, json_object, plain, read_as_form, received, sound

CALL = {"name": "look", "args": {"query": "x"}, "id": "1", "type": "tool_call"}


def with_fields(**fields):
    plain_fields = {"content": "", "additional_kwargs": {}, "response_metadata": {}, "tool_calls": [], "type": "ai"}
    return AIMessage.model_construct(**{**plain_fields, "invalid_tool_calls": [], **fields})


def test_a_reply_that_is_right_stays_the_same_object():
    reply = AIMessage([{"type": "text", "text": "x"}], tool_calls=[CALL], response_metadata={"model": "m"})
    assert sound(reply) is reply
    assert received(reply) is reply


@pytest.mark.parametrize(
    "wrong", [None, 3, "x", [None], [3], [{}], [{**CALL, "name": 3}], [{**CALL, "args": "{"}], [{"name": "look"}]]
)
def test_calls_of_the_wrong_types_are_invalid_calls(wrong):
    reply = sound(with_fields(tool_calls=wrong))
    assert reply.tool_calls == []
    assert len(reply.invalid_tool_calls) == (len(wrong) if isinstance(wrong, list) else 0)
    assert sound(reply) is reply


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("content", None),
        ("content", 7),
        ("content", [None, {"type": []}, {"text": 5}]),
        ("usage_metadata", {"input_tokens": "many"}),
        ("usage_metadata", [1]),
        ("response_metadata", None),
        ("response_metadata", {3: deep(500)}),
        ("additional_kwargs", "x"),
        ("id", {}),
        ("name", 5),
    ],
)
def test_fields_of_the_wrong_types_are_mended(field, wrong):
    reply = sound(with_fields(**{field: wrong}))
    assert AIMessage.model_validate(reply.model_dump())
    assert str(reply.text) in {"", "7"}
    assert sound(reply) is reply


def test_an_observation_without_a_readable_id_is_mended():
    assert sound(ToolMessage.model_construct(content="x", tool_call_id=5)).tool_call_id == "5"


@pytest.mark.parametrize("value", [2**64, -(2**70), float("nan"), float("inf"), deep(LEVELS + 5), {"a": {1: 2}}])
def test_a_call_with_arguments_that_nobody_can_keep_is_invalid(value):
    reply = received(AIMessage("", tool_calls=[CALL, {**CALL, "args": {"query": value}}]))
    assert [call["args"] for call in reply.tool_calls] == [{"query": "x"}]
    assert [call["name"] for call in reply.invalid_tool_calls] == ["look"]
    assert not is_plain(value)
    assert is_plain(plain(value))


def test_half_characters_are_taken_out_of_what_a_model_says_and_calls():
    reply = received(AIMessage("a\ud800", tool_calls=[{**CALL, "args": {"query": "b\udfff"}}]))
    assert (reply.content, reply.tool_calls[0]["args"]) == ("a?", {"query": "b?"})


def test_a_form_is_read_without_what_is_odd_in_it():
    read = read_as_form({"score": 0.5, "\ud800": float("nan"), "n": 2**70, "items": [1] * 100_000, "deep": deep(500)})
    assert (read["score"], read["?"], read["n"], len(read["items"])) == (0.5, "nan", str(2**70), 500)
    assert is_plain(read)


def test_an_object_is_found_behind_words_and_a_number_too_long_for_python_is_passed_over():
    assert json_object('It is {not} JSON [yet]: {"a": 1}') == {"a": 1}
    assert json_object(f'{{"a": {"9" * 5_000}}} {{"b": 2}}') == {"b": 2}
    assert json_object("[" * 100_000) is None


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_no_reply_crashes_a_reader_or_holds_it_up(reader):
    read = READERS[reader]
    replies = [AIMessage(text) for text in worst_texts(20_000)]
    replies += [random_reply(random.Random(f"{reader}:{number}")) for number in range(30)]  # noqa: S311
    for reply in replies:
        began = time.thread_time()
        with suppress(ReplyError, SummaryError):
            read(reply)
        assert time.thread_time() - began < 1, f"{reply!r:.200}"
