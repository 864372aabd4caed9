"""What `langgraph.store.base` documents of stores, on each of LangGraph's own and on ChromaStore, sync and async.

Items, filters and namespaces are here, queries in `test_store_queries.py`.

Only what they have in common is tested for all. Where they differ (`python -m tests.benchmarks.store_differences`
prints what each does), ChromaStore follows the majority of the other three, or the documentation:

- results without a query: newest first (SqliteStore, PostgresStore), not in the order of insertion;
- `created_at` after an update: kept (PostgresStore, documentation), not renewed; times have a time zone (InMemoryStore,
  PostgresStore);
- `$ne` on a missing key: no match (SqliteStore, PostgresStore); `None` on a missing key: a match (InMemoryStore,
  SqliteStore);
- `$gt` and the like: numbers as numbers (documentation), not as text as in PostgresStore; what cannot be compared does
  not match (SqliteStore, PostgresStore), rather than raise as in InMemoryStore;
- a mapping in a filter: matches its keys (InMemoryStore), rather than raise; `$eq` with one compares it whole
  (InMemoryStore, PostgresStore); a dot in a filter's key is part of the key (InMemoryStore, PostgresStore);
- a query finds indexed items only (SqliteStore, PostgresStore), and does not fill up with others; `index=["$"]`
  is the whole item, as `fields` documents, where the others index nothing;
- an update replaces all vectors of an item; the others keep those of fields that it no longer has;
- an emptied namespace is not listed (SqliteStore, PostgresStore), nor one that was only read;
- labels are checked in `batch`, too (SqliteStore, PostgresStore); keys that are no strings are refused (SqliteStore),
  as they would come back changed;
- the keys of a value keep their order (InMemoryStore, SqliteStore);
- `ttl=` is refused (InMemoryStore); SqliteStore and PostgresStore support it.
"""

import asyncio
from datetime import datetime

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)

DOCS = ("docs", "ada")


def keys(found):
    return [item.key for item in found]


async def fill(store, values, namespace=DOCS):
    await store.batch([PutOp(namespace, key, value) for key, value in values.items()])


VALUES = [
    {},
    {"text": "plain", "number": 1, "ratio": 0.25, "yes": True, "no": False, "nothing": None},
    {"list": [1, "two", None, [3, {"four": 4}], {}], "empty": [], "deep": {"a": {"b": {"c": [{"d": {}}]}}}},
    {"text": "naïve 日本語 😀 \"quoted\" 'single' \\ / \n\t", "": "empty key", "a.b": 1, "$eq": 2, "with space": 3},
    {"negative": -5, "big": 2**53, "small": 1e-300, "zero": 0, "float": 3.0},
]


async def test_a_value_comes_back_unchanged(store, subtests):
    for number, value in enumerate(VALUES):
        with subtests.test(value=value):
            await store.put(DOCS, f"key{number}", value)
            found = (await store.get(DOCS, f"key{number}")).value
            assert found == value
            assert {key: type(entry) for key, entry in found.items()} == {
                key: type(entry) for key, entry in value.items()
            }


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


async def test_what_is_not_there_is_none(store):
    assert await store.get(DOCS, "key") is None
    await store.put(DOCS, "key", {"n": 1})
    assert await store.get(DOCS, "other") is None
    assert await store.get(("docs",), "key") is None
    assert await store.get((*DOCS, "deeper"), "key") is None
    assert await store.search(("elsewhere",)) == []


async def test_a_second_put_replaces_the_value(store):
    await store.put(DOCS, "key", {"a": 1, "b": 2})
    before = await store.get(DOCS, "key")
    await store.put(DOCS, "key", {"b": 3})
    after = await store.get(DOCS, "key")
    assert after.value == {"b": 3}
    assert after.updated_at >= before.updated_at
    assert len(await store.search(DOCS)) == 1


async def test_a_deleted_item_is_gone(store):
    await fill(store, {"a": {"n": 1}, "b": {"n": 2}})
    await store.delete(DOCS, "a")
    assert await store.get(DOCS, "a") is None
    assert keys(await store.search(DOCS)) == ["b"]
    await store.delete(DOCS, "a")
    await store.delete(("elsewhere",), "a")
    await store.put(DOCS, "a", {"n": 3})
    assert (await store.get(DOCS, "a")).value == {"n": 3}


async def test_any_text_can_be_a_key(store, subtests):
    for key in ("plain", "with space", "a.b", "a/b:c", "日本 😀", "'; --", "%_*?[x]", "x" * 300, "*"):
        with subtests.test(key=key):
            await store.put(DOCS, key, {"n": 1})
            assert (await store.get(DOCS, key)).key == key
            assert keys(await store.search(DOCS)) == [key]
            await store.delete(DOCS, key)


