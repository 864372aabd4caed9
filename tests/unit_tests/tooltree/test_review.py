"""The review by itself: which calls wait, and what decisions make of messages in every provider's form."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, interrupt
from pydantic import BaseModel

from langchain_tooltree import (
    ConfigurationError,
    PlanReviewMiddleware,
    PlanReviewNode,
    create_tooltree_agent,
    review_condition,
)
from langchain_tooltree.errors import ReviewError
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.tooltree import HostHooks, deciding

EFFECTS = {"look": "read", "send": "write"}

THREAD: Any = {"configurable": {"thread_id": "1"}}

APPROVE = {"type": "approve"}
REJECT = {"type": "reject"}


def edit(**arguments: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": "send", "args": arguments}}


def call(name: str, key: str, **arguments: Any) -> Any:
    return {"name": name, "args": arguments, "id": key, "type": "tool_call"}


@pytest.fixture
def ran():
    """Which calls were carried out, by the tools of `tools`."""
    return Counter()


@pytest.fixture
def tools(ran):
    """A read, and two writes of which only one is declared."""

    @tool
    def look(at: str) -> str:
        """Look somewhere."""
        ran[f"look {at}"] += 1
        return f"{at} is blue"

    @tool
    def send(to: str) -> str:
        """Send a letter."""
        ran[f"send {to}"] += 1
        return f"sent to {to}"

    @tool
    def burn(what: str) -> str:
        """Burn something."""
        ran[f"burn {what}"] += 1
        return f"{what} is gone"

    return [look, send, burn]


@pytest.fixture
def review(tools):
    """Reviews one message of a model: `review(message)` gives what is asked, `review(message, decisions)` the end."""

    def run(message: AIMessage, *answers: Any, messages: Any = ()):
        graph = StateGraph(MessagesState)
        reviewer = PlanReviewNode(EFFECTS)
        graph.add_node("review", reviewer)
        graph.add_node("tools", reviewer.guard(ToolNode(tools)))
        graph.add_edge(START, "review")
        graph.add_conditional_edges("review", review_condition, {"tools": "tools", "model": END, END: END})
        agent = graph.compile(checkpointer=InMemorySaver())
        output = agent.invoke({"messages": [HumanMessage("Go."), message, *messages]}, THREAD, version="v2")
        for decisions in answers:
            output = agent.invoke(deciding(output.interrupts, *decisions), THREAD, version="v2")
        return output

    return run


def waiting(output: Any) -> list[str]:
    return [action["name"] for interrupt in output.interrupts for action in interrupt.value["action_requests"]]


def summary(output: Any) -> list[Any]:
    """The ids of each message's calls, and the id that each result answers."""
    return [
        message.tool_call_id if isinstance(message, ToolMessage) else [each["id"] for each in message.tool_calls]
        for message in output.value["messages"][1:]
    ]


def test_reads_run_unasked(review, ran):
    output = review(AIMessage("", tool_calls=[call("look", "1", at="sky")]))

    assert not output.interrupts
    assert ran == {"look sky": 1}


def test_an_undeclared_tool_waits_as_a_declared_write_does(review, ran):
    calls = [call("burn", "1", what="letter"), call("look", "2", at="sky"), call("send", "3", to="Ann")]

    output = review(AIMessage("", tool_calls=calls))

    assert waiting(output) == ["burn", "send"]
    assert not ran


def test_without_effects_every_call_waits():
    assert PlanReviewMiddleware().reviews("look")
    assert not PlanReviewMiddleware(EFFECTS).reviews("look")
    assert PlanReviewMiddleware(EFFECTS).reviews("send")
    assert PlanReviewMiddleware(EFFECTS).reviews("unknown")


@pytest.mark.parametrize("last", [HumanMessage("Hello?"), AIMessage("Done.")], ids=["person", "answer"])
def test_a_conversation_without_waiting_calls_ends(review, last):
    assert not review(last).interrupts


@pytest.mark.parametrize("ids", [("same", "same"), (None, "2"), ("", "2")])
def test_calls_that_cannot_be_told_apart_are_refused(review, ran, ids):
    calls = [call("send", ids[0], to="Ann"), call("send", ids[1], to="Bob")]

    with pytest.raises(ReviewError, match=r"A call of 'send' waits for approval, but its id .* an id of its own"):
        review(AIMessage("", tool_calls=calls))

    assert not ran


