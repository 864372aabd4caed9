"""Words of a text, for comparing texts without a model. Pure."""

from langchain_tooltree.experience.words import WORD

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
