"""Which tools an agent has, told by the hash of what they take."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from langchain_tooltree.errors import ToolDefinitionError

Tools = Iterable[str | BaseTool | Mapping[str, Any] | Callable[..., Any]]
"""Tools by name, as LangChain tools, as functions, or as the dicts that providers take."""


def toolset_of(tools: Tools) -> dict[str, str]:
    """The schema hashes of tools.

    Args:
        tools: The tools. One that is given by name alone has an unknown schema.

    Returns:
        By name, a hash of the JSON schema of the arguments; empty where it is not known. Names and descriptions have
        no part in it, so that a renamed tool can be recognised.

    Raises:
        ToolDefinitionError: If an entry has no name.
    """
    if isinstance(tools, str):
        msg = f"Tools are a list, got the text {tools!r:.80}; for a single tool, {[tools]!r:.80}."
        raise ToolDefinitionError(msg)
    return dict(_name_and_hash(tool) for tool in tools)


def _name_and_hash(tool: Any) -> tuple[str, str]:
    if isinstance(tool, str):
        return tool, ""
    if isinstance(tool, Mapping):
        function = tool["function"] if isinstance(tool.get("function"), Mapping) else tool
        name = function.get("name") or tool.get("type")
        schema = function.get("parameters", function.get("input_schema"))
    elif isinstance(tool, BaseTool) or callable(tool):
        function = _described(tool)
        name, schema = function.get("name"), function.get("parameters")
    else:
        name, schema = None, None
    if not isinstance(name, str) or not name:
        msg = f"A tool is a name, a LangChain tool, a function, or a dict with a name; got {tool!r:.120}."
        raise ToolDefinitionError(msg)
    return name, schema_hash(schema) if schema is not None else ""


def _described(tool: Any) -> Mapping[str, Any]:
    """The name and the schema of a tool or a function; nothing of one whose arguments cannot be described."""
    try:
        return cast("dict[str, Any]", convert_to_openai_tool(tool)["function"])
    except (TypeError, ValueError, NameError):
        return {}


def schema_hash(schema: Mapping[str, Any]) -> str:
    """A hash of the JSON schema of a tool's arguments; titles and descriptions have no part in it."""
    canonical = json.dumps(_without_prose(schema), sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _without_prose(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        prose = {key for key in ("title", "description") if isinstance(schema.get(key), str)}
        return {key: _without_prose(part) for key, part in schema.items() if key not in prose}
    return [_without_prose(part) for part in schema] if isinstance(schema, list) else schema
