"""Agents as LangChain's documentation writes them, for any factory: swapping `create_agent` changes no result.

What middleware, streams and the graphs around an agent do is in `test_composition*.py` and `test_streams.py`.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired

import pytest
from agents import invoke
from composition import FIND, REQUEST, THREAD, Clerk, Depot, asking
from conversations import check_pairs
from langchain.agents import AgentState, create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from openai_server import OpenAIServer
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from langchain_tooltree import create_tooltree_agent

Factory = Callable[..., CompiledStateGraph[Any, Any, Any, Any]]


class Offer(BaseModel):
    """What a thing costs."""

    item: str
    price: int


OFFER = Offer(item="bolt", price=90)


class Seller(Clerk):
    """Fills in the form of an offer where it is given one, as a tool or as a format."""

    def _respond(
        self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]
    ) -> Any:
        reply = super()._respond(messages, tools)
        forms = any(each["function"]["name"] == "Offer" for each in tools)
        return (
            self._calling(("Offer", OFFER.model_dump()))
            if isinstance(reply, str) and forms
            else reply
        )

    def _message(
        self, messages: list[BaseMessage], options: Mapping[str, Any]
    ) -> AIMessage:
        message = super()._message(messages, options)
        if "response_format" in options and not message.tool_calls:
            return message.model_copy(update={"content": OFFER.model_dump_json()})
        return message


class TripState(AgentState[Any]):
    likings: NotRequired[list[str]]


@dataclass
class User:
    name: str


# --- the examples ---


def functions_as_tools(factory: Factory, path: str) -> Any:
    def find(item: str) -> str:
        """Find an item."""
        return f"{item} is here"

    return invoke(
        factory(Clerk(steps=[FIND]), [find], name="finder"), asking(), path=path
    )


def structured_output(factory: Factory, path: str) -> Any:
    formats = [Offer, ToolStrategy(Offer), ProviderStrategy(Offer)]
    agents = [
        factory(Seller(), Depot().tools, response_format=form) for form in formats
    ]
    return [invoke(agent, asking(), path=path) for agent in agents]


def memory_of_a_conversation(factory: Factory, path: str) -> Any:
    agent = factory(Clerk(), Depot().tools, checkpointer=InMemorySaver())
    turns = [
        invoke(agent, asking(request), THREAD, path=path)
        for request in (REQUEST, REQUEST, "Thank you!")
    ]
    elsewhere = invoke(agent, asking(), {"configurable": {"thread_id": "2"}}, path=path)
    return [*turns, elsewhere, agent.get_state(THREAD).values]


def a_tool_that_changes_the_state(factory: Factory, path: str) -> Any:
    @tool
    def order(item: str, runtime: ToolRuntime[Any, TripState]) -> Command[Any]:
        """Remember what the user likes."""
        told = ToolMessage("Noted.", tool_call_id=runtime.tool_call_id)
        return Command(update={"likings": [item], "messages": [told]})

    agent = factory(
        Clerk(steps=[("order", {"item": "bolt"})]), [order], state_schema=TripState
    )
    return invoke(agent, asking(), path=path)


def context_and_store(factory: Factory, path: str) -> Any:
    @tool
    def find(item: str, runtime: ToolRuntime[User]) -> str:
        """Tell where an item is."""
        assert runtime.store is not None
        place = runtime.store.get(("places",), runtime.context.name)
        return str(place.value["city"] if place else "nobody knows")

    store = InMemoryStore()
    store.put(("places",), "Ann", {"city": "Braga"})
    agent = factory(Clerk(steps=[FIND]), [find], context_schema=User, store=store)
    return [
        invoke(agent, asking(), context=User(name), path=path)
        for name in ("Ann", "Bob")
    ]


def stopping_before_the_tools(factory: Factory, path: str) -> Any:
    agent = factory(
        Clerk(steps=[FIND]),
        Depot().tools,
        interrupt_before=["tools"],
        checkpointer=InMemorySaver(),
    )
    stopped = invoke(agent, asking(), THREAD, path=path)
    assert agent.get_state(THREAD).next == ("tools",)
    return [stopped, invoke(agent, None, THREAD, path=path)]


class ClosingServer(OpenAIServer):
    """Leaves no connection open: a client that was made from a name is nobody's to close."""

    async def serve(self, request: Request) -> Response:
        response = await super().serve(request)
        response.headers["connection"] = "close"
        return response


