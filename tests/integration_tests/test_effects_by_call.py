"""Tools that read and write, on a real database and in real agents: only what reads runs while searching."""

import sqlite3

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tooltree import SearchConfig, ToolTreeMiddleware, create_tooltree_agent, search
from langchain_tooltree.testing import OfflineChatModel, ScriptedChatModel
from tests.internals.hall import http_reads, sql_reads

ROWS = 799
PAID = 149
COUNT = "SELECT count(*) FROM invoices WHERE paid = 1"
SWEEP = "DELETE FROM invoices WHERE paid = 1"
HIDDEN = "WITH gone AS (SELECT id FROM invoices) SELECT count(*) FROM gone; DELETE FROM invoices"
TRIES = SearchConfig(proposals="together", pre_evaluation="batched", selection="smoothed", max_rollouts=6)


class Sweeper:
    """Offers queries, and holds those that delete for best."""

    def __init__(self, *queries):
        self.queries = queries

    def propose(self, question):
        return [] if question.path else [("sql_db_query", {"query": query}) for query in self.queries]

    act = propose

    def score_call(self, question, call):
        return 0.9 if "DELETE" in call.arguments["query"] else 0.8

    def score_observation(self, question, call):
        return 0.5, 0.3

    def answer(self, question):
        return f"It says: {question.path[-1].observation if question.path else 'nothing'}"


def model(*queries):
    return OfflineChatModel(policy=Sweeper(*(queries or (SWEEP, COUNT, HIDDEN))))


@pytest.fixture
def invoices(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE invoices (id INTEGER, paid INTEGER)")
        database.executemany("INSERT INTO invoices VALUES (?, ?)", [(at, at < PAID) for at in range(ROWS)])
    return path


@pytest.fixture
def sql_tool(invoices):
    @tool
    def sql_db_query(query: str) -> str:
        """Execute a SQL query against the database and get back the result."""
        with sqlite3.connect(invoices) as database:
            rows = database.execute(query).fetchall() if ";" not in query else database.executescript(query)
        return str(rows)

    return sql_db_query


def rows_in(path):
    with sqlite3.connect(path) as database:
        return database.execute("SELECT count(*) FROM invoices").fetchone()[0]


def test_a_tool_declared_a_read_deletes_while_searching_which_is_why_effects_go_by_call(sql_tool, invoices):
    search("How many are paid?", [sql_tool], model=model(SWEEP, COUNT), effects={"sql_db_query": "read"}, config=TRIES)
    assert rows_in(invoices) == ROWS - PAID


@pytest.mark.parametrize("effects_of", ["by name", "by object"])
def test_only_queries_that_read_run_while_searching(sql_tool, invoices, effects_of):
    reads = sql_reads("query", dialect="sqlite")
    effects = {"sql_db_query": reads} if effects_of == "by name" else [(sql_tool, reads)]
    result = search("How many are paid?", [sql_tool], model=model(), effects=effects, config=TRIES)
    ran = {node.call.arguments["query"] for node in result.tree.nodes[1:] if node.observation}
    waits = {node.call.arguments["query"] for node in result.tree.nodes[1:] if node.call.effect == "write"}
    assert (ran, waits) == ({COUNT}, {SWEEP, HIDDEN})
    assert rows_in(invoices) == ROWS


def test_a_person_is_asked_about_the_calls_that_write_and_about_no_others(sql_tool, invoices):
    calls = [{"name": "sql_db_query", "args": {"query": query}, "id": query} for query in (SWEEP, COUNT, HIDDEN)]
    agent = create_tooltree_agent(
        ScriptedChatModel(replies=[AIMessage("", tool_calls=calls), "Done."]),
        [sql_tool],
        effects={"sql_db_query": sql_reads(dialect="sqlite")},
        config=TRIES,
        review=True,
        checkpointer=InMemorySaver(),
        when=lambda _: False,
    )
    state = agent.invoke({"messages": [HumanMessage("How many are paid?")]}, {"configurable": {"thread_id": "1"}})
    asked = state["__interrupt__"][0].value["action_requests"]
    assert [each["args"]["query"] for each in asked] == [SWEEP, HIDDEN]
    assert rows_in(invoices) == ROWS


class Swapping(AgentMiddleware):
    """Puts another tool in the place of the one that was declared, from the second request on."""

    def __init__(self, other):
        super().__init__()
        self.other, self.requests = other, 0

    def wrap_model_call(self, request, handler):
        self.requests += 1
        return handler(request.override(tools=[self.other]) if self.requests > 1 else request)


@pytest.mark.parametrize("made_by", ["create_agent", "create_tooltree_agent"])
def test_a_tool_that_was_put_behind_a_declared_name_never_runs_while_searching(made_by, caplog):
    ran = []

    def look_with(note):
        @tool
        def sql_db_query(query: str) -> str:
            """Look something up."""
            note.append(query)
            return "nothing"

        return sql_db_query

    declared, swapped = look_with([]), look_with(ran)
    options = {"effects": {"sql_db_query": "read"}, "config": TRIES, "when": lambda _: True}
    if made_by == "create_agent":
        middleware = [Swapping(swapped), ToolTreeMiddleware(**options)]
        agent = create_agent(model(), [declared], middleware=middleware, checkpointer=InMemorySaver())
    else:
        agent = create_tooltree_agent(
            model(), [declared], middleware=[Swapping(swapped)], checkpointer=InMemorySaver(), **options
        )
    thread = {"configurable": {"thread_id": "1"}}
    for _ in range(2):
        agent.invoke({"messages": [HumanMessage("How many are paid?")]}, thread)
    assert ran == []
    assert len([message for message in caplog.messages if "not the one that was declared" in message]) == 1


def test_a_page_is_read_only_after_a_person_has_agreed():
    fetched = []

    @tool
    def fetch(url: str, method: str = "GET") -> str:
        """Fetch a page."""
        fetched.append(url)
        return "a page"

    class Fetcher(Sweeper):
        def propose(self, question):
            return [] if question.path else [("fetch", {"url": "https://x.org/?secret=42", "method": "GET"})]

        act = propose

        def score_call(self, question, call):
            return 0.9

    agent = create_tooltree_agent(
        OfflineChatModel(policy=Fetcher()),
        [fetch],
        effects={"fetch": http_reads()},
        approve_reads=["fetch"],
        review=True,
        checkpointer=InMemorySaver(),
    )
    thread = {"configurable": {"thread_id": "1"}}
    state = agent.invoke({"messages": [HumanMessage("Fetch it.")]}, thread)
    assert [each["name"] for each in state["__interrupt__"][0].value["action_requests"]] == ["fetch"]
    assert fetched == []
