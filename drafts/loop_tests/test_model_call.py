import json
import logging

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
    usage,
)
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.errors import GraphBubbleUp

from loop.model_call import handle_model_call
from loop.search_state import (
    AgentCalledTools,
    AnswerRejected,
    CallExplored,
    CallProposed,
    ModelAsked,
    SearchEnded,
    SearchState,
)

READ = call("find_carrier")
WRITE = call("cancel_order", order="A-17")
CONTROL = call("plan_day")
BAD = AIMessage("Bad.", id="bad", usage_metadata=usage(100))
WORSE = AIMessage("", id="worse", usage_metadata=usage(1000))
GOOD = AIMessage("Good.", id="good", usage_metadata=usage(10))
PROBLEMS = {
    "Bad.": problem("missing"),
    "": problem("empty"),
    "Cut": problem("truncated", None, "Your answer was cut off."),
}
USER = [human()]


async def run(adapter, state=None, conversation=USER):
    stored = state.dump() if isinstance(state, SearchState) else state
    outcome = await handle_model_call(stored, conversation, adapter)
    json.dumps(outcome.state, allow_nan=False)
    return outcome


def model(*responses, **options):
    return ScriptedAdapter(*responses, **{"problems": PROBLEMS, **options})


def events_of(outcome):
    return SearchState.load(outcome.state).events


def metadata_of(outcome):
    return outcome.message.response_metadata["tooltree"]


def tokens_of(outcome):
    return outcome.message.usage_metadata["total_tokens"]


# Step 1: the first request


@pytest.mark.parametrize("error", [ValueError("busy"), GraphBubbleUp()])
async def test_failure_of_the_first_request_is_propagated(error):
    with pytest.raises(type(error)) as info:
        await run(model(error))
    assert info.value is error


async def test_conversation_is_sent_as_it_is():
    adapter = model(GOOD)
    conversation = [human(message_id=None), calls(READ), result()]
    await run(adapter, None, conversation)
    [request] = adapter.requests
    assert request == {"messages": conversation, "hidden": False, "report": True}
    assert adapter.checks == [True]


async def test_empty_conversation():
    outcome = await run(model(GOOD), None, [])
    assert outcome.message is GOOD


# Step 2: tool calls


@pytest.mark.parametrize(
    ("tool_calls", "is_recorded"),
    [
        ([READ], False),
        ([CONTROL], False),
        ([READ, CONTROL], False),
        ([WRITE], True),
        ([READ, WRITE, CONTROL], True),
    ],
)
@pytest.mark.parametrize("room", [True, False])
async def test_tool_calls_without_a_search(tool_calls, is_recorded, room):
    response = calls(*tool_calls, message_id="m")
    outcome = await run(model(response, room=room))
    assert outcome.message is response
    recorded = AgentCalledTools(tool_calls=tool_calls, message_id="m")
    assert events_of(outcome) == ([recorded] if is_recorded else [])


async def test_recorded_response_gets_an_id():
    response = calls(WRITE)
    outcome = await run(model(response))
    assert events_of(outcome)[0].message_id == outcome.message.id
    assert outcome.message.tool_calls == [WRITE]
    assert response.id is None


async def test_read_in_a_search_is_recorded():
    response = calls(READ, message_id="m")
    outcome = await run(model(response), open_state(problem("missing")))
    assert outcome.message is response
    assert events_of(outcome)[-1] == AgentCalledTools(tool_calls=[READ], message_id="m")
    assert outcome.state["fallback_answer"]["content"] == ANSWER.content


