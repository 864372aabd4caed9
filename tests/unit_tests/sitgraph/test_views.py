"""What a state is where nobody summed it up: the views of a dialogue, read off without a model."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from little_runs import brings, called, calls, routine, run_of, says, summed_up, user

from langchain_tooltree import SITGraph
from langchain_tooltree.sitgraph.transitions import (
    MAX_CALLS,
    MAX_CHARACTERS,
    features_of,
    get_feature_texts,
    moment_of,
    read_run,
)
from langchain_tooltree.sitgraph.transitions import both_ends as shortened

TALK = [
    user("I want a refund."),
    says("Which booking?"),
    user("Number 5."),
    *called("find", result="found 5"),
    says("It is here. Shall I?"),
    user("Yes."),
    user("Please."),
]


def texts(*messages):
    return get_feature_texts(moment_of(messages)[0])


def features(*messages):
    return features_of(moment_of(messages)[0])


def test_the_text_views_tell_what_was_said_and_found():
    assert texts(*TALK) == {
        "news": "Yes. Please.",
        "message": "Please.",
        "request": "I want a refund. Number 5. Yes. Please.",
        "reply": "It is here. Shall I?",
        "observation": "found 5",
    }


def test_there_is_nothing_to_see_before_anything_happened():
    assert set(texts().values()) == {""}


def test_after_an_observation_there_is_no_news():
    assert texts(user("Hi"), *called("a"))["news"] == ""


def test_what_the_user_said_is_still_news_after_the_state_was_summed_up():
    assert (
        texts(user("Hi"), *called("a"), user("And now?"), *summed_up("All known."))[
            "news"
        ]
        == "And now?"
    )


def test_a_reply_without_text_is_passed_over():
    assert texts(user("Hi"), says("Hello."), *called("a"))["reply"] == "Hello."


def test_the_observation_is_that_of_the_last_call_that_has_one():
    assert (
        texts(user("Hi"), *called("a", result="of a"), calls("b"))["observation"]
        == "of a"
    )


def test_of_content_that_is_not_only_text_the_text_is_read():
    image = {"type": "image_url", "image_url": {"url": "data:"}}
    call = calls("look")
    seen = brings([{"type": "text", "text": "a cat"}, image], call)

    read = texts(
        user([{"type": "text", "text": "What is"}, image, "this?"]), call, seen
    )

    assert read["request"] == "What is\nthis?"
    assert read["observation"] == "a cat"


def test_of_a_long_text_the_beginning_and_the_end_are_read():
    long = "a" * MAX_CHARACTERS + "b" * MAX_CHARACTERS

    assert shortened(long) == "a" * (MAX_CHARACTERS // 2) + " " + "b" * (
        MAX_CHARACTERS // 2
    )
    assert shortened(long[:MAX_CHARACTERS]) == long[:MAX_CHARACTERS]
    assert texts(user(long))["message"] == shortened(long)


def test_the_features_tell_which_tools_were_called_how_often_and_in_what_order():
    assert features(*TALK, *called("find", "pay")) == {
        "called find": 1.0,
        "called find 2 times": 1.0,
        "called pay": 1.0,
        "called pay 1 times": 1.0,
        "last ['find', 'pay']": 1.5,
        "latest ['find', 'find', 'pay']": 1.5,
        "0 messages since": 1.5,
    }


def test_counts_end_at_a_few():
    many = features(user("Hi"), *called(*["a"] * 9), *[user("?")] * 9)

    assert "called a 4 times" in many
    assert "3 messages since" in many


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ("R-4711", " R-0"),
        ("x" * 41, " long"),
        (4711, " number"),
        (0.5, " number"),
        (True, " true"),
        (None, " null"),
        (["a", "b"], ".length 2"),
        ({"deep": 1}, ".deep number"),
        ([{"deep": 1}], ".deep number"),
    ],
)
def test_arguments_count_by_their_shape(value, shape):
    call = calls(("book", {"to": value}))

    assert features(user("Hi"), call)[f"argument book .to{shape}"] == 1.0
    assert features(user("Hi"), call)[f"last argument book .to{shape}"] == 1.0


def test_the_arguments_of_the_last_call_stand_out():
    seen = features(user("Hi"), calls(("a", {"x": 1})), calls(("b", {"y": 1})))

    assert [feature for feature in seen if feature.startswith("last argument")] == [
        "last argument b .y number"
    ]


def test_two_calls_that_differ_in_their_numbers_alone_are_alike():
    assert features(user("Hi"), calls(("a", {"id": "R-1"}))) == features(
        user("Hi"), calls(("a", {"id": "R-22"}))
    )


def test_of_very_many_arguments_some_are_read():
    assert (
        len(
            features(user("Hi"), calls(("a", {f"k{place}": 1 for place in range(500)})))
        )
        < 120
    )


def test_of_very_many_calls_the_latest_are_looked_at():
    many = [user("Hi"), *called("first", *["a"] * MAX_CALLS)]

    assert "called first" not in features(*many)
    assert "called first" in features(*many[:-2])


def test_arguments_that_cannot_be_read_are_none():
    call = {
        "role": "assistant",
        "tool_calls": [{"id": "1", "function": {"name": "a", "arguments": "{broken"}}],
    }

    assert not [
        feature for feature in features(user("Hi"), call) if "argument" in feature
    ]


NOISE = st.none() | st.integers() | st.text(max_size=4)
VALUES = st.recursive(
    NOISE | st.floats() | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
TOOLS = st.sampled_from(["a", "b", "summarize_state", "", "\ud800", 'ü|"]'])
ARGUMENTS = (
    VALUES
    | VALUES.map(json.dumps)
    | st.sampled_from(["", "{broken", '{"summary": "Known."}'])
)
FUNCTIONS = st.fixed_dictionaries(
    {}, optional={"name": TOOLS | st.none(), "arguments": ARGUMENTS}
)
CALLS = st.fixed_dictionaries(
    {}, optional={"id": VALUES, "function": FUNCTIONS | NOISE, "type": NOISE}
)
BLOCKS = NOISE | st.fixed_dictionaries(
    {}, optional={"type": NOISE, "text": NOISE, "image_url": VALUES}
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(
            ["user", "assistant", "tool", "function", "system", "narrator", "", None]
        ),
        "content": VALUES | st.lists(BLOCKS, max_size=3),
        "tool_calls": st.lists(CALLS | NOISE, max_size=3) | VALUES,
        "function_call": st.none() | FUNCTIONS,
        "tool_call_id": VALUES,
        "name": TOOLS | st.none(),
        "error": st.booleans() | st.none(),
    },
)


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(MESSAGES, max_size=8))
def test_nothing_that_a_dialogue_may_hold_stops_the_graph(messages):
    graph = SITGraph()

    learnt = graph.add(run_of("1", *messages))
    suggested = graph.suggest(None, messages=messages)
    moment, _ = moment_of(messages)

    assert learnt == bool(moment.steps) == bool(suggested)
    assert get_feature_texts(moment) == get_feature_texts(moment_of(messages)[0])
    assert features_of(moment) == features_of(moment_of(messages)[0])


def test_a_state_found_in_a_run_is_the_state_of_the_same_dialogue_later():
    run = routine("1", "a", "b", request="I want a refund.")
    graph = SITGraph.from_trajectories(
        [run, routine("2", "a", "c", request="Book me a room.")]
    )
    place = next(
        place
        for place, said in enumerate(run.messages)
        if (said.get("tool_calls") or [{}])[0].get("id") == "b {}"
    )

    best = graph.suggest("a", messages=run.messages[:place], k=1)[0]

    assert best.tool == "b"
    assert best.evidence[0].trajectory == "1"


@pytest.mark.slow
@pytest.mark.parametrize("odd", ["late", "without an id", "summed up"])
def test_the_state_of_a_long_dialogue_that_goes_on_is_that_of_the_run_later(odd):
    said = [user("First of all, a refund.")]
    for number in range(2 * MAX_CALLS):
        call = calls(("a", {"n": number}), text=f"I look {number}.")
        said += [call, brings(f"found {number}", call)]
        said += [user(f"And {number}?")] if number % 3 == 0 else []
    if odd == "late":
        said[1], said[2:3] = calls(("late", {})), []
        said.append(brings("late at last", said[1]))
    if odd == "without an id":
        said += [calls("b"), {"role": "tool", "content": "whose?"}]
    if odd == "summed up":
        said += summed_up("All is well.")
    whole = run_of("1", *said, *called("z"))
    expected = read_run(whole)[0][-1].moment

    moment = moment_of(said)[0]

    assert get_feature_texts(moment) == get_feature_texts(expected)
    assert features_of(moment) == features_of(expected)
    assert moment.last_tool == expected.last_tool
