"""Parts: what runs give to the fold is kept, made again where it is lost, and gone with the run."""

import contextlib
import json

import pytest
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    Experience,
    ExperienceStore,
    HashingEmbeddings,
    Trajectory,
)
from langchain_tooltree.learning import fold as fold_module

ALL = ("tooltree",)
PARTS = (*ALL, "parts")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(
        fold_module, "FOLD_DEFAULTS", fold_module.FoldDefaults(together=1)
    )


class CountingStore(InMemoryStore):
    """Notes which records are read."""

    def __init__(self):
        super().__init__()
        self.read = []

    def batch(self, ops):
        ops = list(ops)
        keys = [
            op.key
            for op in ops
            if getattr(op, "namespace", ("",))[-1] == "trajectories"
            and not hasattr(op, "value")
        ]
        self.read += keys
        return super().batch(ops)


def run_of(name, tool="look", *, success=True, task="Where is the red key?"):
    messages = [
        {"role": "user", "content": task},
        {
            "role": "assistant",
            "tool_calls": [{"id": "1", "function": {"name": tool, "arguments": "{}"}}],
        },
        {
            "role": "tool",
            "tool_call_id": "1",
            "content": "On the desk lie a red key and a pen.",
        },
        {"role": "assistant", "content": "It is on the desk."},
    ]
    return Trajectory.from_chat(messages, id=name, success=success)


def filled(store, count=10):
    experience = Experience(store, namespace=ALL)
    for number in range(count):
        experience.learn(run_of(f"run {number}", tool=f"tool {number % 3}"))
    return experience


def stored(store):
    """The key of what is stored of each run, and of the vote under an empty name."""
    return {
        item.key.partition("/")[2]: item.key for item in store.search(PARTS, limit=100)
    }


def saved(experience, folder):
    experience.graph.save(folder)
    return {
        file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }


def test_a_new_process_reads_no_record_and_has_the_same_graph(tmp_path):
    experience = filled(store := CountingStore())
    assert stored(store).keys() == {f"run {number}" for number in range(10)}
    store.read.clear()

    another = Experience(store, namespace=ALL)

    assert len(another.graph) == 10
    assert store.read == []
    assert saved(another, tmp_path / "another") == saved(experience, tmp_path / "first")


def test_the_settings_of_the_vote_are_kept_and_go_with_a_run_that_they_were_fitted_to():
    experience = filled(store := InMemoryStore())
    assert experience.graph.next_tools(run_of("asked").messages[:1]) is not None
    experience.learn(run_of("failed", success=False))
    assert "" in stored(store)

    another = Experience(store, namespace=ALL)
    assert another.graph.vote == experience.graph.vote
    another.forget(run="run 1")
    assert "" not in stored(store)
    assert another.graph.vote is None


def test_failed_runs_are_not_read_for_the_graph():
    store = CountingStore()
    Experience(store, namespace=ALL).learn(run_of("failed", success=False))
    store.read.clear()

    assert Experience(store, namespace=ALL).status().judged == 1
    assert store.read == []


@pytest.mark.parametrize(
    "damaged",
    [None, {"part": "{"}, {"part": "[]"}, {"other": 1}],
    ids=["missing", "cut off", "of another form", "without a part"],
)
def test_what_cannot_be_used_is_made_again(damaged):
    filled(store := CountingStore())
    key = stored(store)["run 3"]
    store.delete(PARTS, key) if damaged is None else store.put(
        PARTS, key, damaged, index=False
    )
    store.read.clear()

    assert len(Experience(store, namespace=ALL).graph) == 10
    assert store.read == ["run 3"]
    Experience(store, namespace=ALL).status()
    assert store.read == ["run 3"], "it is stored again"


def test_parts_with_the_vectors_of_another_embedder_are_left_alone():
    filled(store := InMemoryStore())
    before = {item.key: item.value for item in store.search(PARTS, limit=100)}

    other = Experience(store, namespace=ALL, embeddings=HashingEmbeddings(dims=64))

    assert len(other.graph) == 10
    assert {
        item.key: item.value for item in store.search(PARTS, limit=100)
    }.items() > before.items()


