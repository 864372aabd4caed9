"""Statements and requests that change something, lock it, or reach where they should not: none is a read."""

_HIDDEN = {
    "{CR}": "\r",
    "{NUL}": "\0",
    "{NBSP}": "\xa0",
    "{CYRILLIC}": "\u0435",
    "{KELVIN}": "\u212a",  # which is a `k` in small letters
}

SQLITE = r"""
DELETE FROM orders
SELECT 1; DELETE FROM orders
WITH x AS (SELECT 1) DELETE FROM orders
REPLACE INTO customers (id) VALUES (9)
INSERT INTO customers (id) VALUES (9) RETURNING id
ATTACH 'x' AS y
VACUUM
COMMIT
BEGIN
REINDEX
ANALYZE
PRAGMA user_version = 5
PRAGMA user_version(5)
PRAGMA journal_mode(WAL)
PRAGMA wal_checkpoint
PRAGMA optimize
PRAGMA writable_schema=1
SELECT * FROM pragma_optimize
SELECT 'x' IN pragma_optimize
SELECT 'x' IN main.pragma_optimize
SELECT 'x' IN "pragma_optimize"
SELECT 'x' IN [PRAGMA_optimize]
SELECT * FROM 'pragma_optimize'
SELECT * FROM pragma_user_version(5)
SELECT 1 FROM main."PRAGMA_optimize" WHERE arg = 2
SELECT 1 WHERE EXISTS (TABLE pragma_optimize)
SELECT * FROM fsdir WHERE path = '/etc'
SELECT * FROM zipfile WHERE file = 'x.zip'
SELECT load_extension('x')
SELECT "load_extension"('x')
SELECT 'load_extension'('x')
SELECT lower(load_extension('x'))
SELECT * FROM (SELECT CASE WHEN 1 THEN load_extension('x') END)
SELECT max(1) FILTER (WHERE load_extension('x'))
SELECT 1 ORDER BY load_extension('x')
SELECT sum(1) OVER (PARTITION BY load_extension('x'))
SELECT writefile('x', 'y')
SELECT readfile('/etc/passwd')
SELECT edit('x', 'rm')
SELECT optimize(orders) FROM orders
SELECT fts3_tokenizer('x', x'00')
SELECT secret('x')
SELECT AI_GENERATE('x')
SELECT TO_FILE('x')
SELECT OPENJSON('x')
SELECT nextval('s')
SELECT randomblob(1000000000)
SELECT 1 /* /* */ ; DELETE FROM orders; -- */
SELECT 1 /*' */ ; DELETE FROM orders; -- '*/
SELECT 1 -- {CR}'\n; DELETE FROM orders; -- '
SELECT 1{NUL}; DELETE FROM orders
SELECT 1 --{NBSP}1
SELECT 1; {# ; DELETE FROM orders; #}
S{CYRILLIC}LECT 1
SELECT ran{KELVIN}(1)
selec 1
;
EXPLAIN DELETE FROM orders
SELECT 1 FOR UPDATE
SELECT * INTO x FROM orders
"""

