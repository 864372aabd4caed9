"""A summary of what a user wants, taken from their own words."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_tooltree.text import cut, remove_small_talk, shortened

MAX_AIM_CHARACTERS = 400
"""The length of the summary of several requests."""


def summarize_requests(requests: Iterable[str]) -> str:
    """Return what a user wants in the end, from all their requests.

    A single request is its own summary. Of several requests, the first names the
    subject, and the latest name what the user wants by now. The summary consists of
    the first request and of as many of the latest as there is room for, without small
    talk and repetitions.

    Args:
        requests: The texts of the user's messages, oldest first.

    Returns:
        The summary, or "" if there are no texts.
    """
    texts = [text.strip() for text in requests]
    texts = [text for text in texts if text]
    if not texts:
        return ""
    if len(texts) == 1:
        return shortened(texts[0])

    wishes = [remove_small_talk(text) for text in texts]
    unique_wishes = list(dict.fromkeys(wish for wish in wishes if wish))
    if not unique_wishes:
        return shortened(texts[0])

    first, *later_wishes = unique_wishes
    if not later_wishes:
        return cut(first, MAX_AIM_CHARACTERS)
    first = cut(first, MAX_AIM_CHARACTERS // 2)
    room = MAX_AIM_CHARACTERS - len(first)
    return " ".join([first, *_select_latest(later_wishes, room)])


def _select_latest(wishes: list[str], room: int) -> list[str]:
    """Return the latest wishes that fit into the room, oldest first.

    The latest of all is always among them, cut if necessary. Each wish takes one more
    character than it has, for the space before it.
    """
    latest = cut(wishes[-1], room - 1)
    selected = [latest]
    remaining_room = room - len(latest) - 1
    for wish in reversed(wishes[:-1]):
        remaining_room -= len(wish) + 1
        if remaining_room < 0:
            break
        selected.append(wish)
    selected.reverse()
    return selected