def test_calls_that_go_on_beside_rejected_ones_move_to_a_message_of_their_own(review, ran):
    calls = [call("send", "1", to="Ann"), call("look", "2", at="sky"), call("send", "3", to="Bob")]
    message = AIMessage("I will send two.", tool_calls=calls, id="m", usage_metadata=USAGE, response_metadata={"k": 1})

    output = review(message, [REJECT, edit(to="Eve")])

    assert summary(output) == [["1"], "1", ["2", "3"], "2", "3"]
    assert ran == {"look sky": 1, "send Eve": 1}
    first, _, second, *_ = output.value["messages"][1:]
    assert (first.id, first.text, first.usage_metadata) == ("m", "I will send two.", USAGE)
    assert (second.text, second.usage_metadata) == ("", None), "said and paid for once"
    assert second.id not in {None, "m"}


USAGE: Any = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}

ANTHROPIC = [
    {"type": "thinking", "thinking": "hm", "signature": "signed"},
    {"type": "text", "text": "I will."},
    {"type": "tool_use", "id": "1", "name": "send", "input": {"to": "Ann"}},
    {"type": "tool_use", "id": "2", "name": "send", "input": {"to": "Bob"}},
]
OPENAI = [
    {"type": "reasoning", "id": "rs_1", "encrypted_content": "signed", "summary": []},
    {"type": "text", "text": "I will.", "id": "msg_1"},
    {"type": "function_call", "id": "fc_1", "call_id": "1", "name": "send", "arguments": '{"to": "Ann"}'},
    {"type": "function_call", "id": "fc_2", "call_id": "2", "name": "send", "arguments": '{"to": "Bob"}'},
]
STANDARD = [
    {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "signed"}},
    {"type": "text", "text": "I will."},
    {"type": "tool_call", "id": "1", "name": "send", "args": {"to": "Ann"}},
    {"type": "tool_call", "id": "2", "name": "send", "args": {"to": "Bob"}},
]


@pytest.fixture(params=[ANTHROPIC, OPENAI, STANDARD], ids=["anthropic", "openai", "standard"])
def blocks(request):
    """Two calls as content blocks in the form of a provider, after signed reasoning and a text."""
    return request.param


def two_letters(blocks: Any) -> AIMessage:
    return AIMessage(blocks, tool_calls=[call("send", "1", to="Ann"), call("send", "2", to="Bob")], id="m")


def test_approved_content_stays_as_it_is(review, blocks):
    output = review(two_letters(blocks), [APPROVE, APPROVE])

    assert output.value["messages"][1].content == blocks


def test_an_edit_is_made_in_the_content_too(review, blocks):
    output = review(two_letters(blocks), [APPROVE, edit(to="Eve")])

    content = output.value["messages"][1].content
    assert content[:3] == blocks[:3]
    changed = {key for key in content[3] if content[3][key] != blocks[3][key]}
    assert len(changed) == 1
    assert content[3][changed.pop()] in ({"to": "Eve"}, '{"to": "Eve"}')


def test_an_edited_call_does_not_keep_the_scores_of_the_one_before(review, blocks):
    message = two_letters(blocks)
    message.response_metadata = {"tooltree": {"search": "model:1", "node": 1}, "model_provider": "acme"}
    output = review(message, [APPROVE, edit(to="Eve")])
    assert output.value["messages"][1].response_metadata == {"model_provider": "acme"}


def test_an_edit_that_is_no_json_is_asked_for_again(review, ran):
    output = review(
        AIMessage("", tool_calls=[call("send", "1", to="Ann")]), [edit(to={1: "Ann", "a": "Bob"})], [APPROVE]
    )
    assert not output.interrupts
    assert ran == {"send Ann": 1}


def test_effects_that_are_no_mapping_are_refused():
    with pytest.raises(ConfigurationError, match=r"effects must be a mapping .* got \['book'\]"):
        PlanReviewMiddleware(["book"])
    with pytest.raises(ConfigurationError, match=r"effects\['book'\] must be 'read' or 'write', got 'raed'"):
        PlanReviewMiddleware({"book": "raed"})


