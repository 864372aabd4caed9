"""Heads: one token a namespace says whether anybody has written, and a record and its entry are written together."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from langgraph.store.base import PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import Experience, ExperienceStore, Trajectory, search
from langchain_tooltree.experience import store as catalogue_module
from langchain_tooltree.experience.store import HEAD
from langchain_tooltree.testing import ScriptedChatModel

ALL = ("tooltree",)


class Watched(InMemoryStore):
    """Counts listings and notes what is written together; fails on demand."""

    is_down = False

    def __init__(self):
        super().__init__()
        self.listings = 0
        self.written = []
        self.lock = threading.Lock()  # a batch is a transaction, as in a database

    def batch(self, ops):
        if self.is_down:
            msg = "The disk is full."
            raise OSError(msg)
        ops = list(ops)
        self.listings += sum(
            isinstance(op, SearchOp)
            and op.query is None
            and op.namespace_prefix[-1] == "tasks"
            for op in ops
        )
        self.written += [
            sorted(op.namespace[-1] for op in ops if isinstance(op, PutOp))
        ]
        with self.lock:
            return super().batch(ops)


def run_of(name, success=True):  # noqa: FBT002 - as `Trajectory` has it
    messages = [
        {"role": "user", "content": f"Find {name}."},
        {"role": "assistant", "content": "There."},
    ]
    return Trajectory.from_chat(messages, id=name, success=success)


def similar(records):
    return sorted(run.id for run in records.similar("Find something.", k=99))


def test_a_record_its_entry_and_the_head_are_written_in_one_batch():
    records = ExperienceStore(store := Watched())
    records.add(run_of("one"))
    records.delete("one")

    assert [each for each in store.written if each] == [
        ["head", "tasks", "trajectories"]
    ] * 2


def test_entries_are_listed_again_only_where_somebody_else_has_written():
    own, other = ExperienceStore(store := Watched()), ExperienceStore(store)
    own.add(run_of("one"))
    assert similar(own) == ["one"]
    store.listings = 0

    own.add(run_of("two"))
    own.delete("one")
    assert (similar(own), store.listings) == (["two"], 0)
    other.add(run_of("three"))
    assert (similar(own), store.listings) == (["three", "two"], 1)
    assert (similar(own), store.listings) == (["three", "two"], 1)


def test_threads_that_write_at_the_same_time_list_nothing():
    records = ExperienceStore(store := Watched())
    assert similar(records) == []
    store.listings = 0

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: records.add(run_of(str(number))), range(80)))

    assert len(similar(records)) == 80
    assert store.listings == 0


def test_a_token_that_was_overwritten_is_made_up_for_within_five_minutes(monkeypatch):
    own, other = ExperienceStore(store := Watched()), ExperienceStore(store)
    own.add(run_of("one"))
    similar(own)
    head = store.get((*ALL, HEAD), HEAD).value
    other.add(run_of("two"))
    store.put((*ALL, HEAD), HEAD, head)  # as if this writer had been a moment later

    assert similar(own) == ["one"]
    assert catalogue_module.RELIST_SECONDS == 300
    monkeypatch.setattr(catalogue_module, "RELIST_SECONDS", 0.0)
    assert similar(own) == ["one", "two"]


def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: a red key"


@pytest.mark.parametrize("turns", [1, 3])
def test_an_agent_whose_store_fails_goes_on_and_it_is_said_once(caplog, turns):
    store = Watched()
    experience = Experience(store, namespace=ALL, verdict=lambda _: True)
    store.is_down = True
    for _ in range(turns):
        model = ScriptedChatModel(replies=["It is on the desk."])
        found = search(
            "Where is the key?",
            [look],
            model=model,
            effects={"look": "read"},
            experience=experience,
        )
        assert found.answer.text == "It is on the desk."
    store.is_down = False

    assert (
        caplog.text.count("goes on without its experience: OSError: The disk is full.")
        == 1
    )
    assert experience.status().runs == 0, "nothing waits to be written later"
