"""Real graphs that do everything a recorder has to follow, at random, and conversations held with them."""

# ruff: noqa: S311 - nothing random here is a secret

import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from operator import add
from typing import Annotated, Any, NotRequired

from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
)
from langchain_core.tools import StructuredTool, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send, interrupt
from langgraph_supervisor import create_supervisor
from langgraph_swarm import create_handoff_tool, create_swarm

from langchain_tooltree.testing import ScriptedChatModel

LOTS = 10_000
"""More replies than any conversation needs."""

DRIVES = (
    "invoke",
    "values",
    "updates",
    "messages",
    "ainvoke",
    "avalues",
    "amessages",
    "aevents",
)
"""Ways to run a graph: plainly, or streaming in one of the modes; those that begin with `a` on the async path."""


class BrokenError(Exception):
    """Raised by a node, now and then."""


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"Nothing in the {place}."


@tool
def drop(thing: str) -> str:
    """Drop something; it never works."""
    msg = f"The {thing} is glued to the table."
    raise ValueError(msg)


@tool
def ask(question: str) -> str:
    """Ask a person."""
    return f"They say {interrupt(question)}."


def helper_tool(helper: Any) -> Any:
    """A tool in which another agent runs."""

    def delegate(job: str) -> str:
        """Have somebody else do it."""
        return str(helper.invoke({"messages": [("user", job)]})["messages"][-1].text)

    async def adelegate(job: str) -> str:
        said = await helper.ainvoke({"messages": [("user", job)]})
        return str(said["messages"][-1].text)

    return StructuredTool.from_function(delegate, adelegate)


def moody(seed: int, *tools: str, patience: int = 3) -> ScriptedChatModel:
    """A model that calls tools at random, several at once, and answers when it has had enough.

    Args:
        seed: Decides what it does.
        *tools: Names of tools that take one text.
        patience: It answers, at the latest, when it has been asked so often since the user spoke.
    """
    draw = random.Random(seed)

    def reply(messages: list[BaseMessage]) -> AIMessage | str:
        asked = sum(
            isinstance(message, AIMessage) for message in since_request(messages)
        )
        if asked >= patience or draw.random() < 0.2:
            return f"Done after {asked} turns."
        arguments = {
            "look": "place",
            "drop": "thing",
            "ask": "question",
            "delegate": "job",
        }
        chosen = [draw.choice(tools) for _ in range(draw.randint(1, 3))]
        return AIMessage(
            draw.choice(["", "Let me see."]),
            tool_calls=[
                {
                    "name": name,
                    "args": {arguments.get(name, "x"): f"{name} {draw.randrange(9)}"},
                    "id": call_id(draw),
                }
                for name in chosen
            ],
        )

    return ScriptedChatModel(replies=[reply] * LOTS)


def call_id(draw: random.Random) -> str:
    """An id for a tool call."""
    return f"call_{draw.getrandbits(48):x}"


