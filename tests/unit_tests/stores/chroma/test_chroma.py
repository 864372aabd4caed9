"""ChromaStore in a local folder: items, vectors, filters, order, embedders. What stores share is in the conformance
suite of the integration tests; here is what only this one promises."""

import asyncio
import gc
import json
import threading

import chromadb
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langgraph.store.base import InvalidNamespaceError, PutOp, SearchOp

from langchain_tooltree import ChromaStore, ConfigurationError, HashingEmbeddings
from langchain_tooltree.errors import EmbedderMismatchError, StoreError

NOTES = ("users", "ada", "notes")


@pytest.fixture
def store(tmp_path):
    with ChromaStore(tmp_path) as opened:
        yield opened


def keys(found):
    return [item.key for item in found]


def test_a_lone_surrogate_and_a_nul_come_back_unchanged(store):
    value = {
        "cut": "\ud83d",
        "\udc00": 1,
        "nul": "a\x00b",
        "big": 2**80,
        "endless": float("inf"),
    }
    store.put(NOTES, "odd", value)
    assert store.get(NOTES, "odd").value == value
    assert keys(store.search(NOTES, filter={"cut": "\ud83d", "\udc00": 1})) == ["odd"]


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, False), (False, None)],
    ids=["indexed_no_more", "indexed_now"],
)
def test_of_two_rows_that_a_killed_process_left_of_an_item_all_reads_take_the_later(
    store, monkeypatch, before, after
):
    store.put(NOTES, "k", {"t": "old"}, index=before)
    with monkeypatch.context() as patch:
        patch.setattr(
            store, "_delete", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            store.put(NOTES, "k", {"t": "new"}, index=after)
    assert store.get(NOTES, "k").value == {"t": "new"}
    assert [item.value for item in store.search(NOTES)] == [{"t": "new"}]
    assert [item.value for item in store.search(NOTES, query="old")] == (
        [{"t": "new"}] if after is None else []
    )


def test_nothing_is_embedded_without_need(tmp_path, monkeypatch):
    def refuse(*_):
        msg = "nothing is to be embedded"
        raise AssertionError(msg)

    monkeypatch.setattr(
        "chromadb.utils.embedding_functions.DefaultEmbeddingFunction.__call__", refuse
    )
    monkeypatch.setattr(HashingEmbeddings, "embed_query", refuse)
    with ChromaStore(tmp_path) as store:
        store.put(NOTES, "a", {"n": 1}, index=False)
        store.put(NOTES, "b", {"n": 1}, index=["missing"])
        assert keys(store.search(NOTES, filter={"n": 1})) == ["b", "a"]
        store.delete(NOTES, "a")


def test_each_text_is_embedded_once_in_a_batch(tmp_path):
    asked = []

    class Counting(HashingEmbeddings):
        def embed_documents(self, texts):
            asked.append(list(texts))
            return super().embed_documents(texts)

    with ChromaStore(tmp_path, embeddings=Counting(), fields=["t"]) as store:
        store.batch([PutOp(NOTES, str(n), {"t": f"text {n % 3}"}) for n in range(9)])
    assert asked == [["text 0", "text 1", "text 2"]]


def test_a_namespace_without_items_leaves_nothing_behind(store):
    store.put(NOTES, "a", {"n": 1})
    store.put(("other",), "b", {"n": 1})
    store.delete(NOTES, "a")
    assert store.list_namespaces() == [("other",)]
    assert len(store._chroma.client.list_collections()) == 2, (
        "the catalogue, and what is indexed in `other`"
    )
    store.put(NOTES, "a", {"n": 2})
    assert store.list_namespaces(prefix=("users",)) == [NOTES]
    assert keys(store.search(NOTES, query="n")) == ["a"]


def test_labels_are_checked_in_a_batch_too(store):
    for op in (PutOp(("a.b",), "key", {}), SearchOp(("a", 5))):
        with pytest.raises(InvalidNamespaceError):
            store.batch([op])


def test_a_refused_operation_leaves_the_whole_batch_undone(store):
    store.put(NOTES, "there", {})
    with pytest.raises(ValueError, match="Unsupported operator"):
        store.batch(
            [PutOp(NOTES, "a", {}), SearchOp(NOTES, filter={"a": {"$in": [1]}})]
        )
    with pytest.raises(ValueError, match="Unknown operation type"):
        store.batch([PutOp(NOTES, "a", {}), "get"])
    assert store.get(NOTES, "a") is None


def test_another_embedder_is_refused_with_both_names_and_the_remedy(tmp_path):
    with ChromaStore(tmp_path) as store:
        store.put(NOTES, "a", {"t": "x"})
    for other in (HashingEmbeddings(dims=64), DeterministicFakeEmbedding(size=1024)):
        with ChromaStore(tmp_path, embeddings=other) as store:
            for embed in (
                lambda s: s.put(NOTES, "b", {"t": "x"}),
                lambda s: s.search(NOTES, query="x"),
            ):
                with pytest.raises(
                    EmbedderMismatchError,
                    match=r"HashingEmbeddings\(dims=1024\).*new store",
                ) as caught:
                    embed(store)
                assert type(other).__name__ in str(caught.value)
            assert keys(store.search(NOTES)) == ["a"], "what embeds nothing works"
    with ChromaStore(tmp_path, embeddings=HashingEmbeddings()) as store:
        assert keys(store.search(NOTES, query="x")) == ["a"]


def test_an_embedder_that_loses_texts_is_noticed(tmp_path):
    class Losing(HashingEmbeddings):
        def embed_documents(self, texts):
            return super().embed_documents(texts)[1:]

    with (
        ChromaStore(tmp_path, embeddings=Losing()) as store,
        pytest.raises(ValueError, match="Losing returned 0 vectors for 1 texts"),
    ):
        store.put(NOTES, "a", {"t": "x"})


@pytest.mark.parametrize(
    "options", [{"embeddings": 5}, {"fields": "text"}, {"fields": []}, {"fields": [1]}]
)
def test_options_that_cannot_work_are_refused(tmp_path, options):
    with pytest.raises(ConfigurationError, match=f"{next(iter(options))} must be"):
        ChromaStore(tmp_path, **options)


@pytest.mark.parametrize("place", [None, 5, object()])
def test_a_place_that_is_neither_a_folder_nor_a_client_is_refused(place):
    with pytest.raises(ConfigurationError, match="a folder, or a sync client"):
        ChromaStore(place)


def test_a_client_of_a_folder_is_refused_since_it_takes_no_lock(tmp_path):
    client = chromadb.PersistentClient(tmp_path)
    with pytest.raises(
        ConfigurationError, match="In place of a PersistentClient, pass its folder"
    ):
        ChromaStore(client)
    client.close()


@pytest.mark.slow
def test_a_client_is_used_as_it_is_and_left_open():
    client = chromadb.EphemeralClient()
    try:
        with ChromaStore(client) as store:
            store.put(("ephemeral",), "a", {"t": "x"})
        with ChromaStore(client) as store:
            assert keys(store.search(("ephemeral",), query="x")) == ["a"]
    finally:
        for collection in client.list_collections():
            client.delete_collection(collection.name)
        client.close()


def test_a_closed_store_says_so(tmp_path):
    store = ChromaStore(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.get(NOTES, "a")


def test_a_store_that_is_closed_while_it_embeds_writes_nothing(tmp_path):
    class Closing(HashingEmbeddings):
        def embed_documents(self, texts):
            store.close()
            return super().embed_documents(texts)

    store = ChromaStore(tmp_path, embeddings=Closing())
    with pytest.raises(StoreError, match="closed"):
        store.put(NOTES, "a", {"t": "x"})
    with ChromaStore(tmp_path) as store:
        assert store.list_namespaces() == []


async def test_the_event_loop_goes_on_while_the_store_waits(store):
    lock, entered, release = store._chroma.mutex, threading.Event(), threading.Event()

    def hold():
        with lock:
            entered.set()
            release.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(30)
    putting = asyncio.create_task(store.aput(NOTES, "a", {"t": "x"}))
    getting = asyncio.create_task(store.aget(NOTES, "a"))
    await asyncio.sleep(0.05)
    assert not putting.done()
    assert not getting.done()
    release.set()
    await putting
    await getting
    holder.join()
    assert json.dumps((await store.aget(NOTES, "a")).value) == '{"t": "x"}'


@pytest.mark.slow
def test_a_store_that_is_forgotten_lets_go_of_its_folder(tmp_path):
    store = ChromaStore(tmp_path)
    store.put(NOTES, "a", {"t": "x"})
    connection = store._chroma
    del store
    gc.collect()
    assert connection.users == 0
