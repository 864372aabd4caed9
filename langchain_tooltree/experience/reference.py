"""Reference material: what this package puts into a conversation, and how it is known again. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_tooltree.text import cut, digest, forget_oldest

# Reference material is text that this package puts into a conversation. What is recalled from other runs, or advised in
# this one, would otherwise be learnt again as if it had been observed, so it is left out of every record. It looks the
# same everywhere, for models, but its looks decide nothing, since anybody can write a text that looks so:
# - In a prompt, it is a text that this process has made, known by its digest. Prompts are made anew for each request.
# - In a result, which checkpoints keep, a note of this package beside the content says which text was added. Tools
#   write contents, and no notes; what they return, and what a user says, is never reference material.

TAG = "reference_material"

# Bounded, and looked for one at a time: an observation may be long, and be written by somebody who means ill.
MARK = f"<{TAG} "
"""With which all reference material begins: a text without it, as nearly all are, has none."""

_BEGIN = re.compile(rf'<{TAG} source="[^"<>]{{0,40}}" id="[0-9a-f]{{12}}">\n')
_END = f"\n</{TAG}>"
_WORD = re.compile(r"\S")
_LIKE_A_MARK = re.compile(rf"<(?=\s*/?\s*{TAG})", re.IGNORECASE)

_MADE: dict[str, None] = {}
"""Digests of the reference material that this process has made."""

MOST_MADE = 20_000
"""So much of it is known at a time, some 3 MB: what a prompt holds was made for it, or for one of the latest turns."""


def as_reference(text: str, *, source: str) -> str:
    """Mark a text as reference material; `source` says in one or two words of letters what it is, and models see it.

    Only what looks like a mark is escaped in the text: it may hold code or data that are to be used as they are.
    """
    inside = _LIKE_A_MARK.sub("&lt;", text)
    marked = f'<{TAG} source="{source}" id="{digest(inside, 12)}">\n{inside}{_END}'
    _MADE[digest(marked)] = None
    forget_oldest(_MADE, MOST_MADE)
    return marked


def remarked(text: str, *, source: str) -> str:
    """Reference material from a state, known here, too: a checkpoint may have kept it since another process made it.

    Clients may write states: what does not look like it is marked.
    """
    if not looks_marked(text):
        return as_reference(text, source=source)
    _MADE[digest(text)] = None
    return text


def looks_marked(text: str) -> bool:
    """Whether a text looks like reference material from its beginning to its end."""
    return _BEGIN.match(text) is not None and text.find(_END) == len(text) - len(_END)


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
        if not nested and digest(text[begin.start() : end + len(_END)]) in _MADE:
            rest.append(text[place : begin.start()].rstrip())
            further = _WORD.search(text, end + len(_END))
            place = further.start() if further else len(text)
        begin = following
    if not rest:
        return text
    return "\n\n".join(part for part in (*rest, text[place:]) if part)


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

ADVISED = "advised"
"""Key of a record's metadata under which the words of reflections stand, for people who read the run alone: no prompt
shows them, and nothing is learnt of them. Also the name of the note beside a reply that a search has planned with one.
"""

SUGGESTED = "suggested"
"""Name of the note beside a reply that says how past runs had gone on there: `tool`, `share` and `runs` of each."""

LONGEST_ADVICE, MOST_ADVICE = 600, 20
"""Characters of such a text, and the texts of one record, the latest: a correction has at most 400 characters, a turn
some of them, and together they are 12 KB, a tenth of a long record. A state that a client has written may hold more."""

SUMMARIZE_STATE = "summarize_state"
"""Name of the tool by which an agent sums up the state."""


def added_to(metadata: Any, *, artifact: Any = None, tool: Any = None) -> list[str]:
    """The texts that this package has added to the result of a tool, by what stands beside the content."""
    notes = metadata.get(NOTES) if isinstance(metadata, Mapping) else None
    held = [notes, artifact if tool == SUMMARIZE_STATE else None]  # what other tools return beside it is their own
    lists = [each.get(ADDED) for each in held if isinstance(each, Mapping)]
    return [text for texts in lists if isinstance(texts, list) for text in texts if isinstance(text, str) and text]


def advised_beside(metadata: Mapping[str, Any]) -> Iterator[str]:
    """What a reflection has said, by what stands beside a result or a reply: without marks, and bounded."""
    notes = metadata.get(NOTES)
    noted = notes.get(ADVISED) if isinstance(notes, Mapping) else None
    for text in (*added_to(metadata), *(noted if isinstance(noted, list) else ())):
        if isinstance(text, str):
            yield cut(_BEGIN.sub("", text, count=1).removesuffix(_END), LONGEST_ADVICE)


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
    """A result or a reply and what stands beside it, without what was added to it and the notes that hold it, too.

    Of suggestions their figures stay: what other runs wrote in such a state is theirs, and is erased with them. Where
    there is nothing of this, both are the same objects.
    """
    metadata, artifact = extras.get("response_metadata"), extras.get("artifact")
    summed_up = artifact if tool == SUMMARIZE_STATE and isinstance(artifact, Mapping) else {}
    suggested = summed_up.get("suggestions")
    added = added_to(metadata, artifact=artifact, tool=tool)
    if not (added or suggested or any(advised_beside(metadata) if isinstance(metadata, Mapping) else ())):
        return content, extras
    kept = dict(extras)
    if summed_up:
        kept["artifact"] = {key: value for key, value in summed_up.items() if key != ADDED}
        if isinstance(suggested, list):
            figures = ({**each, "evidence": []} for each in suggested if isinstance(each, Mapping))
            kept["artifact"]["suggestions"] = list(figures)
    if isinstance(metadata, Mapping) and isinstance(notes := metadata.get(NOTES), Mapping):
        kept["response_metadata"] = {
            **metadata,
            NOTES: {key: notes[key] for key in notes if key not in (ADDED, ADVISED)},
        }
    return without_added(content, added), kept
