"""Agents that recover from trouble and remember how: by themselves, nested, interrupted, and beside the other two."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agents import Witness, invoke, stream
from conversations import check_conversation, check_pairs
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessageChunk, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from warehouse import (
    ADVICE,
    ANSWER,
    COVERED,
    RECOVERED,
    REVIEW,
    STRAIGHT,
    TASK,
    Warehouse,
    advised,
    asking,
    called,
    called_in,
    calling,
    document_of,
    memory,
    thread,
    warehouse_agent,
    watcher,
    went_well,
    work,
    worker,
)

from langchain_tooltree import (
    CFGMMemory,
    CFGMMiddleware,
    CFGMReflectionNode,
    ExperienceStore,
    Trajectory,
    TrajectoryRecorder,
    anomaly_condition,
)
from langchain_tooltree.testing import ScriptedChatModel

JUDGED = {"reasons": "The lamp is there.", "verdict": "success"}


# --- recovery ---


def test_an_agent_in_trouble_comes_out_of_it(path: str) -> None:
    place = Warehouse()
    agent = warehouse_agent(CFGMMiddleware(watcher(), patience=0), tools=place.tools, checkpointer=InMemorySaver())

    messages = invoke(agent, asking(), thread(), path=path)["messages"]

    assert called(check_conversation(messages)) == RECOVERED
    assert place.placed == [("lamp", "A1")]
    assert advised(messages) == ["call_0_place"]


def test_without_help_it_stays_there(path: str) -> None:
    agent = warehouse_agent(CFGMMiddleware(watcher(), patience=0, reflect=False))

    with pytest.raises(GraphRecursionError):
        invoke(agent, asking(), {"recursion_limit": 40}, path=path)


def reflecting_graph(watching: Any, *, conditional: bool) -> Any:
    """A graph of one's own with a reflection node."""
    tools, model = Warehouse().tools, worker()
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools))
    graph.add_node("reflect", CFGMReflectionNode(watching, patience=0, tools=tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    if conditional:
        graph.add_conditional_edges("tools", anomaly_condition, ["reflect", "model"])
    else:
        graph.add_edge("tools", "reflect")
    graph.add_edge("reflect", "model")
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("conditional", [False, True], ids=["always", "behind the condition"])
def test_a_graph_of_ones_own_does_so_with_a_node(path: str, *, conditional: bool) -> None:
    watching = watcher()

    messages = invoke(reflecting_graph(watching, conditional=conditional), asking(), thread(), path=path)["messages"]

    assert called(check_conversation(messages)) == RECOVERED
    assert len(watching.calls) == 1


def test_values_are_valid_conversations_at_every_step(path: str) -> None:
    agent = warehouse_agent(CFGMMiddleware(watcher(), memory(), patience=0, verdict=went_well))

    states = stream(agent, asking(), path=path, stream_mode="values")

    for state in states:
        check_pairs(state["messages"], may_end_open=True)


def test_of_parallel_calls_the_one_in_trouble_is_corrected(path: str) -> None:
    together = calling(0, place={"item": "lamp", "shelf": "A1"}, weigh={"item": "lamp"})
    watching = watcher()
    agent = warehouse_agent(CFGMMiddleware(watching, patience=0), model=worker(together))

    messages = invoke(agent, asking(), path=path)["messages"]

    check_conversation(messages)
    assert advised(messages) == ["call_0_place"]
    assert document_of(watching.calls[0])["step"]["observation"] == COVERED


# --- memory ---


def test_how_it_got_out_is_recalled_in_the_next_conversation(path: str) -> None:
    watching, known = watcher(), memory()
    agent = warehouse_agent(
        CFGMMiddleware(watching, known, patience=0, verdict=went_well), checkpointer=InMemorySaver()
    )
    first = invoke(agent, asking(), thread(1), path=path)["messages"]

    other = warehouse_agent(
        CFGMMiddleware(watching, known, patience=0, verdict=went_well), checkpointer=InMemorySaver()
    )
    second = invoke(other, asking("Put the lamp on shelf A1."), thread(2), path=path)["messages"]

    assert called(first) == RECOVERED
    assert called(second) == STRAIGHT
    assert len(watching.calls) == 1


def test_what_memory_says_is_not_mined_again(path: str) -> None:
    known, recorded = memory(), list[Trajectory]()
    config = {"callbacks": [TrajectoryRecorder(recorded.append, verdict=went_well)]}
    for number in (1, 2, 3):
        agent = warehouse_agent(
            CFGMMiddleware(watcher(), known, patience=0, verdict=went_well), checkpointer=InMemorySaver()
        )
        invoke(agent, asking(), thread(number) | config, path=path)

    kept = {run.id: run for run in known.experience.trajectories()}
    assert kept.keys() == {"thread 1", "thread 2", "thread 3"}
    for by_callback in recorded:
        run = kept[by_callback.id]
        assert (run.steps, run.task, run.success) == (by_callback.steps, TASK, True)
    for run in (*kept.values(), *recorded):
        for said_by_memory in (ADVICE, "reference_material", REVIEW["key_information"]["progress"]):
            assert said_by_memory not in repr(replace(run, metadata={}))  # of which nothing is mined
        assert set(run.metadata) <= {"advised", "judged_by", "recalled", "tools"}


def test_each_user_is_reminded_of_their_own_runs_alone(path: str) -> None:
    store = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user_id}"))
    known = memory(store)

    def calls_of(user: str) -> list[str]:
        agent = warehouse_agent(CFGMMiddleware(watcher(), known, patience=0, verdict=went_well))
        return called(invoke(agent, asking(), {"configurable": {"user_id": user}}, path=path)["messages"])

    assert [calls_of(user) for user in ("ada", "bob", "ada")] == [RECOVERED, RECOVERED, STRAIGHT]
    assert len(list(store.within(user_id="bob").trajectories())) == 1


def test_a_collection_with_an_agent_that_has_the_same_memory_keeps_each_attempt_once(path: str) -> None:
    known = CFGMMemory(
        ScriptedChatModel(replies=["The shelf is under a cover: uncover it first."] * 9), InMemoryStore()
    )
    cfgm = CFGMMiddleware(watcher(), known, patience=0, verdict=went_well)
    witness = Witness()
    tried = list[str]()

    def evaluate(task: str, _: Any) -> bool:
        tried.append(task)
        return len(tried) > 1

    def fresh(_: str) -> Any:
        return warehouse_agent(cfgm)

    options: Any = {"config": {"callbacks": [witness]}, "focus_points": []}
    if path == "async":
        report = asyncio.run(known.acollect(fresh, [TASK], evaluate, max_retries=1, **options))
    else:
        report = known.collect(fresh, [TASK], evaluate, max_retries=1, **options)

    kept = sorted(known.experience.trajectories(), key=lambda run: run.metadata["attempt"])
    assert [(run.metadata["attempt"], run.success) for run in kept] == [(1, False), (2, True)]
    assert not report.unfinished
    assert "recall" not in {event["type"] for event in witness.events}


def test_many_conversations_at_once_do_not_mix(path: str) -> None:
    known = memory()
    cfgm = CFGMMiddleware(watcher(), known, patience=0, recall=False, verdict=went_well)
    crowd = [warehouse_agent(cfgm, checkpointer=InMemorySaver()) for _ in range(12)]

    if path == "async":

        async def run() -> list[Any]:
            made = (agent.ainvoke(asking(), thread(number)) for number, agent in enumerate(crowd))
            return await asyncio.gather(*made)

        states = asyncio.run(run())
    else:
        with ThreadPoolExecutor(6) as pool:
            states = list(pool.map(lambda pair: pair[1].invoke(asking(), thread(pair[0])), enumerate(crowd)))

    assert [called(check_conversation(state["messages"])) for state in states] == [RECOVERED] * 12
    assert {run.id for run in known.experience.trajectories()} == {f"thread {number}" for number in range(12)}


# --- stop and go on ---


def test_a_killed_run_goes_on_in_another_process_without_asking_again(tmp_path: Path) -> None:
    place, watching, known = Warehouse(), watcher(), memory()

    def agent(saver: Any, *first: Any) -> Any:
        cfgm = CFGMMiddleware(watching, known, patience=0, verdict=went_well)
        return warehouse_agent(cfgm, model=worker(*first), tools=place.tools, checkpointer=saver)

    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver, pytest.raises(ConnectionError):
        agent(saver, work, ConnectionError("killed")).invoke(asking(), thread())
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        messages = agent(saver).invoke(None, thread())["messages"]

    assert called(check_conversation(messages)) == RECOVERED
    assert len(watching.calls) == 1
    assert [run.id for run in known.experience.trajectories()] == ["thread 1"]


def test_a_run_that_waits_for_a_person_goes_on_as_it_would_have(path: str) -> None:
    watching, known = watcher(), memory()
    approval = HumanInTheLoopMiddleware(interrupt_on={"place": True, "uncover": True})
    agent = warehouse_agent(CFGMMiddleware(watching, known, patience=0), approval, checkpointer=InMemorySaver())

    state = invoke(agent, asking(), thread(), path=path)
    stops = 0
    while state.get("__interrupt__"):
        assert list(known.experience.trajectories()) == []
        stops += 1
        state = invoke(agent, Command(resume={"decisions": [{"type": "approve"}]}), thread(), path=path)

    assert stops == 3
    assert called(check_conversation(state["messages"])) == RECOVERED
    assert len(watching.calls) == 1
    assert len(list(known.experience.trajectories())) == 1


@pytest.mark.parametrize("before", [True, False], ids=["in front", "behind"])
def test_a_person_may_stop_the_run_right_before_and_after_a_reflection(path: str, *, before: bool) -> None:
    node = "CFGMMiddleware.before_model" if before else "model"
    watching = watcher()
    agent = warehouse_agent(CFGMMiddleware(watching, patience=0), checkpointer=InMemorySaver(), interrupt_before=[node])

    invoke(agent, asking(), thread(), path=path)
    while agent.get_state(thread()).next:
        state = invoke(agent, None, thread(), path=path)

    assert called(state["messages"]) == RECOVERED
    assert len(watching.calls) == 1


# --- inside of others ---


def as_tool(agent: Any) -> StructuredTool:
    """An agent as a tool of another one."""

    def ask_worker(wish: str) -> str:
        """Ask the worker."""
        return str(agent.invoke(asking(wish))["messages"][-1].text)

    async def aask_worker(wish: str) -> str:
        return str((await agent.ainvoke(asking(wish)))["messages"][-1].text)

    return StructuredTool.from_function(ask_worker, aask_worker)


def test_an_agent_that_is_a_tool_of_another_recovers_inside_of_it(path: str) -> None:
    inner_watching, outer_watching, known = watcher(), watcher(), memory()
    inner = warehouse_agent(CFGMMiddleware(inner_watching, known, patience=0, verdict=went_well), name="worker")
    chief = create_agent(
        ScriptedChatModel(replies=[calling(0, ask_worker={"wish": TASK}), "All done."]),
        [as_tool(inner)],
        middleware=[CFGMMiddleware(outer_watching, known, patience=0, verdict=went_well)],
        checkpointer=InMemorySaver(),
    )

    messages = invoke(chief, asking("Tidy up."), thread(), path=path)["messages"]

    assert [message.text for message in messages if isinstance(message, ToolMessage)] == [ANSWER]
    assert (len(inner_watching.calls), len(outer_watching.calls)) == (1, 0)
    runs = {run.task: called_in(run) for run in known.experience.trajectories()}
    assert runs == {"Tidy up.": ["ask_worker"], TASK: RECOVERED}


def test_an_agent_that_is_a_node_of_a_graph_does_too(path: str) -> None:
    known = memory()
    host = StateGraph(MessagesState)
    host.add_node("worker", warehouse_agent(CFGMMiddleware(watcher(), known, patience=0)))
    host.add_edge(START, "worker")

    messages = invoke(host.compile(checkpointer=InMemorySaver()), asking(), thread(), path=path)["messages"]

    assert called(check_conversation(messages)) == RECOVERED
    assert advised(messages) == ["call_0_place"]
    (run,) = known.experience.trajectories()
    assert run.id.startswith("thread 1/worker:")


# --- watching ---


def test_the_models_that_reflect_and_judge_do_not_stream(path: str) -> None:
    watching, judge = watcher(), ScriptedChatModel(replies=[JUDGED])
    agent = warehouse_agent(CFGMMiddleware(watching, memory(), patience=0, verdict=judge))

    chunks = [chunk for chunk, _ in stream(agent, asking(), path=path, stream_mode="messages")]

    assert len(watching.calls) == len(judge.calls) == 1
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, AIMessageChunk)) == ANSWER
    results = [chunk for chunk in chunks if isinstance(chunk, ToolMessage)]
    assert [result.text for result in results] == [COVERED, "A1 is open", "lamp is on A1"], "each is shown once"


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_typed_messages_are_those_of_the_agent() -> None:
    watching, judge = watcher(), ScriptedChatModel(replies=[JUDGED])
    agent = warehouse_agent(CFGMMiddleware(watching, memory(), patience=0, verdict=judge), checkpointer=InMemorySaver())

    messages = list(agent.stream_events(asking(), thread(), version="v3").messages)

    assert [each.output_message.text for each in messages] == ["", "", "", ANSWER]
    assert len(watching.calls) == len(judge.calls) == 1


def test_events_tell_what_memory_does(path: str) -> None:
    known, witness = memory(), Witness()
    agent = warehouse_agent(CFGMMiddleware(watcher(), known, patience=0, verdict=went_well))

    parts = stream(agent, asking(), {"callbacks": [witness]}, path=path, stream_mode="custom")

    events = [part["tooltree"] for part in parts]
    assert [event["type"] for event in events] == ["recall", "anomaly", "reflect"]
    assert events[1]["anomaly"]["evidence"]
    assert events[2]["reflection"]["next_step"] == ADVICE
    assert witness.events == events


def test_updates_show_the_correction_as_a_step_of_its_own(path: str) -> None:
    agent = warehouse_agent(CFGMMiddleware(watcher(), patience=0))

    updates = [part for part in stream(agent, asking(), path=path, stream_mode="updates") if "model" not in part]

    changed = [part["CFGMMiddleware.before_model"] for part in updates if "CFGMMiddleware.before_model" in part]
    (corrected,) = (message for update in changed if update for message in update["messages"])
    assert ADVICE in corrected.text