@pytest.mark.parametrize(
    ("tool_calls", "reason"),
    [
        ([CONTROL], "control_call"),
        ([READ, CONTROL], "control_call"),
        ([WRITE], "write_was_missing"),
        ([CONTROL, WRITE], "write_was_missing"),
    ],
)
async def test_search_ends_without_an_answer(tool_calls, reason):
    state = SearchState(run_id=1)
    state.add(
        AnswerRejected(
            problem=problem("missing"), became_fallback=True, usage=usage(100)
        ),
        ANSWER,
    )
    state.add(CallExplored(tool_call=READ, message_id="lc_tooltree-1"))
    response = AIMessage("", tool_calls=tool_calls, id="m", usage_metadata=usage(10))
    explored = calls(READ, message_id="lc_tooltree-1")
    conversation = [human(), explored, result(message_id="r")]
    outcome = await run(model(response), state, conversation)
    assert outcome.message.tool_calls == tool_calls
    assert outcome.message.id == "m"
    assert tokens_of(outcome) == 110
    assert outcome.removed_ids == []
    assert outcome.state["fallback_answer"] is None
    assert SearchEnded(reason=reason) in events_of(outcome)
    is_recorded = AgentCalledTools in map(type, events_of(outcome))
    assert is_recorded == (WRITE in tool_calls)


async def test_search_without_tokens_returns_the_same_object():
    response = calls(CONTROL, message_id="m")
    outcome = await run(model(response), open_state(problem("missing")))
    assert outcome.message is response


@pytest.mark.parametrize("tool_call", [READ, WRITE, CONTROL])
async def test_search_ends_with_the_fallback_answer_without_room(tool_call):
    adapter = model(calls(tool_call), room=False)
    outcome = await run(adapter, open_state(problem("missing")))
    assert outcome.message.text == ANSWER.text
    assert metadata_of(outcome)["stop_reason"] == "no_room"


async def test_write_without_a_reason_is_not_made():
    response = AIMessage("", tool_calls=[call("cancel_trip")], usage_metadata=usage(10))
    outcome = await run(model(response), open_state(problem("missing")))
    assert outcome.message.text == ANSWER.text
    assert outcome.message.tool_calls == []
    assert metadata_of(outcome)["stop_reason"] == "write_without_reason"
    assert metadata_of(outcome)["missing"] == "the carrier of order A-17"
    assert tokens_of(outcome) == 10


async def test_write_that_was_made_is_not_made_again():
    first = await run(model(calls(WRITE, message_id="m")))
    conversation = [human(), first.message, result(message_id="r")]
    adapter = model(BAD, calls(WRITE), problems={"Bad.": problem("empty")})
    outcome = await run(adapter, first.state, conversation)
    assert metadata_of(outcome)["stop_reason"] == "write_without_reason"
    assert outcome.removed_ids == []


# Step 3: answers without a problem


async def test_good_answer_is_returned_as_the_same_object():
    outcome = await run(model(GOOD))
    assert outcome.message is GOOD
    assert events_of(outcome) == []
    assert outcome.removed_ids == []


async def test_good_answer_ends_the_search():
    outcome = await run(model(BAD, GOOD))
    assert outcome.message.text == "Good."
    assert outcome.message.id == "good"
    assert metadata_of(outcome) == {
        "stop_reason": "answered",
        "model_calls": 1,
        "explored": [],
        "missing": None,
    }
    assert tokens_of(outcome) == 110
    assert GOOD.response_metadata == {}


async def test_second_answer_is_not_better_without_a_new_result():
    problems = {"Bad.": problem("no_tool_call")}
    outcome = await run(model(BAD, GOOD, problems=problems))
    assert outcome.message.text == "Bad."
    assert metadata_of(outcome)["stop_reason"] == "answered"
    assert tokens_of(outcome) == 110


# Step 4: answers with a problem


async def test_accepted_answer_is_returned_as_the_same_object():
    outcome = await run(model(BAD, budget=0))
    assert outcome.message is BAD
    assert events_of(outcome) == []


async def test_plain_request_repeats_the_first_without_report():
    adapter = model(WORSE, GOOD)
    outcome = await run(adapter)
    first, second = adapter.requests
    assert second == {"messages": first["messages"], "hidden": False, "report": False}
    assert adapter.checks == [True, False]
    assert outcome.message.text == "Good."
    assert tokens_of(outcome) == 1010


async def test_question_contains_the_answer_and_a_note():
    content = [{"type": "thinking", "thinking": "?"}, {"type": "text", "text": "Cut"}]
    adapter = model(AIMessage(content, id="a"), GOOD)
    await run(adapter)
    messages = adapter.requests[1]["messages"]
    assert messages == [
        *USER,
        AIMessage("Cut"),
        HumanMessage("Your answer was cut off."),
    ]
    assert adapter.requests[1]["report"] is True