def the_agent(tools, **arguments):
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call("send", "1", to="Ann")]), "Sent."])
    return create_tooltree_agent(model, tools, effects=EFFECTS, review=True, when=lambda _: False, **arguments)


def a_graph_of_nodes(tools, checkpointer=None):
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda _: {"messages": [AIMessage("", tool_calls=[call("send", "1", to="Ann")])]})
    graph.add_node("review", PlanReviewNode(EFFECTS))
    graph.add_edge(START, "model")
    graph.add_edge("model", "review")
    return graph.compile(checkpointer=checkpointer)


@pytest.mark.parametrize("make", [the_agent, a_graph_of_nodes])
async def test_a_run_that_could_not_go_on_after_a_review_is_refused(tools, make):
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"needs a checkpointer\. Pass one, .* where the outermost graph"):
            await make(tools).ainvoke({"messages": [HumanMessage("Go.")]})


@pytest.mark.parametrize("make", [the_agent, a_graph_of_nodes])
def test_the_checkpointer_of_a_graph_around_serves_a_review_too(tools, make):
    around = StateGraph(MessagesState)
    around.add_node("agent", make(tools))
    around.add_edge(START, "agent")

    output = around.compile(checkpointer=InMemorySaver()).invoke(
        {"messages": [HumanMessage("Go.")]}, THREAD, version="v2"
    )

    assert waiting(output) == ["send"]


def test_an_edit_to_another_tool_names_it_in_the_content_too(review, blocks):
    decision = {"type": "edit", "edited_action": {"name": "burn", "args": {"what": "it"}}}

    output = review(two_letters(blocks), [APPROVE, decision])

    assert output.value["messages"][1].content[3]["name"] == "burn"


@pytest.mark.parametrize(
    ("edited", "problem"),
    [
        ({"name": "send", "args": {"to": {"not": "a text"}}}, "The edit does not fit send: to: "),
        ({"name": "sedn", "args": {"to": "Ann"}}, "The edit names 'sedn', which no tool is; there are "),
    ],
)
def test_an_edit_that_no_tool_takes_is_asked_for_again_before_anything_runs(tools, ran, edited, problem):
    agent = the_agent(tools, checkpointer=InMemorySaver())
    output = agent.invoke({"messages": [HumanMessage("Go.")]}, THREAD, version="v2")
    (named,) = output.interrupts[0].value["decisions"]
    answer = {"decisions": [{**named, "type": "edit", "edited_action": edited}]}
    again = agent.invoke(Command(resume=answer), THREAD, version="v2")
    assert again.interrupts[0].value["problem"].startswith(problem)
    assert not ran


LETTER = {
    "type": "object",
    "properties": {"to": {"type": "string", "maxLength": 5}},
    "required": ["to"],
}


class Sender:
    """An agent under a review placed by hand; each `process` knows of the others only what the checkpointer keeps."""

    def __init__(self, *inner: Any) -> None:
        self.sent: list[str] = []
        self._saver = InMemorySaver()
        self._inner = inner
        # A tool with a JSON schema takes what it gets, as a remote one does.
        self._send = StructuredTool(name="send", description="Send.", args_schema=LETTER, func=self._sending)

    def _sending(self, to: Any) -> str:
        self.sent.append(to)
        return f"sent to {to}"

    def process(self, *replies: Any) -> Any:
        middleware = [PlanReviewMiddleware(EFFECTS), *self._inner]
        model = ScriptedChatModel(replies=[*replies, "Done."])
        return create_agent(model, [self._send], middleware=middleware, checkpointer=self._saver)

    def asked(self) -> tuple[Any, Any]:
        """A process that waits for the decision on a letter to Ann, and what it has asked."""
        first = self.process(AIMessage("", tool_calls=[call("send", "1", to="Ann")]))
        return first, first.invoke({"messages": [HumanMessage("Go.")]}, THREAD, version="v2").interrupts


