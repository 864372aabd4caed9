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
    Experience,
    ObjectSandbox,
    SearchConfig,
    SITGraph,
    SITGraphMiddleware,
    ToolCard,
    ToolLibrary,
    ToolTreeMiddleware,
    Trajectory,
    create_tooltree_agent,
)
from langchain_tooltree.errors import ToolDefinitionError
from langchain_tooltree.testing import ScriptedChatModel
from tests.internals.hall import http_reads

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}


def echo(n: int) -> str:
    """Echo a number."""
    return f"echo of {n}"


@tool
def jump(n: int) -> Command[Any]:
    """Jump."""
    return Command(update={"messages": [ToolMessage("jumped", tool_call_id=str(n))]})


SANDBOX = ObjectSandbox([], lambda _: [tool(echo)])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"effect": {"echo": "read"}},
            TypeError,
            r"create_tooltree_agent\(\) got .* 'effect'\. Did you mean 'effects'\?",
        ),
        (
            {"effort": "max"},
            TypeError,
            r"argument 'effort'\. It is a setting of SearchConfig: config=SearchConfig\(effort=\.\.\.\)\.",
        ),
        ({"system_promt": "Hi."}, TypeError, r"Did you mean 'system_prompt'\?"),
        (
            {"effects": {"eco": "read"}},
            ToolDefinitionError,
            r"effects names eco, but the tools are echo, jump\. Did you mean 'echo'\?",
        ),
        ({"review": True, "checkpointer": False}, ConfigurationError, "needs a checkpointer, got False"),
        ({"tools": [lambda n: n]}, ToolDefinitionError, "cannot become a tool"),
        ({"tools": jump}, ToolDefinitionError, "tools must be a list of tools and functions, .* got StructuredTool"),
        ({"effects": {"echo": "raed"}}, ConfigurationError, r"effects\['echo'\] must be 'read' or 'write', got 'raed'"),
        ({"effects": ["echo"]}, ConfigurationError, "effects must be a mapping"),
        ({"effects": {"jump": "read"}}, ConfigurationError, "'jump' is declared a read but returns a Command"),
        ({"tools": [jump], "sandbox": SANDBOX}, ToolDefinitionError, "the sandbox names echo, but the tools are jump"),
        ({"tools": [], "effects": {"echo": "read"}}, ToolDefinitionError, "There are no tools"),
        ({"tools": [{"type": "web_search"}], "sandbox": SANDBOX}, ToolDefinitionError, "There are no tools"),
        ({"sandbox": object()}, ConfigurationError, "sandbox must have `tools` and `fork"),
        ({"config": {"max_rollouts": 3}}, ConfigurationError, "config must be a SearchConfig, got dict"),
        ({"judge": 0.5}, ConfigurationError, "judge"),
        ({"when": "always"}, ConfigurationError, "when must be a function .* got 'always'"),
        ({"model": echo}, ConfigurationError, "model must be a chat model"),
        (
            {"middleware": ["todo"]},
            ConfigurationError,
            "must hold the middleware given to create_agent, got str 'todo'",
        ),
        ({"middleware": [ToolTreeMiddleware()]}, ConfigurationError, "adds a ToolTreeMiddleware itself"),
        (
            {"effects": {"echo": "read"}, "interrupt_before": ["tools"]},
            ConfigurationError,
            r"interrupt_before names 'tools', but echo may run while searching.*approve_reads=\['echo'\]",
        ),
        (
            {"effects": {"echo": "read"}, "interrupt_after": ["tools"]},
            ConfigurationError,
            "interrupt_after names 'tools', but echo may run while searching",
        ),
        (
            {"effects": {"echo": http_reads("nn")}},
            ConfigurationError,
            r"effects\['echo'\] looks at the argument 'nn', but echo has only n\. Did you mean 'n'\?",
        ),
        (
            {"effects": [(echo, http_reads())]},
            ConfigurationError,
            "looks at the argument 'method', but echo has only n.",
        ),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_what_cannot_work_is_refused_when_the_agent_is_made(offline, options, error, message):
    given = {"model": offline(), "tools": [echo, jump], **options}
    with pytest.raises(error, match=message):
        create_tooltree_agent(**given)


def test_a_planner_that_stands_in_middleware_twice_is_refused_by_langchain(offline):
    with pytest.raises(AssertionError, match="duplicate middleware"):
        create_agent(offline(), [echo], middleware=[ToolTreeMiddleware(), ToolTreeMiddleware()])


@pytest.mark.parametrize("effects", [{}, {"echo": "write"}])
def test_a_write_is_not_approved_twice(offline, effects):
    approval = HumanInTheLoopMiddleware({"echo": True})
    with pytest.raises(ConfigurationError, match="echo would be approved twice"):
        create_tooltree_agent(offline(), [echo], effects=effects, review=True, middleware=[approval])


