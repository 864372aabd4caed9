"""CFGMMiddleware: what is kept of the agent's own runs, and when."""

import asyncio
import uuid

import pytest
from boiler_memory import (
    LEARNT,
    PAST,
    SHOWN,
    THREAD,
    helped,
    kept,
    memory_of,
    past_run,
    systems,
)
from boiler_room import (
    ANSWER,
    ASKED,
    MISTAKE,
    NEXT_STEP,
    NO_VALVE,
    TASK,
    TOOLS,
    call,
    either,
    reflector,
    told,
)
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
)
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langchain_tooltree import CFGMMemory, CFGMMiddleware, ExperienceStore
from langchain_tooltree.experience.verdict import Verdict
from langchain_tooltree.testing import ScriptedChatModel


def test_a_run_is_kept_with_its_verdict_and_without_what_memory_said(path):
    memory = memory_of(PAST)
    verdict = lambda trajectory: Verdict(  # noqa: E731
        success=trajectory.task == TASK, reasons="It is warm."
    )
    agent, _ = helped(
        MISTAKE,
        ANSWER,
        memory=memory,
        options={"verdict": verdict},
        checkpointer=InMemorySaver(),
    )

    either(path, agent)(ASKED, THREAD)

    (run,) = kept(memory)
    assert (run.id, run.task, run.success, run.reasons) == (
        "boiler 1",
        TASK,
        True,
        "It is warm.",
    )
    assert [step.result.content for step in run.calls] == [NO_VALVE]
    everything = repr((run.messages, run.calls, run.task))
    assert run.metadata["recalled"] == {"runs": [f"past {PAST}"], "tips": []}
    for told_by_memory in (NEXT_STEP, PAST, LEARNT, "reference_material"):
        assert told_by_memory not in everything


async def later(trajectory):
    await asyncio.sleep(0)
    return 0.0


@pytest.mark.parametrize(
    ("verdict", "success"),
    [(None, None), (lambda _: True, True), (later, False), ("model", True)],
    ids=["nobody asked", "function", "async function", "model"],
)
def test_whoever_judges_the_runs(path, verdict, success):
    memory = memory_of()
    judge = ScriptedChatModel(replies=[{"reasons": "Warm.", "verdict": "success"}])
    agent, _ = helped(
        ANSWER,
        memory=memory,
        options={"verdict": judge if verdict == "model" else verdict},
    )

    either(path, agent)(ASKED)

    assert [run.success for run in kept(memory)] == [success]


def test_a_conversation_that_goes_on_takes_the_place_of_its_beginning(path):
    memory = memory_of()
    agent, _ = helped(ANSWER, "Still is.", memory=memory, checkpointer=InMemorySaver())

    either(path, agent)(ASKED, THREAD)
    either(path, agent)({"messages": [("user", "And now?")]}, THREAD)

    (run,) = kept(memory)
    assert (run.id, run.task, len(run.messages)) == ("boiler 1", TASK, 4)


def test_runs_without_a_thread_are_told_apart(path):
    memory, own = memory_of(), uuid.UUID(int=7)
    agent, _ = helped(ANSWER, ANSWER, memory=memory)

    either(path, agent)(ASKED, {"run_id": own})
    either(path, agent)(ASKED)

    assert str(own) in {run.id for run in kept(memory)}
    assert len(kept(memory)) == 2


def test_an_agent_inside_another_graph_is_told_from_that_graph(path):
    memory = memory_of()
    host = StateGraph(MessagesState)
    host.add_node("boiler", helped(ANSWER, memory=memory)[0])
    host.add_edge(START, "boiler")

    either(path, host.compile(checkpointer=InMemorySaver()))(ASKED, THREAD)

    (run,) = kept(memory)
    assert run.id.startswith("boiler 1/boiler:")


def test_an_interrupted_run_is_kept_when_it_has_come_to_its_end(path):
    memory = memory_of()
    approval = HumanInTheLoopMiddleware(interrupt_on={"read_gauge": True})
    agent, _ = helped(
        call("read_gauge", gauge="water"),
        ANSWER,
        memory=memory,
        before=[approval],
        checkpointer=InMemorySaver(),
    )

    either(path, agent)(ASKED, THREAD)
    assert kept(memory) == []
    either(path, agent)(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)

    (run,) = kept(memory)
    assert [step.tool for step in run.calls] == ["read_gauge"]


def test_a_verdict_that_raises_does_not_disturb_the_run(path, caplog):
    def unsure(_):
        msg = "no idea"
        raise LookupError(msg)

    memory = memory_of()
    agent, _ = helped(ANSWER, memory=memory, options={"verdict": unsure})

    assert either(path, agent)(ASKED)["messages"][-1].text == ANSWER
    assert kept(memory) == []
    assert "A run was not recorded: no idea" in caplog.text


