"""Reading the trajectory of a thread from its history."""

from typing import Annotated

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from langchain_tooltree import ConfigurationError, aload_thread, load_thread
from langchain_tooltree.errors import TrajectoryFormatError
from langchain_tooltree.testing import ScriptedChatModel


def added(said, news):
    for messages in news:
        said = add_messages(said, messages)
    return said


THREAD = {"configurable": {"thread_id": "one"}}
REQUEST = {"messages": [HumanMessage("Find it.", id="request")]}


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"Nothing in the {place}."


@tool
def ask(question: str) -> str:
    """Ask a person."""
    return interrupt(question)


def calling(*calls):
    return AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": args, "id": f"{name} {n}"}
            for n, (name, args) in enumerate(calls)
        ],
    )


def agent(*replies, tools=(look, ask), **options):
    return create_agent(ScriptedChatModel(replies=replies), list(tools), **options)


def graph_of(*nodes, state=MessagesState, saver=InMemorySaver):
    """A graph whose nodes run one after the other."""
    graph = StateGraph(state)
    for number, node in enumerate(nodes):
        graph.add_node(str(number), node)
        graph.add_edge(str(number - 1) if number else START, str(number))
    graph.add_edge(str(len(nodes) - 1), END)
    return graph.compile(checkpointer=saver and saver())


@pytest.fixture
def load(either):
    return lambda graph, config=THREAD, **options: either(load_thread, aload_thread)(
        graph, config, **options
    )


async def test_a_thread_is_read_with_its_calls_and_their_outcomes(load):
    graph = agent(
        calling(("look", {"place": "shed"}), ("look", {"place": "desk"})),
        "Gone.",
        checkpointer=InMemorySaver(),
    )
    state = graph.invoke(REQUEST, THREAD)

    trajectory = await load(graph)

    assert (trajectory.id, trajectory.task, trajectory.success, trajectory.turns) == (
        "one",
        "Find it.",
        None,
        2,
    )
    assert [step.result.text for step in trajectory.calls] == [
        "Nothing in the shed.",
        "Nothing in the desk.",
    ]
    assert trajectory.to_messages() == state["messages"]


async def test_what_was_removed_was_said_and_what_was_changed_is_told_in_its_last_form(
    load,
):
    graph = graph_of(
        lambda _: {"messages": [AIMessage("One.", id="1"), AIMessage("Two.", id="2")]},
        lambda _: {
            "messages": [
                RemoveMessage(id="1"),
                AIMessage("Two!", id="2"),
                AIMessage("Three.", id="3"),
            ]
        },
        lambda _: {
            "messages": [
                RemoveMessage(id="__remove_all__"),
                AIMessage("All.", id="4"),
                AIMessage("Three.", id="3"),
            ]
        },
    )
    graph.invoke(REQUEST, THREAD)

    said = [message["content"] for message in (await load(graph)).messages]

    assert said == ["Find it.", "One.", "Two!", "Three.", "All."]


async def test_messages_without_ids_are_told_apart_by_content_and_count(load):
    class State(TypedDict):
        messages: list

    graph = graph_of(
        lambda state: {
            "messages": [*state["messages"], {"role": "assistant", "content": "Hm."}]
        },
        lambda state: {
            "messages": [*state["messages"], ("ai", "Hm."), ("ai", "Done.")]
        },
        state=State,
    )
    graph.invoke({"messages": [("user", "Find it.")]}, THREAD)

    assert [message["content"] for message in (await load(graph)).messages] == [
        "Find it.",
        "Hm.",
        "Hm.",
        "Done.",
    ]


async def test_what_a_sub_agent_shares_with_the_conversation_is_not_repeated(load):
    inner = agent(calling(("look", {"place": "shed"})), "Not there.")
    graph = graph_of(inner, lambda state: {"messages": inner_last(state)})
    state = graph.invoke(REQUEST, THREAD)

    trajectory = await load(graph)

    assert trajectory.branches == ()
    assert trajectory.to_messages() == state["messages"]


def inner_last(state):
    return [AIMessage(f"After {len(state['messages'])} messages.")]


async def test_an_interrupted_call_has_no_outcome_yet(load):
    graph = agent(
        calling(("ask", {"question": "Where?"})),
        "Thanks.",
        checkpointer=InMemorySaver(),
    )
    graph.invoke(REQUEST, THREAD)
    stopped = await load(graph)
    graph.invoke(Command(resume="Here."), THREAD)
    done = await load(graph)

    assert [step.result for step in stopped.calls] == [None]
    assert [step.result.text for step in done.calls] == ["Here."]
    assert stopped.id == done.id


async def test_checkpoints_that_hold_changes_alone_are_added_up(load):
    class State(TypedDict):
        messages: Annotated[list, DeltaChannel(added)]

    graph = graph_of(
        lambda _: {"messages": [AIMessage("One.", id="1")]},
        lambda _: {"messages": [RemoveMessage(id="1"), AIMessage("Two.", id="2")]},
        state=State,
    )
    graph.invoke(REQUEST, THREAD)

    assert [message["content"] for message in (await load(graph)).messages] == [
        "Find it.",
        "One.",
        "Two.",
    ]


async def test_the_thread_may_be_named_by_a_number_or_by_one_of_its_checkpoints(load):
    graph = agent("One.", "Two.", checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": 7}}
    graph.invoke(REQUEST, config)
    first = graph.get_state(config).config
    graph.invoke({"messages": [("user", "Again.")]}, config)

    assert await load(graph, config) == await load(graph, first)
    assert (await load(graph, config)).id == "7"


async def test_without_a_checkpointer_there_is_no_history(load):
    with pytest.raises(ValueError, match="No checkpointer set"):
        await load(agent("One."))


@pytest.mark.parametrize(
    "config", [{}, {"configurable": {}}, {"configurable": {"thread": "one"}}]
)
async def test_a_thread_has_to_be_named(load, config):
    with pytest.raises(ConfigurationError, match="names no thread"):
        await load(agent("One.", checkpointer=InMemorySaver()), config)


async def test_an_unknown_thread_is_an_error(load):
    with pytest.raises(TrajectoryFormatError, match="Thread 'one' has no messages"):
        await load(agent("One.", checkpointer=InMemorySaver()))


async def test_a_state_without_messages_is_an_error_that_tells_what_it_has(load):
    class State(TypedDict):
        talk: list
        topic: str

    graph = graph_of(
        lambda _: {"talk": [AIMessage("One.")], "topic": "it"}, state=State
    )
    graph.invoke({"talk": []}, THREAD)

    with pytest.raises(
        TrajectoryFormatError,
        match=r"no messages under 'messages'; it has talk, topic\. Check messages_key=",
    ):
        await load(graph)
    assert (await load(graph, messages_key="talk")).turns == 1
