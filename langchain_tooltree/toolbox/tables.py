"""Tables: SQL over CSV, Parquet and JSON files of the folder, in memory, by duckdb."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePath
from typing import Any

from langchain_tooltree.errors import did_you_mean, import_extra
from langchain_tooltree.text import cut, one_line
from langchain_tooltree.toolbox.entries import RefusedError, check_text, entry, inside, names_in

MAX_SQL = 10_000
"""Characters of a query."""

MAX_ROWS = 100
"""Rows of a result. A query that aggregates needs fewer, one with LIMIT and OFFSET sees the rest."""

MAX_CELL = 300
"""Characters of one value of a result."""

MAX_TABLES = 20
"""Files of one query."""

MEMORY = "1GB"
"""What duckdb may use; it writes nothing to the disk."""

NO_EXTENSIONS = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
OPTIONS = {"memory_limit": MEMORY, "threads": "2", "temp_directory": "", **NO_EXTENSIONS}
LOCKS = ("enable_external_access = false", "python_enable_replacements = false", "lock_configuration = true")
"""Settings after which a database reads no file, no variable of this process, and keeps these settings."""

READERS = {".csv": "read_csv", ".tsv": "read_csv", ".parquet": "read_parquet"}
READERS |= dict.fromkeys((".json", ".jsonl", ".ndjson"), "read_json")


@contextmanager
def _loaded(files: list[str], folder: str) -> Iterator[tuple[Any, dict[str, str]]]:
    """A database with the files as tables, which from then on reaches nothing outside itself; and the tables' names."""
    duckdb = import_extra("duckdb", "toolbox", "tables")
    if not 0 < len(files) <= MAX_TABLES:
        found, more = _tables(folder)
        more += [f"{len(found) - MAX_ROWS:,} more"] * (len(found) > MAX_ROWS)
        msg = f"Name 1 to {MAX_TABLES} files. There are: {', '.join(found[:MAX_ROWS] + more) or 'none'}."
        raise RefusedError(msg)
    with closing(duckdb.connect(":memory:", config=OPTIONS)) as database:
        names: dict[str, str] = {}
        folded = Counter(file.lower() for file in files)
        for file in dict.fromkeys(files):
            sql, plain = _read(file, folder)
            name = _table_name(Path(file), names)
            names[name] = file
            try:
                database.execute(f'CREATE TABLE "{name}" AS {sql}', plain)
                quoted = file.replace('"', '""')  # models also write FROM 'sales.csv', as duckdb's own manual does
                if folded[file.lower()] == files.count(file):  # to SQL, A.csv is a.csv
                    database.execute(f'CREATE VIEW "{quoted}" AS FROM "{name}"')
            except duckdb.Error as error:
                msg = f"{file!r} cannot be read as a table: {_without_advice(error).replace(plain[0], file)[:300]}"
                raise RefusedError(msg) from error
        for setting in LOCKS:
            database.execute(f"SET {setting}")
        yield database, names


def _table_name(path: Path, taken: dict[str, str]) -> str:
    name = "".join(each if each.isascii() and each.isalnum() else "_" for each in path.stem.lower()) or "table"
    name = f"t_{name}" if name[0].isdigit() else name
    while name in taken:
        name += "_2"
    return name


def _read(file: str, folder: str) -> tuple[str, list[str]]:
    """How duckdb reads a file, and with what."""
    path = inside(folder, file)
    suffix = PurePath(file).suffix.lower()
    if suffix not in READERS:
        msg = f"{file!r} is no table. Known endings: {', '.join(READERS)}."
        raise RefusedError(msg)
    # What the reader expands, such as a star, is part of a name here: inside() has found this very file.
    plain = "".join(f"[{each}]" if each in "*?[" else each for each in str(path))
    encoding = f", encoding = '{_encoding(path)}'" if READERS[suffix] == "read_csv" else ""
    return f"SELECT * FROM {READERS[suffix]}(?{encoding})", [plain]  # noqa: S608 - our own names


def _encoding(path: Path) -> str:
    """What a CSV file is in: older programs do not write UTF-8, and the reader takes nothing else by itself."""
    data = path.read_bytes()
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def _columns(file: str, folder: str, database: Any) -> str:
    """The columns of a file as far as its beginning shows them."""
    duckdb = import_extra("duckdb", "toolbox", "tables")
    try:
        sql, plain = _read(file, folder)
        rows = database.execute(f"DESCRIBE {sql}", plain).fetchall()
    except RefusedError as error:
        return f"cannot be read: {error}"
    except duckdb.Error as error:
        return f"cannot be read: {cut(str(error).replace(plain[0], file), MAX_CELL)}"
    return ", ".join(f"{row[0]} {row[1]}" for row in rows)


