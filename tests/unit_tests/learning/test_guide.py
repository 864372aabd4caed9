"""What past runs say at a doubt: in few words, with counts, and only what applies."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import CFGMMemory, SITGraph, Trajectory
from langchain_tooltree.flows import run_flow
from langchain_tooltree.learning.guide import PastRuns
from langchain_tooltree.messages.conversation import Conversation
from langchain_tooltree.testing import ScriptedChatModel

TASK = "Book a flight to Oslo."
PATH = [HumanMessage(TASK, id="m")]
NAMES = ("search_flights", "hold_seat", "book_flight")
READS = ("search_flights", "hold_seat")


def run_of(number, *tools, task=TASK):
    messages = [HumanMessage(task)]
    for at, name in enumerate(tools):
        call = {"name": name, "args": {"secret": "4711"}, "id": f"{number}.{at}"}
        messages += [
            AIMessage("", tool_calls=[call]),
            ToolMessage("fine", tool_call_id=call["id"], name=name),
        ]
    return Trajectory.from_messages(
        [*messages, AIMessage("Done.")], success=True, id=f"run {number}"
    )


def memory_of(*runs, tips=()):
    shown = [
        {"tool": step.tool, "quote": "fine"} for run in runs for step in run.calls[:1]
    ]
    replies = [
        {
            "tips": [
                {"reasoning": "It helped.", "bears_out": shown, **tip} for tip in tips
            ],
            "followed": [],
        }
    ]
    memory = CFGMMemory(
        ScriptedChatModel(replies=replies if tips else []), InMemoryStore()
    )
    for run in runs:
        memory.experience.add(run)
    if tips:
        assert len(memory.extract_tips()) == len(tips)
    return memory


def advice(runs=(), *, memory=None, missing="the price", path=PATH, trials=READS):
    graph = SITGraph.from_trajectories(runs) if runs else None
    guide = PastRuns(graph, memory, Conversation(path), first=TASK)
    return run_flow(guide.advice(path, missing, trials=trials, names=NAMES))


def usual(count):
    return [
        run_of(
            n, "search_flights", "hold_seat", task=f"Book flight {n} to Bergen, please."
        )
        for n in range(count)
    ]


def test_fewer_than_three_runs_say_nothing_and_three_are_counted():
    assert advice(usual(2)) == advice()
    told = advice(usual(3))
    assert "Past runs went on here with: search_flights in 3 of 3 runs." in told.text
    assert list(told.tools) == ["search_flights"]
    assert "%" not in told.text


def test_only_tools_that_may_be_tried_are_told():
    assert advice(usual(3), trials=("hold_seat",)).text == ""


def test_the_most_similar_good_run_is_a_chain_of_tools_and_no_more():
    run = run_of(1, "search_flights", "search_flights", "hold_seat")
    told = advice(memory=memory_of(run))
    assert (
        "A similar run that went well: search_flights (2 times) -> hold_seat."
        in told.text
    )
    assert "4711" not in told.text
    assert told.recalled == {"runs": ["run 1"], "tips": []}


@pytest.mark.parametrize(
    ("when", "missing", "applies"),
    [
        ("a seat is sold out", "a seat, since it is sold out", True),
        ("a seat is sold out", "the price", False),
    ],
)
def test_tips_are_told_where_their_situation_is_met(when, missing, applies):
    memory = memory_of(
        run_of(1, "search_flights"), tips=[{"tip": "Look one day later.", "when": when}]
    )
    told = advice(memory=memory, missing=missing)
    assert ("Look one day later." in told.text) == applies
    assert bool(told.recalled["tips"]) == applies


def test_a_tip_that_names_a_tool_which_is_gone_is_not_told():
    run = run_of(1, "search_trains")
    memory = memory_of(
        run, tips=[{"tip": "Call search_trains first.", "when": "the price is missing"}]
    )
    assert "search_trains first" not in advice(memory=memory).text


def test_all_of_it_has_eight_hundred_characters_at_the_most():
    words = "morning evening luggage", "seat aisle window", "fare refund voucher"
    tips = [
        {"tip": f"{each} " * 14, "when": f"the price of a {each.split()[0]} flight"}
        for each in words
    ]
    runs = usual(4)
    told = advice(runs, memory=memory_of(run_of(9, "search_flights"), tips=tips))
    assert 500 < len(told.text) <= 800
    assert "search_flights in 4 of 4 runs" in told.text
    assert len(told.recalled["tips"]) == 1, "only what was told is noted"


def test_what_fails_is_not_told_and_raises_nothing(caplog):
    class Down(InMemoryStore):
        def batch(self, ops):
            msg = "the store is down"
            raise ConnectionError(msg)

    memory = CFGMMemory(ScriptedChatModel(replies=[]), Down())
    assert "search_flights in 3 of 3 runs" in advice(usual(3), memory=memory).text
    assert "the store is down" in caplog.text


def unusual(runs, tool, path=PATH):
    guide = PastRuns(
        SITGraph.from_trajectories(runs), None, Conversation(path), first=TASK
    )
    return run_flow(guide.is_unusual(path, tool, names=NAMES))


def test_a_write_is_unusual_where_three_good_runs_did_something_else_and_hardly_any_did_it():
    assert unusual(usual(3), "book_flight")
    assert not unusual(usual(2), "book_flight")
    assert not unusual(usual(3), "search_flights")
    assert not unusual(
        [*usual(3), *(run_of(n, "book_flight") for n in (7, 8, 9))], "book_flight"
    )


def test_a_write_is_unusual_where_good_runs_answered_their_user_first():
    call = {"name": "search_flights", "args": {}, "id": "1"}
    searched = [
        *PATH,
        AIMessage("", tool_calls=[call]),
        ToolMessage("fine", tool_call_id="1", name="search_flights"),
    ]
    assert unusual(
        [run_of(n, "search_flights") for n in range(4)], "book_flight", searched
    )