@pytest.mark.parametrize("between", [[], [Command(resume="hm")], [None]], ids=["", "malformed", "run again"])
@pytest.mark.parametrize("by_id", [False, True], ids=["", "by id"])
@pytest.mark.parametrize("decision", [REJECT, APPROVE], ids=["reject", "approve"])
def test_a_refused_edit_stays_refused_in_a_process_that_does_not_know_the_tools(between, by_id, decision):
    sender = Sender()
    first, asked = sender.asked()
    asked = first.invoke(deciding(asked, edit(to="everybody")), THREAD, version="v2").interrupts
    assert asked[0].value["problem"].startswith("The edit does not fit send: to: ")
    for given in between:
        asked = sender.process().invoke(given, THREAD, version="v2").interrupts

    answer = deciding(asked, decision)
    if by_id:
        answer = Command(resume={asked[0].id: answer.resume})
    output = sender.process().invoke(answer, THREAD, version="v2")

    assert sender.sent == (["Ann"] if decision is APPROVE else [])
    assert not output.interrupts
    said = "sent to Ann" if decision is APPROVE else "The user rejected this call of send"
    assert output.value["messages"][2].text.startswith(said)


async def test_an_edit_that_meets_its_tool_no_sooner_than_at_the_call_does_not_run_if_it_does_not_fit():
    for edited, sent in ((edit(to="everybody"), []), (edit(to="Bob"), ["Bob"])):
        sender = Sender()
        _, asked = sender.asked()

        output = await sender.process().ainvoke(deciding(asked, edited), THREAD, version="v2")

        assert sender.sent == sent
        result = output.value["messages"][2]
        assert result.status == ("success" if sent else "error")
        assert sent or result.text.startswith("This call of send was not carried out. The edit does not fit send: to: ")
        assert output.value["messages"][3].text == "Done."


class Offering(AgentMiddleware):
    """Offers the model a tool that the agent was not given, and runs it."""

    def __init__(self, offered: Any) -> None:
        super().__init__()
        self._offered = offered

    def wrap_model_call(self, request, handler):
        return handler(request.override(tools=[*request.tools, self._offered]))

    def wrap_tool_call(self, request, handler):
        ours = request.tool_call["name"] == self._offered.name
        return handler(request.override(tool=self._offered) if ours else request)


@pytest.mark.parametrize("make", [Sender, the_agent], ids=["by hand", "agent"])
def test_an_edit_may_name_a_tool_that_a_middleware_further_in_offers(tools, ran, make):
    *given, burn = tools
    for name, result in (("burn", "it is gone"), ("brun", "Error: brun is not a valid tool, try one of [")):
        if make is Sender:
            agent, asked = Sender(Offering(burn)).asked()
        else:
            agent = the_agent(given, middleware=[Offering(burn)], checkpointer=InMemorySaver())
            asked = agent.invoke({"messages": [HumanMessage("Go.")]}, THREAD, version="v2").interrupts
        decision = {"type": "edit", "edited_action": {"name": name, "args": {"what": "it"}}}

        output = agent.invoke(deciding(asked, decision), THREAD, version="v2")

        assert not output.interrupts
        assert output.value["messages"][2].text.startswith(result)
    assert ran == {"burn it": 1}


