"""Filters of a store search: which values match, and what of a filter a Chroma collection can decide by itself. Pure.

Where LangGraph's own stores differ, the majority of them is followed, or else their documentation:

- a key that is missing equals `None`, and `$ne` never matches it (SqliteStore, PostgresStore);
- numbers compare as numbers, not as text (the documentation), and with text that reads as a number;
- two texts compare as texts, so that ISO dates do what is expected (SqliteStore, PostgresStore);
- values that cannot be compared do not match, rather than raise (SqliteStore, PostgresStore);
- a nested mapping without operators matches each of its keys (InMemoryStore; the others refuse it).
"""

import contextlib
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

MAX_TEXT = 200
"""Longest text, in characters, that is kept beside an item for Chroma to filter by."""

FIELD = "v."
"""Prefix of the metadata keys that hold an item's top-level scalars."""

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
OPERATORS = ("$eq", "$ne", *_COMPARISONS)


def check_filter(conditions: Mapping[str, Any] | None) -> None:
    """Refuse operators that do not exist, whether or not there is an item to apply them to."""
    for expected in (conditions or {}).values():
        _check(expected)


def _check(expected: Any) -> None:
    if isinstance(expected, Mapping) and _has_operators(expected):
        if unknown := [name for name in expected if name not in OPERATORS]:
            msg = f"Unsupported operator: {unknown[0]}. Supported are {', '.join(OPERATORS)}."
            raise ValueError(msg)
    elif isinstance(expected, Mapping):
        check_filter(expected)
    elif isinstance(expected, list | tuple):
        for nested in expected:
            _check(nested)


def matches(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    """Whether an item passes a filter."""
    return all(_holds(value, key, expected) for key, expected in (conditions or {}).items())


def _holds(value: Mapping[str, Any], key: str, expected: Any) -> bool:
    actual = value.get(key)
    if isinstance(expected, Mapping):
        if _has_operators(expected):
            return all(_applies(name, actual, operand, present=key in value) for name, operand in expected.items())
        return isinstance(actual, Mapping) and matches(actual, expected)
    if isinstance(expected, list | tuple):
        return (
            isinstance(actual, list)
            and len(actual) == len(expected)
            and all(_holds({"": one}, "", other) for one, other in zip(actual, expected, strict=True))
        )
    return bool(actual == expected)


def _has_operators(expected: Mapping[str, Any]) -> bool:
    return any(name.startswith("$") for name in expected)


def _applies(name: str, actual: Any, operand: Any, *, present: bool) -> bool:
    if isinstance(operand, tuple):
        operand = list(operand)  # as it would have been stored
    if name == "$eq":
        return bool(actual == operand)
    if name == "$ne":
        return present and bool(actual != operand)
    if isinstance(actual, str) and isinstance(operand, str):
        return _COMPARISONS[name](actual, operand)
    left, right = _number(actual), _number(operand)
    return left is not None and right is not None and _COMPARISONS[name](left, right)


def _number(value: Any) -> int | float | None:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return float(value)
    return value if isinstance(value, int | float) else None


def scalar_fields(value: Mapping[str, Any]) -> dict[str, str | float]:
    """What is kept beside an item for Chroma to filter by: its short texts and its numbers, truth values as numbers."""
    kept = ((FIELD + key, _comparable(entry)) for key, entry in value.items() if _is_unicode(key))
    return {key: entry for key, entry in kept if entry is not None}


def where_clause(conditions: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """What of a filter Chroma can decide: equality with a short text or a number."""
    equal = {
        key: expected["$eq"] if isinstance(expected, Mapping) and "$eq" in expected else expected
        for key, expected in (conditions or {}).items()
    }
    return [{name: entry} for name, entry in scalar_fields(equal).items()]


def _comparable(value: Any) -> str | float | None:
    """Equal values become equal entries, so 1, 1.0 and `True` become one; `None` if that cannot be had."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT and _is_unicode(value) else None
    with contextlib.suppress(OverflowError):  # a whole number beyond all floats
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    return None


def _is_unicode(text: str) -> bool:
    """Whether Chroma can take a text: JSON may hold half of a surrogate pair, which has no UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
