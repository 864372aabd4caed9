"""Experience: what an agent has been through makes its next run better and cheaper, and stays whose it is."""

import asyncio
import threading
import time
from dataclasses import replace
from typing import Annotated

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langchain_tooltree import (
    CFGMMemory,
    ConfigurationError,
    Experience,
    ExperienceStore,
    ToolTreeNode,
    Trajectory,
    asearch,
    create_tooltree_agent,
    search,
)
from langchain_tooltree.learning import fold as fold_module
from langchain_tooltree.testing import ScriptedChatModel

ALL = ("tooltree",)
ANSWER = '{"missing": "nothing"}\nIt is on the desk.'
DOUBT = '{"missing": "where the pen lies"}\nIt is on the desk.'
SYSTEM = "You find what people have mislaid in a large old house. " * 60
QUESTION = {"messages": [("user", "Where is the red key?")]}


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"On the {place} lie a red key and a pen."


def looking(number="1", place="desk"):
    return AIMessage(
        "", tool_calls=[{"name": "look", "args": {"place": place}, "id": number}]
    )


def finder(experience, *, turns=1, replies=(), **options):
    """An agent that looks at the desk in each turn, or does as it is told, and its model."""
    model = ScriptedChatModel(
        replies=replies
        or [reply for turn in range(turns) for reply in (looking(str(turn)), ANSWER)]
    )
    options = {"system_prompt": SYSTEM, **options}
    return create_tooltree_agent(
        model, [look], effects={"look": "read"}, experience=experience, **options
    ), model


DOUBTFUL = (looking(), DOUBT, DOUBT, DOUBT, "There is no other call.")
"""A turn whose answer stays doubtful until the planner asks for other calls."""

AT_ONCE = DOUBTFUL[1:]
"""The same without a call before."""


def told_at_the_doubt(model):
    """The question for other calls, where past runs are told; steps without a doubt hold nothing of them."""
    *steps, (*_, question) = model.calls
    assert "Offer other tool calls" in question.text
    assert "reference_material" not in repr(
        [step for step in steps if "Planner's note" not in step[-1].text]
    )
    return question.text


def in_thread(name, **values):
    return {"configurable": {"thread_id": name, **values}}


def run_of(task="Where is the red key?", *, success=True, **fields):
    messages = [
        {"role": "user", "content": task},
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "1",
                    "function": {"name": "look", "arguments": '{"place": "desk"}'},
                }
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "1",
            "content": "On the desk lie a red key and a pen.",
        },
        {"role": "assistant", "content": "It is on the desk."},
    ]
    return Trajectory.from_chat(messages, success=success, **fields)


def test_a_run_without_a_thread_counts_for_the_next_one():
    experience = Experience(InMemoryStore(), verdict=lambda _: True, namespace=ALL)
    agent, _ = finder(experience)

    agent.invoke(QUESTION)

    status = experience.status()
    assert (
        status.runs,
        status.judged,
        status.pending,
        status.successes,
        status.in_graph,
    ) == (1, 1, 0, 1, 1)
    [suggestion] = experience.graph.suggest(None)
    assert suggestion.tool == "look"
    agent, _ = finder(experience, replies=DOUBTFUL)
    agent.invoke(QUESTION)
    first, second = sorted(
        experience.store.trajectories(),
        key=lambda run: len(run.metadata["recalled"]["runs"]),
    )
    assert second.metadata["recalled"] == {"runs": [first.id], "tips": []}
    assert [offered["function"]["name"] for offered in second.metadata["tools"]] == [
        "look"
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"experience": InMemoryStore()},
            "experience must be an Experience, or .* got <.*InMemoryStore",
        ),
        ({"verdict": lambda _: True}, "Pass it to Experience"),
        (
            {"experience": None, "verdict": lambda _: True},
            "judges runs for an experience",
        ),
    ],
    ids=["another thing", "two verdicts", "a verdict alone"],
)
def test_what_cannot_go_together_is_refused(options, message):
    experience = Experience(InMemoryStore(), namespace=ALL, verdict=lambda _: True)
    with pytest.raises(ConfigurationError, match=message):
        create_tooltree_agent(
            ScriptedChatModel(), [look], **{"experience": experience, **options}
        )


