"""Texts: words, cutting, lists in prose, labels of pictures. Pure."""

import json
import re
from typing import Any


def shorten(text: str, length: int) -> str:
    """A text on one line, cut at the end where it is too long."""
    flat = re.sub(r"\s+", " ", text)
    return flat if len(flat) <= length else f"{flat[: length - 1]}…"


def mermaid_text(text: str) -> str:
    """A text that Mermaid shows as it is."""
    return re.sub(r'["<>#&{}\[\]()|`]', lambda match: f"#{ord(match.group())};", text)


_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""Chinese and Japanese characters: each counts as a word."""

WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+")


LONGEST = 8
"""Letters from which on a word counts in full."""


def words_of(text: str) -> list[str]:
    """The words of a text in order, without case; `_` and punctuation separate them."""
    return WORD.findall(text.casefold())


def overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """How much two sets of words have in common: the Jaccard index, in [0, 1]; 1 if both are empty."""
    shared = len(one & other)
    both = len(one) + len(other) - shared
    return shared / both if both else 1.0


def weight(word: str) -> float:
    """What a word counts for, up to 1: long ones say more than short ones, of which many only join others."""
    return min(len(word), LONGEST) / LONGEST


_MARKER = re.compile(
    r"""^(?P<indent>\s*)
    (?:[*_]{0,2}(?:(?:tip|point|item|focus\ point)\ ?\#?)?\(?\d{1,3}[.):](?!\d)[*_]{0,2}  # 1.  (1)  **1.**  Tip 1:
    |[-+*•‣◦–—])                                                                         # bullets
    [ \t]+(?=\S)""",  # noqa: RUF001 - models write all these dashes
    re.VERBOSE | re.IGNORECASE,
)
_FENCE = re.compile(r"^\s*(?:```|~~~)")


def listed(text: str) -> list[Any]:
    """The elements of the list in a text.

    Args:
        text: What a model replied.

    Returns:
        The elements of the JSON array in it, if it holds one of texts or objects; otherwise its numbered or bulleted
        items, as texts without marker and emphasis. A line without a marker goes on with the item before it, an empty
        line ends the item, and lines marked deeper belong to the item above them. Nothing for a text without a list.
    """
    return _json_array(text) or _items(text)


def _json_array(text: str) -> list[Any]:
    decoder = json.JSONDecoder()
    for start in (found.start() for found in re.finditer(r"\[", text)):
        try:
            data, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, list) and data and all(isinstance(each, str | dict) for each in data):
            return data
    return []


def _items(text: str) -> list[str]:
    items: list[list[str]] = []
    outermost: int | None = None
    ended = False
    for line in text.expandtabs(4).splitlines():
        if _FENCE.match(line):
            continue
        found = _MARKER.match(line)
        depth = len(found["indent"]) if found else 0
        outermost = depth if found and outermost is None else outermost
        if found and outermost is not None and depth <= outermost + 1:
            items.append([line[found.end() :]])
            ended = False
        elif not line.strip():
            ended = True
        elif items and (found or not ended or line[0].isspace()):
            items[-1].append(line[found.end() :] if found else line)
            ended = False
    texts = ("\n".join(line.strip() for line in lines).replace("**", "").strip() for lines in items)
    return [text for text in texts if text]