async def test_any_label_without_a_period_can_be_in_a_namespace(store, subtests):
    labels = ("with space", "a/b:c", "日本 😀", "'; --", "%", "_", "?", "[x]", "\\", "(a|b)", "A")
    await store.put(("root", "a", "leaf"), "key", {"n": 2})
    for label in labels:
        with subtests.test(label=label):
            namespace = ("root", label, "leaf")
            await store.put(namespace, "key", {"n": 1})
            await store.put(("root", f"{label}x", "leaf"), "key", {"n": 3})
            assert (await store.get(namespace, "key")).value == {"n": 1}
            assert [item.value["n"] for item in await store.search(("root", label))] == [1]
            assert await store.list_namespaces(prefix=("root", label)) == [namespace]
            assert await store.list_namespaces(suffix=(label, "leaf")) == [namespace]


async def test_namespaces_may_be_deep(store):
    namespace = tuple(f"level{n}" for n in range(40))
    await store.put(namespace, "key", {"n": 1})
    assert (await store.get(namespace, "key")).namespace == namespace
    assert (await store.search(namespace[:20]))[0].namespace == namespace
    assert await store.list_namespaces() == [namespace]


async def test_a_prefix_is_one_of_labels_not_of_letters(store):
    for namespace in [("foo",), ("foo", "bar"), ("foo", "bar", "baz"), ("foobar",), ("FOO",), ("bar", "foo")]:
        await store.put(namespace, "key", {"at": "/".join(namespace)})
    found = {item.value["at"] for item in await store.search(("foo",))}
    assert found == {"foo", "foo/bar", "foo/bar/baz"}
    assert {item.value["at"] for item in await store.search(("foo", "bar"))} == {"foo/bar", "foo/bar/baz"}
    assert len(await store.search(())) == 6


async def test_pages_cover_everything_once(store):
    values = {f"k{n:02}": {"n": n} for n in range(25)}
    for key, value in values.items():
        await store.put((*DOCS, str(value["n"] % 3)), key, value)
    assert len(await store.search(DOCS)) == 10
    pages = [await store.search(DOCS, limit=7, offset=offset) for offset in range(0, 35, 7)]
    assert [len(page) for page in pages] == [7, 7, 7, 4, 0]
    assert sorted(key for page in pages for key in keys(page)) == sorted(values)
    assert await store.search(DOCS, limit=0) == []


MEALS = {
    "soup": {"kind": "starter", "price": 4.5, "hot": True, "stock": 3, "tags": ["veg"], "note": None},
    "salad": {"kind": "starter", "price": 5.5, "hot": False, "stock": 0, "tags": ["veg", "raw"], "note": "new"},
    "steak": {"kind": "main", "price": 9.5, "hot": True, "stock": 7, "tags": [], "note": "old"},
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


async def test_filters_pages_and_prefixes_go_together(store):
    for n in range(20):
        await store.put((*DOCS, str(n % 4)), f"k{n}", {"even": n % 2 == 0, "group": n % 5})
    pages = [await store.search(DOCS, filter={"even": True}, limit=4, offset=offset) for offset in (0, 4, 8)]
    assert [len(page) for page in pages] == [4, 4, 2]
    assert {key for page in pages for key in keys(page)} == {f"k{n}" for n in range(0, 20, 2)}
    assert keys(await store.search((*DOCS, "1"), filter={"group": 0})) == ["k5"]


async def test_an_unknown_operator_is_refused(store):
    await fill(store, MEALS)
    with pytest.raises(ValueError, match="Unsupported operator"):
        await store.search(DOCS, filter={"price": {"$in": [4.5]}})


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
    assert [results[position].value for position in (1, 6, 8)] == [{"n": 1}, {"n": 2}, {"n": 1}]
    assert keys(results[2]) == ["b"]
    assert results[3] == [DOCS]
    assert (await store.get(DOCS, "a")).value == {"n": 10}
    assert await store.get(DOCS, "b") is None
    assert await store.list_namespaces() == [DOCS, ("new",)]


async def test_the_last_write_of_a_batch_counts(store):
    await store.batch([PutOp(DOCS, "a", {"n": n}) for n in range(3)])
    assert (await store.get(DOCS, "a")).value == {"n": 2}
    await store.batch([PutOp(DOCS, "a", {"n": 5}), PutOp(DOCS, "a", None)])
    assert await store.get(DOCS, "a") is None
    await store.batch([PutOp(DOCS, "a", None), PutOp(DOCS, "a", {"n": 6})])
    assert (await store.get(DOCS, "a")).value == {"n": 6}


async def test_an_empty_batch_is_nothing(store):
    assert await store.batch([]) == []


TREE = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("x", "c")]


