"""Effects: which calls only read, so that a search may run them, and which may change something.

Whoever asks whether a call is a write asks `CallEffects.of`, with the arguments. What is not declared is a write. Users
need not write all declarations themselves: `mcp_effects` takes the hints of an MCP server, `http_reads` and `sql_reads`
are functions of the arguments for tools that speak HTTP or SQL.
"""

import copy
import inspect
import logging
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import unquote

from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.pydantic import get_fields

from langchain_tooltree.effects.names import call_digest, words_of_name
from langchain_tooltree.errors import ConfigurationError, described, import_extra
from langchain_tooltree.flows import FunctionStep, run_in_daemon_thread
from langchain_tooltree.text import digest, forget_oldest, words_of

__all__ = ["http_reads", "mcp_effects", "sql_reads"]

logger = logging.getLogger(__name__)

DeclaredEffect = Literal["read", "write"]

Declaration = str | Callable[[Mapping[str, Any]], str]
"""What a tool does to the world, `"read"` or `"write"`: always the same, or, by a function, by the arguments."""

Effects = (
    Mapping[Any, Declaration]
    | Sequence[tuple[str | BaseTool | Callable[..., Any], Declaration]]
)
"""What users declare: a mapping of tools to what they do, or pairs, since most tools cannot be keys.

A tool is given by its name, as the tool itself, or as the function that it was made of.
"""


class ReadTool(StructuredTool):
    """A tool that asks past runs and changes nothing.

    A planner knows it for a read by its class, and not by its name, which a write of a user's own may bear.
    """


@dataclass(frozen=True)
class ByArgument:
    """What a call does as one of its arguments says, which a tool then has to have."""

    argument: str


class HintedEffect(str):
    """An effect as a server hints it, which holds for that server's tool alone."""

    __slots__ = ("tool",)
    tool: BaseTool


class _Entry(NamedTuple):
    name: str
    effect: Declaration
    tool: Any = None  # the tool, or its function, that this holds for; `None` for any that bears the name


