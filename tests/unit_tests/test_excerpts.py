"""A record in short: what stays, what is left out, and that it says so."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_tooltree import Trajectory
from langchain_tooltree.effects.names import EFFECTS_KEY, is_read
from langchain_tooltree.experience.trajectory import Branch
from langchain_tooltree.experience.transcript import excerpt


def entry(arguments):
    return {"id": "1", "function": {"name": "look", "arguments": arguments}}


@settings(
    deadline=None, max_examples=20
)  # each draws up to 120,000 characters, which takes most of the time
@given(
    st.lists(st.text(max_size=3_000), min_size=1, max_size=40),
    st.integers(8_000, 20_000),
)
def test_a_long_run_keeps_its_beginning_and_its_end_within_the_limit(texts, limit):
    record = Trajectory.from_chat(
        [{"role": "user", "content": f"{n}{text}"} for n, text in enumerate(texts)]
    )
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


def made(name, result=None, *, number="1", **arguments):
    """A call as the model makes it, and what it brought back."""
    call = {
        "id": number,
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    reply = {"role": "assistant", "tool_calls": [call]}
    return [
        reply,
        {"role": "tool", "name": name, "tool_call_id": number, "content": result},
    ]


@pytest.mark.parametrize(
    ("tool", "read"),
    [
        ("get_order", True),
        ("searchItems", True),
        ("shop__list_orders", True),
        ("files.read", True),
        ("think", True),
        ("lookup", True),
        ("HTMLView", False),
        ("cancel_order", False),
        ("check_in", False),
        ("getaway_booking", False),
        ("update_get_rules", False),
        ("42", False),
        ("", False),
    ],
)
def test_a_tool_is_a_read_by_the_word_with_which_its_name_begins(tool, read):
    assert is_read(tool) is read
    assert is_read(tool, {tool: "read"}) is True
    assert is_read(tool, {tool: "write"}) is False
    assert is_read(tool, {tool: "?"}) is read


def test_a_review_numbers_the_writes_and_shows_each_call_with_its_result():
    messages = [
        {"role": "system", "content": "Ask first."},
        {"role": "user", "content": "Cancel order 7."},
        *made("get_order", '{"id": 7, "open": true}', id=7),
        {"role": "assistant", "content": "Sure?"},
        {"role": "user", "content": "Yes."},
        *made("cancel_order", "gone", number="2", id=7),
        {"role": "assistant", "tool_calls": [entry("{bad")]},
    ]
    branch = Branch("sub", 2, tuple(made("refund", "no", number="9", id=7)))
    record = Trajectory.from_chat(messages, branches=[branch])

    assert excerpt(record, max_characters=9_000, number_writes=True) == [
        {"user": "Cancel order 7."},
        {
            "write": 1,
            "agent": "sub",
            "call": "refund",
            "arguments": {"id": 7},
            "result": "no",
        },
        {
            "call": "get_order",
            "arguments": {"id": 7},
            "result": {"id": 7, "open": True},
        },
        {"assistant": "Sure?"},
        {"user": "Yes."},
        {"write": 2, "call": "cancel_order", "arguments": {"id": 7}, "result": "gone"},
        {"call": "look", "arguments": "unreadable", "result": None},
    ]


def test_declared_effects_decide_what_a_write_is():
    record = Trajectory.from_chat(
        made("look", "x"), metadata={EFFECTS_KEY: {"look": "write"}}
    )
    assert excerpt(record, max_characters=9_000, number_writes=True)[0]["write"] == 1


def test_writes_and_requests_stand_in_full_where_reads_are_shortened():
    messages = [{"role": "user", "content": "Book it. " + "w" * 3_000}]
    for number in range(10):
        messages += made("search_hotels", "y" * 6_000, number=f"h{number}")
    messages += made("book", "booked " + "z" * 3_000, number="b", text="x" * 3_000)
    shown = excerpt(
        Trajectory.from_chat(messages), max_characters=24_000, number_writes=True
    )

    assert len(json.dumps(shown)) <= 24_000 + 200
    assert shown[0]["user"] == messages[0]["content"]
    assert shown[-1] == {
        "write": 1,
        "call": "book",
        "arguments": {"text": "x" * 3_000},
        "result": messages[-1]["content"],
    }
    reads = [each["result"] for each in shown[1:-1]]
    assert len(reads) == 10
    assert [
        each
        for each in reads
        if not ("characters left out" in each and len(each) > 900)
    ] == []


CONTENT = st.text(max_size=3_000) | st.lists(
    st.dictionaries(st.text(max_size=4), st.text(max_size=400))
).map(json.dumps)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["say", "ask", "get_it", "do_it"]), CONTENT),
        max_size=40,
    )
)
def test_a_review_of_any_run_keeps_within_the_limit(said):
    messages = [{"role": "user", "content": "Go."}]
    for number, (kind, text) in enumerate(said):
        if kind in ("say", "ask"):
            messages.append(
                {"role": "assistant" if kind == "say" else "user", "content": text}
            )
        else:
            messages += made(kind, text, number=str(number), text=text)
    shown = excerpt(
        Trajectory.from_chat(messages), max_characters=12_000, number_writes=True
    )

    assert len(json.dumps(shown, ensure_ascii=False)) <= 12_000 + 200 + 2 * len(shown)
    if not any("left_out" in each for each in shown):
        assert sum("write" in each for each in shown) == sum(
            kind == "do_it" for kind, _ in said
        )
        assert sum("user" in each for each in shown) == 1 + sum(
            k == "ask" and bool(t.strip()) for k, t in said
        )
