"""A recorder hears of a run what the history of its thread tells, whatever the agent does and however it is run."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from agents import invoke
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from recorded_agents import AGENTS, DRIVES, BrokenError, arun, ask, look, office, run
from rescued import Journal, agent_of, asked

from langchain_tooltree import (
    ExperienceStore,
    Trajectory,
    TrajectoryRecorder,
    aload_thread,
    load_thread,
)
from langchain_tooltree.experience.verdict import Verdict
from langchain_tooltree.testing import ScriptedChatModel

RUNS = 16
LOGGER = "langchain_tooltree.experience.recorder"
REQUEST: Any = {"messages": [("user", "Look around.")]}
CALL = AIMessage(
    "", tool_calls=[{"name": "look", "args": {"place": "shed"}, "id": "call_1"}]
)
QUESTION = AIMessage(
    "", tool_calls=[{"name": "ask", "args": {"question": "Really?"}, "id": "call_1"}]
)


@pytest.fixture(autouse=True)
def nothing_goes_wrong(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A recorder that stumbles says so in the log alone, so every test looks there; one that expects it clears it."""
    yield
    assert [each.getMessage() for each in caplog.records if each.name == LOGGER] == []


@pytest.fixture
def experience() -> ExperienceStore:
    return ExperienceStore(InMemoryStore())


def said_in(recorded: Trajectory | None) -> Trajectory | None:
    """A record without what the history of a thread does not tell: tools and instructions of models, and sub-agents."""
    if recorded is None:
        return None
    return replace(recorded, metadata={}, instructions="", branches=())


def offered_in(recorded: Trajectory | None) -> list[str]:
    return (
        []
        if recorded is None
        else [each["function"]["name"] for each in recorded.metadata["tools"]]
    )


def thread(name: str, recorder: TrajectoryRecorder, **configurable: Any) -> Any:
    return {
        "configurable": {"thread_id": name, **configurable},
        "callbacks": [recorder],
    }


class Comparison:
    """Holds conversations, and compares the record with the thread's history whenever the graph stops."""

    def __init__(
        self, experience: ExperienceStore, recorder: TrajectoryRecorder
    ) -> None:
        self.experience = experience
        self.recorder = recorder
        self.counts: Counter[str] = Counter()

    async def hold(self, graph: Any, name: str, drive: str, *, turns: int = 2) -> None:
        config = thread(name, self.recorder)
        for turn in range(turns):
            given: Any = {"messages": [("user", f"Request {turn}")]}
            going = True
            while going:
                given, going = await self._part(graph, given, config, drive)
                await self._compare(graph, name, drive)
        self.counts["held"] += 1

    async def _part(
        self, graph: Any, given: Any, config: Any, drive: str
    ) -> tuple[Any, bool]:
        try:
            if drive in DRIVES[:4]:
                await asyncio.to_thread(run, graph, given, config, drive)
            else:
                await arun(graph, given, config, drive)
        except BrokenError:
            self.counts["broken"] += 1
            return None, True
        state = await self._state(graph, config, drive)
        questions = [question for task in state.tasks for question in task.interrupts]
        self.counts["interrupts"] += len(questions)
        return Command(
            resume={each.id: "yes" for each in questions}
        ) if questions else None, bool(state.next)

    async def _compare(self, graph: Any, name: str, drive: str) -> None:
        config = {"configurable": {"thread_id": name}}
        read = (
            load_thread(graph, config)
            if drive in DRIVES[:4]
            else await aload_thread(graph, config)
        )
        recorded = await self.experience.aget(name)
        assert recorded is not None
        assert said_in(recorded.judged(None)) == read
        self.counts["compared"] += 1
        self.counts["branches"] += len(recorded.branches)
        self.counts["errors"] += sum(
            step.result is not None and step.result.status == "error"
            for step in read.calls
        )
        self.counts["parallel"] += len(read.calls) - len(
            {(step.branch, step.turn) for step in read.calls}
        )
        self.counts["removed"] += len(read.messages) - len(
            (await self._state(graph, config, drive)).values["messages"]
        )

    async def _state(self, graph: Any, config: Any, drive: str) -> Any:
        return (
            graph.get_state(config)
            if drive in DRIVES[:4]
            else await graph.aget_state(config)
        )


async def test_runs_of_all_kinds_are_recorded_as_their_threads_tell(
    experience: ExperienceStore,
) -> None:
    recorder = TrajectoryRecorder(experience)
    comparison = Comparison(experience, recorder)
    for start in range(0, RUNS, 8):
        await asyncio.gather(
            *(
                comparison.hold(
                    office(seed, InMemorySaver()),
                    f"office {seed}",
                    DRIVES[seed % len(DRIVES)],
                )
                for seed in range(start, start + 8)
            )
        )

    counts = comparison.counts
    assert counts["held"] == RUNS
    assert (
        min(
            counts[each]
            for each in (
                "broken",
                "interrupts",
                "branches",
                "errors",
                "parallel",
                "removed",
            )
        )
        > 5
    )
    assert len(list(experience.trajectories())) == RUNS
    assert recorder._runs == {}


