"""The messages of an agent's state that its model sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_tooltree.messages.additions import NOTES_KEY
from langchain_tooltree.messages.agent_state import (
    get_state_messages,
    get_state_value,
)
from langchain_tooltree.messages.content import get_text
from langchain_tooltree.messages.kinds import get_tool_calls
from langchain_tooltree.messages.validation import validate_message
from langchain_tooltree.text import get_mapping

PLANNER_NOTE = "[Planner's note, not from the user]"
"""The beginning of a message by which the planner asks the model to go on."""

SEARCH_STATE_KEY = "mark"
"""The key of the search state in the notes of a model's response."""

HIDDEN_KEY = "hidden"
"""The key of the ids of hidden messages in the search state."""


def get_visible_messages(
    state: object,
    messages: Sequence[BaseMessage] | None = None,
    *,
    key: str = "messages",
) -> Sequence[BaseMessage]:
    """Return the messages that the model sees.

    The planner explores tool calls and abandons some of them. Their messages stay in
    the state, but are hidden from the model. Suggestions from past runs are requested
    for the visible messages, never for abandoned exploration.

    The planner's notes at the end are not returned either, nor is the incomplete
    answer before them.

    Args:
        state: The agent's state: a mapping, an object, or a sequence of messages.
        messages: The messages to choose from, if they are not those of the state.
        key: The name under which the state has its messages.

    Returns:
        The visible messages, oldest first; the same sequence if all are visible.
    """
    if messages is None:
        messages = get_state_messages(state, key)
    if not isinstance(messages, Sequence):
        return []

    hidden_ids = _get_hidden_ids(state, messages)
    if hidden_ids:
        messages = [
            message for message in messages if not _has_id_among(message, hidden_ids)
        ]

    trailing_count = _count_trailing_notes(messages)
    if trailing_count == 0:
        return messages
    return messages[:-trailing_count]


def _get_hidden_ids(state: object, messages: Sequence[BaseMessage]) -> set[str]:
    """Return the ids of the messages that the planner hides from the model."""
    # An agent keeps the search state in a channel of its own. A graph of the user's
    # own has no such channel, so the planner notes it on the newest response.
    search_states = (get_state_value(state, NOTES_KEY), _get_search_state(messages))
    for search_state in search_states:
        if isinstance(search_state, Mapping) and HIDDEN_KEY in search_state:
            return _collect_ids(search_state[HIDDEN_KEY])
    return set()


def _collect_ids(hidden_ids: object) -> set[str]:
    """Return the ids in a stored list, which clients may have written."""
    if not isinstance(hidden_ids, list | tuple | set | frozenset):
        return set()
    return {hidden_id for hidden_id in hidden_ids if isinstance(hidden_id, str)}


def _get_search_state(messages: Sequence[BaseMessage]) -> Mapping[str, Any]:
    """Return the search state that the planner noted on the newest response."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            metadata = validate_message(message).response_metadata
            return get_mapping(get_mapping(metadata, NOTES_KEY), SEARCH_STATE_KEY)
    return {}


def _has_id_among(message: BaseMessage, ids: set[str]) -> bool:
    # Not every item of a state that a client wrote is a message, and the id that an
    # integration assigns may be of a type that cannot be looked up in a set.
    message_id = getattr(message, "id", None)
    return isinstance(message_id, str) and message_id in ids


def _count_trailing_notes(messages: Sequence[BaseMessage]) -> int:
    """Count the planner's notes at the end, and the incomplete answer before them."""
    count = 0
    for message in reversed(messages):
        if not _is_planner_note(message):
            if count > 0 and _is_final_answer(message):
                count += 1
            break
        count += 1
    return count


def _is_planner_note(message: BaseMessage) -> bool:
    # The planner adds its notes to the prompt only. Messages of a state have ids.
    return (
        isinstance(message, HumanMessage)
        and message.id is None
        and get_text(message.content).startswith(PLANNER_NOTE)
    )


def _is_final_answer(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and not get_tool_calls(message)
