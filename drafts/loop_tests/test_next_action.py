from typing import get_args

import pytest
from helpers import (
    ANSWER,
    ScriptedAdapter,
    call,
    calls,
    human,
    open_state,
    problem,
    result,
)
from langchain_core.messages import AIMessage

from loop.next_action import (
    REMEDIES,
    Action,
    choose_action,
    find_problem_of_turn,
    find_reason_for_writes,
    may_ask_for_report,
)
from loop.problems import FORM_PROBLEMS, TURN_PROBLEMS, ProblemKind
from loop.search_state import (
    AgentCalledTools,
    CallExplored,
    CallProposed,
    ModelAsked,
    PersonDecided,
    SearchState,
)

READ = call("find_carrier")
OTHER_READ = call("find_user")
WRITE = call("cancel_order", order="A-17")
ACCEPT = Action("accept")


def asked(purpose, kind="missing"):
    return ModelAsked(purpose=purpose, problem_kind=kind)


def explored(tool_call):
    return CallExplored(tool_call=tool_call, message_id="m")


def choose(a_problem, *events, state=None, conversation=(), **limits):
    state = state or SearchState()
    for event in events:
        state.add(event)
    return choose_action(a_problem, state, conversation, ScriptedAdapter(**limits))


# The rows of the table: each remedy, after the ones before it are used up.


@pytest.mark.parametrize(
    ("kind", "remedies"),
    [
        ("empty", ["ask_plainly", "ask_again"]),
        ("truncated", ["ask_again"]),
        ("invalid_tool_call", ["ask_again", "ask_plainly"]),
        ("announced_tool_call", ["ask_again", "ask_plainly"]),
        ("tool_call_as_text", ["explore", "ask_again", "ask_plainly"]),
        ("no_tool_call", ["ask_again"]),
        ("failed_read", ["explore", "ask_again"]),
        ("missing", ["explore", "ask_again", "ask_again", "ask_alternatives"]),
        ("repeated_call", []),
    ],
)
def test_remedies_are_taken_in_order(kind, remedies):
    state = SearchState()
    a_problem = problem(kind, READ)
    for remedy in remedies:
        action = choose(a_problem, state=state, budget=5)
        call_to_explore = READ if remedy == "explore" else None
        assert action == Action(remedy, call_to_explore)
        if remedy == "explore":
            a_problem = problem(kind)
        else:
            state.add(asked(remedy.removeprefix("ask_"), kind))
    assert choose(a_problem, state=state, budget=5) == ACCEPT


def test_every_kind_is_tested():
    assert set(REMEDIES) | {"repeated_call"} == set(get_args(ProblemKind))


@pytest.mark.parametrize("kind", get_args(ProblemKind))
@pytest.mark.parametrize("budget", [0, 1, 2])
def test_nothing_is_available_without_budget(kind, budget):
    state = SearchState()
    for _ in range(budget):
        state.add(explored(OTHER_READ))
    assert choose(problem(kind, READ), state=state, budget=budget) == ACCEPT


@pytest.mark.parametrize("kind", sorted(TURN_PROBLEMS))
def test_problems_of_the_turn_are_accepted_after_a_rejection(kind):
    state = open_state(problem("empty"))
    assert choose(problem(kind, READ), state=state) == ACCEPT
    state.end_search("control_call")
    assert choose(problem(kind, READ), state=state) == ACCEPT


# Explore


@pytest.mark.parametrize(
    "limits", [{"room": False}, {"exploration_possible": False}, {}]
)
def test_exploration_needs_room_and_possibility(limits):
    action = choose(problem("missing", READ), **limits)
    assert action.name == ("ask_again" if limits else "explore")


def test_write_is_never_explored():
    assert choose(problem("missing", WRITE)).name == "ask_again"
    assert choose(problem("tool_call_as_text", WRITE)).name == "ask_again"
    assert choose(problem("missing", call("plan_day"))).name == "ask_again"


def test_earlier_proposal_is_explored():
    state = open_state(problem("missing"))
    proposal = CallProposed(tool_call=READ)
    assert choose(problem("missing"), proposal, state=state) == Action("explore", READ)
    # The call of the latest problem comes first.
    action = choose(problem("missing", OTHER_READ), state=state)
    assert action == Action("explore", OTHER_READ)
    action = choose(problem("missing", WRITE), state=state)
    assert action == Action("explore", READ)


def test_call_as_text_stands_only_for_itself():
    state = open_state(problem("missing"))
    state.add(CallProposed(tool_call=READ))
    assert choose(problem("tool_call_as_text", WRITE), state=state).name == "ask_again"


