import json

import pytest
from helpers import ANSWER, call, calls, human, open_state, problem, result, usage
from langchain_core.messages import AIMessage, SystemMessage

from loop.conversation import get_current_turn, list_tool_rounds
from loop.search_state import (
    AgentCalledTools,
    AnswerRejected,
    CallExplored,
    CallProposed,
    ModelAsked,
    PersonDecided,
    SearchFailed,
    SearchState,
    continue_state,
)

MISSING = problem("missing")
EXPLORED = CallExplored(tool_call=call("find_carrier"), message_id="lc_tooltree-1")
AGENT_READ = AgentCalledTools(tool_calls=[call("find_order")], message_id="read")
AGENT_WRITE = AgentCalledTools(tool_calls=[call("cancel_order")], message_id="write")


def asked(purpose, kind="missing"):
    return ModelAsked(purpose=purpose, problem_kind=kind)


# The conversation


def test_results_belong_to_the_message_before_them():
    first, second = calls(call("find_order", "0")), calls(call("find_user", "0"))
    first_result, second_result = result("0"), result("0")
    rounds = list_tool_rounds(
        [human(), first, first_result, human("hook"), second, second_result]
    )
    assert [tool_round.message for tool_round in rounds] == [first, second]
    assert rounds[0].results[0] is first_result
    assert rounds[1].results[0] is second_result


def test_foreign_results_and_answers_are_no_rounds():
    messages = [result("0"), calls(call("find_order", "1")), result("2"), ANSWER]
    [tool_round] = list_tool_rounds([*messages, result("1")])
    assert tool_round.results == []
    assert not tool_round.is_complete()


def test_turn_begins_after_the_last_final_answer():
    turn = [human(), calls(call("find_order")), result(), human("from a hook")]
    assert get_current_turn(turn) == turn
    assert get_current_turn([human(), ANSWER, *turn]) == turn
    assert get_current_turn([]) == []


# Storing and reading back


def test_state_survives_json():
    state = open_state(problem("missing", call("find_order", order="A-17")))
    for event in (
        asked("alternatives"),
        CallProposed(
            tool_call=call("find_carrier"),
            reasoning=[{"type": "thinking", "thinking": "?", "signature": "s"}],
        ),
        EXPLORED,
        AGENT_READ,
        PersonDecided(message_id="read", changed_or_refused=True),
        SearchFailed(error="ValueError()"),
    ):
        state.add(event)
    assert SearchState.load(json.loads(json.dumps(state.dump()))) == state


def test_ended_state_survives_json():
    state = open_state(MISSING)
    state.end_search("answered")
    assert SearchState.load(json.loads(json.dumps(state.dump()))) == state


def test_token_details_of_providers_survive_json():
    tokens = usage(3) | {"input_token_details": {"cache_read": 1, "of_provider": 2}}
    state = SearchState()
    event = AnswerRejected(problem=MISSING, became_fallback=True, usage=tokens)
    state.add(event, ANSWER)
    assert SearchState.load(state.dump()).list_usages() == [tokens]


REJECTED = {
    "type": "answer_rejected",
    "problem": {"kind": "missing", "explanation": "", "tool_call": None},
    "became_fallback": True,
}
RAW_CALL = {"id": "1", "function": {"name": "cancel_order", "arguments": "{}"}}
DEEP: dict = {}
for _ in range(5000):
    DEEP = {"a": DEEP}


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        [],
        {"run_id": "x"},
        {"events": [{"type": "unknown"}]},
        {"events": [REJECTED]},
        {"events": [], "fallback_answer": {"content": "x"}},
        {
            "events": [REJECTED | {"became_fallback": False}],
            "fallback_answer": {"content": "x"},
        },
        {
            "events": [REJECTED | {"usage": {"input_tokens": "many"}}],
            "fallback_answer": {"content": "x"},
        },
        {
            "events": [
                {
                    "type": "call_proposed",
                    "tool_call": {"name": "x", "args": DEEP, "id": None},
                }
            ]
        },
        *(
            {"events": [REJECTED], "fallback_answer": answer}
            for answer in [
                "text",
                {"content": "x", "tool_calls": ["a"]},
                {"content": "x", "tool_calls": [{"name": "a", "args": {}, "id": "1"}]},
                {"content": "x", "additional_kwargs": "text"},
                {"content": "x", "additional_kwargs": {"tool_calls": [RAW_CALL]}},
                {
                    "content_blocks": [
                        {"type": "tool_call", "name": "a", "args": {}, "id": "1"}
                    ]
                },
                {"content": "x", "response_metadata": DEEP},
            ]
        ),
    ],
)
def test_invalid_data_is_an_empty_state(data):
    assert SearchState.load(data) == SearchState()


