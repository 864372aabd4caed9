"""The planner as middleware of an agent: what it plans, what it leaves to the agent, and what becomes of the plan."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from agents import (
    BOOKED,
    LOOKED_UP,
    PRICED,
    THREAD,
    Desk,
    ListeningModel,
    Witness,
    invoke,
    planning_agent,
    replaced,
    stream,
)
from conversations import check_conversation, outline
from langchain.agents import AgentState
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.store.memory import InMemoryStore
from travel import APART, BOOKING, ERRANDS, PRICE, ROUND_TRIP, Agency, TravelPolicy, asking, travel_model

from langchain_tooltree import JudgeRequest, ObjectSandbox
from langchain_tooltree.testing import Made, OfflineChatModel, Question, ScriptedChatModel


def test_reads_come_back_as_calls_with_their_results_and_nothing_runs_twice(agency: Agency, path: str) -> None:
    messages = invoke(planning_agent(agency), asking(PRICE), path=path)["messages"]

    assert outline(check_conversation(messages)) == PRICED
    assert messages[-1].text == "All is done for you and it says OS-1 costs 90"
    assert set(agency.calls.values()) == {1}


def test_a_write_is_an_ordinary_call_for_the_agents_own_tools_node(agency: Agency, path: str) -> None:
    updates = stream(planning_agent(agency), asking(BOOKING), path=path, stream_mode="updates")

    by_node = [(node, outline(update["messages"])) for chunk in updates for node, update in chunk.items()]
    assert by_node == [
        ("model", [*LOOKED_UP[1:], "call book"]),
        ("tools", ["result book"]),
        ("model", ["answer"]),
    ]
    check_conversation([HumanMessage(BOOKING), *(m for c in updates for u in c.values() for m in u["messages"])])
    assert set(agency.calls.values()) == {1}


def test_a_conversation_of_several_turns_stays_valid(agency: Agency, path: str) -> None:
    agent = planning_agent(agency, checkpointer=InMemorySaver())

    for request in (PRICE, BOOKING, PRICE):
        messages = invoke(agent, asking(request), THREAD, path=path)["messages"]
        check_conversation(messages)

    assert outline(messages) == [*PRICED, *BOOKED, *PRICED]
    assert agency.calls["book OS-1"] == 1


@pytest.mark.parametrize(
    ("when", "searches"),
    [
        ({}, 3),
        ({"config": APART}, 1),
        ({"when": lambda _: False}, 0),
        ({"when": lambda _: True, "config": APART}, 3),
        ({"when": lambda request: len(request.messages) == 1}, 1),
    ],
    ids=["by default", "by default of many questions", "never", "always", "at first"],
)
def test_which_model_calls_are_searched_is_the_users_choice(
    agency: Agency, path: str, when: dict[str, Any], searches: int
) -> None:
    witness = Witness()

    messages = invoke(planning_agent(agency, planner=when), asking(ROUND_TRIP), {"callbacks": [witness]}, path=path)[
        "messages"
    ]

    check_conversation(messages)
    assert len(witness.of("start")) == searches


def test_a_failed_write_is_planned_anew(agency: Agency, path: str) -> None:
    failures = [ToolException("sold out")]

    @tool
    def book(flight: str) -> str:
        """Book a flight."""
        if failures:
            raise failures.pop()
        return f"{flight} is booked"

    book.handle_tool_error = True
    witness = Witness()
    agent = planning_agent(agency, tools=replaced(agency.tools, book))

    messages = invoke(agent, asking(BOOKING), {"callbacks": [witness]}, path=path)["messages"]

    assert messages[6].status == "error"
    assert len(witness.of("start")) == 2
    check_conversation(messages)


class Thorough(TravelPolicy):
    """Content with nothing less than the whole errand."""

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        done = self._done(question.request, (*question.path, call))
        return super().score_observation(question, call)[0], 0.9 if done == len(ERRANDS[question.request]) else 0.3


def test_a_plan_explored_in_a_sandbox_goes_on_after_each_of_its_writes(agency: Agency, path: str) -> None:
    desk = Desk()
    sandbox = ObjectSandbox.of_methods(desk)
    tools = replaced(agency.tools, *sandbox.tools)
    agent = planning_agent(agency, model=OfflineChatModel(policy=Thorough()), tools=tools, planner={"sandbox": sandbox})

    messages = invoke(agent, asking(ROUND_TRIP), path=path)["messages"]

    made = [call["args"] for message in check_conversation(messages) for call in getattr(message, "tool_calls", [])]
    assert made == [arguments for _, arguments in ERRANDS[ROUND_TRIP]]
    assert desk.bookings == {"OS-1": 1, "RO-1": 1}


def test_another_model_may_plan(agency: Agency, path: str) -> None:
    planner, model = ListeningModel(), ListeningModel()

    messages = invoke(planning_agent(agency, model=model, planner={"model": planner}), asking(PRICE), path=path)[
        "messages"
    ]

    assert outline(check_conversation(messages)) == PRICED
    assert {heard.kind for heard in planner.heard} == {"step"}
    assert [heard.kind for heard in model.heard] == ["answer"]


def test_a_function_may_judge(agency: Agency, path: str) -> None:
    model = ListeningModel()

    def judge(request: JudgeRequest) -> Any:
        steps = ["find_hotels", "check_weather"]
        if request.stage == "pre":
            return [0.9 if call.tool in steps else 0.3 for call in request.calls]
        return 0.9, 0.9 if request.calls[0].tool == "check_weather" else 0.4

    agent = planning_agent(agency, model=model, planner={"judge": judge, "config": APART})
    messages = invoke(agent, asking(PRICE), path=path)["messages"]

    check_conversation(messages)
    assert "call check_weather" in outline(messages)
    assert {heard.kind for heard in model.heard} == {"propose", "answer"}


def down(*_: Any) -> Any:
    raise ConnectionError("down")


@pytest.mark.parametrize(
    "planner",
    [{"model": ScriptedChatModel(replies=[down] * 99)}, {"model": travel_model(), "judge": down, "config": APART}],
    ids=["model", "judge"],
)
def test_when_the_planner_is_down_the_agent_goes_on_without_it(
    agency: Agency, path: str, planner: dict[str, Any]
) -> None:
    witness = Witness()
    call = {"name": "find_flights", "args": {"city": "Oslo"}, "id": "call_1"}
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call]), "It costs ninety."])

    messages = invoke(
        planning_agent(agency, model=model, planner=planner), asking(PRICE), {"callbacks": [witness]}, path=path
    )["messages"]

    assert outline(check_conversation(messages)) == ["human", "call find_flights", "result find_flights", "answer"]
    (fallback,) = witness.of("fallback")
    assert "down" in fallback["reason"]


@pytest.mark.parametrize(
    ("given", "tools"),
    [([HumanMessage("")], None), ([HumanMessage([])], None), ([], None), ([HumanMessage("Hello")], [])],
    ids=["empty text", "empty content", "no message", "no tools"],
)
def test_where_there_is_nothing_to_plan_the_model_answers(agency: Agency, path: str, given: Any, tools: Any) -> None:
    witness = Witness()
    agent = planning_agent(agency, model=ScriptedChatModel(replies=["Hello!"]), tools=tools)

    messages = invoke(agent, {"messages": given}, {"callbacks": [witness]}, path=path)["messages"]

    assert [message.text for message in check_conversation(messages)[len(given) :]] == ["Hello!"]
    assert witness.events == []


class TravellerState(AgentState[Any]):
    budget: int


@dataclass
class Traveller:
    name: str


def test_searched_tools_get_state_context_store_and_call_id(agency: Agency, path: str) -> None:
    @tool
    def read_price(flight: str, state: Annotated[Any, InjectedState], runtime: ToolRuntime[Traveller]) -> str:
        """Read the price of a flight."""
        assert runtime.store is not None
        runtime.store.put(("seen",), flight, {"outline": outline(state["messages"]), "call": runtime.tool_call_id})
        return f"{flight} costs {runtime.context.name} {state['budget']}"

    store = InMemoryStore()
    agent = planning_agent(
        agency,
        tools=replaced(agency.tools, read_price),
        state_schema=TravellerState,
        context_schema=Traveller,
        store=store,
    )

    state = invoke(agent, {**asking(PRICE), "budget": 90}, context=Traveller("Ann"), path=path)

    messages = check_conversation(state["messages"])
    assert messages[4].text == "OS-1 costs Ann 90"
    noted = store.get(("seen",), "OS-1")
    assert noted is not None
    assert noted.value == {"outline": LOOKED_UP[:4], "call": messages[3].tool_calls[0]["id"]}


def test_the_messages_of_a_plan_bear_the_name_of_the_agent(agency: Agency, path: str) -> None:
    messages = invoke(planning_agent(agency, name="traveller"), asking(BOOKING), path=path)["messages"]

    speakers = {message.name for message in check_conversation(messages) if isinstance(message, AIMessage)}
    assert speakers == {"traveller"}


def in_threads(agent: Any, given: list[Any]) -> list[Any]:
    with ThreadPoolExecutor(len(given)) as pool:
        return list(pool.map(agent.invoke, given))


def on_a_loop(agent: Any, given: list[Any]) -> list[Any]:
    async def gather() -> list[Any]:
        return list(await asyncio.gather(*map(agent.ainvoke, given)))

    return asyncio.run(gather())


@pytest.mark.parametrize("run_all", [in_threads, on_a_loop])
def test_one_agent_serves_several_conversations_at_once(agency: Agency, run_all: Callable[..., list[Any]]) -> None:
    requests = [PRICE, BOOKING, ROUND_TRIP] * 4
    agent = planning_agent(agency, planner={"when": lambda _: True})
    alone = [outline(agent.invoke(asking(request))["messages"]) for request in requests[:3]] * 4

    states = run_all(agent, [asking(request) for request in requests])

    assert [outline(check_conversation(state["messages"])) for state in states] == alone