POSTGRES = r"""
WITH x AS (DELETE FROM orders RETURNING *) SELECT * FROM x
WITH x AS (INSERT INTO orders VALUES (9) RETURNING *) SELECT * FROM x
WITH x AS (UPDATE orders SET total = 0 RETURNING *) SELECT * FROM x
WITH x AS (MERGE INTO orders USING items ON true WHEN MATCHED THEN DELETE RETURNING 1) SELECT 1
SELECT * INTO t2 FROM orders
SELECT 1 INTO TEMP t2
SELECT * FROM orders FOR UPDATE
SELECT * FROM orders FOR NO KEY UPDATE
SELECT * FROM orders FOR SHARE SKIP LOCKED
SELECT * FROM (SELECT * FROM orders FOR UPDATE) AS x
SELECT nextval('s')
SELECT setval('s', 5)
SELECT lastval()
SELECT set_config('a.b', 'c', false)
SELECT setseed(0.5)
SELECT pg_sleep(1)
SELECT pg_sleep_for('1 s')
SELECT 1 WHERE EXISTS (SELECT pg_sleep(1))
SELECT pg_terminate_backend(1)
SELECT pg_cancel_backend(1)
SELECT pg_advisory_lock(1)
SELECT pg_notify('a', 'b')
SELECT pg_reload_conf()
SELECT pg_stat_reset()
SELECT pg_switch_wal()
SELECT pg_create_restore_point('x')
SELECT pg_logical_emit_message(true, 'a', 'b')
SELECT pg_read_file('/etc/passwd')
SELECT pg_read_binary_file('/etc/passwd')
SELECT pg_ls_dir('/')
SELECT * FROM pg_ls_dir('/')
SELECT pg_stat_file('/etc/passwd')
SELECT ('/etc/hostname'::text).pg_read_file
SELECT (name).pg_read_file FROM customers
SELECT ((SELECT name FROM customers LIMIT 1)).pg_ls_dir
SELECT pg_catalog.pg_read_file('/etc/hostname')
SELECT "pg_read_file"('/etc/hostname')
SELECT U&"pg_read\005ffile"('/etc/hostname')
SELECT lo_import('/etc/passwd')
SELECT lo_export(1, '/x')
SELECT lo_create(7)
SELECT lo_unlink(7)
SELECT query_to_xml('delete from orders', true, true, '')
SELECT table_to_xml('orders', true, true, '')
SELECT ts_stat('delete from orders')
SELECT * FROM ts_stat('select 1')
SELECT ts_rewrite('a'::tsquery, 'select 1')
SELECT * FROM dblink('x', 'delete from orders') AS t(a int)
SELECT * FROM crosstab('delete from orders') AS t(a int)
SELECT * FROM purge_all()
SELECT purge_all()
SELECT app.lower('x')
SELECT app."lower"(1)
SELECT * FROM app.json_each('x')
SELECT * FROM orders CROSS JOIN LATERAL app.unnest(orders.a)
SELECT 1 OPERATOR(app.+) 2
SELECT 'x'::app.mood
SELECT 'x'::mood
SELECT CAST('x' AS mood)
SELECT txid_current()
SELECT current_setting('x')
SELECT AI_GENERATE('x')
SELECT XMLTABLE('x')
SELECT NEXT VALUE FOR s
EXPLAIN ANALYZE DELETE FROM orders
EXPLAIN (ANALYZE) UPDATE orders SET total = 1
EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1
EXPLAIN ANALYZE EXECUTE p
COPY (SELECT 1) TO PROGRAM 'x'
COPY orders FROM '/etc/passwd'
PREPARE p AS DELETE FROM orders
CALL p()
DO 'begin end'
SET search_path = app
RESET ALL
LISTEN x
NOTIFY x
LOCK orders
VACUUM
REFRESH MATERIALIZED VIEW x
TABLE orders FOR UPDATE
VALUES (nextval('s'))
SELECT 1; SET search_path = app
SELECT E'\'/*' ; DELETE FROM orders; --*/''
SELECT '\', ' ; DELETE FROM orders; --'
SELECT $a$x$a$; DELETE FROM orders
"""

MYSQL = r"""
SELECT 1 INTO OUTFILE '/x'
SELECT 1 INTO DUMPFILE '/x'
SELECT 1 INTO @a
TABLE orders INTO OUTFILE '/x'
SELECT @a := 1
SELECT sleep(50)
SELECT benchmark(1000000, md5('a'))
SELECT load_file('/etc/passwd')
SELECT "load_file"('/etc/passwd')
SELECT get_lock('a', 1)
SELECT release_lock('a')
SELECT release_all_locks()
SELECT is_used_lock('a')
SELECT master_pos_wait('a', 1)
SELECT last_insert_id(5)
SELECT sys_exec('rm')
SELECT sys_eval('rm')
SELECT app.lower('x')
SELECT * FROM orders FOR UPDATE
SELECT * FROM orders FOR SHARE
SELECT * FROM orders LOCK IN SHARE MODE
SELECT 1 /*! ; DELETE FROM orders */
SELECT 1 /*!50000 INTO OUTFILE '/x' */
SELECT 1 /*M! INTO OUTFILE '/x' */
SELECT /*+ SET_VAR(sql_mode = '') */ 1
SELECT 1 --1 INTO OUTFILE '/x'
SELECT '\' ; DELETE FROM orders; -- '
SELECT * FROM orders PROCEDURE ANALYSE()
CALL p()
DO sleep(1)
SET @a = 1
HANDLER orders OPEN
LOCK TABLES orders WRITE
LOAD DATA INFILE '/x' INTO TABLE orders
FLUSH TABLES
KILL 1
REPLACE INTO customers (id) VALUES (9)
DESCRIBE DELETE FROM orders
EXPLAIN ANALYZE DELETE FROM orders
SHOW TABLES; DROP TABLE orders
USE mysql
SELECT AI_GENERATE('x')
SELECT 1; CALL p()
WITH x AS (SELECT 1) DELETE FROM orders
"""

