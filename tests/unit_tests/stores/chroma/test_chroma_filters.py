"""Filters of a store search: what they match."""

import pytest

from langchain_tooltree.stores.chroma import matches

VALUE = {"status": "active", "score": 7, "ratio": 0.5, "done": True, "none": None, "tags": ["a", "b"], "at": {"x": 1}}


@pytest.mark.parametrize(
    "conditions",
    [
        None,
        {},
        {"status": "active"},
        {"status": {"$eq": "active"}, "score": {"$gt": 6, "$lte": 7}},
        {"score": {"$gte": 7.0, "$lt": 8}},
        {"score": 7.0},
        {"ratio": {"$lt": 1}},
        {"status": {"$ne": "closed"}},
        {"none": None},
        {"missing": None},
        {"missing": {"$eq": None}},
        {"none": {"$ne": "x"}},
        {"missing": {"$ne": "x"}},
        {"tags": ["a", "b"]},
        {"tags": {"$eq": ["a", "b"]}},
        {"at": {"x": 1}},
        {"at": {"x": {"$lt": 2}}},
        {"at": {"$eq": {"x": 1}}},
        {"status": {"$gt": "abc", "$lt": "b"}},
        {"done": True},
    ],
)
def test_a_value_that_fulfils_every_condition_matches(conditions):
    assert matches(VALUE, conditions)


@pytest.mark.parametrize(
    "conditions",
    [
        {"status": "closed"},
        {"status": "active", "score": 8},
        {"score": {"$gt": 7}},
        {"score": {"$gt": 6, "$lt": 7}},
        {"score": "7"},
        {"missing": {"$gt": 1}},
        {"none": {"$lt": 1}},
        {"none": {"$ne": None}},
        {"status": {"$gt": 1}},
        {"tags": {"$gt": 1}},
        {"tags": ["a"]},
        {"tags": ["b", "a"]},
        {"at": {"x": 2}},
        {"at": {"y": 1}},
        {"at": {"$eq": {"x": 1, "y": 2}}},
        {"status": {"x": 1}},
        {"done": False},
    ],
)
def test_a_value_that_misses_a_condition_does_not_match(conditions):
    assert not matches(VALUE, conditions)


@pytest.mark.parametrize(
    "conditions", [{"score": {"$in": [1]}}, {"score": {"$gt": 1, "b": 2}}, {"at": {"x": {"$x": 1}}}]
)
def test_an_unknown_operator_is_refused_by_name(conditions):
    with pytest.raises(ValueError, match=r"Unsupported operator: (\$in|b|\$x)\."):
        matches(VALUE, conditions)
