import inspect

import pytest

from langchain_tooltree import ConfigurationError, errors
from langchain_tooltree.errors import check_count


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (errors.ConfigurationError, (errors.ToolTreeError, ValueError)),
        (errors.ToolDefinitionError, (errors.ConfigurationError,)),
        (errors.EmptyQueryError, (errors.ToolTreeError, ValueError)),
    ],
)
def test_an_error_can_be_caught_as_what_it_is(error, bases):
    assert error.__bases__ == bases


def test_the_drawing_shows_every_error():
    defined = [
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    ]
    assert [name for name in defined if name not in errors.__doc__] == []
    assert [
        name
        for name in defined
        if not issubclass(getattr(errors, name), errors.ToolTreeError)
    ] == []


@pytest.mark.parametrize("value", [2, 3, 10**9])
def test_counts_that_are_large_enough_pass(value):
    check_count("k", value, 2)


@pytest.mark.parametrize("value", [1, 0, -1, True, 2.0, "2", None])
def test_others_are_refused_by_their_name_and_value(value):
    with pytest.raises(
        ConfigurationError,
        match=rf"^k must be a whole number of 2 or more, got {value!r}\.$",
    ):
        check_count("k", value, 2)
