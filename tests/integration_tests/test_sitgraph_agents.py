"""Agents with a SITGraphMiddleware over recorded runs: what they learn, many at once, and what their streams show."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agents import invoke, stream
from composition import FIND, PRICE, RUNS, Clerk, Depot, asking
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from langchain_tooltree import (
    SITGraph,
    SITGraphMiddleware,
    Trajectory,
    TrajectoryRecorder,
    dump_trajectories,
    load_thread,
    load_trajectories,
)
from langchain_tooltree.experience.verdict import Verdict
from langchain_tooltree.testing import ScriptedChatModel

SUMMED: Any = {
    "extra": [
        ("summarize_state", {"summary": "They want a bolt, and nothing is known yet."})
    ]
}
PRICING: Any = {"steps": [FIND, PRICE], **SUMMED}


def desk_agent(graph: SITGraph, clerk: Clerk, /, **options: Any) -> Any:
    """An agent of the depot with suggestions."""
    middleware = [SITGraphMiddleware(graph, **options)]
    return create_agent(
        clerk, Depot().tools, middleware=middleware, checkpointer=InMemorySaver()
    )


def thread(number: int) -> Any:
    return {"configurable": {"thread_id": f"thread {number}"}}


def well_done(trajectory: Trajectory) -> Verdict:
    last = trajectory.calls[-1].tool if trajectory.calls else ""
    return Verdict(last == "price", f"It ended with {last}.")


@pytest.fixture
def mined(tmp_path: Path) -> SITGraph:
    """The graph of the recorded runs, by way of a file."""
    path = tmp_path / "recorded.jsonl.gz"
    assert dump_trajectories(RUNS, path) == len(RUNS)
    return SITGraph.from_trajectories(load_trajectories(path))


def check_same(left: SITGraph, right: SITGraph, folder: Path) -> None:
    """Two graphs are the same, byte for byte."""
    for name, graph in (("left", left), ("right", right)):
        graph.save(folder / name)
    written = [
        {
            file.relative_to(folder / name): file.read_bytes()
            for file in (folder / name).rglob("*")
            if file.is_file()
        }
        for name in ("left", "right")
    ]
    assert written[0] == written[1]


def test_what_was_learnt_is_suggested_in_the_next_conversation(
    path: str, mined: SITGraph
) -> None:
    def supports(number: int) -> list[dict[str, int]]:
        agent = desk_agent(mined, Clerk(**PRICING), verdict=well_done)
        parts = stream(agent, asking(), thread(number), path=path, stream_mode="custom")
        return [
            {each["tool"]: each["support"] for each in part["tooltree"]["suggestions"]}
            for part in parts
        ]

    before, after = supports(1), supports(2)

    assert before[0] == {"find": len(RUNS)}
    assert after[0] == {"find": len(RUNS) + 1}
    assert after[-1]["price"] == before[-1]["price"] + 1


def test_learning_online_gives_the_same_graph_as_mining_afterwards(
    path: str, mined: SITGraph, tmp_path: Path
) -> None:
    kept: list[Trajectory] = []
    agents = {}
    for number, model in (
        (1, Clerk(**PRICING)),
        (2, Clerk(steps=[FIND])),
        (3, Clerk(**PRICING)),
    ):
        agents[number] = desk_agent(mined, model, verdict=well_done)
        recorder = TrajectoryRecorder(kept.append, verdict=well_done)
        invoke(
            agents[number],
            asking(),
            thread(number) | {"callbacks": [recorder]},
            path=path,
        )

    threads = [load_thread(agents[number], thread(number)) for number in (3, 1, 2)]
    judged = [each.judged(well_done(each).success) for each in threads]
    assert [run.success for run in judged] == [True, True, False]
    for runs in (judged, kept):
        offline = SITGraph()
        for run in (*runs, *RUNS, *runs):
            offline.add(run)
        assert len(offline) == len(mined) == len(RUNS) + 2
        check_same(mined, offline, tmp_path)


def test_many_conversations_at_once_are_all_learnt(path: str, tmp_path: Path) -> None:
    graph = SITGraph.from_trajectories(RUNS)
    crowd = [desk_agent(graph, Clerk(**PRICING), verdict=well_done) for _ in range(6)]

    if path == "async":

        async def run() -> None:
            await asyncio.gather(
                *(
                    agent.ainvoke(asking(), thread(number))
                    for number, agent in enumerate(crowd)
                )
            )

        asyncio.run(run())
    else:
        with ThreadPoolExecutor(6) as pool:
            list(
                pool.map(
                    lambda number: crowd[number].invoke(asking(), thread(number)),
                    range(6),
                )
            )

    offline = SITGraph.from_trajectories(RUNS)
    for number, agent in enumerate(crowd):
        offline.add(load_thread(agent, thread(number)).judged(success=True))
    assert len(graph) == len(RUNS) + 6
    check_same(graph, offline, tmp_path)


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
@pytest.mark.parametrize("path", ["sync", "async", "typed"])
def test_the_models_that_sum_up_and_judge_do_not_stream(
    path: str, mined: SITGraph
) -> None:
    writer = ScriptedChatModel(replies=["They want a bolt."])
    judge = ScriptedChatModel(
        replies=[{"reasons": "It was told.", "verdict": "success"}]
    )
    clerk = Clerk(
        steps=[FIND, PRICE], extra=[("summarize_state", {"question": "What next?"})]
    )
    agent = desk_agent(mined, clerk, model=writer, verdict=judge)

    if path == "typed":
        messages = list(agent.stream_events(asking(), thread(1), version="v3").messages)
        said = [each.output_message.text for each in messages]
    else:
        chunks = stream(agent, asking(), thread(1), path=path, stream_mode="messages")
        said = [chunk.text for chunk, _ in chunks if chunk.type == "AIMessageChunk"]

    assert "".join(said) == "That is all: price bolt: 90"
    assert len(writer.calls) == len(judge.calls) == 1
    assert "thread 1" in mined