def test_experience_without_a_verdict_is_warned_of():
    with pytest.warns(UserWarning, match="without a verdict"):
        finder(Experience(InMemoryStore(), namespace=ALL))
    with pytest.warns(UserWarning, match="without a verdict"):
        create_tooltree_agent(
            ScriptedChatModel(),
            [look],
            experience=CFGMMemory(ScriptedChatModel(), InMemoryStore()),
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"store_or_path": object()}, "store must be a LangGraph BaseStore"),
        (
            {"settle_seconds": -1},
            "settle_seconds must be a number of 0 or more, got -1",
        ),
        (
            {"store_or_path": ExperienceStore(InMemoryStore()), "namespace": ALL},
            "has its own namespace",
        ),
    ],
    ids=["no store", "before its end", "two namespaces"],
)
def test_what_no_experience_can_be_made_of_is_refused(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        Experience(**{"store_or_path": InMemoryStore(), **arguments})


def test_what_one_user_did_is_never_suggested_to_another():
    experience = Experience(InMemoryStore(), verdict=lambda _: True)
    agent, model = finder(experience, turns=2)

    agent.invoke(QUESTION, in_thread("a", user_id="ann"))
    experience.within(user_id="ann").settle()
    agent.invoke(QUESTION, in_thread("b", user_id="bob"))

    assert experience.within(user_id="ann").status().in_graph == 1
    assert experience.within(user_id="bob").status().in_graph == 0
    assert not experience.within(user_id="bob").graph.suggest(None)
    assert [call[0].text for call in model.calls[:2]] == [
        call[0].text for call in model.calls[2:]
    ]
    [bobs] = experience.within(user_id="bob").store.trajectories()
    assert bobs.metadata["recalled"] == {"runs": [], "tips": []}


def test_a_thread_is_judged_when_it_rests_and_counts_from_then_on():
    asked = []
    everybody = Experience(
        InMemoryStore(), verdict=lambda run: asked.append(len(run.calls)) or True
    )
    agent, _ = finder(everybody, turns=4, checkpointer=InMemorySaver())
    experience = everybody.within(user_id="ann")

    agent.invoke(QUESTION, in_thread("one", user_id="ann"))
    agent.invoke(QUESTION, in_thread("one", user_id="ann"))
    assert asked == []
    assert experience.status().pending == 1
    agent.invoke(QUESTION, in_thread("two", user_id="ann"))
    assert asked == [2]
    assert experience.status().in_graph == 1
    agent.invoke(QUESTION, in_thread("one", user_id="ann"))
    assert experience.status().in_graph == 0
    status = experience.settle()

    assert sorted(asked) == [1, 2, 3]
    assert (status.judged, status.pending, status.in_graph) == (2, 0, 2)


def test_where_many_share_a_namespace_a_new_thread_says_nothing_of_the_others():
    asked = []
    experience = Experience(
        InMemoryStore(), verdict=lambda run: asked.append(run.id) or True, namespace=ALL
    )
    agent, _ = finder(experience, turns=6, checkpointer=InMemorySaver())

    for thread in "abcabc":
        agent.invoke(QUESTION, in_thread(thread))

    assert asked == []
    assert experience.settle().judged == 3
    assert sorted(asked) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("checkpointer", "judged"), [(None, 1), (True, 0)], ids=["one call", "all calls"]
)
@pytest.mark.parametrize("recorded", [False, True], ids=["middleware", "recorder"])
def test_a_sub_agent_that_cannot_go_on_rests_at_once(checkpointer, judged, recorded):
    experience = Experience(InMemoryStore(), namespace=ALL, verdict=lambda _: True)
    helper, _ = finder(experience, checkpointer=checkpointer)
    config = {"callbacks": [experience.recorder]} if recorded else {}

    @tool
    def ask(question: str) -> str:
        """Ask somebody else."""
        return helper.invoke({"messages": [("user", question)]}, config)["messages"][
            -1
        ].text

    asking = AIMessage(
        "",
        tool_calls=[{"name": "ask", "args": {"question": "Where is it?"}, "id": "1"}],
    )
    agent = create_agent(
        ScriptedChatModel(replies=[asking, ANSWER]), [ask], checkpointer=InMemorySaver()
    )
    agent.invoke(QUESTION, in_thread("a"))

    status = experience.status()
    assert (status.runs, status.judged, status.pending) == (1, judged, 1 - judged)


