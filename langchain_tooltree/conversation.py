"""The conversation of a running graph: where it stands in the state, and what was said in it."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages

from langchain_tooltree.experience.records import ChatMessage
from langchain_tooltree.experience.reference import said_without_reference
from langchain_tooltree.experience.trajectory import to_chat


def conversation(state: Any, key: str) -> list[Any]:
    """The conversation of a graph state.

    Args:
        state: A mapping, an object, or just a list of messages.
        key: Where in it the messages stand.

    Returns:
        The conversation, which ends in a message if it holds anything. What stands before may be of any form that
        `convert_to_messages` takes: a long conversation comes at every step, and few steps need more than its end.
    """
    said: Any = state
    if not isinstance(state, list):
        said = (state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)) or []
    return said if said and isinstance(said[-1], BaseMessage) else convert_to_messages(said)


def dialogue_of(messages: Sequence[Any]) -> list[ChatMessage]:
    """What was said and done in a conversation.

    Args:
        messages: The conversation, in any form that `convert_to_messages` takes.

    Returns:
        The messages in the OpenAI chat format, without reference material.
    """
    said = said_without_reference([to_chat(message) for message in convert_to_messages(messages)])
    return [message for message in said if message is not None]
