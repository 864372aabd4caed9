"""ToolTreeMiddleware by itself: which requests deserve a search, what it refuses, and what it keeps."""

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, wrap_model_call
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langchain_tooltree import ConfigurationError, ToolTreeMiddleware
from langchain_tooltree.errors import ToolDefinitionError
from tests.internals.tooltree import KEPT, deserves_search

ASKED = HumanMessage("Go.")
PLANNED_ON = {"tooltree": {"node": 1, "plan": [{"tool": "look", "arguments": {}, "effect": "sandboxed"}]}}


def calling(*ids, **options):
    return AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": each} for each in ids], **options)


def result(call_id, status="success", text="seen"):
    return ToolMessage(text, tool_call_id=call_id, status=status)


@pytest.mark.parametrize(
    ("messages", "deserved"),
    [
        ([ASKED], True),
        ([ASKED, AIMessage("Done."), ASKED], True),
        ([ASKED, calling("1"), result("1")], False),
        ([ASKED, calling("1"), result("1", "error")], True),
        ([ASKED, calling("1"), result("1", text="Error: no such room.")], True),
        ([ASKED, calling("1"), result("1", text="Room 7 is booked")], False),
        ([ASKED, calling("1", "2"), result("1", "error"), result("2")], True),
        ([ASKED, calling("1"), result("1", "error"), calling("2"), result("2")], False),
        ([ASKED, calling("1", response_metadata=PLANNED_ON), result("1")], True),
        ([ASKED, calling("1", response_metadata={"tooltree": {"node": 1, "plan": []}}), result("1")], False),
        ([ASKED, AIMessage("Done.")], False),
        ([result("1", "error")], False),
        ([], False),
    ],
    ids=[
        "a turn begins",
        "another turn begins",
        "a call went well",
        "a call failed",
        "a call was refused in words",
        "a call brought words that may be good news",
        "one of two calls failed",
        "an earlier call failed",
        "the plan goes on",
        "the plan is at its end",
        "the model spoke last",
        "a result of nothing",
        "nothing",
    ],
)
def test_which_requests_deserve_a_search(offline, numbered_tools, messages, deserved):
    request = ModelRequest(model=offline(), messages=messages, tools=numbered_tools("look"))
    assert deserves_search(request) is deserved


def test_a_call_of_another_agent_hands_the_turn_over(offline, numbered_tools):
    request = ModelRequest(model=offline(), messages=[ASKED, calling("1"), result("1")], tools=numbered_tools("other"))
    assert deserves_search(request)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"when": True}, "when must be a function from a ModelRequest to a bool, got True"),
        ({"model": 3}, "model must be a chat model"),
        ({"host_middleware": ["retry"]}, "host_middleware must hold"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options, message):
    with pytest.raises(ConfigurationError, match=message):
        ToolTreeMiddleware(**options)


@pytest.mark.parametrize("role", ["model", "judge", "post_judge"])
def test_the_name_of_an_unknown_model_is_refused_at_once(role):
    with pytest.raises(ValueError, match="no-such-provider"):
        ToolTreeMiddleware(**{role: "no-such-provider:gpt"})


def test_names_that_the_agent_does_not_know_are_refused_when_prepared(offline, numbered_tools):
    planner = ToolTreeMiddleware(effects={"alpha": "read", "bta": "read"})
    with pytest.raises(ToolDefinitionError, match="effects names bta, but the tools are alpha, beta"):
        planner.prepare(offline(), numbered_tools("alpha", "beta"))


def test_a_request_may_leave_out_tools_that_effects_name(offline, numbered_tools):
    tools = numbered_tools("alpha", "beta")
    planner = ToolTreeMiddleware(effects={"alpha": "read", "beta": "read"})
    planner.prepare(offline(), tools)

    @wrap_model_call
    def narrow(request, handler):
        return handler(request.override(tools=request.tools[:1]))

    model = offline(offers={(): [("alpha", {"n": 1})]}, goal={"alpha": 0.9})
    agent = create_agent(model, tools, middleware=[narrow, planner])
    assert [message.type for message in agent.invoke({"messages": [ASKED]})["messages"]] == [
        "human",
        "ai",
        "tool",
        "ai",
    ]


def test_planners_for_passing_selections_of_tools_are_forgotten(offline, numbered_tools):
    @wrap_model_call
    def copy_tools(request, handler):
        return handler(request.override(tools=[tool.model_copy() for tool in request.tools]))

    planner = ToolTreeMiddleware(effects={"alpha": "read"})
    agent = create_agent(offline(), numbered_tools("alpha"), middleware=[copy_tools, planner])
    for _ in range(KEPT + 2):
        agent.invoke({"messages": [ASKED]})
    assert len(planner._planners) == KEPT


def test_plans_that_are_never_answered_are_forgotten(offline, numbered_tools, monkeypatch):
    monkeypatch.setattr("langchain_tooltree.tooltree.middleware.KEPT_SEARCHES", 3)

    class Mute:
        """Fails to answer."""

        def propose(self, question):
            return [] if question.path else [("alpha", {"n": 1})]

        def score_call(self, *_):
            return 0.9

        def score_observation(self, *_):
            return 0.9, 0.9

        def answer(self, _):
            msg = "mute"
            raise ConnectionError(msg)

    planner = ToolTreeMiddleware(effects={"alpha": "read"})
    model = offline().model_copy(update={"policy": Mute()})
    agent = create_agent(model, numbered_tools("alpha"), middleware=[planner])
    for _ in range(5):
        with pytest.raises(ConnectionError, match="mute"):
            agent.invoke({"messages": [ASKED]})
    assert len(planner._unanswered) == 3
