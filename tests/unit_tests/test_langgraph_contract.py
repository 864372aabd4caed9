"""What this package takes from LangGraph beyond its documentation, held against the LangGraph that is installed.

A test that fails here names the one thing in `langchain_tooltree/_langgraph.py` that has to follow.
"""

import ast
import asyncio
import operator
import re
from pathlib import Path
from typing import Annotated, TypedDict

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.messages.tool import tool_call
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config, get_stream_writer
from langgraph.func import task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.store.base import MatchCondition
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite.aio import AsyncSqliteStore
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel

import langchain_tooltree
from langchain_tooltree._langgraph import (
    NodeRun,
    callbacks_here,
    can_be_answered,
    configurable_here,
    fits_condition,
    fits_filter,
    graph_around,
    interrupts_in,
    namespace_here,
    runtime_in,
    steps_here,
    stream_now,
    tool_node_input,
    vacuum_of,
    variables_in,
    without_graph,
    without_reserved,
)

PACKAGE = Path(langchain_tooltree.__file__).parent
THREAD = {"configurable": {"thread_id": "1"}}

SPELT_OUT_ONCE = re.compile(
    r"__pregel_|langgraph_(path|step|node|checkpoint_ns|triggers)|checkpoint_(ns|id|map)|graph:step|__interrupt__"
    r"|tool_call_with_context|\bcheckpoint_(?![a-z])"
)
INTERNAL_MODULES = re.compile(
    r"from langgraph\.(?:_internal|channels|pregel\.)|DeltaChannel"
)


class Listed(TypedDict):
    said: Annotated[list[str], operator.add]


class Count(BaseModel):
    number: int


class Nodes(BaseCallbackHandler):
    """The runs of nodes that callbacks tell of, with what each was given, in the order of their starts."""

    run_inline = True

    def __init__(self):
        self.seen = []
        self.metadata = []

    def on_chain_start(self, serialized, inputs, *, tags=None, metadata=None, **_):
        run = NodeRun.of(tags or (), metadata or {})
        if run is not None:
            self.seen.append((run, inputs))
            self.metadata.append(metadata)


def a_graph(state=Listed, *, saved=False, **nodes):
    """A chain of nodes, one after the other."""
    graph = StateGraph(state)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for before, after in zip([START, *nodes], [*nodes, END], strict=True):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=InMemorySaver() if saved else None)


def says(*words):
    return lambda _: {"said": list(words)}


def namespaces(seen):
    """A node that notes its namespace."""

    def node(_):
        seen.append(namespace_here())
        return {"said": []}

    return node


def test_internals_are_spelt_out_in_one_file_only():
    others = {
        path: path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
        if path.name != "_langgraph.py"
    }
    spelt_out = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.value!r:.60}"
        for path, text in sorted(others.items())
        if SPELT_OUT_ONCE.search(text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and SPELT_OUT_ONCE.search(node.value)
    ]
    imported = {
        path.relative_to(PACKAGE).as_posix(): INTERNAL_MODULES.findall(text)
        for path, text in others.items()
    }

    assert spelt_out == []
    assert {path: found for path, found in imported.items() if found} == {}


def test_a_namespace_names_the_nodes_and_their_tasks():
    seen = []
    inner = a_graph(leaf=namespaces(seen))

    def twice(state):
        inner.invoke(state)
        inner.invoke(state)
        return {"said": []}

    a_graph(outer=a_graph(twice=twice), saved=True).invoke({"said": []}, THREAD)

    first, second = (graph_around(each) for each in seen)
    assert second == f"{first}|1"


def test_outside_of_a_graph_nothing_is_configurable():
    assert configurable_here() is None
    assert namespace_here() == ""


def test_what_is_configurable_holds_the_place_of_the_run_and_what_users_put_there():
    held = []
    graph = a_graph(
        node=lambda _: held.append(dict(configurable_here())) or {"said": []},
        saved=True,
    )
    graph.invoke(
        {"said": []},
        {"configurable": {"thread_id": "1", "user_id": "ada"}},
        context={"tenant": "t"},
    )

    place = {"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"}
    assert set(held[0]) >= {"thread_id", "checkpoint_ns", "user_id"}
    assert set(without_reserved(held[0])) <= {"user_id", *place}
    assert without_reserved(held[0], place=False) == {"user_id": "ada"}
    assert without_graph(held[0]) == {"thread_id": "1", "user_id": "ada"}
    assert runtime_in(held[0]).context == {"tenant": "t"}
    assert runtime_in(variables_in(held[0])).context == {"tenant": "t"}


