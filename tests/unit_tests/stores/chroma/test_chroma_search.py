"""What a search of ChromaStore finds, and in which order: newest first, or nearest first and nothing left out."""

import random

import chromadb
import pytest
from langgraph.store.base import PutOp

from langchain_tooltree import ChromaStore, HashingEmbeddings
from langchain_tooltree.stores import chroma as store_module

NOTES = ("users", "ada", "notes")


@pytest.fixture
def store(tmp_path):
    with ChromaStore(tmp_path) as opened:
        yield opened


def keys(found):
    return [item.key for item in found]


def test_writes_of_one_batch_have_an_order(store):
    store.batch([PutOp(NOTES, str(n), {"n": n}) for n in range(30)])
    assert keys(store.search(NOTES, limit=30)) == [str(n) for n in reversed(range(30))]


@pytest.mark.slow
def test_results_without_a_query_come_newest_first_page_by_page(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "ROW_BATCH_SIZE", 16)
    order = [
        "8",
        "50",
        "7",
        *(str(n) for n in reversed(range(90)) if n not in {7, 8, 50}),
    ]
    odd = [key for key in order if int(key) % 2]

    def check(store):
        pages = [
            keys(store.search(NOTES[:2], limit=15, offset=offset))
            for offset in range(0, 105, 15)
        ]
        assert [key for page in pages for key in page] == order
        assert keys(store.search(NOTES[:2], filter={"odd": True}, limit=500)) == odd
        assert (
            keys(
                store.search(
                    NOTES[:2],
                    filter={"n": {"$lt": 60}, "odd": True},
                    limit=5,
                    offset=20,
                )
            )
            == [key for key in odd if int(key) < 60][20:25]
        )

    with ChromaStore(tmp_path) as store:
        for n in (*range(90), 7, 50, 8):
            store.put(
                (*NOTES, str(n % 3)), str(n), {"n": n, "odd": n % 2 == 1}, index=False
            )
            if n == 100:
                assert keys(store.search(NOTES, limit=2)) == [
                    "100",
                    "99",
                ]  # the order is known from now on
        check(store)
    with ChromaStore(tmp_path) as store:
        check(store)


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


def vectors_in(store):
    return store._chroma.find(("indexed", NOTES))


def test_the_texts_of_an_item_are_one_vector_which_an_update_replaces(store):
    store.put(NOTES, "a", {"parts": ["red apples", "grey stones"]}, index=["parts[*]"])
    assert store.search(NOTES, query="red apples\ngrey stones")[
        0
    ].score == pytest.approx(1, abs=1e-5)
    store.put(NOTES, "a", {"parts": ["blue sky"]}, index=["parts[*]"])
    assert vectors_in(store).count() == 1
    assert store.search(NOTES, query="grey stones")[0].score < 0.2
    store.put(NOTES, "a", {"parts": ["blue sky"]}, index=False)
    assert store.search(NOTES, query="blue sky") == []
    assert vectors_in(store).count() == 0


def brute_force(values, embeddings, query, limit, wanted=lambda _: True):
    asked = embeddings.embed_query(query)
    scores = {
        key: sum(
            a * b
            for a, b in zip(embeddings.embed_query(value["t"]), asked, strict=True)
        )
        for key, value in values.items()
        if wanted(value)
    }
    return sorted(scores.values(), reverse=True)[:limit]


@pytest.mark.slow
def test_filters_and_queries_together_lose_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "FIRST_FILTERED_ROWS", 20)
    words = ["apple", "stone", "river", "cloud", "tree", "lamp", "road", "bird"]
    draw = random.Random(7)  # noqa: S311 - a test's data
    values = {
        f"k{n}": {"t": " ".join(draw.choices(words, k=4)), "rare": n % 50, "n": n}
        for n in range(400)
    }
    embeddings = HashingEmbeddings(dims=64)
    with ChromaStore(tmp_path, embeddings=embeddings, fields=["t"]) as store:
        store.batch([PutOp(NOTES, key, value) for key, value in values.items()])
        for conditions, wanted in (
            ({"rare": 3}, lambda value: value["rare"] == 3),
            ({"n": {"$gte": 392}}, lambda value: value["n"] >= 392),
            (
                {"n": {"$lt": 300}, "rare": 7.0},
                lambda value: value["n"] < 300 and value["rare"] == 7,
            ),
            ({"n": {"$lt": 0}}, lambda value: value["n"] < 0),
        ):
            found = store.search(
                NOTES, query="river stone", filter=conditions, limit=20
            )
            expected = brute_force(values, embeddings, "river stone", 20, wanted)
            assert [item.score for item in found] == pytest.approx(
                expected, abs=1e-5
            ), conditions
        everything = store.search(NOTES, query="river stone", limit=1000)
        assert {item.key for item in everything} == set(values)
        page = store.search(NOTES, query="river stone", limit=10, offset=390)
        assert len(page) == 10


def test_a_text_without_words_can_be_stored_and_searched_for(store):
    store.put(NOTES, "empty", {})
    store.put(NOTES, "words", {"t": "some"})
    assert {item.key: item.score for item in store.search(NOTES, query="...")} == {
        "empty": 0,
        "words": 0,
    }


def test_many_vectors_and_large_values_are_written_in_portions(store, monkeypatch):
    monkeypatch.setattr(store_module, "PAYLOAD", 1000)
    monkeypatch.setattr(store_module, "ROW_BATCH_SIZE", 3)
    values = {str(n): {"t": f"word{n} " * 100} for n in range(20)}
    store.batch([PutOp(NOTES, key, value) for key, value in values.items()])
    assert {item.key: item.value for item in store.search(NOTES, limit=50)} == values
    assert keys(store.search(NOTES, query="word7", limit=1)) == ["7"]


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
