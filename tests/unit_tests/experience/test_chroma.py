"""ChromaStore in a local folder: items, vectors, filters, order, embedders. What stores share is in the conformance
suite of the integration tests; here is what only this one promises."""

import asyncio
import gc
import json
import random
import threading

import chromadb
import pytest
from chromadb.api.models.Collection import Collection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langgraph.store.base import GetOp, PutOp, SearchOp

from langchain_tooltree import ConfigurationError, HashingEmbeddings
from langchain_tooltree.experience import chroma_items, chroma_search
from langchain_tooltree.experience.chroma import ChromaStore
from langchain_tooltree.experience.chroma_catalogue import CATALOGUE
from langchain_tooltree.experience.store_errors import EmbedderMismatchError, StoreError

NOTES = ("users", "ada", "notes")


@pytest.fixture
def store(tmp_path):
    with ChromaStore(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    with ChromaStore(tmp_path_factory.mktemp("shared")) as opened:
        yield opened


def keys(found):
    return [item.key for item in found]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.text())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_comes_back_unchanged_under_any_key(shared_store, value, key):
    shared_store.put(("any",), key, value, index=False)
    assert shared_store.get(("any",), key).value == value


def test_a_lone_surrogate_and_a_nul_come_back_unchanged(store):
    value = {"cut": "\ud83d", "\udc00": 1, "nul": "a\x00b", "big": 2**80, "endless": float("inf")}
    store.put(NOTES, "odd", value)
    assert store.get(NOTES, "odd").value == value
    assert keys(store.search(NOTES, filter={"cut": "\ud83d", "\udc00": 1})) == ["odd"]


def test_a_result_is_a_copy(store):
    store.put(NOTES, "a", {"tags": ["x"]})
    store.get(NOTES, "a").value["tags"].append("y")
    assert store.get(NOTES, "a").value == {"tags": ["x"]}


@pytest.mark.parametrize("value", [{1: "a"}, {"a": {None: 1}}, {"a": [{2: 1}]}, {"a": object()}])
def test_what_json_would_change_is_refused(store, value):
    with pytest.raises(TypeError):
        store.put(NOTES, "a", value)
    assert store.get(NOTES, "a") is None


def test_times_tell_the_first_and_the_last_writing(store):
    store.put(NOTES, "a", {"n": 1})
    first = store.get(NOTES, "a")
    store.put(NOTES, "a", {"n": 2})
    second = store.get(NOTES, "a")
    assert first.created_at == first.updated_at == second.created_at < second.updated_at
    assert second.created_at.tzinfo is not None


def test_writes_of_one_batch_have_an_order(store):
    store.batch([PutOp(NOTES, str(n), {"n": n}) for n in range(30)])
    assert keys(store.search(NOTES, limit=30)) == [str(n) for n in reversed(range(30))]


def test_results_without_a_query_come_newest_first_page_by_page(tmp_path, monkeypatch):
    monkeypatch.setattr(chroma_items, "READ", 16)
    order = ["8", "150", "7", *(str(n) for n in reversed(range(200)) if n not in {7, 8, 150})]
    odd = [key for key in order if int(key) % 2]

    def check(store):
        pages = [keys(store.search(NOTES[:2], limit=15, offset=offset)) for offset in range(0, 210, 15)]
        assert [key for page in pages for key in page] == order
        assert keys(store.search(NOTES[:2], filter={"odd": True}, limit=500)) == odd
        assert (
            keys(store.search(NOTES[:2], filter={"n": {"$lt": 60}, "odd": True}, limit=5, offset=20))
            == [key for key in odd if int(key) < 60][20:25]
        )

    with ChromaStore(tmp_path) as store:
        for n in (*range(200), 7, 150, 8):
            store.put((*NOTES, str(n % 3)), str(n), {"n": n, "odd": n % 2 == 1}, index=False)
            if n == 100:
                assert keys(store.search(NOTES, limit=2)) == ["100", "99"]  # the order is known from now on
        check(store)
    with ChromaStore(tmp_path) as store:
        check(store)


