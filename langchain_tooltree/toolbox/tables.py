"""Tables: SQL over CSV, Parquet and JSON files of the folder, in memory, by duckdb."""

import glob
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import PurePath
from typing import Any

from langchain_tooltree.errors import import_extra
from langchain_tooltree.text import one_line
from langchain_tooltree.toolbox.guard import RefusedError, inside, names_in, refuse

MAX_ROWS = 100  # rows of a result. A query that aggregates needs fewer, one with LIMIT and OFFSET sees the rest
MAX_CELL = 300  # characters of one value of a result
MAX_TABLES = 20  # files of one call
NO_EXTENSIONS = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
OPTIONS = {"memory_limit": "1GB", "threads": "2", "temp_directory": "", **NO_EXTENSIONS}
# Settings after which a database reads no file, no variable of this process, and keeps these settings.
LOCKS = ("enable_external_access = false", "python_enable_replacements = false", "lock_configuration = true")
READERS = {".csv": "read_csv", ".tsv": "read_csv", ".parquet": "read_parquet"}
READERS |= dict.fromkeys((".json", ".jsonl", ".ndjson"), "read_json")


@contextmanager
def _open(files: list[str], folder: str) -> Iterator[tuple[Any, list[str]]]:
    """A database with the files as tables, which reaches nothing outside itself, and the tables' quoted names."""
    duckdb = import_extra("duckdb", "toolbox", "tables")
    tables = {'"' + PurePath(file).stem.lower().replace('"', "_") + '"': file for file in files}
    if len(tables) < len(files) or not 0 < len(files) <= MAX_TABLES:
        refuse(f"files must be 1 to {MAX_TABLES} files whose names differ beside their folders, not {files}.")
    with closing(duckdb.connect(":memory:", config=OPTIONS)) as database:
        for table, file in tables.items():
            path, suffix = inside(folder, file), PurePath(file).suffix.lower()
            if suffix not in READERS:
                refuse(f"{file!r} is no table. Name a file with one of the endings {', '.join(READERS)}.")
            try:  # a star in the name of a file is no pattern
                sql = f"CREATE TABLE {table} AS SELECT * FROM {READERS[suffix]}(?)"  # noqa: S608 - our own names
                database.execute(sql, [glob.escape(str(path))])
            except duckdb.Error as error:
                refuse(f"{file!r} cannot be read as a table in UTF-8: {str(error)[:MAX_CELL]}")
        for setting in LOCKS:
            database.execute(f"SET {setting}")
        yield database, list(tables)


def describe_tables(files: list[str] | None = None, *, folder: str) -> str:
    """Columns, types and first rows of table files; without files, all table files with their columns.

    Args:
        files: CSV, Parquet or JSON files of the folder.
    """
    names, lines = files or names_in(folder, tuple(READERS)), []
    for file in names[:MAX_TABLES]:
        try:
            with _open([file], folder) as (database, (name,)):
                table = database.table(name)
                columns = ", ".join(f"{column} {kind}" for column, kind in zip(table.columns, table.types, strict=True))
                lines.append(f"{file}: {columns}")
                lines += [f"Its table is {name}. The first rows:\n{_write(table.limit(3))}"] if files else []
        except RefusedError as error:
            if files:
                raise
            lines.append(str(error))
    more = [f"[and {len(names) - MAX_TABLES:,} more: name files to see them]"] * (len(names) > MAX_TABLES)
    return "\n".join(lines + more) or "There are no table files in the folder."


def query_tables(sql: str, files: list[str], *, folder: str) -> str:
    """Answer one SQL query (DuckDB's dialect) over table files. The table of 2026/sales.csv is "sales".

    Args:
        sql: One SELECT. It reads nothing but the tables of these files.
        files: The CSV, Parquet or JSON files of the folder that the query uses.
    """
    duckdb = import_extra("duckdb", "toolbox", "query_tables")
    with _open(files, folder) as (database, tables):
        try:
            statements = database.extract_statements(sql)
            if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
                refuse("Only one SELECT statement is answered.")
            return _write(database.sql(sql))
        except duckdb.Error as error:
            reason = str(error).partition("\n\n")[0]  # without advice on settings, which are locked
            refuse(f"{reason}\nTables: {', '.join(tables)}. A query opens no files: name these tables.")


def _write(relation: Any) -> str:
    """Rows as text, a line each, the names of columns first; the database writes values, as Python lacks some types."""
    rows = relation.project("COLUMNS(*)::VARCHAR").limit(MAX_ROWS + 1).fetchall()
    cells = [["NULL" if cell is None else one_line(cell, MAX_CELL) for cell in row] for row in rows[:MAX_ROWS]]
    lines = [" | ".join(row) for row in (relation.columns, *cells)]
    lines += ["[no rows]"] * (not rows)
    more = f"[more rows: the first {MAX_ROWS} are shown; aggregate, or use LIMIT and OFFSET]"
    return "\n".join(lines + [more] * (len(rows) > MAX_ROWS))
