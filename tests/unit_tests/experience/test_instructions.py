"""The agent's instructions in its records: as its developer wrote them, wherever they come from."""

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.memory import InMemoryStore

from langchain_tooltree import (
    CFGMMemory,
    CFGMMiddleware,
    CFGMReflectionNode,
    ExperienceStore,
    SITGraph,
    SITGraphMiddleware,
    ToolTreeMiddleware,
    ToolTreeNode,
    Trajectory,
    TrajectoryRecorder,
    dump_trajectories,
    load_trajectories,
)
from langchain_tooltree.experience.trajectory_json import from_json, to_json
from langchain_tooltree.messages.reference import mark_as_reference
from langchain_tooltree.testing import ScriptedChatModel

RULES = "You look for things. Refund nothing."
ASKED = {"messages": [("user", "Is it in the shed?")]}
LOOKED = AIMessage(
    "", tool_calls=[{"name": "look", "args": {"place": "shed"}, "id": "1"}]
)
ANSWER = "It is in the shed."


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"It is in the {place}."


@tool
def fails(place: str) -> str:
    """Look somewhere."""
    return f"Error: there is no {place}."


def model(*replies):
    return ScriptedChatModel(replies=list(replies or (LOOKED, ANSWER)))


@pytest.fixture
def experience():
    return ExperienceStore(InMemoryStore())


@pytest.fixture
def run(path):
    async def run(graph, config=None, given=ASKED):
        return (
            await graph.ainvoke(given, config)
            if path == "async"
            else graph.invoke(given, config)
        )

    return run


def only(experience):
    (record,) = experience.trajectories()
    return record