def test_an_item_written_by_a_clock_that_was_ahead_does_not_hide_later_ones(tmp_path):
    with ChromaStore(tmp_path) as store:
        store.put(NOTES, "now", {"n": 1})
        store._catalogue.connection.advance(2**52)
        store.put(NOTES, "ahead", {"n": 2})
    with ChromaStore(tmp_path) as store:
        assert keys(store.search(NOTES)) == ["ahead", "now"]
        store.put(NOTES, "later", {"n": 3})
        assert keys(store.search(NOTES)) == ["later", "ahead", "now"]
    with ChromaStore(tmp_path) as store:
        assert keys(store.search(NOTES)) == ["later", "ahead", "now"]


def test_a_write_that_fails_midway_does_not_disturb_the_order(store, monkeypatch):
    store.put(NOTES, "a", {"n": 1}, index=False)
    assert keys(store.search(NOTES)) == ["a"]
    monkeypatch.setattr(chroma_items, "_pieces", lambda rows, *_: iter([rows[:1], 1 / 0]) if rows else iter([]))
    with pytest.raises(ZeroDivisionError):
        store.put(NOTES, "b", {"n": 2}, index=False)
    monkeypatch.undo()
    store.put(NOTES, "c", {"n": 3}, index=False)
    store.delete(NOTES, "a")
    assert keys(store.search(NOTES)) == ["c"]


def test_the_best_vector_of_an_item_counts(store):
    store.put(NOTES, "two", {"parts": ["red apples", "grey stones"]}, index=["parts[*]"])
    store.put(NOTES, "one", {"parts": ["grey apples"]}, index=["parts[*]"])
    assert keys(store.search(NOTES, query="red apples")) == ["two", "one"]
    assert keys(store.search(NOTES, query="grey stones")) == ["two", "one"]
    assert store.search(NOTES, query="grey stones")[0].score == pytest.approx(1, abs=1e-5)


def test_the_store_s_fields_are_embedded_unless_the_item_says_otherwise(tmp_path):
    with ChromaStore(tmp_path, fields=["text"]) as store:
        store.put(NOTES, "default", {"text": "red", "other": "blue"})
        store.put(NOTES, "own", {"text": "red", "other": "blue"}, index=["other"])
        store.put(NOTES, "whole", {"text": "red", "other": "blue"}, index=["$"])
        store.put(NOTES, "missing", {"other": "red"})
        scores = {item.key: item.score for item in store.search(NOTES, query="red")}
    assert scores["default"] == pytest.approx(1, abs=1e-5)
    assert scores["own"] == pytest.approx(0, abs=0.1)
    assert 0.2 < scores["whole"] < 0.9
    assert "missing" not in scores


def test_an_update_replaces_all_vectors_of_an_item(store):
    store.put(NOTES, "a", {"parts": ["red apples", "grey stones", "tall trees"]}, index=["parts[*]"])
    store.put(NOTES, "a", {"parts": ["blue sky"]}, index=["parts[*]"])
    vectors = store._catalogue.vectors(NOTES)
    assert vectors.count() == 1
    assert store.search(NOTES, query="grey stones")[0].score < 0.2
    store.put(NOTES, "a", {"parts": ["blue sky"]}, index=False)
    assert store.search(NOTES, query="blue sky") == []
    assert vectors.count() == 0


def test_nothing_is_embedded_without_need(tmp_path, monkeypatch):
    def refuse(*_):
        msg = "nothing is to be embedded"
        raise AssertionError(msg)

    monkeypatch.setattr("chromadb.utils.embedding_functions.DefaultEmbeddingFunction.__call__", refuse)
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


def brute_force(values, embeddings, query, limit, wanted=lambda _: True):
    asked = embeddings.embed_query(query)
    scores = {
        key: sum(a * b for a, b in zip(embeddings.embed_query(value["t"]), asked, strict=True))
        for key, value in values.items()
        if wanted(value)
    }
    return sorted(scores.values(), reverse=True)[:limit]


