"""Reference material: text that this package puts into a conversation itself.

Recalled runs, suggestions and corrections are shown to the model between the words
of the user. If they were recorded as part of the conversation, they would be learnt
again as if they had happened. They are marked for that reason:

    <reference_material source="recall" id="3b1f0a9c7d2e">
    TEXT
    </reference_material>

Models see the tag, but the tag alone decides nothing, since anybody can write a text
that looks like it. A marked text counts as reference material only if this process
has made it. Prompts are made anew for each request, so a registry in memory suffices.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_tooltree.messages.content import describe_content, get_block_text
from langchain_tooltree.text import digest

REFERENCE_TAG = "reference_material"

REFERENCE_START = f"<{REFERENCE_TAG} "
"""The beginning of every marked text.

A text without it, as nearly all texts are, needs no further look.
"""

_MAX_SOURCE_CHARACTERS = 40
_ID_CHARACTERS = 12

# The text may hold "<", but not the beginning of another such tag. A search therefore
# takes linear time, also in a text with many opening tags that are never closed.
_REFERENCE_PATTERN = re.compile(
    r'<reference_material source="(?P<source>[^"<>]{0,40})" id="(?P<id>[0-9a-f]{12})">'
    r"\n(?P<text>[^<]*(?:<(?!/?reference_material)[^<]*)*)\n"
    r"</reference_material>",
)

# The "<" of a tag like ours, also of one that only a model would take for it.
_TAG_BRACKET_PATTERN = re.compile(
    rf"<(?=\s*(?:/\s*)?{REFERENCE_TAG})",
    re.IGNORECASE,
)


class ReferenceRegistry:
    """The ids of the latest reference material that this process has made.

    Several threads use it at once, so each change is made as a whole.

    Args:
        max_ids: How many ids are remembered. Beyond it, the oldest are forgotten.
    """

    def __init__(self, max_ids: int = 20_000) -> None:
        self.max_ids = max_ids
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, reference_id: str) -> None:
        """Remember an id as the newest one."""
        with self._lock:
            self._ids[reference_id] = None
            self._ids.move_to_end(reference_id)
            if len(self._ids) > self.max_ids:
                self._ids.popitem(last=False)

    def __contains__(self, reference_id: str) -> bool:
        return reference_id in self._ids


REGISTRY = ReferenceRegistry()
"""The registry of this process."""


def mark_as_reference(text: str, *, source: str) -> str:
    """Return a text marked as reference material, and register it.

    Args:
        text: The text to show to the model. Only a tag in it that could be mistaken
            for ours is escaped; code and data stay usable as they are.
        source: The part of the package that the text comes from, such as "recall".
            It is cut to 40 characters and loses quotes and angle brackets.

    Returns:
        The marked text, which `remove_reference` recognises in this process.
    """
    source = _clean_source(source)
    text = _TAG_BRACKET_PATTERN.sub("&lt;", text)
    reference_id = _compute_id(source, text)
    REGISTRY.add(reference_id)
    return (
        f'<{REFERENCE_TAG} source="{source}" id="{reference_id}">\n'
        f"{text}\n"
        f"</{REFERENCE_TAG}>"
    )


def remark_reference(text: str, *, source: str) -> str:
    """Return reference material from a stored state as this process would mark it.

    Another process may have made it, so it is registered here as well. Clients can
    write states too: a text whose id is not the digest of what it holds is marked as
    a whole, as any other text would be.

    Args:
        text: The text in the state, marked or not.
        source: The source of a text that is not marked.

    Returns:
        The marked text. Marked material keeps its text and its own source.
    """
    match = _REFERENCE_PATTERN.fullmatch(text)
    if match and _has_right_id(match):
        return mark_as_reference(match["text"], source=match["source"])
    return mark_as_reference(text, source=source)


def looks_like_reference(text: str) -> bool:
    """Return True if a text as a whole has the format of reference material.

    Anybody can write such a text: this does not say that the package made it.
    """
    return _REFERENCE_PATTERN.fullmatch(text) is not None


def remove_reference(content: Any, *, source: str | None = None) -> Any:
    """Return the content of a prompt's message without reference material.

    Args:
        content: The content as it stands in the message.
        source: Remove only the material of this source.

    Returns:
        The rest, with an empty line in place of what was removed. A block of a list
        is left out if it held nothing else. The same object if there is no reference
        material that this process has made.
    """
    if isinstance(content, str):
        return _remove_from_text(content, source)
    if isinstance(content, Sequence):
        return _remove_from_blocks(content, source)
    return content


def holds_only_reference(content: Any) -> bool:
    """Return True if a content holds reference material and nothing else.

    An empty content holds none, so it is not reference material.
    """
    rest = remove_reference(content)
    return rest is not content and not describe_content(rest).strip()


def _clean_source(source: str) -> str:
    """Return a source as it can stand in the tag."""
    return re.sub(r'["<>]', "", source)[:_MAX_SOURCE_CHARACTERS]


def _compute_id(source: str, text: str) -> str:
    """Return the id of reference material, given its source and escaped text."""
    return digest([source, text], _ID_CHARACTERS)


def _has_right_id(match: re.Match[str]) -> bool:
    """Return True if the id of marked material is the digest of what it holds."""
    return match["id"] == _compute_id(match["source"], match["text"])


def _find_registered(text: str, source: str | None) -> list[re.Match[str]]:
    """Return the parts of a text that this process marked, of one source or of all."""
    if REFERENCE_START not in text:
        return []
    matches = []
    for match in _REFERENCE_PATTERN.finditer(text):
        is_wanted = source is None or match["source"] == _clean_source(source)
        if is_wanted and match["id"] in REGISTRY and _has_right_id(match):
            matches.append(match)
    return matches


def _remove_from_text(text: str, source: str | None) -> str:
    """Return a text without reference material.

    The same object is returned if it holds none.
    """
    matches = _find_registered(text, source)
    if not matches:
        return text
    parts = []
    position = 0
    for match in matches:
        parts.append(text[position : match.start()].strip())
        position = match.end()
    parts.append(text[position:].lstrip())
    return "\n\n".join(part for part in parts if part)


def _remove_from_blocks(blocks: Sequence[Any], source: str | None) -> Sequence[Any]:
    """Return the blocks of a content without reference material.

    The same object is returned if they hold none.
    """
    rest = []
    is_changed = False
    for block in blocks:
        text = get_block_text(block)
        rest_of_text = _remove_from_text(text, source)
        if rest_of_text is text:
            rest.append(block)
            continue
        is_changed = True
        if rest_of_text and isinstance(block, Mapping):
            rest.append({**block, "text": rest_of_text})
        elif rest_of_text:
            rest.append(rest_of_text)
    return rest if is_changed else blocks
