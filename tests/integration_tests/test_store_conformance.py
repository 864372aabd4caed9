"""What `langgraph.store.base` documents of stores, on each of LangGraph's own and on ChromaStore, sync and async.

Only what they have in common is tested for all. Where they differ, ChromaStore follows the majority of the other three,
or the documentation:

- results without a query: newest first (SqliteStore, PostgresStore), not in the order of insertion;
- `created_at` after an update: kept (PostgresStore, documentation), not renewed; times have a time zone (InMemoryStore,
  PostgresStore);
- a missing key is as if it were `None` (InMemoryStore);
- `$gt` and the like: numbers as numbers (InMemoryStore, documentation), not as text as in PostgresStore; a missing key
  does not match (SqliteStore, PostgresStore), rather than raise as in InMemoryStore;
- a mapping in a filter: matches its keys (InMemoryStore), rather than raise; `$eq` with one compares it whole
  (InMemoryStore, PostgresStore); a dot in a filter's key is part of the key (InMemoryStore, PostgresStore);
- a query finds indexed items only (SqliteStore, PostgresStore), and does not fill up with others; `index=["$"]`
  is the whole item, as `fields` documents, where the others index nothing;
- the texts of an item are embedded together, as one vector, which an update replaces; the others have one for each, and
  keep those of fields that the item no longer has;
- an emptied namespace is not listed (SqliteStore, PostgresStore), nor one that was only read;
- labels are checked in `batch`, too (SqliteStore, PostgresStore); keys that are no strings are refused (SqliteStore),
  as they would come back changed;
- the keys of a value keep their order (InMemoryStore, SqliteStore);
- `ttl=` is refused (InMemoryStore); SqliteStore and PostgresStore support it.
"""

from datetime import datetime

import pytest
from langgraph.store.base import (
    GetOp,
    Item,
    ListNamespacesOp,
    PutOp,
    SearchItem,
    SearchOp,
)

DOCS = ("docs", "ada")


def keys(found):
    return [item.key for item in found]


async def fill(store, values, namespace=DOCS):
    await store.batch([PutOp(namespace, key, value) for key, value in values.items()])


async def test_an_item_tells_where_it_is_and_when_it_was_written(store):
    await store.put(DOCS, "key", {"n": 1})
    (found,) = await store.search(DOCS)
    for item in (await store.get(DOCS, "key"), found):
        assert isinstance(item, Item)
        assert (item.namespace, item.key) == (DOCS, "key")
        assert isinstance(item.created_at, datetime)
        assert item.created_at <= item.updated_at
    assert isinstance(found, SearchItem)
    assert found.score is None


async def test_any_label_without_a_period_can_be_in_a_namespace(store, subtests):
    labels = ("日本 😀/b:c'; -- ?[x](a|b)\\", "%", "_")
    await store.put(("root", "a", "leaf"), "key", {"n": 2})
    for label in labels:
        with subtests.test(label=label):
            namespace = ("root", label, "leaf")
            await store.put(namespace, "key", {"n": 1})
            await store.put(("root", f"{label}x", "leaf"), "key", {"n": 3})
            assert (await store.get(namespace, "key")).value == {"n": 1}
            assert [
                item.value["n"] for item in await store.search(("root", label))
            ] == [1]
            assert await store.list_namespaces(prefix=("root", label)) == [namespace]
            assert await store.list_namespaces(suffix=(label, "leaf")) == [namespace]


async def test_a_prefix_is_one_of_labels_not_of_letters(store):
    for namespace in [
        ("foo",),
        ("foo", "bar"),
        ("foo", "bar", "baz"),
        ("foobar",),
        ("FOO",),
        ("bar", "foo"),
    ]:
        await store.put(namespace, "key", {"at": "/".join(namespace)})
    found = {item.value["at"] for item in await store.search(("foo",))}
    assert found == {"foo", "foo/bar", "foo/bar/baz"}
    assert {item.value["at"] for item in await store.search(("foo", "bar"))} == {
        "foo/bar",
        "foo/bar/baz",
    }
    assert len(await store.search(())) == 6


MEALS = {
    "soup": {
        "kind": "starter",
        "price": 4.5,
        "hot": True,
        "stock": 3,
        "tags": ["veg"],
        "note": None,
    },
    "salad": {
        "kind": "starter",
        "price": 5.5,
        "hot": False,
        "stock": 0,
        "tags": ["veg", "raw"],
        "note": "new",
    },
    "steak": {
        "kind": "main",
        "price": 9.5,
        "hot": True,
        "stock": 7,
        "tags": [],
        "note": "old",
    },
}


