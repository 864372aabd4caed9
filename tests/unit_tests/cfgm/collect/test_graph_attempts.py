"""Graphs as agents: watched from outside, kept when an attempt has ended, and tried again as a whole otherwise."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, before_model
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.memory import InMemoryStore
from langgraph.types import interrupt
from little_worlds import (
    LESSON,
    Corridor,
    Walker,
    contents,
    door_tool,
    empty_store,
    keyed_first,
)
from typing_extensions import TypedDict

from langchain_tooltree import (
    CFGMMemory,
    CFGMMiddleware,
    ConfigurationError,
    ExperienceStore,
)


@pytest.fixture
def gather(either):
    """Collects on either path: `await gather(model, experience, agent, tasks, evaluate, ...)`."""

    def collect(model, experience, *arguments, **options):
        memory = CFGMMemory(model, experience)
        return either(memory.collect, memory.acollect)(*arguments, **options)

    return collect


@pytest.fixture
def path_to(either):
    """How a memory collects, on either path: `await path_to(memory)(agent, tasks, evaluate, ...)`."""
    return lambda memory: either(memory.collect, memory.acollect)


def plain_agent(model, do):
    return create_agent(model, [do], system_prompt="Be quick.")


def agent_with_hooks(model, do):
    class Hooks(AgentMiddleware):
        def before_model(self, state, runtime):
            return None

        async def abefore_model(self, state, runtime):
            return None

        def wrap_model_call(self, request, handler):
            return handler(request)

        async def awrap_model_call(self, request, handler):
            return await handler(request)

        def after_model(self, state, runtime):
            last = state["messages"][-1]
            return {
                "messages": [
                    last.model_copy(update={"content": f"{last.text} Checked."})
                ]
            }

    return create_agent(model, [do], middleware=[Hooks()], checkpointer=InMemorySaver())


def own_graph(model, do, *, checkpointer=None):
    def think(state: MessagesState):
        return {
            "messages": [
                model.bind_tools([do]).invoke(
                    [SystemMessage("Be quick."), *state["messages"]]
                )
            ]
        }

    async def athink(state: MessagesState):
        return {
            "messages": [
                await model.bind_tools([do]).ainvoke(
                    [SystemMessage("Be quick."), *state["messages"]]
                )
            ]
        }

    graph = StateGraph(MessagesState)
    graph.add_node("think", RunnableLambda(think, athink))
    graph.add_node("tools", ToolNode([do]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile(checkpointer=checkpointer)


def agent_in_a_graph(model, do):
    graph = StateGraph(MessagesState)
    graph.add_node("worker", plain_agent(model, do))
    graph.add_edge(START, "worker")
    return graph.compile()


def agent_that_forgets(model, do):
    """Removes the observation before the last one by its id, in a node that asks the model."""

    class State(MessagesState):
        notes: str

    def think(state: State):
        seen = [message for message in state["messages"] if message.type == "tool"]
        reply = model.bind_tools([do]).invoke(state["messages"])
        gone = [RemoveMessage(id=m.id) for m in state["messages"] if m.type == "system"]
        note = [SystemMessage(f"seen {len(seen)}")]
        return {"messages": [*gone, *note, reply], "notes": f"{len(seen)}"}

    graph = StateGraph(State)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([do]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile()


AGENTS = [
    plain_agent,
    agent_with_hooks,
    own_graph,
    agent_in_a_graph,
    agent_that_forgets,
]


def fresh(kind, model, worlds=None):
    def make(_):
        world = Corridor()
        if worlds is not None:
            worlds.append(world)
        return kind(model, door_tool(world))

    return make


@pytest.mark.parametrize("kind", AGENTS)
async def test_a_graph_is_tried_until_it_succeeds(gather, kind):
    model, experience = Walker(), empty_store()
    report = await gather(model, experience, fresh(kind, model), ["leave"], keyed_first)
    first, second = experience.trajectories()
    assert (first.success, second.success, report.successes) == (False, True, 1)
    assert first.task == second.task == "leave"
    assert "leave" in [message["content"] for message in second.messages]
    assert LESSON not in str(second.messages)
    assert [step.arguments["action"] for step in second.calls] == [
        "turn key",
        "walk 1",
        "walk 2",
    ]
    assert [step.result.text for step in second.calls] == [
        "You turn key.",
        "You walk 1.",
        "You walk 2.",
    ]
    assert report.cost.model_calls == model.asked == 9
    assert (
        first.metadata["usage"]["model_calls"] + second.metadata["usage"]["model_calls"]
        == 9
    )


@pytest.mark.slow
async def test_an_agent_with_the_memory_that_is_filled_stores_each_attempt_once_and_recalls_none(
    path_to,
):
    model, memory = Walker(), CFGMMemory(Walker(), ExperienceStore(InMemoryStore()))

    def make(_):
        middleware = CFGMMiddleware(
            Walker(), memory, patience=0, verdict=lambda _: True
        )
        return create_agent(model, [door_tool(Corridor())], middleware=[middleware])

    await path_to(memory)(make, ["leave", "enter"], keyed_first, max_concurrency=1)

    stored = list(memory.experience.trajectories())
    assert len(stored) == 4
    assert [(each.task, each.metadata["attempt"], each.success) for each in stored] == [
        (each.task, number, number == 2)
        for each, number in zip(stored, [1, 2, 1, 2], strict=True)
    ]
    assert "past runs" not in "".join(model.prompts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "down_at", "repeated"),
    [
        (plain_agent, 1, 1),
        *((kind, 3, 3) for kind in AGENTS),
        (plain_agent, 6, 1),
        (plain_agent, 9, 4),
    ],
)
async def test_an_attempt_that_did_not_end_is_made_again_as_a_whole_and_no_other(
    gather, kind, down_at, repeated
):
    whole = empty_store()
    model = Walker()
    await gather(model, whole, fresh(kind, model), ["leave"], keyed_first)
    assert model.asked == 9

    experience, worlds = empty_store(), []
    model = Walker(down_at=(down_at,))
    report = await gather(
        model, experience, fresh(kind, model, worlds), ["leave"], keyed_first
    )
    assert "DownError" in report.outcomes[0].problem
    assert len(list(experience.trajectories())) == len(worlds) - 1
    report = await gather(
        model, experience, fresh(kind, model, worlds), ["leave"], keyed_first
    )
    assert report.successes == 1
    assert len(worlds) == 2 + 1
    assert model.asked == 9 + repeated
    assert report.cost.model_calls == model.asked - down_at
    shown = [
        [(step.arguments, step.result) for step in each.calls]
        for each in experience.trajectories()
    ]
    assert shown == [
        [(step.arguments, step.result) for step in each.calls]
        for each in whole.trajectories()
    ]


@pytest.mark.parametrize("checkpointer", [None, "memory"])
async def test_an_interrupted_agent_has_failed_and_the_reason_names_the_question(
    gather, checkpointer
):
    @tool
    def do(action: str) -> str:
        """Ask first."""
        return interrupt(f"May I {action}?")

    model, experience = Walker(), empty_store()
    agent = own_graph(model, do, checkpointer=InMemorySaver() if checkpointer else None)
    report = await gather(
        model, experience, agent, ["leave"], lambda *_: True, max_retries=0
    )
    (stored,) = experience.trajectories()
    assert stored.success is False
    assert "May I walk 0?" in stored.reasons
    assert report.outcomes[0].success is False


async def test_an_agent_that_goes_round_in_circles_has_failed(gather):
    graph = StateGraph(MessagesState)
    graph.add_node("a", lambda _: {"messages": [HumanMessage("again")]})
    graph.add_edge(START, "a")
    graph.add_edge("a", "a")
    experience = empty_store()
    await gather(
        Walker(),
        experience,
        graph.compile(),
        ["leave"],
        lambda *_: True,
        max_steps=2,
        max_retries=0,
    )
    (stored,) = experience.trajectories()
    assert stored.success is False
    assert "ecursion limit" in stored.reasons


async def test_an_agent_that_raises_has_failed_with_the_error_as_reason(gather):
    @tool
    def do(action: str) -> str:
        """Do."""
        msg = "the tool broke"
        raise ValueError(msg)

    model, experience = Walker(), empty_store()
    report = await gather(
        model, experience, plain_agent(model, do), ["leave"], keyed_first, max_retries=1
    )
    assert report.outcomes[0].success is False
    first, second = experience.trajectories()
    assert "ValueError: the tool broke" in first.reasons
    assert first.metadata["reflection"]
    assert [step.tool for step in second.calls] == ["do"]


async def test_agents_run_on_threads_of_their_own_in_memory(gather):
    saver = InMemorySaver()
    threads = []

    @before_model
    def note(state, runtime):
        threads.append(runtime.execution_info.thread_id)

    model, experience = Walker(), empty_store()
    agent = create_agent(
        model, [door_tool(Corridor())], middleware=[note], checkpointer=saver
    )
    config = {"configurable": {"thread_id": "mine"}}
    await gather(model, experience, agent, ["leave"], lambda *_: True, config=config)
    assert list(saver.list(None)) == []
    (stored,) = experience.trajectories()
    assert len(set(threads)) == 1
    assert threads[0].startswith(stored.id)


async def test_configuration_and_context_reach_the_agent(gather):
    class Context(TypedDict):
        tenant: str

    seen = []

    @tool
    def do(action: str, config: RunnableConfig) -> str:
        """Do."""
        seen.append(config["configurable"]["user"])
        return action

    @before_model
    def note(state, runtime):
        seen.append(runtime.context["tenant"])

    model, experience = Walker(steps=1), empty_store()
    agent = create_agent(model, [do], middleware=[note], context_schema=Context)
    await gather(
        model,
        experience,
        agent,
        ["leave"],
        lambda *_: True,
        config={"configurable": {"user": "ada"}, "tags": ["mine"]},
        context={"tenant": "acme"},
    )
    assert seen == ["acme", "ada", "acme"]


async def test_a_collection_inside_a_graph_leaves_that_graph_alone(gather):
    model, experience = Walker(), empty_store()
    saver = InMemorySaver()

    async def work(state: MessagesState) -> Any:
        report = await gather(
            model, experience, fresh(agent_with_hooks, model), ["leave"], keyed_first
        )
        return {"messages": [AIMessage(str(report.successes))]}

    graph = StateGraph(MessagesState)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    outer = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "outer"}}
    state = await outer.ainvoke({"messages": [HumanMessage("go")]}, config)
    assert [message.text for message in state["messages"]] == ["go", "1"]
    assert {
        saved.config["configurable"]["thread_id"] for saved in saver.list(None)
    } == {"outer"}
    assert {
        saved.config["configurable"]["checkpoint_ns"] for saved in saver.list(None)
    } == {""}


async def test_a_graph_without_messages_is_unfinished_and_told(gather):
    class Other(TypedDict):
        text: str

    graph = StateGraph(Other)
    graph.add_node("a", lambda _: {"text": "x"})
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    experience = empty_store()
    report = await gather(
        Walker(), experience, graph.compile(), ["leave"], lambda *_: True
    )
    assert "messages" in report.outcomes[0].problem
    assert contents(experience) == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", AGENTS)
async def test_every_kind_of_agent_may_use_its_tool_calls_and_no_more(gather, kind):
    for steps, success in ((3, True), (4, False)):
        worlds = []
        model, experience = Walker(steps=steps), empty_store()
        options = {"max_steps": 3, "max_retries": 0}
        await gather(
            model,
            experience,
            fresh(kind, model, worlds),
            ["leave"],
            lambda *_: True,
            **options,
        )
        (stored,) = experience.trajectories()
        assert stored.success is success
        assert len(worlds[0].actions) == 3
        assert [step.result is not None for step in stored.calls] == [True] * 3 + [
            False
        ] * (steps - 3)
        assert ("limit of 3 tool calls" in stored.reasons) is not success


async def test_an_agent_that_catches_every_error_stops_at_the_limit_all_the_same(
    gather,
):
    world = Corridor()
    model, experience = Walker(steps=9), empty_store()
    inner = plain_agent(model, door_tool(world))

    def careless(state: MessagesState) -> Any:
        try:
            return {
                "messages": inner.invoke({"messages": state["messages"]})["messages"]
            }
        except Exception:  # noqa: BLE001 - that is the point
            return {"messages": [AIMessage("Never mind.")]}

    graph = StateGraph(MessagesState)
    graph.add_node("careless", careless)
    graph.add_edge(START, "careless")
    options = {"max_steps": 2, "max_retries": 0}
    await gather(
        model, experience, graph.compile(), ["leave"], lambda *_: True, **options
    )
    (stored,) = experience.trajectories()
    assert "limit of 2 tool calls" in stored.reasons
    assert len(world.actions) == 2


# An attempt is written three times: once when it has ended, and twice among the experience. What is repeated is the
# attempt if it could not be written at all, and the reflection on it if it was not stored among the experience.


def test_an_agent_that_can_only_be_awaited_is_told_from_one_that_fails():
    @tool
    async def do(action: str) -> str:
        """Do."""
        return action

    model, experience = Walker(), empty_store()
    with pytest.raises(ConfigurationError, match="acollect"):
        CFGMMemory(model, experience).collect(
            plain_agent(model, do), ["leave"], keyed_first
        )
    assert list(experience.trajectories()) == []


async def test_an_agent_that_can_only_be_awaited_is_awaited():
    @tool
    async def do(action: str) -> str:
        """Do."""
        return f"You {action}."

    model = Walker()
    report = await CFGMMemory(model, empty_store()).acollect(
        plain_agent(model, do), ["leave"], keyed_first
    )
    assert report.successes == 1
