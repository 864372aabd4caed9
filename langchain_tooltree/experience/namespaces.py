"""Namespace templates: whose experience a record is. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_tooltree.errors import ConfigurationError

_VARIABLE = re.compile(r"\{([A-Za-z_]\w*)\}")

RESERVED = "langgraph"
"""The first label that LangGraph keeps to itself."""


class NamespaceTemplate:
    """A namespace with variables, such as `("tooltree", "{user_id}")`.

    Args:
        labels: Its labels; `{name}` stands for a variable.

    Raises:
        ConfigurationError: If a label cannot stand in a namespace.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        if isinstance(labels, str) or not labels:
            msg = f"namespace must be a tuple of labels such as ('tooltree', '{{user_id}}'), got {labels!r}."
            raise ConfigurationError(msg)
        for label in labels:
            if not isinstance(label, str):
                msg = f"A label of a namespace must be a text, got {label!r} in {tuple(labels)!r}."
                raise ConfigurationError(msg)
            plain = _VARIABLE.sub("x", label)
            if "{" in plain or "}" in plain:
                msg = f"The label {label!r} has a brace that belongs to no variable. Write variables as {{user_id}}."
                raise ConfigurationError(msg)
            _check(plain, f"The label {label!r}")
        if labels[0] == RESERVED:
            msg = f"A namespace must not begin with {RESERVED!r}, which LangGraph keeps to itself; got {labels!r}."
            raise ConfigurationError(msg)
        self.labels = tuple(labels)
        self.variables = tuple(dict.fromkeys(name for label in labels for name in _VARIABLE.findall(label)))

    def fill(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """The namespace for these values.

        Args:
            values: The values of the variables, by name; others are ignored.

        Returns:
            The namespace.

        Raises:
            ConfigurationError: If a value is missing, is neither a text, a whole number nor an identifier such as a
                UUID, or would lead to somebody else's namespace.
        """
        texts = {name: _value(name, values) for name in self.variables}
        filled = tuple(_VARIABLE.sub(lambda found: texts[found[1]], label) for label in self.labels)
        if filled[0] == RESERVED:
            msg = f"The namespace {self.labels!r} would begin with {RESERVED!r}, which LangGraph keeps to itself."
            raise ConfigurationError(msg)
        return filled


def _value(name: str, values: Mapping[str, Any]) -> str:
    value = values.get(name)
    if value is None:
        msg = (
            f"The namespace needs {name!r}, which is not known here. Pass "
            f"config={{'configurable': {{{name!r}: ...}}}}, give the graph a context with it, "
            f"or use store.within({name}=...)."
        )
        raise ConfigurationError(msg)
    if not _identifies(value):
        msg = (
            f"{name} stands in a namespace, so it must be a text, a whole number or an identifier such as a UUID; "
            f"got {type(value).__name__}: {value!r:.80}."
        )
        raise ConfigurationError(msg)
    _check(str(value), f"{name}={value!r:.80}")
    return str(value)


def _identifies(value: Any) -> bool:
    """Whether a value's text stands for it: not a collection's, nor an object's that has no text of its own."""
    if isinstance(value, bool | float | Iterable):
        return isinstance(value, str)
    return isinstance(value, int) or any("__str__" in vars(kind) for kind in type(value).__mro__[:-1])


def _check(label: str, what: str) -> None:
    if not label or "." in label or "\x00" in label:
        msg = f"{what} cannot stand in a namespace: it must not be empty, nor hold a period or a NUL character."
        raise ConfigurationError(msg)
