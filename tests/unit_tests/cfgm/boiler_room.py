"""A boiler room: its tools, a conversation in which something goes wrong, and what a model makes of it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import ToolException, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langchain_tooltree.anomaly.rules import Anomaly
from langchain_tooltree.cfgm.recall import Tip
from langchain_tooltree.testing import ScriptedChatModel

TASK = "The house is cold. Get the boiler to 2 bar."
NO_VALVE = "Error: there is no valve 'main'. Valves: red, blue."


@tool
def turn_valve(valve: str) -> str:
    """Turn a valve."""
    if valve not in {"red", "blue"}:
        msg = f"Error: there is no valve '{valve}'. Valves: red, blue."
        raise ToolException(msg)
    return f"the {valve} valve is open"


turn_valve.handle_tool_error = True


@tool
def read_gauge(gauge: str) -> str:
    """Read a gauge."""
    return f"{gauge}: 1.2 bar"


TOOLS = [turn_valve, read_gauge]

KEY_INFORMATION = {
    "objective": "The boiler has to be at 2 bar.",
    "initial_environment": "A cold house with a boiler.",
    "progress": "The pressure is 1.2 bar and no valve is open.",
}
REPLY: dict[str, Any] = {
    "key_information": KEY_INFORMATION,
    "questions": [
        {"question": "Which valves are there?", "answer": "A red and a blue one."}
    ],
    "next_step": "Call turn_valve with valve 'red'.",
}
NEXT_STEP = REPLY["next_step"]

TIP = Tip(
    "The red valve lets water in.",
    "Only then the pressure rose.",
    "success",
    "Fill the boiler.",
    when="the pressure is too low",
)


def call(name: str, number: int = 1, **arguments: Any) -> AIMessage:
    """The model calls a tool."""
    return AIMessage(
        "", tool_calls=[{"name": name, "args": arguments, "id": f"{name} {number}"}]
    )


def gauged(number: int = 1) -> list[BaseMessage]:
    """A call that went well."""
    made = call("read_gauge", number, gauge="water")
    return [
        made,
        ToolMessage(
            "water: 1.2 bar",
            tool_call_id=f"read_gauge {number}",
            name="read_gauge",
            id=f"g{number}",
        ),
    ]


def failed(number: int = 1, content: Any = NO_VALVE) -> list[BaseMessage]:
    """A call that failed."""
    made = call("turn_valve", number, valve="main")
    result = ToolMessage(
        content,
        tool_call_id=f"turn_valve {number}",
        name="turn_valve",
        status="error",
        id=f"v{number}",
    )
    return [made, result]


def in_trouble() -> list[BaseMessage]:
    """The conversation up to the call that failed."""
    return [HumanMessage(TASK, id="h1"), *gauged(), *failed()]


ANOMALY = Anomaly(
    "error", NO_VALVE, 1.0, recoverable=True, tool="turn_valve", call_id="turn_valve 1"
)


ASKED: Any = {"messages": [("user", TASK)]}
MISTAKE = call("turn_valve", 1, valve="main")
ANSWER = "The boiler is at 2 bar."


def mistakes(count: int) -> list[AIMessage]:
    """The model makes the same kind of mistake again and again, each time with another valve."""
    return [
        call("turn_valve", number, valve=f"no {number}")
        for number in range(1, count + 1)
    ]


def results(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    """The observations of a conversation."""
    return [message for message in messages if isinstance(message, ToolMessage)]


def advised(messages: Sequence[BaseMessage]) -> list[bool]:
    """For each observation, whether a correction stands in it."""
    return ["reference_material" in message.text for message in results(messages)]


def room_graph(
    *replies: Any, node: Any, **options: Any
) -> tuple[Any, ScriptedChatModel]:
    """A graph that works by a script, with a reflection node between tools and model, and its model."""
    model = ScriptedChatModel(replies=list(replies))
    graph = StateGraph(MessagesState)

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode(TOOLS))
    graph.add_node("reflect", node)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "reflect")
    graph.add_edge("reflect", "model")
    return graph.compile(**options), model


def room_agent(
    *replies: Any, tools: Any = TOOLS, **options: Any
) -> tuple[Any, ScriptedChatModel]:
    """An agent that works by a script, and its model."""
    model = ScriptedChatModel(replies=list(replies))
    return create_agent(model, tools, **options), model


def reflector(*replies: Any) -> ScriptedChatModel:
    """A model that reflects, and says the same each time if it is not told otherwise."""
    return ScriptedChatModel(replies=list(replies or [REPLY] * 9))


def either(path: str, runnable: Any) -> Callable[..., Any]:
    """Its `invoke` on one of the two paths."""

    def run(*arguments: Any, **options: Any) -> Any:
        if path == "sync":
            return runnable.invoke(*arguments, **options)
        return asyncio.run(runnable.ainvoke(*arguments, **options))

    return run


def told(
    path: str, agent: Any, given: Any = ASKED, config: Any = None, **options: Any
) -> list[dict[str, Any]]:
    """The events of a run on one of the two paths."""

    async def streamed() -> list[Any]:
        return [
            part
            async for part in agent.astream(
                given, config, stream_mode="custom", **options
            )
        ]

    if path == "async":
        parts = asyncio.run(streamed())
    else:
        parts = list(agent.stream(given, config, stream_mode="custom", **options))
    return [part["tooltree"] for part in parts]
