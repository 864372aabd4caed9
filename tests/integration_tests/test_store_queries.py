"""What `langgraph.store.base` documents of queries, on LangGraph's own stores and on ChromaStore, sync and async.

Where they differ, `test_store_conformance.py` says whom ChromaStore follows.
"""

import pytest
from langgraph.store.base import PutOp

DOCS = ("docs", "ada")


@pytest.fixture
def indexed(store):
    """A store that finds by meaning."""
    if not store.indexed:
        pytest.skip("this Python's sqlite3 cannot load extensions, so SqliteStore has no vectors")
    return store


def keys(found):
    return [item.key for item in found]


async def fill(store, values, namespace=DOCS):
    await store.batch([PutOp(namespace, key, value) for key, value in values.items()])


TEXTS = {
    "apples": {"text": "red apples in a basket"},
    "stones": {"text": "grey stones by the river"},
    "birds": {"text": "small birds over the river"},
}


async def test_a_query_ranks_by_similarity_higher_is_better(indexed):
    await fill(indexed, TEXTS)
    found = await indexed.search(DOCS, query="birds over the river")
    assert keys(found) == ["birds", "stones", "apples"]
    scores = [item.score for item in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] <= 1
    assert keys(await indexed.search(("docs",), query="apples", limit=1)) == ["apples"]


async def test_a_score_is_the_cosine_similarity(indexed):
    await indexed.put(DOCS, "same", {"text": "grey stones"}, index=["text"])
    (found,) = await indexed.search(DOCS, query="grey stones")
    assert found.score == pytest.approx(1, abs=1e-4)


async def test_an_empty_query_is_none(indexed):
    await fill(indexed, TEXTS)
    found = await indexed.search(DOCS, query="")
    assert {item.score for item in found} == {None}
    assert len(found) == 3


async def test_queries_filters_prefixes_and_pages_go_together(indexed):
    for n in range(12):
        await indexed.put((*DOCS, str(n % 3)), f"k{n:02}", {"text": f"{'river ' * (n + 1)}stone", "even": n % 2 == 0})
    everything = await indexed.search(DOCS, query="river", limit=12)
    even = [key for key in keys(everything) if int(key[1:]) % 2 == 0]
    assert keys(await indexed.search(DOCS, query="river", filter={"even": True}, limit=12)) == even
    assert keys(await indexed.search(DOCS, query="river", filter={"even": True}, limit=2, offset=2)) == even[2:4]
    below = [item.key for item in everything if item.namespace == (*DOCS, "1")]
    assert keys(await indexed.search((*DOCS, "1"), query="river")) == below


async def test_an_item_that_is_not_indexed_is_stored_but_has_no_score(indexed):
    await indexed.put(DOCS, "secret", {"text": "grey stones"}, index=False)
    await indexed.put(DOCS, "open", {"text": "grey stones"})
    assert (await indexed.get(DOCS, "secret")).value == {"text": "grey stones"}
    assert sorted(keys(await indexed.search(DOCS))) == ["open", "secret"]
    scores = {item.key: item.score for item in await indexed.search(DOCS, query="grey stones")}
    assert scores.get("secret") is None
    assert scores["open"] > 0.5


async def test_only_the_fields_asked_for_are_indexed(indexed):
    value = {
        "title": "red apples",
        "body": {"text": "grey stones"},
        "parts": [{"t": "small birds"}, {"t": "long road"}],
    }
    await indexed.put(DOCS, "title", value, index=["title"])
    await indexed.put(DOCS, "body", value, index=["body.text"])
    await indexed.put(DOCS, "parts", value, index=["parts[*].t"])
    await indexed.put(DOCS, "last", value, index=["parts[-1].t"])
    for query, best in (("red apples", {"title"}), ("grey stones", {"body"}), ("small birds", {"parts"})):
        found = await indexed.search(DOCS, query=query)
        assert {item.key for item in found if item.score > 0.99} == best
    found = await indexed.search(DOCS, query="long road")
    assert {item.key for item in found if item.score > 0.99} == {"parts", "last"}


async def test_each_item_comes_once_by_the_best_of_its_vectors(indexed):
    await indexed.put(DOCS, "both", {"parts": ["grey stones", "grey stones and more"]}, index=["parts[*]"])
    await indexed.put(DOCS, "one", {"parts": ["stones"]}, index=["parts[*]"])
    found = await indexed.search(DOCS, query="grey stones")
    assert keys(found) == ["both", "one"]
    assert found[0].score == pytest.approx(1, abs=1e-4)


async def test_an_update_changes_what_finds_an_item(indexed):
    await indexed.put(DOCS, "key", {"text": "grey stones"}, index=["text"])
    await indexed.put(DOCS, "key", {"text": "red apples"}, index=["text"])
    (found,) = await indexed.search(DOCS, query="red apples")
    assert found.score == pytest.approx(1, abs=1e-4)
    assert (await indexed.search(DOCS, query="grey stones"))[0].score < 0.5


async def test_a_deleted_item_is_found_by_no_query(indexed):
    await fill(indexed, TEXTS)
    await indexed.delete(DOCS, "birds")
    assert keys(await indexed.search(DOCS, query="birds")) != []
    assert "birds" not in keys(await indexed.search(DOCS, query="birds"))
