"""Queries that people ask of their data, and a small shop to ask them of: none may be taken for a write."""

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(40), city VARCHAR(40), email VARCHAR(60), joined DATE);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer_id INTEGER, placed DATE, total NUMERIC(10, 2), status VARCHAR(10), data {json}
);
CREATE TABLE items (order_id INTEGER, product VARCHAR(40), quantity INTEGER, price NUMERIC(10, 2));
CREATE TABLE "Order Details" (id INTEGER, "Unit Price" NUMERIC(10, 2));
INSERT INTO customers VALUES (1, 'Ann', 'Wien', 'ann@x.org', '2024-01-02'), (2, 'Bob', NULL, 'bob@x.org', '2024-03-01');
INSERT INTO orders VALUES
    (1, 1, '2024-02-01', 20, 'paid', '{{"a": {{"b": [1, 2]}}, "tags": ["x", "y"]}}'),
    (2, 1, '2024-02-03', 35.5, 'open', '{{"a": 2}}'), (3, 2, '2024-03-05', 8, 'paid', NULL);
INSERT INTO items VALUES (1, 'tea', 2, 5), (1, 'cup', 1, 10), (2, 'pot', 1, 35.5), (3, 'tea', 1, 8);
INSERT INTO "Order Details" VALUES (1, 2.5);
"""

EVERYWHERE = """
SELECT * FROM customers
SELECT name, city FROM customers WHERE city = 'Wien' ORDER BY name DESC LIMIT 10 OFFSET 0;
SELECT COUNT(*) AS n FROM orders
SELECT count(DISTINCT customer_id) FROM orders WHERE status <> 'open' AND total >= 10
SELECT status, COUNT(*), SUM(total), AVG(total), MIN(total), MAX(total) FROM orders GROUP BY status HAVING COUNT(*) > 0
SELECT c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id
SELECT c.name, COALESCE(SUM(o.total), 0) AS spent FROM customers c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY c.name
SELECT c.name, i.product FROM customers c INNER JOIN orders o ON c.id = o.customer_id INNER JOIN items i ON i.order_id = o.id
SELECT a.id, b.product FROM orders a CROSS JOIN items b WHERE a.id = b.order_id
SELECT a.name, b.name FROM customers a, customers b WHERE a.id < b.id
SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE total > 30)
SELECT name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)
SELECT name FROM customers WHERE name LIKE 'A%' OR email NOT LIKE '%@y.org'
SELECT name FROM customers WHERE city IS NULL OR city IS NOT NULL
SELECT id FROM orders WHERE total BETWEEN 5 AND 25 AND id NOT IN (7, 8)
SELECT name FROM customers UNION SELECT product FROM items ORDER BY 1
SELECT id FROM customers UNION ALL SELECT id FROM orders
SELECT id FROM customers EXCEPT SELECT customer_id FROM orders
SELECT id FROM customers INTERSECT SELECT customer_id FROM orders
WITH spent AS (SELECT customer_id, SUM(total) AS s FROM orders GROUP BY customer_id) SELECT * FROM spent WHERE s > 10
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT a.x, b.y FROM a, b
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n
SELECT id, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY placed) AS nth FROM orders
SELECT id, SUM(total) OVER (ORDER BY placed ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM orders
SELECT id, total - LAG(total, 1) OVER (ORDER BY placed) AS change, RANK() OVER w FROM orders WINDOW w AS (ORDER BY total)
SELECT id, NTILE(4) OVER (ORDER BY total), DENSE_RANK() OVER (ORDER BY total DESC), PERCENT_RANK() OVER (ORDER BY total) FROM orders
SELECT CASE WHEN total > 20 THEN 'large' WHEN total > 10 THEN 'middle' ELSE 'small' END AS size, COUNT(*) FROM orders GROUP BY 1
SELECT SUM(CASE status WHEN 'paid' THEN total ELSE 0 END) / COUNT(*) * 100.0 AS share FROM orders
SELECT UPPER(name), LOWER(email), LENGTH(name), TRIM(name), REPLACE(name, 'n', 'm'), SUBSTR(name, 1, 2) FROM customers
SELECT ROUND(AVG(price * quantity), 2), ABS(-3), 7 % 3, CAST(total AS INTEGER) FROM orders JOIN items ON order_id = orders.id GROUP BY total
SELECT t.n FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t ORDER BY t.n DESC, t.status LIMIT 1
SELECT NULLIF(status, 'open'), (SELECT MAX(total) FROM orders) AS top FROM orders o WHERE total = (SELECT MIN(total) FROM orders)
SELECT name -- who bought most
FROM customers /* all of them, in any city */ WHERE id = 1
SELECT DISTINCT product FROM items WHERE product IN ('tea', 'cup; pot', 'it''s') ORDER BY product
SELECT placed, CURRENT_DATE, CURRENT_TIMESTAMP FROM orders WHERE placed < CURRENT_DATE
"""

SQLITE = """
SELECT strftime('%Y-%m', placed) AS month, SUM(total) FROM orders GROUP BY month
SELECT date('now', '-30 days'), datetime('now', 'localtime'), julianday('now') - julianday(placed) FROM orders
SELECT unixepoch(placed), time('now') FROM orders
SELECT json_extract(data, '$.a.b[0]'), data -> 'a', data ->> '$.a' FROM orders
SELECT o.id, t.value FROM orders o, json_each(o.data, '$.tags') AS t WHERE json_valid(o.data)
SELECT key, value, type FROM json_tree('{"a": [1, 2]}')
SELECT json_group_array(name), json_group_object(id, name), json_array_length('[1,2]') FROM customers
SELECT json_object('id', id, 'name', name), json_array(1, 2) FROM customers
SELECT group_concat(product, ', '), total(price) FROM items
SELECT group_concat(DISTINCT product) FROM items
SELECT ifnull(city, 'unknown'), iif(city IS NULL, 1, 0), typeof(city) FROM customers
SELECT printf('%.2f', total), format('%05d', id), hex(status), quote(status) FROM orders
SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
SELECT sql FROM sqlite_schema
SELECT [Unit Price], `id`, "id" FROM "Order Details"
SELECT instr(email, '@'), substr(email, 1, instr(email, '@') - 1), ltrim(name), rtrim(name, 'n') FROM customers
SELECT name || ' <' || email || '>' FROM customers WHERE name GLOB 'A*'
SELECT COUNT(*) FILTER (WHERE status = 'paid') FROM orders
SELECT name FROM customers WHERE name LIKE '50\\%' ESCAPE '\\'
SELECT name FROM customers ORDER BY city NULLS LAST, name COLLATE NOCASE
SELECT max(total, 10), min(total, 10), random() % 5 FROM orders
SELECT rowid, * FROM customers WHERE rowid = 1
SELECT sum(total) FILTER (WHERE id > 1) OVER (PARTITION BY status) FROM orders
SELECT first_value(id) OVER w, last_value(id) OVER w FROM orders WINDOW w AS (PARTITION BY status ORDER BY id)
PRAGMA table_info(customers)
PRAGMA table_info('customers');
PRAGMA foreign_key_list("orders")
PRAGMA index_list(customers)
EXPLAIN QUERY PLAN SELECT * FROM orders WHERE id = 1
SELECT 1; SELECT 2;
VALUES (1, 'a'), (2, 'b')
SELECT sqlite_version(), changes(), last_insert_rowid()
SELECT x'ab', 0x1F, 1e3, TRUE, -total, ~id, id << 1, id & 1, id | 2 FROM orders
"""

POSTGRES = """
SELECT date_trunc('month', placed) AS month, SUM(total) FROM orders GROUP BY 1 ORDER BY 1
SELECT EXTRACT(YEAR FROM placed), EXTRACT(EPOCH FROM now()), date_part('dow', placed) FROM orders
SELECT placed + INTERVAL '1 day', now() - INTERVAL '30 days', age(now(), placed) FROM orders
SELECT to_char(placed, 'YYYY-MM'), to_date('2024', 'YYYY'), to_timestamp(0) FROM orders
SELECT data -> 'a' -> 'b', data ->> 'a', data #>> '{a,b}', data -> 'tags' -> 0 FROM orders
SELECT id FROM orders WHERE data @> '{"a": 2}' OR data ? 'tags'
SELECT o.id, t.tag FROM orders o CROSS JOIN LATERAL jsonb_array_elements_text(o.data -> 'tags') AS t(tag)
SELECT key, value FROM orders, jsonb_each(data)
SELECT jsonb_agg(name), json_build_object('n', count(*)), jsonb_object_agg(id, name), row_to_json(c) FROM customers c GROUP BY c.*
SELECT jsonb_array_length(data -> 'tags'), jsonb_typeof(data), jsonb_path_query_first(data, '$.a') FROM orders WHERE data ? 'tags'
SELECT string_agg(product, ', ' ORDER BY product), array_agg(DISTINCT price) FROM items
SELECT array_to_string(ARRAY[1, 2], ','), (ARRAY[1, 2])[1], unnest(ARRAY['a', 'b']), cardinality(ARRAY[1]), array_length(ARRAY[1], 1)
SELECT id FROM orders WHERE status = ANY(ARRAY['paid', 'open']) AND id <> ALL (SELECT 9)
SELECT DISTINCT ON (customer_id) customer_id, total FROM orders ORDER BY customer_id, total DESC
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total), mode() WITHIN GROUP (ORDER BY status) FROM orders
SELECT COUNT(*) FILTER (WHERE status = 'paid'), bool_and(total > 5), stddev(total), corr(total, id) FROM orders
SELECT g, COUNT(o.id) FROM generate_series('2024-02-01'::date, '2024-02-03'::date, '1 day') AS g LEFT JOIN orders o ON o.placed = g GROUP BY g
SELECT name FROM customers WHERE name ILIKE 'a%' OR name ~ '^A\\w+' OR name ~* 'b' OR name SIMILAR TO 'A%'
SELECT split_part(email, '@', 2), position('@' IN email), substring(email FROM 1 FOR 3), regexp_replace(email, '\\d', '', 'g') FROM customers
SELECT left(name, 1), right(name, 1), lpad(id::text, 5, '0'), initcap(name), md5(name), concat(name, '-', id), concat_ws(',', name, city) FROM customers
SELECT customer_id, status, SUM(total) FROM orders GROUP BY ROLLUP (customer_id, status)
SELECT customer_id, status, SUM(total), GROUPING(status) FROM orders GROUP BY GROUPING SETS ((customer_id), (status), ())
SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'
SELECT relname, pg_size_pretty(pg_total_relation_size(oid)) FROM pg_catalog.pg_class WHERE relkind = 'r' LIMIT 3
SELECT total::int, total::numeric(10, 1), id::text, '2024-01-01'::timestamptz AT TIME ZONE 'UTC' FROM orders
SELECT greatest(total, 10), least(total, 10), round(total::numeric, 1), ceil(total), floor(total), mod(id, 2), power(2, 3), random() FROM orders
SELECT * FROM orders ORDER BY total DESC NULLS LAST FETCH FIRST 2 ROWS ONLY
SELECT to_tsvector('english', name) @@ plainto_tsquery('ann'), ts_rank(to_tsvector(name), to_tsquery('ann')) FROM customers
SELECT "Unit Price" FROM public."Order Details"
EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM orders
EXPLAIN ANALYZE SELECT * FROM orders WHERE id = 1
SHOW server_version
SELECT version(), current_database(), current_user, current_schema(); SELECT 2
SELECT id, row_number() OVER w, avg(total) OVER (ORDER BY placed RANGE BETWEEN INTERVAL '7 days' PRECEDING AND CURRENT ROW) FROM orders WINDOW w AS (ORDER BY id)
SELECT v.a, v.b FROM (VALUES (1, 'x'), (2, 'y')) AS v(a, b) FULL OUTER JOIN orders ON v.a = id NATURAL JOIN items WHERE (v.a, v.b) = (1, 'x')
SELECT TRIM(BOTH ' ' FROM name), CAST(id AS VARCHAR(5)), make_date(2024, 1, 1), width_bucket(5, 0, 10, 5), id IS DISTINCT FROM 1 FROM customers
TABLE customers
"""

MYSQL = """
SELECT DATE_FORMAT(placed, '%Y-%m') AS month, SUM(total) FROM orders GROUP BY month
SELECT YEAR(placed), MONTH(placed), DAY(placed), DAYOFWEEK(placed), WEEK(placed), QUARTER(placed) FROM orders
SELECT DATE_ADD(placed, INTERVAL 1 DAY), DATE_SUB(NOW(), INTERVAL 30 DAY), DATEDIFF(NOW(), placed) FROM orders
SELECT TIMESTAMPDIFF(DAY, placed, NOW()), STR_TO_DATE('2024', '%Y'), UNIX_TIMESTAMP(placed), FROM_UNIXTIME(0) FROM orders
SELECT placed + INTERVAL 1 MONTH, CURDATE(), LAST_DAY(placed), EXTRACT(YEAR FROM placed), DATE(placed) FROM orders
SELECT JSON_EXTRACT(data, '$.a'), data -> '$.a', data ->> '$.a', JSON_UNQUOTE(data), JSON_LENGTH(data) FROM orders
SELECT JSON_OBJECT('id', id), JSON_ARRAY(1, 2), JSON_ARRAYAGG(name), JSON_CONTAINS('[1]', '1') FROM customers GROUP BY id
SELECT t.tag FROM orders, JSON_TABLE(data, '$.tags[*]' COLUMNS (tag VARCHAR(10) PATH '$')) AS t
SELECT GROUP_CONCAT(DISTINCT product ORDER BY product SEPARATOR ', ') FROM items
SELECT IFNULL(city, 'unknown'), IF(city IS NULL, 1, 0), ISNULL(city), NULLIF(city, '') FROM customers
SELECT CONCAT(name, ' ', email), CONCAT_WS(',', name, city), CHAR_LENGTH(name), LEFT(name, 1), RIGHT(name, 1) FROM customers
SELECT SUBSTRING_INDEX(email, '@', -1), LOCATE('@', email), INSTR(email, '@'), LPAD(id, 5, '0'), SUBSTRING(name, 1, 2) FROM customers
SELECT name FROM customers WHERE name REGEXP '^A' OR name RLIKE 'b' OR REGEXP_LIKE(name, 'c')
SELECT `name` FROM `customers` WHERE `id` = 1 LIMIT 5, 10
SELECT FORMAT(total, 2), ROUND(total), TRUNCATE(total, 1), CEILING(total), FLOOR(total), MOD(id, 2), 7 DIV 2, RAND() FROM orders
SELECT GREATEST(total, 10), LEAST(total, 10), STDDEV(total), VARIANCE(total), STD(total) FROM orders GROUP BY total
SELECT status, SUM(total) FROM orders GROUP BY status WITH ROLLUP
SELECT CAST(total AS SIGNED), CAST(id AS CHAR), CONVERT(name USING utf8mb4), CONVERT(total, DECIMAL(10, 2)) FROM orders
SELECT table_name, table_rows FROM information_schema.tables WHERE table_schema = DATABASE()
SELECT COUNT(*), SUM(status = 'paid') FROM orders # all of them
SELECT * FROM orders USE INDEX (PRIMARY) WHERE id = 1
SELECT MATCH(name) AGAINST ('ann' IN NATURAL LANGUAGE MODE) FROM customers
SELECT VERSION(), USER(), @@version
SELECT STRAIGHT_JOIN * FROM customers JOIN orders ON orders.customer_id = customers.id
SELECT DAYNAME(placed), MONTHNAME(placed), WEEKDAY(placed), HOUR(NOW()), MINUTE(NOW()) FROM orders
SELECT FIELD(status, 'paid', 'open'), ELT(1, 'a', 'b'), FIND_IN_SET('a', 'a,b'), MD5(name), SHA2(name, 256), HEX(name) FROM customers, orders
SELECT ANY_VALUE(name), MAX(joined) FROM customers GROUP BY city ORDER BY FIELD(city, 'Wien', 'Graz'), NULL
SELECT id XOR 1, id && 1, NOT id, id <=> NULL, !id FROM orders
SHOW TABLES
SHOW FULL COLUMNS FROM orders
SHOW CREATE TABLE `orders`;
SHOW TABLES LIKE 'o%'
SHOW INDEX FROM orders
DESCRIBE orders
EXPLAIN FORMAT=JSON SELECT * FROM orders
SELECT 1; SELECT 2
TABLE orders
"""

DUCKDB = """
SELECT date_trunc('month', placed) AS month, SUM(total) FROM orders GROUP BY ALL ORDER BY ALL
SELECT EXTRACT(YEAR FROM placed), year(placed), month(placed), dayofweek(placed), strftime(placed, '%Y-%m') FROM orders
SELECT placed + INTERVAL 1 DAY, now() - INTERVAL '30 days', date_diff('day', placed, current_date) FROM orders
SELECT strptime('2024-01-01', '%Y-%m-%d'), epoch(now()), make_date(2024, 1, 1), date_add(placed, INTERVAL 1 MONTH), last_day(placed) FROM orders
SELECT data -> 'a', data ->> '$.a', json_extract(data, '$.a.b'), json_extract_string(data, '$.a'), data.a FROM orders
SELECT id, unnest(from_json(data -> 'tags', '["VARCHAR"]')) AS tag FROM orders WHERE (data -> 'tags') IS NOT NULL
SELECT json_group_array(name), json_object('id', 1), json_array_length('[1]'), json_keys('{"a": 1}') FROM customers
SELECT list(name), string_agg(name, ', ' ORDER BY name), array_agg(DISTINCT city), first(name), any_value(name) FROM customers
SELECT [1, 2, 3][1], list_contains([1], 1), len([1]), list_transform([1, 2], lambda x: x + 1), [x * 2 FOR x IN [1, 2] IF x > 1]
SELECT {'a': 1, 'b': 'x'} AS s, struct_pack(a := 1), s.a FROM (SELECT {'a': 1} AS s)
SELECT map {'a': 1}['a'], map_keys(map {'a': 1}), [1, 2, 3][1:2]
SELECT * EXCLUDE (email) FROM customers
SELECT * REPLACE (upper(name) AS name) FROM customers
SELECT COLUMNS('n.*') FROM customers
FROM orders SELECT status, COUNT(*) GROUP BY status
FROM orders LIMIT 2
SELECT id, total FROM orders QUALIFY row_number() OVER (PARTITION BY customer_id ORDER BY total DESC) = 1
SELECT median(total), quantile_cont(total, 0.9), mode(status), approx_count_distinct(id), arg_max(id, total), stddev(total) FROM orders
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total), COUNT(*) FILTER (WHERE status = 'paid'), count_if(total > 9) FROM orders
SELECT o.id, d.range FROM orders o, range(3) AS d
SELECT unnest(generate_series(1, 3)), unnest([1, 2])
SELECT name FROM customers WHERE name ILIKE 'a%' OR regexp_matches(name, '^A\\d') OR name SIMILAR TO 'A.*' OR name GLOB 'A*'
SELECT split_part(email, '@', 2), regexp_extract(email, '@(.*)', 1), string_split(email, '@'), contains(email, '@'), starts_with(email, 'a') FROM customers
SELECT concat(name, '-', city), lpad(id::VARCHAR, 5, '0'), left(name, 1), right(name, 1), reverse(name), name || city, format('{}', id) FROM customers
SELECT total::INT, TRY_CAST(status AS INTEGER), total::DECIMAL(10, 1), id::VARCHAR, typeof(id) FROM orders
SELECT customer_id, status, SUM(total) FROM orders GROUP BY ROLLUP (customer_id, status)
SELECT customer_id, SUM(total) FROM orders GROUP BY CUBE (customer_id, status)
SELECT * FROM orders USING SAMPLE 10
SELECT * FROM orders a ASOF JOIN customers c ON a.customer_id = c.id AND a.placed >= c.joined
SELECT * FROM customers ANTI JOIN orders ON orders.customer_id = customers.id
SELECT * FROM orders POSITIONAL JOIN customers
SELECT table_name, column_name FROM information_schema.columns
SELECT * FROM duckdb_tables()
SHOW TABLES
DESCRIBE orders
SUMMARIZE orders
EXPLAIN ANALYZE SELECT * FROM orders
SELECT 1; SELECT 2
SELECT greatest(total, 10), round(total, 1), ceil(total), 7 // 2, 2 ** 3, total % 3, random() < 2, if(id = 1, 'a', 'b'), ifnull(status, 'x') FROM orders
SELECT id, lag(total) OVER (ORDER BY placed), sum(total) OVER (PARTITION BY status ORDER BY placed RANGE BETWEEN INTERVAL 7 DAYS PRECEDING AND CURRENT ROW) FROM orders
SELECT "Unit Price" FROM main."Order Details" UNION ALL BY NAME SELECT 1 AS "Unit Price"
"""


def _queries(text: str) -> list[str]:
    queries: list[str] = []
    for line in text.strip().splitlines():
        if line.startswith("FROM customers /*"):
            queries[-1] += f"\n{line}"
        else:
            queries.append(line)
    return queries


ORDINARY = {
    dialect: _queries(EVERYWHERE) + _queries(own)
    for dialect, own in {
        "sqlite": SQLITE,
        "postgres": POSTGRES,
        "mysql": MYSQL,
        "duckdb": DUCKDB,
    }.items()
}
