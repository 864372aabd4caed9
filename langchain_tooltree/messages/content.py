"""The text in the content of a message. Pure.

LangChain's `content` is a string, or a list of strings and of blocks such as
`{"type": "text", "text": ...}`. In data from elsewhere it can be None or anything
else. None of these functions raises because of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def get_text(content: Any) -> str:
    """Return the text of a message's content.

    Args:
        content: The content as it stands in the message.

    Returns:
        The string itself, or the texts of a list, one below the other. Images and
        other blocks without text are left out. None is "", and what is neither a
        string nor a list is converted with `str`.
    """
    if not isinstance(content, list):
        return _convert_to_text(content)
    texts = [get_block_text(block) for block in content]
    return "\n".join(text for text in texts if text)


def describe_content(content: Any) -> str:
    """Return the text of a message's content, naming the blocks that have none.

    Use it where a reader has to know that there is more than text: a picture that
    the user asks about becomes the line `[image]` below the question.

    Args:
        content: The content as it stands in the message.

    Returns:
        The text as `get_text` returns it, with `[image]` or the like in place of a
        block without text, and `[content]` if such a block does not give its type.
    """
    if not isinstance(content, list):
        return _convert_to_text(content)
    descriptions = [_describe_block(block) for block in content]
    return "\n".join(description for description in descriptions if description)


def get_block_text(block: Any) -> str:
    """Return the text of one item of a content list, or "" if it has none."""
    text = block.get("text") if isinstance(block, Mapping) else block
    return text if isinstance(text, str) else ""


def _convert_to_text(content: Any) -> str:
    """Return the text of a content that is no list."""
    if content is None:
        return ""
    return content if isinstance(content, str) else str(content)


def _describe_block(block: Any) -> str:
    """Return the text of an item of a content list, or else its type in brackets."""
    if isinstance(block, str):
        return block
    if text := get_block_text(block):
        return text
    block_type = block.get("type") if isinstance(block, Mapping) else None
    if isinstance(block_type, str) and block_type:
        return f"[{block_type}]"
    return "[content]"
