"""The review in stock agents and graphs: which calls wait, and what a person's decision makes of them."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command
from pydantic import BaseModel

from langchain_tooltree import (
    ConfigurationError,
    PlanReviewMiddleware,
    PlanReviewNode,
    review_condition,
)
from langchain_tooltree.testing import ScriptedChatModel

EFFECTS = {
    "look": "read",
    "fetch": lambda arguments: "read" if arguments["method"] == "GET" else "write",
}

THREAD: Any = {"configurable": {"thread_id": "1"}}

APPROVE = {"type": "approve"}
REJECT = {"type": "reject", "message": "too dear"}


def edit(name: str = "send", **arguments: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": arguments}}


def call(name: str, key: str, **arguments: Any) -> Any:
    return {"name": name, "args": arguments, "id": key, "type": "tool_call"}


def asks(*calls: Any) -> AIMessage:
    return AIMessage("", tool_calls=[*calls])


def deciding(*decisions: Any) -> Command[Any]:
    """An answer as every interface for LangChain's approval sends it."""
    return Command(resume={"decisions": [*decisions]})


ANN, BOB, SKY = (
    call("send", "1", to="Ann"),
    call("send", "2", to="Bob"),
    call("look", "3", at="sky"),
)


@pytest.fixture
def ran():
    """Which calls were carried out."""
    return Counter()


@pytest.fixture
def tools(ran):
    """A read, a tool that does both, and a write."""

    @tool
    def look(at: str) -> str:
        """Look somewhere."""
        ran[f"look {at}"] += 1
        return f"{at} is blue"

    @tool
    def fetch(method: str) -> str:
        """Ask a server."""
        ran[f"fetch {method}"] += 1
        return "200"

    @tool
    def send(to: str) -> str:
        """Send a letter."""
        ran[f"send {to}"] += 1
        return f"sent to {to}"

    return [look, fetch, send]


def an_agent(tools, replies, checkpointer, *, review=None, **options):
    review = review or PlanReviewMiddleware(EFFECTS)
    model = ScriptedChatModel(replies=replies)
    return create_agent(
        model, tools, middleware=[review], checkpointer=checkpointer, **options
    )


def a_graph(tools, replies, checkpointer):
    model = ScriptedChatModel(replies=replies).bind_tools(tools)
    graph = StateGraph(MessagesState)
    graph.add_node(
        "model", lambda state: {"messages": [model.invoke(state["messages"])]}
    )
    graph.add_node("review", PlanReviewNode(EFFECTS))
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_edge("model", "review")
    graph.add_conditional_edges("review", review_condition, ["tools", "model", END])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer)


@pytest.fixture(params=[an_agent, a_graph])
def make(request):
    """Makes an agent with a review, as middleware or as a node."""
    return request.param


@pytest.fixture(params=["sync", "async"])
def go(request):
    """Runs an agent on one of the two paths."""

    async def run(agent: Any, given: Any) -> Any:
        given = {"messages": [HumanMessage(given)]} if isinstance(given, str) else given
        if request.param == "sync":
            return agent.invoke(given, THREAD, version="v2")
        return await agent.ainvoke(given, THREAD, version="v2")

    return run


def waiting(output: Any) -> list[dict[str, Any]]:
    return [
        request["args"]
        for each in output.interrupts
        for request in each.value["action_requests"]
    ]


def results(output: Any) -> dict[str, str]:
    return {
        each.tool_call_id: each.text
        for each in output.value["messages"]
        if isinstance(each, ToolMessage)
    }


async def test_a_turn_that_only_reads_asks_nothing_and_needs_no_checkpointer(
    make, go, tools, ran
):
    agent = make(
        tools, [asks(SKY, call("fetch", "4", method="GET")), "It is blue."], None
    )

    output = await go(agent, "Look around.")

    assert output.value["messages"][-1].text == "It is blue."
    assert ran == {"look sky": 1, "fetch GET": 1}


