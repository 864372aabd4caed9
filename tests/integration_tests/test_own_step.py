"""A search that begins with the agent's own step: the plain agent's calls, and branches where it stops early."""

import threading
import time
from typing import Any

import pytest
from agents import THREAD, Desk, Witness, invoke, replaced, stream
from conversations import check_conversation, outline
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt
from own_steps import (
    CHAIN,
    COMPARE,
    HELLO,
    LOOK,
    OWN,
    REPLIES,
    TRIP,
    OwnSteps,
    SteppingModel,
    asking,
    plain_agent,
    stepping_agent,
)
from pydantic import BaseModel
from travel import EFFECTS, Agency

from langchain_tooltree import (
    ObjectSandbox,
    PlanReviewMiddleware,
    ToolTreeMiddleware,
    ToolTreeNode,
    create_tooltree_agent,
)
from langchain_tooltree.testing import ScriptedChatModel, read_question
from tests.internals.tooltree import DEFAULT_STEP_CALLS_PROMPT, DEFAULT_STEP_PROMPT, deciding

LINES = (DEFAULT_STEP_PROMPT, DEFAULT_STEP_CALLS_PROMPT)
"""What the search adds to the agent's instructions."""

EXTRA = 4
"""Model calls that an error may cost at the most, beside those of the right way."""


