"""Condensing: the most useful part of a long run in little room, in the order it happened. Pure.

Cutting would keep what happens to stand at an end, and a room that is described four times. Here a run comes down to
its calls first, each of them once before any of them twice, and then to what was new in the observations.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_tooltree.text import GAP, cut, weight, words_of

EMPTY: tuple[Any, ...] = (None, "", [], {})
LONGEST_PIECE = 60  # characters from which on a sentence is taken apart at its commas
WANTED_WORD_WEIGHT = 3.0  # what a new word counts for that is wanted, beside 1 for any other

_SENTENCES = re.compile(r"\n+|(?<=[.!?;])\s+|(?<=[。！？；])")  # noqa: RUF001 - full width, as in Chinese
_ENDS = ".,:;!?。！？；，、" + GAP  # noqa: RUF001 - as above
_CLAUSES = re.compile(r"(?<=,)\s+|(?<=[，、])")  # noqa: RUF001 - as above


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, a line or a clause of an observation on one line, and how much is new in it."""

    text: str
    news: float


def news_in(observations: Iterable[tuple[str, str]], wanted: frozenset[str] = frozenset()) -> list[list[Piece]]:
    """The pieces of each observation, with what is new: words that no observation before, nor the call itself, had."""
    known: set[str] = set()
    kept = []
    for done, observation in observations:
        known |= {*words_of(done)}
        pieces = []
        for text in pieces_of(observation):
            fresh = {*words_of(text)} - known
            known |= fresh
            news = sum(weight(word) * (WANTED_WORD_WEIGHT if word in wanted else 1) for word in sorted(fresh))
            pieces.append(Piece(text, news))
        kept.append(pieces)
    return kept


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
    """The pieces with the most news for their length that fit, in their order, with `…` between those that stood apart.

    Where none fits, the beginning of the first one; empty if nothing is new.
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
        return cut(pieces[best[0]].text, longest) if best and longest > len(GAP) else ""
    kept: list[str] = []
    for place, piece in enumerate(pieces):
        if place in taken:
            kept.append(piece.text)
        elif kept and kept[-1] != GAP and any(place < other for other in taken):
            kept.append(GAP)
    return _joined(kept, longest)


def thinned(text: str, longest: int) -> str:
    """An observation without the marks and the repeated names of JSON; a text that is none, or too long, as it is."""
    if text[:1] not in {"{", "["} or len(text) > longest:
        return text
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _plain(data) if isinstance(data, dict | list) and data else text


def _plain(data: Any, *, inner: bool = False) -> str:
    """Data in few characters: nothing empty, and in a list of objects with the same fields, each field named once."""
    if isinstance(data, dict):
        fields = (f"{name}: {_plain(value, inner=True)}" for name, value in data.items() if value not in EMPTY)
        return f"{{{', '.join(fields)}}}" if inner else "; ".join(fields)
    if not isinstance(data, list):
        return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    rows = [each for each in data if isinstance(each, dict)]
    if len(rows) == len(data) > 1 and all(row.keys() == rows[0].keys() for row in rows) and rows[0]:
        values = (", ".join(_plain(value, inner=True) for value in row.values()) for row in rows)
        return f"({', '.join(rows[0])}) {' | '.join(values)}"
    return f"[{', '.join(_plain(each, inner=True) for each in data)}]"


def flat(text: str) -> str:
    """A text on one line, whose lines can still be kept apart."""
    return _joined(pieces_of(text))


def _joined(pieces: Sequence[str], longest: int | None = None) -> str:
    """Pieces one after the other, with a semicolon where a line ended, if there is room for all of these."""
    parted = [
        piece if number == len(pieces) or piece[-1] in _ENDS or pieces[number] == GAP else f"{piece};"
        for number, piece in enumerate(pieces, 1)
    ]
    text = " ".join(parted)
    return text if longest is None or len(text) <= longest else " ".join(pieces)


# What the numbers below keep of real runs is measured by `tests/benchmarks/recall_budget.py`.

ARROW = " → "  # stands between a call and its observation; reference material would escape an arrow of ASCII
LONGEST_CYCLE = 6  # steps of a cycle, at the most, that is shown once with the number of times
FOR_CALLS = 0.8  # share of the room that calls may take before observations get some
LENGTHS = (80, 240, 1_000)  # characters of an observation that are shown: few, until all have had their turn, then more
LONGEST_CALL = 6  # a call takes no more than one part in so many of the room, unless it is short
SHORT_CALL = 40  # characters up to which a call is short
MOSTLY_SPACE = 10  # how many times as long as its words an observation may be because of white space
WANTED = 2.0  # what a word of a call counts for that is wanted, beside 1 for any other
FAILED = 0.25  # what a call counts for that failed, beside 1 for any other: a later one did better
AGREED = 0.5  # what words count for on top that a call follows, as consent to a change does
FIRST, LAST = 0.5, 2.0  # what the steps at both ends count for on top, beside 1 for the best of all


@dataclass(frozen=True, slots=True)
class Move:
    """A step of a run: what was done, and what came of it."""

    call: str
    observation: str = ""
    failed: bool = False
    times: int = 1  # in a row, or as part of a cycle
    said: bool = False  # words alone, in the call or in what stands as observation


def condensed(moves: Sequence[Move], *, max_characters: int, about: str = "") -> str:
    """A run within a given room, one line a step; what shares words with `about` goes first.

    A run that has room stands there in full, apart from steps that were repeated with the same outcome. Otherwise a
    cycle stands there once, calls go by usefulness, and observations are cut down to what is new in them.
    """
    whole = in_full(moves, max_characters=max_characters)
    if whole is not None:
        return whole
    return _Condensing(_uncycled(_merged(moves)), max_characters, frozenset(words_of(about))).text()


def in_full(moves: Sequence[Move], *, max_characters: int) -> str | None:
    """All of a run, one line a step; `None` if there is not enough room."""
    merged = _merged(moves)
    # What is far too long need not be put together to see that; white space makes up some of a text, but not most.
    if sum(len(move.observation) for move in merged) > MOSTLY_SPACE * max_characters:
        return None
    whole = "\n".join(_line(move, flat(move.observation)) for move in merged)
    return whole if len(whole) <= max_characters else None


def _line(move: Move, observation: str) -> str:
    times = f" (x{move.times})" if move.times > 1 else ""
    failed = " (failed)" if move.failed else ""
    return f"{move.call}{times}{failed}{ARROW if observation else ''}{observation}"


def _merged(moves: Iterable[Move]) -> list[Move]:
    """The steps, with one in place of those that were repeated with the same outcome."""
    kept: list[Move] = []
    for move in moves:
        plain = replace(move, call=" ".join(move.call.split()))
        if kept and replace(kept[-1], times=plain.times) == plain:
            kept[-1] = replace(plain, times=kept[-1].times + plain.times)
        else:
            kept.append(plain)
    return kept


def _uncycled(moves: Sequence[Move]) -> list[Move]:
    """The steps, with one round in place of a cycle of the same calls: the last one."""
    kept: list[Move] = []
    place = 0
    while place < len(moves):
        length, rounds = _cycle_at(moves, place)
        for offset in range(length):
            times = sum(moves[place + offset + length * turn].times for turn in range(rounds))
            kept.append(replace(moves[place + offset + length * (rounds - 1)], times=times))
        place += length * rounds
    return kept


def _cycle_at(moves: Sequence[Move], start: int) -> tuple[int, int]:
    """The shortest cycle of calls that begins here: its length, and how often it goes round."""
    for length in range(1, LONGEST_CYCLE + 1):
        cycle = [move.call for move in moves[start : start + length]]
        rounds = 1
        while [move.call for move in moves[start + length * rounds : start + length * (rounds + 1)]] == cycle:
            rounds += 1
        if rounds > 1:
            return length, rounds
    return 1, 1


class _Condensing:
    """A run on its way into the room that there is for it; `wanted` are the words of what it is wanted for."""

    def __init__(self, moves: Sequence[Move], room: int, wanted: frozenset[str]) -> None:
        self._moves: list[Move] = []
        for move in moves:
            # Words alone count as a call, since a line without them says nothing.
            call = f"{move.call}{ARROW}{flat(move.observation)}" if move.said and move.observation else move.call
            short = cut(call, max(SHORT_CALL, room // LONGEST_CALL))
            self._moves.append(replace(move, call=short, observation="" if move.said else move.observation))
        self._room = room
        self._wanted = wanted
        self._shown: dict[int, str] = {}
        self._size = len(GAP)

    def text(self) -> str:
        """The lines; empty if there is no room for any."""
        calls = self._by_worth()
        for place in calls:
            self._show(place, "", int(self._room * FOR_CALLS))
        # What came of the calls that are shown: the most news for its length first.
        observed = news_in(((move.call, move.observation) for move in self._moves), self._wanted)
        first = next((place for place in sorted(self._shown) if observed[place]), None)
        if first is not None:  # what was there at the beginning, without which the rest says little
            self._show(first, in_short(observed[first], LENGTHS[1]), self._room)
        for longest in LENGTHS:
            shown = {place: in_short(observed[place], longest) for place in self._shown}
            news = {place: sum(piece.news for piece in observed[place]) for place in shown}
            for place in sorted(shown, key=lambda place: (-news[place] / (len(shown[place]) + 3), place)):
                self._show(place, shown[place], self._room)
        for place in calls:
            self._show(place, "", self._room)
        lines: list[str] = []
        for place, move in enumerate(self._moves):
            if place in self._shown:
                lines.append(_line(move, self._shown[place]))
            elif not lines or lines[-1] != GAP:
                lines.append(GAP)
        return "\n".join(lines) if self._shown else ""

    def _show(self, place: int, observation: str, room: int) -> None:
        line = len(_line(self._moves[place], observation))
        if place in self._shown:
            added = line - len(_line(self._moves[place], self._shown[place]))
        else:
            before = place > 0 and place - 1 not in self._shown
            after = place + 1 < len(self._moves) and place + 1 not in self._shown
            added = line + 1 + (before + after - 1) * (len(GAP) + 1)
        if (added > 0 or place not in self._shown) and self._size + added <= room:
            self._shown[place] = observation
            self._size += added

    def _by_worth(self) -> list[int]:
        """The steps, best first: those whose words are rare in this run, or wanted, for the room that they take."""
        words = [sorted(set(words_of(move.call))) for move in self._moves]
        calls = {move.call: each for move, each in zip(self._moves, words, strict=True)}
        common = Counter(word for each in calls.values() for word in each)
        rarity = {word: math.log(1 + len(calls) / runs) for word, runs in common.items()}
        times: Counter[str] = Counter()
        worth: list[float] = []
        for move, each in zip(self._moves, words, strict=True):
            times[move.call] += 1
            mean = sum(rarity[word] * (WANTED if word in self._wanted else 1) for word in each) / max(1, len(each))
            again = times[move.call] ** 2
            worth.append(mean * (FAILED if move.failed else 1) / again / (len(move.call) + len(GAP)))
        most = max(worth)
        for place, move in enumerate(self._moves[:-1]):
            if move.said and not self._moves[place + 1].said:
                worth[place] += AGREED * most
        worth[0] += FIRST * most
        worth[-1] += LAST * most
        return sorted(range(len(worth)), key=lambda place: (-worth[place], place))
