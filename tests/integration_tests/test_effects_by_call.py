"""Tools that read and write, on a real database and in real agents: only what reads runs while searching."""

import asyncio
import sqlite3
import time

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.runtime import Runtime

from langchain_tooltree import (
    PlanReviewMiddleware,
    PlanReviewNode,
    create_tooltree_agent,
    search,
)
from langchain_tooltree.effects import LONGEST_SQL, sql_reads
from langchain_tooltree.testing import ScriptedChatModel

ROWS = 799
PAID = 149
COUNT = "SELECT count(*) FROM invoices WHERE paid = 1"
SWEEP = "DELETE FROM invoices WHERE paid = 1"
HIDDEN = "WITH gone AS (SELECT id FROM invoices) SELECT count(*) FROM gone; DELETE FROM invoices"
DOUBT = '{"missing": "how many are paid"}\nI do not know.'
NOTHING = '{"missing": "nothing"}\n'


def calling(*queries):
    calls = [
        {"name": "sql_db_query", "args": {"query": query}, "id": query}
        for query in queries
    ]
    return AIMessage("", tool_calls=calls)


def looking_for_others(*queries):
    """A model that has no answer, offers these queries where others are asked for, and tells the first result."""

    def answer(messages):
        return f"{NOTHING}It says: {messages[-2].text}"

    return ScriptedChatModel(replies=[DOUBT, DOUBT, DOUBT, calling(*queries), answer])


@pytest.fixture
def invoices(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE invoices (id INTEGER, paid INTEGER)")
        database.executemany(
            "INSERT INTO invoices VALUES (?, ?)",
            [(at, at < PAID) for at in range(ROWS)],
        )
    return path


@pytest.fixture
def sql_tool(invoices):
    @tool
    def sql_db_query(query: str) -> str:
        """Execute a SQL query against the database and get back the result."""
        with sqlite3.connect(invoices) as database:
            rows = (
                database.execute(query).fetchall()
                if ";" not in query
                else database.executescript(query)
            )
        return str(rows)

    return sql_db_query


def rows_in(path):
    with sqlite3.connect(path) as database:
        return database.execute("SELECT count(*) FROM invoices").fetchone()[0]


@pytest.mark.parametrize("made_as", ["search, by name", "search, by object", "agent"])
def test_only_queries_that_read_run_while_searching(sql_tool, invoices, made_as):
    reads, model = (
        sql_reads("query", dialect="sqlite"),
        looking_for_others(SWEEP, COUNT, HIDDEN),
    )
    effects = (
        [(sql_tool, reads)]
        if made_as == "search, by object"
        else {"sql_db_query": reads}
    )
    if made_as == "agent":
        agent = create_tooltree_agent(model, [sql_tool], effects=effects)
        messages = agent.invoke({"messages": [HumanMessage("How many are paid?")]})[
            "messages"
        ]
        made, answer = (
            [call for each in messages for call in getattr(each, "tool_calls", [])],
            messages[-1],
        )
    else:
        result = search("How many are paid?", [sql_tool], model=model, effects=effects)
        made, answer = (
            [{"args": step.call.arguments} for step in result.steps],
            result.answer,
        )
    assert [call["args"]["query"] for call in made] == [COUNT]
    assert (answer.text, rows_in(invoices)) == (f"It says: [({PAID},)]", ROWS)


def test_a_person_is_asked_about_the_calls_that_write_and_about_no_others(
    sql_tool, invoices
):
    agent = create_tooltree_agent(
        ScriptedChatModel(replies=[calling(SWEEP, COUNT, HIDDEN), "Done."]),
        [sql_tool],
        effects={"sql_db_query": sql_reads(dialect="sqlite")},
        review=True,
        checkpointer=InMemorySaver(),
    )
    state = agent.invoke(
        {"messages": [HumanMessage("How many are paid?")]},
        {"configurable": {"thread_id": "1"}},
    )
    asked = state["__interrupt__"][0].value["action_requests"]
    assert [each["args"]["query"] for each in asked] == [SWEEP, HIDDEN]
    assert rows_in(invoices) == ROWS


FLOOD = [f"SELECT {at}, {'customer, ' * 740}1 {'x' * 2_500}" for at in range(25)]
HELD = 0.1


async def longest_hold(work):
    """How long some work holds the event loop at most, in seconds of the loop's own processor time, and its result."""
    longest, task = 0.0, asyncio.create_task(work)
    while not task.done():
        before = time.thread_time()
        await asyncio.sleep(0.001)
        longest = max(longest, time.thread_time() - before)
    return longest, await task


def lookups(queries):
    return {"messages": [HumanMessage("How many are paid?"), calling(*queries)]}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["middleware", "node"])
async def test_a_flood_of_long_queries_does_not_hold_the_event_loop(kind):
    assert (
        LONGEST_SQL - 100 < min(map(len, FLOOD)) <= max(map(len, FLOOD)) <= LONGEST_SQL
    )
    # A function that nobody has named makes other verdicts than those that are known already.
    effects = {
        "sql_db_query": sql_reads(dialect="sqlite", functions=[f"for_the_{kind}"])
    }
    if kind == "middleware":
        asking = PlanReviewMiddleware(effects).aafter_model(lookups(FLOOD), Runtime())
    else:
        graph = (
            StateGraph(MessagesState)
            .add_node("review", PlanReviewNode(effects))
            .set_entry_point("review")
            .compile()
        )
        asking = graph.ainvoke(lookups(FLOOD))
    longest, _ = await longest_hold(asking)
    assert longest < HELD
