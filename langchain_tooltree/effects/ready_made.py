"""Effects that need not be written: as a server hints them, and by the arguments of SQL and HTTP tools."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

from langchain_core.tools import BaseTool, StructuredTool

from langchain_tooltree.effects.calls import ByArgument, DeclaredEffect, HintedEffect
from langchain_tooltree.effects.names import words_of_name
from langchain_tooltree.errors import ConfigurationError, import_extra
from langchain_tooltree.text import words_of

_OVERRIDE = re.compile(
    r"""x[-_]?http[-_]?method|x[-_]method|method[-_]override
    |(?:^|[=?&;{,\s])["']?_?method(?:\[\w*\])?["']?\s*(?:[=:]|$)  # as a parameter
    |[\r\n\0]  # the end of a header, behind which another request may begin""",
    re.IGNORECASE | re.VERBOSE,
)
"""Headers and parameters by which servers are asked to take a request for one of another method."""

_HANDS_OVER = frozenset(words_of("attachment body content data download file files form json payload save upload"))
"""Words in the names of arguments that hand something over, or have the answer written to a file."""

_ONLY_SAYS = frozenset(words_of("cookies header headers param params query type encoding length"))
"""Words in the names of those that only say what is asked for."""

_ADDRESS = frozenset(words_of("address base domain endpoint host hostname href link proxy server site uri url"))
_HOST = frozenset(words_of("domain host hostname proxy server"))

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,40}:[/\\]", re.IGNORECASE)
_WEB = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::\d{1,5})?(?=[/?#]|\Z)", re.IGNORECASE | re.ASCII)
_NAME = re.compile(r"\A(?:[a-z0-9_-]+\.)+([a-z][a-z0-9-]*)\.?", re.IGNORECASE | re.ASCII)

_INSIDE = frozenset(words_of("arpa corp home internal intranet lan local localdomain localhost private"))
"""Last labels of names that no public server has: `metadata.google.internal` is one of them."""


def only_asks(arguments: Mapping[str, Any], method: str, hosts: Collection[str]) -> bool:
    """Whether a call is a GET or HEAD of a public server, or of one of `hosts`, and hands nothing over."""
    verb = arguments.get(method)
    others = {name: value for name, value in arguments.items() if name != method}
    is_safe = isinstance(verb, str) and verb.upper() in ("GET", "HEAD")
    return is_safe and all(_asks(names, value, hosts) for names, value in _leaves(others, ()))


def _asks(names: tuple[str, ...], value: str, hosts: Collection[str]) -> bool:
    words = {word for name in names for word in words_of_name(name)}
    said = f"{names[-1]}={value}"
    if _OVERRIDE.search(said) or _OVERRIDE.search(unquote(said)) or (words & _HANDS_OVER and not words & _ONLY_SAYS):
        return False
    asked = [_WEB.match(value, found.start()) for found in _SCHEME.finditer(value)]
    if not all(web and _is_public(web[1], hosts) for web in asked):
        return False
    if not words & _ADDRESS or _SCHEME.match(value):
        return True
    first = re.split(r"[/?#]", value, maxsplit=1)[0]
    if words & _HOST or "." in first or first.lower() == "localhost":  # of a tool that adds the scheme
        return _is_public(first, hosts)
    return not re.search(r"[:@\\\s]", first) and not value.startswith("//")


def _is_public(host: str, hosts: Collection[str]) -> bool:
    """Whether a host is given by a public name: of an address, in all its forms, nobody sees whose it is."""
    name = _NAME.fullmatch(host)
    return host.lower().strip("[].") in hosts or (name is not None and name[1].lower() not in _INSIDE)


def _leaves(data: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is given, each with the names that lead there; nothing that is empty."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            yield from _leaves(value, (*names, str(name)))
    elif isinstance(data, list | tuple | set):
        for each in data:
            yield from _leaves(each, names)
    elif data:
        yield names, str(data)


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
