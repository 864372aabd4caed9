"""The identity of a run: for whom it is, under which id it is remembered, and which tools it was offered."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.utils.function_calling import convert_to_openai_function
from langgraph.runtime import get_runtime

from langchain_tooltree._langgraph import configurable_here, graph_around, namespace_here, without_reserved
from langchain_tooltree.text import digest

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
    namespace = graph_around(namespace_here())
    return f"{info.thread_id}/{namespace}" if namespace else info.thread_id


def is_collecting() -> bool:
    """Whether the graph that is running is tried by a collection, which keeps a record of it by itself."""
    return bool((configurable_here() or {}).get(COLLECTING))


TOOLS = "tools"
"""Key of a trajectory's metadata under which the tools stand."""

Tools = dict[str, dict[str, Any]]
"""Tools by name, in OpenAI form where they have one: `{"type": "function", "function": {"name": ..., ...}}`."""


def tools_in(offered: Any) -> Tools:
    """The tools of one model call.

    Args:
        offered: What went to the model as `tools`, in the form of its provider; anything else counts as none.

    Returns:
        The tools by name, in forms that JSON gives back unchanged. A provider's own tools, such as a web search, have
        no OpenAI form and stay as they are. What has no name is left out.
    """
    listed = offered if isinstance(offered, list | tuple) else []
    found = map(_named, listed)
    return {name: json.loads(json.dumps(tool, default=str)) for name, tool in found if name}


def as_metadata(tools: Tools) -> dict[str, Any]:
    """Metadata with the tools in the order of their names; empty if there are none."""
    return {TOOLS: [tools[name] for name in sorted(tools)]} if tools else {}


def _named(tool: Any) -> tuple[str, dict[str, Any]]:
    given: dict[str, Any] = dict(tool) if isinstance(tool, Mapping) else {}
    if isinstance(given.get("function"), Mapping):
        return _name(given["function"]), given
    try:
        function = convert_to_openai_function(given or tool)
    except (KeyError, TypeError, ValueError):
        return _name(given), given
    if "parameters" not in function and given.get("type", "function") != "function":
        return _name(given), given  # a tool of the provider's own that has a name, such as Anthropic's web search
    return _name(function), {"type": "function", "function": function}


def _name(described: Mapping[str, Any]) -> str:
    names: Iterator[Any] = (described.get(key) for key in ("name", "type"))
    return next((name for name in names if isinstance(name, str) and name != "function"), "")


def caller_of(host: RunnableConfig) -> str:
    """A digest of what may tell one user's run from another's: configurable values and the runtime's context.

    Args:
        host: Configuration of the host's run.

    Returns:
        The digest; a context that is written differently each time, such as one with addresses in it, never recurs.
    """
    given = without_reserved(host.get("configurable", {}), place=False)
    told = sorted((key, repr(value)) for key, value in given.items())
    try:
        context = get_runtime().context
    except (RuntimeError, KeyError):
        context = None  # outside of any graph
    return digest(repr((told, context)))
