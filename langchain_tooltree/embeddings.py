"""HashingEmbeddings: text vectors without a model, a download or a network."""

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
from langchain.embeddings import init_embeddings
from langchain_core.embeddings import Embeddings

from langchain_tooltree.errors import ConfigurationError, check_count
from langchain_tooltree.flows import CallStep
from langchain_tooltree.text import WORD_PATTERN

DEFAULT_DIMENSIONS = 1024
"""Length of the vectors: short texts have some hundred features, so that few of them share a place."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SUBWORD = 4  # letters of a subword: `booking` and `book_flight` share one of four, and few words share more by chance


class HashingEmbeddings(Embeddings):
    """Embeds text by hashing its words, word pairs and subwords (the hashing trick, Weinberger et al. 2009).

    Similar wording gives similar vectors, of length `dims`; meaning beyond wording is not seen. It is deterministic
    across machines and Python versions, costs microseconds, and serves as the default so that nothing is downloaded.
    Any LangChain `Embeddings` can take its place.
    """

    def __init__(self, dims: int = DEFAULT_DIMENSIONS) -> None:
        check_count("dims", dims)
        self.dims = dims

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts: a vector of length `dims` for each, of unit length, or zero for a text without words."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Embed one text; see `embed_documents`."""
        numbers = [0.0] * self.dims
        for feature, count in Counter(_features(text)).items():
            code = zlib.crc32(feature.encode())
            numbers[code % self.dims] += (
                (1 if code & 0x80000000 else -1)
                * _weight(feature)
                * (1 + math.log(count))
            )
        vector = np.array(numbers)
        length = float(np.linalg.norm(vector))
        return (vector / length if length else vector).tolist()  # type: ignore[no-any-return]


def _features(text: str) -> Iterator[str]:
    """Words, pairs of neighbouring words, and the subwords that let `booking` meet `book_flight`."""
    words = [word.lower() for word in WORD_PATTERN.findall(_CAMEL.sub(" ", text))]
    for word in words:
        yield f"w:{word}"
        padded = f"<{word}>"
        for start in range(len(padded) - _SUBWORD + 1):
            yield f"s:{padded[start : start + _SUBWORD]}"
    for left, right in pairwise(words):
        yield f"p:{left} {right}"


def _weight(feature: str) -> float:
    """Subwords are many, so each weighs less; long words say more than short ones."""
    if feature.startswith("w:"):
        return min(len(feature) - 2, 8) / 4
    return 0.35


_SETTINGS = (
    "model",
    "model_name",
    "model_id",
    "deployment",
    "dims",
    "dimensions",
    "size",
)
"""Attributes by which LangChain's embedders tell one model, or one length of its vectors, from another."""


def resolve_embeddings(embeddings: Embeddings | str | None) -> Embeddings:
    """The embedder that a user means: `None` is `HashingEmbeddings()`, a name is one for `init_embeddings`."""
    if embeddings is None:
        return HashingEmbeddings()
    if isinstance(embeddings, str):
        return init_embeddings(embeddings)
    if isinstance(embeddings, Embeddings):
        return embeddings
    msg = (
        f"embeddings must be a LangChain Embeddings, a name such as 'openai:text-embedding-3-small', or None for "
        f"HashingEmbeddings(), got {embeddings!r}."
    )
    raise ConfigurationError(msg)


async def embedded(embeddings: Embeddings, texts: list[str]) -> list[list[float]]:
    """One vector for each of some texts, as a flow."""
    step = CallStep(
        partial(embeddings.embed_documents, texts),
        partial(embeddings.aembed_documents, texts),
    )
    vectors: list[list[float]] = await step
    if len(vectors) != len(texts):
        msg = f"{type(embeddings).__name__} returned {len(vectors)} vectors for {len(texts)} texts."
        raise ValueError(msg)
    return vectors


def embedder_name(embeddings: Embeddings) -> str:
    """An embedder's class and settings, such as `OpenAIEmbeddings(model='text-embedding-3-small')`.

    Embedders whose vectors can be compared have the same name. The module is left out: classes move between packages,
    and scripts are run as `__main__`.
    """
    settings = ((name, getattr(embeddings, name, None)) for name in _SETTINGS)
    text = ", ".join(
        f"{name}={value!r}" for name, value in settings if isinstance(value, str | int)
    )
    return f"{type(embeddings).__name__}({text})"
