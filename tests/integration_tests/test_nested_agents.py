"""An agent that plans as a tool of another one that plans: a search inside a search."""

import asyncio
from typing import Any

import pytest
from agents import THREAD, Witness, invoke, stream
from conversations import check_conversation, check_pairs, outline
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from members import KINDS, planner_agent
from travel import APART, BOOKING, PRICE, Agency, asking

from langchain_tooltree.testing import Made, Question


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """How both agents are made."""
    return str(request.param)


class Chief:
    """Asks the travel desk for the price and then for the booking."""

    wishes = (PRICE, BOOKING)

    def propose(self, question: Question) -> list[tuple[str, dict[str, str]]]:
        """What was not asked yet."""
        asked = [made.arguments["wish"] for made in question.path]
        return [("ask_desk", {"wish": wish}) for wish in self.wishes if wish not in asked]

    def score_call(self, question: Question, call: Made) -> float:
        """The price comes first."""
        return 0.9 if call.arguments["wish"] == PRICE else 0.8

    def score_observation(self, question: Question, call: Made) -> tuple[float, float]:
        """The booking completes the picture."""
        if question.path:
            return 0.9, 0.9 if call.arguments["wish"] == BOOKING else 0.3
        return (0.9 if call.arguments["wish"] == PRICE else 0.6), 0.3

    def answer(self, question: Question) -> str:
        """All that was heard."""
        return "; ".join(str(made.observation) for made in question.path)


