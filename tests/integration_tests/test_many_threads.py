"""Fifty runs of one compiled graph at once: each keeps its state, its context, its store entries and its forks."""

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import pytest
from conversations import check_conversation, outline
from langchain.agents import AgentState, create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, ToolRuntime, tools_condition
from langgraph.store.memory import InMemoryStore
from travel import BOOKING, EFFECTS, PRICE, Agency, asking, travel_model

from langchain_tooltree import JudgeRequest, ObjectSandbox, SearchConfig, ToolTreeMiddleware, ToolTreeNode

RUNS = 50

HANGS_AFTER = 60
"""Seconds after which runs that take a few count as hanging."""


class DeskState(AgentState[Any]):
    """The state of a run, which says whose it is."""

    customer: str


@dataclass
class Customer:
    """The context of a run."""

    name: str


class ActiveRuns(BaseCallbackHandler):
    """Counts runs while they last."""

    def __init__(self) -> None:
        self.most = 0
        self._active: set[UUID] = set()

    def on_chain_start(self, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **__: Any) -> None:
        if parent_run_id is None:
            self._active.add(run_id)
            self.most = max(self.most, len(self._active))

    def on_chain_end(self, *_: Any, run_id: UUID, **__: Any) -> None:
        self._active.discard(run_id)


def desk_tools() -> list[BaseTool]:
    """The agency's tools, two of which tell what was injected into them."""

    def read_price(
        flight: str, runtime: ToolRuntime[Customer, Any], state: Annotated[dict[str, Any], InjectedState]
    ) -> str:
        """Read the price of a flight."""
        return f"{flight} costs 90 for {_seen(runtime, state)}"

    def book(flight: str, runtime: ToolRuntime[Customer, Any], state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Book a flight."""
        return f"{flight} is booked for {_seen(runtime, state)}"

    own = {tool.name: tool for tool in map(StructuredTool.from_function, (read_price, book))}
    return [own.get(tool.name, tool) for tool in Agency(latency=0.001).tools]


def _seen(runtime: ToolRuntime[Customer, Any], state: dict[str, Any]) -> str:
    """The number of the run, as each injected thing has it."""
    assert runtime.store is not None
    kept = runtime.store.get(("customers",), runtime.context.name)
    return " ".join(
        (
            state["customer"],
            _number(runtime.state["messages"][0].text),
            runtime.context.name,
            kept.value["name"] if kept else "nobody",
            runtime.config["configurable"]["thread_id"],
        )
    )


def _number(request: str) -> str:
    return request.partition("#")[2]


def desk_agent(host: str) -> Any:
    """An agent with a store in which every customer has an entry."""
    store = InMemoryStore()
    for number in range(RUNS):
        store.put(("customers",), str(number), {"name": str(number)})
    kept: dict[str, Any] = {"checkpointer": InMemorySaver(), "store": store}
    if host == "middleware":
        middleware = [ToolTreeMiddleware(effects=EFFECTS)]
        return create_agent(
            travel_model(), desk_tools(), middleware=middleware, state_schema=DeskState, context_schema=Customer, **kept
        )
    graph = StateGraph(DeskState, context_schema=Customer)
    graph.add_node("model", ToolTreeNode(travel_model(), desk_tools(), effects=EFFECTS))
    graph.add_node("tools", ToolNode(desk_tools()))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(**kept)


def request(number: int) -> str:
    return f"{(PRICE, BOOKING)[number % 2]} #{number}"


def run_of(number: int) -> tuple[Any, Any]:
    """Input and configuration of a run."""
    return {**asking(request(number)), "customer": str(number)}, {"configurable": {"thread_id": str(number)}}


def check_own(number: int, messages: Sequence[Any]) -> None:
    """Fail unless a conversation is about its own request, and all that was injected into its tools is its own."""
    check_conversation(messages)
    assert messages[0].text == request(number)
    own = " ".join([str(number)] * 5)
    told = [message.text for message in messages if isinstance(message, ToolMessage) and " for " in message.text]
    told = [text for text in told if text.startswith("OS-1 ") and "90, " not in text]
    expected = [f"OS-1 costs 90 for {own}", f"OS-1 is booked for {own}"][: 1 + number % 2]
    assert told == expected
    assert messages[-1].text == f"All is done for you and it says {expected[-1]}"


@pytest.fixture(params=["node", "middleware"])
def host(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_fifty_runs_on_threads_keep_to_themselves(host: str) -> None:
    agent = desk_agent(host)

    def run(number: int) -> Any:
        return agent.invoke(*run_of(number), context=Customer(str(number)))["messages"]

    with ThreadPoolExecutor(RUNS) as pool:
        conversations = list(pool.map(run, range(RUNS), timeout=HANGS_AFTER))

    for number, messages in enumerate(conversations):
        check_own(number, messages)


async def test_fifty_runs_on_one_loop_keep_to_themselves(host: str) -> None:
    agent = desk_agent(host)

    runs = [agent.ainvoke(*run_of(number), context=Customer(str(number))) for number in range(RUNS)]
    outputs = await asyncio.wait_for(asyncio.gather(*runs), HANGS_AFTER)

    for number, output in enumerate(outputs):
        check_own(number, output["messages"])


@pytest.mark.parametrize("limit", [1, 2, 8])
def test_batches_are_planned_within_their_limit(path: str, limit: int) -> None:
    active = ActiveRuns()
    given, configs = zip(*map(run_of, range(limit + 4)), strict=True)
    agent = desk_agent("node")
    configs = [{**config, "max_concurrency": limit, "callbacks": [active]} for config in configs]
    same = Customer("0")

    if path == "async":
        outputs = asyncio.run(asyncio.wait_for(agent.abatch(list(given), configs, context=same), HANGS_AFTER))
    else:
        outputs = agent.batch(list(given), configs, context=same)

    assert active.most == limit
    for number, output in enumerate(outputs):
        messages = check_conversation(output["messages"])
        assert messages[0].text == request(number)
        assert outline(messages)[-2] == ("result book" if number % 2 else "result read_price")


class Basket(list[str]):
    """What a sandboxed tool changes."""


def basket_tools(basket: Basket) -> list[BaseTool]:
    def book(flight: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Book a flight."""
        basket.append(_number(state["messages"][0].text))
        return f"{flight} is in the basket of {' '.join(basket)}"

    return [StructuredTool.from_function(book)]


async def test_forks_of_one_sandbox_hold_what_their_own_run_did() -> None:
    told: list[tuple[str, str]] = []

    def judge(question: JudgeRequest) -> Any:
        if question.stage == "pre":
            return [0.1 if call.tool in {"find_hotels", "check_weather"} else 0.9 for call in question.calls]
        if question.calls[0].tool == "book":
            told.append((_number(question.query), re.sub(".* of ", "", question.observation or "")))
        return 0.9, 0.9 if question.calls[0].tool == "book" else 0.1

    real = Basket()
    sandbox = ObjectSandbox(real, basket_tools)
    tools = [*(tool for tool in Agency().tools if tool.name != "book"), *sandbox.tools]
    config = SearchConfig(max_rollouts=6, value_threshold=1.0)
    node = ToolTreeNode(travel_model(), tools, judge=judge, effects=EFFECTS, sandbox=sandbox, config=config)

    runs = [node.ainvoke(asking(f"{BOOKING} #{number}")) for number in range(RUNS)]
    await asyncio.wait_for(asyncio.gather(*runs), HANGS_AFTER)

    assert {own for own, _ in told} == {str(number) for number in range(RUNS)}
    assert all(set(held.split()) == {own} for own, held in told)
    assert real == []
