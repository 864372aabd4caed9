"""CFGMReflectionNode: corrections inside a graph of the user's own."""

import json
import operator
from typing import Annotated, Any, TypedDict

import pytest
from boiler_room import (
    ANSWER,
    ASKED,
    MISTAKE,
    NEXT_STEP,
    NO_VALVE,
    REPLY,
    TASK,
    TOOLS,
    advised,
    call,
    either,
    gauged,
    in_trouble,
    mistakes,
    reflector,
    results,
    room_graph,
    told,
)
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    AnomalyDetector,
    CFGMMemory,
    CFGMReflectionNode,
    ConfigurationError,
    Trajectory,
)
from langchain_tooltree.testing import ScriptedChatModel


def test_an_anomalous_observation_comes_to_the_model_with_a_correction(path):
    reflecting = reflector()
    graph, model = room_graph(
        MISTAKE, ANSWER, node=CFGMReflectionNode(reflecting, patience=0)
    )

    messages = either(path, graph)(ASKED)["messages"]

    (result,) = results(messages)
    assert result.text.startswith(f"{NO_VALVE}\n\n<reference_material")
    assert NEXT_STEP in result.text
    assert (result.status, result.tool_call_id) == ("error", "turn_valve 1")
    assert model.calls[1][-1] == result, "the model has seen it"
    assert len(messages) == 4
    assert len(reflecting.calls) == 1


@pytest.mark.parametrize(
    "state",
    [
        {"messages": []},
        {"messages": [HumanMessage(TASK)]},
        {"messages": [HumanMessage(TASK), AIMessage("No.")]},
        {"messages": [*in_trouble(), AIMessage("I give up.")]},
        {},
        [],
    ],
    ids=[
        "nothing",
        "a request",
        "an answer",
        "an answer after trouble",
        "no messages",
        "an empty list",
    ],
)
def test_a_conversation_that_does_not_end_in_observations_is_left_alone(path, state):
    model = reflector()

    assert either(path, CFGMReflectionNode(model, patience=0))(state) == {}
    assert model.calls == []


def test_it_takes_states_of_any_shape(path):
    class Held:
        said = in_trouble()

    as_tuples = [("user", TASK), *in_trouble()[1:]]
    given = [{"said": in_trouble()}, {"said": as_tuples}, Held(), in_trouble()]

    for state in given:
        update = either(
            path, CFGMReflectionNode(reflector(), patience=0, messages_key="said")
        )(state)
        (message,) = update["said"]
        assert message.id == "v1"
        assert NEXT_STEP in message.text


def test_who_calls_it_outside_of_a_graph_needs_no_ids(path):
    unnamed = [message.model_copy(update={"id": None}) for message in in_trouble()]

    (message,) = either(path, CFGMReflectionNode(reflector(), patience=0))(
        {"messages": unnamed}
    )["messages"]

    assert message.text.startswith(f"{NO_VALVE}\n\n<reference_material")


def test_observations_without_ids_cannot_be_replaced_so_nobody_is_asked_about_them(
    path, caplog
):
    class Growing(TypedDict):
        messages: Annotated[list[AnyMessage], operator.add]

    graph = StateGraph(Growing)
    model = reflector()
    graph.add_node("reflect", CFGMReflectionNode(model, patience=0))
    graph.add_edge(START, "reflect")
    unnamed = [message.model_copy(update={"id": None}) for message in in_trouble()]

    assert either(path, graph.compile())({"messages": unnamed})["messages"] == unnamed

    assert model.calls == []
    assert "use add_messages" in caplog.text


def test_trouble_that_goes_on_is_reflected_upon_again_after_a_pause(path):
    model = reflector()
    graph, _ = room_graph(
        *mistakes(8),
        ANSWER,
        node=CFGMReflectionNode(model, patience=0, cooldown=3, max_reflections=2),
    )

    messages = either(path, graph)(ASKED, {"recursion_limit": 50})["messages"]

    assert advised(messages) == [True, False, False, True, False, False, False, False]
    assert len(model.calls) == 2
    assert "earlier_advice" not in model.calls[0][1].text
    assert "earlier_advice" in model.calls[1][1].text


def test_nobody_is_asked_twice_about_the_same_observation(path):
    model = reflector()
    node = either(path, CFGMReflectionNode(model, patience=0, cooldown=1))
    messages = in_trouble()

    (messages[-1],) = node({"messages": messages})["messages"]

    assert node({"messages": messages}) == {}
    assert len(model.calls) == 1


def test_parallel_calls_are_one_round_and_the_anomalous_result_is_corrected(path):
    calls = [
        {"name": "read_gauge", "args": {"gauge": "water"}, "id": "a"},
        {"name": "turn_valve", "args": {"valve": "main"}, "id": "b"},
        {"name": "read_gauge", "args": {"gauge": "gas"}, "id": "c"},
    ]
    graph, _ = room_graph(
        AIMessage("", tool_calls=calls),
        ANSWER,
        node=CFGMReflectionNode(reflector(), patience=0),
    )

    messages = either(path, graph)(ASKED)["messages"]

    assert [message.tool_call_id for message in results(messages)] == ["a", "b", "c"]
    assert advised(messages) == [False, True, False]