def a_model_by_its_name(factory: Factory, path: str) -> Any:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OPENAI_API_KEY", "unused")
        environment.setenv("OPENAI_BASE_URL", ClosingServer(Clerk()).url)
        environment.setenv("NO_PROXY", "127.0.0.1")
        return invoke(
            factory("openai:gpt-4.1-mini", Depot().tools), asking(), path=path
        )


# --- what is compared ---


def planning(model: Any, tools: Sequence[Any] | None = None, **options: Any) -> Any:
    """`create_tooltree_agent` with all tools declared reads, but for those that write."""
    names = [
        tool.name if hasattr(tool, "name") else tool.__name__ for tool in tools or ()
    ]
    effects: Any = {name: "read" for name in names if name != "order"}
    return create_tooltree_agent(model, tools, effects=effects, **options)


def shape(result: Any) -> Any:
    """A result without what differs from run to run: the ids."""
    match result:
        case AIMessage():
            calls = [(call["name"], call["args"]) for call in result.tool_calls]
            return (result.type, result.name, result.text, calls)
        case BaseMessage():
            return (result.type, result.text, getattr(result, "status", None))
        case {"messages": messages}:
            check_pairs(messages, may_end_open=True)
            return {key: shape(value) for key, value in result.items()}
        case list():
            return [shape(entry) for entry in result]
        case _:
            return result


EXAMPLES = [
    functions_as_tools,
    structured_output,
    memory_of_a_conversation,
    a_tool_that_changes_the_state,
    context_and_store,
    stopping_before_the_tools,
    a_model_by_its_name,
]


@pytest.mark.parametrize(
    "factory",
    [planning, create_tooltree_agent],
    ids=["reads declared", "nothing declared"],
)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_an_agent_does_with_a_planner_what_it_did_without(
    path: str, example: Callable[[Factory, str], Any], factory: Factory
) -> None:
    assert shape(example(factory, path)) == shape(example(create_agent, path))


ARGUMENTS: dict[str, Any] = {
    "model": Clerk(),
    "tools": Depot().tools,
    "system_prompt": "Be polite.",
    "middleware": [],
    "response_format": ToolStrategy(Offer),
    "state_schema": TripState,
    "context_schema": User,
    "checkpointer": InMemorySaver(),
    "store": InMemoryStore(),
    "interrupt_before": ["tools"],
    "interrupt_after": ["tools"],
    "debug": True,
    "name": "forecaster",
    "cache": InMemoryCache(),
    "transformers": [],
}


def test_every_argument_of_create_agent_is_accepted_and_reaches_the_graph() -> None:
    assert set(ARGUMENTS) == set(inspect.signature(create_agent).parameters)
    plain, planned = create_agent(**ARGUMENTS), create_tooltree_agent(**ARGUMENTS)

    for attribute in (
        "name",
        "checkpointer",
        "store",
        "cache",
        "debug",
        "context_schema",
    ):
        assert getattr(planned, attribute) is getattr(plain, attribute)
    assert planned.interrupt_before_nodes == plain.interrupt_before_nodes
    assert planned.interrupt_after_nodes == plain.interrupt_after_nodes
    assert planned.get_input_jsonschema() == plain.get_input_jsonschema()
    assert planned.get_output_jsonschema() == plain.get_output_jsonschema()
    assert set(planned.get_graph().nodes) == set(plain.get_graph().nodes)
