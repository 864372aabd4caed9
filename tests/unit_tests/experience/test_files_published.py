"""Files of runs as benchmarks publish them: nothing in them vanishes without a count."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_tooltree import Trajectory, load_trajectories
from langchain_tooltree.experience.files import count_unread
from langchain_tooltree.messages.tool_calls import find_calls


def call(name, arguments, call_id=None):
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def observation(content, call_id=None, **more):
    return {
        "role": "tool",
        "content": content,
        **({"tool_call_id": call_id} if call_id else {}),
        **more,
    }


WITHOUT_IDS = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Two seats to Oslo."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [call("find", "{'to': 'Oslo', 'direct': True, 'via': None}")],
    },
    observation("Two flights.", name="find"),
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [call("book", {"seats": 2}), call("pay", '{"card": 1}')],
    },
    observation("Booked."),
    observation("Paid."),
]
STEPS = [
    ("find", {"to": "Oslo", "direct": True, "via": None}, "Two flights."),
    ("book", {"seats": 2}, "Booked."),
    ("pay", {"card": 1}, "Paid."),
]


def read(run):
    return [
        (step.tool, step.arguments, step.result and step.result.content)
        for step in run.calls
    ]


def test_tool_messages_without_ids_and_python_dicts_are_read(tmp_path, caplog):
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps({"messages": WITHOUT_IDS, "reward": 1.0}))
    unread = Counter()
    (run,) = load_trajectories(path, unread=unread)
    assert (run.success, read(run)) == (True, STEPS)
    assert not unread
    assert not caplog.text


def test_what_cannot_be_read_is_counted_or_logged_once_a_file(tmp_path, caplog):
    path = tmp_path / "runs.jsonl"
    said = [
        {"role": "assistant", "tool_calls": [call("a", "{broken"), {"id": "2"}]},
        observation("A"),
        observation("Whose?"),
    ]
    path.write_text(
        "\n".join(json.dumps({"id": "same", "messages": said}) for _ in range(2))
    )
    unread = Counter(earlier=1)
    assert len(list(load_trajectories(path, unread=unread))) == 2
    assert unread == {
        "earlier": 1,
        "observations without a call": 2,
        "calls that name no tool": 2,
        "calls with unreadable arguments": 2,
        "runs with the id of an earlier one, as whose versions they count": 1,
    }
    assert caplog.text == ""
    assert len(list(load_trajectories(path))) == 2
    assert caplog.text.count(str(path)) == 1


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.dictionaries(st.text(max_size=9), values, max_size=3),
    st.sampled_from([dict, json.dumps, repr]),
)
def test_arguments_are_the_same_in_whatever_form_they_are_written(arguments, form):
    (step,) = find_calls(
        [{"role": "assistant", "tool_calls": [call("a", form(arguments))]}]
    )
    assert step.arguments == arguments


spoilt = st.sampled_from(["kept", "missing", "the same", "unknown"])


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.lists(spoilt, min_size=1, max_size=3), max_size=5), spoilt)
def test_where_every_call_is_answered_in_order_it_does_not_matter_what_became_of_the_ids(
    turns, ids
):
    said = []
    for turn, answers in enumerate(turns):
        numbered = [(f"{turn}.{place}", became) for place, became in enumerate(answers)]
        own = {"kept": lambda number: number, "missing": lambda _: None}.get(
            ids, lambda _: "same"
        )
        made = [call(f"tool {number}", "{}", own(number)) for number, _ in numbered]
        said.append({"role": "assistant", "tool_calls": made})
        known = {
            "kept": own,
            "missing": lambda _: None,
            "the same": lambda _: None,
            "unknown": lambda n: f"? {n}",
        }
        said += [
            observation(number, known[became](number)) for number, became in numbered
        ]
    steps = find_calls(said)
    assert [(step.tool, step.result.content) for step in steps] == [
        (f"tool {step.result.content}", step.result.content) for step in steps
    ]
    assert not count_unread(Trajectory.from_chat(said))


anything = st.lists(
    st.one_of(
        st.builds(
            lambda made: {"role": "assistant", "tool_calls": made},
            st.lists(
                st.builds(
                    call,
                    st.sampled_from(["a", "b", None, 3]),
                    st.sampled_from(["{}", "{", "{'n': None}", None]),
                    st.sampled_from([None, "1", "2"]),
                ),
                max_size=3,
            ),
        ),
        st.builds(
            observation, st.text(max_size=3), st.sampled_from([None, "1", "2", "3"])
        ),
        st.builds(
            lambda name: observation("x", "1", name=name), st.sampled_from(["a", "b"])
        ),
        st.just({"role": "user", "content": "Go on."}),
    ),
    max_size=12,
)


@pytest.mark.slow
@settings(deadline=None)
@given(anything)
def test_nothing_vanishes_without_a_count(said):
    run = Trajectory.from_chat(said)
    unread = count_unread(run)
    observations = sum(message["role"] == "tool" for message in said)
    calls = sum(len(message.get("tool_calls") or ()) for message in said)
    answered = [step for step in run.calls if step.result]
    assert len(answered) + unread["observations without a call"] == observations
    assert len(run.calls) + unread["calls that name no tool"] == calls
    assert (
        sum(step.arguments is None for step in run.calls)
        == unread["calls with unreadable arguments"]
    )
