"""Copying an experience from one store to another."""

import json
import math

import pytest
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    ChromaStore,
    ExperienceStore,
    HashingEmbeddings,
    Trajectory,
)
from langchain_tooltree.cli import REFUSED, main
from langchain_tooltree.cli import stores as stores_module
from langchain_tooltree.cli.stores import copy_all
from langchain_tooltree.flows import run_flow

USERS = ("tooltree", "{user_id}")


def run_of(number, answer="Done."):
    said = [
        {"role": "user", "content": f"Do job {number}."},
        {"role": "assistant", "content": answer},
    ]
    return Trajectory.from_chat(said, id=f"run {number}", success=True)


def filled(store):
    """A store with the runs of two users, a tip, and what is somebody else's."""
    records = ExperienceStore(store, namespace=USERS)
    for number in range(3):
        records.within(user_id="ann").add(run_of(number))
    records.within(user_id="bob").add(run_of(7))
    run_flow(
        records.within(user_id="ann")
        .collection("tips")
        .putting("one", {"text": "Look first."})
    )
    store.put(("elsewhere",), "note", {"text": "not ours"})
    return store


def held_in(store):
    records = ExperienceStore(store, namespace=USERS)
    return {
        user: list(records.within(user_id=user).trajectories())
        for user in ("ann", "bob")
    }


def figures(counts):
    return counts["runs"], counts["there"], counts["others"]


def test_all_records_are_copied_with_their_tips_and_a_second_copy_has_nothing_to_do():
    source, target = filled(InMemoryStore()), InMemoryStore()

    first, second = (run_flow(copy_all(source, target)) for _ in range(2))

    assert figures(first) == (4, 0, 1)
    assert figures(second) == (0, 4, 0)
    assert held_in(target) == held_in(source)
    assert target.get(("elsewhere",), "note") is None


class Interrupted(InMemoryStore):
    """Is interrupted at its third write."""

    writes = 0

    def batch(self, ops):
        ops = list(ops)
        self.writes += any(isinstance(op, PutOp) for op in ops)
        if self.writes > 2:
            raise KeyboardInterrupt
        return super().batch(ops)


def test_a_copy_that_was_interrupted_goes_on_and_replaces_what_differs_only_by_force(
    monkeypatch,
):
    source, target = filled(InMemoryStore()), Interrupted()
    monkeypatch.setattr(stores_module, "READ_PAGE_SIZE", 1)

    with pytest.raises(KeyboardInterrupt):
        run_flow(copy_all(source, target))
    target.writes = -math.inf
    ExperienceStore(source, namespace=USERS).within(user_id="ann").add(
        run_of(0, "Done again.")
    )
    source.put(("tooltree", "ann", "tips"), "one", {"text": "Look twice."})
    target.put(("tooltree", "ann", "tips"), "one", {"text": "Look first."})

    assert figures(run_flow(copy_all(source, target))) == (3, 1, 0)
    assert held_in(target)["ann"][0] == run_of(0)
    assert figures(run_flow(copy_all(source, target, force=True))) == (4, 0, 1)
    assert held_in(target) == held_in(source)
    assert target.get(("tooltree", "ann", "tips"), "one").value == {
        "text": "Look twice."
    }


@pytest.mark.slow
def test_a_folder_is_copied_to_another_one(tmp_path, capsys):
    with ChromaStore(
        tmp_path / "old", embeddings=HashingEmbeddings(dims=64)
    ) as store:  # which need not be named
        expected = held_in(filled(store))
    ends = [str(tmp_path / "old"), str(tmp_path / "new")]

    assert main(["copy", *ends]) == 0
    assert "4 runs copied, 0 were there already" in capsys.readouterr().out
    assert main(["copy", *ends]) == 0
    assert "0 runs copied, 4 were there already" in capsys.readouterr().out
    assert main(["copy", ends[0], "ftp://host/new"]) == REFUSED
    assert "There is no store at 'ftp://host/new'" in capsys.readouterr().err
    with ChromaStore(tmp_path / "new") as store:
        assert held_in(store) == expected
    with ChromaStore(tmp_path / "old", embeddings=HashingEmbeddings(dims=64)) as store:
        ExperienceStore(store, namespace=USERS).within(user_id="ann").add(
            run_of(1, "Done again.")
        )
    capsys.readouterr()
    assert main(["copy", *ends, "--json", "--force"]) == 0
    assert json.loads(capsys.readouterr().out) == {"runs": 4, "there": 0, "others": 1}


@pytest.mark.parametrize("source", ["nowhere", "postgresql://nobody@127.0.0.1:9/none"])
def test_a_source_that_is_not_there_is_named_and_nothing_is_made(
    tmp_path, monkeypatch, capsys, source
):
    monkeypatch.chdir(tmp_path)

    assert main(["copy", source, "new"]) == REFUSED

    assert capsys.readouterr().err.strip()
    assert list(tmp_path.iterdir()) == []
