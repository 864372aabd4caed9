import sys
import time

import pytest

from langchain_tooltree import ConfigurationError
from langchain_tooltree.errors import MissingExtraError
from tests.internals.hall import LONGEST_SQL, only_reads, sql_reads

READS = {
    "sqlite": [
        "SELECT * FROM t",
        "select count(*) from t where a = 'delete; drop table x' -- the top\n limit 5;",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "SELECT strftime('%Y', d), julianday(d), printf('%d', 1), ifnull(a, 0) FROM t GROUP BY 1 HAVING count(*) > 2",
        'SELECT "update", [delete], last_update FROM t',
        "SELECT replace(a, 'x', 'y') FROM (SELECT a FROM t UNION ALL VALUES (1))",
        "SELECT name FROM sqlite_master WHERE type = 'table'",
        "(SELECT 1)",
        "PRAGMA table_info('t');",
        "PRAGMA main.user_version",
        "SELECT * FROM pragma_table_info('t')",
        "EXPLAIN QUERY PLAN SELECT 1",
    ],
    "postgres": [
        "SELECT data->>'a', data#>>'{a,b}', x::int FROM t WHERE y ILIKE '%a%'",
        "SELECT to_char(now(), 'YYYY'), age(a, b), row_number() OVER (PARTITION BY b ORDER BY c) FROM t",
        "EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM t",
        "EXPLAIN ANALYZE WITH x AS (SELECT 1) SELECT * FROM x",
        "SHOW server_version",
    ],
    "mysql": ["SHOW CREATE TABLE t", "SHOW TABLES LIKE 'a%';", "DESCRIBE `t`", "DESC t", "SELECT 1 # all\n"],
    "tsql": [
        "SELECT TOP 5 [a b] FROM dbo.t WITH (NOLOCK)",
        "SELECT a FROM t ORDER BY a OFFSET 5 ROWS FETCH NEXT 5 ROWS ONLY",
    ],
    "bigquery": ["SELECT * FROM `p.d.t` LIMIT 10"],
}

WRITES = {
    "sqlite": [
        "DELETE FROM t",
        "SELECT 1; DELETE FROM t",
        "SELECT 1; SELECT 2",
        "PRAGMA user_version = 5",
        "PRAGMA user_version(5)",
        "PRAGMA journal_mode(WAL)",
        "PRAGMA wal_checkpoint",
        "PRAGMA writable_schema=1",
        "SELECT load_extension('x')",
        "SELECT * FROM (SELECT CASE WHEN 1 THEN load_extension('x') END)",
        "SELECT writefile('x', 'y')",
        "REPLACE INTO t VALUES (1)",
        "ATTACH 'x' AS y",
        "VACUUM",
        "COMMIT",
        "SELECT 1 /* /* */ ; DELETE FROM t; -- */",
        "SELECT 1 -- \r'\n; DELETE FROM t; -- '",
        "SELECT 1\x00; DELETE FROM t",
        "SELECT 1 --\xa01",
        "S\u0435LECT 1",
        "SELECT * FROM pragma_optimize",
        'SELECT 1 FROM main."PRAGMA_optimize" WHERE arg = 2',
        "selec 1",
        "  ;",
        "",
        "SELECT " + "(" * 3000 + "1" + ")" * 3000,
    ],
    "postgres": [
        "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x",
        "SELECT * INTO t2 FROM t",
        "SELECT * FROM t FOR UPDATE",
        "SELECT * FROM t FOR SHARE",
        "SELECT nextval('s')",
        "SELECT setval('s', 5)",
        "SELECT set_config('a', 'b', false)",
        "SELECT pg_terminate_backend(1)",
        "SELECT lo_export(1, '/x')",
        "SELECT query_to_xml('delete from t', true, true, '')",
        "SELECT * FROM dblink('x', 'delete from t') AS t(a int)",
        "SELECT * FROM purge_all()",
        "SELECT app.lower('x')",
        'SELECT app."lower"(1)',
        "SELECT * FROM app.lower('x')",
        "SELECT * FROM app.json_each('x')",
        "SELECT * FROM t CROSS JOIN LATERAL app.unnest(t.a)",
        "SELECT 1 OPERATOR(app.+) 2",
        "SELECT 1 WHERE EXISTS (SELECT pg_sleep(1))",
        "EXPLAIN ANALYZE DELETE FROM t WHERE a IN (SELECT 1)",
        "EXPLAIN (ANALYZE) UPDATE t SET a = 1",
        "EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1",
        "EXPLAIN ANALYZE EXECUTE p",
        "COPY (SELECT 1) TO PROGRAM 'x'",
        "PREPARE p AS DELETE FROM t",
        "SELECT E'\\'/*' ; DELETE FROM t; --*/''",
        "SELECT $a$x$a$; DELETE FROM t",
    ],
    "mysql": [
        "SELECT 1 INTO OUTFILE '/x'",
        "SELECT 1 INTO @a",
        "SELECT @a := 1",
        "SELECT sleep(50)",
        "SELECT * FROM t LOCK IN SHARE MODE",
        "SELECT 1 /*! ; DELETE FROM t */",
        "SELECT 1 /*!50000 INTO OUTFILE '/x' */",
        "SELECT 1 --1 INTO OUTFILE '/x'",
        "CALL p()",
        "SET @a = 1",
        "DESCRIBE DELETE FROM t",
        "SHOW TABLES; DROP TABLE t",
    ],
    "tsql": [
        "SELECT 1 DELETE FROM t",
        "SELECT * FROM t DELETE",
        "SELECT 1 SHUTDOWN",
        "SELECT 1 COMMIT",
        "SELECT * FROM t WITH (UPDLOCK)",
        "SELECT * INTO #x FROM t",
        "SELECT * FROM OPENQUERY(s, 'DELETE FROM t')",
        "SELECT NEXT VALUE FOR s",
        "EXEC sp_who",
    ],
    "oracle": ["EXPLAIN PLAN FOR SELECT 1", "SELECT s.NEXTVAL FROM dual"],
    "snowflake": ["SELECT SYSTEM$CANCEL_QUERY('x')", "SELECT s.nextval"],
}


