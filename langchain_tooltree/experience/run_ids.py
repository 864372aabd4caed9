"""The id under which a running conversation is remembered, and whether somebody else remembers it already."""

from typing import Any

from langgraph.config import get_config

COLLECTING = "tooltree_collecting"
"""Key under `configurable` that marks runs by which experience is collected: whoever collects them records them."""


def run_id(runtime: Any) -> str | None:
    """The id of the conversation, the same as a `TrajectoryRecorder` of this agent gives it.

    An agent inside another graph is told by its namespace from that graph and from other agents of the thread.

    Args:
        runtime: The runtime of a node that is running.

    Returns:
        The id of the thread, or of the run where there is no thread; `None` if neither is known.
    """
    info = runtime.execution_info
    if info is None or info.thread_id is None:
        return None if info is None else info.run_id
    namespace, _, _ = str(get_config()["configurable"].get("checkpoint_ns", "")).rpartition("|")
    return f"{info.thread_id}/{namespace}" if namespace else info.thread_id


def is_collecting() -> bool:
    """Whether the graph that is running is tried by a collection, which keeps a record of it by itself."""
    return bool(get_config().get("configurable", {}).get(COLLECTING))