@pytest.mark.filterwarnings(
    "ignore:create_react_agent has been moved"
)  # langgraph-supervisor still uses it
@pytest.mark.parametrize(
    ("agent", "drive"), [*zip(AGENTS, cycle(["updates", "aevents"]), strict=False)]
)
async def test_agents_of_every_kind_are_recorded_as_their_threads_tell(
    experience: ExperienceStore, agent: Any, drive: str
) -> None:
    recorder = TrajectoryRecorder(experience)

    await Comparison(experience, recorder).hold(agent(InMemorySaver()), "one", drive)

    assert recorder._runs == {}


@pytest.mark.parametrize("host", ["agent", "node"])
def test_what_a_search_has_tried_and_removed_is_no_part_of_the_record(
    experience: ExperienceStore, path: str, tmp_path: Path, host: str
) -> None:
    agent = agent_of(host, "rescue", Journal(tmp_path / "log"), InMemorySaver())
    config = thread("one", TrajectoryRecorder(experience, verdict=lambda _: True))

    messages = invoke(agent, asked("rescue"), config, path=path)["messages"]

    recorded = experience.get("one")
    assert said_in(recorded.judged(None)) == load_thread(agent, config)
    assert recorded.to_messages() == messages
    assert [step.tool for step in recorded.calls] == ["look", "send"]
    assert recorded.branches == ()
    assert offered_in(recorded) == ["look", "send"]


def test_tools_of_earlier_turns_are_kept_each_in_its_latest_form(
    experience: ExperienceStore,
) -> None:
    @tool("look")
    def look_closer(place: str, times: int) -> str:
        """Look somewhere, more than once."""
        return f"{place} {times}"

    saver = InMemorySaver()
    for tools in ([look, ask], [look_closer]):
        agent = create_agent(
            ScriptedChatModel(replies=["Hello."]), tools, checkpointer=saver
        )
        agent.invoke(REQUEST, thread("one", TrajectoryRecorder(experience)))

    expected = [convert_to_openai_tool(ask), convert_to_openai_tool(look_closer)]
    assert experience.get("one").metadata["tools"] == expected

    other = create_agent(
        ScriptedChatModel(replies=["Hello."]), [look], checkpointer=InMemorySaver()
    )
    other.invoke(REQUEST, thread("one", TrajectoryRecorder(experience)))
    (another,) = (each for each in experience.trajectories() if each.id != "one")
    assert offered_in(another) == ["look"]


class Judge:
    """Remembers what it was asked about."""

    def __init__(self, said: Any) -> None:
        self.said = said
        self.asked: list[Trajectory] = []

    def __call__(self, trajectory: Trajectory) -> Any:
        self.asked.append(trajectory)
        return self.said

    async def later(self, trajectory: Trajectory) -> Any:
        await asyncio.sleep(0)
        return self(trajectory)


@pytest.mark.parametrize("written", ["function", "coroutine function"])
def test_an_interrupted_run_is_recorded_as_far_as_it_got_and_judged_at_its_end(
    experience: ExperienceStore, path: str, written: str
) -> None:
    agent = create_agent(
        ScriptedChatModel(replies=[QUESTION, "Thanks."]),
        [ask],
        checkpointer=InMemorySaver(),
    )
    judge = Judge(Verdict(success=True, reasons="It asked."))
    recorder = TrajectoryRecorder(
        experience, verdict=judge if written == "function" else judge.later
    )
    config = thread("one", recorder)

    invoke(agent, REQUEST, config, path=path)
    stopped = experience.get("one")
    invoke(agent, Command(resume="yes"), config, path=path)
    done = experience.get("one")

    assert (stopped.success, stopped.reasons) == (
        None,
        "The run stopped before its end and may be resumed.",
    )
    assert [step.result for step in stopped.calls] == [None]
    assert (done.success, done.reasons) == (True, "It asked.")
    assert [step.result.text for step in done.calls] == ["They say yes."]
    assert [each.id for each in judge.asked] == ["one"]


def test_another_process_goes_on_with_the_record(experience: ExperienceStore) -> None:
    saver = InMemorySaver()
    graph = office(5, saver)
    config = thread("one", TrajectoryRecorder(experience))
    given: Any = {"messages": [("user", "Request")]}
    for _ in range(9):
        graph.invoke(given, {**config, "callbacks": [TrajectoryRecorder(experience)]})
        questions = graph.get_state(config).interrupts
        given = (
            Command(resume={each.id: "yes" for each in questions})
            if questions
            else given
        )

    read = load_thread(graph, config)
    assert said_in(experience.get("one")) == read
    assert len(read.messages) > len(graph.get_state(config).values["messages"])
    assert experience.get("one").branches