def test_a_thread_rests_after_some_time():
    asked = []
    experience = Experience(
        InMemoryStore(),
        verdict=lambda run: asked.append(run.id) or True,
        namespace=ALL,
        settle_seconds=0,
    )
    agent, _ = finder(experience, checkpointer=InMemorySaver())

    agent.invoke(QUESTION, in_thread("one"))

    assert asked == ["one"]


def test_a_run_that_is_not_judged_yet_is_not_recalled():
    experience = Experience(InMemoryStore(), namespace=ALL, verdict=lambda _: True)
    replies = (*DOUBTFUL, looking("2"), *AT_ONCE, *DOUBTFUL)
    agent, _ = finder(experience, replies=replies, checkpointer=InMemorySaver())

    agent.invoke(QUESTION, in_thread("one"))
    agent.invoke(QUESTION, in_thread("one"))
    experience.settle()
    agent.invoke(QUESTION, in_thread("two"))

    recalled = {
        run.id: run.metadata["recalled"]["runs"]
        for run in experience.store.trajectories()
    }
    assert recalled == {"one": [], "two": ["one"]}


def test_what_another_writer_keeps_in_the_same_store_is_there_at_the_next_look():
    store = InMemoryStore()
    here, there = (
        Experience(store, namespace=ALL, verdict=lambda _: True) for _ in range(2)
    )
    assert here.status().in_graph == there.status().in_graph == 0

    here.learn(run_of(id="from here"))
    there.learn(run_of(id="from there"))
    ExperienceStore(store, namespace=ALL).add(run_of(id="from elsewhere"))

    assert here.status().in_graph == there.status().in_graph == 3
    assert [
        run
        for run in ("from here", "from there", "from elsewhere")
        if run not in here.graph
    ] == []


def test_a_record_that_is_deleted_leaves_the_graph():
    store = InMemoryStore()
    experience = Experience(store, namespace=ALL, verdict=lambda _: True)
    experience.learn(run_of(id="one"))
    experience.learn(run_of(id="two"))

    ExperienceStore(store, namespace=ALL).delete("one")

    assert "one" not in experience.graph
    assert "two" in experience.graph
    experience.learn(run_of(id="two", success=False))
    assert "two" not in experience.graph


class CountingStore(InMemoryStore):
    """Counts what is read."""

    listed = read = 0

    def search(self, namespace, **options):
        self.listed += namespace[-1] == "tasks"
        return super().search(namespace, **options)

    def batch(self, ops):
        ops = list(ops)
        self.read += sum(
            getattr(op, "namespace", ("",))[-1] == "trajectories"
            and not hasattr(op, "value")
            for op in ops
        )
        return super().batch(ops)


def test_where_nobody_has_written_no_record_is_read_and_none_is_listed():
    store = CountingStore()
    experience = Experience(store, namespace=ALL, verdict=lambda _: True)
    for number in range(5):
        experience.learn(run_of(id=f"run {number}"))
    experience.status()
    listed, read = store.listed, store.read

    experience.learn(run_of(id="one more"))
    assert experience.status().in_graph == 6
    assert (store.listed, store.read) == (listed, read)
    ExperienceStore(store, namespace=ALL).add(run_of(id="from elsewhere"))
    assert experience.status().in_graph == 7
    assert (store.listed, store.read) == (listed + 1, read + 1)


