"""The agents of LangChain's tutorials end in the same messages with a planner, and cost what they cost without it."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from agents import invoke
from conversations import check_pairs
from documentation_agents import (
    EXAMPLES,
    REMIND,
    SCRIPT,
    THANKS,
    Pun,
    ScriptModel,
    build,
    build_node,
    get_weather,
    run,
)
from langchain.agents import create_agent, factory
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import LLMResult
from pydantic import Field

from langchain_tooltree import create_tooltree_agent
from tests.benchmarks.live.cassette import RecordedMethod

MOST_TOKENS = 1.15
"""So many times the tokens of the plain agent a planned one may take."""


class Bill(BaseCallbackHandler):
    """What all requests to models cost."""

    def __init__(self) -> None:
        self.calls = self.tokens = 0
        self._lock = threading.Lock()

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        with self._lock:
            self.calls += 1
            message = response.generations[0][0].message  # type: ignore[union-attr]
            self.tokens += message.usage_metadata["total_tokens"]  # type: ignore[index]


def told(messages: list[BaseMessage]) -> list[Any]:
    """Messages without their ids, those of calls by the order in which they were made."""
    order: dict[str | None, int] = {}
    seen: list[Any] = []
    for message in messages:
        said: list[Any] = [type(message), message.content, message.name, message.additional_kwargs]
        if isinstance(message, AIMessage):
            said.append([(call["name"], call["args"]) for call in message.tool_calls])
            order |= {call["id"]: len(order) + at for at, call in enumerate(message.tool_calls)}
        if isinstance(message, ToolMessage):
            said += [order[message.tool_call_id], message.artifact, message.status, message.response_metadata]
        seen.append(said)
    return seen


def both(name: str, path: str, make: Any = build) -> tuple[tuple[dict[str, Any], Bill], tuple[dict[str, Any], Bill]]:
    """The final state and the cost of the plain agent, and of the planned one."""
    results = []
    for planned in (False, True):
        bill = Bill()
        agent = make(name, ScriptModel(), planned=planned)
        results.append((run(name, agent, path=path, callbacks=[bill]), bill))
    return results[0], results[1]


def check_alike(name: str, path: str, make: Any = build) -> dict[str, Any]:
    """Compare both agents of an example, and return the final state of the planned one."""
    (usual, price), (state, paid) = both(name, path, make)
    check_pairs(state["messages"])
    assert told(state["messages"]) == told(usual["messages"])
    assert state.get("structured_response") == usual.get("structured_response")
    assert paid.calls == price.calls
    assert paid.tokens <= MOST_TOKENS * price.tokens
    return state


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")  # langgraph-supervisor still uses it
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_documentation_ends_and_costs_as_without_a_planner(name: str, path: str) -> None:
    check_alike(name, path)


@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if example.node])
def test_so_it_does_in_a_graph_of_ones_own(name: str, path: str) -> None:
    check_alike(name, path, build_node)


RECORDED = Path(__file__).parents[1] / "recorded_answers" / "documentation.jsonl"

READ = ("rag", "sql", "weather", "weather in a schema", "mail", "supervisor")
"""The examples that a reader has answered, in this order, without a planner and with one."""


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
def test_answers_of_a_reader_bring_the_same_messages_with_a_planner() -> None:
    ended, asked = [], []
    for method in ("plain", "planned"):
        model = RecordedMethod(path=RECORDED, method=method)
        asked.append(len(model.left))
        agents = {name: build(name, model, planned=method == "planned") for name in READ}
        ended.append([told(run(name, agent, path="sync")["messages"]) for name, agent in agents.items()])
        assert (model.unmatched, model.left) == ([], [])
    assert ended[0] == ended[1]
    assert asked == [25, 26]  # one answer, which leaves a question to the user, is asked again


def test_the_documents_that_were_retrieved_come_with_the_results(path: str) -> None:
    messages = check_alike("rag", path)["messages"]
    found = [message.artifact for message in messages if isinstance(message, ToolMessage)]
    assert [[type(each) for each in documents] for documents in found] == [[Document, Document]] * 2
    assert found[1][0].id == "tree"


class Slipping(ScriptModel):
    """Fills in forms wrongly at first."""

    slips: list[dict[str, Any]] = Field(default_factory=list)

    def _respond(self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> Any:
        reply = super()._respond(messages, tools)
        is_form = isinstance(reply, AIMessage) and [call["name"] for call in reply.tool_calls] == ["Pun"]
        if is_form and self.slips:
            reply.tool_calls[0]["args"] = self.slips.pop()
        return reply


@pytest.mark.parametrize("title", [{"title": "Pun"}, {}], ids=["named", "without a name"])
def test_a_schema_in_json_becomes_the_answer_as_well(path: str, title: dict[str, str]) -> None:
    schema = {**title, "type": "object", "properties": {"punny_response": {"type": "string"}}, "description": "A pun."}
    agents = [make(AnyForm(), [get_weather], response_format=schema) for make in (create_agent, create_tooltree_agent)]
    states = [invoke(agent, {"messages": [HumanMessage(REMIND)]}, path=path) for agent in agents]
    assert [state["structured_response"] for state in states] == [{"punny_response": "Sunny."}] * 2


def test_langchain_still_says_whether_a_provider_fills_in_a_form() -> None:
    assert factory._supports_provider_strategy("gpt-4.1") is True
    assert factory._supports_provider_strategy(ScriptModel(), tools=[]) is False


class AnyForm(ScriptModel):
    """Fills in whatever form it is given."""

    def _respond(self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> Any:
        name = tools[-1]["function"]["name"]
        if name == "get_weather":
            return "Sunny."
        return AIMessage("", tool_calls=[{"name": name, "args": {"punny_response": "Sunny."}, "id": "call_form"}])


def test_a_form_that_is_filled_in_wrongly_is_asked_for_again(path: str) -> None:
    bill, model = Bill(), Slipping(slips=[{"conditions": "sunny"}])
    state = run("weather in a form", build("weather in a form", model, planned=True), path=path, callbacks=[bill])
    assert state["structured_response"] == Pun(punny_response=SCRIPT[THANKS][1], conditions="sunny")
    assert bill.calls == 4 + 1
    check_pairs(state["messages"])


def test_the_model_has_the_form_among_its_tools_as_without_a_planner(path: str) -> None:
    asked: list[list[tuple[list[str], Any]]] = []
    for planned in (False, True):
        model = Listening()
        run("weather in a form", build("weather in a form", model, planned=planned), path=path)
        asked.append(model.bound)
    assert asked[1] == asked[0]
    assert asked[1][0] == (["get_user_location", "get_weather", "Pun"], "any")


class Listening(ScriptModel):
    """Remembers the tools of each request, and whether it had to call one."""

    bound: list[tuple[list[str], Any]] = Field(default_factory=list)

    def _message(self, messages: list[BaseMessage], options: Mapping[str, Any]) -> AIMessage:
        self.bound.append(([each["function"]["name"] for each in options["tools"]], options.get("tool_choice")))
        return super()._message(messages, options)