@dataclass(frozen=True)
class CallEffects:
    """The effects of calls: `declared_as` reads what a user declares, `among` applies it to the tools at hand."""

    entries: Mapping[str, tuple[_Entry, ...]] = field(
        default_factory=dict
    )  # by the names of tools
    _warnings: set[str] = field(
        default_factory=set, compare=False, repr=False
    )  # names of tools that it was told of

    @classmethod
    def declared_as(cls, effects: "Effects | CallEffects | None") -> "CallEffects":
        """Effects as a user declares them. Raises `ConfigurationError` for what cannot be a declaration."""
        if isinstance(effects, CallEffects):
            return effects
        pairs = list(effects.items() if isinstance(effects, Mapping) else effects or ())
        if not all(isinstance(each, tuple | list) and len(each) == 2 for each in pairs):  # noqa: PLR2004
            msg = f"effects must be a mapping such as {{'search': 'read'}}, got {effects!r}; or a list of such pairs."
            raise ConfigurationError(msg)
        entries: dict[str, tuple[_Entry, ...]] = {}
        for entry in (_make_entry(key, effect) for key, effect in pairs):
            entries[entry.name] = (*entries.get(entry.name, ()), entry)
        return cls(entries)

    def of(self, tool_name: str, arguments: Mapping[str, Any] | None) -> DeclaredEffect:
        """What a call does: a read only if everything that is declared of its tool says so.

        A function that raises, or answers anything but `"read"`, means a write.
        """
        entries = self.entries.get(tool_name, ())
        return (
            "read"
            if entries and all(_is_read(each, arguments or {}) for each in entries)
            else "write"
        )

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names of the tools that only read, whatever the arguments."""
        return frozenset(
            name
            for name, each in self.entries.items()
            if all(one.effect == "read" for one in each)
        )

    @cached_property
    def by_arguments(self) -> frozenset[str]:
        """Names of the tools of which some calls may be reads, and others writes."""
        possible = (
            name
            for name, each in self.entries.items()
            if all(one.effect != "write" for one in each)
        )
        return frozenset(possible) - self.reads

    @property
    def may_read(self) -> bool:
        """Whether any call can be a read."""
        return bool(self.reads or self.by_arguments)

    def among(self, tools: Iterable[Any]) -> "CallEffects":
        """The effects of these tools, by their names.

        What was declared of a tool holds for that very object. Of two tools that share a name, nobody knows which one
        a call reaches, so its calls are writes. The package's own read-only tools are reads.
        """
        entries: dict[str, tuple[_Entry, ...]] = {}
        first: dict[str, BaseTool] = {}
        for tool in (each for each in tools if isinstance(each, BaseTool)):
            effect = (
                self._effect_of(tool)
                if first.setdefault(tool.name, tool) is tool
                else "write"
            )
            if effect is not None:
                entries[tool.name] = (
                    *entries.get(tool.name, ()),
                    _Entry(tool.name, effect, tool),
                )
        return replace(self, entries=entries)

    def of_calls(self, calls: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """The effects of calls by their tools, as a record keeps them under `EFFECTS`."""
        by_tool: dict[str, Any] = {}
        for call in calls:
            name, arguments = call["name"], call["args"]
            effect = self.of(name, arguments)
            if name in self.by_arguments:
                by_tool.setdefault(name, []).extend(
                    [call_digest(name, arguments)] if effect == "read" else []
                )
            else:
                by_tool[name] = effect
        return by_tool

    async def judged(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The same, off the event loop where functions are asked: each text of SQL is judged this once."""
        if any(call["name"] in self.by_arguments for call in calls):
            return cast("dict[str, Any]", (await FunctionStep(self.of_calls, calls)))
        return self.of_calls(calls)

    def check_arguments(self) -> None:
        """Refuse a ready-made function that looks at an argument which its tool does not have: no call were a read."""
        for name, effect, tool in (
            each for entries in self.entries.values() for each in entries
        ):
            if not isinstance(effect, ByArgument) or not isinstance(tool, BaseTool):
                continue
            names = _argument_names(tool)
            if effect.argument not in names:
                msg = (
                    f"effects[{name!r}] looks at the argument {effect.argument!r}, but {name} has only "
                    f"{', '.join(sorted(names)) or 'none'}."
                )
                raise ConfigurationError(msg)

    def _effect_of(self, tool: BaseTool) -> Declaration | None:
        entries = self.entries.get(tool.name, ())
        if not entries:
            return "read" if isinstance(tool, ReadTool) else None
        own = [
            each
            for each in entries
            if each.tool is not None and _is_same_tool(tool, each.tool)
        ]
        if applicable := own or [each for each in entries if each.tool is None]:
            return (
                applicable[0].effect
                if len({each.effect for each in applicable}) == 1
                else "write"
            )
        if tool.name not in self._warnings and any(
            each.effect != "write" for each in entries
        ):
            self._warnings.add(tool.name)
            logger.warning(
                "The tool %s is not the one that was declared a read under this name, so its calls count as writes. "
                "Declare this one: effects=[(tool, 'read')].",
                tool.name,
            )
        return "write"


def _is_same_tool(tool: BaseTool, declared: Any) -> bool:
    """Whether a tool is the one declared, the tool of that function, or a copy of it that runs the same function."""
    if tool is declared:
        return True
    functions = [getattr(tool, "func", None), getattr(tool, "coroutine", None)]
    if not isinstance(declared, BaseTool):
        return declared in functions
    # What other kinds of tools run may depend on any of their fields.
    return type(tool) is type(declared) is StructuredTool and functions == [
        declared.func,
        declared.coroutine,
    ]


def _make_entry(key: Any, effect: Any) -> _Entry:
    name = (
        key
        if isinstance(key, str)
        else key.name
        if isinstance(key, BaseTool)
        else getattr(key, "__name__", None)
    )
    if not isinstance(name, str):
        msg = f"A key of effects must be a tool or the name of one, got {type(key).__name__} {key!r}."
        raise ConfigurationError(msg)
    is_async = inspect.iscoroutinefunction(effect) or inspect.iscoroutinefunction(
        getattr(effect, "__call__", None)  # noqa: B004
    )
    if is_async or not (effect in ("read", "write") or callable(effect)):
        msg = f"effects[{name!r}] must be 'read' or 'write', got {effect!r}; or a plain function of the arguments."
        raise ConfigurationError(msg)
    return _Entry(
        name,
        effect,
        effect.tool
        if isinstance(effect, HintedEffect)
        else None
        if key is name
        else key,
    )


def _is_read(entry: _Entry, arguments: Mapping[str, Any]) -> bool:
    if not callable(entry.effect):
        return entry.effect == "read"
    try:
        answer = entry.effect(_as_received(entry.tool, arguments))
    except Exception as error:  # noqa: BLE001 - what cannot be told is a write
        logger.debug("The effect of a call is not known: %s", described(error))
        return False
    return isinstance(answer, str) and answer == "read"


