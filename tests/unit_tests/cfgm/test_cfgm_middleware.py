"""CFGMMiddleware: what an agent is reminded of, how it is helped out, and what is kept of its runs."""

import json
from types import SimpleNamespace

import pytest
from boiler_memory import (
    LEARNT,
    PAST,
    SHOWN,
    SYSTEM,
    THREAD,
    helped,
    kept,
    memory_of,
    past_run,
    systems,
)
from boiler_room import (
    ANSWER,
    ASKED,
    MISTAKE,
    NEXT_STEP,
    NO_VALVE,
    REPLY,
    TASK,
    TIP,
    TOOLS,
    advised,
    call,
    either,
    mistakes,
    reflector,
    results,
    room_agent,
    told,
)
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel

from langchain_tooltree import (
    CFGMMemory,
    CFGMMiddleware,
    ConfigurationError,
    ExperienceStore,
)
from langchain_tooltree.experience.run_identity import collecting
from langchain_tooltree.messages.reference import mark_as_reference
from langchain_tooltree.testing import ScriptedChatModel

# --- recall ---


def test_what_is_recalled_stands_at_the_end_of_every_system_prompt_and_never_in_the_thread(
    path,
):
    saver = InMemorySaver()
    memory = memory_of(PAST)
    agent, model = helped(
        call("read_gauge", gauge="water"),
        ANSWER,
        memory=memory,
        system_prompt=SYSTEM,
        checkpointer=saver,
    )

    state = either(path, agent)(ASKED, THREAD)

    first, second = systems(model)
    assert first == second
    assert first.startswith(f"{SYSTEM}\n\n")
    assert "<reference_material" in first
    assert SHOWN in first
    assert set(state) == {"messages"}
    assert [message.text for message in state["messages"]] == [
        TASK,
        "",
        "water: 1.2 bar",
        ANSWER,
    ]


def test_recall_happens_once_for_a_request_and_anew_for_the_next(path):
    memory = memory_of(PAST, "Paint the fence.")
    agent, model = helped(
        call("read_gauge", gauge="water"), ANSWER, "Painted.", memory=memory, checkpointer=InMemorySaver(),
        options={"k": 1},
    )  # fmt: skip

    first = told(path, agent, ASKED, THREAD)
    second = told(
        path, agent, {"messages": [("user", "Paint the fence, please.")]}, THREAD
    )

    assert [
        (event["type"], event["task"], event["runs"]) for event in (*first, *second)
    ] == [
        ("recall", TASK, [PAST]),
        ("recall", f"{TASK} Paint the fence, please.", ["Paint the fence."]),
    ]
    assert SHOWN in systems(model)[1]
    assert SHOWN not in systems(model)[2]


def test_what_is_kept_of_it_in_the_state_is_plain_private_data(path):
    saver = InMemorySaver()
    agent, _ = helped(ANSWER, memory=memory_of(PAST), checkpointer=saver)

    state = either(path, agent)(ASKED, THREAD)

    (held,) = {
        json.dumps(each.checkpoint["channel_values"]["cfgm_recalled"])
        for each in saver.list(THREAD)
        if "cfgm_recalled" in each.checkpoint["channel_values"]
    }
    assert json.loads(held)["request"] == state["messages"][0].id
    assert "cfgm_recalled" not in agent.get_output_jsonschema()["properties"]
    assert "cfgm_recalled" not in agent.get_input_jsonschema()["properties"]


def test_the_task_is_what_the_user_says_without_reference_material(path):
    asked = HumanMessage(f"{TASK}\n\n{mark_as_reference(LEARNT, source='memory')}")
    agent, _ = helped(ANSWER, memory=memory_of(PAST))

    (event,) = told(path, agent, {"messages": [asked]})

    assert event["task"] == TASK


def test_a_conversation_is_not_reminded_of_itself(path):
    memory = memory_of(
        PAST, "Paint the house and the boiler, and do not forget the gate this time."
    )
    agent, _ = helped(
        ANSWER,
        ANSWER,
        memory=memory,
        options={"verdict": lambda _: True},
        checkpointer=InMemorySaver(),
    )

    told(path, agent, ASKED, THREAD)
    (event,) = told(path, agent, ASKED, THREAD)

    assert "boiler 1" in {run.id for run in kept(memory)}
    assert len(event["runs"]) == 2
    assert TASK not in event["runs"]


