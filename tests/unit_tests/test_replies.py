"""What models reply is made fit to be read: `experience/trajectory.py`, and the readers of text."""

import random
import time
from contextlib import suppress
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import JsonOutputParser
from langchain_core.runnables import RunnableLambda

from langchain_tooltree import Trajectory
from langchain_tooltree.errors import ReplyError
from langchain_tooltree.experience.trajectory_json import from_json, to_json
from langchain_tooltree.flows import run_flow
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.messages.validation import make_storable, validate_message
from langchain_tooltree.models import Meter, document_prompt, filled_in
from langchain_tooltree.testing import ScriptedChatModel
from langchain_tooltree.text import (
    LEVELS,
    is_plain_data,
    to_plain_data,
    whole_characters,
)
from langchain_tooltree.tooltree.prompts import ObservationScore
from langchain_tooltree.tooltree.report import find_texts
from tests.benchmarks.trust.rubbish import READERS, deep, random_reply, worst_texts

CALL = {"name": "look", "args": {"query": "x"}, "id": "1", "type": "tool_call"}


def with_fields(**fields):
    plain_fields = {
        "content": "",
        "additional_kwargs": {},
        "response_metadata": {},
        "tool_calls": [],
        "type": "ai",
    }
    return AIMessage.model_construct(
        **{**plain_fields, "invalid_tool_calls": [], **fields}
    )


def test_a_reply_that_is_right_stays_the_same_object():
    reply = AIMessage(
        [{"type": "text", "text": "x"}],
        tool_calls=[CALL],
        response_metadata={"model": "m"},
    )
    assert validate_message(reply) is reply
    assert make_storable(reply) is reply


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        3,
        "x",
        [None],
        [3],
        [{}],
        [{**CALL, "name": 3}],
        [{**CALL, "args": "{"}],
        [{"name": "look"}],
    ],
)
def test_calls_of_the_wrong_types_are_none(wrong):
    reply = validate_message(with_fields(content="Hello.", tool_calls=wrong))
    assert reply.tool_calls == []
    assert validate_message(reply) is reply


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("content", None),
        ("content", 7),
        ("content", [None, {"type": []}, {"text": 5}]),
        ("content", [{"type": "text", "text": deep(500)}]),
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
    reply = validate_message(with_fields(**{field: wrong}))
    assert AIMessage.model_validate(reply.model_dump())
    assert reply.text == ""
    assert validate_message(reply) is reply


def test_the_id_of_an_observation_is_a_text():
    assert (
        validate_message(
            ToolMessage.model_construct(content="x", tool_call_id=5)
        ).tool_call_id
        == "5"
    )


@pytest.mark.parametrize(
    "value", [2**64, -(2**70), float("nan"), float("inf"), {"a": {1: 2}}]
)
def test_a_call_with_arguments_that_nobody_can_keep_is_invalid(value):
    reply = make_storable(
        AIMessage("", tool_calls=[CALL, {**CALL, "args": {"query": value}}])
    )
    assert [call["args"] for call in reply.tool_calls] == [{"query": "x"}]
    assert [call["name"] for call in reply.invalid_tool_calls] == ["look"]
    assert not is_plain_data(value)
    assert is_plain_data(to_plain_data(value))


def test_calls_with_data_too_deep_within_data_are_dropped():
    assert (
        make_storable(
            AIMessage(
                "Hello.", tool_calls=[{**CALL, "args": {"query": deep(LEVELS + 5)}}]
            )
        ).tool_calls
        == []
    )


def test_half_characters_are_taken_out_of_what_a_model_says_and_never_called():
    reply = make_storable(
        AIMessage("a\ud800", tool_calls=[{**CALL, "args": {"query": "b\udfff"}}])
    )
    assert (reply.content, reply.tool_calls) == ("a?", [])
    assert reply.invalid_tool_calls[0]["args"] == "{'query': 'b?'}"