@pytest.mark.parametrize(("exact", "few"), [(5000, 1000), (50, 20), (50, 0), (0, 1000)])
def test_filters_and_queries_together_lose_nothing(tmp_path, monkeypatch, exact, few):
    monkeypatch.setattr(chroma_search, "EXACT", exact)
    monkeypatch.setattr(chroma_search, "FEW", few)
    monkeypatch.setattr(chroma_search, "FIRST", 20)
    words = ["apple", "stone", "river", "cloud", "tree", "lamp", "road", "bird"]
    draw = random.Random(7)  # noqa: S311 - a test's data
    values = {f"k{n}": {"t": " ".join(draw.choices(words, k=4)), "rare": n % 50, "n": n} for n in range(400)}
    embeddings = HashingEmbeddings(dims=64)
    with ChromaStore(tmp_path, embeddings=embeddings, fields=["t"]) as store:
        store.batch([PutOp(NOTES, key, value) for key, value in values.items()])
        for conditions, wanted in (
            ({"rare": 3}, lambda value: value["rare"] == 3),
            ({"n": {"$gte": 392}}, lambda value: value["n"] >= 392),
            ({"n": {"$lt": 300}, "rare": 7.0}, lambda value: value["n"] < 300 and value["rare"] == 7),
            ({"n": {"$lt": 0}}, lambda value: value["n"] < 0),
        ):
            found = store.search(NOTES, query="river stone", filter=conditions, limit=20)
            expected = brute_force(values, embeddings, "river stone", 20, wanted)
            assert [item.score for item in found] == pytest.approx(expected, abs=1e-5), conditions
        everything = store.search(NOTES, query="river stone", limit=1000)
        assert {item.key for item in everything} == set(values)
        page = store.search(NOTES, query="river stone", limit=10, offset=390)
        assert len(page) == 10


@pytest.mark.parametrize("exact", [5000, 0])
def test_vectors_that_chroma_s_graph_does_not_reach_are_found(store, monkeypatch, exact):
    monkeypatch.setattr(chroma_search, "EXACT", exact)
    monkeypatch.setattr(chroma_search, "FIRST", 5)
    store.batch([PutOp(NOTES, str(n), {"t": f"word{n}"}, ["t"]) for n in range(40)])
    query = Collection.query

    def forgetful(self, **options):
        page = query(self, **options)
        kept = [position for position, row in enumerate(page["ids"][0]) if not row.endswith((".7", ".8"))]
        return {
            "ids": [[page["ids"][0][position] for position in kept]],
            "distances": [[page["distances"][0][position] for position in kept]],
        }

    monkeypatch.setattr(Collection, "query", forgetful)
    found = store.search(NOTES, query="word7", limit=40)
    assert len(found) == 40
    assert (found[0].key, round(found[0].score, 4)) == ("7", 1)


def test_chroma_s_filter_follows_an_item_s_changes(store):
    store.put(NOTES, "a", {"kind": "x", "more": 1})
    store.put(NOTES, "a", {"kind": 5})
    assert store.search(NOTES, filter={"kind": "x"}) == []
    assert store.search(NOTES, filter={"more": 1}) == []
    assert keys(store.search(NOTES, filter={"kind": 5})) == ["a"]
    assert keys(store.search(NOTES, filter={"more": None})) == ["a"]
    item = store._catalogue.items(NOTES).get(include=["metadatas"])["metadatas"][0]
    assert "v.more" not in item


def test_a_text_without_words_can_be_stored_and_searched_for(store):
    store.put(NOTES, "empty", {})
    store.put(NOTES, "words", {"t": "some"})
    assert {item.key: item.score for item in store.search(NOTES, query="...")} == {"empty": 0, "words": 0}


def test_more_items_than_chroma_takes_at_once_are_stored(store):
    count = store._catalogue.connection.max_batch + 10
    store.batch([PutOp(NOTES, str(n), {"n": n}, index=False) for n in range(count)])
    assert len(store.search(NOTES, limit=count + 1)) == count
    store.batch([PutOp(NOTES, str(n), None) for n in range(count)])
    assert store.search(NOTES) == []


def test_many_vectors_and_large_values_are_written_in_portions(store, monkeypatch):
    monkeypatch.setattr(chroma_items, "PAYLOAD", 1000)
    monkeypatch.setattr(chroma_items, "READ", 3)
    values = {str(n): {"t": f"word{n} " * 100} for n in range(20)}
    store.batch([PutOp(NOTES, key, value) for key, value in values.items()])
    assert {item.key: item.value for item in store.search(NOTES, limit=50)} == values
    assert keys(store.search(NOTES, query="word7", limit=1)) == ["7"]


