# ruff: noqa: S608 - the tests' own texts

import hashlib
import logging
import re
import sqlite3
import sys
import time
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langchain_tooltree import ConfigurationError
from langchain_tooltree.effects import LONGEST_SQL, only_reads, sql_reads
from langchain_tooltree.errors import MissingExtraError
from tests.unit_tests.effects.attacks import ATTACKS
from tests.unit_tests.effects.ordinary import ORDINARY, SHOP

TAILS = (
    "; DELETE FROM orders",
    "; DROP TABLE orders --",
    " INTO OUTFILE '/x'",
    " FOR UPDATE",
    "\n;\nUPDATE orders SET a=1",
)


def each_of(queries):
    return [(dialect, query) for dialect, texts in queries.items() for query in texts]


@pytest.fixture
def near(tmp_path, monkeypatch):
    """A folder with a file that a query may name."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "near.csv"
    path.write_text("a,b\n1,2\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ORDINARY)
def test_at_least_sixty_ordinary_queries_of_each_database_are_reads(dialect, subtests):
    assert len(ORDINARY[dialect]) >= 60
    for query in ORDINARY[dialect]:
        with subtests.test(query):
            assert only_reads(query, dialect)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ATTACKS)
def test_what_may_change_something_or_reaches_beyond_the_database_is_a_write(
    dialect, subtests, caplog
):
    caplog.set_level(logging.DEBUG, "sqlglot")
    for query in ATTACKS[dialect]:
        with subtests.test(query):
            assert not only_reads(query, dialect)
    assert not caplog.messages, "what a model writes is no matter for a parser's log"


@pytest.mark.slow
def test_a_query_that_hides_a_write_at_its_end_is_a_write(subtests):
    queries = [
        (dialect, query) for dialect, query in each_of(ORDINARY) if " # " not in query
    ]  # behind one, none is
    for number, (dialect, query) in enumerate(queries):
        for tail in (TAILS[number % len(TAILS)], TAILS[(number + 2) % len(TAILS)]):
            with subtests.test(f"{dialect}: {query}{tail}"):
                assert not only_reads(f"{query.rstrip(';')}{tail}", dialect)


def accepted(dialect, near):
    """Everything of that database that is taken for a read: queries, attacks, and attacks put into queries."""
    attacks = [attack.replace("{CSV}", str(near)) for attack in ATTACKS[dialect]]
    within = [
        form.format(attack)
        for attack in attacks
        for form in ("SELECT ({})", "WITH w AS ({}) SELECT * FROM w")
    ]
    behind = [
        f"{query}; {attack}"
        for query, attack in zip(ORDINARY[dialect], attacks, strict=False)
    ]
    return [
        text
        for text in (*ORDINARY[dialect], *attacks, *within, *behind)
        if only_reads(text, dialect)
    ]


@pytest.fixture
def database():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        yield opened


@pytest.mark.slow
def test_sqlite_is_the_same_after_all_that_is_taken_for_a_read(near, database):
    database.executescript(
        SHOP.format(json="TEXT") + "CREATE INDEX i ON orders (total); ANALYZE;"
    )
    state = lambda: [  # noqa: E731
        *database.iterdump(),
        database.total_changes,
        *database.execute("PRAGMA user_version"),
    ]
    before = state()
    asked = accepted("sqlite", near)
    for query in asked:
        try:
            database.executescript(query)
        except sqlite3.Error:
            database.rollback()
    assert len(asked) >= len(ORDINARY["sqlite"])
    assert state() == before


@pytest.mark.slow
def test_duckdb_is_the_same_after_all_that_is_taken_for_a_read_and_opens_no_file(near):
    duckdb = pytest.importorskip("duckdb")
    database = duckdb.connect()
    database.execute(SHOP.format(json="JSON"))
    tables = [
        name
        for (name,) in database.execute(
            "SELECT table_name FROM duckdb_tables()"
        ).fetchall()
    ]

    def state():
        rows = [
            database.execute(f'SELECT * FROM "{table}" ORDER BY ALL').fetchall()
            for table in tables
        ]
        settings = database.execute(
            "SELECT name, value FROM duckdb_settings() WHERE name != 'profiling'"
        ).fetchall()
        return (
            rows,
            settings,
            database.execute("SELECT database_name FROM duckdb_databases()").fetchall(),
        )

    database.execute(
        "SET enable_external_access = false"
    )  # a file that is opened is an error from here on
    before, opened = state(), []
    for query in accepted("duckdb", near):
        try:
            database.execute(query)
        except duckdb.Error as error:
            opened += [query] if isinstance(error, duckdb.PermissionException) else []
    assert not opened
    assert state() == before


@pytest.mark.slow
def test_postgres_is_the_same_after_all_that_is_taken_for_a_read(near, tmp_path):
    pgserver, psycopg = pytest.importorskip("pgserver"), pytest.importorskip("psycopg")
    server = pgserver.get_server(tmp_path / "pg")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as database:
            database.execute(
                SHOP.format(json="JSONB")
                + "CREATE SEQUENCE s; CREATE TYPE mood AS ENUM ('x');"
            )
            tables = (
                "customers",
                "orders",
                "items",
                '"Order Details"',
                "pg_class",
                "pg_largeobject_metadata",
            )

            def state():
                rows = [
                    database.execute(
                        f"SELECT x::text FROM {each} AS x ORDER BY 1"
                    ).fetchall()
                    for each in tables
                ]
                rows.append(
                    database.execute("SELECT last_value, is_called FROM s").fetchall()
                )
                locks = database.execute(
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                ).fetchall()
                return hashlib.sha256(repr((rows, locks)).encode()).hexdigest()

            before, asked = state(), accepted("postgres", near)
            assert len(asked) >= len(ORDINARY["postgres"])
            for query in asked:
                try:
                    database.execute(query)
                except psycopg.Error:
                    database.rollback()
            assert state() == before
    finally:
        server.cleanup()


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_no_mixture_of_queries_and_attacks_changes_sqlite(data):
    words = st.sampled_from(
        [
            word
            for text in (*ORDINARY["sqlite"], *ATTACKS["sqlite"])
            for word in text.split()
        ]
    )
    text = " ".join(["SELECT", *data.draw(st.lists(words, max_size=12))])
    if not only_reads(text, "sqlite"):
        return
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.executescript(SHOP.format(json="TEXT"))
        before = database.total_changes, [*database.iterdump()]
        try:
            database.executescript(text)
        except sqlite3.Error:
            database.rollback()
        assert (database.total_changes, [*database.iterdump()]) == before


@pytest.mark.parametrize("dialect", ORDINARY)
def test_a_text_that_is_too_long_is_a_write_and_costs_nothing(dialect):
    query = f"SELECT 1 {'-' * 2} {'x' * LONGEST_SQL}"
    assert only_reads(query[:LONGEST_SQL], dialect)
    before = time.thread_time()
    assert [at for at in range(1000) if only_reads(f"{query}{at}", dialect)] == []
    assert time.thread_time() - before < 0.1


@pytest.mark.slow
@given(
    names=st.integers(1, 3_000),
    name=st.sampled_from(["a", "customer", "lower(a)", "'it''s'", "a + 1"]),
)
@settings(max_examples=40, deadline=None)
def test_what_has_more_words_and_signs_than_the_bound_is_a_write_and_is_not_parsed(
    names, name
):
    query = f"SELECT {', '.join([name] * names)}"
    words = len(re.findall(r"\w+|[^\w\s]", query))
    assert only_reads(query, "sqlite") == (words <= 1_500 and len(query) <= LONGEST_SQL)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=300), dialect=st.sampled_from([*ORDINARY]))
def test_no_text_is_an_error(text, dialect):
    assert only_reads(text, dialect) in (True, False)
    assert only_reads(f"SELECT {text}", dialect) in (True, False)


@pytest.mark.parametrize(
    "part", ["(", "NOT ", "CASE WHEN ", "(SELECT ", "abs(", "[", "ANY ", "{'a': "]
)
def test_a_text_that_is_nested_too_deeply_is_a_write_wherever_it_is_asked_about(part):
    def deep(levels):
        return (
            sql_reads(dialect="duckdb")({"query": f"SELECT {part * 900}"})
            if levels == 0
            else deep(levels - 1)
        )

    assert {deep(0), deep(500)} == {"write"}


def test_a_text_is_judged_once():
    query = f"SELECT {', '.join(f'a{at}' for at in range(500))} FROM orders"
    assert only_reads(query, "sqlite")
    before = time.thread_time()
    assert {only_reads(query, "sqlite") for _ in range(1000)} == {True}
    assert time.thread_time() - before < 0.5


def test_functions_of_ones_own_may_be_named():
    assert (
        sql_reads(dialect="postgres")({"query": "SELECT Distance(a, b) FROM t"})
        == "write"
    )
    assert (
        sql_reads(dialect="postgres", functions=["distance"])(
            {"query": "SELECT Distance(a, b) FROM t"}
        )
        == "read"
    )


def test_the_argument_is_looked_at_and_has_to_be_a_text():
    reads = sql_reads("sql", dialect="SQLite")
    assert reads({"sql": "SELECT 1"}) == "read"
    assert {
        reads(each)
        for each in ({}, {"query": "SELECT 1"}, {"sql": None}, {"sql": ["SELECT 1"]})
    } == {"write"}


@pytest.mark.parametrize("dialect", ["klingon", "spark", "tsql", "oracle", "", None])
def test_a_database_whose_reads_are_not_listed_is_refused(dialect):
    with pytest.raises(
        ConfigurationError,
        match=f"one of sqlite, postgres, mysql, duckdb, got {dialect!r}",
    ):
        sql_reads(dialect=dialect)


def test_without_the_extra_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(
        MissingExtraError, match=r"pip install 'langchain-tooltree\[sql\]'"
    ):
        sql_reads(dialect="sqlite")


def test_what_it_is_set_to_is_told_alike_in_every_process():
    one, other = (
        sql_reads(dialect="sqlite", functions=names)
        for names in (["b", "A", "c"], ["c", "a", "B"])
    )
    assert repr(one) == repr(other)


@pytest.mark.slow
def test_no_text_takes_long(subtests):
    parts = (
        "NOT ",
        "- ",
        "1+",
        "a,",
        "a->'b',",
        "a[1],",
        "CASE WHEN ",
        "(SELECT ",
        "f(",
        "[",
        "a.",
        "{",
        "CAST(",
        "/*a",
    )
    for part in parts:
        for dialect in ORDINARY:
            with subtests.test(f"{dialect}: {part}"):
                before = time.process_time()
                only_reads(("SELECT " + part * LONGEST_SQL)[:LONGEST_SQL], dialect)
                assert time.process_time() - before < 1
