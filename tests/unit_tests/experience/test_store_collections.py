"""Shelf: records of other kinds beside the trajectories."""

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from langchain_tooltree import ExperienceStore, Trajectory
from langchain_tooltree.errors import StoreError
from langchain_tooltree.flows import arun_flow, run_flow


@pytest.fixture(params=["memory", "sqlite"])
def base(request):
    if request.param == "memory":
        yield InMemoryStore()
    else:
        with SqliteStore.from_conn_string(":memory:") as store:
            store.setup()
            yield store


@pytest.fixture(params=["sync", "async"])
def drive(request):
    async def on_the_loop(flow):
        return await arun_flow(flow)

    async def at_once(flow):
        return run_flow(flow)

    return at_once if request.param == "sync" else on_the_loop


async def test_records_are_kept_replaced_read_and_deleted(base, drive):
    shelf = ExperienceStore(base).collection("tips")
    assert await drive(shelf.getting("a")) is None
    await drive(shelf.putting("b", {"n": 1}))
    await drive(shelf.putting("a", {"text": "half a pair \ud800 \x00"}))
    await drive(shelf.putting("b", {"n": 2}))
    assert await drive(shelf.getting("b")) == {"n": 2}
    assert await drive(shelf.reading()) == {
        "a": {"text": "half a pair \ud800 \x00"},
        "b": {"n": 2},
    }
    await drive(shelf.deleting("a"))
    await drive(shelf.deleting("never there"))
    assert list(await drive(shelf.reading())) == ["b"]


async def test_kinds_and_tenants_are_kept_apart(base, drive):
    experience = ExperienceStore(base, namespace=("agent", "{user}"))
    ada, bob = experience.within(user="a_a"), experience.within(user="aba")
    await drive(ada.collection("tips").putting("x", {"of": "ada"}))
    await drive(bob.collection("tips").putting("x", {"of": "bob"}))
    await drive(ada.collection("tips").putting("y", {"of": "ada"}))
    ada.add(Trajectory("z", "task"))
    assert await drive(ada.collection("tips").reading()) == {
        "x": {"of": "ada"},
        "y": {"of": "ada"},
    }
    assert await drive(bob.collection("tips").reading()) == {"x": {"of": "bob"}}
    assert await drive(ada.collection("focus").reading()) == {}
    assert [each.id for each in ada.trajectories()] == ["z"]


def test_a_graph_says_whose_shelf_it_is():
    experience = ExperienceStore(InMemoryStore(), namespace=("agent", "{user}"))

    def remember(_: MessagesState):
        run_flow(experience.collection("tips").putting("x", {}))

    graph = (
        StateGraph(MessagesState)
        .add_node("remember", remember)
        .add_edge(START, "remember")
        .compile()
    )
    graph.invoke({"messages": []}, RunnableConfig(configurable={"user": "ada"}))
    assert run_flow(experience.within(user="ada").collection("tips").reading()) == {
        "x": {}
    }


def test_what_somebody_else_wrote_is_refused():
    base = InMemoryStore()
    base.put(("tooltree", "tips"), "x", {"text": "not ours"})
    with pytest.raises(
        StoreError, match=r"Item 'x' in namespace .* was not written by this package"
    ):
        run_flow(ExperienceStore(base).collection("tips").getting("x"))
