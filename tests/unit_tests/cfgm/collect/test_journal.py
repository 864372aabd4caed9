"""The journal of an attempt: one small record for each reply, found again by what had been said before it."""

import functools
from itertools import pairwise

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from little_worlds import contents, empty_store, journal_of

from langchain_tooltree.errors import StoreError
from tests.internals.cfgm import ENDED, SHELF, Journal, journals, place


@pytest.fixture
def experience():
    return empty_store()


async def test_records_are_read_back_by_attempt_and_key(drive, experience):
    shelf = experience.collection(SHELF)
    for attempt in ("a-1", "a-2"):
        journal = Journal(shelf, attempt)
        await drive(journal.keeping("k", {"reply": attempt}))
        await drive(journal.keeping(ENDED, {"end": True}))
    kept = await drive(journals(shelf))
    assert kept == {
        "a-1": {"k": {"reply": "a-1"}, ENDED: {"end": True}},
        "a-2": {"k": {"reply": "a-2"}, ENDED: {"end": True}},
    }
    again = Journal(shelf, "a-1", kept["a-1"])
    assert again.recorded("k") == {"reply": "a-1"}
    assert again.recorded("other") is None


async def test_a_new_record_does_not_count_as_one_of_an_earlier_process(drive, experience):
    journal = Journal(experience.collection(SHELF), "a-1")
    await drive(journal.keeping("k", {"reply": 1}))
    assert journal.recorded("k") is None


async def test_each_record_is_one_write_of_its_own_size(drive, experience):
    journal = Journal(experience.collection(SHELF), "a-1")
    sizes = []
    for number in range(50):
        await drive(journal.keeping(f"{number:02}", {"reply": "x"}))
        sizes.append(sum(len(str(value)) for value in contents(experience).values()))
    growth = {after - before for before, after in pairwise(sizes)}
    assert len(growth) == 1


async def test_clearing_takes_old_and_new_records_of_the_attempt_alone(drive, experience):
    shelf = experience.collection(SHELF)
    await drive(Journal(shelf, "a-1").keeping("old", {}))
    await drive(Journal(shelf, "a-10").keeping("other", {}))
    kept = await drive(journals(shelf))
    journal = Journal(shelf, "a-1", kept["a-1"])
    assert journal.holds
    assert journal.unused == 1
    await drive(journal.keeping("new", {}))
    await drive(journal.clearing())
    assert not journal.holds
    assert journal_of(experience) == ["a-10/other"]


async def test_something_else_on_the_shelf_is_named(drive, experience):
    experience._store.put(("tooltree", SHELF), "mine", {"text": "hello"})
    with pytest.raises(StoreError, match="mine"):
        await drive(journals(experience.collection(SHELF)))


def place_after(*messages):
    return functools.reduce(place, messages, "the prompt")


def test_a_place_is_known_by_what_was_said_and_not_by_ids():
    call = {"name": "go", "args": {"to": "hall"}, "id": "1"}
    one = [HumanMessage("go", id="a"), AIMessage("", tool_calls=[call], id="b"), ToolMessage("ok", tool_call_id="1")]
    two = [HumanMessage("go", id="c"), AIMessage("", tool_calls=[call], id="d"), ToolMessage("ok", tool_call_id="1")]
    assert place_after(*one) == place_after(*two)
    others = [
        place("another prompt", one[0]),
        place_after(*one[:-1]),
        place_after(*one[:-1], ToolMessage("no", tool_call_id="1")),
        place_after(*one[:-1], ToolMessage("ok", tool_call_id="1", status="error")),
        place_after(one[0], AIMessage("", tool_calls=[{**call, "args": {}}]), one[2]),
        place_after(HumanMessage("\ud800")),
    ]
    assert len({place_after(*one), *others}) == 7