class Desk:
    """An agent behind a tool; keeps all its conversations."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.conversations: list[list[BaseMessage]] = []

    @property
    def tool(self) -> BaseTool:
        """The agent as a tool with both forms."""

        def ask_desk(wish: str) -> str:
            """Ask the travel desk."""
            return self._heard(self.agent.invoke(asking(wish)))

        async def aask_desk(wish: str) -> str:
            return self._heard(await self.agent.ainvoke(asking(wish)))

        return StructuredTool.from_function(ask_desk, aask_desk)

    def _heard(self, state: Any) -> str:
        self.conversations.append(state["messages"])
        return str(state["messages"][-1].text)


def chief_over(desk: Desk, kind: str, **options: Any) -> Any:
    return planner_agent(kind, [desk.tool], policy=Chief(), effects={"ask_desk": "read"}, **options)


CHIEF_SAYS = "All is done for you and it says OS-1 costs {}; All is done for you and it says OS-1 is booked"


@pytest.mark.parametrize("checkpointer", [None, InMemorySaver], ids=["without-checkpointer", "with-checkpointer"])
def test_an_agent_that_is_a_tool_searches_inside_the_search_of_another(
    kind: str, agency: Agency, path: str, checkpointer: Any
) -> None:
    desk = Desk(planner_agent(kind, agency.tools, name="desk"))
    chief = chief_over(desk, kind, name="chief", checkpointer=checkpointer and checkpointer())
    witness = Witness()

    messages = invoke(chief, asking("Price and booking, please."), {**THREAD, "callbacks": [witness]}, path=path)[
        "messages"
    ]

    assert outline(check_conversation(messages)) == ["human", *["call ask_desk", "result ask_desk"] * 2, "answer"]
    assert messages[-1].text == CHIEF_SAYS.format(90)
    assert len(desk.conversations) == 2, "nothing is asked twice"
    for conversation in desk.conversations:
        check_conversation(conversation)
        if kind == "agent":
            assert {message.name for message in conversation if isinstance(message, AIMessage)} == {desk.agent.name}
    assert {event["query"] for event in witness.of("start")} == {"Price and booking, please.", PRICE, BOOKING}


def test_a_question_of_an_inner_agent_stops_the_outer_search_once_and_both_go_on(
    kind: str, agency: Agency, path: str
) -> None:
    asked: list[str] = []

    @tool
    def read_price(flight: str) -> str:
        """Read the price of a flight."""
        answer = interrupt("What does it cost?")
        asked.append(flight)
        return f"{flight} costs {answer}"

    tools = [read_price if each.name == "read_price" else each for each in agency.tools]
    desk = Desk(planner_agent(kind, tools))
    chief = chief_over(desk, kind, checkpointer=InMemorySaver())

    state = invoke(chief, asking("Price and booking, please."), THREAD, path=path)
    while questions := state.get("__interrupt__"):
        assert len({question.id for question in questions}) == len(questions), "each is asked once"
        resume = {question.id: "ninety" for question in questions}
        state = invoke(chief, Command(resume=resume), THREAD, path=path)

    assert check_conversation(state["messages"])[-1].text == CHIEF_SAYS.format("ninety")
    assert len(asked) == 2, "one answer for the desk's search of the price, one for that of the booking"
    assert agency.calls["find_flights Oslo"] == 2, "what was searched before the question is not searched again"


@pytest.mark.parametrize("subgraphs", [False, True], ids=["flat", "subgraphs"])
def test_of_all_that_nested_agents_say_only_the_outer_answer_is_streamed_in_tokens(
    kind: str, agency: Agency, path: str, *, subgraphs: bool
) -> None:
    desk = Desk(planner_agent(kind, agency.tools))
    given = asking("Price and booking, please.")

    chief = chief_over(desk, kind, config=APART)  # which asks for its answer after the search
    chunks = stream(chief, given, path=path, stream_mode="messages", subgraphs=subgraphs)

    shown = [chunk[1][0] if subgraphs else chunk[0] for chunk in chunks]
    tokens = [message.text for message in shown if isinstance(message, AIMessageChunk)]
    assert "".join(tokens) == CHIEF_SAYS.format(90)
    if not subgraphs:
        whole = [message for message in shown if not isinstance(message, AIMessageChunk)]
        assert outline(whole) == ["call ask_desk", "result ask_desk"] * 2
        check_pairs([HumanMessage("?"), *whole])


def test_the_events_of_an_inner_search_are_streamed_in_its_own_namespace(kind: str, agency: Agency, path: str) -> None:
    chief = chief_over(Desk(planner_agent(kind, agency.tools)), kind)
    given = asking("Price and booking, please.")

    flat = stream(chief, given, path=path, stream_mode="custom")
    deep = stream(chief, given, path=path, stream_mode="custom", subgraphs=True)

    assert [event["tooltree"]["query"] for event in flat if event["tooltree"]["type"] == "start"] == [
        "Price and booking, please."
    ]
    queries: dict[str, set[str]] = {}
    for namespace, event in deep:
        if event["tooltree"]["type"] == "start":
            queries.setdefault("|".join(part.split(":")[0] for part in namespace), set()).add(
                event["tooltree"]["query"]
            )
    assert list(queries.values()) == [{"Price and booking, please."}, {PRICE, BOOKING}]


async def test_two_conversations_with_nested_agents_at_once_do_not_mix(kind: str, agency: Agency) -> None:
    desk = Desk(planner_agent(kind, agency.tools))
    chief = chief_over(desk, kind, checkpointer=InMemorySaver())

    states = await asyncio.gather(
        *(
            chief.ainvoke(asking(f"Price and booking for {name}."), {"configurable": {"thread_id": name}})
            for name in ("ann", "bob")
        )
    )

    assert [check_conversation(state["messages"])[-1].text for state in states] == [CHIEF_SAYS.format(90)] * 2
    ids = [
        call["id"]
        for messages in (*(state["messages"] for state in states), *desk.conversations)
        for message in messages
        for call in getattr(message, "tool_calls", [])
    ]
    assert len(set(ids)) == len(ids)


def test_an_inner_agent_without_a_name_does_not_speak_in_that_of_the_outer(agency: Agency, path: str) -> None:
    desk = Desk(planner_agent("agent", agency.tools))
    chief = chief_over(desk, "agent", name="chief")

    messages = invoke(chief, asking("Price and booking, please."), path=path)["messages"]

    assert {message.name for message in messages if isinstance(message, AIMessage)} == {"chief"}
    inner = [message for conversation in desk.conversations for message in conversation]
    assert {message.name for message in inner if isinstance(message, AIMessage)} == {None}