@pytest.mark.parametrize("saved", [True, False])
def test_a_question_can_be_answered_where_a_graph_or_one_around_it_is_saved(saved):
    seen = []
    inner = a_graph(node=lambda _: seen.append(can_be_answered()) or {"said": []})

    a_graph(inner=inner, saved=saved).invoke({"said": []}, THREAD)

    assert seen == [saved]


def test_a_run_of_its_own_inside_a_graph_keeps_nothing_of_that_graph():
    """Without the keys of the running graph, a graph with a checkpointer is not a part of it."""
    own = a_graph(node=says("own"), saved=True)

    def node(_):
        configurable = without_graph(get_config()["configurable"])
        own.invoke({"said": []}, {"configurable": {**configurable, "thread_id": "own"}})
        return {"said": []}

    a_graph(node=node, saved=True).invoke({"said": []}, THREAD)

    assert own.get_state({"configurable": {"thread_id": "own"}}).values == {
        "said": ["own"]
    }


def test_callbacks_tell_step_path_namespace_and_name_of_a_node():
    nodes = Nodes()
    graph = a_graph(first=says("one"), second=says("two"), saved=True)
    graph.invoke({"said": ["zero"]}, {**THREAD, "callbacks": [nodes]})

    runs = [run for run, _ in nodes.seen if run.gets_state]
    assert [(run.name, run.step) for run in runs] == [("first", 1), ("second", 2)]
    assert [given["said"] for run, given in nodes.seen if run.gets_state] == [
        ["zero"],
        ["zero", "one"],
    ]
    assert {each["thread_id"] for each in nodes.metadata} == {"1"}


@pytest.mark.parametrize("drive", ["sync", "async"])
def test_callbacks_know_the_node_that_is_running(drive):
    class Runs(BaseCallbackHandler):
        run_inline = True

        def __init__(self):
            self.nodes = {}

        def on_chain_start(
            self,
            serialized,
            inputs,
            *,
            run_id,
            parent_run_id=None,
            tags=None,
            metadata=None,
            **_,
        ):
            node = NodeRun.of(tags or (), metadata or {})
            self.nodes[run_id] = node.name if node else self.nodes.get(parent_run_id)

    seen, runs = [], Runs()
    graph = a_graph(
        inner=lambda _: seen.append(callbacks_here()) or {"said": []}, outer=says()
    )
    config = {"callbacks": [runs]}
    if drive == "sync":
        graph.invoke({"said": []}, config)
    else:
        asyncio.run(graph.ainvoke({"said": []}, config))

    ((handlers, run),) = seen
    assert runs in handlers
    assert runs.nodes[run] == "inner"
    assert callbacks_here() == ((), None)


def test_other_runs_are_no_nodes():
    assert NodeRun.of(["seq:step:1"], {}) is None


def test_a_node_that_was_sent_something_does_not_get_the_state():
    nodes = Nodes()
    graph = StateGraph(Listed)
    graph.add_node("sent", lambda given: {"said": [given]})
    graph.add_conditional_edges(START, lambda _: [Send("sent", "a"), Send("sent", "b")])
    graph.compile().invoke({"said": []}, {"callbacks": [nodes]})

    assert [
        (run.gets_state, run.updates_state)
        for run, _ in nodes.seen
        if run.name == "sent"
    ] == [(False, True)] * 2


def test_what_a_task_returns_is_no_update():
    class Runs(BaseCallbackHandler):
        run_inline = True

        def on_chain_start(
            self, serialized, inputs, *, name=None, tags=None, metadata=None, **_
        ):
            told[name] = (tags, metadata)

    told = {}

    @task
    def work() -> int:
        return 1

    a_graph(node=lambda _: {"said": [str(work().result())]}).invoke(
        {"said": []}, {"callbacks": [Runs()]}
    )

    assert NodeRun.of(*told["node"]).updates_state
    tags, metadata = told["work"]
    assert NodeRun.of(tags, metadata) is None  # it is told as a part of its node
    assert not NodeRun.of(["graph:step:1"], metadata).updates_state