def _as_received(tool: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the arguments as a tool gets them, with the defaults of its schema for what the call leaves out.

    Raises an error for arguments that the schema refuses, or does not name: under another name, an alias for example,
    a tool may take something else than a function of the arguments looks at.
    """
    if not isinstance(tool, BaseTool):
        return copy.deepcopy(dict(arguments))
    if unnamed := arguments.keys() - _argument_names(tool):
        msg = f"{tool.name} has no arguments {unnamed}."
        raise ValueError(msg)
    schema = tool.tool_call_schema
    if isinstance(schema, dict):
        return cast("dict[str, Any]", copy.deepcopy(_with_defaults(schema, arguments)))
    received: dict[str, Any] = (
        cast("Any", schema).model_validate(dict(arguments)).model_dump(mode="json")
    )
    return received


def _with_defaults(schema: Any, value: Any) -> Any:
    """Data with the defaults of a JSON schema, in objects within it, too."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not isinstance(value, Mapping):
        return value
    defaults = {
        name: each["default"] for name, each in properties.items() if "default" in each
    }
    return defaults | {
        name: _with_defaults(properties.get(name), each) for name, each in value.items()
    }


def _argument_names(tool: BaseTool) -> set[str]:
    """What calls of a tool may name."""
    schema = tool.tool_call_schema
    return (
        set(schema.get("properties") or ())
        if isinstance(schema, dict)
        else set(get_fields(schema))
    )


# --- MCP ---


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
        origin = metadata.get("mcp") or {}
        its_server = (
            (origin.get("server") or {}).get("name")
            or _configured_server(tool)
            or server
        )
        read_only = hints_of(tool, "readOnlyHint", "read_only_hint")
        destructive = hints_of(tool, "destructiveHint", "destructive_hint")
        if its_server == server and read_only != [None, None]:
            is_read = all(hint is None or hint is True for hint in read_only)
            is_read = is_read and all(
                hint is None or hint is False for hint in destructive
            )
            effect = HintedEffect(
                "read" if is_read and effects.get(tool.name) != "write" else "write"
            )
            effect.tool = tool
            effects[tool.name] = cast("DeclaredEffect", effect)
    return effects


def hints_of(tool: BaseTool, adapters: str, native: str) -> list[Any]:
    """A hint of an MCP server by its names in langchain-mcp-adapters and in `langchain.mcp`; `None` where absent."""
    metadata = tool.metadata or {}
    annotations = ((metadata.get("mcp") or {}).get("tool") or {}).get(
        "annotations"
    ) or {}
    return [metadata.get(adapters), annotations.get(native)]


def _configured_server(tool: BaseTool) -> str | None:
    """The server that langchain-mcp-adapters loaded a tool from, which only the tool's coroutine knows."""
    coroutine = tool.coroutine if isinstance(tool, StructuredTool) else None
    name = (
        inspect.getclosurevars(coroutine).nonlocals.get("server_name")
        if inspect.isfunction(coroutine)
        else None
    )
    return name if isinstance(name, str) else None


# --- HTTP ---

_OVERRIDE = re.compile(
    r"""x[-_]?http[-_]?method|x[-_]method|method[-_]override
    |(?:^|[=?&;{,\s])["']?_?method(?:\[\w*\])?["']?\s*(?:[=:]|$)  # as a parameter
    |[\r\n\0]  # the end of a header, behind which another request may begin""",
    re.IGNORECASE | re.VERBOSE,
)
"""Headers and parameters by which servers are asked to take a request for one of another method."""

_BODY_OR_HOST_WORDS = frozenset(
    words_of(
        "attachment body content data download file files form json payload save upload"
    )
    + words_of("domain host hostname proxy server")
)
"""Words in the names of arguments that hand something over, have the answer written to a file, or name the server."""

_ONLY_ASKS = frozenset(
    words_of("cookies header headers param params query type encoding length")
)
"""Words in the names of those that only say what is asked for."""

_ADDRESS = frozenset(
    words_of("address base endpoint href link path resource route site uri url")
)

_URL_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,40}:[/\\]", re.IGNORECASE)
_WEB = re.compile(
    r"https?://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::\d{1,5})?(?=[/?#]|\Z)",
    re.IGNORECASE | re.ASCII,
)
_PATH = re.compile(
    r"\A(?:/(?![/\\])|[?#]|(?!localhost\b)[^/?#:@\\\s.]+(?:[/?#]|\Z))", re.IGNORECASE
)
_HOST_NAME = re.compile(
    r"\A(?:[a-z0-9_-]+\.)+([a-z][a-z0-9-]*)\.?", re.IGNORECASE | re.ASCII
)

