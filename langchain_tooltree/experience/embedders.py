"""Which embedder made a vector, told by its class and its settings."""

from dataclasses import dataclass

from langchain.embeddings import init_embeddings
from langchain_core.embeddings import Embeddings

from langchain_tooltree.errors import ConfigurationError
from langchain_tooltree.experience.embeddings import HashingEmbeddings

_SETTINGS = ("model", "model_name", "model_id", "deployment", "dims", "dimensions", "size")
"""Attributes by which LangChain's embedders tell one model, or one length of its vectors, from another."""


def resolve_embeddings(embeddings: Embeddings | str | None) -> Embeddings:
    """The embedder that a user means.

    Args:
        embeddings: An embedder, a name as `init_embeddings` takes it (`"openai:text-embedding-3-small"`), or `None` for
            `HashingEmbeddings()`, which needs no model.

    Returns:
        The embedder.

    Raises:
        ConfigurationError: If it is none of these.
    """
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


@dataclass(frozen=True, slots=True)
class EmbedStep:
    """One request to an embedder, as a step of a flow; it brings one vector a text."""

    embeddings: Embeddings
    texts: list[str]

    def run(self) -> list[list[float]]:
        """Embed the texts."""
        return self.embeddings.embed_documents(self.texts)

    async def arun(self) -> list[list[float]]:
        """Embed the texts without blocking the loop."""
        return await self.embeddings.aembed_documents(self.texts)


def embedder_name(embeddings: Embeddings) -> str:
    """An embedder's class and settings, such as `OpenAIEmbeddings(model='text-embedding-3-small')`.

    The module is left out: classes move between packages, and scripts are run as `__main__`.

    Args:
        embeddings: The embedder.

    Returns:
        The same name for embedders whose vectors can be compared.
    """
    settings = ((name, getattr(embeddings, name, None)) for name in _SETTINGS)
    shown = ", ".join(f"{name}={value!r}" for name, value in settings if isinstance(value, str | int))
    return f"{type(embeddings).__name__}({shown})"
