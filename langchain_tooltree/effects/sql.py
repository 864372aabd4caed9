"""Whether SQL only reads. What cannot be told is taken for a write.

A parser says what a text means. Where a database might see another text than the parser, in comments, quotes and
escapes, nothing is believed. What lies within the database is not seen: views, rules, and functions of its own that
bear the name of a built-in one. A role that may only read is what keeps those out.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

LONGEST_SQL = 10_000
"""Characters of a text that is parsed: many times what models write, and below a tenth of a second."""

_UNSURE = re.compile(
    r"""/\*            # block comments: databases nest them, or run what is in them, each in its own way
    | --(?![ \t\r\n]|\Z)  # the minus of a minus, in MySQL
    | \\              # escapes a quote in some databases
    | \$\w*\$         # quotes, in Postgres
    | \r(?!\n)        # ends a comment in some databases
    | [^\S \t\r\n] | [\x00-\x08\x0e-\x1f]""",
    re.VERBOSE,
)
"""What databases read differently."""

_names = re.compile(r"\w+").findall

_CHANGES = frozenset(
    _names(
        "alter call create delete drop exec execute grant insert into merge nextval revoke savepoint setval truncate "
        "update"
    )
)
"""Words that stand in no query that only reads, unless they are quoted: `SELECT 1 DELETE FROM t` is one statement for a
parser, to which `DELETE` is a name, and two for SQL Server."""

_WITHOUT_SEPARATOR = frozenset({"tsql", "fabric"})
"""Dialects that need nothing between two statements."""

_STATEMENTS = frozenset(
    _names(
        "add backup begin break bulk checkpoint close commit continue dbcc deallocate declare deny disable enable goto "
        "kill lineno move openquery openrowset print raiserror readtext receive reconfigure restore return revert "
        "rollback save send set setuser shutdown tablockx throw tran transaction updatetext updlock use waitfor while "
        "writetext xlock"
    )
)
"""The words that begin the other statements there, or lock what is read."""

_NO_QUERY = frozenset({"COMMAND", "DESCRIBE", "SET", "SHOW"})
"""Tokens of statements that the parser does not take apart, of which it would tell in a log, with their text."""

_ROOTS = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)

_ACTS = (
    exp.DML,
    exp.DDL,
    exp.Alter,
    exp.Command,
    exp.Drop,
    exp.Into,
    exp.Lock,
    exp.NextValueFor,
    exp.Operator,  # one of the database's own
    exp.PropertyEQ,  # `@a := 1`
    exp.Set,
    exp.TruncateTable,
    exp.UserDefinedFunction,
)
"""What changes something, locks it, or may do so."""

_PURE_FUNCTIONS = frozenset(
    # SQLite
    _names(
        "changes datetime json json_array json_array_length json_each json_quote json_tree json_valid julianday "
        "last_insert_rowid likelihood likely octet_length printf quote randomblob strftime time timediff total "
        "total_changes unistr unixepoch unlikely zeroblob pragma_foreign_key_list pragma_index_info pragma_index_list "
        "pragma_table_info pragma_table_list pragma_table_xinfo"
    )
    # Postgres
    + _names(
        "age cardinality clock_timestamp every isfinite json_array_elements json_array_elements_text json_build_array "
        "json_build_object json_each_text json_object_keys json_typeof jsonb_agg jsonb_array_elements "
        "jsonb_array_elements_text jsonb_array_length jsonb_build_object jsonb_each jsonb_object_keys jsonb_pretty "
        "jsonb_typeof make_date num_nonnulls obj_description pg_get_viewdef pg_relation_size pg_size_pretty "
        "pg_table_size pg_total_relation_size plainto_tsquery quote_ident quote_literal regexp_match regexp_matches "
        "regexp_split_to_array regexp_split_to_table row_to_json similarity statement_timestamp timeofday to_json "
        "to_jsonb to_tsquery to_tsvector ts_rank websearch_to_tsquery word_similarity"
    )
    # MySQL
    + _names(
        "adddate addtime bin conv field find_in_set from_days inet_ntoa json_arrayagg json_contains json_length "
        "json_search json_unquote makedate mid now period_add period_diff sec_to_time strcmp subdate subtime sysdate "
        "time_format time_to_sec to_seconds unix_timestamp weekday yearweek"
    )
)
"""Functions of these databases' manuals that only compute, and that the parser knows nothing of. Any other that it does
not know may do anything: `pg_terminate_backend`, `lo_export`, `load_extension`, or one of the database's own."""

