"""Reference material: what this package puts into a conversation, and how it is recognised. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_tooltree.text import digest, forget_oldest, mapping_in

# Reference material is text that this package puts into a conversation. What is recalled from other runs, or advised in
# this one, would otherwise be learnt again as if it had been observed, so it is left out of every record. It looks the
# same everywhere, for models, but its looks decide nothing, since anybody can write a text that looks so:
# - In a prompt, it is a text that this process has made, known by its digest. Prompts are made anew for each request.
# - In a result, which checkpoints keep, a note of this package beside the content says which text was added. Tools
#   write contents, and no notes; what they return, and what a user says, is never reference material.

TAG = "reference_material"

MARK = f"<{TAG} "
"""With which all reference material begins: a text without it, as nearly all are, has none."""

_BEGIN = re.compile(rf'<{TAG} source="(?P<source>[^"<>]{{0,40}})" id="(?P<id>[0-9a-f]{{12}})">\n')
_END = f"\n</{TAG}>"
_WORD = re.compile(r"\S")
_LIKE_A_MARK = re.compile(rf"<(?=\s*(?:/\s*)?{TAG})", re.IGNORECASE)

_MADE: dict[str, int] = {}
"""Lengths of the reference material that this process has made, by its ids."""

MOST_MADE = 20_000
"""So much of it is known at a time, some 3 MB: what a prompt holds was made for it, or for one of the latest turns."""


def as_reference(text: str, *, source: str) -> str:
    """Mark a text as reference material; `source` says in one or two words of letters what it is, and models see it.

    Only what looks like a mark is escaped in the text: it may hold code or data that are to be used as they are.
    """
    inside = _LIKE_A_MARK.sub("&lt;", text)
    name = _id(source, inside)
    marked = f'<{TAG} source="{source}" id="{name}">\n{inside}{_END}'
    _MADE[name] = len(marked)
    forget_oldest(_MADE, MOST_MADE)
    return marked


def remarked(text: str, *, source: str) -> str:
    """Reference material from a state, known here, too: a checkpoint may have kept it since another process made it.

    Clients may write states: what is not marked as this package does it is marked.
    """
    begin = _BEGIN.match(text)
    if begin is None or not _is_whole(text, begin):
        return as_reference(text, source=source)
    _MADE[begin["id"]] = len(text)
    return text


def looks_marked(text: str) -> bool:
    """Whether a text looks like reference material from its beginning to its end."""
    return _BEGIN.match(text) is not None and text.find(_END) == len(text) - len(_END)


def _is_whole(marked: str, begin: re.Match[str]) -> bool:
    """Whether a text is reference material from its beginning to its end, as its id says."""
    inside = marked[begin.end() - begin.start() : -len(_END)]
    return marked.endswith(_END) and _id(begin["source"], inside) == begin["id"]


def _id(source: str, inside: str) -> str:
    return digest([source, inside], 12)


def without_reference(content: Any) -> Any:
    """The content of a prompt's message, a text or a list of blocks, without reference material made here.

    It is the same object if there is none. Blocks that held nothing else are gone.
    """
    if isinstance(content, str):
        return _text_unmarked(content)
    if not isinstance(content, Sequence):
        return content
    rest = [_block_unmarked(block) for block in content]
    unmarked = all(left is block for left, block in zip(rest, content, strict=True))
    return content if unmarked else [left for left in rest if left]


def is_reference(content: Any) -> bool:
    """Whether a content holds reference material and nothing else."""
    rest = without_reference(content)
    return rest is not content and not rest


def _text_unmarked(text: str) -> str:
    """The text around the marked parts, with an empty line where one was taken out."""
    if MARK not in text:
        return text
    rest: list[str] = []
    place = 0
    for begin in _BEGIN.finditer(text):
        end = begin.start() + _MADE.get(begin["id"], 0)
        if begin.start() >= place and _is_whole(text[begin.start() : end], begin):
            rest.append(text[place : begin.start()].rstrip())
            further = _WORD.search(text, end)
            place = further.start() if further else len(text)
    return "\n\n".join(part for part in (*rest, text[place:]) if part) if rest else text


def _text_in(block: Any) -> str:
    text = block.get("text") if isinstance(block, Mapping) else block
    return text if isinstance(text, str) else ""


def _block_unmarked(block: Any) -> Any:
    text = _text_in(block)
    if (rest := _text_unmarked(text)) is text:
        return block
    return {**block, "text": rest} if rest and isinstance(block, Mapping) else rest


NOTES = "tooltree"
"""Key of a message's `response_metadata` under which this package notes something; providers never get to see it."""

SEARCH_MARK = "mark"
"""Where that note of the planner's holds its mark, in a graph of the user's own."""

NOTE = "[Planner's note, not from the user]"
"""How a message of the planner's begins that stands behind the conversation in one of its questions."""

REPORT_FORM = '{"missing": "nothing'
"""Stands in the line by which the planner asks an agent for a report, at the end of its instructions."""


def without_report_line(instructions: str) -> str:
    """An agent's instructions without the planner's line."""
    own, _, last = instructions.rpartition("\n\n")
    return own if REPORT_FORM in last else instructions


ADDED = "added"
"""Name of the note that says which texts this package has added to a content; also in the artifact of its own tool."""

SUGGESTED = "suggested"
"""Name of the note beside a reply that says how past runs had gone on there: `tool`, `share` and `runs` of each."""

SUMMARIZE_STATE = "summarize_state"
"""Name of the tool by which an agent sums up the state."""


def added_to(metadata: Any, *, artifact: Any = None, tool: Any = None) -> list[str]:
    """The texts that this package has added to the result of a tool, by what stands beside the content."""
    notes = metadata.get(NOTES) if isinstance(metadata, Mapping) else None
    held = [notes, artifact if tool == SUMMARIZE_STATE else None]  # what other tools return beside it is their own
    lists = [each.get(ADDED) for each in held if isinstance(each, Mapping)]
    return [text for texts in lists if isinstance(texts, list) for text in texts if isinstance(text, str) and text]


def without_added(content: Any, added: Sequence[str]) -> Any:
    """The content of a result without texts that were added to it; the same object if they are not there."""
    for text in reversed(added):
        if isinstance(content, str) and text in content:
            before, _, after = content.rpartition(text)
            content = "\n\n".join(filter(None, (before.rstrip(), after.lstrip())))
        elif isinstance(content, list) and any(text == _text_in(block).strip() for block in content):
            content = [block for block in content if _text_in(block).strip() != text]
    return content


def without_notes(content: Any, extras: Mapping[str, Any], *, tool: Any) -> tuple[Any, Mapping[str, Any]]:
    """A result and what stands beside it, without what was added to it and the notes that hold it, too.

    What was suggested goes as well: it says what other runs did. Where there is nothing of this, both are the same
    objects.
    """
    metadata, artifact = mapping_in(extras, "response_metadata"), extras.get("artifact")
    added = added_to(metadata, artifact=artifact, tool=tool)
    summary = artifact if tool == SUMMARIZE_STATE and isinstance(artifact, Mapping) else {}
    if not added and "suggestions" not in summary:
        return content, extras
    kept = dict(extras)
    if summary:
        kept["artifact"] = {key: value for key, value in summary.items() if key not in (ADDED, "suggestions")}
    if notes := mapping_in(metadata, NOTES):
        own = {key: value for key, value in notes.items() if key != ADDED}
        kept["response_metadata"] = {**metadata, NOTES: own}
    return without_added(content, added), kept
