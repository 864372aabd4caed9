"""A search starts from scratch where the one before it was for another request or caller, or by another planner."""

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from agents import planning_agent, replaced
from conversations import check_pairs
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import InjectedState
from test_going_on import Desk, ThoroughPolicy, searches, told
from travel import BOOKING, EFFECTS, PRICE, ROUND_TRIP, Agency, TravelPolicy, asking, travel_model

from langchain_tooltree import ObjectSandbox, SearchConfig, ToolTreeNode, create_tooltree_agent
from langchain_tooltree.testing import Made, OfflineChatModel, Question
from tests.internals.tooltree import MANY_QUESTIONS
from tests.internals.tooltree import resume_module as resume

THREAD: Any = {"configurable": {"thread_id": "1"}}

FIRST = {"messages": [HumanMessage("first")]}
SECOND = {"messages": [HumanMessage("second")]}


class MenuPolicy:
    """Tries both tools at every request; the first keeps `hello`, the second `menu`."""

    def propose(self, question: Question) -> Sequence[Any]:
        return [] if question.path else [("hello", {"topic": "a"}), ("menu", {"topic": "a"})]

    def score_call(self, question: Question, call: Made) -> float:
        return 0.8

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        wanted = "hello" if question.request == "first" else "menu"
        return (0.9, 0.5) if call.tool == wanted else (0.5, 0.1)

    def answer(self, question: Question) -> str:
        return str(question.path[-1].observation)


@tool
def hello(topic: str) -> str:
    """Say hello."""
    return "hello"


def planner(menu: BaseTool) -> ToolTreeNode:
    model = OfflineChatModel(policy=MenuPolicy())
    config = SearchConfig(**MANY_QUESTIONS)  # which tries reads that it does not keep
    return ToolTreeNode(model, [menu, hello], effects={"menu": "read", "hello": "read"}, config=config)


def graph_of(node: ToolTreeNode, schema: Any = MessagesState) -> CompiledStateGraph[Any, Any, Any, Any]:
    graph = StateGraph(schema)
    graph.add_node("model", node)
    graph.add_edge(START, "model")
    return graph.compile(checkpointer=InMemorySaver())


def test_a_request_that_was_corrected_is_not_carried_on() -> None:
    desk = Desk()
    sandbox = ObjectSandbox.of_methods(desk)
    model = OfflineChatModel(policy=ThoroughPolicy())
    effects: Any = dict.fromkeys(("find_flights", "find_hotels", "check_weather", "read_price"), "read")
    agent = create_tooltree_agent(
        model, list(sandbox.tools), effects=effects, sandbox=sandbox, checkpointer=InMemorySaver()
    )
    agent.invoke(asking(ROUND_TRIP), THREAD, interrupt_after=["tools"])
    assert desk.booked == ["OS-1"]
    asked = agent.get_state(THREAD).values["messages"][0]

    agent.update_state(THREAD, {"messages": [HumanMessage(BOOKING, id=asked.id)]}, as_node="tools")
    agent.invoke(None, THREAD)

    assert "RO-1" not in desk.booked


class Served(MessagesState):
    customer: str


def test_a_read_for_one_user_is_not_believed_for_another_whose_state_differs() -> None:
    @tool
    def menu(topic: str, customer: Annotated[str, InjectedState("customer")]) -> str:
        """Show the menu."""
        return f"{topic} of {customer}"

    agent = graph_of(planner(menu), Served)
    agent.invoke({**FIRST, "customer": "Ann"}, THREAD)
    assert agent.invoke({**SECOND, "customer": "Bob"}, THREAD)["messages"][-1].text == "a of Bob"


@pytest.mark.parametrize("users", [("Ann", "Bob"), ("Ann", "Ann")])
def test_a_read_for_one_user_is_not_believed_for_another_whose_configuration_differs(users: tuple[str, str]) -> None:
    runs: list[str] = []

    @tool
    def menu(topic: str, config: RunnableConfig) -> str:
        """Show the menu."""
        runs.append(config["configurable"]["user_id"])
        return f"{topic} of {runs[-1]}"

    agent = graph_of(planner(menu))
    for user, request in zip(users, (FIRST, SECOND), strict=True):
        configured: Any = {"configurable": {"thread_id": "1", "user_id": user}}
        messages = agent.invoke(request, configured)["messages"]

    assert messages[-1].text == f"a of {users[1]}"
    assert runs == list(dict.fromkeys(users)), "for the same user it is believed"


