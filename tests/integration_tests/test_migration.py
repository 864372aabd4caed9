"""Everyday agents of LangChain's documentation, each written once for any factory: swapping it changes no result.

The examples are those of the pages "Quickstart" and "Agents" in our own words, with a stand-in for the model.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

import pytest
from agents import THREAD, invoke, stream
from conversations import check_pairs
from everyday import PACKING, WEATHER, Forecast, Worker
from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import ModelRequest, ModelResponse, dynamic_prompt, wrap_model_call, wrap_tool_call
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain.tools import ToolRuntime, tool
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import InjectedState
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from openai_server import OpenAIServer
from starlette.requests import Request
from starlette.responses import Response

from langchain_tooltree import create_tooltree_agent

Factory = Callable[..., CompiledStateGraph[Any, Any, Any, Any]]


def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It is sunny in {city}."


@tool
def find_list(kind: str) -> str:
    """Find a packing list."""
    return f"{kind}: hat, sandals"


def asking(request: str) -> dict[str, Any]:
    """The input that asks for something, as the documentation writes it."""
    return {"messages": [{"role": "user", "content": request}]}


# --- the examples ---


def functions_as_tools(factory: Factory, path: str) -> Any:
    return invoke(factory(Worker(), [get_weather]), asking(WEATHER), path=path)


def several_calls_in_a_row(factory: Factory, path: str) -> Any:
    return invoke(factory(Worker(), tools=[get_weather, find_list]), asking(PACKING), path=path)


def without_tools(factory: Factory, path: str) -> Any:
    return [invoke(factory(Worker(), tools), asking("Good morning!"), path=path) for tools in ([], None)]


def a_request_that_needs_no_tool(factory: Factory, path: str) -> Any:
    return invoke(factory(Worker(), [get_weather]), asking("Good morning!"), path=path)


def a_system_prompt(factory: Factory, path: str) -> Any:
    prompts = ["Be polite.", SystemMessage([{"type": "text", "text": "Be polite."}])]
    agents = [factory(Worker(), [get_weather], system_prompt=prompt) for prompt in prompts]
    return [invoke(agent, asking(WEATHER), path=path) for agent in agents]


def structured_output(factory: Factory, path: str) -> Any:
    formats = [Forecast, ToolStrategy(Forecast), ProviderStrategy(Forecast)]
    agents = [factory(Worker(), [get_weather], response_format=form) for form in formats]
    return [invoke(agent, asking(WEATHER), path=path) for agent in agents]


def memory_of_a_conversation(factory: Factory, path: str) -> Any:
    agent = factory(Worker(), [get_weather, find_list], checkpointer=InMemorySaver())
    turns = [invoke(agent, asking(request), THREAD, path=path) for request in (WEATHER, PACKING, "Thank you!")]
    elsewhere = invoke(agent, asking("Good morning!"), {"configurable": {"thread_id": "2"}}, path=path)
    return [*turns, elsewhere, agent.get_state(THREAD).values]


class TripState(AgentState[Any]):
    home: str
    likings: NotRequired[list[str]]


def a_state_of_ones_own(factory: Factory, path: str) -> Any:
    @tool
    def locate_user(state: Annotated[TripState, InjectedState]) -> str:
        """Tell where the user is."""
        return f"In {state['home']}, asking {state['messages'][0].text}"

    agent = factory(Worker(), [locate_user], state_schema=TripState)
    return invoke(agent, {**asking("Where am I?"), "home": "Porto"}, path=path)


def a_tool_that_changes_the_state(factory: Factory, path: str) -> Any:
    @tool
    def remember(liking: str, runtime: ToolRuntime[Any, TripState]) -> Command[Any]:
        """Remember what the user likes."""
        told = ToolMessage("Noted.", tool_call_id=runtime.tool_call_id)
        return Command(update={"likings": [liking], "messages": [told]})

    agent = factory(Worker(), [remember], state_schema=TripState)
    return invoke(agent, {**asking("Remember that I like trains."), "home": "Porto"}, path=path)


@dataclass
class User:
    name: str


def context_and_store(factory: Factory, path: str) -> Any:
    @tool
    def locate_user(runtime: ToolRuntime[User]) -> str:
        """Tell where the user is."""
        assert runtime.store is not None
        place = runtime.store.get(("places",), runtime.context.name)
        return str(place.value["city"] if place else "nobody knows")

    store = InMemoryStore()
    store.put(("places",), "Ann", {"city": "Braga"})
    agent = factory(Worker(), [locate_user], context_schema=User, store=store)
    return [invoke(agent, asking("Where am I?"), context=User(name), path=path) for name in ("Ann", "Bob")]


def streaming_of_states(factory: Factory, path: str) -> Any:
    return stream(factory(Worker(), [get_weather]), asking(WEATHER), path=path, stream_mode="values")[-1]


def streaming_of_updates(factory: Factory, path: str) -> Any:
    chunks = stream(factory(Worker(), [get_weather]), asking(WEATHER), path=path, stream_mode="updates")
    return [message for chunk in chunks for update in chunk.values() for message in update["messages"]]


def streaming_of_tokens(factory: Factory, path: str) -> Any:
    chunks = stream(factory(Worker(), [get_weather]), asking(WEATHER), path=path, stream_mode="messages")
    return [(message.text, told["langgraph_node"]) for message, told in chunks if message.text]


def a_model_for_each_request(factory: Factory, path: str) -> Any:
    class Terse(Worker):
        def _respond(self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> Any:
            reply = super()._respond(messages, tools)
            return "Sun." if isinstance(reply, str) else reply

    terse = Terse()

    def chosen(request: ModelRequest[Any]) -> ModelRequest[Any]:
        return request.override(model=terse) if len(request.messages) > 3 else request

    @wrap_model_call
    def choose(request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]) -> Any:
        return handler(chosen(request))

    @wrap_model_call
    async def achoose(
        request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        return await handler(chosen(request))

    middleware = [achoose if path == "async" else choose]
    agent = factory(Worker(), [get_weather], middleware=middleware, checkpointer=InMemorySaver())
    return [invoke(agent, asking(WEATHER), THREAD, path=path) for _ in range(2)]


def a_prompt_for_each_request(factory: Factory, path: str) -> Any:
    @dynamic_prompt
    def address(request: ModelRequest[Any]) -> str:
        return "Be polite." if request.runtime.context.name == "Ann" else "Be brief."

    agent = factory(Worker(), [get_weather], middleware=[address], context_schema=User)
    return [invoke(agent, asking(WEATHER), context=User(name), path=path) for name in ("Ann", "Bob")]


def tool_errors_in_ones_own_words(factory: Factory, path: str) -> Any:
    def get_weather(city: str) -> str:
        """Tell the weather in a city."""
        msg = f"no station in {city}"
        raise ValueError(msg)

    def apology(request: ToolCallRequest, error: ValueError) -> ToolMessage:
        return ToolMessage(f"Ask again: {error}.", tool_call_id=request.tool_call["id"], status="error")

    @wrap_tool_call
    def excuse(request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        try:
            return handler(request)
        except ValueError as error:
            return apology(request, error)

    @wrap_tool_call
    async def aexcuse(request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
        try:
            return await handler(request)
        except ValueError as error:
            return apology(request, error)

    agent = factory(Worker(), [get_weather], middleware=[aexcuse if path == "async" else excuse])
    return invoke(agent, asking(WEATHER), path=path)


def an_agent_with_a_name(factory: Factory, path: str) -> Any:
    agent = factory(Worker(), [get_weather], name="forecaster")
    assert agent.name == "forecaster"
    return invoke(agent, asking(WEATHER), path=path)


def stopping_before_the_tools(factory: Factory, path: str) -> Any:
    @tool
    def remember(liking: str) -> str:
        """Remember what the user likes."""
        return f"They like {liking}."

    agent = factory(Worker(), [remember], interrupt_before=["tools"], checkpointer=InMemorySaver())
    stopped = invoke(agent, asking("Remember that I like trains."), THREAD, path=path)
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
        environment.setenv("OPENAI_BASE_URL", ClosingServer(Worker()).url)
        environment.setenv("NO_PROXY", "127.0.0.1")
        return invoke(factory("openai:gpt-4.1-mini", [get_weather]), asking(WEATHER), path=path)


# --- what is compared ---


def planning(model: Any, tools: Sequence[Any] | None = None, **options: Any) -> Any:
    """`create_tooltree_agent` with all tools declared reads, but for those that write to the state."""
    names = [tool.name if hasattr(tool, "name") else tool.__name__ for tool in tools or ()]
    effects: Any = {name: "read" for name in names if name != "remember"}
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
    several_calls_in_a_row,
    without_tools,
    a_request_that_needs_no_tool,
    a_system_prompt,
    structured_output,
    memory_of_a_conversation,
    a_state_of_ones_own,
    a_tool_that_changes_the_state,
    context_and_store,
    streaming_of_states,
    streaming_of_updates,
    streaming_of_tokens,
    a_model_for_each_request,
    a_prompt_for_each_request,
    tool_errors_in_ones_own_words,
    an_agent_with_a_name,
    stopping_before_the_tools,
    a_model_by_its_name,
]


@pytest.mark.parametrize("factory", [planning, create_tooltree_agent], ids=["reads declared", "nothing declared"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.__name__)
def test_an_agent_does_with_a_planner_what_it_did_without(
    path: str, example: Callable[[Factory, str], Any], factory: Factory
) -> None:
    assert shape(example(factory, path)) == shape(example(create_agent, path))


ARGUMENTS: dict[str, Any] = {
    "model": Worker(),
    "tools": [get_weather],
    "system_prompt": "Be polite.",
    "middleware": [],
    "response_format": ToolStrategy(Forecast),
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


def test_every_argument_of_create_agent_is_known_here() -> None:
    assert set(ARGUMENTS) == set(inspect.signature(create_agent).parameters)


def test_every_argument_of_create_agent_is_accepted_and_reaches_the_graph() -> None:
    plain, planned = create_agent(**ARGUMENTS), create_tooltree_agent(**ARGUMENTS)

    for attribute in ("name", "checkpointer", "store", "cache", "debug", "context_schema"):
        assert getattr(planned, attribute) is getattr(plain, attribute)
    assert planned.interrupt_before_nodes == plain.interrupt_before_nodes
    assert planned.interrupt_after_nodes == plain.interrupt_after_nodes
    assert planned.get_input_jsonschema() == plain.get_input_jsonschema()
    assert planned.get_output_jsonschema() == plain.get_output_jsonschema()
    assert set(planned.get_graph().nodes) == set(plain.get_graph().nodes)
