"""Many runs of one agent at once: each keeps its search, its tokens, its context, its store entry and its forks."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from conversations import check_conversation, outline
from doubts import middleware_agent, node_agent
from langchain.agents import AgentState
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.store.memory import InMemoryStore

from langchain_tooltree.testing import ScriptedChatModel

RUNS = 8

HANGS_AFTER = 60
"""Seconds after which runs that take a few count as hanging."""

OTHERS = "Offer other tool calls"


class DeskState(AgentState[Any]):
    """The state of a run, which says whose it is."""

    customer: str


@dataclass
class Customer:
    """The context of a run."""

    name: str


def number_of(messages: Sequence[BaseMessage]) -> str:
    """The number of the run that a conversation belongs to."""
    return messages[0].text.partition("#")[2]


class Clerk(ScriptedChatModel):
    """Looks in the cellar, is in doubt, looks elsewhere, and sends what it has seen; streams slowly enough to mix."""

    def _respond(
        self, messages: list[BaseMessage], _: Sequence[Mapping[str, Any]]
    ) -> Any:
        talk = [message for message in messages if message.type != "system"]
        seen = {each.name: each.text for each in talk if isinstance(each, ToolMessage)}
        if OTHERS in talk[-1].text:
            return self._calling(
                "look", *({"place": place} for place in ("void", "shelf"))
            )
        if "send" in seen:
            return f'{{"missing": "nothing"}}\nRun {number_of(talk)} is done, and it says {seen["send"]}'
        if "key" in seen.get("look", ""):
            return self._calling("send", {"text": seen["look"]})
        if not seen:
            return self._calling("look", {"place": "cellar"})
        return f"{json.dumps({'missing': 'where the key is, to send it'})}\nRun {number_of(talk)} is in doubt."

    @staticmethod
    def _calling(name: str, *given: dict[str, str]) -> AIMessage:
        calls = [
            {"name": name, "args": args, "id": f"{name} {at}{args}"}
            for at, args in enumerate(given)
        ]
        return AIMessage("", tool_calls=calls)

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        for chunk in super()._stream(*args, **kwargs):
            time.sleep(0.001)
            yield chunk

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async for chunk in super()._astream(*args, **kwargs):
            await asyncio.sleep(0.001)
            yield chunk


def desk_tools() -> list[BaseTool]:
    """Tools that tell what was injected into them."""

    def look(
        place: str,
        runtime: ToolRuntime[Customer, Any],
        state: Annotated[dict[str, Any], InjectedState],
    ) -> str:
        """Look what is in a place."""
        return f"a key for {_seen(runtime, state)}" if place == "shelf" else ""

    def send(
        text: str,
        runtime: ToolRuntime[Customer, Any],
        state: Annotated[dict[str, Any], InjectedState],
    ) -> str:
        """Send a text."""
        return f"{text}, sent for {_seen(runtime, state)}"

    return [StructuredTool.from_function(each) for each in (look, send)]


def _seen(runtime: ToolRuntime[Customer, Any], state: dict[str, Any]) -> str:
    """The number of the run, as each injected thing has it."""
    assert runtime.store is not None
    entry = runtime.store.get(("customers",), runtime.context.name)
    return " ".join(
        (
            state["customer"],
            number_of(runtime.state["messages"]),
            runtime.context.name,
            entry.value["name"] if entry else "nobody",
            runtime.config["configurable"]["thread_id"],
        )
    )


def desk_agent(make: Any) -> Any:
    """An agent with a store in which every customer has an entry."""
    store = InMemoryStore()
    for number in range(RUNS):
        store.put(("customers",), str(number), {"name": str(number)})
    kept: dict[str, Any] = {"checkpointer": InMemorySaver(), "store": store}
    return make(
        Clerk(),
        desk_tools(),
        effects={"look": "read"},
        schema=DeskState,
        context_schema=Customer,
        **kept,
    )


def run_of(number: int) -> dict[str, Any]:
    """What a run is given."""
    return {
        "input": {
            "messages": [HumanMessage(f"Where is the key? Send it. #{number}")],
            "customer": str(number),
        },
        "config": {"configurable": {"thread_id": str(number)}},
        "context": Customer(str(number)),
    }


def check_own(number: int, chunks: Sequence[tuple[str, Any]]) -> None:
    """Fail unless a run is about its own request, tells its own answer alone, and was injected its own things."""
    messages = next(
        chunk["messages"] for mode, chunk in reversed(chunks) if mode == "values"
    )
    words = outline(check_conversation(messages))
    assert words == [
        "human",
        "call look",
        "result look",
        "call send",
        "result send",
        "answer",
    ]
    own = " ".join([str(number)] * 5)
    answer = f"Run {number} is done, and it says a key for {own}, sent for {own}"
    assert messages[-1].text == answer
    assert messages[-1].response_metadata["tooltree"]["tried"] == [
        'look(place="cellar")',
        'look(place="void")',
    ]
    tokens = [chunk[0] for mode, chunk in chunks if mode == "messages"]
    assert (
        "".join(token.text for token in tokens if token.type == "AIMessageChunk")
        == answer
    )


MAKERS = pytest.mark.parametrize("make", [node_agent, middleware_agent])
BOTH: Any = ["messages", "values"]


@MAKERS
def test_many_runs_on_threads_keep_to_themselves(make: Any) -> None:
    agent = desk_agent(make)

    with ThreadPoolExecutor(RUNS) as pool:
        runs = pool.map(
            lambda number: list(agent.stream(**run_of(number), stream_mode=BOTH)),
            range(RUNS),
        )
        for number, chunks in enumerate(runs):
            check_own(number, chunks)


@MAKERS
async def test_many_runs_on_one_loop_keep_to_themselves(make: Any) -> None:
    agent = desk_agent(make)

    async def run(number: int) -> list[Any]:
        return [
            chunk async for chunk in agent.astream(**run_of(number), stream_mode=BOTH)
        ]

    runs = await asyncio.wait_for(asyncio.gather(*map(run, range(RUNS))), HANGS_AFTER)
    for number, chunks in enumerate(runs):
        check_own(number, chunks)
