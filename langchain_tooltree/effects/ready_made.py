"""Effects that need not be written: as a server hints them, and by the arguments of SQL and HTTP tools."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.tools import BaseTool, StructuredTool

from langchain_tooltree.effects.calls import ByArgument, DeclaredEffect, HintedEffect
from langchain_tooltree.effects.http import only_asks
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

    Have the tool connect with a role that may only read in the first place: a database knows best what a statement
    does, and this function does not see what lies within it, such as views and functions of your own.

    A call is a read if its SQL consists of nothing but queries, of expressions and functions that are listed for the
    database and change nothing, lock nothing, and reach no file, network or session. All else is a write: what is not
    listed, cannot be parsed, has more than 10,000 characters or 1,500 words, or is not clear in each of its settings.

    `argument` holds the SQL; `dialect` is the database: `"sqlite"`, `"postgres"`, `"mysql"` or `"duckdb"`; `functions`
    are some of your own that only compute. Raises `ConfigurationError` for any other database, and `MissingExtraError`
    without `langchain-tooltree[sql]`.
    """
    import_extra("sqlglot", "sql", "sql_reads")
    from langchain_tooltree.effects.sql import DIALECTS  # noqa: PLC0415 - as above

    if not isinstance(dialect, str) or dialect.lower() not in DIALECTS:
        msg = (
            f"dialect must be one of {', '.join(DIALECTS)}, got {dialect!r}. For any other database, declare the tool "
            "a read if it connects with a role that may only read."
        )
        raise ConfigurationError(msg)
    return _SqlReads(argument, dialect.lower(), tuple(sorted({name.lower() for name in functions})))


@dataclass(frozen=True)
class _HttpReads(ByArgument):
    hosts: tuple[str, ...]

    def __call__(self, arguments: Mapping[str, Any]) -> DeclaredEffect:
        return "read" if only_asks(arguments, self.argument, self.hosts) else "write"


def http_reads(argument: str = "method", *, hosts: Iterable[str] = ()) -> Callable[[Mapping[str, Any]], str]:
    """Let a search run the GET and HEAD requests of an HTTP tool to public servers, by http and https.

    A request is a write if it names no method, asks the server to take it for one of another method, hands over a body
    or a file, or asks a server that nobody outside could: a name without a dot or under `.internal` and the like, and
    whatever is given by an address instead of a name. That keeps a model that was talked into it from the credentials
    that clouds give out at 169.254.169.254, and from what listens on this machine or in its network and trusts whoever
    is there. Those of your own that it may ask you name in `hosts`: `hosts=["orders"]`.

    What it cannot know: that a server acts on a GET, that a public name points inside, or its server redirects there,
    and what the tool does beyond its arguments. And an address can carry data away: where that matters, declare nothing
    for a tool that asks anybody's server.
    """
    if isinstance(hosts, str):
        msg = f"hosts must be a list of names, got {hosts!r}. Pass hosts=[{hosts!r}]."
        raise ConfigurationError(msg)
    return _HttpReads(argument, tuple(sorted({host.lower().strip("[].") for host in hosts})))
