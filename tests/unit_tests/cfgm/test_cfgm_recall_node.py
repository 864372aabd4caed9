"""CFGMRecallNode: what is recalled, in the state of a graph of the user's own."""

import pytest
from boiler_memory import PAST, SHOWN, memory_of
from boiler_room import either
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from langchain_tooltree import CFGMRecallNode, ConfigurationError, Trajectory
from langchain_tooltree.messages.reference import holds_only_reference

ASKED = {"messages": [HumanMessage("Get the cold boiler in the cellar going, please.")]}


class State(MessagesState):
    recalled: str


def recalled(path, node, given, **options):
    graph = StateGraph(State)
    graph.add_node("recall", node)
    graph.add_edge(START, "recall")
    events = []
    for mode, part in graph.compile().stream(
        given, stream_mode=["values", "custom"], **options
    ):
        events += [part["tooltree"]] if mode == "custom" else []
    return either(path, graph.compile())(given, **options).get("recalled"), events


def test_what_is_known_of_such_tasks_stands_in_the_state_as_reference_material(path):
    text, events = recalled(path, CFGMRecallNode(memory_of(PAST)), ASKED)
    assert SHOWN in text
    assert holds_only_reference(text)
    assert [event["type"] for event in events] == ["recall"], events


def test_where_nothing_is_known_or_asked_the_text_is_empty(path):
    assert recalled(path, CFGMRecallNode(memory_of()), ASKED)[0] == ""
    assert (
        recalled(
            path, CFGMRecallNode(memory_of(PAST)), {"messages": [AIMessage("Hello.")]}
        )[0]
        == ""
    )


def test_an_own_key_is_written_and_the_latest_request_counts():
    node = CFGMRecallNode(memory_of(PAST), recalled_key="known", messages_key="chat")
    said = [
        HumanMessage("Paint the fence blue."),
        AIMessage("Done."),
        *ASKED["messages"],
    ]
    assert SHOWN in node.invoke({"chat": said})["known"]


def test_a_conversation_is_not_recalled_for_itself(path):
    memory = memory_of()
    memory.experience.add(
        Trajectory.from_messages(
            [*ASKED["messages"], AIMessage("Done.")], success=True, id="thread 7"
        )
    )
    own = {"config": {"configurable": {"thread_id": "thread 7"}}}
    assert recalled(path, CFGMRecallNode(memory), ASKED, **own)[0] == ""
    assert "boiler" in recalled(path, CFGMRecallNode(memory), ASKED)[0]


@pytest.mark.parametrize("wrong", [{"memory": None}, {"memory": "mine"}, {"k": 0}])
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ConfigurationError):
        CFGMRecallNode(**{"memory": memory_of(), **wrong})
