"""The course of a running conversation, as far as the recovery from an anomaly has to know it."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage, convert_to_messages

from langchain_tooltree.experience.records import text_of
from langchain_tooltree.experience.reference import without_reference


def request_in(messages: Sequence[Any]) -> BaseMessage | None:
    """The latest message in which a user says something.

    Args:
        messages: The conversation: LangChain messages, or what `convert_to_messages` takes.

    Returns:
        The message; `None` if there is none.
    """
    return next(filter(is_request, map(as_message, reversed(messages))), None)


def task_of(messages: Sequence[Any]) -> str:
    """What the user asked for last, without reference material; empty if nobody has asked for anything."""
    request = request_in(messages)
    return "" if request is None else _said(request)


def first_task_in(messages: Sequence[BaseMessage]) -> str:
    """What the user asked for first, in words; empty if nobody has asked for anything."""
    return next(filter(None, map(_said, filter(is_request, messages))), "")


def is_request(message: BaseMessage) -> bool:
    """Whether a user says something: neither a summary nor a message of nothing but reference material is by one."""
    return isinstance(message, HumanMessage) and not _is_summary(message) and bool(without_reference(message.content))


def was_summarized(messages: Sequence[BaseMessage]) -> bool:
    """Whether a `SummarizationMiddleware` has put a summary in place of a part of the conversation."""
    return any(map(_is_summary, messages))


def as_message(message: Any) -> BaseMessage:
    """A message in any form that `convert_to_messages` takes, as LangChain has it."""
    return message if isinstance(message, BaseMessage) else convert_to_messages([message])[0]


def latest_observations(messages: Sequence[Any]) -> list[ToolMessage]:
    """What the calls in the latest message of the model brought back.

    Args:
        messages: The conversation.

    Returns:
        The observations at its end, in order; none if something else was said since.
    """
    return next(_rounds(messages), []) if messages and isinstance(messages[-1], ToolMessage) else []


def earlier_rounds(messages: Sequence[Any]) -> Iterator[list[ToolMessage]]:
    """The observations of the run before the latest ones, one list for each message of the model that made calls.

    Args:
        messages: The conversation, which ends in observations. It is read from the end, and as far as needed.

    Yields:
        The observations, latest first, back to the latest message of the user.
    """
    rounds = _rounds(messages)
    next(rounds, None)
    yield from rounds


def _rounds(messages: Sequence[Any]) -> Iterator[list[ToolMessage]]:
    for observing, group in groupby(_since_request(messages), lambda message: isinstance(message, ToolMessage)):
        if observing:
            yield [message for message in group if isinstance(message, ToolMessage)][::-1]


def _since_request(messages: Sequence[Any]) -> Iterator[BaseMessage]:
    for message in map(as_message, reversed(messages)):
        if is_request(message):
            return
        yield message


def _is_summary(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and message.additional_kwargs.get("lc_source") == "summarization"


def _said(request: BaseMessage) -> str:
    return text_of(without_reference(request.content)).strip()
