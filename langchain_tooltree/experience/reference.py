"""Reference material: text that this package puts into a conversation, and takes for nothing that happened in it. Pure.

What is recalled from other runs, or advised in this one, would otherwise be learnt again as if it had been observed.
It is marked in the text itself, so that the mark survives every store and format, and is left out of every record.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_tooltree.text import digest

TAG = "reference_material"

# Bounded, and looked for one at a time: an observation may be long, and be written by somebody who means ill.
_BEGIN = re.compile(rf'<{TAG} source="[^"<>]{{0,40}}" id="([0-9a-f]{{12}})">\n')
_END = f"\n</{TAG}>"
_WORD = re.compile(r"\S")
_LIKE_A_MARK = re.compile(rf"<(?=\s*/?\s*{TAG})", re.IGNORECASE)


def as_reference(text: str, *, source: str) -> str:
    """Mark a text as reference material; `source` says in one or two words of letters what it is, and models see it.

    Only what looks like a mark is escaped in the text: it may hold code or data that are to be used as they are. The
    mark bears a checksum of the text, so that what a tool happens to return is no mark.
    """
    inside = _LIKE_A_MARK.sub("&lt;", text)
    return f'<{TAG} source="{source}" id="{_checksum(inside)}">\n{inside}{_END}'


def without_reference(content: Any) -> Any:
    """The content of a message, a text or a list of blocks, without reference material.

    It is the same object if nothing in it is marked. Blocks that held nothing else are gone.
    """
    if isinstance(content, str):
        return _unmarked(content)
    if not isinstance(content, Sequence) or not any(_is_marked(block) for block in content):
        return content
    return [rest for block in content if (rest := _without(block) if _is_marked(block) else block)]


def is_reference(content: Any) -> bool:
    """Whether a content holds reference material and nothing else."""
    rest = without_reference(content)
    return rest is not content and not rest


def _unmarked(text: str) -> str:
    """The text around the marked parts, with an empty line where one was taken out."""
    rest: list[str] = []
    place, end = 0, -1
    begin = _BEGIN.search(text)
    while begin:
        inside = begin.end()
        following = _BEGIN.search(text, inside)
        if end < inside:
            end = text.find(_END, inside)
            if end < 0:
                break
        nested = following is not None and following.start() < end  # what is marked holds no mark
        if not nested and _checksum(text[inside:end]) == begin[1]:
            rest.append(text[place : begin.start()].rstrip())
            further = _WORD.search(text, end + len(_END))
            place = further.start() if further else len(text)
        begin = following
    if not rest:
        return text
    return "\n\n".join(part for part in (*rest, text[place:]) if part)


def _checksum(text: str) -> str:
    return digest(text, 12)


def _is_marked(block: Any) -> bool:
    text = block.get("text") if isinstance(block, Mapping) else block
    return isinstance(text, str) and _unmarked(text) != text


def _without(block: Any) -> Any:
    if isinstance(block, str):
        return _unmarked(block)
    text = _unmarked(block["text"])
    return {**block, "text": text} if text else None
