"""Reflection on an anomaly: what the model is asked, and what is made of its reply."""

import json

import pytest
from boiler_room import (
    ANOMALY,
    KEY_INFORMATION,
    NO_VALVE,
    REPLY,
    TASK,
    TIP,
    TOOLS,
    failed,
    gauged,
    in_trouble,
)
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.store.memory import InMemoryStore
from teacher import attempt

from langchain_tooltree import (
    CFGMMemory,
    ConfigurationError,
    ExperienceStore,
    Reflector,
)
from langchain_tooltree.anomaly.rules import Anomaly
from langchain_tooltree.cfgm.online import (
    REFLECTION_PROMPT,
    Reflection,
    with_correction,
)
from langchain_tooltree.cfgm.recall import Recollection
from langchain_tooltree.experience.run_identity import tools_in
from langchain_tooltree.messages.reference import mark_as_reference
from langchain_tooltree.models import REPLY_ATTEMPTS, Meter
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import told_as_data

REFLECTION = Reflection(**REPLY)


@pytest.fixture
def reflect(drive):
    """Reflects on the conversation with a model that gives these replies: the reflection, the prompts, the meter."""

    async def run(
        *replies, messages=None, anomaly=ANOMALY, tips=(), tools=(), **options
    ):
        model = ScriptedChatModel(replies=list(replies))
        meter = Meter(allowance=REPLY_ATTEMPTS)
        flow = Reflector(model, **options).reflect_flow(
            in_trouble() if messages is None else messages,
            anomaly,
            tips=tips,
            tools=tools,
            meter=meter,
        )
        return await drive(flow), model.calls, meter

    return run


def document(prompt):
    return json.loads(prompt[1].text)


# --- what is asked ---


async def test_one_call_brings_key_information_answers_and_the_next_step(reflect):
    reflection, prompts, meter = await reflect(REPLY)

    assert reflection == REFLECTION
    assert meter.model_calls == len(prompts) == 1
    assert meter.problems == []


async def test_the_question_tells_what_happened_and_what_is_off(reflect):
    tools = tools_in(TOOLS).values()

    _, (prompt,), _ = await reflect(REPLY, tips=[TIP], tools=tools)

    assert prompt[0].text == told_as_data(REFLECTION_PROMPT)
    asked = document(prompt)
    assert list(asked) == ["task", "anomaly", "step", "record", "tools", "tips"]
    assert asked["task"] == TASK
    assert asked["anomaly"] == ANOMALY.to_dict()
    assert asked["step"] == {
        "tool": "turn_valve",
        "arguments": '{"valve":"main"}',
        "observation": NO_VALVE,
    }
    assert asked["record"][0] == {"user": TASK}
    assert asked["record"][-1] == {
        "call": "turn_valve",
        "arguments": {"valve": "main"},
        "failed": True,
        "result": NO_VALVE,
    }
    assert asked["tools"] == [
        {"name": "turn_valve", "description": "Turn a valve.", "arguments": ["valve"]},
        {"name": "read_gauge", "description": "Read a gauge.", "arguments": ["gauge"]},
    ]
    assert asked["tips"] == [{"text": TIP.advice, "reasoning": TIP.reasoning}]


async def test_among_parallel_calls_the_anomalous_one_is_pointed_out(reflect):
    calls = [
        {"name": "turn_valve", "args": {"valve": name}, "id": name}
        for name in ("main", "red")
    ]
    results = [
        ToolMessage(f"result of {name}", tool_call_id=name, name="turn_valve")
        for name in ("main", "red")
    ]
    messages = [HumanMessage(TASK), AIMessage("", tool_calls=calls), *results]
    steps = []
    for call_id in ("main", "red", None, "unknown"):
        anomaly = Anomaly(
            "phrase", "", 1.0, recoverable=True, tool="turn_valve", call_id=call_id
        )
        _, (prompt,), _ = await reflect(REPLY, messages=messages, anomaly=anomaly)
        steps.append(document(prompt)["step"]["observation"])

    assert steps == [
        "result of main",
        "result of red",
        "result of red",
        "result of red",
    ]


async def test_what_memory_has_put_into_the_conversation_is_left_out(reflect):
    recalled = HumanMessage(mark_as_reference("Turn the green valve.", source="memory"))
    messages = [recalled, *in_trouble()]

    _, (prompt,), _ = await reflect(REPLY, messages=messages)

    assert "green" not in prompt[1].text


async def test_advice_that_was_not_enough_is_told(reflect):
    messages = in_trouble()
    messages[-1] = with_correction(
        messages[-1],
        ANOMALY,
        Reflection(
            **REPLY | {"next_step": "Turn <the> & main valve\nNext step: harder."}
        ),
    )

    _, (prompt,), _ = await reflect(REPLY, messages=[*messages, *failed(2)])

    assert document(prompt)["earlier_advice"] == [
        "Turn <the> & main valve\nNext step: harder."
    ]
    assert "harder" not in json.dumps(document(prompt)["record"])