def test_explored_call_is_not_explored_again():
    state = open_state(problem("missing", READ))
    state.add(CallProposed(tool_call=READ))
    state.add(explored(READ))
    assert choose(problem("missing", READ), state=state).name == "ask_again"


# Ask


def test_plain_request_is_made_once_in_a_run():
    state = open_state(problem("empty"))
    state.add(asked("plainly", "invalid_tool_call"))
    assert choose(problem("empty"), state=state).name == "ask_again"


@pytest.mark.parametrize(
    ("kind", "budget", "limit"),
    [
        ("missing", 1, 1),
        ("missing", 2, 1),
        ("missing", 3, 1),
        ("missing", 4, 2),
        ("missing", 7, 3),
        ("truncated", 8, 1),
        ("no_tool_call", 8, 1),
        ("failed_read", 8, 1),
    ],
)
def test_limit_of_questions(kind, budget, limit):
    state = SearchState()
    for _ in range(limit):
        assert choose(problem(kind), state=state, budget=budget).name == "ask_again"
        state.add(asked("again", kind))
    assert choose(problem(kind), state=state, budget=budget).name != "ask_again"


def test_limits_of_kinds_are_separate():
    assert choose(problem("truncated"), asked("again", "empty")).name == "ask_again"


FAILED_WRITE = [human(), calls(WRITE), result(error=True)]
REFUSAL = PersonDecided(message_id="m", changed_or_refused=True)
APPROVAL = PersonDecided(message_id="m", changed_or_refused=False)


@pytest.mark.parametrize("kind", sorted(REMEDIES))
def test_only_the_form_is_asked_about_after_a_failed_write_or_refusal(kind):
    may_ask = kind in FORM_PROBLEMS
    after_failure = choose(problem(kind), conversation=FAILED_WRITE)
    after_refusal = choose(problem(kind), REFUSAL)
    assert (after_failure.name in ("ask_again", "ask_plainly")) == may_ask
    assert (after_refusal.name in ("ask_again", "ask_plainly")) == may_ask


@pytest.mark.parametrize(
    "conversation",
    [
        [human(), calls(WRITE), result()],
        [human(), calls(READ), result(error=True)],
        [*FAILED_WRITE, ANSWER, human()],
        [
            human(),
            calls(WRITE, call("find_user", "2")),
            result(),
            result("2", error=True),
        ],
    ],
)
def test_other_results_do_not_forbid_a_question(conversation):
    action = choose(problem("missing"), APPROVAL, conversation=conversation)
    assert action.name == "ask_again"


def test_alternatives_need_two_calls_room_and_possibility():
    asked_twice = [asked("again"), asked("again")]
    assert choose(problem("missing"), *asked_twice).name == "ask_alternatives"
    assert choose(problem("missing"), *asked_twice, explored(READ)) == ACCEPT
    assert choose(problem("missing"), *asked_twice, room=False) == ACCEPT
    assert choose(problem("missing"), *asked_twice, exploration_possible=False) == (
        ACCEPT
    )
    thrice = [*asked_twice, asked("alternatives")]
    assert choose(problem("missing"), *thrice, budget=5) == ACCEPT


@pytest.mark.parametrize(
    ("events", "budget", "expected"),
    [
        ([], 4, True),
        ([], 0, False),
        ([asked("again")], 2, True),
        ([asked("again")], 1, False),
        ([explored(READ)], 1, False),
        ([asked("plainly")], 4, False),
    ],
)
def test_report_is_asked_for_while_a_plain_request_is_possible(
    events, budget, expected
):
    state = SearchState(events=events)
    assert may_ask_for_report(state, ScriptedAdapter(budget=budget)) == expected


# Problems of the turn


