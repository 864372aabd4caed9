"""create_tooltree_agent: what it refuses, when it is made and not later, and what it hands to the planner."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    TodoListMiddleware,
    wrap_tool_call,
)
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from langchain_tooltree import (
    CFGMMemory,
    CFGMMiddleware,
    ConfigurationError,
    ObjectSandbox,
    SearchConfig,
    SITGraph,
    SITGraphMiddleware,
    ToolTreeMiddleware,
    Trajectory,
    create_summarize_state_tool,
    create_tooltree_agent,
)
from langchain_tooltree.effects import http_reads
from langchain_tooltree.errors import ToolDefinitionError
from langchain_tooltree.testing import ScriptedChatModel

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}


def echo(n: int) -> str:
    """Echo a number."""
    return f"echo of {n}"


@tool
def jump(n: int) -> Command[Any]:
    """Jump."""
    return Command(update={"messages": [ToolMessage("jumped", tool_call_id=str(n))]})


def around(name: str, seen: Any = None) -> AgentMiddleware:
    @wrap_tool_call(name=name)
    def see(request, handler):
        if seen is not None:
            seen.append((name, request.tool_call["name"]))
        return handler(request)

    return see


DEEP = SearchConfig(selection="posterior")
SANDBOX = ObjectSandbox([], lambda _: [tool(echo)])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"effect": {"echo": "read"}},
            TypeError,
            "unexpected keyword argument 'effect'",
        ),
        (
            {"effects": {"eco": "read"}},
            ToolDefinitionError,
            "effects names eco, but the tools are echo, jump",
        ),
        ({"tools": [echo, echo]}, ToolDefinitionError, "Two tools are named 'echo'"),
        ({"tools": [lambda n: n]}, ToolDefinitionError, "cannot become a tool"),
        (
            {"tools": jump},
            ToolDefinitionError,
            "tools must be a list of tools and functions, .* got StructuredTool",
        ),
        (
            {"effects": {"echo": "raed"}},
            ConfigurationError,
            r"effects\['echo'\] must be 'read' or 'write', got 'raed'",
        ),
        ({"effects": ["echo"]}, ConfigurationError, "effects must be a mapping"),
        (
            {"effects": {"jump": "read"}},
            ConfigurationError,
            "'jump' is declared a read but returns a Command",
        ),
        (
            {"tools": [jump], "sandbox": SANDBOX},
            ToolDefinitionError,
            "the sandbox names echo, but the tools are jump",
        ),
        (
            {"tools": [], "effects": {"echo": "read"}},
            ToolDefinitionError,
            "There are no tools",
        ),
        (
            {"tools": [{"type": "web_search"}], "sandbox": SANDBOX},
            ToolDefinitionError,
            "There are no tools",
        ),
        (
            {"sandbox": object()},
            ConfigurationError,
            "sandbox must be an object with `tools` and `fork",
        ),
        (
            {"config": {"max_rollouts": 3}},
            ConfigurationError,
            "config must be a SearchConfig, got dict",
        ),
        ({"judge": 0.5}, ConfigurationError, "judge"),
        ({"model": echo}, ConfigurationError, "model must be a chat model"),
        (
            {
                "effects": {"echo": "read"},
                "interrupt_before": ["tools"],
                "config": DEEP,
            },
            ConfigurationError,
            r"deep search runs echo by itself, and interrupt_before=\['tools'\] stands before them",
        ),
        (
            {
                "effects": {"echo": "read"},
                "middleware": [HumanInTheLoopMiddleware({"echo": True})],
                "config": DEEP,
            },
            ConfigurationError,
            "deep search runs echo by itself, and HumanInTheLoopMiddleware stands before them",
        ),
        (
            {
                "effects": {"echo": "read"},
                "middleware": [around("guard")],
                "config": DEEP,
            },
            ConfigurationError,
            "deep search runs echo by itself, and guard stands before them",
        ),
        (
            {"verdict": lambda _: True},
            ConfigurationError,
            "judges runs for an experience",
        ),
        (
            {"effects": {"echo": http_reads("nn")}},
            ConfigurationError,
            r"effects\['echo'\] looks at the argument 'nn', but echo has only n\.",
        ),
        (
            {"effects": [(echo, http_reads())]},
            ConfigurationError,
            "looks at the argument 'method', but echo has only n.",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_what_cannot_work_is_refused_when_the_agent_is_made(
    offline, options, error, message
):
    given = {"model": offline(), "tools": [echo, jump], **options}
    with pytest.raises(error, match=message):
        create_tooltree_agent(**given)


def test_a_planner_that_stands_in_middleware_twice_is_refused_by_langchain(offline):
    with pytest.raises(AssertionError, match="duplicate middleware"):
        create_agent(
            offline(), [echo], middleware=[ToolTreeMiddleware(), ToolTreeMiddleware()]
        )


@pytest.mark.parametrize("approved", [{"echo": True}, {"jump": False}])
def test_reads_and_auto_approved_tools_may_stand_in_the_other_approval(
    offline, approved
):
    middleware = [HumanInTheLoopMiddleware(approved)]
    create_tooltree_agent(
        offline(),
        [echo, jump],
        effects={"echo": "read"},
        review=True,
        middleware=middleware,
    )


def test_breakpoints_and_guards_stand_beside_the_loop_and_a_deep_search_that_runs_nothing_of_theirs(
    offline,
):
    for options in (
        {"effects": {"echo": "read"}, "interrupt_before": ["tools"]},
        {
            "effects": {"echo": "read"},
            "sandbox": SANDBOX,
            "interrupt_before": ["tools"],
        },
        {"interrupt_before": ["tools"], "config": DEEP},
    ):
        agent = create_tooltree_agent(offline(), [echo], **options)
        assert agent.interrupt_before_nodes == ["tools"]
    approval = HumanInTheLoopMiddleware({"jump": True})
    create_tooltree_agent(
        offline(),
        [echo, jump],
        effects={"echo": "read"},
        middleware=[approval],
        config=DEEP,
    )


def test_what_a_read_raises_is_raised_as_in_the_plain_agent():
    def broken(n: int) -> str:
        """Look."""
        raise ValueError(n)

    call = {"name": "broken", "args": {"n": 1}, "id": "1"}
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call])])
    with pytest.raises(ValueError, match="1"):
        create_tooltree_agent(model, [broken], effects={"broken": "read"}).invoke(HELLO)


def test_effects_may_name_tools_that_middleware_brings(offline):
    create_tooltree_agent(
        offline(),
        [echo],
        effects={"write_todos": "write"},
        middleware=[TodoListMiddleware()],
    )


def test_a_tool_of_the_agent_may_replace_one_of_its_middleware(offline):
    @tool
    def write_todos(todos: str) -> str:
        """Write them on paper."""
        return todos

    middleware = [TodoListMiddleware()]
    create_tooltree_agent(
        offline(), [write_todos], effects={"write_todos": "read"}, middleware=middleware
    )


@pytest.mark.parametrize("tools", [None, [], [{"type": "web_search"}]])
def test_an_agent_needs_no_tools(offline, tools):
    create_tooltree_agent(offline(), tools)


def test_that_nothing_can_be_tried_is_said_once(offline, caplog):
    agent = create_tooltree_agent(offline(offers={}), [echo])
    (warning,) = caplog.messages
    assert "No tool is declared a read" in warning
    agent.invoke(HELLO)
    agent.invoke(HELLO)
    assert caplog.messages == [warning]


def test_the_agent_s_own_loop_runs_every_call_through_middleware_in_its_order():
    seen = []
    call = {"name": "echo", "args": {"n": 1}, "id": "1"}
    replies = [AIMessage("", tool_calls=[call]), NAMED, '{"missing": "nothing"}\nDone.']
    middleware = [around("outer", seen), around("inner", seen)]
    effects = {"echo": "read"}
    agent = create_tooltree_agent(
        ScriptedChatModel(replies=replies),
        [echo],
        effects=effects,
        middleware=middleware,
    )
    assert agent.invoke(HELLO)["messages"][-1].text == "Done."
    assert seen == [("outer", "echo"), ("inner", "echo")] * 2, (
        "a step of its own, and one of the search"
    )


NAMED = '{"missing": "two", "call": {"name": "echo", "args": {"n": 2}}}\nOne.'


@pytest.fixture
def graph():
    """What one run that went well has taught: after a greeting comes an echo."""
    call = {"name": "echo", "args": {"n": 1}, "id": "1"}
    messages = [
        HumanMessage("Hello"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("echo of 1", tool_call_id="1"),
    ]
    return SITGraph.from_trajectories(
        [Trajectory.from_messages(messages, success=True)]
    )


def test_summing_up_the_state_needs_nobody_s_approval(graph):
    noted = {
        "name": "summarize_state",
        "args": {"summary": "Somebody says hello."},
        "id": "1",
    }
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[noted]), "Hello."])
    tools = [echo, create_summarize_state_tool(graph)]
    agent = create_tooltree_agent(
        model, tools, experience=graph, review=True, checkpointer=InMemorySaver()
    )
    result = agent.invoke(HELLO, {"configurable": {"thread_id": "1"}})
    assert "__interrupt__" not in result
    assert [
        message.name for message in result["messages"] if message.type == "tool"
    ] == ["summarize_state"]


def test_a_memory_tells_nothing_where_there_is_no_doubt_and_keeps_the_run():
    @tool
    def lift(box: str) -> str:
        """Lift a box."""
        return (
            f"You cannot lift {box}: it is locked down."
            if box == "red"
            else f"You lift {box}."
        )

    def lifting(box, number):
        return AIMessage(
            "", tool_calls=[{"name": "lift", "args": {"box": box}, "id": number}]
        )

    replies = [lifting("red", "1"), lifting("blue", "2"), "Lifted."]
    model = ScriptedChatModel(replies=replies)
    memory = CFGMMemory(model, InMemoryStore())
    past = [
        HumanMessage("Lift a box."),
        lifting("green", "0"),
        ToolMessage("You lift green.", tool_call_id="0"),
    ]
    memory.experience.add(Trajectory.from_messages(past, success=True, id="past"))
    agent = create_tooltree_agent(
        model,
        [lift],
        experience=memory,
        verdict=lambda _: True,
        checkpointer=InMemorySaver(),
    )

    messages = agent.invoke(
        {"messages": [("user", "Lift any box.")]},
        {"configurable": {"thread_id": "now"}},
    )["messages"]

    assert [message.text for message in messages if message.type == "ai"][
        -1
    ] == "Lifted."
    assert len(model.calls) == 3
    assert [
        message
        for prompt in model.calls
        for message in prompt
        if "green" in message.text
    ] == []
    kept = memory.experience.get("now")
    assert [step.result.text for step in kept.calls] == [
        "You cannot lift red: it is locked down.",
        "You lift blue.",
    ]
    assert kept.success is True


def test_a_graph_learns_from_the_runs_of_the_agent_as_the_verdict_says():
    graph, verdicts = SITGraph(), [False, True]
    for number in range(2):
        call = {"name": "echo", "args": {"n": 2}, "id": f"{number}"}
        model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call]), "Done."])
        verdict = verdicts[number]
        agent = create_tooltree_agent(
            model,
            [echo],
            experience=graph,
            verdict=lambda _, verdict=verdict: verdict,
            effects={"echo": "read"},
        )
        agent.invoke(HELLO)
        assert [message for message in model.calls[0] if "echo" in message.text] == []
        assert len(graph) == number


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"experience": InMemoryStore()},
            "experience must be an Experience, or .* got <.*InMemoryStore",
        ),
        (
            {"experience": [SITGraph(), SITGraph()]},
            "experience must be an Experience, or",
        ),
        (
            {
                "experience": CFGMMemory(ScriptedChatModel(), InMemoryStore()),
                "middleware": [CFGMMiddleware(ScriptedChatModel())],
            },
            "holds a CFGMMiddleware already",
        ),
        (
            {"experience": SITGraph(), "middleware": [SITGraphMiddleware(SITGraph())]},
            "holds a SITGraphMiddleware already",
        ),
    ],
    ids=["no memory", "two graphs", "a memory twice", "a graph twice"],
)
def test_what_cannot_work_with_an_experience_is_refused(offline, options, message):
    with pytest.raises(ConfigurationError, match=message):
        create_tooltree_agent(offline(), [echo], **options)


def test_a_call_whose_name_two_tools_share_is_reviewed_though_one_is_declared_a_read():
    ran = []

    def look(n: int) -> str:
        """Look."""
        ran.append(n)
        return "seen"

    other = TodoListMiddleware()
    other.tools = [tool(look)]
    model = ScriptedChatModel(
        replies=[
            AIMessage("", tool_calls=[{"name": "look", "args": {"n": 1}, "id": "1"}])
        ]
    )
    agent = create_tooltree_agent(
        model,
        [tool(look)],
        effects={"look": "read"},
        review=True,
        middleware=[other],
        checkpointer=InMemorySaver(),
    )
    out = agent.invoke(HELLO, {"configurable": {"thread_id": "1"}})
    assert out["__interrupt__"]
    assert ran == []
