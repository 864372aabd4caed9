"""The planner inside of larger things: deep agents, supervisors, swarms, graphs, entrypoints, tools, processes."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from agents import invoke
from composition import (
    DETOUR,
    EFFECTS,
    FIND,
    ORDER,
    PRICE,
    REQUEST,
    THREAD,
    Clerk,
    Depot,
    Step,
    asking,
    run_agent,
    told,
)
from conversations import check_conversation, check_pairs, outline
from deepagents import FilesystemPermission, create_deep_agent
from deepagents.backends.utils import create_file_data
from doubts import node_agent
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import (
    InjectedState,
    InjectedStore,
    ToolNode,
    ToolRuntime,
    tools_condition,
)
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from langgraph_supervisor import create_supervisor
from langgraph_swarm import create_handoff_tool, create_swarm
from pydantic import BaseModel

from langchain_tooltree import (
    ToolTreeMiddleware,
    ToolTreeNode,
    asearch,
    create_tooltree_agent,
)
from langchain_tooltree.testing import ScriptedChatModel

pytestmark = [
    pytest.mark.filterwarnings("ignore:The v3 streaming protocol"),
    pytest.mark.filterwarnings("ignore:create_react_agent has been moved"),
]

STRAIGHT: dict[str, Any] = {"steps": [FIND, PRICE, ORDER]}
BRANCH: dict[str, Any] = {"detour": DETOUR}
BOTH = pytest.mark.parametrize("model", [STRAIGHT, BRANCH], ids=["straight", "branch"])

FOUND = ["call find", "result find", "call price", "result price", "answer"]


def effects_of(tools: Sequence[Any]) -> dict[str, Any]:
    return {
        name: effect
        for name, effect in EFFECTS.items()
        if name in {getattr(each, "name", "") for each in tools}
    }


def with_planner(model: Any, tools: Sequence[Any], **options: Any) -> Any:
    """An agent of `create_tooltree_agent`."""
    return create_tooltree_agent(model, tools, effects=effects_of(tools), **options)


def with_node(model: Any, tools: Sequence[Any], **options: Any) -> Any:
    """A graph of one's own with the node."""
    return node_agent(model, tools, effects=effects_of(tools), **options)


KINDS = [with_planner, with_node]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> Any:
    """How an agent with a planner is made."""
    return request.param


def as_right(model: dict[str, Any]) -> dict[str, Any]:
    """The clerk that goes the right way at once."""
    return {name: value for name, value in model.items() if name != "detour"}


# --- deep agents ---

NOTES = {
    "/AGENTS.md": create_file_data("Bolts lie on high shelves."),
    "/skills/bolts/SKILL.md": create_file_data(
        "---\nname: bolts\ndescription: How bolts are found.\n---\nLook up."
    ),
    "/secret/bolt.txt": create_file_data("A secret bolt."),
}

DEEP: dict[str, tuple[dict[str, Any], str, Any]] = {
    "memory": ({"memory": ["/AGENTS.md"]}, "Bolts lie on high shelves.", {}),
    "skills": ({"skills": ["/skills/"]}, "How bolts are found.", {}),
    "interrupt_on": ({"interrupt_on": {"find": True}}, "", {}),
    "permissions": (
        {
            "permissions": [
                FilesystemPermission(
                    operations=["read"], paths=["/secret/**"], mode="deny"
                )
            ]
        },
        "",
        {"extra": [("read_file", {"file_path": "/secret/bolt.txt"})]},
    ),
}
"""Arguments of `create_deep_agent`, what stands in each prompt because of them, and arguments of the clerk."""


def deep(model: Clerk, tools: Any, *, middleware: Any = (), **options: Any) -> Any:
    return create_deep_agent(model, tools, middleware=middleware, **options)


@BOTH
@pytest.mark.parametrize("case", DEEP)
def test_a_deep_agent_keeps_its_promises(case: str, model: dict[str, Any]) -> None:
    path = ("sync", "async")[[*DEEP].index(case) % 2]
    options, text, more = DEEP[case]
    more = {} if model is BRANCH else more

    def once(planner: str | None, **clerk: Any) -> Any:
        return run_agent(
            Clerk(**more, **clerk),
            Depot(),
            planner=planner,
            path=path,
            make=deep,
            given={"files": NOTES},
            **options,
        )

    right = once(None, **as_right(model))
    branches = [once(None, **model), right] if model is BRANCH else [right]
    run = once("last", **model)

    check_pairs(run.raw)
    assert run.messages == right.messages
    assert run.calls == [call for each in branches for call in each.calls]
    assert run.questions == [asked for each in branches for asked in each.questions]
    assert run.prompts == [
        *branches[0].prompts,
        *(p for each in branches[1:] for p in each.prompts[1:]),
    ]
    assert [
        prompt for prompt, _ in run.prompts if text not in "\n".join(prompt[0])
    ] == []
    if more:
        assert "permission denied" in str(run.tool_calls)