async def test_question_about_an_answer_without_text():
    adapter = model(AIMessage(" \n"), GOOD, problems={" \n": problem("truncated")})
    await run(adapter)
    assert adapter.requests[1]["messages"] == [
        *USER,
        HumanMessage("the carrier of order A-17"),
    ]


async def test_question_about_what_is_missing_names_it():
    adapter = model(BAD, GOOD)
    await run(adapter)
    assert "the carrier of order A-17" in adapter.requests[1]["messages"][-1].text


async def test_response_to_a_question_may_call_tools():
    outcome = await run(model(BAD, calls(READ, message_id="m")))
    assert outcome.message.id == "m"
    assert outcome.state["fallback_answer"]["content"] == "Bad."


async def test_exploration():
    thinking = {"type": "thinking", "thinking": "?", "signature": "s"}
    other_call = {"type": "tool_use", "id": "9", "name": "find_user", "input": {}}
    answer = AIMessage(
        [thinking, {"type": "text", "text": "Bad."}, other_call],
        usage_metadata=usage(100),
    )
    adapter = model(answer, problems={"Bad.": problem("missing", READ)})
    outcome = await run(adapter)
    message = outcome.message
    assert message.content == [thinking]
    assert message.usage_metadata is None
    assert message.id.startswith("lc_tooltree-")
    [tool_call] = message.tool_calls
    assert (tool_call["name"], tool_call["args"]) == (READ["name"], READ["args"])
    assert tool_call["id"] != READ["id"]
    assert len(tool_call["id"]) <= 40
    assert adapter.events == ["answer_rejected", "call_proposed", "call_explored"]

    result_message = result(tool_call["id"], "r")
    conversation = [*USER, message, result_message]
    end = await run(model(GOOD), outcome.state, conversation)
    assert end.message.text == "Good."
    assert metadata_of(end)["explored"] == ["find_carrier({})"]
    assert metadata_of(end)["model_calls"] == 1
    assert end.removed_ids == []
    assert tokens_of(end) == 110


async def test_message_without_reasoning_has_no_content():
    outcome = await run(model(BAD, problems={"Bad.": problem("missing", READ)}))
    assert outcome.message.content == ""


def state_after_exploration(*, asked=0):
    state = SearchState(run_id=1)
    rejected = AnswerRejected(
        problem=problem("missing"), became_fallback=True, usage=usage(100)
    )
    state.add(rejected, BAD)
    for _ in range(asked):
        state.add(ModelAsked(purpose="again", problem_kind="missing"))
    state.add(CallExplored(tool_call=READ, message_id="lc_tooltree-1"))
    state.add(AgentCalledTools(tool_calls=[READ], message_id="read"))
    return state


EXPLORATION = [
    calls(call("find_carrier", "e"), message_id="lc_tooltree-1"),
    result("e", "r1"),
    AIMessage(
        "", tool_calls=[call("find_carrier")], id="read", usage_metadata=usage(7)
    ),
    result(message_id="r2"),
]


async def test_worse_answer_after_exploration_removes_it():
    adapter = model(WORSE, budget=1)
    conversation = [*USER, *EXPLORATION]
    outcome = await run(adapter, state_after_exploration(), conversation)
    assert outcome.message.text == "Bad."
    assert outcome.removed_ids == ["lc_tooltree-1", "r1", "read", "r2"]
    assert metadata_of(outcome)["stop_reason"] == "budget_spent"
    assert tokens_of(outcome) == 100 + 1000 + 7


async def test_answer_with_a_new_result_keeps_the_exploration():
    answer = AIMessage("Bad.", id="new", usage_metadata=usage(1))
    conversation = [*USER, *EXPLORATION]
    outcome = await run(
        model(answer, budget=1), state_after_exploration(), conversation
    )
    assert outcome.message.id == "new"
    assert outcome.removed_ids == []
    assert tokens_of(outcome) == 101


@pytest.mark.parametrize("position", range(4))
async def test_messages_without_ids_stay(position):
    messages = [message.model_copy() for message in EXPLORATION]
    messages[position].id = None
    outcome = await run(
        model(WORSE, budget=1), state_after_exploration(), [*USER, *messages]
    )
    expected = ["read", "r2"] if position < 2 else ["lc_tooltree-1", "r1"]
    assert outcome.removed_ids == expected


