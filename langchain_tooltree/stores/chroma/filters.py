"""Filters of a store search: which values match. Pure.

Where LangGraph's own stores differ: a missing key equals `None`, and `$ne` never matches it; numbers compare as
numbers, texts as texts (so ISO dates work); what cannot be compared does not match; a nested mapping without operators
matches each of its keys.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def check_filter(conditions: Mapping[str, Any] | None) -> None:
    """Raise `ValueError` for an operator that does not exist, whether or not there is an item to apply it to."""
    for expected in (conditions or {}).values():
        if _has_operators(expected):
            if unknown := [name for name in expected if name not in _OPERATORS]:
                msg = f"Unsupported operator: {unknown[0]}. Supported are {', '.join(_OPERATORS)}."
                raise ValueError(msg)
        elif isinstance(expected, Mapping):
            check_filter(expected)


def matches(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    """Whether an item's value passes a filter."""
    return all(_holds(value, key, expected) for key, expected in (conditions or {}).items())


def _holds(value: Mapping[str, Any], key: str, expected: Any) -> bool:
    actual = value.get(key)
    if _has_operators(expected):
        return all(_applies(name, actual, operand, present=key in value) for name, operand in expected.items())
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and matches(actual, expected)
    return bool(actual == expected)


def _has_operators(expected: Any) -> bool:
    return isinstance(expected, Mapping) and any(name.startswith("$") for name in expected)


def _applies(name: str, actual: Any, operand: Any, *, present: bool) -> bool:
    if name == "$ne" and not present:
        return False
    try:
        return bool(_OPERATORS[name](actual, operand))
    except TypeError:  # they have no order
        return False