SECRET: Step = ("read_file", {"file_path": "/secret/bolt.txt"})


@pytest.mark.parametrize("mode", ["deny", "interrupt"])
def test_a_read_that_the_search_tries_needs_the_permission_of_a_deep_agent(
    path: str, mode: Any
) -> None:
    run = run_agent(
        Clerk(steps=[SECRET], detour=DETOUR),
        Depot(),
        planner="last",
        path=path,
        make=deep,
        given={"files": NOTES},
        permissions=[
            FilesystemPermission(operations=["read"], paths=["/secret/**"], mode=mode)
        ],
        decisions=lambda _: {"type": "reject", "message": "not now"},
    )

    check_conversation(run.raw)
    tried = [output for name, _, output in run.tool_calls if name == "read_file"]
    assert [
        each for each in [*tried, str(run.messages)] if "A secret bolt" in each
    ] == []
    assert [asked["name"] for asked in run.questions] == (
        ["read_file"] if mode == "interrupt" else []
    )
    assert ("permission denied" in str(tried)) == (mode == "deny")


@pytest.mark.parametrize(
    ("model", "path"),
    [(STRAIGHT, "async"), (BRANCH, "sync")],
    ids=["straight", "branch"],
)
def test_a_subagent_that_plans_works_for_a_deep_agent_that_plans(
    model: dict[str, Any], path: str
) -> None:
    def once(planner: str | None, **clerk: Any) -> Any:
        depot = Depot()
        helper = {
            "name": "helper",
            "description": "Finds bolts.",
            "system_prompt": "You find bolts.",
            "model": Clerk(**clerk),
            "tools": depot.tools,
            "middleware": [ToolTreeMiddleware(effects=EFFECTS)] if planner else [],
        }
        chief = Clerk(
            steps=[("task", {"description": "Find a bolt.", "subagent_type": "helper"})]
        )
        return run_agent(
            chief,
            depot,
            planner=planner,
            path=path,
            make=deep,
            tools=[],
            subagents=[helper],
        )

    right, run = once(None, **as_right(model)), once("last", **model)

    assert run.messages == right.messages
    assert run.calls == [*(["find bolts"] if model is BRANCH else []), *right.calls]


# --- supervisor and swarm ---


@BOTH
@pytest.mark.parametrize("output_mode", ["full_history", "last_message"])
def test_a_supervisor_sees_of_a_worker_what_it_sees_of_a_plain_one(
    kind: Any, path: str, output_mode: Any, model: dict[str, Any]
) -> None:
    def once(make: Any, **clerk: Any) -> tuple[list[Any], list[str]]:
        depot = Depot()
        worker = make(Clerk(**clerk), depot.tools, name="clerk")
        there = {"name": "transfer_to_clerk", "args": {}, "id": "call_there"}
        supervisor = ScriptedChatModel(
            replies=[AIMessage("", tool_calls=[there]), "It is done."]
        )
        graph = create_supervisor([worker], model=supervisor, output_mode=output_mode)
        messages = invoke(
            graph.compile(checkpointer=InMemorySaver()), asking(), THREAD, path=path
        )["messages"]
        check_conversation(messages)
        return [
            each if kind is not with_node else each[:3] for each in told(messages)
        ], depot.calls

    (right, calls), (run, made) = (
        once(create_agent, **as_right(model)),
        once(kind, **model),
    )

    assert run == right
    assert made == [*(["find bolts"] if model is BRANCH else []), *calls]


@BOTH
def test_a_member_of_a_swarm_hands_over_as_a_plain_one(
    kind: Any, path: str, model: dict[str, Any]
) -> None:
    def once(make: Any, **clerk: Any) -> tuple[Any, list[str]]:
        depot = Depot()
        finder = Clerk(steps=[FIND, ("transfer_to_seller", {})])
        seller = Clerk(
            **{
                **clerk,
                "steps": [("price", {"item": "bolt"}), *clerk.get("steps", [])[2:]],
            }
        )
        members = [
            make(
                finder,
                [*depot.tools, create_handoff_tool(agent_name="seller")],
                name="finder",
            ),
            make(
                seller,
                [*depot.tools, create_handoff_tool(agent_name="finder")],
                name="seller",
            ),
        ]
        swarm = create_swarm(members, default_active_agent="finder").compile(
            checkpointer=InMemorySaver()
        )
        state = invoke(swarm, asking(), THREAD, path=path)
        check_conversation(state["messages"])
        return [state["active_agent"], outline(state["messages"])], depot.calls

    (right, calls), (run, made) = (
        once(create_agent, **as_right(model)),
        once(kind, **model),
    )

    assert run == right
    assert run[0] == "seller"
    assert made == [calls[0], *(["find bolts"] if model is BRANCH else []), *calls[1:]]


