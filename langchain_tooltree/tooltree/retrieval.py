"""How relevant tools are to a conversation: by their words, by embedding, or as a user's own retriever has it."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from numpy.typing import NDArray

from langchain_tooltree.errors import ConfigurationError, ToolDefinitionError
from langchain_tooltree.experience.embeddings import HashingEmbeddings, embedded
from langchain_tooltree.flows import Flow, FunctionStep, TwinStep
from langchain_tooltree.models import inner_config
from langchain_tooltree.text import WORD, one_line
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


Retriever = BaseRetriever | Callable[[str], Any]
"""A user's own ranking: a LangChain retriever, or a function, sync or async, from a text to tools, best first. It may
return names, tools, or documents with the name under `metadata["name"]` or as their text."""


class ToolRetriever:
    """Ranks tools by their relevance to a context.

    A request often names several tasks, so the tools are ranked for each of its sentences on its own, and for the
    whole: by the words that they share with it, where a word counts the more, the fewer tools have it, and by
    embedding, which sees what is said in other words. The rankings are fused by reciprocal rank (Cormack et al. 2009).
    What all cards have in common (a preamble that every description repeats) is subtracted from their embeddings.

    A user's `retriever` takes the place of all that; the tools that it does not name rank last.
    """

    def __init__(
        self, library: ToolLibrary, embeddings: Embeddings | None = None, retriever: Retriever | None = None
    ) -> None:
        if not (retriever is None or isinstance(retriever, BaseRetriever) or callable(retriever)):
            msg = (
                "retriever must be a LangChain retriever, or a function from a text to names of tools, best first; "
                f"got {type(retriever).__name__}."
            )
            raise ConfigurationError(msg)
        self._library = library
        self._embeddings = embeddings
        self._retriever = retriever
        self._index: _Index | None = None

    def rank(self, context: Sequence[str], names: Sequence[str]) -> Flow[list[str]]:
        """Some of the tools, the most relevant to the context first."""
        if self._retriever is not None:
            return (yield from self._ask(self._retriever, context, names))
        self._embeddings = embeddings = self._embeddings or HashingEmbeddings()
        every = self._library.names
        if self._index is None:
            cards = [_card_text(self._library.card(name)) for name in every]
            vectors = yield from embedded(embeddings, cards)
            # Whole and never changed from here on, so that searches in other threads may use it at once.
            self._index = yield FunctionStep(_Index.of, (cards, vectors))
        segments = _segments(context)
        sentences = yield from embedded(embeddings, segments)
        wanted = frozenset(names)
        places = [place for place, name in enumerate(every) if name in wanted]
        relevance = self._index.relevance(segments, sentences, places)
        return [every[places[place]] for place in np.argsort(-relevance, kind="stable")]

    def _ask(self, retriever: Retriever, context: Sequence[str], names: Sequence[str]) -> Flow[list[str]]:
        text = _whole(context)
        if isinstance(retriever, BaseRetriever):
            asked = (text, inner_config("retrieve", {}))
            found = yield TwinStep(partial(retriever.invoke, *asked), partial(retriever.ainvoke, *asked))
        else:
            found = yield FunctionStep(retriever, text)
        listed = isinstance(found, Iterable) and not isinstance(found, str | Mapping)
        given = [_name_of(each) for each in found] if listed else [found]
        if wrong := [each for each in given if not (listed and isinstance(each, str))]:
            shown = one_line(repr(wrong[0]), LONGEST_QUOTED)
            msg = f"retriever must return tools, their names or documents, best first; it returned {shown}."
            raise ToolDefinitionError(msg)
        known = frozenset(names)
        ranked = [name for name in dict.fromkeys(given) if name in known]
        if given and not set(self._library.names).intersection(given):
            msg = f"retriever names {', '.join(given[:NAMED_IN_ERRORS])}, and no tool has such a name."
            raise ToolDefinitionError(msg)
        return [*ranked, *(name for name in names if name not in set(ranked))]


NAMED_IN_ERRORS = 5
"""Names that an error message quotes: enough to see what is wrong with them."""

LONGEST_QUOTED = 80
"""Characters of what is no name that an error message quotes: one line."""


def _name_of(found: Any) -> Any:
    """The name of the tool that a retriever has found."""
    if isinstance(found, Document):
        return found.metadata.get("name", found.page_content)
    return getattr(found, "name", found)


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
    return [*[sentence for sentence in sentences if sentence][-_MAX_SEGMENTS:], _whole(context)]


def _whole(context: Sequence[str]) -> str:
    return " ".join(context)[-4 * _MAX_SEGMENT_CHARS :]


def _unit(rows: list[list[float]] | Vectors) -> Vectors:
    vectors = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
