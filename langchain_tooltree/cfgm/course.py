"""The course of a running conversation, as far as the recovery from an anomaly has to know it."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langchain_tooltree.experience.records import text_of
from langchain_tooltree.experience.reference import without_reference


def request_in(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    """The latest message in which a user says something.

    Args:
        messages: The conversation.

    Returns:
        The message; `None` if there is none. One that holds nothing but reference material is not by a user.
    """
    return next((message for message in reversed(messages) if _is_request(message)), None)  # type: ignore[return-value]


def task_of(messages: Sequence[BaseMessage]) -> str:
    """What the user asked for last, without reference material; empty if nobody has asked for anything."""
    request = request_in(messages)
    return "" if request is None else text_of(without_reference(request.content)).strip()


def latest_observations(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """What the calls in the latest message of the model brought back.

    Args:
        messages: The conversation.

    Returns:
        The observations at its end, in order; none if something else was said since.
    """
    return next(_rounds(messages), []) if messages and isinstance(messages[-1], ToolMessage) else []


def earlier_rounds(messages: Sequence[BaseMessage]) -> Iterator[list[ToolMessage]]:
    """The observations of the run before the latest ones, one list for each message of the model that made calls.

    Args:
        messages: The conversation, which ends in observations.

    Yields:
        The observations, latest first, back to the latest message of the user.
    """
    rounds = _rounds(messages)
    next(rounds, None)
    yield from rounds


def _rounds(messages: Sequence[BaseMessage]) -> Iterator[list[ToolMessage]]:
    for observing, group in groupby(_since_request(messages), lambda message: isinstance(message, ToolMessage)):
        if observing:
            yield [message for message in group if isinstance(message, ToolMessage)][::-1]


def _since_request(messages: Sequence[BaseMessage]) -> Iterator[BaseMessage]:
    for message in reversed(messages):
        if _is_request(message):
            return
        yield message


def _is_request(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and bool(without_reference(message.content))
