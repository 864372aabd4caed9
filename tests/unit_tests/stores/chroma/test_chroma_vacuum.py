"""What was deleted is in no file of the folder any more."""

import pytest
from chromadb.api.models.Collection import Collection
from langgraph.store.base import PutOp

from langchain_tooltree import ChromaStore

pytestmark = pytest.mark.slow


def holding(folder, *texts):
    """The files that hold a text."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    return sorted(
        {
            each.name
            for each in files
            for text in texts
            if text.encode() in each.read_bytes()
        }
    )


def filled(folder, count=10):
    store = ChromaStore(folder)
    store.batch(
        PutOp(("a", "b"), f"key-{number}.", {"text": f"secret-{number}. of somebody"})
        for number in range(count)
    )
    store.put(("a", "c"), "other", {"text": "another one"})
    store.put(("z",), "far", {"text": "far away"}, index=False)
    return store


def seen(store):
    found = {
        tuple(each): store.search(each, limit=99) for each in store.list_namespaces()
    }
    near = [
        (item.key, round(item.score, 4))
        for item in store.search(("a",), query="secret-7. of somebody", limit=1)
    ]
    return {
        name: [(item.key, item.value, item.updated_at) for item in items]
        for name, items in found.items()
    }, near


@pytest.mark.parametrize(
    "count", [10, 510]
)  # more than a batch, of which Chroma has written its indexes
def test_what_was_deleted_is_in_no_file(tmp_path, count):
    with filled(tmp_path / "s", count) as store:
        for number in (3, 4):
            store.delete(("a", "b"), f"key-{number}.")
        expected = seen(store)
        assert holding(tmp_path, "secret-3.")
        assert store.vacuum(("a",))

        assert holding(tmp_path, "secret-3.", "key-3.", "secret-4.", "key-4.") == []
        assert seen(store) == expected
        store.put(("a", "b"), "later", {"text": "after the vacuum"})
    assert holding(tmp_path, "secret-3.", "key-3.") == []
    with ChromaStore(tmp_path / "s") as store:
        assert store.get(("a", "b"), "later").value == {"text": "after the vacuum"}
        store.delete(("a", "b"), "later")
        assert seen(store) == expected
    assert holding(tmp_path, "secret-3.", "key-3.") == []


def test_the_name_of_a_namespace_that_is_gone_is_in_no_file(tmp_path):
    with filled(tmp_path) as store:
        store.put(("a", "of ann"), "k", {"text": "x"})
        store.delete(("a", "of ann"), "k")
        store.vacuum(("a",))

        assert holding(tmp_path, "of ann") == []
        assert ("a", "of ann") not in store.list_namespaces()


@pytest.mark.parametrize("step", [0, 1, 3, 5])
def test_nothing_is_lost_wherever_a_vacuum_is_killed(tmp_path, monkeypatch, step):
    store = filled(tmp_path)
    store.delete(("a", "b"), "key-3.")
    expected = seen(store)
    steps = []

    def killed(name):
        method = getattr(Collection, name)

        def step_by_step(*args, **options):
            steps.append(name)
            if len(steps) > step:
                raise KeyboardInterrupt
            return method(*args, **options)

        return step_by_step

    with monkeypatch.context() as patched:
        for name in ("modify", "upsert"):
            patched.setattr(Collection, name, killed(name))
        with pytest.raises(KeyboardInterrupt):
            store.vacuum(("a",))
    store.close()

    with ChromaStore(tmp_path) as store:
        assert seen(store) == expected
        store.vacuum()
        assert seen(store) == expected
    # Looked at once it is closed: while it is open, an index that Chroma makes holds what the process has in memory.
    assert holding(tmp_path, "secret-3.", "key-3.") == []