async def test_no_remedy_is_left():
    adapter = model(WORSE, room=False)
    state = open_state(problem("missing"))
    state.add(ModelAsked(purpose="plainly", problem_kind="empty"))
    state.add(ModelAsked(purpose="again", problem_kind="empty"))
    outcome = await run(adapter, state)
    assert metadata_of(outcome)["stop_reason"] == "nothing_left_to_try"


# Alternatives


def state_before_alternatives():
    state = open_state(problem("missing"))
    state.add(ModelAsked(purpose="again", problem_kind="missing"))
    state.add(ModelAsked(purpose="again", problem_kind="missing"))
    return state


async def test_alternatives():
    proposals = [WRITE, call("find_a"), call("find_b"), CONTROL, call("find_c")]
    response = AIMessage(
        [{"type": "thinking", "thinking": "?"}],
        tool_calls=[*proposals, call("find_d")],
        usage_metadata=usage(5),
    )
    adapter = model(BAD, response)
    adapter.unexplorable = ["find_a"]
    outcome = await run(adapter, state_before_alternatives())
    assert adapter.requests[1]["hidden"] is True
    assert adapter.requests[1]["report"] is False
    assert [c["name"] for c in outcome.message.tool_calls] == ["find_b"]
    assert outcome.message.content == [{"type": "thinking", "thinking": "?"}]
    proposed = [e for e in events_of(outcome) if isinstance(e, CallProposed)]
    assert [event.tool_call for event in proposed] == proposals
    asked = ModelAsked(purpose="alternatives", problem_kind="missing", usage=usage(5))
    assert asked in events_of(outcome)


@pytest.mark.parametrize("response", [GOOD, calls(WRITE, CONTROL)])
async def test_search_ends_without_alternatives(response):
    adapter = model(BAD, response)
    outcome = await run(adapter, state_before_alternatives())
    assert outcome.message.text == ANSWER.text
    assert metadata_of(outcome)["stop_reason"] == "nothing_left_to_try"
    assert metadata_of(outcome)["model_calls"] == 3
    assert tokens_of(outcome) == (110 if response is GOOD else 100)


async def test_failed_request_for_alternatives_counts():
    adapter = model(BAD, ValueError("busy"))
    outcome = await run(adapter, state_before_alternatives())
    assert outcome.message.text == ANSWER.text
    assert metadata_of(outcome)["stop_reason"] == "failed"
    assert metadata_of(outcome)["model_calls"] == 3


# Unanswered exploratory messages


@pytest.mark.parametrize("state", [None, state_after_exploration()])
async def test_unanswered_exploratory_message_is_removed(state):
    adapter = model(GOOD)
    unanswered = EXPLORATION[0]
    outcome = await run(adapter, state, [*USER, unanswered, human("next", "n")])
    assert adapter.requests[0]["messages"] == [*USER, human("next", "n")]
    assert outcome.removed_ids == ["lc_tooltree-1"]


async def test_answered_and_foreign_messages_stay():
    adapter = model(GOOD)
    conversation = [*USER, *EXPLORATION[:2], calls(READ, message_id="m")]
    outcome = await run(adapter, None, conversation)
    assert adapter.requests[0]["messages"] == conversation
    assert outcome.removed_ids == []


# The guard


async def test_failure_in_a_search_returns_the_fallback_answer(caplog):
    adapter = model(BAD, ValueError("busy \ud800"))
    with caplog.at_level(logging.WARNING):
        outcome = await run(adapter)
    assert outcome.message.text == "Bad."
    assert metadata_of(outcome)["stop_reason"] == "failed"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert adapter.events.count("search_failed") == 1
    assert outcome.state["fallback_answer"] is None


async def test_failure_of_the_first_request_in_a_search():
    conversation = [*USER, *EXPLORATION]
    outcome = await run(
        model(ValueError("busy")), state_after_exploration(), conversation
    )
    assert outcome.message.text == "Bad."
    assert metadata_of(outcome)["stop_reason"] == "failed"
    assert outcome.removed_ids == ["lc_tooltree-1", "r1", "read", "r2"]
    assert tokens_of(outcome) == 107


