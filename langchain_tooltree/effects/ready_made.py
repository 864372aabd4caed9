"""Effects that need not be written: as a server hints them, and by the arguments of SQL and HTTP tools."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

from langchain_core.tools import BaseTool, StructuredTool

from langchain_tooltree.effects.calls import ByArgument, DeclaredEffect, HintedEffect
from langchain_tooltree.errors import ConfigurationError, import_extra


def mcp_effects(tools: Iterable[BaseTool], *, server: str) -> dict[str, DeclaredEffect]:
    """Believe the read-only hints of one MCP server that you trust.

    A hint is a claim of the server, so it counts only where you name the server: `effects={**mcp_effects(await
    client.get_tools(server_name="files"), server="files")}`. It holds for the very tools that you pass: a tool of
    another server is a write even if it bears the same name. Pass tools of that server, loaded with
    langchain-mcp-adapters or `langchain.mcp`; those that name another one are left out, but with `langchain.mcp`, a
    server's name is its own claim as well.

    Returns `"read"` for tools hinted read-only, `"write"` for those hinted otherwise, or hinted destructive as well; no
    entry without a hint.
    """
    effects: dict[str, DeclaredEffect] = {}
    for tool in tools:
        metadata = tool.metadata or {}
        provenance = metadata.get("mcp") or {}
        named = (provenance.get("server") or {}).get("name") or _configured_server(tool) or server
        hints: Mapping[str, Any] = (provenance.get("tool") or {}).get("annotations") or {}
        reads = [metadata.get("readOnlyHint"), hints.get("read_only_hint")]
        destroys = [metadata.get("destructiveHint"), hints.get("destructive_hint")]
        if named == server and any(hint is not None for hint in reads):
            harmless = all(hint is None or hint is False for hint in destroys)
            is_read = harmless and all(hint is None or hint is True for hint in reads)
            hinted = HintedEffect("read" if is_read and effects.get(tool.name) != "write" else "write")
            hinted.tool = tool
            effects[tool.name] = cast("DeclaredEffect", hinted)
    return effects


def _configured_server(tool: BaseTool) -> str | None:
    """The server that langchain-mcp-adapters loaded a tool from, which only the tool's coroutine knows."""
    coroutine = tool.coroutine if isinstance(tool, StructuredTool) else None
    name = inspect.getclosurevars(coroutine).nonlocals.get("server_name") if inspect.isfunction(coroutine) else None
    return name if isinstance(name, str) else None


@dataclass(frozen=True)
class _SqlReads(ByArgument):
    dialect: str
    functions: tuple[str, ...]  # in an order that is the same in every process

    def __call__(self, arguments: Mapping[str, Any]) -> DeclaredEffect:
        from langchain_tooltree.effects.sql import only_reads  # noqa: PLC0415 - sqlglot is an extra

        sql = arguments.get(self.argument)
        reads = isinstance(sql, str) and only_reads(sql, self.dialect, self.functions)
        return "read" if reads else "write"


def sql_reads(
    argument: str = "query", *, dialect: str, functions: Iterable[str] = ()
) -> Callable[[Mapping[str, Any]], str]:
    """Let a search run the calls of a SQL tool that only read, and leave all others to the host.

    ```python
    effects = {"sql_db_query": sql_reads("query", dialect="sqlite"), "sql_db_schema": "read"}
    ```

    A call is a read if its SQL is one query: no statement that changes something or locks what it reads, no function
    that may act, and nothing that databases understand differently. What cannot be parsed is a write. What lies within
    the database is not seen, such as views and triggers: let the tool connect with a role that may do no more than it
    has to.

    `argument` holds the SQL; `dialect` is the database's, as sqlglot names it: `"sqlite"`, `"postgres"`, `"mysql"`,
    `"tsql"`, `"snowflake"`, ... `functions` are some of your own that only compute: any that is not known may act.
    Raises `ConfigurationError` if there is no such dialect, and `MissingExtraError` without `langchain-tooltree[sql]`.
    """
    import_extra("sqlglot", "sql", "sql_reads")
    from langchain_tooltree.effects.sql import check_dialect  # noqa: PLC0415 - as above

    try:
        check_dialect(dialect := dialect.lower())
    except (ValueError, AttributeError) as error:
        msg = f"dialect must be one that sqlglot knows, such as 'sqlite' or 'postgres', got {dialect!r}."
        raise ConfigurationError(msg) from error
    return _SqlReads(argument, dialect, tuple(sorted({name.lower() for name in functions})))


_READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that RFC 9110 (9.2.1) calls safe, without TRACE, which nobody needs."""

_OVERRIDES = re.compile(
    r"x[-_]http[-_]method|method[-_]override|(?<![a-z0-9])_method(?![a-z0-9])|\\[rn]", re.IGNORECASE
)
"""Headers and parameters by which servers are asked to take a request for one of another method, and the end of a line,
behind which a request may hold another one; in arguments as Python writes them."""


@dataclass(frozen=True)
class _HttpReads(ByArgument):
    def __call__(self, arguments: Mapping[str, Any]) -> DeclaredEffect:
        method = arguments.get(self.argument)
        safe = isinstance(method, str) and method.upper() in _READING_METHODS
        return "read" if safe and not _OVERRIDES.search(unquote(repr(arguments))) else "write"


def http_reads(argument: str = "method") -> Callable[[Mapping[str, Any]], str]:
    """Let a search run the requests of an HTTP tool whose method, that argument, only reads: GET, HEAD and OPTIONS.

    A request that names no method is a write, and so is one that asks the server to take it for one of another method.
    Servers may act on a GET all the same, and an address can carry data away: see `approve_reads`.
    """
    return _HttpReads(argument)
