"""CFGMMiddleware: what is kept of the agent's own runs, and when."""

from boiler_memory import (
    LEARNT,
    PAST,
    THREAD,
    helped,
    kept,
    memory_of,
)
from boiler_room import (
    ANSWER,
    ASKED,
    MISTAKE,
    NEXT_STEP,
    NO_VALVE,
    TASK,
    call,
    either,
    reflector,
    told,
)
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
)
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
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


def test_that_runs_without_a_verdict_are_never_recalled_is_said(caplog):
    caplog.set_level("INFO")

    CFGMMiddleware(reflector(), memory_of(), verdict=lambda _: True)
    CFGMMiddleware(reflector(), memory_of(), record=False)
    assert caplog.text == ""
    CFGMMiddleware(reflector(), memory_of())
    assert "Pass verdict=" in caplog.text
