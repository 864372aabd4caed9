"""Planners among other agents: below a parent graph, side by side, under a supervisor, in a swarm."""

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from agents import THREAD, Witness, invoke, stream
from conversations import check_conversation, outline
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from langgraph_supervisor import create_supervisor
from langgraph_swarm import create_handoff_tool, create_swarm
from members import KINDS, planner_agent
from travel import BOOKING, EFFECTS, ERRANDS, PRICE, ROUND_TRIP, Agency, Step, TravelPolicy, asking

from langchain_tooltree import ConfigurationError, ObjectSandbox
from langchain_tooltree.testing import Made, Question, ScriptedChatModel
from tests.internals.tooltree import deciding

LOOKED_UP = ["call find_flights", "result find_flights", "call read_price", "result read_price"]
BOOKED = [*LOOKED_UP, "call book", "result book", "answer"]

APPROVE = {"type": "approve"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """How the planner's agent is made."""
    return str(request.param)


# --- below a parent graph ---


def below(agent: Any) -> StateGraph[Any, Any, Any, Any]:
    """A parent with the agent as a node."""
    host = StateGraph(MessagesState)
    host.add_node("desk", agent)
    host.add_edge(START, "desk")
    return host


def calling(agent: Any) -> StateGraph[Any, Any, Any, Any]:
    """A parent with a node that calls the agent."""

    def desk(state: MessagesState) -> Any:
        return agent.invoke(state)

    return below(desk)


HOSTS: dict[str, Callable[[Any], StateGraph[Any, Any, Any, Any]]] = {
    "below a parent": below,
    "two levels below": lambda agent: below(below(agent).compile()),
    "called in a node": calling,
    "in a swarm": lambda agent: create_swarm([agent], default_active_agent=agent.name),
}


class Bookings:
    """A world to book in."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def book(self, flight: str) -> str:
        """Book a flight."""
        self.made.append(flight)
        return f"{flight} is booked"


class BooksToTheEnd(TravelPolicy):
    """A booking in a sandbox is no reason to stop before the errand is done."""

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """High for a right step; the goal is reached with the last."""
        steps = self._steps(question.request)
        before = self._done(question.request, question.path)
        after = self._done(question.request, (*question.path, call))
        return (0.45, 0.1) if after == before else (0.9, 0.95 if after == len(steps) else 0.3)


def travelling(kind: str, **options: Any) -> Any:
    """An agent that tries bookings out in a sandbox, and goes on after each from the tree that it has."""
    world = ObjectSandbox.of_methods(Bookings())
    tools = [*(each for each in Agency().tools if each.name in EFFECTS), *world.tools]
    return planner_agent(kind, tools, policy=BooksToTheEnd(), sandbox=world, name="desk", **options)


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
def test_an_agent_searches_among_others_as_it_does_alone(kind: str, path: str, host: Any) -> None:
    alone, among = (
        [
            event["tooltree"]
            for _, event in stream(graph, asking(ROUND_TRIP), THREAD, path=path, stream_mode="custom", subgraphs=True)
        ]
        for graph in (
            travelling(kind, checkpointer=InMemorySaver()),
            host(travelling(kind)).compile(checkpointer=InMemorySaver()),
        )
    )

    assert len([event for event in alone if event["type"] == "start"]) == 3, (
        "a search before each booking, and the last"
    )
    assert among == alone


def test_an_agent_that_shares_its_messages_is_interrupted_and_resumed_with_its_parent(
    kind: str, agency: Agency, path: str
) -> None:
    graph = below(planner_agent(kind, agency.tools, review=True)).compile(checkpointer=InMemorySaver())

    stopped = invoke(graph, asking(BOOKING), THREAD, path=path)
    [question] = stopped["__interrupt__"]
    assert question.value["action_requests"][0]["name"] == "book"
    assert outline(stopped["messages"]) == ["human"], "the agent's messages are the parent's once it is done"
    made = agency.calls.copy()
    messages = invoke(graph, deciding([question], APPROVE), THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == ["human", *BOOKED]
    assert agency.calls - made == {"book OS-1": 1}
    messages = invoke(graph, asking(PRICE), THREAD, path=path)["messages"]
    assert outline(check_conversation(messages)) == ["human", *BOOKED, "human", *LOOKED_UP, "answer"]


class Report(TypedDict, total=False):
    wish: str
    said: list[BaseMessage]


def test_an_agent_with_a_state_of_its_own_is_interrupted_and_resumed_with_its_parent(
    kind: str, agency: Agency, path: str
) -> None:
    agent = planner_agent(kind, agency.tools, review=True)

    def desk(state: Report) -> Report:
        return {"said": agent.invoke(asking(state["wish"]))["messages"]}

    async def adesk(state: Report) -> Report:
        return {"said": (await agent.ainvoke(asking(state["wish"])))["messages"]}

    host = StateGraph(Report)
    host.add_node("desk", desk if path == "sync" else adesk)
    host.add_edge(START, "desk")
    graph = host.compile(checkpointer=InMemorySaver())

    stopped = invoke(graph, {"wish": BOOKING}, THREAD, path=path)
    [question] = stopped["__interrupt__"]
    made = agency.calls.copy()
    state = invoke(graph, deciding([question], APPROVE), THREAD, path=path)

    assert outline(check_conversation(state["said"])) == ["human", *BOOKED]
    assert agency.calls - made == {"book OS-1": 1}


class Reports(TypedDict):
    wishes: dict[str, str]
    said: Annotated[dict[str, list[BaseMessage]], operator.or_]


def test_two_agents_in_one_step_are_both_interrupted_and_resumed(kind: str, agency: Agency, path: str) -> None:
    agent = planner_agent(kind, agency.tools, review=True)

    def desk(name: str) -> Any:
        def ask(state: Reports) -> Any:
            return {"said": {name: agent.invoke(asking(state["wishes"][name]))["messages"]}}

        async def aask(state: Reports) -> Any:
            return {"said": {name: (await agent.ainvoke(asking(state["wishes"][name])))["messages"]}}

        return ask if path == "sync" else aask

    host = StateGraph(Reports)
    for name in ("left", "right"):
        host.add_node(name, desk(name))
        host.add_edge(START, name)
    graph = host.compile(checkpointer=InMemorySaver())

    wishes = {"left": f"{BOOKING} #1", "right": f"{BOOKING} #2"}
    questions = invoke(graph, {"wishes": wishes, "said": {}}, THREAD, path=path)["__interrupt__"]
    assert len({question.id for question in questions}) == len(questions) == len(wishes)
    made = agency.calls.copy()
    resume = {question.id: deciding([question], APPROVE).resume for question in questions}
    said = invoke(graph, Command(resume=resume), THREAD, path=path)["said"]

    assert agency.calls - made == {"book OS-1": len(wishes)}
    for name, wish in wishes.items():
        assert outline(check_conversation(said[name])) == ["human", *BOOKED]
        assert said[name][0].text == wish


def test_two_agents_in_one_step_may_write_to_the_same_conversation(kind: str, agency: Agency, path: str) -> None:
    host = StateGraph(MessagesState)
    for name in ("left", "right"):
        host.add_node(name, planner_agent(kind, agency.tools))
        host.add_edge(START, name)
    graph = host.compile(checkpointer=InMemorySaver())

    messages = invoke(graph, asking(BOOKING), THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == ["human", *BOOKED, *BOOKED]
    messages = invoke(graph, asking(PRICE), THREAD, path=path)["messages"]
    assert outline(check_conversation(messages))[-11:] == ["human", *LOOKED_UP, "answer", *LOOKED_UP, "answer"]


# --- under a supervisor ---


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@pytest.mark.parametrize("output_mode", ["full_history", "last_message"])
def test_a_worker_of_a_supervisor_plans_whenever_it_is_handed_the_conversation(
    kind: str, agency: Agency, path: str, output_mode: Any
) -> None:
    handing_over = AIMessage("", tool_calls=[{"name": "transfer_to_travel", "args": {}, "id": "call_transfer"}])
    again = AIMessage("", tool_calls=[{"name": "transfer_to_travel", "args": {}, "id": "call_transfer_again"}])
    supervisor = ScriptedChatModel(replies=[handing_over, "It is booked.", again, "It costs 90."])
    worker = planner_agent(kind, agency.tools, name="travel")
    graph = create_supervisor([worker], model=supervisor, output_mode=output_mode).compile(checkpointer=InMemorySaver())
    witness = Witness()
    config = {**THREAD, "callbacks": [witness]}

    messages = invoke(graph, asking(BOOKING), config, path=path)["messages"]
    assert agency.calls["book OS-1"] == 1
    assert "All is done for you and it says OS-1 is booked" in [message.text for message in messages]
    searches = len(witness.of("start"))
    messages = invoke(graph, asking(PRICE), config, path=path)["messages"]

    assert len(witness.of("start")) == searches + 1 > 1
    worked = [LOOKED_UP, BOOKED[-3:-1]] if output_mode == "full_history" else [[], []]
    there = ["call transfer_to_travel", "result transfer_to_travel"]
    back = ["answer", "call transfer_back_to_supervisor", "result transfer_back_to_supervisor", "answer"]
    first, second = [*worked[0], *worked[1]], worked[0]
    assert outline(check_conversation(messages)) == ["human", *there, *first, *back, "human", *there, *second, *back]


# --- in a swarm ---


class HandsOver(TravelPolicy):
    """Finds flights, and leaves the booking to the clerk."""

    @staticmethod
    def _steps(request: str) -> list[Step]:
        return [("transfer_to_clerk", {}) if step[0] == "book" else step for step in ERRANDS[request]]

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """Handing over is as good as done."""
        return (0.9, 0.9) if call.tool == "transfer_to_clerk" else super().score_observation(question, call)


class ToolRuns(BaseCallbackHandler):
    """Notes which tools were run, while searching or by a tools node."""

    def __init__(self) -> None:
        self.searched: list[str] = []
        self.carried_out: list[str] = []

    def on_tool_start(self, serialized: Any, *_: Any, tags: list[str] | None = None, **__: Any) -> None:
        (self.searched if "tooltree" in (tags or ()) else self.carried_out).append(serialized["name"])


def test_a_member_of_a_swarm_hands_over_by_an_ordinary_call_and_the_next_one_plans_on(
    kind: str, agency: Agency, path: str
) -> None:
    searching = [each for each in agency.tools if each.name != "book"]
    scout = planner_agent(kind, [*searching, create_handoff_tool(agent_name="clerk")], policy=HandsOver(), name="scout")
    clerk = planner_agent(kind, [*agency.tools, create_handoff_tool(agent_name="scout")], name="clerk")
    swarm = create_swarm([scout, clerk], default_active_agent="scout").compile(checkpointer=InMemorySaver())
    runs, witness = ToolRuns(), Witness()
    config = {**THREAD, "callbacks": [runs, witness]}

    state = invoke(swarm, asking(BOOKING), config, path=path)

    handed_over = ["call transfer_to_clerk", "result transfer_to_clerk"]
    done = ["human", *LOOKED_UP, *handed_over, *BOOKED[-3:]]
    assert outline(check_conversation(state["messages"])) == done
    assert state["active_agent"] == "clerk"
    assert runs.carried_out == ["transfer_to_clerk", "book"]
    assert set(runs.searched) <= set(EFFECTS)
    if kind == "agent":
        names = [message.name for message in state["messages"] if isinstance(message, AIMessage)]
        assert names == ["scout", "scout", "scout", "clerk", "clerk"]
    assert len(witness.of("start")) == 3, "also after the booking"

    state = invoke(swarm, asking(PRICE), config, path=path)
    assert outline(check_conversation(state["messages"])) == [*done, "human", *LOOKED_UP, "answer"]


def test_a_handoff_cannot_be_declared_a_read(kind: str, agency: Agency) -> None:
    tools = [*agency.tools, create_handoff_tool(agent_name="clerk")]

    with pytest.raises(ConfigurationError, match="'transfer_to_clerk' is declared a read but returns a Command"):
        planner_agent(kind, tools, effects={**EFFECTS, "transfer_to_clerk": "read"})
