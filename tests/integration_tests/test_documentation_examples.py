"""The agents of LangChain's tutorials end in the same messages with a planner, and cost what they cost without it."""

import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from conversations import check_pairs
from documentation_agents import EXAMPLES, ScriptModel, build, run
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import LLMResult

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
        said: list[Any] = [
            type(message),
            message.content,
            message.name,
            message.additional_kwargs,
        ]
        if isinstance(message, AIMessage):
            said.append([(call["name"], call["args"]) for call in message.tool_calls])
            order |= {
                call["id"]: len(order) + at
                for at, call in enumerate(message.tool_calls)
            }
        if isinstance(message, ToolMessage):
            said += [
                order[message.tool_call_id],
                message.artifact,
                message.status,
                message.response_metadata,
            ]
        seen.append(said)
    return seen


def both(
    name: str, path: str
) -> tuple[tuple[dict[str, Any], Bill], tuple[dict[str, Any], Bill]]:
    """The final state and the cost of the plain agent, and of the planned one."""
    results = []
    for planned in (False, True):
        bill = Bill()
        agent = build(name, ScriptModel(), planned=planned)
        results.append((run(name, agent, path=path, callbacks=[bill]), bill))
    return results[0], results[1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_documentation_ends_and_costs_as_without_a_planner(
    name: str, path: str
) -> None:
    (usual, price), (state, paid) = both(name, path)
    check_pairs(state["messages"])
    assert told(state["messages"]) == told(usual["messages"])
    assert state.get("structured_response") == usual.get("structured_response")
    assert paid.calls == price.calls
    assert paid.tokens <= MOST_TOKENS * price.tokens


RECORDED = Path(__file__).parents[1] / "recorded_answers" / "documentation.jsonl"

READ = ("rag", "sql", "weather", "weather in a schema", "mail", "supervisor")
"""The examples that a reader has answered, in this order, without a planner and with one."""


def test_answers_of_a_reader_bring_the_same_messages_with_a_planner() -> None:
    ended, asked = [], []
    for method in ("plain", "planned"):
        model = RecordedMethod(path=RECORDED, method=method)
        asked.append(len(model.left))
        agents = {
            name: build(name, model, planned=method == "planned") for name in READ
        }
        ended.append(
            [
                told(run(name, agent, path="sync")["messages"])
                for name, agent in agents.items()
            ]
        )
        assert (model.unmatched, model.left) == ([], [])
    assert ended[0] == ended[1]
    assert asked == [
        25,
        26,
    ]  # one answer, which leaves a question to the user, is asked again
