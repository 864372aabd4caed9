"""Ranking texts by similarity where a store has no index of its own."""

import threading
from collections.abc import Sequence

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from langchain_tooltree.experience.embedders import EmbedStep, resolve_embeddings
from langchain_tooltree.flows import Flow

Vector = NDArray[np.float16]

MOST_VECTORS = 50_000
"""Vectors that are kept in memory, about 100 MB of those of `HashingEmbeddings`; the oldest are given up first."""


class Ranking:
    """Scores texts by their cosine similarity to a query, and remembers their vectors.

    Args:
        embeddings: Makes the vectors; a name will do, `HashingEmbeddings` if left out.

    Raises:
        ConfigurationError: If it is no embedder.
    """

    def __init__(self, embeddings: Embeddings | str | None = None) -> None:
        self._embeddings = resolve_embeddings(embeddings)
        self._vectors: dict[str, Vector] = {}
        self._lock = threading.Lock()

    def scores(self, query: str, texts: Sequence[str]) -> Flow[list[float]]:
        """Score texts, as a flow.

        Args:
            query: What they are compared to.
            texts: The texts.

        Returns:
            A score for each text, in their order.
        """
        with self._lock:
            vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
        missing = [text for text in dict.fromkeys([*texts, query]) if text not in vectors]
        made: list[list[float]] = yield EmbedStep(self._embeddings, missing)
        vectors |= {text: _unit(vector) for text, vector in zip(missing, made, strict=True)}
        with self._lock:
            self._vectors |= {text: vectors[text] for text in texts}  # the query is not kept, it seldom comes again
            for text in list(self._vectors)[: max(0, len(self._vectors) - MOST_VECTORS)]:
                del self._vectors[text]
        if not texts:
            return []
        matrix = np.stack([vectors[text] for text in texts]).astype(np.float32)
        similarities: list[float] = (matrix @ vectors[query].astype(np.float32)).tolist()
        return similarities


def _unit(vector: Sequence[float]) -> Vector:
    array = np.asarray(vector, dtype=np.float32)
    length = float(np.linalg.norm(array))
    return (array / length if length else array).astype(np.float16)