def test_forged_data_of_this_form_would_be_valid():
    data = {"events": [REJECTED], "fallback_answer": {"content": "x"}}
    assert SearchState.load(data).is_search_open()


@pytest.mark.parametrize("value", [object(), "\ud800", {1: object()}])
def test_event_that_cannot_be_read_back_is_not_added(value):
    state = open_state(MISSING)
    before = state.model_copy(deep=True)
    with pytest.raises(ValueError, match=r"."):
        state.add(CallProposed(tool_call=call("find_order", order=value)))
    assert state == before


def test_answer_that_cannot_be_read_back_is_not_kept():
    state = SearchState()
    answer = AIMessage("x", response_metadata={"raw": object()})
    with pytest.raises(ValueError, match=r"."):
        state.add(AnswerRejected(problem=MISSING, became_fallback=True), answer)
    assert state == SearchState()


def test_answer_with_tool_calls_is_not_kept():
    with pytest.raises(ValueError, match="no tool calls"):
        open_state(MISSING, answer=calls(call("cancel_order")))


def test_rejection_needs_a_fallback_answer():
    with pytest.raises(ValueError, match="fallback answer"):
        SearchState().add(AnswerRejected(problem=MISSING, became_fallback=True))


# What is computed from the events


def test_search_is_open_between_rejection_and_end():
    state = SearchState()
    assert not state.is_search_open()
    state = open_state(MISSING)
    assert state.is_search_open()
    assert state.fallback_answer == ANSWER
    state.end_search("answered")
    assert not state.is_search_open()
    assert state.fallback_answer is None
    assert state.has_rejected_answer()


def test_questions_and_model_calls_are_counted_across_searches():
    state = open_state(MISSING)
    state.add(asked("again"))
    state.add(EXPLORED)
    state.end_search("control_call")
    state.add(AnswerRejected(problem=problem("empty"), became_fallback=True), ANSWER)
    state.add(asked("again", "empty"))
    state.add(asked("plainly", "empty"))
    state.add(AGENT_READ)
    assert state.count_questions("again") == 2
    assert state.count_questions("again", "missing") == 1
    assert state.count_questions("again", "truncated") == 0
    assert state.count_questions("plainly", "empty") == 1
    assert state.count_model_calls() == 4


def test_unexplored_calls_are_unique_and_in_order():
    first, second, third = (call(name) for name in ("find_a", "find_b", "find_c"))
    state = open_state(MISSING)
    for tool_call in (first, second, call("find_a", "other id"), third):
        state.add(CallProposed(tool_call=tool_call))
    assert state.list_unexplored_calls() == [first, second, third]
    state.add(CallExplored(tool_call=call("find_a", "new id"), message_id="m"))
    assert state.list_unexplored_calls() == [second, third]


def test_end_drops_proposals():
    state = open_state(MISSING)
    state.add(CallProposed(tool_call=call("find_a"), reasoning=[{"type": "thinking"}]))
    assert state.find_reasoning(call("find_a", "2")) == [{"type": "thinking"}]
    state.end_search("answered")
    assert state.list_unexplored_calls() == []
    assert state.find_reasoning(call("find_a")) == []


def test_messages_after_the_fallback_answer_are_abandoned():
    state = SearchState()
    state.add(AGENT_WRITE)
    state.add(AnswerRejected(problem=MISSING, became_fallback=True), ANSWER)
    assert state.list_abandoned_message_ids() == []
    state.add(EXPLORED)
    state.add(AGENT_READ)
    assert state.list_abandoned_message_ids() == ["lc_tooltree-1", "read"]
    state.add(PersonDecided(message_id="read", changed_or_refused=False))
    assert state.list_abandoned_message_ids() == ["lc_tooltree-1"]
    state.add(AnswerRejected(problem=MISSING, became_fallback=True), ANSWER)
    assert state.list_abandoned_message_ids() == []


UNUSABLE = ["empty", "invalid_tool_call"]
PARTLY_USABLE = ["tool_call_as_text", "announced_tool_call", "truncated"]
INCOMPLETE = ["missing"]
FINE = ["failed_read", "no_tool_call", "repeated_call", None]
LEVELS = [UNUSABLE, PARTLY_USABLE, INCOMPLETE, FINE]


@pytest.mark.parametrize("new_level", range(4))
@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("has_new_result", [False, True])
def test_better_answer_replaces_the_fallback_answer(level, new_level, has_new_result):
    for kind in LEVELS[level]:
        for new_kind in LEVELS[new_level]:
            if kind is None:
                continue
            state = open_state(problem(kind))
            if has_new_result:
                state.add(EXPLORED)
            expected = new_level > level or (new_level == level and has_new_result)
            new_problem = None if new_kind is None else problem(new_kind)
            assert state.is_better_than_fallback(new_problem) == expected