@pytest.mark.parametrize(
    ("text", "conversation", "tools_offered", "kind"),
    [
        ("Done.", [human()], True, "no_tool_call"),
        ("Done.", [], True, "no_tool_call"),
        ("Done.", [human()], False, None),
        ("Which order?", [human()], True, None),
        ("どの注文ですか\uff1f", [human()], True, None),
        ("Done.", [human(), calls(READ), result()], True, None),
        ("Done.", [human(), calls(READ), result(error=True)], True, "failed_read"),
        ("Done.", [human(), calls(READ), result(error=True)], False, "failed_read"),
        ("Done.", [human(), calls(READ)], True, None),
        ("Done.", FAILED_WRITE, True, None),
        (
            "Done.",
            [human(), calls(READ), result(), ANSWER, human()],
            True,
            "no_tool_call",
        ),
        (
            "Done.",
            [human(), calls(READ), result(error=True), calls(READ), result()],
            True,
            None,
        ),
        (
            "Done.",
            [human(), calls(READ), result(error=True), calls(WRITE), result()],
            True,
            "failed_read",
        ),
    ],
)
def test_problem_of_the_turn(text, conversation, tools_offered, kind):
    found = find_problem_of_turn(
        AIMessage(text),
        conversation,
        ScriptedAdapter(),
        tools_offered=tools_offered,
        proposed_call=OTHER_READ,
    )
    assert (found and found.kind) == kind
    if found is not None:
        assert found.tool_call == OTHER_READ
        assert found.explanation


# Reasons for writes


def reason(*problems, writes=(WRITE,), events=(), conversation=()):
    state = open_state(*problems)
    for event in events:
        state.add(event)
    response = calls(*writes)
    return find_reason_for_writes(response, state, conversation, ScriptedAdapter())


def report(explanation, tool_call=None):
    return problem("missing", tool_call, explanation)


@pytest.mark.parametrize(
    ("explanation", "args", "is_named"),
    [
        ("Order A-17 is not cancelled.", {"order": "A-17"}, True),
        ("order a-17 is not cancelled", {"order": "A-17"}, True),
        ("The order is A-170.", {"order": "A-17"}, False),
        ("The order is BA-17.", {"order": "A-17"}, False),
        ("Call cancel_order.", {}, True),
        ("Call cancel_orders.", {}, False),
        ("Order 17 is open.", {"order": 17}, False),
        ("Order 170 is open.", {"order": 170}, True),
        ("Ada Lovelace waits.", {"to": {"names": ["Ada Lovelace"]}}, True),
        ("It is true.", {"force": True}, False),
        ("a+b (c)", {"text": "a+b (c)"}, True),
        ("Nothing.", {"order": None}, False),
        ("the carrier", {"order": "A-17"}, False),
    ],
)
def test_report_names_a_write(explanation, args, is_named):
    found = reason(report(explanation), writes=[call("cancel_order", **args)])
    assert found == ("write_was_missing" if is_named else None)


def test_report_proposes_a_write():
    proposed = call("cancel_order", order="B-1")
    assert reason(report("x", proposed)) == "write_was_missing"
    assert reason(report("x", READ)) is None


def test_report_must_name_every_write():
    second = call("cancel_trip", trip="T-9")
    assert reason(report("order A-17"), writes=[WRITE, second]) is None
    both = report("order A-17 and trip T-9")
    assert reason(both, writes=[WRITE, second]) == "write_was_missing"
    assert reason(report("order A-17"), writes=[WRITE, READ]) == "write_was_missing"


def test_only_the_latest_report_counts():
    assert reason(report("order A-17"), report("the carrier")) is None
    assert reason(report("the carrier"), report("order A-17")) == "write_was_missing"
    assert reason(report("order A-17"), problem("empty")) == "write_was_missing"


@pytest.mark.parametrize("kind", sorted(FORM_PROBLEMS | TURN_PROBLEMS))
def test_one_unfinished_answer_is_a_reason(kind):
    assert reason(problem(kind)) == "agent_had_not_finished"
    assert reason(problem(kind), problem("empty")) is None
    assert reason(problem("missing", explanation="x"), problem(kind)) is None


@pytest.mark.parametrize("error", [False, True])
@pytest.mark.parametrize("a_problem", [report("order A-17"), problem("empty")])
def test_write_of_this_turn_has_no_reason(a_problem, error):
    conversation = [human(), calls(WRITE), result(error=error)]
    assert reason(a_problem, conversation=conversation) is None
    next_turn = [*conversation, ANSWER, human()]
    assert reason(a_problem, conversation=next_turn) is not None
    other_write = [human(), calls(call("cancel_order", order="B-1")), result()]
    assert reason(a_problem, conversation=other_write) is not None


def test_write_that_a_person_changed_has_no_reason():
    recorded = AgentCalledTools(tool_calls=[WRITE], message_id="m")
    changed = calls(call("cancel_order", order="B-1"), message_id="m")
    conversation = [human(), changed, result()]
    events = [recorded, REFUSAL]
    assert (
        reason(report("order A-17"), events=events, conversation=conversation) is None
    )


def test_write_is_not_made_twice_in_a_response():
    assert reason(report("order A-17"), writes=[WRITE, WRITE]) is None
