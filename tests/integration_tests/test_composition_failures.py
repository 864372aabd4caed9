"""What failed where a search ran steps by itself: approvals, guards, limits, tools and models that change."""

import operator
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, NotRequired

import pytest
from agents import invoke
from composition import (
    APPROVE,
    DETOUR,
    FIND,
    ORDER,
    PRICE,
    THREAD,
    Clerk,
    Depot,
    Run,
    asking,
    check_equal,
    middleware_of,
    run_agent,
)
from conversations import check_conversation, check_pairs, outline
from langchain.agents import create_agent
from langchain.agents import middleware as mw
from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
from langchain.agents.middleware.tool_call_limit import ToolCallLimitExceededError
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from langchain_tooltree import create_tooltree_agent
from langchain_tooltree.testing import ScriptedChatModel

pytestmark = pytest.mark.filterwarnings("ignore:The v3 streaming protocol")

STRAIGHT: dict[str, Any] = {"steps": [FIND, PRICE, ORDER]}
BRANCH: dict[str, Any] = {"detour": DETOUR}
PRICED = ["call price", "result price", "answer"]


class CountingState(mw.AgentState[Any]):
    visits: NotRequired[Annotated[int, operator.add]]


@pytest.fixture(params=["first", "last"])
def planner(request: pytest.FixtureRequest) -> str:
    """Where the planner stands in the list."""
    return str(request.param)


@pytest.fixture
def path(planner: str) -> str:
    """The path that goes with a place."""
    return {"first": "sync", "last": "async"}[planner]


def once(
    *others: Any,
    planner: str | None,
    path: str,
    depot: Depot | None = None,
    **options: Any,
) -> Run:
    """One run of an agent; what the clerk does not take is for `run_agent`."""
    clerk = Clerk(
        **{name: options.pop(name) for name in Clerk.model_fields if name in options}
    )
    return run_agent(
        clerk, depot or Depot(), others, planner=planner, path=path, **options
    )


# --- a person decides ---

REJECT: dict[str, Any] = {"type": "reject", "message": "not now"}
EDIT: dict[str, Any] = {
    "type": "edit",
    "edited_action": {"name": "find", "args": {"item": "nut"}},
}

DECISIONS = pytest.mark.parametrize(
    "decision", [APPROVE, REJECT, EDIT], ids=["approve", "reject", "edit"]
)


