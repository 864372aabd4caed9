"""Which tools may run while searching.

A search runs tools whose results may never be kept. So a tool runs only if it is declared `read`; everything else is a
`write`, which is judged but left to the user's own tools node, or, if a sandbox binds it, tried out in a fork.
"""

import inspect
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, get_type_hints

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import InjectedStore, ToolRuntime
from langgraph.types import Command

from langchain_tooltree.errors import ConfigurationError, ToolDefinitionError
from langchain_tooltree.tooltree.sandbox import Sandbox
from langchain_tooltree.tooltree.search.tree import Effect
from langchain_tooltree.tooltree.tools import ToolLibrary

DeclaredEffect = Literal["read", "write"]


def classify_tools(
    library: ToolLibrary,
    effects: Mapping[str, DeclaredEffect] | None = None,
    sandbox: Sandbox | None = None,
    *,
    held_back: Collection[str] = (),
    selection: bool = False,
) -> dict[str, Effect]:
    """Decide for each tool whether it may run while searching.

    Args:
        library: The tools.
        effects: What the user declares. A tool left out is a `write`.
        sandbox: A forkable world. The tools it binds are `sandboxed` unless declared `read`.
        held_back: Tools that a human approves. They count as writes even if they are declared reads, because a
            searched call would have run before anybody was asked; in a fork of the sandbox they may still be tried.
        selection: Whether the tools are a selection, so that the others may be named here too.

    Returns:
        The effect of every tool, by name.

    Raises:
        ConfigurationError: If a declaration is neither `read` nor `write`, or calls a tool that returns a `Command` a
            read: its state update would be lost.
        ToolDefinitionError: If a declaration or the sandbox names an unknown tool.
    """
    if effects is not None and not isinstance(effects, Mapping):
        msg = f"effects must be a mapping such as {{{library.names[0]!r}: 'read'}}, got {effects!r}."
        raise ConfigurationError(msg)
    declared = dict(effects or {})
    bound = {tool.name for tool in sandbox.tools} if sandbox else set()
    for source, names in (("effects", set(declared)), ("the sandbox", bound)):
        if (unknown := names - set(library.names)) and not selection:
            msg = f"{source} names {', '.join(sorted(unknown))}, but the tools are {', '.join(library.names)}."
            raise ToolDefinitionError(msg)
    for name in sorted(bound & set(library.names)):
        if _injects_store(library.tool(name)):
            msg = (
                f"{name!r} is bound by the sandbox but has the store or the runtime injected, which no fork can "
                "contain. Leave it out of the sandbox, or bind a tool that keeps its data in the forked world."
            )
            raise ConfigurationError(msg)
    classified: dict[str, Effect] = {}
    for tool in library:
        effect = declared.get(tool.name)
        if effect not in {None, "read", "write"}:
            msg = f"effects[{tool.name!r}] must be 'read' or 'write', got {effect!r}."
            raise ConfigurationError(msg)
        if effect == "read" and _returns_command(tool):
            msg = (
                f"{tool.name!r} is declared a read but returns a Command, whose state update would be lost while "
                "searching. Declare it a write."
            )
            raise ConfigurationError(msg)
        if effect == "read" and tool.name not in held_back:
            classified[tool.name] = "read"
        else:
            classified[tool.name] = "sandboxed" if tool.name in bound else "write"
    return classified


def mcp_effects(tools: Iterable[BaseTool], *, server: str) -> dict[str, DeclaredEffect]:
    """Believe the read-only hints of one MCP server that you trust.

    A hint is a claim of the server, so it counts only where you name the server:
    `effects={**mcp_effects(await client.get_tools(server_name="files"), server="files")}`.

    Args:
        tools: Tools of that server, loaded with langchain-mcp-adapters or `langchain.mcp`. Best pass no others: with
            `langchain.mcp`, a server's name is its own claim as well.
        server: Its name. Tools that name another server are left out.

    Returns:
        `"read"` for tools hinted read-only, `"write"` for those hinted otherwise; no entry without a hint.
    """
    effects: dict[str, DeclaredEffect] = {}
    for tool in tools:
        metadata = tool.metadata or {}
        provenance = metadata.get("mcp") or {}
        named = (provenance.get("server") or {}).get("name") or _configured_server(tool) or server
        hints: Mapping[str, Any] = (provenance.get("tool") or {}).get("annotations") or {}
        hint = metadata.get("readOnlyHint", hints.get("read_only_hint"))
        if named == server and hint is not None:
            effects[tool.name] = "read" if hint is True else "write"
    return effects


def _configured_server(tool: BaseTool) -> str | None:
    """The server that langchain-mcp-adapters loaded a tool from, which only the tool's coroutine knows."""
    coroutine = tool.coroutine if isinstance(tool, StructuredTool) else None
    name = inspect.getclosurevars(coroutine).nonlocals.get("server_name") if inspect.isfunction(coroutine) else None
    return name if isinstance(name, str) else None


def _hints(tool: BaseTool | None) -> dict[str, Any]:
    """The annotations of a tool's function, as far as they can be resolved."""
    if tool is None:
        return {}
    function = (tool.func or tool.coroutine) if isinstance(tool, StructuredTool) else tool._run  # noqa: SLF001 - hints
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        return {}


def _injects_store(tool: BaseTool | None) -> bool:
    hints = _hints(tool).values()
    extras = [extra for hint in hints for extra in typing.get_args(hint)]
    runtime = any((typing.get_origin(hint) or hint) is ToolRuntime for hint in hints)
    return runtime or any(isinstance(extra, InjectedStore) or extra is InjectedStore for extra in extras)


def _returns_command(tool: BaseTool) -> bool:
    """Whether a tool returns a Command and nothing else; one that may is found out if it does."""
    returned = _hints(tool).get("return")
    united = typing.get_origin(returned) in {typing.Union, types.UnionType}
    parts = [part for part in (typing.get_args(returned) if united else (returned,)) if part is not type(None)]
    return bool(parts) and all((typing.get_origin(part) or part) is Command for part in parts)