def since_request(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages since the user last spoke."""
    last = max(
        (
            place
            for place, message in enumerate(messages)
            if isinstance(message, HumanMessage)
        ),
        default=-1,
    )
    return list(messages[last + 1 :])


class OfficeState(MessagesState):
    """The state of the office."""

    notes: Annotated[list[str], add]
    topic: NotRequired[str]


def office(seed: int, checkpointer: Any) -> Any:
    """A graph with parallel calls, errors, interrupts, sub-agents in tools and nodes, parallel branches and forgetting.

    `model` calls tools (`look`, `drop`, `ask`, `delegate`, one that does not exist). After that, at random, `desk` (a
    sub-agent with the conversation in its own words) or three `clerk`s in parallel do something, and `tidy` removes old
    messages. Every node that is no agent breaks down now and then.
    """
    draw = random.Random(f"office {seed}")
    helper = create_agent(moody(seed + 1, "look", "drop"), [look, drop], name="helper")
    desk = create_agent(
        moody(seed + 2, "look", "ask", patience=2), [look, ask], name="desk"
    )
    model = moody(seed, "look", "drop", "ask", "delegate", "nothing")
    tools = [look, drop, ask, helper_tool(helper)]
    broken: set[str] = set()

    def breaks(place: str) -> None:
        if draw.random() < 0.12 and place not in broken:
            broken.add(place)
            raise BrokenError(place)

    def think(state: OfficeState) -> dict[str, Any]:
        breaks("model")
        return {"messages": [model.bind_tools(tools).invoke(state["messages"])]}

    def route(state: OfficeState) -> Any:
        last = state["messages"][-1]
        if isinstance(last, AIMessage) and last.tool_calls:
            return [Send("tools", [call]) for call in last.tool_calls]
        return draw.choice(["desk", "tidy", "clerks", END])

    def consult(state: OfficeState) -> dict[str, Any]:
        said = desk.invoke(
            {"messages": [("user", f"About {len(state['messages'])} messages")]}
        )
        return {"messages": [said["messages"][-1]], "topic": "desk"}

    def send_clerks(_: OfficeState) -> list[Send]:
        return [
            Send(
                "clerk",
                {"number": number, "messages": [HumanMessage(f"Clerk {number}!")]},
            )
            for number in range(3)
        ]

    def clerk(order: dict[str, Any]) -> Any:
        breaks(f"clerk {order['number']}")
        form: list[Callable[[], Any]] = [
            lambda: AIMessage(f"Clerk {order['number']} at work."),
            lambda: {
                "role": "assistant",
                "content": f"Clerk {order['number']} at work.",
            },
            lambda: ("ai", f"Clerk {order['number']} at work."),
        ]
        update = {
            "messages": [form[order["number"]]()],
            "notes": [str(order["number"])],
        }
        return Command(update=update) if order["number"] else update

    def tidy(state: OfficeState) -> dict[str, Any]:
        breaks("tidy")
        old: list[AnyMessage] = state["messages"][: len(state["messages"]) // 2]
        return {
            "messages": [
                *(RemoveMessage(id=str(message.id)) for message in old),
                AIMessage("Tidied up."),
            ]
        }

    graph = StateGraph(OfficeState)
    graph.add_node("model", think)
    graph.add_node("tools", ToolNode(tools, handle_tool_errors=True))
    graph.add_node("desk", consult)
    graph.add_node("clerks", lambda _: {"notes": ["called"]})
    graph.add_node("clerk", clerk)
    graph.add_node("tidy", tidy)
    graph.add_edge(START, "model")
    graph.add_conditional_edges(
        "model", route, ["tools", "desk", "tidy", "clerks", END]
    )
    graph.add_edge("tools", "model")
    graph.add_conditional_edges("clerks", send_clerks, ["clerk"])
    graph.add_edge("clerk", "tidy")
    graph.add_edge("desk", END)
    graph.add_edge("tidy", END)
    return graph.compile(checkpointer=checkpointer)


def run(graph: Any, given: Any, config: Any, drive: str) -> None:
    """Run a graph to its end, an interrupt or an error, on the sync path."""
    if drive == "invoke":
        graph.invoke(given, config)
    else:
        _exhaust(graph.stream(given, config, stream_mode=drive, subgraphs=True))


async def arun(graph: Any, given: Any, config: Any, drive: str) -> None:
    """The async twin of `run`."""
    match drive:
        case "ainvoke":
            await graph.ainvoke(given, config)
        case "aevents":
            await _aexhaust(graph.astream_events(given, config, version="v2"))
        case _:
            await _aexhaust(
                graph.astream(
                    given, config, stream_mode=drive.removeprefix("a"), subgraphs=True
                )
            )


def _exhaust(stream: Iterator[Any]) -> None:
    for _ in stream:
        pass


async def _aexhaust(stream: AsyncIterator[Any]) -> None:
    async for _ in stream:
        pass


def summarising(checkpointer: Any) -> Any:
    """An agent that replaces old messages by a summary."""
    summarizer = ScriptedChatModel(replies=["A summary."] * LOTS)
    middleware: Any = SummarizationMiddleware(
        summarizer, trigger=("messages", 4), keep=("messages", 2)
    )
    return create_agent(
        moody(1, "look", "ask"),
        [look, ask],
        middleware=[middleware],
        checkpointer=checkpointer,
    )


def supervised(checkpointer: Any, *, output_mode: Any = "last_message") -> Any:
    """Two agents under a supervisor, who gets all that they say, or the last message alone."""
    alice = create_agent(moody(3, "look"), [look], name="alice")
    bob = create_agent(moody(4, "look", "ask"), [look, ask], name="bob")

    def supervise(messages: list[BaseMessage]) -> AIMessage | str:
        said = [
            each
            for each in since_request(messages)
            if isinstance(each, AIMessage) and each.name == "supervisor"
        ]
        if len(said) == 2:
            return "All done."
        name = f"transfer_to_{['alice', 'bob'][len(said)]}"
        return AIMessage(
            "",
            tool_calls=[{"name": name, "args": {}, "id": f"handoff_{len(messages)}"}],
        )

    model = ScriptedChatModel(replies=[supervise] * LOTS)
    return create_supervisor(
        [alice, bob], model=model, output_mode=output_mode
    ).compile(checkpointer=checkpointer)


def supervised_in_full(checkpointer: Any) -> Any:
    """Two agents under a supervisor who gets all that they say."""
    return supervised(checkpointer, output_mode="full_history")


def swarming(checkpointer: Any) -> Any:
    """Two agents that hand the conversation to each other."""

    def member(name: str, other: str) -> Any:
        def reply(messages: list[BaseMessage]) -> AIMessage | str:
            if (
                sum(
                    isinstance(message, AIMessage)
                    for message in since_request(messages)
                )
                == 2
            ):
                return "Done."
            call = {
                "name": f"transfer_to_{other}",
                "args": {},
                "id": f"handoff_{len(messages)}",
            }
            return AIMessage("", tool_calls=[call])

        model = ScriptedChatModel(replies=[reply] * LOTS)
        return create_agent(
            model, [create_handoff_tool(agent_name=other), look], name=name
        )

    agents = [member("alice", "bob"), member("bob", "alice")]
    return create_swarm(agents, default_active_agent="alice").compile(
        checkpointer=checkpointer
    )


def remembering(checkpointer: Any) -> Any:
    """A sub-agent with a memory of its own, visited from two nodes."""
    return _visiting(
        create_agent(moody(6, "look", "ask"), [look, ask], checkpointer=True),
        {},
        checkpointer,
    )


def going_elsewhere(checkpointer: Any) -> Any:
    """A sub-agent that is called with a thread of its own, `elsewhere`."""
    inner = create_agent(moody(7, "look"), [look], checkpointer=checkpointer)
    return _visiting(inner, {"configurable": {"thread_id": "elsewhere"}}, checkpointer)


def _visiting(inner: Any, config: Any, checkpointer: Any) -> Any:
    def visit(_: MessagesState) -> dict[str, Any]:
        said = inner.invoke({"messages": [("user", "Look around.")]}, config)
        return {"messages": [("ai", said["messages"][-1].text)]}

    graph = StateGraph(MessagesState)
    graph.add_node("inner", visit)
    graph.add_node("again", visit)
    graph.add_edge(START, "inner")
    graph.add_edge("inner", "again")
    return graph.compile(checkpointer=checkpointer)


def nested(checkpointer: Any) -> Any:
    """Agents in the tools of agents in the tools of an agent."""
    inner = create_agent(moody(9, "look", "ask"), [look, ask])
    middle = create_agent(moody(8, "delegate", "look"), [helper_tool(inner), look])
    return create_agent(
        moody(10, "delegate", "look"),
        [helper_tool(middle), look],
        checkpointer=checkpointer,
    )


def deep(checkpointer: Any) -> Any:
    """A deep agent, whose checkpoints hold changes alone, with two sub-agents at once."""

    def reply(messages: list[BaseMessage]) -> AIMessage | str:
        if any(isinstance(message, AIMessage) for message in since_request(messages)):
            return "Done."
        if "Look around." in messages[-1].text:
            return AIMessage(
                "",
                tool_calls=[
                    {
                        "name": "look",
                        "args": {"place": "shed"},
                        "id": f"look_{len(messages)}",
                    }
                ],
            )
        job = {"description": "Look around.", "subagent_type": "general-purpose"}
        places = (len(messages), len(messages) + 1)
        return AIMessage(
            "",
            tool_calls=[
                {"name": "task", "args": job, "id": f"task_{place}"} for place in places
            ],
        )

    return create_deep_agent(
        ScriptedChatModel(replies=[reply] * LOTS), [look], checkpointer=checkpointer
    )


def sharing_inside(checkpointer: Any) -> Any:
    """An agent in a tool, of which an agent that works on its conversation is a node."""
    graph = StateGraph(MessagesState)
    graph.add_node("inner", create_agent(moody(11, "look", "ask"), [look, ask]))
    graph.add_edge(START, "inner")
    return create_agent(
        moody(12, "delegate"), [helper_tool(graph.compile())], checkpointer=checkpointer
    )


AGENTS = (
    summarising,
    supervised,
    supervised_in_full,
    swarming,
    remembering,
    going_elsewhere,
    nested,
    sharing_inside,
    deep,
)
