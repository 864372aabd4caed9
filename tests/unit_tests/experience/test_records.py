"""Reading tool calls and their observations from messages."""

import pytest

from langchain_tooltree import Trajectory
from langchain_tooltree.experience.files import count_unread
from langchain_tooltree.experience.trajectory import Branch
from langchain_tooltree.messages.content import get_text
from langchain_tooltree.messages.tool_calls import Result, find_calls
from langchain_tooltree.text import digest


def call(name, call_id=None, arguments="{}"):
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def asks(*calls):
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def answers(content, call_id=None, **more):
    return {
        "role": "tool",
        "content": content,
        **({"tool_call_id": call_id} if call_id else {}),
        **more,
    }


USER = {"role": "user", "content": "Find it."}


def observed(*messages):
    return [
        (step.tool, step.result and step.result.content)
        for step in find_calls(messages)
    ]


def test_calls_and_observations_are_paired_by_id_in_any_order():
    assert observed(
        asks(call("a", "1"), call("b", "2")), answers("B", "2"), answers("A", "1")
    ) == [
        ("a", "A"),
        ("b", "B"),
    ]


def test_an_id_that_comes_again_belongs_to_the_latest_call():
    assert observed(asks(call("a", "1")), asks(call("b", "1")), answers("B", "1")) == [
        ("a", None),
        ("b", "B"),
    ]
    assert observed(
        asks(call("a", "1")), answers("A", "1"), asks(call("b", "1")), answers("B", "1")
    ) == [
        ("a", "A"),
        ("b", "B"),
    ]


def test_without_ids_names_decide_and_then_the_order():
    assert observed(
        asks(call("a"), call("b"), call("c")),
        answers("B", name="b"),
        answers("?"),
        answers("!"),
    ) == [
        ("a", "?"),
        ("b", "B"),
        ("c", "!"),
    ]


def test_an_observation_of_no_call_is_no_step():
    assert observed(
        answers("?", "1"), asks(call("a", "2")), answers("A", "2"), answers("?", "3")
    ) == [("a", "A")]


def test_a_call_that_was_never_answered_shifts_no_later_observation():
    assert observed(
        asks(call("a")),
        USER,
        asks(call("b")),
        answers("B"),
        asks(call("c")),
        answers("C"),
    ) == [
        ("a", None),
        ("b", "B"),
        ("c", "C"),
    ]


def test_a_second_result_of_a_call_says_nothing_of_another_tool():
    said = [
        asks(call("a", "1"), call("b", "2")),
        answers("A", "1", name="a"),
        answers("A!", "1", name="a"),
    ]
    assert observed(*said) == [("a", "A"), ("b", None)]
    assert count_unread(Trajectory.from_chat(said)) == {
        "observations without a call": 1
    }


def test_calls_of_one_message_share_their_turn():
    steps = find_calls(
        [
            USER,
            asks(call("a"), call("b")),
            answers("A"),
            {"role": "assistant", "content": "Hm."},
            asks(call("c")),
        ]
    )
    assert [(step.turn, step.position) for step in steps] == [(1, 1), (1, 1), (3, 4)]


def test_a_failure_is_what_the_record_marks_as_one():
    steps = find_calls(
        [
            asks(call("a", "1"), call("b", "2")),
            answers("no", "1", error=True),
            answers("Error: no", "2"),
        ]
    )
    assert [step.result.status for step in steps] == ["error", "success"]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"n": 1}', {"n": 1}),
        ({"n": 1}, {"n": 1}),
        ("", {}),
        ("{'n': None, 'm': [True, (1, 2)]}", {"n": None, "m": [True, [1, 2]]}),
        ("{'n': {1, 2}}", None),
        ("{'n': b'1'}", None),
        ("{'n': __import__('os')}", None),
        ("{'n': " + "[" * 10_000, None),
        ("{'n': " + "-" * 50_000 + "1}", None),
        ("{'n': '" + "x" * 100_000 + "'}", None),
        ("{n: 1}", None),
        ("[1]", None),
        ("1", None),
        (None, None),
        (3, None),
    ],
)
def test_arguments_are_an_object_its_json_a_python_dict_or_unknown(written, read):
    assert find_calls([asks(call("a", "1", written))])[0].arguments == read


@pytest.mark.parametrize(
    "calls",
    [
        None,
        [],
        "call",
        {"name": "a"},
        ["a", None, 3],
        [{}],
        [{"function": "a"}],
        [call("")],
    ],
)
def test_what_calls_no_function_is_no_step(calls):
    assert find_calls([{"role": "assistant", "tool_calls": calls}]) == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("hello", "hello"),
        (None, ""),
        ([], ""),
        (
            [
                {"type": "text", "text": "a"},
                "b",
                {"type": "image_url", "image_url": {}},
                3,
                None,
            ],
            "a\nb",
        ),
        (3, "3"),
    ],
)
def test_the_text_of_content(content, text):
    assert get_text(content) == text
    assert Result(content).text == text


def test_steps_of_a_branch_stand_where_it_began():
    messages = [
        USER,
        asks(call("a", "1")),
        answers("A", "1"),
        asks(call("b", "2")),
        answers("B", "2"),
    ]
    branches = [
        Branch("sub", 2, (asks(call("x")),)),
        Branch("late", 9, (asks(call("z")),)),
        Branch("sub", 0, (asks(call("w")),)),
    ]
    record = Trajectory.from_chat(messages, branches=branches)

    assert [(step.tool, step.branch) for step in record.calls] == [
        ("w", "sub"),
        ("a", ""),
        ("x", "sub"),
        ("b", ""),
        ("z", "late"),
    ]
    assert record.turns == 2
    assert [name for name, _ in record.dialogues()] == ["", "sub", "sub", "late"]


def test_a_record_without_an_id_is_known_by_its_dialogue():
    assert (
        Trajectory.from_chat([USER]).id
        == Trajectory.from_chat([dict(reversed(USER.items()))]).id
        == digest([USER])
    )
    assert Trajectory.from_chat([USER], id="7").id == "7"
    assert (
        Trajectory.from_chat([USER]).id
        != Trajectory.from_chat([{**USER, "content": "Lose it."}]).id
    )