_INSIDE = frozenset(
    words_of("arpa corp home internal intranet lan local localdomain localhost private")
)
"""Last labels of names that no public server has: `metadata.google.internal` is one of them."""


@dataclass(frozen=True)
class _HttpReads(ByArgument):
    hosts: tuple[str, ...]

    def __call__(self, arguments: Mapping[str, Any]) -> DeclaredEffect:
        method = arguments.get(self.argument)
        others = {
            name: value for name, value in arguments.items() if name != self.argument
        }
        is_safe = isinstance(method, str) and method.upper() in ("GET", "HEAD")
        return (
            "read"
            if is_safe
            and all(_only_asks(*leaf, self.hosts) for leaf in _value_leaves(others, ()))
            else "write"
        )


def http_reads(
    argument: str = "method", *, hosts: Iterable[str] = ()
) -> Callable[[Mapping[str, Any]], str]:
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
    return _HttpReads(
        argument, tuple(sorted({host.lower().strip("[].") for host in hosts}))
    )


def _only_asks(names: tuple[str, ...], value: str, hosts: Collection[str]) -> bool:
    """Whether a value under these names hands nothing over, and asks public servers or `hosts` alone."""
    words = {word for name in names for word in words_of_name(name)}
    pair = f"{names[-1]}={value}"
    if (
        _OVERRIDE.search(pair)
        or _OVERRIDE.search(unquote(pair))
        or (words & _BODY_OR_HOST_WORDS and not words & _ONLY_ASKS)
    ):
        return False
    if (
        words & _ADDRESS and not _URL_SCHEME.match(value) and not _PATH.match(value)
    ):  # some tools add the scheme
        return False
    addresses = [
        _WEB.match(value, scheme.start()) for scheme in _URL_SCHEME.finditer(value)
    ]
    return all(address and _is_public(address[1], hosts) for address in addresses)


def _is_public(host: str, hosts: Collection[str]) -> bool:
    """Whether a host is given by a public name: of an address, in all its forms, nobody sees whose it is."""
    name = _HOST_NAME.fullmatch(host)
    return host.lower().strip("[].") in hosts or (
        name is not None and name[1].lower() not in _INSIDE
    )