def test_a_run_that_raises_is_recorded_with_the_error(
    experience: ExperienceStore, path: str
) -> None:
    model = ScriptedChatModel(replies=[CALL, RuntimeError("no electricity")])
    agent = create_agent(model, [look], checkpointer=InMemorySaver())
    judge = Judge(Verdict(success=False, reasons="Nobody answered."))

    with pytest.raises(RuntimeError, match="no electricity"):
        invoke(agent, REQUEST, thread("one", TrajectoryRecorder(experience)), path=path)
    unjudged = experience.get("one")
    with pytest.raises(IndexError):
        invoke(
            agent,
            None,
            thread("one", TrajectoryRecorder(experience, verdict=judge)),
            path=path,
        )

    assert unjudged.success is None
    assert unjudged.reasons == "The run raised RuntimeError: no electricity"
    assert [step.result.text for step in unjudged.calls] == ["Nothing in the shed."]
    judged = experience.get("one")
    assert (judged.success, judged.messages) == (False, unjudged.messages)
    assert judged.reasons.startswith("The run raised IndexError: ")
    assert judged.reasons.endswith("\nNobody answered.")


def test_a_stream_that_nobody_reads_to_its_end_is_recorded_and_not_judged(
    experience: ExperienceStore,
) -> None:
    agent = create_agent(
        ScriptedChatModel(replies=[CALL, "Done."]), [look], checkpointer=InMemorySaver()
    )
    judge = Judge(said=True)
    recorder = TrajectoryRecorder(experience, verdict=judge)

    stream = agent.stream(REQUEST, thread("one", recorder))
    next(stream)
    stream.close()

    assert experience.get("one").success is None
    assert judge.asked == []
    assert recorder._runs == {}


async def test_a_cancelled_run_leaves_nothing_behind(
    experience: ExperienceStore,
) -> None:
    entered = asyncio.Event()

    async def wait(_: MessagesState) -> None:
        entered.set()
        await asyncio.Event().wait()

    graph = StateGraph(MessagesState)
    graph.add_node("wait", wait)
    graph.add_edge(START, "wait")
    recorder = TrajectoryRecorder(experience)
    running = asyncio.create_task(
        graph.compile().ainvoke(REQUEST, thread("one", recorder))
    )
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert recorder._runs == {}


def test_conversations_of_two_agents_under_one_id_do_not_replace_each_other(
    experience: ExperienceStore,
) -> None:
    replies = [["One.", "One more."], ["Two.", "Two more."]]
    agents = [
        create_agent(ScriptedChatModel(replies=each), checkpointer=InMemorySaver())
        for each in replies
    ]
    for agent in agents * 2:
        agent.invoke(REQUEST, thread("one", TrajectoryRecorder(experience)))

    recorded = {
        each.id: [each.messages[place]["content"] for place in (1, 3)]
        for each in experience.trajectories()
    }
    assert recorded.pop("one") == replies[0]
    assert [*recorded.values()] == replies[1:]
    assert next(iter(recorded)).startswith("one~")


@pytest.mark.parametrize("user", ["ada", 7, UUID(int=7)])
def test_a_record_belongs_to_the_user_who_is_configured_whatever_the_metadata_say(
    path: str, user: Any
) -> None:
    experience = ExperienceStore(
        base := InMemoryStore(), namespace=("tooltree", "{user_id}")
    )
    agent = create_agent(
        ScriptedChatModel(replies=["Hello."]), [look], checkpointer=InMemorySaver()
    )
    config = thread("one", TrajectoryRecorder(experience), user_id=user)

    invoke(
        agent,
        REQUEST,
        {**config, "metadata": {"user_id": "eve", "thread_id": "of eve"}},
        path=path,
    )

    assert {namespace[1] for namespace in base.list_namespaces()} == {str(user)}
    assert [each.id for each in experience.within(user_id=user).trajectories()] == [
        "one"
    ]


@dataclass
class Context:
    user_id: str


def test_a_record_belongs_to_the_user_in_the_context_of_the_run(path: str) -> None:
    experience = ExperienceStore(InMemoryStore(), namespace=("tooltree", "{user_id}"))
    agent = create_agent(
        ScriptedChatModel(replies=["Hello."] * 2), [look], context_schema=Context
    )
    recorder = TrajectoryRecorder(experience)

    for name, configurable in (
        ("ada", {}),
        ("ben", {"user_id": "ben"}),
    ):  # whom the context does not confirm
        config = thread(f"of {name}", recorder, **configurable)
        if path == "async":
            asyncio.run(agent.ainvoke(REQUEST, config, context=Context("ada")))
        else:
            agent.invoke(REQUEST, config, context=Context("ada"))

    assert [each.id for each in experience.within(user_id="ada").trajectories()] == [
        "of ada"
    ]
    assert list(experience.within(user_id="ben").trajectories()) == []