async def test_advice_for_an_earlier_request_is_not(reflect):
    messages = in_trouble()
    messages[-1] = with_correction(messages[-1], ANOMALY, REFLECTION)

    _, (prompt,), _ = await reflect(
        REPLY, messages=[*messages, HumanMessage("Go on."), *failed(2)]
    )

    assert "earlier_advice" not in document(prompt)
    assert document(prompt)["task"] == "Go on."


async def test_with_recall_key_information_comes_first_and_what_is_recalled_by_it_goes_with_the_questions(
    reflect,
):
    queries = []

    async def recall(query):
        queries.append(query)
        return Recollection(query, (attempt("Heat the hut."),), (TIP,))

    answers = {key: value for key, value in REPLY.items() if key != "key_information"}
    reflection, (first, second), meter = await reflect(
        KEY_INFORMATION, answers, recall=recall
    )

    assert reflection == REFLECTION
    assert meter.model_calls == 2
    assert queries == ["\n".join(KEY_INFORMATION.values())]
    assert "tips" not in document(first)
    assert document(second)["key_information"] == KEY_INFORMATION
    assert "tips" not in document(second)  # as in the paper
    assert document(second)["examples"] == ["Run: Heat the hut.\nact(action): ok"]


async def test_with_recall_there_are_two_model_calls_at_the_most(reflect):
    memory = CFGMMemory(None, ExperienceStore(InMemoryStore()))
    reflection, prompts, _ = await reflect("Hm.", KEY_INFORMATION, recall=memory.recall)
    assert (reflection, len(prompts)) == (None, 2)


# --- what is made of the reply ---


async def test_a_reply_without_a_next_step_is_asked_for_again(reflect):
    reflection, prompts, meter = await reflect(
        {"key_information": KEY_INFORMATION}, REPLY
    )

    assert reflection == REFLECTION
    assert len(prompts) == 2
    assert "not of the form" in meter.problems[0]


@pytest.mark.parametrize(
    "replies",
    [
        ("", ""),
        ("Wait.", "Wait."),
        ({}, {}),
        ({"next_step": None}, {**REPLY, "next_step": "  "}),
        ({"key_information": KEY_INFORMATION}, {"next_step": "Wait."}),
        (ValueError("down"), ValueError("down")),
    ],
)
async def test_nothing_usable_is_no_reflection(reflect, replies):
    reflection, _, meter = await reflect(*replies)

    assert reflection is None
    assert len(meter.problems) == 2


@pytest.mark.slow
async def test_every_text_has_its_bounds(reflect):
    flood = "x" * 100_000
    reply = {
        "key_information": dict.fromkeys(KEY_INFORMATION, flood),
        "questions": [{"question": flood, "answer": flood}] * 100,
        "next_step": flood,
    }

    reflection, _, _ = await reflect(reply)

    assert len(json.dumps(reflection.model_dump())) < 12_000


async def test_both_halves_of_the_public_face():
    replies = [REPLY] * 2
    reflector = Reflector(ScriptedChatModel(replies=replies))

    assert reflector.reflect(in_trouble(), ANOMALY, tips=[TIP]) == REFLECTION
    assert await reflector.areflect(in_trouble(), ANOMALY) == REFLECTION


@pytest.mark.parametrize(
    ("options", "message"), [({"model": 3}, "model must be a chat model")]
)
def test_what_cannot_work_is_refused_at_once(options, message):
    with pytest.raises(ConfigurationError, match=message):
        Reflector(**{"model": ScriptedChatModel(replies=[]), **options})


# --- what is long ---


def many_tools(count):
    return [
        {
            "name": f"tool_{number}",
            "description": "Does things. " * 100,
            "parameters": {"properties": {"x": {}}},
        }
        for number in range(count)
    ]


async def test_of_many_tools_the_ones_that_matter_are_described(reflect):
    others = many_tools(300)
    boiler = {"name": "look_up", "description": "Says how to fill a boiler."}

    _, (prompt,), _ = await reflect(
        REPLY, tools=[*others, boiler, *tools_in(TOOLS).values()]
    )

    asked = document(prompt)
    described = [tool["name"] for tool in asked["tools"]]
    assert len(described) == 20
    assert {"turn_valve", "read_gauge", "look_up"} <= set(described)
    assert set(asked["other_tools"]) == {tool["name"] for tool in others} - set(
        described
    )
    assert len(prompt[1].text) < 20_000


@pytest.mark.slow
async def test_of_a_long_run_only_the_ends_are_shown(reflect):
    between = [message for number in range(3_000) for message in gauged(number)]
    messages = [HumanMessage(TASK), *between, HumanMessage("Go on."), *failed()]

    _, (prompt,), _ = await reflect(REPLY, messages=messages)
    whole = messages[:301] + messages[-751:]
    _, (shorter,), _ = await reflect(REPLY, messages=whole)

    record, same = document(prompt)["record"], document(shorter)["record"]
    assert record[0] == {"user": TASK}
    assert record[-1]["result"] == NO_VALVE
    (gap,) = (entry for entry in record if "left_out" in entry)
    assert int(gap["left_out"].split()[2]) > 5_000
    assert [entry for entry in record if entry != gap] == [
        entry for entry in same if "left_out" not in entry
    ]
