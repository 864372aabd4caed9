"""Whether SQL only reads. What no list names is a write.

A parser says what a text consists of, and `dialects.toml` beside this file, what each database may be asked. Where a
database might see another text than the parser, in comments, quotes and escapes, nothing is believed. What lies within
the database is not seen: views, rules, and functions of its own that bear the name of a built-in one. A role that may
only read is what keeps those out.
"""

import re
import tomllib
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import Any

import sqlglot
from sqlglot import exp

from langchain_tooltree.flows import in_thread
from langchain_tooltree.text import digest, forget_oldest

LONGEST_SQL = 10_000
"""Characters of a text that is parsed, which may have 1,500 words and signs: a tenth of a second at most."""
MOST_VERDICTS = 10_000

_BEGINNINGS = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "FROM", "(", ";"})

_ROOTS = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values, exp.Table)

_UNPARSED = frozenset({"COMMAND", "DESCRIBE", "SET", "SHOW"})
"""Tokens of statements that the parser does not take apart, of which it would tell in a log, with their text."""

_LISTS: dict[str, dict[str, str]] = tomllib.loads(files(__package__).joinpath("dialects.toml").read_text("utf-8"))

DIALECTS = [name for name in _LISTS if name != "every"]
"""The databases whose reads are known."""


@cache
class _Database:
    """What SQL may consist of to be a read in one database, and a parser for it."""

    def __init__(self, name: str) -> None:
        every, own = _LISTS["every"], _LISTS[name]
        words = (frozenset(f"{every[key]} {own.get(key, '')}".split()) for key in ("kinds", "functions", "types"))
        texts = (every[key] + own.get(key, "") for key in ("statements", "explain", "refused", "files"))
        self.kinds, self.functions, self.types = words
        self.statements, self.explain, self.refused, self.files = (
            re.compile(text, re.IGNORECASE | re.VERBOSE) for text in texts
        )
        self.dialect: Any = sqlglot.Dialect.get_or_raise(name)
        self.dialect.INDEX_OFFSET = 0  # to count from 1 as from 0 costs a parser two milliseconds for each `a[1]`
        known: Any = self.dialect.parser_class
        # All functions but those with a syntax of their own keep the names by which the database knows them.
        own_syntax = {each: parse for each, parse in known.FUNCTION_PARSERS.items() if each.lower() in self.functions}
        self.parser: Any = type(known)("Parser", (known,), {"FUNCTIONS": {}, "FUNCTION_PARSERS": own_syntax})

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
            queries = [*filter(None, self.parser(dialect=self.dialect).parse(tokens, sql))]
            known = (self._knows(node, functions) for each in queries for node in each.walk())
            return bool(queries) and all(isinstance(each, _ROOTS) for each in queries) and all(known)
        except Exception:  # noqa: BLE001 - what cannot be parsed, or is nested too deeply
            return False

    def _knows(self, node: Any, functions: Collection[str]) -> bool:
        """Whether a kind of expression, function or type is listed, and a table is none of the file system's."""
        kind = type(node).__name__
        if kind == "Anonymous":
            return node.name.isascii() and (node.name.lower() in self.functions or node.name.lower() in functions)
        if kind == "DataType":
            return getattr(node.this, "name", "") in self.types
        is_file = kind == "Table" and self.files.search(".".join(part.name for part in node.parts))
        return kind in self.kinds and not is_file


def _may_query(tokens: list[Any]) -> bool:
    """Whether each statement begins as a query does, and no function is called by a name that hides what it is."""
    kinds = [token.token_type.name for token in tokens]
    firsts = {token.text.upper() for at, token in enumerate(tokens) if at == 0 or kinds[at - 1] == "SEMICOLON"}
    if not firsts <= _BEGINNINGS or not _UNPARSED.isdisjoint(kinds):
        return False
    # A function in a schema is one of the database's own, whatever its name, and so is one with a name in quotes.
    called = [kinds[max(at - 2, 0) : at] for at, kind in enumerate(kinds) if at and kind == "L_PAREN"]
    return not any(before[-1] in {"IDENTIFIER", "STRING"} or before[0] == "DOT" for before in called)


_verdicts: dict[str, bool] = {}
"""By digests: what runs have asked is not kept."""


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
        verdict = in_thread(lambda: _Database(dialect).only_reads(sql, functions), "tooltree-sql").result()
        _verdicts[key] = verdict
        forget_oldest(_verdicts, MOST_VERDICTS)
    return verdict