def test_a_question_of_the_hosts_own_keeps_its_answer_when_a_call_behind_it_fails():
    told, failing = [], [ConnectionError()]

    def send(to: str) -> str:
        """Send."""
        if failing:
            raise failing.pop()
        return f"sent to {to}"

    guarded = PlanReviewNode(EFFECTS).guard(ToolNode([send], handle_tool_errors=False))

    def both(state: Any, config: RunnableConfig) -> Any:
        told.append(interrupt("From which account?"))
        return guarded.invoke(state, config)

    graph = StateGraph(MessagesState)
    graph.add_node("both", both, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    graph.add_edge(START, "both")
    app = graph.compile(checkpointer=InMemorySaver())
    message = AIMessage("", tool_calls=[call("send", "1", to="Ann")])
    app.invoke({"messages": [HumanMessage("Go."), message]}, THREAD)
    asked = app.invoke(Command(resume="savings"), THREAD, version="v2").interrupts
    asked = app.invoke(deciding(asked, APPROVE), THREAD, version="v2").interrupts
    output = app.invoke(deciding(asked, APPROVE), THREAD, version="v2")

    assert output.value["messages"][-1].text == "sent to Ann"
    assert set(told) == {"savings"}


def test_what_a_client_says_in_our_name_is_cut(tools, ran):
    for sent, told in (("x" * 10_000, "x" * 200), ("", "This answer was used before")):
        agent = the_agent(tools, checkpointer=InMemorySaver())
        agent.invoke({"messages": [HumanMessage("Go.")]}, THREAD)
        asked = agent.invoke(Command(resume={"tooltree_refused": sent}), THREAD, version="v2").interrupts
        assert asked[0].value["problem"].startswith(told)
        assert len(asked[0].value["problem"]) < 500
    assert not ran


def test_a_name_is_refused_only_where_all_guarded_nodes_tell_their_tools(tools):
    reviewer = PlanReviewNode(EFFECTS)
    reviewer.guard(ToolNode(tools))
    reviewer.guard(RunnableLambda(lambda state: state))
    graph = StateGraph(MessagesState)
    graph.add_node("review", reviewer)
    graph.add_edge(START, "review")
    app = graph.compile(checkpointer=InMemorySaver())
    message = AIMessage("", tool_calls=[call("send", "1", to="Ann")])
    asked = app.invoke({"messages": [HumanMessage("Go."), message]}, THREAD, version="v2").interrupts
    shred = {"type": "edit", "edited_action": {"name": "shred", "args": {}}}

    assert not app.invoke(deciding(asked, shred), THREAD, version="v2").interrupts


def test_an_approval_that_was_used_before_does_not_count_in_another_process(tools, ran):
    saver = InMemorySaver()
    failing = [ConnectionError()]

    def process():
        reviewer = PlanReviewNode(EFFECTS)

        def review(state):
            decided = reviewer.invoke(state)
            if failing:
                raise failing.pop()
            return decided

        graph = StateGraph(MessagesState)
        graph.add_node("review", review, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
        graph.add_node("tools", reviewer.guard(ToolNode(tools)))
        graph.add_edge(START, "review")
        graph.add_conditional_edges("review", review_condition, {"tools": "tools", "model": END})
        return graph.compile(checkpointer=saver)

    message = AIMessage("", tool_calls=[call("send", "1", to="Ann")])
    first = process()
    asked = first.invoke({"messages": [HumanMessage("Go."), message]}, THREAD, version="v2").interrupts
    asked = first.invoke(deciding(asked, APPROVE), THREAD, version="v2").interrupts
    assert asked[0].value["problem"].startswith("This answer was used before")

    output = process().invoke(deciding(asked, REJECT), THREAD, version="v2")

    assert not output.interrupts
    assert not ran
    assert output.value["messages"][-1].text.startswith("The user rejected")


def test_signed_reasoning_goes_with_the_calls_that_go_on(review, blocks, ran):
    output = review(two_letters(blocks), [REJECT, APPROVE])

    first, _, second, *_ = output.value["messages"][1:]
    assert first.content == "I will."
    assert second.content == [blocks[0], blocks[3]]
    assert ran == {"send Bob": 1}


def test_a_call_that_its_host_has_answered_is_not_asked_about(review):
    calls = [call("send", "1", to="Ann"), call("send", "2", to="Bob")]
    answered = ToolMessage("taken note of", tool_call_id="1")

    output = review(AIMessage("", tool_calls=calls), messages=[answered])

    assert waiting(output) == ["send"]
    assert output.interrupts[0].value["action_requests"][0]["args"] == {"to": "Bob"}


class Verdict(BaseModel):
    """The verdict."""

    text: str


def test_a_write_beside_a_structured_response_is_reviewed(tools, ran):
    # create_agent answers the structured call itself, so the last message is not the one that makes the write.
    calls = [call("Verdict", "1", text="fine"), call("send", "2", to="Ann")]
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=calls), "Well then."])
    middleware = [PlanReviewMiddleware(EFFECTS)]
    agent = create_agent(
        model, tools, middleware=middleware, response_format=ToolStrategy(Verdict), checkpointer=InMemorySaver()
    )

    output = agent.invoke({"messages": [HumanMessage("Go.")]}, THREAD, version="v2")
    assert waiting(output) == ["send"]
    output = agent.invoke(deciding(output.interrupts, REJECT), THREAD, version="v2")

    assert not ran
    assert output.value["structured_response"] == Verdict(text="fine")


