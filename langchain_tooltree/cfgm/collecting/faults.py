"""Whose fault an error is: the agent's, which then has failed, or that of a service that could not be reached."""

from langchain_tooltree.rate_limits import http_status, was_refused

UNACCEPTABLE = frozenset({400, 413, 422})
"""HTTP statuses by which providers refuse a conversation as such, for its length or its form."""

ASYNC_ONLY = (
    "No synchronous function provided",  # nodes of LangGraph
    "Cannot invoke a coroutine function",  # runnables of LangChain
    "does not support sync invocation",  # tools
    "Synchronous implementation of",  # middleware
)
"""What errors say that are raised where the sync half of something is missing."""

SHOWN_ERROR = 300
"""Characters of an error's text that are kept."""


def is_unacceptable(error: BaseException) -> bool:
    """Whether an error says that a provider will never take this conversation, which is the agent's own doing."""
    return http_status(error) in UNACCEPTABLE


def is_outage(error: BaseException) -> bool:
    """Whether an error says that a service cannot be reached or does not serve now."""
    if is_unacceptable(error):
        return False
    return isinstance(error, ConnectionError | TimeoutError) or was_refused(error)


def is_async_only(error: BaseException) -> bool:
    """Whether an error says that something can only be awaited."""
    return isinstance(error, TypeError | NotImplementedError) and any(words in str(error) for words in ASYNC_ONLY)


def told(error: BaseException) -> str:
    """An error in words."""
    said = f"{type(error).__name__}: {error}".strip().removesuffix(":")
    return said if len(said) <= SHOWN_ERROR else f"{said[:SHOWN_ERROR]}…"
