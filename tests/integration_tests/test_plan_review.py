"""A person approves the writes of a planner, in every host, in one process and over several."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from child_processes import Servers, servers
from conversations import check_conversation, check_pairs, outline
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from review_restart import HOSTS, THREAD, Traveller, no_judge, reviewed_agent
from travel import APART, BOOKING, PRICE, Agency, asking

from tests.internals.tooltree import ReviewRequest, deciding

APPROVE = {"type": "approve"}
REJECT = {"type": "reject", "message": "too dear"}

LOOKED_UP = ["human", "call find_flights", "result find_flights", "call read_price", "result read_price"]


UNFIT = "The edit does not fit book: flight: ['OS-1', 'OS-2'] is not of type 'string'."


def edit(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": tool, "args": arguments}}


def call(tool: str, key: str, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "args": arguments, "id": key, "type": "tool_call"}


class Thread:
    """One conversation with an agent under review.

    Args:
        host: Which kind of agent.
        path: Sync or async.
        options: As for `reviewed_agent`.
    """

    def __init__(self, host: str, path: str, *, model: Traveller | None = None, **options: Any) -> None:
        self.agency = Agency()
        self.model = model or Traveller()
        self.asked: list[ReviewRequest] = []
        self._path = path
        self._agent = reviewed_agent(host, self.agency, model=self.model, checkpointer=InMemorySaver(), **options)

    def ask(self, request: str) -> Any:
        """Say something; the messages, and in `asked` what a person is asked now."""
        return self._go(asking(request))

    def decide(self, *decisions: Any) -> Any:
        """Answer with decisions."""
        return self._go(deciding(self.asked, *decisions))

    def answer(self, answer: Any) -> Any:
        """Answer with anything."""
        return self._go(Command(resume=answer))

    def _go(self, given: Any) -> Any:
        if self._path == "async":
            output = asyncio.run(self._agent.ainvoke(given, THREAD, version="v2"))
        else:
            output = self._agent.invoke(given, THREAD, version="v2")
        self.asked = [interrupt.value for interrupt in output.interrupts]
        check_pairs(output.value["messages"], may_end_open=bool(self.asked))
        return output.value["messages"]


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def thread(host: str, path: str) -> Thread:
    return Thread(host, path)


def test_a_person_is_shown_the_call_and_what_it_was_weighed_against(host: str, path: str) -> None:
    thread = Thread(host, path, config=APART)
    messages = thread.ask(BOOKING)

    assert outline(messages) == [*LOOKED_UP, "call book"]
    assert thread.agency.calls["book OS-1"] == 0
    [asked] = thread.asked
    [action] = asked["action_requests"]
    assert (action["name"], action["args"]) == ("book", {"flight": "OS-1"})
    assert asked["review_configs"] == [{"action_name": "book", "allowed_decisions": ["approve", "edit", "reject"]}]
    assert "problem" not in asked
    plan = asked["plan"]
    assert {plan["r_pre"], plan["r_post"], plan["goal"]} == {None}, "scores that argue for it, and no reason"
    assert plan["alternatives"], "the detours"
    assert plan["cost"]["model_calls"] == thread.model.calls
    shown = action["description"].splitlines()
    assert shown[0] == "book(flight='OS-1') waits for approval."
    assert "Scores" not in action["description"]
    steps = " then ".join(map(_written, plan["alternatives"][0]["calls"]))
    assert f"Instead: {steps}" in shown
    assert f"The user asked: {BOOKING!r}" in shown
    assert {f"Also read, and not kept: {_written(read)}" for read in plan["tried"][:5]} <= {*shown}
    assert shown[-1].startswith(f"The search made {plan['cost']['rollouts']} rollouts, ")
    assert json.loads(json.dumps(asked)) == asked, "a user interface can be in another process"


def test_a_person_is_shown_no_score_where_nobody_gave_one(thread: Thread) -> None:
    thread.ask(BOOKING)

    [asked] = thread.asked
    assert {asked["plan"][score] for score in ("r_pre", "r_post")} == {None}
    [action] = asked["action_requests"]
    shown = action["description"].splitlines()
    assert shown[0] == "book(flight='OS-1') waits for approval."
    assert "before the call" not in action["description"]
    assert shown[-1].startswith("The search made ")


def _written(call: dict[str, Any]) -> str:
    return f"{call['tool']}({', '.join(f'{name}={value!r}' for name, value in call['arguments'].items())})"


def test_an_approved_write_runs_once_and_nothing_of_the_search_is_repeated(thread: Thread) -> None:
    waiting = thread.ask(BOOKING)
    made, before = thread.model.calls, thread.agency.calls.copy()

    messages = thread.decide(APPROVE)

    assert outline(check_conversation(messages)) == [*LOOKED_UP, "call book", "result book", "answer"]
    assert messages[: len(waiting)] == waiting, "approval changes nothing"
    assert thread.agency.calls - before == {"book OS-1": 1}
    assert thread.model.calls - made <= 2, "one question whether anything is left to do, and the answer"


def test_an_edited_write_runs_as_edited(thread: Thread) -> None:
    thread.ask(BOOKING)

    messages = thread.decide(edit("book", flight="OS-2"))

    assert (thread.agency.calls["book OS-1"], thread.agency.calls["book OS-2"]) == (0, 1)
    booked = messages[len(LOOKED_UP)]
    assert [(each["name"], each["args"]) for each in booked.tool_calls] == [("book", {"flight": "OS-2"})]
    assert messages[len(LOOKED_UP) + 1].text == "OS-2 is booked"


def test_a_write_may_be_edited_into_another_tools_call(thread: Thread) -> None:
    thread.ask(BOOKING)

    messages = thread.decide(edit("find_hotels", city="Rome"))

    assert (thread.agency.calls["book OS-1"], thread.agency.calls["find_hotels Rome"]) == (0, 1)
    assert messages[len(LOOKED_UP) + 1].name == "find_hotels"


def test_a_rejected_write_never_runs_and_the_agent_is_told_why(thread: Thread) -> None:
    thread.ask(BOOKING)

    messages = thread.decide(REJECT)

    assert not thread.asked
    assert outline(check_conversation(messages))[-2:] == ["result book", "answer"]
    assert thread.agency.calls["book OS-1"] == 0
    told = messages[len(LOOKED_UP) + 1]
    assert told.status == "error"
    assert "rejected" in told.text
    assert "too dear" in told.text


MALFORMED = [
    "approve",
    {"type": "approve"},
    {"decisions": []},
    {"decisions": [APPROVE, APPROVE]},
    {"decisions": ["approve"]},
    {"decisions": [{"type": "respond", "message": "no"}]},
    {"decisions": [{"type": "edit"}]},
    {"decisions": [{"type": "edit", "edited_action": {"name": "book"}}]},
    {"decisions": [{"type": "edit", "edited_action": {"name": 1, "args": {}}}]},
]


def test_malformed_answers_are_asked_for_again_with_the_problem_named(thread: Thread) -> None:
    thread.ask(BOOKING)
    made = thread.model.calls
    [first] = thread.asked

    for malformed in MALFORMED:
        thread.answer(malformed)

        [again] = thread.asked
        assert again["action_requests"] == first["action_requests"]
        assert again["problem"].startswith(("Expected ", "A decision's type must", "An edit needs"))
        assert repr(malformed) in again["problem"] or repr(malformed["decisions"][0]) in again["problem"]
    assert thread.model.calls == made
    assert thread.agency.calls["book OS-1"] == 0

    check_conversation(thread.decide(APPROVE))
    assert thread.agency.calls["book OS-1"] == 1


def test_a_conversation_that_only_reads_needs_no_approval(thread: Thread) -> None:
    messages = thread.ask(PRICE)

    assert not thread.asked
    check_conversation(messages)


def test_a_second_turn_is_reviewed_too(thread: Thread) -> None:
    thread.ask(BOOKING)
    thread.decide(APPROVE)
    thread.ask(PRICE)
    assert not thread.asked

    thread.ask(f"{BOOKING} #2")

    assert [asked["action_requests"][0]["name"] for asked in thread.asked] == ["book"]
    assert thread.agency.calls["book OS-1"] == 1
    thread.decide(REJECT)
    assert thread.agency.calls["book OS-1"] == 1


WISHES = [
    call("book", "w1", flight="OS-1"),
    call("find_hotels", "r1", city="Rome"),
    call("book", "w2", flight="RO-1"),
    call("book", "w3", flight="SV-1"),
]


@pytest.fixture
def plain(host: str, path: str) -> Thread:
    """A thread whose planner fails, so that the plain model asks for three writes and a read at once."""
    return Thread(host, path, model=Traveller(wishes=WISHES), judge=no_judge)


def test_writes_of_the_plain_model_are_reviewed_where_planning_failed(plain: Thread) -> None:
    plain.ask(BOOKING)

    [asked] = plain.asked
    assert [action["args"] for action in asked["action_requests"]] == [
        {"flight": "OS-1"},
        {"flight": "RO-1"},
        {"flight": "SV-1"},
    ]
    assert len(asked["review_configs"]) == 3
    assert "plan" not in asked
    assert asked["action_requests"][0]["description"].startswith("book(flight='OS-1') waits for approval.")
    assert not {"book OS-1", "book RO-1", "book SV-1", "find_hotels Rome"} & set(plain.agency.calls)


@pytest.mark.parametrize(
    ("decisions", "booked"),
    [
        ([APPROVE, APPROVE, APPROVE], {"OS-1", "RO-1", "SV-1"}),
        ([APPROVE, REJECT, APPROVE], {"OS-1", "SV-1"}),
        ([REJECT, edit("book", flight="RO-2"), REJECT], {"RO-2"}),
        ([REJECT, REJECT, REJECT], set()),
    ],
    ids=["all", "all-but-one", "one-edited", "none"],
)
def test_of_several_calls_those_approved_run_and_the_others_do_not(
    plain: Thread, decisions: list[Any], booked: set[str]
) -> None:
    plain.ask(BOOKING)

    messages = check_conversation(plain.decide(*decisions))

    assert not plain.asked
    assert {label for label in plain.agency.calls if label.startswith("book")} == {f"book {each}" for each in booked}
    assert plain.agency.calls["find_hotels Rome"] == 1, "a read needs no approval, and runs once"
    results = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    assert set(results) == {wish["id"] for wish in WISHES}
    rejected = {key for key, result in results.items() if result.status == "error"}
    assert rejected == {f"w{at}" for at, decision in enumerate(decisions, 1) if decision["type"] == "reject"}


@pytest.fixture(scope="module")
def processes() -> Iterator[Servers]:
    with servers(Path(__file__).with_name("review_restart.py")) as running:
        yield running


@pytest.mark.parametrize("decision", [APPROVE, REJECT], ids=["approve", "reject"])
def test_an_answer_may_be_given_to_a_new_process(
    processes: Servers, tmp_path: Path, host: str, path: str, decision: dict[str, Any]
) -> None:
    report = tmp_path / "report.json"
    job = {"host": host, "path": path, "database": str(tmp_path / "thread.db"), "report": str(report)}

    def step(request: str | None = None, **given: Any) -> dict[str, Any]:
        assert processes.do({**job, "request": request, "answer": None, **given}) == 0
        return json.loads(report.read_text())

    first = step(BOOKING, decision=edit("book", flight=["OS-1", "OS-2"]))
    assert [asked["problem"] for asked in first["asked"]] == [UNFIT]
    assert [asked["action_requests"][0]["args"] for asked in first["asked"]] == [{"flight": "OS-1"}]
    again = step(answer="yes")
    assert [asked["problem"] for asked in again["asked"]]
    assert (again["model_calls"], again["tool_calls"]) == (0, {})
    last = step(answer=deciding(again["asked"], decision).resume)

    assert last["asked"] == []
    assert last["model_calls"] <= 2
    approved = decision is APPROVE
    assert last["tool_calls"] == ({"book OS-1": 1} if approved else {})
    kept = len(first["messages"])
    assert last["messages"][:kept] == first["messages"]
    result = last["messages"][kept]
    assert (result["name"], result["status"]) == ("book", "success" if approved else "error")
    assert result["tool_call_id"] == first["messages"][-1]["tool_calls"][0]["id"]
