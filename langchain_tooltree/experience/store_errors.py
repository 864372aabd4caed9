"""What can go wrong when a `ChromaStore` is opened or used."""

from langchain_tooltree.errors import ToolTreeError


class StoreError(ToolTreeError, RuntimeError):
    """A store cannot be used as it was asked to; the message names the remedy."""


class StoreLockedError(StoreError):
    """A store's folder belongs to another process, or this process was forked from the one that opened the store."""


class EmbedderMismatchError(StoreError):
    """A store was filled by one embedder and is now used with another, whose vectors cannot be compared."""