def test_a_model_that_judges_keeps_nobody_waiting():
    judging, judged = threading.Event(), threading.Event()

    def answer(_):
        judging.set()
        assert judged.wait(10)
        return {"reasons": "The key was found.", "verdict": "success"}

    experience = Experience(
        InMemoryStore(), namespace=ALL, verdict=ScriptedChatModel(replies=[answer])
    )
    agent, _ = finder(experience)

    agent.invoke(QUESTION)

    assert judging.wait(10)
    assert experience.status().pending == 1
    judged.set()
    assert experience.settle().in_graph == 1
    [run] = experience.store.trajectories()
    assert run.reasons == "The key was found."
    assert "pending" not in run.metadata


@pytest.mark.slow
def test_of_many_runs_that_end_at_once_few_are_judged_at_once():
    asked, most, all_ended = [], [], threading.Event()

    def answer(messages):
        asked.append(messages)
        most.append(len(asked))
        assert all_ended.wait(10)
        time.sleep(0.01)
        asked.pop()
        return {"reasons": "The key was found.", "verdict": "success"}

    experience = Experience(
        InMemoryStore(), namespace=ALL, verdict=ScriptedChatModel(replies=[answer] * 20)
    )
    for _ in range(20):
        finder(experience)[0].invoke(QUESTION)
    all_ended.set()

    assert experience.settle().judged == 20
    assert max(most) <= 4
    assert len(most) == 20


class ClosingStore(InMemoryStore):
    """It can be closed, as a connection to a database can."""

    is_closed = False

    def batch(self, ops):
        if self.is_closed:
            msg = "Cannot operate\non a closed database."
            raise OSError(msg)
        return super().batch(ops)


def test_a_verdict_that_comes_after_its_store_was_closed_says_so_in_one_line(caplog):
    judging, is_closed = threading.Event(), threading.Event()

    def answer(_):
        judging.set()
        assert is_closed.wait(10)
        return {"reasons": "The key was found.", "verdict": "success"}

    store = ClosingStore()
    experience = Experience(
        store, namespace=ALL, verdict=ScriptedChatModel(replies=[answer])
    )
    finder(experience)[0].invoke(QUESTION)
    assert judging.wait(10)
    store.is_closed = True
    is_closed.set()
    for _ in range(1_000):
        if not caplog.records:
            time.sleep(0.01)

    [told] = caplog.text.splitlines()
    assert "await experience.asettle() before closing the store" in told
    assert "OSError: Cannot operate on a closed database." in told


def test_a_verdict_on_a_thread_that_went_on_meanwhile_does_not_count():
    store = InMemoryStore()

    def verdict(run):
        if len(run.calls) == 1:
            ExperienceStore(store, namespace=ALL).add(
                replace(run, reasons="It has gone on.")
            )
        return True

    experience = Experience(store, namespace=ALL, verdict=verdict)
    agent, _ = finder(experience)

    agent.invoke(QUESTION)

    status = experience.status()
    assert (status.judged, status.pending) == (0, 1)


def test_a_verdict_that_raises_leaves_the_run_for_later(caplog):
    verdicts = iter([ValueError("down"), True])

    def verdict(_):
        if isinstance(given := next(verdicts), Exception):
            raise given
        return given

    experience = Experience(InMemoryStore(), namespace=ALL, verdict=verdict)
    agent, _ = finder(experience)

    agent.invoke(QUESTION)

    assert "down" in caplog.text
    assert experience.status().pending == 1
    assert experience.settle().in_graph == 1


def test_a_verdict_that_always_raises_is_not_asked_for_ever():
    asked = []

    def verdict(run):
        asked.append(run.id)
        msg = "down"
        raise ValueError(msg)

    experience = Experience(InMemoryStore(), namespace=ALL, verdict=verdict)
    for _ in range(6):
        finder(experience)[0].invoke(QUESTION)
    assert len(asked) == len(set(asked)) == 6
    pending = [experience.settle().pending for _ in range(3)]

    assert pending[-1] == 0
    assert max(map(asked.count, asked)) == 3
    assert [
        run
        for run in experience.store.trajectories()
        if "ValueError: down" not in run.reasons
    ] == []


