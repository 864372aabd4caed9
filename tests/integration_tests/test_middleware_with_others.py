"""The planner behind LangChain's own middleware: each keeps its promise, for searched calls as well."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agents import (
    BOOKED,
    PRICED,
    THREAD,
    ListeningModel,
    Witness,
    invoke,
    planning_agent,
    replaced,
)
from conversations import check_conversation, outline
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallRequest,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from travel import APART, BOOKING, PRICE, READS, Agency, TravelPolicy, asking

from langchain_tooltree.testing import Made, OfflineChatModel, Question, ScriptedChatModel

# --- around tool calls ---


def failing(name: str, *failures: Exception) -> tuple[BaseTool, list[str]]:
    """A tool for a flight that fails as told before it works, and the attempts made."""
    attempts: list[str] = []
    ahead = list(failures)

    @tool(name)
    def use(flight: str) -> str:
        """Do something about a flight."""
        attempts.append(flight)
        if ahead:
            raise ahead.pop(0)
        return f"{flight} is done"

    return use, attempts


class ToolWatch(AgentMiddleware[Any, Any, Any]):
    """Sees every tool call that passes through it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        self.seen.append(request.tool_call["name"])
        return handler(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        self.seen.append(request.tool_call["name"])
        return await handler(request)


@pytest.mark.parametrize("handed_over", [True, False])
def test_searched_reads_pass_through_middleware_that_is_handed_over(
    agency: Agency, path: str, *, handed_over: bool
) -> None:
    watch = ToolWatch()
    agent = planning_agent(agency, watch, planner={"host_middleware": [watch] if handed_over else []})

    messages = invoke(agent, asking(BOOKING), path=path)["messages"]

    assert outline(check_conversation(messages)) == BOOKED
    searched = {label.split()[0] for label in agency.calls} & set(READS)
    assert sorted(watch.seen) == sorted([*(searched if handed_over else []), "book"])


@pytest.mark.parametrize(
    ("handed_over", "told"), [(True, "ask the airline"), (False, "ValueError: no such flight")], ids=["yes", "no"]
)
def test_tool_errors_are_worded_by_middleware_that_is_handed_over(
    agency: Agency, path: str, *, handed_over: bool, told: str
) -> None:
    read_price, _ = failing("read_price", ValueError("no such flight"))
    wording = ToolErrorMiddleware(lambda *_: "ask the airline")
    agent = planning_agent(
        agency,
        wording,
        tools=replaced(agency.tools, read_price),
        planner={"host_middleware": [wording] if handed_over else []},
    )

    messages = invoke(agent, asking(PRICE), path=path)["messages"]

    check_conversation(messages)
    assert (messages[4].text, messages[4].status) == (told, "error")


@pytest.mark.parametrize(
    ("name", "request_", "way"), [("read_price", PRICE, PRICED), ("book", BOOKING, BOOKED)], ids=["read", "write"]
)
def test_a_failing_call_is_retried_as_the_agent_does_it(
    agency: Agency, path: str, name: str, request_: str, way: list[str]
) -> None:
    unreliable, attempts = failing(name, ConnectionError("lost"))
    witness = Witness()
    retry = ToolRetryMiddleware(max_retries=1, initial_delay=0, jitter=False)
    agent = planning_agent(
        agency, retry, tools=replaced(agency.tools, unreliable), planner={"host_middleware": [retry]}
    )

    messages = invoke(agent, asking(request_), {"callbacks": [witness]}, path=path)["messages"]

    assert outline(check_conversation(messages)) == way
    assert attempts == ["OS-1", "OS-1"]
    assert len(witness.of("start")) == 1 + (name == "book"), "one for each model call"


# --- around model calls ---


def unreachable(_: Any) -> Any:
    raise ConnectionError("down")


def test_a_fallback_model_plans_and_answers_when_the_first_is_down(agency: Agency, path: str) -> None:
    fallback = ListeningModel()
    model: Any = ScriptedChatModel(replies=[unreachable] * 99)

    messages = invoke(planning_agent(agency, ModelFallbackMiddleware(fallback), model=model), asking(PRICE), path=path)[
        "messages"
    ]

    assert outline(check_conversation(messages)) == PRICED
    assert {heard.kind for heard in fallback.heard} == {"step"}


@pytest.mark.parametrize(
    "again",
    [ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False), ModelFallbackMiddleware(ListeningModel())],
    ids=["retry", "fallback"],
)
def test_an_answer_that_is_asked_for_again_costs_no_second_search(agency: Agency, path: str, again: Any) -> None:
    witness = Witness()
    model = ListeningModel(failures=[ConnectionError("overloaded")])

    agent = planning_agent(agency, again, model=model, planner={"config": APART})
    messages = invoke(agent, asking(PRICE), {"callbacks": [witness]}, path=path)["messages"]

    assert outline(check_conversation(messages)) == PRICED
    assert len(witness.of("start")) == 1
    assert set(agency.calls.values()) == {1}