def each_of(queries):
    return [(dialect, query) for dialect, texts in queries.items() for query in texts]


def test_queries_are_reads(subtests):
    for dialect, query in each_of(READS):
        with subtests.test(f"{dialect}: {query}"):
            assert only_reads(query, dialect)


def test_what_may_change_something_is_a_write(subtests):
    for dialect, query in each_of(WRITES):
        with subtests.test(f"{dialect}: {query[:80]}"):
            assert not only_reads(query, dialect)


def test_a_query_that_hides_a_write_in_its_middle_is_a_write(subtests):
    for dialect, query in [(dialect, query) for dialect, query in each_of(READS) if "SELECT" in query]:
        for tail in (
            "; DELETE FROM t",
            "; DROP TABLE t --",
            " INTO OUTFILE '/x'",
            " FOR UPDATE",
            "\n;\nUPDATE t SET a=1",
        ):
            with subtests.test(f"{dialect}: {query}{tail}"):
                assert not only_reads(f"{query.rstrip(';')}{tail}", dialect)


def test_functions_of_ones_own_may_be_named():
    assert sql_reads(dialect="postgres")({"query": "SELECT Distance(a, b) FROM t"}) == "write"
    assert sql_reads(dialect="postgres", functions=["distance"])({"query": "SELECT Distance(a, b) FROM t"}) == "read"


def test_the_argument_is_looked_at_and_has_to_be_a_text():
    reads = sql_reads("sql", dialect="SQLite")
    assert reads({"sql": "SELECT 1"}) == "read"
    assert {reads(each) for each in ({}, {"query": "SELECT 1"}, {"sql": None}, {"sql": ["SELECT 1"]})} == {"write"}


def test_an_unknown_dialect_is_refused():
    with pytest.raises(ConfigurationError, match=r"dialect must be one that sqlglot knows, .* got 'klingon'"):
        sql_reads(dialect="klingon")


def test_without_the_extra_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'langchain-tooltree\[sql\]'"):
        sql_reads(dialect="sqlite")


def test_what_it_is_set_to_is_told_alike_in_every_process():
    one, other = (sql_reads(dialect="sqlite", functions=names) for names in (["b", "A", "c"], ["c", "a", "B"]))
    assert repr(one) == repr(other)


@pytest.mark.slow
def test_no_text_takes_long(subtests):
    for part in ("NOT ", "- ", "1+", "CASE WHEN ", "(SELECT ", "f(", "[", "a.", "{", "CAST("):
        with subtests.test(part):
            before = time.process_time()
            only_reads(("SELECT " + part * LONGEST_SQL)[:LONGEST_SQL], "sqlite")
            assert time.process_time() - before < 1
