"""Agents with a SITGraphMiddleware, over dialogues recorded in a file: both ways to a suggestion, and learning."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agents import ListeningModel, invoke, planning_agent, stream
from langgraph.checkpoint.memory import InMemorySaver
from parcel_desk import (
    ANSWER,
    ASKED,
    LOST_WANTED,
    SCRIPT,
    SYSTEM,
    as_table,
    call,
    desk_agent,
    example,
    recorded,
    recorded_runs,
    transcript,
)
from travel import BOOKING, EFFECTS, Agency, asking

from langchain_tooltree import (
    SITGraph,
    SITGraphMiddleware,
    Trajectory,
    TrajectoryRecorder,
    dump_trajectories,
    load_thread,
    load_trajectories,
    testing,
)
from langchain_tooltree.experience.verdict import Verdict
from tests.internals.experience import from_json

BOTH: Any = ["custom", "updates"]
JUDGED = {"reasons": "It was sent again.", "verdict": "success"}


def thread(number: int) -> Any:
    return {"configurable": {"thread_id": f"thread {number}"}}


def well_done(trajectory: Trajectory) -> Verdict:
    last = trajectory.steps[-1].tool if trajectory.steps else ""
    return Verdict(last == "resend_order", f"It ended with {last}.")


@pytest.fixture
def mined(tmp_path: Path) -> SITGraph:
    """The graph of the recorded dialogues, by way of a file."""
    path = tmp_path / "recorded.jsonl.gz"
    assert dump_trajectories((from_json(line) for line in recorded()), path) == len(recorded())
    return SITGraph.from_trajectories(load_trajectories(path))


def same(left: SITGraph, right: SITGraph, folder: Path) -> bool:
    """Whether two graphs are the same, byte for byte."""
    for name, graph in (("left", left), ("right", right)):
        graph.save(folder / name)
    written = [
        {file.relative_to(folder / name): file.read_bytes() for file in (folder / name).rglob("*") if file.is_file()}
        for name in ("left", "right")
    ]
    return written[0] == written[1]


def names_in(shares: str) -> list[str]:
    """The tools in a cell such as `track_parcel 78%, change_address 22%`."""
    return re.findall(r"[a-z_]+", shares)


# --- both ways to a suggestion ---


def test_routine_steps_go_by_the_dialogue_and_a_turning_point_by_the_summary(path: str, mined: SITGraph) -> None:
    reads = ("find_order", "track_parcel", "change_address", "refund_order", "resend_order")  # one run each is enough
    agent, model = desk_agent(mined, effects=dict.fromkeys(reads, "read"))

    rows = transcript(stream(agent, ASKED, thread(1), path=path, stream_mode=BOTH))

    steps = [
        (said.split("(")[0].strip("`"), mode, names_in(shares))
        for role, said, mode, shares in rows
        if role == "assistant"
    ]
    assert steps == [
        ("find_order", "contextual", ["find_order"]),
        ("track_parcel", "contextual", ["track_parcel"]),
        ("summarize_state", "contextual", ["resend_order", "refund_order"]),
        ("resend_order", "episodic", ["resend_order", "refund_order"]),
        (ANSWER, "", []),
    ]
    prompts = [messages[0].text for messages in model.calls]
    assert all(prompt.startswith(f"{SYSTEM}\n\n<reference_material ") for prompt in prompts[:3])
    assert "Past runs went on here with: resend_order in 1 of 4 runs" in model.calls[3][-1].text
    assert LOST_WANTED not in model.calls[3][-1].text
    assert prompts[3] == prompts[4] == SYSTEM


def test_the_thread_holds_the_conversation_and_nothing_else(path: str, mined: SITGraph) -> None:
    agent, _ = desk_agent(mined, verdict=well_done)
    without, _ = desk_agent(SITGraph())

    messages = invoke(agent, ASKED, thread(1), path=path)["messages"]

    expected = invoke(without, ASKED, thread(1), path=path)["messages"]
    told, without_graph = ([(each.type, each.content) for each in run] for run in (messages, expected))
    differing = [one[1].partition("\n")[0] for one, other in zip(told, without_graph, strict=True) if one != other]
    assert differing == ["The state is noted."]
    trajectory = load_thread(agent, thread(1))
    assert [step.tool for step in trajectory.steps] == ["find_order", "track_parcel", "summarize_state", "resend_order"]


def test_the_graph_of_the_paper_takes_routine_steps_by_weight(path: str) -> None:
    graph = SITGraph.paper()
    for run in recorded_runs():
        graph.add(run)
    agent, _ = desk_agent(graph)

    rows = transcript(stream(agent, ASKED, thread(1), path=path, stream_mode=BOTH))

    modes = [mode for role, _, mode, _ in rows if role == "assistant"]
    assert modes == ["procedural", "procedural", "procedural", "episodic", ""]


def test_a_transcript_is_a_table() -> None:
    header, rule, *rows = as_table(example()).splitlines()

    assert header == "| role | what | mode | suggested before |"
    assert rule == "| --- | --- | --- | --- |"
    assert len(rows) == 10
    assert all(row.count("|") == 5 for row in rows)


# --- learning ---


def test_what_was_learnt_is_suggested_in_the_next_conversation(path: str, mined: SITGraph) -> None:
    agent, _ = desk_agent(mined, replies=[*SCRIPT, *SCRIPT], verdict=well_done)

    def supports(number: int) -> list[dict[str, int]]:
        parts = stream(agent, ASKED, thread(number), path=path, stream_mode="custom")
        return [{each["tool"]: each["support"] for each in part["tooltree"]["suggestions"]} for part in parts]

    before, after = supports(1), supports(2)

    assert before[-1] == {"resend_order": 1, "refund_order": 1}
    assert after[-1]["resend_order"] == 2
    assert after[0] == {"find_order": 6}


def test_learning_online_gives_the_same_graph_as_mining_afterwards(path: str, mined: SITGraph, tmp_path: Path) -> None:
    kept: list[Trajectory] = []
    failing = [call("find_order", email="mo@example.org"), "I cannot help."]
    agent, _ = desk_agent(mined, replies=[*SCRIPT, *failing, *SCRIPT], verdict=well_done)
    config = {"callbacks": [TrajectoryRecorder(kept.append, verdict=well_done)]}

    for number in (1, 2, 3):
        invoke(agent, ASKED, thread(number) | config, path=path)

    threads = [load_thread(agent, thread(number)) for number in (3, 1, 2)]
    judged = [each.judged(well_done(each).success) for each in threads]
    assert [run.success for run in judged] == [True, True, False]
    for runs in (judged, kept):
        offline = SITGraph()
        for run in (*runs, *recorded_runs(), *runs):
            offline.add(run)
        assert len(offline) == len(mined) == 7
        assert same(mined, offline, tmp_path)


def test_many_conversations_at_once_are_all_learnt(path: str, tmp_path: Path) -> None:
    graph = SITGraph.from_trajectories(recorded_runs())
    crowd = [desk_agent(graph, verdict=well_done)[0] for _ in range(12)]

    if path == "async":

        async def run() -> None:
            await asyncio.gather(*(agent.ainvoke(ASKED, thread(number)) for number, agent in enumerate(crowd)))

        asyncio.run(run())
    else:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda number: crowd[number].invoke(ASKED, thread(number)), range(12)))

    offline = SITGraph.from_trajectories(recorded_runs())
    for number, agent in enumerate(crowd):
        offline.add(load_thread(agent, thread(number), success=True))
    assert len(graph) == 5 + 12
    assert same(graph, offline, tmp_path)


# --- beside others ---


def test_the_models_that_sum_up_and_judge_do_not_stream(path: str, mined: SITGraph) -> None:
    writer = testing.ScriptedChatModel(replies=[LOST_WANTED])
    judge = testing.ScriptedChatModel(replies=[JUDGED])
    script = [*SCRIPT[:2], call("summarize_state", question="Send it again?"), *SCRIPT[3:]]
    agent, _ = desk_agent(mined, replies=script, model=writer, verdict=judge)

    chunks = stream(agent, ASKED, thread(1), path=path, stream_mode="messages")

    assert len(writer.calls) == len(judge.calls) == 1
    assert "thread 1" in mined
    said = [chunk.text for chunk, _ in chunks if chunk.type == "AIMessageChunk"]
    assert "".join(said) == ANSWER


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
def test_typed_messages_are_those_of_the_agent(mined: SITGraph) -> None:
    writer = testing.ScriptedChatModel(replies=[LOST_WANTED])
    judge = testing.ScriptedChatModel(replies=[JUDGED])
    script = [*SCRIPT[:2], call("summarize_state", question="Send it again?"), *SCRIPT[3:]]
    agent, _ = desk_agent(mined, replies=script, model=writer, verdict=judge)

    messages = list(agent.stream_events(ASKED, thread(1), version="v3").messages)

    assert [each.output_message.text for each in messages] == ["", "", "", "", ANSWER]
    assert len(writer.calls) == len(judge.calls) == 1


@pytest.mark.parametrize("effects", [EFFECTS, EFFECTS | {"summarize_state": "read"}], ids=["by default", "as a read"])
def test_a_planner_behind_it_proposes_with_the_suggestions_in_mind(path: str, agency: Agency, effects: Any) -> None:
    past, model = ListeningModel(), ListeningModel()
    config: Any = {"configurable": {"thread_id": "past"}}
    kept: list[Trajectory] = []
    recorder = TrajectoryRecorder(kept.append, verdict=lambda _: True)
    invoke(planning_agent(Agency(), model=past), asking(BOOKING), config | {"callbacks": [recorder]}, path=path)
    graph = SITGraph.from_trajectories(kept)
    suggesting = SITGraphMiddleware(graph, verdict=lambda _: True, effects=effects)
    agent = planning_agent(agency, suggesting, model=model, planner={"effects": effects}, checkpointer=InMemorySaver())

    messages = invoke(agent, asking(BOOKING), thread(1), path=path)["messages"]

    assert agency.calls["book OS-1"] == 1
    assert messages[-1].text.endswith("OS-1 is booked")
    first, *_ = model.asked("step")
    assert "Past runs went on here with: find_flights in 1 of 1 runs." in first.system
    assert "Past runs" not in "".join(heard.system for heard in past.heard)
    assert "thread 1" in graph
