"""A run that several recorders hear of is judged once and has one record, whichever of them they are."""

import asyncio
import itertools
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langchain_tooltree import (
    CFGMMemory,
    CFGMMiddleware,
    ExperienceStore,
    SITGraph,
    SITGraphMiddleware,
    Trajectory,
    TrajectoryRecorder,
)
from langchain_tooltree.testing import ScriptedChatModel

ASKED: Any = {"messages": [("user", "Is it in the shed?")]}
THREAD = {"configurable": {"thread_id": "shed 1"}}
ANSWER = "It is in the shed."


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"It is in the {place}."


@tool
def ask(question: str) -> str:
    """Ask a person."""
    return f"{question} Yes."


def calling(name: str, number: int = 1, **arguments: Any) -> AIMessage:
    return AIMessage(
        "", tool_calls=[{"name": name, "args": arguments, "id": f"{name} {number}"}]
    )


LOOKED = calling("look", place="shed")


class Judge:
    """A verdict that remembers what it was asked about."""

    def __init__(self, *said: bool | None) -> None:
        self.asked: list[Trajectory] = []
        self._said = itertools.chain(said, itertools.repeat(True))

    def __call__(self, trajectory: Trajectory) -> bool | None:
        self.asked.append(trajectory)
        return next(self._said)


class House:
    """An agent, the store of its memory, the graph that learns from it, and the handlers in its callbacks.

    Args:
        replies: What its model says.
        recorder: The verdict of a recorder that keeps runs in the store of the memory; "none" for one without.
        graph: That of a `SITGraphMiddleware`.
        memory: That of a `CFGMMiddleware`.
    """

    def __init__(
        self,
        *replies: Any,
        recorder: Any = None,
        graph: Any = None,
        memory: Any = None,
        memory_first: bool = True,
        saved: bool = True,
        approve: bool = False,
    ) -> None:
        self.experience = ExperienceStore(InMemoryStore())
        self.graph = SITGraph()
        self.model = ScriptedChatModel(replies=[*(replies or (LOOKED, ANSWER))])
        middleware: list[Any] = []
        if memory is not None:
            kept = CFGMMemory(ScriptedChatModel(replies=[]), self.experience)
            reflector = ScriptedChatModel(replies=[])
            middleware.append(
                CFGMMiddleware(
                    reflector,
                    kept,
                    patience=0,
                    recall=False,
                    verdict=None if memory == "none" else memory,
                )
            )
        if graph is not None:
            middleware.insert(
                len(middleware) if memory_first else 0,
                SITGraphMiddleware(self.graph, verdict=graph),
            )
        if approve:
            middleware.append(HumanInTheLoopMiddleware(interrupt_on={"look": True}))
        self.handlers: list[Any] = []
        if recorder is not None:
            self.handlers.append(
                TrajectoryRecorder(
                    self.experience, verdict=None if recorder == "none" else recorder
                )
            )
        self.agent = create_agent(
            self.model,
            [look, ask],
            middleware=middleware,
            checkpointer=InMemorySaver() if saved else None,
        )

    def run(
        self, path: str, given: Any = ASKED, config: Any = THREAD, *, graph: Any = None
    ) -> Any:
        graph = self.agent if graph is None else graph
        config = {**(config or {}), "callbacks": self.handlers}
        return (
            graph.invoke(given, config)
            if path == "sync"
            else asyncio.run(graph.ainvoke(given, config))
        )

    def records(self) -> list[Trajectory]:
        return list(self.experience.trajectories())


HEARERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "recorder and graph": lambda judge: {"recorder": judge, "graph": judge},
    "recorder and memory": lambda judge: {"recorder": judge, "memory": judge},
    "graph and memory": lambda judge: {"graph": judge, "memory": judge},
    "memory and graph": lambda judge: {
        "graph": judge,
        "memory": judge,
        "memory_first": False,
    },
    "all": lambda judge: {"recorder": judge, "graph": judge, "memory": judge},
}
hearers = pytest.mark.parametrize("hearers", HEARERS.values(), ids=HEARERS)


@hearers
@pytest.mark.parametrize(
    "config",
    [THREAD, {}, {"run_id": uuid.UUID(int=7)}],
    ids=["thread", "no thread", "run id"],
)
def test_a_run_is_judged_once_and_has_one_record(
    path: str, hearers: Callable[[Any], dict[str, Any]], config: Any
) -> None:
    judge = Judge()
    house = House(**hearers(judge), saved="configurable" in config)

    house.run(path, config=config)

    (asked,) = judge.asked
    assert [step.tool for step in asked.calls] == ["look"]
    for record in house.records():
        assert (record.id, record.success, [step.tool for step in record.calls]) == (
            asked.id,
            True,
            ["look"],
        )
    takes_part = hearers(judge)
    assert len(house.records()) == int(
        "recorder" in takes_part or "memory" in takes_part
    )
    assert ("graph" in takes_part) == (asked.id in house.graph)
    if config:
        assert asked.id == ("shed 1" if config == THREAD else str(config["run_id"]))


def test_the_first_of_two_verdicts_is_that_of_the_run(path: str) -> None:
    """Graph and memory must not say different things of one run."""
    first, second = Judge(False), Judge(True)
    house = House(
        memory=second, graph=first
    )  # what stands last among the middleware comes first at the end of a run

    house.run(path)

    assert (len(first.asked), len(second.asked)) == (1, 0)
    assert [record.success for record in house.records()] == [False]


