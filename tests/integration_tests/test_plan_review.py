"""A person approves the writes of a planner, in every host; the decision is given to another process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from review_restart import HOSTS

from tests.internals.child_processes import Servers, servers

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


@pytest.fixture(scope="module")
def processes() -> Iterator[Servers]:
    with servers(Path(__file__).with_name("review_restart.py"), count=1) as running:
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
    [[request]] = first["requests"]
    assert (request["name"], request["args"]) == ("order", {"article": "L-1", "quantity": 2})
    assert request["description"] == DESCRIPTION
    assert first["ran"] == ["find modern"]
    last = step(decision)

    assert (last["requests"], last["ran"]) == ([], orders)
    assert last["messages"][-2].endswith(result)
    assert last["messages"][-1] == "Done."