def test_nothing_of_a_run_that_has_changed_stays():
    experience = filled(store := InMemoryStore())
    old = json.loads(store.get(PARTS, stored(store)["run 0"]).value["part"])["version"]

    experience.learn(run_of("run 0", tool="another"))
    experience.label("run 1", success=False)

    assert old not in repr(store.search(PARTS, limit=100))
    assert "run 1" not in stored(store)
    assert set(Experience(store, namespace=ALL).graph.to_networkx().nodes) >= {
        "another"
    }


def test_what_was_forgotten_elsewhere_is_not_stored_again():
    here = filled(store := InMemoryStore(), count=3)
    Experience(store, namespace=ALL).forget(run="run 1")

    here.learn(run_of("run 3"))

    assert stored(store).keys() == {"run 0", "run 2", "run 3"}
    assert "run 1" not in here.graph


class InterruptedStore(InMemoryStore):
    """Has somebody else do something as soon as the part of a run is written."""

    meanwhile = None

    def batch(self, ops):
        ops = list(ops)
        puts = [
            op
            for op in ops
            if isinstance(op, PutOp) and op.namespace == PARTS and op.value
        ]
        is_part = any("run 1" in op.key for op in puts)
        results = super().batch(ops)
        if is_part and self.meanwhile:
            act, self.meanwhile = self.meanwhile, None
            act()
        return results


def test_what_is_forgotten_elsewhere_while_it_is_stored_does_not_stay():
    here = filled(store := InterruptedStore(), count=1)
    store.meanwhile = lambda: Experience(store, namespace=ALL).forget(run="run 1")

    here.learn(run_of("run 1"))

    assert store.meanwhile is None
    assert stored(store).keys() == {"run 0"}


def test_forgetting_leaves_nothing_that_nobody_can_read():
    experience = filled(store := InMemoryStore())
    store.put(PARTS, "of a later release/run 1", {"part": "{ run 1"})

    experience.forget(run="run 1")

    assert "run 1" not in stored(store)
    assert experience.status().in_graph == 9


def test_tasks_are_not_embedded_again_where_their_vectors_are_stored():
    class Counted(HashingEmbeddings):
        texts = 0

        def embed_documents(self, texts):
            type(self).texts += len(texts)
            return super().embed_documents(texts)

    def opened():
        records = ExperienceStore(store, namespace=ALL, embeddings=Counted())
        return Experience(records)

    store = InMemoryStore()
    experience = opened()
    for number in range(8):
        experience.learn(run_of(f"run {number}", task=f"Find key number {number}."))
    another = opened()
    assert another.status().in_graph == 8
    Counted.texts = 0

    assert [run.id for run in another.store.similar("key number 5", k=1)] == ["run 5"]
    assert Counted.texts == 1, "the query"


class FailingStore(InMemoryStore):
    """Refuses writes of parts while it is down."""

    is_down = False

    def batch(self, ops):
        ops = list(ops)
        if self.is_down and any(
            getattr(op, "namespace", ("",))[-1] == "parts" and hasattr(op, "value")
            for op in ops
        ):
            raise ConnectionError("down")
        return super().batch(ops)


def test_what_a_run_gave_before_it_changed_is_stored_no_more_although_few_wait(
    monkeypatch,
):
    experience = filled(store := InMemoryStore())
    monkeypatch.setattr(fold_module, "FOLD_DEFAULTS", fold_module.FoldDefaults())
    experience.learn(run_of("run 3", tool="another"))
    parts = {
        item.key.partition("/")[2]: item.value["part"]
        for item in store.search(PARTS, limit=100)
    }
    assert "another" in parts["run 3"]
    assert "tool 0" not in parts["run 3"]


def test_what_a_store_that_is_down_has_not_taken_is_written_later():
    experience = filled(store := FailingStore())
    store.is_down = True
    with contextlib.suppress(ConnectionError):
        experience.learn(run_of("run 3", success=False))
    assert "run 3" in stored(store)
    store.is_down = False
    experience.learn(run_of("run 11"))
    assert "run 3" not in stored(store)
    assert "run 11" in stored(store)


def test_failures_do_not_have_the_parts_of_others_stored_early(monkeypatch):
    monkeypatch.setattr(fold_module, "FOLD_DEFAULTS", fold_module.FoldDefaults())
    experience = filled(store := InMemoryStore(), count=5)
    experience.learn(run_of("failed", success=False))
    assert stored(store) == {}