@pytest.mark.parametrize("approved", [{"echo": True}, {"jump": False}])
def test_reads_and_auto_approved_tools_may_stand_in_the_other_approval(offline, approved):
    middleware = [HumanInTheLoopMiddleware(approved)]
    create_tooltree_agent(offline(), [echo, jump], effects={"echo": "read"}, review=True, middleware=middleware)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"effects": {"echo": "read"}, "review": True},
        {"effects": {"echo": "read"}, "sandbox": SANDBOX},
    ],
    ids=["no reads", "a review", "a sandbox"],
)
def test_a_breakpoint_before_the_tools_is_kept_where_nothing_real_runs_before_it(offline, options):
    agent = create_tooltree_agent(offline(), [echo], **options, interrupt_before=["tools"])
    assert agent.interrupt_before_nodes == ["tools"]


async def test_a_review_that_nobody_could_answer_is_refused_before_it_costs_anything(either):
    model = ScriptedChatModel(replies=["Hello."])
    agent = create_tooltree_agent(model, [echo], effects={"echo": "read"}, review=True)
    with pytest.raises(ConfigurationError, match="needs a checkpointer"):
        await either(agent.invoke, agent.ainvoke)(HELLO)
    assert not model.calls


def test_a_scripted_model_without_the_closing_line_is_not_asked_on_and_on(caplog):
    call = {"name": "echo", "args": {"n": 1}, "id": "1"}
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call]), "It is 1."])
    agent = create_tooltree_agent(model, [echo], effects={"echo": "read"})
    assert agent.invoke(HELLO)["messages"][-1].text == "It is 1."
    assert len(model.calls) == 6  # a check and one question for other calls, each asked twice
    assert "A model failed, and the search ended with what it had" in caplog.text
    assert "refuses tools" not in caplog.text


def test_what_a_searched_read_raises_is_logged_with_its_traceback(caplog):
    def broken(n: int) -> str:
        """Look."""
        raise ValueError(n)

    call = {"name": "broken", "args": {"n": 1}, "id": "1"}
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[call]), 'No.\n{"missing": "nothing"}'])
    create_tooltree_agent(model, [broken], effects={"broken": "read"}).invoke(HELLO)
    (told,) = caplog.records
    assert told.getMessage() == "broken raised while searching, and its result says so: ValueError: 1"
    assert told.exc_info[0] is ValueError


def test_an_agent_without_instructions_is_told_of_its_past_run_in_a_few_words():
    experience = Experience(InMemoryStore(), verdict=lambda _: True, namespace=("all",))
    call = AIMessage("", tool_calls=[{"name": "echo", "args": {"n": 1}, "id": "1"}])
    for _ in range(2):
        model = ScriptedChatModel(replies=[call, 'It is 1.\n{"missing": "nothing"}'])
        agent = create_tooltree_agent(model, [echo], effects={"echo": "read"}, experience=experience)
        agent.invoke(HELLO)
        experience.settle()
    told = next(message.text for message in model.calls[0] if "\nRun: " in message.text)
    assert "\nRun: Hello\necho(1) → " in told, told
    assert len(told) <= 500


def test_effects_may_name_tools_that_middleware_brings(offline):
    create_tooltree_agent(offline(), [echo], effects={"write_todos": "write"}, middleware=[TodoListMiddleware()])


def test_a_tool_of_the_agent_may_replace_one_of_its_middleware(offline):
    @tool
    def write_todos(todos: str) -> str:
        """Write them on paper."""
        return todos

    middleware = [TodoListMiddleware()]
    create_tooltree_agent(offline(), [write_todos], effects={"write_todos": "read"}, middleware=middleware)


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


def test_middleware_is_handed_to_the_planner_in_its_order(offline):
    seen = []

    def watch(name: str) -> AgentMiddleware:
        @wrap_tool_call(name=name)
        def see(request, handler):
            seen.append((name, request.tool_call["name"]))
            return handler(request)

        return see

    model = offline(offers={(): [("echo", {"n": 1})]}, goal={"echo": 0.9})
    agent = create_tooltree_agent(model, [echo], effects={"echo": "read"}, middleware=[watch("outer"), watch("inner")])
    agent.invoke(HELLO)
    assert seen == [("outer", "echo"), ("inner", "echo")]


def test_the_cards_of_a_library_reach_the_judge(offline):
    library = ToolLibrary([tool(echo)], [ToolCard("echo", "Repeat a number.", domains=["acoustics"])])
    told = []

    def judge(request):
        told.extend(request.tools)
        return [0.9] if request.stage == "pre" else (0.9, 0.9)

    model = offline(offers={(): [("echo", {"n": 1})]})
    create_tooltree_agent(model, library, effects={"echo": "read"}, judge=judge).invoke(HELLO)
    assert {tuple(card["domains"]) for card in told} == {("acoustics",)}


