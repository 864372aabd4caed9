"""Filters of a store search: what they match, and that what Chroma is asked never excludes a match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.internals.stores import FIELD, MAX_TEXT, check_filter, matches, scalar_fields, where_clause

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
        {"tags": ["a", "b"]},
        {"tags": ("a", "b")},
        {"tags": {"$eq": ["a", "b"]}},
        {"tags": {"$ne": ("a",)}},
        {"at": {"x": 1}},
        {"at": {"x": {"$lt": 2}}},
        {"at": {"$eq": {"x": 1}}},
        {"status": {"$gt": "abc", "$lt": "b"}},
        {"score": {"$gt": "6"}},
        {"done": True},
    ],
)
def test_a_value_that_fulfils_every_condition_matches(conditions):
    check_filter(conditions)
    assert matches(VALUE, conditions)


@pytest.mark.parametrize(
    "conditions",
    [
        {"status": "closed"},
        {"status": "active", "score": 8},
        {"score": {"$gt": 7}},
        {"score": {"$gt": 6, "$lt": 7}},
        {"score": "7"},
        {"missing": {"$ne": "x"}},
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
    check_filter(conditions)
    assert not matches(VALUE, conditions)


def test_numbers_are_not_compared_as_text():
    assert matches({"score": 10}, {"score": {"$gt": 9}})


def test_dates_are_compared_as_text():
    assert matches({"day": "2026-10-02"}, {"day": {"$gt": "2026-09-30"}})


@pytest.mark.parametrize(
    "conditions", [{"a": {"$in": [1]}}, {"a": {"$gt": 1, "b": 2}}, {"a": {"b": {"$x": 1}}}, {"a": [{"$x": 1}]}]
)
def test_an_unknown_operator_is_refused_by_name(conditions):
    with pytest.raises(ValueError, match=r"Unsupported operator: (\$in|b|\$x)\."):
        check_filter(conditions)


def test_chroma_is_asked_for_short_texts_and_numbers_only():
    conditions = {"a": "x", "b": {"$eq": 1}, "c": True, "d": None, "e": {"$gt": 1}, "f": "x" * (MAX_TEXT + 1), "g": [1]}
    assert where_clause(conditions) == [{FIELD + "a": "x"}, {FIELD + "b": 1.0}, {FIELD + "c": 1.0}]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**400, 10**401)
    | st.floats()
    | st.text(max_size=5)
    | st.just("x" * 300)
)
VALUES = st.dictionaries(st.sampled_from(["a", "b", "$c"]), SCALARS | st.lists(SCALARS, max_size=2), max_size=3)


@pytest.mark.slow
@given(VALUES, VALUES.map(lambda value: {key: entry for key, entry in value.items() if not isinstance(entry, list)}))
def test_whatever_matches_is_among_what_chroma_is_asked_for(value, conditions):
    if matches(value, conditions):
        fields = scalar_fields(value)
        for clause in where_clause(conditions):
            ((name, wanted),) = clause.items()
            assert fields[name] == wanted
