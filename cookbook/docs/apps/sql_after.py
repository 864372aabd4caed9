"""The SQL agent of LangChain's tutorial: it looks tables and schemas up, checks its query and runs it."""

import sqlite3
from typing import Any

from langchain_tooltree import create_tooltree_agent as create_agent
from langchain_tooltree.effects import sql_reads

DATABASE = sqlite3.connect(
    ":memory:", check_same_thread=False
)  # stands for a file of yours
DATABASE.executescript("""
    CREATE TABLE genre (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE track (id INTEGER PRIMARY KEY, genre_id INTEGER REFERENCES genre (id), minutes REAL);
    INSERT INTO genre VALUES (1, 'Rock'), (2, 'Opera');
    INSERT INTO track VALUES (1, 1, 3.5), (2, 1, 4.5), (3, 2, 9.0);
""")
PROMPT = (
    "You ask a SQLite database. Start with the list of tables, then read the schema of those you need. "
    "Check every query before you run it, and never change anything."
)


def list_tables() -> str:
    """List the tables of the database."""
    found = DATABASE.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    )
    return ", ".join(name for (name,) in found)


def table_schema(tables: list[str]) -> str:
    """Tell how tables are made. Look the names of the tables up first."""
    known = dict(DATABASE.execute("SELECT name, sql FROM sqlite_master"))
    return "\n".join(known.get(name, f"There is no table {name}.") for name in tables)


def check_query(query: str) -> str:
    """Check a query before it is run."""
    try:
        DATABASE.execute(f"EXPLAIN {query}")
    except sqlite3.Error as error:
        return f"Error: {error}"
    return query


def run_query(query: str) -> str:
    """Run a query that was checked, and return its rows."""
    try:
        return str(DATABASE.execute(query).fetchall())
    except sqlite3.Error as error:
        return f"Error: {error}"


LOOKUPS = [list_tables, table_schema, check_query]


def build(model: Any) -> Any:
    """The agent, around a model or the name of one."""
    return create_agent(
        model,
        [*LOOKUPS, run_query],
        system_prompt=PROMPT,
        effects=dict.fromkeys(LOOKUPS, "read")
        | {run_query: sql_reads("query", dialect="sqlite")},
    )
