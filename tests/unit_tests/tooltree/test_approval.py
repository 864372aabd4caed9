"""Approval: attacks on it, of which the benchmark of trust has the whole list, and what a person is told instead."""

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import RetryPolicy

from tests.benchmarks.trust.approvals import ATTACKS, FIRST, OURS, THEN, Desk, asks_for, attacked, call
from tests.benchmarks.trust.writes import World, effect_attacks, writes_while

SOME = [
    "one answer delivered twice, the second to the next call",
    "other arguments, sent with the answer",
    "other arguments, put into the state after the answer, before the tools node",
    "the checkpoint before the tools node, run again",
    "a client sends a call to the tools node",
    "a write fails after its effect, and the run goes on in another process",
    "two calls, decisions in the wrong order",
]
"""One attack of each kind, for the inner loop."""


@pytest.mark.parametrize("words", SOME)
@pytest.mark.parametrize("kind", ["middleware", "node"])
def test_no_write_runs_that_nobody_approved(kind, words):
    assert attacked(kind, words).unapproved == 0


@pytest.mark.slow
@pytest.mark.parametrize(("at", "words"), list(enumerate(ATTACKS)))
def test_no_write_runs_that_nobody_approved_under_any_attack(at, words):
    desk = attacked(OURS[at % len(OURS)], words)
    assert desk is None or desk.unapproved == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_write_runs_that_is_taken_for_a_read(subtests):
    for at in range(len([*effect_attacks(World())])):
        world = World()
        each = [*effect_attacks(world)][at]
        with subtests.test(each.words):
            assert writes_while(each, world) == 0


@pytest.mark.slow
@pytest.mark.parametrize("words", SOME)
def test_the_attacks_are_real(words):
    assert attacked("batched", words).unapproved, "the middleware of LangChain lets it through"


@pytest.fixture(params=[pytest.param(kind, marks=[pytest.mark.slow] * (at > 1)) for at, kind in enumerate(OURS)])
def kind(request):
    return request.param


def test_what_is_approved_runs_once(kind):
    desk = Desk(kind, [FIRST, THEN])
    desk.begin()
    desk.approve()
    desk.approve()
    assert desk.ran == desk.consents
    assert desk.ran.total() == 2
    assert not desk.refusals


def problem(desk):
    return desk.questions[0].value.get("problem", "")


def test_an_answer_to_another_question_is_asked_for_again_with_the_problem_named(kind):
    desk = Desk(kind, [FIRST, THEN])
    desk.begin()
    assert not problem(desk)
    answer = desk.approve()

    desk.deliver(answer)

    assert "A decision has to name what it decides on" in problem(desk)
    desk.approve()
    assert not desk.questions
    assert desk.ran.total() == len([FIRST, THEN])


def test_a_run_that_goes_on_elsewhere_asks_right_before_the_call(kind):
    desk = Desk(kind, stop=["tools"])
    desk.begin()
    desk.approve()
    desk.restart()
    desk.invoke(None)
    [asked] = [question.value for question in desk.questions]
    assert not desk.ran

    if kind != "subgraph":  # which begins anew after a restart, and so at the review
        assert "nobody approved exactly this in this run" in asked["problem"]
        assert asked["review_configs"] == [{"action_name": "send", "allowed_decisions": ["approve", "reject"]}]
    desk.approve()
    desk.invoke(None)

    assert desk.ran.total() == 1


def test_a_call_rejected_right_before_it_runs_does_not_run(kind):
    desk = Desk(kind, [asks_for(call("send", to="Ann"), call("look", "2", at="sky"))], stop=["tools"])
    desk.begin()
    desk.approve()
    desk.restart()
    desk.invoke(None)
    desk.deliver(desk.approval("reject"))
    desk.invoke(None)
    assert not desk.ran
    assert not desk.refusals
    assert not desk.questions


@pytest.mark.parametrize("restarts", [False, True])
def test_a_tool_that_asks_something_of_its_own_is_approved_once(kind, restarts):
    desk = Desk(kind)
    desk.curious = True
    desk.begin()
    desk.approve()
    [question] = desk.questions
    assert question.value == "Which letter paper for {'to': 'Ann'}?"
    if restarts:
        desk.restart()
    desk.deliver("the blue one")
    assert desk.ran.total() == 1
    assert not desk.refusals


@pytest.mark.parametrize("kind", ["middleware", "node", "agent"])
def test_an_answer_to_what_is_shown_otherwise_now_is_asked_for_again(kind):
    desk = Desk(kind)
    desk.begin()
    desk.approve(update={"messages": [HumanMessage("No, do not.")]})
    assert not desk.ran
    assert "The user asked: 'No, do not.'" in desk.requests[0]["description"]


@pytest.mark.parametrize("key", [None, "2"])
def test_calls_that_cannot_be_told_apart_are_refused_right_before_they_run(key):
    desk = Desk("node")
    desk.begin()
    desk.change(asks_for(call("send", "2", to="Ann"), call("pay", key, to="Eve")), after="review")
    desk.invoke(None)
    assert [type(error).__name__ for error in desk.refusals] == ["ReviewError"]
    assert not desk.ran


@pytest.mark.parametrize("restarts", [False, True])
def test_a_write_that_failed_runs_again_each_time_it_is_approved_again(kind, restarts):
    desk = Desk(kind)
    desk.fails = 2
    desk.begin()
    for attempt in (1, 2, 3):
        desk.approve()
        if restarts:
            desk.restart()
        if len(desk.refusals) == attempt:
            desk.invoke(None)
        assert desk.ran.total() == desk.consents.total() == attempt
    assert not desk.questions


def test_a_write_that_a_graph_retries_is_asked_about_again_also_in_another_process():
    desk = Desk("node")
    desk.retries = RetryPolicy(initial_interval=0, retry_on=ConnectionError)
    desk.restart()
    desk.fails = 1
    desk.begin()
    desk.approve()
    assert "its effect may be there already" in problem(desk)

    desk.restart()
    desk.deliver(desk.approval("reject"))

    assert desk.ran == desk.consents
    assert not desk.questions