async def test_all_other_calls_wait_in_one_question_of_the_stock_form(
    make, go, tools, ran
):
    calls = [ANN, SKY, call("fetch", "4", method="POST"), call("unknown", "5")]
    agent = make(tools, [asks(*calls)], InMemorySaver())

    output = await go(agent, "Write to Ann.")

    [question] = output.interrupts
    assert question.value.keys() == {"action_requests", "review_configs"}
    requests = question.value["action_requests"]
    assert [(each["name"], each["args"]) for each in requests] == [
        ("send", {"to": "Ann"}),
        ("fetch", {"method": "POST"}),
        ("unknown", {}),
    ]
    assert requests[0]["description"].splitlines()[:2] == [
        "send(to='Ann') waits for approval.",
        "The user asked: 'Write to Ann.'",
    ]
    assert question.value["review_configs"] == [
        {
            "action_name": each["name"],
            "allowed_decisions": ["approve", "edit", "reject"],
        }
        for each in requests
    ]
    assert not ran


@pytest.mark.parametrize(
    ("decisions", "letters"),
    [
        ([APPROVE, edit(to="Eve")], {"send Ann": 1, "send Eve": 1}),
        ([edit("look", at="sea"), APPROVE], {"look sea": 1, "send Bob": 1}),
        ([REJECT, APPROVE], {"send Bob": 1}),
        ([REJECT, REJECT], {}),
    ],
)
async def test_each_call_of_a_message_runs_as_decided(
    make, go, tools, ran, decisions, letters
):
    agent = make(tools, [asks(ANN, BOB, SKY), "Done."], InMemorySaver())
    await go(agent, "Write to both.")

    output = await go(agent, deciding(*decisions))

    assert not output.interrupts
    assert ran == {**letters, "look sky": 1}
    texts = results(output)
    assert texts.keys() == {"1", "2", "3"}
    for key, decision in zip("12", decisions, strict=True):
        assert ("rejected" in texts[key] and "too dear" in texts[key]) == (
            decision is REJECT
        )
    assert output.value["messages"][-1].text == "Done."


async def test_an_edit_of_the_node_takes_the_place_of_the_models_call(go, tools):
    agent = a_graph(tools, [asks(ANN), "Done."], InMemorySaver())
    await go(agent, "Write.")
    output = await go(agent, deciding(edit(to="Eve")))
    assert output.value["messages"][1].tool_calls == [call("send", "1", to="Eve")]


@pytest.mark.parametrize(
    "answer",
    [
        {"decisions": []},
        {"decisions": [APPROVE, APPROVE]},
        {"decisions": [{"type": "respond"}]},
    ],
)
async def test_an_answer_that_langchain_refuses_runs_nothing_and_the_question_can_be_asked_again(
    make, go, tools, ran, answer
):
    agent = make(tools, [asks(ANN), "Done."], InMemorySaver())
    await go(agent, "Write.")
    with pytest.raises(ValueError, match="human decision"):
        await go(agent, Command(resume=answer))
    assert not ran
    agent.update_state(THREAD, {}, as_node="model")
    assert waiting(await go(agent, None)) == [{"to": "Ann"}]
    await go(agent, deciding(APPROVE))
    assert ran == {"send Ann": 1}


async def test_without_effects_every_call_waits(go, tools):
    agent = an_agent(tools, [asks(SKY)], InMemorySaver(), review=PlanReviewMiddleware())
    assert waiting(await go(agent, "Look.")) == [{"at": "sky"}]


class Verdict(BaseModel):
    """The verdict."""

    text: str


async def test_a_call_that_the_agent_answers_itself_does_not_wait(go, tools, ran):
    calls = [call("Verdict", "9", text="fine"), ANN]
    agent = an_agent(
        tools, [asks(*calls)], InMemorySaver(), response_format=ToolStrategy(Verdict)
    )

    assert waiting(await go(agent, "Write.")) == [{"to": "Ann"}]
    output = await go(agent, deciding(REJECT))

    assert not ran
    assert output.value["structured_response"] == Verdict(text="fine")


