"""Namespace templates: filled with what is known, and never leading to somebody else's namespace."""

from enum import StrEnum
from uuid import UUID

import pytest
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import ConfigurationError
from tests.internals.experience import NamespaceTemplate


@pytest.mark.parametrize(
    ("labels", "values", "filled"),
    [
        (("tooltree",), {}, ("tooltree",)),
        (("tooltree", "{user_id}"), {"user_id": "ada", "other": "."}, ("tooltree", "ada")),
        (["{a}-{b}", "{a}"], {"a": 1, "b": "x"}, ("1-x", "1")),
        (("{a}",), {"a": "{b}"}, ("{b}",)),
        (("{a}",), {"a": UUID(int=7)}, ("00000000-0000-0000-0000-000000000007",)),
        (("{a}",), {"a": StrEnum("Users", ["ADA"]).ADA}, ("ada",)),
    ],
)
def test_variables_are_filled(labels, values, filled):
    assert NamespaceTemplate(labels).fill(values) == filled
    InMemoryStore().put(filled, "key", {})


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ((), "must be a tuple of labels"),
        ("tooltree", "must be a tuple of labels"),
        (("a", 3), "must be a text, got 3"),
        (("a", ""), "must not be empty"),
        (("a.b",), "must not be empty, nor hold a period"),
        (("{user id}",), "a brace that belongs to no variable"),
        (("{}",), "a brace that belongs to no variable"),
        (("langgraph", "a"), "must not begin with 'langgraph'"),
    ],
)
def test_labels_have_to_make_a_namespace(labels, problem):
    with pytest.raises(ConfigurationError, match=problem):
        NamespaceTemplate(labels)


@pytest.mark.parametrize("values", [{}, {"user_id": None}])
def test_a_missing_variable_is_named_with_the_remedy(values):
    with pytest.raises(ConfigurationError, match=r"needs 'user_id'.*'configurable': \{'user_id': .*within\(user_id="):
        NamespaceTemplate(("tooltree", "{user_id}")).fill(values)


@pytest.mark.parametrize("value", ["", "ada.ben", "a\x00", True, 1.5, ["ada"], ("ada",)])
def test_a_value_cannot_break_out(value):
    with pytest.raises(ConfigurationError, match="user_id"):
        NamespaceTemplate(("tooltree", "{user_id}")).fill({"user_id": value})


@pytest.mark.parametrize("value", [True, 1.5, ["ada"], {"name": "ada"}, b"ada", object(), len, int])
def test_a_value_that_identifies_nobody_is_not_taken_for_a_missing_one(value):
    with pytest.raises(ConfigurationError, match="must be a text, a whole number or an identifier such as a UUID; got"):
        NamespaceTemplate(("{user_id}",)).fill({"user_id": value})


def test_a_value_cannot_lead_to_what_langgraph_keeps_to_itself():
    with pytest.raises(ConfigurationError, match="would begin with 'langgraph'"):
        NamespaceTemplate(("{user_id}",)).fill({"user_id": "langgraph"})