FILTERS = [
    (None, {"soup", "salad", "steak"}),
    ({}, {"soup", "salad", "steak"}),
    ({"kind": "starter"}, {"soup", "salad"}),
    ({"kind": "dessert"}, set()),
    ({"kind": "starter", "hot": True}, {"soup"}),
    ({"stock": 0}, {"salad"}),
    ({"price": 4.5}, {"soup"}),
    ({"hot": False}, {"salad"}),
    ({"tags": ["veg", "raw"]}, {"salad"}),
    ({"tags": ["raw", "veg"]}, set()),
    ({"note": None}, {"soup"}),
    ({"kind": {"$eq": "main"}}, {"steak"}),
    ({"kind": {"$ne": "main"}}, {"soup", "salad"}),
    ({"stock": {"$ne": 3}}, {"salad", "steak"}),
    ({"price": {"$gt": 4.5}}, {"salad", "steak"}),
    ({"price": {"$gte": 4.5}}, {"soup", "salad", "steak"}),
    ({"price": {"$lt": 5.5}}, {"soup"}),
    ({"price": {"$lte": 5.5}}, {"soup", "salad"}),
    ({"price": {"$gt": 4.5, "$lt": 9.5}}, {"salad"}),
    ({"stock": {"$gte": 3}, "kind": "main"}, {"steak"}),
    ({"missing": "x"}, set()),
    ({"missing": {"$eq": 1}}, set()),
]


async def test_filters_select_as_documented(store, subtests):
    await fill(store, MEALS)
    for conditions, expected in FILTERS:
        with subtests.test(conditions=conditions):
            found = await store.search(DOCS, filter=conditions)
            assert sorted(keys(found)) == sorted(expected)


async def test_a_batch_answers_in_order_from_the_state_before_its_writes(store):
    await fill(store, {"a": {"n": 1}, "b": {"n": 2}})
    results = await store.batch(
        [
            PutOp(DOCS, "a", {"n": 10}),
            GetOp(DOCS, "a"),
            SearchOp(DOCS, filter={"n": 2}),
            ListNamespacesOp(),
            PutOp(DOCS, "b", None),
            GetOp(DOCS, "missing"),
            GetOp(DOCS, "b"),
            PutOp(("new",), "c", {"n": 3}),
            GetOp(DOCS, "a"),
        ]
    )
    assert [results[position] for position in (0, 4, 5, 7)] == [None] * 4
    assert [results[position].value for position in (1, 6, 8)] == [
        {"n": 1},
        {"n": 2},
        {"n": 1},
    ]
    assert keys(results[2]) == ["b"]
    assert results[3] == [DOCS]
    assert (await store.get(DOCS, "a")).value == {"n": 10}
    assert await store.get(DOCS, "b") is None
    assert await store.list_namespaces() == [DOCS, ("new",)]


# --- queries ---


@pytest.fixture
def indexed(store):
    """A store that finds by meaning."""
    if not store.indexed:
        pytest.skip(
            "this Python's sqlite3 cannot load extensions, so SqliteStore has no vectors"
        )
    return store


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


async def test_an_item_that_is_not_indexed_is_stored_but_has_no_score(indexed):
    await indexed.put(DOCS, "secret", {"text": "grey stones"}, index=False)
    await indexed.put(DOCS, "open", {"text": "grey stones"})
    assert (await indexed.get(DOCS, "secret")).value == {"text": "grey stones"}
    assert sorted(keys(await indexed.search(DOCS))) == ["open", "secret"]
    scores = {
        item.key: item.score for item in await indexed.search(DOCS, query="grey stones")
    }
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
    await indexed.put(DOCS, "parts", value, index=["parts[0].t"])
    await indexed.put(DOCS, "last", value, index=["parts[-1].t"])
    for query, best in (
        ("red apples", {"title"}),
        ("grey stones", {"body"}),
        ("small birds", {"parts"}),
    ):
        found = await indexed.search(DOCS, query=query)
        assert {item.key for item in found if item.score > 0.99} == best
    found = await indexed.search(DOCS, query="long road")
    assert {item.key for item in found if item.score > 0.99} == {"last"}
