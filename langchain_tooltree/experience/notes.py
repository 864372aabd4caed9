"""What this package notes beside messages, for people who read a run: what was suggested. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_tooltree.experience.records import EXTRAS, ChatMessage, beside, part_of
from langchain_tooltree.experience.reference import NOTES, SUGGESTED


def notes_of(message: ChatMessage) -> Mapping[str, Any]:
    """What this package has noted beside a message; empty if it has noted nothing."""
    notes = beside(message).get(NOTES)
    return notes if isinstance(notes, Mapping) else {}


def with_notes(message: ChatMessage, notes: Mapping[str, Any]) -> ChatMessage:
    """A copy of a message with these notes in place of those that it has."""
    extras = message.get(EXTRAS)
    kept = extras if isinstance(extras, Mapping) else {}
    return {**message, EXTRAS: {**kept, "response_metadata": {**beside(message), NOTES: notes}}}


def as_suggested(found: Iterable[tuple[str, float, int]]) -> list[dict[str, Any]]:
    """The note of how past runs went on: tools with their shares in [0, 1], and how many runs speak for each."""
    return [{"tool": tool, "share": round(share, 2), "runs": runs} for tool, share, runs in found]


def with_suggested(
    messages: Iterable[tuple[Any, ChatMessage]], suggested: Mapping[Any, Sequence[Mapping[str, Any]]]
) -> Iterator[ChatMessage]:
    """Messages with what was suggested after some of them, by their keys, noted beside the replies that followed."""
    told: Any = suggested.get(None)
    for key, message in messages:
        if told and part_of(message) == "reply":
            yield with_notes(message, {SUGGESTED: told, **notes_of(message)})
            told = None
        else:
            yield message
        told = suggested.get(key, told)
