"""News: the parts of observations that say something that was not said before. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from langchain_tooltree.cfgm.words import weight, words_of

GAP = "…"
"""What stands for something that is left out."""

LONGEST_PIECE = 60
"""Characters from which on a sentence is taken apart at its commas."""

WANTED = 3.0
"""What a new word counts for that is wanted, beside 1 for any other."""

_SENTENCES = re.compile(r"\n+|(?<=[.!?;])\s+|(?<=[。！？；])")  # noqa: RUF001 - full width, as in Chinese
_ENDS = ".,:;!?。！？；，、" + GAP  # noqa: RUF001 - as above
_CLAUSES = re.compile(r"(?<=,)\s+|(?<=[，、])")  # noqa: RUF001 - as above


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, a line or a clause of an observation.

    Attributes:
        text: What it says, on one line.
        news: How much is new in it; 0 if nothing is.
    """

    text: str
    news: float


def news_in(observations: Iterable[tuple[str, str]], wanted: frozenset[str] = frozenset()) -> list[list[Piece]]:
    """Take observations apart and tell what is new in each.

    Args:
        observations: For each step what was done and what came of it, in order.
        wanted: Words of which one wants to hear.

    Returns:
        The pieces of each observation. New are the words that neither an observation before nor the step itself had.
    """
    known: set[str] = set()
    told = []
    for done, observation in observations:
        known |= {*words_of(done)}
        pieces = []
        for text in pieces_of(observation):
            fresh = {*words_of(text)} - known
            known |= fresh
            news = sum(weight(word) * (WANTED if word in wanted else 1) for word in sorted(fresh))
            pieces.append(Piece(text, news))
        told.append(pieces)
    return told


def pieces_of(text: str) -> list[str]:
    """The sentences and lines of a text, long ones taken apart at their commas, each on one line."""
    sentences = (" ".join(sentence.split()) for sentence in _SENTENCES.split(text))
    return [
        piece
        for sentence in sentences
        if sentence
        for piece in (_CLAUSES.split(sentence) if len(sentence) > LONGEST_PIECE else [sentence])
    ]


def in_short(pieces: Sequence[Piece], longest: int) -> str:
    """The news of an observation in bounded room.

    Args:
        pieces: What it consists of.
        longest: The most characters.

    Returns:
        The pieces with the most news for their length that fit, in their order, with `…` between those that did not
        stand together; the beginning of the first one if none fits; empty if there is nothing new.
    """
    new = [place for place, piece in enumerate(pieces) if piece.news]
    best = sorted(new, key=lambda place: (-pieces[place].news / (len(pieces[place].text) + 3), place))
    taken: set[int] = set()
    left = longest
    for place in best:
        needed = len(pieces[place].text) + 2 * (len(GAP) + 1)
        if needed <= left or (not taken and len(pieces[place].text) <= longest):
            taken.add(place)
            left -= needed
    if not taken:
        return f"{pieces[best[0]].text[: longest - len(GAP)]}{GAP}" if best and longest > len(GAP) else ""
    told: list[str] = []
    for place, piece in enumerate(pieces):
        if place in taken:
            told.append(piece.text)
        elif told and told[-1] != GAP and any(place < other for other in taken):
            told.append(GAP)
    return _joined(told, longest)


def flat(text: str) -> str:
    """A text on one line, whose lines can still be told apart."""
    return _joined(pieces_of(text))


def _joined(pieces: Sequence[str], longest: int | None = None) -> str:
    """Pieces one after the other, with a semicolon where a line ended, if there is room for all of these."""
    parted = [
        piece if number == len(pieces) or piece[-1] in _ENDS or pieces[number] == GAP else f"{piece};"
        for number, piece in enumerate(pieces, 1)
    ]
    text = " ".join(parted)
    return text if longest is None or len(text) <= longest else " ".join(pieces)