def test_a_namespace_without_items_leaves_nothing_behind(store):
    store.put(NOTES, "a", {"n": 1})
    store.put(("other",), "b", {"n": 1})
    store.delete(NOTES, "a")
    assert store.list_namespaces() == [("other",)]
    names = [found.name for found in store._catalogue.connection.client.list_collections()]
    assert len(names) == 3
    assert CATALOGUE in names
    store.put(NOTES, "a", {"n": 2})
    assert store.list_namespaces(prefix=("users",)) == [NOTES]
    assert keys(store.search(NOTES, query="n")) == ["a"]


def test_expiry_is_refused_as_by_other_stores_without_it(store):
    with pytest.raises(NotImplementedError, match="TTL is not supported by ChromaStore"):
        store.put(NOTES, "a", {}, ttl=5)
    with pytest.raises(NotImplementedError, match="TTL is not supported by ChromaStore"):
        store.batch([PutOp(NOTES, "a", {}, ttl=5)])
    assert store.supports_ttl is False


def test_a_refused_operation_leaves_the_whole_batch_undone(store):
    with pytest.raises(ValueError, match="Unsupported operator"):
        store.batch([PutOp(NOTES, "a", {}), SearchOp(NOTES, filter={"a": {"$in": [1]}})])
    with pytest.raises(ValueError, match="Unknown operation type"):
        store.batch([PutOp(NOTES, "a", {}), "get"])
    assert store.get(NOTES, "a") is None


class Unnamed(Embeddings):
    """An embedder whose settings do not show."""

    def __init__(self, length):
        self._length = length

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [float(len(text))] * self._length


def test_another_embedder_is_refused_with_both_names_and_the_remedy(tmp_path):
    with ChromaStore(tmp_path) as store:
        store.put(NOTES, "a", {"t": "x"})
    for other in (HashingEmbeddings(dims=64), DeterministicFakeEmbedding(size=1024)):
        with pytest.raises(EmbedderMismatchError, match=r"HashingEmbeddings\(dims=1024\).*new store") as caught:
            ChromaStore(tmp_path, embeddings=other)
        assert type(other).__name__ in str(caught.value)
    with ChromaStore(tmp_path, embeddings=HashingEmbeddings()) as store:
        assert keys(store.search(NOTES, query="x")) == ["a"]


def test_a_store_without_vectors_is_not_bound_to_an_embedder(tmp_path):
    with ChromaStore(tmp_path) as store:
        store.put(NOTES, "a", {"t": "x"}, index=False)
        assert store.search(NOTES, query="x") == []
    with ChromaStore(tmp_path, embeddings=HashingEmbeddings(dims=8)) as store:
        store.put(NOTES, "b", {"t": "x"})


def test_vectors_of_another_length_are_refused_where_only_they_tell(tmp_path):
    with ChromaStore(tmp_path, embeddings=Unnamed(3)) as store:
        store.put(NOTES, "a", {"t": "x"})
    with ChromaStore(tmp_path, embeddings=Unnamed(4)) as store:
        with pytest.raises(EmbedderMismatchError, match=r"length 3.*length 4"):
            store.search(NOTES, query="x")
        with pytest.raises(EmbedderMismatchError, match=r"length 3.*length 4"):
            store.put(NOTES, "b", {"t": "x"})
        assert keys(store.search(NOTES)) == ["a"]


def test_an_embedder_that_loses_texts_is_noticed(tmp_path):
    class Losing(HashingEmbeddings):
        def embed_documents(self, texts):
            return super().embed_documents(texts)[1:]

    with (
        ChromaStore(tmp_path, embeddings=Losing()) as store,
        pytest.raises(ValueError, match="Losing returned 0 vectors for 1 texts"),
    ):
        store.put(NOTES, "a", {"t": "x"})


def test_an_embedder_can_be_given_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "langchain_tooltree.experience.embedders.init_embeddings", lambda name: HashingEmbeddings(int(name[-2:]))
    )
    with ChromaStore(tmp_path, embeddings="hashing:32") as store:
        assert store.embeddings.dims == 32


