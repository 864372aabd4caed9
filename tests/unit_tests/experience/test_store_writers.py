"""What is left of a writer that is killed: whoever looks next finishes what it had begun."""

import pytest
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import ExperienceStore, Trajectory
from tests.internals.experience import TASKS, TRAJECTORIES, writers_module
from tests.internals.hall import run_flow


class KilledError(BaseException):
    """The process is gone."""


class PerishableStore(InMemoryStore):
    """Writes one item after the other, and is killed before one of them."""

    def __init__(self):
        super().__init__()
        self.left = None

    def batch(self, ops):
        results = []
        for op in ops:
            if isinstance(op, PutOp) and self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise KilledError
            results += super().batch([op])
        return results


def run(name, answer="Done."):
    said = [{"role": "user", "content": f"Do {name}."}, {"role": "assistant", "content": answer}]
    return Trajectory.from_chat(said, id=name, success=True)


def kept(store, label):
    return {item.key for item in store.search(("tooltree", label), limit=99)}


def killed_at(store, step, work):
    """Whether the writer was killed before that step of its work."""
    store.left = step
    try:
        work(ExperienceStore(store))
    except KilledError:
        return True
    finally:
        store.left = None
    return False


WORK = {
    "add": lambda mine: mine.add(run("new")),
    "change": lambda mine: mine.add(run("old", "Done again.")),
    "delete": lambda mine: mine.delete("old"),
}


@pytest.mark.parametrize("work", WORK)
def test_wherever_a_writer_is_killed_a_record_and_its_entry_are_both_there_or_neither(work, monkeypatch):
    monkeypatch.setattr(writers_module, "ABANDONED_AFTER", -1.0)
    for step in range(9):
        store = PerishableStore()
        ExperienceStore(store).add(run("old"))
        was_killed = killed_at(store, step, WORK[work])
        seen = run_flow(ExperienceStore(store).writes())

        assert kept(store, TASKS) == kept(store, TRAJECTORIES)
        found = ExperienceStore(store)
        entries = run_flow(found.entries())
        for trajectory in found.trajectories():
            [known] = run_flow(found.reading([trajectory.id]))
            found.add(known)  # the entry that it should have
        assert run_flow(found.entries()) == entries
        assert run_flow(ExperienceStore(store).writes()).items() >= seen.items()
        if not was_killed:
            break
    assert 3 < step < 8


def test_what_is_finished_is_told_to_all_who_look(monkeypatch):
    store = PerishableStore()
    ExperienceStore(store).add(run("old"))
    assert killed_at(store, 2, WORK["add"])
    assert kept(store, TRAJECTORIES) - kept(store, TASKS) == {"new"}

    before = run_flow(ExperienceStore(store).writes())
    assert kept(store, TASKS) == {"old"}  # it may be slow, and no more
    monkeypatch.setattr(writers_module, "ABANDONED_AFTER", -1.0)
    after = run_flow(ExperienceStore(store).writes())

    assert kept(store, TASKS) == {"old", "new"}
    assert sum(after.values()) > sum(before.values())


def test_a_writer_with_something_under_way_is_not_forgotten(monkeypatch):
    store = PerishableStore()
    assert killed_at(store, 2, WORK["add"])
    monkeypatch.setattr(writers_module, "FORGOTTEN_AFTER", -1.0)
    ExperienceStore(store).add(run("other"))
    monkeypatch.setattr(writers_module, "ABANDONED_AFTER", -1.0)
    run_flow(ExperienceStore(store).writes())

    assert kept(store, TASKS) == kept(store, TRAJECTORIES) == {"new", "other"}


def test_what_cannot_be_finished_now_is_left_to_the_next_one(monkeypatch, caplog):
    store = PerishableStore()
    assert killed_at(store, 2, WORK["add"])
    monkeypatch.setattr(writers_module, "ABANDONED_AFTER", -1.0)
    monkeypatch.setattr(ExperienceStore, "adding", lambda *_, **__: 1 / 0)
    run_flow(ExperienceStore(store).writes())
    assert "new" in caplog.text
    monkeypatch.undo()
    monkeypatch.setattr(writers_module, "ABANDONED_AFTER", -1.0)
    run_flow(ExperienceStore(store).writes())

    assert kept(store, TASKS) == {"new"}