LISTS = [
    ({}, TREE),
    ({"prefix": ("a", "b")}, TREE[:4]),
    ({"prefix": ("a", "b"), "max_depth": 3}, [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]),
    ({"max_depth": 1}, [("a",), ("x",)]),
    ({"max_depth": 9}, TREE),
    ({"suffix": ("f",)}, [("a", "b", "f"), ("a", "c", "f")]),
    ({"suffix": ("c", "f")}, [("a", "c", "f")]),
    ({"suffix": ("*", "c")}, [("a", "b", "c"), ("x", "c")]),
    ({"prefix": ("a", "*", "f")}, [("a", "b", "f"), ("a", "c", "f")]),
    ({"prefix": ("*", "c")}, [("a", "c", "f"), ("x", "c")]),
    ({"prefix": ("a", "*"), "suffix": ("f",), "max_depth": 2}, [("a", "b"), ("a", "c")]),
    ({"prefix": ("a", "b", "c", "d")}, []),
    ({"prefix": ("b",)}, []),
    ({"limit": 2}, TREE[:2]),
    ({"limit": 2, "offset": 4}, TREE[4:]),
    ({"offset": 9}, []),
    ({"prefix": (), "suffix": ()}, TREE),
]


async def test_namespaces_are_listed_as_documented(store, subtests):
    for namespace in reversed(TREE):
        await store.put(namespace, "key", {"n": 1})
        await store.put(namespace, "other", {"n": 2})
    for options, expected in LISTS:
        with subtests.test(options=options):
            assert await store.list_namespaces(**options) == expected


async def test_several_conditions_on_namespaces_hold_together(store):
    for namespace in TREE:
        await store.put(namespace, "key", {"n": 1})
    conditions = (MatchCondition("prefix", ("a",)), MatchCondition("suffix", ("*",)), MatchCondition("suffix", ("f",)))
    assert (await store.batch([ListNamespacesOp(conditions)]))[0] == [("a", "b", "f"), ("a", "c", "f")]


async def test_a_namespace_that_cannot_be_is_refused(store, subtests):
    for namespace in ((), ("",), ("a", ""), ("a.b",), ("a", "b.c"), ("langgraph",), ("a", 5)):
        with subtests.test(namespace=namespace), pytest.raises(InvalidNamespaceError):
            await store.put(namespace, "key", {})


async def test_labels_that_cannot_be_are_refused_everywhere(store, subtests):
    for labels in (("",), ("a.b",), ("a", 5)):
        with subtests.test("get", labels=labels), pytest.raises(InvalidNamespaceError):
            await store.get(labels, "key")
        with subtests.test("search", labels=labels), pytest.raises(InvalidNamespaceError):
            await store.search(labels)
        with subtests.test("delete", labels=labels), pytest.raises(InvalidNamespaceError):
            await store.delete(labels, "key")
        with subtests.test("list by prefix", labels=labels), pytest.raises(InvalidNamespaceError):
            await store.list_namespaces(prefix=labels)
        with subtests.test("list by suffix", labels=labels), pytest.raises(InvalidNamespaceError):
            await store.list_namespaces(suffix=labels)


async def test_a_value_that_is_not_json_is_no_half_item(store):
    if store.name == "memory":
        pytest.skip("InMemoryStore keeps Python objects")
    with pytest.raises(TypeError):
        await store.put(DOCS, "key", {"value": object()})
    assert await store.get(DOCS, "key") is None


@pytest.mark.filterwarnings("ignore:The default datetime adapter is deprecated:DeprecationWarning")  # SqliteStore's
async def test_expiry_is_supported_or_refused(store):
    await store.put(DOCS, "forever", {"n": 1}, ttl=None)
    if store.name in {"sqlite", "postgres"}:  # AsyncSqliteStore has it and does not say so in `supports_ttl`
        await store.put(DOCS, "key", {"n": 1}, ttl=60)
        assert (await store.get(DOCS, "key", refresh_ttl=True)).value == {"n": 1}
    else:
        with pytest.raises(NotImplementedError, match="TTL is not supported"):
            await store.put(DOCS, "key", {"n": 1}, ttl=60)
        assert await store.get(DOCS, "key") is None
    assert (await store.get(DOCS, "forever", refresh_ttl=False)).value == {"n": 1}


async def test_writes_at_once_are_all_kept(store):
    await asyncio.gather(*(store.put((*DOCS, str(n % 4)), f"k{n}", {"n": n}) for n in range(24)))
    found = await asyncio.gather(*(store.get((*DOCS, str(n % 4)), f"k{n}") for n in range(24)))
    assert [item.value["n"] for item in found] == list(range(24))
