"""Access to the state of an agent, whatever its schema is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def get_state_value(state: object, key: str) -> Any:
    """Return a value of an agent's state, or None if the state does not have it.

    Args:
        state: A mapping, or an object such as a dataclass or a pydantic model.
        key: The key in the mapping, or the name of the attribute.
    """
    if isinstance(state, Mapping):
        return state.get(key)
    return getattr(state, key, None)


def get_state_messages(state: object, key: str) -> Any:
    """Return the messages of an agent's state, or None if it has none.

    Args:
        state: A mapping, an object, or the sequence of messages itself, which some
            graphs have as their whole state.
        key: The name under which the state has its messages.
    """
    if isinstance(state, Sequence):
        return state
    return get_state_value(state, key)
