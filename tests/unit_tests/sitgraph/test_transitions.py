"""The transitions of a run: which tool followed which, what had happened until then, and who summed it up."""

from types import SimpleNamespace

import pytest
from little_runs import brings, called, calls, run_of, says, summed_up, user

from langchain_tooltree import SITGraph
from langchain_tooltree.experience.trajectory import Branch
from langchain_tooltree.messages.chat_format import find_requests
from langchain_tooltree.messages.reference import REFERENCE_START
from langchain_tooltree.messages.tool_calls import Result
from langchain_tooltree.sitgraph import transitions
from langchain_tooltree.sitgraph.transitions import (
    START,
    features_of,
    get_feature_texts,
    moment_of,
    read_run,
    summary_of,
)


def pairs(record):
    return [(each.source, each.target) for each in read_run(record)[0]]


def test_every_run_begins_at_the_start_node():
    assert pairs(run_of("1", user("Hi"), *called("a", "b"), says("Done."))) == [
        (START, "a"),
        ("a", "b"),
    ]


def test_a_run_without_calls_has_no_transitions():
    assert pairs(run_of("1", user("Hi"), says("Hello."))) == []


def test_calls_made_in_parallel_follow_one_another_as_they_are_listed():
    both = calls("b", "a")
    run = run_of(
        "1",
        user("Hi"),
        both,
        brings("of a", both, 1),
        brings("of b", both, 0),
        *called("c"),
    )

    assert pairs(run) == [(START, "b"), ("b", "a"), ("a", "c")]


def test_a_call_made_in_parallel_knows_of_the_earlier_one_but_not_what_it_brought():
    both = calls("a", "b")
    run = run_of(
        "1",
        user("Hi"),
        both,
        brings("of a", both, 0),
        brings("of b", both, 1),
        *called("c"),
    )

    first, second, third = (each.moment for each in read_run(run)[0])

    assert (first.messages, first.steps) == ([user("Hi")], ())
    assert list(second.messages) == [user("Hi")]
    assert [(step.tool, step.result) for step in second.steps] == [("a", None)]
    assert [step.result for step in third.steps] == [Result("of a"), Result("of b")]


def test_what_happens_later_is_not_part_of_a_moment():
    run = run_of(
        "1", user("Hi"), *called("a"), user("More"), *called("b"), says("Done.")
    )

    moments = [each.moment for each in read_run(run)[0]]

    assert [len(moment.messages) for moment in moments] == [1, 4]
    assert [moment.last_tool for moment in moments] == [START, "a"]


def test_each_dialogue_of_a_sub_agent_begins_at_the_start_node():
    branch = Branch("researcher", 2, (user("Look it up"), *called("find", "read")))
    run = run_of("1", user("Hi"), *called("delegate", "write"), branches=[branch])

    assert pairs(run) == [
        (START, "delegate"),
        ("delegate", "write"),
        (START, "find"),
        ("find", "read"),
    ]


def test_calls_that_failed_or_were_never_answered_are_transitions_too():
    failing, lost = calls("a"), calls("b")
    run = run_of(
        "1",
        user("Hi"),
        failing,
        brings("no such thing", failing, error=True),
        lost,
        *called("c"),
    )

    assert pairs(run) == [(START, "a"), ("a", "b"), ("b", "c")]
    assert [step.result.status for step in read_run(run)[0][1].moment.steps] == [
        "error"
    ]


@pytest.mark.parametrize(
    "refusal",
    ["Error: payment method not found", '{"status": "error", "message": "No seats"}'],
)
def test_a_call_that_failed_by_its_own_words_is_told_apart_and_not_learnt_as_what_went_well(
    refusal,
):
    failing = calls("pay")
    run = run_of(
        "1",
        user("Hi"),
        *called("find"),
        *summed_up("Ready."),
        failing,
        brings(refusal, failing),
        *called("ask"),
    )

    found = read_run(run)[0]
    assert [(each.source, each.target, each.failed) for each in found] == [
        (START, "find", False),
        ("find", "pay", True),
        ("pay", "ask", False),
    ]
    assert found[2].summaries == (
        "Ready.",
    )  # the agent did something else in the state that it had summed up
    drawn = SITGraph.from_trajectories([run]).to_networkx()
    assert sorted(drawn.edges) == [(START, "find"), ("pay", "ask")]


