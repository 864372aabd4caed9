"""Segments: what runs give to the fold is kept, made again where it is lost, and gone with the run."""

import json

import pytest
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import Experience, ExperienceStore, HashingEmbeddings, Trajectory
from langchain_tooltree.learning import fold as fold_module

ALL = ("tooltree",)
SEGMENTS = (*ALL, "segments")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(fold_module, "DEFAULTS", fold_module.FoldDefaults(segment=4))


class CountingStore(InMemoryStore):
    """Notes which records are read."""

    def __init__(self):
        super().__init__()
        self.read = []

    def batch(self, ops):
        ops = list(ops)
        keys = [
            op.key for op in ops if getattr(op, "namespace", ("",))[-1] == "trajectories" and not hasattr(op, "value")
        ]
        self.read += keys
        return super().batch(ops)


def run_of(name, tool="look", *, success=True, task="Where is the red key?"):
    messages = [
        {"role": "user", "content": task},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": tool, "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "On the desk lie a red key and a pen."},
        {"role": "assistant", "content": "It is on the desk."},
    ]
    return Trajectory.from_chat(messages, id=name, success=success)


def filled(store, count=10):
    experience = Experience(store, namespace=ALL)
    for number in range(count):
        experience.learn(run_of(f"run {number}", tool=f"tool {number % 3}"))
    return experience


def segments(store):
    """The ids of the runs in each segment."""
    items = store.search(SEGMENTS, limit=100)
    return {item.key: list(json.loads(item.value["segment"])["parts"]) for item in items if item.key != "vote"}


def saved(experience, folder):
    experience.graph.save(folder)
    return {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_new_process_reads_the_records_that_no_segment_holds_and_has_the_same_graph(tmp_path):
    experience = filled(store := CountingStore())
    assert sorted(map(len, segments(store).values())) == [4, 4]
    store.read.clear()

    another = Experience(store, namespace=ALL)

    assert len(another.graph) == 10
    assert sorted(store.read) == ["run 8", "run 9"]
    assert saved(another, tmp_path / "another") == saved(experience, tmp_path / "first")


def test_the_settings_of_the_vote_are_kept_and_go_with_a_run_that_they_were_fitted_to():
    experience = filled(store := InMemoryStore())
    assert experience.graph.next_tools(run_of("asked").messages[:1]) is not None
    experience.learn(run_of("failed", success=False))
    assert store.get(SEGMENTS, "vote") is not None

    another = Experience(store, namespace=ALL)
    assert another.graph.vote == experience.graph.vote
    another.forget(run="run 1")
    assert store.get(SEGMENTS, "vote") is None
    assert another.graph.vote is None


def test_failed_runs_are_not_read_for_the_graph():
    store = CountingStore()
    Experience(store, namespace=ALL).learn(run_of("failed", success=False))
    store.read.clear()

    assert Experience(store, namespace=ALL).status().judged == 1
    assert store.read == []


@pytest.mark.parametrize(
    "change",
    [
        lambda segment: None,
        lambda segment: {"segment": segment["segment"][:-9]},
        lambda segment: {"segment": json.dumps({**json.loads(segment["segment"]), "format": 99})},
        lambda segment: {"segment": json.dumps({**json.loads(segment["segment"]), "parts": []})},
        lambda segment: {"segment": segment["segment"].replace('"contribution"', '"other"')},
    ],
    ids=["missing", "damaged", "of another format", "without parts", "with damaged parts"],
)
def test_what_cannot_be_used_of_a_segment_is_made_again(change):
    filled(store := CountingStore())
    key, runs = next(iter(segments(store).items()))
    store.put(SEGMENTS, key, change(store.get(SEGMENTS, key).value) or {}, index=False)
    store.read.clear()

    assert len(Experience(store, namespace=ALL).graph) == 10
    assert sorted(store.read) == sorted([*runs, "run 8", "run 9"])
    store.read.clear()
    Experience(store, namespace=ALL).status()
    assert len(store.read) <= 2, "they are in a new segment"


def test_segments_with_the_vectors_of_another_embedder_are_left_alone():
    filled(store := InMemoryStore())
    before = segments(store)

    other = Experience(store, namespace=ALL, embeddings=HashingEmbeddings(dims=64))

    assert len(other.graph) == 10
    assert segments(store).items() > before.items()


def test_nothing_of_a_run_that_has_changed_stays_in_a_segment():
    experience = filled(store := InMemoryStore())
    kept = [json.loads(item.value["segment"])["parts"] for item in store.search(SEGMENTS)]
    [old] = [parts["run 0"]["version"] for parts in kept if "run 0" in parts]

    experience.learn(run_of("run 0", tool="another"))
    experience.label("run 1", success=False)

    assert old not in repr(store.search(SEGMENTS))
    assert not any("run 1" in runs for runs in segments(store).values())
    assert set(Experience(store, namespace=ALL).graph.to_networkx().nodes) >= {"another"}


def test_what_was_forgotten_elsewhere_is_written_to_no_segment():
    here = filled(store := InMemoryStore(), count=3)
    Experience(store, namespace=ALL).forget(run="run 1")

    here.learn(run_of("run 3"))
    here.learn(run_of("run 4"))

    assert {run for runs in segments(store).values() for run in runs} <= {"run 0", "run 2", "run 3", "run 4"}
    assert "run 1" not in here.graph


@pytest.mark.parametrize("damage", ["", "{"])
def test_forgetting_leaves_nothing_in_segments_that_nobody_can_read(damage):
    experience = filled(store := InMemoryStore())
    store.put(SEGMENTS, "of a later release", {"segment": json.dumps({"format": 99, "of": "run 1"}) + damage})

    experience.forget(run="run 1")

    assert "run 1" not in repr([item.value for item in store.search(SEGMENTS)]).replace("run 10", "")
    assert store.get(SEGMENTS, "of a later release") is None
    assert experience.status().in_graph == 9


def test_tasks_are_not_embedded_again_where_segments_hold_their_vectors():
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