@pytest.mark.parametrize(
    "replies", [("", ""), (ConnectionError("down"), ConnectionError("down"))]
)
def test_a_model_that_fails_costs_the_correction_and_not_the_run(path, replies, caplog):
    model = reflector(*replies)
    graph, _ = room_graph(
        *mistakes(3), ANSWER, node=CFGMReflectionNode(model, patience=0)
    )

    messages = either(path, graph)(ASKED)["messages"]

    assert messages[-1].text == ANSWER
    assert advised(messages) == [False, False, False]
    assert len(model.calls) == 2, "it is not asked again at once"
    assert "There is no reflection on the result of turn_valve" in caplog.text


def test_a_detector_that_fails_costs_the_help_and_not_the_run(path, caplog):
    def broken(*_):
        msg = "no idea"
        raise LookupError(msg)

    detector = AnomalyDetector(classifier=broken)
    graph, _ = room_graph(
        call("read_gauge", gauge="water"),
        ANSWER,
        node=CFGMReflectionNode(reflector(), patience=0, detector=detector),
    )

    assert either(path, graph)(ASKED)["messages"][-1].text == ANSWER
    assert "no idea" in caplog.text


def test_what_is_noticed_and_found_out_is_told(path):
    graph, _ = room_graph(
        MISTAKE, ANSWER, node=CFGMReflectionNode(reflector(), patience=0)
    )

    noticed, reflected = told(path, graph)

    assert (noticed["type"], noticed["anomaly"]["kind"]) == ("anomaly", "error")
    assert reflected["type"] == "reflect"
    assert reflected["call_id"] == "turn_valve 1"
    assert reflected["reflection"]["next_step"] == NEXT_STEP
    assert reflected["problem"] == ""


def test_anomalies_are_told_where_they_are_not_reflected_upon(path):
    graph, _ = room_graph(
        *mistakes(3), ANSWER, node=CFGMReflectionNode(reflector(), patience=0)
    )

    kinds = [event["type"] for event in told(path, graph)]

    assert kinds == ["anomaly", "reflect", "anomaly", "anomaly"]


def test_what_the_agent_cannot_help_is_told_and_not_reflected_upon(path):
    denied = ToolMessage(
        "Error 401: invalid API key",
        tool_call_id="turn_valve 1",
        name="turn_valve",
        status="error",
    )
    messages = [*in_trouble()[:-1], denied]
    model = reflector()

    anomaly = AnomalyDetector().check(messages)
    assert anomaly is not None
    assert not anomaly.recoverable
    assert (
        either(path, CFGMReflectionNode(model, patience=0))({"messages": messages})
        == {}
    )
    assert model.calls == []


def test_memory_has_tips_for_the_reflection(path):
    memory = CFGMMemory(ScriptedChatModel(replies=[]), InMemoryStore())
    past = Trajectory.from_messages(
        [HumanMessage(TASK), AIMessage("Done.")], success=True, id="past"
    )
    memory.experience.add(past)
    model = reflector()
    graph, _ = room_graph(
        MISTAKE, ANSWER, node=CFGMReflectionNode(model, memory, patience=0)
    )

    recalled = [event for event in told(path, graph) if event["type"] == "recall"]

    assert [event["runs"] for event in recalled] == [[TASK]]


def test_of_two_calls_of_a_tool_the_one_in_trouble_is_corrected(path):
    calls = [
        {"name": "turn_valve", "args": {"valve": valve}, "id": valve}
        for valve in ("main", "red")
    ]
    graph, _ = room_graph(
        AIMessage("", tool_calls=calls),
        ANSWER,
        node=CFGMReflectionNode(reflector(), patience=0),
    )

    assert advised(either(path, graph)(ASKED)["messages"]) == [True, False]


def test_tools_may_be_names(path):
    model = reflector()
    names = [each.name for each in TOOLS]
    node = either(path, CFGMReflectionNode(model, patience=0, tools=names))

    assert node({"messages": [HumanMessage(TASK), *gauged()]}) == {}
    assert node({"messages": in_trouble()})["messages"]
    document = json.loads(model.calls[0][1].text)
    assert document["anomaly"]["kind"] == "error"
    assert [each["name"] for each in document["tools"]] == names


def test_the_tools_are_described_to_the_model(path):
    model = reflector()

    either(path, CFGMReflectionNode(model, patience=0, tools=TOOLS))(in_trouble())

    assert '"description":"Turn a valve."' in model.calls[0][1].text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": 3}, "model must be a chat model"),
        ({"memory": {}}, "memory must be a CFGMMemory, got dict"),
        ({"detector": "errors"}, "detector must be an AnomalyDetector, got str"),
        ({"cooldown": 0}, "cooldown must be a whole number of 1 or more, got 0"),
        (
            {"max_reflections": 0},
            "max_reflections must be a whole number of 1 or more, got 0",
        ),
        ({"tools": [{}]}, "A tool is a name"),
        ({"k": 0}, "k must be a whole number of 1 or more, got 0"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options: dict[str, Any], message):
    with pytest.raises(ConfigurationError, match=message):
        CFGMReflectionNode(**{"model": reflector(REPLY), **options})
