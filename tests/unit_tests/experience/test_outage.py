"""A store that fails or takes long: the agent goes on, it is said once, and what could not be kept is kept later."""

import asyncio
import threading
import time

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import Experience, HashingEmbeddings, ToolTreeMiddleware, Trajectory
from langchain_tooltree.errors import StoreError
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.experience import outage_module


class Moody(InMemoryStore):
    """Fails, or waits, as long as it is told so."""

    def __init__(self):
        super().__init__()
        self.fails_to = set()
        self.gate = threading.Event()
        self.gate.set()

    def batch(self, ops):
        ops = list(ops)
        self.gate.wait(10)
        if {"write" if isinstance(op, PutOp) else "read" for op in ops} & self.fails_to:
            raise ConnectionError("Nobody is at home.")
        return super().batch(ops)

    async def abatch(self, ops):
        return await asyncio.to_thread(self.batch, list(ops))


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"The key lies on the {place}."


class Desk:
    """An agent that finds a key in two steps each turn, and its experience."""

    def __init__(self, path, turns=4):
        call = {"name": "look", "args": {"place": "desk"}, "id": "1"}
        replies = [AIMessage("", tool_calls=[call]), '{"missing": "nothing"}\nOn the desk.'] * turns
        self.store = Moody()
        self.experience = Experience(self.store, namespace=("all",), verdict=lambda _: True)
        middleware = [ToolTreeMiddleware(effects={"look": "read"}, experience=self.experience)]
        model = ScriptedChatModel(replies=replies)
        self._agent = create_agent(model, [look], middleware=middleware, checkpointer=InMemorySaver())
        self._path = path

    async def turn(self, thread):
        asked = {"messages": [("user", f"Where is the key of {thread}?")]}, {"configurable": {"thread_id": thread}}
        out = self._agent.invoke(*asked) if self._path == "sync" else await self._agent.ainvoke(*asked)
        assert out["messages"][-1].text == "On the desk."

    def kept(self):
        return {run.id: run.turns for run in self.experience.store.trajectories()}


@pytest.fixture(autouse=True)
def never_tried_again_by_itself(monkeypatch):
    monkeypatch.setattr(outage_module, "RETRY_SECONDS", 1_000.0)


def said(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname in {"WARNING", "ERROR"}]


def eventually(holds):
    deadline = time.monotonic() + 10
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize("fails_to", [{"read", "write"}, {"write"}, {"read"}], ids=["down", "disk full", "unreadable"])
async def test_while_a_store_fails_the_agent_goes_on_and_what_it_could_not_keep_is_kept_later(path, caplog, fails_to):
    desk = Desk(path)
    await desk.turn("before")
    desk.store.fails_to = fails_to

    for thread in ("before", "meanwhile", "meanwhile"):
        await desk.turn(thread)

    [told] = said(caplog)
    assert "Nobody is at home." in told
    desk.store.fails_to = set()
    assert desk.kept() == {"before": 2}
    await desk.experience.asettle()
    assert desk.kept() == {"before": 4, "meanwhile": 4}
    assert desk.experience.status().in_graph == 2


async def test_runs_are_kept_as_soon_as_the_store_is_back(path, monkeypatch):
    monkeypatch.setattr(outage_module, "RETRY_SECONDS", 0.01)
    desk = Desk(path)
    desk.store.fails_to = {"write", "read"}
    await desk.turn("one")
    await desk.turn("two")

    desk.store.fails_to = set()

    eventually(lambda: len(desk.kept()) == 2)
    assert desk.kept() == {"one": 2, "two": 2}


async def test_nobody_waits_for_a_slow_store_longer_than_for_a_model(path, monkeypatch, caplog):
    monkeypatch.setattr(outage_module, "PATIENCE", 0.02)
    desk = Desk(path)
    desk.store.gate.clear()

    began = time.monotonic()
    await desk.turn("one")

    assert time.monotonic() - began < 5  # and not the ten seconds that each call takes
    assert len(said(caplog)) == 1
    assert "TimeoutError" in said(caplog)[0]
    desk.store.gate.set()
    await desk.experience.asettle()
    assert desk.kept() == {"one": 2}


async def test_so_many_runs_wait_and_the_oldest_are_given_up(path, monkeypatch):
    monkeypatch.setattr(outage_module, "MOST_UNKEPT", 2)
    desk = Desk(path)
    desk.store.fails_to = {"write"}
    for thread in ("one", "two", "three"):
        await desk.turn(thread)

    desk.store.fails_to = set()
    await desk.experience.asettle()

    assert desk.kept() == {"two": 2, "three": 2}


class Choosy(Moody):
    """Takes no key with a lone surrogate, as no database does."""

    def batch(self, ops):
        ops = list(ops)
        for op in ops:
            getattr(op, "key", "").encode()
        return super().batch(ops)


async def test_a_run_that_no_store_takes_keeps_no_other_from_being_kept(monkeypatch, caplog):
    monkeypatch.setattr(outage_module, "MOST_REFUSED", 2)
    monkeypatch.setattr(__name__ + ".Moody", Choosy)
    desk = Desk("async")

    for thread in ("one", "bad\ud800", "two"):
        await desk.turn(thread)
    await desk.experience.asettle()
    await desk.turn("three")

    assert desk.kept() == {"one": 2, "two": 2, "three": 2}
    assert not any("is lost" in each for each in said(caplog))
    await desk.experience.asettle()
    assert "refuses while it takes others: (('all',), 'bad\\ud800')" in said(caplog)[-1]


@pytest.mark.slow
def test_an_agent_whose_folder_another_embedder_filled_goes_on_and_it_is_said_once(tmp_path, caplog):
    before = Experience(tmp_path, namespace=("all",), embeddings=HashingEmbeddings(dims=16))
    before.learn(Trajectory.from_messages([HumanMessage("Where is the key?")], id="0", success=True))
    before.store.place[0].close()
    after = Experience(tmp_path, namespace=("all",), embeddings=HashingEmbeddings(dims=32), verdict=lambda _: True)
    call = {"name": "look", "args": {"place": "desk"}, "id": "1"}
    replies = [AIMessage("", tool_calls=[call]), '{"missing": "nothing"}\nOn the desk.'] * 2
    middleware = [ToolTreeMiddleware(effects={"look": "read"}, experience=after)]
    agent = create_agent(ScriptedChatModel(replies=replies), [look], middleware=middleware)

    for _ in range(2):
        assert agent.invoke({"messages": [("user", "Where is the key?")]})["messages"][-1].text == "On the desk."

    told = [each for each in said(caplog) if "filled by HashingEmbeddings(dims=16)" in each]
    assert ["searched" in each for each in told] == [True, False]  # each of the two things that cannot be done, once
    after.store.place[0].close()


async def test_nothing_is_forgotten_while_runs_wait_that_would_come_back():
    desk = Desk("async")
    desk.store.fails_to = {"write"}
    await desk.turn("secret")

    with pytest.raises(StoreError, match="1 runs wait"):
        desk.experience.forget(run="secret")
    desk.store.fails_to = set()

    assert desk.experience.forget(run="secret").runs == ("secret",)
    assert desk.kept() == {}