_EXPLAIN = re.compile(
    r"\s*EXPLAIN\b(?:[\s(),=]|\b(?:ANALY[SZ]E|AST|BUFFERS|COSTS|EXTENDED|FALSE|FORMAT|GENERIC_PLAN|JSON|MEMORY|OFF|ON"
    r"|PARTITIONS|PIPELINE|PLAN|QUERY|SERIALIZE|SETTINGS|SUMMARY|SYNTAX|TEXT|TIMING|TRADITIONAL|TREE|TRUE|VERBOSE|WAL"
    r"|XML|YAML)\b)*",
    re.IGNORECASE,
)

_SHOWS = re.compile(r"\s*(?:SHOW\s[\w\s.,'\"%`=*]*|(?:DESCRIBE|DESC)\s+(?:TABLE\s+)?[\w.`\"]+);?\s*", re.IGNORECASE)

_PRAGMA = re.compile(
    r"""\s*PRAGMA\s+(?:\w+\.)?(?:
        (?:table_x?info|table_list|index_x?info|index_list|foreign_key_list|foreign_key_check|integrity_check|quick_check)
        (?:\s*\(\s*(['"`]?)\w+\1\s*\))?
        | application_id | collation_list | compile_options | data_version | database_list | encoding | foreign_keys
        | freelist_count | function_list | journal_mode | module_list | page_count | page_size | pragma_list
        | schema_version | user_version)\s*;?\s*""",
    re.IGNORECASE | re.VERBOSE,
)
"""Those of SQLite's that tell something. Others act, some with a value in brackets."""


def check_dialect(dialect: str) -> None:
    """Raise a `ValueError` for a dialect that the parser does not know."""
    sqlglot.Dialect.get_or_raise(dialect)


def only_reads(sql: str, dialect: str, functions: Collection[str] = ()) -> bool:
    """Whether a text is one statement that only reads; `functions` are others known to do so, in lower case."""
    if len(sql) > LONGEST_SQL or _UNSURE.search(sql):
        return False
    if dialect not in _WITHOUT_SEPARATOR and _SHOWS.fullmatch(sql):
        return True
    if dialect in {"sqlite", "duckdb"} and _PRAGMA.fullmatch(sql):
        return True
    if explained := _EXPLAIN.match(sql):
        sql = sql[explained.end() :]
    try:
        return _is_query(sql, dialect, _PURE_FUNCTIONS.union(functions))
    except (SqlglotError, RecursionError):
        return False


def _is_query(sql: str, dialect: str, functions: Collection[str]) -> bool:
    forbidden = _CHANGES | _STATEMENTS if dialect in _WITHOUT_SEPARATOR else _CHANGES
    tokens = sqlglot.tokenize(sql, read=dialect)
    if not tokens or tokens[0].text.upper() not in {"SELECT", "WITH", "VALUES", "TABLE", "FROM", "("}:
        return False
    if any(word in forbidden for word in _unquoted(tokens)):
        return False
    kinds = [token.token_type.name for token in tokens]
    # A function in a schema is one of the database's own, whatever its name.
    in_schema = any(each[::2] == ("DOT", "L_PAREN") for each in zip(kinds, kinds[1:], kinds[2:], strict=False))
    if in_schema or not _NO_QUERY.isdisjoint(kinds):
        return False
    if any(token.text.lower() == "replace" and after.text != "(" for token, after in pairwise(tokens)):
        return False
    statements = [each for each in sqlglot.parse(sql, read=dialect) if each is not None]
    if len(statements) != 1 or not isinstance(statements[0], _ROOTS):
        return False
    return not any(_may_act(node, functions) for node in statements[0].walk())


def _unquoted(tokens: Iterable[Any]) -> Iterator[str]:
    quoted = {"IDENTIFIER", "NATIONAL_STRING", "RAW_STRING", "STRING"}
    return (token.text.lower() for token in tokens if token.token_type.name not in quoted)


def _may_act(node: Any, functions: Collection[str]) -> bool:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() not in functions
    if isinstance(node, exp.Table):
        # SQLite has each pragma as a table, too: to read `pragma_optimize` writes statistics.
        return node.name.lower().startswith("pragma_") and node.name.lower() not in functions
    return isinstance(node, _ACTS)