@pytest.mark.parametrize(
    ("configurable", "problem"),
    [
        ({}, "The namespace needs 'user_id'"),
        ({"user_id": ["ada"]}, "user_id stands in a namespace, so it must be"),
    ],
)
def test_a_user_who_is_not_known_is_an_error_in_the_log_before_a_verdict_is_asked_for(
    caplog: pytest.LogCaptureFixture, path: str, configurable: Any, problem: str
) -> None:
    experience = ExperienceStore(
        base := InMemoryStore(), namespace=("tooltree", "{user_id}")
    )
    agent = create_agent(ScriptedChatModel(replies=["Hello."]), [look])
    judge = Judge(said=True)
    config = thread(
        "one", TrajectoryRecorder(experience, verdict=judge), **configurable
    )

    state = invoke(
        agent, REQUEST, {**config, "metadata": {"user_id": "eve"}}, path=path
    )

    assert state["messages"][-1].text == "Hello."
    assert problem in caplog.text
    assert "nothing was called" not in caplog.text
    assert (judge.asked, base.list_namespaces()) == ([], [])
    caplog.clear()


def test_whose_run_a_graph_without_calls_is_has_to_be_said(
    caplog: pytest.LogCaptureFixture, path: str
) -> None:
    experience = ExperienceStore(
        base := InMemoryStore(), namespace=("tooltree", "{user_id}")
    )
    graph = StateGraph(MessagesState)
    graph.add_node("say", lambda _: {"messages": [("ai", "Hello.")]})
    graph.add_edge(START, "say")
    compiled = graph.compile(checkpointer=InMemorySaver())

    config = thread("one", TrajectoryRecorder(experience), user_id="ada")
    invoke(compiled, REQUEST, {**config, "metadata": {"user_id": "ada"}}, path=path)
    assert base.list_namespaces() == []
    assert "The namespace needs 'user_id', which is not known here." in caplog.text
    caplog.clear()

    own = experience.within(user_id="ada")
    invoke(compiled, REQUEST, thread("two", TrajectoryRecorder(own)), path=path)
    assert [each.id for each in own.trajectories()] == ["two"]


async def test_on_the_async_path_functions_are_awaited_on_the_callers_loop() -> None:
    loops = []

    async def keep(_: Trajectory) -> None:
        loops.append(asyncio.get_running_loop())

    async def judge(_: Trajectory) -> bool:
        loops.append(asyncio.get_running_loop())
        return True

    agent = create_agent(ScriptedChatModel(replies=["Hello."] * 2), [look])
    recorder = TrajectoryRecorder(keep, verdict=judge)
    await agent.ainvoke(REQUEST, {"callbacks": [recorder]})
    assert loops == [asyncio.get_running_loop()] * 2

    agent.invoke(
        REQUEST, {"callbacks": [recorder]}
    )  # sync, in a thread where a loop is running
    assert len(loops) == 4
    assert asyncio.get_running_loop() not in loops[2:]


def test_what_goes_wrong_does_not_disturb_the_run(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Trajectory) -> None:
        msg = "the disk is full"
        raise OSError(msg)

    def misjudge(_: Trajectory) -> bool:
        msg = "cannot tell"
        raise RuntimeError(msg)

    agent = create_agent(ScriptedChatModel(replies=["Hello."]), [look])
    recorder = TrajectoryRecorder(fail, verdict=misjudge)
    state = invoke(agent, REQUEST, thread("one", recorder), path=path)

    assert state["messages"][-1].text == "Hello."
    assert "the disk is full" in caplog.text
    assert "cannot tell" in caplog.text
    caplog.clear()


def test_a_run_without_messages_is_not_recorded(
    experience: ExperienceStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    graph = StateGraph(dict)
    graph.add_node("count", lambda state: {"n": 1})
    graph.add_edge(START, "count")
    graph.compile().invoke({"n": 0}, {"callbacks": [TrajectoryRecorder(experience)]})

    assert list(experience.trajectories()) == []
    assert "there are no messages" in caplog.text
    caplog.clear()


async def test_on_the_sync_path_nothing_async_is_used() -> None:
    class SyncStore(InMemoryStore):
        async def abatch(self, ops: Any) -> Any:
            raise AssertionError

    class SyncModel(ScriptedChatModel):
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError

    experience = ExperienceStore(SyncStore())
    judge = SyncModel(replies=[{"reasons": "Fine.", "verdict": "success"}])
    agent = create_agent(ScriptedChatModel(replies=["Hello."]), [look])
    agent.invoke(REQUEST, thread("one", TrajectoryRecorder(experience, verdict=judge)))

    assert experience.get("one").reasons == "Fine."