def test_the_recorder_learns_from_any_graph():
    experience = Experience(
        InMemoryStore(), namespace=("tooltree", "{user_id}"), verdict=lambda _: True
    )
    model = ScriptedChatModel(replies=[looking(), "It is there."] * 3)
    agent = create_agent(model, [look], checkpointer=InMemorySaver())
    ann = experience.within(user_id="ann")

    def ask(thread):
        agent.invoke(
            QUESTION,
            {**in_thread(thread, user_id="ann"), "callbacks": [experience.recorder]},
        )

    ask("one")
    assert ann.status().pending == 1
    ask("two")
    assert (ann.status().pending, ann.status().in_graph) == (1, 1)
    ask("one")
    assert (ann.status().pending, ann.status().in_graph) == (2, 0)
    assert ann.settle().in_graph == 2


def test_a_run_that_recorder_and_middleware_hear_of_is_kept_and_judged_once():
    asked = []
    experience = Experience(
        InMemoryStore(), namespace=ALL, verdict=lambda run: asked.append(run.id) or True
    )
    experience.learn(run_of(id="past"))
    agent, _ = finder(experience, replies=DOUBTFUL)

    agent.invoke(QUESTION, {"callbacks": [experience.recorder]})

    assert len(asked) == 1
    assert experience.status().runs == 2
    assert experience.store.get(asked[0]).metadata["recalled"]["runs"] == ["past"]


