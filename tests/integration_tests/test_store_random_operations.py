"""Random batches of operations give the same results in InMemoryStore and in ChromaStore, sync and async.

Of InMemoryStore are set aside: its order of results without a query (the order of the last writes is kept here
instead), namespaces that are empty, the vectors that an item keeps when it is indexed otherwise, and the items without
a vector that it adds to the results of a query. Filters are those that both know, on values that it can compare.
"""

import asyncio
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from store_references import INDEX

from langchain_tooltree import ChromaStore

ALL = 1000

WORDS = st.sampled_from(["apple", "stone", "river", "cloud", "bird"])
TEXTS = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
LABELS = st.sampled_from(["a", "b", "cc"])
NAMESPACES = st.lists(LABELS, max_size=3).map(tuple)
KEYS = st.sampled_from(["k1", "k2", "k3", "unindexed"])
VALUES = st.fixed_dictionaries(
    {"text": TEXTS, "n": st.integers(-2, 3) | st.sampled_from([0.5, 2.5])},
    optional={
        "flag": st.booleans(),
        "tags": st.lists(WORDS, max_size=2),
        "at": st.fixed_dictionaries({"x": WORDS}),
    },
)
OPERATORS = st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$eq", "$ne"])
FILTERS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(-2, 3)
        | st.dictionaries(OPERATORS, st.integers(-2, 3), min_size=1, max_size=2),
        "text": TEXTS | st.fixed_dictionaries({"$ne": TEXTS}),
        "flag": st.booleans() | st.none(),
        "tags": st.lists(WORDS, max_size=2)
        | st.fixed_dictionaries({"$eq": st.lists(WORDS, max_size=2)}),
        "at": st.fixed_dictionaries({"x": WORDS})
        | st.fixed_dictionaries({"x": st.fixed_dictionaries({"$ne": WORDS})}),
        "missing": st.none() | WORDS,
    },
)
PAGES = st.integers(0, 4)
PATHS = st.lists(LABELS | st.just("*"), max_size=3).map(tuple)

PUTS = st.builds(
    lambda namespace, key, value: PutOp(
        namespace, key, value, False if key == "unindexed" else ["text"]
    ),
    NAMESPACES,
    KEYS,
    VALUES,
)
OPS = st.one_of(
    PUTS,
    PUTS,
    st.builds(lambda namespace, key: PutOp(namespace, key, None), NAMESPACES, KEYS),
    st.builds(GetOp, NAMESPACES, KEYS, st.just(True)),
    st.builds(SearchOp, NAMESPACES, FILTERS, PAGES, PAGES, st.none(), st.just(True)),
    st.builds(
        lambda prefix, conditions, query: SearchOp(prefix, conditions, ALL, 0, query),
        NAMESPACES,
        FILTERS,
        TEXTS,
    ),
    st.builds(
        lambda kind, path, depth: ListNamespacesOp(
            (MatchCondition(kind, path),), depth, ALL, 0
        ),
        st.sampled_from(["prefix", "suffix"]),
        PATHS,
        st.none() | st.integers(1, 4),
    ),
    st.builds(
        lambda limit, offset: ListNamespacesOp(None, None, limit, offset), PAGES, PAGES
    ),
)

roots = itertools.count()


@pytest.fixture(scope="module")
def chroma(tmp_path_factory):
    with ChromaStore(
        tmp_path_factory.mktemp("chroma"), embeddings=INDEX["embed"]
    ) as opened:
        yield opened


class Model:
    """InMemoryStore, with what is set aside put right."""

    def __init__(self):
        self.store = InMemoryStore(index=INDEX)
        self.newest = []

    def batch(self, ops):
        results = []
        for op in ops:
            if isinstance(op, GetOp):
                item = self.store.batch([op])[0]
                results.append(item and (item.namespace, item.key, item.value))
            elif isinstance(op, ListNamespacesOp):
                results.append(self.listed(op))
            elif isinstance(op, SearchOp):
                results.append(self.found(op))
            else:
                results.append(None)
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        for op in puts.values():
            self.store.batch([op])
            place = (op.namespace, op.key)
            self.newest = [known for known in self.newest if known != place]
            if op.value is not None:
                self.newest.insert(0, place)
        return results

    def listed(self, op):
        filled = {namespace for namespace, _ in self.newest}
        everything = self.store.batch(
            [op._replace(max_depth=None, limit=ALL, offset=0)]
        )[0]
        cut = {
            namespace[: op.max_depth] for namespace in everything if namespace in filled
        }
        return sorted(cut)[op.offset : op.offset + op.limit]

    def found(self, op):
        (items,) = self.store.batch([op._replace(limit=ALL, offset=0)])
        if op.query:
            return ranked(items)
        matching = {(item.namespace, item.key): item.value for item in items}
        order = [
            (*place, matching[place]) for place in self.newest if place in matching
        ]
        return order[op.offset : op.offset + op.limit]


def ranked(items):
    """Results of a query in an order of their own, since equal scores have none."""
    scored = [
        (item.namespace, item.key, item.value, item.score)
        for item in items
        if item.score is not None
    ]
    scores = [entry[-1] for entry in scored]
    assert scores == sorted(scores, reverse=True)
    return sorted(
        (
            (namespace, key, value, pytest.approx(score, abs=1e-5))
            for namespace, key, value, score in scored
        ),
        key=lambda entry: entry[:2],
    )


def shown(op, result):
    if isinstance(op, GetOp):
        return result and (result.namespace, result.key, result.value)
    if isinstance(op, SearchOp):
        return (
            ranked(result)
            if op.query
            else [(item.namespace, item.key, item.value) for item in result]
        )
    return result


def moved(op, root):
    """An operation below a root of its own, so that each example starts with nothing."""
    if isinstance(op, SearchOp):
        return op._replace(namespace_prefix=(root, *op.namespace_prefix))
    if isinstance(op, ListNamespacesOp):
        depth = op.max_depth and op.max_depth + 1
        return op._replace(
            match_conditions=(
                MatchCondition("prefix", (root,)),
                *(op.match_conditions or ()),
            ),
            max_depth=depth,
        )
    return op._replace(namespace=(root, *op.namespace))


@pytest.mark.parametrize("path", ["sync", "async"])
@given(batches=st.lists(st.lists(OPS, min_size=1, max_size=5), min_size=4, max_size=10))
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_operations_give_the_same_results(chroma, path, batches):
    model, root = Model(), f"root{next(roots)}"
    for batch in batches:
        ops = [moved(op, root) for op in batch]
        expected = model.batch(ops)
        results = (
            chroma.batch(ops) if path == "sync" else asyncio.run(chroma.abatch(ops))
        )
        for op, wanted, result in zip(ops, expected, results, strict=True):
            assert shown(op, result) == wanted, op
    everything = model.found(SearchOp((root,), limit=ALL))
    assert [
        shown(GetOp((), ""), item) for item in chroma.search((root,), limit=ALL)
    ] == everything