@pytest.fixture
def graph():
    """What one run that went well has taught: after a greeting comes an echo."""
    call = {"name": "echo", "args": {"n": 1}, "id": "1"}
    messages = [HumanMessage("Hello"), AIMessage("", tool_calls=[call]), ToolMessage("echo of 1", tool_call_id="1")]
    return SITGraph.from_trajectories([Trajectory.from_messages(messages, success=True)])


def test_suggestions_of_a_graph_stand_in_the_prompts_of_the_search_and_not_in_the_thread(graph):
    proposed = AIMessage("", tool_calls=[{"name": "echo", "args": {"n": 2}, "id": "2"}])
    model = ScriptedChatModel(replies=[proposed, *["Done."] * 9])
    config = SearchConfig(max_rollouts=1, max_proposals=1)
    agent = create_tooltree_agent(
        model,
        [echo],
        graph=graph,
        judge=lambda asked: [0.9] * len(asked.calls) if asked.stage == "pre" else (0.9, 0.9),
        effects={"echo": "read"},
        config=config,
    )
    messages = agent.invoke(HELLO)["messages"]
    assert [message.name for message in messages if message.type == "tool"] == ["echo"]
    assert "went on here with: echo 100% (1 run)." in model.calls[0][0].text
    assert not any("went on here" in message.text for message in messages)


def test_summing_up_the_state_needs_nobody_s_approval(graph):
    noted = {"name": "summarize_state", "args": {"summary": "Somebody says hello."}, "id": "1"}
    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[noted]), "Hello."])
    agent = create_tooltree_agent(
        model, [echo], graph=graph, review=True, when=lambda _: False, checkpointer=InMemorySaver()
    )
    result = agent.invoke(HELLO, {"configurable": {"thread_id": "1"}})
    assert "__interrupt__" not in result
    assert [message.name for message in result["messages"] if message.type == "tool"] == ["summarize_state"]


def test_a_memory_recalls_before_the_search_helps_after_a_mishap_and_keeps_the_run():
    @tool
    def lift(box: str) -> str:
        """Lift a box."""
        return f"You cannot lift {box}: it is locked down." if box == "red" else f"You lift {box}."

    def lifting(box, number):
        return AIMessage("", tool_calls=[{"name": "lift", "args": {"box": box}, "id": number}])

    review = {"questions": [{"question": "What now?", "answer": "Another box."}], "next_step": "Lift the blue box."}
    replies = [lifting("red", "1"), lifting("red", "2"), review, lifting("blue", "3"), "Lifted."]
    model = ScriptedChatModel(replies=replies)
    memory = CFGMMemory(model, InMemoryStore())
    past = [HumanMessage("Lift a box."), lifting("green", "0"), ToolMessage("You lift green.", tool_call_id="0")]
    memory.experience.add(Trajectory.from_messages(past, success=True, id="past"))
    agent = create_tooltree_agent(
        model, [lift], memory=memory, verdict=lambda _: True, when=lambda _: False, checkpointer=InMemorySaver()
    )

    messages = agent.invoke({"messages": [("user", "Lift any box.")]}, {"configurable": {"thread_id": "now"}})[
        "messages"
    ]

    assert [message.text for message in messages if message.type == "ai"][-1] == "Lifted."
    assert 'lift("green") → You lift green.' in model.calls[0][0].text
    assert "Lift the blue box." in model.calls[3][-1].text
    kept = memory.experience.get("now")
    refusal = "You cannot lift red: it is locked down."
    assert [step.outcome.text for step in kept.steps] == [refusal, refusal, "You lift blue."]
    assert kept.success is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": InMemoryStore()}, "memory must be a CFGMMemory, got InMemoryStore"),
        ({"middleware": [CFGMMiddleware(ScriptedChatModel())]}, "holds a CFGMMiddleware already"),
    ],
    ids=["no memory", "twice"],
)
def test_what_cannot_work_with_a_memory_is_refused(offline, options, message):
    with pytest.raises(ConfigurationError, match=message):
        create_tooltree_agent(offline(), [echo], **{"memory": CFGMMemory(offline(), InMemoryStore()), **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"middleware": [SITGraphMiddleware(SITGraph())]}, "holds a SITGraphMiddleware already"),
        ({"effects": ["echo"]}, "effects must be a mapping"),
        ({"graph": {}}, "graph must be a SITGraph"),
    ],
    ids=["twice", "effects", "no graph"],
)
def test_what_cannot_work_with_a_graph_is_refused(offline, graph, options, message):
    with pytest.raises(ConfigurationError, match=message):
        create_tooltree_agent(offline(), [echo], **{"graph": graph, **options})
