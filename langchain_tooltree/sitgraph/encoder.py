"""From texts to vectors: the only part of the graph that asks an embedding model."""

from collections.abc import Iterable, Sequence

import numpy as np
from langchain_core.embeddings import Embeddings

from langchain_tooltree.experience.embedders import EmbedStep
from langchain_tooltree.flows import Flow
from langchain_tooltree.sitgraph.encoding import DIMENSIONS, Floats, fitted

REMEMBERED = 512
"""Texts whose vectors are kept: from one step of a dialogue to the next, most views stay the same."""


class Encoder:
    """Turns texts into vectors of the graph's own length.

    Args:
        embeddings: The embedding model.
    """

    def __init__(self, embeddings: Embeddings) -> None:
        self.embeddings = embeddings
        self._known: dict[str, Floats] = {}

    def encode(self, texts: Sequence[str]) -> Flow[Floats]:
        """Embed texts, each one once.

        Args:
            texts: Any texts; an empty one is a zero vector, since embedding models refuse it.

        Returns:
            Shape `(len(texts), DIMENSIONS)`.
        """
        known = self._known  # another thread may put another one in its place at any time
        vectors = {text: known[text] for text in texts if text in known}
        missing = [text for text in dict.fromkeys(texts) if text.strip() and text not in vectors]
        if missing:
            found = fitted((yield EmbedStep(self.embeddings, missing)))
            vectors.update(zip(missing, found, strict=True))
            self._remember(vectors.items())
        nothing = np.zeros(DIMENSIONS, dtype=np.float32)
        return np.stack([vectors.get(text, nothing) for text in texts])

    def _remember(self, vectors: Iterable[tuple[str, Floats]]) -> None:
        self._known = dict([*self._known.items(), *vectors][-REMEMBERED:])