def _value_leaves(
    data: Any, names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The values within data that are not empty, each with the names that lead there."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            yield from _value_leaves(value, (*names, str(name)))
    elif isinstance(data, list | tuple | set):
        for each in data:
            yield from _value_leaves(each, names)
    elif data:
        yield names, str(data)


# --- SQL ---

LONGEST_SQL = 10_000
"""Characters of a text that is parsed, which may have 1,500 words and signs: a tenth of a second at most."""
MOST_VERDICTS = 10_000

_BEGINNINGS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM", "(", ";"})

_ROOTS = frozenset(
    {"Select", "Union", "Except", "Intersect", "Subquery", "Values", "Table"}
)

_UNPARSED = frozenset({"COMMAND", "DESCRIBE", "SET", "SHOW"})
"""Tokens of statements that the parser does not take apart, of which it would tell in a log, with their text."""

DIALECTS = (
    "sqlite",
    "postgres",
    "mysql",
    "duckdb",
)  # the databases whose reads are listed in `dialects.toml`


@dataclass(frozen=True)
class _SqlReads(ByArgument):
    dialect: str
    functions: tuple[str, ...]  # in an order that is the same in every process

    def __call__(self, arguments: Mapping[str, Any]) -> DeclaredEffect:
        sql = arguments.get(self.argument)
        return (
            "read"
            if isinstance(sql, str) and only_reads(sql, self.dialect, self.functions)
            else "write"
        )


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
    if not isinstance(dialect, str) or dialect.lower() not in DIALECTS:
        msg = (
            f"dialect must be one of {', '.join(DIALECTS)}, got {dialect!r}. For any other database, declare the tool "
            "a read if it connects with a role that may only read."
        )
        raise ConfigurationError(msg)
    return _SqlReads(
        argument, dialect.lower(), tuple(sorted({name.lower() for name in functions}))
    )


_verdicts: dict[str, bool] = {}  # by digests: the SQL of past runs is not kept


def only_reads(sql: str, dialect: str, functions: Collection[str] = ()) -> bool:
    """Whether all statements of a text only read, in one of `DIALECTS`, with other functions in lower case.

    The answer depends on nothing else, such as how much was asked before: LangChain asks about a call again when a run
    resumes, maybe in another process, and runs it without its decision if the answer differs.
    """
    if len(sql) > LONGEST_SQL:
        return False
    key = digest([sql, dialect, *functions])
    if (verdict := _verdicts.get(key)) is None:
        # On a thread of its own, how deep a text may be nested does not depend on who asks.
        verdict = run_in_daemon_thread(
            lambda: _Database(dialect).only_reads(sql, functions), "tooltree-sql"
        ).result()
        _verdicts[key] = verdict
        forget_oldest(_verdicts, MOST_VERDICTS)
    return verdict


@cache
class _Database:
    """What SQL may consist of to be a read in one database, and a parser for it.

    A parser says what a text consists of, and `dialects.toml` what each database may be asked. Where a database might
    see another text than the parser, in comments, quotes and escapes, nothing is believed.
    """

    def __init__(self, name: str) -> None:
        lists: Any = tomllib.loads(
            files(__package__).joinpath("dialects.toml").read_text("utf-8")
        )
        every, own = lists["every"], lists[name]
        words = (
            frozenset(f"{every[key]} {own.get(key, '')}".split())
            for key in ("kinds", "functions", "types")
        )
        texts = (
            every[key] + own.get(key, "")
            for key in ("statements", "explain", "refused", "files")
        )
        self.kinds, self.functions, self.types = words
        self.statements, self.explain, self.refused, self.files = (
            re.compile(text, re.IGNORECASE | re.VERBOSE) for text in texts
        )
        self.dialect: Any = import_extra(
            "sqlglot", "sql", "sql_reads"
        ).Dialect.get_or_raise(name)
        self.dialect.INDEX_OFFSET = 0  # to count from 1 as from 0 costs a parser two milliseconds for each `a[1]`
        base: Any = self.dialect.parser_class
        # All functions but those with a syntax of their own keep the names by which the database knows them.
        own_syntax = {
            each: parse
            for each, parse in base.FUNCTION_PARSERS.items()
            if each.lower() in self.functions
        }
        self.parser: Any = type(base)(
            "Parser", (base,), {"FUNCTIONS": {}, "FUNCTION_PARSERS": own_syntax}
        )

    def only_reads(self, sql: str, functions: Collection[str]) -> bool:
        """Whether all statements of a text only read."""
        if self.refused.search(sql):
            return False
        if self.statements.fullmatch(sql.strip("; \t\r\n")):
            return True
        sql = self.explain.sub("", sql, count=1)
        try:
            tokens = self.dialect.tokenize(sql)
            if not _may_query(tokens):
                return False
            queries = [
                *filter(None, self.parser(dialect=self.dialect).parse(tokens, sql))
            ]
            are_queries = bool(queries) and all(
                type(each).__name__ in _ROOTS for each in queries
            )
            return are_queries and all(
                self._is_listed(node, functions)
                for each in queries
                for node in each.walk()
            )
        except Exception:  # noqa: BLE001 - what cannot be parsed, or is nested too deeply
            return False

    def _is_listed(self, node: Any, functions: Collection[str]) -> bool:
        """Whether a kind of expression, function or type is listed, and a table is none of the file system's."""
        kind = type(node).__name__
        if kind == "Anonymous":
            return node.name.isascii() and (
                node.name.lower() in self.functions or node.name.lower() in functions
            )
        if kind == "DataType":
            return getattr(node.this, "name", "") in self.types
        is_file = kind == "Table" and self.files.search(
            ".".join(part.name for part in node.parts)
        )
        return kind in self.kinds and not is_file


def _may_query(tokens: list[Any]) -> bool:
    """Whether each statement begins as a query does, and no function is called by a name that hides what it is."""
    kinds = [token.token_type.name for token in tokens]
    firsts = {
        token.text.upper()
        for at, token in enumerate(tokens)
        if at == 0 or kinds[at - 1] == "SEMICOLON"
    }
    if not firsts <= _BEGINNINGS or not _UNPARSED.isdisjoint(kinds):
        return False
    # A function in a schema is one of the database's own, whatever its name, and so is one with a name in quotes.
    called = [
        kinds[max(at - 2, 0) : at]
        for at, kind in enumerate(kinds)
        if at and kind == "L_PAREN"
    ]
    return not any(
        before[-1] in {"IDENTIFIER", "STRING"} or before[0] == "DOT"
        for before in called
    )