def _tables(folder: str) -> tuple[list[str], list[str]]:
    return names_in(folder, tuple(READERS))


@entry("tables", {"files": ["sales.csv"]}, packages=("duckdb",))
def describe_tables(files: list[str] | None = None, *, folder: str) -> str:
    """Columns, types, number of rows and first rows of table files; without files, all table files with their columns.

    Args:
        files: CSV, Parquet or JSON files of the folder.
    """
    if not files:
        duckdb, (found, more) = import_extra("duckdb", "toolbox", "tables"), _tables(folder)
        with closing(duckdb.connect(":memory:", config=OPTIONS)) as database:
            lines = [f"{file}: {_columns(file, folder, database)}" for file in found[:MAX_TABLES]]
        lines += found[MAX_TABLES:MAX_ROWS] + [f"[{len(found) - MAX_ROWS:,} more]"] * (len(found) > MAX_ROWS)
        return "\n".join(lines + more) or "There are no table files."
    told = []
    with _loaded(files, folder) as (database, names):
        for name, file in names.items():
            table = database.table(f'"{name}"')
            columns = ", ".join(f"{column} {kind}" for column, kind in zip(table.columns, table.types, strict=True))
            rows = table.count("*").fetchall()[0][0]
            told.append(f"{file} is the table {name}: {rows:,} rows\n{columns}\n{_written(table.limit(3))}")
    return "\n\n".join(told)


@entry(
    "tables",
    {"sql": "SELECT region, sum(amount) FROM sales GROUP BY region ORDER BY 2 DESC", "files": ["sales.csv"]},
    packages=("duckdb",),
)
def query_tables(sql: str, files: list[str], *, folder: str) -> str:
    """Answer one SQL query (DuckDB's dialect) over table files. The table of sales.csv is named sales.

    Args:
        sql: One SELECT. It reads nothing but the tables of these files.
        files: The CSV, Parquet or JSON files of the folder that the query uses.
    """
    duckdb = import_extra("duckdb", "toolbox", "query_tables")
    with _loaded(files, folder) as (database, names):
        try:
            statements = database.extract_statements(check_text("sql", sql, MAX_SQL))
            kind, kinds = (statements[0].type if len(statements) == 1 else None), duckdb.StatementType
            if kind not in {kinds.SELECT, kinds.MULTI}:
                msg = "Only one SELECT statement is answered."
                raise RefusedError(msg)
            # A PIVOT that looks its columns up is several statements, of which only a SELECT can stand in parentheses.
            return _written(database.sql(sql if kind == kinds.SELECT else f"FROM ({sql.rstrip().rstrip(';')}\n)"))
        except duckdb.Error as error:
            hint = " A query opens no files: name the tables." if isinstance(error, duckdb.PermissionException) else ""
            said, meant = _without_advice(error), ""
            if missing := re.search(r'Table with name (.+?) does not exist|Cannot access file "(.+?)"', said):
                others = {_table_name(Path(each), {}): each for each in _tables(folder)[0] if each not in files}
                name = missing[1] or missing[2]
                file = name if name in others.values() else others.get(name.lower())
                meant = f" Add {file!r} to files." if file else did_you_mean(name, names)
                said = re.sub(r"\n*Did you mean .*", "", said)  # which may be a table of the database's own
            msg = f"{said[:800]}{hint} Tables: {', '.join(names)}.{meant}"
            raise RefusedError(msg) from error


def _cell(value: str | None, quote: str = "'") -> str:
    """A value on one line, quoted as SQL has it where it would look like no value or like more than one."""
    if value is None:
        return "NULL"
    said = one_line(value, MAX_CELL)
    plain = "|" not in said and said.strip() not in ("", "NULL")
    return said if plain else f"{quote}{said.replace(quote, 2 * quote)}{quote}"


def _without_advice(error: Exception) -> str:
    """What the database says, without settings that are locked here."""
    said = str(error)
    if said.startswith("Out of Memory"):
        said = f"{said.splitlines()[0]}. Ask for less: filter or aggregate first, with fewer columns or files."
    return said


def _written(result: Any) -> str:
    """Rows as text, a line each, the names of columns first; the database writes values, as Python lacks some types."""
    rows = result.project("COLUMNS(*)::VARCHAR").limit(MAX_ROWS + 1).fetchall()
    lines = [" | ".join(_cell(name, '"') for name in result.columns)]
    lines += [" | ".join(map(_cell, row)) for row in rows[:MAX_ROWS]]
    lines += ["[no rows]"] * (not rows)
    lines += [f"[more rows: the first {MAX_ROWS} are shown; aggregate, or use LIMIT and OFFSET]"] * (
        len(rows) > MAX_ROWS
    )
    return "\n".join(lines)