def graph_of(node):
    graph = StateGraph(MessagesState)
    graph.add_node("model", node)
    graph.add_node("tools", ToolNode([look]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


@pytest.mark.parametrize(
    "recorded", [False, True], ids=["by the node", "by the recorder"]
)
def test_a_node_learns_in_a_graph_of_ones_own(recorded):
    experience = Experience(InMemoryStore(), namespace=ALL, verdict=lambda _: True)
    experience.learn(run_of(id="past"))
    model = ScriptedChatModel(replies=DOUBTFUL)
    graph = graph_of(
        ToolTreeNode(
            model,
            [look],
            effects={"look": "read"},
            experience=experience,
            system_prompt=SYSTEM,
        )
    )

    graph.invoke(QUESTION, {"callbacks": [experience.recorder] if recorded else []})

    assert "went well: look." in told_at_the_doubt(model)
    status = experience.status()
    assert (status.runs, status.in_graph) == (2, 2)
    [run] = [each for each in experience.store.trajectories() if each.id != "past"]
    assert run.metadata["recalled"]["runs"] == ["past"]
    assert [step.tool for step in run.calls] == ["look"]


async def test_a_search_is_a_run_of_its_own():
    experience = Experience(InMemoryStore(), namespace=ALL, verdict=lambda _: True)
    for _ in range(2):
        model = ScriptedChatModel(replies=[looking(), ANSWER])
        await asearch(
            "Where is the red key?",
            [look],
            model=model,
            effects={"look": "read"},
            experience=experience,
        )

    status = await experience.astatus()
    assert (status.runs, status.in_graph) == (2, 2)


class DownStore(InMemoryStore):
    """Fails whenever it is asked."""

    def batch(self, ops):
        raise ConnectionError("The store is down.")

    async def abatch(self, ops):
        raise ConnectionError("The store is down.")


def test_a_store_that_is_down_does_not_disturb_the_agent(caplog):
    agent, _ = finder(Experience(DownStore(), namespace=ALL, verdict=lambda _: True))

    messages = agent.invoke(QUESTION)["messages"]

    assert messages[-1].text.startswith("It is on the desk.")
    assert "The store is down." in caplog.text


async def test_a_label_takes_the_place_of_the_verdict(path):
    experience = Experience(InMemoryStore(), verdict=lambda _: True, namespace=ALL)
    experience.learn(run_of(success=None, id="one"))
    assert experience.status().in_graph == 1

    if path == "async":
        labelled = await experience.alabel("one", False, "It was the blue key.")
    else:
        labelled = experience.label("one", False, "It was the blue key.")

    assert (labelled.success, labelled.source) == (False, "user")
    assert experience.status().successes == 0
    assert experience.graph.suggest(None) == []


def test_where_there_are_many_records_to_read_the_first_request_of_a_process_waits_for_some_only(
    monkeypatch,
):
    monkeypatch.setattr(
        fold_module, "FOLD_DEFAULTS", fold_module.FoldDefaults(read_at_once=15)
    )
    store = InMemoryStore()
    records = ExperienceStore(store, namespace=ALL)
    for number in range(40):
        records.add(run_of(id=f"run {number}"))
    reading = threading.Event()

    class SlowStore(InMemoryStore):
        """Waits before it reads many records."""

        def batch(self, ops):
            ops = list(ops)
            if len(ops) > 20:  # 25 are left
                assert reading.wait(10)
            return store.batch(ops)

    experience = Experience(SlowStore(), namespace=ALL, verdict=lambda _: True)
    agent, _ = finder(experience)

    assert agent.invoke(QUESTION)["messages"][-1].text.startswith("It is on the desk.")

    reading.set()
    assert experience.status().in_graph == 41


def test_a_record_that_cannot_be_read_keeps_no_other_out(caplog):
    store = InMemoryStore()
    experience = Experience(store, namespace=ALL, verdict=lambda _: True)
    records = ExperienceStore(store, namespace=ALL)
    for name in ("one", "two", "three"):
        records.add(run_of(id=name))
    store.put((*ALL, "trajectories"), "two", {"record": "?"})

    assert experience.status().in_graph == 2
    assert "was not written by this package" in caplog.text
    caplog.clear()
    records.add(run_of(id="four"))
    assert experience.status().in_graph == 3
    assert not caplog.text


def test_tips_are_taken_with_a_model_and_credit_is_kept_with_the_run():
    taught = {
        "tips": [
            {
                "tip": "Look at the desk first.",
                "reasoning": "The key was there.",
                "when": "a key is wanted",
                "bears_out": [{"tool": "look", "quote": "desk"}],
            }
        ],
        "followed": [],
    }
    model = ScriptedChatModel(replies=[taught])
    experience = Experience(
        InMemoryStore(), namespace=ALL, verdict=lambda _: True, model=model
    )
    agent, _ = finder(experience)

    agent.invoke(QUESTION)
    assert experience.settle().tips == 1
    agent, asked = finder(experience, replies=DOUBTFUL)
    agent.invoke(QUESTION)

    assert experience.settle().tips == 1
    assert len(model.calls) == 1
    assert "Look at the desk first." in told_at_the_doubt(asked)
    [tips] = [
        run.metadata["recalled"]["tips"]
        for run in experience.store.trajectories()
        if run.metadata["recalled"]["runs"]
    ]
    assert len(tips) == 1


async def test_threads_that_run_at_the_same_time_do_not_end_each_other():
    asked = []
    experience = Experience(
        InMemoryStore(), namespace=ALL, verdict=lambda run: asked.append(run.id) or True
    )
    agents = [finder(experience, checkpointer=InMemorySaver())[0] for _ in range(4)]

    await asyncio.gather(
        *(
            agent.ainvoke(QUESTION, in_thread(str(at)))
            for at, agent in enumerate(agents)
        )
    )

    assert asked == []
    assert (await experience.asettle()).in_graph == 4


def test_a_resumed_run_is_told_what_is_known_at_its_doubt():
    store, saver = InMemoryStore(), InMemorySaver()

    @tool
    def fetch(thing: str) -> str:
        """Fetch a thing."""
        return f"Here is the {thing}."

    fetching = AIMessage(
        "", tool_calls=[{"name": "fetch", "args": {"thing": "key"}, "id": "2"}]
    )

    def agent(*replies):
        model = ScriptedChatModel(replies=replies)
        experience = Experience(store, namespace=ALL, verdict=lambda _: True)
        guard = HumanInTheLoopMiddleware(interrupt_on={"fetch": True})
        options = {
            "middleware": [guard],
            "checkpointer": saver,
            "system_prompt": SYSTEM,
        }
        return (
            experience,
            model,
            create_tooltree_agent(
                model,
                [look, fetch],
                effects={"look": "read"},
                experience=experience,
                **options,
            ),
        )

    experience, before, first = agent(fetching)
    experience.learn(run_of("Where is the red key?", id="past"))
    first.invoke({"messages": [("user", "Fetch the red key.")]}, in_thread("one"))
    ExperienceStore(store, namespace=ALL).add(
        run_of("Fetch the red key.", id="learnt meanwhile")
    )
    experience, after, second = agent(*AT_ONCE)
    second.invoke(
        Command(resume={"decisions": [{"type": "approve"}]}), in_thread("one")
    )

    assert before.calls[0][0].text == after.calls[0][0].text
    assert "went well: look." in told_at_the_doubt(after)
    assert experience.store.get("one").metadata["recalled"]["runs"] == [
        "learnt meanwhile"
    ]
    assert experience.status().pending == 1


def test_who_keeps_runs_without_a_verdict_is_told_once(caplog):
    experience = Experience(InMemoryStore(), namespace=ALL)
    for _ in range(2):
        model = ScriptedChatModel(replies=[looking(), ANSWER])
        search(
            "Where is the red key?",
            [look],
            model=model,
            effects={"look": "read"},
            experience=experience,
        )

    assert experience.status().pending == 2
    assert caplog.text.count("nobody says which succeeded") == 1
    assert Experience(experience.store, verdict=lambda _: True).settle().in_graph == 2


def test_a_thread_keeps_the_credit_of_all_its_turns():
    experience = Experience(InMemoryStore(), namespace=ALL, verdict=lambda _: True)
    experience.learn(run_of("Where is the red key?", id="key"))
    experience.learn(run_of("Which plane flies to Oslo on Monday?", id="plane"))
    agent, _ = finder(
        experience,
        replies=(*DOUBTFUL, looking("2"), *AT_ONCE),
        checkpointer=InMemorySaver(),
    )

    agent.invoke(QUESTION, in_thread("one"))
    assert experience.store.get("one").metadata["recalled"]["runs"] == ["key"]
    agent.invoke(
        {"messages": [("user", "Which plane flies to Oslo on Monday?")]},
        in_thread("one"),
    )

    assert set(experience.store.get("one").metadata["recalled"]["runs"]) == {
        "key",
        "plane",
    }


async def test_a_run_that_ends_after_what_it_recalled_was_forgotten_says_nothing_of_it():
    store = InMemoryStore()
    experience, elsewhere = (
        Experience(store, namespace=ALL, verdict=lambda _: True) for _ in range(2)
    )
    experience.learn(run_of(id="past"))

    @tool
    async def ask(tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Ask somebody, who is advised by a reflection."""
        await elsewhere.aforget(run="past")
        noted = {"tooltree": {"added": ["Try 4711."]}}
        return ToolMessage(
            "Busy.\n\nTry 4711.", tool_call_id=tool_call_id, response_metadata=noted
        )

    asking = AIMessage("", tool_calls=[{"name": "ask", "args": {}, "id": "1"}])
    model = ScriptedChatModel(replies=[DOUBT, DOUBT, DOUBT, asking, ANSWER])
    effects = {"ask": "read"}
    agent = create_tooltree_agent(
        model, [ask], effects=effects, experience=experience, system_prompt=SYSTEM
    )
    await agent.ainvoke(QUESTION)

    (run,) = experience.store.trajectories()
    assert run.metadata["recalled"] == {"runs": [], "tips": []}
    assert "4711" not in repr([item.value for item in store.search(())])


def test_a_record_says_which_of_its_calls_write():
    reading = AIMessage(
        "", tool_calls=[{"name": "look_and_tidy", "args": {}, "id": "1"}]
    )

    @tool
    def look_and_tidy() -> str:
        """Look, and tidy up."""
        return "On the desk lies a red key."

    def effects_of(declared, verdict=lambda _: True):
        experience = Experience(InMemoryStore(), verdict=verdict, namespace=ALL)
        model = ScriptedChatModel(replies=[reading, looking("2"), ANSWER])
        create_tooltree_agent(
            model, [look, look_and_tidy], effects=declared, experience=experience
        ).invoke(QUESTION)
        [run] = experience.store.trajectories()
        return run.metadata.get("effects")

    assert effects_of({"look": "read"}) == {"look": "read", "look_and_tidy": "write"}
    assert effects_of({}) is None
    told = effects_of(
        {
            "look": lambda _: "read",
            "look_and_tidy": lambda arguments: arguments["dry_run"],
        }
    )
    assert {tool: len(reads) for tool, reads in told.items()} == {
        "look": 1,
        "look_and_tidy": 0,
    }


def test_who_reflects_on_trouble_knows_the_instructions_of_the_agent():
    @tool
    def find(order: str) -> str:
        """Find an order."""
        return '{"error": "Order not found"}'

    def reply(messages):
        if "Offer other" in messages[-1].text:
            return "There is no other call."
        if sum(each.type == "tool" for each in messages) == 2:
            return DOUBT
        return AIMessage(
            "",
            tool_calls=[
                {"name": "find", "args": {"order": str(len(messages))}, "id": "1"}
            ],
        )

    key = {"objective": "The order.", "initial_environment": "", "progress": "None."}
    reflecting = ScriptedChatModel(
        replies=[
            {
                "key_information": key,
                "questions": [],
                "next_step": "Ask for the number.",
            }
        ]
        * 2
    )
    experience = Experience(
        InMemoryStore(), namespace=ALL, verdict=lambda _: False, model=reflecting
    )
    model = ScriptedChatModel(replies=[reply] * 6)
    told = {
        "effects": {"find": "read"},
        "system_prompt": "Be kind, always.",
        "experience": experience,
    }
    create_tooltree_agent(model, [find], **told).invoke(QUESTION)

    experience.settle()
    assert "Be kind, always." in str(reflecting.calls[0])
    assert "Ask for the number." in told_at_the_doubt(model)


@pytest.mark.slow
def test_what_is_recalled_stands_in_the_question_for_other_calls_within_its_room():
    experience = Experience(InMemoryStore(), namespace=ALL, verdict=lambda _: True)
    asked = [HumanMessage("Where is the red key?")]
    for number in range(60):
        found = ToolMessage(
            f"On the shelf in room {number} lies book {number} of a long series.",
            tool_call_id=f"{number}",
        )
        asked += [looking(f"{number}", f"shelf {number}"), found]
    experience.learn(
        Trajectory.from_messages(
            [*asked, AIMessage("On the shelf.")], success=True, id="past"
        )
    )
    agent, model = finder(experience, replies=DOUBTFUL)

    agent.invoke(QUESTION)

    told = told_at_the_doubt(model)
    assert "A similar run that went well: look (60 times)." in told
    assert "book" not in told
    assert len(told) < 1_500


def test_a_model_that_is_down_is_asked_again_and_not_for_ever():
    down = ScriptedChatModel(replies=[ConnectionError("The model is down.")] * 20)
    experience = Experience(InMemoryStore(), namespace=ALL, verdict=down)
    agent, _ = finder(experience)

    agent.invoke(QUESTION)

    pending = [experience.settle().pending for _ in range(4)]
    assert (pending[0], pending[-1]) == (1, 0)
    asked = len(down.calls)
    assert (experience.settle().judged, len(down.calls)) == (0, asked)
    [run] = experience.store.trajectories()
    assert run.success is None
    assert "The model is down." in run.reasons