def test_summaries_lie_on_the_edge_around_them():
    run = run_of(
        "1",
        user("Hi"),
        *called("a"),
        *summed_up("One."),
        *summed_up(" Two. "),
        *called("b", "c"),
    )

    found = read_run(run)[0]

    assert [(each.source, each.target) for each in found] == [
        (START, "a"),
        ("a", "b"),
        ("b", "c"),
    ]
    assert [each.summaries for each in found] == [(), ("One.", "Two."), ()]


def test_a_state_is_the_same_whether_or_not_it_was_summed_up():
    plain = [user("Hi"), *called("a"), user("More")]

    with_summary, _ = moment_of([*plain, *summed_up("One.")])
    without, _ = moment_of(plain)

    assert list(with_summary.messages) == list(without.messages)
    assert with_summary.steps == without.steps


def test_the_last_summary_without_a_call_after_it_lies_on_no_edge():
    run = run_of("1", user("Hi"), *called("a"), *summed_up("One."), says("Done."))

    assert [each.summaries for each in read_run(run)[0]] == [()]


def test_summaries_of_one_dialogue_do_not_lie_on_the_edges_of_another():
    branch = Branch("researcher", 1, (user("Look it up"), *called("find")))
    run = run_of("1", user("Hi"), *called("a"), *summed_up("One."), branches=[branch])

    assert [each.summaries for each in read_run(run)[0]] == [(), ()]


def test_a_moment_tells_the_summary_made_since_the_last_call():
    summed = [user("Hi"), *called("a"), *summed_up("One."), *summed_up("Two.")]

    assert moment_of(summed)[1] == "Two."
    assert moment_of(summed)[0].last_tool == "a"
    assert moment_of([*summed, *called("b")])[1] is None
    assert moment_of([])[1] is None
    assert moment_of([])[0].last_tool == START


def step(arguments=None, content=None, status="success"):
    return SimpleNamespace(
        arguments=arguments,
        result=None if content is None else Result(content, status),
    )


@pytest.mark.parametrize(
    ("asked", "summary"),
    [
        (step({"summary": " Known. "}), "Known."),
        (step({"summary": "Known."}, "an observation"), "Known."),
        (
            step({"question": "What now?"}, f"All is known.\n{REFERENCE_START}\n- a"),
            "All is known.",
        ),
        (step({}, "Nothing suggested."), "Nothing suggested."),
        (step({}, "The model is down.", "error"), ""),
        (step({"summary": 7}), ""),
        (step(None), ""),
    ],
    ids=[
        "argument",
        "argument first",
        "written by a model",
        "no suggestions",
        "failed",
        "no text",
        "unreadable",
    ],
)
def test_a_summary_is_the_argument_or_what_a_model_wrote(asked, summary):
    assert summary_of(asked) == summary


def test_a_result_stays_in_the_state_though_its_id_was_that_of_a_summary_before():
    def made(tool):
        entry = {
            "id": "1",
            "type": "function",
            "function": {"name": tool, "arguments": '{"summary": "All is open."}'},
        }
        return [
            {"role": "assistant", "tool_calls": [entry]},
            {"role": "tool", "tool_call_id": "1", "content": tool},
        ]

    said = [{"role": "user", "content": "Go."}, *made("summarize_state"), *made("look")]

    assert [
        message["content"]
        for message in moment_of(said)[0].messages
        if message["role"] == "tool"
    ] == ["look"]


def test_a_long_run_is_read_in_proportion_to_its_length(monkeypatch):
    looked_at = []

    def counted(messages):
        return find_requests(
            looked_at.append(message) or message for message in messages
        )

    monkeypatch.setattr(transitions, "find_requests", counted)

    def looks(turns):
        run = run_of(
            "1",
            *(
                each
                for _ in range(turns)
                for each in (user("Go on"), *called("a"), says("Done."))
            ),
        )
        looked_at.clear()
        for transition in read_run(run)[0]:
            get_feature_texts(transition.moment)
            features_of(transition.moment)
        return len(looked_at)

    assert looks(200) < 5 * looks(50)