@pytest.mark.parametrize("options", [{"embeddings": 5}, {"fields": "text"}, {"fields": []}, {"fields": [1]}])
def test_options_that_cannot_work_are_refused(tmp_path, options):
    with pytest.raises(ConfigurationError, match=f"{next(iter(options))} must be"):
        ChromaStore(tmp_path, **options)


@pytest.mark.parametrize("place", [None, 5, object()])
def test_a_place_that_is_neither_a_folder_nor_a_client_is_refused(place):
    with pytest.raises(ConfigurationError, match="a folder or a sync client"):
        ChromaStore(place)


def test_a_client_is_used_as_it_is_and_left_open():
    client = chromadb.EphemeralClient()
    try:
        with ChromaStore(client) as store:
            store.put(("ephemeral",), "a", {"t": "x"})
        assert client.get_collection(CATALOGUE, embedding_function=None).count() == 2
        with ChromaStore(client) as store:
            assert keys(store.search(("ephemeral",), query="x")) == ["a"]
    finally:
        for collection in client.list_collections():
            client.delete_collection(collection.name)
        client.close()


@pytest.fixture
def two_clients():
    """Two stores that know nothing of each other, as those of two processes on one server."""
    client = chromadb.EphemeralClient()
    yield ChromaStore(client), ChromaStore(client)
    for collection in client.list_collections():
        client.delete_collection(collection.name)
    client.close()


def test_stores_on_one_server_see_each_other_s_order(two_clients):
    store, other = two_clients
    store.put(NOTES, "a", {"n": 1})
    assert keys(other.search(NOTES)) == ["a"]
    store.put(NOTES, "b", {"n": 1})
    other.put(NOTES, "a", {"n": 2})
    store.put(NOTES, "c", {"n": 1})
    assert keys(store.search(NOTES)) == keys(other.search(NOTES)) == ["c", "a", "b"]
    other.delete(NOTES, "c")
    assert keys(store.search(NOTES)) == ["a", "b"]


def test_an_item_that_another_process_rewrites_during_a_query_is_found(two_clients, monkeypatch):
    store, other = two_clients
    other.put(NOTES, "a", {"t": "grey stone", "n": 0})
    turn = 0

    def racing(items, keys):
        nonlocal turn
        turn += 1
        if turn < 4:
            other.put(NOTES, "a", {"t": "grey stone", "n": turn})
        return chroma_items.read_items(items, keys)

    monkeypatch.setattr(chroma_search, "read_items", racing)
    (found,) = store.search(NOTES, query="grey stone")
    assert found.value["n"] == 3


def test_what_a_dead_process_left_on_a_server_is_passed_over(two_clients):
    store, other = two_clients
    other.put(NOTES, "a", {"t": "grey stone"}, ["t"])
    other._catalogue.vectors(NOTES).upsert(
        ids=["dead.0.a"], embeddings=[HashingEmbeddings().embed_query("red apple")], metadatas=[{"key": "a"}]
    )
    (found,) = store.search(NOTES, query="red apple")
    assert found.score < 0.5
    assert other._catalogue.vectors(NOTES).count() == 2


def test_a_closed_store_says_so(tmp_path):
    store = ChromaStore(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.get(NOTES, "a")


async def test_the_event_loop_goes_on_while_the_store_waits(store):
    lock, entered, release = store._catalogue.connection.mutex, threading.Event(), threading.Event()

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


async def test_tasks_at_once_lose_no_writes(store):
    await asyncio.gather(*(store.aput(NOTES, str(n), {"t": f"text {n}"}) for n in range(30)))
    found = await asyncio.gather(*(store.asearch(NOTES, query=f"text {n}", limit=1) for n in range(30)))
    assert [keys(one) for one in found] == [[str(n)] for n in range(30)]
    assert (await store.abatch([GetOp(NOTES, "3")]))[0].value == {"t": "text 3"}


def test_a_store_that_is_forgotten_lets_go_of_its_folder(tmp_path):
    store = ChromaStore(tmp_path)
    store.put(NOTES, "a", {"t": "x"})
    lock = store._lease
    del store
    gc.collect()
    assert lock._released
