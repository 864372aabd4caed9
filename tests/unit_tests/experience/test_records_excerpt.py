"""A record in short: what stays, what is left out, and that it says so."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_tooltree import Branch
from tests.internals.experience import LONGEST_TEXT, Record, excerpt, shortened


def entry(arguments):
    return {"id": "1", "function": {"name": "look", "arguments": arguments}}


def test_a_short_run_is_told_whole():
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Find it."}, {"type": "image_url"}]},
        {"role": "assistant", "content": "Well.", "tool_calls": [entry('{"place": "shed"}'), entry("{bad")]},
        {"role": "tool", "name": "look", "tool_call_id": "1", "content": "It is locked.", "error": True},
        {"role": "tool", "tool_call_id": "1", "content": None},
    ]
    branches = [Branch("sub", 3, ({"role": "assistant", "content": "I help."},))]

    assert excerpt(Record.from_chat(messages, branches=branches), max_characters=9_000) == [
        {"role": "user", "text": "Find it.\n[image_url]"},
        {"role": "assistant", "text": "Well."},
        {"role": "assistant", "call": {"tool": "look", "arguments": {"place": "shed"}}},
        {"role": "assistant", "call": {"tool": "look", "arguments": "{bad"}},
        {"role": "tool", "tool": "look", "observation": "It is locked.", "failed": True},
        {"agent": "sub", "role": "assistant", "text": "I help."},
        {"role": "tool", "observation": ""},
    ]


def test_long_texts_and_arguments_lose_their_middle():
    messages = [
        {"role": "user", "content": "a" * 5_000 + "z"},
        {"role": "assistant", "tool_calls": [entry(json.dumps({"text": "b" * 5_000}))]},
    ]
    said, called = excerpt(Record.from_chat(messages), max_characters=9_000)

    assert said["text"].startswith("aaa")
    assert said["text"].endswith("az")
    assert f"[... {5_001 - LONGEST_TEXT} characters left out ...]" in said["text"]
    assert "characters left out" in called["call"]["arguments"]


def test_a_text_of_the_greatest_length_is_whole():
    assert shortened("a" * LONGEST_TEXT) == "a" * LONGEST_TEXT


@settings(deadline=None)
@given(st.lists(st.text(max_size=3_000), min_size=1, max_size=40), st.integers(8_000, 20_000))
def test_a_long_run_keeps_its_beginning_and_its_end_within_the_limit(texts, limit):
    record = Record.from_chat([{"role": "user", "content": f"{n}{text}"} for n, text in enumerate(texts)])
    whole = excerpt(record, max_characters=10**9)
    short = excerpt(record, max_characters=limit)
    gaps = [place for place, each in enumerate(short) if "left_out" in each]

    assert len(json.dumps(short, ensure_ascii=False)) <= limit + 100 + 2 * len(short)
    assert (short[0], short[-1]) == (whole[0], whole[-1])
    if gaps:
        (gap,) = gaps
        missing = int(short[gap]["left_out"].split()[0])
        assert short[:gap] == whole[:gap]
        assert short[gap + 1 :] == whole[gap + missing :]
        assert missing == len(whole) - len(short) + 1
    else:
        assert short == whole


def test_most_of_what_is_shown_of_a_long_run_is_its_end():
    record = Record.from_chat([{"role": "user", "content": f"{number} " + "x" * 1_000} for number in range(100)])
    short = excerpt(record, max_characters=12_000)
    gap = next(place for place, each in enumerate(short) if "left_out" in each)

    assert 1 < gap < len(short) - gap