async def test_a_call_that_waits_without_a_checkpointer_is_refused(
    make, go, tools, ran
):
    with pytest.raises(
        ConfigurationError,
        match=r"'send' waits until .* needs a checkpointer\. Pass one",
    ):
        await go(make(tools, [asks(ANN)], None), "Write.")
    assert not ran


async def test_the_checkpointer_of_a_graph_around_serves_too(make, go, tools):
    around = StateGraph(MessagesState)
    around.add_node("agent", make(tools, [asks(ANN)], None))
    around.add_edge(START, "agent")
    assert waiting(
        await go(around.compile(checkpointer=InMemorySaver()), "Write.")
    ) == [{"to": "Ann"}]


@dataclass
class ChatState:
    """A state as a dataclass, with the conversation under another key."""

    chat: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)


async def test_the_state_may_be_an_object_with_the_conversation_under_another_key(
    go, tools, ran
):
    graph = StateGraph(ChatState)
    graph.add_node("review", PlanReviewNode(EFFECTS, messages_key="chat"))
    graph.add_node("tools", ToolNode(tools, messages_key="chat"))
    graph.add_edge(START, "review")
    graph.add_conditional_edges(
        "review",
        lambda state: review_condition(state, messages_key="chat"),
        ["tools", END],
    )
    agent = graph.compile(checkpointer=InMemorySaver())

    assert waiting(
        await go(agent, {"chat": [HumanMessage("Go."), asks(ANN, BOB)]})
    ) == [{"to": "Ann"}, {"to": "Bob"}]
    await go(agent, deciding(REJECT, edit(to="Eve")))

    assert ran == {"send Eve": 1}


def test_a_review_goes_where_the_conversation_does():
    rejection = ToolMessage("no", tool_call_id="1")

    assert review_condition({"messages": [asks(ANN)]}) == "tools"
    assert review_condition({"messages": [asks(ANN), rejection]}) == "model"
    [going_on] = review_condition({"messages": [asks(ANN, BOB), rejection]})
    assert (going_on.node, going_on.arg) == ("tools", [BOB])
    assert review_condition({"messages": [AIMessage("Done.")]}) == END
    assert review_condition({"messages": [asks(ANN), HumanMessage("Wait.")]}) == END


def test_bad_options_are_refused():
    with pytest.raises(
        ConfigurationError, match=r"effects must be a mapping .* got \['book'\]"
    ):
        PlanReviewMiddleware(["book"])
    with pytest.raises(
        ConfigurationError,
        match=r"effects\['book'\] must be 'read' or 'write', got 'raed'",
    ):
        PlanReviewNode({"book": "raed"})
    for decisions in ([], "approve", ["approve", "edits"]):
        with pytest.raises(
            ConfigurationError,
            match="allowed_decisions must be some of approve, edit, reject",
        ):
            PlanReviewMiddleware(allowed_decisions=decisions)


async def test_every_turn_is_asked_about_anew(make, go, tools, ran):
    agent = make(tools, [asks(ANN), "Sent.", asks(BOB), "Sent."], InMemorySaver())
    await go(agent, "Write to Ann.")
    await go(agent, deciding(edit(to="Eve")))

    assert waiting(await go(agent, "And to Bob.")) == [{"to": "Bob"}]
    await go(agent, deciding(APPROVE))

    assert ran == {"send Eve": 1, "send Bob": 1}


async def test_a_person_may_answer_in_place_of_a_tool_where_that_is_allowed(
    go, tools, ran
):
    review = PlanReviewMiddleware(EFFECTS, allowed_decisions=["respond"])
    agent = an_agent(tools, [asks(ANN), "Done."], InMemorySaver(), review=review)
    await go(agent, "Write.")
    output = await go(agent, deciding({"type": "respond", "message": "I called her."}))
    assert results(output) == {"1": "I called her."}
    assert not ran