def test_memory_that_knows_nothing_leaves_the_prompt_as_it_is(path):
    agent, model = helped(ANSWER, memory=memory_of(), system_prompt=SYSTEM)

    (event,) = told(path, agent)

    assert event == {"type": "recall", "task": TASK, "runs": [], "tips": []}
    assert systems(model) == [SYSTEM]


class BrokenStore(InMemoryStore):
    """Is down."""

    def batch(self, ops):
        msg = "the store is down"
        raise ConnectionError(msg)

    async def abatch(self, ops):
        return self.batch(ops)


def test_memory_that_fails_costs_the_help_and_not_the_run(path, caplog):
    agent, model = helped(
        MISTAKE, ANSWER, memory=memory_of(store=BrokenStore()), system_prompt=SYSTEM
    )

    messages = either(path, agent)(ASKED)["messages"]

    assert messages[-1].text == ANSWER
    assert advised(messages) == [True]
    assert systems(model) == [SYSTEM, SYSTEM]
    assert (
        "without a memory of past runs: ConnectionError: the store is down"
        in caplog.text
    )
    assert "A run was not recorded: the store is down" in caplog.text


# --- reflection ---


def test_an_anomalous_result_comes_to_the_model_with_a_correction(path):
    model = reflector()
    agent, asked = helped(
        MISTAKE, call("turn_valve", 2, valve="red"), ANSWER, model=model
    )

    messages = either(path, agent)(ASKED)["messages"]

    first, second = results(messages)
    assert first.text.startswith(f"{NO_VALVE}\n\n<reference_material")
    assert NEXT_STEP in first.text
    assert asked.calls[1][-1] == first
    assert second.text == "the red valve is open"
    assert len(model.calls) == 1
    assert systems(asked) == [None] * 3


def test_the_reflector_knows_the_tools_and_the_tips(path):
    model = reflector()
    agent, asked = helped(
        MISTAKE, ANSWER, model=model, memory=memory_of(PAST, tips=[TIP])
    )

    events = told(path, agent)

    document = json.loads(model.calls[0][1].text)
    assert [tool["name"] for tool in document["tools"]] == ["turn_valve", "read_gauge"]
    assert document["tips"] == [{"text": TIP.advice, "reasoning": TIP.reasoning}]
    assert events[0]["tips"] == [TIP.advice]
    assert TIP.text in systems(asked)[0]


def test_a_tool_that_does_not_exist_is_noticed_as_such(path):
    agent, _ = helped(call("open_hatch"), ANSWER)

    noticed, reflected = told(path, agent)

    assert noticed["anomaly"]["kind"] == "unknown_tool"
    assert reflected["reflection"]["next_step"] == NEXT_STEP


@tool
def bleed(radiator: str) -> str:
    """Let the air out of a radiator."""
    return f"{radiator} hisses: 3 bar"


class Radiators(AgentMiddleware):
    """Has a tool that the agent was not made with."""

    def wrap_model_call(self, request, handler):
        return handler(request.override(tools=[*request.tools, bleed]))

    async def awrap_model_call(self, request, handler):
        return await handler(request.override(tools=[*request.tools, bleed]))

    def wrap_tool_call(self, request, handler):
        return handler(
            request.override(tool=bleed)
            if request.tool_call["name"] == "bleed"
            else request
        )

    async def awrap_tool_call(self, request, handler):
        return await handler(
            request.override(tool=bleed)
            if request.tool_call["name"] == "bleed"
            else request
        )


@pytest.mark.parametrize("inside", [True, False])
def test_tools_that_others_add_are_there(path, *, inside):
    cfgm = CFGMMiddleware(reflector())
    middleware = [cfgm, Radiators()] if inside else [Radiators(), cfgm]
    made = (
        call("bleed", 1, radiator="a"),
        call("read_gauge", 2, gauge="gas"),
        call("bleed", 3, radiator="b"),
    )
    agent, _ = room_agent(*made, ANSWER, middleware=middleware)

    messages = either(path, agent)(ASKED)["messages"]

    assert [message.text for message in results(messages)] == [
        "a hisses: 3 bar",
        "gas: 1.2 bar",
        "b hisses: 3 bar",
    ]