DUCKDB = r"""
FROM '{CSV}'
FROM "{CSV}"
TABLE '{CSV}'
SELECT * FROM '{CSV}'
SELECT * FROM orders, '{CSV}'
SELECT * FROM (FROM '{CSV}')
SELECT * FROM near.csv
SELECT * FROM "near.csv"
SELECT * FROM "near"."csv"
SELECT * FROM main.near.csv
SELECT * FROM 'https://example.org/x.parquet'
SELECT * FROM 's3://bucket/*.parquet'
FROM near.db
DESCRIBE '{CSV}'
SUMMARIZE '{CSV}'
SHOW '{CSV}'
PIVOT '{CSV}' ON a
SELECT * FROM read_csv('{CSV}')
SELECT * FROM read_csv_auto('{CSV}')
SELECT * FROM read_text('{CSV}')
SELECT * FROM read_blob('{CSV}')
SELECT * FROM read_json('x.json')
SELECT * FROM read_parquet('x.parquet')
SELECT * FROM parquet_scan('x.parquet')
SELECT * FROM parquet_metadata('x.parquet')
SELECT * FROM sniff_csv('{CSV}')
SELECT * FROM glob('/etc/*')
SELECT * FROM query('SELECT * FROM ''x.csv''')
SELECT * FROM query_table('x.csv')
FROM query_table(['orders'])
SELECT * FROM json_execute_serialized_sql('x')
SELECT * FROM sqlite_scan('x.db', 't')
SELECT * FROM postgres_query('x', 'delete from t')
SELECT * FROM iceberg_scan('x')
SELECT * FROM checkpoint()
SELECT * FROM force_checkpoint()
SELECT * FROM enable_logging()
SELECT * FROM duckdb_secrets()
SELECT * FROM which_secret('s3://x', 's3')
SELECT * FROM python_map_function('x')
SELECT getenv('HOME')
SELECT write_log('x')
SELECT sleep_ms(1000)
SELECT nextval('s')
SELECT setseed(0.5)
SELECT current_setting('s3_secret_access_key')
SELECT getvariable('x')
SELECT 'SELECT 1'.query()
SELECT '/etc/hostname'.read_text()
SELECT '1.1.1.1'::INET
SELECT x::GEOMETRY
SELECT 'a' COLLATE de
ATTACH 'x.db'
DETACH x
INSTALL httpfs
LOAD httpfs
COPY orders TO '/x.csv'
COPY (SELECT 1) TO '/x.csv'
EXPORT DATABASE '/x'
IMPORT DATABASE '/x'
SET threads = 1
SET VARIABLE x = 1
PRAGMA threads = 1
PRAGMA enable_profiling
CALL pragma_version()
CREATE TABLE x AS SELECT 1
CREATE SECRET s (TYPE s3)
CHECKPOINT
FORCE CHECKPOINT
INSERT INTO customers (id) VALUES (9)
FROM orders SELECT nextval('s')
EXPLAIN ANALYZE DELETE FROM orders
EXPLAIN ANALYZE COPY orders TO '/x.csv'
SELECT 1; SET threads = 1
SELECT e'\' ; DELETE FROM orders; -- '
SELECT $$a$$; DELETE FROM orders
SELECT AI_GENERATE('x')
SELECT app.lower('x')
WITH x AS (FROM '{CSV}') FROM x
SELECT (SELECT max(a) FROM near.csv)
SELECT 1 WHERE 1 IN (FROM near.csv SELECT a)
"""