def test_a_read_that_bears_the_name_of_a_write_does_not_spare_it_the_question(tools, ran):
    @tool("send")
    def harmless(to: str) -> str:
        """Look who it is."""
        return to

    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call("send", "1", to="Ann")]), "Sent."])
    agent = create_agent(
        model, tools, middleware=[PlanReviewMiddleware([(harmless, "read")])], checkpointer=InMemorySaver()
    )

    output = agent.invoke({"messages": [HumanMessage("Go.")]}, THREAD, version="v2")

    assert waiting(output) == ["send"]
    assert not ran


def test_nobody_is_asked_about_a_call_that_is_only_tried_out():
    assert HostHooks.of([PlanReviewMiddleware(EFFECTS)]).wrap is None


class ListState(BaseModel):
    """A state as a pydantic model."""

    chat: Annotated[list[AnyMessage], add_messages] = []


@dataclass
class ChatState:
    """A state as a dataclass."""

    chat: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)


@pytest.mark.parametrize("schema", [ListState, ChatState])
async def test_the_state_may_be_an_object_with_the_conversation_under_another_key(schema, tools, ran):
    graph = StateGraph(schema)
    reviewer = PlanReviewNode(EFFECTS, messages_key="chat")
    graph.add_node("review", reviewer)
    graph.add_node("tools", reviewer.guard(ToolNode(tools, messages_key="chat")))
    graph.add_edge(START, "review")
    graph.add_conditional_edges(
        "review", lambda state: review_condition(state, messages_key="chat"), {"tools": "tools", "model": END}
    )
    agent = graph.compile(checkpointer=InMemorySaver())
    message = AIMessage("", tool_calls=[call("send", "1", to="Ann")])
    asked = await agent.ainvoke({"chat": [HumanMessage("Go."), message]}, THREAD, version="v2")

    await agent.ainvoke(deciding(asked.interrupts, edit(to="Bob")), THREAD)

    assert ran == {"send Bob": 1}


def test_a_review_goes_where_the_conversation_does():
    asks = AIMessage("", tool_calls=[call("send", "1", to="Ann")])

    assert review_condition({"messages": [asks]}) == "tools"
    assert review_condition({"messages": [asks, ToolMessage("no", tool_call_id="1")]}) == "model"
    assert review_condition({"messages": [AIMessage("Done.")]}) == END
    assert review_condition(ChatState([asks]), messages_key="chat") == "tools"


@pytest.mark.parametrize(
    ("scores", "reasons", "lines"),
    [
        (
            (0.9, 0.8, 0.2),
            {"r_pre": "It is due."},
            ["before the call 0.90. The judge's reason: 'It is due.'", "fulfils the request: 0.20. No"],
        ),
        ((0.9, 0.8, 0.7), {}, []),
        ((0.1, None, None), {}, ["before the call 0.10. No reason was given."]),
        (
            (None, 0.8, 0.7),
            {"r_post": "So it goes."},
            ["expected result 0.80, fulfils the request: 0.70. The judge's reason: 'So it goes.'"],
        ),
    ],
)
def test_no_score_argues_for_a_call_without_its_reason(review, scores, reasons, lines):
    r_pre, r_post, goal = scores
    mark = {"search": "s", "node": 1, "r_pre": r_pre, "r_post": r_post, "goal": goal, "reasons": reasons}
    output = review(AIMessage("", tool_calls=[call("send", "1", to="Ann")], response_metadata={"tooltree": mark}))
    [asked] = [interrupt.value for interrupt in output.interrupts]
    first, *more = asked["action_requests"][0]["description"].splitlines()
    assert first == "send(to='Ann') waits for approval."
    shown = [line for line in more if line.startswith("Scores")]
    assert len(shown) == len(lines)
    assert all(line in said for line, said in zip(lines, shown, strict=True))
