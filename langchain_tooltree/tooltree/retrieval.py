"""Which tools to show the model when there are many: the most relevant ones, by embedding."""

import re
from collections.abc import Collection, Sequence

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from langchain_tooltree.errors import ToolDefinitionError
from langchain_tooltree.experience.embedders import EmbedStep
from langchain_tooltree.flows import Flow
from langchain_tooltree.tooltree.cards import ToolCard, ToolLibrary
from langchain_tooltree.tooltree.config import SearchConfig

Vectors = NDArray[np.float64]

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_MAX_SEGMENTS = 60
_MAX_SEGMENT_CHARS = 400


class ToolRetriever:
    """Ranks tools by their relevance to a context.

    A request often names several tasks, so each of its sentences is compared on its own and a tool counts by its best
    sentence. What all cards have in common (a preamble that every description repeats) is subtracted first.

    Args:
        library: The tools.
        embeddings: Embeds cards and sentences.
        config: Supplies the size at which retrieval begins, how many tools it keeps, and the always-include list.

    Raises:
        ToolDefinitionError: If the always-include list names an unknown tool.
    """

    def __init__(self, library: ToolLibrary, embeddings: Embeddings, config: SearchConfig) -> None:
        if unknown := set(config.always_include) - set(library.names):
            msg = f"always_include names {', '.join(sorted(unknown))}, but the tools are {', '.join(library.names)}."
            raise ToolDefinitionError(msg)
        self._library = library
        self._embeddings = embeddings
        self._config = config
        self._vectors: Vectors | None = None

    def retrieve(self, context: Sequence[str], allowed: Collection[str], *, attempt: int = 1) -> Flow[tuple[str, ...]]:
        """Choose the tools to show.

        A state is asked again only when all that it offered has failed. The wording may have hidden the tool that it
        needs ("write to Ann" takes the address book without a word of it), so each further attempt shows the tools
        that rank next and, where those run out, the best ones again.

        Args:
            context: Texts of the request and of what was observed since, in any number.
            allowed: Names that may be shown.
            attempt: How often this state is now asked, from 1.

        Returns:
            Names in the library's order: all that are allowed if they are few, otherwise the always-include list and
            the most relevant others that earlier attempts left out.
        """
        names = [name for name in self._library.names if name in allowed]
        if len(names) <= self._config.retrieve_above:
            return tuple(names)
        if self._vectors is None:
            cards = [_card_text(self._library.card(name)) for name in self._library.names]
            self._vectors = _unit(np.asarray((yield EmbedStep(self._embeddings, cards))))
        segments = _segments(context)
        sentences = _unit(np.asarray((yield EmbedStep(self._embeddings, segments))))
        centre = self._vectors.mean(axis=0)
        relevance = (_unit(self._vectors - centre) @ sentences.T).max(axis=1)
        rank = dict(zip(self._library.names, relevance, strict=True))
        always = [name for name in names if name in self._config.always_include]
        others = sorted((name for name in names if name not in always), key=lambda name: -rank[name])
        room = max(self._config.retrieve_top - len(always), 0)
        shown_before = (attempt - 1) * room
        kept = {*always, *(others[shown_before:] + others[:shown_before])[:room]}
        return tuple(name for name in names if name in kept)


def _card_text(card: ToolCard) -> str:
    properties = (card.input_schema or {}).get("properties", {})
    arguments = [f"{name} {field.get('description', '')}" for name, field in properties.items()]
    return " ".join([card.name.replace("_", " "), card.description, *card.domains, *arguments])


def _segments(context: Sequence[str]) -> list[str]:
    """The sentences of the context, latest kept where there are too many, and the context as a whole."""
    sentences = [part.strip()[:_MAX_SEGMENT_CHARS] for text in context for part in _SENTENCE.split(text)]
    whole = " ".join(context)[-4 * _MAX_SEGMENT_CHARS :]
    return [*[sentence for sentence in sentences if sentence][-_MAX_SEGMENTS:], whole]


def _unit(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