# --- graphs around an agent ---


def below(agent: Any, *, called: bool = False) -> StateGraph[Any, Any, Any, Any]:
    """A parent with the agent as a node, or with a node that calls it."""

    def desk(state: MessagesState) -> Any:
        return agent.invoke(state)

    host = StateGraph(MessagesState)
    host.add_node("desk", desk if called else agent)
    host.add_edge(START, "desk")
    return host


HOSTS: dict[str, Callable[[Any], Any]] = {
    "below a parent": below,
    "two levels below": lambda agent: below(below(agent).compile()),
    "called in a node": lambda agent: below(agent, called=True),
}


@pytest.mark.parametrize("host", HOSTS)
def test_an_agent_searches_below_a_parent_over_several_turns(
    kind: Any, path: str, host: str
) -> None:
    depot = Depot()
    graph = HOSTS[host](kind(Clerk(**BRANCH), depot.tools)).compile(
        checkpointer=InMemorySaver()
    )

    for _ in range(2):
        messages = invoke(graph, asking(), THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == ["human", *FOUND] * 2
    assert depot.calls == ["find bolts", "find bolt", "price bolt"] * 2


def ask(agent: Any) -> BaseTool:
    """An agent as a tool."""

    def find(item: str) -> str:
        """Find an item."""
        return str(agent.invoke(asking(f"Find a {item}."))["messages"][-1].text)

    async def afind(item: str) -> str:
        return str(
            (await agent.ainvoke(asking(f"Find a {item}.")))["messages"][-1].text
        )

    return StructuredTool.from_function(find, afind)


@pytest.mark.parametrize(
    "checkpointer",
    [None, InMemorySaver],
    ids=["without-checkpointer", "with-checkpointer"],
)
def test_an_agent_that_is_a_tool_searches_inside_the_search_of_another(
    kind: Any, path: str, checkpointer: Any
) -> None:
    depot = Depot()
    inner = kind(Clerk(**BRANCH), depot.tools)
    chief = kind(
        Clerk(steps=[FIND], **BRANCH),
        [ask(inner)],
        checkpointer=checkpointer and checkpointer(),
    )

    messages = invoke(chief, asking(), THREAD, path=path)["messages"]

    assert messages[-1].text == "That is all: That is all: price bolt: 90"
    check_conversation(messages)
    assert depot.calls == ["find bolts", "find bolt", "price bolt"] * (
        len(depot.calls) // 3
    )


# --- entrypoints ---


def test_an_entrypoint_calls_agents_and_searches_in_tasks_at_once(kind: Any) -> None:
    agent = kind(Clerk(**BRANCH), Depot().tools)

    @task
    async def answered(request: str) -> list[AnyMessage]:
        return (await agent.ainvoke(asking(request)))["messages"][1:]

    @task
    async def planned(request: str) -> list[AnyMessage]:
        effects: Any = {"find": "read", "price": "read"}
        return (
            await asearch(
                request, Depot().tools, model=Clerk(**BRANCH), effects=effects
            )
        ).messages

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(request: str) -> list[list[AnyMessage]]:
        return list(await asyncio.gather(answered(request), planned(request)))

    plans = asyncio.run(workflow.ainvoke(REQUEST, THREAD))
    assert [outline(messages) for messages in plans] == [FOUND, FOUND]


# --- what tools get, and what they may do ---


class UserState(MessagesState):
    user: str


def test_a_read_that_the_search_tries_gets_state_store_runtime_and_call_id(
    kind: Any, path: str
) -> None:
    @tool
    def find(
        item: str,
        state: Annotated[dict[str, Any], InjectedState],
        store: Annotated[BaseStore, InjectedStore()],
        call_id: Annotated[str, InjectedToolCallId],
        runtime: ToolRuntime,
    ) -> str:
        """Find an item."""
        store.put(("seen",), item, {"calls": outline(state["messages"])})
        same = runtime.tool_call_id == call_id
        thread = runtime.config["configurable"]["thread_id"]
        return "[]" if item == "bolts" else f"{same} {thread} {runtime.state['user']}"

    store = InMemoryStore()
    schema: Any = (
        {"schema": UserState} if kind is with_node else {"state_schema": UserState}
    )
    agent = kind(
        Clerk(steps=[FIND], **BRANCH),
        [find],
        store=store,
        checkpointer=InMemorySaver(),
        **schema,
    )

    messages = invoke(agent, {**asking(), "user": "ann"}, THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == [
        "human",
        "call find",
        "result find",
        "answer",
    ]
    assert messages[2].text == "True 1 ann"
    assert {each.key for each in store.search(("seen",))} == {"bolts", "bolt"}


def test_a_read_that_the_search_tries_may_ask_a_person(kind: Any, path: str) -> None:
    asked: list[str] = []

    @tool
    def find(item: str) -> str:
        """Find an item."""
        asked.append(item)
        return "[]" if item == "bolts" else f"shelf {interrupt('Which shelf?')}"

    model = Clerk(steps=[FIND], **BRANCH)
    agent = kind(model, [find], checkpointer=InMemorySaver())

    stopped = invoke(agent, asking(), THREAD, path=path)
    assert [each.value for each in stopped["__interrupt__"]] == ["Which shelf?"]
    before = len(model.calls)
    messages = invoke(agent, Command(resume="seven"), THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == [
        "human",
        "call find",
        "result find",
        "answer",
    ]
    assert messages[2].text == "shelf seven"
    assert asked == ["bolts", "bolt", "bolt"], (
        "an interrupted tool starts again, as everywhere in LangGraph"
    )
    assert len(model.calls) == before + 1, "no question is asked twice"


async def test_a_run_that_is_cancelled_in_a_search_ends_at_once_and_goes_on_where_it_was(
    kind: Any,
) -> None:
    busy, go_on, calls = asyncio.Event(), asyncio.Event(), []

    async def find(item: str) -> str:
        """Find an item."""
        calls.append(item)
        if item == "bolt":
            busy.set()
            await go_on.wait()
        return "[]" if item == "bolts" else "shelf 7"

    finding = StructuredTool.from_function(coroutine=find)
    agent = kind(Clerk(steps=[FIND], **BRANCH), [finding], checkpointer=InMemorySaver())
    others = asyncio.all_tasks()
    running = asyncio.create_task(agent.ainvoke(asking(), THREAD))
    await busy.wait()

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert asyncio.all_tasks() == others
    go_on.set()
    messages = (await agent.ainvoke(None, THREAD))["messages"]

    assert outline(check_conversation(messages)) == [
        "human",
        "call find",
        "result find",
        "answer",
    ]
    assert calls == ["bolts", "bolt", "bolt"]


# --- requests that are not the planner's ---


def test_a_tool_that_the_provider_runs_is_offered_at_each_step_and_never_tried(
    path: str,
) -> None:
    provided = {"type": "web_search", "max_uses": 3}
    model = Clerk(**BRANCH)

    messages = invoke(
        with_planner(model, [*Depot().tools, provided]), asking(), path=path
    )["messages"]

    assert outline(check_conversation(messages)) == ["human", *FOUND]
    assert [offered for offered in model.shown if provided not in offered] == []


# --- the node in graphs of all kinds ---


class ModelState(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages] = []


@dataclass
class DataclassState:
    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)


@pytest.mark.parametrize("schema", [MessagesState, ModelState, DataclassState])
def test_the_state_may_be_a_dict_a_model_or_a_dataclass(
    schema: type, path: str
) -> None:
    agent = with_node(
        Clerk(**BRANCH), Depot().tools, schema=schema, checkpointer=InMemorySaver()
    )

    messages = invoke(agent, asking(), THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == ["human", *FOUND]
    assert [
        message for message in messages if "mark" in str(message.response_metadata)
    ] == []


def test_the_conversation_may_stand_under_another_key(path: str) -> None:
    class ChatState(TypedDict):
        chat: Annotated[list[AnyMessage], add_messages]

    tools = Depot().tools
    graph = StateGraph(ChatState)
    node = ToolTreeNode(
        Clerk(**BRANCH),
        tools,
        effects={"find": "read", "price": "read"},
        messages_key="chat",
    )
    graph.add_node("model", node)
    graph.add_node("tools", ToolNode(tools, messages_key="chat"))
    graph.add_edge(START, "model")
    graph.add_conditional_edges(
        "model", lambda state: tools_condition(state, messages_key="chat")
    )
    graph.add_edge("tools", "model")

    messages = invoke(graph.compile(), {"chat": [HumanMessage(REQUEST)]}, path=path)[
        "chat"
    ]

    assert outline(check_conversation(messages)) == ["human", *FOUND]
