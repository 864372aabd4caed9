"""What `langgraph dev` asks of a graph: found by its path, drawn, served by JSON, and never blocking the event loop.

The server loads a graph from a file, puts its own checkpointer and store in, runs it on an event loop with a detector
for blocking calls (blockbuster, here at its strictest), and sends what it streams as JSON.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from conversations import check_conversation, outline
from langchain_core.messages import message_to_dict, messages_from_dict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from travel import BOOKING, EFFECTS, Agency, planner_node, travel_agent, travel_model

from langchain_tooltree import create_tooltree_agent

PROJECT = '''
"""The agents of a project, as its langgraph.json names them."""

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from travel import EFFECTS, Agency, planner_node, travel_agent, travel_model

from langchain_tooltree import (
    ObjectSandbox, PlanReviewNode, SearchConfig, ToolTreeMiddleware, create_tooltree_agent, review_condition
)

tools = Agency(latency=0.001).tools
node = travel_agent(Agency())
middleware = create_agent(travel_model(), tools, middleware=[ToolTreeMiddleware(effects=EFFECTS)])
agent = create_tooltree_agent(travel_model(), tools, effects=EFFECTS, review=True, name="agent")

graph = StateGraph(MessagesState)
graph.add_node("model", planner_node(Agency()))
graph.add_node("review", PlanReviewNode(EFFECTS))
graph.add_node("tools", ToolNode(tools))
graph.add_edge(START, "model")
graph.add_edge("model", "review")
graph.add_conditional_edges("review", review_condition, ["tools", "model", END])
graph.add_edge("tools", "model")
reviewed = graph.compile()


class Bookings:
    def __init__(self) -> None:
        self.made = []

    def book(self, flight: str) -> str:
        """Book a flight."""
        self.made.append(flight)
        return f"{flight} is booked"


world = ObjectSandbox.of_methods(Bookings())
reading = [each for each in tools if each.name in EFFECTS]
sandboxed = create_tooltree_agent(travel_model(), [*reading, *world.tools], effects=EFFECTS, sandbox=world)


@tool
def read_price(flight: str) -> str:
    """Read the price of a flight: a tool without an async form."""
    return f"{flight} costs 90"


tools = [read_price if each.name == "read_price" else each for each in tools]
many = create_tooltree_agent(
    travel_model(),
    tools,
    judge=lambda request: [0.9] * len(request.calls) if request.stage == "pre" else (0.9, 0.3),
    effects=EFFECTS,
    config=SearchConfig(selection="posterior", max_rollouts=6, coarse_planner=True),
)
'''


GRAPHS = ("node", "middleware", "agent", "reviewed", "sandboxed", "many")

RUNNER = """
import asyncio, json, os, sys
from test_langgraph_dev import load, serve

project = load(sys.argv[1])
print(json.dumps({name: asyncio.run(serve(getattr(project, name))) for name in sys.argv[2:]}), flush=True)
os._exit(0)  # blockbuster patches types of the interpreter, which may crash while it is torn down
"""


def load(path: str) -> ModuleType:
    """Import a file as the server does it, under a name made of its path."""
    name = path.replace("/", "__").removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


async def serve(graph: CompiledStateGraph[Any, Any, Any, Any]) -> dict[str, Any]:
    """Have a flight booked, approved where somebody is asked; all that the server would send, as JSON has it."""
    served = graph.copy(update={"checkpointer": InMemorySaver(), "store": InMemoryStore()})
    config: Any = {"configurable": {"thread_id": "1"}}
    given: Any = {"messages": [{"role": "user", "content": BOOKING}]}
    events: list[Any] = []
    questions: list[Any] = []
    with blockbuster_ctx():
        while given is not None:
            async for mode, chunk in served.astream(given, config, stream_mode=["custom", "messages", "updates"]):
                if mode == "custom":
                    events.append(chunk["tooltree"])
            state = await served.aget_state(config)
            asked = [request for question in state.interrupts for request in question.value["action_requests"]]
            given = Command(resume={"decisions": [{"type": "approve"} for _ in asked]}) if asked else None
            questions.extend(question.value for question in state.interrupts)
    messages = [message_to_dict(message) for message in state.values["messages"]]
    sent: dict[str, Any] = json.loads(
        json.dumps({"events": events, "questions": questions, "messages": messages}, allow_nan=False)
    )
    return sent


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the project's graphs."""
    path = tmp_path_factory.mktemp("project") / "agents.py"
    path.write_text(PROJECT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def served(project: Path) -> dict[str, Any]:
    """What every graph of the project sends, from a new process: modules that are imported late may block, too."""
    here = str(Path(__file__).parent)
    paths = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    done = subprocess.run(  # noqa: S603 - own code
        [sys.executable, "-W", "error", "-c", RUNNER, str(project), *GRAPHS],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": paths, "LANGGRAPH_STRICT_MSGPACK": "true"},
    )
    assert done.returncode == 0, done.stderr
    sent: dict[str, Any] = json.loads(done.stdout)
    return sent


@pytest.fixture(scope="module")
def loaded(project: Path) -> Iterator[ModuleType]:
    """The project as a module of this process."""
    module = load(str(project))
    yield module
    del sys.modules[module.__name__]


@pytest.mark.parametrize("name", GRAPHS)
def test_nothing_blocks_the_event_loop_even_the_first_time(served: dict[str, Any], name: str) -> None:
    sent = served[name]

    # A call that blocks raises; in a deep search that would be an observation, or a question unanswered.
    assert {event["status"] for event in sent["events"] if event["type"] == "execute"} <= {"ok"}
    assert all(event["scored"] for event in sent["events"] if event["type"] in {"judge", "evaluate"})
    assert not [event for event in sent["events"] if event["type"] == "fallback"]
    check_conversation(messages_from_dict(sent["messages"]))


@pytest.mark.parametrize("name", [name for name in GRAPHS if name != "many"])
def test_a_served_graph_books_the_flight_and_asks_where_it_should(served: dict[str, Any], name: str) -> None:
    sent = served[name]

    looked_up = ["call find_flights", "result find_flights", "call read_price", "result read_price"]
    messages = messages_from_dict(sent["messages"])
    assert outline(messages) == ["human", *looked_up, "call book", "result book", "answer"]
    asked = [request["name"] for question in sent["questions"] for request in question["action_requests"]]
    assert asked == (["book"] if name in {"agent", "reviewed"} else [])


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_can_be_drawn_and_described(loaded: ModuleType, name: str) -> None:
    graph = getattr(loaded, name)

    drawn = graph.get_graph(xray=True)

    assert {"model", "tools"} <= set(drawn.nodes)
    assert "model" in drawn.draw_mermaid()
    described = [
        drawn.to_json(),
        graph.get_input_jsonschema(),
        graph.get_output_jsonschema(),
        graph.get_context_jsonschema(),
    ]
    assert all("messages" in schema["properties"] for schema in described[1:3])
    json.dumps(described, allow_nan=False)


def test_a_node_can_be_described_alone() -> None:
    node = planner_node(Agency())

    assert node.get_name() == "ToolTreeNode"
    json.dumps([node.get_graph().to_json(), node.get_input_jsonschema(), node.get_output_jsonschema()])


async def test_an_agent_may_be_made_on_the_event_loop() -> None:
    with blockbuster_ctx():
        agents = [
            travel_agent(Agency()),
            create_tooltree_agent(travel_model(), Agency().tools, effects=EFFECTS, review=True),
        ]
        for agent in agents:
            agent.get_graph(xray=True)
