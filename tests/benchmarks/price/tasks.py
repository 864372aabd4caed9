"""The tasks: their worlds with real tools, and what a model that is right calls, reply by reply.

A step is what the plain agent calls in one reply: several calls where none needs the result of another. All tools are
async: threads would not keep to the virtual clock.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from langchain_core.tools import BaseTool, create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_tooltree import HashingEmbeddings, ObjectSandbox

READS = (
    "weather",
    "contact",
    "stock",
    "record",
    "search_handbook",
    "list_tables",
    "schema",
    "query",
    "list_files",
)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a model may make."""

    tool: str
    arguments: Mapping[str, Any]

    @property
    def key(self) -> str:
        return json.dumps([self.tool, self.arguments], sort_keys=True)


@dataclass(frozen=True, slots=True)
class Setting:
    """A new world: its tools, what is changed there, and whether it can be forked."""

    tools: Sequence[BaseTool]
    state: Any = None
    sandbox: ObjectSandbox | None = None

    @property
    def effects(self) -> dict[str, Literal["read", "write"]]:
        return {tool.name: "read" for tool in self.tools if tool.name in READS}


@dataclass(frozen=True, slots=True)
class Mistake:
    """What a model that errs once replies after so many right steps: a wrong call, or none where it stops too early.

    After a wrong call that is `fatal`, nothing leads to the goal any more.
    """

    after: int
    call: Call | None = None
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A request; it is solved if the answer holds `answer`, and the world ends as `state`."""

    name: str
    request: str
    make: Callable[[Path], Setting]
    steps: tuple[tuple[Call, ...], ...] = ()
    answer: str = ""
    state: Any = None
    mistake: Mistake | None = None


class Office:
    """Facts to be read; what is sent, ordered or booked is the state."""

    def __init__(self) -> None:
        self.state: list[str] = []

    async def weather(self, city: str) -> str:
        """Today's weather in a city."""
        return (
            f"{city}: 14 degrees, rain."
            if city == "Oslo"
            else f"There is no station in {city}."
        )

    async def contact(self, name: str) -> str:
        """The mail address of a colleague."""
        return f"{name.lower()}@example.org"

    async def stock(self, item: str) -> str:
        """How many pieces of an item are in stock."""
        return f"{item}: {len(item)} pieces."

    async def record(self, number: int) -> str:
        """Read a record of the archive; it may refer to another one."""
        return (
            f"Record {number}: see record {number + 1}."
            if number < 50
            else f"Record {number}: paid in March."
        )

    async def mail(self, to: str, text: str) -> str:
        """Send a mail."""
        self.state.append(f"to {to}: {text}")
        return f"Sent to {to}."

    async def book(self, room: str, day: str) -> str:
        """Book a room for a day; returns the number of the booking."""
        self.state.append(f"{room} on {day}")
        return f"Booking B{len(self.state)}."


class Folder:
    """Files that cannot be brought back once they are deleted or overwritten."""

    def __init__(self) -> None:
        self.state = {"plan.txt": "draft"}

    async def list_files(self) -> str:
        """Names of all files."""
        return ", ".join(sorted(self.state)) or "There are no files."

    async def copy_file(self, source: str, target: str) -> str:
        """Copy a file."""
        if source not in self.state:
            return f"Error: there is no {source}."
        self.state[target] = self.state[source]
        return f"Copied to {target}."

    async def write_file(self, name: str, text: str) -> str:
        """Write a file; one of that name is overwritten."""
        self.state[name] = text
        return f"Wrote {name}."

    async def append_line(self, name: str, text: str) -> str:
        """Add a line at the end of a file."""
        self.state[name] = f"{self.state.get(name, '')}\n{text}"
        return f"Added to {name}."

    async def delete_file(self, name: str) -> str:
        """Delete a file."""
        return (
            f"Deleted {name}."
            if self.state.pop(name, None)
            else f"Error: there is no {name}."
        )


class Database:
    """A real sqlite file, opened for reading only."""

    def __init__(self, file: Path) -> None:
        self._file = file
        with closing(sqlite3.connect(file)) as new, new:
            new.execute("create table people (id integer primary key, name text)")
            new.execute("create table orders (buyer integer, total real)")
            new.executemany("insert into people values (?, ?)", [(1, "Ada"), (2, "Bo")])
            new.executemany(
                "insert into orders values (?, ?)", [(1, 40.5), (2, 99.0), (1, 60.25)]
            )

    async def list_tables(self) -> str:
        """Names of all tables."""
        return await self.query("select name from sqlite_master where type = 'table'")

    async def schema(self, table: str) -> str:
        """The statement that created a table."""
        return await self.query(f"select sql from sqlite_master where name = '{table}'")  # noqa: S608 - a read-only file

    async def query(self, statement: str) -> str:
        """Run a select statement, and return its rows."""
        try:
            with closing(
                sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)
            ) as opened:
                return str(opened.execute(statement).fetchall())
        except sqlite3.Error as error:
            return f"Error: {error}"


def tasks() -> dict[str, Task]:
    """All tasks by name: first those for a model that is right and sure, then those where it errs once."""
    right = {task.name: task for task in _right()}
    erring = [
        replace(right[of], name=name, mistake=mistake) for name, of, mistake in MISTAKES
    ]
    return right | {task.name: task for task in erring}