async def test_failure_without_a_search_returns_the_response(caplog):
    adapter = model(GOOD, problems={"Good.": ValueError("bug")})
    with caplog.at_level(logging.WARNING):
        outcome = await run(adapter)
    assert outcome.message is GOOD
    assert len(caplog.records) == 1
    assert adapter.events == ["search_failed"]


async def test_failed_check_in_a_search_counts_the_tokens_of_the_response():
    adapter = model(BAD, GOOD, problems=PROBLEMS | {"Good.": ValueError("bug")})
    outcome = await run(adapter)
    assert outcome.message.text == "Bad."
    assert tokens_of(outcome) == 110


async def test_response_that_cannot_be_recorded_is_returned():
    response = calls(call("cancel_order", order=object()))
    outcome = await run(model(response))
    assert outcome.message is response


async def test_answer_that_cannot_be_stored_is_returned():
    answer = AIMessage("Bad.", response_metadata={"raw": object()})
    outcome = await run(model(answer))
    assert outcome.message is answer
    assert outcome.state["fallback_answer"] is None


@pytest.mark.parametrize("state", [None, open_state(problem("missing"))])
async def test_bubble_up_is_propagated_everywhere(state):
    for adapter in (
        model(GraphBubbleUp()),
        model(BAD, GraphBubbleUp()),
        model(GOOD, problems={"Good.": GraphBubbleUp()}),
    ):
        with pytest.raises(GraphBubbleUp):
            await run(adapter, state)


async def test_failed_end_returns_the_fallback_answer_without_metadata(caplog):
    removed = EXPLORATION[2].model_copy(update={"usage_metadata": {"total": "?"}})
    conversation = [*USER, EXPLORATION[0], EXPLORATION[1], removed, EXPLORATION[3]]
    unanswered = calls(READ, message_id="lc_tooltree-2")
    conversation.insert(1, unanswered)
    adapter = model(WORSE, budget=1)
    outcome = await run(adapter, state_after_exploration(), conversation)
    assert outcome.message == BAD
    assert outcome.removed_ids == ["lc_tooltree-2"]
    assert outcome.state["fallback_answer"] is None
    assert events_of(outcome)[-1] == SearchEnded(reason="failed")


async def test_failing_application_disturbs_nothing():
    adapter = model(BAD, GOOD)
    adapter.emit_error = ValueError("full")
    outcome = await run(adapter)
    assert outcome.message.text == "Good."
    assert adapter.events == ["answer_rejected", "model_asked", "search_ended"]


# Budget and stored data


async def test_budget_is_shared_by_the_searches_of_a_run():
    problems = {"Bad.": problem("missing", READ)}
    state = SearchState(run_id=1)
    for number in range(3):
        state.add(CallExplored(tool_call=call(f"find_{number}"), message_id="m"))
    outcome = await run(model(BAD, problems=problems), state)
    assert outcome.message.tool_calls
    again = await run(model(BAD, problems=problems), outcome.state)
    assert metadata_of(again)["stop_reason"] == "budget_spent"
    later = await run(model(BAD, problems=problems), again.state)
    assert later.message is BAD


@pytest.mark.parametrize(
    "stored", [None, "x", {"run_id": 1, "events": [{"type": "call_explored"}]}]
)
async def test_invalid_data_is_ignored(stored):
    outcome = await run(model(GOOD), stored)
    assert outcome.message is GOOD
    assert outcome.state == SearchState(run_id=1).dump()


async def test_forged_answer_with_tool_calls_is_never_returned():
    stored = open_state(problem("missing")).dump()
    stored["fallback_answer"]["tool_calls"] = [WRITE]
    outcome = await run(model(BAD, budget=0), stored)
    assert outcome.message is BAD


async def test_forged_tokens_do_not_hide_the_fallback_answer():
    state = state_after_exploration()
    stored = state.dump()
    stored["events"][0]["usage"]["input_token_details"] = {"x": "many"}
    outcome = await run(model(WORSE, budget=1), stored)
    assert outcome.message.text == "Bad."
