"""Each request is planned as it comes: with its prompt, model and tools; what is not the planner's passes through."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from agents import BOOKED, PRICED, THREAD, ListeningModel, Witness, invoke, planning_agent
from conversations import check_conversation, check_pairs, outline
from langchain.agents.middleware import (
    AgentMiddleware,
    LLMToolSelectorMiddleware,
    ModelFallbackMiddleware,
    ModelRequest,
    ModelResponse,
    dynamic_prompt,
)
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field
from travel import APART, BOOKING, PRICE, Agency, asking

from langchain_tooltree.testing import ScriptedChatModel


class Override(AgentMiddleware[Any, Any, Any]):
    """Changes every request in some respect.

    Args:
        **changes: What to change, each a function of the request or a value.
    """

    def __init__(self, **changes: Any) -> None:
        super().__init__()
        self._changes = changes

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        return handler(self._changed(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        return await handler(self._changed(request))

    def _changed(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        changes = {name: change(request) if callable(change) else change for name, change in self._changes.items()}
        return request.override(**changes)


ADVICE = "Prefer morning flights."


@dynamic_prompt
def advise(request: ModelRequest[Any]) -> str:
    return f"{ADVICE} {len(request.messages)} messages so far."


@pytest.mark.parametrize(
    ("planner", "temperatures"),
    [
        ({}, {("step", 0.7)}),
        ({"config": APART}, {("propose", 0.7), ("answer", 0.7), ("pre", None), ("post", None)}),
    ],
    ids=["own step", "many questions"],
)
def test_the_settings_of_a_request_hold_for_its_proposals(
    agency: Agency, path: str, planner: Any, temperatures: Any
) -> None:
    model = ListeningModel()
    warm = Override(model_settings={"temperature": 0.7})

    messages = invoke(planning_agent(agency, warm, model=model, planner=planner), asking(PRICE), path=path)["messages"]

    assert outline(check_conversation(messages)) == PRICED
    assert {(heard.kind, heard.options.get("temperature")) for heard in model.heard} == temperatures


def test_settings_meant_for_the_agents_model_do_not_reach_another_one(agency: Agency) -> None:
    planner, model = ListeningModel(), ListeningModel()
    agent = planning_agent(
        agency, Override(model_settings={"temperature": 0.7}), model=model, planner={"model": planner}
    )

    agent.invoke(asking(PRICE))

    assert {heard.options.get("temperature") for heard in planner.heard} == {None}
    assert [heard.options.get("temperature") for heard in model.heard] == [0.7]


class ThinkingModel(ListeningModel):
    """Signs the reasoning behind its calls."""

    def _message(self, messages: list[BaseMessage], options: Mapping[str, Any]) -> AIMessage:
        message = super()._message(messages, options)
        if not message.tool_calls:
            return message
        thought = {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}
        return message.model_copy(update={"content": [thought]})


def test_signed_reasoning_comes_back_to_the_model_that_signed_it(agency: Agency, path: str) -> None:
    model = ThinkingModel()

    invoke(planning_agent(agency, model=model), asking(PRICE), path=path)

    assert signatures(model) == ["c2lnbmVk", "c2lnbmVk"]


def test_signed_reasoning_does_not_go_to_another_model(agency: Agency, path: str) -> None:
    model = ListeningModel()

    messages = invoke(
        planning_agent(agency, model=model, planner={"model": ThinkingModel()}), asking(PRICE), path=path
    )["messages"]

    assert signatures(model) == []
    assert outline(check_conversation(messages)) == PRICED


def test_a_fallback_answers_without_the_reasoning_of_the_model_that_planned(agency: Agency) -> None:
    fallback = ListeningModel()
    model = ThinkingModel(failures=[ConnectionError("overloaded")])

    agent = planning_agent(agency, ModelFallbackMiddleware(fallback), model=model, planner={"config": APART})
    messages = agent.invoke(asking(PRICE))["messages"]

    assert [heard.kind for heard in fallback.heard] == ["answer"]
    assert signatures(fallback) == []
    assert outline(check_conversation(messages)) == PRICED


def signatures(model: ListeningModel) -> list[str]:
    """The signatures in what a model was sent when it answered."""
    answered = model.heard[-1]
    blocks = [block for message in answered.messages if isinstance(message.content, list) for block in message.content]
    return [block["signature"] for block in blocks if isinstance(block, dict) and "signature" in block]


@pytest.mark.parametrize(
    "options",
    [
        {"system_prompt": ADVICE},
        {"system_prompt": SystemMessage([{"type": "text", "text": "Be brief."}, {"type": "text", "text": ADVICE}])},
        {"before": advise},
    ],
    ids=["string", "content blocks", "dynamic"],
)
def test_the_system_prompt_reaches_proposals_judges_and_answer(
    agency: Agency, path: str, options: dict[str, Any]
) -> None:
    model = ListeningModel()
    before = [options["before"]] if "before" in options else []
    agent_options = {name: option for name, option in options.items() if name != "before"}

    agent = planning_agent(agency, *before, model=model, planner={"config": APART}, **agent_options)
    messages = invoke(agent, asking(PRICE), path=path)["messages"]

    assert {heard.kind for heard in model.heard} == {"propose", "pre", "post", "answer"}
    assert all(ADVICE in str(heard.messages) for heard in model.heard)
    assert all(ADVICE in heard.system for heard in model.asked("propose", "answer"))
    check_conversation(messages)


def test_a_system_prompt_in_blocks_goes_to_the_agents_model_as_it_is(agency: Agency) -> None:
    model = ListeningModel()
    prompt = SystemMessage([{"type": "text", "text": ADVICE, "cache_control": {"type": "ephemeral"}}])

    planning_agent(agency, model=model, system_prompt=prompt, planner={"config": APART}).invoke(asking(PRICE))

    (answer,) = model.asked("answer")
    assert answer.messages[0] == prompt


def test_a_system_prompt_in_blocks_begins_the_agents_own_step(agency: Agency) -> None:
    model = ListeningModel()
    prompt = SystemMessage([{"type": "text", "text": ADVICE, "cache_control": {"type": "ephemeral"}}])

    planning_agent(agency, model=model, system_prompt=prompt).invoke(asking(PRICE))

    assert all(heard.messages[0].content[: len(prompt.content)] == prompt.content for heard in model.asked("step"))


def test_a_model_chosen_for_the_request_plans_and_answers(agency: Agency, path: str) -> None:
    usual, chosen = ListeningModel(), ListeningModel()

    messages = invoke(planning_agent(agency, Override(model=chosen), model=usual), asking(PRICE), path=path)["messages"]

    assert outline(check_conversation(messages)) == PRICED
    assert usual.heard == []
    assert {heard.kind for heard in chosen.heard} == {"step"}


NEEDED = ["find_flights", "read_price"]


def needed_only(request: ModelRequest[Any]) -> list[Any]:
    return [tool for tool in request.tools if getattr(tool, "name", None) in NEEDED]


@pytest.mark.parametrize(
    "selector",
    [
        Override(tools=needed_only),
        LLMToolSelectorMiddleware(model=ScriptedChatModel(replies=[{"tools": NEEDED}] * 9)),
    ],
    ids=["function", "model"],
)
def test_tools_selected_for_the_request_are_the_only_ones_searched(agency: Agency, path: str, selector: Any) -> None:
    model = ListeningModel()

    messages = invoke(planning_agent(agency, selector, model=model), asking(PRICE), path=path)["messages"]

    assert outline(check_conversation(messages)) == PRICED
    assert all(set(heard.tools) == set(NEEDED) for heard in model.heard)
    assert {label.split()[0] for label in agency.calls} == set(NEEDED)


def test_every_request_is_planned_with_the_tools_that_it_comes_with(agency: Agency, path: str) -> None:
    model = ListeningModel()
    later = Override(tools=lambda request: needed_only(request) if len(request.messages) > 1 else request.tools)
    agent = planning_agent(agency, later, model=model, checkpointer=InMemorySaver())
    shown = []

    for _ in range(2):
        messages = invoke(agent, asking(PRICE), THREAD, path=path)["messages"]
        shown.append(sorted(model.asked("step")[-1].tools))

    assert outline(check_conversation(messages)) == PRICED * 2
    assert shown == [sorted(tool.name for tool in agency.tools), NEEDED]


@pytest.mark.parametrize("choice", ["any", "book", {"type": "function", "function": {"name": "book"}}])
def test_a_forced_tool_choice_goes_to_the_model(agency: Agency, path: str, choice: Any) -> None:
    model = ListeningModel()
    witness = Witness()

    messages = invoke(
        planning_agent(agency, Override(tool_choice=choice), model=model),
        asking(PRICE),
        {"callbacks": [witness]},
        path=path,
    )["messages"]

    check_conversation(messages)
    assert witness.events == []
    assert [heard.options["tool_choice"] for heard in model.heard] == [choice]


def test_a_tool_choice_that_forces_nothing_is_planned(agency: Agency, path: str) -> None:
    messages = invoke(planning_agent(agency, Override(tool_choice="auto")), asking(PRICE), path=path)["messages"]

    assert outline(check_conversation(messages)) == PRICED


def test_tools_of_the_provider_reach_the_agents_own_model_call_and_never_the_search(agency: Agency, path: str) -> None:
    provided = {"type": "web_search", "max_uses": 3}
    model = ListeningModel()

    messages = invoke(planning_agent(agency, model=model, tools=[*agency.tools, provided]), asking(PRICE), path=path)[
        "messages"
    ]

    assert outline(check_conversation(messages)) == PRICED
    (answer,) = model.asked("answer")
    assert answer.tools[-1] == provided
    assert all(provided not in heard.tools for heard in model.asked("step", "propose", "pre", "post"))


class Fare(BaseModel):
    """What a flight costs."""

    flight: str
    cost: int


class FareModel(ListeningModel):
    """Answers in the form it is asked for, as a provider's or as a tool call.

    Args:
        slips: Arguments given at first, before the right ones.
    """

    slips: list[dict[str, Any]] = Field(default_factory=list)

    def _message(self, messages: list[Any], options: Mapping[str, Any]) -> AIMessage:
        message = super()._message(messages, options)
        heard = self.heard[-1]
        if heard.kind != "answer":
            return message
        fare = self.slips.pop(0) if self.slips else {"flight": "OS-1", "cost": 90}
        if "Fare" in heard.tools:
            call = {"name": "Fare", "args": fare, "id": f"call_fare_{len(self.heard)}"}
            return AIMessage("", tool_calls=[call])
        assert options["response_format"]["json_schema"]["name"] == "Fare"
        return AIMessage(Fare(**fare).model_dump_json())


@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
@pytest.mark.parametrize(("request_", "way"), [(PRICE, PRICED), (BOOKING, BOOKED)], ids=["read", "write"])
def test_a_structured_response_comes_after_the_plan(
    agency: Agency, path: str, strategy: Any, request_: str, way: list[str]
) -> None:
    agent = planning_agent(agency, model=FareModel(), response_format=strategy(Fare))

    state = invoke(agent, asking(request_), path=path)

    assert state["structured_response"] == Fare(flight="OS-1", cost=90)
    check_pairs(state["messages"])
    assert outline(state["messages"])[: len(way) - 1] == way[:-1]
    assert set(agency.calls.values()) == {1}


def test_a_structured_response_that_is_invalid_is_asked_for_again_without_another_search(
    agency: Agency, path: str
) -> None:
    witness = Witness()
    model = FareModel(slips=[{"flight": "OS-1", "cost": "much"}])
    agent = planning_agent(agency, model=model, response_format=ToolStrategy(Fare))

    state = invoke(agent, asking(PRICE), {"callbacks": [witness]}, path=path)

    assert state["structured_response"] == Fare(flight="OS-1", cost=90)
    check_pairs(state["messages"])
    assert outline(state["messages"])[-4:] == ["call Fare", "result Fare"] * 2
    assert len(witness.of("start")) == 1
