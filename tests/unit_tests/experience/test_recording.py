"""What a recorder makes of the starts and ends of nodes: updates count once they were applied, in LangGraph's order."""

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.types import Command

from tests.internals.experience import GraphRun, NodeRun, ThreadDialogue, update_in


def visit(step, place="node", *, number=None):
    path = ("__pregel_pull", place) if number is None else ("__pregel_push", number, False)
    return NodeRun(step, path, f"{place}:{number}")


def said(graph):
    return [message.content for message in graph.dialogue.messages.values()]


def message(content, key=None):
    return AIMessage(content, id=key or content)


REQUEST = HumanMessage("Find it.", id="request")


def test_the_state_tells_better_than_updates_what_was_applied():
    graph = GraphRun(ThreadDialogue())
    graph.node_started(first := visit(1), [REQUEST])
    graph.node_ended(first, [message("shown"), message("replaced at once"), message("raw", "1")])
    graph.node_started(second := visit(2), [REQUEST, message("shown"), message("cooked", "1")])
    graph.node_ended(second, [])
    graph.ended([REQUEST, message("shown")])

    assert said(graph) == ["Find it.", "shown", "cooked"]


def test_updates_that_no_state_shows_count_in_the_order_of_the_paths():
    graph = GraphRun(ThreadDialogue())
    graph.node_started(first := visit(1), [REQUEST])
    graph.node_ended(first, [message("first")])
    sent = [visit(2, number=number) for number in (10, 9, 0)]
    for each in sent:
        graph.node_started(each, None)
    for each in sent:
        graph.node_ended(each, [message(f"sent {each.path[1]}"), AIMessage("without an id")])
    graph.node_started(visit(3, number=0), None)
    graph.apply_before(3)

    assert said(graph) == ["Find it.", "first", "sent 0", "sent 9", "sent 10"]


def test_a_step_in_which_a_node_did_not_end_was_not_applied():
    graph = GraphRun(ThreadDialogue())
    graph.node_started(first := visit(1), [REQUEST])
    graph.node_ended(first, [message("first")])
    graph.node_started(done := visit(2, "done"), None)
    graph.node_started(visit(2, "interrupted"), None)
    graph.node_ended(done, [message("not yet")])
    graph.ended([REQUEST, message("first"), message("not yet")])

    assert said(graph) == ["Find it.", "first"]


def test_a_node_that_is_tried_again_is_done_when_it_ends():
    graph = GraphRun(ThreadDialogue())
    for _ in range(2):
        graph.node_started(visit(1), [REQUEST])
    graph.node_ended(visit(1), [message("first")])
    graph.ended(None)

    assert said(graph) == ["Find it.", "first"]


def test_what_an_earlier_attempt_at_the_graph_did_not_apply_is_forgotten():
    graph = GraphRun(ThreadDialogue())
    graph.node_started(first := visit(1), [REQUEST])
    graph.node_ended(first, [message("once")])
    graph.node_started(second := visit(2, number=0), None)
    graph.node_ended(second, [message("lost")])
    graph.node_started(visit(2, "broken"), None)
    graph.node_started(again := visit(1), [REQUEST])
    graph.node_ended(again, [message("twice")])
    graph.node_started(visit(3, number=0), None)
    graph.apply_before(3)

    assert said(graph) == ["Find it.", "twice"]


def test_a_graph_that_returns_no_messages_has_said_what_its_nodes_did():
    graph = GraphRun(ThreadDialogue())
    graph.node_started(only := visit(1), [REQUEST])
    graph.node_ended(only, [message("done")])
    graph.ended(None)

    assert said(graph) == ["Find it.", "done"]


def test_messages_are_found_in_every_kind_of_update():
    one, two = message("one"), message("two")

    class Update:
        messages = one

    updates = [
        {"messages": [one, RemoveMessage(id="x"), ("ai", "no id"), two]},
        Command(update={"messages": [one, two]}),
        Command(update=[("messages", one), ("other", 1)]),
        [Command(update={"messages": one}), {"messages": two}, None],
        Update(),
    ]
    assert [[each.id for each in update_in(update, "messages")] for update in updates] == [
        ["one", "two"],
        ["one", "two"],
        ["one"],
        ["one", "two"],
        ["one"],
    ]


def test_other_updates_have_no_messages():
    for update in (None, "text", 3, {}, {"messages": None}, Command(goto="x"), Command(graph="__parent__", update={})):
        assert update_in(update, "messages") == []