def node_agent(agency: Agency, model: Any) -> Any:
    """A graph of one's own with the planner in place of its model node."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", ToolTreeNode(model, agency.tools, effects=EFFECTS, config=OWN))
    graph.add_node("tools", ToolNode(agency.tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


def said(messages: list[BaseMessage]) -> list[Any]:
    """A conversation without what no two runs share."""
    return [
        [(call["name"], call["args"]) for call in message.tool_calls]
        if isinstance(message, AIMessage) and message.tool_calls
        else (message.type, message.text)
        for message in messages
    ]


@pytest.mark.parametrize("make", [stepping_agent, node_agent], ids=["middleware", "node"])
@pytest.mark.parametrize("request_", REPLIES)
def test_a_model_that_is_right_and_sure_is_asked_as_often_as_without_a_planner(
    make: Any, request_: str, path: str
) -> None:
    plain, planned = SteppingModel(), SteppingModel()
    usual = invoke(plain_agent(Agency(), plain), asking(request_), path=path)["messages"]
    agency = Agency()

    messages = invoke(make(agency, planned), asking(request_), path=path)["messages"]

    assert len(planned.heard) == len(plain.heard) == len(REPLIES[request_]) + 1
    assert set(agency.calls.values()) <= {1}
    check_conversation(messages)
    # Writes come in a message of their own behind the reads of their reply; the calls, results and answer are the same.
    assert _flat(messages) == _flat(usual)
    if request_ != TRIP:
        assert said(messages) == said(usual)


def _flat(messages: list[BaseMessage]) -> list[Any]:
    parts = said(messages)
    calls = [call for part in parts if isinstance(part, list) for call in part]
    return [calls, [part for part in parts if not isinstance(part, list)]]


@pytest.mark.parametrize("request_", [HELLO, CHAIN, COMPARE])
def test_the_model_is_asked_what_the_plain_agent_asks_it_but_for_one_line(request_: str, path: str) -> None:
    plain, planned = SteppingModel(), SteppingModel()
    options: dict[str, Any] = {"system_prompt": "Prefer morning flights.", "name": "clerk"}
    invoke(plain_agent(Agency(), plain, **options), asking(request_), path=path)

    invoke(stepping_agent(Agency(), planned, **options), asking(request_), path=path)

    assert len(plain.heard) == len(planned.heard)
    for usual, asked in zip(plain.heard, planned.heard, strict=True):
        assert [_bare(message) for message in asked.messages] == [_bare(message) for message in usual.messages]
        assert [message.name for message in asked.messages] == [message.name for message in usual.messages]
        assert asked.system.endswith(LINES)
        assert asked.options["tools"] == usual.options["tools"]
        assert {key: value for key, value in asked.options.items() if value} == {
            key: value for key, value in usual.options.items() if value
        }


def _bare(message: BaseMessage) -> Any:
    if isinstance(message, SystemMessage):
        line = next((line for line in LINES if message.text.endswith(line)), "")
        return message.text.removesuffix(line).strip()
    return said([message])


def test_calls_of_one_reply_run_at_the_same_time_and_come_back_in_one_message(agency: Agency, path: str) -> None:
    door = threading.Barrier(3)

    def waiting(name: str) -> Any:
        def meet(city: str) -> str:
            """Wait until all three are asked."""
            door.wait(10)
            return f"{city} is fine"

        return StructuredTool.from_function(meet, name=name)

    met = [waiting(name) for name in ("find_flights", "find_hotels", "check_weather")]
    planner = ToolTreeMiddleware(effects=EFFECTS, config=OWN)
    agent = create_agent(SteppingModel(), replaced(agency.tools, *met), middleware=[planner])

    messages = invoke(agent, asking(COMPARE), path=path)["messages"]

    assert outline(check_conversation(messages))[1:5] == [
        "call find_flights find_hotels check_weather",
        "result find_flights",
        "result find_hotels",
        "result check_weather",
    ]
    assert [message.text for message in messages[2:5]] == ["Oslo is fine"] * 3


@pytest.mark.parametrize("slow", ["Oslo", "Rome"])
def test_questions_of_calls_made_together_get_their_own_answers(path: str, slow: str) -> None:
    @tool
    def ask(city: str) -> str:
        """Ask about a city."""
        time.sleep(0.05 if city == slow else 0)
        return f"{city}: {interrupt(city)}"

    def reply(messages: list[BaseMessage]) -> Any:
        if any(isinstance(message, ToolMessage) for message in messages):
            return "Both are known."
        calls = [{"name": "ask", "args": {"city": city}, "id": city} for city in ("Oslo", "Rome")]
        return AIMessage("", tool_calls=calls)

    planner = ToolTreeMiddleware(effects={"ask": "read"}, config=OWN)
    model = ScriptedChatModel(replies=[reply] * 9)
    agent = create_agent(model, [ask], middleware=[planner], checkpointer=InMemorySaver())

    state = invoke(agent, asking(HELLO), THREAD, path=path)
    for _ in range(2):
        answers = {question.id: f"yes, {question.value}" for question in state["__interrupt__"]}
        state = invoke(agent, Command(resume=answers), THREAD, path=path)

    told = [message.text for message in state["messages"] if isinstance(message, ToolMessage)]
    assert told == ["Oslo: yes, Oslo", "Rome: yes, Rome"]
    check_conversation(state["messages"])


def test_writes_of_one_reply_wait_together_behind_its_reads(agency: Agency, path: str) -> None:
    messages = invoke(stepping_agent(agency), asking(TRIP), path=path)["messages"]

    assert outline(check_conversation(messages)) == [
        "human",
        "call find_flights",
        "result find_flights",
        "call book book",
        "result book",
        "result book",
        "answer",
    ]
    assert agency.calls == {"find_flights Oslo": 1, "book OS-1": 1, "book OS-2": 1}


@pytest.mark.parametrize("request_", [COMPARE, TRIP])
def test_writes_tried_in_a_sandbox_are_carried_out_as_tried_and_the_answer_is_known_by_then(
    agency: Agency, path: str, request_: str
) -> None:
    desk, model = Desk(), SteppingModel()
    sandbox = ObjectSandbox.of_methods(desk)
    tools = replaced(agency.tools, *sandbox.tools)
    planner = ToolTreeMiddleware(effects=EFFECTS, config=OWN, sandbox=sandbox)
    agent = create_agent(model, tools, middleware=[planner], checkpointer=InMemorySaver())
    plain = SteppingModel()
    usual = invoke(plain_agent(Agency(), plain), asking(request_), path=path)["messages"]

    messages = invoke(agent, asking(request_), THREAD, path=path)["messages"]

    check_conversation(messages)
    assert _flat(messages) == _flat(usual)
    assert set(desk.bookings.values()) == {1}
    assert len(model.heard) == len(plain.heard)


@pytest.mark.parametrize(("request_", "early"), [(CHAIN, 1), (CHAIN, 0), (COMPARE, 1)])
@pytest.mark.parametrize("make", [stepping_agent, node_agent], ids=["middleware", "node"])
def test_a_model_that_stops_early_is_brought_to_go_on(make: Any, request_: str, early: int, path: str) -> None:
    agency, model = Agency(), SteppingModel(policy=OwnSteps(early={request_: early}))

    messages = invoke(make(agency, model), asking(request_), path=path)["messages"]

    check_conversation(messages)
    wanted = {tool for reply in REPLIES[request_] for tool, _ in reply}
    assert wanted <= {label.split()[0] for label in agency.calls}
    assert len(model.heard) <= len(REPLIES[request_]) + 1 + EXTRA


@pytest.mark.parametrize("decisions", [["approve", "approve"], ["approve", "reject"], ["reject", "approve"]])
@pytest.mark.parametrize("reviewer", ["human in the loop", "plan review"])
def test_each_of_the_writes_that_wait_together_is_decided_on(
    agency: Agency, path: str, reviewer: str, decisions: list[str]
) -> None:
    approval: Any = HumanInTheLoopMiddleware({"book": True})
    if reviewer == "plan review":
        approval = PlanReviewMiddleware(EFFECTS)
    agent = stepping_agent(agency, before=[approval], checkpointer=InMemorySaver())

    state = invoke(agent, asking(TRIP), THREAD, path=path)

    (waiting,) = state["__interrupt__"]
    assert [action["args"] for action in waiting.value["action_requests"]] == [{"flight": "OS-1"}, {"flight": "OS-2"}]
    answers: list[Any] = [{"type": decision} for decision in decisions]
    resume = Command(resume={"decisions": answers})
    invoke(agent, deciding([waiting], *answers) if reviewer == "plan review" else resume, THREAD, path=path)
    approved = [flight for flight, decision in zip(("OS-1", "OS-2"), decisions, strict=True) if decision == "approve"]
    assert {label for label in agency.calls if label.startswith("book")} >= {f"book {flight}" for flight in approved}


def test_the_answer_of_a_search_is_the_agents_own_message(agency: Agency, path: str) -> None:
    agent = stepping_agent(agency, name="clerk")

    *_, answer = invoke(agent, asking(LOOK), path=path)["messages"]

    assert (answer.text, answer.name) == ("It says: Oslo: OS-1 for 90, OS-2 for 120", "clerk")
    assert answer.usage_metadata
    assert answer.id


def test_the_answer_of_a_search_arrives_whole_and_once(agency: Agency, path: str) -> None:
    parts = stream(stepping_agent(agency), asking(LOOK), path=path, stream_mode="messages")

    answers = [message for message, _ in parts if isinstance(message, AIMessage) and message.text]
    assert [message.text for message in answers] == ["It says: Oslo: OS-1 for 90, OS-2 for 120"]
    assert [message.name for message, _ in parts if isinstance(message, ToolMessage)] == ["find_flights"]


class Fare(BaseModel):
    """What a flight costs."""

    flight: str


PROVIDED = {"type": "web_search", "max_uses": 3}


@pytest.mark.parametrize(
    "options",
    [
        {"planner": {"model": SteppingModel()}},
        {"tools": [PROVIDED]},
    ],
    ids=["another planner", "tools of the provider"],
)
def test_the_agents_own_call_stays_where_it_asks_more_than_the_search_has(
    agency: Agency, path: str, options: dict[str, Any]
) -> None:
    model = SteppingModel()
    agent = stepping_agent(agency, model, **options)

    messages = invoke(agent, asking(LOOK), path=path)["messages"]

    assert outline(check_conversation(messages)) == ["human", "call find_flights", "result find_flights", "answer"]
    last = model.heard[-1]
    assert last.kind == "answer"
    assert [message.type for message in last.messages] == ["human", "ai", "tool"]


def test_every_model_call_is_planned_unless_the_user_says_which(agency: Agency) -> None:
    witness = Witness()
    stepping_agent(agency).invoke(asking(TRIP), {"callbacks": [witness]})
    assert len(witness.of("start")) == 2, "also the one behind the writes"

    witness = Witness()
    stepping_agent(agency, planner={"when": lambda _: False}).invoke(asking(TRIP), {"callbacks": [witness]})
    assert witness.events == []


def test_a_judge_of_the_users_own_scores_every_call(agency: Agency, path: str) -> None:
    asked = []

    def judge(request: Any) -> Any:
        asked.append((request.stage, [call.tool for call in request.calls]))
        return [0.9] * len(request.calls) if request.stage == "pre" else (0.9, 0.9)

    messages = invoke(stepping_agent(agency, planner={"judge": judge}), asking(LOOK), path=path)["messages"]

    assert outline(check_conversation(messages)) == ["human", "call find_flights", "result find_flights", "answer"]
    assert ("pre", ["find_flights"]) in asked


@pytest.mark.parametrize("steps", [0, 1, 14, 15, 20])
@pytest.mark.parametrize("judged", [False, True], ids=["", "a judge"])
def test_a_path_as_long_as_it_may_be_is_handed_over_and_gone_on_from(steps: int, judged: bool) -> None:  # noqa: FBT001
    @tool
    def look(at: int) -> str:
        """Look."""
        return f"saw {at}"

    calls = [{"name": "look", "args": {"at": at}, "id": f"call_{at}"} for at in range(steps)]
    end = "" if steps == 15 else '\n{"missing": ""}'  # the call after that is the agent's own
    model = ScriptedChatModel(replies=[*(AIMessage("", tool_calls=[call]) for call in calls), f"Seen.{end}"])
    options: Any = {"judge": lambda request: 0.9 if request.stage == "pre" else (0.9, 0.2)} if judged else {}
    agent = create_tooltree_agent(model, [look], effects={"look": "read"}, **options)  # 15 calls at the most
    messages = agent.invoke({"messages": [HumanMessage("Look around.")]}, {"recursion_limit": 100})["messages"]
    assert [message.text for message in messages if message.type == "tool"] == [f"saw {at}" for at in range(steps)]
    assert messages[-1].text == "Seen."
    assert len(model.calls) == steps + 1


def test_a_model_that_is_down_leaves_the_turn_to_the_plain_model(agency: Agency, path: str) -> None:
    class Down(SteppingModel):
        def _message(self, messages: Any, options: Any) -> AIMessage:
            if read_question(messages, options["tools"])[0].kind != "answer":
                msg = "out of order"
                raise ConnectionError(msg)
            return super()._message(messages, options)

    witness = Witness()
    messages = invoke(stepping_agent(agency, Down()), asking(LOOK), {"callbacks": [witness]}, path=path)["messages"]
    check_conversation(messages)
    assert witness.of("fallback")