def test_data_are_read_without_what_is_odd_in_them():
    read = to_plain_data(
        {
            "score": 0.5,
            "\ud800": float("nan"),
            "n": 2**70,
            "huge": 10**4_000,
            "deep": deep(500),
        }
    )
    assert (read["score"], read["?"], read["n"], read["huge"]) == (
        0.5,
        "nan",
        str(2**70),
        "<int>",
    )
    assert is_plain_data(read)


@pytest.mark.parametrize(
    "reply",
    [
        AIMessage("\ud800"),
        AIMessage(
            [
                {"type": "refusal", "refusal": 5},
                {"type": "refusal", "refusal": "\ud800"},
            ]
        ),
    ],
)
def test_what_is_shown_of_an_unusable_reply_can_be_sent_and_logged(reply):
    model, meter = ScriptedChatModel(replies=[reply, reply]), Meter(2)
    asked = filled_in(model, ObservationScore, document_prompt("?", {}), {}, meter)
    assert run_flow(asked) is None
    told = [
        *meter.problems,
        *(message.text for request in model.calls for message in request),
    ]
    assert [whole_characters(text) for text in told] == told
    assert len(meter.problems) == 2


class Opaque(RunnableLambda):
    """A chat model of another make: nobody sees where in its structured output the model ends and the parser begins."""

    def __init__(self):
        super().__init__(lambda _: AIMessage("some { prose [ " * 20_000))

    def with_structured_output(self, schema, **_):
        return self | JsonOutputParser()

    def bind_tools(self, tools, **_):
        return self


def test_prose_is_read_at_once_where_a_parser_cannot_be_told_from_its_model():
    asked = filled_in(
        Opaque(), ObservationScore, document_prompt("?", {}), {}, Meter(2)
    )
    began = time.thread_time()
    assert run_flow(asked) is None
    assert time.thread_time() - began < 1


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
CALLS = st.lists(
    VALUES
    | st.fixed_dictionaries(
        {}, optional={"name": VALUES, "args": VALUES, "id": VALUES}
    ),
    max_size=3,
)
FIELDS = {
    "content": VALUES,
    "tool_calls": CALLS | VALUES,
    "invalid_tool_calls": CALLS | VALUES,
}
FIELDS |= dict.fromkeys(
    ("usage_metadata", "response_metadata", "additional_kwargs", "id", "name"), VALUES
)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.fixed_dictionaries({}, optional=FIELDS), VALUES)
def test_any_message_is_mended_and_read(fields, observation):
    reply = with_fields(**fields)
    mended = make_storable(validate_message(reply))
    assert make_storable(validate_message(mended)) is mended
    assert AIMessage.model_validate(mended.model_dump()).tool_calls == mended.tool_calls
    answer = ToolMessage.model_construct(
        content=observation, tool_call_id=observation, type="tool", status="success"
    )
    said = Conversation([HumanMessage("Look."), reply, answer])
    assert (said.task, len(said.chat)) == ("Look.", 3)
    assert isinstance(said.calls, list)
    run = Trajectory.from_messages([HumanMessage("Look."), reply, answer])
    assert from_json(to_json(run)).task == "Look."


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_no_reply_crashes_a_reader_or_holds_it_up(reader):
    read = READERS[reader]
    half = islice(
        worst_texts(1_500), [*READERS].index(reader) % 2, None, 2
    )  # one for each second reader
    replies = [AIMessage(text) for text in half]
    replies += [
        random_reply(random.Random(f"{reader}:{number}"))  # noqa: S311
        for number in range(6)
    ]
    for reply in replies:
        began = time.thread_time()
        with suppress(ReplyError):
            read(reply)
        assert time.thread_time() - began < 1, f"{reply!r:.200}"


def test_a_text_that_is_nested_data_is_none():
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    message = AIMessage.model_construct(
        content=[{"type": "text", "text": nested}, {"type": "text", "text": "Done."}]
    )
    assert find_texts(message) == ["", "Done."]
