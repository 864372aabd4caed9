"""What a search must know of the run that it belongs to: for whom it is, and where its state can be read."""

import hashlib

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import get_runtime

OF_THE_RUN = frozenset({"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map"})
"""Configurable values that say where a run stands, and not for whom."""

STATE_READER = "__pregel_read"
"""Where LangGraph keeps, in a run's configuration, the function by which tools read the state of the running graph."""


def caller_of(host: RunnableConfig) -> str:
    """A digest of what may tell one user's run from another's: configurable values and the runtime's context.

    Args:
        host: Configuration of the host's run.

    Returns:
        The digest; a context that is written differently each time, such as one with addresses in it, never recurs.
    """
    configurable = host.get("configurable", {})
    told = sorted(
        (key, repr(value)) for key, value in configurable.items() if key not in OF_THE_RUN and key[:2] != "__"
    )
    try:
        context = get_runtime().context
    except (RuntimeError, KeyError):
        context = None  # outside of any graph
    return hashlib.sha256(repr((told, context)).encode("utf-8", "surrogatepass")).hexdigest()


def state_of(host: RunnableConfig) -> RunnableConfig:
    """The configuration by which a searched tool reads the state of the host, and not that of the search's own graph.

    Args:
        host: Configuration of the host's run.

    Returns:
        To be merged into the tool's.
    """
    read = host.get("configurable", {}).get(STATE_READER)
    return {"configurable": {STATE_READER: read}} if read else {}
