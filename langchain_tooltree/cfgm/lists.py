"""Lists in prose: what a model meant that was asked for a form and replied with numbered lines instead. Pure."""

import json
import re
from typing import Any

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
