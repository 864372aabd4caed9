import inspect

import pytest

from langchain_tooltree import errors


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (errors.ConfigurationError, (errors.ToolTreeError, ValueError)),
        (errors.ToolDefinitionError, (errors.ConfigurationError,)),
        (errors.EmptyQueryError, (errors.ToolTreeError, ValueError)),
        (errors.ResumeError, (errors.ToolTreeError, RuntimeError)),
    ],
)
def test_an_error_can_be_caught_as_what_it_is(error, bases):
    assert error.__bases__ == bases


def test_the_drawing_shows_every_error():
    defined = [name for name, value in vars(errors).items() if inspect.isclass(value)]
    assert all(name in errors.__doc__ for name in defined)
    assert all(issubclass(getattr(errors, name), errors.ToolTreeError) for name in defined)
