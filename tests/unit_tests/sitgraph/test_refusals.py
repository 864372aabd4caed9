"""What was tried in past runs and did not work: counts that come and go with the runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from little_runs import brings, called, calls, run_of, says, user

from tests.internals.experience import call_key
from tests.internals.sitgraph import LEAST_REFUSED, START, Refusals

NO = "Error: the order was shipped already."
CANCEL = ("cancel", {"order": 7})
KEY = call_key(*CANCEL)


def refusing(*tools, said=NO):
    """Tools that are called one after the other, and refuse."""
    messages = []
    for tool in tools:
        call = calls(tool)
        messages += [call, brings(said, call)]
    return messages


def learnt(*runs):
    refusals = Refusals()
    for run in runs:
        refusals.learn(run)
    return refusals


def test_a_call_is_counted_by_the_runs_that_tried_it_and_those_that_did_in_vain():
    twice = run_of("1", user("Hi"), *called("find"), *refusing(CANCEL, CANCEL), success=False)
    once = run_of("2", user("Hi"), *called("find"), *refusing(CANCEL), says("Sorry."))

    assert learnt(twice, once).after("find") == {KEY: (2, 2)}
    assert learnt(twice, once).after("cancel") == {KEY: (1, 1)}
    assert learnt(twice, once).after(START) == {}


def test_a_call_that_worked_anywhere_is_not_in_vain():
    refused = run_of("1", *called("find"), *refusing(CANCEL))
    worked = run_of("2", *called("pay"), *called(CANCEL[0], arguments=CANCEL[1]))

    assert learnt(refused, worked).after("find") == {KEY: (2, 1)}


def test_a_run_that_tries_again_until_it_works_has_not_tried_in_vain():
    run = run_of("1", *called("find"), *refusing(CANCEL), *called(CANCEL[0], arguments=CANCEL[1]))

    assert learnt(run).after("find") == {}


@pytest.mark.parametrize("more", [{"error": True}, {}])
def test_a_call_is_refused_by_its_mark_or_by_its_words(more):
    call = calls(CANCEL)
    run = run_of("1", call, brings("no" if more else NO, call, **more))

    assert learnt(run).after(START) == {KEY: (1, 1)}


def test_words_that_may_be_good_news_are_no_refusal():
    assert learnt(run_of("1", *called("book", result="Room 7 is booked"))).after(START) == {}


def test_words_tell_how_often_a_tool_was_refused_where_that_is_most_of_the_time():
    vain = [run_of(str(n), *called("find"), *refusing(("cancel", {"order": n}))) for n in range(LEAST_REFUSED)]
    fine = [run_of(f"fine {n}", *called("find", "cancel")) for n in range(LEAST_REFUSED)]

    assert learnt(*vain[1:]).told("find", ["cancel"]) == ""
    assert learnt(*vain).told("find", ["cancel"]) == "cancel: called here 3 times, refused 3"
    assert learnt(*vain, fine[0]).told("find", ["cancel"]) == "cancel: called here 4 times, refused 3"
    assert learnt(*vain, *fine).told("find", ["cancel"]) == ""
    assert learnt(*vain).told("find", ["find"]) == learnt(*vain).told(START, ["cancel"]) == ""


def test_the_attempts_of_one_run_count_as_that_run_and_by_their_last_reply_alone():
    begun = [user("Hi"), *called("find")]
    run = run_of("run", *begun, *called("pay"))
    attempts = [
        run_of(
            f"{n}",
            *begun,
            *refusing(CANCEL),
            *refusing(("ask", {"n": n})),
            success=False,
            metadata={"attempt_of": "run"},
        )
        for n in range(3)
    ]
    alone = run_of("alone", *begun, *refusing(CANCEL), success=False, metadata={"attempt_of": "run"})

    refusals = learnt(run, alone, *attempts)
    assert refusals.after("find") == {KEY: (1, 1)}
    assert refusals.after("cancel") == {call_key("ask", {"n": n}): (1, 1) for n in range(3)}
    assert refusals.told("find", ["cancel"]) == ""
    assert refusals.told("cancel", ["ask"]) == "ask: called here 3 times, refused 3"


def test_calls_of_which_nothing_came_back_are_not_counted():
    assert len(learnt(run_of("1", user("Hi"), calls(CANCEL)))) == 0


STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.booleans()), max_size=5)
RUNS = st.lists(st.tuples(st.sampled_from("123"), STEPS, st.sampled_from([None, "1", "9"])), max_size=8)


def drawn(name, steps, attempt_of):
    made = []
    for tool, number, fine in steps:
        call = calls((tool, {"n": number}))
        made += [call, brings("done" if fine else NO, call)]
    return run_of(name, user("Hi"), *made, success=None, metadata={"attempt_of": attempt_of} if attempt_of else {})


@pytest.mark.slow
@given(runs=RUNS, gone=st.sampled_from("123"))
def test_what_a_run_gave_is_taken_back_exactly(runs, gone):
    runs = [drawn(*each) for each in runs]
    refusals = learnt(*runs)
    refusals.remove(gone)

    latest = {run.id: run for run in runs}
    without = learnt(*(run for run in reversed(latest.values()) if run.id != gone))
    assert vars(refusals) == vars(without)