def test_the_reflector_hears_of_all_tools_that_the_run_has_been_offered(path):
    class ByTurns(AgentMiddleware):
        """Offers one tool at a time."""

        def wrap_model_call(self, request, handler):
            return handler(request.override(tools=[TOOLS[len(request.messages) > 1]]))

        async def awrap_model_call(self, request, handler):
            return await handler(
                request.override(tools=[TOOLS[len(request.messages) > 1]])
            )

    model = reflector()
    agent, _ = helped(
        call("read_gauge", gauge="gas"),
        MISTAKE,
        ANSWER,
        model=model,
        before=[ByTurns()],
    )

    either(path, agent)(ASKED)

    assert [each["name"] for each in json.loads(model.calls[0][1].text)["tools"]] == [
        "turn_valve",
        "read_gauge",
    ]


class Pressure(BaseModel):
    """What the gauge says."""

    bar: float


def test_an_answer_in_a_set_form_is_no_unknown_tool(path):
    wrong, right = call("Pressure", 1, bar="much"), call("Pressure", 2, bar=2)
    agent, _ = helped(wrong, right, response_format=ToolStrategy(Pressure))

    assert either(path, agent)(ASKED)["structured_response"] == Pressure(bar=2)
    again, _ = helped(wrong, right, response_format=ToolStrategy(Pressure))
    assert [
        event["anomaly"]["kind"]
        for event in told(path, again)
        if event["type"] == "anomaly"
    ] == ["error"]


def test_a_model_call_that_is_repeated_asks_for_no_second_reflection(path):
    model = reflector()
    agent, _ = helped(
        MISTAKE,
        ConnectionError("down"),
        ANSWER,
        model=model,
        checkpointer=InMemorySaver(),
    )

    with pytest.raises(ConnectionError):
        either(path, agent)(ASKED, THREAD)
    messages = either(path, agent)(None, THREAD)["messages"]

    assert messages[-1].text == ANSWER
    assert advised(messages) == [True]
    assert len(model.calls) == 1


def test_an_interrupted_run_goes_on_with_its_pauses(path):
    model = reflector()
    approval = HumanInTheLoopMiddleware(interrupt_on={"turn_valve": True})
    agent, _ = helped(
        *mistakes(4),
        ANSWER,
        model=model,
        before=[approval],
        checkpointer=InMemorySaver(),
    )
    invoke = either(path, agent)

    state = invoke(ASKED, THREAD)
    while state.get("__interrupt__"):
        state = invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)

    assert advised(state["messages"]) == [True, False, False, True]
    assert len(model.calls) == 2


def test_a_person_who_rejects_a_call_is_no_trouble(path):
    model = reflector()
    approval = HumanInTheLoopMiddleware(interrupt_on={"turn_valve": True})
    agent, _ = helped(
        MISTAKE, ANSWER, model=model, before=[approval], checkpointer=InMemorySaver()
    )

    either(path, agent)(ASKED, THREAD)
    either(path, agent)(
        Command(resume={"decisions": [{"type": "reject", "message": "No."}]}), THREAD
    )

    assert model.calls == []


# --- conversations that go on ---


def test_a_short_reply_is_recalled_for_with_the_request_that_it_belongs_to(path):
    memory = memory_of(PAST, "Say please.")
    agent, model = helped(
        "Now?", ANSWER, memory=memory, checkpointer=InMemorySaver(), options={"k": 1}
    )
    asked = {"messages": [("user", PAST)]}

    either(path, agent)(asked, THREAD)
    (event,) = told(path, agent, {"messages": [("user", "Yes, please.")]}, THREAD)

    assert event["task"] == PAST
    assert event["runs"] == [PAST]
    assert SHOWN in systems(model)[1]


def test_the_record_of_a_conversation_says_what_was_recalled_in_any_of_its_turns(path):
    memory = memory_of(PAST, "Paint the fence.")
    options = {"k": 1, "verdict": lambda _: True}
    agent, _ = helped(
        ANSWER, "Painted.", memory=memory, checkpointer=InMemorySaver(), options=options
    )

    either(path, agent)(ASKED, THREAD)
    either(path, agent)({"messages": [("user", "Paint the fence, please.")]}, THREAD)

    recalled = memory.experience.get(THREAD["configurable"]["thread_id"]).metadata[
        "recalled"
    ]
    assert recalled == {"runs": [f"past {PAST}", "past Paint the fence."], "tips": []}


def test_a_picture_alone_leaves_what_was_recalled(path):
    agent, model = helped(
        "Now?", ANSWER, memory=memory_of(PAST), checkpointer=InMemorySaver()
    )
    picture = HumanMessage(
        [{"type": "image", "base64": "abc", "mime_type": "image/png"}]
    )

    either(path, agent)(ASKED, THREAD)
    assert told(path, agent, {"messages": [picture]}, THREAD) == []

    assert SHOWN in systems(model)[1]


