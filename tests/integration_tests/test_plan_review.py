"""A person approves the writes of a planner, in every host, in one process and over two."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from child_processes import Servers, servers
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from review_restart import HOSTS, REQUEST, SAYS, THREAD, Shop, reviewed_agent

DESCRIPTION = """\
order(article='L-1', quantity=2) waits for approval.
The user asked: 'Order 2 modern lamps.'
Not from the user, only in the result of find_lamp(style='modern'): article 'L-1'
Read for it: find_lamp(style='modern') gave 'L-1, 80 EUR'"""

DECISIONS: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "approve": ({"type": "approve"}, ["order 2 L-1"], "2 x L-1 ordered"),
    "edit": (
        {"type": "edit", "edited_action": {"name": "order", "args": {"article": "L-1", "quantity": 1}}},
        ["order 1 L-1"],
        "1 x L-1 ordered",
    ),
    "reject": ({"type": "reject", "message": "Too dear."}, [], "with reason: Too dear."),
}
"""What a person decides, what is ordered then, and how the result ends that the agent reads."""


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(agent: Any, given: Any, path: str) -> Any:
    if path == "async":
        return asyncio.run(agent.ainvoke(given, THREAD, version="v2"))
    return agent.invoke(given, THREAD, version="v2")


@pytest.mark.parametrize(("decision", "orders", "result"), DECISIONS.values(), ids=DECISIONS)
def test_a_write_waits_with_what_it_rests_on_and_runs_as_decided(
    host: str, path: str, decision: dict[str, Any], orders: list[str], result: str
) -> None:
    shop = Shop()
    agent = reviewed_agent(host, shop, checkpointer=InMemorySaver())

    output = run(agent, {"messages": [("user", REQUEST)]}, path)
    [question] = output.interrupts
    [request] = question.value["action_requests"]
    assert (request["name"], request["args"]) == ("order", {"article": "L-1", "quantity": 2})
    assert request["description"] == DESCRIPTION
    assert json.loads(json.dumps(question.value)) == question.value, "an interface can be in another process"
    assert shop.ran == ["find modern"]

    messages = run(agent, Command(resume={"decisions": [decision]}), path).value["messages"]
    assert shop.ran == ["find modern", *orders]
    [text] = [each.text for each in messages if isinstance(each, ToolMessage) and each.tool_call_id == "2"]
    assert text.endswith(result)
    assert messages[-1].text == "Done."


def test_a_turn_that_only_reads_asks_nothing_and_needs_no_checkpointer(host: str, path: str) -> None:
    shop = Shop()
    output = run(reviewed_agent(host, shop, replies=[SAYS[0], "L-1."]), {"messages": [("user", "Find a lamp.")]}, path)
    assert output.value["messages"][-1].text == "L-1."
    assert shop.ran == ["find modern"]


@pytest.fixture(scope="module")
def processes() -> Iterator[Servers]:
    with servers(Path(__file__).with_name("review_restart.py")) as running:
        yield running


@pytest.mark.parametrize(("decision", "orders", "result"), DECISIONS.values(), ids=DECISIONS)
def test_a_decision_may_be_given_to_a_new_process(
    processes: Servers, tmp_path: Path, host: str, path: str, decision: dict[str, Any], orders: list[str], result: str
) -> None:
    report = tmp_path / "report.json"

    def step(decision: dict[str, Any] | None = None) -> dict[str, Any]:
        job = {"host": host, "path": path, "database": str(tmp_path / "thread.db"), "report": str(report)}
        assert processes.do({**job, "decision": decision}) == 0
        state: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return state

    first = step()
    assert [request["description"] for [request] in first["requests"]] == [DESCRIPTION]
    last = step(decision)

    assert (last["requests"], last["ran"]) == ([], orders)
    assert last["messages"][-2].endswith(result)
    assert last["messages"][-1] == "Done."
