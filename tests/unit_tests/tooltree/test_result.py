"""What a search hands back, read as messages, as data and as pictures."""

import json

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from langchain_tooltree import SearchConfig
from tests.internals.tooltree import Call, Observation, PlanStep

READS = {"alpha": "read", "beta": "read"}
CHAIN = {
    "offers": {(): [("alpha", {"n": 1})], ("alpha",): [("beta", {"n": 2})], ("alpha", "beta"): [("send", {"n": 3})]},
    "goal": {"beta": 0.5, "send": 0.6},
}


@pytest.fixture
def run(find, offline, numbered_tools):
    async def search(**tables):
        tools = numbered_tools("alpha", "beta", "send")
        config = SearchConfig(max_rollouts=6)
        return await find("Go.", tools, model=offline(**tables), effects=READS, config=config)

    return search


def step(effect="read", observation=None):
    call = Call(tool="look", arguments={"at": "sky"}, effect=effect)
    return PlanStep(call, "call_1", observation, 0.5, 0.5, None, 1)


def test_a_step_that_ran_is_a_call_and_its_answer():
    request, answer = step(observation=Observation(content="blue", artifact={"rgb": 255})).messages()
    assert request.tool_calls == [{"name": "look", "args": {"at": "sky"}, "id": "call_1", "type": "tool_call"}]
    assert (answer.content, answer.tool_call_id, answer.name, answer.status) == ("blue", "call_1", "look", "success")
    assert answer.artifact == {"rgb": 255}


def test_a_step_that_failed_is_answered_with_an_error():
    _, answer = step(observation=Observation(content="down", kind="timeout")).messages()
    assert answer.status == "error"


def test_a_deferred_step_is_a_call_without_an_answer():
    [request] = step(effect="write").messages()
    assert request.tool_calls[0]["id"] == "call_1"


async def test_reads_are_answered_in_order_and_the_first_write_waits(run):
    result = await run(**CHAIN)
    assert [call.tool for call in result.calls] == ["alpha", "beta", "send"]
    assert result.pending is result.steps[2]
    kinds = [type(message) for message in result.messages]
    assert kinds == [AIMessage, ToolMessage, AIMessage, ToolMessage, AIMessage]
    for request, answer in zip(result.messages[0:4:2], result.messages[1:4:2], strict=True):
        assert [call["id"] for call in request.tool_calls] == [answer.tool_call_id]
    assert result.messages[-1].tool_calls[0]["name"] == "send"
    assert result.answer is None


async def test_without_a_write_the_answer_comes_last(run):
    result = await run(**{**CHAIN, "goal": {"beta": 0.9}})
    assert result.pending is None
    assert [type(message) for message in result.messages] == [AIMessage, ToolMessage] * 2 + [AIMessage]
    assert result.messages[-1] is result.answer


async def test_ids_of_calls_are_unique_in_a_search_and_between_searches(run):
    first, second = await run(**CHAIN), await run(**CHAIN)
    ids = [one.call_id for result in (first, second) for one in result.steps]
    assert len(set(ids)) == len(ids) == 6


async def test_the_data_is_json_and_leaves_out_what_differs_between_equal_searches(run):
    first, second = await run(**CHAIN), await run(**CHAIN)
    data = first.to_dict()
    assert json.loads(json.dumps(data)) == json.loads(json.dumps(second.to_dict()))
    assert [data["nodes"][node]["call"]["tool"] for node in data["best"]] == ["alpha", "beta", "send"]
    assert "seconds" not in data["cost"]
    assert len(data["nodes"]) == data["cost"]["nodes"] + 1


async def test_the_pictures_mark_the_best_path(run):
    result = await run(**CHAIN)
    assert "class n1,n2,n3 best" in result.to_mermaid()
    assert "send(n=3)" in str(result.to_rich().children[0].children[0].children[0].label)


async def test_every_event_is_told_from_start_to_stop(find, offline, numbered_tools):
    told = []
    tools = numbered_tools("alpha", "beta", "send")
    await find("Go.", tools, model=offline(**CHAIN), effects=READS, on_event=told.append)
    kinds = [event["type"] for event in told]
    assert told[0] == {
        "type": "start",
        "query": "Go.",
        "tools": 3,
        "max_rollouts": 100,
        "max_model_calls": 302,
        "max_tool_calls": 100,
        "inherited": 0,
    }
    assert kinds[-1] == "stop"
    assert {"select", "propose", "judge", "execute", "evaluate", "best", "budget"} <= set(kinds)
    assert kinds.count("execute") == 2