def test_a_namespace_that_is_not_known_is_no_outage(path):
    experience = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user_id}"))
    agent, _ = helped(
        ANSWER, memory=CFGMMemory(ScriptedChatModel(replies=[]), experience)
    )

    with pytest.raises(ConfigurationError, match="The namespace needs 'user_id'"):
        either(path, agent)(ASKED)


# --- switches ---


def test_a_model_that_nobody_asks_is_not_made():
    CFGMMiddleware("nobody:has-this", memory_of(), reflect=False)


def test_a_collection_has_the_runs_to_itself(path):
    memory = memory_of(PAST)
    agent, model = helped(MISTAKE, ANSWER, memory=memory)

    events = told(path, agent, ASKED, {"configurable": collecting()})

    assert [event["type"] for event in events] == ["anomaly", "reflect"]
    assert systems(model) == [None, None]
    assert kept(memory) == []


def test_without_memory_it_reflects_and_does_nothing_else(path):
    agent, model = helped(MISTAKE, ANSWER, system_prompt=SYSTEM)

    assert [event["type"] for event in told(path, agent)] == ["anomaly", "reflect"]
    assert systems(model) == [SYSTEM, SYSTEM]


@pytest.mark.parametrize("off", ["recall", "reflect", "record"])
def test_each_part_can_be_switched_off(path, off):
    memory = memory_of(PAST)
    agent, model = helped(MISTAKE, ANSWER, memory=memory, options={off: False})

    events = {event["type"] for event in told(path, agent)}

    assert events == {"recall": {"anomaly", "reflect"}, "reflect": {"recall"}}.get(
        off, {"recall", "anomaly", "reflect"}
    )
    assert (systems(model)[0] is None) is (off == "recall")
    assert (len(kept(memory)) == 0) is (off == "record")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": 3}, "model must be a chat model"),
        ({"memory": InMemoryStore()}, "memory must be a CFGMMemory, got InMemoryStore"),
        ({"detector": len}, "detector must be an AnomalyDetector"),
        ({"verdict": 3}, "verdict must be a function"),
        ({"k": True}, "k must be a whole number of 1 or more, got True"),
        ({"cooldown": 0.5}, "cooldown must be a whole number of 1 or more, got 0.5"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options, message):
    with pytest.raises(ConfigurationError, match=message):
        CFGMMiddleware(**{"model": reflector(REPLY), **options})


def test_what_was_recalled_for_one_user_is_not_shown_to_another(path):
    experience = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user_id}"))
    experience.within(user_id="ada").add(past_run(PAST))
    memory = CFGMMemory(ScriptedChatModel(replies=[]), experience)
    agent, model = helped("Now?", ANSWER, memory=memory, checkpointer=InMemorySaver())
    picture = HumanMessage(
        [{"type": "image", "base64": "abc", "mime_type": "image/png"}]
    )

    either(path, agent)(ASKED, {"configurable": {"thread_id": "1", "user_id": "ada"}})
    either(path, agent)(
        {"messages": [picture]}, {"configurable": {"thread_id": "1", "user_id": "bob"}}
    )

    assert SHOWN in systems(model)[0]
    assert systems(model)[1] is None


def test_a_client_cannot_say_that_its_run_is_a_collections(path):
    memory = memory_of(PAST)
    agent, _ = helped(ANSWER, memory=memory)

    told(path, agent, ASKED, {"configurable": dict.fromkeys(collecting(), True)})

    assert len(kept(memory)) == 1


class RateLimitError(Exception):
    """Come back in twenty seconds."""

    response = SimpleNamespace(status_code=429, headers={"retry-after": "20"})


def test_nobody_waits_long_for_a_reflection(path, caplog):
    model = reflector(*[RateLimitError("slow down") for _ in range(9)])
    agent, _ = helped(MISTAKE, ANSWER, model=model)

    messages = either(path, agent)(ASKED)["messages"]

    assert messages[-1].text == ANSWER
    assert (
        "There is no reflection on the result of turn_valve: RateLimitError"
        in caplog.text
    )
    assert len(model.calls) == 1


def test_pause_and_budget_hold_for_a_run(path):
    model = reflector()
    options = {"cooldown": 2, "max_reflections": 2}
    agent, _ = helped(*mistakes(7), ANSWER, model=model, options=options)

    messages = either(path, agent)(ASKED, {"recursion_limit": 60})["messages"]

    assert advised(messages) == [True, False, True, False, False, False, False]
