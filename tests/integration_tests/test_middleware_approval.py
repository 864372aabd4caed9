"""The planner beside `HumanInTheLoopMiddleware`: nothing that a person wants to see first is tried before they did."""

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest
from agents import BOOKED, LOOKED_UP, PRICED, THREAD, Desk, Witness, invoke, planning_agent, replaced
from conversations import check_conversation, outline
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from travel import BOOKING, PRICE, Agency, asking

from langchain_tooltree import ObjectSandbox

Mode = Literal["batched", "per_call"]


@pytest.fixture(params=["batched", "per_call"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """How the middleware asks: once for a turn, or once for each call."""
    asks: Mode = request.param
    return asks


def approving_agent(agency: Agency, *tools: str, mode: Mode, **options: Any) -> Any:
    """An agent that asks a person about some tools."""
    approval = HumanInTheLoopMiddleware(dict.fromkeys(tools, True), interrupt_mode=mode)
    planner = {"host_middleware": [approval], **options.pop("planner", {})}
    return planning_agent(agency, approval, planner=planner, **{"checkpointer": InMemorySaver(), **options})


def answering(state: Any, decision: dict[str, Any]) -> Command[Any]:
    """The decision on the only call that waits, as the middleware wants it."""
    (waiting,) = state["__interrupt__"]
    batched = "action_requests" in waiting.value
    return Command(resume={"decisions": [decision]} if batched else {waiting.id: decision})


def asked_about(state: Any) -> list[tuple[str, dict[str, Any]]]:
    """The calls that wait."""
    values = [waiting.value for waiting in state["__interrupt__"]]
    requests = [request for value in values for request in value.get("action_requests", [value])]
    return [(request["name"], request["args"]) for request in requests]


OTHER_FLIGHT = {"name": "book", "args": {"flight": "OS-2"}}

DECISIONS = {
    "approve": ({"type": "approve"}, ["book OS-1"]),
    "edit": ({"type": "edit", "edited_action": OTHER_FLIGHT}, ["book OS-2"]),
    "reject": ({"type": "reject", "message": "Too early in the day."}, []),
    "respond": ({"type": "respond", "message": "I booked it by phone."}, []),
}
"""What a person decides, and what is booked then."""


@pytest.mark.parametrize(("decision", "booked"), DECISIONS.values(), ids=DECISIONS)
def test_a_write_waits_for_a_person_and_their_decision_is_carried_out(
    agency: Agency, path: str, mode: Mode, decision: Any, booked: list[str]
) -> None:
    agent = approving_agent(agency, "book", mode=mode)
    witness = Witness()
    config = {**THREAD, "callbacks": [witness]}

    state = invoke(agent, asking(BOOKING), config, path=path)
    assert asked_about(state) == [("book", {"flight": "OS-1"})]
    assert booked_in(agency) == []
    messages = invoke(agent, answering(state, decision), config, path=path)["messages"]

    assert outline(check_conversation(messages)) == BOOKED
    assert booked_in(agency) == booked
    assert len(witness.of("start")) == 2, "one for each model call, before the decision and after it"


def booked_in(agency: Agency) -> list[str]:
    return [label for label in agency.calls.elements() if label.startswith("book")]


def test_a_tool_that_needs_approval_is_never_searched_even_if_it_only_reads(
    agency: Agency, path: str, mode: Mode
) -> None:
    agent = approving_agent(agency, "read_price", mode=mode)

    state = invoke(agent, asking(PRICE), THREAD, path=path)
    assert asked_about(state) == [("read_price", {"flight": "OS-1"})]
    assert agency.calls["read_price OS-1"] == 0
    messages = invoke(agent, answering(state, {"type": "approve"}), THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == PRICED
    assert agency.calls["read_price OS-1"] == 1


def test_nobody_is_asked_about_a_write_that_is_tried_in_a_fork(agency: Agency, path: str, mode: Mode) -> None:
    desk = Desk()
    sandbox = ObjectSandbox.of_methods(desk)
    tools = replaced(agency.tools, *sandbox.tools)
    agent = approving_agent(agency, "book", mode=mode, tools=tools, planner={"sandbox": sandbox})

    state = invoke(agent, asking(BOOKING), THREAD, path=path)
    assert outline(state["messages"]) == [*LOOKED_UP, "call book"]
    assert desk.bookings == {}
    messages = invoke(agent, answering(state, {"type": "approve"}), THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == BOOKED
    assert desk.bookings == {"OS-1": 1}


async def step(database: Path, agency: Agency, given: Any, *, path: str, mode: Mode) -> Any:
    """Let an agent take a step on what a database holds: one made for this step, as after a restart."""
    if path == "async":
        async with AsyncSqliteSaver.from_conn_string(str(database)) as checkpointer:
            return await approving_agent(agency, "book", mode=mode, checkpointer=checkpointer).ainvoke(given, THREAD)
    with SqliteSaver.from_conn_string(str(database)) as checkpointer:
        return approving_agent(agency, "book", mode=mode, checkpointer=checkpointer).invoke(given, THREAD)


@pytest.mark.parametrize(("decision", "booked"), DECISIONS.values(), ids=DECISIONS)
async def test_a_decision_may_come_after_a_restart(
    tmp_path: Path, agency: Agency, path: str, mode: Mode, decision: Any, booked: list[str]
) -> None:
    database = tmp_path / "threads.sqlite"

    state = await step(database, Agency(), asking(BOOKING), path=path, mode=mode)
    state = await step(database, agency, answering(state, decision), path=path, mode=mode)

    assert outline(check_conversation(state["messages"])) == BOOKED
    assert agency.calls == Counter(booked), "what was searched before is known after the restart"
