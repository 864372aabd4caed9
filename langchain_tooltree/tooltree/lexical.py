"""How much texts have in common with a query by their words: BM25 (Robertson and Zaragoza 2009). Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from langchain_tooltree.experience.words import WORD

Scores = NDArray[np.float64]

SATURATION = 1.2
"""k1: how soon a word that is repeated in a text stops adding to its score."""
LENGTH_PENALTY = 0.75
"""b: how far a long text counts for less, from 0, not at all, to 1, in proportion to its length."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|e)?s?$")
_DOUBLED = re.compile(r"(?<=\w\w)([^\W\d])\1$")


class LexicalIndex:
    """Scores texts by the words they share with a query, those that few of the texts have counting most.

    So among a thousand tools that all create something, the one that creates what the query is about stands out.

    Args:
        texts: The texts, in the order in which they are scored.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._size = len(texts)
        counts = [Counter(terms(text)) for text in texts]
        lengths = np.array([count.total() for count in counts], dtype=float)
        mean = float(lengths.mean()) if lengths.any() else 1.0
        damping = SATURATION * (1 - LENGTH_PENALTY + LENGTH_PENALTY * lengths / mean)
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for position, count in enumerate(counts):
            for term, times in count.items():
                found[term].append((position, times))
        self._postings = {term: self._weighed(places, damping) for term, places in found.items()}

    def scores(self, query: str) -> Scores:
        """BM25 of each text; a word that the query repeats counts once.

        Args:
            query: Any text.

        Returns:
            One score for each text; 0 for those that share no word with the query.
        """
        scores = np.zeros(self._size)
        for term in dict.fromkeys(terms(query)):  # in order: sums of floats depend on it
            if term in self._postings:
                positions, weights = self._postings[term]
                scores[positions] += weights
        return scores

    def _weighed(self, places: list[tuple[int, int]], damping: Scores) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The texts that have a term and what it adds to the score of each."""
        positions, times = np.array(places, dtype=np.int32).T
        rarity = np.log1p((self._size - len(places) + 0.5) / (len(places) + 0.5))
        weights = rarity * times * (SATURATION + 1) / (times + damping[positions])
        return positions.copy(), weights.astype(np.float32)


def terms(text: str) -> list[str]:
    """The words of a text in order, `camelCase` and `snake_case` taken apart, without case and English endings."""
    return [_stem(word) for word in WORD.findall(_CAMEL.sub(" ", text).casefold())]


@lru_cache(maxsize=16_384)  # thousands of tools are described in a few hundred words
def _stem(word: str) -> str:
    """What `copy`, `copies`, `copied` and `copying` have in common, or `plan` and `planning`; often no word itself."""
    stem = _ENDING.sub("", word, count=1)
    if stem.endswith("y"):
        return f"{stem[:-1]}i"
    return _DOUBLED.sub(r"\1", stem)