def _statements(text: str) -> list[str]:
    for name, character in _HIDDEN.items():
        text = text.replace(name, character)
    return text.strip("\n").split("\n")


ATTACKS = {
    dialect: _statements(text)
    for dialect, text in {
        "sqlite": SQLITE,
        "postgres": POSTGRES,
        "mysql": MYSQL,
        "duckdb": DUCKDB,
    }.items()
}
"""By database. `{CSV}` is a file that is there."""

ADDRESSES = [
    "file:///etc/passwd",
    "ftp://x.org",
    "gopher://x.org",
    "http://169.254.169.254/latest",
    "http://2852039166/",
    "http://0xA9FEA9FE/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://[fd00:ec2::254]/",
    "http://[::ffff:169.254.169.254]/",
    "http://metadata.google.internal/",
    "http://METADATA.google.internal./",
    "http://metadata/",
    "http://localhost:8080",
    "http://127.0.0.1",
    "http://127.1",
    "http://10.0.0.5/",
    "http://x.org@169.254.169.254/",
    "http://169.254.169.254#@x.org/",
    "http://x.org\\@169.254.169.254/",
    "http:\\\\169.254.169.254\\",
    "//169.254.169.254/",
    "http:169.254.169.254",
    "http:/169.254.169.254",
    "https://x.org/1?_method=delete",
    "https://x.org/1?%5Fmethod=delete",
    "https://x.org/1?method=delete",
    "https://x.org/1?a=b&_method=PUT",
    "https://x.org/1 HTTP/1.1\r\n\r\nDELETE /1",
    "https://x.org/%0d%0aDELETE",
    "http://\u0661\u0666\u0669.254.169.254/",
    "http://\uff11\uff16\uff19.254.169.254",
    "http://169%2e254.169.254/",
    "http://168.63.129.16/",
    "http://8.8.8.8/",
    "javascript:alert(1)",
    "localhost/admin",
    "169.254.169.254/latest",
    "http://a.localhost/",
    "http://x.org:80@10.0.0.1/",
    "http://printer.local/",
    "http://x.org:99999999/",
    " http://x.org@10.0.0.1",
    "https://x.org?u=http://169.254.169.254/",
]
"""Of files, of other protocols, of this machine and its network, of clouds' credentials, and of other methods."""

REQUESTS = [
    {"path": "@169.254.169.254/latest"},  # as tools put it behind an address
    {"path": "//169.254.169.254/latest"},
    {"route": ".evil.internal/x"},
    {"url": "https://x.org", "headers": {"X-HTTP-Method-Override": "DELETE"}},
    {"url": "https://x.org", "headers": {"x_http_method_override": "DELETE"}},
    {"url": "https://x.org", "headers": {"X-Method": "DELETE"}},
    {"url": "https://x.org", "headers": {"X-Method-Override": "DELETE"}},
    {"url": "https://x.org", "headers": "X-HTTP-Method: DELETE"},
    {"url": "https://x.org", "params": {"_method": "DELETE"}},
    {"url": "https://x.org", "params": {"method": "DELETE"}},
    {"url": "https://x.org", "params": [["method", "DELETE"]]},
    {"url": "https://x.org", "params": "method=delete"},
    {"url": "https://x.org", "params": '{"method": "delete"}'},
    {"url": "https://x.org", "body": "x"},
    {"url": "https://x.org", "data": {"a": 1}},
    {"url": "https://x.org", "json": [1]},
    {"url": "https://x.org", "files": ["/etc/passwd"]},
    {"url": "https://x.org", "requestBody": "x"},
    {"url": "https://x.org", "options": {"body": "x"}},
    {"url": "https://x.org", "save_to": "/x"},
    {"url": "https://x.org", "headers": {"A": "b\r\nX: y"}},
    {"host": "orders", "path": "/"},
    {"host": "10.0.0.1"},
    {"url": "https://x.org", "proxy": "http://10.0.0.1"},
    {"url": "https://x.org", "params": {"url": "http://169.254.169.254/"}},
]
"""That hand something over, or mean another method."""