MISTAKES = (
    ("errs_call", "chain_3", Mistake(0, Call("contact", {"name": "Archive"}))),
    (
        "errs_sql",
        "sql",
        Mistake(1, Call("query", {"statement": "select sum(price) from orders"})),
    ),
    ("errs_stop_chain", "chain_5", Mistake(3)),
    ("errs_stop_reads", "reads_3", Mistake(1)),
    ("errs_stop_mail", "mail", Mistake(1)),
    ("errs_stop_writes", "two_writes", Mistake(1)),
    (
        "errs_write",
        "four_writes",
        Mistake(2, Call("delete_file", {"name": "old.txt"}), fatal=True),
    ),
)


def _right() -> Iterator[Task]:
    yield Task("hello", "Hello!", _office, answer="Hello", state=[])
    yield Task(
        "weather",
        "How is the weather in Oslo?",
        _office,
        ((Call("weather", {"city": "Oslo"}),),),
        "14 degrees",
        [],
    )
    leave = Call("search_handbook", {"query": "days of leave"})
    yield Task(
        "retrieval",
        "How many days of leave do we have?",
        _handbook,
        ((leave,),),
        "30 days of leave",
    )
    total = "select sum(total) from orders join people on id = buyer where name = 'Ada'"
    schemas = tuple(Call("schema", {"table": table}) for table in ("people", "orders"))
    steps = (
        (Call("list_tables", {}),),
        schemas,
        (Call("query", {"statement": total}),),
    )
    yield Task("sql", "How much has Ada spent?", _database, steps, "100.75")
    for length in (3, 5):
        first = 51 - length
        steps = tuple(
            (Call("record", {"number": number}),) for number in range(first, 51)
        )
        yield Task(
            f"chain_{length}",
            f"When was record {first} paid?",
            _office,
            steps,
            "March",
            [],
        )
    items = ("bolts", "nuts", "screws", "nails", "glue", "tape")
    for count in range(1, len(items) + 1):
        reads = tuple(Call("stock", {"item": item}) for item in items[:count])
        text = ", ".join(f"{item} {len(item)}" for item in items[:count])
        report = Call("mail", {"to": "boss@example.org", "text": text})
        request = f"Mail boss@example.org how many {', '.join(items[:count])} we have."
        yield Task(
            f"reads_{count}",
            request,
            _office,
            (reads, (report,)),
            "Sent",
            [f"to boss@example.org: {text}"],
        )
    invited = Call("mail", {"to": "ada@example.org", "text": "Lunch at noon?"})
    steps = ((Call("contact", {"name": "Ada"}),), (invited,))
    yield Task(
        "mail",
        "Ask Ada for lunch at noon.",
        _office,
        steps,
        "Sent",
        ["to ada@example.org: Lunch at noon?"],
    )
    steps = (
        (Call("copy_file", {"source": "plan.txt", "target": "old.txt"}),),
        (Call("write_file", {"name": "plan.txt", "text": "final"}),),
        (Call("append_line", {"name": "plan.txt", "text": "signed"}),),
        (Call("copy_file", {"source": "plan.txt", "target": "sent.txt"}),),
    )
    state = {
        "plan.txt": "final\nsigned",
        "old.txt": "draft",
        "sent.txt": "final\nsigned",
    }
    request = "Keep plan.txt as old.txt, then write 'final' into plan.txt, sign it, and copy it to sent.txt."
    yield Task("four_writes", request, _folder, steps, "Copied to sent.txt", state)
    booked = Call("mail", {"to": "ada@example.org", "text": "Your room: B1"})
    steps = ((Call("book", {"room": "Blue", "day": "Monday"}),), (booked,))
    state = ["Blue on Monday", "to ada@example.org: Your room: B1"]
    request = "Book the blue room for Monday, and mail ada@example.org the number of the booking."
    yield Task("two_writes", request, _office, steps, "Sent", state)

    mails = tuple(
        Call("mail", {"to": f"{name}@example.org", "text": "Blue room, Monday"})
        for name in ("ada", "bo")
    )
    steps = (
        (Call("book", {"room": "Blue", "day": "Monday"}),),
        (mails[0],),
        (mails[1],),
    )
    state = [
        "Blue on Monday",
        *(f"to {name}@example.org: Blue room, Monday" for name in ("ada", "bo")),
    ]
    request = "Book the blue room for Monday, mail that to ada@example.org, and then to bo@example.org."
    yield Task("three_writes", request, _office, steps, "Sent", state)


def _office(_: Path) -> Setting:
    office = Office()
    return Setting(ObjectSandbox.of_methods(office).tools, office.state)


def _folder(_: Path) -> Setting:
    folder = Folder()
    sandbox = ObjectSandbox.of_methods(folder)
    return Setting(sandbox.tools, folder.state, sandbox)


def _database(folder: Path) -> Setting:
    return Setting(ObjectSandbox.of_methods(Database(folder / "shop.db")).tools)


def _handbook(_: Path) -> Setting:
    store = InMemoryVectorStore(HashingEmbeddings())
    store.add_texts(
        [
            "We have 30 days of leave a year.",
            "The canteen opens at noon.",
            "Visitors sign in downstairs.",
        ]
    )
    search = create_retriever_tool(
        store.as_retriever(search_kwargs={"k": 1}),
        "search_handbook",
        "Search the handbook of the company.",
        response_format="content_and_artifact",
    )
    return Setting([search])