@pytest.mark.parametrize(
    ("silent", "judged_by"),
    [("recorder", "graph"), ("recorder", "memory"), ("memory", "graph")],
)
def test_who_has_no_verdict_takes_that_of_another(
    path: str, silent: str, judged_by: str
) -> None:
    judge = Judge()
    house = House(**{silent: "none", judged_by: judge})

    house.run(path)

    assert [record.success for record in house.records()] == [True]
    assert len(judge.asked) == 1


def test_the_record_of_several_is_the_fuller_one(path: str) -> None:
    """A recorder knows the tools and the conversation before it was emptied; memory alone does not."""
    judge = Judge()
    house = House(LOOKED, ANSWER, "It rains.", recorder=judge, memory=judge)

    house.run(path)
    ids = [message.id for message in house.agent.get_state(THREAD).values["messages"]]
    removed = [RemoveMessage(name) for name in ids[1:3]]
    house.run(path, {"messages": [*removed, HumanMessage("And the weather?")]})

    (record,) = house.records()
    assert [step.tool for step in record.calls] == ["look"]
    assert [each["function"]["name"] for each in record.metadata["tools"]] == [
        "ask",
        "look",
    ]
    assert len(judge.asked) == 2


@hearers
def test_each_turn_of_a_thread_is_judged_once(
    path: str, hearers: Callable[[Any], dict[str, Any]]
) -> None:
    judge = Judge(True, False)
    house = House(LOOKED, ANSWER, "No.", **hearers(judge))

    house.run(path)
    house.run(path, {"messages": [("user", "Is it still there?")]})

    assert [len(asked.messages) for asked in judge.asked] == [4, 6]
    assert [record.success for record in house.records()] in ([False], [])
    assert "shed 1" not in house.graph


@hearers
def test_a_resumed_run_is_judged_once_at_its_end(
    path: str, hearers: Callable[[Any], dict[str, Any]]
) -> None:
    judge = Judge()
    house = House(**hearers(judge), approve=True)

    house.run(path)
    assert judge.asked == []
    house.run(path, Command(resume={"decisions": [{"type": "approve"}]}))

    (asked,) = judge.asked
    assert [step.tool for step in asked.calls] == ["look"]
    takes_part = hearers(judge)
    assert [record.success for record in house.records()] == [True] * int(
        "recorder" in takes_part or "memory" in takes_part
    )
    assert ("graph" in takes_part) == ("shed 1" in house.graph)


def test_another_conversation_on_the_same_thread_is_judged_again(path: str) -> None:
    judge = Judge()
    house = House(LOOKED, ANSWER, "Painted.", recorder=judge, graph=judge, memory=judge)

    house.run(path)
    house.run(
        path,
        {
            "messages": [
                RemoveMessage(REMOVE_ALL_MESSAGES),
                HumanMessage("Paint the fence."),
            ]
        },
    )

    assert len(judge.asked) == 2
    assert [record.task for record in house.records()] == [
        "Is it in the shed?",
        "Paint the fence.",
    ]


def test_the_same_store_for_another_user_keeps_a_record_of_its_own(path: str) -> None:
    judge, store = Judge(), InMemoryStore()
    experience = ExperienceStore(store, namespace=("tooltree", "{user_id}"))
    memory = CFGMMemory(ScriptedChatModel(replies=[]), experience)
    agent = create_agent(
        ScriptedChatModel(replies=[LOOKED, ANSWER]),
        [look],
        middleware=[
            CFGMMiddleware(
                ScriptedChatModel(replies=[]), memory, recall=False, verdict=judge
            )
        ],
        checkpointer=InMemorySaver(),
    )
    recorder = TrajectoryRecorder(experience.within(user_id="all"), verdict=judge)
    config: Any = {
        "configurable": {"thread_id": "1", "user_id": "ada"},
        "callbacks": [recorder],
    }

    if path == "sync":
        agent.invoke(ASKED, config)
    else:
        asyncio.run(agent.ainvoke(ASKED, config))

    for user in ("ada", "all"):
        assert [
            record.success for record in experience.within(user_id=user).trajectories()
        ] == [True]
    assert len(judge.asked) == 1


def test_an_agent_inside_a_recorded_graph_keeps_a_record_of_its_own(path: str) -> None:
    """It is another conversation than that of the graph around it, so both are judged."""
    judge = Judge()
    house = House(recorder=judge, memory=judge, saved=False)
    host = StateGraph(MessagesState)
    host.add_node("shed", house.agent)
    host.add_edge(START, "shed")

    house.run(path, graph=host.compile(checkpointer=InMemorySaver()))

    outer, inner = sorted(record.id for record in house.records())
    assert outer == "shed 1"
    assert inner.startswith("shed 1/shed:")
    assert len(judge.asked) == 2


def test_a_verdict_that_raises_is_not_shared(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Trajectory) -> bool:
        msg = "no idea"
        raise LookupError(msg)

    judge = Judge()
    house = House(graph=broken, memory=judge)

    house.run(path)

    assert "Nothing was learnt from a run: no idea" in caplog.text
    assert [record.success for record in house.records()] == [True]
    assert len(judge.asked) == 1


def test_a_run_that_raises_is_judged_by_the_recorder_alone(path: str) -> None:
    judge = Judge(False)
    house = House(
        LOOKED, ConnectionError("down"), recorder=judge, graph=judge, memory=judge
    )

    with pytest.raises(ConnectionError):
        house.run(path)

    (record,) = house.records()
    assert (record.success, record.reasons) == (
        False,
        "The run raised ConnectionError: down",
    )
    assert len(judge.asked) == 1