def test_another_planner_of_the_graph_does_not_go_on_from_the_first() -> None:
    def tenant(name: str) -> ToolTreeNode:
        return planner(
            StructuredTool.from_function(lambda topic: f"{topic} of {name}", name="menu", description="Menu.")
        )

    graph = StateGraph(MessagesState)
    graph.add_node("eu", tenant("EU"))
    graph.add_node("us", tenant("US"))
    graph.add_conditional_edges(
        START, lambda state: "us" if state["messages"][-1].text == "second" else "eu", ["eu", "us"]
    )
    agent = graph.compile(checkpointer=InMemorySaver())

    agent.invoke(FIRST, THREAD)

    assert agent.invoke(SECOND, THREAD)["messages"][-1].text == "a of US"


@pytest.mark.parametrize("mark", [{"search": ""}, {"search": "model:1"}, {"search": None, "node": 1}, {}, "x", None])
def test_a_mark_that_a_client_made_up_harms_nothing(mark: Any) -> None:
    agent = planning_agent(Agency(), checkpointer=InMemorySaver())
    forged = AIMessage("hi", response_metadata={"tooltree": mark})
    messages = agent.invoke({"messages": [HumanMessage("Hello."), forged, *asking(PRICE)["messages"]]}, THREAD)[
        "messages"
    ]
    check_pairs(messages)
    assert messages[-1].text


async def test_another_judge_starts_anew() -> None:
    saver = InMemorySaver()
    agency = Agency()
    planning_agent(agency, checkpointer=saver).invoke(asking(PRICE), THREAD)

    def judge(request: Any) -> Any:
        return [0.8] * len(request.calls) if request.stage == "pre" else (0.5, 0.1)

    events = await told(planning_agent(agency, planner={"judge": judge}, checkpointer=saver), asking(PRICE))

    assert searches(events)[0][0] == 0
    assert any(event["type"] == "execute" and not event["cached"] for event in events)


@pytest.mark.parametrize(("later", "believed"), [(59, True), (61, False)])
async def test_reads_are_believed_for_a_minute(monkeypatch: pytest.MonkeyPatch, later: int, believed: bool) -> None:  # noqa: FBT001
    agency = Agency()
    explores = SearchConfig(selection="smoothed", max_proposals=2, **MANY_QUESTIONS)
    agent = planning_agent(agency, checkpointer=InMemorySaver(), planner={"config": explores})
    now = time.time()
    for moment, request in ((now, PRICE), (now + later, BOOKING)):  # however long the machine takes for the first
        monkeypatch.setattr(resume, "time", SimpleNamespace(time=lambda moment=moment: moment))
        agent.invoke(asking(request), THREAD)

    assert agency.calls["find_hotels Oslo"] == (1 if believed else 2)


class Rebooking(AgentMiddleware[Any, Any, Any]):
    """Has the other flight booked."""

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        last = state["messages"][-1]
        if not last.tool_calls or last.tool_calls[0]["args"] == {"flight": "OS-2"}:
            return None
        call = {**last.tool_calls[0], "args": {"flight": "OS-2"}}
        return {"messages": [last.model_copy(update={"tool_calls": [call]})]}


def test_a_person_sees_the_call_as_other_middleware_leaves_it() -> None:
    agency = Agency()
    agent = create_tooltree_agent(
        travel_model(),
        agency.tools,
        effects=EFFECTS,
        review=True,
        middleware=[Rebooking()],
        checkpointer=InMemorySaver(),
    )

    asked = agent.invoke(asking(BOOKING), THREAD)["__interrupt__"][0].value

    assert asked["action_requests"][0]["args"] == {"flight": "OS-2"}


class StubbornPolicy(TravelPolicy):
    """Believes that a flight is booked when the booking says so, and not before."""

    def _done(self, request: str, path: tuple[Made, ...]) -> int:
        return super()._done(request, tuple(made for made in path if "sold out" not in str(made.observation)))


def test_a_write_that_keeps_failing_is_not_planned_for_ever() -> None:
    agency = Agency()
    tried: list[str] = []

    @tool
    def book(flight: str) -> str:
        """Book a flight."""
        tried.append(flight)
        raise ToolException("sold out")

    book.handle_tool_error = True
    agent = planning_agent(agency, model=OfflineChatModel(policy=StubbornPolicy()), tools=replaced(agency.tools, book))

    messages = agent.invoke(asking(BOOKING), {"recursion_limit": 60})["messages"]

    check_pairs(messages)
    assert tried == ["OS-1", "OS-1"]
    assert not messages[-1].tool_calls