async def test_callbacks_hear_the_system_prompt_of_an_agent(experience, run):
    agent = create_agent(model(), [look], system_prompt=RULES)

    await run(agent, {"callbacks": [TrajectoryRecorder(experience)]})

    assert only(experience).instructions == RULES
    assert [each["role"] for each in only(experience).messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_callbacks_hear_what_a_node_puts_before_the_conversation(experience, run):
    agent, helper = model().bind_tools([look]), model(*["A greeting."] * 9)

    def classify(state):
        helper.invoke([SystemMessage("You sort requests."), *state["messages"]])

    def act(state):
        return {"messages": [agent.invoke([SystemMessage(RULES), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("classify", classify)
    graph.add_node("act", act)
    graph.add_node("tools", ToolNode([look]))
    graph.add_edge(START, "classify")
    graph.add_edge("classify", "act")
    graph.add_conditional_edges("act", tools_condition)
    graph.add_edge("tools", "act")

    await run(graph.compile(), {"callbacks": [TrajectoryRecorder(experience)]})

    assert only(experience).instructions == RULES  # those of the model that has tools


async def test_instructions_of_a_sub_agent_are_not_those_of_the_agent(experience, run):
    helper = create_agent(model("Hello."), [look], system_prompt="You greet.")

    @tool
    def greet() -> str:
        """Greet."""
        return helper.invoke(ASKED)["messages"][-1].text

    call = AIMessage("", tool_calls=[{"name": "greet", "args": {}, "id": "1"}])
    agent = create_agent(model(call, "Done."), [greet], system_prompt=RULES)

    await run(agent, {"callbacks": [TrajectoryRecorder(experience)]})

    assert only(experience).instructions == RULES


async def test_a_later_turn_that_asks_no_model_keeps_them(experience, run):
    recorder = TrajectoryRecorder(experience)
    saver = InMemorySaver()
    agent = create_agent(model(), [look], system_prompt=RULES, checkpointer=saver)
    config = {"configurable": {"thread_id": "one"}, "callbacks": [recorder]}
    await run(agent, config)

    silent = StateGraph(MessagesState)
    silent.add_node("model", lambda _: {"messages": [AIMessage("Bye.")]})
    silent.add_edge(START, "model")
    await run(
        silent.compile(checkpointer=saver), config, {"messages": [("user", "Bye.")]}
    )

    assert only(experience).instructions == RULES
    assert only(experience).messages[-1]["content"] == "Bye."


async def test_middlewares_hear_it_without_what_they_add(experience, run):
    seen = []

    def verdict(trajectory):
        seen.append(trajectory.instructions)
        return True

    def memory():
        return CFGMMemory(model(), experience)

    known = Trajectory.from_chat(
        [
            {"role": "user", "content": "Is it in the shed?"},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "1", "function": {"name": "look", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": "Yes."},
        ],
        id="known",
        success=True,
    )
    experience.add(known)
    asked = model()
    remembering = CFGMMiddleware(model(), memory(), patience=0, verdict=verdict)
    agent = create_agent(asked, [look], system_prompt=RULES, middleware=[remembering])
    await run(
        agent,
        {
            "configurable": {"thread_id": "1"},
            "callbacks": [TrajectoryRecorder(experience)],
        },
    )
    suggesting = SITGraphMiddleware(
        SITGraph.from_trajectories([known]), verdict=verdict
    )
    await run(
        create_agent(model(), [look], system_prompt=RULES, middleware=[suggesting])
    )
    await run(
        create_agent(
            model(),
            [look],
            system_prompt=RULES,
            middleware=[CFGMMiddleware(model(), memory(), patience=0)],
        )
    )

    assert "reference_material" in asked.calls[0][0].text
    assert seen == [RULES, RULES]
    assert [
        each.instructions for each in experience.trajectories() if each.id != "known"
    ] == [RULES, RULES]


@pytest.mark.parametrize("kind", ["middleware", "node"])
async def test_a_planner_asks_in_the_agents_place_and_adds_nothing(
    experience, run, kind
):
    asked = model()
    if kind == "middleware":
        planner = ToolTreeMiddleware(effects={"look": "read"})
        agent = create_agent(asked, [look], system_prompt=RULES, middleware=[planner])
    else:
        graph = StateGraph(MessagesState)
        graph.add_node(
            "plan",
            ToolTreeNode(asked, [look], effects={"look": "read"}, system_prompt=RULES),
        )
        graph.add_edge(START, "plan")
        agent = graph.compile()

    await run(agent, {"callbacks": [TrajectoryRecorder(experience)]})

    assert asked.calls[0][0].text != RULES  # the planner's own line stands there
    assert only(experience).instructions == RULES
    assert [
        each["function"]["name"] for each in only(experience).metadata["tools"]
    ] == ["look"]


def test_the_instructions_of_a_dialogue_are_what_it_begins_with():
    advice = mark_as_reference("Earlier runs looked in the shed.", source="past runs")
    said = [
        {"role": "system", "content": f"{RULES}\n\n{advice}"},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "Is it in the shed?"},
        {"role": "system", "content": "The user is angry."},
    ]

    assert Trajectory.from_chat(said).instructions == f"{RULES}\n\nBe brief."
    assert Trajectory.from_chat(said[2:]).instructions == ""
    assert Trajectory.from_chat(said[2:], instructions="Mine.").instructions == "Mine."
    assert Trajectory.from_messages([SystemMessage(RULES)]).instructions == RULES


def test_they_survive_files_and_records_without_them_load(tmp_path):
    said = [{"role": "user", "content": "Is it in the shed?"}]
    runs = [
        Trajectory.from_chat(said, id="heard", instructions=RULES),
        Trajectory.from_chat([{"role": "system", "content": RULES}, *said], id="said"),
        Trajectory.from_chat(said, id="none"),
    ]
    dump_trajectories(runs, tmp_path / "runs.jsonl")

    assert list(load_trajectories(tmp_path / "runs.jsonl")) == runs
    assert ["instructions" in to_json(each) for each in runs] == [True, False, False]
    assert from_json({"id": "old", "messages": said}).instructions == ""


async def test_reflection_is_shown_the_rules_once(run):
    advice = {"questions": [], "next_step": "Look elsewhere."}
    calls = [
        AIMessage(
            "", tool_calls=[{"name": "fails", "args": {"place": place}, "id": place}]
        )
        for place in ("shed", "attic")
    ]
    in_middleware, in_graph = model(*[advice] * 9), model(*[advice] * 9)
    long = RULES + " Be kind." * 1_000

    middleware = CFGMMiddleware(
        in_middleware,
        CFGMMemory(model(), ExperienceStore(InMemoryStore())),
        recall=False,
    )
    await run(
        create_agent(
            model(*calls, "No."), [fails], system_prompt=long, middleware=[middleware]
        )
    )
    failed = [
        calls[0],
        ToolMessage("Error: there is no shed.", tool_call_id="shed", name="fails"),
        calls[1],
    ]
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([fails]))
    graph.add_node("reflect", CFGMReflectionNode(in_graph, patience=0))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", "reflect")
    await run(
        graph.compile(),
        None,
        {"messages": [SystemMessage(long), ("user", "Find it."), *failed]},
    )

    for reflector in (in_middleware, in_graph):
        assert reflector.calls[0][1].text.count(long) == 1
        assert reflector.calls[0][1].text.count(RULES) == 1
