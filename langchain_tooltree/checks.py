"""Checks of arguments that many parts take. Pure."""

from langchain_tooltree.errors import ConfigurationError


def check_count(name: str, value: object, least: int = 1) -> None:
    """Refuse what is no count.

    Args:
        name: Name of the argument.
        value: What was passed for it.
        least: The smallest count that makes sense.

    Raises:
        ConfigurationError: If it is no whole number, or a smaller one.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        msg = f"{name} must be a whole number of {least} or more, got {value!r}."
        raise ConfigurationError(msg)