def test_result_before_the_fallback_answer_is_not_new():
    state = open_state(problem("empty"))
    state.add(EXPLORED)
    state.add(AnswerRejected(problem=MISSING, became_fallback=True), ANSWER)
    assert not state.is_better_than_fallback(MISSING)
    state.add(asked("again"))
    assert not state.is_better_than_fallback(MISSING)
    state.add(AGENT_READ)
    assert state.is_better_than_fallback(MISSING)


def test_missing_information_of_the_fallback_answer():
    assert SearchState().find_missing_information() is None
    assert open_state(problem("empty")).find_missing_information() is None
    state = open_state(MISSING)
    assert state.find_missing_information() == MISSING.explanation


# Continuing a state


def state_with(*events, run_id=1):
    state = open_state(MISSING, run_id=run_id)
    for event in events:
        state.add(event)
    return state


READ_MESSAGE = calls(call("find_order"), message_id="read")


def test_same_run_goes_on():
    state = state_with(AGENT_READ)
    assert continue_state(state.dump(), 1, []) == state


@pytest.mark.parametrize(
    ("message", "tool_result", "changed_or_refused"),
    [
        (READ_MESSAGE, result(), False),
        (READ_MESSAGE, result(error=True), True),
        (calls(call("find_order", order=2), message_id="read"), result(), True),
        (calls(call("find_user"), message_id="read"), result(), True),
        (
            calls(call("find_order"), call("find_order"), message_id="read"),
            result(),
            True,
        ),
    ],
)
@pytest.mark.parametrize("hook_messages", [[], [SystemMessage("hook")]])
def test_resumed_run_goes_on(message, tool_result, changed_or_refused, hook_messages):
    state = state_with(AGENT_READ)
    conversation = [human(), message, tool_result, *hook_messages]
    resumed = continue_state(state.dump(), 2, conversation)
    decision = PersonDecided(message_id="read", changed_or_refused=changed_or_refused)
    assert resumed.run_id == 2
    assert resumed.events == [*state.events, decision]
    assert resumed.fallback_answer == ANSWER
    assert resumed.has_changed_or_refused_call() == changed_or_refused


def test_resumed_exploration_goes_on():
    state = state_with(AGENT_READ, EXPLORED)
    message = calls(call("find_carrier"), message_id="lc_tooltree-1")
    resumed = continue_state(state.dump(), 2, [human(), message, result()])
    assert resumed.events[-1] == PersonDecided(
        message_id="lc_tooltree-1", changed_or_refused=False
    )


@pytest.mark.parametrize(
    "conversation",
    [
        [],
        [human()],
        [human(), READ_MESSAGE],
        [human(), READ_MESSAGE, result("other")],
        [human(), READ_MESSAGE, result(), human("next")],
        [human(), READ_MESSAGE, result(), ANSWER],
        [human(), READ_MESSAGE, result(), calls(call("find_b", "2")), result("2")],
        [human(), calls(call("find_order")), result()],
        [human("x", "read"), result()],
        [AIMessage("x", id="read"), result()],
    ],
)
def test_another_run_is_empty(conversation):
    state = state_with(AGENT_READ)
    assert continue_state(state.dump(), 2, conversation) == SearchState(run_id=2)


def test_another_run_without_recorded_calls_is_empty():
    conversation = [human(), READ_MESSAGE, result()]
    stored = open_state(MISSING).dump()
    assert continue_state(stored, 2, conversation) == SearchState(run_id=2)
    assert continue_state(None, 2, conversation) == SearchState(run_id=2)


def test_only_the_last_recorded_calls_can_be_interrupted():
    state = state_with(AGENT_READ, AGENT_WRITE)
    conversation = [human(), READ_MESSAGE, result()]
    assert continue_state(state.dump(), 2, conversation).events == []


def test_fallback_answer_does_not_take_the_id_of_another_message():
    state = open_state(MISSING)
    continued = continue_state(state.dump(), 1, [human("x", "answer")])
    assert continued.fallback_answer.id is None
    assert continued.fallback_answer.text == ANSWER.text


def test_fallback_answer_is_kept_without_calls_that_providers_would_refuse():
    answer = AIMessage(
        [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "1", "name": "a"}],
        additional_kwargs={"tool_calls": [RAW_CALL], "refusal": None},
        invalid_tool_calls=[{"name": "a", "args": "{", "id": "1", "error": None}],
        id="answer",
    )
    kept = open_state(problem("invalid_tool_call"), answer=answer).fallback_answer
    assert kept == AIMessage(
        [{"type": "text", "text": "x"}],
        additional_kwargs={"refusal": None},
        id="answer",
    )


def test_calls_are_no_reasoning():
    with pytest.raises(ValueError, match="reasoning"):
        CallProposed(tool_call=call("find_a"), reasoning=[{"type": "tool_use"}])
