"""Which tools to show the model when there are many: the most relevant ones, by their words and by embedding."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from langchain_tooltree.errors import ToolDefinitionError
from langchain_tooltree.experience.embeddings import EmbedStep, HashingEmbeddings
from langchain_tooltree.flows import Flow, FunctionStep
from langchain_tooltree.text import WORD
from langchain_tooltree.tooltree.search import SearchConfig
from langchain_tooltree.tooltree.tools import ToolCard, ToolLibrary

Scores = NDArray[np.float64]
Vectors = NDArray[np.float32]

SATURATION = 1.2
"""k1 of BM25, as Lucene has it: how soon a word that is repeated in a text stops adding to its score."""

LENGTH_PENALTY = 0.75
"""b of BM25, as Lucene has it: how far a long text counts for less, from 0, not at all, to 1, in proportion."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|e)?s?$")
_DOUBLED = re.compile(r"(?<=\w\w)([^\W\d])\1$")


class LexicalIndex:
    """Scores texts by the words they share with a query, those that few of the texts have counting most: BM25.

    So among a thousand tools that all create something, the one that creates what the query is about stands out. It is
    shorter than the use of `bm25s` or `rank-bm25` would be, which take words apart in their own way, and needs only
    numpy.
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
        """BM25 of each text, 0 for those that share no word; a word that the query repeats counts once."""
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


EMBEDDING_SHARE = 0.5
"""What a place in the ranking by embedding counts for, beside the same place in the ranking by words: the default
embeddings see little more than words."""

RANK_OFFSET = 5
"""How far the first places of a ranking stand out: the smaller, the more. Cormack et al. have 60 for web pages; few of
the tools are wanted at a time."""

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_MAX_SEGMENTS = 60  # sentences that are embedded for one state: the latest say most about the next step
_MAX_SEGMENT_CHARS = 400  # of a sentence: twice a long one; more is a table or a log
_COSINE_DIGITS = 6  # as far as single precision goes: equal cards are equally near


class ToolRetriever:
    """Ranks tools by their relevance to a context.

    A request often names several tasks, so the tools are ranked for each of its sentences on its own, and for the
    whole: by the words that they share with it, where a word counts the more, the fewer tools have it, and by
    embedding, which sees what is said in other words. The rankings are fused by reciprocal rank (Cormack et al. 2009).
    What all cards have in common (a preamble that every description repeats) is subtracted from their embeddings.
    """

    def __init__(self, library: ToolLibrary, embeddings: Embeddings | None, config: SearchConfig) -> None:
        if unknown := set(config.always_include) - set(library.names):
            msg = f"always_include names {', '.join(sorted(unknown))}, but the tools are {', '.join(library.names)}."
            raise ToolDefinitionError(msg)
        self._library = library
        self._embeddings = embeddings
        self._config = config
        self._index: _Index | None = None

    def retrieve(self, context: Sequence[str], allowed: Collection[str], *, attempt: int = 1) -> Flow[tuple[str, ...]]:
        """Choose the tools to show for the request and what was observed since; names in the library's order.

        All that are allowed if they are few, otherwise the always-include list and the most relevant others. A state
        is asked again only when all that it offered has failed. The wording may have hidden the tool that it needs
        ("write to Ann" takes the address book without a word of it), so each further attempt shows the tools that rank
        next and, where those run out, the best ones again. The agent's own step does not count: it made one choice
        among the tools that it was shown, and the others are worth no less for that.
        """
        permitted = frozenset(allowed)
        every = self._library.names
        places = [place for place, name in enumerate(every) if name in permitted]
        if len(places) <= self._config.retrieve_above:
            return tuple(every[place] for place in places)
        self._embeddings = embeddings = self._embeddings or HashingEmbeddings()
        if self._index is None:
            cards = [_card_text(self._library.card(name)) for name in every]
            vectors = yield EmbedStep(embeddings, cards)
            # Whole and never changed from here on, so that searches in other threads may use it at once.
            self._index = yield FunctionStep(_Index.of, (cards, vectors))
        segments = _segments(context)
        sentences = yield EmbedStep(embeddings, segments)
        relevance = self._index.relevance(segments, sentences, places)
        best_first = [every[places[place]] for place in np.argsort(-relevance, kind="stable")]
        always = permitted & frozenset(self._config.always_include)
        others = [name for name in best_first if name not in always]
        room = max(self._config.retrieve_top - len(always), 0)
        own_steps = int(self._config.proposals == "own_step")
        shown_before = max(attempt - 1 - own_steps, 0) * room
        kept = {*always, *(others[shown_before:] + others[:shown_before])[:room]}
        return tuple(name for name in every if name in kept)


@dataclass(frozen=True, slots=True)
class _Index:
    """The cards of a library, to be ranked by words, and by embeddings of unit length without what all share."""

    words: LexicalIndex
    vectors: Vectors

    @classmethod
    def of(cls, cards: tuple[list[str], list[list[float]]]) -> "_Index":
        texts, embeddings = cards
        vectors = _unit(embeddings)
        return cls(LexicalIndex(texts), _unit(vectors - vectors.mean(axis=0)))

    def relevance(self, segments: Sequence[str], sentences: list[list[float]], places: Sequence[int]) -> Scores:
        """How relevant the cards at some places are to a context in segments, of which these are the embeddings."""
        cosines = np.round(_unit(sentences) @ self.vectors.T, _COSINE_DIGITS)
        relevance = np.zeros(len(places))
        chosen = np.array(places)
        for segment, nearness in zip(segments, cosines, strict=True):
            relevance += _reciprocal_ranks(self.words.scores(segment)[chosen])
            relevance += EMBEDDING_SHARE * _reciprocal_ranks(nearness[chosen])
        return relevance


def _reciprocal_ranks(scores: NDArray[np.floating]) -> Scores:
    """`1 / (offset + rank)` for each score, the highest having rank 0 and equal ones their mean rank."""
    order = np.argsort(-scores)
    ranked = scores[order]
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    sizes = np.diff(starts, append=len(scores))
    reciprocal = np.empty(len(scores))
    reciprocal[order] = np.repeat(1 / (RANK_OFFSET + starts + (sizes - 1) / 2), sizes)
    return reciprocal


def _card_text(card: ToolCard) -> str:
    properties = (card.input_schema or {}).get("properties", {})
    arguments = [f"{name} {field.get('description', '')}" for name, field in properties.items()]
    return " ".join([card.name.replace("_", " "), card.description, *card.domains, *arguments])


def _segments(context: Sequence[str]) -> list[str]:
    """The sentences of the context, latest kept where there are too many, and the context as a whole."""
    sentences = [part.strip()[:_MAX_SEGMENT_CHARS] for text in context for part in _SENTENCE.split(text)]
    whole = " ".join(context)[-4 * _MAX_SEGMENT_CHARS :]
    return [*[sentence for sentence in sentences if sentence][-_MAX_SEGMENTS:], whole]


def _unit(rows: list[list[float]] | Vectors) -> Vectors:
    vectors = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
