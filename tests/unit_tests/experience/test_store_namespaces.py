"""Namespace templates: filled with what is known, and never leading to somebody else's namespace."""

from enum import StrEnum
from types import SimpleNamespace
from uuid import UUID

import pytest
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import ConfigurationError, ExperienceStore
from langchain_tooltree.errors import ForeignNamespaceError
from langchain_tooltree.experience.run_identity import NamespaceTemplate, label_of


@pytest.mark.parametrize(
    ("labels", "values", "filled"),
    [
        (("tooltree",), {}, ("tooltree",)),
        (
            ("tooltree", "{user_id}"),
            {"user_id": "ada", "other": "x"},
            ("tooltree", "ada"),
        ),
        (["of {a}", "{b}", "{a}"], {"a": 1, "b": "x"}, ("of 1", "x", "1")),
        (("{a}",), {"a": "{b}"}, ("{b}",)),
        (("{a}",), {"a": UUID(int=7)}, ("00000000-0000-0000-0000-000000000007",)),
        (("{a}",), {"a": StrEnum("Users", ["ADA"]).ADA}, ("ada",)),
        (("{a}",), {"a": "<b"}, ("<b",)),
    ],
)
def test_variables_are_filled(labels, values, filled):
    assert filling(labels, values) == filled
    InMemoryStore().put(filled, "key", {})


def filling(labels, values):
    return NamespaceTemplate(labels).fill(
        {name: label_of(name, value) for name, value in values.items()}
    )


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ((), "must be a tuple of labels"),
        ("tooltree", "must be a tuple of labels"),
        (("a", 3), "must be a tuple of labels"),
        (("a", ""), "must not be empty"),
        (("a.b",), "must not be empty, nor hold a period"),
        (("{user id}",), "may hold one variable, as"),
        (("{}",), "may hold one variable, as"),
        (("langgraph", "a"), "must not begin with 'langgraph'"),
        (("{org}-{user}",), "may hold one variable, as"),
    ],
)
def test_labels_have_to_make_a_namespace(labels, problem):
    with pytest.raises(ConfigurationError, match=problem):
        NamespaceTemplate(labels)


def test_a_missing_variable_is_named_with_the_remedy():
    with pytest.raises(
        ConfigurationError,
        match=r"needs 'user_id'.*'configurable': \{'user_id': .*within\(user_id=",
    ):
        NamespaceTemplate(("tooltree", "{user_id}")).fill({})


@pytest.mark.parametrize(
    "value", ["", "ada.ben", "a\x00", "\ud800", True, 1.5, ["ada"], ("ada",), None]
)
def test_a_value_cannot_break_out(value):
    with pytest.raises(ConfigurationError, match="user_id"):
        label_of("user_id", value)


@pytest.mark.parametrize(
    "value", [True, 1.5, ["ada"], {"name": "ada"}, b"ada", object(), len, int]
)
def test_a_value_that_identifies_nobody_is_not_taken_for_a_missing_one(value):
    with pytest.raises(
        ConfigurationError, match="must be a text, a whole number or a UUID; got"
    ):
        label_of("user_id", value)


def test_a_value_cannot_lead_to_what_langgraph_keeps_to_itself():
    with pytest.raises(ConfigurationError, match="must not begin with 'langgraph'"):
        NamespaceTemplate(("{user_id}",)).fill({"user_id": "langgraph"})


def values_in_a_graph(variable, configurable, context=None, *, given=None, noted=None):
    """Whose a store is inside a graph, by its own configuration, one that is given, or what its state has noted."""
    store = ExperienceStore(InMemoryStore(), namespace=("tooltree", f"{{{variable}}}"))
    seen = {}

    def look(_):
        seen.update(
            (
                store.within_config(given) if noted is None else store.resumed(noted)
            ).values
        )

    graph = StateGraph(MessagesState, context_schema=dict)
    graph.add_node("look", look)
    graph.add_edge(START, "look")
    graph.compile().invoke(
        {"messages": []}, {"configurable": configurable}, context=context
    )
    return seen


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"user_id": "ada"}, "ben"),
        ({"user_id": None}, "ben"),
        ({"user_id": "ada"}, "Ada"),
    ],
    ids=["somebody else", "nobody in the context", "another spelling"],
)
@pytest.mark.parametrize("how", ["configurable", "given", "noted"])
def test_what_a_client_can_set_does_not_count_where_the_context_says_otherwise(
    how, context, said
):
    ways = {
        "configurable": {},
        "given": {"given": {"configurable": {"user_id": said}}},
        "noted": {"noted": {"user_id": label_of("user_id", said)}},
    }
    with pytest.raises(ForeignNamespaceError, match="the server says otherwise"):
        values_in_a_graph(
            "user_id",
            {"user_id": said} if how == "configurable" else {},
            context,
            **ways[how],
        )


def test_what_a_run_has_noted_stands_where_the_context_does_not_know_the_variable():
    assert values_in_a_graph(
        "user_id", {"user_id": "ben"}, {"tier": 1}, noted={"user_id": "7"}
    ) == {"user_id": "7"}
    with pytest.raises(ConfigurationError, match="needs 'user_id'"):
        values_in_a_graph("user_id", {}, noted={"org": "x"})


class User(SimpleNamespace):
    """A user as a LangGraph server authenticates one."""

    identity = "ada"
    is_authenticated = True


def test_whom_a_langgraph_server_has_authenticated_counts_most():
    variable, served = "langgraph_auth_user_id", {"langgraph_auth_user": User()}
    assert values_in_a_graph(variable, served) == {variable: "ada"}
    assert values_in_a_graph(variable, {**served, variable: "ada"}) == {variable: "ada"}
    for configurable, context in [({variable: "ben"}, None), ({}, {variable: "ben"})]:
        with pytest.raises(ForeignNamespaceError, match="whom it has authenticated"):
            values_in_a_graph(variable, {**served, **configurable}, context)