def test_a_failed_answer_costs_no_second_search_when_the_thread_goes_on(agency: Agency, path: str) -> None:
    model = ListeningModel(failures=[ConnectionError("overloaded")])
    agent = planning_agent(agency, model=model, planner={"config": APART}, checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError, match="overloaded"):
        invoke(agent, asking(PRICE), THREAD, path=path)

    messages = invoke(agent, None, THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == PRICED
    assert set(agency.calls.values()) == {1}


# --- around the conversation ---

SUMMARY = "They asked for the price of a flight to Oslo."


def summarizing(*, after: int) -> SummarizationMiddleware:
    """Summarizes all but the last message once there are more than so many."""
    model = ScriptedChatModel(replies=[SUMMARY] * 9)
    return SummarizationMiddleware(model, trigger=("messages", after), keep=("messages", 1))


def test_a_summarized_conversation_is_planned_on(agency: Agency, path: str) -> None:
    model = ListeningModel()
    agent = planning_agent(agency, summarizing(after=7), model=model, checkpointer=InMemorySaver())
    invoke(agent, asking(PRICE), THREAD, path=path)
    model.heard.clear()

    messages = invoke(agent, asking(PRICE), THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == ["human", *PRICED]
    assert all(SUMMARY in str(heard.messages) for heard in model.heard)


def test_a_turn_summarized_between_a_write_and_its_answer_stays_valid(agency: Agency, path: str) -> None:
    messages = invoke(planning_agent(agency, summarizing(after=7)), asking(BOOKING), path=path)["messages"]

    assert outline(check_conversation(messages)) == ["human", "call book", "result book", "answer"]
    assert agency.calls["book OS-1"] == 1


def test_a_summary_is_planned_for_only_where_no_request_is_left(agency: Agency) -> None:
    agent = planning_agent(agency, summarizing(after=7), planner={"when": lambda _: True}, checkpointer=InMemorySaver())

    def planned_for(request: str) -> list[str]:
        told = agent.stream(asking(request), THREAD, stream_mode="custom")
        return [event["tooltree"]["query"] for event in told if event["tooltree"]["type"] == "start"]

    assert planned_for(BOOKING) == [BOOKING, SUMMARY]
    assert planned_for(PRICE) == [PRICE]


def test_what_context_editing_clears_is_cleared_for_the_search_and_stays_in_the_state(
    agency: Agency, path: str
) -> None:
    model = ListeningModel()
    editing = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=0, placeholder="[gone]")])
    agent = planning_agent(agency, editing, model=model, checkpointer=InMemorySaver())
    invoke(agent, asking(PRICE), THREAD, path=path)
    model.heard.clear()

    messages = invoke(agent, asking(BOOKING), THREAD, path=path)["messages"]

    assert outline(check_conversation(messages)) == [*PRICED, *BOOKED]
    assert messages[2].text == "Oslo: OS-1 for 90, OS-2 for 120"
    first, *_ = model.asked("step")
    assert [message.text for message in first.messages if message.type == "tool"] == ["[gone]", "[gone]"]


ANN = "ann@example.com"


def test_personal_data_in_the_request_is_redacted_before_the_search(agency: Agency, path: str) -> None:
    model = ListeningModel()

    messages = invoke(
        planning_agent(agency, PIIMiddleware("email"), model=model),
        {"messages": [HumanMessage(f"{PRICE} # I am {ANN}")]},
        path=path,
    )["messages"]

    assert outline(check_conversation(messages)) == PRICED
    assert "[REDACTED_EMAIL]" in messages[0].text
    assert not any(ANN in str(heard.messages) for heard in model.heard)


@tool("read_price")
def personal_price(flight: str) -> str:
    """Read the price of a flight."""
    return f"{flight} costs 90, says {ANN} of 192.168.0.1"


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        ("redact", "OS-1 costs 90, says [REDACTED_EMAIL] of [REDACTED_IP]"),
        ("block", "PIIDetectionError: Detected 1 instance(s) of email in text content"),
    ],
)
def test_personal_data_in_the_result_of_a_searched_read_reaches_no_model(
    agency: Agency, path: str, strategy: Any, told: str
) -> None:
    model = ListeningModel()
    private = [PIIMiddleware(kind, strategy=strategy, apply_to_tool_results=True) for kind in ("email", "ip")]
    agent = planning_agent(
        agency,
        *private,
        model=model,
        tools=replaced(agency.tools, personal_price),
        planner={"host_middleware": private},
    )

    messages = invoke(agent, asking(PRICE), path=path)["messages"]

    assert outline(check_conversation(messages)) == PRICED
    assert messages[4].text == told
    assert not any(ANN in str(heard.messages) or "192.168" in str(heard.messages) for heard in model.heard)


class ListMaker(TravelPolicy):
    """Begins with a list of what is to be done."""

    def propose(self, question: Question) -> Any:
        todos = [{"content": "Find a flight", "status": "in_progress"}]
        return super().propose(question) if question.path else [("write_todos", {"todos": todos})]

    def score_call(self, question: Question, call: Made) -> float:
        return 0.9 if call.tool == "write_todos" else super().score_call(question, call)

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        return (0.9, 0.9) if call.tool == "write_todos" else super().score_observation(question, call)


def test_a_tool_of_other_middleware_is_left_to_the_agent(agency: Agency, path: str) -> None:
    agent = planning_agent(agency, TodoListMiddleware(), model=OfflineChatModel(policy=ListMaker()))

    state = invoke(agent, asking(PRICE), path=path)

    assert outline(check_conversation(state["messages"])) == [
        "human",
        "call write_todos",
        "result write_todos",
        *PRICED[1:],
    ]
    assert state["todos"] == [{"content": "Find a flight", "status": "in_progress"}]
