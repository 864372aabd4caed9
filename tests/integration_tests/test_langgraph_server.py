"""The graphs of `cookbook/langgraph.json` under `langgraph dev`, driven over its HTTP API, as LangGraph Studio is."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conversations import check_conversation
from langchain_core.messages import messages_from_dict
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from travel import BOOKING

pytest.importorskip(
    "langgraph_api",
    reason="the server of langgraph dev: pip install 'langgraph-cli[inmem]'",
)

COOKBOOK = Path(__file__).parents[2] / "cookbook"

GRAPHS = {
    "planning_agent": "PlanReviewMiddleware.after_model",
    "own_graph": "review",
    "three_systems": None,
}
"""The graphs, and the node where a person is asked, if the test is one of a booking."""

READS = ["find_flights", "read_price", "check_weather"]

DEEP = '''
"""Agents that search in an inner graph: in forks of a world, and with a tool that has no async form."""

from langchain_core.tools import tool
from tests.integration_tests.travel import EFFECTS, Agency, travel_model

from langchain_tooltree import ObjectSandbox, create_tooltree_agent
from langchain_tooltree.tooltree.search import KernelConfig


class Bookings:
    def __init__(self) -> None:
        self.made = []

    def book(self, flight: str) -> str:
        """Book a flight."""
        self.made.append(flight)
        return f"{flight} is booked"


@tool
def read_price(flight: str) -> str:
    """Read the price of a flight."""
    return f"{flight} costs 90"


world = ObjectSandbox.of_methods(Bookings())
reads = [read_price if each.name == "read_price" else each for each in Agency(0.001).tools if each.name in EFFECTS]
sandboxed = create_tooltree_agent(travel_model(), [*reads, *world.tools], effects=EFFECTS, sandbox=world)
deep = KernelConfig(max_rollouts=6, selection="smoothed", coarse_planner=True)
judged = create_tooltree_agent(
    travel_model(),
    [*reads, *(each for each in Agency().tools if each.name == "book")],
    judge=lambda request: [0.9] * len(request.calls) if request.stage == "pre" else (0.9, 0.3),
    effects=EFFECTS,
    config=deep,
)
'''

SECONDS_TO_START = 60

ALONE = {
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
}
"""The server then calls nobody."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncLangGraphClient]:
    """A client of one server for all tests, started as the guide says, in a copy of the cookbook."""
    project = tmp_path_factory.mktemp("cookbook")
    served = json.loads((COOKBOOK / "langgraph.json").read_text(encoding="utf-8"))
    served["graphs"] |= {name: f"./deep.py:{name}" for name in ("sandboxed", "judged")}
    (project / "langgraph.json").write_text(json.dumps(served), encoding="utf-8")
    (project / "deep.py").write_text(DEEP, encoding="utf-8")
    shutil.copytree(COOKBOOK / "studio", project / "studio")
    shutil.copy(COOKBOOK / "offline_model.py", project)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "langgraph_cli",
        "dev",
        "--no-browser",
        "--no-reload",
        "--port",
        str(port),
    ]
    log = project / "log.txt"
    with log.open("w") as output:
        server = subprocess.Popen(  # noqa: S603 - own code
            command,
            cwd=project,
            env={
                **os.environ,
                **ALONE,
                "PYTHONPATH": str(COOKBOOK.parent),
                "TOOLTREE_MODEL": "",
            },
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/ok", server, log)
            with get_sync_client(url=f"http://127.0.0.1:{port}", api_key=None) as made:
                yield made
        finally:
            server.terminate()
            server.wait(timeout=SECONDS_TO_START)


def wait_for(address: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until the server answers."""
    until = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < until and server.poll() is None:
        try:
            if httpx.get(address, trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    pytest.fail(f"The server did not start: {log.read_text(encoding='utf-8')[-2000:]}")


def run(
    client: SyncLangGraphClient, graph: str, thread: str, **given: Any
) -> list[dict[str, Any]]:
    """Run a graph; the events of its search."""
    events = []
    for part in client.runs.stream(
        thread, graph, stream_mode=["custom", "updates"], **given
    ):
        assert part.event != "error", part.data
        if part.event == "custom":
            events.append(part.data["tooltree"])
    return events


def asking(request: str) -> dict[str, Any]:
    """The input that asks for something."""
    return {"messages": [{"role": "user", "content": request}]}


@pytest.mark.parametrize("graph", GRAPHS)
def test_studio_shows_what_happens_in_a_graph_and_what_it_takes(
    client: SyncLangGraphClient, graph: str
) -> None:
    (assistant,) = client.assistants.search(graph_id=graph)
    drawn = client.assistants.get_graph(assistant["assistant_id"])
    schemas = client.assistants.get_schemas(assistant["assistant_id"])

    nodes = {node["id"]: node.get("metadata", {}) for node in drawn["nodes"]}
    assert "model" in nodes
    assert nodes["tools"] == {"__tools": [*READS, "book_flight"]}
    assert {"review", "PlanReviewMiddleware.after_model"} & set(nodes)
    assert not [edge for edge in drawn["edges"] if edge["source"] == edge["target"]]
    assert list(schemas["input_schema"]["properties"]) == ["messages"]
    assert set(schemas["output_schema"]["properties"]) <= {
        "messages",
        "structured_response",
    }


@pytest.mark.parametrize("graph", [name for name, asks in GRAPHS.items() if asks])
def test_a_booking_is_searched_approved_and_carried_out_over_http(
    client: SyncLangGraphClient, graph: str
) -> None:
    thread = client.threads.create()["thread_id"]
    run(client, graph, thread, input=asking("Book the cheapest flight to Oslo."))

    state = client.threads.get_state(thread)
    read = [
        message["name"]
        for message in state["values"]["messages"]
        if message["type"] == "tool"
    ]
    assert read == ["find_flights", *["read_price"] * 3]
    assert state["next"] == [GRAPHS[graph]]
    (question,) = state["interrupts"]
    assert question["value"]["action_requests"][0]["args"] == {"flight": "OS-2"}
    decisions = [{"type": "approve"} for _ in question["value"]["action_requests"]]
    run(client, graph, thread, command={"resume": {"decisions": decisions}})

    state = client.threads.get_state(thread)
    assert state["next"] == []
    assert state["values"]["messages"][-1]["content"] == "OS-2 is booked."


@pytest.mark.parametrize(
    ("graph", "last"), [("sandboxed", "book"), ("judged", "find_hotels")]
)
def test_a_deep_search_never_blocks_the_servers_event_loop(
    client: SyncLangGraphClient, graph: str, last: str
) -> None:
    thread = client.threads.create()["thread_id"]
    events = run(client, graph, thread, input=asking(BOOKING))

    # The server has a call that blocks raise; in a deep search that would be an observation, or a question unanswered.
    assert {event["status"] for event in events if event["type"] == "execute"} <= {"ok"}
    assert [
        event
        for event in events
        if event["type"] in {"judge", "evaluate"} and not event["scored"]
    ] == []
    assert not [event for event in events if event["type"] == "fallback"]
    messages = messages_from_dict(
        [
            {"type": each["type"], "data": each}
            for each in client.threads.get_state(thread)["values"]["messages"]
        ]
    )
    check_conversation(messages)
    assert [message.name for message in messages if message.type == "tool"][-1] == last


def test_what_threads_learn_is_kept_in_the_servers_store(
    client: SyncLangGraphClient,
) -> None:
    for city in ("Oslo", "Rome"):
        thread = client.threads.create()["thread_id"]
        run(
            client,
            "three_systems",
            thread,
            input=asking(f"Which flight to {city} is cheapest?"),
        )
        assert (
            "is the cheapest"
            in client.threads.get_state(thread)["values"]["messages"][-1]["content"]
        )

    items = client.store.search_items(("tooltree",), limit=100)["items"]
    assert sum(item["namespace"][-1] == "trajectories" for item in items) == 2