def test_a_node_knows_its_step_and_how_many_are_left_to_it():
    seen = []

    def node(_):
        seen.append(steps_here())
        return {"said": []}

    graph = a_graph(first=node, second=node)
    graph.invoke({"said": []}, {"recursion_limit": 7})
    assert [step for step, _ in seen] == [1, 2]
    assert [left for _, left in seen] == [seen[0][1], seen[0][1] - 1]
    assert 6 <= seen[0][1] <= 7
    assert steps_here() is None


def test_interrupts_stand_in_what_a_graph_returns():
    graph = a_graph(node=lambda _: {"said": [interrupt("Go on?")]}, saved=True)

    assert [
        each.value for each in interrupts_in(graph.invoke({"said": []}, THREAD))
    ] == ["Go on?"]
    assert not interrupts_in(graph.invoke(Command(resume="yes"), THREAD))
    assert not interrupts_in(None)


def test_a_tool_node_takes_one_call_with_the_state_for_its_tool():
    @tool
    def look(place: str, said: Annotated[list[str], InjectedState("said")]) -> str:
        """Look."""
        return f"{place}: {said}"

    def node(_):
        given = tool_node_input(
            tool_call(name="look", args={"place": "here"}, id="call-1"),
            {"messages": [], "said": ["a"]},
        )
        result = ToolNode([look], handle_tool_errors=False).invoke(given)
        message = result["messages"][0]
        assert message.tool_call_id == "call-1"
        return {"said": [message.content]}

    assert a_graph(node=node).invoke({"said": []})["said"] == ["here: ['a']"]


async def kept_and_deleted(store):
    await store.aput(("a", "b"), "k", {"text": "secret"})
    await store.adelete(("a", "b"), "k")


@pytest.mark.parametrize(
    ("conditions", "fits"),
    [
        (None, True),
        ({"score": {"$gte": 7, "$lt": 8}, "tags": ["a"]}, True),
        ({"at": {"x": {"$ne": 2}}, "missing": None}, True),
        ({"score": {"$gt": 7}}, False),
        ({"missing": {"$gt": 1}}, False),
        ({"tags": {"$gt": 1}}, False),
        ({"name": {"$gt": 1}}, False),
    ],
)
def test_a_filter_of_a_search_compares_as_documented(conditions, fits):
    assert (
        fits_filter(
            {"score": 7, "tags": ["a"], "at": {"x": 1}, "name": "many"}, conditions
        )
        is fits
    )


def test_an_unknown_operator_is_refused_by_name():
    with pytest.raises(ValueError, match=r"Unsupported operator: \$in"):
        fits_filter({"score": 7}, {"score": {"$in": [7]}})


def test_namespaces_are_listed_by_how_they_begin_and_end():
    fits = [
        fits_condition(("a", "b"), MatchCondition(kind, ("*", "b")))
        for kind in ("prefix", "suffix")
    ]
    assert [*fits, fits_condition(("a",), MatchCondition("prefix", ("b",)))] == [
        True,
        True,
        False,
    ]


async def test_a_store_on_sqlite_keeps_nothing_after_its_vacuum(tmp_path):
    async with AsyncSqliteStore.from_conn_string(str(tmp_path / "s.db")) as store:
        await store.setup()
        await kept_and_deleted(store)
        await asyncio.to_thread(vacuum_of(store))
        assert [
            each for each in tmp_path.iterdir() if b"secret" in each.read_bytes()
        ] == []


async def test_a_store_in_memory_keeps_nothing_after_its_vacuum():
    store = InMemoryStore()
    await kept_and_deleted(store)
    vacuum_of(store)()

    assert store.list_namespaces() == []
    assert vacuum_of(object()) is None


@pytest.mark.parametrize("drive", ["sync", "async"])
def test_messages_are_streamed_before_their_node_is_done_and_once(drive):
    def node(_):
        stream_now([AIMessage("one", id="1")])
        get_stream_writer()("between")
        return {"messages": [AIMessage("one", id="1"), AIMessage("two", id="2")]}

    graph = a_graph(MessagesState, node=node)

    async def collect():
        return [
            chunk
            async for chunk in graph.astream(
                {"messages": []}, stream_mode=["messages", "custom"]
            )
        ]

    given = {"stream_mode": ["messages", "custom"]}
    chunks = (
        list(graph.stream({"messages": []}, **given))
        if drive == "sync"
        else asyncio.run(collect())
    )
    assert [chunk if mode == "custom" else chunk[0].text for mode, chunk in chunks] == [
        "one",
        "between",
        "two",
    ]
