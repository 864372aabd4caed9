"""Signals: the parts of an observation that can say that something went wrong, at a bounded cost. Pure.

A refusal is short, or it is the first thing that an observation says. A program that breaks says so in its last line.
What stands in the middle of a long observation was written by others about something else: documents, e-mails and
logs are full of words such as "error" and "cannot".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_tooltree.experience.records import text_of, without_reference
from langchain_tooltree.text import one_line

# In characters of an observation. They bound the cost of a check; refusals are shorter than each of them.

HEAD = 1_500
"""The beginning that is read."""

TAIL = 600
"""The end that is read."""

SHORT = 320
"""An observation up to this length is read sentence by sentence."""

LONGEST_SENTENCE = 320
"""What is read of a sentence."""

MOST_SENTENCES = 6
"""Sentences that a short observation has at most."""

MOST_LINES = 2
"""Lines from which on an observation is a list or a letter, of which the first line alone is read."""

_FRAME = re.compile(
    r"""(?:\s|[>*\-•|"'`]|\#{1,6}\s    # prompts, bullets, quotes
        |</?\w{1,20}>                  # tags such as <output>
        |(?:observation|result|output|response|feedback|message|stdout|stderr|obs|reply|answer|tool|env|environment
           |system|game|agent|robot)\s?:(?=\s|$)
    )*""",
    re.IGNORECASE | re.VERBOSE,
)
_RECORD = re.compile(
    r"""\s*(?:[\[(]\s*[\[({"'\d] | [|{]                             # values, tables, objects
        | \[?\d{4}[-/]\d\d[-/]\d\d | \[?\d\d:\d\d(?::\d\d)?\b        # lines of a log
        | [\w./-]{1,120}:\d+[:-] | (?=\w*\d)[0-9a-f]{6,40}\s | \[\S+\s[0-9a-f]{6,40}\]   # found lines, commits
        | (?:\w+\s)?(?:from|to|cc|subject|date|title|re|name|description|product|review|notes?|summary|author|reviewer
            |comments?|terms|text|body|content|question|headline)\s?:\s    # what somebody wrote
        | [^.!?\n]{0,80}\b(?:says|said|tells|reads|writes|wrote|titled|entitled)\b(?:\s\w+)?[:,]?\s*["“']
        | (?:breaking\s)?(?:news|issue|ticket|pull\srequest|pr|post|chat|comment|thread|tweet|row|chapter)s?
            (?:\s[#\w]+)?\s?:\s
        | [\w\s]{0,20}\b(?:policy|rules)\s?:\s
        | \#{1,6}\s | ```(?!json) | diff\s--git | @@\s | <(?:!doctype|html|\?xml|svg|head|body)\b
        | (?-i:async\s+def|def|class|import|function|const|let|var|public|private|static|package|func|fn|return)
            \s+\w+\s*[\w({=:.;<]
        | from\s\S+\simport\s | \#(?:include|!) | (?:select|create\s+table|insert\s+into)\s\S+)""",
    re.IGNORECASE | re.VERBOSE,
)
"""How texts begin that show data, a log, a program or a letter, and say nothing themselves."""

_SUCCESS = re.compile(
    r"\b(?:success\w*|confirmed|completed?|created|saved|sent|added|booked|placed|done|updated|deleted|removed|purchased|ordered|scheduled|"
    r"registered|applied|accepted|thank)\b(?!\?)",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:no|not|cannot|never|nothing|fail\w*|un\w+able|without|already|errors?|invalid|must|before|only|be)\b|n't\b",
    re.IGNORECASE,
)
_END_OF_SENTENCE = re.compile(r"(?<=\S[.!?])[\"')\]]?\s+|\s*\n\s*")


@dataclass(frozen=True, slots=True)
class Signals:
    """What there is to read of an observation."""

    length: int
    head: str
    tail: str  # empty where the head is the whole
    sentences: tuple[str, ...]  # the first and, if the text is short, the next; without prompts, bullets and labels
    last_line: str
    shows: bool  # data, a log, a program or a letter, rather than to say something itself

    @property
    def ends(self) -> str:
        """The beginning and the end of it."""
        return f"{self.head}\n{self.tail}" if self.tail else self.head


def signals_in(text: str) -> Signals:
    """Take an observation apart. The cost does not grow with the length of the text, except for one copy of it."""
    text = text.strip()
    head, tail = _plain(text[:HEAD]), _plain(text[max(HEAD, len(text) - TAIL) :])
    lines = [line for line in head.split("\n") if not line.isspace() and line]
    # Of several lines, those after the first are a list or a letter.
    listing = len(lines) > MOST_LINES or (len(lines) > 1 and lines[0].rstrip().endswith(":"))
    read = lines[0] if lines and (listing or len(text) > SHORT) else head
    parts = _END_OF_SENTENCE.split(read[:HEAD], maxsplit=MOST_SENTENCES)
    sentences = tuple(bare for part in _unquoted(parts) if (bare := _bare(part)))
    if len(text) > SHORT or (len(sentences) > 1 and _SUCCESS.search(sentences[0]) and not _DENIED.search(sentences[0])):
        sentences = sentences[:1]  # what follows is a document, or remarks on what has been done
    last_line = (tail or head).rpartition("\n")[2].strip()[:LONGEST_SENTENCE]
    return Signals(len(text), head, tail, sentences, last_line, _RECORD.match(head) is not None)


def said(content: Any) -> str:
    """The text of an observation, without what this package has added to it."""
    return text_of(without_reference(content)) if content else ""


def quoted(parts: Sequence[str] | str, longest: int = 160) -> str:
    """A text as evidence quotes it: on one line, shortened, in quotation marks."""
    text = parts if isinstance(parts, str) else " ".join(parts)
    return f'"{one_line(text[: 4 * longest], longest)}"'


def _plain(text: str) -> str:
    """A text with plain apostrophes and dashes."""
    return text.replace("\u2019", "'").replace("\u2013", "-").replace("\u2014", "-")


def _unquoted(parts: Sequence[str]) -> Iterator[str]:
    """The first sentence, and those of the others that are not said or written by somebody."""
    within = False
    for place, part in enumerate(parts):
        if not place or not (within or part.startswith(('"', "\u201c"))):
            yield part
        within ^= part.count('"') % 2 == 1


def _bare(part: str) -> str:
    frame = _FRAME.match(part)
    return part[frame.end() if frame else 0 :][:LONGEST_SENTENCE].strip()