def deciding(decision: dict[str, Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A person who has something to say where the bolt is looked for, and approves everything else."""
    return lambda asked: decision if (asked["name"], asked["args"]) == FIND else APPROVE


def asked_about() -> mw.HumanInTheLoopMiddleware:
    return mw.HumanInTheLoopMiddleware({"find": True, "order": True})


@DECISIONS
def test_a_person_decides_about_a_declared_read(
    planner: str, path: str, decision: Any
) -> None:
    options: Any = {"path": path, "decisions": deciding(decision), **STRAIGHT}

    plain = once(asked_about(), planner=None, **options)
    run = once(asked_about(), planner=planner, **options)

    check_equal(run, plain)
    assert [asked["name"] for asked in run.questions] == ["find", "order"]


@DECISIONS
def test_a_person_decides_about_a_read_that_the_search_tries(
    planner: str, path: str, decision: Any
) -> None:
    options: Any = {"path": path, "decisions": deciding(decision)}
    right = once(asked_about(), planner=None, **options)

    run = once(asked_about(), planner=planner, **options, **BRANCH)

    check_conversation(run.raw)
    assert [asked["args"] for asked in run.questions] == [DETOUR[1], FIND[1]]
    assert run.messages == right.messages, "what a person decided on stays"
    assert run.calls == ["find bolts", *right.calls]


# --- guards ---


class Guard(mw.AgentMiddleware[Any, Any, Any]):
    """Ends the run before or after the model where the latest message holds a text."""

    def __init__(self, *, before: str = "", after: str = "") -> None:
        super().__init__()
        self._before, self._after = before, after

    @mw.hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> Any:
        return self._ended_at(self._before, state["messages"][-1])

    @mw.hook_config(can_jump_to=["end"])
    def after_model(self, state: Any, runtime: Any) -> Any:
        return self._ended_at(self._after, state["messages"][-1])

    def _ended_at(self, text: str, latest: Any) -> Any:
        if not text or text not in f"{latest.text} {getattr(latest, 'tool_calls', '')}":
            return None
        said = AIMessage(
            "I must not go on.", id=latest.id if isinstance(latest, AIMessage) else None
        )
        return {"messages": [said], "jump_to": "end"}


GUARDS = pytest.mark.parametrize(
    "guard",
    [{"before": "shelf 7"}, {"after": "'price'"}, {"after": "That is all"}],
    ids=["before the model", "after a call", "after the answer"],
)


@GUARDS
def test_a_guard_ends_a_straight_run_where_it_ends_the_plain_agents(
    planner: str, path: str, guard: Any
) -> None:
    options: Any = {"path": path, "steps": [FIND, PRICE]}

    plain = once(Guard(**guard), planner=None, **options)

    check_equal(once(Guard(**guard), planner=planner, **options), plain)
    assert plain.messages[-1][1].startswith("I must not")


def made_by(make: Callable[..., Any]) -> Callable[..., Any]:
    """`create_agent` or `create_tooltree_agent`, which adds its own planner."""

    def build(model: Any, tools: Any, *, middleware: Any, **options: Any) -> Any:
        return make(
            model,
            tools,
            middleware=middleware,
            effects={"find": "read", "price": "read"},
            **options,
        )

    return create_agent if make is create_agent else build


def planned(*others: Any, path: str, **options: Any) -> Run:
    """A run of `create_tooltree_agent` with a branch."""
    return once(
        *others,
        planner=None,
        path=path,
        make=made_by(create_tooltree_agent),
        **BRANCH,
        **options,
    )


@GUARDS
def test_a_guard_that_ends_a_search_leaves_nothing_of_its_branches(
    path: str, guard: Any
) -> None:
    right = once(Guard(**guard), planner=None, path=path)

    run = planned(Guard(**guard), path=path)

    check_pairs(run.raw)
    assert run.messages == right.messages
    assert run.calls == ["find bolts", *right.calls]


class Listener(mw.AgentMiddleware[Any, Any, Any]):
    """A guard of answers, which notes what it is shown, and counts model calls in the state."""

    state_schema = CountingState

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[str] = []

    def after_model(self, state: Any, runtime: Any) -> Any:
        latest = state["messages"][-1]
        self.answers += [] if latest.tool_calls else [latest.text]

    def wrap_model_call(
        self, request: mw.ModelRequest[Any], handler: Callable[..., Any]
    ) -> Any:
        return mw.ExtendedModelResponse(handler(request), Command(update={"visits": 1}))

    async def awrap_model_call(
        self, request: mw.ModelRequest[Any], handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        return mw.ExtendedModelResponse(
            await handler(request), Command(update={"visits": 1})
        )


def test_a_guard_of_answers_sees_what_is_returned_and_its_commands_are_kept(
    planner: str, path: str
) -> None:
    guard = Listener()

    run = once(guard, planner=planner, path=path, **BRANCH)

    assert guard.answers == [run.raw[-1].text]
    assert run.state["visits"] == 4, "one for each step and one for the answer"
    check_equal(
        once(Listener(), planner=planner, path=path),
        once(Listener(), planner=None, path=path),
    )


@mw.after_model(can_jump_to=["model"])
def critic(state: Any, runtime: Any) -> Any:
    """Has the first answer checked."""
    messages = state["messages"]
    if messages[-1].tool_calls or any("Check" in each.text for each in messages):
        return None
    return {"messages": [HumanMessage("Check the price again.")], "jump_to": "model"}


@mw.before_model
def trimming(state: Any, runtime: Any) -> Any:
    """Keeps the request and the latest step."""
    first, *others = state["messages"]
    return (
        {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), first, *others[-4:]]}
        if len(others) > 4
        else None
    )


@pytest.mark.parametrize(
    "kind", [critic, trimming], ids=["sends it back", "removes messages"]
)
def test_middleware_that_changes_the_conversation_does_so_as_in_the_plain_agent(
    planner: str, path: str, kind: Any
) -> None:
    plain = once(kind, planner=None, path=path)

    check_equal(once(kind, planner=planner, path=path), plain)
    check_conversation(once(kind, planner=planner, path=path, **BRANCH).raw)


# --- limits ---

LIMITS: dict[str, tuple[Callable[..., Any], type[Exception]]] = {
    "tools": (mw.ToolCallLimitMiddleware, ToolCallLimitExceededError),
    "models": (mw.ModelCallLimitMiddleware, ModelCallLimitExceededError),
}


@pytest.mark.parametrize(
    ("kind", "behaviour"),
    [
        ("tools", "end"),
        ("tools", "error"),
        ("tools", "continue"),
        ("models", "end"),
        ("models", "error"),
    ],
)
def test_a_limit_ends_a_straight_run_where_it_ends_the_plain_agents(
    planner: str, path: str, kind: str, behaviour: Any
) -> None:
    make, error = LIMITS[kind]
    limit = make(run_limit=1, exit_behavior=behaviour)

    if behaviour == "error":
        for place in (None, planner):
            depot = Depot()
            with pytest.raises(error):
                once(limit, planner=place, path=path, depot=depot)
            assert len(depot.calls) <= 1
        return
    plain = once(limit, planner=None, path=path)
    check_equal(once(limit, planner=planner, path=path), plain)
    assert plain.calls == ["find bolt"]


def test_a_limit_of_model_calls_counts_visits_and_leaves_nothing_of_the_branches(
    path: str,
) -> None:
    run = planned(
        mw.ModelCallLimitMiddleware(run_limit=2, exit_behavior="end"), path=path
    )

    check_pairs(run.raw)
    assert run.calls == ["find bolts", "find bolt"], "the second visit tries a read"
    assert outline(run.raw) == ["human", "call find", "result find", "answer"]
    assert "shelf 7" in run.raw[2].text
    assert "call limit" in run.raw[-1].text


def test_branches_that_a_limit_leaves_in_a_bare_agent_go_with_the_next_turn(
    path: str,
) -> None:
    depot = Depot()
    limit = mw.ModelCallLimitMiddleware(run_limit=2, exit_behavior="end")
    agent = create_agent(
        Clerk(**BRANCH),
        depot.tools,
        middleware=middleware_of([limit], "last"),
        checkpointer=InMemorySaver(),
    )
    first = invoke(agent, asking(), THREAD, path=path)["messages"]
    agent = create_agent(
        Clerk(),
        depot.tools,
        middleware=middleware_of([], "last"),
        checkpointer=agent.checkpointer,
    )

    messages = invoke(agent, asking(), THREAD, path=path)["messages"]

    one = ["human", "call find", "result find", "answer"]
    assert outline(first) == [*one[:3], *one[1:]]
    assert outline(check_conversation(messages)) == [
        *one,
        "human",
        "call find",
        "result find",
        *PRICED,
    ]


# --- tools and models that change from step to step ---


class Changing(mw.AgentMiddleware[Any, Any, Any]):
    """Changes each request by a function of it."""

    def __init__(
        self, change: Callable[[mw.ModelRequest[Any]], mw.ModelRequest[Any]]
    ) -> None:
        super().__init__()
        self._change = change

    def wrap_model_call(
        self, request: mw.ModelRequest[Any], handler: Callable[..., Any]
    ) -> Any:
        return handler(self._change(request))

    async def awrap_model_call(
        self, request: mw.ModelRequest[Any], handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        return await handler(self._change(request))


def calls_before(request: mw.ModelRequest[Any]) -> set[str]:
    return {
        call["name"]
        for each in request.messages
        if isinstance(each, AIMessage)
        for call in each.tool_calls
    }


def revealed(request: mw.ModelRequest[Any]) -> mw.ModelRequest[Any]:
    """Finding comes first, then asking for the price, then ordering."""
    names = ["find", "price", "order"][: 1 + len(calls_before(request))]
    return request.override(
        tools=[each for each in request.tools if each.name in names]
    )


OTHER = Clerk(**BRANCH)


def another_model(request: mw.ModelRequest[Any]) -> mw.ModelRequest[Any]:
    """The first step is asked of the agent's own model."""
    return request.override(model=OTHER) if calls_before(request) else request


@pytest.mark.parametrize(
    "make",
    [lambda: Changing(revealed), lambda: Changing(another_model)],
    ids=["tools revealed step by step", "another model"],
)
def test_each_step_has_the_tools_and_the_model_that_it_has_in_the_plain_agent(
    planner: str, path: str, make: Any
) -> None:
    plain = once(make(), planner=None, path=path)
    doubtful = once(make(), planner=None, path=path, **BRANCH)

    check_equal(once(make(), planner=planner, path=path), plain)
    run = once(make(), planner=planner, path=path, **BRANCH)

    assert run.messages == plain.messages
    assert run.prompts == doubtful.prompts + plain.prompts[1:]


def test_a_read_that_is_not_offered_any_more_is_not_tried(path: str) -> None:
    def withdrawn(request: mw.ModelRequest[Any]) -> mw.ModelRequest[Any]:
        kept = [
            each
            for each in request.tools
            if each.name != "find" or not calls_before(request)
        ]
        return request.override(tools=kept)

    run = once(Changing(withdrawn), planner="last", path=path, **BRANCH)

    assert run.calls == ["find bolts"]
    assert outline(check_conversation(run.raw)) == [
        "human",
        "call find",
        "result find",
        "answer",
    ]


class RunTimeTool(Changing):
    """Offers a tool that the agent was not made with, and runs it."""

    def __init__(self) -> None:
        super().__init__(
            lambda request: request.override(tools=[*request.tools, self._tool])
        )
        self.ran: list[Any] = []

        @tool
        def weigh(item: str) -> str:
            """Weigh an item."""
            self.ran.append(item)
            return f"{item} weighs 5"

        self._tool = weigh

    def wrap_tool_call(
        self, request: mw.ToolCallRequest, handler: Callable[..., Any]
    ) -> Any:
        return handler(self._with_tool(request))

    async def awrap_tool_call(
        self, request: mw.ToolCallRequest, handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        return await handler(self._with_tool(request))

    def _with_tool(self, request: mw.ToolCallRequest) -> mw.ToolCallRequest:
        return (
            request.override(tool=self._tool)
            if request.tool_call["name"] == "weigh"
            else request
        )


def test_a_tool_of_the_run_time_runs_as_in_the_plain_agent(
    planner: str, path: str
) -> None:
    steps: Any = [FIND, ("weigh", {"item": "bolt"})]
    plain = once(RunTimeTool(), planner=None, path=path, steps=steps)
    offering = RunTimeTool()

    run = once(offering, planner=planner, path=path, steps=steps)

    check_equal(run, plain)
    assert offering.ran == ["bolt"]
    branched = once(RunTimeTool(), planner=planner, path=path, steps=steps, **BRANCH)
    assert branched.messages == plain.messages


# --- a model that refuses; typed streams lose refusals, so these runs are not streamed ---

REFUSAL = AIMessage([{"type": "refusal", "refusal": "I cannot help with that."}])


def answer_to(
    request: str, model: Any, *others: Any, planner: str | None, path: str
) -> Any:
    agent = create_agent(
        model, Depot().tools, middleware=middleware_of(others, planner)
    )
    return invoke(agent, asking(request), path=path)["messages"][-1]


def test_a_refusal_is_an_answer_and_asks_for_no_second_one(
    planner: str, path: str
) -> None:
    for place in (None, planner):
        model = ScriptedChatModel(replies=[REFUSAL, "It costs 90."])
        answer = answer_to(
            "Find the price of an item, the bolt.", model, planner=place, path=path
        )
        assert answer.content == REFUSAL.content
        assert len(model.calls) == 1


@pytest.mark.skipif(
    not hasattr(mw, "ModelRefusalMiddleware"), reason="it is in langchain from 1.5 on"
)
def test_a_fallback_answers_where_a_refusal_is_an_error(
    planner: str, path: str
) -> None:
    for place in (None, planner):
        model, fallback = (
            ScriptedChatModel(replies=[REFUSAL]),
            ScriptedChatModel(replies=["Good day."]),
        )
        others = [mw.ModelFallbackMiddleware(fallback), mw.ModelRefusalMiddleware()]
        assert (
            answer_to("Hello!", model, *others, planner=place, path=path).text
            == "Good day."
        )
        assert (len(model.calls), len(fallback.calls)) == (1, 1)
