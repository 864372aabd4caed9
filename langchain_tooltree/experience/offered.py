"""The tools that chat models were offered, as they are kept in `metadata["tools"]` of a trajectory."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_function

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
