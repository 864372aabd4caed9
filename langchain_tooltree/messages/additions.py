"""Text that this package adds to the results of tools.

A correction, or suggestions below the acknowledgement of our tool `summarize_state`,
stand in the content of a `ToolMessage` behind what the tool returned. A note in the
`response_metadata` of the message says which texts were added, so that a record of
the conversation can leave them out:

    response_metadata["tooltree"]["added"] = [text, ...]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import ToolMessage

from langchain_tooltree.messages.content import get_block_text
from langchain_tooltree.text import get_mapping

NOTES_KEY = "tooltree"
"""The key of the package's notes in `response_metadata`."""

ADDED_KEY = "added"
"""The key of the added texts, in the notes and in the artifact of our own tool."""

SUGGESTED_KEY = "suggested"
"""The key of what the package suggested, in the notes."""

SUMMARIZE_STATE = "summarize_state"
"""The name of our own tool. What other tools have as artifact is their own."""

# What the package adds to the artifact of our own tool.
_ARTIFACT_KEYS = frozenset({ADDED_KEY, "suggestions"})


def get_added_texts(
    metadata: Any,
    *,
    artifact: Any = None,
    tool: str | None = None,
) -> list[str]:
    """Return the texts that the package added to the result of a tool.

    Args:
        metadata: The `response_metadata` of the result.
        artifact: The artifact of the result. It counts only for our own tool.
        tool: The name of the tool.

    Returns:
        The texts in the order in which they were added. Data of another form than
        the package writes count as no text.
    """
    notes = get_mapping(metadata, NOTES_KEY) if isinstance(metadata, Mapping) else {}
    added = _get_added(notes)
    if tool == SUMMARIZE_STATE:
        added += _get_added(artifact)
    return added


def remove_added_texts(content: Any, added: Sequence[str]) -> Any:
    """Return the content of a tool result as the tool returned it.

    Args:
        content: The content of the result.
        added: The added texts, in the order in which they were added.

    Returns:
        The content without these texts; the same object if it holds none of them.
    """
    for text in reversed(added):
        content = _remove_text(content, text)
    return content


def remove_notes(
    content: Any,
    fields: Mapping[str, Any],
    *,
    tool: str | None,
) -> tuple[Any, Mapping[str, Any]]:
    """Remove the added texts of a tool result, and the notes about them.

    Args:
        content: The content of the result.
        fields: The LangChain fields that a chat message keeps beside its content,
            such as `response_metadata` and `artifact`.
        tool: The name of the tool.

    Returns:
        The content and the fields of the result as if nothing had been added. A field
        that held nothing else than the note is left out. The same two objects if the
        result has neither added texts nor notes about them.
    """
    metadata = get_mapping(fields, "response_metadata")
    artifact = get_mapping(fields, "artifact")
    added = get_added_texts(metadata, artifact=artifact, tool=tool)
    original_content = remove_added_texts(content, added)

    notes = get_mapping(metadata, NOTES_KEY)
    if ADDED_KEY in notes:
        other_notes = _drop_keys(notes, {ADDED_KEY})
        other_metadata = _set_or_drop(metadata, NOTES_KEY, other_notes)
        fields = _set_or_drop(fields, "response_metadata", other_metadata)

    # The artifact of our own tool repeats what was added. Other tools own theirs.
    if tool == SUMMARIZE_STATE and not _ARTIFACT_KEYS.isdisjoint(artifact):
        rest = _drop_keys(artifact, _ARTIFACT_KEYS)
        fields = _set_or_drop(fields, "artifact", rest)
    return original_content, fields


def get_tool_output(message: ToolMessage) -> Any:
    """Return the content of a tool message as the tool returned it."""
    added = get_added_texts(
        message.response_metadata,
        artifact=message.artifact,
        tool=message.name,
    )
    return remove_added_texts(message.content, added)


def _get_added(record: Any) -> list[str]:
    """Return the added texts that notes or an artifact name."""
    added = record.get(ADDED_KEY) if isinstance(record, Mapping) else None
    if not isinstance(added, list):
        return []
    return [text for text in added if isinstance(text, str) and text]


def _remove_text(content: Any, text: str) -> Any:
    """Return a content without one added text.

    The same object is returned if the text does not stand in it.
    """
    if not text:
        return content
    if isinstance(content, list):
        items = [item for item in content if get_block_text(item).strip() != text]
        return items if len(items) < len(content) else content
    if not isinstance(content, str):
        return content
    before, found, after = content.rpartition(text)
    if not found:
        return content
    parts = [before.rstrip(), after.lstrip()]
    return "\n\n".join(part for part in parts if part)


def _drop_keys(data: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Return a copy of a mapping without some keys."""
    return {key: value for key, value in data.items() if key not in keys}


def _set_or_drop(
    data: Mapping[str, Any],
    key: str,
    value: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a copy of a mapping with a new value under a key.

    An empty value removes the key.
    """
    return {**data, key: value} if value else _drop_keys(data, {key})