def test_each_user_has_memory_of_their_own(path):
    store = InMemoryStore()
    memory = CFGMMemory(
        ScriptedChatModel(replies=[]),
        ExperienceStore(store, namespace=("tooltree", "{user_id}")),
    )
    memory.experience.within(user_id="ada").add(past_run(PAST))
    model = ScriptedChatModel(replies=[ANSWER] * 2)
    agent = create_agent(
        model, TOOLS, middleware=[CFGMMiddleware(reflector(), memory, patience=0)]
    )

    for user in ("ada", "bob"):
        either(path, agent)(ASKED, {"configurable": {"user_id": user}})

    for_ada, for_bob = systems(model)
    assert SHOWN in for_ada
    assert for_bob is None
    own = {
        user: {
            run.task for run in memory.experience.within(user_id=user).trajectories()
        }
        for user in ("ada", "bob")
    }
    assert own == {"ada": {PAST, TASK}, "bob": {TASK}}


def test_a_run_is_kept_for_whom_it_began_whoever_resumes_it(path):
    experience = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user_id}"))
    memory = CFGMMemory(ScriptedChatModel(replies=[]), experience)
    approval = HumanInTheLoopMiddleware(interrupt_on={"read_gauge": True})
    agent, _ = helped(
        call("read_gauge", gauge="water"),
        ANSWER,
        memory=memory,
        before=[approval],
        checkpointer=InMemorySaver(),
    )

    either(path, agent)(ASKED, {"configurable": {"thread_id": "1", "user_id": 7}})
    approve = Command(resume={"decisions": [{"type": "approve"}]})
    either(path, agent)(approve, {"configurable": {"thread_id": "1", "user_id": "bob"}})

    assert [run.task for run in experience.within(user_id=7).trajectories()] == [TASK]
    assert list(experience.within(user_id="bob").trajectories()) == []


def summarizing():
    """Summarizes before each call of the model what is older than the last two messages."""
    model = ScriptedChatModel(replies=["They talked about valves."] * 9)
    return SummarizationMiddleware(model, trigger=("messages", 4), keep=("messages", 2))


def test_a_run_that_was_summarized_is_kept_under_what_was_asked(path):
    memory = memory_of()
    gauges = [call("read_gauge", number, gauge="water") for number in (1, 2)]
    agent, _ = helped(
        *gauges,
        ANSWER,
        ANSWER,
        memory=memory,
        before=[summarizing()],
        checkpointer=InMemorySaver(),
    )

    messages = either(path, agent)(ASKED, THREAD)["messages"]

    assert "summary" in messages[0].text
    (run,) = kept(memory)
    assert (run.task, len(run.calls)) == (TASK, 1)
    (event,) = told(path, agent, {"messages": [("user", "And now?")]}, THREAD)
    assert event["task"] == TASK


def test_what_was_summarized_stays_in_the_record(path):
    memory = memory_of()
    gauges = AIMessage(
        "",
        tool_calls=[
            {"name": "read_gauge", "args": {"gauge": name}, "id": name}
            for name in ("gas", "water")
        ],
    )
    agent, _ = helped(
        gauges, ANSWER, "Still is.", call("read_gauge", gauge="oil"), "No oil.", memory=memory,
        before=[SummarizationMiddleware(
            ScriptedChatModel(replies=["They talked."] * 9), trigger=("messages", 6), keep=("messages", 1)
        )], checkpointer=InMemorySaver(),
    )  # fmt: skip

    either(path, agent)(ASKED, THREAD)
    for request in ("And now?", "And the oil?"):
        messages = either(path, agent)({"messages": [("user", request)]}, THREAD)[
            "messages"
        ]

    assert "summary" in messages[0].text
    (run,) = kept(memory)
    assert (run.task, [step.tool for step in run.calls]) == (TASK, ["read_gauge"] * 3)
    assert "The boiler is at 2 bar." in repr(run)


def test_a_thread_that_was_emptied_begins_anew(path):
    memory = memory_of()
    agent, _ = helped(ANSWER, "Painted.", memory=memory, checkpointer=InMemorySaver())

    either(path, agent)(ASKED, THREAD)
    replaced = [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("Paint the fence.")]
    either(path, agent)({"messages": replaced}, THREAD)

    assert [run.task for run in kept(memory)] == [TASK, "Paint the fence."]


def test_that_runs_without_a_verdict_are_never_recalled_is_said(caplog):
    caplog.set_level("INFO")

    CFGMMiddleware(reflector(), memory_of(), verdict=lambda _: True)
    CFGMMiddleware(reflector(), memory_of(), record=False)
    assert caplog.text == ""
    CFGMMiddleware(reflector(), memory_of())
    assert "Pass verdict=" in caplog.text
